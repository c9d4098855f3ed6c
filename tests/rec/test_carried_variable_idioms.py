"""Idioms of Python variables carried from step to step: `with loop:` gives the numbers of `for _ in loop:`, or refuses."""

import argparse
import array
import asyncio
import collections
import contextvars
import csv
import ctypes
import functools
import importlib
import io
import itertools
import logging
import os
import queue
import random
import sys
import threading
import types
import unittest.mock
import weakref

import numpy as np
import pytest
import torch
import tqdm
from asserting import assert_same

import rfnb as rf
from rfnb import Dim
from rfnb.rec.step_tensor import RecordingError

BATCH, TIME, FEAT = Dim(2, name="batch"), Dim(5, name="time"), Dim(2, name="feat")
X = rf.convert_to_tensor(torch.arange(10.0).view(2, 5), dims=[BATCH, TIME])


def run(face, step):
    """The last state of a loop with h = step(loop, h, x); in a `with`, step is called in the body itself."""
    loop = rf.Loop(axis=TIME)
    loop.state.h = rf.zeros([BATCH])
    if face == "for":
        for _ in loop:
            loop.state.h = step(loop, loop.state.h, loop.unstack(X))
    else:
        with loop:
            loop.state.h = step(loop, loop.state.h, loop.unstack(X))
    return loop.state.h


def refused(step):
    """The message of the RecordingError that it is refused with."""
    with pytest.raises(RecordingError) as error:
        run("with", step)
    return str(error.value)


class Slots:
    __slots__ = ("n",)


class OfClass:
    n = 0
    count = itertools.count(1)


class WithProperty:
    def __init__(self):
        self.deep = {"a": {"b": {"c": {"d": 0}}}}

    @property
    def n(self):
        return self.deep["a"]["b"]["c"]["d"]

    @n.setter
    def n(self, value):
        self.deep["a"]["b"]["c"]["d"] = value


class Called:
    def __init__(self):
        self.n = 0

    def __call__(self):
        self.n += 1
        return self.n


class TorchModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(()))

    def count(self):
        self.n += 1
        return float(self.n)


def with_default(value=[0]):  # noqa: B006
    value[0] += 1
    return value[0]


def with_attribute():
    with_attribute.n += 1
    return with_attribute.n


COUNT_OF_MODULE = 0


def of_the_module():
    global COUNT_OF_MODULE
    COUNT_OF_MODULE += 1
    return COUNT_OF_MODULE


def adds(owner, key, by=1):
    """owner[key] += by, or owner.key += by."""

    def add():
        if isinstance(key, str) and not hasattr(owner, "__setitem__"):
            setattr(owner, key, getattr(owner, key) + by)
            return getattr(owner, key)
        owner[key] = owner[key] + by
        return owner[key]

    return add


def in_context():
    variable = contextvars.ContextVar("n", default=0)

    def count():
        variable.set(variable.get() + 1)
        return variable.get()

    return count


def of_environment():
    os.environ["RFNB_TEST_N"] = "0"

    def count():
        os.environ["RFNB_TEST_N"] = str(int(os.environ["RFNB_TEST_N"]) + 1)
        return int(os.environ["RFNB_TEST_N"])

    return count


def of_a_module():
    module = sys.modules["rfnb_test_counting"] = types.ModuleType("rfnb_test_counting")
    module.n = 0

    def count():
        sys.modules["rfnb_test_counting"].n += 1
        return module.n

    return count


def none_first(owner, key):
    def count():
        owner[key] = 1 if owner[key] is None else owner[key] + 1
        return owner[key]

    return count


def flipped(owner):
    def flip():
        owner["f"] = not owner["f"]
        return 1.0 + owner["f"]

    return flip


def grown(owner, put):
    def grow():
        put(len(owner))
        return len(owner)

    return grow


def local():
    values = threading.local()
    values.n = 0
    return adds(values, "n")


def filled(kind):
    found = kind()
    for number in range(40):
        found.put(number)
    return found


def squares():
    number = 0
    while True:
        number += 1
        yield number * number


def from_loader():
    loader = iter(torch.utils.data.DataLoader(list(range(1, 50))))
    return lambda: float(next(loader)[0])


def of_slots():
    owner = Slots()
    owner.n = 0
    return adds(owner, "n")


