"""Specs of every kind of view, of data that is odd or large: what each rendering has to take."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from asserting import ragged, randn
from viz.held import held
from viz.questions import all_questions
from viz.two_searches import branch_tree

import rfnb as rf
from rfnb import Dim
from rfnb.trace.probe import trace_context
from rfnb.viz.attention.rail import with_rail
from rfnb.viz.spec import Spec

HOSTILE = [
    "<script>alert(1)</script>",
    "]]>&amp;\"'",
    "\x00\x1b[31m",
    "a\nb\tc",
    "\ud800",
    "‮rtl",
    "שלום",
    "日本",
    "",
    "   ",
    "$x$",
]


def weights(*shape: int, seed: int = 0) -> np.ndarray:
    """Attention weights whose rows sum to 1."""
    energies = np.random.default_rng(seed).normal(size=shape) * 3
    shares = np.exp(energies - energies.max(-1, keepdims=True, initial=0))
    return (shares / shares.sum(-1, keepdims=True)).astype(np.float32)


def search(steps: int, lanes: int, labels: list[str] | None = None, cuts: int = 2) -> Spec:
    """A beam search whose hypotheses all come from the better half of the step before."""
    random = np.random.default_rng(1)
    labels = labels or [f"t{index}" for index in range(200)]
    scores, out = np.zeros(lanes), []
    for step in range(steps):
        parents = random.integers(0, max(1, lanes // 2), lanes) if step else np.zeros(lanes, int)
        scores = scores[parents] - random.exponential(size=lanes)
        order = np.argsort(-scores)
        parents, scores = parents[order], scores[order]
        tokens = [labels[index % len(labels)] for index in random.integers(0, 10**6, lanes)]
        cut = [
            {"token": labels[index % len(labels)], "parent": 0, "score": float(scores[-1]) - 1} for index in range(cuts)
        ]
        ended = [step == steps - 1] * lanes
        out.append(
            {"tokens": tokens, "parents": parents.tolist(), "scores": scores.tolist(), "ended": ended, "cuts": cut}
        )
    best, slot = [], 0
    for step in reversed(range(steps)):
        best.append([step, slot])
        slot = out[step]["parents"][slot]
    seq = {"label": "sequence 0", "steps": out, "best": best[::-1], "result": ""}
    return Spec("beams", {"title": "Beam search", "live": False, "seqs": [seq]})


def loop() -> rf.Loop:
    """A recorded loop with ops in all three places."""
    batch, feat, hidden, time = Dim(3, name="batch"), Dim(5, name="feat"), Dim(4, name="hidden"), Dim(4, name="time")
    made = rf.Loop(axis=time, name="decoder")
    x, weight = randn(batch, time, feat), randn(feat, hidden, seed=1)
    made.state.h = rf.zeros([batch, hidden])
    with made:
        made.state.h = rf.tanh(rf.matmul(made.unstack(x), weight, reduce=feat) + made.state.h)
        made.stack(made.state.h)
    return made


def encoder_flow(layers: int) -> Spec:
    """The flow of dims through an encoder."""
    batch, model, vocab = Dim(3, name="batch"), Dim(16, name="model"), Dim(30, name="vocab")
    time = ragged([7, 5, 3], batch)
    encoder = rf.TransformerEncoder(vocab, model, num_layers=layers, num_heads=4)
    labels = rf.random_uniform([batch, time], minval=0, maxval=30, dtype="int32", sparse_dim=vocab)
    with rf.record(ops=True) as trace:
        encoder(labels, spatial_dim=time)
    return rf.viz.flow(trace, dot=False).spec


def chain_flow(labels: list[str], title: str = "View") -> Spec:
    """The flow of dims through calls of modules with these names, each with a dim of that name."""
    batch = Dim(2, name="batch")
    with rf.record(ops=True) as trace:
        for label in labels:
            dim = Dim(3, name=label)
            rf.Functional(partial(rf.reduce_sum, axis=dim))(randn(batch, dim))
    return rf.viz.flow(trace, dot=False, title=title).spec


def two_runs(labels: list[str], title: str = "View", other: float = 0.5) -> Spec:
    """Two recordings with these labels as paths, which differ from the second one on, and what a search of each has found."""
    feat, batch, time = Dim(3, name="feat"), Dim(2, name="batch"), Dim(4, name="time")

    def run(change: float) -> rf.Trace:
        with rf.record() as trace:
            for number, label in enumerate(labels):
                with trace_context.scope(label):
                    rf.probe("value", x=randn(batch, feat, seed=number) + (change if number else 0.0))
            for step in range(4):
                with trace_context.loop("loop", step, time):
                    rf.probe("states", h=randn(batch, feat, seed=step) * (1.0 + change * 1e-4 * step))
        return trace

    made = rf.viz.diff(run(0.0), run(other), title=title).spec
    result = {
        "label": labels[0],
        "edits": "=si",
        "a": labels[:1] + ["b"],
        "b": labels[:1] + ["c", "d"],
        "scores": [-1.5, None],
    }
    return Spec("diff", {**made.head, "results": [result]}, made.blocks)


def all_kinds(labels: list[str], title: str = "View") -> list[Spec]:
    """One small spec of each kind with these labels."""
    count = len(labels)
    parts = [
        rf.viz.attention(weights(count, count), source=labels, target=labels, title=title).spec,
        rf.viz.attention({f"{label}{n}": weights(4, 5) for n, label in enumerate(labels)}, title=title).spec,
        with_words(labels, title),
        rf.viz.states({label + "h": weights(count, 3) for label in labels[:3]}, steps=labels, title=title).spec,
        search(3, 4, labels),
        rf.viz.distribution(
            weights(3, count), [0, count - 1, -1], labels=labels, steps=[*labels, "a", "b"], title=title
        ).spec,
        rf.viz.curves({f"{label}{n}": [1.0, 2.0] for n, label in enumerate(labels)}, x=labels[0], title=title).spec,
        rf.viz.dims(weights(2, 3), names=["a", labels[0]], title=title).spec,
        rf.viz.plan(loop(), title=title).spec,
        chain_flow(labels, title),
        held(title, labels[0], labels[-1]),
        rf.viz.branches(branch_tree(labels), title=title).spec,
        two_runs(labels, title),
        *all_questions(labels),
    ]
    from rfnb.viz.group.spec import spec as group

    return [*parts, group(parts[:4], title=title)]


def with_words(labels: list[str], title: str) -> Spec:
    """A map with a sound above it, and a word of each label."""
    spec = rf.viz.attention(weights(2, 2 * len(labels)), title=title).spec
    words = [(2 * place, 2 * place + 1, label) for place, label in enumerate(labels)]
    return with_rail(spec, np.sin(np.arange(800.0)), 8000, None, kind="waveform", words=[words])


def odd(values: np.ndarray, value: float) -> np.ndarray:
    """With some entries replaced."""
    values = np.array(values, np.float32)
    values.reshape(-1)[::3] = value
    return values


def cases() -> Iterator[tuple[str, Callable[[], list[Spec]]]]:
    """Name and maker."""
    view = rf.viz
    for name, value in (("NaN", np.nan), ("infinity", np.inf), ("minus infinity", -np.inf), ("huge", 3e38)):
        yield (
            name,
            lambda value=value: [
                view.attention(odd(weights(4, 5), value)).spec,
                view.attention(odd(weights(12, 4, 5), value)).spec,
                view.states({"h": odd(weights(6, 4), value)}).spec,
                view.distribution(odd(weights(6, 4), value), [0] * 6, estimated_type="logits").spec,
                view.curves({"y": odd(weights(1, 50)[0], value), "all": [value] * 3}).spec,
                view.dims(odd(weights(4, 5), value), names=["a", "b"]).spec,
                two_runs(["a", "b", "c"], other=value),
            ],
        )
    yield (
        "nothing",
        lambda: [
            view.attention(np.zeros((0, 0), np.float32)).spec,
            view.attention(np.zeros((3, 0), np.float32)).spec,
            view.attention(np.zeros((8, 0, 4), np.float32)).spec,
            view.attention({}).spec,
            view.states({"h": np.zeros((0, 3), np.float32)}).spec,
            view.states({"h": np.zeros((3, 0), np.float32)}).spec,
            view.states({}).spec,
            view.distribution(np.zeros((0, 3), np.float32)).spec,
            view.distribution(np.zeros((0, 2, 3), np.float32)).spec,
            view.distribution(np.zeros((2, 0), np.float32), [0, 0]).spec,
            view.curves({}).spec,
            view.curves({"y": []}).spec,
            view.dims([]).spec,
            view.flow([]).spec,
            two_runs(["a"], other=0.0),
            view.diff(rf.Trace(), rf.Trace()).spec,
            Spec("beams", {"title": "b", "live": False, "seqs": []}),
            Spec("beams", {"title": "b", "live": True, "seqs": [{"label": "s", "steps": [], "best": []}]}),
            Spec("group", {"title": "", "live": True, "link": "", "parts": []}),
        ],
    )
    yield "one token", lambda: all_kinds(["a"])
    yield "hostile", lambda: all_kinds(HOSTILE, title="".join(HOSTILE))
    yield "long labels", lambda: all_kinds(["a" * 100_000, "b " * 50_000, "c"], title="d" * 100_000)
    yield "many", lambda: [Spec(each.kind, each.head, each.blocks) for each in _many()]


@functools.cache
def _many() -> list[Spec]:
    """Much of everything. It takes seconds to make, and no view changes what it draws."""
    view = rf.viz
    return [
        view.attention(weights(1, 32_000)).spec,
        view.attention(weights(32_000, 2)).spec,
        view.attention(weights(12, 12, 32, 32), dims=["layer", "head", "target", "source"]).spec,
        view.states({"h": weights(32_000, 4)}).spec,
        view.distribution(weights(32_000, 4), np.zeros(32_000, int)).spec,
        view.distribution(weights(3, 32_000), [0, 1, 31_999]).spec,
        view.states({f"h{index}": weights(4, 600) for index in range(40)}).spec,
        search(500, 64),
        search(60, 16),
        view.curves({f"layer {index} norm": weights(1, 300)[0] for index in range(500)}).spec,
        view.curves({"abcdefghijklmnopqrst"[index]: weights(1, 20_000)[0] for index in range(20)}).spec,
        view.dims({f"x{index}": weights(2, 3) for index in range(0)}).spec,
        chain_flow([f"d{index}" for index in range(2000)]),
        two_runs([f"layer {index}" for index in range(600)]),
    ]


def broken() -> list[Spec]:
    """Specs that cannot be drawn."""
    heads = {
        "attention": {"maps": [{"label": "m", "block": "gone", "seqs": [0]}], "seqs": []},
        "states": {"tracks": [{"label": "h", "block": "gone"}], "seqs": []},
        "beams": {"seqs": [{"steps": [{"tokens": ["a"]}]}]},
        "distribution": {"tokens": {}, "seqs": [{"label": "s", "len": 3}]},
        "curves": {"series": [{"label": "y", "x": "x", "y": "y"}]},
        "dims": {"rows": [{"dims": [7]}], "dims": []},
        "plan": {"places": [{"ops": [{}]}]},
        "diff": {"rows": [{}], "cols": ["0"], "pairs": [], "names": []},
        "flow": {"dims": [], "legend": [], "levels": [{"label": "all", "up": 4, "stations": [{}], "graph": {}}]},
    }
    return [Spec(kind, {"title": "x", "live": False, **head}) for kind, head in heads.items()]
