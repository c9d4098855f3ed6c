"""Models of plain torch code in the engine of a page: the same values and views as in Python, for texts of any length."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from viz.runnable import run_in_node, views_in_node

import rfnb as rf
from rfnb.core.errors import parts_of as parts_of_error
from rfnb.interop.torch_page_calls import ROWS
from rfnb.viz import trace_page
from rfnb.viz.group.spec import parts_of
from rfnb.viz.runnable.page import page_of
from rfnb.viz.runnable.program import PageProgram

LETTERS = "abcdefgh"
TEXTS = ["abcd", "h", "gfedcbaabcdd", "bbbb", "ab"]


def ids_of(text):
    return torch.tensor([[LETTERS.index(letter) for letter in text]])


# -- models, as people write them ------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, width, heads, size):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1))
        self.register_buffer("mask", torch.tril(torch.ones(size, size)).view(1, 1, size, size))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(C, dim=2)
        q, k, v = (each.view(B, T, self.heads, C // self.heads).transpose(1, 2) for each in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        y = F.softmax(att, dim=-1) @ v
        x = x + self.proj(y.transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, width=16, heads=4, layers=2, size=32):
        super().__init__()
        self.size = size
        self.tok, self.pos = nn.Embedding(8, width), nn.Embedding(size, width)
        self.blocks = nn.ModuleList(Block(width, heads, size) for _ in range(layers))
        self.ln, self.head = nn.LayerNorm(width), nn.Linear(width, 8, bias=False)
        self.head.weight = self.tok.weight

    def forward(self, ids):
        B, T = ids.size()
        assert T <= self.size
        x = self.tok(ids) + self.pos(torch.arange(T, device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class Fused(nn.Module):
    """`scaled_dot_product_attention`, a learned table of positions, a key and value history."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.emb, self.pos = nn.Embedding(8, width), nn.Parameter(torch.randn(1, 64, width))
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, 8)

    def forward(self, ids):
        x = self.emb(ids) + self.pos[:, : ids.shape[1]]
        b, t, d = x.shape
        q, k, v = (each(x).reshape(b, t, self.heads, -1).permute(0, 2, 1, 3) for each in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.permute(0, 2, 1, 3).flatten(2)).log_softmax(-1)

    def step(self, labels, past):
        """The next log probabilities of labels (n,), given keys and values (n, time, width) of what was before."""
        x = self.emb(labels)[:, None] + self.pos[:, :1]
        keys, values = (torch.cat([old, make(x)], dim=1) for old, make in zip(past, (self.k, self.v)))
        weights = torch.softmax(self.q(x) @ keys.transpose(1, 2) / math.sqrt(x.size(-1)), dim=-1)
        return self.out((weights @ values).squeeze(1)).log_softmax(-1), (keys, values)


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn = nn.Embedding(8, 6), nn.LSTM(6, 8, num_layers=2, batch_first=True)
        self.cell, self.out = nn.LSTMCell(6, 8), nn.Linear(8, 8)

    def forward(self, ids):
        y, (h, c) = self.rnn(self.emb(ids))
        return self.out(y), h, c

    def step(self, labels, state):
        h, c = self.cell(self.emb(labels), state)
        return (self.out(h) * 5).log_softmax(-1), (h, c)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn = nn.Embedding(8, 6), nn.GRU(6, 8, bidirectional=True, batch_first=True)
        self.score, self.out = nn.Linear(16, 1), nn.Linear(16, 3)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        weights = torch.softmax(self.score(torch.tanh(h)).squeeze(-1), dim=1)
        return self.out(torch.bmm(weights.unsqueeze(1), h).squeeze(1))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(8, 6)
        self.one, self.two = nn.Conv1d(6, 10, 3, padding=1), nn.Conv1d(10, 10, 3, padding=2, dilation=2)
        self.norm, self.out = nn.BatchNorm1d(10), nn.Linear(20, 4)

    def forward(self, ids):
        x = F.relu(self.norm(self.one(self.emb(ids).transpose(1, 2))))
        x = torch.relu_(self.two(x))
        return self.out(torch.cat([x.max(dim=-1).values, x.mean(2)], dim=-1))


