"""Python variables carried from step to step in place of a loop state: `for` warns of tensors, `with` refuses all that it can detect."""

import inspect
import itertools
import random
import types
import warnings
from array import array
from collections import deque

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged

import rfnb as rf
from rfnb import Dim
from rfnb.rec import reachable_objects
from rfnb.rec.step_tensor import RecordingError

BATCH, FEAT = Dim(2, name="batch"), Dim(3, name="feat")
TIME = ragged([5, 3], BATCH, "time")


def source():
    return rf.expand_dim(rf.range_over_dim(TIME, dtype="float32"), dim=BATCH)


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(index for index, line in enumerate(lines) if text in line)


def forgotten_in_for():
    x, h = source(), rf.zeros([BATCH])
    loop = rf.Loop(axis=TIME)
    for _ in loop:
        h = h + loop.unstack(x)
        out = loop.stack(h)
    return out


def forgotten_in_with():
    x, h = source(), rf.zeros([BATCH])
    loop = rf.Loop(axis=TIME)
    with loop:
        h = h + loop.unstack(x)
        out = loop.stack(h)
    return out


def test_for_warns_of_a_forgotten_state():
    with pytest.warns(UserWarning) as caught:
        forgotten_in_for()
    line = line_of(forgotten_in_for, "h = h +")
    assert (caught[0].filename, caught[0].lineno, len(caught)) == (__file__, line, 1)
    assert str(caught[0].message) == (
        f'Loop "loop": h, assigned in test_carried_variables.py:{line}, is carried by Python.\n'
        "  before        [batch=2] float32\n"
        "  after step 0  [batch=2] float32\n"
        "It keeps changing after a sequence has ended, and does not follow the hypotheses of a search; `with loop:` refuses it.\n"
        "A value that a step passes to the next one is a state of the loop:\n"
        "    loop.state.h = h      # before the loop\n"
        "    loop.state.h = ...      # in its body, from loop.state.h in place of h"
    )


def test_with_refuses_a_forgotten_state():
    with pytest.raises(RecordingError) as error:
        forgotten_in_with()
    assert str(error.value) == (
        'Loop "loop", recorded step: h, assigned in '
        f"test_carried_variables.py:{line_of(forgotten_in_with, 'h = h +')}, is carried by Python.\n"
        "  before  [batch=2] float32\n"
        "  after   [batch=2] float32\n"
        "The body of `with loop:` runs once, so every step would get the value from before the loop.\n"
        "A value that a step passes to the next one is a state of the loop:\n"
        "    loop.state.h = h      # before the loop\n"
        "    loop.state.h = ...      # in its body, from loop.state.h in place of h"
    )


def test_the_state_of_a_unit_and_a_first_number_count_as_well():
    unit = rf.LSTM(FEAT, Dim(5, name="out"))
    x = rf.random_normal([TIME, BATCH, FEAT], feature_dim=FEAT)

    def with_unit():
        state, loop = unit.default_initial_state(batch_dims=[BATCH]), rf.Loop(axis=TIME)
        with loop:
            y, state = unit(loop.unstack(x), state=state, spatial_dim=rf.single_step_dim)
            loop.stack(y)

    def for_unit():
        state, loop = unit.default_initial_state(batch_dims=[BATCH]), rf.Loop(axis=TIME)
        for _ in loop:
            y, state = unit(loop.unstack(x), state=state, spatial_dim=rf.single_step_dim)
            loop.stack(y)

    def with_number():
        total, loop = 0, rf.Loop(axis=TIME)
        with loop:
            total += loop.unstack(x)
            loop.stack(total)

    def for_number():
        total, loop = 0, rf.Loop(axis=TIME)
        for _ in loop:
            total += loop.unstack(x)
            loop.stack(total)

    for refused, name in ((with_unit, "state"), (with_number, "total")):
        with pytest.raises(RecordingError, match=f"recorded step: {name}, assigned in .* is carried by Python"):
            refused()
    for warned, name in ((for_unit, "state"), (for_number, "total")):
        with pytest.warns(UserWarning, match=f": {name}, assigned in .* is carried by Python"):
            warned()


