"""Labels that are forced or banned: as a plain search that does the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim

BATCH, VOCAB = Dim(2, name="batch"), Dim(6, name="labels", vocab=list("#abcde"))
STEPS, BEAM, END = 6, 3, 0
_rng = np.random.default_rng(5)
TABLE = _rng.normal(size=(2, STEPS, 6, 6)).astype(np.float32) * 2  # sequence, step, label before, label
LOG_PROBS = TABLE - np.log(np.exp(TABLE).sum(-1, keepdims=True))


def search(face="for"):
    """A search in a Loop, whose scores depend on the step and the label before: best labels {batch, time}, scores."""
    time, before = Dim(STEPS, name="time"), Dim(6, name="before", vocab=VOCAB.vocab)
    table = rf.convert_to_tensor(LOG_PROBS, dims=[BATCH, time, before, VOCAB])

    def run():
        loop = rf.Loop(max_seq_len=STEPS, name="search")
        loop.state.label = rf.zeros([BATCH], dtype="int64", sparse_dim=before)
        loop.state.step = rf.zeros([], dtype="int64", sparse_dim=time)

        def body():
            scores = rf.gather(table, indices=loop.state.step, axis=time)
            scores = rf.gather(scores, indices=loop.state.label, axis=before)
            label = rf.choice(scores, axis=VOCAB, beam_size=BEAM, end_label=END)
            loop.state.label = rf.set_sparse_dim(label, before)
            loop.state.step = loop.state.step + 1
            loop.end(label == END, include_eos=True)
            return loop.stack(label)

        labels = run_steps(loop, face, body)
        best = rf.decide(labels)
        return best, rf.get_beam_scores(labels)

    return run


def plain_search(seq, decisions):
    """The same in plain Python: labels and score of all hypotheses, in the order of the beam.

    Args:
        decisions: step -> [(kind, hypothesis, label, only)].
    """
    beam = [((), 0.0)]
    for step in range(STEPS):
        if beam and all(tokens and tokens[-1] == END for tokens, score in beam if score > -np.inf) and step:
            break
        all_scores = np.full((len(beam), 6), -np.inf, np.float32)
        for k, (tokens, score) in enumerate(beam):
            if tokens and tokens[-1] == END:
                all_scores[k, END] = score
            else:
                all_scores[k] = np.float32(score) + LOG_PROBS[seq, step, tokens[-1] if tokens else 0]
        forced = []
        kept_out = np.zeros_like(all_scores, bool)
        for kind, k, label, only in decisions.get(step, ()):
            if kind == "force":
                forced.append((k, label))
                if only:
                    kept_out[:] = True
            elif k is None:
                kept_out[:, label] = True
            else:
                kept_out[k, label] = True
        for place in forced:
            kept_out[place] = False
        scores = np.where(kept_out, -np.inf, all_scores)
        order = np.argsort(-scores.reshape(-1), kind="stable")[:BEAM]
        order = [int(at) if scores.reshape(-1)[at] > -np.inf else 0 for at in order]
        for k, label in forced:
            if k * 6 + label not in order:
                slot = max(at for at in range(len(order)) if divmod(order[at], 6) not in forced)
                order[slot] = k * 6 + label
        beam = [((*beam[at // 6][0], at % 6), float(scores.reshape(-1)[at])) for at in order]
    return beam


def _result_of(run):
    best, scores = run.result
    return best, scores.copy_transpose([BATCH, *[dim for dim in scores.dims if dim is not BATCH]]).numpy()


@pytest.mark.parametrize("face", ["for", "with"])
@settings(max_examples=20, deadline=None)
@given(
    given_=st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 1), st.sampled_from(["force", "only", "ban", "ban any"]), st.integers(0, 2),
            st.integers(1, 5),
        ),
        max_size=2, unique_by=lambda one: one[:2],
    )
)  # fmt: skip
def test_a_decision_gives_what_a_search_with_that_decision_gives(face, given_):
    run = rf.run(search(face), paused=True)
    run.wait()
    done = {}
    for step, seq, kind, hypothesis, label in sorted(given_):
        hypothesis = hypothesis if step else 0
        run.wait()
        if run.state != "paused":
            break
        if step > run.at.step:
            run.step(step - run.at.step)
        if run.state != "paused":
            break
        try:
            if kind == "ban any":
                run.at.ban(label, seq=seq)
            elif kind == "ban":
                run.at.ban(VOCAB.vocab[label], hypothesis=hypothesis, seq=seq)
            else:
                run.at.force(VOCAB.vocab[label], hypothesis=hypothesis, seq=seq, only=kind == "only")
        except ValueError as error:
            assert "has ended" in str(error)
            continue
        decided = ("ban", None if kind == "ban any" else hypothesis, label, False)
        if kind in ("force", "only"):
            decided = ("force", hypothesis, label, kind == "only")
        done.setdefault(seq, {}).setdefault(step, []).append(decided)
    if run.state == "paused":
        run.resume()
    _, scores = _result_of(run)
    for seq in range(2):
        expected = [score for _, score in plain_search(seq, done.get(seq, {}))]
        np.testing.assert_allclose(scores[seq], expected, rtol=1e-4, atol=1e-4)


def test_what_cannot_be_decided_yet_is_said_at_the_next_step():
    """Before the first choice nothing is known of its labels: the run pauses, and nothing was changed."""
    plain = search()()
    run = rf.run(search(), paused=True)
    run.wait()
    run.at.force("nothing")
    run.resume()
    run.wait()
    assert run.at.step == 1
    assert run.reason.startswith("force: no label 'nothing'.\n")
    run.resume()
    np.testing.assert_array_equal(run.result[0].raw_tensor, plain[0].raw_tensor)


@pytest.mark.parametrize(
    ("label", "where", "text"),
    [
        ("x", {}, "force: no label 'x'."),
        (6, {}, "force: no label 6."),
        ("a", {"hypothesis": 3}, "force: no hypothesis 3."),
        ("a", {"seq": 2}, "force: no seq 2."),
    ],
)
def test_a_decision_that_cannot_be_done_changes_nothing(label, where, text):
    plain = search()()
    run = rf.run(search(), paused=True)
    run.wait()
    run.step(2)
    with pytest.raises(IndexError) as error:
        run.at.force(label, **where)
    assert str(error.value).startswith(text)
    run.resume()
    np.testing.assert_array_equal(run.result[0].raw_tensor, plain[0].raw_tensor)


def test_what_leaves_the_beam_is_not_forced():
    table = rf.convert_to_tensor(LOG_PROBS[0, 0], dims=[Dim(6, name="before"), VOCAB])

    def step(label, state):
        return rf.gather(table, indices=rf.set_sparse_dim(label, table.dims[0]), axis=table.dims[0]), state

    def leaving():
        return rf.beam_search(step, batch=BATCH, max_seq_len=5, beam_size=2, axis=VOCAB, ended="leave").best(0)

    run = rf.run(leaving, paused=True)
    run.wait()
    run.step()
    run.at.force("a")
    run.resume()
    run.wait()
    assert run.reason.startswith("force: not in this search.\n")
    run.resume()
    assert run.result == leaving()


def test_of_several_choices_of_a_step_the_first_one_is_decided():
    """They have other labels here; the second one goes on as it would have done."""
    letters, digits = Dim(4, name="letters", vocab=list("abcd")), Dim(3, name="digits", vocab=list("123"))
    one = rf.log_softmax(rf.convert_to_tensor(np.array([3, 2, 1, 0], "float32"), dims=[letters]), axis=letters)
    two = rf.log_softmax(rf.convert_to_tensor(np.array([0, 3, 1], "float32"), dims=[digits]), axis=digits)

    def pairs():
        loop = rf.Loop(max_seq_len=3, name="pairs")
        loop.state.n = rf.zeros([])
        for _ in loop:
            rf.choice(one, axis=letters, beam_size=2, search=True)
            digit = rf.choice(two, axis=digits, beam_size=2, search=True)
            loop.state.n = loop.state.n + 1.0
            loop.end(rf.zeros_like(digit) > 0, include_eos=True)

    run = rf.run(pairs, paused=True)
    run.wait()
    run.step()
    run.at.force("d", only=True)
    run.resume()
    assert run.wait() and run.state == "done", run.reason
    found = run.trace.beams["pairs"]
    there = [(step, slot) for step in (2, 3) for slot in range(2) if found.steps[step]["scores"][0, slot] > -np.inf]
    labels = [found.label(found.steps[step]["tokens"][0, slot], step) for step, slot in there]
    assert labels == ["d", "2", "3"]


def test_nothing_is_forced_where_nothing_chooses():
    run = rf.run(lambda: rf.scan(spatial_dim=Dim(3), initial=rf.zeros([]), body=lambda x, s: (s, s + 1.0)), paused=True)
    run.wait()
    with pytest.raises(ValueError, match="force: nothing chooses here"):
        run.at.force("a")
    run.stop()