def in_order():
    """The first of three, which becomes the last."""
    items = collections.OrderedDict(a=1, b=2, c=3)

    def count():
        name = next(iter(items))
        items.move_to_end(name)
        return items[name]

    return count


def of_weak_reference():
    held = Called()
    return functools.partial(lambda reference, _: reference()(), weakref.ref(held), held)


def of_weak_keys():
    held = Called()
    return functools.partial(lambda items, held: adds(items, held)(), weakref.WeakKeyDictionary({held: 0}), held)


def of_dispatch():
    count, add = functools.singledispatch(lambda value: 0), adds({"n": 0}, "n")
    count.register(str, lambda value: add())
    return functools.partial(count, "text")


def hung_on(owner):
    """An attribute that is put to an object of rfnb."""

    def count():
        owner.calls = getattr(owner, "calls", 0) + 1
        return owner.calls

    return count


def trace():
    with rf.record() as found:
        pass
    return found


def of_torch_layer():
    norm = torch.nn.BatchNorm1d(2)
    return lambda: (norm(torch.ones(3, 2)), int(norm.num_batches_tracked))[1]


def of_no_module():
    """A class of code that runs without `__name__`."""
    made = {}
    exec("class Counts:\n n = 0\n def __call__(self):\n  self.n += 1\n  return self.n", made)
    return made["Counts"]()


def of_coroutines():
    found = asyncio.Queue()
    for number in range(50):
        found.put_nowait(number)
    return found.get_nowait


def other_class():
    class Two(Called):
        def __call__(self):
            return 2

    owner = types.SimpleNamespace(one=Called())

    def count():
        found = owner.one()
        owner.one.n = 0
        owner.one.__class__ = Two
        return found

    return count


def other_code():
    def number():
        return 1

    def two():
        return 2

    def count():
        found = number()
        number.__code__ = two.__code__
        return found

    return count


# What gives another number in each call.
COUNTING = {
    "attribute": lambda: adds(types.SimpleNamespace(n=0), "n"),
    "attribute of a namespace": lambda: adds(argparse.Namespace(n=0), "n"),
    "slot": of_slots,
    "attribute of a class": lambda: adds(OfClass, "n"),
    "property": lambda: adds(WithProperty(), "n"),
    "attribute of a function": lambda: with_attribute,
    "global": lambda: of_the_module,
    "module": of_a_module,
    "thread": local,
    "context": in_context,
    "environment": of_environment,
    "callable": Called,
    "buffer of torch": lambda: TorchModule().count,
    "default": lambda: with_default,
    "dict": lambda: adds({"n": 0}, "n"),
    "ordered dict": lambda: adds(collections.OrderedDict(n=0), "n"),
    "counter": lambda: adds(collections.Counter(), "n"),
    "default dict": lambda: adds(collections.defaultdict(int), "n"),
    "chain map": lambda: adds(collections.ChainMap({"n": 0}), "n"),
    "deep dict": lambda: adds({"a": [{"b": {"c": [0]}}]}["a"][0]["b"]["c"], 0),
    "list": lambda: adds([0], 0),
    "long list": lambda: adds([0] * 10_000, 9_000),
    "deque": lambda: adds(collections.deque([0]), 0),
    "array": lambda: adds(np.zeros(2), 0),
    "large array": lambda: adds(np.zeros(400_000), 399_999),
    "array of objects": lambda: adds(np.array([0, None], object), 0),
    "Python array": lambda: adds(array.array("d", [0]), 0),
    "bytes": lambda: adds(bytearray(1), 0),
    "memory": lambda: adds(memoryview(bytearray(1)), 0),
    "ctypes": lambda: adds(ctypes.c_int(0), "value"),
    "None, then a number": lambda: none_first({"n": None}, "n"),
    "flag": lambda: flipped({"f": False}),
    "text": lambda: (lambda owner, add: lambda: len(add()))({}, adds({"s": ""}, "s", "x")),
    "new key": lambda: (lambda owner: grown(owner, lambda n: owner.update({n: 1})))({}),
    "new attribute": lambda: (lambda owner: grown(vars(owner), lambda n: setattr(owner, f"a{n}", 1)))(Called()),
    "longer list": lambda: (lambda owner: grown(owner, owner.append))([]),
    "longer set": lambda: (lambda owner: grown(owner, owner.add))(set()),
    "bound method": lambda: functools.partial(next, itertools.count(1)),
    "count of a class": lambda: lambda: next(OfClass.count),
    "generator": lambda: (lambda it: lambda: next(it))(squares()),
    "generator expression": lambda: (lambda it: lambda: next(it))(i for i in range(1, 50)),
    "cycle": lambda: (lambda it: lambda: next(it))(itertools.cycle([1, 2, 3])),
    "chain": lambda: (lambda it: lambda: next(it))(itertools.chain(range(1, 50))),
    "map": lambda: (lambda it: lambda: next(it))(map(float, range(1, 50))),
    "zip": lambda: (lambda it: lambda: next(it)[0])(zip(range(1, 50))),
    "enumerate": lambda: (lambda it: lambda: next(it)[0])(enumerate("abcdefgh")),
    "accumulate": lambda: (lambda it: lambda: next(it))(itertools.accumulate(range(1, 50))),
    "items of a dict": lambda: (lambda it: lambda: next(it)[1])(iter({i: i for i in range(1, 50)}.items())),
    "reversed": lambda: (lambda it: lambda: next(it))(reversed(range(50))),
    "queue": lambda: filled(queue.Queue).get,
    "random numbers of its own": lambda: random.Random(1).random,
    "file": lambda: (lambda file: lambda: float(file.readline()))(io.StringIO("\n".join(map(str, range(50))))),
    "loader": from_loader,
    "order": in_order,
    "weak reference": of_weak_reference,
    "weak keys": of_weak_keys,
    "single dispatch": of_dispatch,
    "layer of rfnb": lambda: hung_on(rf.Linear(FEAT, Dim(3, name="out"))),
    "another loop": lambda: hung_on(rf.Loop(max_seq_len=2)),
    "context of a run": lambda: hung_on(rf.get_run_ctx()),
    "recording": lambda: hung_on(trace()),
    "layer of torch": of_torch_layer,
    "class without a module": of_no_module,
    "another class": other_class,
    "other code": other_code,
    "event": lambda: (lambda event: lambda: (event.is_set(), event.set())[0])(threading.Event()),
    "queue of coroutines": of_coroutines,
    "reader of lines": lambda: (lambda it: lambda: next(it)[0])(csv.reader(map(str, range(50)))),
    "flat iterator": lambda: (lambda it: lambda: next(it))(np.arange(50).flat),
    "calls until a value": lambda: (lambda it: lambda: next(it))(iter(Called(), 99)),
    "lambda in a lambda": lambda: lambda: (lambda: adds(OfClass, "n")())(),
}  # fmt: skip