def test_a_cell_of_a_notebook_is_seen_too():
    """There, names are global, and no source file is at hand."""
    code = "loop = rf.Loop(axis=TIME)\nh = rf.zeros([BATCH])\n{head} loop:\n  h = h + loop.unstack(x)\n  out = loop.stack(h)\n"
    scope = {"rf": rf, "TIME": TIME, "BATCH": BATCH, "x": source()}
    with pytest.raises(RecordingError, match=r"h, assigned in <cell>:4, is carried by Python"):
        exec(compile(code.format(head="with"), "<cell>", "exec"), scope)
    with pytest.warns(UserWarning, match=r"h, assigned in <cell>:4, is carried by Python"):
        exec(compile(code.format(head="for _ in"), "<cell>", "exec"), scope)


class Model:
    """A model with methods that keep values."""

    def __init__(self):
        self.h, self.hs, self.by_name = rf.zeros([BATCH]), [rf.zeros([BATCH])], {"h": rf.zeros([BATCH])}
        self.count, self.part = 0, types.SimpleNamespace(h=rf.zeros([BATCH]))

    def attribute(self, x):
        self.h = self.h + x
        return self.h

    def item(self, x):
        self.hs[0] = self.hs[0] + x
        return self.hs[0]

    def key(self, x):
        self.by_name["h"] = self.by_name["h"] + x
        return self.by_name["h"]

    def deeper(self, x):
        self.part.h = self.part.h + x
        return self.part.h

    def counter(self, x):
        self.count += 1
        return x * self.count


total = None


def of_a_global(x):
    global total
    total = total + x
    return total


def of_a_closure():
    h = rf.zeros([BATCH])

    def call(x):
        nonlocal h
        h = h + x
        return h

    return call


def with_own(value, change):
    """A function that changes a value of its own in each call."""

    def call(x):
        return x * float(change(value))

    return call


