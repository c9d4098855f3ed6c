"""The picture of a search without a script: what it has beside the hypotheses, at every size."""

from __future__ import annotations

import numpy as np
import pytest
from viz.odd_views import search
from viz.test_beams import LABELS, beams_spec, small

from rfnb.viz.beams.drawing import drawing
from rfnb.viz.drawing.shapes import Drawing, Lines, Marks, Rect, Text
from rfnb.viz.kinds import text_of
from rfnb.viz.spec import Spec

WIDTHS = {"boxes": 900.0, "dots": 200.0}


def shapes(made: Drawing, kind: type) -> list:
    return [shape for shape in made.shapes if isinstance(shape, kind)]


def lines(made: Drawing, color: str, dash: tuple[float, float]) -> list:
    """The paths of the lines of a style."""
    return [path for shape in shapes(made, Lines) if (shape.color, shape.dash) == (color, dash) for path in shape.paths]


def said(made: Drawing) -> list[str]:
    return [shape.text for shape in shapes(made, Text)]


def with_reference(spec: Spec, **reference: object) -> Spec:
    [seq] = spec.head["seqs"]
    told = {"labels": [], "text": "It fell.", "aligned": {}, **reference}
    return Spec("beams", {**spec.head, "seqs": [{**seq, "reference": told}]})


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_the_reference_is_a_dashed_line_to_where_it_fell(width):
    spec = beams_spec(small(), labels=LABELS, reference=[["HH", "EH0", "K", "</s>"]])
    told = spec.head["seqs"][0]["reference"]
    assert (told["path"], told["fell"]) == ([[0, 0], [1, 1]], 2)
    made = drawing(spec, width)
    first, second = lines(made, "ink", (5, 4))
    assert "ref until here" in said(made) and any(told["text"] in note for note in made.notes)
    [mark] = [shape for shape in shapes(made, Text) if shape.text == "ref until here"]
    assert second[-1][0] == mark.x and mark.y < second[-1][1]
    assert second[-1][1] > first[-1][1], "from slot 0 to slot 1"


def test_a_reference_that_is_found_goes_to_its_end_and_one_that_is_not_there_has_no_line():
    found = drawing(beams_spec(small(), labels=LABELS, reference=[["HH", "AH0", "</s>"]]), 900)
    assert len(lines(found, "ink", (5, 4))) == 3 and "ref" in said(found)
    for path in ([], [[99, 0]]):
        made = drawing(with_reference(beams_spec(small(), labels=LABELS), path=path, fell=0), 900)
        assert not lines(made, "ink", (5, 4)) and any("It fell." in note for note in made.notes)


def test_the_reference_is_in_the_picture_of_a_large_search():
    spec = with_reference(search(300, 16), path=[[0, 0], [1, 3], [2, 5]], fell=3)
    made = drawing(spec, 600)
    assert len(lines(made, "ink", (5, 4))) == 3 and "ref until here" in said(made)


def alignments(steps: int = 2) -> Spec:
    """A search over alignments: "a" of two alignments, where the second becomes a part of the first."""
    one = {"tokens": ["a", "·"], "parents": [0, 0], "scores": [-0.5, -0.6], "ended": [False] * 2}
    more = {"tokens": ["·", "b"], "parents": [0, 0], "scores": [-0.7, -0.9], "ended": [False] * 2}
    merged = {"token": "a", "parent": 1, "score": -2.0, "why": "merged", "into": 0}
    cut = {"token": "b", "parent": 1, "score": -3.0}
    listed = [one, {**more, "cuts": [merged, cut]}, *({**more, "parents": [0, 1]} for _ in range(steps - 2))]
    best = [[step, 0] for step in range(steps)]
    seq = {"label": "s", "steps": listed, "best": best, "blank": "·", "axis": "frame", "sums": True}
    return Spec("beams", {"title": "alignments", "live": False, "seqs": [seq]})


def test_what_was_merged_is_a_line_to_what_it_became_a_part_of_and_no_candidate_that_was_cut():
    made = drawing(alignments(), 600)
    [path] = lines(made, "muted", (1, 3))
    crosses = [shape for shape in shapes(made, Marks) if shape.shape == "cross"]
    pills = {shape.text: shape for shape in shapes(made, Text)}
    assert path[-1][1] == pills["a"].y < path[0][1], "from slot 1 to slot 0"
    assert sum(len(shape.points) for shape in crosses) == 1 and "frame" in said(made)


def test_where_no_label_was_written_there_is_a_small_hollow_place():
    made = drawing(alignments(), 600)
    sizes = {round(shape.width) for shape in shapes(made, Rect)}
    assert 12 in sizes and "·" not in said(made)
    dots = drawing(alignments(30), 500)
    hollow = [shape for shape in shapes(dots, Marks) if shape.color == "paper"]
    assert sum(len(shape.points) for shape in hollow) == 1 + 29 and len(lines(dots, "muted", (1, 3))) == 1


def test_the_picture_says_what_a_smaller_beam_would_have_found():
    spec = beams_spec(small(), labels=LABELS)
    assert drawing(spec, 900).notes == ["A beam of 1 keeps the best hypothesis."]
    assert all(np.isfinite([made.width, made.height]).all() for made in (drawing(alignments(9), w) for w in (80, 900)))


def test_a_narrow_search_names_what_leaves_the_way_of_another():
    """At one column of a paper dots stand for tokens: the reason for the figure are those where ways part."""
    narrow = drawing(beams_spec(small(), labels=LABELS), 150)
    named = {shape.text for shape in shapes(narrow, Text) if shape.halo}
    assert named == {
        "EH0",
        "</s>",
    }  # beside AH0, and beside L; the others of the winner stand above, and K has died out
    right = max(shape.x for shape in shapes(narrow, Text))
    ranks = sorted(shape.text for shape in shapes(narrow, Text) if shape.x == right)
    assert ranks == ["1", "2", "3", "rank"]


def test_a_winner_that_goes_in_circles_is_said_to_in_text_and_below_the_picture():
    def of(text: str) -> tuple[str, list[str]]:
        steps = [{"tokens": [token], "parents": [0], "scores": [-1.0], "ended": [False], "cuts": []} for token in text]
        seq = {"label": "one", "steps": steps, "best": [[step, 0] for step in range(len(text))], "result": ""}
        spec = Spec("beams", {"title": "Beam search", "live": False, "seqs": [seq], "join": ""})
        return text_of(spec), drawing(spec, 400).notes

    for written, expected in (
        ("xabcabcabcay", "The winner goes in circles: “abc” 3 times in a row."),
        ("aaabcbcbcbc", "The winner goes in circles: “bc” 4 times in a row."),
        ("ababcd", None),
    ):
        text, notes = of(written)
        if expected is None:
            assert "circles" not in text + "".join(notes)
        else:
            assert expected in text.splitlines() and expected in notes
