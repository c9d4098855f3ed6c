"""A BeamHistory follows hypotheses through the slots of a beam. The search is that of conftest.py, small enough to follow by hand."""

import numpy as np
import pytest
from asserting import raises_message, tensor

import rfnb as rf
from rfnb import Dim
from rfnb.trace.beams import BeamHistory
from rfnb.trace.record import record


@pytest.fixture
def history(search):
    return BeamHistory.of_values(search.values)


def test_a_history_is_found_by_path(search, probe_steps):
    with record() as trace:
        probe_steps("beams", search.values, name="search")
    history = trace.beams["search"]
    assert (history.num_steps, history.num_seqs, history.beam_size(0)) == (3, 2, 2)
    assert history.labels == ["a", "b", "c", "end"]
    assert history.steps[1]["tokens"].tolist() == [[2, 0], [0, 1]]


def test_the_order_of_dims_does_not_matter(search, history):
    turned = [
        {name: value.copy_transpose([search.beam, search.batch]) for name, value in fields.items()}
        for fields in search.values
    ]
    assert BeamHistory.of_values(turned).text() == history.text()


def test_a_search_without_batch_is_one_sequence():
    beam, vocab = Dim(2, name="beam"), Dim(3, name="vocab")
    fields = {
        "tokens": tensor([2, 1], beam, sparse_dim=vocab),
        "parents": tensor([0, 0], beam),
        "scores": tensor([-1.0, -2.0], beam),
        "ended": tensor([True, False], beam),
    }
    history = BeamHistory.of_values([fields])
    assert history.steps[0]["tokens"].tolist() == [[2, 1]]
    assert history.best(0).labels == ("2",)


def test_a_hypothesis_is_followed_through_its_parents(history):
    assert history.path(0, 0) == [(0, 1), (1, 1), (2, 0)]
    assert history.hypothesis(0, 0) == [1, 0, 3]
    assert history.hypothesis(0, 1) == [1, 2, 1]


def test_a_hypothesis_can_be_asked_for_at_any_step(history):
    assert history.hypothesis(0, 0, step=0) == [0]
    assert history.hypothesis(0, 0, step=1) == [1, 2]


def test_a_hypothesis_ends_with_the_token_that_ended_it(history):
    assert history.path(1, 0) == [(0, 0), (1, 0), (2, 0)]
    assert history.hypothesis(1, 0) == [3]


def test_finished_lists_each_complete_hypothesis_once_best_first(history):
    assert [(item.tokens, item.score) for item in history.finished(1)] == [((3,), -0.5), ((2, 1, 3), -2.5)]


def test_finished_remembers_what_fell_out_of_the_beam(search):
    values = [{**fields} for fields in search.values]
    values[1]["ended"] = tensor(np.array([[0, 1], [1, 0]], bool), search.batch, search.beam)
    values[2]["parents"] = tensor(np.array([[0, 0], [0, 1]]), search.batch, search.beam)
    found = BeamHistory.of_values(values).finished(0)
    assert [(item.tokens, item.kept) for item in found] == [((1, 0), False), ((1, 2, 3), True)]


def test_nbest_is_the_last_beam_by_score(history):
    assert [(item.labels, item.score, item.ended) for item in history.nbest(0)] == [
        (("b", "a", "end"), -3.5, True),
        (("b", "c", "b"), -4.0, False),
    ]


def test_nbest_can_be_normalised_by_length(history):
    tokens = [item.tokens for item in history.nbest(1)]
    normalised = [item.tokens for item in history.nbest(1, length_exponent=2.0)]
    assert (tokens, normalised) == ([(3,), (2, 1, 3)], [(2, 1, 3), (3,)])  # -0.5 / 1 and -2.5 / 9


def test_slots_without_hypothesis_are_left_out(search):
    values = [{**fields} for fields in search.values]
    values[2]["scores"] = tensor([[-3.5, float("-inf")], [float("-inf"), float("-inf")]], search.batch, search.beam)
    history = BeamHistory.of_values(values)
    assert (len(history.nbest(0)), len(history.nbest(1))) == (1, 0)
    with raises_message(ValueError, "BeamHistory: sequence 1 has no hypothesis after 3 steps: all scores are -inf."):
        history.best(1)


def test_text_is_the_nbest_list_as_table(history):
    assert history.text() == (
        "sequence 0: 2 hypotheses after 3 steps\n"
        "rank    score  ended  labels\n"
        "   1   -3.500  yes    b a end\n"
        "   2   -4.000  no     b c b\n"
        "\n"
        "sequence 1: 2 hypotheses after 3 steps\n"
        "rank    score  ended  labels\n"
        "   1   -0.500  yes    end\n"
        "   2   -2.500  yes    c b end"
    )
    assert repr(history) == "<BeamHistory: 2 sequences, 3 steps, beam 2>"


# -- along ---------------------------------------------------------------------------------------------------------------

SLOTS = np.array([[[0, 1], [10, 11]], [[100, 101], [110, 111]], [[200, 201], [210, 211]]])  # [step, batch, beam]


