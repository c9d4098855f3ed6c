"""`rf.explore` without a notebook: inputs, the newest values win, errors; the page is tested in tests/browser/test_explore.py."""

import threading

import numpy as np
import pytest
from viz.two_searches import branch_tree

import rfnb as rf
from rfnb import Dim
from rfnb.viz.explore.inputs import inputs_of

LONG = 60.0
TIME, FEAT = Dim(6, name="time"), Dim(3, name="feat")


def sums(factor=2.0, steps=6):
    """A loop whose result says what it was called with."""
    loop = rf.Loop(axis=TIME, name="sums")
    loop.state.h = rf.zeros([FEAT])
    for step in loop:
        loop.state.h = loop.state.h + (factor if step < steps else 0.0)
    return loop.state.h


def explored(fn, **inputs):
    explorer = rf.explore(fn, **inputs)
    assert explorer.wait(LONG)
    return explorer


@pytest.fixture(autouse=True)
def quiet(capsys):
    yield
    capsys.readouterr()


# -- inputs ------------------------------------------------------------------------------------------------------------


def kinds(**given):
    return {name: (each.kind, each.value, each.range) for name, each in inputs_of(lambda **values: None, given).items()}


def test_an_input_is_what_its_value_says():
    dim, labels = Dim(4, name="unit"), Dim(3, name="labels", vocab=["a", "b", "c"])
    table = np.zeros(3)
    found = kinds(
        a="word", b=True, c=3, d=0.5, e=(1, 12), f=(0.0, 1.0), g=(0, 10, 5), h=["x", "y"], i={"few": 1, "many": 9},
        j=dim, k=labels, l=table, m=(0.5, 2.0, 0.5), n=[1, None],
    )  # fmt: skip
    assert found == {
        "a": ("text", "word", None),
        "b": ("switch", True, None),
        "c": ("whole", 3, None),
        "d": ("number", 0.5, None),
        "e": ("whole", 6, (1, 12, 1)),
        "f": ("number", 0.5, (0.0, 1.0, 0.01)),
        "g": ("whole", 5, (0, 10, 5)),
        "h": ("choice", "x", None),
        "i": ("choice", 1, None),
        "j": ("whole", 1, (0, 3, 1)),
        "k": ("choice", 0, None),
        "l": ("fixed", table, None),
        "m": ("number", 1.0, (0.5, 2.0, 0.5)),
        "n": ("choice", 1, None),
    }


def test_a_range_begins_with_the_default_of_the_function_if_that_is_in_it():
    def fn(a=5, b=50, c="y", d="z"):
        pass

    found = inputs_of(fn, {"a": (1, 12), "b": (1, 12), "c": ["x", "y"], "d": ["x", "y"]})
    assert {name: each.value for name, each in found.items()} == {"a": 5, "b": 6, "c": "y", "d": "x"}


@pytest.mark.parametrize(
    ("given", "value", "kept"),
    [(3, 4, 4), (0.5, 1, 1.0), ((1, 12), 12, 12), (["x", "y"], "y", "y"), (True, False, False), ({"a": 1}, 1, 1)],
)
def test_an_input_takes_values_of_its_type(given, value, kept):
    found = inputs_of(lambda x: None, {"x": given})["x"].checked(value)
    assert found == kept and type(found) is type(kept)


@pytest.mark.parametrize(
    ("given", "value", "message"),
    [
        (
            3,
            True,
            'explore: "x" takes values of another type.\n  given  bool True\n  takes  int\n'
            "An input keeps the type of its first value.",
        ),
        (
            "a",
            5,
            'explore: "x" takes values of another type.\n  given  int 5\n  takes  str\n'
            "An input keeps the type of its first value.",
        ),
        (
            (1, 12),
            13,
            'explore: "x" is out of its range.\n  given  13\n  range  1 to 12\nIts value must be within the range.',
        ),
        (
            ["a", "b"],
            "c",
            "explore: \"x\" has no such choice.\n  given    'c'\n  choices  a, b\nIts value is one of the choices.",
        ),
    ],
)
def test_a_value_that_an_input_does_not_take_is_refused(given, value, message):
    with pytest.raises((TypeError, ValueError)) as error:
        inputs_of(lambda x: None, {"x": given})["x"].checked(value)
    assert str(error.value) == message


