"""A run has its own random numbers while it stands: what others draw meanwhile changes nothing; what it is asked for is a part of it."""

import numpy as np
import pytest
import torch
from control.held_models import BATCH, FEAT, TIME
from control.watched_threads import result_of, stands

import rfnb as rf


def noisy(face):
    """Numbers drawn by rfnb, by torch, and by the seeds of steps."""

    def step(h):
        raw = rf.convert_to_tensor(torch.rand(3), dims=[BATCH]) if face != "with" else rf.random_uniform([BATCH])
        return h * 0.5 + rf.random_normal([BATCH, FEAT]) + raw + rf.random_normal([FEAT], static=True)

    def run():
        start = rf.random_normal([BATCH, FEAT])
        if face == "scan":
            return rf.scan(spatial_dim=TIME, initial=start, body=lambda x, h: (None, step(h)))[1]
        loop = rf.Loop(axis=TIME, name="noisy")
        loop.state.h = start
        if face == "with":
            with loop:
                loop.state.h = step(loop.state.h)
        else:
            for _ in loop:
                loop.state.h = step(loop.state.h)
        return loop.state.h

    return run


FACES = ["for", "with", "scan"]


def directly(face):
    rf.set_random_seed(7)
    return noisy(face)().numpy(), rf.random_normal([FEAT]).numpy()


@pytest.mark.parametrize("face", FACES)
def test_a_run_draws_what_a_call_would(face):
    expected, after = directly(face)
    rf.set_random_seed(7)
    run = rf.run(noisy(face))
    np.testing.assert_array_equal(result_of(run).numpy(), expected)
    np.testing.assert_array_equal(rf.random_normal([FEAT]).numpy(), after)


@pytest.mark.parametrize("face", FACES)
def test_others_may_draw_and_seed_while_it_stands(face):
    expected, _ = directly(face)
    rf.set_random_seed(7)
    run = rf.run(noisy(face), paused=True)
    for turn in range(7):
        stands(run)
        rf.random_normal([BATCH])
        torch.rand(5)
        if turn % 3 == 2:
            rf.set_random_seed(turn)
        if turn == 4:
            other = rf.run(noisy("for"))
            result_of(other)
            result_of(run.from_step(2))
        run.step()
    np.testing.assert_array_equal(result_of(run).numpy(), expected)


def test_what_is_asked_of_it_draws_its_numbers():
    """As in a branch, which does it on its way."""

    def stir(at):
        at.states["h"][...] = rf.random_normal([BATCH, FEAT])

    run = rf.run(noisy("for"), paused=True)
    stands(run)
    run.step(2)
    rf.random_normal([FEAT])
    run._gate.ask(lambda: stir(run._gate.here)).result()
    rf.random_normal([FEAT])
    expected = result_of(run).numpy()
    branch = run.from_step(2, stir)
    np.testing.assert_array_equal(result_of(branch).numpy(), expected)


def test_who_draws_goes_on_where_a_stopped_run_stood():
    run = rf.run(noisy("for"), paused=True)
    stands(run)
    run.step(2)
    rf.set_random_seed(5)
    run.stop()
    drawn = rf.random_normal([FEAT]).numpy()
    rf.set_random_seed(5)
    np.testing.assert_array_equal(drawn, rf.random_normal([FEAT]).numpy())


def test_seeds_of_steps_are_those_of_the_run():
    """Two runs, and the cell, do not take each other's."""

    def draw():
        loop, drawn = rf.Loop(axis=TIME, name="seeds"), []
        for _ in loop:
            drawn.append(rf.get_static_step_based_seed())
        return drawn

    rf.set_random_seed(3)
    rf.reset_step_random_state()
    runs = [rf.run(draw, paused=True) for _ in range(2)]
    for _ in range(3):
        for run in runs:
            stands(run)
            run.step()
            rf.get_static_step_based_seed()
    one, other = map(result_of, runs)
    rf.reset_step_random_state()
    assert one == other == draw()
