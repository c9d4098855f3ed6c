"""Integrations of a watch: callbacks for other training loops, by their documented hooks, and event files for TensorBoard.
These packages are imported only here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from os import PathLike, fspath
from typing import Any

from rfnb.core.errors import message
from rfnb.core.place import warn_user
from rfnb.trace.training import NORMS, Training
from rfnb.trace.training_journal import News

_LEFT_OUT = ("epoch", "total_flos", "step")  # entries in the logs of transformers that are not metrics


def trainer_callback(watch: Any) -> Any:
    """A `transformers.TrainerCallback`.

    Raises:
        ImportError: Without transformers.
    """
    base = _base(("transformers",), "TrainerCallback", "as_trainer_callback")

    class TrainerWatch(base):  # type: ignore[misc, valid-type]
        """Watches a training of `transformers.Trainer`."""

        def on_train_begin(self, args: Any, state: Any, control: Any, optimizer: Any = None, **kwargs: Any) -> None:
            watch.begin(optimizer)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            _log(watch, logs)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            watch.epoch()

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            watch.close()

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
            _log(watch, metrics)

    return TrainerWatch()


def lightning_callback(watch: Any) -> Any:
    """A `lightning.pytorch.Callback`.

    Raises:
        ImportError: Without lightning, or pytorch_lightning.
    """
    base = _base(("lightning.pytorch", "pytorch_lightning"), "Callback", "as_lightning_callback")

    class LightningWatch(base):  # type: ignore[misc, valid-type]
        """Watches a training of Lightning."""

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            watch.begin(list(trainer.optimizers))

        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
            if loss is not None and getattr(loss, "ndim", 0) == 0:
                watch.log(
                    loss=loss * getattr(trainer, "accumulate_grad_batches", 1)
                )  # trainers report it divided by that

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            watch.epoch()

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            if not getattr(trainer, "sanity_checking", False):
                _log(watch, trainer.callback_metrics)

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            watch.close()

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            watch.close()

    return LightningWatch()


def _base(packages: tuple[str, ...], name: str, method: str) -> Any:
    for package in packages:
        try:
            return getattr(import_module(package), name)
        except ImportError:
            continue
    raise ImportError(
        message(
            f"watch.{method}: {packages[0].partition('.')[0]} is not installed.",
            {"looked for": ", ".join(f"{package}.{name}" for package in packages)},
            "The callback is based on it. Your own training loop needs no callback:",
            "with rf.watch(model, optimizer) as watch: ...",
        )
    )


def _log(watch: Any, logs: Any) -> None:
    """Log the numeric values."""
    numbers = {
        str(name): value
        for name, value in (logs or {}).items()
        if name not in _LEFT_OUT and not str(name).endswith(("_runtime", "_per_second"))
        and (isinstance(value, (int, float)) or getattr(value, "ndim", None) == 0)
    }  # fmt: skip
    if numbers:
        watch.log(**numbers)


def event_files() -> type[EventFiles]:
    """The class that writes event files.

    Raises:
        ImportError: Without the package tensorboard.
    """
    if find_spec("tensorboard") is None:
        raise ImportError(
            message(
                "watch: event files of TensorBoard cannot be written.",
                {"package": "tensorboard is not installed"},
                "Its own package writes them. Without it a file of rfnb grows with the training in the same way:",
                'pip install tensorboard    # or: rf.watch(model, optimizer, save="training.rfnb")',
            )
        )
    return EventFiles


class EventFiles:
    """The event files of a training in a folder: each curve, and each statistic of each module, as a scalar over the updates."""

    def __init__(self, training: Training, folder: str | PathLike[str]):
        from torch.utils.tensorboard import SummaryWriter

        self._training, self._news = training, News(training, finished=True)
        self._writer: Any = SummaryWriter(fspath(folder), flush_secs=10)
        training.subscribe(self.write)
        training.on_close(self.close)

    def write(self, _: Any = None) -> None:
        """Write new values."""
        with self._training.lock:
            news, _ = self._news.take()
        try:
            for name, points in news.get("curves", ()):
                for step, value in points:
                    self._writer.add_scalar(name, value, step)
            for stat, optimizer, columns, rows in news.get("tables", ()):
                group = f"{stat} ({optimizer})" if optimizer else stat
                for step, row in rows:
                    for path, value in zip(columns, row.tolist()):
                        if not (math.isnan(value) or (stat in NORMS and value < 0)):
                            self._writer.add_scalar(f"{group}/{path or 'model'}", value, step)
        except OSError as error:
            self._training._subscribers.remove(self.write)
            warn_user(
                f"watch: the training continues without event files for TensorBoard. {type(error).__name__}: {error}"
            )

    def close(self, _: Any = None) -> None:
        """Handle the end of the training."""
        self.write()
        self._writer.close()
