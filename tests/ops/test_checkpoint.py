"""gradient_checkpoint_scope: the same gradients, less kept, random numbers included; what it refuses."""

import contextlib

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, using_backend
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import rfnb as rf
from rfnb import Dim
from rfnb.backends import torch_recompute

batch, feat = Dim(50, name="batch"), Dim(20, name="feat")
MODEL_BYTES = 50 * 20 * 4  # one activation


class Alive(TorchDispatchMode):
    """Counts the bytes of what was computed in the block and is still there, and their maximum."""

    def __init__(self, *ignored):
        super().__init__()
        self.ignored = {raw.untyped_storage()._cdata for raw in ignored}
        self.refs, self.peak = {}, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor) and leaf.untyped_storage()._cdata not in self.ignored:
                storage = leaf.untyped_storage()
                self.refs[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self.peak = max(self.peak, self.bytes())
        return out

    def bytes(self):
        return sum(size for ref, size in self.refs.values() if not ref.expired())


def block(x, weight):
    x = rf.dropout(rf.gelu(x * weight), 0.25, on_forward=True)
    return x + rf.sigmoid(rf.exp(-x * x)) + rf.softmax(x, axis=feat)


def run(scope, blocks=4, nested=contextlib.nullcontext):
    """Output, gradients, random state afterwards, and the Alive of forward and of backward."""
    rf.set_random_seed(7)
    x, weight = randn(batch, feat), randn(feat, seed=1)
    rf.set_requires_gradient(x)
    rf.set_requires_gradient(weight)
    with Alive(x.raw_tensor, weight.raw_tensor) as forward:
        y = x
        for _ in range(blocks):
            with scope():
                y = block(y, weight)
                with nested():
                    y = block(y, weight)
        kept = forward.bytes()
    loss = rf.reduce_sum(rf.square(y), axis=[batch, feat])
    after = rf.random_normal([feat])
    with Alive() as backward:
        gradients = torch.autograd.grad(loss.raw_tensor, [x.raw_tensor, weight.raw_tensor], retain_graph=True)
    again = torch.autograd.grad(loss.raw_tensor, [x.raw_tensor, weight.raw_tensor])
    for one, other in zip(gradients, again):
        assert (one == other).all()
    return y, gradients, after, kept, backward.peak


@pytest.mark.parametrize("nested", [contextlib.nullcontext, rf.gradient_checkpoint_scope])
def test_the_same_numbers_and_gradients_with_the_same_dropout(nested):
    y, gradients, after, *_ = run(contextlib.nullcontext)
    y_again, gradients_again, after_again, *_ = run(rf.gradient_checkpoint_scope, nested=nested)
    assert_same(rf.stop_gradient(y_again), rf.stop_gradient(y), tolerance=0)
    assert all((one == other).all() for one, other in zip(gradients, gradients_again))
    assert_same(after_again, after, tolerance=0)


def test_backward_leaves_the_random_state_as_it_was():
    x = randn(feat)
    rf.set_requires_gradient(x)
    with rf.gradient_checkpoint_scope():
        y = rf.exp(rf.dropout(x, 0.5, on_forward=True))
    rf.random_normal([feat])
    state = rf.get_random_state()
    rf.gradient(rf.reduce_sum(y, axis=feat), x)
    assert rf.get_random_state() == state


def test_only_what_comes_out_is_kept():
    *_, kept, _ = run(contextlib.nullcontext)
    *_, kept_less, _ = run(rf.gradient_checkpoint_scope)
    assert kept > 4 * 10 * MODEL_BYTES
    assert kept_less <= 4 * MODEL_BYTES


def test_backward_holds_one_block_at_a_time_and_what_comes_out_of_the_others():
    one, eight = (run(rf.gradient_checkpoint_scope, blocks=blocks)[-1] for blocks in (1, 8))
    assert eight - one <= 7 * MODEL_BYTES


def test_what_backward_does_not_need_is_let_go_at_once(monkeypatch):
    most, repeat = [0], torch_recompute._Tape._repeat

    def counted(self, operation, storages):
        repeat(self, operation, storages)
        most[0] = max(most[0], len(storages))

    monkeypatch.setattr(torch_recompute._Tape, "_repeat", counted)
    x = torch.ones(3, requires_grad=True)
    with rf.gradient_checkpoint_scope():
        y = x
        for _ in range(10):
            y = y + 1.0  # has no need of its operands for its gradient
        y = y.exp()
    y.sum().backward()
    assert 0 < most[0] <= 3


def test_the_gradient_of_the_gradient():
    x = tensor([1.0, 2.0], Dim(2, name="two"))
    rf.set_requires_gradient(x)
    with rf.gradient_checkpoint_scope():
        y = rf.reduce_sum(rf.exp(x * x) * x, axis=x.dims)
    second = rf.gradient(rf.reduce_sum(rf.gradient(y, x), axis=x.dims), x)
    values = np.asarray([1.0, 2.0])
    assert_same(second, tensor((6 * values + 4 * values**3) * np.exp(values**2), *x.dims))


def test_values_changed_in_place_inside():
    x = torch.ones(3, requires_grad=True)
    with rf.gradient_checkpoint_scope():
        y = torch.zeros(3)
        y[1:] = 5.0
        y = y.mul_(2)
        z = (x * y).sum()
    z.backward()
    assert x.grad.tolist() == [0.0, 10.0, 10.0]


def test_views_and_parts():
    x = torch.arange(6.0, requires_grad=True)
    with rf.gradient_checkpoint_scope():
        y = (x * 1.0).view(2, 3).t()[1:]
        z = (y * y).sum()
    z.backward()
    assert x.grad.tolist() == [0.0, 2.0, 4.0, 0.0, 8.0, 10.0]


def test_an_own_generator_is_put_back_too():
    generator = torch.Generator().manual_seed(3)
    x = torch.ones(5, requires_grad=True)
    with rf.gradient_checkpoint_scope():
        noise = torch.rand(5, generator=generator)
        y = x * noise
    state = generator.get_state()
    y.sum().backward()
    assert x.grad.tolist() == torch.rand(5, generator=torch.Generator().manual_seed(3)).tolist()
    assert (generator.get_state() == state).all()


def test_an_error_inside_ends_the_scope():
    with pytest.raises(ZeroDivisionError):
        with rf.gradient_checkpoint_scope():
            raise ZeroDivisionError
    x = torch.ones(2, requires_grad=True)
    (saved,) = [x.exp().grad_fn._saved_result]
    assert saved.tolist() == x.exp().tolist()


@pytest.mark.parametrize("kind", ["LSTM", "TransformerEncoder"])
def test_whole_layers(kind):
    time, vocab, few = ragged([5, 3], Dim(2, name="few")), Dim(7, name="vocab"), Dim(8, name="few_features")
    (over,) = time.length_dims
    if kind == "LSTM":
        layer, x = rf.LSTM(few, few), randn(over, time, few)
    else:
        layer = rf.TransformerEncoder(vocab, few, num_layers=2, num_heads=2)
        x = tensor(np.ones((2, 5), np.int32), over, time, sparse_dim=vocab)

    def gradients(scope):
        rf.set_random_seed(5)
        with rf.init_train_step_run_ctx(), scope():
            y = (
                layer(x, state=layer.default_initial_state(batch_dims=[over]), spatial_dim=time)[0]
                if kind == "LSTM"
                else (layer(x, spatial_dim=time))
            )
            loss = rf.reduce_sum(y * y, axis=y.dims)
        return torch.autograd.grad(loss.raw_tensor, [p.raw_tensor for p in layer.parameters() if p.trainable])

    for one, other in zip(gradients(contextlib.nullcontext), gradients(rf.gradient_checkpoint_scope), strict=True):
        assert (one == other).all()


def test_running_statistics_are_updated_once():
    norm, time = rf.BatchNorm(feat), Dim(4, name="time")
    x = randn(time, feat)
    rf.set_requires_gradient(x)
    rf.init_train_step_run_ctx()
    try:
        with rf.gradient_checkpoint_scope():
            y = rf.square(norm(x))
        mean = norm.running_mean.numpy().copy()
        rf.gradient(rf.reduce_sum(y * y, axis=[time, feat]), x)
    finally:
        rf.init_forward_step_run_ctx()
    assert (norm.running_mean.numpy() == mean).all() and mean.any()


def test_what_is_outside_is_changed_once():
    x, factor = torch.ones(2, requires_grad=True), torch.ones(2)
    with rf.gradient_checkpoint_scope():
        y = (x * (factor.add_(1) * torch.ones(2))).sum()
    y.backward()
    assert factor.tolist() == x.grad.tolist() == [2.0, 2.0]


def test_with_numpy_it_has_no_effect():
    with using_backend("numpy"), rf.gradient_checkpoint_scope():
        assert_same(rf.ones([feat]) + 1, rf.full(dims=[feat], fill_value=2.0))


def changed_input():
    x, factor = torch.ones(2, requires_grad=True), torch.ones(2)
    with rf.gradient_checkpoint_scope():
        y = (x * (factor + 1)).sum()
    factor.add_(1)
    y.backward()


def changed_inside():
    x = torch.ones(2, requires_grad=True)
    with rf.gradient_checkpoint_scope():
        factor = torch.ones(2) + 1
        y = (x * factor).sum()
        factor.add_(1)
    y.backward()


def changes_both():
    x, outside = torch.ones(2, requires_grad=True), torch.empty(2)
    with rf.gradient_checkpoint_scope():
        order = torch.empty(2, dtype=torch.int64)
        torch.sort(torch.tensor([2.0, 1.0]), out=(outside, order))
        y = (x * order.float()).sum()
    y.backward()


ERRORS = {
    changed_input: """
        gradient_checkpoint_scope: a tensor from outside of the block was changed in place before backward.
          tensor  (2,)
        Backward computes the block again from what came in.
        """,
    changed_inside: """
        gradient_checkpoint_scope: a tensor that backward needs was changed in place later in the block.
          tensor  (2,)
        What is computed again is as it was at the end of the block.
        """,
    changes_both: """
        gradient_checkpoint_scope: backward depends on an operation that changes a tensor from outside of the block.
          operation  aten.sort.values
        It would be changed twice. Change it before or after the block.
        """,
}


@pytest.mark.parametrize("call", ERRORS, ids=lambda call: call.__name__)
def test_error(call):
    with raises_message(RuntimeError, ERRORS[call]):
        call()
