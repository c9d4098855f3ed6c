"""The beams view: what it says about each hypothesis, checked by hand, and its text and HTML."""

from __future__ import annotations

import base64
import io
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from viz.stored_files import assert_stored

import rfnb as rf
from rfnb.core.errors import ShapeError
from rfnb.trace.beams import BeamHistory
from rfnb.trace.edits import edits
from rfnb.viz.beams import text as beams_text
from rfnb.viz.beams.spec import spec as beams_spec
from rfnb.viz.beams.tree import grow, rank_of, verdict_of
from rfnb.viz.kinds import html_of, problem_of, text_of
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import page_spec
from rfnb.viz.show import view_of
from rfnb.viz.spec import Spec, pack, to_json, unpack

LABELS = ["</s>", "HH", "AH0", "L", "OW1", "EH0", "K"]


def step(tokens: Any, parents: Any, scores: Any, ended: Any, cuts: Any = ()) -> dict[str, Any]:
    """The fields of one step of one sequence; cuts are (token, parent, score)."""
    kept = list(zip(tokens, parents, scores))
    rows = kept + list(cuts)
    names = ("cand_tokens", "cand_parents", "cand_scores")
    candidates = {name: np.array([[row[place] for row in rows]]) for place, name in enumerate(names)}
    survived = np.array([[True] * len(kept) + [False] * len(cuts)])
    fields = {
        "tokens": np.array([tokens]),
        "parents": np.array([parents]),
        "scores": np.array([scores]),
        "ended": np.array([ended]),
    }
    return {**fields, **candidates, "cand_kept": survived}


def small() -> list[dict[str, Any]]:
    """Beam 3. Slot 2 ends in step 2 and keeps its place; K dies in step 1; the winner is HH AH0 L OW1."""
    no = [False] * 3
    return [
        step([1, 6, 5], [0, 0, 0], [-0.1, -2.4, -3.1], no, [(2, 0, -4.0)]),
        step([2, 5, 2], [0, 0, 1], [-0.4, -1.2, -2.8], no, [(4, 0, -3.63), (3, 2, -5.0)]),
        step([3, 3, 0], [0, 1, 0], [-0.5, -1.4, -2.9], [False, False, True]),
        step([4, 4, 0], [0, 1, 2], [-0.7, -1.7, -2.9], [False, False, True], [(6, 0, -3.0)]),
        step([0, 0, 0], [0, 1, 2], [-0.8, -1.9, -2.9], [True, True, True]),
    ]


def tree(steps: Any, **options: Any) -> Any:
    return grow(beams_spec(steps, labels=LABELS, **options).head["seqs"][0])


def as_data(made: Any) -> dict[str, Any]:
    """The data on which both sides must agree."""
    return {
        "nodes": [
            [
                node and [node.token, node.state, rank_of(made, node), round(node.gain, 4), verdict_of(made, node)]
                for node in row
            ]
            for row in made.nodes
        ],
        "cuts": [[[cut.token, cut.rank, round(cut.gain, 4), cut.verdict] for cut in row] for row in made.cuts],
        "nbest": [[node.step, node.slot] for node in made.nbest],
        "best": [list(place) for place in made.best],
    }


def test_spec_of_a_small_search_is_the_stored_one():
    assert_stored("beams_small.json", to_json(beams_spec(small(), labels=LABELS, title="decoder")))


def test_text_of_a_small_search_is_the_stored_one():
    assert_stored("beams_small.txt", text_of(beams_spec(small(), labels=LABELS, title="decoder")))


def test_states_and_verdicts_of_a_small_search_are_the_stored_ones():
    assert_stored("beams_small.tree.json", as_data(tree(small())))


def test_the_path_of_the_winner_follows_the_parents():
    steps = [step([1, 2], [0, 0], [-1.0, -1.5], [False, False]), step([3, 4], [1, 0], [-1.6, -9.0], [True, True])]
    made = beams_spec(steps, labels=LABELS).head["seqs"][0]
    assert made["best"] == [[0, 1], [1, 0]]
    assert made["result"] == "AH0 L"


