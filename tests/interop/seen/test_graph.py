"""Recordings that keep the graph: gradients of what a model gives by what was recorded in it, against hooks and formulas by hand."""

import gc
import math
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rfnb as rf

BATCH, TIME, WIDTH, HEADS = 2, 5, 8, 2


class Written(nn.Module):
    """Attention as people write it, with what it has made by hand in `made`."""

    def __init__(self, kernel=False):
        super().__init__()
        self.qkv, self.out, self.kernel, self.made = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, 3), kernel, None

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in self.qkv(x).split(WIDTH, -1))
        if self.kernel:
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            self.made = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(WIDTH // HEADS), -1)
            mixed = self.made @ v
        return self.out(mixed.transpose(1, 2).flatten(2))


class Grid(nn.Module):
    """Two heads that are modules of their own."""

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.key, self.query, self.value = (nn.Linear(WIDTH, 4) for _ in range(3))

        def forward(self, x):
            return torch.softmax(self.query(x) @ self.key(x).transpose(-2, -1), -1) @ self.value(x)

    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(Grid.Head() for _ in range(2))

    def forward(self, x):
        return torch.cat([head(x) for head in self.heads], -1)


class Folded(nn.Module):
    """nn.MultiheadAttention, whose weights are made with the heads in the batch."""

    def __init__(self, needed=True):
        super().__init__()
        self.attend, self.needed = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True), needed

    def forward(self, x):
        return self.attend(x, x, x, need_weights=self.needed)[0]


def gpt2(attention):
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_embd=WIDTH, n_layer=2, n_head=HEADS, vocab_size=11, n_positions=8)
    config._attn_implementation = attention
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.arange(BATCH * TIME).reshape(BATCH, TIME) % 11
    return model, lambda: model(ids).logits


def written(**given):
    model, x = Written(**given), torch.randn(BATCH, TIME, WIDTH)
    return model, lambda: model(x)


def of(kind):
    def made():
        model, x = kind(), torch.randn(BATCH, TIME, WIDTH)
        return model, lambda: model(x)

    return made


