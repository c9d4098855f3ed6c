"""Questions that are answered in a view: the same by code and by the page, judged at once, kept for graders."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from viz.questions import SPANS, WEIGHTS, two_steps

import rfnb as rf
from rfnb.teaching.card import MIME

LOWER = np.tril(np.ones((3, 3), int))


@pytest.fixture
def mask(lesson):
    return lesson.draw_mask("causal", LOWER, target=list("abc"), source=list("abc"))


@pytest.fixture
def beam(lesson):
    return lesson.be_the_beam("beam", two_steps(["a", "b", "c"]), steps=2)


@pytest.fixture
def place(lesson):
    return lesson.place_alignment("look", WEIGHTS)


def page_says(asked, boards, do="answer"):
    """The answer that a page gets."""
    got = []
    asked.view._hear({"rfnb": "do", "id": "1", "do": do, "boards": boards}, got.append)
    (message,) = got
    assert (message["rfnb"], message["id"]) == ("did", "1")
    return message["said"]


def record(asked):
    return json.loads(json.dumps(asked._repr_mimebundle_()[MIME]))


def test_a_mask_is_asked_as_text_where_there_is_no_page(mask, capsys):
    assert repr(mask) == (
        "○ Draw what each row may see: rows look, columns are seen.\n"
        "Answer in the view, or by code: a 0-1 array, its rows what looks: `answer = [[1, 0], [1, 1]]`."
    )
    assert (mask.answer, mask.passed) == (None, False)


def test_beside_its_form_a_card_says_only_how_it_stands(beam, mask):
    def headline(asked):
        bundle = asked._card_bundle(True)
        assert asked.question not in bundle["text/html"] and "■" not in bundle["text/html"]
        return bundle["text/plain"]

    assert (headline(beam), headline(mask)) == ("○ Be the beam: not answered yet", "○ Draw the mask: not answered yet")
    beam.answer, mask.answer = [["a", "c"]], np.eye(3)
    assert (headline(beam), headline(mask)) == (
        "✗ Be the beam: 0 of 2 steps are right",
        "✗ Draw the mask: not right yet",
    )
    beam.answer, mask.answer = [["a", "b"]], LOWER
    assert (headline(beam), headline(mask)) == ("● Be the beam: 1 of 2 steps is right", "✓ Draw the mask: right")


def test_what_was_missed_is_kept_so_that_the_second_try_is_the_second_one(beam, lesson):
    beam.answer = [["a", "c"]]
    data = record(beam)
    assert data["missed"] == [[[1, 0, 1]], None] and beam.view.spec.head["missed"] == data["missed"]
    again = lesson.be_the_beam("beam", two_steps(["a", "b", "c"]), steps=2)
    assert "that you picked goes" in repr(again)
    again.answer = [["b", "c"]]
    assert "rank" in repr(again)


def test_an_answer_by_code_and_one_of_the_page_are_judged_alike(mask):
    wrong, right = [[1, 0, 0], [1, 1, 0], [1, 0, 1]], LOWER.tolist()
    assert page_says(mask, [wrong]) is None
    by_page = record(mask)
    mask.answer = np.array(wrong, bool)
    assert record(mask) == by_page
    assert (by_page["kind"], by_page["passed"], by_page["answer"]) == ("mask", False, wrong)
    assert repr(mask).splitlines()[0].startswith("✗") and repr(mask).splitlines()[1:] == [
        "Your answer: ", "     a  b  c", "  a  ■  ·  ·", "  b  ■  ■  ·", "  c  ■  ·  ■",
        "Wrong in 1 place:", 'row 2 "c" must see column 1 "b": it is earlier.',
    ]  # fmt: skip
    assert page_says(mask, [right]) is None
    assert mask.passed and record(mask)["passed"] and mask.view.spec.head["answer"] == [right]
    assert repr(mask).endswith("All 9 cells are right.")


@pytest.mark.parametrize(
    "same",
    [LOWER.tolist(), LOWER.astype(bool), torch.tensor(LOWER), torch.tensor(LOWER).bool(), tuple(map(tuple, LOWER))],
)
def test_a_mask_may_be_an_array_of_any_kind(mask, same):
    mask.answer = same
    assert mask.passed


def test_a_tensor_is_read_by_its_dims(lesson):
    target, source = rf.Dim(3, name="target"), rf.Dim(3, name="source")
    dims = {"target_dim": target, "source_dim": source}
    expected = rf.convert_to_tensor(LOWER.astype(bool), dims=[target, source])
    mask = lesson.draw_mask("m", expected, **dims)
    mask.answer = rf.convert_to_tensor(LOWER.T.astype(bool).copy(), dims=[source, target])
    assert mask.passed
    mask.answer = rf.convert_to_tensor(LOWER.T.astype(bool).copy(), dims=[target, source])
    assert not mask.passed and "This is mirrored" in repr(mask)


def test_what_is_no_answer_is_refused_and_the_one_before_stays(mask):
    mask.answer = LOWER
    for value, words in (
        (np.ones((2, 3)), "The answer has the shape (2, 3), and the question (3, 3)."),
        (LOWER * 2, "The answer has other values than 0 and 1 (or false and true)."),
    ):
        with pytest.raises(ValueError) as error:
            mask.answer = value
        assert str(error.value) == words
    assert page_says(mask, [[[1, 0]]]) == "This is no answer to the question."
    assert (
        page_says(mask, "x")
        == page_says(mask, [])
        == page_says(mask, [LOWER.tolist()] * 2)
        == "This is no answer to the question."
    )
    assert mask.passed


def test_what_is_turned_is_told_apart(lesson):
    wide = lesson.draw_mask("wide", [[1, 1, 0], [0, 1, 1]])
    with pytest.raises(
        ValueError, match=r"shape \(3, 2\), and the question \(2, 3\). It is turned: rows are what looks."
    ):
        wide.answer = np.ones((3, 2))


def test_an_alignment_is_answered_by_columns_or_by_cells(place):
    for same in ([0, [1, 2], [], 2], [[1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 1]], torch.tensor(WEIGHTS > 0.4)):
        place.answer = same
        assert place.passed and place.answer == [[1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 1]]
    place.answer = [2, 0, [], 0]
    assert not place.passed and "Agreement 0.08, too little" in repr(place)
    for value, words in (
        ([0, 1], "The answer has 2 rows, and the question 4."),
        ([0, 1, [], 3], "Row 3 has the column 3; there are 0 to 2."),
        ("ab", "An answer has the columns of each row, and this is str."),
    ):
        with pytest.raises(ValueError) as error:
            place.answer = value
        assert str(error.value) == words


def test_a_forced_alignment_goes_forward(lesson):
    asked = lesson.place_alignment("labels", SPANS, target=list("CAT"))
    asked.answer = [[0, 1], 4, 3]
    assert not asked.passed and 'row 2 "T" begins before row 1 "A" ends' in repr(asked)
    asked.answer = [[0, 1], 3, [4, 5]]
    assert asked.passed


def test_the_beam_is_answered_by_lane_and_label_step_by_step(beam):
    beam.answer = [["a", "c"]]
    assert not beam.passed and "Step 0: 1 of the 2 that you picked goes." in repr(beam) and "rank" not in repr(beam)
    beam.answer = [["b", "c"]]
    assert not beam.passed and "Step 0: Wrong in 2 places:" in repr(beam)
    beam.answer = [["a", "b"]]
    assert not beam.passed
    assert repr(beam).endswith("1 of 2 steps are right; continue with the next one.")
    assert repr(beam).startswith("●") and not beam.passed  # no cross while all is right
    beam.answer = [["b", "a"], [(0, "b"), (0, "c")]]
    assert beam.passed and beam.answer == [[[0, "a"], [0, "b"]], [[0, "b"], [0, "c"]]]
    beam.answer = [["a", "b"], [(0, "b"), (1, "b")]]  # as good as c of lane 0
    assert beam.passed
    for value, words in (
        ([["a", "x"]], 'Step 0 shows no continuation "x".'),
        ([["a", "b"], ["b", "c"]], 'Step 1 shows 2 continuations "b".'),
        ([["a", "b"], [(1, "c")]], 'Step 1 shows no continuation "c" of lane 1.'),
        ([[]] * 3, "The answer has 3 steps, and the question 2."),
        ("ab", 'An answer is a list of steps, each a list of what stays: [[(0, "A"), (0, "B")], ...].'),
    ):
        with pytest.raises(ValueError) as error:
            beam.answer = value
        assert str(error.value) == words


def test_the_page_of_a_search_answers_step_by_step(beam):
    assert page_says(beam, [[[1, 1, 0]]]) is None
    assert beam.answer == [[[0, "a"], [0, "b"]]] and not beam.passed
    assert page_says(beam, [[[1, 1, 0]], [[1, 1, 0], [0]]]) is None
    assert beam.passed and page_says(beam, None, do="look") is None


def test_after_the_truth_was_revealed_no_answer_is_taken(mask):
    assert "no answer yet" in repr(mask.reveal())
    mask.answer = LOWER
    assert "your answer was right" in repr(mask.reveal()) and mask.view.spec.head["revealed"]
    assert page_says(mask, [LOWER.tolist()]) == 'The question "causal" is answered: its truth was revealed.'


def test_the_answer_is_kept_when_the_cell_runs_again(lesson, mask):
    mask.answer = LOWER
    again = lesson.draw_mask("causal", LOWER, target=list("abc"), source=list("abc"))
    assert again.passed and again.view.spec.head["answer"] == [LOWER.tolist()]
    assert lesson.draw_mask("causal", np.tril(np.ones((4, 4)))).answer is None  # it fits no more


def test_a_question_without_a_kernel_is_a_view_with_all_that_it_needs(mask):
    html = mask.form()["text/html"]
    assert 'class="rfnb-output"' in html and "rfnb-frame" in html
