"""Sequences and hypotheses that are ended, or go on, where a run stands: as plain computations that do the same."""

import numpy as np
import pytest
from asserting import ragged, randn, tensor
from control.held_models import letters
from control.plain_search import assert_found, plain_search, searching
from hypothesis import example, given, settings
from hypothesis import strategies as st
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim

BATCH, FEAT = Dim(3, name="batch"), Dim(2, name="feat")
LIMITS = [2, 5, 3]
TIME = ragged([6, 4, 2], BATCH, "time")
X = randn(BATCH, TIME, FEAT)


def counting(face, include_eos=True):
    """h grows by 1 in each step until it is above a limit of its own: stacked h {time, batch}, last h, number of steps."""
    limits = tensor(np.array(LIMITS, np.float32), BATCH)

    def run():
        if face == "scan":
            out, last, time = rf.scan(
                initial=rf.zeros([BATCH]),
                cond=lambda x, h: h < limits,
                cond_dims=[BATCH],
                cond_before_body=False,
                max_seq_len=9,
                body=lambda x, h: (h + 1.0, h + 1.0),
            )
            return out, last, time.dyn_size_ext
        loop = rf.Loop(max_seq_len=9, name="counting")
        loop.state.h = rf.zeros([BATCH])

        def body():
            loop.state.h = loop.state.h + 1.0
            loop.end(loop.state.h >= limits, include_eos=include_eos)
            return loop.stack(loop.state.h)

        out = run_steps(loop, face, body)
        return out, loop.state.h, loop.axis.dyn_size_ext

    return run


def plain_counting(changes, include_eos=True):
    """Last h and lengths, where before some steps sequences are ended or go on: step -> [(kind, seq)]."""
    h, lengths, ended = [0.0] * 3, [0] * 3, [False] * 3
    for step in range(9):
        if all(ended) and step:
            break
        for kind, seq in changes.get(step, ()):
            ended[seq] = kind == "end"
        for seq in range(3):
            if not ended[seq]:
                new = h[seq] + 1
                ended[seq] = new >= LIMITS[seq]
                if include_eos or not ended[seq]:
                    h[seq], lengths[seq] = new, lengths[seq] + 1
    return h, lengths


@pytest.mark.parametrize("face", ["for", "with", "scan"])
@pytest.mark.parametrize("include_eos", [True, False])
@settings(max_examples=25, deadline=None)
@example(asked=[(2, "go_on", 0), (3, "end", 1), (3, "go_on", 1)])
@example(asked=[(1, "end", 1), (2, "end", 0), (3, "go_on", 2)])
@given(asked=st.lists(st.tuples(st.integers(1, 6), st.sampled_from(["end", "go_on"]), st.integers(0, 2)), max_size=4))
def test_lengths_are_changed_as_in_a_computation_of_that_length(face, include_eos, asked):
    if face == "scan" and not include_eos:
        return  # it has no such option
    run = rf.run(counting(face, include_eos), paused=True)
    run.wait()
    changes = {}
    for step, kind, seq in sorted(asked, key=lambda one: one[0]):
        if run.state == "paused" and step > run.at.step:
            run.step(step - run.at.step)
        if run.state != "paused" or run.at.is_end:
            break
        try:
            getattr(run.at, kind)(seq)
        except ValueError as error:
            assert "has ended" in str(error) or "has not ended" in str(error)
            continue
        changes.setdefault(step, []).append((kind, seq))
    if run.state == "paused":
        run.resume()
    out, last, lengths = run.result
    h, expected = plain_counting(changes, include_eos)
    assert lengths.numpy().tolist() == expected and last.numpy().tolist() == h
    for seq, row in enumerate(out.copy_transpose([BATCH, *(dim for dim in out.dims if dim is not BATCH)]).numpy()):
        assert row[: expected[seq]].tolist() == [*np.arange(1.0, expected[seq] + 1)]
    assert not any("failed: " in change.words for change in run.changes)
    if len(run.steps) > 1:
        again = run.from_step(len(run.steps) - 1, paused=False)
        _ = again.result
        assert again.drifted is None


