"""All methods and page commands that take a step, an index or a count interpret it correctly or refuse it."""

import math
import queue

import numpy as np
import pytest
from control.attending import decoding
from control.held_models import letters, sums
from waiting import LONG

import rfnb as rf
from rfnb.control.commands import COMMANDS, obey
from rfnb.control.live_runs import stop_all
from rfnb.viz import View
from rfnb.viz.exact_values import Source

BAD = {
    "below 0": -1, "beyond the end": 1000, "half": 1.5, "whole as a float": 1.0, "NaN": math.nan, "infinite": math.inf, "True": True,
    "a text": "x", "a list": [0.5], "a dict": {}, "nothing": None,
}  # fmt: skip


def held(steps, fn):
    return rf.run(fn, paused=True).step(steps)


class World:
    """The objects with steps, made once."""

    def __init__(self):
        self.sums, self.decoding, self.letters = held(2, sums()), held(2, decoding()), held(2, letters)
        done, searched = rf.run(decoding()), rf.run(letters)
        assert done.result is not None and searched.result is not None
        self.trace, self.tree, self.diff = done.trace, done.tree(), rf.diff(done.trace, done.trace)
        self.history = next(iter(searched.trace.beams.values()))
        keys = np.random.default_rng(0).standard_normal((2, 3, 8, 4)).astype("float32")
        self.long, self.weights = rf.LongAttention(keys, keys), np.full((2, 3, 4, 5), 0.2, "float32")


@pytest.fixture(scope="module")
def world():
    yield World()
    stop_all()


@pytest.fixture(autouse=True)
def no_run_is_left():
    """These stand until the last test of the file."""


