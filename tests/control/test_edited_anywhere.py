"""An edit before any step of any kind of loop gives what a plain loop in Python gives that is given the value there."""

import numpy as np
import pytest
import torch
from asserting import ragged, randn
from control.held_programs import assert_bit_equal
from control.watched_threads import result_of, stands
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim

ROWS, FEATS, LENGTHS = 3, 5, [5, 3, 2]
BATCH, FEAT = Dim(ROWS, name="batch"), Dim(FEATS, name="feat")
TIME = ragged(LENGTHS, BATCH, "time")
X = randn(BATCH, TIME, FEAT)
x = torch.from_numpy(X.numpy().copy())  # {batch, time, feat}
STEPS = 5


# Each kind: a program, and the same with plain torch, where `put(tick, h)` may give another state. {batch, feat}.
def of_loop(face):
    def go():
        if face == "scan":
            return rf.scan(
                spatial_dim=TIME, initial=rf.zeros([BATCH, FEAT]), xs=X, body=lambda x, h: (h, rf.tanh(h * 0.5 + x))
            )[1]
        loop = rf.Loop(axis=TIME, name="loop")
        loop.state.h = rf.zeros([BATCH, FEAT])

        def body():
            loop.state.h = rf.tanh(loop.state.h * 0.5 + loop.unstack(X))

        run_steps(loop, face, body)
        return loop.state.h

    return go


def plain_loop(put):
    h = torch.zeros(ROWS, FEATS)
    for step in range(STEPS):
        h = put(step, h)
        for row in range(ROWS):
            if step < LENGTHS[row]:
                h[row] = torch.tanh(h[row] * 0.5 + x[row, step])
    return h


def of_while():
    return rf.while_loop(
        lambda s: rf.reduce_sum(rf.abs(s["n"]), axis=s["n"].dims) < 5.0,
        lambda s: {"h": rf.tanh(s["h"] * 0.5 + rf.reduce_max(X, axis=TIME)), "n": s["n"] + 1.0},
        {"h": rf.zeros([BATCH, FEAT]), "n": rf.zeros([])},
    )["h"]


def plain_while(put):
    most = torch.stack([x[row, : LENGTHS[row]].max(0).values for row in range(ROWS)])
    h = torch.zeros(ROWS, FEATS)
    for step in range(STEPS):
        h = torch.tanh(put(step, h) * 0.5 + most)
    return h


def of_scan_while():
    """The state says which sequences go on: an edit changes how long they do."""
    return rf.scan(
        initial=rf.zeros([BATCH, FEAT]),
        cond=lambda _, h: rf.reduce_sum(h, axis=FEAT) < 20.0,
        cond_before_body=True,
        max_seq_len=STEPS,
        body=lambda _, h: (h, h + 1.5),
    )[1]


def plain_scan_while(put):
    """Decisions made before a value is edited hold for this step."""
    h, ended = torch.zeros(ROWS, FEATS), torch.zeros(ROWS, dtype=torch.bool)
    for step in range(STEPS):
        ended |= ~(h.sum(1) < 20.0)
        if ended.all():
            break
        h = put(step, h)
        h = torch.where(ended[:, None], h, h + 1.5)
    return h


def of_nested(outer_face):
    def go():
        outer = rf.Loop(axis=TIME, name="outer")
        outer.state.h = rf.zeros([BATCH, FEAT])

        def step():
            inner = rf.Loop(axis=Dim(2, name="two"), name="inner")
            inner.state.h = outer.state.h
            for _ in inner:
                inner.state.h = rf.tanh(inner.state.h + outer.unstack(X))
            outer.state.h = inner.state.h * 0.9

        run_steps(outer, outer_face, step)
        return outer.state.h

    return go


def plain_nested(put):
    h, tick = torch.zeros(ROWS, FEATS), 0
    for step in range(STEPS):
        h, tick = put(tick, h), tick + 1
        k = h.clone()
        for _ in range(2):
            k, tick = put(tick, k), tick + 1
            k = torch.tanh(k + x[:, step])
        for row in range(ROWS):
            if step < LENGTHS[row]:
                h[row] = k[row] * 0.9
    return h


