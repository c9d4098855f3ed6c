"""The tree of a large search is found in time linear in it: paths are not walked for each hypothesis."""

from __future__ import annotations

import gc

import pytest
from viz.odd_views import search

from rfnb.viz.beams.tree import Node, grow, rating


@pytest.mark.parametrize("exponent", [0.0, 0.7])
def test_no_path_is_walked_to_find_the_best(exponent, monkeypatch):
    seq = search(200, 8).head["seqs"][0]
    for step in seq["steps"]:
        step["ended"] = [slot >= 4 for slot in range(8)]
        step["cuts"] = [{"token": "t1", "parent": 0, "score": -1000.0, "why": "merged"} for _ in range(4)]
    seq["steps"][0]["cuts"] = []
    walked = []
    path = Node.path
    monkeypatch.setattr(Node, "path", lambda node: walked.append(node) or path(node))
    tree = grow(seq, length_exponent=exponent)
    assert not walked and len(tree.nbest) > 100
    for node in tree.nbest[:20]:
        assert node.length == sum(one.written for one in node.path())
        assert rating(node, exponent) == pytest.approx(node.score / node.length**exponent)


def test_a_merged_candidate_names_the_hypothesis_with_its_labels():
    labels = [("a", "b"), ("-", "b"), ("b", "-")]  # - is the blank
    steps = [
        {"tokens": list(tokens), "parents": [0, 1], "scores": [-1.0 - n, -2.0 - n], "ended": [False] * 2}
        for n, tokens in enumerate(labels)
    ]
    steps[0]["parents"] = [0, 0]
    steps[1]["cuts"] = [
        {"token": "-", "parent": 1, "score": -9.0, "why": "merged"},
        {"token": "b", "parent": 1, "score": -9.0, "why": "merged"},
    ]
    steps[2]["cuts"] = [{"token": "-", "parent": 0, "score": -9.0, "why": "merged"}]
    cuts = grow({"label": "s", "steps": steps, "best": [], "blank": "-"}).cuts
    # After two steps slot 0 has a, slot 1 b b; after three slot 0 a b, slot 1 b b.
    assert [cut.verdict for cut in cuts[1]] == [
        "merged: part of another hypothesis with the same labels", "merged: part of slot 1 with the same labels",
    ]  # fmt: skip
    assert [cut.verdict for cut in cuts[2]] == ["merged: part of another hypothesis with the same labels"]


def test_garbage_is_collected_after_it_as_before():
    for collecting in (True, False):
        (gc.enable if collecting else gc.disable)()
        try:
            grow(search(3, 2).head["seqs"][0])
            with pytest.raises(KeyError):
                grow({"steps": [{}]})
            assert gc.isenabled() == collecting
        finally:
            gc.enable()
