"""Forward: what is around `forward` of one module instance for a while.

No hooks: on layers of nn.TransformerEncoder a hook switches the fast path off, which changes the last bits of an evaluation.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch

from rfnb.interop.seen.in_place import InPlace
from rfnb.interop.seen.replaced import is_method, methods

Around = Callable[["Forward", tuple[Any, ...], dict[str, Any]], Any]


class Forward:
    """`forward` of a module, which goes through a function until it is removed.

    Args:
        module: Of torch.
        around: Gets this and the arguments, and returns what `self.forward(*args, **kwargs)` does.
    """

    def __init__(self, module: torch.nn.Module, around: Around):
        self.module, self.forward = module, module.forward
        self._around: Around | None = around
        self._in_place: InPlace | None = None

    def put(self) -> None:
        """Go through the function from here on."""
        module = self.module
        if is_method(module, "forward"):
            methods.put(module, "forward", id(self), functools.partial(_around, weakref.ref(self)), weak=True)
        else:
            called = _around(weakref.ref(self), self.forward)
            self._in_place = InPlace(module, "forward", module.__dict__.get("forward"), called)
            module.__dict__["forward"] = self._in_place

    def call(self, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call what is below."""
        if self._around is None:
            return forward(*args, **kwargs)
        self.forward = forward
        return self._around(self, args, kwargs)

    def remove(self) -> None:
        """Put back what was there; where another one has been put around this, this does nothing any more."""
        self._around = None
        in_place = self._in_place
        if in_place is None:
            methods.take(self.module, "forward", id(self))
            return
        own = in_place.own
        if self.module.__dict__.get("forward") is in_place:
            del self.module.__dict__["forward"]
            if own is not None:
                self.module.__dict__["forward"] = own
        else:
            in_place.over = True


def _around(of: weakref.ref[Forward], forward: Any) -> Any:
    @functools.wraps(forward)  # who asks for the signature gets that of `forward`
    def called(*args: Any, **kwargs: Any) -> Any:
        own = of()
        return forward(*args, **kwargs) if own is None else own.call(forward, args, kwargs)

    return called


def in_backward() -> bool:
    """Whether this runs inside of a backward pass: a checkpoint computes there once more what was seen already."""
    task = getattr(torch._C, "_current_graph_task_id", None)
    return task is not None and task() != -1
