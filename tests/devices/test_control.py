"""A run that is held on a device: random numbers, edits, labels, attention and conditions as on the CPU, and few waits."""

import threading

import numpy as np
import pytest
import torch
from control.noisy_models import KINDS, noisy, same
from control.test_forced_labels import search
from control.watched_threads import result_of, stands
from devices.programs import BATCH, MODEL, PROGRAMS, TIME, frames
from simulated import NAME, watched

import rfnb as rf
from rfnb.control.conditions import any_different, any_not_finite
from rfnb.control.live_runs import stop_all


@pytest.fixture(autouse=True)
def no_run_is_left():
    yield
    stop_all()


@pytest.fixture
def on_device():
    with rf.set_default_device_ctx(NAME):
        yield


def sums(device, *, far=False):
    """A running sum over frames; `far`: one that is infinite from step 3 on."""
    with rf.set_default_device_ctx(device):
        x = frames()

    def run():
        loop = rf.Loop(axis=TIME, name="sums")
        loop.state.h = rf.zeros([BATCH, MODEL], device=device)
        for step in loop:
            loop.state.h = loop.state.h * 0.5 + loop.unstack(x)
            if far and step == 2:
                loop.state.h = loop.state.h + float("inf")
            rf.probe("own", h=loop.state.h)
        return loop.state.h

    return run


def test_a_run_works_on_the_device_and_stream_of_who_started_it(monkeypatch):
    """Both are those of a thread: "cuda" would be the first GPU in a new one."""
    here = threading.local()
    monkeypatch.setattr(torch.accelerator, "current_stream", lambda: getattr(here, "stream", 0))
    monkeypatch.setattr(torch.accelerator, "set_stream", lambda stream: setattr(here, "stream", stream))
    here.stream = 7
    run = rf.run(lambda: torch.accelerator.current_stream(), record=False)
    here.stream = 8
    assert result_of(run) == 7


# -- random numbers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_draws_what_a_call_would_and_so_do_its_branches(kind, on_device):
    fn = noisy(kind)
    rf.set_random_seed(5)
    expected = fn()
    rf.set_random_seed(5)
    run = rf.run(fn, paused=True)
    for _ in range(2):
        stands(run)
        torch.rand(3, device=NAME)
        rf.random_normal([BATCH])
        run.step()
    assert same(result_of(run), expected)
    path = run.steps[0][0]
    for step in (0, 1, 3):
        branch = run.from_step(step, path=path, paused=False)
        assert same(result_of(branch), expected) and branch.drifted is None
    changed = run.from_step(1, lambda at: rf.random_normal([BATCH]), path=path, paused=False)
    assert not same(result_of(changed), expected)


def test_who_draws_after_a_branch_goes_on_as_without_it(on_device):
    run = rf.run(noisy("for"))
    result_of(run)
    state = rf.get_random_state()
    expected = rf.random_normal([BATCH]).numpy()
    rf.set_random_state(state)
    result_of(run.from_step(2, paused=False))
    np.testing.assert_array_equal(rf.random_normal([BATCH]).numpy(), expected)


# -- waits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_nobody_looks_at_waits_for_nothing_more(kind, record, on_device):
    fn = noisy(kind)
    fn()
    with watched() as plain:
        fn()
    with watched() as seen:
        result_of(rf.run(fn, record=record))
    assert len(seen.waits) <= len(plain.waits), seen.waits


def test_states_that_are_kept_stay_on_the_device(on_device):
    run = rf.run(sums(NAME))
    with watched() as seen:
        last = result_of(run)
        kept = [run.look(step)["h"].tensor for step in range(5)]
    assert seen.waits == [] and {last.device, *(h.device for h in kept)} == {f"{NAME}:0"}


def test_a_branch_is_compared_with_its_run_by_one_wait_in_each_step(on_device):
    fn = noisy("for")
    run = rf.run(fn)
    result_of(run)
    with watched() as plain:
        fn()
    with watched() as seen:
        result_of(run.from_step(4, paused=False))
    compared = [wait for wait in seen.waits if "rfnb/control/conditions.py" in wait]
    assert len(compared) == 5 and len(seen.waits) == len(plain.waits) + 5  # steps 0 to 4


def test_a_branch_that_drifts_says_so(on_device):
    count = []

    def grows():
        loop = rf.Loop(axis=TIME, name="grows")
        loop.state.h = rf.zeros([BATCH, MODEL])
        for _ in loop:
            count.append(1)
            loop.state.h = loop.state.h + float(len(count))
        return loop.state.h

    run = rf.run(grows)
    result_of(run)
    branch = run.from_step(3)
    stands(branch)
    assert branch.drifted is not None and branch.drifted.startswith('state "h" differs before step 1 of "grows"')


# -- edits -------------------------------------------------------------------------------------------------------------

