"""Weights by rows are those of the formula, also in overviews, and views and files of them stay small."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rfnb as rf
from rfnb.trace import long_attention
from rfnb.viz.attention.content import text as text_of
from rfnb.viz.exact_values import part
from rfnb.viz.kinds import drawing_of
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import page_spec
from rfnb.viz.spec import pack, unpack

SEQS, HEADS, WIDTH = 2, 4, 8


@pytest.fixture
def small(monkeypatch):
    """A small case of a large map: several blocks, and cells that stand for several weights."""
    for name, value in (("LARGE", 500), ("LARGE_IN_ALL", 1 << 26), ("_BLOCK", 200), ("_SIDE", 8)):
        monkeypatch.setattr(long_attention, name, value)


def made(targets, sources, dtype=torch.float32):
    torch.manual_seed(1)
    return torch.randn(SEQS, HEADS, targets, WIDTH).to(dtype), torch.randn(SEQS, 2, sources, WIDTH).to(dtype)


def by_numpy(queries, keys, allowed=None, added=0.0, scale=WIDTH**-0.5):
    queries, keys = queries.double().numpy(), np.repeat(keys.double().numpy(), HEADS // 2, 1)
    scores = queries @ keys.swapaxes(-1, -2) * scale + added
    scores = np.where(True if allowed is None else allowed, scores, -np.inf)
    top = np.exp(scores - np.nan_to_num(scores.max(-1, keepdims=True), neginf=0))
    return top / np.maximum(top.sum(-1, keepdims=True), 1e-300)


OPTIONS = {
    "all": ({}, 30, 41),
    "causal": ({"causal": True}, 30, 30),
    "cache": ({"causal": True, "scale": 0.7}, 30, 41),
    "fewer": ({"causal": True}, 41, 30),
    "window": ({"causal": True, "window": 7}, 37, 41),
    "lengths": ({"lengths": [41, 13]}, 30, 41),
    "mask": ({"mask": torch.rand(SEQS, 1, 30, 41) < 0.7}, 30, 41),
    "bias": ({"mask": torch.randn(HEADS, 1, 41), "causal": True}, 30, 41),
}


def expected_of(options, queries, keys):
    at = np.arange(queries.shape[2])[:, None] + keys.shape[2] - queries.shape[2]
    col, allowed, added = (
        np.arange(keys.shape[2])[None],
        np.ones((SEQS, HEADS, queries.shape[2], keys.shape[2]), bool),
        0.0,
    )
    if options.get("causal"):
        allowed = allowed & (col <= at)
    if options.get("window"):
        allowed = allowed & (col > at - options["window"])
    if options.get("lengths"):
        allowed = allowed & (col < np.array(options["lengths"])[:, None, None, None])
    mask = options.get("mask")
    if mask is not None and mask.dtype == torch.bool:
        allowed = allowed & mask.numpy()
    elif mask is not None:
        added = mask.numpy()
    return by_numpy(queries, keys, allowed, added, options.get("scale", WIDTH**-0.5))


@pytest.mark.parametrize("library", ["torch", "numpy"])
@pytest.mark.parametrize("name", list(OPTIONS))
def test_rows_and_overviews_are_those_of_the_formula(name, library, small):
    options, targets, sources = OPTIONS[name]
    queries, keys = made(targets, sources)
    expected = expected_of(options, queries, keys)
    given = {
        key: value.numpy() if library == "numpy" and isinstance(value, torch.Tensor) else value
        for key, value in options.items()
    }
    long = rf.LongAttention(*((raw.numpy() if library == "numpy" else raw) for raw in (queries, keys)), **given)
    for seq in range(SEQS):
        for head in range(HEADS):
            weights = expected[seq, head]
            np.testing.assert_allclose(long.rows(3, 29, head=head, seq=seq), weights[3:29], atol=1e-6)
            size = long.factor
            full = np.zeros((-(-targets // size) * size, -(-sources // size) * size))
            full[:targets, :sources] = weights
            pooled = full.reshape(len(full) // size, size, -1, size).max((1, 3))
            np.testing.assert_allclose(long.overview(head=head, seq=seq), pooled, atol=1e-6)
    assert long.factor > 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_gradients(dtype, small):
    queries, keys = made(30, 30, dtype)
    long = rf.LongAttention(queries.requires_grad_(), keys)
    np.testing.assert_allclose(long.rows(0, 30, head=3), by_numpy(queries.detach(), keys)[0, 3], atol=1e-5)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError) as error:
        rf.LongAttention(np.zeros((3, 5, 8)), np.zeros((2, 7, 8)))
    assert str(error.value) == (
        "LongAttention: queries and keys do not fit together.\n"
        "  queries  (3, 5, 8)\n"
        "  keys     (2, 7, 8)\n"
        "Both are [batch, head, position, feature], the first two may be missing; heads of queries may share those of keys.\n"
        "    rf.LongAttention(queries, keys)    # (1, 8, 32000, 64), (1, 2, 32000, 64)"
    )
    long = rf.LongAttention(np.zeros((3, 5, 8)), np.zeros((3, 7, 8)))
    with pytest.raises(IndexError) as error:
        long.rows(0, 6)
    assert str(error.value) == (
        "LongAttention: there are no such rows.\n"
        "  asked  rows 0 to 6, head 0, sequence 0\n"
        "  there  <LongAttention: 1 x 3 maps of 5 x 7 weights>\n"
        "All are counted from 0.\n"
        "    long.rows(0, 5, head=2)"
    )
    with pytest.raises(IndexError) as error:
        rf.viz.attention(long, heads=[3])
    assert str(error.value) == (
        "attention: there is no such head.\n"
        "  asked  [3]\n"
        "  there  3, from 0\n"
        "Weights that are computed by rows are shown for some heads and sequences: each map takes seconds.\n"
        "    rf.viz.attention(long, heads=[2])"
    )


class Model(nn.Module):
    def forward(self, queries, keys, **options):
        return F.scaled_dot_product_attention(queries, keys, keys, enable_gqa=True, **options)


def recorded(queries, keys, **options):
    model = Model()
    with rf.record(model=model, kinds="attention") as trace:
        model(queries, keys, **options)
    return trace


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"attn_mask": torch.rand(SEQS, 1, 1, 41) < 0.8}])
@pytest.mark.parametrize("loaded", [False, True])
def test_a_recording_keeps_queries_and_keys(options, loaded, small, tmp_path):
    queries, keys = made(30, 41)
    trace = recorded(queries, keys, **options)
    if loaded:
        trace.save(tmp_path / "long.rfnb")
        assert (tmp_path / "long.rfnb").stat().st_size < 4 * (queries.numel() + keys.numel()) + 8000
        trace = rf.load_trace(tmp_path / "long.rfnb")
    long = trace.attention.long("")
    allowed = np.tril(np.ones((30, 41), bool)) if options.get("is_causal") else None
    allowed = options["attn_mask"].numpy() if "attn_mask" in options else allowed
    np.testing.assert_allclose(long.rows(0, 30, head=2, seq=1), by_numpy(queries, keys, allowed)[1, 2], atol=1e-6)


def test_all_of_the_weights_are_refused_with_what_to_type(small):
    trace = recorded(*made(30, 41))
    with pytest.raises(ValueError) as error:
        trace.attention[""]
    assert str(error.value) == (
        'trace.attention[""]: these are too many weights to make all of them.\n'
        "  weights  2 x 4 maps of 30 x 41\n"
        "  memory   0.0 GiB\n"
        "Queries and keys were recorded: rows are made of them, exactly, and overviews.\n"
        '    long = trace.attention.long("")\n'
        "    long.rows(0, 10, head=0)    # NumPy [10, 41]\n"
        "    rf.viz.attention(long)"
    )


def test_a_few_weights_are_all_there():
    trace = recorded(*made(5, 7))
    with pytest.raises(ValueError, match="these weights are all there"):
        trace.attention.long("")


def test_a_page_has_the_overview_and_gets_exact_rows(small):
    queries, keys = made(60, 70)
    long = rf.LongAttention(queries, keys)
    view = rf.viz.attention(long, heads=[1, 3], seqs=[1], target=[f"t{i}" for i in range(60)])
    spec = view.spec
    page = unpack(pack(page_spec(spec, Room(6000, 6000))))
    code = page.codes["map1"]
    assert code.shape == (1, 60, 70) and code.pool[1] % long.factor == 0
    assert "largest" in page.head["thinned"]
    slim = page_spec(spec, Room(1000, 1000)).head
    assert "left out" in slim["thinned"] and slim["remark"] == spec.head["remark"]  # one types what it says
    row = part(spec, {"block": "map1", "start": [0, 59, 0], "size": [1, 1, 70]})
    np.testing.assert_allclose(row[0], long.rows(59, 60, head=3, seq=1))
    assert part(spec, {"block": "map1", "start": [0, 0, 0], "size": [1, 60000, 70000]}) is None


def test_text_and_picture_show_the_overview(small):
    queries, keys = made(60, 70)
    view = rf.viz.attention(rf.LongAttention(queries, keys, causal=True))
    note = "60 targets by 70 sources: each cell shows the largest of 16 x 16 weights"
    assert note in text_of(view.spec)
    made_of_it = drawing_of(view.spec, 700.0)
    assert note in made_of_it.notes and note in made_of_it.alt


def test_a_recording_is_shown_with_a_head_and_how_to_see_others(small):
    trace = recorded(*made(60, 70), is_causal=True)
    (shown,) = rf.show(trace).spec.head["parts"]
    assert [entry["label"] for entry in shown["head"]["maps"]] == ["head 0"]
    assert shown["head"]["remark"] == (
        'Of 4 heads and 2 sequences these are shown; others: rf.viz.attention(trace.attention.long("", 0), heads=[...], seqs=[...]).'
    )
