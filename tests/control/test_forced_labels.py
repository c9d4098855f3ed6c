"""Labels that are forced or banned: as a plain search that does the same."""

import numpy as np
import pytest
from asserting import assert_same, raises_message
from control.held_models import sums
from control.held_programs import search as held_search
from control.watched_threads import result_of
from hypothesis import example, given, settings
from hypothesis import strategies as st
from loop_faces import run_steps
from waiting import LONG

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


def plain_search(seq, decisions, until=STEPS):
    """The same in plain Python: labels and score of all hypotheses, in the order of the beam.

    Args:
        decisions: step -> [(kind, hypothesis, label, only)].
        until: How many steps.
    """
    beam = [((), 0.0)]
    for step in range(until):
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


def leaving():
    """A search in which what ends leaves the beam; the same scores in each step."""
    before = Dim(6, name="before")
    table = rf.convert_to_tensor(LOG_PROBS[0, 0], dims=[before, VOCAB])

    def step(label, state):
        return rf.gather(table, indices=rf.set_sparse_dim(label, before), axis=before), state

    return rf.beam_search(
        step, batch=BATCH, max_seq_len=5, beam_size=2, axis=VOCAB, ended="leave", early_stopping=False
    ).nbest(1)


def plain_leaving(decisions):
    """The scores of all results of `leaving` in plain Python, best first.

    Args:
        decisions: step -> (kind, hypothesis, label, only).
    """
    beam, results = [((), 0.0)], []
    for step in range(5):
        scores = np.array([score + LOG_PROBS[0, 0][tokens[-1] if tokens else 0] for tokens, score in beam])
        kind, hypothesis, label, only = decisions.get(step, (None, 0, 0, False))
        if kind == "ban":
            scores[slice(None) if hypothesis is None else hypothesis, label] = -np.inf
        if only:
            scores[np.arange(scores.size).reshape(scores.shape) != hypothesis * 6 + label] = -np.inf
        going = scores.copy()
        going[:, END] = -np.inf
        order = list(np.argsort(-going.reshape(-1), kind="stable")[:2])
        best = going.reshape(-1)[order]
        for k in range(len(beam)):
            better = (best > scores[k, END]).sum() + (scores[:, END] > scores[k, END]).sum()
            if (better < 2 and scores[k, END] > -np.inf) or (kind == "force" and (k, label) == (hypothesis, END)):
                results.append(scores[k, END])
        place = hypothesis * 6 + label if kind == "force" and label != END else None
        if place is not None and place not in order:
            order[-1] = place
        beam = [((*beam[at // 6][0], at % 6), float(scores.reshape(-1)[at])) for at in order]
        beam = [(tokens, score if tokens[-1] != END else -np.inf) for tokens, score in beam]
    return sorted(results, reverse=True) or sorted((score for _, score in beam), reverse=True)


@settings(max_examples=25, deadline=None)
@example(step=1, kind="force", hypothesis=1, label=END)
@example(step=3, kind="force", hypothesis=1, label=END)
@example(step=2, kind="only", hypothesis=1, label=END)
@given(
    step=st.integers(0, 4),
    kind=st.sampled_from(["force", "only", "ban"]),
    hypothesis=st.integers(0, 1),
    label=st.integers(0, 5),
)
def test_where_what_ends_leaves_the_beam_a_decision_gives_what_a_search_with_it_gives(step, kind, hypothesis, label):
    hypothesis = hypothesis if step else 0
    run = rf.run(leaving, paused=True)
    run.wait()
    if step:
        run.step(step)
    if kind == "ban":
        run.ban(label, hypothesis=hypothesis, seq=1)
    else:
        run.force(label, hypothesis=hypothesis, seq=1, only=kind == "only")
    run.resume()
    decided = "ban" if kind == "ban" else "force", hypothesis, label, kind == "only"
    np.testing.assert_allclose([row.score for row in run.result], plain_leaving({step: decided}), rtol=1e-4)


@pytest.mark.parametrize("face", ["for", "with"])
@settings(max_examples=15, deadline=None)
@given(
    step=st.integers(0, 3), hypothesis=st.integers(0, 2), seq=st.integers(0, 1), only=st.booleans(),
    labels=st.lists(st.integers(1, 5), min_size=1, max_size=4), as_text=st.booleans(),
)  # fmt: skip
def test_labels_of_the_next_steps_follow_the_hypothesis_that_took_the_first(
    face, step, hypothesis, seq, only, labels, as_text
):
    labels = labels[: STEPS - step]
    run = rf.run(search(face), paused=True)
    run.wait()
    if step:
        run.step(step)
    hypothesis = hypothesis if step else 0
    so_far = plain_search(seq, {}, until=step)
    ended = bool(so_far[hypothesis][0]) and so_far[hypothesis][0][-1] == END
    try:
        if as_text:
            run.force(" ".join(VOCAB.vocab[label] for label in labels), hypothesis=hypothesis, seq=seq, only=only)
        else:
            run.force(*labels, hypothesis=hypothesis, seq=seq, only=only)
    except ValueError as error:
        assert ended and "has ended" in str(error)
        return
    run.resume()
    decisions, tokens = {}, (*so_far[hypothesis][0],)
    for later, label in enumerate(labels, step):
        beam = plain_search(seq, decisions, until=later)
        place = next(index for index, (own, score) in enumerate(beam) if own == tokens and score > -np.inf)
        decisions[later] = [("force", place, label, only)]
        tokens = (*tokens, label)
    _, scores = _result_of(run)
    np.testing.assert_allclose(scores[seq], [score for _, score in plain_search(seq, decisions)], rtol=1e-4, atol=1e-4)
    assert not any("failed: " in change.words for change in run.changes)


def test_several_labels_at_once_are_forced_or_banned_or_none_of_them():
    run = rf.run(search(), paused=True)
    run.wait()
    run.step(2)
    with pytest.raises(IndexError, match="no label 'x'"):
        run.force(["a", "x"])
    with pytest.raises(IndexError, match="no label 'x'"):
        run.ban(["a", "x"])
    assert run.changes == ()
    run.force(["a", "e"], hypothesis=1)
    run.ban(["b", 3], seq=1)
    run.resume()
    _, scores = _result_of(run)
    forced = {2: [("force", 1, 1, False), ("force", 1, 5, False)]}
    banned = {2: [("ban", None, 2, False), ("ban", None, 3, False)]}
    for seq, decisions in ((0, forced), (1, banned)):
        np.testing.assert_allclose(scores[seq], [score for _, score in plain_search(seq, decisions)], rtol=1e-4)
    assert [change.words for change in run.changes] == [
        "forced a and e for hypothesis 1 of sequence 0",
        "banned b and c for all hypotheses of sequence 1",
    ]
    with pytest.raises(ValueError) as error:
        run.from_step(3, lambda at: at.force(["a", "b"], "c")).result
    assert str(error.value) == (
        "force: invalid labels.\n  label  ['a', 'b']\n  then   'c'\n"
        'Give one or several labels of this step, or one label followed by those of later steps.\n    run.at.force("AH", "L")'
    )


@pytest.mark.parametrize("face", ["for", "with"])
def test_a_hypothesis_is_found_by_its_labels_so_far(face):
    expected = plain_search(1, {}, until=3)
    for place, (tokens, _) in enumerate(expected):
        text = [VOCAB.vocab[label] for label in tokens]
        for given_ in (" ".join(text), "".join(text), text, list(tokens)):
            run = rf.run(search(face), paused=True)
            run.wait()
            run.step(3)
            if END in tokens:
                with pytest.raises(ValueError, match="has ended"):
                    run.force("e", hypothesis=given_, seq=1)
                continue
            run.force("e", hypothesis=given_, seq=1)
            run.resume()
            _, scores = _result_of(run)
            forced = plain_search(1, {3: [("force", place, 5, False)]})
            np.testing.assert_allclose(scores[1], [score for _, score in forced], rtol=1e-4)
    run = rf.run(search(face), paused=True)
    run.wait()
    run.step(3)
    with pytest.raises(IndexError) as error:
        run.force("e", hypothesis="a a", seq=1)
    rows = "".join(
        f"  hypothesis {at}  {' '.join(VOCAB.vocab[one] for one in own)}\n" for at, (own, _) in enumerate(expected)
    )
    assert str(error.value) == (
        f"force: no hypothesis 'a a'.\n{rows}"
        "A hypothesis is given by its place in the beam before the step, or by its labels so far.\n"
        "    run.at.force('e', hypothesis=0)"
    )


def test_a_hypothesis_that_has_ended_is_found_by_its_labels_up_to_the_end():
    for step in range(2, STEPS):
        for seq in range(2):
            for tokens, _ in plain_search(seq, {}, until=step):
                if END in tokens:
                    run = rf.run(search(), paused=True)
                    run.wait()
                    run.step(step)
                    text = " ".join(VOCAB.vocab[label] for label in tokens[: tokens.index(END) + 1])
                    with pytest.raises(ValueError, match="has ended"):
                        run.force("a", hypothesis=text, seq=seq)
                    return
    raise AssertionError("no hypothesis has ended early")


def test_what_cannot_come_is_not_forced():
    before = Dim(6, name="before")
    table = rf.convert_to_tensor(LOG_PROBS[0, 0], dims=[before, VOCAB])

    def step(label, state):
        return rf.gather(table, indices=rf.set_sparse_dim(label, before), axis=before), state

    def go():
        return rf.beam_search(step, batch=BATCH, max_seq_len=4, beam_size=2, axis=VOCAB, banned=[2]).best(0)

    run = rf.run(go, paused=True)
    run.wait()
    run.step()
    run.force("b")
    run.step()
    assert run.reason == (
        "force: this label cannot come here.\n  label       2\n  hypothesis  0\n  seq         0\n"
        "Its probability is 0: the model, or an option of the search, does not allow it."
    )
    run.force(["a", "c", "d"])
    run.step()
    assert (
        run.reason
        == "force: more labels than hypotheses survive.\n  forced  3\n  beam    2\nWhat is forced takes a place in the beam each."
    )
    run.stop()


A, B = Dim(4, name="a", vocab=list("wxyz")), Dim(3, name="b", vocab=list("123"))
SOURCES = [
    (table - np.log(np.exp(table).sum(-1, keepdims=True))).astype(np.float32)
    for table in (_rng.normal(size=(2, 4, 4)) * 2, _rng.normal(size=(2, 4, 3)) * 2)
]  # sequence, label of a before, label


def several(sizes):
    """A search over pairs of labels, whose scores depend on the first label of the pair before: pairs and scores."""
    before = Dim(4, name="before")
    one, two = (rf.convert_to_tensor(table, dims=[BATCH, before, dim]) for table, dim in zip(SOURCES, (A, B)))

    def run():
        loop = rf.Loop(max_seq_len=4, name="pairs")
        loop.state.last = rf.zeros([BATCH], dtype="int64", sparse_dim=before)
        for _ in loop:
            scores = [rf.gather(each, indices=loop.state.last, axis=before) for each in (one, two)]
            a, b = rf.choice(scores, axis=[A, B], beam_size=3, source_beam_sizes=sizes, search=True)
            loop.state.last = rf.set_sparse_dim(a, before)
            loop.end(rf.zeros_like(a) > 0, include_eos=True)
            pairs = loop.stack(a), loop.stack(b)
        return (*pairs, rf.get_beam_scores(pairs[0]))

    return run


def plain_several(seq, sizes, decisions, until=4):
    """Pairs and score of all hypotheses in plain Python; decisions: step -> [(kind, hypothesis, pair, only)]."""
    beam = [((), 0.0)]
    for step in range(until):
        own, rows = decisions.get(step, ()), []
        for k, (pairs, score) in enumerate(beam):
            last, best = pairs[-1][0] if pairs else 0, []
            for source, size in enumerate(sizes):
                scores = SOURCES[source][seq, last].copy()
                for kind, place, pair, _ in own:
                    if kind == "ban" and place in (None, k) and pair[source] is not None and pair[1 - source] is None:
                        scores[pair[source]] = -np.inf
                order = np.argsort(-scores, kind="stable")[:size].tolist()
                for kind, place, pair, _ in own:
                    if kind == "force" and place == k and pair[source] is not None and pair[source] not in order:
                        order[-1] = pair[source]
                best.append([(label, scores[label]) for label in order])
            rows += [(k, (a, b), np.float32(score) + (one + two)) for a, one in best[0] for b, two in best[1]]
        forced = []
        for kind, k, pair, only in own:
            if kind == "force":
                wanted = [row for row in rows if row[0] == k and all(x in (None, y) for x, y in zip(pair, row[1]))]
                forced.append(wanted[0])
                if only:
                    rows = [row if row == wanted[0] else (*row[:2], -np.inf) for row in rows]
            elif None not in pair:
                rows = [(*row[:2], -np.inf) if k in (None, row[0]) and row[1] == pair else row for row in rows]
        kept = sorted(rows, key=lambda row: -row[2])[:3]
        for row in forced:
            if row not in kept:
                kept[-1] = row
        beam = [((*beam[k][0], pair), score) for k, pair, score in kept]
    return beam


@settings(max_examples=40, deadline=None)
@given(
    step=st.integers(0, 3), seq=st.integers(0, 1), kind=st.sampled_from(["force", "only", "ban", "ban any"]),
    hypothesis=st.integers(0, 2), a=st.sampled_from([None, 0, 1, 2, 3]), b=st.sampled_from([None, 0, 1, 2]),
    sizes=st.sampled_from([(2, 2), (3, 2), (4, 3)]),
)  # fmt: skip
def test_of_several_sources_a_pair_of_labels_is_decided(step, seq, kind, hypothesis, a, b, sizes):
    if a is None and b is None:
        return
    run = rf.run(several(sizes), paused=True)
    run.wait()
    if step:
        run.step(step)
    hypothesis = hypothesis if step else 0
    texts = (None if a is None else A.vocab[a], None if b is None else B.vocab[b])
    if kind.startswith("ban"):
        hypothesis = None if kind == "ban any" else hypothesis
        run.ban(texts, hypothesis=hypothesis, seq=seq)
    else:
        run.force(texts, hypothesis=hypothesis, seq=seq, only=kind == "only")
    run.resume()
    decided = ("ban" if kind.startswith("ban") else "force", hypothesis, (a, b), kind == "only")
    one, two, scores = run.result
    for row in range(2):
        beam = plain_several(row, sizes, {step: [decided]} if row == seq else {})
        found = scores.copy_transpose([BATCH, scores.remaining_dims([BATCH])[0]]).numpy()[row]
        np.testing.assert_allclose(found, [score for _, score in beam], rtol=1e-4)
        (beam_dim,) = scores.remaining_dims([BATCH])
        (time,) = one.remaining_dims([BATCH, beam_dim])
        order = [BATCH, beam_dim, time]
        pairs = zip(*(x.copy_transpose(order).numpy()[row].tolist() for x in (one, two)))
        for (first, second), (expected, score) in zip(pairs, beam):
            if score > -np.inf:
                assert list(zip(first, second)) == list(expected)


def test_of_several_sources_labels_come_one_after_the_other_too():
    run = rf.run(several((2, 2)), paused=True)
    run.wait()
    run.step(1)
    run.force(("z", "2"), (None, "3"), hypothesis=1)
    run.resume()
    _, _, scores = run.result
    after = plain_several(0, (2, 2), {1: [("force", 1, (3, 1), False)]}, until=2)
    place = next(at for at, (pairs, _) in enumerate(after) if pairs[-1] == (3, 1))
    beam = plain_several(0, (2, 2), {1: [("force", 1, (3, 1), False)], 2: [("force", place, (None, 2), False)]})
    found = scores.copy_transpose([BATCH, scores.remaining_dims([BATCH])[0]]).numpy()[0]
    np.testing.assert_allclose(found, [score for _, score in beam], rtol=1e-4)
    assert run.changes[0].words == "forced z + 2, then any + 3 for hypothesis 1 of sequence 0"


@pytest.mark.parametrize("label", [3, "x", ("x",), (None, None)])
def test_of_several_sources_one_label_is_no_decision(label):
    run = rf.run(several((2, 2)), paused=True)
    run.wait()
    run.force(label)
    run.step()
    text = (
        f"force: a step chooses from 2 sources.\n  label    {label!r}\n  sources  a=4, b=3\n"
        "There is a label of each source, None where it may be any.\n    run.at.force(('w', '1'))"
    )
    assert run.reason == text
    with pytest.raises(ValueError) as error:
        run.force(label)
    assert str(error.value) == text
    with pytest.raises(ValueError, match="which hypothesis"):
        run.force(("x", "2"), hypothesis="x")
    run.resume()
    for mine, plain in zip(run.result, several((2, 2))()):
        np.testing.assert_array_equal(mine.numpy(), plain.numpy())


def test_of_several_choices_of_a_step_the_first_one_is_decided():
    """They have other labels here; the second choice is made as usual."""
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
    with pytest.raises(ValueError, match="force: there is no choice here"):
        run.at.force("a")
    run.stop()


@pytest.mark.parametrize("face", ["for", "with"])
def test_what_no_choice_has_looked_at_is_said(face):
    rule = "Labels are chosen by rf.choice in a step of a Loop, or by rf.beam_search.\n"
    rule += "    label = rf.choice(log_probs, axis=vocab, beam_size=4)"
    rule += "    # in a step of the loop that the run holds"
    why = f"force: there is no choice here.\n  label    'a'\n  chooses  nothing\n{rule}"
    expected = sums(face)()
    run = rf.run(sums(face), paused=True)
    run.wait()
    run.force("a")  # whether a step chooses is not known before the first is made
    run.resume()
    assert run.wait(LONG) and run.at.step == 1 and run.reason == why
    changes = ["forced a for hypothesis 0 of sequence 0", f"failed: {why.splitlines()[0]}"]
    assert [change.words for change in run.changes] == changes
    for what in (run.force, run.ban):
        with raises_message(
            ValueError,
            f"{what.__name__}: there is no choice here.\n  label    'a'\n  chooses  no step of \"sums\" so far\n{rule}",
        ):
            what("a")
    assert [change.words for change in run.changes] == changes
    assert_same(result_of(run)[0], expected[0])


def test_what_no_choice_has_looked_at_in_the_only_step_is_said_with_the_result():
    one = Dim(1, name="one")
    run = rf.run(lambda: list(rf.Loop(axis=one)), paused=True)
    run.wait()
    run.ban("a")
    run.resume()
    with pytest.warns(UserWarning, match="some requests were not carried out.\nban: there is no choice here"):
        assert run.result == [0]


@pytest.mark.parametrize("seq", ["0", None, 1.5, True, 2, -1])
@pytest.mark.parametrize("hypothesis", [0, "a"])
def test_a_sequence_that_there_is_not_is_said(seq, hypothesis):
    run = rf.run(search(), paused=True)
    run.wait()
    run.force("b", seq=seq)  # before the first choice nobody knows
    run.step()
    assert run.reason.startswith(f"force: no seq {seq!r}.\n"), run.reason
    for change in (run.force, run.ban):
        with pytest.raises(IndexError) as error:
            change("a", seq=seq, hypothesis=hypothesis)
        assert str(error.value) == (
            f"{change.__name__}: no seq {seq!r}.\n  given      {seq!r}\n  there are  2\nThey are 0 to 1."
        )
    run.stop()


def test_a_label_that_there_is_not_is_said_before_the_first_choice_by_a_pause():
    run = rf.run(search(), paused=True)
    run.wait()
    run.force(None)
    assert [change.words for change in run.changes] == ["forced label None for hypothesis 0 of sequence 0"]
    run.step()
    assert run.reason == "force: no label None.\n  labels  labels=6\nLabels are 0 to 5."
    run.stop()


def test_labels_that_were_to_follow_when_a_search_is_over_are_said():
    run = rf.run(search(), paused=True)
    run.step(STEPS - 1)
    run.force("a", "b", "c", seq=1)
    run.resume()
    with pytest.warns(
        UserWarning,
        match="force: no step is left for the following labels.\n  then  b, c\n  seq   1\nThe search ends",
    ):
        _result_of(run)


@pytest.mark.parametrize("options", [{}, {"top_k": 2}, {"top_p": 0.5}, {"temperature": 2.0}], ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_a_sampled_label_is_none_that_was_banned(seed, options):
    seq = seed % 3
    rf.set_random_seed(seed)
    run = rf.run(held_search("for", sampling=True, **options), paused=True)
    run.step()
    run.at.ban([1, 2, 3], seq=seq)
    result_of(run)
    made = run.trace.select("beams")[1].values
    assert not np.isin(made["tokens"].numpy()[seq], [1, 2, 3]).any() and np.isfinite(made["scores"].numpy()).all()


@pytest.mark.parametrize("seed", range(5))
def test_where_labels_are_sampled_nothing_but_what_is_forced_goes_on(seed):
    rf.set_random_seed(seed)
    run = rf.run(held_search("for", sampling=True), paused=True)
    run.wait()
    run.at.ban(0, seq=2)  # so that none of them ends
    run.step()
    run.at.force(1, seq=2, only=True)
    result_of(run)
    made = run.trace.select("beams")[1].values
    tokens, scores = made["tokens"].numpy()[2], made["scores"].numpy()[2]
    assert (tokens[np.isfinite(scores)] == 1).all() and np.isfinite(scores).sum() == 1
    assert np.isfinite(made["scores"].numpy()[:2]).all()


def test_a_sampled_label_is_none_below_the_threshold():
    rf.set_random_seed(3)
    with rf.record() as trace:
        held_search("for", sampling=True, temperature=9.0, threshold=1.0)()
    for event in trace.select("beams"):
        scores = event.values["scores"].numpy()
        assert np.isfinite(scores).any(-1).all()
