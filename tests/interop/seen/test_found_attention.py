"""Attention is found by what it does, in models as people write them; what is none is named, and nothing that a model computes changes."""

import pytest
import torch
from interop.seen.written_models import BATCH, LENGTH, NEGATIVE, POSITIVE, SOURCES, WIDTH, Head, Heads, Luong, ids
from torch import nn
from torch.nn import functional as F

import rfnb as rf


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(4)


@pytest.mark.parametrize(("kind", "inputs"), POSITIVE, ids=[kind.__name__ for kind, _ in POSITIVE])
def test_what_is_attention_is_recorded_once_as_the_model_has_computed_it(kind, inputs):
    model, given = kind(), inputs()
    with rf.record(model=model) as trace:
        model(*given)
    assert sorted(trace.attention) == sorted(model.maps)
    for path, (expected,) in model.maps.items():
        weights = trace.attention[path]
        assert torch.equal(weights.raw_tensor.reshape(expected.shape), expected), path
        assert trace.attention.axis(path) is weights.dims[-1]
    assert rf.show(trace).text()


@pytest.mark.parametrize("name", NEGATIVE)
def test_what_is_no_attention_is_named_with_the_line_that_takes_it(name):
    model, x = NEGATIVE[name](), torch.randn(BATCH, LENGTH, WIDTH)
    with rf.record(model=model) as trace:
        model(x)
    assert not trace.attention
    assert trace.left_out.startswith("1 softmax was not taken for attention: the model: ")
    assert trace.left_out.endswith("To take them: rf.record(model=model, attention=[''])")
    assert trace.left_out in trace.summary() and "1 softmax not taken for attention" in repr(trace)
    shown = " ".join(rf.show(trace).text().split())
    assert "Left out: 1 softmax was" in shown and " — 1 softmax not taken for attention " in shown
    with rf.record(model=model, attention=[""]) as trace:
        model(x)
    assert list(trace.attention) == [""] and not trace.left_out


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(("kind", "inputs"), POSITIVE, ids=[kind.__name__ for kind, _ in POSITIVE])
def test_outputs_gradients_generators_and_state_are_the_same_bits(kind, inputs, training):
    model, given = kind().train(training), inputs()
    state = {name: value.clone() for name, value in model.state_dict().items()}

    def run():
        torch.manual_seed(7)
        model.zero_grad()
        result = model(*given)
        result.float().square().sum().backward()
        gradients = [each.grad.clone() for each in model.parameters() if each.grad is not None]
        return [result.detach(), *gradients, torch.get_rng_state()]

    plain = run()
    with rf.record(model=model, values=True, ops=True):
        again = run()
    assert len(plain) == len(again) and all(torch.equal(*pair) for pair in zip(plain, again))
    assert state.keys() == model.state_dict().keys() and all(
        torch.equal(state[name], model.state_dict()[name]) for name in state
    )
    assert not torch._C._len_torch_function_stack() and not any("forward" in vars(each) for each in model.modules())


def test_dims_are_told_by_where_the_axes_begin():
    model = Luong()
    dims = {"": {"decoder_states": ["batch", "out", "unit"], "encoder_states": ["batch", "in", "unit"]}}
    with rf.record(model=model, dims=dims) as trace:
        model(torch.randn(BATCH, LENGTH, WIDTH), torch.randn(BATCH, LENGTH, WIDTH))
    assert [dim.name for dim in trace.attention[""].dims] == ["batch", "out", "in"]


def test_self_attention_has_a_twin_and_heads_of_a_list_are_one_map():
    model = Heads()
    with rf.record(model=model) as trace:
        model(ids(BATCH))
    batch, head, target, source = trace.attention["heads"].dims
    assert (batch.kind, head.name, head.extent) == ("batch", "head", 2) and source.twin_of is target


