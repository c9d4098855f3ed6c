"""Lets the next step be watched also where the recorded one has given a program, and compares what that gives with what is computed.

As a plugin, `pytest -p first_step_checked`, it does so in every recorded loop.
"""

import numpy as np

from rfnb.rec.stretch import Stretch, _carried, _WatchedStep

compared = [0]


def install(set_attribute):
    """Begin; `set_attribute(of, name, value)` sets what is set back later."""
    begin_with, commit, run = Stretch._begin_with, _WatchedStep.commit, _WatchedStep.run

    def begin_and_keep(self, first, kind, step):
        begin_with(self, first, kind, step)
        self.kept = self._programs.pop(kind, None)

    def run_and_keep(self, registers, dims):
        run(self, registers, dims)
        self.given_then = {register: registers[register]._raw for register in self._given}

    def commit_and_compare(self, step, active):
        before = {path: value._raw for path, value in self._before.items()}
        stacked = [output.values[-1]._raw for output in self._of.stacked]
        made = commit(self, step, active)
        kept, self._of.kept = getattr(self._of, "kept", None), None
        if kept is None or self._now.key != kept._key or self.kind != (False, False):
            return made
        values = [[] for _ in stacked]
        row = [self.given_then[register] for register in kept._given]
        raws = kept.program.run([row], [one.append for one in values], *(before[path] for path in kept._guards))
        after = _carried(step, self._of.lasts)
        found = [*raws, *(one for (one,) in values)]
        expected = [*(after[path]._raw for path in kept._guards), *stacked]
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and a.requires_grad == b.requires_grad
            assert np.array_equal(a.detach().float().cpu().numpy(), b.detach().float().cpu().numpy(), equal_nan=True)
        assert made is None or str(made.program.listing).count("\n") <= str(kept.program.listing).count("\n") + 20
        compared[0] += 1
        return made

    set_attribute(Stretch, "_begin_with", begin_and_keep)
    set_attribute(_WatchedStep, "run", run_and_keep)
    set_attribute(_WatchedStep, "commit", commit_and_compare)


def pytest_configure(config):
    install(setattr)


def pytest_collection_modifyitems(items):
    """Skip tests that count traced steps: they would count those of this plugin."""
    items[:] = [item for item in items if item.path.name != "test_first_step.py"]


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"{compared[0]} programs of recorded steps compared")
