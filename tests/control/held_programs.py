"""Programs with loops of every kind: functions without arguments, whose numbers (and gradients) are compared bit by bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from asserting import ragged, randn
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim

BATCH, FEAT, LABELS = Dim(3, name="batch"), Dim(5, name="feat"), Dim(6, name="labels", vocab=list("#abcde"))
TIME = ragged([5, 3, 2], BATCH, "time")
X = randn(BATCH, TIME, FEAT)
SCORES = randn(FEAT, LABELS, seed=3)
EMBEDDING = randn(LABELS, FEAT, seed=4)
STEPS = 5


def numbers(value: Any) -> list[np.ndarray]:
    """All numbers in a nested result, in order."""
    if isinstance(value, rf.Tensor):
        return [value.copy_transpose(sorted(value.dims, key=lambda dim: dim.name)).numpy()]
    if isinstance(value, torch.Tensor):
        return [value.detach().numpy()]
    if isinstance(value, dict):
        return [array for key in sorted(value) for array in numbers(value[key])]
    if isinstance(value, (list, tuple)):
        return [array for item in value for array in numbers(item)]
    return [np.asarray(value)]


def assert_bit_equal(actual: Any, expected: Any) -> None:
    """Whether all numbers are the same ones, bit by bit."""
    ours, theirs = numbers(actual), numbers(expected)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a, b)
        assert a.tobytes() == b.tobytes()


def cell(x: rf.Tensor, h: rf.Tensor) -> rf.Tensor:
    """A step of a recurrence."""
    return rf.tanh(h * 0.5 + x)


def steps_of_a_loop(face: str) -> Callable[[], Any]:
    """A loop over ragged sequences, with dropout, and the gradients of its start and its source."""

    def go() -> Any:
        start = rf.zeros([BATCH, FEAT])
        x = rf.convert_to_tensor(X.numpy().copy(), dims=X.dims)
        for each in (start, x):
            each.raw_tensor.requires_grad_()
        if face == "scan":
            out, last, _ = rf.scan(spatial_dim=TIME, initial=start, xs=x, body=lambda x, h: 2 * (cell(x, h),))
        else:
            loop = rf.Loop(axis=TIME, name="steps")
            loop.state.h = start

            def body() -> Any:
                loop.state.h = rf.dropout(cell(loop.unstack(x), loop.state.h), 0.5, on_forward=True)
                return loop.stack(loop.state.h)

            out, last = run_steps(loop, face, body), loop.state.h
        loss = rf.reduce_sum(out * out, axis=[BATCH, TIME, FEAT])
        loss.raw_tensor.backward()
        return out.copy_masked(0.0), last, start.raw_tensor.grad, x.raw_tensor.grad

    return go


def scan_while() -> Any:
    """A scan whose sequences end by a condition."""
    return rf.scan(
        initial=rf.State(h=rf.reduce_sum(X, axis=TIME), n=rf.zeros([BATCH])),
        cond=lambda _, s: s.n < rf.convert_to_tensor(np.array([3.0, 6.0, 1.0], np.float32), dims=[BATCH]),
        cond_before_body=True,
        body=lambda _, s: (s.h, rf.State(h=cell(s.h, s.h) + rf.random_normal([FEAT]), n=s.n + 1.0)),
    )[1].h


def while_loop() -> Any:
    """A nested state until a condition."""
    last = rf.while_loop(
        lambda s: rf.reduce_max(s["h"][0], axis=[BATCH, FEAT]) < 9.0,
        lambda s: {"h": [s["h"][0] * 1.5 + 0.1], "n": s["n"] + 1},
        {"h": [rf.ones([BATCH, FEAT])], "n": rf.zeros([], dtype="int32")},
    )
    return last["h"], last["n"]


def loops_in_loops(outer_face: str, inner_face: str) -> Callable[[], Any]:
    """A loop, a scan and a while_loop in the steps of a loop."""

    def go() -> Any:
        outer = rf.Loop(axis=TIME, name="outer")
        outer.state.h = rf.zeros([BATCH, FEAT])

        def step() -> Any:
            inner = rf.Loop(axis=Dim(2, name="two"), name="inner")
            inner.state.k = outer.state.h

            def body() -> None:
                inner.state.k = cell(inner.state.k, outer.unstack(X))

            run_steps(inner, inner_face, body)
            h = inner.state.k
            if outer_face == "for":
                h = rf.scan(spatial_dim=Dim(2), initial=h, body=lambda _, s: (None, s * 0.9))[1]
                h = rf.while_loop(lambda s: rf.reduce_max(s, axis=[BATCH, FEAT]) > 0.2, lambda s: s * 0.5, h)
            outer.state.h = h + rf.random_normal([FEAT])
            return outer.stack(outer.state.h)

        return run_steps(outer, outer_face, step).copy_masked(0.0), outer.state.h

    return go


def search(face: str, **options: Any) -> Callable[[], Any]:
    """A search in a Loop; its states follow the hypotheses."""

    def go() -> Any:
        loop = rf.Loop(max_seq_len=STEPS, name="search")
        loop.state.h = rf.reduce_mean(X, axis=TIME)

        def body() -> Any:
            log_probs = rf.log_softmax(rf.matmul(loop.state.h, SCORES, reduce=FEAT) * 2.0, axis=LABELS)
            label = rf.choice(log_probs, axis=LABELS, beam_size=3, end_label=0, **options)
            loop.state.h = cell(rf.gather(EMBEDDING, indices=label, axis=LABELS), loop.state.h)
            loop.end(label == 0, include_eos=True)
            return loop.stack(label)

        labels = run_steps(loop, face, body)
        best = rf.decide(labels)
        return best.copy_masked(0), rf.get_beam_scores(labels)

    return go


def found(result: Any) -> Any:
    """Labels and scores of all that a search has found."""
    rows = [row for seq in range(3) for row in result.nbest(seq)]
    return [len(row.tokens) for row in rows], [token for row in rows for token in row.tokens], [r.score for r in rows]


def beam_search(kind: str, **options: Any) -> Callable[[], Any]:
    """`rf.beam_search` with a step function of rfnb, or of plain torch (which changes its state in place)."""
    table, embedding = torch.from_numpy(SCORES.numpy()), torch.from_numpy(EMBEDDING.numpy())
    start = torch.from_numpy(rf.reduce_mean(X, axis=TIME).copy_transpose([BATCH, FEAT]).numpy().copy())

    def raw(labels: torch.Tensor, state: torch.Tensor) -> Any:
        state = torch.tanh(state * 0.5 + embedding[labels])
        return (state @ table * 2.0).log_softmax(-1), state

    def in_place(labels: torch.Tensor, state: dict[str, torch.Tensor]) -> Any:
        h = state["h"]
        h.mul_(0.5).add_(embedding[labels]).tanh_()
        return (h @ table * 2.0).log_softmax(-1), state

    def of_rfnb(label: rf.Tensor, h: rf.Tensor) -> Any:
        h = cell(rf.gather(EMBEDDING, indices=label, axis=LABELS), h)
        return rf.log_softmax(rf.matmul(h, SCORES, reduce=FEAT) * 2.0, axis=LABELS), h

    def go() -> Any:
        shared = dict(max_seq_len=STEPS, beam_size=3, **options)
        if kind == "rfnb":
            initial = rf.reduce_mean(X, axis=TIME)
            return found(rf.beam_search(of_rfnb, batch=BATCH, axis=LABELS, state=initial, **shared))
        if kind == "in place":
            return found(rf.beam_search(in_place, batch=3, vocab=LABELS.vocab, state={"h": start.clone()}, **shared))
        return found(rf.beam_search(raw, batch=3, vocab=LABELS.vocab, state=start, **shared))

    return go


def training() -> Any:
    """Some steps of training a model with a loop in it, held at each batch."""
    rf.set_random_seed(11)
    out = Dim(4, name="out")
    linear, cells = rf.Linear(FEAT, out), rf.Linear(out, out)
    parameters = [parameter.raw_tensor for module in (linear, cells) for parameter in module.parameters()]
    optimizer, losses = torch.optim.Adam(parameters, lr=0.1), []
    with rf.init_train_step_run_ctx(train_flag=True):
        for step in range(3):
            rf.gate(step, losses=list(losses))
            optimizer.zero_grad()
            loop = rf.Loop(axis=TIME, name="model")
            loop.state.h = rf.zeros([BATCH, out])
            for _ in loop:
                h = rf.dropout(linear(loop.unstack(X)), 0.3, axis=out)
                loop.state.h = rf.tanh(h + cells(loop.state.h))
            loss = rf.reduce_mean(loop.state.h * loop.state.h, axis=[BATCH, out])
            loss.raw_tensor.backward()
            losses.append(loss.raw_tensor.item())
            optimizer.step()
    return losses, parameters, [parameter.grad for parameter in parameters]


PROGRAMS: dict[str, Callable[[], Any]] = {
    **{face: steps_of_a_loop(face) for face in ("for", "with", "scan")},
    "scan while": scan_while,
    "while_loop": while_loop,
    "for in for": loops_in_loops("for", "for"),
    "with in for": loops_in_loops("for", "with"),
    "for in with": loops_in_loops("with", "for"),
    "with in with": loops_in_loops("with", "with"),
    **{f"choice, {face}": search(face) for face in ("for", "with")},
    "choice, sampled": search("for", sampling=True),
    **{f"beam_search, {kind}": beam_search(kind) for kind in ("rfnb", "raw", "in place")},
    **{f"beam_search, {kind}, sampled": beam_search(kind, sampling=True, temperature=1.3) for kind in ("rfnb", "raw")},
    "beam_search, noise": beam_search("rfnb", random_sample_scale=0.5, early_stopping=False),
    "training": training,
}
