"""Steps: the updates of an optimizer, observed through its own hooks.

Norms of all gradients, updates and parameters are computed in a few calls, on their device.
"""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rfnb.interop.watch.model_parts import OwnedParameter
from rfnb.trace.training import Training, TrainingTable

if TYPE_CHECKING:
    from rfnb.interop.watch.watch import Watch

_MOST_GROUPS = 8  # parameter groups whose learning rates are recorded


class OptimizerSteps:
    """The steps of one optimizer.

    Attributes:
        name: "" for a single optimizer.
        owned: Its parameters that belong to the model.
        count: The number of its steps.

    Args:
        always: Whether to check the gradients of each step; otherwise NaN is noticed only when it has spread everywhere.
    """

    def __init__(
        self,
        host: Watch,
        name: str,
        optimizer: torch.optim.Optimizer,
        owned: list[OwnedParameter],
        updates: int | None,
        *,
        always: bool,
    ):
        self.host, self.name, self.optimizer, self.count = host, name, optimizer, 0
        its = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
        own = [each for each in owned if id(each.tensor) in its]
        self.paths = list(dict.fromkeys(each.path for each in own))
        numbers = {path: index for index, path in enumerate(self.paths)}
        self.owned = sorted(own, key=lambda each: numbers[each.path])  # parameters of a module are adjacent
        self.ids = {id(each.tensor) for each in self.owned}
        self._module = np.array([numbers[each.path] for each in self.owned], np.int64)
        self._starts = np.searchsorted(self._module, np.arange(len(self.paths)))
        self._turns = turns([each.tensor for each in self.owned])
        self._turn = 0
        self._pace, self._gradients = Pace(0.004, updates), Pace(0.008, 1 if always else None)
        self._before: list[tuple[int, torch.Tensor]] | None = None
        self._clip: tuple[torch.Tensor, float] | None = None

    def see(self) -> None:
        """Observe the steps from here on."""
        self.optimizer.register_step_pre_hook(self._pre)
        self.optimizer.register_step_post_hook(self._post)

    def remove(self) -> None:
        """Stop observing."""
        # Not by handles: an interrupt may come before a handle is stored.
        for hooks in (self.optimizer._optimizer_step_pre_hooks, self.optimizer._optimizer_step_post_hooks):
            for number in [number for number, hook in hooks.items() if hook in (self._pre, self._post)]:
                hooks.pop(number, None)
        self._before = self._clip = None

    def title(self, name: str) -> str:
        """The name of a curve, with that of the optimizer if there are several."""
        return f"{self.name} {name}" if self.name else name

    def saw_clip(self, max_norm: float, total_norm: Any) -> None:
        """The gradients are about to be clipped."""
        total = (
            total_norm.detach()
            if isinstance(total_norm, torch.Tensor)
            else torch.tensor(float(total_norm), device="cpu")
        )
        self._clip = (total, float(max_norm))

    # -- hooks ---------------------------------------------------------------------------------------------------------
    def _pre(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        # In torch 2.6, `args` begins with the optimizer itself, since `step` is a function of it.
        closure = kwargs.get("closure") or next(
            (each for each in args if callable(each) and each is not optimizer), None
        )
        if closure is None:
            self._measure()
            return None

        def seen() -> Any:
            loss = closure()
            self.host.saw_loss(loss)
            self._measure()
            return loss

        args = tuple(seen if each is closure else each for each in args)
        return args, {**kwargs, "closure": seen} if kwargs.get("closure") is closure else kwargs

    def _measure(self) -> None:
        begin = time.perf_counter()
        self.host.before_update(self)
        if self._gradients.due(self.count):
            start = time.perf_counter()
            self._measure_gradients()
            self._gradients.pay(time.perf_counter() - start)
        if self._before is None and self._pace.due(self.count) and self.owned:
            start = time.perf_counter()
            self._turn = (self._turn + 1) % len(self._turns)
            self._before = [(index, self.owned[index].tensor.detach().clone()) for index in self._turns[self._turn]]
            self._pace.pay(time.perf_counter() - start)
        self.host.times.own(time.perf_counter() - begin)

    def _measure_gradients(self) -> None:
        gradients = [gradient_of(each.tensor) for each in self.owned]
        given = [gradient for gradient in gradients if gradient is not None]
        if not given:
            return
        norms = norms_of(given)
        at = None if len(given) == len(gradients) else np.flatnonzero([gradient is not None for gradient in gradients])
        scale, found_inf = (getattr(self.optimizer, name, None) for name in ("grad_scale", "found_inf"))
        if isinstance(scale, torch.Tensor):  # a fused optimizer unscales the gradients itself
            norms = [norm / scale.to(norm.device) for norm in norms]
        skips = [found_inf.detach().clone()] if isinstance(found_inf, torch.Tensor) else []
        clip, self._clip = self._clip, None
        clips = [] if clip is None else [clip[0]]
        step = self.count + 1

        def use(values: np.ndarray) -> None:
            count = len(norms)
            if skips and values[-1] > 0:  # the optimizer will skip this step
                self.host.training.counts["skipped"] = self.host.training.counts.get("skipped", 0) + 1
                return
            if clip is not None:
                self._keep_clip(step, float(values[count]), clip[1])
            self._keep_gradients(step, at, values[:count])

        self.host.late.put([*norms, *clips, *skips], use)

    def _keep_gradients(self, step: int, at: np.ndarray | None, norms: np.ndarray) -> None:
        """Record the gradients of an update.

        Args:
            at: The indices of the parameters with a gradient; None for all.
        """
        training, squares = self.host.training, norms * norms
        total = math.sqrt(sum_of) if (sum_of := float(squares.sum())) >= 0 else math.nan
        row = np.sqrt(self._by_module(at, squares))
        if at is not None:
            row[np.bincount(self._module[at], minlength=len(self.paths)) == 0] = -1
        with training.lock:
            self._table("gradient norm").add(step, row)
            training.curve(self.title("gradient norm")).add(step, total)
        if not math.isfinite(total):
            names = [self.owned[index].name for index in (np.arange(len(norms)) if at is None else at)]
            self.host.bad_gradients(step, [name for name, norm in zip(names, norms) if not math.isfinite(norm)])

    def _by_module(self, at: np.ndarray | None, values: np.ndarray) -> np.ndarray:
        """The values of parameters, summed by module."""
        if at is None:
            return np.add.reduceat(values, self._starts)
        return np.bincount(self._module[at], values, len(self.paths))

    def _post(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        begin = time.perf_counter()
        training = self.host.training
        self.count += 1
        if self._gradients.due(self.count - 1):
            self._gradients.done(self.count - 1, self.host.times.seconds)
        if self._before is not None:
            start = time.perf_counter()
            self._measure_updates()
            self._pace.pay(time.perf_counter() - start)
            self._pace.done(self.count - 1, self.host.times.seconds)
        self._keep_rates(training)
        self._clip = None
        self.host.after_update(self)
        self.host.times.own(time.perf_counter() - begin)

    def _measure_updates(self) -> None:
        assert self._before is not None
        indices = [index for index, _ in self._before]
        now = [self.owned[index].tensor.detach() for index in indices]
        moved = [each - before for each, (_, before) in zip(now, self._before)]
        step, at, count = self.count, np.array(indices), len(indices)
        self._before = None

        def use(values: np.ndarray) -> None:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                updates, weights = (
                    np.sqrt(self._by_module(at, part * part)) for part in (values[:count], values[count:])
                )
                has = np.bincount(self._module[at], minlength=len(self.paths)) > 0
                ratio = np.where(weights > 0, updates / weights, np.nan)
            with self.host.training.lock:
                self._table("update ratio").add(step, np.where(has, ratio, -1))
                self._table("weight norm").add(step, np.where(has, weights, -1))

        self.host.late.put(norms_of([*moved, *now]), use)

    def _keep_rates(self, training: Training) -> None:
        groups = self.optimizer.param_groups[:_MOST_GROUPS]
        for index, group in enumerate(groups):
            rate, step = group.get("lr"), self.count
            name = self.title("lr" if len(groups) == 1 else f"lr, group {group.get('name', index)}")
            if isinstance(rate, torch.Tensor):
                self.host.late.put([rate], _adder(training, name, step))
            elif rate is not None:
                with training.lock:
                    training.curve(name).add(step, float(rate))

    def _keep_clip(self, step: int, total: float, most: float) -> None:
        training = self.host.training
        with training.lock:
            training.curve(self.title("gradient norm before clipping")).add(step, total)
        if total > most:
            training.counts["clipped"] = training.counts.get("clipped", 0) + 1

    def _table(self, stat: str) -> TrainingTable:
        return self.host.training.table(stat, self.name, self.paths)


def _adder(training: Training, name: str, step: int) -> Callable[[np.ndarray], None]:
    def add(values: np.ndarray) -> None:
        with training.lock:
            training.curve(name).add(step, float(values[0]))

    return add


ROOM = (
    256 << 20
)  # byte limit for copies of parameters before an update; of a larger model one part is measured each time


def norms_of(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """The 2-norm of each tensor, a scalar on its device; half precision is summed in float32."""
    out: list[torch.Tensor | None] = [None] * len(tensors)
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for index, tensor in enumerate(tensors):
        groups.setdefault((tensor.device, tensor.dtype), []).append(index)
    for (_, dtype), members in groups.items():
        half = dtype in (torch.float16, torch.bfloat16)
        found = torch._foreach_norm([tensors[index] for index in members], 2, dtype=torch.float32 if half else None)
        for index, norm in zip(members, found):
            out[index] = norm
    return [norm for norm in out if norm is not None]


def gradient_of(parameter: torch.Tensor) -> torch.Tensor | None:
    """The gradient as a dense tensor of the same norm."""
    gradient = parameter.grad
    if gradient is None:
        return None
    gradient = gradient.detach()
    if gradient.layout == torch.sparse_coo:  # a row may occur several times, and counts with its sum
        return gradient.coalesce().values()
    if gradient.layout != torch.strided:
        return gradient.values()
    return gradient


def turns(parameters: Sequence[torch.Tensor]) -> list[list[int]]:
    """Groups of parameters to measure together, such that their copies fit into `ROOM`."""
    out: list[list[int]] = [[]]
    room = ROOM
    for index, parameter in enumerate(parameters):
        size = parameter.nbytes
        if size > room and out[-1]:
            out.append([])
            room = ROOM
        out[-1].append(index)
        room -= size
    return out


MOST = 100  # maximal number of updates between two measurements: one that takes as long as a step then costs 1 %
FREE = 0.1  # seconds that may be spent at the beginning, where most happens: hundreds of measurements for a small model


class Pace:
    """Decides which updates are measured.

    Args:
        share: Fraction of the step time that it may cost.
        fixed: The number of updates between two measurements, regardless of the cost; 0: never; None: determined by the cost.
    """

    def __init__(self, share: float, fixed: int | None = None):
        self.share, self.fixed = share, fixed
        self._next = 0
        self._costs: deque[float] = deque(maxlen=5)
        self._spent = self._total = 0.0

    def due(self, step: int) -> bool:
        """Whether to measure the update with this index (from 0)."""
        if self.fixed is not None:
            return self.fixed > 0 and step % self.fixed == 0
        return step >= self._next

    def pay(self, seconds: float) -> None:
        """Record the time spent on this update."""
        self._spent += seconds

    def done(self, step: int, step_seconds: float) -> None:
        """Record a measurement, and schedule the next one."""
        self._costs.append(self._spent)  # sometimes another thread had the processor
        self._total += self._spent
        self._spent = 0.0
        between = 1 if step_seconds <= 0 else int(statistics.median(self._costs) / (self.share * step_seconds)) + 1
        # Every update at first, then ever fewer, so that later ones are covered too; with at least one in each fifth of the past.
        most = step // MOST if self._total < FREE else min(step // 5, MOST)
        self._next = step + max(1, min(between, most))


class StepTimes:
    """The duration of a step without the cost of the watch: the median of several."""

    def __init__(self) -> None:
        self._last: float | None = None
        self._own = 0.0
        self._times: deque[float] = deque(maxlen=15)

    def own(self, seconds: float) -> None:
        """Record time spent by the watch itself in this step."""
        self._own += seconds

    def step(self) -> None:
        """Record the end of an update."""
        now = time.perf_counter()
        if self._last is not None:
            self._times.append(max(now - self._last - self._own, 1e-6))
        self._last, self._own = now, 0.0

    @property
    def seconds(self) -> float:
        """The duration in seconds; 0 before there is any."""
        return statistics.median(self._times) if self._times else 0.0
