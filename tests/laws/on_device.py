"""The law of devices as functions: on the simulated device a case gives what it gives on the CPU, where its operands are.

What the host asks of that device is seen: reads of values and copies, for which it may have to wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from asserting import real_frames
from laws import Case, as_leaf, parts_in
from simulated import NAME, Seen, watched
from world import World

import rfnb as rf
from rfnb import Dim, Tensor

Make = Callable[[], World]


def check_same_values(name: str, case: Case, world: Make) -> None:
    """Results and gradients are those of the CPU, for the same seeds. A real device draws other numbers: then only what draws none.

    Raises:
        AssertionError: If they differ.
    """
    expected, actual = (_outcome(case, world, device) for device in ("cpu", NAME))
    if NAME != "sim":
        again = _outcome(case, world, "cpu", seed=4)
        if any(isinstance(x, np.ndarray) and not np.array_equal(x, y, equal_nan=True) for x, y in zip(expected, again)):
            return
    assert len(actual) == len(expected), name
    tolerance = 1e-5 if NAME == "sim" else 1e-2  # a GPU rounds the operands of a convolution
    for index, (one, other) in enumerate(zip(actual, expected)):
        where = f"{name}, part {index}"
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance, err_msg=where)
        else:
            assert one == other, where


def second_call(case: Case, world: Make) -> tuple[set[str], Seen]:
    """The case called twice on operands of the device, while new tensors are made on the CPU by default. Plans, masks and tables of
    its dims are there from a call on the CPU.

    Returns:
        The devices of its results, if it has operands; what its second call asked of the device.
    """
    call, inputs = case(world())
    call(*inputs)
    inputs = [rf.copy_to_device(x, NAME) for x in inputs]
    call(*inputs)
    with watched() as seen:
        result = call(*inputs)
    return {x.raw_tensor.device.type for x in parts_in(result, Tensor) if inputs}, seen


def _outcome(case: Case, world: Make, device: str, seed: int = 3) -> list[Any]:
    """Dims as text, values and gradients of real frames."""
    rf.set_random_seed(seed)
    with rf.set_default_device_ctx(device):
        call, inputs = case(world())
        given = [as_leaf(x) for x in inputs]
        found = list(parts_in(call(*given)))
    out: list[Any] = []
    total: Any = 0
    for part in found:
        if isinstance(part, Dim):
            out.append(repr(part))
        elif isinstance(part, Tensor):
            real, raw = real_frames(part.dims), part.raw_tensor
            out += [repr(part.dims), part.dtype, repr(part.sparse_dim), _host(raw)[real]]
            if raw.requires_grad and raw.is_floating_point():
                here = torch.from_numpy(np.array(real)).to(raw.device) & raw.isfinite()
                total = total + torch.where(here, raw, 0).double().cpu().sum()
    leaves = [x.raw_tensor for x in given if x.raw_tensor.requires_grad]
    if leaves and isinstance(total, torch.Tensor):
        gradients = torch.autograd.grad(total, leaves, allow_unused=True)
        out += [None if gradient is None else _host(gradient) for gradient in gradients]
    return out


def _host(raw: Any) -> np.ndarray:
    raw = raw.detach().cpu()
    return (raw.float() if raw.dtype == torch.bfloat16 else raw).numpy()