@pytest.fixture(autouse=True)
def counted_from_0(monkeypatch):
    global COUNT_OF_MODULE
    OfClass.n = COUNT_OF_MODULE = with_attribute.n = with_default.__defaults__[0][0] = 0
    OfClass.count = itertools.count(1)
    monkeypatch.setenv("RFNB_TEST_N", "0")
    yield
    sys.modules.pop("rfnb_test_counting", None)


@pytest.mark.parametrize("name", COUNTING)
def test_what_gives_another_number_in_each_step_is_refused(name):
    count = COUNTING[name]()
    refused(lambda loop, h, x: h * 0.5 + x * float(count()))


@pytest.mark.parametrize("name", COUNTING)
def test_it_is_refused_also_when_the_body_has_run_before(name):
    """Then it is looked at only as far as a run can afford; this one goes far again, since it takes a way that is new."""
    count = COUNTING[name]()

    def step(counts):
        return lambda loop, h, x: rf.tanh(h * 0.5 + x * float(count())) if counts else h + x

    run("with", step(False))
    run("with", step(False))
    refused(step(True))


def test_what_is_hung_on_the_running_loop_is_refused():
    def step(loop, h, x):
        loop.calls = getattr(loop, "calls", 0) + 1
        return h * 0.5 + x * loop.calls

    assert "loop is changed in place" in refused(step)
    assert "loop is changed in place" in refused(step)


def test_what_a_loop_does_with_its_own_attributes_is_its_business():
    class Counter:
        def step(self):
            return self

    optimizer = Counter()

    def step(loop, h, x):
        optimizer.step()  # a name that a loop has, too
        return h * 0.5 + x

    assert_same(run("with", step), run("for", step))


def test_what_is_hung_on_the_running_loop_without_a_difference_is_not():
    def step(loop, h, x):
        loop.last_seen = h
        return h * 0.5 + x

    assert_same(run("with", step), run("for", step))


