"""Searches are compared by the labels of their hypotheses: ties apart from real changes, other beam sizes, results with their edits."""

import numpy as np
import pytest

import rfnb as rf
from rfnb import Dim
from rfnb.trace.diff_text import what

LABELS = ["#", "a", "b", "c"]
# Of each label after the one before it. After "a" and after "b" nothing is a tie but where a test makes one.
TABLE = np.log([[0.01, 0.45, 0.3, 0.24], [0.02, 0.08, 0.7, 0.2], [0.02, 0.28, 0.1, 0.6], [0.9, 0.04, 0.03, 0.03]])


def searched(table, **options):
    """The recording of a search."""
    with rf.record() as trace:
        search(table, **options)
    return trace


def search(table, beam_size=2, batch_size=1, dtype="float32", after=None):
    """A search; a state counts its steps, and has the score of each label at its place."""
    batch = Dim(batch_size, name="batch")
    labels, before = Dim(4, name="labels", vocab=LABELS), Dim(4, name="before")
    scores = rf.convert_to_tensor(np.asarray(table).astype(dtype), dims=[before, labels])

    def step(label, state):
        found = rf.gather(scores, indices=rf.set_sparse_dim(label, before), axis=before)
        rf.probe("scores", value=found)
        memory = 0.5 * state["memory"] + found if after is None else after(state["memory"], found)
        return found, {"memory": memory}

    rf.beam_search(
        step,
        state={"memory": rf.zeros([batch, labels])},
        batch=batch,
        max_seq_len=5,
        beam_size=beam_size,
        end_label=0,
        axis=labels,
    )


def changed(*places, by=1.0):
    table = TABLE.copy()
    for place in places:
        table[place] += by
    return table


def only_search(diff):
    (search,) = diff.searches
    (seq,) = search.seqs
    return seq


def test_the_same_search_is_the_same_and_its_states_are_compared():
    diff = rf.diff(searched(TABLE), searched(TABLE), tolerance=0)
    assert diff.same
    seq = only_search(diff)
    assert {step.verdict for step in seq.steps} == {"same"}
    assert seq.result.same
    assert any(row.name == "model.memory" and row.numbers.cells for row in diff.rows)


def test_the_first_step_with_other_hypotheses_is_found():
    a, b = searched(TABLE), searched(changed((1, 3), by=2.0))  # "a c" instead of "a b"
    diff = rf.diff(a, b)
    seq = only_search(diff)
    history_a, history_b = (next(iter(trace.beams.values())) for trace in (a, b))
    beams = [
        {tuple(history.hypothesis(0, slot, step)) for slot in range(history.beam_size(step))}
        for step in range(history_a.num_steps)
        for history in (history_a, history_b)
    ]
    expected = next(step for step in range(history_a.num_steps) if beams[2 * step] != beams[2 * step + 1])
    assert (seq.first.step, seq.first.verdict) == (expected, "other")
    assert diff.first.path.endswith("search") or diff.first.ident.kind == "scores"
    assert (seq.result.labels_a, seq.result.labels_b) == (("a", "b", "c", "#"), ("a", "c", "#"))
    assert seq.result.edits == "=d=="
    assert seq.result.score_a == pytest.approx(TABLE[0, 1] + TABLE[1, 2] + TABLE[2, 3] + TABLE[3, 0], rel=1e-6)
    assert "    a  a b c #" in diff.text
    assert "    b  a - c #" in diff.text


def test_a_swap_of_two_that_are_as_good_is_a_tie_and_no_difference():
    tied = TABLE.copy()
    tied[0, 2] = tied[0, 1]
    nudged = tied.copy()
    nudged[0, 2] += 1e-6
    diff = rf.diff(searched(tied, beam_size=3), searched(nudged, beam_size=3))
    seq = only_search(diff)
    assert diff.first is None, diff.text
    assert (seq.tie.step, seq.tie.verdict, seq.first) == (0, "swap", None)
    assert "two hypotheses that are as good are the other way round: a tie" in diff.text


def test_states_in_swapped_slots_are_compared_by_hypothesis():
    tied = TABLE.copy()
    tied[0, 2] = tied[0, 1]
    nudged = tied.copy()
    nudged[0, 2] += 1e-6
    a, b = searched(tied, beam_size=2), searched(nudged, beam_size=2)
    steps = [next(iter(trace.beams.values())).steps[0]["tokens"][0].tolist() for trace in (a, b)]
    assert steps == [[1, 2], [2, 1]]
    diff = rf.diff(a, b)
    row = next(row for row in diff.rows if row.ident.kind == "scores" and row.step == 1)
    raw = [event.values["value"].numpy() for event in diff.events_of(row)]
    assert not np.allclose(*raw, atol=1e-3), "slots are swapped"
    pair = diff.pair(row)
    assert np.array_equal(pair.a, raw[0])
    assert np.allclose(pair.a, pair.b, atol=1e-5)
    assert pair.mask.all()
    assert diff.first is None, diff.text