CHANGES = {
    "attribute": (lambda: Model().attribute, "call.__self__.h", "carried by Python"),
    "item": (lambda: Model().item, "call.__self__.hs[0]", "carried by Python"),
    "key": (lambda: Model().key, "call.__self__.by_name['h']", "carried by Python"),
    "attribute of an attribute": (lambda: Model().deeper, "call.__self__.part.h", "carried by Python"),
    "counter": (lambda: Model().counter, "call.__self__.count", "carried by Python"),
    "global": (lambda: of_a_global, "total", "carried by Python"),
    "closure": (of_a_closure, "h", "carried by Python"),
    "list": (lambda: with_own([], lambda v: v.append(1) or len(v)), "value", "changed in place"),
    "deque": (lambda: with_own(deque(), lambda v: v.append(1) or len(v)), "value", "changed in place"),
    "set": (lambda: with_own(set(), lambda v: v.add(len(v)) or len(v)), "value", "changed in place"),
    "array": (lambda: with_own(np.zeros(3), lambda v: v.__iadd__(1)[0]), "value", "changed in place"),
    "torch, in place": (lambda: with_own(torch.zeros(3), lambda v: v.add_(1)[0]), "value", "changed in place"),
    "NumPy generator": (lambda: with_own(np.random.default_rng(0), lambda v: v.random()), "value", "changed in place"),
    "old NumPy generator": (lambda: with_own(np.random.RandomState(0), lambda v: v.rand()), "value", "changed in place"),
    "Python generator": (lambda: with_own(random.Random(0), lambda v: v.random()), "value", "changed in place"),
    "torch generator": (lambda: with_own(torch.Generator(), torch.Generator.seed), "value", "changed in place"),
    "iterator": (lambda: with_own(iter(range(9)), next), "value", "changed in place"),
    "count": (lambda: with_own(itertools.count(), next), "value", "changed in place"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_with_refuses_what_the_body_changes_beyond_its_names(name):
    make, path, how = CHANGES[name]
    global total
    total = rf.zeros([BATCH])
    x, call, loop = source(), make(), rf.Loop(axis=TIME)
    with pytest.raises(RecordingError) as error:
        with loop:
            loop.stack(call(loop.unstack(x)))
    assert str(error.value).splitlines()[0] == f'Loop "loop", recorded step: {path} is {how}.'


def test_what_is_changed_in_place_is_shown_without_its_values():
    x, loop, kept = source(), rf.Loop(axis=TIME), []
    with pytest.raises(RecordingError) as error:
        with loop:
            kept.append(1)
            loop.stack(loop.unstack(x) * len(kept))
    line = line_of(test_what_is_changed_in_place_is_shown_without_its_values, "loop.stack(")
    assert str(error.value) == (
        'Loop "loop", recorded step: kept is changed in place.\n'
        "  before  list of 0\n"
        "  after   list of 1\n"
        f"  step 1  mul gets other arguments, test_carried_variables.py:{line}\n"
        "The body of `with loop:` runs once, so every step would get the value from before the loop.\n"
        "Collect values with loop.stack(...), and draw random numbers with rf.random_...; or let Python run every step:\n"
        "    for _ in loop:"
    )


ADD = {
    "list": ([7], list.append), "deque": (deque([7]), deque.append), "set": ({7}, set.add),
    "dict": ({7: 7}, lambda d, n: d.update({n: n})), "bytes": (bytearray([7]), bytearray.append), "array": (array("d", [7]), array.append),
}  # fmt: skip


@pytest.mark.parametrize("name", ADD)
def test_what_is_changed_in_place_is_afterwards_as_one_step_left_it(name):
    """The steps that are asked what they would do leave nothing."""
    x, loop, (value, add) = source(), rf.Loop(axis=TIME), ADD[name]
    with pytest.raises(RecordingError):
        with loop:
            add(value, len(value))
            loop.stack(loop.unstack(x) * len(value))
    assert sorted(value) == [1, 7]


def test_an_attribute_assigned_in_the_body_is_named_with_its_line():
    def run():
        model, x, loop = Model(), source(), rf.Loop(axis=TIME)
        with loop:
            model.h = model.h + loop.unstack(x)
            loop.stack(model.h)

    with pytest.raises(
        RecordingError, match=f"model.h, assigned in test_carried_variables.py:{line_of(run, 'model.h = ')}, is"
    ):
        run()


def test_a_counter_is_made_a_state_of_a_tensor():
    x, loop, count = source(), rf.Loop(axis=TIME), 0
    with pytest.raises(
        RecordingError, match=r"\n    loop.state.count = rf.constant\(0, dims=\[\]\)      # before the loop"
    ):
        with loop:
            count += 1
            loop.stack(loop.unstack(x) * count)


def names_used_again(loop, x, head):
    """Names that are bound before the loop, and assigned before they are read, or read for another reason."""
    h = rf.zeros([BATCH])
    loop.state.h = h
    scale, y, seen, memo = (
        rf.constant(2.0, dims=[]),
        rf.ones([BATCH]),
        None,
        types.SimpleNamespace(last=rf.zeros([BATCH])),
    )
    for_all = [scale, y]

    def body():
        memo.last = loop.state.h * scale
        return memo.last

    if head == "for":
        for _ in loop:
            x_t = loop.unstack(x)
            h = loop.state.h + x_t
            for factor in for_all:
                h = h * factor
            y = body() + h
            loop.state.h = h
            out = loop.stack(y)
    else:
        with loop:
            x_t = loop.unstack(x)
            h = loop.state.h + x_t
            for factor in for_all:
                h = h * factor
            y = body() + h
            loop.state.h = h
            out = loop.stack(y)
    assert seen is None
    return out


def test_names_that_are_assigned_before_they_are_read_are_nobodys_business():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results = [names_used_again(rf.Loop(axis=TIME), source(), head) for head in ("for", "with")]
    assert_same(*results)


def test_a_name_that_only_the_other_branch_carries_is_fine():
    """`y` may be read first as far as the code says, but what it was before is not computed with."""
    x, y, loop = source(), rf.ones([BATCH]), rf.Loop(axis=TIME)
    with loop:
        for number in range(2):
            y = loop.unstack(x) if number == 0 else y * 2.0
        out = loop.stack(y)
    assert_same(out, source() * 2.0)


def test_the_source_may_be_replaced_by_its_frame():
    """The second step of `for` cannot unstack a frame, and says so."""
    x, loop = source(), rf.Loop(axis=TIME)
    with loop:
        x = loop.unstack(x)
        out = loop.stack(x)
    assert_same(out, source())


def test_counters_and_lists_are_free_in_for():
    x, loop, count, kept = source(), rf.Loop(axis=TIME), 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in loop:
            count += 1
            kept.append(loop.unstack(x))
    assert (count, len(kept)) == (5, 5)


def test_an_error_in_the_body_comes_out_as_it_is():
    h, loop = rf.zeros([BATCH]), rf.Loop(axis=TIME)
    with pytest.raises(KeyError):
        with loop:
            h = h + 1.0
            raise KeyError("mine")


def test_no_frame_is_kept_alive():
    """The loop forgets the variables around it, else big tensors would live on with it."""
    loop = rf.Loop(axis=TIME)
    with loop:
        loop.stack(loop.unstack(source()))
    assert loop._recorded is None


def test_a_loop_is_recorded_under_inference_mode_and_what_is_counted_there_is_refused():
    with torch.inference_mode():
        bias, count = rf.convert_to_tensor(torch.ones(3), dims=[FEAT]), torch.zeros(1)

        def run(counts):
            loop = rf.Loop(axis=TIME)
            loop.state.h = rf.zeros([BATCH, FEAT])
            with loop:
                loop.state.h = loop.state.h + bias
                if counts:
                    count.add_(1)
            return loop.state.h

        assert run(False).raw_tensor.tolist() == [[5.0] * 3, [3.0] * 3]
        with pytest.raises(RecordingError, match="count"):
            run(True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_what_stays_as_it_is_is_told_from_what_changes_under_inference_mode_for_all_dtypes(dtype):
    with torch.inference_mode():
        grid = torch.ones(4, 3).to(dtype)
        if dtype.is_floating_point:
            grid[0, 0] = float("nan")  # which is not equal to itself
        single, views = torch.zeros((), dtype=dtype), (grid[:, 1], grid.T, grid[:, ::2])

        def run(changed):
            loop = rf.Loop(axis=TIME)
            loop.state.h = rf.zeros([BATCH, FEAT])
            with loop:
                loop.state.h = loop.state.h + 1.0
                for read in (single, *views):
                    assert read.ndim < 3
                if changed is not None:
                    changed.fill_(0 if changed.any() else 1)
            return loop.state.h

        assert run(None).raw_tensor.tolist() == [[5.0] * 3, [3.0] * 3]
        for changed in (single, *views):
            with pytest.raises(RecordingError, match="changed in place"):
                run(changed)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
def test_one_entry_of_a_table_that_changes_under_inference_mode_is_seen(dtype):
    with torch.inference_mode():
        table, loop = torch.zeros(100, 300, dtype=dtype), rf.Loop(axis=TIME)
        with pytest.raises(RecordingError) as error, loop:
            table[99, 299] = True
            loop.stack(loop.unstack(source()))
    assert str(error.value).startswith('Loop "loop", recorded step: table')
    assert "is changed in place." in str(error.value)


def test_no_more_than_a_share_of_a_model_that_was_loaded_under_inference_mode_is_copied(monkeypatch):
    monkeypatch.setattr(reachable_objects, "_MOST_OF_TENSORS", 100)
    with torch.inference_mode():
        weights = [torch.zeros(1 << 20), *(torch.zeros(5) for _ in range(9))]  # the first is too large by itself
        slots = reachable_objects.reached({"weights": weights})
        for weight in weights:
            weight += 1
        seen = [slot.path for slot in slots if slot.change(lambda value: False) is not None]
    assert seen == [f"weights[{place}]" for place in range(1, 6)]