class Bag(nn.Module):
    """An MLP over the mean and the last three letters."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(8, 6)
        self.net = nn.Sequential(nn.Linear(12, 16), nn.ReLU(inplace=True), nn.Linear(16, 5))

    def forward(self, ids):
        x = self.emb(ids)
        return F.log_softmax(self.net(torch.cat((x.sum(1) / x.shape[1], x[:, -1]), dim=1)), dim=1)


# -- the same in other styles ----------------------------------------------------------------------------------------------


class Positions(nn.Module):
    def __init__(self, width, size=100):
        super().__init__()
        place, rate = torch.arange(size).unsqueeze(1), torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        table = torch.zeros(size, 1, width)
        table[:, 0, 0::2], table[:, 0, 1::2] = torch.sin(place * rate), torch.cos(place * rate)
        self.register_buffer("table", table.transpose(0, 1))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(x + self.table[:, : x.size(1)])


class Encoder(nn.Module):
    """nn.TransformerEncoder with batch_first."""

    def __init__(self, width=16):
        super().__init__()
        self.width = width
        self.emb, self.positions, self.out = nn.Embedding(8, width), Positions(width), nn.Linear(width, 8)
        layer = nn.TransformerEncoderLayer(width, 4, 32, batch_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, num_layers=2)

    def forward(self, ids):
        mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
        x = self.positions(self.emb(ids) * math.sqrt(self.width))
        return self.out(self.encoder(x, mask=mask, is_causal=True))


def turned(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class Einsum(nn.Module):
    """Attention by einsum, rotary positions, a norm by hand and a gated MLP."""

    def __init__(self, width=16, heads=2):
        super().__init__()
        self.size = width // heads
        self.emb = nn.Parameter(torch.randn(8, width) * 0.5)
        self.wq, self.wk, self.wv = (nn.Parameter(torch.randn(width, heads, self.size) * 0.3) for _ in range(3))
        self.wo = nn.Parameter(torch.randn(heads, self.size, width) * 0.3)
        self.w1, self.w2, self.w3 = nn.Linear(width, 32), nn.Linear(32, width), nn.Linear(width, 32)

    def norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)

    def forward(self, ids):
        x = self.emb[ids]
        n = x.shape[1]
        rates = 1.0 / (10000 ** (torch.arange(0, self.size, 2).float() / self.size))
        angles = torch.einsum("i,j->ij", torch.arange(n).float(), rates)
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos()[None, :, None], angles.sin()[None, :, None]
        q, k, v = (torch.einsum("bnd,dhk->bnhk", self.norm(x), w) for w in (self.wq, self.wk, self.wv))
        q, k = q * cos + turned(q) * sin, k * cos + turned(k) * sin
        sim = torch.einsum("bihk,bjhk->bhij", q, k) * self.size**-0.5
        ahead = torch.ones((n, n), dtype=torch.bool).triu(1)
        weights = sim.masked_fill(ahead, -torch.finfo(sim.dtype).max).softmax(dim=-1)
        x = x + torch.einsum("bhij,bjhk,hkd->bid", weights, v, self.wo)
        y = self.norm(x)
        return (x + self.w2(F.silu(self.w1(y)) * self.w3(y))) @ self.emb.t()


class Functions:
    """Functions of weights in a dict: chunk, view, transpose, contiguous, masks that are added."""

    def __init__(self, width=12, heads=3):
        made = torch.Generator().manual_seed(1)
        shapes = {
            "wte": (8, width),
            "wpe": (40, width),
            "w": (3 * width, width),
            "b": (3 * width,),
            "o": (width, width),
        }
        shapes |= {"f1": (4 * width, width), "f2": (width, 4 * width), "g": (width,)}
        self.p = {name: torch.randn(*shape, generator=made) * 0.3 for name, shape in shapes.items()}
        self.heads = heads

    def split(self, t):
        size = t.size(-1) // self.heads
        t = t.contiguous().view(t.size(0), -1, self.heads, size).transpose(1, 2)
        return t.contiguous().view(-1, t.size(2), size)

    def __call__(self, ids):
        p, seq = self.p, ids.size(-1)
        places = torch.arange(0, seq, dtype=torch.long).unsqueeze(0)
        x = F.embedding(ids, p["wte"]) + F.embedding(places, p["wpe"])
        y = F.layer_norm(x, x.shape[-1:], p["g"])
        q, k, v = map(self.split, F.linear(y, p["w"], p["b"]).chunk(3, -1))
        w = torch.bmm(q, k.transpose(1, 2)) / (q.size(-1) ** 0.5)
        w += torch.triu(torch.full((seq, seq), float("-inf")), diagonal=1)
        a = torch.bmm(F.softmax(w.float(), dim=-1).type_as(q), v)
        a = a.view(ids.size(0), self.heads, seq, -1).transpose(1, 2).reshape(ids.size(0), seq, -1)
        x = x + F.linear(a, p["o"])
        x = x + F.linear(F.gelu(F.linear(F.layer_norm(x, (x.size(-1),)), p["f1"]), approximate="tanh"), p["f2"])
        return F.log_softmax(x.matmul(p["wte"].T), -1)


torch.manual_seed(3)
MODELS = {
    "GPT": GPT(), "fused attention": Fused(), "LSTM": LanguageModel(), "GRU with attention": Classifier(), "convolutions": Convolutions(),
    "MLP": Bag(), "nn.TransformerEncoder": Encoder(), "einsum": Einsum(), "functions": Functions(),
}  # fmt: skip
for model in MODELS.values():
    if isinstance(model, nn.Module):
        model.eval()


def of_model(model):
    return lambda text: model(ids_of(text))


def searched(step, state, **options):
    return rf.beam_search(step, batch=1, state=state, beam_size=3, max_seq_len=7, vocab=list(LETTERS), **options)


def by_cell(text):
    model = MODELS["LSTM"]
    _, h, c = model(ids_of(text))
    return searched(model.step, (h[-1], c[-1]), start_label=3)


def by_whole_texts(text):
    def step(labels, tokens):
        tokens = torch.cat([tokens, labels[:, None]], 1)
        return F.log_softmax(MODELS["GPT"](tokens)[:, -1] * 3, dim=-1), tokens

    return searched(step, ids_of(text), start_label=1, no_repeat_ngram=1)


def by_history(text):
    model = MODELS["fused attention"]
    x = model.emb(ids_of(text))
    return searched(model.step, (model.k(x), model.v(x)), start_label=2)


SEARCHES = {"a cell": by_cell, "the whole text in each step": by_whole_texts, "keys and values": by_history}
CALLS = {**{name: of_model(model) for name, model in MODELS.items()}, **SEARCHES}


def numbers(answer):
    for value in answer["values"]:
        yield np.array([float(each.replace("Infinity", "inf")) for each in value["values"]]), value


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """By name the program, and what the engine says of the texts."""
    programs = {name: PageProgram.of(fn, "abcd") for name, fn in CALLS.items()}
    told = run_in_node(programs, TEXTS, tmp_path_factory.mktemp("torch"))
    return {name: (program, told[name]) for name, program in programs.items()}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_torch_computes_in_a_page_what_torch_computes(name, answers):
    program, told = answers[name]
    assert told["missing"] == []
    for text, answer in zip(TEXTS, told["answers"], strict=True):
        assert "error" not in answer, answer
        with torch.no_grad():
            found = CALLS[name](text)
        for (got, value), ref, wanted in zip(
            numbers(answer), program.spec["result"], found if isinstance(found, tuple) else (found,), strict=True
        ):
            order = [value["dims"].index(dim) for dim in dims_of(program, ref)]
            got = got.reshape(value["shape"]).transpose(order)
            np.testing.assert_allclose(got, wanted.numpy(), atol=1e-4)


def dims_of(program, ref):
    """The dims of a value in the order of torch's axes."""
    blocks = program.spec["blocks"]
    ops = {number: kind for block in blocks if "op" in block for number, kind in zip(block["results"], block["as"])}
    return ops[ref[1]]["dims"]