HERE = {"batch": 1, "model": slice(1, 3)}
EDITS = {
    "a number": lambda h, _: h.__setitem__(..., 0.5),
    "a number in some": lambda h, _: h.__setitem__(HERE, 2.0),
    "an array": lambda h, _: h.__setitem__({"batch": 1}, np.arange(4.0)),
    "an array of torch": lambda h, _: h.__setitem__({"batch": 1}, torch.arange(4.0)),
    "an array of the device": lambda h, device: h.__setitem__({"batch": 1}, torch.arange(4.0, device=device)),
    "a tensor": lambda h, device: h.__setitem__(..., rf.ones([BATCH, MODEL], device=device)),
    "a tensor of the host": lambda h, _: h.__setitem__(..., rf.ones([BATCH, MODEL], device="cpu") * 3),
    "a tensor of the host with fewer dims": lambda h, _: h.__setitem__(HERE, rf.ones([MODEL], device="cpu") * 3),
    "scaled": lambda h, _: h.scale(0.5, HERE),
    "noise": lambda h, _: h.add_noise(0.5, {"batch": 0}, seed=3),
    "pasted": lambda h, _: h.paste(of={"batch": 1}, to={"batch": 0}),
    "pasted from the host": lambda h, _: h.paste(rf.ones([BATCH, MODEL], device="cpu"), of={"batch": 1}, to={"batch": 2}),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_gives_the_numbers_of_the_cpu_and_the_state_stays(edit):
    results = []
    for device in (NAME, "cpu"):
        run = rf.run(sums(device), paused=True)
        stands(run)
        run.step(2)
        EDITS[edit](run.at.states["h"], device)
        assert run.at.states["h"].tensor.device.partition(":")[0] == device
        before = run.at.states["h"].numpy()
        run.resume()
        last = result_of(run).numpy()
        np.testing.assert_array_equal(result_of(run.from_step(3, paused=False)).numpy(), last)
        results.append((before, last, [change.words for change in run.changes]))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-5, atol=1e-6)
    assert results[0][2] == results[1][2] != []


def test_a_number_that_is_put_in_waits_for_nothing(on_device):
    run = rf.run(sums(NAME), paused=True)
    stands(run)
    run.step(2)
    with watched() as seen:
        run.at.states["h"][HERE] = 0.0
    assert seen.waits == []


@pytest.mark.parametrize("face", ["for", "with"])
def test_labels_are_forced_banned_and_ended_as_on_the_cpu(face):
    def changed(at):
        if at.step == 1:
            at.force("b", hypothesis=1, seq=1)
        if at.step == 2:
            at.ban("c")
            at.end(1, hypothesis=0)

    results = []
    for device in (NAME, "cpu"):
        with rf.set_default_device_ctx(device):
            run = rf.run(search(face), paused=True)
            stands(run)
            for _ in range(3):
                changed(run.at)
                run.step()
            run.resume()
            best, scores = result_of(run)
            again = result_of(run.from_step(run.steps[-1][1], paused=False))
            np.testing.assert_array_equal(again[0].numpy(), best.numpy())
            results.append((best.numpy(), scores.numpy(), [each.words for each in run.changes]))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-5)
    assert results[0][2] == results[1][2]


@pytest.mark.parametrize(
    "edit",
    [
        lambda rows: rows.focus(1),
        lambda rows: rows.uniform(),
        lambda rows: rows.sharpen(0.5),
        lambda rows: rows.__setitem__({"batch": 1}, torch.tensor([0.25, 0.75]).to(NAME)),
    ],
)
@pytest.mark.parametrize("face", ["for", "with"])
def test_attention_is_changed_as_on_the_cpu(face, edit):
    results = []
    for device in (NAME, "cpu"):
        with rf.set_default_device_ctx(device):
            run = rf.run(PROGRAMS[face](), paused=True)
            stands(run)
            run.step()
            (path,) = run.at.attention
            edit(run.at.attention[path])
            run.resume()
            out = result_of(run)
            assert out.device.partition(":")[0] == device
            results.append(out.copy_masked(0).numpy())
    np.testing.assert_allclose(results[0], results[1], rtol=1e-4, atol=1e-6)


# -- conditions --------------------------------------------------------------------------------------------------------

CONDITIONS = {
    "nan()": (False, 0),
    "inf()": (True, 2),
    "not_finite()": (True, 2),
    "h.abs_max() > 1.5": (False, 1),
    "h.mean() > 0.1 and step > 1": (False, 1),
    'h.norm(axis="model").max() > 2': (False, 1),
    "step == 3": (False, 0),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_holds_where_it_does_on_the_cpu_and_waits_once_in_a_step(condition):
    far, last = CONDITIONS[condition]
    found = []
    for device in (NAME, "cpu"):
        with watched() as seen:
            run = rf.run(sums(device, far=far), break_when=condition)
            run.wait()
        steps = len(run.steps) + (run.state == "done")
        found.append((run.state, run.reason, steps))
        asked_for = 0 if condition == "step == 3" else steps
        assert len(seen.waits) <= (asked_for + last + 1 if device == NAME else 0), seen.waits
    assert found[0] == found[1]


def test_values_are_asked_about_on_the_device_at_once():
    dim = rf.Dim(3, name="dim")
    x, odd, far = (
        rf.convert_to_tensor(np.array(each, "float32"), dims=[dim], device=NAME)
        for each in ([1, 2, 3], [1, np.nan, 3], [1, 2, -np.inf])
    )
    whole = rf.cast(x, "int64")
    none = rf.zeros([rf.Dim(0)], device=NAME)
    with watched() as seen:
        assert any_not_finite([x, odd, far, none]) == [False, True, True, False]
        assert any_different([(x, x * 1.0), (x, odd), (odd, odd * 1.0), (odd, far), (whole, whole + 0)]) == [
            False, True, False, True, False,
        ]  # fmt: skip
        assert any_not_finite([]) == []
    assert len(seen.waits) == 2


def test_a_condition_does_not_count_padding_that_is_nan(on_device):
    x = frames()

    def run():
        loop = rf.Loop(axis=rf.Dim(2), name="whole")
        loop.state.x = x
        for _ in loop:
            loop.state.x = rf.where(TIME.get_mask(device=NAME), loop.state.x, float("nan"))
        return loop.state.x

    run = rf.run(run, break_when="nan()")
    run.wait()
    assert (run.state, run.reason) == ("done", "")