class Holder:
    """Of what a body keeps."""

    def __init__(self):
        self.first, self.prev, self.cache, self.mode, self.seen, self.hist = True, None, {}, "a", set(), []
        self.weight = self.config = self.last = None
        self.calls, self.outs, self.names = 0, {}, []
        self.text, self.bar = io.StringIO(), tqdm.tqdm(file=io.StringIO())


def first_flag(m, loop, h, x):
    h = h + 100.0 if m.first else h
    m.first = False
    return h + x


def previous_frame(m, loop, h, x):
    h = h + (x if m.prev is None else x - m.prev)
    m.prev = x
    return h


def previous_frame_from_the_first(m, loop, h, x):
    """Its first step is like one with the values of this step, so only whose they are tells."""
    m.prev = x if m.prev is None else m.prev
    h, m.prev = h + (x - m.prev), x
    return h


def previous_state_in_a_cache(m, loop, h, x):
    h = h + m.cache["h"] if "h" in m.cache else h
    m.cache["h"] = h + x
    return m.cache["h"]


def third_step(m, loop, h, x):
    m.hist.append(None)
    return h + (x if len(m.hist) < 3 else 2.0 * x)


def alternating(m, loop, h, x):
    m.mode = {"a": "b", "b": "a"}[m.mode]
    return h * (2.0 if m.mode == "a" else 3.0) + x


def first_seen(m, loop, h, x):
    if "x" not in m.seen:
        m.seen.add("x")
        h = h + 1.0
    return h + x


def one_op_less(m, loop, h, x):
    if m.weight is None:
        m.weight = rf.ones([BATCH])
        return h + x + m.weight
    return h + x


def other_states(m, loop, h, x):
    if m.first:
        m.first = False
        return h + x
    loop.stack(h)
    return h + x


def draws_later(m, loop, h, x):
    if m.first:
        m.first = False
        return h + x
    return h + x * random.random()


def raises_later(m, loop, h, x):
    if m.first:
        m.first = False
        return h + x
    raise KeyError("later")


def other_mode(m, loop, h, x):
    with torch.set_grad_enabled(m.first):
        m.first = False
        return h + x


def leaves_a_mode(m, loop, h, x):
    torch.set_grad_enabled(False)
    return h + x


CARRIED = [
    leaves_a_mode,
    first_flag, previous_frame, previous_frame_from_the_first, previous_state_in_a_cache, third_step, alternating, first_seen,
    one_op_less, other_states, draws_later, raises_later, other_mode,
]  # fmt: skip


@pytest.mark.parametrize("step", CARRIED)
def test_a_body_that_does_something_else_in_its_next_steps_is_refused(step):
    with torch.enable_grad():
        refused(functools.partial(step, Holder()))


class Base:
    def __init__(self):
        self.calls, self.outs = 0, []

    def factor(self):
        self.calls += 1
        return self.calls


class Derived(Base):
    def factor(self):
        return 1.0

    def run(self, counts):
        loop = rf.Loop(axis=TIME)
        loop.state.h = rf.zeros([BATCH])
        with loop:
            factor = super().factor()
            loop.state.h = loop.state.h + loop.unstack(X) * float(factor if counts else 1)
            self.outs.append(loop.stack(loop.state.h))
        return self.outs[-1]


def test_a_body_with_super_is_asked_too():
    """`super()` reads the first argument of the method without a word."""
    derived = Derived()
    derived.run(counts=False)
    assert (derived.calls, len(derived.outs)) == (1, 1)
    with pytest.raises(RecordingError, match="self.calls is carried"):
        Derived().run(counts=True)


def test_a_known_body_is_asked_again_where_a_flag_is_another_one():
    """Its first step calls the same ops with the same numbers, whatever the flag says."""
    config = types.SimpleNamespace(anneals=False, calls=0)

    def step(loop, h, x):
        config.calls += 1
        return h + x * (0.5 if config.anneals and config.calls % 5 != 1 else 1.0)

    for _ in range(2):
        config.calls = 0
        run("with", step)
    config.calls, config.anneals = 0, True
    assert "step 1" in refused(step)