@pytest.mark.parametrize("name", SEARCHES)
def test_a_step_function_of_torch_searches_in_a_page_as_here(name, answers):
    for text, answer in zip(TEXTS, answers[name][1]["answers"], strict=True):
        assert "error" not in answer, answer
        with torch.no_grad():
            wanted = CALLS[name](text).history.nbest(0)
        for found, own in zip(answer["nbest"][-1], wanted, strict=True):
            labels = [int(label) for label in own.tokens[: len(own.tokens) - own.ended]]
            assert (found["labels"], found["ended"]) == (labels, own.ended)
            assert found["score"] == pytest.approx(own.score, abs=1e-4)


SEEN = {"GPT": "attention", "fused attention": "attention", "GRU with attention": "states", "LSTM": "states",
        "nn.TransformerEncoder": "attention"}  # fmt: skip


@pytest.mark.parametrize("name", SEEN)
def test_the_views_of_a_model_of_torch_have_the_values_that_python_draws(name, tmp_path):
    record = {"model": MODELS[name], "labels": list(LETTERS)}
    page = page_of(CALLS[name], ("text", "abcd"), {}, {}, record=record, weights="float32")[0]
    kinds = []
    for text, group in zip(TEXTS, views_in_node(page, [(text, {}) for text in TEXTS], tmp_path), strict=True):
        run = rf.run(CALLS[name], text=text, record=record)
        run.wait()
        recorded = trace_page.spec(run.trace)
        own = {
            str(part.head.get("key")): part for part in (parts_of(recorded) if recorded.kind == "group" else [recorded])
        }
        for part in parts_of(group):
            kinds.append(part.kind)
            wanted, entries = own.get(str(part.head["key"])), "maps" if part.kind == "attention" else "tracks"
            if len(text) == 1:
                continue  # Python has other labels for a single step
            by_label = {entry["label"]: entry for entry in wanted.head[entries]}
            for entry in part.head[entries]:
                shown = wanted.blocks[by_label[entry["label"]]["block"]]
                np.testing.assert_allclose(part.blocks[entry["block"]], shown, atol=1e-4)
            (seq,), (shown,) = part.head["seqs"], wanted.head["seqs"]
            names = [name for name in ("rows", "cols", "steps") if name in shown]
            assert {name: list(seq[name]) for name in names} == {name: list(shown[name]) for name in names}
    assert SEEN[name] in kinds


