"""Functions of arrays compiled by torch: the programs of recorded loops."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from rfnb.backends.torch_captured import Captured
from rfnb.backends.torch_modes import modes


def compile_function(fn: Callable[..., Any], how: str, *, changes: bool) -> Callable[..., Callable[..., Any]] | None:
    """See `Backend.compile_raw`."""
    if how == "cuda_graph":
        return None if changes or not torch.cuda.is_available() else Captured(fn)
    return _Compiled(fn, how)


_RULE = {
    "inductor": "The results are the same. Without a compiler for C++ (g++, clang++) there is no inductor:\n"
    '    with rf.compile_loops("aot_eager"):',
    "": "The results are the same. To run it so without this warning:\n    with rf.compile_loops(None):",
}

# Older versions of torch (2.6, 2.7) do not tell whether somebody wants what is kept for gradients; without gradients nothing is kept.
_TOP_HOOKS = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)


class _Compiled:
    """A function that is compiled when it is first called, for these dtypes and shapes, and again where others need it."""

    def __init__(self, fn: Callable[..., Any], how: str):
        self._fn, self._how, self._failed = fn, how, False
        # As a whole: a part could have changed arrays before the next one fails.
        self._compiled = torch.compile(fn, backend=how, fullgraph=True)

    def __call__(self, *constants: Any) -> Callable[..., Any]:
        if self._failed or _somebody_watches():
            return partial(self._fn, *constants)
        return partial(self._run, *constants)

    def _run(self, *args: Any) -> Any:
        if self._failed:
            return self._fn(*args)
        try:
            return self._compiled(*args)
        except Exception as error:
            if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise  # the step itself
            self._failed = True
            warnings.warn(
                f'compile_loops("{self._how}"): torch cannot compile a step; the loop runs without.\n'
                f"  because  {_first_line(error)}\n" + _RULE.get(self._how, _RULE[""]),
                stacklevel=2,
            )
            return self._fn(*args)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _somebody_watches() -> bool:
    """Whether somebody wants to see each call, or each array that is kept for gradients; a compiled function has other ones."""
    return (
        bool(modes())
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.peek_interpreter_stack() is not None
        or (torch.is_grad_enabled() if _TOP_HOOKS is None else _TOP_HOOKS(True) is not None)
    )