def test_the_message_says_where_the_next_step_differs():
    holder = Holder()
    loop = rf.Loop(axis=TIME, name="l")
    loop.state.h = rf.zeros([BATCH])
    with pytest.raises(RecordingError) as error, loop:
        if holder.first:
            loop.state.h = rf.tanh(loop.state.h)
        else:
            loop.state.h = rf.exp(loop.state.h)
        holder.first = False
    line = test_the_message_says_where_the_next_step_differs.__code__.co_firstlineno
    assert str(error.value) == (
        f'Loop "l", recorded step: holder.first, assigned in test_carried_variable_idioms.py:{line + 9}, is carried by Python.\n'
        "  before  True\n"
        "  after   False\n"
        f"  step 1  exp is called, test_carried_variable_idioms.py:{line + 8}, "
        f"in place of tanh, test_carried_variable_idioms.py:{line + 6}\n"
        "The body of `with loop:` runs once, so every step would get the value from before the loop.\n"
        "A value that a step passes to the next one is a state of the loop:\n"
        "    loop.state.first = rf.constant(True, dims=[])      # before the loop\n"
        "    loop.state.first = ...      # in its body, from loop.state.first in place of holder.first"
    )


# -- what makes no difference ----------------------------------------------------------------------------------------------

LOG = logging.getLogger("rfnb.tests.carried")


@functools.lru_cache
def cached(number):
    return rf.ones([BATCH]) * number


def collects_handles(m, loop, h, x):
    m.outs["x"] = loop.stack(x)
    m.hist.append(m.outs["x"])
    return h + x


def logs(m, loop, h, x):
    LOG.warning("step with %s", h.dims)
    print("a step")
    m.names.append(str(h.dims))
    return h + x


def lazily_made(m, loop, h, x):
    if m.weight is None:
        m.weight = rf.ones([BATCH]) * 3.0
    return h * m.weight + x


def memo(m, loop, h, x):
    if "w" not in m.cache:
        m.cache["w"] = rf.range_over_dim(BATCH)
    return h + x * rf.cast(m.cache["w"], "float32") + cached(3.0)


def lazy_config(m, loop, h, x):
    m.config = 0.5 if m.config is None else m.config
    return h * m.config + x


def keeps_the_last(m, loop, h, x):
    m.last = h + x
    return m.last


def says_once(m, loop, h, x):
    if "x" not in m.seen:
        m.seen.add("x")
        print("said once")
    return h + x


def counts_calls(m, loop, h, x):
    m.calls += 1
    return h + x


def new_dims(m, loop, h, x):
    m.calls += 1
    one = Dim(1, name="one")
    return rf.squeeze(rf.expand_dim(h, one), one) + x


def draws(m, loop, h, x):
    m.calls += 1
    return rf.dropout(h + x + rf.random_normal([BATCH]), 0.5, axis=BATCH, on_forward=True)


def loop_in_a_loop(m, loop, h, x):
    m.calls += 1
    inner = rf.Loop(axis=FEAT)
    inner.state.g = h
    with inner:
        inner.state.g = inner.state.g * 0.5
    return inner.state.g + x


def raw_constant(m, loop, h, x):
    m.calls += 1
    return h + x * rf.convert_to_tensor(torch.arange(2.0), dims=[BATCH])


def logs_to_memory(m, loop, h, x):
    m.text.write("step\n")
    m.names = list(m.text.getvalue())
    return h + x


def shows_progress(m, loop, h, x):
    m.outs["x"] = loop.stack(x)
    m.bar.update()
    m.calls = vars(m.bar)["n"]
    return h + x


INNOCENT = [
    logs_to_memory, shows_progress,
    collects_handles, logs, lazily_made, memo, lazy_config, keeps_the_last, says_once, counts_calls, new_dims, draws, loop_in_a_loop,
    raw_constant,
]  # fmt: skip


@pytest.mark.parametrize("step", INNOCENT)
def test_what_makes_no_difference_is_not_refused(step, capsys, caplog):
    found = {}
    for face in ("for", "with"):
        rf.set_random_seed(3)
        found[face] = run(face, functools.partial(step, Holder()))
    assert_same(found["with"], found["for"])


