"""Watch: a watched training, and everything installed around it."""

from __future__ import annotations

import time
import weakref
from collections import deque
from os import PathLike
from typing import Any

import numpy as np
import torch

from rfnb.core.block import Exit, block_of
from rfnb.core.errors import message, type_error, value_error
from rfnb.core.place import warn_user
from rfnb.core.tensor import Tensor
from rfnb.interop.processes import is_first_process
from rfnb.interop.seen.replacements import backward_task
from rfnb.interop.watch.activations import Activations
from rfnb.interop.watch.callbacks import event_files
from rfnb.interop.watch.example import ExampleRun, fewer
from rfnb.interop.watch.failed_batch import StoredCall, do_again, kept
from rfnb.interop.watch.forward import Forward, see, see_no_more
from rfnb.interop.watch.model_parts import (
    check,
    check_optimizers,
    inner,
    optimizers_of,
    parameters_of,
    shared_of,
)
from rfnb.interop.watch.nonfinite_values import NotFinite
from rfnb.interop.watch.optimizer_steps import OptimizerSteps, Pace, StepTimes
from rfnb.interop.watch.scalar_reads import ScalarReads
from rfnb.nn.module.module import Module
from rfnb.trace.trace import Trace
from rfnb.trace.training import ACTIVATIONS, ExampleRecording, Training
from rfnb.trace.training_journal import Journal

_MOST_CALLS = 16  # calls per update that can be repeated
_FOUND = ("loss given to backward", "loss of the closure")  # used if no loss is logged
_CHOICES = ("stop", "warn", "ignore")
_watched: weakref.WeakKeyDictionary[Any, weakref.ref[Watch]] = weakref.WeakKeyDictionary()


