"""A run is held at its steps, and what it gives does not depend on how."""

import asyncio
import queue
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from asserting import assert_same
from control.held_models import BATCH, FEAT, NUM_STEPS, STATE, plain_sums, sums
from hypothesis import given, settings
from hypothesis import strategies as st
from waiting import LONG

import rfnb as rf

AT_ONCE = 0.0  # it is over already, or it is not
FACES = ["for", "with", "scan"]


@pytest.mark.parametrize("face", FACES)
def test_a_paused_run_makes_as_many_steps_as_it_is_told(face):
    expected = sums(face)()
    run = rf.run(sums(face), paused=True)
    assert run.wait(LONG)
    assert run.state == "paused" and run.at.step == 0
    run.step(3)
    assert run.at.step == 3 and run.reason == "3 steps were made"
    run.step()
    assert run.at.step == 4 and len(run.steps) == 5
    run.resume()
    for value, same in zip(run.result, expected):
        assert_same(value, same)
    assert run.state == "done"


def test_where_it_was_told_to_pause_is_waited_for():
    run = rf.run(sums("for"), paused=True)
    assert run.at.step == 0  # its thread may not have come so far yet
    run.stop()


@settings(max_examples=25, deadline=None)
@given(
    face=st.sampled_from(FACES),
    schedule=st.lists(st.sampled_from(["pause", "step", "step 2", "resume", "look", "again"]), max_size=12),
)
def test_no_schedule_changes_a_result(face, schedule):
    expected = sums(face)()
    run = rf.run(sums(face), paused="pause" in schedule[:1])
    for what in schedule:
        if run.state in ("done", "failed"):
            break
        try:
            if what == "pause":
                run.pause()
            elif what.startswith("step"):
                run.step(int(what[5:] or 1))
            elif what == "resume":
                run.resume()
            elif what == "look":
                run.pause()
                run.at.states[STATE[face]].numpy()
            else:
                run.pause()
                run = run.from_step(run.at.step)
                run.wait()
        except RuntimeError as error:
            assert run.state == "done", error  # it was over in between
    if run.state in ("paused", "running"):
        run.pause()
    if run.state == "paused":
        run.resume()
    for value, same in zip(run.result, expected):
        np.testing.assert_array_equal(value.numpy(), same.copy_transpose(value.dims).numpy())


@settings(max_examples=25, deadline=None)
@given(
    face=st.sampled_from(FACES),
    edits=st.dictionaries(st.integers(0, NUM_STEPS - 1), st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=3),
)
def test_an_edit_gives_what_a_run_with_that_value_gives(face, edits):
    run = rf.run(sums(face), paused=True)
    for step, (seq, feat) in sorted(edits.items()):
        run.wait()
        if step > run.at.step:
            run.step(step - run.at.step)
        run.at.states[STATE[face]][{"batch": seq, "feat": feat}] = 3.5
    run.pause()
    run.resume()

    def put(seq, feat):
        return lambda h: h.__setitem__((seq, feat), 3.5)

    expected = plain_sums({step: put(*at) for step, at in edits.items()})
    np.testing.assert_allclose(run.result[1].numpy(), expected, rtol=1e-6, atol=1e-6)
    again = run.from_step(NUM_STEPS - 1)  # with what was changed before that step, and not what was changed there
    again.wait()
    assert again.drifted is None
    again.resume()
    expected = plain_sums({step: put(*at) for step, at in edits.items() if step < NUM_STEPS - 1})
    np.testing.assert_allclose(again.result[1].numpy(), expected, rtol=1e-6, atol=1e-6)


def test_the_error_of_a_run_is_raised_where_its_result_is_asked_for():
    def fails():
        loop = rf.Loop(max_seq_len=5)
        for step in loop:
            if step == 2:
                raise ZeroDivisionError("in the run")
            loop.end(rf.constant(False, dims=[], dtype="bool"), include_eos=True)

    run = rf.run(fails)
    for _ in range(2):  # as often as it is asked for
        with pytest.raises(ZeroDivisionError, match="in the run") as error:
            _ = run.result
        assert error.traceback[-1].name == "fails"
    assert run.state == "failed"