@pytest.mark.parametrize("step", INNOCENT)
def test_the_body_leaves_what_one_call_leaves(step, capsys, caplog):
    """However often it was looked at: lists, counters, prints, logs, and the generators of random numbers."""
    left = []
    for calls in ("once", "in a loop"):
        holder = Holder()
        rf.set_random_seed(3)
        random.seed(3)
        if calls == "once":
            loop = rf.Loop(axis=TIME)
            for _ in loop:
                if loop.num_steps == 1:
                    h = step(holder, loop, rf.zeros([BATCH]), loop.unstack(X))
                    kept = dict(vars(holder), hist=list(holder.hist), seen=set(holder.seen), cache=dict(holder.cache))
                else:
                    loop.stack(h) if holder.outs else None
        else:
            run("with", functools.partial(step, holder))
            kept = vars(holder)
        plain = {name: value for name, value in kept.items() if isinstance(value, (bool, int, str, float, set))}
        sizes = {name: len(value) for name, value in kept.items() if isinstance(value, (list, dict, set))}
        left.append((plain, sizes, capsys.readouterr(), len(caplog.records), random.random()))
        caplog.clear()
    assert left[0] == left[1]


def test_a_draw_of_an_op_is_made_once_in_each_step():
    """The next steps that are asked draw nothing."""
    numbers = []
    for step in (
        draws,
        lambda m, loop, h, x: rf.dropout(h + x + rf.random_normal([BATCH]), 0.5, axis=BATCH, on_forward=True),
    ):
        rf.set_random_seed(3)
        run("with", functools.partial(step, Holder()))
        numbers.append(rf.random_normal([BATCH]))
    assert_same(*numbers)


def test_it_is_asked_once_and_then_known(monkeypatch):
    from rfnb.rec import carried_variables

    asked = []
    real = carried_variables.difference
    monkeypatch.setattr(carried_variables, "difference", lambda *args: asked.append(args) or real(*args))

    def step(loop, h, x, holder):
        holder.outs["x"] = loop.stack(x)
        return h + x

    for _ in range(3):
        run("with", functools.partial(step, holder=Holder()))
    assert len(asked) == 1


def test_a_body_that_writes_to_a_file_writes_once(tmp_path):
    with open(tmp_path / "log", "w") as file:

        def step(loop, h, x):
            file.write("step\n")
            return h + x

        assert_same(run("with", step), run("for", lambda loop, h, x: h + x))
    assert (tmp_path / "log").read_text() == "step\n"


def test_where_nobody_can_know_a_list_of_handles_is_no_difference(tmp_path):
    outs = []

    def step(loop, h, x):
        outs.append(loop.stack(h + x))
        (tmp_path / f"{len(outs)}").write_text("step")
        return h + x

    run("with", step)
    found = outs[-1]
    outs.clear()
    run("for", step)
    assert_same(found, outs[-1])


def test_what_is_queued_for_another_thread_is_queued_once():
    queued, outs = queue.SimpleQueue(), []

    def step(loop, h, x):
        outs.append(loop.stack(h + x))
        queued.put("step")
        return h + x

    run("with", step)
    assert queued.get() == "step" and queued.empty()


def test_what_a_library_keeps_of_a_body_is_kept_once(tmp_path, monkeypatch):
    (tmp_path / "site-packages").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "site-packages")
    (tmp_path / "site-packages" / "rfnb_test_metrics.py").write_text(
        "class Run:\n  def __init__(self): self._rows = []\n  def add(self, row): self._rows.append(row)\n"
        "RUN = Run()\ndef log(row): RUN.add(row)\n"
    )
    metrics, outs = importlib.import_module("rfnb_test_metrics"), []

    def step(loop, h, x):
        metrics.log("step")
        outs.append(loop.stack(h + x))
        return h + x

    run("with", step)
    assert vars(vars(metrics)["RUN"]) == {"_rows": ["step"]}
    sys.modules.pop("rfnb_test_metrics")


def test_where_nobody_can_know_it_is_refused_and_nothing_is_written_twice(tmp_path):
    with open(tmp_path / "log", "w") as file:
        holder = Holder()

        def step(loop, h, x):
            holder.calls += 1
            file.write("step\n")
            return h + x

        assert "holder.calls" in refused(step)
    assert (tmp_path / "log").read_text() == "step\n"


@pytest.mark.parametrize("refuses", [True, False])
def test_a_cell_without_source_is_judged_by_what_has_changed(refuses):
    code = (
        "loop = rf.Loop(axis=TIME)\nloop.state.h = rf.zeros([BATCH])\nwith loop:\n"
        + ("  loop.state.h = loop.state.h * (0.0 if first else 1.0) + loop.unstack(x)\n  first = False\n" if refuses else
           "  made = rf.ones([BATCH]) if made is None else made\n  loop.state.h = loop.state.h + made\n")
    )  # fmt: skip
    scope = {"rf": rf, "TIME": TIME, "BATCH": BATCH, "x": X, "first": True, "made": None}
    if refuses:
        with pytest.raises(RecordingError, match="first, assigned in <cell>:5, is carried"):
            exec(compile(code, "<cell>", "exec"), scope)
    else:
        exec(compile(code, "<cell>", "exec"), scope)
        assert scope["loop"].state.h.raw_tensor.tolist() == [5.0, 5.0]


