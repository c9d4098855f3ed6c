"""Two runs beside each other: where they part, the first value that differs, both results with their edits."""

import numpy as np
import pytest
from asserting import ragged, randn

import rfnb as rf
from rfnb import Dim
from rfnb.trace.compare_runs import Comparison
from rfnb.trace.run_tree import AppliedChange, Branch, BranchPoint, Outcome, Tree

BATCH = Dim(3, name="batch")


def branch(name, parent=None, tick=None, *, seqs=(), scores=(), values=None, changes=()):
    left = None if tick is None else BranchPoint(tick, "loop", tick)
    steps = tuple(("loop", step) for step in range(7))
    return Branch(name, parent, left, steps, changes, outcome=Outcome("", seqs, scores, values or {}))


TREE = Tree(
    [
        branch("main", seqs=(("a", "b", "c"), ("x",))),
        branch("b", "main", 3, seqs=(("a", "c"), ("x",))),
        branch("c", "b", 5, seqs=(("a", "b", "d", "c"), ())),
        branch("d", "main", 4),
        branch("e", "d", 6),
    ]
)


@pytest.mark.parametrize(
    ("a", "b", "tick"),
    [
        ("main", "b", 3),
        ("b", "main", 3),
        ("b", "c", 5),
        ("main", "c", 3),
        ("c", "d", 3),  # the one that left earlier
        ("d", "b", 3),
        ("c", "e", 3),
        ("main", "e", 4),
    ],
)
def test_two_of_a_tree_part_where_the_first_of_them_leaves(a, b, tick):
    assert Comparison(TREE[a], TREE[b], list(TREE.values())).parted == BranchPoint(tick, "loop", tick)


def test_runs_of_two_trees_have_no_step_in_common():
    assert Comparison(TREE["main"], branch("other"), [TREE["main"], branch("other")]).parted is None


def test_results_are_aligned_sequence_by_sequence():
    one, other = (Comparison(TREE["main"], TREE[name], list(TREE.values())).results for name in "bc")
    assert [(result.edits, result.same) for result in one] == [("=d=", False), ("=", True)]
    assert [(result.edits, result.same) for result in other] == [("==i=", False), ("d", False)]


def test_a_sequence_that_only_one_has_is_no_edit():
    a, b = branch("a", seqs=(("x",), ("y",))), branch("b", seqs=(("x",),))
    result = Comparison(a, b, [a, b]).results[1]
    assert (result.a, result.b, result.edits) == (("y",), None, None)
    assert str(Comparison(a, b, [a, b])).endswith("sequence 1: only in A: y")


def test_what_is_too_long_is_not_aligned():
    a, b = branch("a", seqs=(("x",) * 2000,)), branch("b", seqs=(("y",) * 2000,))
    assert Comparison(a, b, [a, b]).results[0].edits is None
    assert "2000 labels in A, 2000 in B; too long to be aligned" in str(Comparison(a, b, [a, b]))


def test_of_long_results_only_what_lies_between_their_equal_ends_is_aligned():
    a, b = branch("a", seqs=(("x",) * 2000 + ("y", "z"),)), branch("b", seqs=(("x",) * 2000 + ("w", "y", "z"),))
    assert Comparison(a, b, [a, b]).results[0].edits == "=" * 2000 + "i=="


def test_tensors_of_results_differ_in_so_many_entries_by_so_much():
    x = randn(BATCH)
    host = x.numpy().copy()
    host[1] += 0.5
    y = rf.convert_to_tensor(host, dims=[BATCH])
    nan = rf.convert_to_tensor(np.full(3, np.nan, np.float32), dims=[BATCH])
    a = branch("a", values={"x": x, "y": x, "n": nan, "i": rf.zeros([BATCH], dtype="int32"), "only": x})
    b = branch("b", values={"x": x, "y": y, "n": nan, "i": rf.zeros([BATCH], dtype="int64")})
    assert Comparison(a, b, [a, b]).values == [
        ("x", ""),
        ("y", "1 of 3 entries differ, by up to 0.5"),
        ("n", ""),
        ("i", "[batch=3] int32 in A, [batch=3] int64 in B"),
        ("only", "only in A"),
    ]


