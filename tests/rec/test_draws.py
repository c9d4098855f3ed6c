"""Random numbers in a recorded step: ops draw in every step, the body is refused, what other threads draw is theirs."""

import linecache
import random
import sys
import threading
from contextlib import contextmanager
from random import random as imported_python
from random import shuffle as imported_shuffle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from asserting import assert_same, raises_message
from numpy.random import randn as imported_numpy
from waiting import LONG, wait_until

import rfnb as rf
from rfnb import Dim
from rfnb.rec import draws
from rfnb.rec.step_tensor import RecordingError

BATCH, TIME = Dim(2, name="batch"), Dim(3, name="time")
X = rf.expand_dim(rf.range_over_dim(TIME, dtype="float32"), dim=BATCH)

DRAWS = {
    "random.random": ("random.random", lambda: random.random()),
    "random.shuffle": ("random.getrandbits", lambda: random.shuffle([1, 2, 3])),
    "imported shuffle": ("random.getrandbits", lambda: imported_shuffle([1, 2, 3])),
    "random.gauss": ("random.random", lambda: random.gauss(0, 1) + random.gauss(0, 1)),
    "random.seed": ("random.seed", lambda: random.seed(1)),
    "numpy": ("numpy.random.randn", lambda: np.random.randn(2)),
    "numpy, shuffle": ("numpy.random.shuffle", lambda: np.random.shuffle(np.arange(3))),
    "numpy, seed": ("numpy.random.seed", lambda: np.random.seed(1)),
    "torch": ("torch.randn", lambda: torch.randn(2)),
    "torch, in place": ("torch.uniform_", lambda: torch.zeros(2).uniform_()),
    "torch, dropout": ("torch.dropout", lambda: F.dropout(torch.ones(3))),
    "torch, module": ("torch.dropout", lambda: torch.nn.Dropout(0.5)(torch.ones(3))),
    "torch, gumbel": ("torch.gumbel_softmax", lambda: F.gumbel_softmax(torch.ones(3))),
    "torch, permutation": ("torch.randperm", lambda: torch.randperm(3)),
    "torch, multinomial": ("torch.multinomial", lambda: torch.multinomial(torch.ones(3), 1)),
    "torch, attention": (
        "torch.scaled_dot_product_attention",
        lambda: F.scaled_dot_product_attention(*[torch.ones(1, 2, 3)] * 3, dropout_p=0.5),
    ),
    "torch, seed": ("torch.manual_seed", lambda: torch.manual_seed(1)),
    "torch, seed of a device": ("torch.cuda.manual_seed_all", lambda: torch.cuda.manual_seed_all(1)),
}
UNSEEN = {"imported random": imported_python, "imported randn": lambda: imported_numpy(2)}
QUIET = {
    "own generator": lambda: random.Random(1).random() + np.random.default_rng(1).random(),
    "state": lambda: (random.getstate(), np.random.get_state(), torch.get_rng_state()),
    "torch": lambda: F.dropout(torch.ones(3), training=False) + torch.arange(3),
}


def run(draw):
    loop = rf.Loop(axis=TIME)
    with loop:
        draw()
        out = loop.stack(loop.unstack(X))
    assert_same(out, X)


@pytest.mark.parametrize("name", DRAWS)
def test_the_body_may_not_draw(name):
    by, draw = DRAWS[name]
    place = f"test_draws.py:{draw.__code__.co_firstlineno}"
    with raises_message(
        RecordingError,
        f"""
        Loop "loop", recorded step: random numbers that no op has drawn.
          drawn in  {place}
          by        {by}
        The body of `with loop:` runs once, so all steps would have those of the first. Draw them by rf.random_...,
        or let Python run every step:
            for _ in loop:
        """,
    ):
        run(draw)


@pytest.mark.parametrize("name", UNSEEN)
def test_functions_that_cannot_be_seen_are_noticed_at_the_end(name):
    with pytest.raises(RecordingError, match="random numbers that no op has drawn"):
        run(UNSEEN[name])


@pytest.mark.parametrize("name", QUIET)
def test_what_draws_from_no_shared_generator_is_fine(name):
    run(QUIET[name])


@pytest.mark.parametrize("name", [*DRAWS, *QUIET])
def test_another_thread_may_draw_meanwhile(name):
    draw = DRAWS[name][1] if name in DRAWS else QUIET[name]
    done = threading.Event()

    def in_thread():
        thread = threading.Thread(target=lambda: draw() is not done and done.set())
        thread.start()
        thread.join()

    run(in_thread)
    assert done.is_set()


@pytest.mark.parametrize("name", DRAWS)
def test_the_body_may_not_draw_while_another_thread_does(name):
    def both():
        thread = threading.Thread(target=DRAWS["numpy"][1])
        thread.start()
        thread.join()
        DRAWS[name][1]()

    with pytest.raises(RecordingError, match="random numbers that no op has drawn"):
        run(both)