# -- letters, lengths, refusals --------------------------------------------------------------------------------------------


def test_letters_that_are_not_in_the_text_are_found_by_calling_the_function(answers):
    value = answers["GPT"][0].spec["blocks"][0]["given"]["value"]
    assert value["letters"] == {letter: label for label, letter in enumerate(LETTERS)}


@pytest.mark.parametrize("name", ["GPT", "the whole text in each step"])
def test_the_effect_of_fewer_bits_is_that_on_the_weights_of_torch_which_are_as_before(name):
    model = MODELS["GPT"]
    before = {key: value.clone() for key, value in model.state_dict().items()}
    about = page_of(CALLS[name], ("text", "abcd"), {}, {}, record={"model": model}, weights="int8")[1]
    assert "numbers change by at most" in about["said"] or "other labels" in about["said"]
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_a_model_of_torch_reads_words(tmp_path):
    words = ["the", "cat", "sat", "on", "a", "mat"]

    def fn(text):
        return MODELS["GPT"](torch.tensor([[words.index(word) for word in text.split()]]))

    program = PageProgram.of(fn, "the cat sat on a mat")
    (answer,) = run_in_node({"it": program}, ["a cat sat"], tmp_path)["it"]["answers"]
    ((got, _),) = numbers(answer)
    np.testing.assert_allclose(got, fn("a cat sat").detach().numpy().ravel(), atol=1e-4)


