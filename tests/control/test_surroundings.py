"""A branch names changes in its surroundings: it pauses and reports them, and its parent run stays as it was."""

import functools

import numpy as np
import pytest
import torch
from control.held_models import BATCH, FEAT, TIME, X

import rfnb as rf

COUNTER = [0]


class Net(rf.Module):
    """Steps of a Linear, and one after the loop that the states do not show."""

    def __init__(self):
        super().__init__()
        self.step, self.out = rf.Linear(FEAT, FEAT), rf.Linear(FEAT, rf.Dim(2, name="out"))
        self.norm = rf.Parameter([FEAT])
        self.norm.initial = 1.0

    def go(self, x):
        loop = rf.Loop(axis=TIME, name="net")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for _ in loop:
            loop.state.h = rf.tanh(self.step(loop.state.h + loop.unstack(x))) * self.norm
        return self.out(loop.state.h)


def other_after(run, change, *, step=4):
    """The report of a branch after a change; the run still has its result."""
    result = run.result.numpy().copy()
    change()
    branch = run.from_step(step)
    assert branch.wait() and branch.state == "paused"
    assert branch.reason.removeprefix("its steps differ from those of its parent run: ") == branch.drifted
    np.testing.assert_array_equal(run.result.numpy(), result)
    said = branch.drifted
    branch.stop()
    return said


FIRST = 'state "h" differs before step 1 of "net"; '


def test_a_parameter_of_a_bound_method_is_named():
    net = Net()

    def assign():
        net.step.weight.initial = 0.5

    assert other_after(rf.run(net.go, X), assign) == FIRST + 'changed since: parameter "Net.step.weight"'


def test_a_parameter_that_is_changed_in_place_is_named():
    net = Net()

    def train():
        with torch.no_grad():
            net.norm.raw_tensor.mul_(2.0)

    assert other_after(rf.run(lambda: net.go(X)), train) == FIRST + 'changed since: parameter "net.norm"'


def test_a_model_that_is_another_one_only_after_the_loop_is_named_too():
    net = Net()

    def assign():
        net.out.bias.initial = 3.0

    assert other_after(rf.run(functools.partial(net.go, X)), assign) == (
        'up to step 4 of "net" the states are equal, but later values differ; changed since: parameter "Net.out.bias"'
    )


def test_parameters_that_the_run_itself_trains_are_told_from_those_of_others():
    net = Net()

    def train():
        for step in range(3):
            out = rf.reduce_sum(net.go(X) * net.go(X), axis=[BATCH, net.out.out_dim])
            rf.gate(step, loss=out)
            with torch.no_grad():
                net.norm.raw_tensor.mul_(0.5)
        return out

    run = rf.run(train)
    assert run.result is not None

    def assign():
        net.step.bias.initial = 0.5

    result = run.result.numpy().copy()
    assign()
    branch = run.from_step(1, path="loop")
    assert branch.wait()
    assert branch.drifted == (
        'state "h" differs before step 1 of "net"; changed while it ran: parameter "net.norm"; '
        'changed since: parameter "net.step.bias"'
    )
    np.testing.assert_array_equal(run.result.numpy(), result)
    branch.stop()


def test_a_module_of_torch_is_looked_into():
    model = torch.nn.Sequential(torch.nn.Linear(5, 5), torch.nn.Dropout(0.5)).eval()

    def go():
        loop = rf.Loop(axis=TIME, name="net")
        loop.state.h = rf.zeros([BATCH, FEAT]) + 1.0
        for _ in loop:
            loop.state.h = rf.convert_to_tensor(model(loop.state.h.raw_tensor).detach(), dims=[BATCH, FEAT])
        return loop.state.h

    def change():
        with torch.no_grad():
            model[0].bias.add_(1.0)

    assert other_after(rf.run(go), change) == FIRST + 'changed since: parameter "model.0.bias"'
    with torch.no_grad():
        model[0].bias.add_(1.0)
    run = rf.run(go)
    assert other_after(run, model.train) == FIRST + 'changed since: training=True of "model"'