def test_a_cut_candidate_says_its_rank_and_how_far_behind_the_last_survivor_it_was():
    # 3 survivors, the last with -2.8; the first cut has -3.63.
    assert tree(small()).cuts[1][0].verdict == "cut: rank 4, 0.83 nats behind the last survivor"


def test_the_rank_of_a_cut_candidate_counts_the_survivors_and_better_cuts():
    assert [cut.rank for cut in tree(small()).cuts[1]] == [4, 5]


def test_a_cut_candidate_better_than_a_survivor_is_told_apart():
    steps = [step([1, 2], [0, 0], [-1.0, -3.0], [False, False], [(3, 0, -2.5)])]
    assert tree(steps).cuts[0][0].verdict == "cut: rank 3, although 0.50 nats ahead of the last survivor"


def test_the_log_probability_of_a_token_is_the_difference_of_scores():
    assert tree(small()).nodes[1][1].gain == pytest.approx(-1.1)


def test_a_branch_without_survivors_is_dead_and_says_when():
    made = tree(small())
    assert [node.state for node in made.nodes[0]] == ["alive", "dead", "dead"]
    assert (
        verdict_of(made, made.nodes[0][1])
        == "kept: rank 2 of 3, 2.30 nats behind the best; the last that continued it was cut after step 1"
    )
    assert verdict_of(made, made.nodes[0][2]) == (
        "kept: rank 3 of 3, 3.00 nats behind the best; nothing that continues it survived, "
        "at best L (cut: rank 5, 2.20 nats behind the last survivor)"
    )


def test_a_complete_hypothesis_that_keeps_its_place_is_complete_once():
    made = tree(small())
    assert [made.nodes[number][2].state for number in (2, 3, 4)] == ["ended", "carried", "carried"]
    assert verdict_of(made, made.nodes[4][2]) == "complete since step 2: rank 3 of 3, 2.10 nats behind the best"


def test_a_complete_hypothesis_that_loses_its_place_is_not_in_the_result():
    steps = [
        step([0, 1], [0, 0], [-1.0, -1.1], [True, False]),
        step([1, 0], [1, 0], [-1.2, -1.3], [False, True], []),
        step([1, 2], [0, 0], [-1.2, -1.25], [False, False], [(0, 1, -1.3)]),
    ]
    made = tree(steps)
    assert made.nodes[0][0].state == "dropped"
    assert verdict_of(made, made.nodes[0][0]) == "complete, then cut after step 1: rank 1 of 2, the best"
    assert (0, 0) not in [(node.step, node.slot) for node in made.nbest]


def test_a_search_whose_complete_hypotheses_leave_the_beam_keeps_them_in_the_list():
    steps = [
        step([0, 1], [0, 0], [-1.0, -1.1], [True, False]),
        step([2], [1], [-1.2], [False]),
        step([0], [0], [-1.3], [True]),
    ]
    assert [(node.step, node.slot) for node in tree(steps).nbest] == [(0, 0), (2, 0)]


def test_the_length_exponent_changes_the_order_of_the_list():
    # By score -1.0 beats -1.6; per token -1.6 / 2 beats -1.0.
    steps = [step([0, 1], [0, 0], [-1.0, -1.1], [True, False]), step([0], [1], [-1.6], [True])]
    assert beams_spec(steps, labels=LABELS).head["seqs"][0]["best"] == [[0, 0]]
    assert beams_spec(steps, labels=LABELS, length_exponent=1.0).head["seqs"][0]["best"] == [[0, 1], [1, 0]]


def test_a_closing_mark_is_left_out_of_the_text_unless_it_is_all():
    steps = [step([0, 1], [0, 0], [-1.0, -3.0], [True, False]), step([0], [1], [-4.0], [True])]
    assert [beams_text.prefix(node.path()) for node in tree(steps).nbest] == ["</s>", "HH"]


