"""Views on axes of matplotlib, for figures that a script puts together.

    figure, axes = plt.subplots(1, 2, layout="constrained")
    image = rf.plot.attention(weights, source=letters, target=phones, ax=axes[0])
    figure.colorbar(image, ax=axes[0])
    rf.plot.states(h, steps=letters, ax=axes[1])

Attention and states are images with ticks, in units of rows and columns; beams and dims are drawings, in units of their own. The
arguments are those of `rf.viz`. What draws is loaded by the first call, and pyplot only where no axes are given.
"""

from __future__ import annotations

from typing import Any

from rfnb.viz.kinds import spec_of

__all__ = ["attention", "beams", "dims", "states"]


def attention(
    weights: Any,
    *,
    ax: Any = None,
    map: int | str | None = None,
    sequence: int | str | None = None,
    theme: str = "light",
    **options: Any,
) -> Any:
    """The image of attention weights {target, source, ...} on axes.

    Args:
        weights: As of `rf.viz.attention`.
        ax: The axes. Default: the current ones of pyplot.
        map: Which map, by its number or label, where there are several (heads, layers).
        sequence: Which sequence, likewise.
        theme: "light" or "dark": the ramp of colours.
        **options: Those of `rf.viz.attention`: source, target, source_dim, dims, ...

    Returns:
        The AxesImage, e.g. for `figure.colorbar`.

    Raises:
        ValueError: If there are several maps or sequences and none is chosen, or there is none of that name.
    """
    from rfnb.plot import images

    return images.attention(weights, ax=ax, map=map, sequence=sequence, theme=theme, **options)


def states(
    tracks: Any,
    *,
    ax: Any = None,
    track: int | str | None = None,
    sequence: int | str | None = None,
    theme: str = "light",
    **options: Any,
) -> Any:
    """The image of a state over steps {step, unit, ...} on axes, units down and steps across.

    Args:
        tracks: As of `rf.viz.states`.
        ax: The axes. Default: the current ones of pyplot.
        track: Which state, by its number or name, where there are several.
        sequence: Which sequence, likewise.
        theme: "light" or "dark": the ramp of colours.
        **options: Those of `rf.viz.states`: steps, lengths, step_dim, ...

    Returns:
        The AxesImage, e.g. for `figure.colorbar`.

    Raises:
        ValueError: If there are several tracks or sequences and none is chosen, or there is none of that name.
    """
    from rfnb.plot import images

    return images.states(tracks, ax=ax, track=track, sequence=sequence, theme=theme, **options)


def beams(history: Any = None, *, ax: Any = None, theme: str = "light", **options: Any) -> Any:
    """The tree of a beam search on axes, which lose their ticks.

    Args:
        history: As of `rf.viz.beams`.
        ax: The axes. Default: the current ones of pyplot. A larger search wants wider ones.
        theme: "light" or "dark".
        **options: Those of `rf.viz.beams`.

    Returns:
        The axes, in units of the drawing.
    """
    from rfnb.plot.pictures import put

    return put(spec_of("beams", history, **options), ax, theme)


def dims(value: Any, *, ax: Any = None, theme: str = "light", **options: Any) -> Any:
    """The dims of tensors on axes, which lose their ticks.

    Args:
        value: As of `rf.viz.dims`.
        ax: The axes. Default: the current ones of pyplot.
        theme: "light" or "dark".
        **options: Those of `rf.viz.dims`.

    Returns:
        The axes, in units of the drawing.
    """
    from rfnb.plot.pictures import put

    return put(spec_of("dims", value, **options), ax, theme)
