"""What a recorded value costs, beside nnsight in one run: the results of all modules of a GPT-2 of twelve layers, kept.

nnsight is run by its documented way, a trace with `.save()` for each result; both by the CPU seconds beyond plain passes. The aim is 10
microseconds for each array of a recording, in which are inputs, too. It is missed: on a busy machine some 59, of a GPT-2 of width 64 (67
before Tensors were made when somebody looks); nnsight, before that, 25 (which keeps results alone, not copied, without names).

Of a call of a module, in microseconds of CPU with each part timed: 37 to name what goes in and comes out, 25 for the event, 13 to copy the
result, which the model may change in place, 16 for attention; the rest, some 50, is opening and around a call. Names are found while
the model runs, since they follow memory, which is gone afterwards.
"""

from __future__ import annotations

import pytest
import torch
from test_seen import gpt2, memory_stays, seconds  # noqa: F401  # a fixture of every test here

import rfnb as rf
from rfnb.core.tree import values_in

nnsight = pytest.importorskip("nnsight", reason="is measured beside: pip install 'rfnb[bench]'")
TURNS, PASSES = 9, 4
IN_THE_PASSES, TO_LOOK = 2.6, 0.8


def test_a_recorded_value():
    torch.manual_seed(1)
    model, _ = gpt2(256)
    ids = torch.randint(0, 500, (1, 32))
    modules: list[str] = []  # in the order in which they return, as a trace asks for them
    hooks = [
        module.register_forward_hook(lambda *_, name=name: modules.append(name))
        for name, module in model.named_modules()
        if name
    ]
    model(ids)
    for hook in hooks:
        hook.remove()
    theirs = nnsight.NNsight(model)
    traces, counts = [], []

    def plainly():
        for _ in range(PASSES):
            model(ids)

    def ours():
        traces.clear()
        with rf.record(model=model, values=True) as trace:
            plainly()
        traces.append(trace)

    def looked():
        leaves = [leaf for event in traces[0].events for leaf in values_in(dict(event.values))]
        counts[:] = [sum(isinstance(leaf, rf.Tensor) for leaf in leaves)]

    def saved():
        for _ in range(PASSES):
            kept: list[object] = []
            with theirs.trace(ids):
                for name in modules:
                    kept.append(theirs.get(name).output.save())
            assert len(kept) == len(modules)

    with torch.no_grad():
        plainly(), ours(), looked(), saved()
        turns = [(seconds(plainly), seconds(ours), seconds(looked), seconds(saved)) for _ in range(TURNS)]
    plain, here, look, there = (min(each) for each in zip(*turns))
    own, look = (here - plain) / counts[0] * 1e6, look / counts[0] * 1e6
    other = (there - plain) / (len(modules) * PASSES) * 1e6
    print(
        f"\n{own:.1f} us in the passes and {look:.1f} us to look, for each of {counts[0]} values; "
        f"nnsight {other:.1f} us for each of {len(modules) * PASSES}"
    )
    assert own / other <= IN_THE_PASSES
    assert look / other <= TO_LOOK
