"""The tree of branches that a run is in: listed, found by name, saved, and read without the model."""

import json

import numpy as np
import pytest
from asserting import assert_same
from control.held_models import letters, sums
from safetensors import safe_open
from safetensors.numpy import save_file
from waiting import LONG

import rfnb as rf
from rfnb.control.branch_tree import free_name
from rfnb.control.commands import obey
from rfnb.control.state_history import StateHistory
from rfnb.trace.run_tree import AppliedChange, Branch, BranchPoint, Outcome, Tree
from rfnb.viz.control.spec import spec


@pytest.fixture
def run():
    """A search with a branch, a branch of that, and another one."""
    run = rf.run(letters, name="main")
    _ = run.result
    without = run.from_step(2, lambda at: at.ban("c"), name="without c")
    _ = without.result
    later = without.from_step(3, lambda at: at.force("c", seq=1), name="later")
    _ = later.result
    _ = run.from_step(1, lambda at: at.force("a", hypothesis=1), name="other").result
    return run


TEXT = """\
main: 4 steps, done
│      sequence 0: a b c, score -1.330
│      sequence 1: a b c, score -1.330
├─ without c: leaves main before step 2 of "search"; 4 steps, done
│  │      step 2 of "search": banned c for all hypotheses of sequence 0
│  │      sequence 0: a c, score -2.071
│  │      sequence 1: a b c, score -1.330
│  └─ later: leaves without c before step 3 of "search"; 4 steps, done
│            step 3 of "search": forced c for hypothesis 0 of sequence 1
│            sequence 0: a c, score -2.071
│            sequence 1: a b c, score -1.330
└─ other: leaves main before step 1 of "search"; 4 steps, done
          step 1 of "search": forced a for hypothesis 1 of sequence 0
          sequence 0: a b c, score -1.330
          sequence 1: a b c, score -1.330"""


def test_the_tree_says_where_each_left_what_was_changed_and_what_it_came_to(run):
    assert str(run.tree()) == TEXT
    assert repr(run.tree()) == "<Tree: main and 3 branches>"
    assert str(run.find("later").tree()) == TEXT  # of whichever branch


def test_branches_are_found_by_name(run):
    tree = run.tree()
    assert list(tree) == ["main", "without c", "other", "later"]
    later = tree["later"]
    assert (later.parent, later.left, later.steps[:2]) == (
        "without c",
        BranchPoint(3, "search", 3),
        (("search", 0), ("search", 1)),
    )
    assert later.own_changes == later.changes[1:]
    assert [tree.children(name) for name in ("main", "later")] == [[tree["without c"], tree["other"]], []]
    assert [(depth, branch.name) for depth, branch in tree.rows()] == [
        (0, "main"),
        (1, "without c"),
        (2, "later"),
        (1, "other"),
    ]
    assert run.find("later").root is run and run.find("main") is run
    for where, find in (("Tree", tree.__getitem__), ("run", run.find)):
        with pytest.raises(KeyError) as error:
            find("nobody")
        assert str(error.value).startswith(f'{where}: no branch "nobody".\n  branches  main, without c, other, later\n')


def test_a_name_that_is_taken_gets_a_number():
    run = rf.run(sums(), name="sums")
    _ = run.result
    names = [run.from_step(1, lambda at: None, name=name).name for name in ("what if", "what if", "sums", "what if")]
    assert names == ["what if", "what if 2", "sums 2", "what if 3"]
    run.branches[0].wait()
    deeper = run.branches[0].from_step(2, lambda at: None, name="what if")
    assert deeper.name == "what if 4"


def test_a_run_that_is_not_over_is_in_the_tree_as_it_is_now():
    run = rf.run(letters, paused=True, name="main")
    run.wait()
    run.step(2)
    branch = run.tree().root
    assert (branch.state, branch.reason, len(branch.steps)) == ("paused", "2 steps were made", 3)
    assert branch.outcome.seqs == (("a", "b"), ("a", "b"))
    run.stop()
    assert run.tree().root.state == "stopped" and run.tree().root.reason == ""