def of_search(face):
    """Greedy, so that a plain loop is short; the labels choose what is added."""
    scores = randn(FEAT, Dim(4, name="labels"), seed=3)
    labels_dim = scores.dims[1]
    embedding = randn(labels_dim, FEAT, seed=4)

    def go():
        loop = rf.Loop(max_seq_len=STEPS, name="search")
        loop.state.h = rf.reduce_max(X, axis=TIME)

        def body():
            log_probs = rf.log_softmax(rf.matmul(loop.state.h, scores, reduce=FEAT), axis=labels_dim)
            label = rf.choice(log_probs, axis=labels_dim, beam_size=1, end_label=0)
            loop.state.h = rf.tanh(loop.state.h * 0.5 + rf.gather(embedding, indices=label, axis=labels_dim))
            loop.end(label == 0, include_eos=True)
            return loop.stack(label)

        labels = run_steps(loop, face, body)
        h = loop.state.h
        beam = next(dim for dim in h.dims if dim not in (BATCH, FEAT))
        return rf.gather(h, indices=0, axis=beam), rf.get_beam_scores(labels)

    return go


def plain_search(put):
    scores = torch.from_numpy(randn(Dim(FEATS), Dim(4), seed=3).numpy())
    embedding = torch.from_numpy(randn(Dim(4), Dim(FEATS), seed=4).numpy())
    h = torch.stack([x[row, : LENGTHS[row]].max(0).values for row in range(ROWS)])
    ended = torch.zeros(ROWS, dtype=torch.bool)
    for step in range(STEPS):
        if ended.all():
            break
        h = put(step, h)
        label = (h @ scores).argmax(1)
        h = torch.where(ended[:, None], h, torch.tanh(h * 0.5 + embedding[label]))
        ended |= label == 0
    return h


KINDS = {
    "for": (of_loop("for"), plain_loop, "h", STEPS),
    "with": (of_loop("with"), plain_loop, "h", STEPS),
    "scan": (of_loop("scan"), plain_loop, "state", STEPS),
    "while_loop": (of_while, plain_while, "h", STEPS),
    "scan while": (of_scan_while, plain_scan_while, "state", 3),
    "for in for": (of_nested("for"), plain_nested, "h", 3 * STEPS),
    "choice, for": (of_search("for"), plain_search, "h", STEPS),
    "choice, with": (of_search("with"), plain_search, "h", STEPS),
}
EDITS = st.dictionaries(
    st.integers(0, 14),
    st.tuples(st.integers(0, ROWS - 1), st.integers(0, FEATS - 1), st.floats(-3, 3, width=16)),
    max_size=4,
)


@pytest.mark.parametrize("how", ["where it stands", "as a branch", "by a condition"])
@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(edits=EDITS)
def test_an_edit_gives_what_a_plain_loop_gives_that_has_the_value_there(name, how, edits):
    fn, plain, state, count = KINDS[name]
    edits = {tick: edit for tick, edit in edits.items() if tick < count}

    def change(at):
        if at.tick in edits:
            row, feat, value = edits[at.tick]
            at.states[state][{"batch": row, "feat": feat}] = value

    def put(tick, h):
        if tick in edits:
            row, feat, value = edits[tick]
            h = h.clone()
            h[row, feat] = value
        return h

    if how == "where it stands":
        run = rf.run(fn, paused=True)
        stands(run)
        for tick in sorted(edits):
            if run.state == "paused" and tick > run.at.tick:
                run.step(tick - run.at.tick)
            if run.state == "paused":
                change(run.at)
    elif how == "as a branch":
        run = rf.run(fn)
        result_of(run)
        for tick in sorted(edits):
            if tick >= len(run.steps):
                break
            path, step = run.steps[tick]
            run = run.from_step(step, change, path=path, nth=run.steps[:tick].count((path, step)))
            result_of(run)
    else:
        run = rf.run(fn, paused=True)
        stands(run)
        if run.at.tick in edits:
            change(run.at)
        run.break_when(change)
    result = result_of(run)
    h = result[0] if isinstance(result, tuple) else result
    expected = plain(put)
    np.testing.assert_allclose(h.copy_transpose([BATCH, FEAT]).numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    assert {change.tick for change in run.changes} == {tick for tick in edits if tick < len(run.steps)}
    again = run.from_step(run.steps[-1][1], path=run.steps[-1][0], nth=_last(run), paused=False)
    if len(run.steps) - 1 not in edits:  # with all that was changed before
        assert_bit_equal(result_of(again), result)
    else:
        result_of(again)
    assert again.drifted is None


def _last(run):
    """The number of the last step among those with its path and number."""
    return run.steps[:-1].count(run.steps[-1])
