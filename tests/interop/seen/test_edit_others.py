"""A second set of edits, of families that rf.edit was not written by: each against hooks or attention by hand."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rfnb as rf

pytest.importorskip("transformers")
from interop.seen.hf_families import inputs, made
from interop.seen.test_edit import by_hand, same, without_head

# Family: the attention, what projects its heads, its heads.
HEADS = {
    "Gemma2": ("model.layers.1.self_attn", "model.layers.1.self_attn.o_proj", 4),
    "GptOss": ("model.layers.0.self_attn", "model.layers.0.self_attn.o_proj", 4),
    "GPTNeoX": ("gpt_neox.layers.1.attention", "gpt_neox.layers.1.attention.dense", 4),
    "OPT": ("model.decoder.layers.1.self_attn", "model.decoder.layers.1.self_attn.out_proj", 4),
    "Bloom": ("transformer.h.1.self_attention", "transformer.h.1.self_attention.dense", 4),
    "FalconAlibi": ("transformer.h.1.self_attention", "transformer.h.1.self_attention.dense", 4),
    "DistilBert": ("distilbert.transformer.layer.1.attention", "distilbert.transformer.layer.1.attention.out_lin", 4),
    "DebertaV2": ("encoder.layer.1.attention.self", "encoder.layer.1.attention.output.dense", 4),
    "Whisper": ("model.decoder.layers.0.encoder_attn", "model.decoder.layers.0.encoder_attn.out_proj", 4),
    "Wav2Vec2": ("wav2vec2.encoder.layers.1.attention", "wav2vec2.encoder.layers.1.attention.out_proj", 4),
    "ViT": (None, None, 4),
    "Mixtral": ("model.layers.1.self_attn", "model.layers.1.self_attn.o_proj", 4),
    "GPTNeo": ("transformer.h.1.attn.attention", "transformer.h.1.attn.attention.out_proj", 4),
}


def first(model, batch):
    with torch.no_grad():
        return next(raw for raw in model(**batch).values() if isinstance(raw, torch.Tensor))


@pytest.mark.parametrize("family", HEADS)
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_an_ablated_head_gives_nothing_to_its_projection(family, implementation):
    try:
        model, batch = made(family, implementation), inputs(family)
    except ValueError as error:
        pytest.skip(str(error).split(".")[0])
    attention, projection, heads = HEADS[family]
    if attention is None:  # names differ between versions
        ends = ("1.attention.output.dense", "1.attention.o_proj")
        projection = next(path for path, _ in model.named_modules() if "layer" in path and path.endswith(ends))
        with rf.record("attention", model=model) as trace:
            first(model, batch)
        attention = list(trace.attention)[1]
    plain = first(model, batch)
    with by_hand(model, projection, lambda raw: without_head(raw, 1, heads), before=True):
        wanted = first(model, batch)
    with rf.edit(model, {f"{attention}.weights[head=1]": 0}), rf.record(model=model) as trace:
        got = first(model, batch)
    same(got, wanted)
    assert (got - plain).abs().max() > 1e-4
    assert not trace.attention[attention].raw_tensor[:, 1].any()
    assert torch.equal(first(model, batch), plain)


def test_sinks_keep_their_share_of_a_row_that_is_halved():
    model, batch = made("GptOss", "eager"), inputs("GptOss")
    path = "model.layers.0.self_attn"
    with rf.record(model=model) as before:
        first(model, batch)
    with rf.edit(model, {f"{path}.weights[head=2]": lambda raw: raw / 2}), rf.record(model=model) as trace:
        got = first(model, batch)
    same(trace.attention[path].raw_tensor[:, 2], before.attention[path].raw_tensor[:, 2] / 2)

    def half(raw):
        out = raw.clone().unflatten(-1, (4, -1))
        out[..., 2, :] /= 2
        return out.flatten(-2)

    with by_hand(model, f"{path}.o_proj", half, before=True):
        same(got, first(model, batch))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.conv, self.out = nn.GRU(6, 5, batch_first=True), nn.Conv1d(5, 4, 3, padding=1), nn.Linear(4, 3)

    def forward(self, x):
        return self.out(torch.relu(self.conv(self.rnn(x)[0].transpose(1, 2)).transpose(1, 2)))


@pytest.mark.parametrize(
    ("place", "path", "index"),
    [
        ("rnn[time=2, feature=[0, 3]]", "rnn", (slice(None), 2, [0, 3])),
        ("conv[time=-1]", "conv", (slice(None), slice(None), -1)),
        ("conv[batch=1]", "conv", (1,)),
        ("out[batch=0, time=1:3, vocab=2]", "out", (0, slice(1, 3), 2)),
    ],
)
def test_what_recurrent_and_convolutional_modules_return(place, path, index):
    torch.manual_seed(2)
    model, x = Lstm().eval(), torch.randn(2, 7, 6)

    def put(raw):
        out = raw.clone()
        out[index] = 0.25
        return out

    with by_hand(model, path, put), torch.no_grad():
        wanted = model(x)
    with rf.edit(model, {place: 0.25}), torch.no_grad():
        assert torch.equal(model(x), wanted)


class Bahdanau(nn.Module):
    """Additive attention, one target after the other."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.v = nn.Linear(5, 5), nn.Linear(5, 5), nn.Linear(5, 1)

    def forward(self, query, keys):
        energy = self.v(torch.tanh(self.a(query)[:, None] + self.b(keys)))[..., 0]
        weights = F.softmax(energy, dim=-1)
        return (weights[..., None] * keys).sum(1)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.cell = Bahdanau(), nn.GRUCell(5, 5)

    def forward(self, keys):
        h, outs = torch.zeros(len(keys), 5), []
        for _ in range(4):
            h = self.cell(self.attention(h, keys), h)
            outs.append(h)
        return torch.stack(outs, 1)


def test_one_step_of_additive_attention_in_a_python_loop():
    torch.manual_seed(2)
    model, keys = Decoder().eval(), torch.randn(2, 6, 5)
    with torch.no_grad(), rf.edit(model, {"attention.weights[step=2]": torch.eye(6)[3]}):
        got = model(keys)
    h = torch.zeros(2, 5)
    for step in range(4):
        context = keys[:, 3] if step == 2 else model.attention(h, keys)
        h = model.cell(context, h)
        torch.testing.assert_close(got[:, step], h.detach())


def test_cross_attention_of_a_transformer_of_torch_on_both_paths():
    torch.manual_seed(2)
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True).eval()
    src, tgt = torch.randn(2, 5, 8), torch.randn(2, 3, 8)
    attend = model.decoder.layers[0].multihead_attn
    memory = model.encoder(src)
    for grad in (False, True):
        with torch.set_grad_enabled(grad), rf.edit(model, {"decoder.layers.0.multihead_attn.weights": 0}):
            got = model(src, tgt)
        with by_hand(model, "decoder.layers.0.multihead_attn", lambda raw: attend.out_proj.bias.expand_as(raw)):
            torch.testing.assert_close(got, model.decoder(tgt, memory), atol=1e-5, rtol=1e-5)