FOLDED = {  # heads in one axis with the batch, in front of it or behind it
    "permuted": (True, lambda x, h: x.unflatten(-1, (h, -1)).permute(2, 0, 1, 3).contiguous().view(-1, x.shape[1], WIDTH // h)),
    "chunks": (True, lambda x, h: torch.cat(torch.chunk(x, h, dim=2), dim=0)),
    "slices": (True, lambda x, h: torch.cat([x[..., i * WIDTH // h : (i + 1) * WIDTH // h] for i in range(h)])),
    "stacked": (True, lambda x, h: torch.stack(x.split(WIDTH // h, -1)).flatten(0, 1)),
    "merged": (False, lambda x, h: x.unflatten(-1, (h, -1)).transpose(1, 2).reshape(-1, x.shape[1], WIDTH // h)),
    "time in front": (False, lambda x, h: x.transpose(0, 1).reshape(x.shape[1], len(x) * h, WIDTH // h).transpose(0, 1)),
}  # fmt: skip


class Folds(nn.Module):
    def __init__(self, fold, heads):
        super().__init__()
        self.fold, self.heads = fold, heads
        self.q, self.k = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (self.fold(each, self.heads) for each in (self.q(x), self.k(x), x))
        self.weights = torch.bmm(q, k.transpose(1, 2)).softmax(-1)
        return self.weights @ v


@pytest.mark.parametrize("sizes", [(3, 2), (2, 2), (1, 2), (2, 4)])
@pytest.mark.parametrize("way", FOLDED)
def test_heads_in_one_axis_with_the_batch_are_told_apart_from_it(way, sizes):
    (batch, heads), (in_front, fold) = sizes, FOLDED[way]
    model, x = Folds(fold, heads), torch.randn(batch, LENGTH, WIDTH)

    def own():
        shape = (heads, batch) if in_front else (batch, heads)
        weights = model.weights.unflatten(0, shape)
        return weights.transpose(0, 1) if in_front else weights

    with rf.record(model=model) as trace:
        model(x)
    weights = trace.attention[""]
    assert [dim.name for dim in weights.dims] == ["batch", "head", "time", "time"]
    assert torch.equal(weights.raw_tensor, own())
    with rf.edit(model, {"weights[batch=-1, head=0, target=1]": 0}):
        model(x)
    assert not own()[-1, 0, 1].any() and int((own() == 0).sum()) == LENGTH


def test_learned_queries_are_latent_and_no_time():
    class Cross(nn.Module):
        def __init__(self):
            super().__init__()
            self.query = nn.Linear(WIDTH, WIDTH)

        def forward(self, x, context):
            return (self.query(x) @ context.mT).softmax(-1) @ context

    class Perceives(nn.Module):
        def __init__(self):
            super().__init__()
            self.latents, self.read, self.write = nn.Parameter(torch.randn(2, WIDTH)), Cross(), Cross()

        def forward(self, x):
            found = self.read(self.latents.expand(len(x), -1, -1), x)
            return self.write(x, found)

    model = Perceives()
    with rf.record(model=model) as trace:
        model(torch.randn(BATCH, LENGTH, WIDTH))
    names = {path: [dim.name for dim in trace.attention[path].dims] for path in trace.attention}
    assert names == {"read": ["batch", "latent", "time"], "write": ["batch", "time", "latent"]}


class Layers(nn.Module):
    """Modules of a list that go on from each other are layers, no heads."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Head() for _ in range(2))
        self.wide = nn.Linear(WIDTH // 2, WIDTH)

    def forward(self, x):
        for layer in self.layers:
            x = self.wide(layer(x))
        return x


def test_layers_of_a_list_stay_apart():
    model = Layers()
    with rf.record(model=model) as trace:
        model(torch.randn(BATCH, LENGTH, WIDTH))
    assert list(trace.attention) == ["layers.0", "layers.1"]


class AroundTorch(nn.Module):
    """Own code around an encoder of torch, which has a fast path, and around its attention."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True)
        self.encoder, self.score = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(WIDTH, 1)

    def forward(self, x):
        x = self.encoder(x)
        return (self.score(x).softmax(1) * x).sum(1)


def test_modules_of_torch_keep_their_fast_paths_and_are_recorded_once(monkeypatch):
    model, x = AroundTorch().eval(), torch.randn(BATCH, SOURCES, WIDTH)
    calls = []
    fast = torch._transformer_encoder_layer_fwd
    monkeypatch.setattr(torch, "_transformer_encoder_layer_fwd", lambda *args: calls.append(1) or fast(*args))
    with torch.no_grad():
        plain = model(x)
        with rf.record(model=model) as trace:
            again = model(x)
    assert torch.equal(plain, again) and len(calls) == 4
    assert sorted(trace.attention) == ["", "encoder.layers.0.self_attn", "encoder.layers.1.self_attn"]


class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = Head()

    def forward(self, x):
        self.head(x)
        raise ValueError("of the model")


def test_an_error_of_the_model_leaves_no_mode_behind():
    model = Raises()
    with rf.record(model=model), pytest.raises(ValueError, match="of the model"):
        model(torch.randn(BATCH, LENGTH, WIDTH))
    assert not torch._C._len_torch_function_stack()


class Renormalised(nn.Module):
    """Weights that are masked and divided again behind the softmax, and dropped at last."""

    def forward(self, x, mask):
        weights = torch.softmax(x @ x.transpose(1, 2), -1) * mask
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-13)
        self.weights = weights.detach()
        return F.dropout(weights, 0.5) @ x


def test_weights_are_those_that_the_model_multiplies_with_but_before_dropout():
    model = Renormalised()
    with rf.record(model=model) as trace:
        model(torch.randn(BATCH, LENGTH, WIDTH), (torch.rand(BATCH, 1, LENGTH) > 0.3).float())
    assert torch.equal(trace.attention[""].raw_tensor, model.weights)


def test_an_error_while_looking_is_said_and_the_run_goes_on(monkeypatch):
    from rfnb.interop.seen.softmaxes import SoftmaxSearch

    class Own(torch.nn.Module):
        def forward(self, x):
            return x.softmax(-1) @ x

    def fail(*args):
        raise ZeroDivisionError("while looking")

    monkeypatch.setattr(SoftmaxSearch, "_note", fail)
    model, x = Own(), torch.ones(1, 3, 3)
    with pytest.warns(UserWarning, match="ZeroDivisionError: while looking"), rf.record(model=model) as trace:
        out = model(x)
    assert torch.equal(out, x.softmax(-1) @ x)
    (event,) = trace.select(kind="unseen")
    assert "while looking" in event.values["reason"]


class LocationSensitive(nn.Module):
    """Scores of each step are made of the weights of the step before (Chorowski et al. 2015), and of an exp that is written twice."""

    def __init__(self):
        super().__init__()
        self.cell, self.query, self.score = nn.GRUCell(8, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.location, self.maps = nn.Conv1d(1, 8, 3, padding=1), []

    def forward(self, memory):
        h, context = memory[:, 0] * 0, memory[:, 0]
        weights = memory[..., 0] * 0
        for _ in range(3):
            h = self.cell(context, h)
            scores = self.score(
                torch.tanh(self.query(h)[:, None] + memory + self.location(weights[:, None]).transpose(1, 2))
            )
            scores = scores.squeeze(-1)
            weights = torch.exp(scores) / torch.exp(scores).sum(-1, keepdim=True)
            self.maps.append(weights.detach())
            context = torch.bmm(weights[:, None], memory)[:, 0]
        return context


def test_weights_that_the_next_scores_are_made_of_are_maps_of_all_steps():
    model = LocationSensitive()
    with rf.record(model=model) as trace:
        model(torch.randn(2, 5, 8))
    events = trace.select("attention")
    assert [event.step for event in events] == [0, 1, 2] and not trace.left_out
    for event, wanted in zip(events, model.maps):
        assert torch.equal(event.values["weights"].raw_tensor, wanted)