def test_a_text_that_the_code_asserts_to_be_too_long_is_said(answers, tmp_path):
    (answer,) = run_in_node({"GPT": answers["GPT"][0]}, ["a" * 33], tmp_path)["GPT"]["answers"]
    assert "at most 32" in answer["error"]


def net_of(text, change=lambda x: x):
    return change(MODELS["MLP"].emb(ids_of(text)))


def in_training(model):
    return lambda text: model.train()(ids_of(text))


def by_cell_in_python(text):
    model, x = MODELS["LSTM"], MODELS["LSTM"].emb(ids_of(text))
    h = c = torch.zeros(1, 8)
    for step in range(x.size(1)):
        h, c = model.cell(x[:, step], (h, c))
    return h


def shared_memory(x):
    flat = x.view(-1)
    flat.add_(1.0)
    return x * 2.0


REFUSED = {
    "an op without a row": (lambda text: net_of(text, lambda x: x.topk(2)[0]), "cannot run topk of torch"),
    "a sort": (lambda text: net_of(text, lambda x: torch.sort(x, 1)[0]), "cannot run sort of torch"),
    "dropout in training": (in_training(GPT()), "dropout of torch in training"),
    "batch norm in training": (in_training(Convolutions()), "batch_norm of torch in training"),
    "a decision by values": (lambda text: net_of(text, lambda x: x if x.sum() > 0 else -x), "turns into numbers"),
    "a number from values": (lambda text: net_of(text, lambda x: x * x.max().item()), "turns into numbers"),
    "NumPy": (lambda text: net_of(text, lambda x: torch.from_numpy(x.detach().numpy() * 2)), "turns into numbers"),
    "a loop of Python": (by_cell_in_python, "the number of ops depends on the text"),
    "a size that is no line": (lambda text: net_of(text, lambda x: x * float(x.size(1) ** 2)), "depends on the text"),
    "a square root of a size": (lambda text: net_of(text, lambda x: x / math.sqrt(x.size(1))), "depends on the text"),
    "another branch for other lengths": (lambda text: net_of(text, lambda x: x if x.size(1) > 4 else -x), "depends on the text"),
    "noise": (lambda text: net_of(text, lambda x: x + torch.randn_like(x)), "cannot run randn_like of torch"),
    "a part changed in place": (lambda text: net_of(text, shared_memory), "while another shares its memory"),
    "an index by bools": (lambda text: net_of(text, lambda x: x[x > 0]), "an index of several arrays, or of bools"),
    "16 bits": (lambda text: net_of(text, lambda x: x.half() * 2), "float16"),
    "a batch of two": (lambda text: rf.beam_search(lambda labels, state: (torch.zeros(len(labels), 8) + net_of(text).sum(), state), batch=2,
                                                   max_seq_len=3), "a search of several sequences"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_page_cannot_run_of_torch_is_refused_with_the_rule(name):
    fn, words = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=words) as refused:
        PageProgram.of(fn, "abcd")
    assert str(refused.value).startswith("A page cannot run")
    assert parts_of_error(refused.value)[2]


def test_a_refused_call_of_torch_has_its_line_and_the_list_of_calls():
    def fn(text):
        x = MODELS["MLP"].emb(ids_of(text))
        return x.topk(2)[0]

    with pytest.raises(TypeError) as refused:
        PageProgram.of(fn, "abcd")
    what, rows, rule, _ = parts_of_error(refused.value)
    assert dict(rows) == {"called in": f"test_runnable_torch.py:{fn.__code__.co_firstlineno + 2}"}
    assert "scaled_dot_product_attention" in rule and "topk" not in rule


def test_the_docs_count_the_calls():
    text = (Path(__file__).parents[2] / "docs" / "pages.md").read_text()
    assert f"{len(ROWS)} names of calls" in text