def test_a_slot_of_probability_zero_holds_no_hypothesis():
    steps = [
        step([1, 0, 0], [0, 0, 0], [-0.1, -np.inf, -np.inf], [False] * 3),
        step([2, 3], [0, 0], [-0.4, -0.9], [True, True]),
    ]
    spec = beams_spec(steps, labels=LABELS)
    assert spec.head["seqs"][0]["steps"][0]["scores"] == [-0.1, None, None]
    assert [node is None for node in grow(spec.head["seqs"][0]).nodes[0]] == [False, True, True]


def test_steps_in_which_only_other_sequences_went_on_are_left_out():
    first = {"tokens": [[1], [1]], "parents": [[0], [0]], "scores": [[-1.0], [-1.0]], "ended": [[True], [False]]}
    second = {"tokens": [[0], [2]], "parents": [[0], [0]], "scores": [[-1.0], [-2.0]], "ended": [[True], [True]]}
    seqs = beams_spec([first, second], names=["short", "long"]).head["seqs"]
    assert [(seq["label"], len(seq["steps"])) for seq in seqs] == [("short", 1), ("long", 2)]


def test_plain_lists_and_a_history_give_the_same_spec():
    steps = small()
    history = SimpleNamespace(steps=steps, labels=LABELS)
    fields = {name: [entry[name][0].tolist() for entry in steps] for name in steps[0]}
    assert beams_spec(history).head == beams_spec(**fields, labels=LABELS).head


def test_only_so_many_cuts_are_kept_as_asked_for():
    assert [len(entry["cuts"]) for entry in beams_spec(small(), cuts=1).head["seqs"][0]["steps"]] == [1, 1, 0, 1, 0]


def test_a_spec_survives_being_packed():
    spec = beams_spec(small(), labels=LABELS)
    assert unpack(pack(spec)).head == spec.head


def test_html_is_a_picture_with_a_description_and_the_list_as_table():
    page = html_of(beams_spec(small(), labels=LABELS, title="decoder"))
    assert not re.search("<(script|style|svg)", page)
    alt = (
        "Beam search over 5 steps with up to 3 hypotheses, sequence 0. Best: HH AH0 L OW1, score -0.800. "
        "3 complete, 0 open at the end, 4 cut candidates stored."
    )
    assert f'alt="{alt}"' in page
    assert "<td>1</td><td>-0.800</td><td><b>HH AH0 L OW1</b></td><td>winner</td>" in page
    from PIL import Image

    picture = Image.open(io.BytesIO(base64.b64decode(re.search('base64,([^"]*)"', page)[1])))
    assert len(picture.convert("RGB").getcolors(1 << 20)) > 8
    assert picture.convert("RGB").getpixel((0, 0)) == (255, 255, 255)


def test_html_escapes_labels():
    page = html_of(beams_spec([step([0], [0], [-1.0], [False])], labels=["<i>&"]))
    assert "&lt;i&gt;&amp;" in page and "<i>" not in page


def test_an_empty_search_is_said_to_have_nothing_yet():
    assert text_of(beams_spec([], title="decoder", live=True)) == "decoder: no sequences"


def test_bad_data_is_shown_as_a_sentence():
    head = {
        "title": "x",
        "live": False,
        "seqs": [{"steps": [{"tokens": ["a"], "parents": [0, 1], "scores": [-1.0], "ended": [False]}]}],
    }
    sentence = "This beam search cannot be drawn: sequence 0, step 0: tokens, parents, scores and ended have 1, 2, 1, 1 entries."
    assert problem_of(Spec("beams", head)) == sentence
    assert " ".join(text_of(Spec("beams", head, {})).split()) == sentence
    assert html_of(Spec("beams", head, {})) == f"<p>{sentence}</p>"


def test_a_parent_that_is_not_there_is_shown_as_a_sentence():
    one = {"tokens": ["a"], "parents": [0], "scores": [-1.0], "ended": [False]}
    head = {"seqs": [{"steps": [one, {**one, "parents": [3]}]}]}
    assert (
        problem_of(Spec("beams", head))
        == "This beam search cannot be drawn: sequence 0, step 1: a parent is 3, but the step before has 1 hypotheses."
    )
    assert problem_of(Spec("beams", {})) == "This beam search cannot be drawn: it has no list of sequences."


