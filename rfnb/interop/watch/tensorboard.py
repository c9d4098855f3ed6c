"""Event files of TensorBoard, written by its own package, from what a training is seen to do."""

from __future__ import annotations

import math
from importlib.util import find_spec
from os import PathLike, fspath
from typing import Any

from rfnb.core.errors import message
from rfnb.core.place import warn_user
from rfnb.trace.training import NORMS, Training
from rfnb.trace.training_journal import News


def event_files() -> type[EventFiles]:
    """The class that writes them.

    Raises:
        ImportError: Without the package tensorboard.
    """
    if find_spec("tensorboard") is None:
        raise ImportError(
            message(
                "watch: event files of TensorBoard cannot be written.",
                [("package", "tensorboard is not installed")],
                "Its own package writes them. Without it a file of rfnb grows with the training in the same way:",
                'pip install tensorboard    # or: rf.watch(model, optimizer, save="training.rfnb")',
            )
        )
    return EventFiles


class EventFiles:
    """The event files of a training in a folder: each curve, and each number of each module, as a scalar over the updates."""

    def __init__(self, training: Training, folder: str | PathLike[str]):
        from torch.utils.tensorboard import SummaryWriter

        self._training, self._news = training, News(training, finished=True)
        self._writer: Any = SummaryWriter(fspath(folder), flush_secs=10)
        training.subscribe(self.write)
        training.on_close(self.close)

    def write(self, _: Any = None) -> None:
        """Write what has come."""
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
                f"watch: the training goes on without event files of TensorBoard. {type(error).__name__}: {error}"
            )

    def close(self, _: Any = None) -> None:
        """The training is over."""
        self.write()
        self._writer.close()