@pytest.mark.parametrize(
    ("lengths", "changed", "words"),
    [
        ([5, 2], (1, 3), ""),  # in the padding
        ([5, 2], (1, 1), "1 of 7 entries differ, by up to 0.5"),
        ([5, 3], (1, 3), 'other lengths of "time"'),
        ([5, 3], (0, 4), 'other lengths of "time"; 1 of 7 entries differ, by up to 0.5'),
        ([4, 2], (0, 3), "[batch=2, time<=5] float32 in A, [batch=2, time<=4] float32 in B"),
    ],
)
def test_padding_of_results_is_no_value_and_other_lengths_are_said(lengths, changed, words):
    made = []
    for each, far in (([5, 2], 0.0), (lengths, 0.5)):
        batch = Dim(2, name="batch")
        host = np.ones((2, max(each)), np.float32)
        host[changed] += far
        made.append(rf.convert_to_tensor(host, dims=[batch, ragged(each, batch)]))
    a, b = (branch(name, values={"x": value}) for name, value in zip("ab", made))
    assert Comparison(a, b, [a, b]).values == [("x", words)]


def record(values, *, name="loop"):
    """A recording of a loop with a state h that has these values."""
    time = Dim(len(values), name="time")
    with rf.record() as trace:
        loop = rf.Loop(axis=time, name=name)
        loop.state.h = rf.zeros([])
        each = loop.unstack
        x = rf.convert_to_tensor(np.array(values, np.float32), dims=[time])
        for _ in loop:
            loop.state.h = each(x)
    return trace


def test_the_first_value_that_differs_is_named():
    c = rf.compare_runs(record([1, 2, 3, 4]), record([1, 2, 3.5, 5]))
    assert c.diff.first.step == 2
    assert c.first.startswith("loop, step 2, h: 3 in A, 3.5 in B")
    assert str(c).splitlines()[:3] == [
        "A, a: a recording of 4 events",
        "B, b: a recording of 4 events",
        f"First difference: {c.first}.",
    ]


def test_recordings_of_other_things_say_so():
    c = rf.compare_runs(record([1, 2]), record([1, 2], name="other"))
    assert c.first == "the two recordings have no event in common"


@pytest.mark.parametrize("given", [3, "run.rfnb", None, BATCH])
def test_what_is_no_run_is_refused(given):
    with pytest.raises(TypeError) as error:
        rf.compare_runs(record([1]), given)
    assert str(error.value) == (
        f"compare_runs: run_b is no run.\n  run_b  {type(given).__name__}\nRuns, branches of a tree and recordings are compared.\n"
        "    rf.compare_runs(run, run.branches[0])"
    )


def test_a_run_is_not_compared_with_itself():
    trace = record([1])
    with pytest.raises(ValueError, match="compare_runs: both are the same run"):
        rf.compare_runs(trace, trace)


TEXT = """\
A, main: 7 steps, done
B, b: leaves main before step 3 of "loop"; 7 steps, done
   step 3 of "loop": state h set to 0
They part before step 3 of "loop"; 3 steps are the same run.

result: 1 substituted, 1 deleted, score A -1.500
   A  a  a long label  c
   B  *  b             c
      D  S"""


def test_the_text_says_all_of_it():
    changes = (AppliedChange(3, "loop", 3, "state h set to 0"),)
    a = branch("main", seqs=(("a", "a long label", "c"),), scores=(-1.5,))
    b = branch("b", "main", 3, seqs=(("b", "c"),), changes=changes)
    assert str(Comparison(a, b, [a, b])) == TEXT


def test_of_a_long_result_one_sees_what_differs():
    a = branch("a", seqs=(("x",) * 100 + ("y",) + ("z",) * 50,))
    b = branch("b", seqs=(("x",) * 100 + ("w",) + ("z",) * 50,))
    text = str(Comparison(a, b, [a, b]))
    assert "1 substituted" in text and len(text.splitlines()) < 10
    assert "x  x  x  x  (92 the same)  x  x  x  x  y  z  z  z  z" in text and "(42 the same)" in text


def test_text_that_is_hostile_stays_in_its_line():
    a = branch("a\nB, b: done", seqs=(("x\ny",),))
    b = branch("b", seqs=(("x\ty",),))
    assert all(
        line.startswith(("A, ", "B, ", "result", "   ")) for line in str(Comparison(a, b, [a, b])).splitlines() if line
    )