def test_values_before_the_choice_are_taken_from_the_slot_of_the_parent(history):
    assert [int(value) for value in history.along(SLOTS, seq=0, k=0)] == [0, 101, 201]


def test_values_after_the_choice_are_taken_from_the_own_slot(history):
    assert [int(value) for value in history.along(SLOTS, seq=0, k=0, before_choice=False)] == [1, 101, 200]


def test_values_are_followed_until_the_hypothesis_ends(history):
    assert [int(value) for value in history.along(SLOTS, seq=1, k=0, before_choice=False)] == [10]


def test_tensors_are_followed_by_their_dims(search, history):
    source = Dim(3, name="source")
    with_source = np.broadcast_to(SLOTS[..., None], (3, 2, 2, 3)).astype(np.float32)
    first = tensor(with_source[0, :, 0], search.batch, source)  # the first step has no beam yet
    rest = [tensor(step.transpose(2, 1, 0), source, search.beam, search.batch) for step in with_source[1:]]
    found = history.along([first, *rest], seq=0, k=0)
    assert [value.tolist() for value in found] == [[0.0] * 3, [101.0] * 3, [201.0] * 3]


def test_one_tensor_for_all_steps_is_refused(search, history):
    with raises_message(
        TypeError,
        """
        BeamHistory.along: one Tensor for all steps.
          values  Tensor{'', [batch=2, beam=2]}
        The slots of a step mean something only in that step, so there is one value per step.
            history.along(trace.attention.steps(path), seq, k)
        """,
    ):
        history.along(search.values[0]["scores"], 0, 0)


def test_fewer_values_than_tokens_are_refused(history):
    with raises_message(
        ValueError,
        """
        BeamHistory.along: fewer values than tokens.
          values  2
          tokens  3
        There is one value for each step of the search, from step 0.
        """,
    ):
        history.along(SLOTS[:2], 0, 0)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ((2, 0, 1), "no such seq.\n  seq   2 of 2\n  step  1 of 3\n  k     0 of 2"),
        ((0, 2, 1), "no such k.\n  seq   0 of 2\n  step  1 of 3\n  k     2 of 2"),
        ((0, 0, 3), "no such step.\n  seq   0 of 2\n  step  3 of 3"),
    ],
)
def test_a_place_that_is_not_there_is_refused(history, place, text):
    rule = "All three are counted from 0; k is a slot of the beam after that step."
    with raises_message(IndexError, f"BeamHistory: {text}\n{rule}"):
        history.path(*place)


def test_a_missing_field_is_refused(search):
    del search.values[1]["parents"]
    with raises_message(
        ValueError,
        """
        beams, step 1: parents is missing.
          given  tokens, scores, ended
        A step of a search has tokens, parents, scores, ended.
        """,
    ):
        BeamHistory.of_values(search.values)


# -- a real search -------------------------------------------------------------------------------------------------------


def test_the_best_hypothesis_is_what_decide_gives():
    batch, vocab = Dim(2, name="batch"), Dim(4, name="vocab", vocab=["a", "b", "c", "end"])
    table = tensor(np.random.default_rng(5).standard_normal((4, 4)).astype(np.float32), Dim(4, name="from"), vocab)
    with record() as trace:
        loop = rf.Loop(max_seq_len=5, name="search")
        loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=table.dims[0])
        for _ in loop:
            scores = rf.gather(table, indices=loop.state.label, axis=table.dims[0])
            label = rf.choice(scores, axis=vocab, beam_size=3, input_type="logits")
            loop.end(label == 3, include_eos=True)
            label_in = label.copy()
            label_in.sparse_dim = table.dims[0]
            loop.state.label = label_in
            labels = loop.stack(label)
    history = trace.beams["search"]
    best = rf.decide(labels)
    (time,) = [dim for dim in best.dims if dim is not batch]
    lengths = np.broadcast_to(time.lengths, (2,))
    rows = best.copy_transpose([batch, time]).numpy()
    for seq in range(2):
        assert history.best(seq).tokens == tuple(rows[seq, : lengths[seq]])


def test_prefixes_and_texts_made_step_by_step_are_those_made_at_once():
    random = np.random.default_rng(3)
    steps = []
    for step in range(7):
        ended = random.random((2, 4)) < 0.2
        parents = random.integers(0, 4, (2, 4)) if step else np.zeros((2, 4), int)
        tokens = random.integers(0, 5, (2, 4))
        if step:  # what has ended keeps its place
            ended |= np.take_along_axis(steps[-1]["ended"], parents, 1)
        steps.append({"tokens": tokens, "parents": parents, "scores": -random.random((2, 4)), "ended": ended})
    for blank in (None, 2):
        for labels in (["a", "b", "c", "d", "e"], ["a", "b", "c"], None):
            history = BeamHistory(steps, labels, blank=blank)
            for step in range(7):
                for seq in range(2):
                    for k in range(4):
                        expected = history.hypothesis(seq, k, step)
                        assert history.prefix(seq, k, step) == tuple(expected)
                        assert history.texts(expected) == tuple(history.label(token) for token in expected)
