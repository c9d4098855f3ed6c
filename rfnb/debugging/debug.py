"""Debugging switches that cost nothing while they are off.

with rf.debug(padding="nan"):        # all padding is NaN: a result that depends on it is an error
    loss = model(x)
with rf.debug(indices=True):         # indices of gather, embeddings, one-hot, scatter, losses are checked
    loss = model(x)
with rf.debug(beams=True):           # values of two steps of a search in one op are an error
    labels = search(x)
switch = rf.debug(padding="nan")     # without a block: on until switch.off()

A switch affects only its own context, not other threads, unless they were started with a copy of it (`contextvars`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from rfnb.core import intercept
from rfnb.core.block import block
from rfnb.core.dim import Dim
from rfnb.core.dim_mask import real_entries
from rfnb.core.errors import runtime_error, value_error
from rfnb.core.generations import steps_apart
from rfnb.core.intercept import Intercepted, outside
from rfnb.core.op import Op
from rfnb.core.place import in_package
from rfnb.core.tensor import Tensor
from rfnb.debugging import poison
from rfnb.ops.ctc import ctc_best_path, ctc_loss
from rfnb.ops.gather import gather
from rfnb.ops.index_range import check_range
from rfnb.ops.loss import cross_entropy
from rfnb.ops.one_hot import sparse_to_dense
from rfnb.ops.scatter import (
    scatter,
    scatter_argmax,
    scatter_count,
    scatter_logmeanexp,
    scatter_logsumexp,
    scatter_mean,
)


class Debug:
    """The active switches of `debug`; the end of the with-block, or `off()`, switches them off.

    Raises:
        RuntimeError: If the padding is filled already.
    """

    def __init__(self, padding: float | None, indices: bool, beams: bool):
        self._stack = ExitStack()
        if padding is not None:
            if poison.switched_on():
                raise runtime_error(
                    "debug: the padding is filled already.",
                    {"padding": "another rf.debug(padding=...) is on"},
                    "There is one value for all padding. Switch the other one off first:",
                    "switch.off()",
                )
            self._poison = poison.switch_on(padding)
            self._stack.push(self._release)
        if indices:
            self._stack.enter_context(check_indices())
        if beams:
            self._stack.enter_context(steps_apart())

    def off(self) -> None:
        """Switch it off; a second time does nothing."""
        self._stack.close()

    def _release(self, failed: type[BaseException] | None = None, *_: Any) -> None:
        error = poison.switch_off(self._poison)
        if error is not None and failed is None:
            raise error

    def __enter__(self) -> Debug:
        return self

    def __exit__(self, *failed: Any) -> None:
        self._stack.__exit__(*failed)


def debug(*, padding: str | float | None = None, indices: bool = False, beams: bool = False) -> Debug:
    """Detect mistakes that otherwise go unnoticed; slow, and free when off.

    Args:
        padding: "nan": the padding of every Tensor is filled, floats with NaN, integers and bools with other values that are
            valid there (the last index, the largest real value, the opposite). A NaN in a real frame raises a
            FloatingPointError as soon as the result is used, or at the end; the error names the call and the line that
            made it. On a GPU each op then waits for the device. Gradients do not change. Or a number, e.g. 1e6: run
            with two numbers and compare the losses, which must be equal; nothing is raised then.
            A frame that is read past the end of a sequence (`gather` of the last frame of an empty one, a step of a
            `TensorArray`) is leaked padding: it is reported even if a `where` drops it later.
        indices: Check that indices are within the dim that they index into, for the real frames: `gather`, embeddings, `one_hot`,
            `scatter`, `cross_entropy`.
        beams: A value from an earlier step of a search, kept in a Python variable, does not follow its hypotheses, but
            looks like a current value. With this switch an op on both raises an error; make the value a state of the loop.

    Returns:
        A handle with `off()`, usable in a with-block.

    Raises:
        ValueError: If `padding` is neither "nan" nor a number.
        RuntimeError: If another `debug` already fills the padding.
    """
    value = None
    if padding is not None:
        if padding != "nan" and (isinstance(padding, (str, bool)) or not isinstance(padding, (int, float))):
            raise value_error(
                f"debug: padding={padding!r}.",
                {"known": '"nan", or a number'},
                "It is what the padding is filled with.",
                'rf.debug(padding="nan")',
            )
        value = float(padding)
    return Debug(value, indices, beams)


# op -> its arguments for the indices and for the dim that they index; without the latter that dim is the sparse_dim
_ARGUMENTS: dict[Any, tuple[str, str]] = {
    gather: ("indices", "axis"),
    **dict.fromkeys(
        [scatter, scatter_argmax, scatter_count, scatter_logmeanexp, scatter_logsumexp, scatter_mean],
        ("indices", "out_dim"),
    ),
    **dict.fromkeys([ctc_loss, ctc_best_path], ("targets", "")),
    sparse_to_dense: ("labels", "axis"),
    cross_entropy: ("target", "axis"),
}


@block
def check_indices() -> Iterator[None]:
    """While active, these ops check their indices first (in this context)."""
    with Intercepted(_checked, _ARGUMENTS):
        yield


def _checked(op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    role, dim_role = _ARGUMENTS[op.fn]
    # Only `sparse_to_dense` takes its indices by position.
    indices = kwargs.get(role, args[0] if args and op.fn is sparse_to_dense else None)
    if isinstance(indices, Tensor) and indices.raw_tensor is not None and not kwargs.get("clip_to_valid"):
        dim = kwargs.get(dim_role) or indices.sparse_dim
        if dim is not None and dim not in indices.dims and indices.dtype.startswith(("int", "uint")):
            if _is_given(indices) and not _are_last_frames(indices, dim):
                check_range(op.name, role, indices, dim)
    return outside(op)(*args, **kwargs)


def _is_given(indices: Tensor) -> bool:
    """Whether indices come from user code: ops and layers pass on their arguments, and handle the indices that they
    compute themselves, such as a position in an empty sequence that they mask afterwards.
    """
    frame = sys._getframe(1)
    while frame.f_code.co_filename in _HANDLING and frame.f_back is not None:
        frame = frame.f_back
    code = frame.f_code
    if not in_package(code):
        return True
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return any(frame.f_locals.get(name) is indices for name in arguments)


def _are_last_frames(indices: Tensor, dim: Dim) -> bool:
    """Whether they are the result of `last_frame_position_of_dim`, which is 0 for an empty sequence."""
    if dim.lengths is None or indices.dims != dim.length_dims:
        return False
    same = indices.numpy() == np.maximum(dim.lengths - 1, 0)
    real = real_entries(indices.dims)
    return bool((same if real is None else same | ~real).all())


_HANDLING = (__file__, intercept.__file__)
