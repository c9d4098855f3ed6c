"""Views on axes of matplotlib, for figures that a script puts together.

    figure, axes = plt.subplots(1, 3, layout="constrained")
    rf.plot.attention(weights, source=letters, target=phones, ax=axes[0])
    rf.plot.states(h, steps=letters, ax=axes[1])
    rf.plot.curves({"train": {"loss": train}, "valid": {"loss": valid}}, ax=axes[2])

Attention and states are images with ticks and a colour bar, in units of rows and columns, and give the image (`image.axes` are the axes);
curves are lines; beams, dims and distributions are drawings, in units of their own. The arguments are those of `rf.viz`. What draws is
loaded by the first call, and pyplot only where no axes are given.
"""

from __future__ import annotations

from typing import Any

from rfnb.core.kept_signature import keep_signature as _keep_signature
from rfnb.viz.kinds import spec_of

__all__ = ["attention", "beams", "curves", "dims", "distribution", "states"]


def attention(
    weights: Any,
    *,
    ax: Any = None,
    map: int | str | None = None,
    sequence: int | str | None = None,
    theme: str = "light",
    colorbar: bool = True,
    **options: Any,
) -> Any:
    """The image of attention weights {target, source, ...} on axes.

    Args:
        weights: As of `rf.viz.attention`.
        ax: The axes. Default: the current ones of pyplot.
        map: Which map, by its number or label, where there are several (heads, layers).
        sequence: Which sequence, likewise.
        theme: "light" or "dark": the ramp of colours.
        colorbar: Whether a scale stands at the right of the axes.
        **options: Those of `rf.viz.attention`: source, target, source_dim, dims, ...

    Returns:
        The AxesImage; without a colour bar of its own, for a `figure.colorbar` of several.

    Raises:
        ValueError: If there are several maps or sequences and none is chosen, or there is none of that name.
    """
    from rfnb.plot import images

    return images.attention(weights, ax=ax, map=map, sequence=sequence, theme=theme, colorbar=colorbar, **options)


def states(
    tracks: Any,
    *,
    ax: Any = None,
    track: int | str | None = None,
    sequence: int | str | None = None,
    theme: str = "light",
    colorbar: bool = True,
    **options: Any,
) -> Any:
    """The image of a state over steps {step, unit, ...} on axes, units down and steps across.

    Args:
        tracks: As of `rf.viz.states`.
        ax: The axes. Default: the current ones of pyplot.
        track: Which state, by its number or name, where there are several.
        sequence: Which sequence, likewise.
        theme: "light" or "dark": the ramp of colours.
        colorbar: Whether a scale stands at the right of the axes.
        **options: Those of `rf.viz.states`: steps, lengths, step_dim, ...

    Returns:
        The AxesImage; without a colour bar of its own, for a `figure.colorbar` of several.

    Raises:
        ValueError: If there are several tracks or sequences and none is chosen, or there is none of that name.
    """
    from rfnb.plot import images

    return images.states(tracks, ax=ax, track=track, sequence=sequence, theme=theme, colorbar=colorbar, **options)


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
    from rfnb.plot.images import put

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
    from rfnb.plot.images import put

    return put(spec_of("dims", value, **options), ax, theme)


def curves(series: Any, *, ax: Any = None, label: int | str | None = None, theme: str = "light", **options: Any) -> Any:
    """Curves of one label as lines on axes: one, or those of several runs with a legend.

    Args:
        series: As of `rf.viz.curves`.
        ax: The axes. Default: the current ones of pyplot.
        label: Which of the labels, by its number or name, where there are several: axes have one scale.
        theme: "light" or "dark".
        **options: Those of `rf.viz.curves`: x, units, best, log.

    Returns:
        The axes, in units of the values.

    Raises:
        ValueError: If there are several labels and none is chosen, or there is none of that name.
    """
    from rfnb.plot import images

    return images.curves(series, ax=ax, label=label, theme=theme, **options)


def distribution(
    scores: Any, reference: Any = None, *, ax: Any = None, sequence: int | str | None = None, theme: str = "light",
    **options: Any,
) -> Any:  # fmt: skip
    """The distribution over a vocabulary in each step on axes, which lose their ticks; with a reference right and wrong.

    Args:
        scores: As of `rf.viz.distribution`.
        reference: The right labels, likewise.
        ax: The axes. Default: the current ones of pyplot.
        sequence: Which sequence, by its number or name. Default: the first ones.
        theme: "light" or "dark".
        **options: Those of `rf.viz.distribution`: labels, lengths, estimated_type, ...

    Returns:
        The axes, in units of the drawing.

    Raises:
        ValueError: If there is no sequence of that name.
    """
    from rfnb.plot import images

    return images.distribution(scores, reference=reference, ax=ax, sequence=sequence, theme=theme, **options)


for _kind in (attention, beams, curves, dims, distribution, states):
    _keep_signature(_kind, options_of=(f"rfnb.viz.{_kind.__name__}.spec:spec",))
