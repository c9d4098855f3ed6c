"""The objects of a run are copied, pickled, compared and printed, or refuse with a sentence, in every state of the run."""

import copy
import pickle

import numpy as np
import pytest
from asserting import raises_message
from control.held_models import letters, sums
from control.held_programs import PROGRAMS
from control.watched_threads import result_of, stands

import rfnb as rf

STAGES = ["paused", "branched", "done", "stopped", "failed"]
COPIES = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda given: pickle.loads(pickle.dumps(given))}


def run_at(stage, fn):
    """A run of a function that has come so far."""

    def fails():
        fn()
        raise ValueError("after all")

    run = rf.run(fails if stage == "failed" else fn, paused=stage != "failed", name="it")
    stands(run)
    if stage == "branched":
        run.step(2)
        path, step = run.steps[0]
        stands(run.from_step(step, path=path, nth=0))
    elif stage == "done":
        result_of(run)
    elif stage == "stopped":
        run.step(2).stop()
    return run


@pytest.mark.parametrize("name", [*PROGRAMS, "letters"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_tree_is_copied_with_all_that_it_has(name, stage):
    run = run_at(stage, PROGRAMS.get(name, letters))
    tree = run.tree()
    for given in (tree, tree["it"], tree["it"].outcome, run.steps, run.changes):
        for fn in COPIES.values():
            made = fn(given)
            assert made == given and repr(made) == repr(given) and str(made) == str(given)
    assert str(copy.deepcopy(tree)) == str(tree)
    assert copy.deepcopy(run.trace).counts() == run.trace.counts()
    for value in tree["it"].outcome.values.values():
        assert not getattr(value.raw_tensor, "requires_grad", False)  # no graph is kept for a text


def test_outcomes_with_other_numbers_are_not_the_same():
    run = rf.run(sums())
    _ = run.result
    one, other = run.tree(), run.from_step(2, lambda at: at.states["h"].scale(2.0), name="other")
    _ = other.result
    assert one["it" if "it" in one else run.name].outcome != run.tree()["other"].outcome


A_RUN = (
    "A run cannot be pickled or copied.\n  object  {}\nA run is a thread of this process. To keep its data, store its trace "
    'and those of its branches:\n    run.save("run.rfnb")'
)
THERE = (
    "A part of a position of a run cannot be pickled or copied.\n  object  {}\n"
    'Such an object belongs to its position. To keep its values, take the Tensor or an array:\n    run.at.states["h"].tensor'
)
REFUSED = {
    "Run": (A_RUN, lambda run: run),
    "Position": (A_RUN, lambda run: run.at),
    "Breakpoint": (A_RUN, lambda run: run.break_when("h.max() > 99")),
    "PositionStates": (THERE, lambda run: run.at.states),
    "StateValue": (THERE, lambda run: run.at.states["h"]),
    "PositionAttention": (THERE, lambda run: run.at.attention),
    "Rows": (THERE, lambda run: run.at.attention["att"]),
}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("kind", REFUSED)
def test_what_belongs_to_a_run_is_not_copied(kind, how):
    run = run_at("paused", sums())
    text, get = REFUSED[kind]
    given = get(run)
    assert type(given).__name__ == kind and repr(given) == repr(given) and (given == given) in (True, False)
    with raises_message(TypeError, text.format(kind)):
        COPIES[how](given)
    run.stop()


@pytest.mark.parametrize("how", COPIES)
def test_numbers_of_a_state_are_copied(how):
    run = run_at("branched", sums())
    numbers = run.at.states["h"].numbers()
    made = COPIES[how](numbers)
    np.testing.assert_array_equal(made.host, numbers.host)
    assert made.max(axis="feat").host.tolist() == numbers.max(axis="feat").host.tolist()


@pytest.mark.parametrize("how", COPIES)
def test_a_comparison_and_what_differs_are_copied(how):
    run = rf.run(sums(), name="it")
    _ = run.result
    other = run.from_step(2, lambda at: at.states["h"].scale(2.0), name="other")
    _ = other.result
    compared = rf.compare_runs(run, other)
    assert str(COPIES[how](compared)) == str(compared)
    assert COPIES[how](compared.diff).text == compared.diff.text