def test_a_thread_that_draws_all_the_time():
    """As one that shuffles the next batches."""
    stop, begun = threading.Event(), threading.Event()

    def shuffle():
        while not stop.is_set():
            random.shuffle(list(range(20)))
            np.random.randn(20)
            torch.randn(20)
            begun.set()

    thread = threading.Thread(target=shuffle)
    thread.start()
    begun.wait(LONG)
    try:
        for _ in range(30):
            loop = rf.Loop(axis=TIME)
            loop.state.h = rf.zeros([BATCH])
            with loop:
                loop.state.h = rf.tanh(loop.state.h + loop.unstack(X))
                out = loop.stack(loop.state.h)
            assert out.dims == (TIME, BATCH)
    finally:
        stop.set()
        thread.join()


def wait_to_draw(turn, done, draw):
    while True:
        turn.acquire()
        if draw() is StopIteration:
            return
        done.release()


def wait_in_code_that_draws_unseen(turn, done, draw):
    from numpy.random import randn

    while True:
        turn.acquire()
        if draw() is StopIteration:
            return
        randn(2)
        done.release()


@contextmanager
def another_thread(wait, draw):
    """A function that lets another thread draw once; then that is at the instruction again at which it was before."""
    turn, done, draws_by = threading.Lock(), threading.Lock(), [draw]
    turn.acquire()
    done.acquire()
    thread = threading.Thread(target=wait, args=(turn, done, lambda: draws_by[0]()))
    thread.start()

    def waits():
        frame = sys._current_frames()[thread.ident]
        return frame.f_code is wait.__code__ and linecache.getline(__file__, frame.f_lineno).strip() == "turn.acquire()"

    def draw_once():
        turn.release()
        assert done.acquire(timeout=LONG)
        assert wait_until(waits)

    try:
        assert wait_until(waits)
        yield draw_once
    finally:
        draws_by[0] = lambda: StopIteration
        turn.release()
        thread.join()


def test_another_thread_may_draw_when_recording_has_ended(monkeypatch):
    with another_thread(wait_to_draw, DRAWS["numpy"][1]) as draw_once:
        stop, calls = draws.DrawWatch.stop, []

        def stop_and_draw(watch):
            stop(watch)
            draw_once()
            calls.append(watch)

        monkeypatch.setattr(draws.DrawWatch, "stop", stop_and_draw)
        run(lambda: None)
        assert calls


@pytest.mark.parametrize("before", [True, False])
def test_another_thread_may_draw_while_the_states_are_compared(monkeypatch, before):
    with another_thread(wait_to_draw, DRAWS["numpy"][1]) as draw_once:
        state_of, calls = draws._state, []

        def state_while_drawing():
            calls.append(before)
            if len(calls) > 1 and before:
                draw_once()
            state = state_of()
            if len(calls) > 1 and not before:
                draw_once()
            return state

        monkeypatch.setattr(draws, "_state", state_while_drawing)
        run(lambda: None)
        assert len(calls) > 1


def test_another_thread_may_draw_unseen_and_come_round_to_the_same_instruction():
    with another_thread(wait_in_code_that_draws_unseen, lambda: None) as draw_once:
        run(draw_once)


def test_another_thread_that_told_before_recording_may_draw_later():
    """It may wait for the lock of the generator."""
    lock = threading.Lock()
    lock.acquire()
    tell = draws._telling("numpy.random.randn", lock.acquire)
    thread = threading.Thread(target=tell)
    thread.start()
    try:
        assert wait_until(lambda: sys._current_frames()[thread.ident].f_code is tell.__code__)
        own = threading.get_ident()
        assert draws._places_of_others(own)[thread.ident] != draws._places_of_others(own)[thread.ident]
    finally:
        lock.release()
        thread.join()


@pytest.mark.parametrize("name", UNSEEN)
def test_a_thread_that_waits_hides_nothing(name):
    with another_thread(wait_to_draw, DRAWS["numpy"][1]), pytest.raises(RecordingError, match="that no op has drawn"):
        run(UNSEEN[name])


def test_everything_is_as_before_afterwards():
    before = [
        random.random,
        random.shuffle,
        np.random.randn,
        np.random.seed,
        torch.manual_seed,
        dict(vars(draws._generator)),
    ]
    run(lambda: None)
    with pytest.raises(RecordingError):
        run(DRAWS["numpy"][1])
    assert before == [
        random.random, random.shuffle, np.random.randn, np.random.seed, torch.manual_seed, dict(vars(draws._generator)),
    ]  # fmt: skip
    assert not draws._watches


def test_the_words_of_the_generator_of_python():
    """They are read where CPython has them; elsewhere the generator is asked."""
    assert draws._words_are_there() == (sys.implementation.name == "cpython")
    before = random.getstate()
    try:
        for change in (
            random.random,
            lambda: random.gauss(0, 1),
            lambda: random.seed(5),
            lambda: random.setstate(before),
        ):
            state = draws._python_state()
            assert state == draws._python_state()
            change()
            assert state != draws._python_state()
        for _ in range(700):  # gauss has every second number at hand
            state = draws._python_state()
            random.gauss(0, 1)
            assert state != draws._python_state()
    finally:
        random.setstate(before)


def test_without_these_words_the_generator_is_asked(monkeypatch):
    monkeypatch.setattr(draws, "_words_are_there", lambda: False)
    assert draws._python_state() == random.getstate()
