"""Views on matplotlib axes, for figures composed in a script.

    figure, axes = plt.subplots(1, 3, layout="constrained")
    rf.plot.attention(weights, source=letters, target=phones, ax=axes[0])
    rf.plot.states(h, steps=letters, ax=axes[1])
    rf.plot.curves({"train": {"loss": train}, "valid": {"loss": valid}}, ax=axes[2])

Attention and states are images with ticks and a colour bar, in units of rows and columns, and return the image
(`image.axes` are the axes); curves are lines; beams, dims and distributions are drawings in their own units. The
arguments are those of `rf.viz`. The drawing code is imported at the first call, and pyplot only if no axes are given.
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
    """An image of attention weights {target, source, ...} on axes.

    Args:
        weights: See `rf.viz.attention`.
        ax: The axes. Default: the current ones of pyplot.
        map: The map to draw, by number or label, if there are several (heads, layers).
        sequence: The sequence to draw, likewise.
        theme: "light" or "dark": the colour map.
        colorbar: Whether to draw a colour bar to the right of the axes.
        **options: Those of `rf.viz.attention`: source, target, source_dim, dims, ...

    Returns:
        The AxesImage; with colorbar=False, use it for one `figure.colorbar` of several axes.

    Raises:
        ValueError: If there are several maps or sequences and none is chosen, or there is none with that name.
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
    """An image of a state over steps {step, unit, ...} on axes, with units down and steps across.

    Args:
        tracks: See `rf.viz.states`.
        ax: The axes. Default: the current ones of pyplot.
        track: The state to draw, by number or name, if there are several.
        sequence: The sequence to draw, likewise.
        theme: "light" or "dark": the colour map.
        colorbar: Whether to draw a colour bar to the right of the axes.
        **options: Those of `rf.viz.states`: steps, lengths, step_dim, ...

    Returns:
        The AxesImage; with colorbar=False, use it for one `figure.colorbar` of several axes.

    Raises:
        ValueError: If there are several tracks or sequences and none is chosen, or there is none with that name.
    """
    from rfnb.plot import images

    return images.states(tracks, ax=ax, track=track, sequence=sequence, theme=theme, colorbar=colorbar, **options)


def beams(history: Any = None, *, ax: Any = None, theme: str = "light", **options: Any) -> Any:
    """The tree of a beam search on axes, whose ticks are removed.

    Args:
        history: See `rf.viz.beams`.
        ax: The axes. Default: the current ones of pyplot. A larger search needs wider axes.
        theme: "light" or "dark".
        **options: Those of `rf.viz.beams`.

    Returns:
        The axes, in units of the drawing.
    """
    from rfnb.plot.images import put

    return put(spec_of("beams", history, **options), ax, theme)


def dims(value: Any, *, ax: Any = None, theme: str = "light", **options: Any) -> Any:
    """The dims of tensors on axes, whose ticks are removed.

    Args:
        value: See `rf.viz.dims`.
        ax: The axes. Default: the current ones of pyplot.
        theme: "light" or "dark".
        **options: Those of `rf.viz.dims`.

    Returns:
        The axes, in units of the drawing.
    """
    from rfnb.plot.images import put

    return put(spec_of("dims", value, **options), ax, theme)


def curves(series: Any, *, ax: Any = None, label: int | str | None = None, theme: str = "light", **options: Any) -> Any:
    """Curves of one label as lines on axes: one curve, or those of several runs with a legend.

    Args:
        series: See `rf.viz.curves`.
        ax: The axes. Default: the current ones of pyplot.
        label: The label to draw, by number or name, if there are several: axes have one scale.
        theme: "light" or "dark".
        **options: Those of `rf.viz.curves`: x, units, best, log.

    Returns:
        The axes, in units of the values.

    Raises:
        ValueError: If there are several labels and none is chosen, or there is none with that name.
    """
    from rfnb.plot import images

    return images.curves(series, ax=ax, label=label, theme=theme, **options)


def distribution(
    scores: Any, reference: Any = None, *, ax: Any = None, sequence: int | str | None = None, theme: str = "light",
    **options: Any,
) -> Any:  # fmt: skip
    """The distribution over a vocabulary in each step on axes, whose ticks are removed; with a reference, right and wrong
    labels are marked.

    Args:
        scores: See `rf.viz.distribution`.
        reference: The right labels, likewise.
        ax: The axes. Default: the current ones of pyplot.
        sequence: The sequence to draw, by number or name. Default: the first ones.
        theme: "light" or "dark".
        **options: Those of `rf.viz.distribution`: labels, lengths, estimated_type, ...

    Returns:
        The axes, in units of the drawing.

    Raises:
        ValueError: If there is no sequence with that name.
    """
    from rfnb.plot import images

    return images.distribution(scores, reference=reference, ax=ax, sequence=sequence, theme=theme, **options)


for _kind in (attention, beams, curves, dims, distribution, states):
    _keep_signature(_kind, options_of=(f"rfnb.viz.{_kind.__name__}.spec:spec",))
