"""Watching changes nothing: parameters, buffers, random generators and copies are what they are without it, and nothing stays."""

import copy
import gc
import io
import pickle
import random
import weakref

import numpy as np
import pytest
import torch
import torch.nn.utils.clip_grad as clip_grad
from interop.watch.watched_models import Encoder, Tagger, assert_equal_states, batches, loss_of, made, state_of, train
from torch.utils.checkpoint import checkpoint

import rfnb as rf

HOMES = [(torch.autograd, "backward"), (clip_grad, "_clip_grads_with_norm_")]
AS_THEY_WERE = [getattr(home, name) for home, name in HOMES]


def trained(kind, watched, steps=20, optimizer_of=None, wrap=lambda model: model):
    """The state after a training, and what the generators give next."""
    model = made(kind)
    optimizer = (optimizer_of or (lambda parameters: torch.optim.AdamW(parameters, 1e-2)))(model.parameters())
    called = wrap(model)
    torch.manual_seed(8)
    random.seed(8)
    np.random.seed(8)
    data = batches(steps)
    if watched:
        with rf.watch(called, optimizer, example=(data[0],), every=3, activations=2, updates=1) as watch:
            train(called, optimizer, data, clip=0.5, after=lambda loss: watch.log(loss=loss))
            watch.epoch()
        assert watch.counts["updates"] == steps and watch.counts["batches"] in (0, steps)
        assert watch.tables["mean", ""].rows
    else:
        train(called, optimizer, data, clip=0.5)
    model.eval()
    with torch.no_grad():
        evaluated = model(data[0])
    return state_of(model), [torch.rand(3), torch.tensor(random.random()), torch.tensor(np.random.rand())], evaluated


@pytest.mark.parametrize("kind", [Tagger, Encoder])
def test_a_watched_training_gives_the_same_bits_and_leaves_the_generators(kind):
    plain, watched = trained(kind, False), trained(kind, True)
    assert_equal_states(plain[0], watched[0])
    assert all(map(torch.equal, plain[1], watched[1]))
    assert torch.equal(plain[2], watched[2])


@pytest.mark.parametrize(
    "optimizer_of",
    [
        lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9),
        lambda parameters: torch.optim.Adam(parameters, 1e-2, foreach=True),
        lambda parameters: torch.optim.Adam(parameters, 1e-2, fused=True),
    ],
)
def test_other_optimizers_are_as_little_touched(optimizer_of):
    assert_equal_states(trained(Tagger, False, 6, optimizer_of)[0], trained(Tagger, True, 6, optimizer_of)[0])


class Checkpointed(Encoder):
    """Its layers are computed once more in the backward pass."""

    reentrant = False

    def forward(self, ids):
        x = self.embedding(ids)
        for layer in self.layers.layers:
            x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return self.out(x)


class CheckpointedReentrant(Checkpointed):
    reentrant = True


@pytest.mark.parametrize("kind", [Checkpointed, CheckpointedReentrant])
def test_checkpoints_are_seen_once_and_unchanged(kind):
    assert_equal_states(trained(kind, False, 5)[0], trained(kind, True, 5)[0])


def test_an_evaluation_between_updates_takes_the_fast_path_as_without():
    """Hooks on a layer of nn.TransformerEncoder would switch it off, and so change the last bits."""
    model, data = made(Encoder), batches(2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model.eval()
    with torch.no_grad():
        plain = model(data[0])
        with rf.watch(model, optimizer, activations=1):
            assert torch.equal(model(data[0]), plain)
            assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


def left_over(model, optimizer):
    """The remaining hooks."""
    return [
        *[name for name, module in model.named_modules() if "forward" in module.__dict__],
        *optimizer._optimizer_step_pre_hooks.values(),
        *optimizer._optimizer_step_post_hooks.values(),
        *[name for (home, name), was in zip(HOMES, AS_THEY_WERE) if getattr(home, name) is not was],
    ]


def test_nothing_is_hooked_after_the_block_nor_after_an_error_in_it():
    model = made(Tagger)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with rf.watch(model, optimizer, activations=1) as watch:
        train(model, optimizer, batches(2))
        assert left_over(model, optimizer)
    assert left_over(model, optimizer) == []
    with pytest.raises(IndexError), rf.watch(model, optimizer, activations=1):
        train(model, optimizer, [*batches(1), torch.full((3, 7), 99)])
    assert left_over(model, optimizer) == []
    watch.close()  # once more does nothing


def test_two_trainings_at_once_are_seen_each_for_itself():
    models = [made(Tagger, seed) for seed in (1, 2)]
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in models]
    watches = [rf.watch(model, optimizer) for model, optimizer in zip(models, optimizers)]
    losses = [train(model, each, batches(2 + at)) for at, (model, each) in enumerate(zip(models, optimizers))]
    for watch, own in zip(watches, losses):
        assert watch.curves["loss given to backward"].values == pytest.approx([float(loss) for loss in own])
        watch.close()
    assert left_over(models[0], optimizers[0]) == []


