"""Ops are declared: neither the name, nor the file, nor the access to the raw array matters to a recorded loop."""

import pytest
from asserting import assert_same, randn
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim
from rfnb.core.op import op, op_of
from rfnb.core.tensor import new_tensor
from rfnb.rec.step_tensor import RecordingError

BATCH, TIME = Dim(2, name="batch"), Dim(3, name="time")
X = randn(BATCH, TIME)


@op
def by_documented_name(x):
    return rf.Tensor("halved", dims=x.dims, dtype=x.dtype, raw_tensor=x.raw_tensor * 0.5)


@op
def by_own_name(x):
    return new_tensor(x._raw * 0.5, x.dims)


def undeclared(x):
    return new_tensor(x.raw_tensor * 0.5, x.dims)


@op(draws=True)
def noise(dims):
    return rf.random_normal(dims)


@op
def noise_inside(dims):
    return noise(dims)


@op(changes_state=True)
def count():
    raise AssertionError("nobody may come here")


def run(halved, face):
    loop = rf.Loop(axis=TIME)
    loop.state.h = rf.zeros([BATCH])

    def body():
        loop.state.h = halved(loop.state.h) + loop.unstack(X)
        return loop.stack(loop.state.h)

    return run_steps(loop, face, body), loop


@pytest.mark.parametrize("halved", [by_documented_name, by_own_name])
def test_a_function_of_a_user_may_be_an_op(halved):
    expected, _ = run(halved, "for")
    out, loop = run(halved, "with")
    assert_same(out, expected)
    assert [node.name for node in loop.plan.inside] == [halved.__name__, "add"]


def test_what_is_not_declared_may_not_look_inside():
    with pytest.raises(RecordingError, match="reads the values of a tensor of the step"):
        run(undeclared, "with")


@pytest.mark.parametrize("draw", [noise, noise_inside])
def test_an_op_that_draws_does_so_in_every_step(draw):
    loop = rf.Loop(axis=TIME)
    with loop:
        out = loop.stack(draw([BATCH]))
    values = out.copy_transpose([TIME, BATCH]).numpy()
    assert len({float(value) for value in values.ravel()}) == values.size


def test_an_op_that_changes_something_is_refused():
    loop = rf.Loop(axis=TIME)
    with pytest.raises(RecordingError, match="makes a permanent change"), loop:
        count()


def test_names_of_ops_do_not_matter(monkeypatch):
    def recorded():
        return [
            node.fn for where in ("before", "inside", "after") for node in getattr(run(rf.tanh, "with")[1].plan, where)
        ]

    before, (expected, _) = recorded(), run(rf.tanh, "with")
    for fn in (rf.tanh, rf.random_normal, rf.probe, rf.Tensor.copy_transpose, rf.Dim.get_mask):
        assert op_of(fn) is not None
        monkeypatch.setattr(fn, "__name__", "renamed")
        monkeypatch.setattr(fn, "__qualname__", "Elsewhere.renamed")
        monkeypatch.setattr(fn, "__module__", "somewhere.else")
    assert recorded() == before
    assert_same(run(rf.tanh, "with")[0], expected)


def test_other_code_of_an_op_stays():
    """As autoreload of notebooks gives it."""

    @op
    def scaled(x):
        return new_tensor(x._raw * 2.0, x.dims)

    def scaled_anew(x):
        return new_tensor(x._raw * 0.5, x.dims)

    run(scaled, "with")
    scaled.__code__ = scaled_anew.__code__
    assert_same(run(scaled, "with")[0], run(by_own_name, "for")[0])
    assert scaled.__code__ is scaled_anew.__code__
