"""Functions of torch that are seen while a training is watched: what `backward` is called on, and how gradients are clipped.

They are others at their home while any watch is open, and as they were afterwards. Both are looked up there by what calls them
(`Tensor.backward`, `clip_grad_norm_`), so it does not matter how these were imported.
"""

from __future__ import annotations

import functools
import threading
import weakref
from typing import Any, Protocol

import torch
import torch.nn.utils.clip_grad as clip_grad

_CLIP = "_clip_grads_with_norm_"


class Watcher(Protocol):
    """The one who is told."""

    def saw_backward(self, tensors: Any) -> None:
        """Gradients of these are about to be computed."""

    def saw_clip(self, parameters: Any, max_norm: float, total_norm: Any) -> None:
        """The gradients of these parameters are about to be clipped."""


_lock = threading.RLock()
_watchers: list[weakref.ref[Watcher]] = []  # one that nobody has closed goes with its model
_put: list[tuple[Any, str, Any, Any]] = []  # home, name, what was there, what is there now


def see(watcher: Watcher) -> None:
    """Tell a watcher from here on."""
    with _lock:
        _watchers.append(weakref.ref(watcher, lambda _: see_no_more(None)))
        if not _put:
            _replace(torch.autograd, "backward", _told_backward)
            if hasattr(clip_grad, _CLIP):
                _replace(clip_grad, _CLIP, _told_clip)


def see_no_more(watcher: Watcher | None) -> None:
    """Tell it no more, nor those that are gone; after the last one all is as it was."""
    with _lock:
        _watchers[:] = [other for other in _watchers if other() not in (watcher, None)]
        if not _watchers:
            for home, name, was, now in _put:
                if getattr(home, name) is now:
                    setattr(home, name, was)
            _put.clear()


def _replace(home: Any, name: str, told: Any) -> None:
    was = getattr(home, name)

    @functools.wraps(was)
    def now(*args: Any, **kwargs: Any) -> Any:
        told(*args, **kwargs)
        return was(*args, **kwargs)

    _put.append((home, name, was, now))  # before it is there
    setattr(home, name, now)


def _told_backward(tensors: Any, *_: Any, **__: Any) -> None:
    for watcher in _told():
        watcher.saw_backward(tensors)


def _told_clip(parameters: Any, max_norm: Any, total_norm: Any, *_: Any, **__: Any) -> None:
    for watcher in _told():
        watcher.saw_clip(parameters, max_norm, total_norm)


def _told() -> list[Watcher]:
    return [watcher for each in list(_watchers) if (watcher := each()) is not None]
