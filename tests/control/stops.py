"""Reports where a run pauses by itself, and why."""

from __future__ import annotations

from typing import Any

import rfnb as rf

PATIENCE = 60.0
"""seconds: how long a test waits for a thread that is at work"""


def stops(run: Any) -> list[tuple[int, str]]:
    """Let it go on to its end; (step, reason) of each pause."""
    found = []
    while True:
        run.resume()
        assert run.wait(PATIENCE)
        if run.state != "paused":
            assert run.state == "done", run.result
            return found
        found.append((run.at.step, run.reason))


def steps_with(fn: Any, condition: Any, **options: Any) -> list[tuple[int, str]]:
    """The same of a new run with one breakpoint, without the "breakpoint" in front."""
    run = rf.run(fn, paused=True)
    assert run.wait(PATIENCE)
    run.break_when(condition, **options)
    return [(step, reason.removeprefix("breakpoint ")) for step, reason in stops(run)]