MODELS = {
    "written": written, "kernel": lambda: written(kernel=True), "heads": of(Grid), "folded": of(Folded),
    "sdpa in torch": of(lambda: Folded(needed=False)),
    "encoder": of(lambda: nn.TransformerEncoderLayer(WIDTH, HEADS, 16, dropout=0.0, batch_first=True)),
    "eager": lambda: gpt2("eager"), "sdpa": lambda: gpt2("sdpa"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(3)


def gradients(model, output):
    model.zero_grad()
    (output * torch.linspace(-1, 1, output.numel()).reshape(output.shape)).sum().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}


@pytest.mark.parametrize("name", MODELS)
def test_gradients_by_recorded_attention_are_those_of_a_change_of_it(name):
    model, run = MODELS[name]()
    plain = run()
    before = gradients(model, plain)
    with rf.record(model=model, graph=True) as trace:
        output = run()
    assert torch.equal(output, plain)
    for own, wanted in zip(gradients(model, run()).values(), before.values()):
        assert torch.equal(own, wanted)  # afterwards the model is what it was
    logit = output[0, -1, 1]
    direction = torch.Generator().manual_seed(1)
    for path in trace.attention:
        weights = trace.attention[path].raw_tensor
        (slope,) = torch.autograd.grad(logit, weights, retain_graph=True)
        step = torch.randn(weights.shape, generator=direction) * (weights.detach() > 0)
        moved = [
            changed(model, path, trace.attention[path], (weights.detach() + sign * 1e-2 * step), run)[0, -1, 1].item()
            for sign in (1, -1)
        ]
        assert (slope * step).sum().item() == pytest.approx((moved[0] - moved[1]) / 2e-2, rel=2e-2, abs=2e-4), path
    assert len(trace.attention) >= 1


def changed(model, path, named, value, run):
    """The output of the model with these weights instead."""
    with torch.no_grad(), rf.edit(model, {f"{path}.weights" if path else "weights": value}):
        return run()


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_parameters_are_those_without_a_recording(name):
    model, run = MODELS[name]()
    wanted = gradients(model, run())
    with rf.record(model=model, graph=True, values=True):
        found = gradients(model, run())
    assert found.keys() == wanted.keys()
    for each, gradient in wanted.items():
        torch.testing.assert_close(found[each], gradient, rtol=1e-4, atol=1e-6)
        if name in ("written", "heads", "eager"):
            assert torch.equal(found[each], gradient), each


def test_recorded_weights_are_the_tensor_that_the_model_goes_on_with():
    model, run = written()
    with rf.record(model=model, graph=True) as trace:
        output = run()
    assert trace.attention[""].raw_tensor is model.made
    slopes = torch.autograd.grad(output.sum(), [trace.attention[""].raw_tensor, model.made], retain_graph=True)
    assert torch.equal(*slopes)
    (up,) = torch.autograd.grad(trace.attention[""].raw_tensor[0, 0, 0, 0], model.qkv.weight)
    assert up.any()  # and they hang on what is before


def test_values_of_modules_are_in_the_graph():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
    with rf.record(model=model, graph=True, values=True) as trace:
        output = model(torch.randn(2, 4))
    hidden = trace.select("module", "1")[0].values["outputs"][0][1].raw_tensor
    (slope,) = torch.autograd.grad(output[:, 1].sum(), hidden)
    assert torch.equal(slope, model[2].weight[1].expand(2, 3))


def test_it_hangs_on_an_edit_in_it():
    model, run = written()
    run()
    plain, scale = model.made.detach(), torch.tensor(0.5, requires_grad=True)
    with (
        rf.edit(model, {"weights[head=0]": lambda weights: weights * scale}),
        rf.record(model=model, graph=True) as trace,
    ):
        output = run()
    weights = trace.attention[""].raw_tensor
    assert torch.equal(weights[:, 0], plain[:, 0] * 0.5) and torch.equal(weights[:, 1], plain[:, 1])
    (by_weights,) = torch.autograd.grad(output.sum(), weights, retain_graph=True)
    (by_scale,) = torch.autograd.grad(output.sum(), scale)
    torch.testing.assert_close(by_scale, (by_weights[:, 0] * plain[:, 0]).sum())


@pytest.mark.parametrize("graph", [False, True])
def test_the_graph_is_gone_with_the_recording(graph):
    gc.collect()
    gc.disable()
    try:
        model, run = written(kernel=True)
        with rf.record(model=model, graph=graph, values=True) as trace:
            output = run()
        kept = weakref.ref(trace.attention[""].raw_tensor)
        assert (kept().grad_fn is not None) is graph
        del trace, output
        assert kept() is None
    finally:
        gc.enable()


def test_without_it_nothing_is_in_the_graph():
    model, run = written()
    with rf.record(model=model, values=True) as trace:
        run()
    events = [event for event in trace.events if event.kind == "module"]
    assert not trace.attention[""].raw_tensor.requires_grad
    assert not any(tensor.raw_tensor.requires_grad for event in events for _, tensor in event.values["outputs"])


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("inside", [False, True])
def test_where_autograd_keeps_no_graph_it_is_refused(mode, inside):
    model, run = written()
    with pytest.raises(RuntimeError, match="graph=True, but autograd keeps no graph here") as error:
        if inside:
            with rf.record(model=model, graph=True), mode():
                run()
        with mode(), rf.record(model=model, graph=True):
            run()
    assert f"torch.{mode.__name__}()" in str(error.value)
    assert run().requires_grad


def test_a_kernel_with_dropout_keeps_its_own_numbers():
    model, x = nn.TransformerEncoderLayer(WIDTH, HEADS, 16, dropout=0.5, batch_first=True), torch.randn(2, TIME, WIDTH)
    torch.manual_seed(1)
    wanted = model(x)
    torch.manual_seed(1)
    with rf.record(model=model, graph=True) as trace:
        assert torch.equal(model(x), wanted)
    assert not trace.attention["self_attn"].raw_tensor.requires_grad


def test_a_view_of_it_can_be_drawn():
    model, run = written()
    with rf.record(model=model, graph=True) as trace:
        run()
    assert "Attention" in rf.show(trace).text()
