"""What a sweep of patches costs, as a ratio to the plain passes that it needs; and what an edit costs in one pass."""

from __future__ import annotations

import pytest
import torch
from test_seen import gpt2, seconds

import rfnb as rf

TURNS = 5


def ids(seed, length=32):
    torch.manual_seed(seed)
    return torch.randint(0, 500, (1, length))


@pytest.mark.parametrize("over", ["position", "head"])
def test_a_sweep_costs_the_passes_that_it_needs(over):
    torch.manual_seed(1)
    model, _ = gpt2(256)
    clean, corrupted = ids(2), ids(3)
    numbers = (0, 11) if over == "position" else (0, 3, 5, 7, 9, 11)
    layers = [f"transformer.h.{number}" for number in numbers]
    # Over heads the clean run is made twice: where heads are is known from one pass, what they give from another one.
    passes = 2 + 2 * 32 if over == "position" else 3 + 6 * 8
    metric = lambda output: output.logits[:, -1, 3] - output.logits[:, -1, 7]  # noqa: E731

    def plainly():
        for _ in range(passes):
            float(metric(model(corrupted)).mean())

    sweep = lambda: rf.patch_sweep(model, clean, corrupted, metric, over=over, layers=layers)  # noqa: E731
    with torch.no_grad():
        plainly(), sweep()
        pairs = [(seconds(plainly), seconds(sweep)) for _ in range(TURNS)]
    plain, ours = (min(turns) for turns in zip(*pairs))
    print(f"\nsweep over {over}: {ours / plain:.3f} of {passes} plain passes of {plain / passes * 1e3:.1f} ms")
    assert ours / plain <= 1.1


@pytest.mark.parametrize("place", ["h.5", "h.5.attn.weights[head=0]"])
def test_an_edit_in_a_pass(place):
    torch.manual_seed(1)
    model, run = gpt2(768)

    def edited():
        with rf.edit(model, {place: lambda raw: raw * 0.5}):
            run()

    with torch.no_grad():
        run(), edited()
        pairs = [(seconds(run), seconds(edited)) for _ in range(TURNS)]
    plain, ours = (min(turns) for turns in zip(*pairs))
    print(f"\nedit of {place}: {ours / plain:.3f} of a plain pass of {plain * 1e3:.0f} ms")
    assert ours / plain <= 1.15
