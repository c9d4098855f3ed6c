"""What has been computed goes when nobody has it any more: plans, masks and histories of dims keep no values and no searches, however
often the same dims are used, and however many dims are new. Counted by weak references, in no unit of time."""

import contextvars
import gc
import weakref

import numpy as np
import pytest
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim
from rfnb.core.beam_dim import _SEARCHES
from rfnb.search.search_state import Search

FEAT, LABELS = Dim(6, name="feat"), Dim(7, name="labels")
W, E = rf.random_normal([FEAT, LABELS]), rf.random_normal([LABELS, FEAT])
LSTM = rf.LSTM(FEAT, FEAT)
LENGTHS = np.array([9, 4, 1], "int32")
REPEATS = 24


def ragged_over(batch):
    return Dim(rf.convert_to_tensor(LENGTHS, dims=[batch]), name="time")


def cell(h, label):
    return rf.tanh(h * 0.5 + rf.gather(E, indices=label, axis=LABELS))


def scores(h):
    return rf.log_softmax(rf.matmul(h, W, reduce=FEAT), axis=LABELS)


def search(face, **options):
    def go(x, batch, time):
        loop = rf.Loop(max_seq_len=5, name="search")
        loop.state.h = rf.reduce_sum(x, axis=time)

        def body():
            label = rf.choice(scores(loop.state.h), axis=LABELS, beam_size=3, end_label=0, **options)
            loop.state.h = cell(loop.state.h, label)
            loop.end(label == 0, include_eos=True)
            return loop.stack(label)

        labels = run_steps(loop, face, body)
        return labels, rf.decide(labels), rf.get_beam_scores(labels)

    return go


def beam_search(x, batch, time):
    def step(label, h):
        h = cell(h, label)
        return scores(h), h

    start = rf.reduce_sum(x, axis=time)
    return rf.beam_search(step, batch=batch, axis=LABELS, state=start, max_seq_len=5, beam_size=3, end_label=0)


def searches_apart(x, batch, time):
    with rf.debug(beams=True):
        return search("for")(x, batch, time)


def search_in_a_search(x, batch, time):
    loop = rf.Loop(max_seq_len=2, name="outer")
    loop.state.h = rf.reduce_sum(x, axis=time)
    for _ in loop:
        inner = search("for")(x, batch, time)[1]
        label = rf.choice(scores(loop.state.h), axis=LABELS, beam_size=2, end_label=0)
        loop.state.h = cell(loop.state.h, label)
        loop.end(label == 0, include_eos=True)
        out = loop.stack(label)
    return out, inner, rf.decide(out)


def held(x, batch, time):
    run = rf.run(search("for"), x, batch, time, paused=True)
    run.step(2)
    run.at.states["h"][{"batch": 0}] = 0.0
    run.resume()
    return run.result


def recorded(x, batch, time):
    with rf.record(values=True) as trace:
        out = beam_search(x, batch, time)
    return out, trace


def steps(face):
    def go(x, batch, time):
        loop = rf.Loop(axis=time, name="steps")
        loop.state.h = rf.zeros([batch, FEAT])

        def body():
            loop.state.h = rf.tanh(loop.state.h + loop.unstack(x))
            return loop.stack(loop.state.h)

        return run_steps(loop, face, body), loop.state.h

    return go


def gradient(x, batch, time):
    x.raw_tensor.requires_grad_()
    out, _ = LSTM(x, state=LSTM.default_initial_state(batch_dims=[batch]), spatial_dim=time)
    rf.reduce_sum(out, axis=out.dims).raw_tensor.backward()
    return out


