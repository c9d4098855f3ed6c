"""Activations: statistics of module outputs, in selected updates.

Mean, standard deviation and fractions are over at most 65,536 entries of each output; the maximum and the dead units are over all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import torch

from rfnb.core.tensor import Tensor
from rfnb.core.tree import values_in
from rfnb.interop.seen.replacements import backward_task
from rfnb.interop.watch.forward import Forward
from rfnb.interop.watch.model_parts import inner, seen_modules
from rfnb.nn.module.module import Module
from rfnb.trace.probe import Ear, Place

MOST_ENTRIES = 1 << 16
_NEAR = 0.01  # an output of a sigmoid or tanh within this distance of its bound is saturated
_CHANNELS_FIRST = (
    torch.nn.modules.conv._ConvNd,
    torch.nn.modules.batchnorm._NormBase,
    torch.nn.GroupNorm,
)


class Activations:
    """Observes the modules of a model, between `open` and `close`.

    Attributes:
        paths: The paths of the modules, in the order of the model.
        found: The statistics of called modules, by path, a vector in the order of `ACTIVATIONS`.
        seconds: The cost of observation since `open`.
    """

    def __init__(self, model: Any):
        self._root = inner(model)
        self._modules = [] if isinstance(model, torch.nn.DataParallel) else seen_modules(model)
        self._of_rf = isinstance(self._root, Module)
        self.paths = [path for path, _ in self._modules]
        if self._of_rf:
            self.paths = [path for path, each in self._root.named_modules() if not list(each.children())]
        self._known = set(self.paths)
        self._forwards: list[Forward] = []
        self._ear = Ear(self._hear, lambda kind: kind == "module")
        self.found: dict[str, torch.Tensor] = {}
        self.seconds = 0.0

    def open(self) -> None:
        """Observe calls from here on."""
        begin = time.perf_counter()
        self.found, self.seconds = {}, 0.0
        for path, module in self._modules:
            self._forwards.append(
                Forward(module, self._around(path))
            )  # before it takes effect: `close` iterates over them
            self._forwards[-1].put()
        if self._of_rf:
            self._ear.open()
        self.seconds += time.perf_counter() - begin

    def close(self) -> None:
        """Stop observing."""
        for forward in reversed(self._forwards):
            forward.remove()
        self._forwards.clear()
        self._ear.close()

    def _around(self, path: str) -> Any:
        def around(forward: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            result = forward.forward(*args, **kwargs)
            if (
                path not in self.found
                and self._root.training
                and not torch.compiler.is_compiling()
                and backward_task() == -1
            ):
                self._look(path, forward.module, result)
            return result

        return around

    def _hear(self, kind: str, place: Place, values: Any) -> None:
        path = "" if place.module == self._root.get_default_name() else place.module  # the whole model has no path
        if path in self._known and path not in self.found and torch.is_grad_enabled():
            outputs = [value for _, value in values.get("outputs") or [] if isinstance(value, Tensor)]
            self._look(path, None, [value.raw_tensor for value in outputs if value.raw_tensor is not None])

    def _look(self, path: str, module: torch.nn.Module | None, result: Any) -> None:
        begin = time.perf_counter()
        x = next((each for each in floats_of(result) if each.numel()), None)
        if x is not None:
            with torch.no_grad():
                self.found[path] = numbers_of(module, x.detach())
        self.seconds += time.perf_counter() - begin


def floats_of(value: Any) -> Iterator[torch.Tensor]:
    """The real-valued tensors in a module's input or output."""
    for leaf in values_in(value):
        raw = leaf.raw_tensor if isinstance(leaf, Tensor) else leaf
        if (
            isinstance(raw, torch.Tensor)
            and raw.is_floating_point()
            and raw.layout == torch.strided
            and not raw.is_nested
        ):
            yield raw


def numbers_of(module: torch.nn.Module | None, x: torch.Tensor) -> torch.Tensor:
    """The statistics of an output as float32 on its device: mean, std, zeros, saturated, largest, dead units."""
    axis = 1 if isinstance(module, _CHANNELS_FIRST) and x.dim() > 2 else x.dim() - 1
    others = [other for other in range(x.dim()) if other != axis]
    units = torch.linalg.vector_norm(x, math.inf, dim=others) if others else x.abs().reshape(-1)
    entries = entries_of(x).float()
    std, mean = torch.std_mean(entries, correction=0)
    zeros, dead = (entries == 0).float().mean(), (units == 0).float().mean()
    if others == [] or x.numel() == units.numel():  # one frame is not enough to judge units
        dead = torch.full_like(dead, math.nan)
    return torch.stack([mean, std, zeros, _saturated(module, entries), units.max().float(), dead])


def entries_of(x: torch.Tensor) -> torch.Tensor:
    """A sample of the entries, at most `MOST_ENTRIES`, evenly spread, as a vector."""
    order = sorted(range(x.dim()), key=x.stride, reverse=True)  # in memory order, without copying everything
    flat = x.permute(order).reshape(-1)
    step = -(-flat.numel() // MOST_ENTRIES)
    while step > 1 and any(math.gcd(step, size) > 1 for size in x.shape if size > 1 and size % step != 1):
        step += 1  # else the same units would be sampled again and again
        if step > 4 * (flat.numel() // MOST_ENTRIES + 1):
            break
    return flat[::step]


def _saturated(module: torch.nn.Module | None, entries: torch.Tensor) -> torch.Tensor:
    """The fraction of entries at the bounds of a module's range; NaN without bounds."""
    if isinstance(module, torch.nn.Sigmoid):
        return ((entries - 0.5).abs() > 0.5 - _NEAR).float().mean()
    if isinstance(module, torch.nn.Tanh) or (
        isinstance(module, (torch.nn.RNNBase, torch.nn.RNNCellBase)) and getattr(module, "nonlinearity", "") != "relu"
    ):
        return (entries.abs() > 1 - _NEAR).float().mean()
    if isinstance(module, torch.nn.Softmax):
        return (entries > 1 - _NEAR).float().mean()
    return torch.full((), math.nan, device=entries.device)