def test_a_run_that_failed_says_what_it_raised():
    def fails():
        sums()()
        raise ValueError("no more\nlines")

    run = rf.run(fails, name="fails")
    run.wait()
    assert str(run.tree()) == "fails: 7 steps, failed: ValueError: no more"


@pytest.mark.parametrize(
    ("result", "seqs", "text"),
    [
        ("a bc", (("a", "bc"),), "a bc"),
        ("abc", (("a", "b", "c"),), "abc"),
        (["a", "b"], (("a", "b"),), "['a', 'b']"),
        ([["a"], []], (("a",), ()), "[['a'], []]"),
        (None, (), ""),
        (2.5, (), "2.5"),
        ([], (), "[]"),
    ],
)
def test_labels_of_a_result_are_those_of_a_text_or_lists(result, seqs, text):
    run = rf.run(lambda: result)
    run.wait()
    assert run.tree().root.outcome == Outcome(text, seqs)


def test_tensors_of_a_result_are_found_by_name():
    run = rf.run(sums())
    outcome = run.tree().root.outcome if run.wait() else None
    assert list(outcome.values) == ["result.0", "result.1"]
    assert outcome.text == "[time<=7, batch=3, feat=5] float32, [batch=3, feat=5] float32"
    assert_same(outcome.values["result.1"], run.result[1])


def test_a_result_that_is_odd_ends_nothing():
    endless = []
    endless.append(endless)

    class Odd:
        def __repr__(self):
            raise OSError("no")

    for odd, text in ((endless, "[[...]]"), (Odd(), "Odd, whose repr fails: OSError")):
        run = rf.run(lambda odd=odd: odd)
        run.wait()
        assert run.tree().root.outcome == Outcome(text)


def test_a_tree_of_names_that_do_not_fit_is_refused():
    for branches, fault in (
        ([Branch("a"), Branch("a", "a")], 'branch "a": there are two of this name.'),
        ([Branch("a"), Branch("b", "c")], 'branch "b": its parent is not before it.'),
        ([Branch("a", "b")], 'branch "a": the first has no parent.'),
    ):
        with pytest.raises(ValueError, match="Tree") as error:
            Tree(branches)
        assert str(error.value).startswith(f"Tree: {fault}\n")


def test_a_saved_tree_is_read_without_the_model(run, tmp_path):
    path = tmp_path / "run.rfnb"
    run.find("later").save(path)
    trace = rf.load_trace(path)
    tree = trace.tree
    assert str(tree) == TEXT
    assert trace is tree["later"].trace
    assert dict(tree) == dict(run.tree())
    for name, branch in run.tree().items():
        assert tree[name].trace.beams["search"].text() == branch.trace.beams["search"].text()
        assert tree[name].trace.counts() == branch.trace.counts()
    again = tmp_path / "again.rfnb"
    trace.save(again)  # a trace with a tree keeps it
    assert str(rf.load_trace(again).tree) == TEXT
    assert again.read_bytes() == path.read_bytes()


def test_what_branches_have_in_common_is_written_once(tmp_path):
    run = rf.run(sums())
    _ = run.result
    for step in range(1, 6):
        _ = run.from_step(step, lambda at: at.states["h"].__setitem__(..., 1.0)).result
    alone, all_ = tmp_path / "alone.rfnb", tmp_path / "all.rfnb"
    run.trace.save(alone)
    run.save(all_)
    with safe_open(alone, "numpy") as one, safe_open(all_, "numpy") as six:
        assert len(six.keys()) < 5 * len(one.keys())
        arrays = {six.get_tensor(name).tobytes() for name in six.keys()}
        assert len(arrays) == len(six.keys())
    np.testing.assert_array_equal(
        rf.load_trace(all_).tree.root.trace.states["sums"]["h"].numpy(), run.trace.states["sums"]["h"].numpy()
    )


