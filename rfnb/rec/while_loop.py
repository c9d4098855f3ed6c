"""Repeats a function of any nested state while a condition holds, and branches on a value that may be a Tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, type_error, value_error
from rfnb.core.fill_values import kind_of_dtype
from rfnb.core.tensor import Tensor, same_dtype
from rfnb.core.tensor_text import shape_of
from rfnb.core.tree import agree, leaves, same_structure
from rfnb.rec.hold import holding
from rfnb.rec.nested import structure_text
from rfnb.rec.tensor_array import index_space


def while_loop(
    cond: Callable[[Any], bool | Tensor], body: Callable[[Any], Any], initial: Any, *extra: Never, **unknown: Never
) -> Any:
    """`while cond(state): state = body(state)`, from `initial`; the last state.

    Args:
        cond: Gives a bool or a scalar bool Tensor, which is read by the host in every step.
        body: Gives the next state: the same structure, Tensors with the same dims (in any order), sparse_dim (of integers: a
            float is no index) and feature_dim, if they begin with one; integers and floats may get another width, as under
            autocast. A Dim in the state may be another one in each step; Tensors then have the new one.
        initial: Any nested structure.

    Raises:
        TypeError: If cond gives a Tensor with dims.
        ValueError: If the structure changes.
        DimError: If a Tensor changes its dims or marks.
    """
    state, step, hold, held = initial, 0, holding(), False
    try:
        while truth("while_loop", cond(state)):
            if hold is not None:
                state, held = hold.step_of("while_loop", step, state), True
            new = body(state)
            check_state(f"while_loop, step {step}", state, new)
            state, step = new, step + 1
    finally:
        if hold is not None and held:
            hold.over("while_loop")
    return state


def check_state(what: str, old: Any, new: Any) -> None:
    """Check that a step kept the structure of a state, and the dims and marks of its Tensors."""
    if agree(_unchanged, old, new):
        return
    if not same_structure(old, new):
        parts = [structure_text(state) for state in (old, new)]
        raise value_error(
            f"{what}: the structure of the state changed.",
            zip(("before", "after"), parts),
            "Every step gives a state with the same parts.",
        )
    after = dict(leaves(new))
    pairs = [(path, value, after[path]) for path, value in leaves(old)]
    renamed = {a: b for _, a, b in pairs if isinstance(a, Dim) and isinstance(b, Dim)}
    for path, a, b in pairs:
        if isinstance(a, Tensor) != isinstance(b, Tensor) or (
            isinstance(a, Tensor) and _kind(a, renamed, b.feature_dim) != _kind(b, {})
        ):
            raise dim_error(
                f'{what}: "{path}" changed.' if path else f"{what}: the state changed.",
                {"before": _marks(a), "after": _marks(b)},
                "A Tensor of the state keeps its dims, kind of dtype, sparse_dim and feature_dim in every step.",
                _fix(path if path.replace(".", "").isidentifier() else "initial", a, b),
            )


def _unchanged(a: Any, b: Any) -> bool:
    """True if a leaf is unchanged in every checked property: the usual case."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return (
            a.dims == b.dims and same_dtype(a, b) and a.sparse_dim is b.sparse_dim and a._feature_dim is b._feature_dim
        )
    return a is b or not isinstance(a, (Tensor, Dim)) and not isinstance(b, (Tensor, Dim))


def _fix(name: str, a: Any, b: Any) -> str | None:
    """The line of code that makes the initial state match the next one, or None."""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        return None
    added = [dim for dim in b.dims if dim not in a.dims]
    where = "      # of the initial state"
    if added:
        if set(a.dims) < set(b.dims):
            return f"{name} = rf.expand_dim({name}, dim={added[0].name}){where}"
        gone = [dim for dim in a.dims if dim not in b.dims]
        if len(gone) == len(added) == 1 and (added[0].made_by or added[0].name == gone[0].name):
            return f'state = {{..., "dim": {added[0].name}}}    # a Dim that each step makes again is part of the state, too'
        return None
    if kind_of_dtype(a.dtype) != kind_of_dtype(b.dtype):
        return f'{name} = rf.cast({name}, "{b.dtype}"){where}'
    mark = "sparse_dim" if index_space(a) is not index_space(b) else "feature_dim"
    dim = getattr(b, mark)
    return f"{name}.{mark} = {dim.name if dim else None}{where}"


def _marks(x: Any) -> str:
    if not isinstance(x, Tensor):
        return repr(x)
    marks = [
        f"{name} {dim.short_repr()}"
        for name, dim in (("sparse over", index_space(x)), ("feature_dim", x.feature_dim))
        if dim
    ]
    return ", ".join([f"{shape_of(x)} {x.dtype}", *marks])


def _kind(x: Tensor, renamed: dict[Dim, Dim], gets: Dim | None = None) -> Any:
    """The properties that stay the same from step to step; a Tensor without feature_dim gets the given one, if any."""
    space, feature = index_space(x), x.feature_dim or gets
    return (
        {renamed.get(dim, dim) for dim in x.dims},
        kind_of_dtype(x.dtype),
        space and renamed.get(space, space),
        feature and renamed.get(feature, feature),
    )


def cond(
    pred: bool | Tensor, true_fn: Callable[[], Any], false_fn: Callable[[], Any], *extra: Never, **unknown: Never
) -> Any:
    """true_fn() if pred, else false_fn(); only one of them runs.

    Args:
        pred: A bool, or a scalar bool Tensor, which is read by the host.

    Raises:
        TypeError: If pred is a Tensor with dims, or not bool.
    """
    return true_fn() if truth("cond", pred) else false_fn()


def truth(what: str, pred: bool | Tensor) -> bool:
    """A scalar bool Tensor as a Python bool."""
    if not isinstance(pred, Tensor):
        return bool(pred)
    if pred.dims or pred.dtype != "bool":
        raise type_error(
            f"{what}: not one bool.",
            {"pred": f"{shape_of(pred)} {pred.dtype}"},
            "A branch is taken for all sequences at once. To choose for each of them:",
            "rf.where(pred, a, b)",
        )
    return bool(pred.numpy())
