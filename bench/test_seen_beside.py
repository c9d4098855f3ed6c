"""What a recorded value costs, beside nnsight in one run: the results of all modules of a GPT-2 of twelve layers, kept.

nnsight is run as its documentation says, a trace with `.save()` for each result. Both are measured in CPU seconds beyond plain passes; ours
in two parts, the passes with opening, and the first look at all values. The aim is 10 microseconds for each array of a recording, inputs
included. It is missed: 51 in the passes and 12 to look, on a busy machine where nnsight takes 30 for each of its values (results only, not
copied, without names). Before dims were found once for each situation the passes took 58 to 67 beside 20.

Per module call of a GPT-2 of width 64 it was 100 in all and is 80. Of these, by samples of the stack, 16 are the event with the copy of the
result (4), 16 find the dims of inputs and results, 9 are attention, 8 opening the recording (of 4 passes), 4 readers, the rest is around a
call. At width 256 copies take more: they are memory that the next pass cannot use. The garbage collector takes some 10 per call, more
where it goes through all objects. A wrapper, an event and a copy alone are an estimated 20 per call, two values, so 10 is about the floor.
"""

from __future__ import annotations

import pytest
import torch
from test_seen import gpt2, memory_stays, seconds  # noqa: F401  # a fixture of every test here

import rfnb as rf
from rfnb.core.tree import values_in

nnsight = pytest.importorskip("nnsight", reason="is measured beside: pip install 'rfnb[bench]'")
TURNS, PASSES = 9, 4
IN_THE_PASSES, TO_LOOK = 2.4, 0.7


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
