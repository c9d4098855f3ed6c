"""Random programs of commands against held runs: edits, branches, looks, breakpoints, speeds, stops, from one thread or two. Each run
and each branch gives what a plain computation with the same edits gives, bit for bit."""

import copy
import random
import threading

import numpy as np
import pytest
from asserting import ragged, randn
from control.watched_threads import is_gone, result_of, stands
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim

BATCH, FEAT = Dim(3, name="batch"), Dim(4, name="feat")
LENGTHS = [7, 4, 2]
TIME = ragged(LENGTHS, BATCH, "time")
X = randn(BATCH, TIME, FEAT)
PLAIN_X = X.copy_transpose([BATCH, TIME, FEAT]).numpy()
HALF = np.float32(0.5)


def program(face):
    """States h {batch, feat} and deep.n {batch}: n = n / 2 + 1, h = h / 2 + x + n."""

    def cell(x, h, n):
        n = n * 0.5 + 1.0
        return h * 0.5 + x + n, n

    def go():
        h, n = rf.zeros([BATCH, FEAT]), rf.zeros([BATCH])
        if face == "scan":
            return rf.scan(
                spatial_dim=TIME, initial={"h": h, "n": n}, xs=X,
                body=lambda x, s: (None, dict(zip("hn", cell(x, s["h"], s["n"])))),
            )[1]["h"]  # fmt: skip
        loop = rf.Loop(axis=TIME, name="loop")
        loop.state.h, loop.state.deep = h, {"n": n}

        def body():
            loop.state.h, n = cell(loop.unstack(X), loop.state.h, loop.state.deep["n"])
            loop.state.deep = {"n": n}

        run_steps(loop, face, body)
        return loop.state.h

    return go


def plain(edits, until=7):
    """The states after so many steps, with edits by step: (state, what changes an array in place)."""
    states = {"h": np.zeros((3, 4), np.float32), "n": np.zeros(3, np.float32)}
    for step in range(until):
        for name, edit in edits.get(step, ()):
            edit(states[name])
        for seq in range(3):
            if step < LENGTHS[seq]:
                states["n"][seq] = states["n"][seq] * HALF + np.float32(1)
                states["h"][seq] = states["h"][seq] * HALF + PLAIN_X[seq, step] + states["n"][seq]
    return states


