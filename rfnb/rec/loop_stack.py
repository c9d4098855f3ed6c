"""The stack of loops running in this context, and errors for a step that overlooks them."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error
from rfnb.core.layout import explain_mismatch
from rfnb.core.tensor_text import dims_text

if TYPE_CHECKING:
    from rfnb.rec.loop import Loop

_current: ContextVar[tuple[Loop, ...]] = ContextVar("rfnb_loops", default=())  # the innermost last


def innermost() -> Loop | None:
    """The innermost loop running in this context, or None."""
    loops = _current.get()
    return loops[-1] if loops else None


def names() -> list[str]:
    """The names of the loops running in this context, outermost first."""
    return [loop.name for loop in _current.get()]


def are_recorded() -> bool:
    """True if an enclosing loop records its step, so that code in it runs once for all steps."""
    return any(loop.step.is_recording for loop in _current.get())


def enter(loop: Loop) -> None:
    """Push the loop."""
    _current.set((*_current.get(), loop))


def leave(loop: Loop) -> None:
    """Remove the loop and any loops inside it that an interrupt left open. A generator (`for _ in loop`) closed by another thread's
    garbage collector finds no loops there.
    """
    loops = _current.get()
    if loop in loops:
        _current.set(loops[: loops.index(loop)])


def check_frames(what: str, axis: Dim | None) -> None:
    """Raise a DimError for steps over an `axis` whose lengths are over the axis of a running loop, since a step of that loop has only
    one of them.
    """
    around = () if axis is None or not axis.has_padding() else _current.get()
    for loop in around:
        if axis is not None and loop.given_axis in axis.length_dims and loop.given_axis is not axis:
            frames, outer = (dim.name if dim.name.isidentifier() else "..." for dim in (axis, loop.axis))
            raise dim_error(
                f"{what}: the lengths of {axis.short_repr()} are over {outer}.",
                {
                    "around": f'Loop "{loop.name}" over {loop.axis.short_repr()}',
                    "lengths": dims_text(axis.length_dims),
                },
                f"A step of the loop around has one frame of {outer}, with frames of its own. Cut them out, in Python steps:",
                f"x_t, {frames}_t = rf.slice(loop.unstack(x), axis={frames}, size=loop.unstack({frames}.dyn_size_ext))"
                f'      # loop "{loop.name}"',
            )


@explain_mismatch
def _forgotten_unstack(operands: Sequence[tuple[str, Dims]]) -> tuple[str, str] | None:
    """The error for operands in a step, one of which has all frames; None if there is no such operand."""
    for loop in reversed(_current.get()):
        whole = [label for label, dims in operands if loop.given_axis in dims]
        if loop.given_axis is not None and whole and len(whole) < len(operands):
            has = " and ".join(whole)
            rule = f'{has} has all frames of {loop.axis.name}; a step of loop "{loop.name}" works on one. Unstack it before:'
            return rule, "\n".join(f"{label}_t = loop.unstack({label})" for label in whole)
    return None