SEARCHES = {
    "for": search("for"),
    "with": search("with"),
    "sampled": search("for", sampling=True),
    "beam_search": beam_search,
    "each step with its own beam": searches_apart,
    "one in another": search_in_a_search,
    "held": held,
    "recorded": recorded,
}
OPS = {
    "loop, for": steps("for"),
    "loop, with": steps("with"),
    "scan": lambda x, batch, time: rf.scan(
        spatial_dim=time, initial=rf.zeros([batch, FEAT]), xs=x, body=lambda x, h: 2 * (rf.tanh(x + h),)
    ),
    "slice": lambda x, batch, time: rf.slice(x, axis=time, start=1),
    "pad": lambda x, batch, time: rf.pad(x, axes=[time], padding=[(2, 1)]),
    "window": lambda x, batch, time: rf.window(x, spatial_dim=time, window_dim=Dim(3, name="window")),
    "shift_right": lambda x, batch, time: rf.shift_right(x, axis=time, pad_value=0.0),
    "masked_select": lambda x, batch, time: rf.masked_select(x, mask=x > 0.0, dims=[batch, time, FEAT]),
    "merge_dims": lambda x, batch, time: rf.merge_dims(x, dims=[time, FEAT]),
    "concat": lambda x, batch, time: rf.concat((x, time), (x, time)),
    "softmax": lambda x, batch, time: rf.softmax(x, axis=time),
    "reverse_sequence": lambda x, batch, time: rf.reverse_sequence(x, axis=time),
    "max_pool1d": lambda x, batch, time: rf.max_pool1d(x, pool_size=2, in_spatial_dim=time),
    "top_k": lambda x, batch, time: rf.top_k(x, axis=FEAT, k=2),
    "gradient of an LSTM": gradient,
}


def raws(value):
    """The raw arrays in a nested result."""
    if isinstance(value, rf.Tensor):
        return [value.raw_tensor]
    return [raw for item in value for raw in raws(item)] if isinstance(value, (list, tuple)) else []


def alive(program, new_dims, monkeypatch):
    """Repeat a program; how many of its arrays, and of its searches, are there after it."""
    arrays, searches, made = [], [], Search.__init__

    def init(self, *args):
        made(self, *args)
        searches.append(weakref.ref(self))

    monkeypatch.setattr(Search, "__init__", init)
    batch = Dim(3, name="batch")
    time = ragged_over(batch)
    for _ in range(REPEATS):
        if new_dims:
            batch = Dim(3, name="batch")
            time = ragged_over(batch)
        x = rf.random_normal([batch, time, FEAT])
        out = program(x, batch, time)
        arrays += [weakref.ref(raw) for raw in [x.raw_tensor, *raws(out)]]
        del x, out
    gc.collect()
    return [sum(ref() is not None for ref in refs) for refs in (arrays, searches)] + [len(searches)]


@pytest.mark.parametrize("new_dims", [False, True])
@pytest.mark.parametrize("name", SEARCHES)
def test_of_searches_only_the_latest_are_kept(name, new_dims, monkeypatch):
    arrays, searches, made = alive(SEARCHES[name], new_dims, monkeypatch)
    assert made >= REPEATS and searches <= _SEARCHES
    assert arrays <= 4 * _SEARCHES


@pytest.mark.parametrize("new_dims", [False, True])
@pytest.mark.parametrize("name", OPS)
def test_no_value_is_kept(name, new_dims, monkeypatch):
    assert alive(OPS[name], new_dims, monkeypatch)[:2] == [0, 0]


def test_a_search_whose_plans_went_goes_on():
    """More searches than are kept, step by step in turns."""
    batch, expected = Dim(3, name="batch"), []
    start = rf.random_normal([batch, FEAT])

    def steps_of(count):
        loop = rf.Loop(max_seq_len=5, name=f"search {count}")
        loop.state.h = start * float(count)
        for _ in loop:
            label = rf.choice(scores(loop.state.h), axis=LABELS, beam_size=3, end_label=0)
            loop.state.h = cell(loop.state.h, label)
            loop.end(label == 0, include_eos=True)
            out = loop.stack(label)
            yield None
        yield rf.decide(out).copy_masked(0).numpy()

    numbers = range(1, 3 * _SEARCHES)
    for number in numbers:
        expected.append(next(value for value in steps_of(number) if value is not None))
    turns = {number: steps_of(number) for number in numbers}
    contexts = {number: contextvars.copy_context() for number in numbers}
    found = {}
    while turns:
        for number in list(turns):
            value = contexts[number].run(next, turns[number], "over")
            if isinstance(value, str):
                del turns[number]
            elif value is not None:
                found[number] = value
    for number in numbers:
        np.testing.assert_array_equal(found[number], expected[number - 1])
