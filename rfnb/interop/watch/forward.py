"""The calls that a watch observes: `forward` of a module instance, the argument of `backward`, and gradient clipping.

No hooks are used: on layers of nn.TransformerEncoder a hook disables the fast path, which changes the last bits of an
evaluation. Functions of torch are replaced in their module while any watch is open, and restored afterwards. Their
callers look them up there (`Tensor.backward`, `clip_grad_norm_`), so it does not matter how these were imported.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.utils.clip_grad as clip_grad

from rfnb.interop.seen.replacements import InPlace, Replaced, is_method, methods

if TYPE_CHECKING:
    from rfnb.interop.watch.watch import Watch

Around = Callable[["Forward", tuple[Any, ...], dict[str, Any]], Any]


class Forward:
    """The `forward` of a module, routed through a function until it is removed.

    Args:
        module: A torch module.
        around: Called with this object and the arguments; returns the result of `self.forward(*args, **kwargs)`.
    """

    def __init__(self, module: torch.nn.Module, around: Around):
        self.module, self.forward = module, module.forward
        self._around: Around | None = around
        self._in_place: InPlace | None = None

    def put(self) -> None:
        """Route calls through the function from here on."""
        module = self.module
        if is_method(module, "forward"):
            methods.put(module, "forward", id(self), functools.partial(_around, weakref.ref(self)), weak=True)
        else:
            called = _around(weakref.ref(self), self.forward)
            self._in_place = InPlace(module, "forward", module.__dict__.get("forward"), called)
            module.__dict__["forward"] = self._in_place

    def call(self, forward: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the wrapped function."""
        if self._around is None:
            return forward(*args, **kwargs)
        self.forward = forward
        return self._around(self, args, kwargs)

    def remove(self) -> None:
        """Restore the original; if another wrapper is around this one, it becomes inactive."""
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
    @functools.wraps(forward)  # keeps the signature of `forward`
    def called(*args: Any, **kwargs: Any) -> Any:
        own = of()
        return forward(*args, **kwargs) if own is None else own.call(forward, args, kwargs)

    return called


_CLIP = "_clip_grads_with_norm_"


_watchers: list[weakref.ref[Watch]] = []
_replaced = Replaced()


def see(watcher: Watch) -> None:
    """Report to a watcher from here on; a watcher that is never closed is released with its model."""
    own = weakref.ref(watcher, _no_more)
    _watchers.append(own)
    _replaced.replace(own, torch.autograd, "backward", partial(_telling, _tell_backward))
    if hasattr(clip_grad, _CLIP):
        _replaced.replace(own, clip_grad, _CLIP, partial(_telling, _tell_clip))


def see_no_more(watcher: Watch) -> None:
    """Stop reporting; after the last watcher the originals are restored."""
    _no_more(weakref.ref(watcher))


def _no_more(own: weakref.ref[Watch]) -> None:
    _watchers[:] = [other for other in _watchers if other != own]
    _replaced.put_back(own)


def _telling(tell: Callable[..., None], was: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(was)
    def now(*args: Any, **kwargs: Any) -> Any:
        for each in list(_watchers):
            watcher = each()
            if watcher is not None:
                tell(watcher, *args, **kwargs)
        return was(*args, **kwargs)

    return now


def _tell_backward(watcher: Watch, tensors: Any, *_: Any, **__: Any) -> None:
    watcher.saw_backward(tensors)


def _tell_clip(watcher: Watch, parameters: Any, max_norm: Any, total_norm: Any, *_: Any, **__: Any) -> None:
    watcher.saw_clip(parameters, max_norm, total_norm)