def final(face):
    """A running sum over ragged sequences of which only the last value is asked for."""

    def run():
        if face == "scan":
            return rf.scan(
                spatial_dim=TIME, initial=rf.zeros([BATCH, FEAT]), xs=X, body=lambda x, h: (None, h * 0.5 + x)
            )[1]
        loop = rf.Loop(axis=TIME, name="final")
        loop.state.h = rf.zeros([BATCH, FEAT])

        def body():
            loop.state.h = loop.state.h * 0.5 + loop.unstack(X)
            return loop.last(loop.state.h)

        return run_steps(loop, face, body)

    return run


@pytest.mark.parametrize("face", ["for", "with", "scan"])
@settings(max_examples=15, deadline=None)
@given(seq=st.integers(0, 2), start=st.integers(1, 5), back=st.integers(1, 5))
def test_a_sequence_of_a_ragged_dim_leaves_out_frames_where_nothing_is_stacked(face, seq, start, back):
    run = rf.run(final(face), paused=True)
    run.wait()
    run.step(start)
    lengths, skipped = [6, 4, 2], [set(), set(), set()]
    if start < lengths[seq]:
        run.end(seq)
        skipped[seq] = set(range(start, lengths[seq]))
    else:
        with pytest.raises(ValueError, match=f"end: sequence {seq} has ended."):
            run.end(seq)
    if back > start:
        run.step(back - start)
        if start < lengths[seq] and back < lengths[seq]:
            run.at.go_on(seq)
            skipped[seq] = set(range(start, back))
        else:
            with pytest.raises(ValueError, match=f"go_on: sequence {seq} has ended earlier."):
                run.at.go_on(seq)
    run.resume()
    x, h = X.copy_transpose([BATCH, TIME, FEAT]).numpy(), np.zeros((3, 2), np.float32)
    for one in range(3):
        for step in range(lengths[one]):
            if step not in skipped[one]:
                h[one] = h[one] * np.float32(0.5) + x[one, step]
    np.testing.assert_allclose(run.result.copy_transpose([BATCH, FEAT]).numpy(), h, rtol=1e-6)


@settings(max_examples=15, deadline=None)
@given(step=st.integers(1, 5), hypothesis=st.sampled_from([None, 0, 1, 2]), seq=st.integers(0, 1))
def test_a_hypothesis_of_a_whole_model_ends_and_pays_for_no_end(step, hypothesis, seq):
    words = ["thesis", "beta"]
    run = rf.run(searching(words, 3), paused=True)
    run.wait()
    run.step(step)
    if run.state != "paused" or run.at.is_end:
        return
    try:
        run.end(seq, hypothesis)
    except ValueError as error:
        assert "has ended" in str(error)
        return
    run.resume()

    def end(beam):
        for hyp in beam if hypothesis is None else [beam[hypothesis]]:
            hyp.ended = True

    for one, word in enumerate(words):
        assert_found(run.result, one, plain_search(word, 3, most=22, states={step: end} if one == seq else None))


def test_a_hypothesis_that_has_ended_in_the_step_before_goes_on():
    run = rf.run(searching(["thesis"], 3), paused=True)
    run.wait()
    run.force(0)  # the end label
    run.step(1)
    with pytest.raises(ValueError) as error:
        run.at.go_on(0, 1)
    assert str(error.value) == (
        "go_on: hypothesis 1 of sequence 0 has not ended.\n  seq         0\n  hypothesis  1\nIt continues without a command."
    )
    place = next(at for at in range(3) if run.at.states["label"].numpy().reshape(-1)[at] == 0)
    run.at.go_on(0, place)
    run.resume()

    def go_on(beam):
        assert beam[place].ended
        beam[place].ended = False

    from control.plain_search import Decision

    expected = plain_search("thesis", 3, most=22, states={1: go_on}, decisions={0: [Decision("force", 0)]})
    assert_found(run.result, 0, expected)


def test_the_result_of_a_search_has_what_was_ended():
    run = rf.run(letters, paused=True)
    run.wait()
    run.step(2)
    run.end(0, "a b")
    run.end(1, hypothesis=0)
    run.resume()
    texts = [[row.text for row in run.result.nbest(seq) if row.ended] for seq in range(2)]
    assert "a b" in texts[0] and "a b" in texts[1]
    assert [change.words for change in run.changes] == [
        "ended hypothesis 0 of sequence 0",
        "ended hypothesis 0 of sequence 1",
    ]