# What takes one: a call of a value, and the names of BAD that are good there.
FROM_THE_END, ANY = "below 0", set(BAD)
CALLS = {
    "run.step": (lambda w, v: held(1, sums()).step(v, timeout=LONG), {"beyond the end"}),
    "run.break_when": (lambda w, v: w.sums.break_when(v), {"beyond the end"}),  # said in the end, that step was never reached
    "run.break_when path": (lambda w, v: w.sums.break_when(1, path=v), {"a text", "nothing"}),
    "run.look": (lambda w, v: w.sums.look(v), ()),
    "run.look nth": (lambda w, v: w.sums.look(1, nth=v), {"nothing"}),
    "run.from_step": (lambda w, v: w.sums.from_step(v), ()),
    "run.from_step nth": (lambda w, v: w.sums.from_step(1, nth=v), {"nothing"}),
    "run.find": (lambda w, v: w.sums.find(v), ()),
    "at.states": (lambda w, v: w.sums.at.states[v], ()),
    "at.states[][]": (lambda w, v: w.sums.at.states["h"][{"batch": v}], {FROM_THE_END}),
    "at.states[][] of a list": (lambda w, v: w.sums.at.states["h"][{"batch": [v]}], {FROM_THE_END}),
    "at.states[][]=": (lambda w, v: w.sums.at.states["h"].__setitem__({"feat": v}, 0.0), {FROM_THE_END}),
    "at.states noise": (lambda w, v: w.sums.at.states["h"].add_noise(0.1, seed=v), {"beyond the end"}),
    "at.attention": (lambda w, v: w.decoding.at.attention[v].uniform(), ()),
    "at.attention entries": (lambda w, v: w.decoding.at.attention["att"].uniform({"batch": v}), {FROM_THE_END}),
    "at.attention focus": (lambda w, v: w.decoding.at.attention["att"].focus(v), ()),
    "at.attention during": (lambda w, v: w.decoding.at.attention["att"].during(v).uniform(), {"nothing"}),
    "at.force": (lambda w, v: w.letters.at.force(v), ()),
    "at.force then": (lambda w, v: w.letters.at.force("a", v), ()),
    "at.force seq": (lambda w, v: w.letters.at.force("a", seq=v), ()),
    "at.force hypothesis": (lambda w, v: w.letters.at.force("a", hypothesis=v), {"nothing"}),
    "at.ban": (lambda w, v: w.letters.at.ban(v), ()),
    "at.ban seq": (lambda w, v: w.letters.at.ban("a", seq=v), ()),
    "at.ban hypothesis": (lambda w, v: w.letters.at.ban("a", hypothesis=v), {"nothing"}),
    "at.end": (lambda w, v: w.letters.at.end(v), ()),
    "at.end hypothesis": (lambda w, v: w.letters.at.end(1, v), {"nothing"}),
    "at.go_on": (lambda w, v: w.letters.at.go_on(v), ()),
    "at.go_on hypothesis": (lambda w, v: w.letters.at.go_on(1, v), {"nothing"}),
    "tree[]": (lambda w, v: w.tree[v], ()),
    "tree.children": (lambda w, v: w.tree.children(v), ()),
    **{
        f"history.{name} {what}": (lambda w, v, name=name, at=at: getattr(w.history, name)(*[v if i == at else 1 for i in range(3)]), good)
        for name in ("path", "hypothesis", "from_slot", "fate")
        for at, (what, good) in enumerate(
            [("seq", ()), ("k", ()), ("step", {"nothing"} if name in ("path", "hypothesis", "from_slot") else ())]
        )
    },
    **{
        f"history.{name} {what}": (lambda w, v, name=name, at=at: getattr(w.history, name)(*[v if i == at else 1 for i in range(2)]), ())
        for name in ("verdicts", "left")
        for at, what in enumerate(["seq", "step"])
    },
    **{f"history.{name}": (lambda w, v, name=name: getattr(w.history, name)(v), ()) for name in ("finished", "nbest", "best")},
    "history.nbest exponent": (lambda w, v: w.history.nbest(0, length_exponent=v), {FROM_THE_END, "half", "whole as a float", "nothing"}),
    "history.rerank": (lambda w, v: w.history.rerank(v, length_exponent=1.0), ()),
    "history.smaller": (lambda w, v: w.history.smaller(v, 1), ()),
    "history.smaller beam": (lambda w, v: w.history.smaller(0, v), {"beyond the end"}),  # what it keeps is an estimate, and says so
    "history.beam_size": (lambda w, v: w.history.beam_size(v), {FROM_THE_END}),
    "history.diagnose": (lambda w, v: w.history.diagnose(v, ["a", "#"]), ()),
    "history.diagnose label": (lambda w, v: w.history.diagnose(0, [v]), ()),
    "history.labels_along": (lambda w, v: w.history.labels_along(0, v), ()),
    **{
        f"trace.attention.{name} run": (lambda w, v, name=name: getattr(w.trace.attention, name)("att", v), {FROM_THE_END})
        for name in ("steps", "events", "step_dim")
    },
    "trace.attention[]": (lambda w, v: w.trace.attention[v], ()),
    "trace.attention[] run": (lambda w, v: w.trace.attention["att", v], {FROM_THE_END, "nothing"}),
    "trace.select step": (lambda w, v: w.trace.select(step=v), {FROM_THE_END, "beyond the end", "a list", "a dict", "nothing"}),
    "diff.find step": (lambda w, v: w.diff.find("att", step=v), {"nothing"}),
    "long.rows start": (lambda w, v: w.long.rows(v, 4), ()),
    "long.rows stop": (lambda w, v: w.long.rows(0, v), ()),
    "long.rows head": (lambda w, v: w.long.rows(0, 1, head=v), ()),
    "long.rows seq": (lambda w, v: w.long.rows(0, 1, seq=v), ()),
    "long.overview head": (lambda w, v: w.long.overview(head=v), ()),
    "long.overview seq": (lambda w, v: w.long.overview(seq=v), ()),
    "viz.attention heads": (lambda w, v: rf.viz.attention(w.long, heads=v), {"nothing"}),
    "viz.attention seqs": (lambda w, v: rf.viz.attention(w.long, seqs=[v]), ()),
    "viz.attention lengths": (lambda w, v: rf.viz.attention(w.weights, source_lengths=[v, v]), {"whole as a float"}),
    "viz.branches pairs": (lambda w, v: rf.viz.branches(w.tree, pairs=v), {"beyond the end"}),
    "viz budget": (lambda w, v: rf.viz.attention(w.weights, budget=v), {"beyond the end", "nothing"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_place_that_there_is_not_is_refused_in_words(world, name):
    call, good = CALLS[name]
    before = [len(run.changes) for run in (world.sums, world.decoding, world.letters)]
    for what, value in BAD.items():
        if what in good:
            call(world, value)
            continue
        with pytest.raises((IndexError, KeyError, TypeError, ValueError)) as error:
            call(world, value)
        lines = str(error.value).splitlines()
        assert len(lines) > 1 and any(line.startswith("  ") for line in lines[1:]), f"{what}: {error.value!r}"
    after = [len(run.changes) for run in (world.sums, world.decoding, world.letters)]
    assert sum(after) - sum(before) <= len(good)


def test_a_table_of_calls_is_of_all_that_has_places(world):
    """A further method with such an argument is to be added above."""
    places = {"step", "steps", "seq", "nth", "k", "hypothesis", "head", "beam_size", "path", "start"}
    known = {name.split()[0].partition(".")[2].rstrip("[]=") for name in CALLS}
    for value in (world.sums, world.sums.at, world.history, world.long):
        for name in dir(type(value)):
            fn = getattr(type(value), name)
            if not name.startswith("_") and callable(fn) and hasattr(fn, "__code__"):
                taken = set(fn.__code__.co_varnames[: fn.__code__.co_argcount + fn.__code__.co_kwonlyargcount])
                assert not taken & places or name in known | LEFT, f"{type(value).__name__}.{name}"


LEFT = {
    "save",  # the path of a file
    "prefix", "end", "text", "along", "parents_along", "labels_of", "label", "num_labels",
    # come to one above, or have the same for every step
}  # fmt: skip
MESSAGES = [
    (name, field, value)
    for name, command in COMMANDS.items()
    for field in command.fields
    for value in (*BAD.values(), [[]], "", {"batch": -1}, [{}], [{"do": "set", "state": "h", "from": {"path": "x", "step": "y"}}], 10**400)
    if (name, field) != ("branch", "name")
]  # fmt: skip
GOOD = {
    "step": {"steps": 1}, "speed": {"value": 0}, "break": {"when": 50}, "unbreak": {"number": 1},
    "force": {"label": "a"}, "ban": {"label": "a"},
    "set": {"state": "nothing", "how": "zero"}, "attention": {"path": "nothing", "uniform": True}, "branch": {"step": 900},
    "edit": {"step": 900, "path": "sums", "nth": 0, "then": []},
}  # fmt: skip


def test_a_message_of_a_page_with_something_else_in_a_field_is_answered_with_a_sentence_of_ours(world):
    """It ends as the same message with good fields, or in a sentence that names no error of Python."""
    for name, field, value in MESSAGES:
        if name == "step" and type(value) is int and value > 0:
            continue  # done, as it is asked for
        answers = queue.Queue()
        obey(world.letters, {"do": name, **GOOD.get(name, {}), field: value}, answers.put)
        said = answers.get(timeout=LONG)
        error = said is not None and said.split(":")[0] in (
            "TypeError",
            "ValueError",
            "IndexError",
            "KeyError",
            "AttributeError",
            "OverflowError",
        )
        assert not error and "Traceback" not in str(said), (name, field, value, said)
    assert world.letters.state == "paused" and world.letters.at.step == 2


def test_what_a_page_asks_for_that_a_view_has_not_is_answered_with_nothing():
    source, spec = Source(), View(rf.viz.states({"h": np.ones((5, 4), "float32")}).spec).spec
    version, block = source.publish(spec), next(iter(spec.blocks))
    rank = spec.blocks[block].ndim
    wrong = [
        *BAD.values(),
        [-1] * rank,
        [10**30] * rank,
        ["x"] * rank,
        [0.5] * rank,
        [math.nan] * rank,
        [None] * rank,
        [[]] * rank,
    ]
    for field in ("block", "start", "size", "pick", "version", "range"):
        for value in wrong:
            if (
                (field == "pick" and value is None)
                or (field == "version" and value == version)
                or (field == "range" and not value)
            ):
                continue
            asked = {"id": 1, "version": version, "block": block, "start": [0] * rank, "size": [1] * rank, field: value}
            for answer in (source.answer, source.whole) if field in ("version", "range") else (source.answer,):
                message, buffers = answer(asked)
                assert message["id"] == 1
                if not (field == "size" and buffers) and (field != "range" or answer == source.whole):
                    assert buffers == [], (field, value)
