"""rf.edit of Modules of rfnb: what they return, and the weights that they attend with."""

import numpy as np
import pytest

import rfnb as rf
from rfnb import Dim

batch, time, feat, hidden, out = (
    Dim(n, name=name) for n, name in zip((2, 6, 3, 4, 5), "batch time feat hidden out".split())
)


@pytest.fixture
def net():
    rf.set_random_seed(3)
    return rf.Sequential({"a": rf.Linear(feat, hidden), "b": rf.Linear(hidden, out)})


@pytest.fixture
def x():
    return rf.random_normal([batch, time, feat])


def host(tensor, *dims):
    return tensor.copy_transpose(dims or (batch, time, out)).numpy()


def test_entries_of_what_a_module_returns_are_others(net, x):
    plain = host(net(x))
    with (
        rf.edit(net, {"a[hidden=1, time=2]": 0.5, "b[out=0]": lambda y: 2 * y}),
        rf.record(model=net, values=True) as trace,
    ):
        got = host(net(x))
    between = host(net.a(x), batch, time, hidden).copy()
    between[:, 2, 1] = 0.5
    wanted = host(net.b(rf.convert_to_tensor(between, dims=[batch, time, hidden]))).copy()
    wanted[..., 0] *= 2
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-6)
    ((_, kept),) = trace.modules["a"][0].values["outputs"]
    assert (host(kept, batch, time, hidden)[:, 2, 1] == 0.5).all()
    assert (host(net(x)) == plain).all()


def test_a_recorded_value_is_patched_in_from_another_position(net, x):
    with rf.record(model=net, values=True) as clean:
        plain = host(net(x))
    other = rf.random_normal([batch, time, feat])
    with rf.edit(net, {"a": clean}):
        assert (host(net(other)) == plain).all()
    with rf.edit(net, {"a[time=0]": (clean, "a[time=3]")}):
        got = host(net(other))
    np.testing.assert_allclose(got[:, 0], plain[:, 3], atol=1e-6)
    np.testing.assert_allclose(got[:, 1:], host(net(other))[:, 1:], atol=1e-6)


def test_gradients_go_through_what_is_edited(net, x):
    with rf.edit(net, {"a[time=0]": 0}):
        loss = rf.reduce_sum(net(x), axis=[batch, time, out])
    loss.raw_tensor.backward()
    rows = net.b.weight.raw_tensor.detach().sum(net.b.weight.dims.index(out))
    frames = x.copy_transpose([batch, time, feat]).raw_tensor[:, 1:].sum((0, 1))
    wanted = frames[:, None] * rows[None]
    grad = net.a.weight.raw_tensor.grad
    grad = grad if net.a.weight.dims == (feat, hidden) else grad.T
    np.testing.assert_allclose(grad.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)


def test_a_head_of_attention_is_ablated(x):
    rf.set_random_seed(3)
    key, value = Dim(4, name="key"), Dim(4, name="value")
    att = rf.SelfAttention(feat, proj_dim=None, key_dim_total=key, value_dim_total=value, num_heads=2)
    with rf.record(model=att) as before:
        plain = att(x, axis=time)
    with rf.edit(att, {"weights[heads=1]": 0}), rf.record(model=att) as trace:
        got = att(x, axis=time)
    (weights,), (was,) = ([each.attention[path] for path in each.attention] for each in (trace, before))
    raw, old = weights.raw_tensor, was.raw_tensor
    at = [dim.name for dim in weights.dims].index("heads")
    assert not raw.select(at, 1).any() and (raw.select(at, 0) == old.select(at, 0)).all()
    raw_plain, raw_got = (each.copy_transpose([batch, time, value]).raw_tensor for each in (plain, got))
    np.testing.assert_allclose(raw_got[..., :2].detach(), raw_plain[..., :2].detach(), atol=1e-6)
    assert not raw_got[..., 2:].any()


def in_a_loop(net, x, recorded):
    loop = rf.Loop(axis=time, name="loop")
    loop.state.h = rf.zeros([batch, hidden])
    if recorded:
        with loop:
            loop.state.h = rf.tanh(net.a(loop.unstack(x)) + loop.state.h)
    else:
        for _ in loop:
            loop.state.h = rf.tanh(net.a(loop.unstack(x)) + loop.state.h)
    return host(loop.state.h, batch, hidden)


def test_a_module_in_a_loop_is_edited_in_each_step_or_in_one(net, x):
    frames = host(net.a(x), batch, time, hidden)

    def by_hand(steps):
        h = np.zeros((2, 4), "float32")
        for step in range(6):
            frame = frames[:, step].copy()
            if step in steps:
                frame[:, 1] = 0.5
            h = np.tanh(frame + h)
        return h

    with rf.edit(net, {"a[hidden=1]": 0.5}):
        every, recorded = (in_a_loop(net, x, recorded) for recorded in (False, True))
    with rf.edit(net, {"a[hidden=1, step=3]": 0.5}):
        one = in_a_loop(net, x, False)
        with pytest.raises(ValueError, match="for one step of a recorded loop"):
            in_a_loop(net, x, True)
    np.testing.assert_allclose(every, by_hand(range(6)), atol=1e-5)
    np.testing.assert_allclose(recorded, by_hand(range(6)), atol=1e-5)
    np.testing.assert_allclose(one, by_hand([3]), atol=1e-5)


@pytest.mark.parametrize(
    ("edits", "words"),
    [
        ({"a[place=0]": 0}, "no dim place"),
        ({"a[time=9]": 0}, "index out of range"),
        ({"a[time=0]": [1, 2, 3]}, "does not fit"),
        ({"a": "much"}, "cannot be replaced by this"),
        ({"a.thing": 0}, "is not a result of this module"),
    ],
)
def test_what_cannot_be_edited_is_one_error_with_four_parts(net, x, edits, words):
    plain = host(net(x))
    with pytest.raises((ValueError, IndexError, TypeError)) as error, rf.edit(net, edits):
        net(x)
    what, operands, rule, _ = error.value.parts
    assert words in str(error.value) and what and operands and rule
    assert (host(net(x)) == plain).all()