def test_tensors_of_results_are_saved(tmp_path):
    run = rf.run(sums())
    expected = run.result[1]
    run.save(tmp_path / "run.rfnb")
    found = rf.load_trace(tmp_path / "run.rfnb").tree.root.outcome.values["result.1"]
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_a_run_without_a_recording_is_saved_with_what_is_known(tmp_path):
    run = rf.run(sums(), record=False)
    _ = run.result
    _ = run.from_step(2, lambda at: at.states["h"].__setitem__(..., 0.0), name="zero").result
    run.save(tmp_path / "run.rfnb")
    trace = rf.load_trace(tmp_path / "run.rfnb")
    assert len(trace) == 0
    assert trace.tree["zero"].changes == (AppliedChange(2, "sums", 2, "state h set to 0"),)


def _bad(change):
    def made(tree):
        change(tree["branches"])

    return made


BAD = {
    "two of one name": _bad(lambda branches: branches[1].update(name=branches[0]["name"])),
    "no such parent": _bad(lambda branches: branches[1].update(parent="nobody")),
    "a name that is none": _bad(lambda branches: branches[1].update(name=3)),
    "another state": _bad(lambda branches: branches[1].update(state="<script>")),
    "steps that do not fit": _bad(lambda branches: branches[1]["steps"]["at"].pop()),
    "a path that is not there": _bad(lambda branches: branches[1]["steps"]["of"].__setitem__(0, 7)),
    "a change without words": _bad(lambda branches: branches[1]["changes"].append([0, "a", 0])),
    "no list of branches": lambda tree: tree.update(branches=None),
    "no own trace": _bad(lambda branches: branches[0].update(trace=branches[1]["trace"])),
    "another own": lambda tree: tree.update(own="nobody"),
    "a list": lambda tree: tree.clear(),
}


@pytest.mark.parametrize("what", BAD)
def test_a_tree_that_does_not_fit_is_named(what, tmp_path, run):
    path = tmp_path / "run.rfnb"
    run.save(path)
    with safe_open(path, "numpy") as file:
        head, arrays = json.loads(file.metadata()["rfnb"]), {name: file.get_tensor(name) for name in file.keys()}
    BAD[what](head["tree"])
    save_file(arrays, path, metadata={"rfnb": json.dumps(head)})
    with pytest.raises(ValueError, match="load_trace: the file is damaged") as error:
        rf.load_trace(path)
    assert "its description does not fit its arrays" in str(error.value)


def test_a_run_is_compared_with_its_branch(run, tmp_path):
    branch = run.find("without c")
    c = rf.compare_runs(run, branch)
    assert (c.a.name, c.b.name, c.parted) == ("main", "without c", BranchPoint(2, "search", 2))
    assert [result.edits for result in c.results] == ["=d=", "==="]
    assert c.diff.first.step == 2
    assert rf.compare_runs(branch, run).a.name == "without c"
    run.save(tmp_path / "run.rfnb")
    tree = rf.load_trace(tmp_path / "run.rfnb").tree
    assert str(rf.compare_runs(tree["main"], tree["without c"])) == str(c)  # without the model


def test_runs_without_a_recording_are_compared_too():
    run = rf.run(letters, record=False, name="main")
    _ = run.result
    branch = run.from_step(2, lambda at: at.ban("c"))
    _ = branch.result
    c = rf.compare_runs(run, branch)
    assert (c.parted, c.first) == (BranchPoint(2, "search", 2), "")
    assert [result.edits for result in c.results] == ["=d=", "==="]


def test_steps_before_they_part_are_the_same_and_the_first_that_differs_is_not_before(run):
    tree = run.tree()
    for one in tree.values():
        for other in tree.values():
            if one.name == other.name:
                continue
            c = rf.compare_runs(one, other)
            steps = [row.step for row in c.diff.rows if row.differs]
            assert not steps or min(steps) >= c.parted.step


