"""The requests to a device in a block, with the lines that made them; for the simulated and for a real device."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[1])
_WATCHERS = {"simulated.py", "real_device.py"}


@dataclasses.dataclass
class Event:
    """What the device was asked: "read", "to host", "to device", or "wait" of a real one, which tells no more; by which op; whether
    the host waited; at which lines."""

    kind: str
    op: str
    waits: bool
    place: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.op} at {self.place}"


class Seen(list[Event]):
    """The events of a block."""

    @property
    def waits(self) -> list[str]:
        """The events for which the host waited."""
        return [str(event) for event in self if event.waits]

    @property
    def moved(self) -> list[str]:
        """Copies from one device to the other; of a real device all waits, since a copy is one of them."""
        return [str(event) for event in self if event.kind != "read"]


def place() -> str:
    """The lines of the repository that this thread is executing, the innermost first."""
    lines = []
    frame = sys._getframe(1)
    while frame is not None and len(lines) < 5:
        name = frame.f_code.co_filename
        ours = name.startswith(_ROOT) and "site-packages" not in name and name != __file__
        if ours and Path(name).name not in _WATCHERS:
            lines.append(f"{name.removeprefix(_ROOT + '/')}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(lines) or "a thread of torch"
