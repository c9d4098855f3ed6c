"""Forward: what is around `forward` of one module instance for a while.

No hooks: on layers of nn.TransformerEncoder a hook switches the fast path off, which changes the last bits of an evaluation.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

Around = Callable[["Forward", tuple[Any, ...], dict[str, Any]], Any]


class Forward:
    """`forward` of a module, which goes through a function until it is removed.

    Args:
        module: Of torch.
        around: Gets this and the arguments, and returns what `self.forward(*args, **kwargs)` does.
    """

    def __init__(self, module: torch.nn.Module, around: Around):
        self.module = module
        self.forward = module.forward
        self._around: Around | None = around
        self._own = module.__dict__.get("forward")
        functools.update_wrapper(self, self.forward, updated=())  # who asks for the signature of `forward` gets it
        module.__dict__["forward"] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._around is None:
            return self.forward(*args, **kwargs)
        return self._around(self, args, kwargs)

    def remove(self) -> None:
        """Put back what was there; where another one has been put around this, this does nothing any more."""
        self._around = None
        if self.module.__dict__.get("forward") is self:
            del self.module.__dict__["forward"]
            if self._own is not None:
                self.module.__dict__["forward"] = self._own

    # A copy of the model (for a moving average, or in a file) is not watched, and calls itself and not the one that is.

    def __reduce__(self) -> Any:
        if self._own is not None:
            return _itself, (self._own,)
        return getattr, (self.module, "forward")  # of its class: the module has nothing of its own yet


def _itself(forward: Any) -> Any:
    return forward


def in_backward() -> bool:
    """Whether this runs inside of a backward pass: a checkpoint computes there once more what was seen already."""
    task = getattr(torch._C, "_current_graph_task_id", None)
    return task is not None and task() != -1