EXAMPLE = "    rf.viz.beams(tokens=[[5, 2]], parents=[[0, 0]], scores=[[-0.1, -2.3]])"
ERRORS = {
    "missing field": (
        lambda: beams_spec(tokens=[[1]], parents=[[0]]),
        ValueError,
        "beams: scores is missing.\n"
        "  given   tokens, parents\n"
        "  needed  tokens, parents, scores\n"
        "  known   tokens, parents, scores, ended, cand_tokens, cand_parents, cand_scores, cand_kept, cand_verdict\n"
        "A beam search is a BeamHistory, or its fields, each a list over steps.\n" + EXAMPLE,
    ),
    "unknown field": (
        lambda: beams_spec(tokens=[[1]], parents=[[0]], scores=[[0.0]], score=[[0.0]]),
        ValueError,
        "beams: unknown field score.\n"
        "  given   tokens, parents, scores, score\n"
        "  needed  tokens, parents, scores\n"
        "  known   tokens, parents, scores, ended, cand_tokens, cand_parents, cand_scores, cand_kept, cand_verdict\n"
        "A beam search is a BeamHistory, or its fields, each a list over steps.\n" + EXAMPLE,
    ),
    "other numbers of steps": (
        lambda: beams_spec(tokens=[[1]], parents=[[0], [0]], scores=[[0.0]]),
        ShapeError,
        "beams: the fields differ in their number of steps.\n"
        "  tokens   1 steps\n  parents  2 steps\n  scores   1 steps\n"
        "Each field is a list with one entry per step.\n" + EXAMPLE,
    ),
    "no search": (
        lambda: beams_spec(5),
        ValueError,
        "beams: this is not a beam search.\n  given  int\n"
        "A beam search is a BeamHistory, or a list with one dict of fields per step.\n"
        '    rf.viz.beams(trace.beams["decoder"])',
    ),
    "a step without scores": (
        lambda: beams_spec([{"tokens": [1], "parents": [0]}]),
        ValueError,
        "beams: step 0 has no scores.\n  given   tokens, parents\n  needed  tokens, parents, scores\n"
        "Each step says which token, which parent and which score each hypothesis has.\n" + EXAMPLE,
    ),
    "other shapes": (
        lambda: beams_spec(tokens=[[1, 2]], parents=[[0]], scores=[[0.0, 0.0]]),
        ShapeError,
        "beams: step 0: the fields do not fit together.\n"
        "  tokens   (1, 2)\n  parents  (1, 1)\n  scores   (1, 2)\n  ended    (1, 2)\n"
        "All fields of a step have the same shape, (batch, beam), here with batch 1.\n" + EXAMPLE,
    ),
    "no such parent": (
        lambda: beams_spec(tokens=[[1], [2]], parents=[[0], [4]], scores=[[-1.0], [-2.0]]),
        ValueError,
        "beams: step 1: a parent is not the index of a hypothesis.\n  parent  4\n  step 0  1 hypotheses, 0 to 0\n"
        "A parent is the slot, in the step before, of the hypothesis that is continued.\n" + EXAMPLE,
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_a_wrong_argument_says_what_the_rule_is_and_what_to_type(case):
    call, kind, text = ERRORS[case]
    with pytest.raises(kind) as caught:
        call()
    assert str(caught.value) == text


def test_it_says_why_a_candidate_was_cut_if_not_by_its_rank():
    step = {
        "tokens": [[1]], "parents": [[0]], "scores": [[-1.0]], "cand_tokens": [[1, 2, 3, 4, 5]], "cand_parents": [[0] * 5],
        "cand_scores": [[-1.0, -0.5, -1.5, -2.0, -3.0]], "cand_kept": [[True] + [False] * 4], "cand_verdict": [[0, 3, 4, 1, 2]],
    }  # fmt: skip
    (row,) = grow(beams_spec([step]).head["seqs"][0]).cuts
    assert [(cut.token, cut.verdict) for cut in row] == [
        ("2", "blocked: forbidden, although 0.50 nats ahead of the last survivor"),
        ("3", "merged: part of another hypothesis with the same labels"),
        ("4", "cut: rank 2, 1.00 nats behind the last survivor"),
        ("5", "below the threshold: 2.00 nats behind the last survivor"),
    ]


def reasons() -> BeamHistory:
    """A search over alignments with a language model (factor 0.5): candidates that were merged, blocked, below the threshold, worse
    and not drawn; what has ended leaves the beam, and its end adds to its score."""

    def fields(tokens, parents, base, log_probs, lm, cuts, **more):
        scores = np.add(np.add(base, log_probs), np.multiply(0.5, lm))
        rows = [*zip(tokens, parents, scores, log_probs, lm, [0] * len(tokens)), *cuts]
        names = ("tokens", "parents", "scores", "log_probs", "part:lm", "verdict")
        candidates = {f"cand_{name}": np.array([[row[place] for row in rows]]) for place, name in enumerate(names)}
        kept = {
            "tokens": tokens,
            "parents": parents,
            "scores": scores,
            "base": base,
            "log_probs": log_probs,
            "part:lm": lm,
            **more,
        }
        return {name: np.array([value]) for name, value in kept.items()} | candidates | {
            "cand_kept": np.array([[row[-1] == 0 for row in rows]])}  # fmt: skip

    steps = [
        fields([1, 3], [0, 0], [0.0, 0.0], [-0.8, -1.5], [-0.4, 0.0], [(2, 0, -1.8, -1.2, -1.2, 1), (0, 0, -3.5, -3.0, -1.0, 2)]),
        fields([3, 2], [0, 0], [-1.0, -1.0], [-0.1, -0.6], [0.0, -0.8],
               [(2, 1, -1.8, -0.2, -0.2, 3), (1, 1, -1.9, -0.2, -0.4, 4), (0, 0, -2.004, -1.0, -0.008, 1)]),
        fields([0, 1], [1, 0], [-2.0, -1.1], [-1.5, -2.5], [-1.0, -1.0], [(3, 0, -1.3, -0.2, 0.0, 1)],
               ended=[True, False], left=[True, False], end_scores=[-0.25, 0.0]),
    ]  # fmt: skip
    return BeamHistory(steps, ["</s>", "a", "b", "<blank>"], blank=3, threshold=2.0, by_rank=[True, True, False])


def test_spec_text_and_verdicts_of_a_search_with_every_reason_are_the_stored_ones():
    spec = beams_spec(reasons(), title="alignments")
    assert_stored("beams_reasons.json", to_json(spec))
    assert_stored("beams_reasons.txt", text_of(spec))
    assert_stored("beams_reasons.tree.json", as_data(grow(spec.head["seqs"][0], threshold=spec.head["threshold"])))


def test_the_parts_of_a_score_add_up_to_it():
    spec = beams_spec(reasons())
    made = grow(spec.head["seqs"][0])
    assert made.parts == ["log_prob", "0.5 \u00d7 lm", "end"]
    for item in [*(node for row in made.nodes for node in row), *(cut for row in made.cuts for cut in row)]:
        assert sum(item.parts) == pytest.approx(item.gain, abs=1e-3)


def test_parts_that_do_not_add_up_are_shown_as_they_are():
    steps = [{name: np.array(value) for name, value in step.items()} for step in reasons().steps]
    steps[1]["scores"] = steps[1]["scores"] - [[0.0, 0.7]]  # as of a combination that is no sum
    spec = beams_spec(steps)
    assert spec.head["seqs"][0]["parts"] == ["log_prob (unscaled)", "lm (unscaled)", "end"]
    assert "score   log_prob (unscaled)  lm (unscaled)" in text_of(spec)


def test_a_score_that_is_one_log_probability_has_no_parts_to_show():
    step = {"tokens": [[1]], "parents": [[0]], "scores": [[-1.0]], "base": [[0.0]], "log_probs": [[-1.0]]}
    assert "parts" not in beams_spec([step]).head["seqs"][0]
    scaled = beams_spec([{**step, "log_probs": [[-2.0]]}]).head["seqs"][0]
    assert scaled["parts"] == ["0.5 \u00d7 log_prob"] and scaled["steps"][0]["parts"] == [[-1.0]]


def test_html_has_the_parts_and_the_reasons():
    html = html_of(beams_spec(reasons()))
    assert "<th>0.5 \u00d7 lm</th>" in html
    assert "<details><summary>The best candidates that were not kept, and why" in html
    assert "<td>blocked: forbidden, although 0.20 nats ahead of the last survivor</td>" in html


def test_what_a_search_gives_is_shown_with_its_length_exponent():
    def step(labels, state):
        return torch.tensor([[-1.0, -0.5]]).expand(len(labels), 2), state

    result = rf.beam_search(
        step, batch=1, state=torch.zeros(1, 1), max_seq_len=3, beam_size=2, length_exponent=0.5, join="+"
    )
    spec = view_of(result).spec
    assert spec.head["length_exponent"] == 0.5
    assert spec.head["seqs"] == beams_spec(result.history, length_exponent=0.5, join="+").head["seqs"]


def test_a_running_search_has_no_winner_yet():
    lines = text_of(beams_spec(small()[:2], labels=LABELS, live=True))
    assert "best so far, not complete" in lines and "  winner" not in lines


def test_a_large_search_is_a_small_picture():
    random = np.random.default_rng(0)
    parents, scores = random.integers(0, 12, (80, 12)), -np.arange(80)[:, None] - np.sort(random.random((80, 12)), 1)
    page = html_of(beams_spec(tokens=parents, parents=parents, scores=scores))
    assert len(page) < 200_000


def test_the_reference_says_where_it_fell_out_of_the_beam_and_by_how_much():
    # In step 1 "HH OW1" is cut as the best that is not kept: rank 4, 0.83 behind the last survivor.
    spec = beams_spec(small(), labels=LABELS, reference=[["HH", "OW1", "K", "</s>"]])
    told = spec.head["seqs"][0]["reference"]
    assert (told["path"], told["fell"], told["rank"], told["kind"]) == ([[0, 0]], 1, 4, "model error")
    assert told["text"].startswith(
        "The reference fell out of the beam in step 1, at OW1: cut by rank, -0.830 to the worst that was kept."
    )
    # HH AH0 L OW1, HH EH0 L OW1 and HH AH0 against HH OW1 K.
    assert told["aligned"] == {"4,0": "=iss", "4,1": "=iss", "2,2": "=ds"}
    words = " ".join(text_of(spec).split())
    assert "reference: HH OW1 K The reference fell out" in words and told["text"] in words


def test_a_reference_that_is_found_goes_through_the_beam_to_its_end():
    told = beams_spec(small(), labels=LABELS, reference=[["HH", "AH0", "</s>"]]).head["seqs"][0]["reference"]
    assert told["path"] == [[0, 0], [1, 0], [2, 2]] and "fell" not in told
    assert told["aligned"]["2,2"] == "=="


def test_a_reference_without_its_end_is_a_sentence_in_the_view():
    told = beams_spec(small(), labels=LABELS, reference=[["HH", "AH0", "L"]]).head["seqs"][0]["reference"]
    assert told["text"] == "BeamHistory.diagnose: the reference stops in the middle of hypotheses."
    assert told["path"] == []


@pytest.mark.parametrize("seed", range(20))
def test_edits_turn_the_reference_into_the_text_and_are_the_fewest(seed):
    random = np.random.default_rng(seed)
    one, other = (["abc"[i] for i in random.integers(0, 3, random.integers(0, 7))] for _ in range(2))
    made, made_edits, source, target = [], edits(one, other), iter(one), iter(other)
    for edit in made_edits:
        wanted = next(source) if edit != "i" else None
        got = next(target) if edit != "d" else None
        assert (edit == "=") == (wanted == got)
        made += [got] if got is not None else []
    assert made == other and next(source, None) is None

    def fewest(a, b):
        if not a or not b:
            return len(a) + len(b)
        return min(fewest(a[1:], b[1:]) + (a[0] != b[0]), fewest(a[1:], b) + 1, fewest(a, b[1:]) + 1)

    assert sum(edit != "=" for edit in made_edits) == fewest(one, other)


def test_a_merged_candidate_says_which_hypothesis_it_became_a_part_of():
    one = {"tokens": [[1, 2]], "parents": [[0, 0]], "scores": [[-1.0, -2.0]], "ended": [[False, False]]}
    cands = {
        "cand_tokens": [[1, 0, 1]], "cand_parents": [[0, 0, 1]], "cand_scores": [[-2.0, -2.5, -3.0]],
        "cand_kept": [[True, True, False]], "cand_verdict": [[0, 0, 4]], "merged": [[True, False]],
    }  # fmt: skip
    two = {"tokens": [[0, 2]], "parents": [[0, 0]], "scores": [[-2.0, -2.5]], "ended": [[False, False]], **cands}
    two["cand_parents"] = [[0, 0, 0]]
    two["cand_tokens"] = [[0, 2, 0]]
    as_arrays = [{name: np.array(value) for name, value in step.items()} for step in (one, two)]
    seq = beams_spec(BeamHistory(as_arrays, ["·", "a", "b"], blank=0, each_step="frame")).head["seqs"][0]
    assert seq["steps"][1]["cuts"][0]["into"] == 0  # a, and nothing after it: as slot 0
    assert (seq["axis"], seq["sums"]) == ("frame", True)


def garden_path() -> Spec:
    """A beam of 1 takes A, which continues badly; B was behind it by 0.1, C behind B, and with a beam of 2 B wins."""
    no = [False] * 3
    steps = [
        step([1, 2, 3], [0, 0, 0], [-0.5, -0.6, -0.7], no, [(4, 0, -5.0)]),
        step([4, 5, 6], [1, 0, 2], [-0.7, -2.0, -2.5], no, [(5, 0, -3.0), (6, 1, -4.0), (4, 2, -4.5)]),
        step([0, 0, 0], [0, 1, 2], [-0.8, -2.1, -2.6], [True] * 3, [(1, 1, -3.0)]),
    ]
    return beams_spec(steps, labels=["</s>", *"ABCDEF"])


def test_it_says_which_smaller_beam_would_have_lost_the_best_hypothesis_and_what_it_finds():
    spec = garden_path()
    seq = spec.head["seqs"][0]
    assert seq["result"] == "B D"
    assert seq["smaller"] == [
        {"size": 1, "lost": 0, "best": [2, 1],
         "text": "A beam of 1 loses the best hypothesis in step 0 and finds “A E”, 1.30 nats worse."},
        {"size": 2, "best": [2, 0], "text": "A beam of 2 keeps the best hypothesis."},
    ]  # fmt: skip
    # Bit 0: a beam of 1, which has A, A E, A E </s>; bit 1: of 2, which has A and B, then B D and A E.
    assert [step["inside"] for step in seq["steps"]] == [[3, 2, 0], [2, 3, 0], [2, 3, 0]]
    words = " ".join(text_of(spec).split())
    assert "“A E”, 1.30 nats worse. A beam of 2 keeps the best hypothesis." in words


def test_a_smaller_beam_that_may_have_kept_what_was_cut_is_an_estimate():
    steps = [
        step([1, 2], [0, 0], [-0.5, -0.6], [False] * 2),
        step([4, 5], [1, 1], [-0.7, -0.8], [False] * 2, [(4, 0, -0.9)]),
    ]
    [one] = beams_spec(steps, labels=["</s>", *"ABCDEF"]).head["seqs"][0]["smaller"]
    assert (one["lost"], one["until"], "best" in one) == (0, 1, False)
    assert one["text"] == (
        "A beam of 1 loses the best hypothesis in step 0: from step 1 on it may have kept what this search has cut."
    )


def test_a_running_search_and_one_of_a_single_hypothesis_and_a_view_that_is_not_to_tell_have_no_smaller_beam():
    untold = beams_spec(small(), labels=LABELS, smaller=False)
    for spec in (beams_spec(small(), labels=LABELS, live=True), beams_spec([step([1], [0], [-0.1], [False])]), untold):
        assert "smaller" not in spec.head["seqs"][0] and "inside" not in spec.head["seqs"][0]["steps"][0]


def test_a_page_with_fewer_hypotheses_says_of_each_that_is_left_the_same():
    random = np.random.default_rng(0)
    shape = (60, 32)
    tokens, parents = random.integers(0, 500, shape), random.integers(0, 32, shape)
    parents[0] = 0
    spec = beams_spec(tokens=tokens, parents=parents, scores=-np.sort(random.random(shape)) - np.arange(60)[:, None])
    thin = page_spec(spec, Room(9_000, 9_000))
    [whole], [left] = spec.head["seqs"], thin.head["seqs"]
    assert left["smaller"] == whole["smaller"] and "thinned" in thin.head
    for step, small_step in zip(whole["steps"], left["steps"], strict=True):
        for mask, own, score in zip(step["inside"], small_step["inside"], small_step["scores"], strict=True):
            assert own == (0 if score is None else mask)


def searched(vocab: int = 7, beam: int = 3) -> tuple[BeamHistory, np.ndarray]:
    """A search over a table of log probabilities by the label before, and the table."""
    table = torch.log_softmax(2 * torch.randn(vocab, vocab, generator=torch.Generator().manual_seed(1)), -1)

    def step(labels: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return table[labels], state

    names = [f"w{index}" for index in range(vocab)]
    with rf.record(kinds=["beams"]) as trace:
        rf.beam_search(step, batch=1, state=torch.zeros(1, 1), max_seq_len=5, beam_size=beam, vocab=names)
    return trace.beams["search"], table.numpy()


def test_the_best_labels_of_each_hypothesis_are_those_of_the_model():
    history, table = searched()
    seq = beams_spec(history).head["seqs"][0]
    steps = seq["steps"]
    names = [f"w{index}" for index in range(7)]
    told = 0
    for before, here in zip(steps, steps[1:]):
        for slot, best_of in here["next"].items():
            row = table[names.index(before["tokens"][int(slot)])]
            order = np.argsort(-row)[:5]
            assert [label for label, _ in best_of] == [names[index] for index in order]
            np.testing.assert_allclose([value for _, value in best_of], row[order], atol=1e-4)
            assert not before["ended"][int(slot)]
            told += 1
    assert told > 6
    words = " ".join(text_of(beams_spec(history)).split())
    first = ", ".join(f"{label} {100 * np.exp(value):.0f} %" for label, value in steps[0]["next"]["all"][:2])
    assert f"best labels: {first}" in words


def test_of_a_search_over_alignments_the_best_labels_of_a_frame_are_those_of_all_hypotheses():
    batch, time, classes = rf.Dim(1, name="batch"), rf.Dim(4, name="time"), rf.Dim(6, name="classes")
    classes.vocab = ["_", *"abcde"]
    raw = torch.randn(1, 4, 6, generator=torch.Generator().manual_seed(3))
    logits = rf.convert_to_tensor(raw, dims=[batch, time, classes])
    with rf.record(kinds=["beams"]) as trace:
        rf.ctc_prefix_beam_search(logits, in_spatial_dim=time, wb_target_dim=classes, blank_index=0, beam_size=3)
    log_probs = torch.log_softmax(raw, -1)[0].numpy()
    for frame, step in enumerate(beams_spec(trace.beams["ctc"]).head["seqs"][0]["steps"]):
        [(slot, best_of)] = step["next"].items()
        order = np.argsort(-log_probs[frame])[:5]
        assert (slot, [label for label, _ in best_of]) == ("all", ["·abcde"[index] for index in order])
        np.testing.assert_allclose([value for _, value in best_of], log_probs[frame, order], atol=1e-4)


def test_nobody_asks_for_the_best_labels_unless_the_search_is_recorded():
    def step(labels: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.log_softmax(torch.arange(6.0), -1).expand(len(labels), 6), state

    result = rf.beam_search(step, batch=1, state=torch.zeros(1, 1), max_seq_len=3, beam_size=2)
    assert not any("next_tokens" in fields for fields in result.history.steps)