def test_what_is_given_is_looked_at_too():
    raw = torch.ones(3, 5)
    x = rf.convert_to_tensor(raw, dims=[BATCH, FEAT])

    def go(frame, offset, more):
        loop = rf.Loop(axis=TIME, name="net")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for _ in loop:
            loop.state.h = loop.state.h + frame + float(offset[0]) + float(sum(more)) + COUNTER[0]
        return loop.state.h

    offset, more = np.zeros(2), [1]

    def change():
        raw.add_(1.0)
        offset[0] = 3.0
        more.append(4)
        COUNTER[0] += 2

    assert other_after(rf.run(go, x, offset=offset, more=more), change) == (
        FIRST + 'changed since: "COUNTER[0]" (0, now 2), "frame", changed in place, "more" (list of 1, now list of 2), '
        '"offset", changed in place'
    )
    COUNTER[0] = 0


def test_a_default_dtype_is_that_of_the_run():
    def go():
        loop = rf.Loop(axis=TIME, name="net")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for _ in loop:
            loop.state.h = loop.state.h + rf.ones([FEAT])
        return loop.state.h

    run = rf.run(go)
    expected = run.result
    with rf.set_default_float_dtype_ctx("float64"):
        branch = run.from_step(3, paused=False)
    assert branch.result.dtype == expected.dtype == "float32" and branch.drifted is None


def test_a_setting_of_torch_is_named():
    def go():
        loop = rf.Loop(axis=TIME, name="net")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for _ in loop:
            new = torch.zeros(3, 5) + loop.state.h.raw_tensor
            loop.state.h = rf.cast(rf.convert_to_tensor(new, dims=[BATCH, FEAT]), "float32")
        return loop.state.h

    before = torch.get_default_dtype()
    try:
        assert other_after(rf.run(go), lambda: torch.set_default_dtype(torch.float64)) == (
            'up to step 4 of "net" the states are equal, but later values differ; '
            "changed since: default dtype of torch (float32, now float64)"
        )
    finally:
        torch.set_default_dtype(before)


def test_a_list_that_makes_no_difference_holds_up_nobody():
    log = []

    def go():
        loop = rf.Loop(axis=TIME, name="net")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for _ in loop:
            log.append(loop.num_steps)
            loop.state.h = loop.state.h + 1.0
        return loop.state.h

    run = rf.run(go)
    expected = run.result.numpy()
    branch = run.from_step(4, paused=False)
    np.testing.assert_array_equal(branch.result.numpy(), expected)
    assert branch.drifted is None and len(log) == 14


def test_what_a_file_says_is_noticed_by_the_states(tmp_path):
    file = tmp_path / "number"
    file.write_text("1")

    def go():
        loop = rf.Loop(axis=TIME, name="net")
        loop.state.h = rf.zeros([BATCH, FEAT])
        for _ in loop:
            loop.state.h = loop.state.h + float(file.read_text())
        return loop.state.h

    run = rf.run(go)
    assert run.result is not None
    file.write_text("2")
    branch = run.from_step(4)
    assert branch.wait()
    assert branch.reason == (
        'its steps differ from those of its parent run: state "h" differs before step 1 of "net". '
        "Something outside of its loops has changed"
    )
    branch.stop()


class Odd:
    """Answers to every name, and calls nothing back."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args: 1 / 0


@pytest.mark.parametrize("given", [Odd(), object(), iter([1, 2]), {1, 2}, (x for x in "ab"), np.float32, None, print])
def test_anything_can_be_given(given):
    def go(what):
        loop = rf.Loop(axis=TIME, name="net")
        loop.state.h = rf.zeros([FEAT])
        for _ in loop:
            loop.state.h = loop.state.h + 1.0
        return loop.state.h

    run = rf.run(go, given)
    expected = run.result.numpy()
    np.testing.assert_array_equal(run.from_step(2, paused=False).result.numpy(), expected)


def test_a_module_that_cannot_be_looked_at_is_left_alone():
    class Broken(torch.nn.Module):
        def named_parameters(self, *args, **kwargs):
            raise RuntimeError("not yet")

    broken = Broken()

    def go():
        loop = rf.Loop(axis=TIME, name="net")
        loop.state.h = rf.zeros([FEAT])
        for _ in loop:
            loop.state.h = loop.state.h + float(broken.training)
        return loop.state.h

    run = rf.run(go)
    assert run.result.numpy().max() == 7.0
    assert run.from_step(2, paused=False).result.numpy().max() == 7.0