def test_the_variables_of_the_function_around_are_left_as_they_were():
    made, count = None, 0

    def bump():
        nonlocal count
        count += 1

    loop = rf.Loop(axis=TIME)
    loop.state.h = rf.zeros([BATCH])
    with loop:
        made = rf.ones([BATCH]) if made is None else made
        bump()
        for number in range(3):
            if number == 1:
                break
        loop.state.h = loop.state.h + made * number
    assert count == 1 and number == 1
    assert loop.state.h.raw_tensor.tolist() == [5.0, 5.0]


# -- any object ------------------------------------------------------------------------------------------------------------


class Raises:
    @property
    def broken(self):
        raise RuntimeError("a property that raises")

    def __getattr__(self, name):
        raise RuntimeError("an attribute that raises")

    def __eq__(self, other):
        raise RuntimeError("a comparison that raises")

    __hash__ = None


class Proxy:
    """Says that it is what it stands for."""

    def __init__(self, target):
        object.__setattr__(self, "_target", target)

    def __getattribute__(self, name):
        return getattr(object.__getattribute__(self, "_target"), name)

    @property
    def __class__(self):
        return type(object.__getattribute__(self, "_target"))


class Meta(type):
    def __eq__(cls, other):
        raise RuntimeError("a class that is not compared")

    __hash__ = None


class OfMeta(metaclass=Meta):
    pass


def circular():
    found = {"self": None, "list": []}
    found["self"] = found
    found["list"].append(found["list"])
    return found


def with_slots():
    owner = Slots()
    owner.n = 2.0
    return owner


OBJECTS = {
    "slots": with_slots,
    "empty slots": Slots,
    "a property that raises": Raises,
    "a proxy": lambda: Proxy([1, 2]),
    "a proxy of a Tensor": lambda: Proxy(X),
    "a strange class": OfMeta,
    "a mock": unittest.mock.MagicMock,
    "a mock of a Tensor": lambda: unittest.mock.MagicMock(spec=rf.Tensor),
    "a lock": threading.Lock,
    "an event": threading.Event,
    "a thread": lambda: threading.Thread(target=print),
    "an open file": lambda: open(__file__),
    "a generator": squares,
    "a memory view": lambda: memoryview(b"ab"),
    "a circle": circular,
    "many entries": lambda: {number: [number] for number in range(10_000)},
    "a deep list": lambda: functools.reduce(lambda inner, _: [inner], range(5000), []),
    "a compiled pattern": lambda: __import__("re").compile("a"),
    "an array of objects": lambda: np.array([None, {}], object),
    "a structured array": lambda: np.zeros(3, dtype=[("a", int), ("b", float)]),
    "a read-only array": lambda: np.broadcast_to(np.zeros(1), (5,)),
    "a sparse tensor": lambda: torch.eye(3).to_sparse(),
    "a meta tensor": lambda: torch.empty(3, device="meta"),
    "a weak reference": lambda: __import__("weakref").ref(X),
    "a named tuple": lambda: collections.namedtuple("Pair", "a b")(1, 2),
    "an exception": lambda: ValueError("x"),
    "a frame": sys._getframe,
    "a module": lambda: sys,
    "a namespace of torch": lambda: torch.ops,
}  # fmt: skip


@pytest.mark.parametrize("where", ["beside", "changed beside"])
@pytest.mark.parametrize("name", OBJECTS)
def test_a_body_may_see_any_object(name, where):
    owner = types.SimpleNamespace(found=OBJECTS[name](), calls=[])
    loop = rf.Loop(axis=TIME)
    loop.state.h = rf.zeros([BATCH])
    with loop:
        found = owner.found
        if where == "changed beside":
            owner.calls.append(1)
        loop.state.h = loop.state.h + loop.unstack(X)
    assert found is owner.found
    assert_same(loop.state.h, rf.reduce_sum(X, axis=TIME))
