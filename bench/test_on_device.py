"""What there is to measure only on another device than the CPU: `pytest bench/test_on_device.py --device cuda --rows rows.jsonl`.

A decoder of 50 steps whose step starts more kernels than it computes, in all the ways that it can run; what a recording and a live
view cost there; 16-bit dtypes against float32; memory. None of it has a limit: it is not known yet what it should be.
"""

from __future__ import annotations

import gc

import pytest
import torch
from device import chosen, device, quick
from test_decoder_loop import World
from test_held import Page
from test_transformer import Setup, _update

import rfnb as rf
from rfnb.viz.show import view_of

pytestmark = pytest.mark.skipif(not chosen(), reason="measured with --device")
only_cuda = pytest.mark.skipif(device().type != "cuda", reason="CUDA graphs are of CUDA")
DTYPES = "bfloat16", "float16"


@pytest.fixture(scope="module")
def world():
    return World()


def without_gradients(fn):
    def run():
        with torch.no_grad():
            return fn()

    return run


def captured(world):
    with rf.compile_loops("cuda_graph"):
        return world.recorded()


def recorded(fn):
    with rf.record():
        return fn()


def live(fn):
    """Recorded, with a view that follows, and a page that takes what it is sent."""
    with rf.record() as trace:
        view = view_of(trace)
        view._widget = Page()
        return fn()


def raw_captured(world):
    """The whole decoder as one CUDA graph: nothing in Python is as quick."""
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        world.raw_hoisted()
    torch.cuda.current_stream().wait_stream(side)
    with torch.no_grad(), torch.cuda.graph(graph):
        out = world.raw_hoisted()

    def replay():
        graph.replay()
        return out

    return replay


DECODER = {
    "for / hoisted by hand": (lambda world: world.stepped, lambda world: world.raw_hoisted),
    "with / hoisted by hand": (lambda world: world.recorded, lambda world: world.raw_hoisted),
    "for, recorded / not": (lambda world: lambda: recorded(world.stepped), lambda world: world.stepped),
    "with, recorded / not": (lambda world: lambda: recorded(world.recorded), lambda world: world.recorded),
    "for, live view / recorded": (lambda world: lambda: live(world.stepped), lambda world: lambda: recorded(world.stepped)),
}  # fmt: skip


@pytest.mark.parametrize("name", DECODER)
def test_decoder_without_gradients(overhead, world, name):
    ours, theirs = (without_gradients(side(world)) for side in DECODER[name])
    overhead(f"decoder, {name}", ours, theirs, turns=15, warmup=3)


@only_cuda
def test_captured_decoder(overhead, world):
    ours, raw = without_gradients(lambda: captured(world)), without_gradients(world.raw_hoisted)
    overhead("decoder, captured step / hoisted by hand", ours, raw, turns=15, warmup=3)
    overhead("decoder, captured step / all captured by hand", ours, raw_captured(world), turns=15, warmup=3)


@pytest.mark.parametrize("gradients", [False, True], ids=["forward", "training"])
def test_wide_encoder(overhead, gradients):
    setup = Setup("wide")
    run = training(setup) if gradients else [without_gradients(side) for side in _sides(setup)]
    overhead(f"encoder, wide, {'training' if gradients else 'forward'}", *_alone(run), turns=15, warmup=3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("gradients", [False, True], ids=["forward", "training"])
def test_mixed_precision(overhead, row, dtype, gradients):
    setup = Setup("wide")
    forward, raw = training(setup) if gradients else [without_gradients(side) for side in _sides(setup)]
    what = "training" if gradients else "forward"

    def half():
        with rf.set_amp_policy_ctx(rf.AmpPolicy(dtype)):
            return forward()

    overhead(f"encoder, wide, {what}, {dtype} / float32", *_alone([half, forward]), turns=15, warmup=3)
    if device().type == "sim":
        return  # which has no autocast

    def raw_half():
        with torch.autocast(device().type, dtype=getattr(torch, dtype)):
            return raw()

    if not gradients:
        exact, rounded, by_hand = forward().double(), half().double(), raw_half().double()
        scale = exact.std()
        row(
            f"encoder, wide, {dtype}: deviation from float32, of one standard deviation",
            rfnb=float((rounded - exact).std() / scale),
            raw=float((by_hand - raw().double()).std() / scale),
        )
    overhead(f"encoder, wide, {what}, {dtype}", *_alone([half, raw_half]), turns=15, warmup=3)


def _sides(setup):
    return (
        lambda: torch.where(setup.padded, setup.forward_ours(), 0),
        lambda: torch.where(setup.padded, setup.forward_raw(), 0),
    )


def training(setup):
    """Training steps of both models."""
    ours, raw = _sides(setup)
    parameters = [parameter.raw_tensor for parameter in setup.ours.parameters()], list(setup.raw.parameters())
    optimizers = [torch.optim.Adam(group, lr=1e-4) for group in parameters]
    return [
        lambda: _update(optimizers[0], ours().float().square().mean()),
        lambda: _update(optimizers[1], raw().float().square().mean()),
    ]


def _alone(sides):
    """Both sides without their results: those of 16 bits are not the same, and two trainings go apart."""
    zero = torch.zeros((), device=device())
    return [lambda side=side: (side(), zero)[1] for side in sides]


# -- memory ----------------------------------------------------------------------------------------------------------------------


def allocated():
    """Bytes on the device that somebody holds."""
    module = torch.get_device_module(device())
    if not hasattr(module, "memory_allocated") or device().type == "cpu":
        pytest.skip(f"{device()} does not tell what is allocated")
    gc.collect()
    module.synchronize()
    return module.memory_allocated()


def test_memory_of_a_trace(row, world):
    with torch.no_grad():
        world.stepped()
        before = allocated()
        with rf.record() as trace:
            world.stepped()
        kept = allocated() - before
        events = sum(trace.counts().values())
        del trace
        after = allocated() - before
    row("memory of a trace of the decoder", bytes=kept, events=events, bytes_after=after)
    assert after == 0


def test_memory_of_plans_does_not_grow(row):
    """Of other batches of the same sizes: a run that goes on for days."""
    held = []
    for _ in range(12 if quick() else 60):
        world = World()
        with torch.no_grad():
            world.stepped(), world.recorded()
        del world
        held.append(allocated())
    grown = held[-1] - held[len(held) // 2]
    row("memory that stays of further batches", bytes=grown, batches=len(held) - len(held) // 2 - 1)
    assert grown <= 2**20


@only_cuda
def test_memory_of_a_captured_step(row, world):
    before = allocated(), torch.cuda.memory_reserved()
    without_gradients(lambda: captured(world))()
    row(
        "memory of a captured step",
        bytes=allocated() - before[0],
        reserved=torch.cuda.memory_reserved() - before[1],
    )