def test_what_is_cut_by_a_tie_is_a_tie_and_so_is_what_follows():
    tied = TABLE.copy()
    tied[0, 2] = tied[0, 3] = np.log(0.3)
    one, other = tied.copy(), tied.copy()
    one[0, 2] += 1e-6
    other[0, 3] += 1e-6
    diff = rf.diff(searched(one), searched(other))
    seq = only_search(diff)
    assert diff.first is None or diff.first.path != "search", diff.text
    assert seq.tie.verdict == "tie"
    assert [(entry.labels, other.labels) for entry, other in zip(seq.tie.only_a, seq.tie.only_b, strict=True)] == [
        (("b",), ("c",))
    ]
    assert seq.first is None
    assert {step.verdict for step in seq.steps[1:]} <= {"tie", "same"}


def test_the_same_margin_is_no_tie_at_a_smaller_tolerance():
    tied = TABLE.copy()
    tied[0, 2] = tied[0, 3] = np.log(0.3)
    one, other = tied.copy(), tied.copy()
    one[0, 2] += 1e-3
    other[0, 3] += 1e-3
    assert only_search(rf.diff(searched(one), searched(other))).first.verdict == "other"
    assert only_search(rf.diff(searched(one), searched(other), tolerance=0.01)).first is None


def test_other_scores_of_the_same_hypotheses_are_a_difference():
    diff = rf.diff(searched(TABLE), searched(TABLE + np.array([0.01, 0, 0, 0])))
    seq = only_search(diff)
    assert seq.first.verdict == "scores"
    assert seq.first.max_abs == pytest.approx(0.01, rel=1e-3)


def test_a_larger_beam_is_compared_by_what_the_smaller_one_keeps():
    table = changed((0, 3), by=-2.0)  # else the larger beam finds "c #"
    diff = rf.diff(searched(table, beam_size=2), searched(table, beam_size=4))
    assert diff.first is None, diff.text
    seq = only_search(diff)
    assert all(step.verdict == "same" and step.shared == step.sizes[0] for step in seq.steps)
    rows = [row for row in diff.rows if row.name == "model.memory" and row.step and row.numbers.cells]
    assert rows and all(row.numbers.units == 0 for row in rows)


def test_a_larger_beam_that_finds_another_result_differs():
    table = np.log(
        [[1e-3, 0.55, 0.449, 1e-4], [0.3, 0.25, 0.25, 0.2], [0.99, 4e-3, 3e-3, 3e-3], [0.9, 0.04, 0.03, 0.03]]
    )
    seq = only_search(rf.diff(searched(table, beam_size=1), searched(table, beam_size=2)))
    assert (seq.result.labels_a[0], seq.result.labels_b) == ("a", ("b", "#"))
    assert seq.first.verdict == "other"


def test_a_sequence_of_a_batch_is_compared_with_itself_alone():
    diff = rf.diff(searched(TABLE, batch_size=1), searched(TABLE, batch_size=3), seq_b=2)
    assert diff.same, diff.text
    assert (diff.searches[0].seqs[0].seq_a, diff.searches[0].seqs[0].seq_b) == (0, 2)


def test_a_state_that_is_wrong_in_one_step_is_found_in_that_step():
    def wrong(memory, found):
        return 0.5 * memory + found + 0.125 * rf.cast(memory != 0, "float32")

    diff = rf.diff(searched(TABLE), searched(TABLE, after=wrong))
    assert (diff.first.name, diff.first.step) == ("model.memory", 1)
    assert diff.first.numbers.max_abs == pytest.approx(0.125, rel=1e-5)


def test_hypotheses_that_have_ended_are_not_compared():
    a = searched(TABLE)
    diff = rf.diff(a, searched(TABLE))
    last = [row for row in diff.rows if row.name == "model.memory"][-1]
    history = next(iter(a.beams.values()))
    ended_before = history.steps[last.step - 1]["ended"][0].sum()
    assert ended_before
    assert last.numbers.cells < 2 * 4


def test_of_two_searches_at_one_path_each_is_said_by_itself():
    with rf.record() as a:
        search(TABLE, beam_size=1)
        search(TABLE, beam_size=1)
    with rf.record() as b:
        search(changed((0, 1), by=-3.0), beam_size=1)
        search(changed((0, 1), (0, 2), by=-3.0), beam_size=1)
    diff = rf.diff(a, b)
    first = [what(diff, row) for row in diff.rows if row.name == "hypotheses" and row.step == 0]
    assert first == [
        f'sequence 0: "a" (rank 1, {TABLE[0, 1]:.6g}) only in a, "{label}" (rank 1, {score:.6g}) only in b'
        for label, score in (("b", TABLE[0, 2]), ("c", TABLE[0, 3]))
    ]