def test_a_stopped_run_has_no_result_and_goes_on_as_a_branch():
    run = rf.run(sums(), paused=True)
    run.wait()
    run.step(2)
    run.stop()
    assert run.state == "stopped"
    with pytest.raises(RuntimeError) as error:
        _ = run.result
    assert str(error.value) == (
        f"{run.name}: it was stopped after 3 steps, and has no result.\n"
        "Another run can continue from one of its steps:\n    branch = run.from_step(2)"
    )
    branch = run.from_step(2, paused=False)
    assert_same(branch.result[1], sums()()[1])


def test_a_cell_may_wait_for_a_run_without_blocking_the_kernel():
    async def cell():
        run = rf.run(sums())
        return await run

    assert_same(asyncio.run(cell())[1], sums()()[1])


@pytest.mark.parametrize("how", ["cancel", "wait_for"])
def test_who_stops_awaiting_a_run_leaves_it_going(how):
    made = []

    async def cell():
        run = rf.run(sums(), paused=True)
        made.append(run)
        await run

    async def main():
        task = asyncio.ensure_future(cell())
        while not made or made[0].state != "paused":
            await asyncio.sleep(0)
        if how == "wait_for":
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(made[0], 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (made[0].state, made[0].at.step) == ("paused", 0)
        made[0].resume()
        return await made[0]

    assert_same(asyncio.run(main())[1], sums()()[1])


def test_a_run_has_the_modes_of_the_cell():
    def inside():
        return rf.get_default_float_dtype(), rf.zeros([]).dtype, rf.get_run_ctx().train_flag

    with rf.set_default_float_dtype_ctx("float64"):
        rf.init_train_step_run_ctx(train_flag=True)
        run = rf.run(inside)
    assert run.result == ("float64", "float64", True)
    rf.init_forward_step_run_ctx()


def test_a_run_is_heard_by_a_recording_around_it():
    with rf.record() as trace:
        assert rf.run(sums()).result is not None
    assert len(trace.select(kind="states")) == NUM_STEPS


def test_a_run_records_itself_as_a_recording_around_the_function_would():
    with rf.record() as expected:
        sums()()
    run = rf.run(sums(), paused=True)
    run.step(2)
    assert not run.trace.closed and [event.step for event in run.trace.select(kind="states")] == [0, 1]
    run.resume()
    assert run.result is not None and run.trace.closed
    assert run.trace.counts() == expected.counts() and run.trace.paths == expected.paths
    assert_same(run.trace.states["sums"]["h"], expected.states["sums"]["h"])
    branch = run.from_step(3, paused=False)
    assert branch.result is not None and branch.trace.counts() == run.trace.counts()


def test_what_a_run_records_can_be_chosen():
    assert rf.run(sums(), record=False).trace is None
    chosen = rf.run(sums(), record={"steps": range(2, 4)})
    assert chosen.result is not None
    assert [event.step for event in chosen.trace.select(kind="states")] == [2, 3]
    with pytest.raises(TypeError) as error:
        rf.run(sums(), record={"kind": "beams"})
    assert str(error.value) == (
        "run: invalid value of record.\n"
        "  record   ['kind']\n"
        "  options  kinds, path, steps, limit, model, ops, values, dims, labels, why, attention, graph\n"
        "record is True, False, or a dict of options of rf.record.\n"
        '    rf.run(fn, record={"kinds": "beams"})'
    )
    with pytest.raises(ValueError, match="record: the limit is not a number of bytes."):
        rf.run(sums(), record={"limit": -1})


def test_two_runs_at_once_record_themselves_only():
    one, other = rf.run(sums(), paused=True), rf.run(sums("with"), paused=True)
    one.step(2)
    other.step(3)
    assert [len(run.trace.select(kind="states")) for run in (one, other)] == [2, 3]


def test_a_while_loop_is_held_too():
    def halve():
        return rf.while_loop(lambda x: rf.reduce_max(x, axis=x.dims) > 1.0, lambda x: x * 0.5, rf.ones([FEAT]) * 40.0)

    run = rf.run(halve, paused=True)
    run.wait()
    run.step(2)
    assert run.at.states["state"].max() == 10.0 and run.at.path == "while_loop"
    with pytest.raises(rf.DimError):
        run.at.states["state"] = rf.ones([BATCH])
    run.at.states["state"][...] = 3.0
    run.resume()
    assert run.result.numpy().tolist() == [0.75] * 5


def test_two_runs_at_once_keep_apart():
    one, other = rf.run(sums(), paused=True), rf.run(sums("with"), paused=True)
    one.wait()
    other.wait()
    one.step(2)
    other.step(3)
    one.at.states["h"][...] = 1.0
    assert (one.at.step, other.at.step) == (2, 3)
    other.resume()
    assert_same(other.result[1], sums()()[1])
    one.resume()
    np.testing.assert_allclose(one.result[1].numpy(), plain_sums({2: lambda h: h.fill(1.0)}), rtol=1e-6)


def test_a_loop_of_ones_own_waits_where_it_calls_gate():
    seen = []

    def train():
        for step in range(4):
            rf.gate(step, loss=rf.constant(float(step), dims=[]))
            seen.append(step)
        return len(seen)

    run = rf.run(train, paused=True)
    run.wait()
    run.step(2)
    assert seen == [0, 1] and float(run.at.values["loss"]) == 2.0
    with pytest.raises(ValueError) as error:
        run.at.states["loss"][...] = 0.0
    assert 'run: "loss" cannot be changed here.' in str(error.value)
    run.resume()
    assert run.result == 4
    rf.gate(0)  # without a run, nothing


def test_commands_from_many_threads_lose_no_step():
    """A race of commands against a running loop: the result is as without, and nothing hangs."""
    expected = sums()()[1]
    for _ in range(5):
        run = rf.run(sums())

        def command(number, run=run):
            for _ in range(20):
                try:
                    [run.pause, run.step, run.resume][number % 3]()
                except RuntimeError:
                    return  # it is over
                number = number * 7 + 1

        threads = [threading.Thread(target=command, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LONG)
        while run.state != "done":
            try:
                run.pause().resume()
            except RuntimeError:
                pass  # it is over
        assert_same(run.result[1], expected)


class OldKernel:
    """A kernel that hears nothing while a cell runs: its messages wait in a queue."""

    def __init__(self, *messages):
        self.heard, self.waiting = [], list(messages)
        self.msg_queue, self.shell_stream, self.session = queue.Queue(), self, self
        self.shell_handlers = {"comm_msg": lambda stream, idents, message: self.heard.append(message)}

    def flush(self):
        while self.waiting:
            self.msg_queue.put_nowait((0, None, ([self.waiting.pop(0)],)))

    def feed_identities(self, frames, copy):
        return [], [None, SimpleNamespace(bytes=frames[0]), frames[0]]

    def unpack(self, data):
        return {"msg_type": data.split()[0]}

    def deserialize(self, parts, content, copy):
        return parts[2]


def test_a_cell_that_polls_hears_pages_in_an_old_kernel_and_leaves_all_else_in_its_order(monkeypatch):
    kernel = OldKernel("execute_request a", "comm_msg one", "execute_request b", "comm_msg two")
    monkeypatch.setattr("rfnb.control.poll._kernel", lambda: kernel)
    run = rf.run(sums(), paused=True)
    run.wait(LONG)
    kernel.shell_handlers["comm_msg"] = lambda *message: (kernel.heard.append(message[-1]), run._gate.go())
    assert run.wait(LONG, poll=True) and run.state == "done"
    assert kernel.heard == ["comm_msg one", "comm_msg two"]
    assert [kernel.msg_queue.get_nowait()[2][0] for _ in range(2)] == [["execute_request a"], ["execute_request b"]]
    assert kernel.msg_queue.empty()


def test_a_cell_that_polls_waits_until_the_run_is_over_or_as_long_as_it_is_told(monkeypatch):
    run = rf.run(sums(), paused=True)
    assert not run.wait(AT_ONCE, poll=True)
    monkeypatch.setattr("rfnb.control.poll._kernel", OldKernel)
    assert not run.wait(AT_ONCE, poll=True)
    run.resume()
    assert run.wait(LONG, poll=True) and run.state == "done"