@pytest.mark.parametrize("given", [(5, 1), (0.0, 0.0), (0, 5, 0), (0, 5, 9)])
def test_a_range_without_values_is_refused(given):
    with pytest.raises(ValueError) as error:
        rf.explore(lambda x: x, x=given)
    assert str(error.value) == (
        'explore: "x" has an invalid range.\n'
        f"  given  {given!r}\n"
        "A range has a minimum, a larger maximum, and a step that fits between them.\n"
        "    rf.explore(fn, x=(1, 12))"
    )


def test_what_cannot_be_called_so_is_refused():
    with pytest.raises(TypeError) as error:
        rf.explore("word", word="a")
    assert str(error.value) == (
        "explore: not a function.\n  given  str\nexplore calls a function with the values of the inputs.\n"
        '    rf.explore(lambda word: pronounce(model, word), word="phonetics")'
    )
    with pytest.raises(TypeError) as error:
        rf.explore(lambda word, size: 0, word="a")
    assert str(error.value) == (
        "explore: the inputs do not match the arguments of the function: missing a required argument: 'size'.\n"
        "  inputs    word\n"
        "  function  word, size\n"
        "Each argument without a default needs an input of its name.\n"
        '    rf.explore(lambda word, beam_size: search(word, beam_size), word="phonetics", beam_size=(1, 12))'
    )
    with pytest.raises(ValueError) as error:
        rf.explore(lambda x: 0, x=[])
    assert str(error.value) == (
        'explore: "x" has no choices.\n  given  none\nA list contains the values to choose from.'
    )


# -- runs --------------------------------------------------------------------------------------------------------------


def test_without_a_notebook_it_runs_once_and_prints_that(capsys):
    rf.explore(lambda word, times: [word] * times, word="ab", times=(1, 3))
    assert capsys.readouterr().out == 'explore: word = "ab", times = 2\nab\nab\n'


def test_the_result_is_that_of_the_newest_values():
    explorer = explored(sums, factor=(0.0, 4.0, 0.5))
    assert float(explorer.result.numpy()[0]) == 12.0
    for factor in np.arange(0, 4.5, 0.5):
        explorer.set(factor=float(factor))
    assert float(explorer.result.numpy()[0]) == 24.0
    assert explorer.values == {"factor": 4.0} and explorer.run.state == "done"
    assert explorer.run.trace.states["sums"]["h"].dims[0].extent == 6


def test_newer_values_stop_the_run_before_and_there_are_never_two():
    begun, stopped, now = threading.Event(), [], []

    def fn(x):
        now.append(x)
        assert len(now) == 1
        try:
            for step in range(10**9 if x == 0 else 3):
                rf.gate(step)
                begun.set()
        except BaseException:
            stopped.append(x)
            raise
        finally:
            now.remove(x)
        return x

    explorer = rf.explore(lambda x: 0 if x == 1 else fn(x), x=1)
    explorer.set(x=0)
    assert begun.wait(LONG)
    for x in range(2, 30):
        explorer.set(x=x)
    assert explorer.result == 29 and stopped[0] == 0 and explorer.values == {"x": 29}
    assert explorer.run.state == "done"


def test_of_many_changes_those_that_wait_are_left_out():
    begun, goes_on, seen = threading.Event(), threading.Event(), []

    def fn(x):
        seen.append(x)
        begun.set()
        assert goes_on.wait(LONG)
        return x

    goes_on.set()
    explorer = explored(fn, x=0)
    goes_on.clear()
    begun.clear()
    explorer.set(x=1)
    assert begun.wait(LONG)
    for x in range(2, 1000):
        explorer.set(x=x)
    goes_on.set()
    assert explorer.result == 999 and seen == [0, 1, 999]


def test_a_value_that_is_there_already_runs_nothing():
    seen = []
    explorer = explored(lambda x: seen.append(x), x=1)
    explorer.set(x=1)
    assert explorer.wait(LONG) and seen == [1]


def test_what_the_function_raises_is_raised_where_its_result_is_asked_for_and_shown():
    explorer = explored(lambda x: 1 / x, x=1.0)
    explorer.set(x=0.0)
    with pytest.raises(ZeroDivisionError):
        explorer.result
    assert explorer.text() == "explore: x = 0\nZeroDivisionError: float division by zero"
    explorer.set(x=4.0)
    assert explorer.result == 0.25


