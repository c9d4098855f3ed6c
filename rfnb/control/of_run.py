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


class OfPosition(NotPicklable):
    """The base of what is looked at and changed where a run stands."""

    _not_pickled = (
        "What is looked at where a run stands",
        "It is changed there and nowhere else. Its values are a Tensor, or an array:",
        'run.at.states["h"].tensor',
    )