@pytest.mark.parametrize("step", [0, 1, 3])
def test_a_branch_has_recorded_the_steps_that_it_has_in_common_too(step):
    """So that the picture of both is one trunk with two arms, and each of its runs is whole."""
    run = rf.run(letters, name="main")
    _ = run.result
    branch = run.from_step(step, lambda at: at.ban("b"), name="without b")
    _ = branch.result
    one, other = (side.trace.beams["search"] for side in (run, branch))
    for index in range(step):
        for name in ("tokens", "parents", "scores"):
            np.testing.assert_array_equal(one.steps[index][name], other.steps[index][name])
    [seq, same] = rf.viz.branches(run.tree()).spec.head["parts"][0]["head"]["seqs"]
    assert (seq["arms"]["at"], "arms" in same) == (step if step else 0, False)


DEEP = 3000  # more than calls of Python go


def test_a_tree_of_branches_of_branches_is_read_however_deep_it_is():
    names = [f"b{number}" for number in range(DEEP)]
    tree = Tree([Branch(name, before) for name, before in zip(names, [None, *names])])
    lines = str(tree).splitlines()
    assert [line.split(":")[0].split()[-1] for line in lines] == names
    assert max(map(len, lines)) < 200  # nobody follows more than forty levels by their indent
    assert [branch.name for _, branch in tree.rows()] == names


def test_what_a_branch_of_branches_keeps_is_found_however_deep_it_is():
    history = StateHistory()
    for tick in range(4):
        history.add(tick, lambda tick=tick: {"n": tick})
    for _ in range(DEEP):
        history = StateHistory(trunk=(history, 2))
        for tick in (2, 3):
            history.add(tick, lambda tick=tick: {"n": -tick})
    assert [history.at(tick) for tick in range(5)] == [{"n": 0}, {"n": 1}, {"n": -2}, {"n": -3}, None]
    assert history.ticks() == [0, 1, 2, 3]
    earlier = StateHistory(trunk=(history, 1))  # what its trunk has from there on is not its own
    assert [earlier.at(tick) for tick in (0, 1, 2)] == [{"n": 0}, None, None] and earlier.ticks() == [0]


def test_of_many_equal_names_each_has_the_least_number_that_is_free():
    taken = {"x", *(f"x {number}" for number in range(2, 10_001))}
    assert free_name("x", taken) == "x 10001" and free_name("y", taken) == "y"
    assert free_name("x", taken - {"x 4321"}) == "x 4321" and free_name("x", taken - {"x"}) == "x"
    assert free_name("x", ["x", "x two", "x 2 b", "xx 2"]) == "x 2"


@pytest.mark.slow
def test_more_branches_of_branches_than_calls_of_python_go():
    batch, steps = rf.Dim(1, name="batch"), rf.Dim(3, name="steps")

    def count():
        loop = rf.Loop(axis=steps, name="count")
        loop.state.h = rf.zeros([batch])
        for _ in loop:
            loop.state.h = loop.state.h + 1.0
        return loop.state.h

    first = run = rf.run(count)
    for _ in range(1200):
        run.wait()
        run = run.from_step(1, lambda at: at.states["h"].__setitem__(..., 5.0), paused=False)
    assert run.result.numpy() == [7.0] and run.root is first and run.look(1)["h"].numpy() == [1.0]
    assert len(run.tree()) == 1201 and len(spec(run).head["runs"]) < 300


def test_the_name_of_a_branch_that_was_let_go_is_free_again(run):
    other = run.from_step(1, lambda at: at.force("a", hypothesis=1), name="other")
    assert other.wait(LONG)
    below = other.from_step(2, lambda at: at.ban("c"), name="below")
    assert (other.name, below.name) == ("other 2", "below") and below.wait(LONG)
    answers = []
    obey(run, {"do": "let_go", "number": other.number}, answers.append)
    assert answers == [None]
    again = run.from_step(1, lambda at: None, name="other")
    assert again.wait(LONG)
    deep = again.from_step(2, lambda at: None, name="below")
    assert (again.name, deep.name) == ("other 2", "below") and deep.wait(LONG)
    assert run.find("below") is deep and set(run._names) == set(run.tree())
