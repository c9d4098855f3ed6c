"""Questions that are answered in the view: the question, the solution, and the messages for wrong answers."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from viz.questions import SPANS, WEIGHTS, causal, lanes, spans, two_steps, weights
from viz.stored_files import assert_stored

import rfnb as rf
from rfnb.models import load_g2p
from rfnb.models.g2p_search import pronounce
from rfnb.teaching.judgement import judged
from rfnb.viz import View
from rfnb.viz.question.alignment import alignment_spec
from rfnb.viz.question.beam import beam_spec
from rfnb.viz.question.mask import mask_spec
from rfnb.viz.question.spec import answered
from rfnb.viz.spec import to_json

LOWER = np.tril(np.ones((4, 4), int))


def said(spec, board, at=0):
    return judged(spec, at, np.asarray(board).astype(int).tolist()).message


# -- both sides say the same: widgets/tests/question.test.ts reads this file ----------------------------------------------------

CASES = {
    "causal": (causal, [LOWER, 1 - LOWER, LOWER.T, np.tril(LOWER, -1), LOWER * 0, LOWER * 0 + 1, np.eye(4)]),
    "weights": (
        weights,
        [
            WEIGHTS > 0.4,
            WEIGHTS > 0.5,
            [[1, 0, 0], [0, 1, 0], [1, 1, 1], [0, 0, 1]],
            [[0, 0, 1], [1, 0, 0], [0, 0, 0], [1, 0, 0]],
            [[1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 1, 1]],
        ],
    ),
    "spans": (
        spans,
        [SPANS, np.roll(SPANS, 1, 1) * [0, 1, 1, 1, 1, 1], SPANS[::-1], SPANS * 0 + np.eye(3, 6, dtype=int)],
    ),
    "lanes 0": (lanes, [[[1, 1, 0]], [[1, 0, 0]], [[1, 0, 1]], [[1, 1, 1]]]),
    "lanes 1": (lanes, [[[1, 1, 0], [0]], [[1, 0, 0], [1]], [[1, 0, 1], [0]], [[0, 1, 0], [1]], [[0, 0, 0], [0]]]),
}


def test_what_is_said_of_answers_is_stored_for_the_page():
    stored = []
    for name, (make, boards) in CASES.items():
        spec, at = make(), int(name[-1]) if name[-1].isdigit() else 0
        for board in boards:
            rows = np.asarray(board).astype(int).tolist() if name[:5] != "lanes" else board
            for first in (False, True):
                result = asdict(judged(spec, at, rows, first=first))
                stored.append({"of": name, "at": at, "board": rows, "first": first, "judged": result})
    specs = {name: to_json(make()) for name, (make, _) in CASES.items()}
    assert_stored("question_judged.json", json.loads(json.dumps({"specs": specs, "cases": stored})))


# -- masks ----------------------------------------------------------------------------------------------------------------------


def test_a_wrong_cell_of_a_causal_mask_is_named_with_its_reason():
    ahead, gap = LOWER.copy(), LOWER.copy()
    ahead[1, 3] = 1
    gap[3, 0] = gap[2, 2] = 0
    assert said(causal(), ahead) == 'Wrong in 1 place:\nrow 1 "cat" may not see column 3 "on": it is later.'
    assert said(causal(), gap) == (
        'Wrong in 2 places:\nrow 2 "sat" must see column 2 "sat": it is itself.\n'
        'row 3 "on" must see column 0 "the": it is earlier.'
    )


def test_usual_mistakes_are_named_as_a_whole():
    assert said(causal(), 1 - LOWER) == "This is the inverse: you drew what may not be seen."
    assert said(causal(), LOWER.T) == "This is mirrored: a row is what looks, a column is what is seen."
    assert said(causal(), np.tril(LOWER, -1)) == "The diagonal is missing: each position may see itself."
    strict = mask_spec("strict", np.tril(np.ones((4, 4)), -1))
    assert said(strict, LOWER) == "Remove the diagonal: no position may see itself."
    assert said(strict, LOWER * 0) == "Nothing is drawn yet."
    assert said(causal(), LOWER) == "All 16 cells are right."


def test_padding_and_windows_have_their_own_reasons():
    padding = np.ones((3, 5), bool)
    padding[:, 3:] = False
    full = np.ones((3, 5), int)
    assert (
        said(mask_spec("padding", padding), full).splitlines()[1]
        == "row 0 may not see column 3: no row sees it, as padding."
    )
    window = np.tril(np.ones((6, 6))) - np.tril(np.ones((6, 6)), -3)
    assert said(mask_spec("window", window), np.tril(np.ones((6, 6)))).splitlines()[1] == (
        "row 3 may not see column 0: it is 3 back, and the window has 2."
    )
    band = (abs(np.subtract.outer(np.arange(6), np.arange(6))) <= 1).astype(int)
    assert said(mask_spec("band", band), band | np.eye(6, k=3, dtype=int)).splitlines()[1] == (
        "row 0 may not see column 3: it is 3 ahead, and the window has 1."
    )
    both = window.copy()
    both[4:] = 0
    assert said(mask_spec("rows", both), np.ones((6, 6))).splitlines()[1:3] == [
        "row 0 may not see column 1: it is later.",
        "row 0 may not see column 2: it is later.",
    ]


def test_a_reason_is_only_said_where_it_holds_for_the_whole_mask():
    prefix = np.tril(np.ones((4, 4), int))
    prefix[0, 1] = 1  # a prefix that sees itself
    wrong = prefix.copy()
    wrong[1, 2] = 1
    assert said(mask_spec("prefix", prefix), wrong) == "Wrong in 1 place:\nrow 1 may not see column 2."


def test_the_author_may_give_the_reasons():
    spec = mask_spec("pairs", np.eye(3), why=lambda r, c: "they are of two sentences" if r + c == 3 else None)
    assert said(spec, [[1, 0, 0], [0, 1, 1], [0, 0, 1]]).splitlines()[1] == (
        "row 1 may not see column 2: they are of two sentences."
    )


def test_a_mask_is_the_same_as_a_tensor_in_any_order_as_torch_and_as_lists():
    target, source = rf.Dim(4, name="target"), rf.Dim(4, name="source")
    tensor = rf.convert_to_tensor(LOWER.astype(bool), dims=[target, source])
    turned = rf.convert_to_tensor(LOWER.T.astype(bool).copy(), dims=[source, target])
    wanted = mask_spec("m", LOWER).head["steps"]
    for given in (tensor, turned, torch.tensor(LOWER, dtype=torch.bool), LOWER.tolist(), LOWER.astype(np.float32)):
        assert mask_spec("m", given).head["steps"] == wanted


def test_what_is_no_mask_is_refused_in_words():
    with pytest.raises(ValueError) as error:
        mask_spec("energies", [[0.0, -1e9], [0.0, 0.0]])
    assert str(error.value) == (
        'draw_mask: the mask "energies" has values that are neither true nor false.\n'
        "  shape  (2, 2)\n"
        "A mask is true (or 1) where a row may see a column, and false (or 0) elsewhere.\n"
        "    rf.logical_not(mask)    # of one that is true where nothing may be seen; energies > -1e9 of one that is added"
    )
    with pytest.raises(ValueError) as error:
        mask_spec("large", np.ones((65, 64)))
    assert str(error.value) == (
        'Draw the mask: "large" has 4160 cells to answer in.\n'
        "  cells    4160\n"
        "  at most  4096\n"
        "It is drawn by hand, so it must be small.\n"
        "    take fewer positions, e.g. a shorter sequence"
    )
    with pytest.raises(rf.ShapeError, match="^draw_mask: this is more than one grid.\n  maps       2"):
        mask_spec("heads", np.ones((2, 3, 3)))


# -- alignments -----------------------------------------------------------------------------------------------------------------


def test_agreement_is_1_for_the_best_drawing_and_less_for_others():
    spec = weights()
    best = spec.head["steps"][0]["solution"]
    assert best == [[1, 0, 0], [0, 1, 1], [0, 0, 0], [0, 0, 1]]
    assert said(spec, best) == "Agreement 1.00, enough: it passes from 0.70."
    # By hand: of row 1 one of two equal cells is 0.45 of the 0.90 that both have.
    assert judged(spec, 0, [[1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]).notes == ["1.00", "0.50", "", "1.00"]
    assert judged(spec, 0, [[1, 1, 1], [1, 1, 1], [0, 0, 0], [1, 1, 1]]).notes == [
        f"{(1 / 3 + 0.2 + 0.1) / 0.7:.2f}", f"{(0.1 + 1 / 3 + 1 / 3) / 0.9:.2f}", "", f"{(0.25 + 1 / 3) / 0.75:.2f}",
    ]  # fmt: skip


def test_too_little_agreement_says_where_the_weight_is():
    assert said(weights(), [[0, 0, 1], [1, 0, 0], [0, 0, 0], [1, 0, 0]]) == (
        'Agreement 0.08, too little: it passes from 0.70.\nLeast in row 3, 0.00: most of its weight is on column 2 "c".'
    )
    assert said(weights(), [[1, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 1]]) == (
        "row 1 has no cell yet: draw at least one in each row."
    )


def test_an_alignment_of_labels_only_goes_forward():
    assert spans().head["forward"] and not weights().head["forward"]
    assert said(spans(), SPANS[::-1]) == 'row 1 "A" begins before row 0 "C" ends: this alignment only goes forward.'
    assert said(spans(), SPANS) == "Agreement 1.00, enough: it passes from 0.70."


def test_a_forced_alignment_is_asked_about_by_labels_and_frames():
    logits = np.full((1, 8, 4), -4.0)
    for frame, label in enumerate([0, 1, 1, 0, 2, 0, 3, 3]):
        logits[0, frame, label] = 4.0
    ctc = rf.ctc_output(logits, vocab="-CAT")
    spec = alignment_spec("forced", ctc.align("CAT"))
    assert spec.head["steps"][0]["rows"] == ["C", "A", "T"] and spec.head["forward"]
    assert spec.head["steps"][0]["solution"] == [
        [0, 1, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1],
    ]  # fmt: skip


def test_weights_that_are_none_are_refused_in_words():
    for bad, finite, some in (([[0.0, 0.0]], True, False), ([[1.0, -1.0]], True, True), ([[np.nan, 1.0]], False, True)):
        with pytest.raises(ValueError) as error:
            alignment_spec("w", bad)
        assert str(error.value) == (
            'place_alignment: "w" has no weights to compare with.\n'
            f"  shape   (1, 2)\n  finite  {finite}\n  any     {some}\n"
            "Weights are not negative, and not all 0.\n"
            "    rf.softmax(energies, axis=source)"
        )
    with pytest.raises(ValueError, match="cannot be passed so"):
        alignment_spec("w", [[1.0]], enough=70)


# -- searches -------------------------------------------------------------------------------------------------------------------


def test_a_wrong_pick_is_named_with_its_sum_and_rank():
    assert said(lanes(), [[1, 0, 1]]) == (
        "Wrong in 2 places:\n"
        '"b" after "the start": 0.00 − 1.00 = −1.00, rank 2 of the 3 here: it stays.\n'
        '"c" after "the start": 0.00 − 3.00 = −3.00, rank 3 of the 3 here: it goes.'
    )
    assert (
        said(lanes(), [[1, 1, 0]])
        == "Right: the last that stays has −1.00, the best that goes −3.00: a margin of 2.00."
    )
    assert judged(lanes(), 0, [[1, 0, 0]]).message == "2 stay, and 1 is picked."


def test_of_two_that_are_equally_good_either_is_right():
    right = "Right: the last that stays has −2.00, the best that goes −2.00: a margin of 0.00."
    for board in ([[1, 1, 0], [0]], [[1, 0, 0], [1]]):
        found = judged(lanes(), 1, board)
        assert (found.passed, found.message) == (True, right)
    assert not judged(lanes(), 1, [[0, 1, 0], [1]]).passed


def test_a_recorded_search_of_the_real_model_adds_up_and_ranks():
    with rf.record() as trace:
        pronounce(load_g2p(), "thought", beam_size=3)
    spec = beam_spec("g2p", trace, steps=4)
    assert [step["size"] for step in spec.head["steps"]] == [3, 3, 3, 3]
    number = lambda text: float(text.replace("−", "-"))  # noqa: E731
    for step in spec.head["steps"]:
        sums = []
        for row, texts, after in zip(step["rows"], step["texts"], step["after"]):
            base = number(row[row.rindex("(") + 1 : -1])
            for text, total in zip(texts, after):
                sums.append(number(total.split(" ")[-3][:-1]))
                if not text.startswith("complete"):
                    assert round(base + number(text.split(" ")[-1]), 2) == sums[-1]
        kept = [total for total, stays in zip(sums, np.concatenate(step["solution"])) if stays]
        assert sorted(kept) == sorted(sums)[-3:] and all(len(texts) >= 5 for texts in step["texts"] if len(texts) > 1)


def test_what_is_shown_is_the_same_of_a_trace_a_result_a_history_a_view_and_fields():
    search = two_steps(["a", "b", "c"])
    assert beam_spec("b", View(search)).head == beam_spec("b", search).head
    with rf.record() as trace:
        pronounce(load_g2p(), "cat", beam_size=2)
    (history,) = [trace.beams[path] for path in trace.beams]
    assert beam_spec("b", trace).head == beam_spec("b", history).head


def test_searches_that_do_not_keep_the_best_sums_are_refused_in_words():
    search = two_steps(["a", "b", "c"])
    steps = search.head["seqs"][0]["steps"]
    steps[1]["by_rank"] = False
    with pytest.raises(ValueError) as error:
        beam_spec("b", search)
    assert str(error.value) == (
        "be_the_beam: in step 1 it did not keep the best.\n"
        "  step  1\n"
        "  stay  2\n"
        "In each step the hypotheses stay that have the best sums of log probabilities.\n"
        "    a beam search without sampling, groups and constraints"
    )
    bare = rf.viz.beams(tokens=[[5, 2]], parents=[[0, 0]], scores=[[-0.1, -2.3]])
    with pytest.raises(
        ValueError, match="^be_the_beam: in step 0 nothing that was cut is recorded, so there is nothing to choose"
    ):
        beam_spec("b", bare)
    with pytest.raises(ValueError, match="^be_the_beam: there are no steps from 9 on"):
        beam_spec("b", two_steps(["a", "b", "c"]), first=9)
    with pytest.raises(ValueError, match="^be_the_beam: there is no sequence 1"):
        beam_spec("b", two_steps(["a", "b", "c"]), seq=1)
    with pytest.raises(ValueError, match="^be_the_beam: this is no search"):
        beam_spec("b", rf.viz.attention(np.eye(2)))
    with pytest.raises(ValueError, match="^be_the_beam: in step 0 two continuations of a lane have the same label"):
        beam_spec("b", two_steps(["a", "b", "b"]))
    with rf.record() as trace:
        pass
    with pytest.raises(KeyError, match="be_the_beam: the trace has no search"):
        beam_spec("b", trace)


# -- the first miss --


def test_a_first_miss_is_told_how_to_find_it_and_not_what_is_right():
    picked = judged(lanes(), 0, [[1, 0, 1]], first=True)
    assert picked.message == (
        "1 of the 2 that you picked goes. "
        "What counts is the sum: the score of a hypothesis, and the log probability of its next label."
    )
    drawn = judged(causal(), 0, [[0, 1, 1, 1], [0] * 4, [0] * 4, [1] * 4], first=True)
    assert drawn.message == 'Wrong in 9 places, one of them:\nrow 0 "the" must see column 0 "the": it is itself.'
    placed = judged(weights(), 0, [[0, 0, 1], [1, 0, 0], [0, 0, 0], [1, 0, 0]], first=True)
    assert placed.message == "Agreement 0.08, too little: it passes from 0.70.\nLeast in row 3, 0.00."
    assert [sum(mark > 0 for row in each.marks for mark in row) for each in (picked, drawn, placed)] == [0, 1, 0]
    assert not any(each.told or each.passed for each in (picked, drawn, placed))


def test_where_only_a_tie_was_picked_for_a_better_one_the_first_miss_says_so():
    found = judged(lanes(), 1, [[0, 1, 0], [1]], first=True)
    assert found.message.startswith("A better one is left out. ") and not found.passed


def test_what_is_right_is_told_at_the_first_try_and_what_is_unfinished_is_no_miss():
    for spec in (causal(), weights(), spans(), lanes()):
        right, none = spec.head["steps"][0]["solution"], [[0] * len(row) for row in spec.head["steps"][0]["solution"]]
        assert judged(spec, 0, right, first=True) == judged(spec, 0, right)
        assert judged(spec, 0, right).told and not judged(spec, 0, none).whole


# -- forms ----------------------------------------------------------------------------------------------------------------------


def test_a_step_whose_hypotheses_have_more_and_fewer_continuations_is_a_text():
    boards = [[[1, 1, 0]], [[1, 0, 0], [1]]]
    assert View(answered(lanes(), boards, "")).text().splitlines()[2:] == [
        "step 1: 2 stay", "lane 0: a (−0.50)  ■ b −0.25  · c −1.50  · a −2.00", "lane 1: b (−1.00)  ■ b −1.00",
    ]  # fmt: skip


@pytest.mark.parametrize("make", [causal, weights, spans, lanes])
def test_text_and_page_show_what_was_answered(make):
    spec = make()
    empty, board = View(spec), spec.head["steps"][0]["solution"]
    shown = View(answered(spec, [board], "That is right."))
    assert "■" not in empty.text() and "■" in shown.text() and "That is right." in shown.text()
    assert "&#9632;" not in empty.html() and "That is right." in shown.html()
    assert View(answered(spec, [], "", revealed=True)).text().count("■") == sum(map(sum, board))


def test_a_question_as_text():
    assert_stored("question_small.txt", "\n\n".join(View(make()).text() for make in (causal, weights, spans, lanes)))