class Watch(Training):
    """A watched training; arguments and errors are those of `rf.watch`.

    Attributes:
        failed: The recording of the batch in which something became NaN or infinite, or None.
    """

    _entered: Any = None

    def __init__(
        self,
        model: Any,
        optimizer: Any = None,
        *,
        example: Any = None,
        every: str | int = "epoch",
        on_nan: str = "stop",
        activations: int | bool | None = None,
        updates: int | bool | None = None,
        scaler: Any = None,
        title: str | None = None,
        save: str | PathLike[str] | None = None,
        tensorboard: str | PathLike[str] | None = None,
    ):
        _check_options(every, on_nan, activations, updates)
        check(model)
        before = _watched.get(inner(model))
        if before is not None and (other := before()) is not None and not other.closed:
            raise value_error(
                "watch: this model is watched already.",
                {"model": type(inner(model)).__name__, "by": repr(other)},
                "A training can be watched only once at a time. Close that watch first, or use it:",
                "watch.close()",
            )
        super().__init__(title or type(inner(model)).__name__, "epoch" if every == "epoch" else "update")
        self.counts.update(updates=0, batches=0)
        self.types = {path: type(inner(module)).__name__ for path, module in inner(model).named_modules()}
        self.failed: Trace | None = None
        self.times, self.late = StepTimes(), ScalarReads()
        self._model, self._on_nan, self._every = model, on_nan, every
        self._updates = None if updates is None else int(updates)
        self._pace = Pace(0.004, None if activations is None else int(activations))
        self._scaler: Any = scaler
        self._scaler_step: Any = None
        self._steps: list[OptimizerSteps] = []
        self._owned = parameters_of(model)
        self._calls: list[StoredCall] = []
        self._batches: deque[tuple[int, int]] = deque(
            maxlen=32
        )  # of the last updates, with the number of batches by then
        self._root: Forward | None = None
        self._activations = Activations(model)
        self._looking = False
        self._pending = False  # whether a part of the next update has been computed
        self._lost: list[tuple[str, Any]] = []  # losses found for the next update
        self._epoch = 0
        self._warned: set[str] = set()
        self._bad_loss: str | None = None
        self._example = ExampleRun(model, example) if example is not None else None
        self._open = False
        self._files: list[tuple[Any, Any]] = [(Journal, save)] if save is not None else []
        if tensorboard is not None:
            self._files.append((event_files(), tensorboard))
        if optimizer is not None:
            self.begin(optimizer)

    @property
    def training(self) -> Training:
        """The record of the training."""
        return self

    # -- from outside --------------------------------------------------------------------------------------------------
    def begin(self, optimizer: Any) -> Watch:
        """Watch from here on; called by `rf.watch` if it has an optimizer. Callbacks call it when the training begins.

        Raises:
            TypeError: If it is not an optimizer of torch.
            ValueError: If it has no parameter of the model, or the watch is already open or closed.
        """
        if self._open or self.closed:
            state = "closed" if self.closed else "watching already"
            raise value_error(
                "watch: it cannot begin.",
                {"watch": state},
                "A watch is for one training.",
                "watch = rf.watch(model, optimizer)",
            )
        named = optimizers_of(optimizer)
        check_optimizers(named, self._owned)
        self._open = True
        _watched[inner(self._model)] = weakref.ref(self)
        try:
            for name, each in named.items():
                steps = OptimizerSteps(self, name, each, self._owned, self._updates, always=self._on_nan != "ignore")
                self._steps.append(steps)  # before it observes anything: `close` iterates over them
                steps.see()
            self._begin_calls()
            self._begin_scaler()
            see(self)
            self._state_facts()
            if is_first_process():  # other processes of a distributed training see the same
                for kind, path in self._files:
                    kind(self, path)
            if self._example is not None:
                self._run_example("0")
            self._look_if_due()
            self.tell()
        except BaseException:
            self.close()
            raise
        return self

    def log(self, **values: Any) -> None:
        """Add numbers to the curves with these names: the loss, metrics, anything. Several values within one update are averaged.

        A number on a device is fetched later, without waiting.

        Raises:
            TypeError: If a value is not a number.
        """
        step = self._now()
        for name, value in values.items():
            self._add(name, value, step)
        if "loss" in values:  # losses found automatically are then not used
            for name in _FOUND:
                self.curves.pop(name, None)
        self.tell()

    def epoch(self) -> None:
        """Mark the end of an epoch: the example is run."""
        self._epoch += 1
        self.counts["epochs"] = self._epoch
        if self._example is not None and self._every == "epoch":
            self._run_example(str(self._epoch))
        self.tell()

    def close(self) -> None:
        """Stop watching: remove all hooks; the record is kept."""
        if self.closed:
            return
        see_no_more(self)
        for steps in self._steps:
            steps.remove()
        self._activations.close()
        if self._root is not None:
            self._root.remove()
        if self._scaler_step is not None:
            self._scaler.__dict__.pop("step", None)
        self._calls.clear()
        try:
            self.late.finish()
        finally:
            if _watched.get(inner(self._model)) is not None and self._open:
                _watched.pop(inner(self._model), None)
            self._say_epochs()
            self.end()

    def __enter__(self) -> Watch:
        self._entered = block_of(self)
        return self

    def _leave(self, *exc: object) -> None:
        try:
            self.close()
        except Exception:
            raise
        except BaseException:  # an interrupt
            self.close()
            raise

    def _over(self, block: Any) -> None:
        if block in (self._entered, self.__dict__.get("_block")):  # the latter: an interrupt came before it was entered
            self.close()

    __exit__: Any = Exit(_leave, _over)

    def as_trainer_callback(self) -> Any:
        """A callback for `transformers.Trainer`: `Trainer(..., callbacks=[rf.watch(model).as_trainer_callback()])`.

        Raises:
            ImportError: Without transformers.
        """
        from rfnb.interop.watch.callbacks import trainer_callback

        return trainer_callback(self)

    def as_lightning_callback(self) -> Any:
        """A callback for Lightning: `Trainer(callbacks=[rf.watch(model).as_lightning_callback()])`.

        Raises:
            ImportError: Without lightning, or pytorch_lightning.
        """
        from rfnb.interop.watch.callbacks import lightning_callback

        return lightning_callback(self)

    # -- observations --------------------------------------------------------------------------------------------------
    def saw_backward(self, tensors: Any) -> None:
        """Gradients of these are about to be computed."""
        given = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors or ())
        if backward_task() != -1 or len(given) != 1 or given[0].numel() != 1:
            return
        if self._root is not None and not self._pending:  # of another model
            return
        self._pending = True
        loss = given[0].detach()
        if self._scaler is not None and self._scaler.is_enabled():
            loss = (
                loss / self._scaler._scale.to(loss.device)
                if getattr(self._scaler, "_scale", None) is not None
                else loss
            )
        self._lost.append((_FOUND[0], loss))

    def saw_clip(self, parameters: Any, max_norm: float, total_norm: Any) -> None:
        """The gradients of these parameters are about to be clipped."""
        given = {id(each) for each in ([parameters] if isinstance(parameters, torch.Tensor) else list(parameters))}
        for steps in self._steps:
            if steps.ids & given:
                steps.saw_clip(max_norm, total_norm)

    def saw_loss(self, loss: Any) -> None:
        """A closure of an optimizer returned this loss."""
        self._lost.clear()  # from earlier calls of it, and its own backward call
        if isinstance(loss, (int, float)) or (isinstance(loss, torch.Tensor) and loss.numel() == 1):
            self._lost.append((_FOUND[1], loss.detach() if isinstance(loss, torch.Tensor) else loss))

    def found_loss_is_bad(self) -> bool:
        """Whether an automatically found loss of this update is NaN or infinite."""
        return any(not bool(torch.isfinite(torch.as_tensor(loss, device="cpu")).all()) for _, loss in self._lost)

    def before_update(self, steps: OptimizerSteps) -> None:
        """Gradients are computed, and the optimizer has not used them yet."""
        self.late.fetch()
        if self._looking:
            self._looking = False
            self._activations.close()
            self._keep_activations()
        if self._bad_loss is not None:
            name, self._bad_loss = self._bad_loss, None
            self._not_finite(f'the loss "{name}"', self._now(), [])

    def after_update(self, steps: OptimizerSteps) -> None:
        """The parameters are updated."""
        self.counts["updates"] = max(each.count for each in self._steps)
        step = self.counts["updates"]
        self._batches.append((step, self.counts["batches"]))
        for name, value in self._lost:
            if "loss" not in self.curves:
                self._add(name, value, step)
        self._lost.clear()
        self._calls.clear()
        self._pending = False
        self.times.step()
        if (
            isinstance(self._every, int)
            and self._example is not None
            and step % self._every == 0
            and steps is self._steps[0]
        ):
            self._run_example(str(step))
        self._look_if_due()
        self.tell()

    def bad_gradients(self, step: int, names: list[str]) -> None:
        """The gradients of these parameters are not finite."""
        self._not_finite("a gradient", step, names)

    def _called(self, forward: Forward, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of the model."""
        if self._is_training(forward.module):
            begin = time.perf_counter()
            self._pending = True
            self.counts["batches"] += 1
            if self._on_nan != "ignore" and len(self._calls) < _MOST_CALLS:
                device = self._owned[0].tensor.device.type
                self._calls.append(kept(self.counts["batches"], args, kwargs, device))
            self.times.own(time.perf_counter() - begin)
        return forward.forward(*args, **kwargs)

    @staticmethod
    def _is_training(module: torch.nn.Module) -> bool:
        return (
            module.training and torch.is_grad_enabled() and not torch.compiler.is_compiling() and backward_task() == -1
        )

    # -- beginning -----------------------------------------------------------------------------------------------------
    def _begin_calls(self) -> None:
        """Observe the calls of the model: inside DistributedDataParallel, but around a compiled module."""
        root = self._model
        while isinstance(root, torch.nn.parallel.DistributedDataParallel):
            root = root.module
        if not isinstance(inner(root), Module) and getattr(root, "_compiled_call_impl", None) is None:
            self._root = Forward(root, self._called)
            self._root.put()

    def _begin_scaler(self) -> None:
        scaler = self._scaler
        if scaler is None:
            return
        original = scaler.step

        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            own = [each for each in self._steps if each.optimizer is optimizer]
            before = [each.count for each in own]
            out = original(optimizer, *args, **kwargs)
            if own and before == [each.count for each in own]:
                self.counts["skipped"] = self.counts.get("skipped", 0) + 1
                self._calls.clear()
                self._lost.clear()
                self._pending, self._bad_loss = False, None
            return out

        self._scaler_step = scaler.__dict__["step"] = step

    def _state_facts(self) -> None:
        every = {name for steps in self._steps for name in steps.ids}
        frozen = [each.name for each in self._owned if not each.tensor.requires_grad]
        left = [each.name for each in self._owned if each.tensor.requires_grad and id(each.tensor) not in every]
        for words, names in (
            ("frozen", frozen),
            ("in no optimizer, although they need gradients", left),
            ("shared", shared_of(self._model)),
        ):
            if names:
                more = f" and {len(names) - 4} more" if len(names) > 4 else ""
                self.facts.append(f"{words}: {', '.join(names[:4])}{more}")

    # -- numbers -------------------------------------------------------------------------------------------------------
    def _now(self) -> int:
        return self.counts["updates"] + (1 if self._pending else 0)

    def _add(self, name: str, value: Any, step: int) -> None:
        if isinstance(value, Tensor):
            value = value.raw_tensor
        if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
            self.late.put([value.detach()], lambda values: self._add_number(name, float(values[0]), step))
            return
        try:
            number = float(value.item() if isinstance(value, (np.ndarray, np.generic)) else value)
        except (TypeError, ValueError):
            given = f"{type(value).__name__} {tuple(value.shape)}" if hasattr(value, "shape") else type(value).__name__
            raise type_error(
                f"watch.log: {name} is no number.",
                {name: given},
                "A curve has one number for each update.",
                f"watch.log({name}={name}.mean())",
            ) from None
        self._add_number(name, number, step)

    def _add_number(self, name: str, number: float, step: int) -> None:
        with self.lock:
            self.curve(name).add(step, number)
        if not np.isfinite(number) and "loss" in name.lower():
            self._bad_loss = name

    def _look_if_due(self) -> None:
        """Observe module outputs in the next update, if it is due."""
        if self._open and not self._looking and self._pace.due(self.counts["updates"]):
            self._looking = True
            self._check_parameters()
            self._activations.open()

    def _keep_activations(self) -> None:
        found, paths, step = dict(self._activations.found), self._activations.paths, self.counts["updates"] + 1
        self.times.own(self._activations.seconds)
        self._pace.pay(self._activations.seconds)
        self._pace.done(step - 1, self.times.seconds)
        if not found:
            return
        places = [paths.index(path) for path in found]

        def use(values: np.ndarray) -> None:
            rows = np.full((len(ACTIVATIONS), len(paths)), np.nan, np.float32)
            with np.errstate(over="ignore"):
                rows[:, places] = values.reshape(len(places), len(ACTIVATIONS)).T
            with self.lock:
                for stat, row in zip(ACTIVATIONS, rows):
                    self.table(stat, "", paths).add(step, row)

        self.late.put(list(found.values()), use)

    def _check_parameters(self) -> None:
        """Warn if the model has other parameters than the watched ones."""
        now = {id(each.tensor): each for each in parameters_of(self._model)}
        known = {id(each.tensor) for each in self._owned}
        others = [each.name for key, each in now.items() if key not in known]
        if others:
            self._warn(
                "changed",
                message(
                    "watch: the model has parameters that it did not have when the watch began.",
                    {"new": ", ".join(others[:5]) + (" ..." if len(others) > 5 else "")},
                    "They are not watched, and the optimizer may not have them: it was made for those before.",
                    "watch.close()\nwatch = rf.watch(model, torch.optim.AdamW(model.parameters()))",
                ),
            )

    def _run_example(self, label: str) -> None:
        begin = time.perf_counter()
        was = self._looking
        self._activations.close()
        trace = self._example.record() if self._example is not None else None
        if was:
            self._activations.open()
        if trace is not None:
            with self.lock:
                self.examples = fewer([*self.examples, ExampleRecording(label, self.counts["updates"], trace)])
        self.times.own(time.perf_counter() - begin)

    def _say_epochs(self) -> None:
        if self._example is not None and self._every == "epoch" and not self._epoch and self.counts["updates"]:
            self.says.append(
                (
                    self.counts["updates"],
                    "the example was run before the training only: call watch.epoch() at the end of an epoch",
                )
            )

    def _warn(self, key: str, text: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            warn_user(text)

    # -- not finite ----------------------------------------------------------------------------------------------------
    def _not_finite(self, what: str, step: int, names: list[str]) -> None:
        """Report a NaN or infinite value with its origin, and stop if requested."""
        if self._on_nan == "ignore" or "nan" in self._warned:
            return
        late = self.counts["updates"] >= step
        again = do_again(self._model, self._calls) if self._calls and not late else None
        error = NotFinite(
            model=self._model,
            what=what,
            step=step,
            epoch=self._epoch,
            names=names,
            late=late,
            again=again,
            calls=self._calls,
            counts={**self.counts, "batches": dict(self._batches).get(step, self.counts["batches"])},
            owned=[each.name for steps in self._steps for each in steps.owned],
            looked=list(self._activations.found),
            tables=self.tables,
            loss_is_bad=self.found_loss_is_bad,
        ).error()
        self.failed = again.trace if again is not None and again.found is not None else None
        self.says.append((step, str(error).splitlines()[0].removeprefix("watch: ")))
        if self._on_nan == "warn":
            self._warn("nan", str(error))
            return
        self._warned.add("nan")
        self.close()
        raise error


def _check_options(every: Any, on_nan: Any, activations: Any, updates: Any) -> None:
    if every != "epoch" and (isinstance(every, bool) or not isinstance(every, int) or every < 1):
        raise value_error(
            "watch: every is no schedule.",
            {"every": repr(every)},
            'The example runs after each "epoch", or after this number of updates.',
            "rf.watch(model, optimizer, example=batch, every=100)",
        )
    if on_nan not in _CHOICES:
        raise value_error(
            "watch: on_nan is none of the choices.",
            {"on_nan": repr(on_nan), "choices": ", ".join(map(repr, _CHOICES))},
            "It determines what happens if a value is NaN or infinite.",
            'rf.watch(model, optimizer, on_nan="warn")',
        )
    for name, value in (("activations", activations), ("updates", updates)):
        if value is not None and (not isinstance(value, int) or value < 0):
            raise value_error(
                f"watch: {name} is no number of updates.",
                {name: repr(value)},
                "It is the number of updates between two measurements; False: none.",
                f"rf.watch(model, optimizer, {name}=10)",
            )
