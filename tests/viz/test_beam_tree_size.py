"""The tree of a large search is found in time linear in it: paths are not walked for each hypothesis."""

from __future__ import annotations

import math

import numpy as np
import pytest
from viz.odd_views import search

from rfnb.viz.beams.spec import spec
from rfnb.viz.beams.tree import TreeNode, grow, rating


@pytest.mark.parametrize("exponent", [0.0, 0.7])
def test_no_path_is_walked_to_find_the_best(exponent, monkeypatch):
    seq = search(200, 8).head["seqs"][0]
    for step in seq["steps"]:
        step["ended"] = [slot >= 4 for slot in range(8)]
        step["cuts"] = [{"token": "t1", "parent": 0, "score": -1000.0, "why": "merged"} for _ in range(4)]
    seq["steps"][0]["cuts"] = []
    walked = []
    path = TreeNode.path
    monkeypatch.setattr(TreeNode, "path", lambda node: walked.append(node) or path(node))
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


def test_a_token_is_looked_up_once_and_few_candidates_are_made_of_many():
    names, looked_up = [f"t{index}" for index in range(50)], []

    class Names(list):
        def __getitem__(self, index):
            looked_up.append(index)
            return super().__getitem__(index)

    random = np.random.default_rng(0)
    shape = (30, 200)
    tokens, parents = random.integers(0, 50, shape), random.integers(0, 8, shape)
    parents[0] = 0
    scores = -np.sort(random.random(shape), axis=1) - np.arange(30)[:, None]
    fields = {"tokens": tokens, "parents": parents, "scores": scores}
    kept = {name: list(value[:, :8]) for name, value in fields.items()}
    more = {f"cand_{name}": list(value) for name, value in fields.items()}
    made = spec(**kept, **more, cand_kept=list(np.arange(200)[None].repeat(30, 0) < 8), labels=Names(names), cuts=3)
    assert len(looked_up) == len(set(looked_up)) <= 50
    for step, row in enumerate(made.head["seqs"][0]["steps"]):
        assert [cut["score"] for cut in row["cuts"]] == scores[step, 8:11].round(5).tolist()
        assert [cut["token"] for cut in row["cuts"]] == [names[index] for index in tokens[step, 8:11]]


@pytest.mark.parametrize("exponent, is_worst", [(10**9, False), (-(10**9), True), (1e308, False), (-1e308, True)])
def test_no_length_exponent_is_too_large_for_a_number(exponent, is_worst):
    node = TreeNode(0, 0, "a", -2.0, None, -2.0, length=3)
    assert rating(node, exponent) == (-math.inf if is_worst else 0.0)