def over_static():
    loop = rf.Loop(axis=Dim(4, name="frames"), name="static")
    loop.state.h = rf.zeros([BATCH])
    for _ in loop:
        loop.state.h = loop.state.h + 1.0


def stacking():
    loop = rf.Loop(axis=TIME, name="stacking")
    for _ in loop:
        out = loop.stack(loop.unstack(X))
    return out


def own():
    for step in range(3):
        rf.gate(step)


def leaving():
    table = rf.zeros([Dim(4, name="before"), Dim(4, name="labels")])
    before, labels = table.dims
    table = rf.log_softmax(table, axis=labels)
    return rf.beam_search(
        lambda label, state: (rf.gather(table, indices=rf.set_sparse_dim(label, before), axis=before), state),
        batch=BATCH, max_seq_len=4, beam_size=2, axis=labels, ended="leave", num_best=2,
    )  # fmt: skip


REFUSED = {
    "before the first step": (
        counting("for"), 0, lambda at: at.end(0), ValueError,
        "end: not possible here.\n  seq         0\n  hypothesis  None\nBefore the first step, the ends are unknown.",
    ),
    "no such sequence": (
        counting("with"), 1, lambda at: at.end(3), IndexError,
        "end: no seq 3.\n  given  3\n  over   [batch=3]\nThey are 0 to 2.",
    ),
    "no hypotheses": (
        counting("scan"), 1, lambda at: at.end(0, 1), IndexError,
        "end: no hypothesis 1.\n  given  1\n  over   [batch=3]\nThey are 0 to 0.",
    ),
    "the same length for all": (
        over_static, 1, lambda at: at.end(0), ValueError,
        "end: not possible here.\n  seq         0\n  hypothesis  None\nThe loop runs over frames=4, which is as long for all sequences.",
    ),
    "stacked values": (
        stacking, 1, lambda at: at.end(0), ValueError,
        "end: not possible here.\n  seq         0\n  hypothesis  None\n"
        "The loop stacks values of its steps over time<=6, whose lengths are known to others too.",
    ),
    "what is stacked is not known": (
        final("for"), 0, lambda at: at.end(0), ValueError,
        "end: not possible here.\n  seq         0\n  hypothesis  None\n"
        "Before the first step it is not known whether the loop stacks values, which have the lengths of its axis.",
    ),
    "ended long ago": (
        counting("for"), 4, lambda at: at.go_on(0), ValueError,
        "go_on: sequence 0 has ended earlier.\n  seq         0\n  hypothesis  None\n"
        "Only one that ended in the previous step can continue: others lack the steps since. A branch can continue from its end:\n"
        "    run.from_step(..., lambda at: at.go_on(0))",
    ),
    "one condition": (
        lambda: rf.while_loop(lambda n: n < 3.0, lambda n: n + 1.0, rf.zeros([])), 1, lambda at: at.end(0), ValueError,
        "end: not possible here.\n  seq         0\n  hypothesis  None\nThis loop ends for all sequences at once, by its own condition.",
    ),
    "a loop of one's own": (
        own, 1, lambda at: at.end(0), ValueError,
        "end: not possible here.\n  seq         0\n  hypothesis  None\nThis loop ends for all sequences at once, by its own condition.",
    ),
    "what ends leaves": (
        leaving, 1, lambda at: at.end(0, 1), ValueError,
        "end: not possible here.\n  seq         0\n  hypothesis  1\n"
        "An ended hypothesis leaves the beam of this search. The end label ends a hypothesis:\n    run.force(end_label, hypothesis=0)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_sound_is_refused_and_changes_nothing(what):
    fn, step, change, kind, text = REFUSED[what]
    run = rf.run(fn, paused=True)
    run.wait()
    if step:
        run.step(step)
    with pytest.raises(kind) as error:
        change(run.at)
    assert str(error.value) == text
    assert run.changes == ()
    run.resume()
    _ = run.result