def explored_without_end():
    """An explorer whose run makes steps for ever, until x is 0."""
    begun = threading.Event()

    def fn(x):
        for step in range(10**9 if x else 1):
            rf.gate(step)
            begun.set()

    explorer = explored(fn, x=0)
    begun.clear()
    explorer.set(x=1)
    assert begun.wait(LONG)
    with explorer._changed:
        assert explorer._changed.wait_for(lambda: explorer.run.state == "running", LONG)
    return explorer


def test_a_run_that_is_stopped_by_hand_has_no_result():
    explorer = explored_without_end()
    explorer.run.stop()
    with pytest.raises(RuntimeError, match="it was stopped after"):
        explorer.result
    explorer.set(x=0)
    assert explorer.result is None


def test_waiting_for_a_paused_run_says_so():
    explorer = explored_without_end()
    explorer.run.pause()
    with pytest.raises(RuntimeError) as error:
        explorer.wait()
    lines = str(error.value).splitlines()
    assert lines[0] == "explore: the run is paused." and lines[-1] == "    explorer.run.resume()"
    explorer.set(x=0)
    assert explorer.result is None


def test_an_input_that_there_is_not_changes_nothing():
    explorer = explored(lambda x, y: x, x=1, y="a")
    with pytest.raises(KeyError) as error:
        explorer.set(x=2, z=3)
    assert str(error.value) == 'explore: there is no input "z".\n  inputs  x, y\nThe explorer has these inputs.'
    with pytest.raises(TypeError):
        explorer.set(x=2, y=3)
    assert explorer.values == {"x": 1, "y": "a"} and explorer.result == 1


def test_what_is_current_in_the_cell_is_so_in_each_run():
    import torch

    with torch.no_grad():
        explorer = explored(lambda x: torch.is_grad_enabled(), x=1)
    assert explorer.result is False
    explorer.set(x=2)
    assert explorer.result is False and torch.is_grad_enabled()


# -- what is shown -----------------------------------------------------------------------------------------------------


def shown(result, **options):
    explorer = rf.explore(lambda x: result() if callable(result) else result, x=1, **options)
    assert explorer.wait(LONG)
    return {name: view.kind for name, view in explorer._views.items()}, explorer._shown.text


def test_what_a_result_is_shown_as():
    batch = Dim(2, name="batch")
    x = rf.zeros([batch, FEAT])
    assert shown(None) == ({}, "")
    assert shown("a\nb") == ({}, "a\nb")
    assert shown([1.5, "b"]) == ({}, "1.5\nb")
    assert shown({"loss": 0.5}) == ({}, "loss: 0.5")
    assert shown(lambda: x) == ({"result": "dims"}, "")
    assert shown(lambda: (x, x)) == ({"result": "dims"}, "")
    assert shown(lambda: {"x": x}) == ({"result": "dims"}, "")
    view = rf.viz.attention(np.eye(3), source=list("abc"), target=list("abc"))
    assert shown(lambda: view) == ({"result": "attention"}, "")
    assert shown(lambda: view.spec) == ({"result": "attention"}, "")
    assert shown(list(range(100)))[1].endswith("\n… 70 more lines")


def test_what_two_runs_have_beside_each_other_is_shown_as_a_view():
    tree = branch_tree()
    main, other = list(tree.values())[:2]
    for result, kind in (
        (rf.diff(main.trace, other.trace), "diff"),
        (tree, "branches"),
        (rf.compare_runs(main, other), "branches"),
    ):
        assert shown(lambda result=result: result, record=False) == ({"result": kind}, "")


def test_what_is_recorded_is_shown_with_the_result():
    assert shown(sums) == ({"result": "dims", "trace": "group"}, "") or shown(sums)[0]["trace"] == "states"
    assert shown(lambda: [float(sums().numpy()[0])])[1] == "12.0"
    assert shown(sums, record=False) == ({"result": "dims"}, "")
    assert "trace" not in shown(sums, record={"kinds": "attention"})[0]


def test_the_views_of_the_next_run_are_the_same_ones():
    explorer = explored(sums, factor=(0.0, 4.0, 0.5))
    before = dict(explorer._views)
    explorer.set(factor=0.5)
    assert explorer.wait(LONG)
    assert {name: id(view) for name, view in explorer._views.items()} == {name: id(v) for name, v in before.items()}