def test_the_example_touches_neither_flags_nor_buffers_nor_gradients():
    model = made(Tagger)
    model.norm.eval()  # frozen by hand: stays so
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loss_of(model, batches(1)[0]).backward()
    before, gradient = state_of(model), model.out.weight.grad.clone()
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)

    def example():
        model.norm.running_mean.add_(1)  # one that does what it should not
        torch.rand(100)
        assert not model.training and not torch.is_grad_enabled()
        return model(batches(1)[0])

    watch = rf.watch(model, optimizer, example=example)
    watch.epoch()
    watch.close()
    assert [one.label for one in watch.examples] == ["0", "1"]
    assert_equal_states(before, state_of(model))
    assert torch.equal(model.out.weight.grad, gradient)
    assert [model.training, model.norm.training, model.out.training] == [True, False, True]
    assert torch.equal(torch.rand(3), expected)


class PartlyScripted(Tagger):
    """Its batch norm is a program of torch.jit."""

    def __init__(self):
        super().__init__()
        self.norm = torch.jit.script(self.norm)


@pytest.mark.filterwarnings("ignore:record. this module cannot be recorded")
def test_the_example_of_a_model_with_a_scripted_part_changes_nothing():
    model, x = made(PartlyScripted), batches(1)[0]
    optimizer, before = torch.optim.SGD(model.parameters(), 0.1), state_of(model)
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)

    def example():
        torch.rand(100)
        with torch.no_grad():
            model.norm.running_mean.add_(1)
        return model(x)

    with rf.watch(model, optimizer, example=example) as watch:
        assert len(watch.examples) == 1
    assert_equal_states(before, state_of(model))
    assert torch.equal(torch.rand(3), expected)


def test_doing_a_batch_once_more_leaves_the_statistics_of_batch_norm():
    def trained_on(watched):
        model, data = made(Tagger), batches(2)
        optimizer = torch.optim.SGD(model.parameters(), 0.0)
        watch = rf.watch(model, optimizer, on_nan="warn") if watched else None
        for ids in data:
            (loss_of(model, ids) * float("inf")).backward()
        if watch is not None:
            with pytest.warns(UserWarning, match="is NaN or infinite"):
                optimizer.step()
            watch.close()
        return dict(model.named_buffers())

    assert_equal_states(trained_on(False), trained_on(True))


def test_a_watch_that_nobody_has_closed_goes_with_its_model():
    model = made(Tagger)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    rf.watch(model, optimizer, activations=1)
    train(model, optimizer, batches(2))
    gone = weakref.ref(model)
    assert torch.autograd.backward is not AS_THEY_WERE[0]
    del model, optimizer
    gc.collect()
    assert gone() is None
    assert [getattr(home, name) for home, name in HOMES] == AS_THEY_WERE


def test_a_copy_of_a_watched_model_is_a_model_of_its_own():
    model = made(Tagger)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with rf.watch(model, optimizer, activations=1):
        twin = copy.deepcopy(model)
        file = io.BytesIO()
        torch.save(model, file)
        again = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
        third = pickle.loads(pickle.dumps(model))
    ids = batches(1)[0]
    with torch.no_grad():
        for other in (twin, again, third):
            other.eval()
            for parameter in other.parameters():
                parameter.zero_()
            assert not other(ids).any()  # it computes with its own parameters
    assert model.out.weight.any()


def test_who_asks_for_the_signature_of_forward_gets_it():
    import inspect

    model = made(Tagger)
    with rf.watch(model, torch.optim.SGD(model.parameters(), 0.1)):
        assert list(inspect.signature(model.forward).parameters) == ["ids"]


def test_a_compiled_model_is_seen_as_one_module():
    calls = []

    def backend(graph, inputs):
        calls.append(graph)
        return graph

    counts = []
    for on in (False, True):
        calls.clear()
        torch._dynamo.reset()  # else what was compiled for another model may serve
        state = trained(Tagger, on, 6, wrap=lambda m: torch.compile(m, backend=backend))[0]
        counts.append((len(calls), state))
    assert_equal_states(counts[0][1], counts[1][1])
    assert counts[0][0] == counts[1][0]  # and compiled as often


def test_data_parallel_is_looked_through():
    import torch.distributed as dist

    if dist.is_initialized():
        pytest.skip("a process group of somebody else")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        ddp = torch.nn.parallel.DistributedDataParallel
        plain, watched = (trained(Tagger, on, 4, wrap=ddp) for on in (False, True))
        assert_equal_states(plain[0], watched[0])
    finally:
        dist.destroy_process_group()