class Program:
    """One program of commands.

    Attributes:
        edits: Of each run, step -> what was done before it.
    """

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.face = self.rng.choice(["for", "with", "scan"])
        self.run = rf.run(program(self.face), paused=True, record=self.rng.random() < 0.5, name=f"program {seed}")
        self.edits = {self.run: {}}
        self.refused = 0
        self.in_thread = self.rng.random() < 0.3

    def go(self):
        stands(self.run)
        for _ in range(self.rng.randint(3, 9)):
            command = getattr(self, self.rng.choice([name for name in dir(self) if name.startswith("do_")]))
            if self.in_thread and self.rng.random() < 0.5:
                failed = []
                thread = threading.Thread(target=self._alone, args=(command, failed))
                thread.start()
                thread.join()
                if failed:
                    raise failed[0]
            else:
                command()
        for run, edits in list(self.edits.items()):
            self.ends(run, edits)

    def _alone(self, command, failed):
        try:
            command()
        except BaseException as error:
            failed.append(error)

    def ends(self, run, edits):
        if run.state != "stopped":
            np.testing.assert_array_equal(result_of(run).numpy(), plain(edits)["h"])
            assert len(run.steps) == 7 and run.drifted is None
        assert len(run.changes) == sum(map(len, edits.values())), (run.changes, edits)
        for step in {0, len(run.steps) - 1}:
            before = {at: done for at, done in edits.items() if at < step}
            looked = run.look(step)
            np.testing.assert_array_equal(looked["h"].numpy(), plain(before, step)["h"])
            np.testing.assert_array_equal(looked["n"].numpy(), plain(before, step)["n"])
        assert is_gone(run)

    def edit(self):
        """A random edit: what it is of a run that stands, and the same of arrays."""
        rng, name = self.rng, self.rng.choice("hn")
        seqs = rng.choice([[0], [1], [2], [0, 2], [0, 1, 2]])
        at, index = {"batch": seqs}, [seqs]
        if name == "h":
            feats = slice(*sorted(rng.sample(range(5), 2)))
            if rng.random() < 0.5:
                at["feat"] = feats
            index = [seqs, list(range(4))[at.get("feat", slice(None))]]
        places = np.ix_(*index)
        how = rng.choice(["set", "array", "scale", "noise", "paste"])
        number, seed = float(rng.randint(-50, 50)) / 8, rng.randint(0, 9)
        if how == "paste":
            of, to = rng.sample(range(3), 2)

            def pasted(array):
                array[to] = array[of]

            return name, lambda state: state.paste(of={"batch": of}, to={"batch": to}), pasted
        if how == "scale":

            def scaled(array):
                array[places] = (array[places].astype(np.float64) * number).astype(np.float32)

            return name, lambda state: state.scale(number, at), scaled
        if how == "noise":

            def noisy(array):
                chosen = array[places].astype(np.float64)
                noise = abs(number) * np.random.default_rng(seed).standard_normal(chosen.shape)
                array[places] = (chosen + noise).astype(np.float32)

            return name, lambda state: state.add_noise(abs(number), at, seed=seed), noisy
        values = number
        if how == "array":
            values = (
                np.random.default_rng(seed).standard_normal([len(places_of) for places_of in index]).astype("float32")
            )

        def put(array):
            array[places] = values

        def change(state):
            given = values.copy() if how == "array" else values
            state[at] = given
            if how == "array":
                given[...] = 99.0  # who gave it may go on changing it

        return name, change, put

    # -- commands ----------------------------------------------------------------------------------------------------------

    def do_step(self):
        if self.run.state == "paused":
            self.run.step(self.rng.randint(1, 3))

    do_step_too = do_step

    def do_edit(self):
        if self.run.state != "paused":
            return
        at = self.run.at
        for _ in range(self.rng.randint(1, 2)):
            name, change, array = self.edit()
            change(at.states[name])
            self.edits[self.run].setdefault(at.step, []).append((name, array))
            now = plain({step: done for step, done in self.edits[self.run].items() if step < at.step}, at.step)
            for of, done in self.edits[self.run][at.step]:
                done(now[of])
            np.testing.assert_array_equal(at.states["h"].numpy(), now["h"])
            np.testing.assert_array_equal(at.states["n"].numpy(), now["n"])

    do_edit_too = do_edit
    do_edit_again = do_edit

    def do_edit_what_does_not_fit(self):
        if self.run.state == "paused":
            before = self.run.changes
            h = self.run.at.states["h"]
            for entries, value in [
                ({"batch": 3}, 0.0),
                ({"no": 0}, 0.0),
                ({"batch": 0}, [1.0] * 3),
                (..., "a"),
                (..., None),
            ]:
                with pytest.raises((ValueError, IndexError, TypeError)):
                    h[entries] = value
            assert self.run.changes == before

    def do_break(self):
        if self.run.state == "paused":
            here = self.run.at.step
            if here < 6:
                step = self.rng.randint(here + 1, 6)
                self.run.break_when(step, once=True)
                self.run.resume()
                stands(self.run)
                assert self.run.at.step == step and self.run.reason == f"breakpoint step {step}"

    def do_branch(self):
        steps = len(self.run.steps)
        step = self.rng.randrange(steps)
        edits = {at: list(done) for at, done in self.edits[self.run].items() if at < step}
        if self.rng.random() < 0.5:
            name, change, array = self.edit()
            branch = self.run.from_step(step, lambda at: change(at.states[name]))
            edits[step] = [(name, array)]
        else:
            branch = self.run.from_step(step)
            stands(branch)
            assert branch.at.step == step and branch.reason == f"here it branches from {self.run.name}"
        self.edits[branch] = edits
        if branch.state == "paused" and self.rng.random() < 0.7:
            self.run = branch  # the other one goes on in the end

    def do_speed(self):
        self.run.speed = self.rng.choice([0, 1e4])

    def do_stop(self):
        if self.rng.random() < 0.2:
            self.run.stop()
            assert self.run.state in ("stopped", "done") and is_gone(self.run)

    def do_after_the_end(self):
        if self.run.state in ("done", "stopped"):
            for command in (self.run.step, self.run.resume, lambda: self.run.at, lambda: self.run.break_when(1)):
                with pytest.raises(RuntimeError):
                    command()
            self.run.pause()
            self.run.stop()

    def do_tree(self):
        tree = copy.deepcopy(self.run.tree())
        assert set(tree) >= {self.run.name} and len(tree) == len(self.run.tree())

    def do_use_a_place_that_was_left(self):
        if self.run.state == "paused":
            at = self.run.at
            h = at.states["h"]
            self.run.step()
            with pytest.raises(RuntimeError, match="it has continued from here"):
                h[...] = 0.0


@pytest.mark.parametrize("block", range(16))
def test_what_programs_of_commands_do_is_what_plain_computations_do(block):
    for seed in range(block * 32, block * 32 + 32):
        Program(seed).go()
