"""The law of recording as a function: an op in the body of `with loop:` gives in every step what it gives in `for _ in loop:`.

A case (see `laws.py`) is the body. Its inputs differ from step to step: they are frames of a tensor, or states, so that the op runs
before, after and inside of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
from asserting import assert_same, ragged
from laws import Case
from loop_faces import run_steps
from world import World

import rfnb as rf
from rfnb import Dim, DimError, Tensor
from rfnb.rec import stretch
from rfnb.rec.step_tensor import RecordingError

STEPS = 4
PLACES = ("before", "inside", "after")
FEWEST = 1, STEPS  # left, for which many steps become one program: nearly all loops, none


def compare_faces(name: str, case: Case, world: World, *, over_batch: bool = False) -> str:
    """Compare both faces of the loop for a case in each place; "same", "refused" (by an error), or "no loop" if not even the
    `for` face can have it.

    Raises:
        AssertionError: If they differ.
    """
    choices, values = world.rng.bit_generator.state, world.values.bit_generator.state
    lengths = [STEPS - index % 3 for index in range(world.batch.extent)]
    axis = ragged(lengths, world.batch, "steps") if over_batch else Dim(STEPS, name="steps")
    outcomes = set()

    def outputs(face: str, place: str) -> list[Tensor]:
        world.rng.bit_generator.state, world.values.bit_generator.state = choices, values
        rf.set_random_seed(7)
        call, inputs = case(world)
        if over_batch and place != "before" and any(world.batch not in x.dims for x in inputs):
            return []  # a state that gets the batch dim when the first sequence ends: what takes all dims takes others then
        return _run(call, [_frames(x, axis) for x in inputs], axis, place, face)

    for place in PLACES:
        try:
            expected = outputs("for", place)
        except Exception:  # whatever the op says about it
            outcomes.add("no loop")
            continue
        for fewest in FEWEST if place == "inside" else FEWEST[:1]:
            try:
                with patch.object(stretch, "FEWEST", fewest):
                    got = outputs("with", place)
            except RecordingError:
                outcomes.add("refused")
                continue
            except (
                DimError
            ):  # a state without batch dim gets it when the first sequence ends; in the record it has none
                assert over_batch, name
                outcomes.add("refused")
                continue
            assert len(got) == len(expected), f"{name}, {place}"
            for a, b in zip(got, expected, strict=True):
                assert_same(_named_like(a, b), b, tolerance=2e-5)
            outcomes.add("same")
    return "same" if "same" in outcomes else "refused" if "refused" in outcomes else "no loop"


def _run(call: Any, sources: list[Tensor], axis: Dim, place: str, face: str) -> list[Tensor]:
    loop = rf.Loop(axis=axis)
    for index, source in enumerate(sources):
        loop.state[f"x{index}"] = rf.gather(source, indices=0, axis=axis)
    loop.state.sum = rf.zeros([])

    def body() -> list[Tensor]:
        frames = [loop.unstack(source) for source in sources]
        now = [loop.state[f"x{index}"] for index in range(len(sources))]
        results = list(_tensors(call(*(frames if place == "before" else now))))
        for index, frame in enumerate(frames):
            loop.state[f"x{index}"] = frame
        if place == "inside":
            loop.state.sum = loop.state.sum + sum((_total(x) for x in results), start=rf.zeros([]))
        return [loop.stack(x) for x in results]

    stacked = run_steps(loop, face, body)
    return [*stacked, loop.state.sum]


def _total(x: Tensor) -> Tensor:
    x = x.copy_masked(0) if x.dtype.startswith("float") else rf.cast(x, "float32")
    return rf.reduce_sum(rf.where(rf.is_finite(x), x, 0.0), axis=x.dims) if x.dims else x


def _frames(x: Tensor, axis: Dim) -> Tensor:
    """Other values in every step: those of x in another order."""
    host = x.numpy()
    steps = [np.roll(host.reshape(-1), step).reshape(host.shape) for step in range(STEPS)]
    return rf.convert_to_tensor(
        np.stack(steps), dims=[axis, *x.dims], sparse_dim=x.sparse_dim, feature_dim=x.feature_dim
    )


def _named_like(x: Tensor, like: Tensor) -> Tensor:
    """Dims that the op makes are others in every run."""
    for dim in x.dims:
        if dim not in like.dims:
            other = next(other for other in like.dims if other.name == dim.name and other not in x.dims)
            np.testing.assert_array_equal(dim.extent, other.extent)
            x = Tensor(
                None,
                [other if d is dim else d for d in x.dims],
                x.dtype,
                raw_tensor=x.raw_tensor,
                sparse_dim=x.sparse_dim,
            )
    if x.sparse_dim is not like.sparse_dim and x.sparse_dim is not None:
        assert x.sparse_dim.short_repr() == like.sparse_dim.short_repr()
        x = rf.set_sparse_dim(x, like.sparse_dim)
    return x


def _tensors(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, (list, tuple)):
        for part in result:
            yield from _tensors(part)
    elif isinstance(result, dict):
        yield from _tensors(list(result.values()))
