"""The view of branches: two searches in one picture, differences, results with their edits, and what is odd in them."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from viz.stored_files import assert_stored
from viz.two_searches import STEPS, branch_tree, recorded_search

import rfnb as rf
from rfnb.trace.run_tree import Branch, BranchPoint, Outcome, Tree
from rfnb.viz.beams.spec import spec as beams_spec
from rfnb.viz.beams.tree import grow
from rfnb.viz.branches.sides import merged, of_both, parting, sides_of
from rfnb.viz.branches.spec import spec as branches_spec
from rfnb.viz.group.spec import parts_of
from rfnb.viz.kinds import html_of, problem_of, text_of
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import page_spec
from rfnb.viz.spec import Spec, pack, to_json

LABELS = ["#", "a", "b", "c"]


def head_of(trace):
    return beams_spec(trace.beams["search"]).head


FIELDS = ("tokens", "parents", "scores", "ended")


def arm(seq, which):
    """One of two searches of a merged sequence, as it was before: trunk and arm."""
    at, split = seq["arms"]["at"], seq["arms"]["split"]
    steps = []
    for index, step in enumerate(seq["steps"][: seq["arms"]["ends"][which] + 1]):
        chosen = slice(None) if index < at else slice(split, None) if which else slice(split)
        taken = {name: step[name][chosen] for name in FIELDS}
        if index > at and which:
            taken["parents"] = [parent - split for parent in taken["parents"]]
        steps.append(taken)
    return [filled(step) for step in steps]


def filled(step):
    """A step without the places at its end that hold no hypothesis."""
    count = max((slot + 1 for slot, score in enumerate(step["scores"]) if score is not None), default=0)
    return {name: step[name][:count] for name in FIELDS}


def plain(seq):
    return [filled(step) for step in seq["steps"]]


@pytest.mark.parametrize("at", range(STEPS))
def test_two_searches_part_where_their_scores_do(at):
    a, b = head_of(recorded_search(LABELS)), head_of(recorded_search(LABELS, at))
    [seq] = merged(a, b, ["main", "what if"])["seqs"]
    assert (seq["arms"]["at"], seq["arms"]["names"]) == (at, ["main", "what if"])
    assert parting(a["seqs"][0]["steps"], b["seqs"][0]["steps"]) == at


@settings(max_examples=25, deadline=None)
@given(st.integers(0, STEPS - 1), st.integers(1, 5), st.integers(1, 3), st.integers(2, 5))
def test_trunk_and_arm_are_the_whole_history(at, beam, seqs, steps):
    """Wherever they part, each history can be recovered from the picture of both, place by place."""
    a = head_of(recorded_search(LABELS, steps, beam=beam, steps=steps, seqs=seqs))
    b = head_of(recorded_search(LABELS, min(at, steps - 1), beam=beam, steps=steps, seqs=seqs))
    both = merged(a, b, ["A", "B"])
    assert problem_of(Spec("beams", both)) is None
    for one, other, seq in zip(a["seqs"], b["seqs"], both["seqs"], strict=True):
        if "arms" not in seq:
            assert plain(one) == plain(other) == plain(seq)
            continue
        assert arm(seq, 0) == plain(one)
        assert arm(seq, 1) == plain(other)
        tree = grow(seq)
        ends = [(path[-1][0], path[-1][1]) for path in (one["best"], other["best"]) if path]
        split, at_ = seq["arms"]["split"], seq["arms"]["at"]
        moved = [ends[0], (ends[1][0], ends[1][1] + (split if ends[1][0] >= at_ else 0))]
        assert tree.ends == moved
        texts = [" ".join(node.token for node in tree.nodes[step][slot].path()) for step, slot in tree.ends]
        assert texts == [" ".join(node.token for node in grow(side).nbest[0].path()) for side in (one, other)]


def test_ranks_and_states_are_those_of_each_search():
    a, b = head_of(recorded_search(LABELS)), head_of(recorded_search(LABELS, 2))
    [seq] = merged(a, b, ["A", "B"])["seqs"]
    split = seq["arms"]["split"]
    for step in range(2, STEPS):
        assert seq["steps"][step]["states"][:split] == a["seqs"][0]["steps"][step]["states"]
        assert seq["steps"][step]["states"][split:] == b["seqs"][0]["steps"][step]["states"]
        assert [cut["verdict"] for cut in seq["steps"][step]["cuts"][::2]] == [
            cut["verdict"] for cut in a["seqs"][0]["steps"][step]["cuts"]
        ]
    tree = grow(seq)
    assert [len(tree.rivals(node)) for node in (tree.nodes[3][0], tree.nodes[3][split], tree.nodes[1][0])] == [3, 3, 3]


def test_the_best_labels_of_the_trunk_are_those_of_both_searches():
    a, b = (head_of(recorded_search(LABELS, at)) for at in (STEPS, 2))
    one, other, both = (head["seqs"][0]["steps"] for head in (a, b, merged(a, b, ["A", "B"])))
    assert [step.get("next") == first["next"] == second["next"] for step, first, second in zip(both, one, other)] == [
        *(True, True, False, False, False)
    ]
    assert "next" not in both[2]  # each has other ones after the same hypotheses
    split = len(one[2]["tokens"])
    of_b = {str(int(slot) + split): best for slot, best in other[3]["next"].items()}
    assert both[3]["next"] == one[3]["next"] | of_b


def test_searches_of_other_lengths_end_where_they_end():
    a, b = head_of(recorded_search(LABELS, steps=3)), head_of(recorded_search(LABELS, 2, steps=5))
    [seq] = merged(a, b, ["A", "B"])["seqs"]
    assert seq["arms"]["ends"] == [2, 4]
    assert arm(seq, 0) == plain(a["seqs"][0]) and arm(seq, 1) == plain(b["seqs"][0])


def test_equal_searches_have_no_arms():
    a = head_of(recorded_search(LABELS))
    both = merged(a, copy.deepcopy(a), ["A", "B"])
    assert both["remark"] == "Both searches are the same."
    assert "arms" not in both["seqs"][0] and plain(both["seqs"][0]) == plain(a["seqs"][0])


def test_differences_are_those_of_the_values():
    one, other = (sides_of(recorded_search(LABELS, at)) for at in (STEPS, 2))
    made = {part.head["key"]: part for part in of_both(one, other, ["A", "B"])}
    kinds = {part.kind: part for part in made.values()}
    for kind, listed in (("attention", "maps"), ("states", "tracks")):
        [a], [b] = ([part for part in side if part.kind == kind] for side in (one, other))
        entry = kinds[kind].head[listed][0]
        found = kinds[kind].blocks[entry["block"]]
        expected = a.blocks[a.head[listed][0]["block"]] - b.blocks[b.head[listed][0]["block"]]
        np.testing.assert_array_equal(found, expected)
        low, high = entry["range"] if kind == "states" else kinds[kind].head["range"]
        most = np.nanmax(np.abs(expected))
        digits = 2 if kind == "attention" else 17  # a scale is in two, as a reader says them; a text says the others
        assert -low == high == float(f"{high:.{digits}g}") and 0 < most <= high <= (1.1 if digits == 2 else 1) * most
    assert kinds["attention"].head["signed"] and "slots" not in kinds["attention"].head["maps"][0]


def test_the_spec_says_the_order_and_what_is_folded():
    one, other = (sides_of(recorded_search(LABELS, at)) for at in (STEPS, 2))
    both = of_both(one[::-1], other, ["A", "B"])
    assert [(part.kind, part.head["folded"]) for part in both] == [
        ("beams", False), ("attention", False), ("states", True),
    ]  # fmt: skip
    [maps] = [part for part in one if part.kind == "attention"]
    hardly = {name: block + 1e-3 for name, block in maps.blocks.items()}
    prompt = [Spec(maps.kind, {**maps.head, "key": "prompt"}, blocks) for blocks in (maps.blocks, hardly)]
    both = of_both([prompt[0], *one], [prompt[1], *other], ["A", "B"])
    assert [(part.head["key"] == "prompt", part.head["folded"]) for part in both if part.kind == "attention"] == [
        (False, False), (True, True),
    ]  # fmt: skip
    both = of_both(one, one, ["A", "B"])
    assert [part.head["folded"] for part in both if part.kind != "beams"] == [True, True]
    assert both[-1].head["title"].endswith(": the same in A and B")


def test_what_is_the_same_says_so_and_what_is_alone_too():
    a, b = sides_of(recorded_search(LABELS)), sides_of(recorded_search(LABELS))
    for part in of_both(a, b, ["A", "B"]):
        assert part.kind == "beams" or part.head["same"]
    empty = Branch("b", "main", BranchPoint(1, "search", 1))
    tree = Tree([Branch("main", trace=recorded_search(LABELS)), empty])
    said = branches_spec(tree).head["pairs"][0]["said"]
    assert [line for line in said if line.startswith("Only in")] == [
        "Only in A: Beam search: search.",
        "Only in A: Attention: search, best hypothesis.",
        "Only in A: States: search, best hypothesis.",
    ]


def test_the_view_in_text_is_the_stored_one():
    spec = branches_spec(rf.compare_runs(*list(branch_tree().values())[:2]))
    assert_stored("branches_small.txt", text_of(spec))
    assert_stored("branches_small.json", to_json(spec))


def test_a_is_what_was_given_first():
    main, what_if, _ = branch_tree().values()
    head = branches_spec(rf.compare_runs(what_if, main)).head
    assert head["pair"] == [1, 0] == head["pairs"][0]["of"]
    assert head["pairs"][0]["said"][0].startswith("They part before ")


def test_a_tree_begins_with_its_newest_branch_beside_its_parent():
    head = branches_spec(branch_tree()).head
    assert head["pair"] == [1, 2]
    assert [pair["of"] for pair in head["pairs"]] == [[1, 2], [0, 1], [0, 2]]
    assert [(entry["parent"], entry["left"], entry["marks"]) for entry in head["branches"]] == [
        (None, None, []),
        (0, 2, [2]),
        (1, 3, [3]),
    ]


def test_of_many_branches_a_page_has_some_pairs():
    trace = recorded_search(LABELS)
    tree = Tree(
        [
            Branch("main", trace=trace),
            *(Branch(f"b{n}", "main", BranchPoint(n % 5, "search", n % 5), trace=trace) for n in range(30)),
        ]
    )
    spec = branches_spec(tree)
    assert len(spec.head["branches"]) == 31 and len(spec.head["pairs"]) == 6
    assert spec.head["pair"] == spec.head["pairs"][0]["of"] == [0, 30]
    assert len(branches_spec(tree, pairs=40).head["pairs"]) == 40


def test_edits_of_a_long_result_are_all_counted():
    long = tuple("abcdefghij" * 60)
    other = (*long[:300], "x", *long[301:], "y")
    a, b = (Branch(name, outcome=Outcome("", (labels,))) for name, labels in (("a", long), ("b", other)))
    [result] = branches_spec(rf.compare_runs(a, b)).head["pairs"][0]["results"]
    assert (result["counts"], result["more"], len(result["columns"]) < 40) == ({"s": 1, "i": 1}, 0, True)
    assert "sequence 0: 1 substituted, 1 inserted" in text_of(branches_spec(rf.compare_runs(a, b)))


def test_an_empty_label_is_seen():
    a, b = (Branch(name, outcome=Outcome("", (labels,))) for name, labels in (("a", ("x", "")), ("b", ("x", "y"))))
    assert "<td><b>∅</b></td>" in html_of(branches_spec(rf.compare_runs(a, b)))


def test_one_run_alone_has_no_pair():
    spec = branches_spec(Tree([Branch("main", trace=recorded_search(LABELS))]))
    assert (spec.head["pair"], spec.head["pairs"], parts_of(spec)) == (None, [], [])
    assert text_of(spec) == "Run: main\nmain: 0 steps, done"
    assert "<table>" in html_of(spec)


@pytest.mark.parametrize("size", [30_000, 80_000])
def test_a_page_has_no_more_than_its_room(size):
    spec = branches_spec(branch_tree(["#", *(f"label {n}" for n in range(40))]))
    page = page_spec(spec, Room(size, size))
    assert page.kind == "branches" and len(pack(page)) <= size


def test_what_is_no_tree_is_refused():
    with pytest.raises(TypeError) as error:
        rf.viz.branches([1])
    assert str(error.value) == (
        "branches: this is no tree of branches.\n  given  list\nA tree is that of a run, a comparison that of two.\n"
        "    rf.viz.branches(run.tree())"
    )


BAD = {
    "no list": {"branches": None},
    "none": {"branches": []},
    "a text": {"branches": "abc"},
    "a pair of one": {"pair": [0]},
    "a pair of what is not there": {"pair": [0, 9]},
    "no pairs": {"pairs": None},
    "no parts": {"parts": 3},
}


@pytest.mark.parametrize("what", BAD)
def test_a_head_that_does_not_fit_is_a_sentence(what):
    spec = branches_spec(branch_tree())
    bad = Spec("branches", {**spec.head, **BAD[what]}, spec.blocks)
    for form in (text_of(bad), html_of(bad)):
        assert "These branches cannot be drawn: " in form or "This view cannot be drawn" in form


ARMS = {
    "no text": "x",
    "no place": {},
    "a place that is none": {"at": -1, "split": 3, "names": ["a", "b"], "ends": [1, 1], "best": []},
    "one name": {"at": 1, "split": 3, "names": ["a"], "ends": [1, 1], "best": []},
    "a path that leaves": {"at": 1, "split": 3, "names": ["a", "b"], "ends": [1, 1], "best": [[99, 0]]},
}


@pytest.mark.parametrize("what", ARMS)
def test_arms_that_do_not_fit_are_a_sentence(what):
    head = head_of(recorded_search(LABELS))
    bad = {**head, "seqs": [{**head["seqs"][0], "arms": ARMS[what]}]}
    assert problem_of(Spec("beams", bad)).startswith("This beam search cannot be drawn: sequence 0, step 0: ")
