"""The base of what belongs to a run: that is a thread of this process, and neither pickled nor copied."""

from __future__ import annotations

from rfnb.core.pickling import NotPicklable


class OfRun(NotPicklable):
    """The base of what belongs to a run."""

    _not_pickled = (
        "A run",
        "It is a thread of this process. What is kept of it is its trace, and those of its branches:",
        'run.save("run.rfnb")',
    )
