"""The roles of dims: the source and target dims of attention weights, and the step dim of a state.

A recording stores them (`trace.attention[path]` has its axes). For other Tensors they are inferred from names, lengths
and kinds of the dims, never from their order, which has no meaning; ambiguous cases are refused. For a plain array the
order counts: target and source are its last axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rfnb.core.errors import dim_error
from rfnb.core.tensor import Tensor
from rfnb.viz.axes import Axis, NamedArray

_SOURCES = ("source", "key", "keys", "axis", "enc", "encoder", "s", "k")
_TARGETS = ("target", "query", "step", "decoder", "label", "out")
_STEPS = ("step", "time", "target", "decoder", "label")
_SHORT_TARGETS, _SHORT_STEPS = ("t", "q"), ("t",)  # names in einops, matched as a whole


def attention_axes(named: NamedArray, value: Any, source_dim: Any, target_dim: Any) -> tuple[Axis, Axis | None]:
    """The source axis and the target axis (None if there is only one row).

    Args:
        value: The value from which `named` was made.
        source_dim: A Dim or a name, if given.
        target_dim: Likewise.

    Raises:
        DimError: If a given dim does not exist, or the dim is ambiguous.
    """
    find = lambda which, role: named.find(which, where="attention", role=role)  # noqa: E731
    known = recorded(value, named)
    target = find(target_dim, "target_dim") if target_dim is not None else None
    if source_dim is not None:
        source = find(source_dim, "source_dim")
    elif "axis" in known:
        source = known["axis"]
    else:
        source = _source(named, target)
    if target is None and target_dim is None:
        target = known.get("step") or known.get("target")
        if target is None or target is source:
            target = _target(named, source)
    return source, target


def step_axis(named: NamedArray, value: Any, where: str) -> Axis | None:
    """The axis of the steps of a state, or None.

    Raises:
        DimError: If the dim is ambiguous.
    """
    known = recorded(value, named)
    if "step" in known:
        return known["step"]
    over = named.over()
    free = [axis for axis in named.axes if axis.kind not in ("batch", "beam", "feature") and axis not in over]
    telling = [axis for axis in free if axis.name in _SHORT_STEPS or any(word in axis.name for word in _STEPS)]
    ragged = [axis for axis in free if axis.ragged or axis.kind == "spatial"]
    fix = lambda axis: f'rf.viz.{where.split(",")[0]}(..., step_dim="{axis.name}")'  # noqa: E731
    return _first(named, (telling, ragged, free), 0, f"{where}: which dim runs over the steps?", fix)


def recorded(value: Any, named: NamedArray) -> dict[str, Axis]:
    """The axes that a recording stores, if they exist in the value."""
    roles = value._roles if isinstance(value, Tensor) else None
    return {role: axis for role, dim in (roles or {}).items() for axis in named.axes if axis.dim is dim}


def _source(named: NamedArray, target: Axis | None) -> Axis:
    axes = [axis for axis in named.axes if axis is not target]
    telling = [axis for axis in axes if axis.name in _SOURCES]
    # For a dim that occurs twice, the twin is the source.
    twins = [axis for axis in axes if axis.dim is not None and any(axis.dim.twin_of is a.dim for a in named.axes)]
    over = named.over()
    left = [axis for axis in axes if axis.kind is None or axis.kind == "spatial"]
    left = [axis for axis in left if axis not in over and not _is_map(axis)]
    others = [axis for axis in left if not _is_target(axis)]
    choices = [telling, axes]
    if not named.plain:
        known = len(others) < len(left) or target is not None  # the target; a ragged dim beside it is the source
        choices = [telling, twins, [axis for axis in others if axis.ragged and known], others, left]
    fix = lambda axis: f'rf.viz.attention(weights, source_dim="{axis.name}")'  # noqa: E731
    found = _first(named, choices, -1, "attention: which dim of the weights is attended over?", fix)
    if found is None:
        raise dim_error(
            "attention: no dim of the weights can be the one attended over.",
            {"weights": named.describe()},
            "Weights have a dim attended over, which is neither batch nor beam nor heads.",
            f'rf.viz.attention(weights, source_dim="{named.axes[-1].name}")',
        )
    return found


def _target(named: NamedArray, source: Axis) -> Axis | None:
    """The target dim: the dim of which the source is a twin; by name; by lengths; or the only remaining one that is not a
    batch, beam or head.
    """
    over = named.over()
    left = [axis for axis in named.axes if axis is not source and axis.kind != "batch" and axis not in over]
    twin = [axis for axis in left if source.dim is not None and axis.dim is not None and _twins(source.dim, axis.dim)]
    telling = [axis for axis in left if _is_target(axis)]
    ragged = [axis for axis in left if axis.ragged or (axis.dim is not None and axis.dim.kind == "spatial")]
    other = [axis for axis in left if axis.kind is None and not _is_map(axis)]
    fix = lambda axis: f'rf.viz.attention(weights, source_dim="{source.name}", target_dim="{axis.name}")'  # noqa: E731
    return _first(named, (twin, telling, ragged, other), -1, "attention: which dim of the weights attends?", fix)


def _first(
    named: NamedArray, choices: Sequence[list[Axis]], at: int, question: str, fix: Callable[[Axis], str]
) -> Axis | None:
    """The axis of the first choice that has any. If it has several, a plain array takes the one at its usual position; for
    a Tensor it is ambiguous.
    """
    for choice in choices:
        if len(choice) == 1 or (choice and named.plain):
            return choice[at]
        if choice:
            raise dim_error(
                question,
                {"dims": named.describe(), "possible": ", ".join(axis.describe() for axis in choice)},
                "The order of dims means nothing, and names and lengths do not decide. Name it:",
                fix(choice[at]),
            )
    return None


def _is_target(axis: Axis) -> bool:
    return axis.name in _SHORT_TARGETS or any(word in axis.name for word in _TARGETS)


def _is_map(axis: Axis) -> bool:
    return axis.is_heads or "layer" in axis.name


def _twins(one: Any, other: Any) -> bool:
    base = lambda dim: dim.twin_of or dim  # noqa: E731
    return base(one) is base(other)
