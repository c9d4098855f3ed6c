"""Padding has no part in the gradients of random programs, whatever it holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from asserting import real_frames, with_padding
from gradients import GARBAGE
from programs import Program

import rfnb as rf
from rfnb import Tensor

_NUM = 400


def gradients(
    program: Program, inputs: list[Tensor], tracked: list[bool], sequence: int | None = None
) -> list[np.ndarray]:
    """Of the sum of all real values, with a weight for each place in a sequence that depends on the sequence."""
    raws = [x.raw_tensor.clone().requires_grad_(flag) for x, flag in zip(inputs, tracked)]
    results = program(*(Tensor(dims=x.dims, raw_tensor=raw) for x, raw in zip(inputs, raws)))
    total: Any = torch.zeros((), dtype=torch.float64)
    for x in results:
        value = torch.where(torch.from_numpy(real_frames(x.dims)), x.raw_tensor, 0)
        for axis, dim in enumerate(x.dims):
            first = sequence or 0 if dim is program.batch else 0
            weight = torch.cos(torch.arange(first, first + dim.extent, dtype=torch.float64) + len(dim.name))
            value = value * weight.reshape([-1 if axis == other else 1 for other in range(len(x.dims))])
        if program.batch not in x.dims:
            value = value / (3 if sequence is not None else 1)
        total = total + value.sum()
    if not total.requires_grad:
        return [np.zeros(raw.shape) for raw in raws]
    wanted = [raw for raw, flag in zip(raws, tracked) if flag]
    found = iter(torch.autograd.grad(total, wanted, allow_unused=True))
    zero = [np.zeros(raw.shape) for raw in raws]
    return [now if not flag or (got := next(found)) is None else got.numpy() for now, flag in zip(zero, tracked)]


def alone(program: Program, tracked: list[bool]) -> list[np.ndarray]:
    """The gradients of the inputs where each sequence is computed alone: what is shared gets their sum."""
    total = [np.zeros(x.raw_tensor.shape) for x in program.inputs]
    for sequence in range(program.batch.extent):
        own = program.alone(sequence)
        for whole, x, part, got in zip(
            total, program.inputs, own.inputs, gradients(own, own.inputs, tracked, sequence)
        ):
            cut = tuple(
                slice(sequence, sequence + 1) if dim is program.batch else slice(size)
                for dim, size in zip(x.dims, part.raw_tensor.shape)
            )
            whole[cut] += got
    return total


def check(seed: int) -> bool:
    """Whether the program has gradients to compare; an AssertionError if padding has a part in them."""
    program = Program(seed)
    data = np.random.default_rng(seed).random(program.num_data) < 0.5
    tracked = [*map(bool, data), *[True] * (len(program.inputs) - program.num_data)]
    expected = alone(program, tracked)
    if not all(np.isfinite(got).all() and np.abs(got).max(initial=0) < 1e8 for got in expected):
        return False
    for garbage in (1.0, *GARBAGE):
        spoiled = gradients(program, [with_padding(x, garbage) for x in program.inputs], tracked)
        for x, got, own in zip(program.inputs, spoiled, expected):
            real, where = real_frames(x.dims), f"seed {seed}, padding {garbage}: {x}\n" + "\n".join(program.log)
            np.testing.assert_allclose(got[real], own[real], rtol=1e-6, atol=1e-8, err_msg=where)
            assert (got[~real] == 0).all(), f"{where}\npadding has a gradient"
    return any(np.abs(got).max(initial=0) > 0 for got in expected)


@pytest.fixture(autouse=True)
def double():
    with rf.set_default_float_dtype_ctx("float64"):
        yield


@pytest.mark.parametrize("first", range(0, _NUM, _NUM // 8))
def test_padding_has_no_part_in_the_gradients_of_a_program(first):
    compared = sum(check(seed) for seed in range(first, first + _NUM // 8))
    assert compared > _NUM // 8 // 2
