"""What `rf.check_batch` costs: a ratio to the passes of the model that it makes, by themselves, in turns."""

from __future__ import annotations

import pytest
import torch
from ratio import measure

import rfnb as rf

ROWS, LENGTH = 4, 128


class Encoder(torch.nn.Module):
    """Four layers, whose inputs are noted in each pass, also in copies of it."""

    noted: list | None = None

    def __init__(self, causal, width):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True, norm_first=causal)
        self.layers = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.causal = causal

    def forward(self, x, padding):
        if Encoder.noted is not None:
            Encoder.noted.append((self, x.clone(), padding.clone(), torch.is_grad_enabled()))
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if self.causal else None
        return self.layers(x, mask=mask, src_key_padding_mask=padding)


# In turns with the passes alone: 1.05 and 1.17 at width 256, 1.11 and 1.25 at 64. The floor does not depend on the width: 29,000 calls of
# Python where the ten passes by themselves make 9,000. What is left is one copy of the model in float64, two passes under a mode of torch,
# which ask whether the code lowers the dtype (layers of torch do not run fused then), and eleven comparisons of results.
@pytest.mark.parametrize(("width", "limit"), [(256, 1.2), (64, 1.4)])
@pytest.mark.parametrize("causal", [False, True])
def test_the_passes_that_a_check_needs(causal, width, limit):
    """Four sequences of up to 128 positions, four layers; no leak, so nothing is looked for."""
    torch.manual_seed(1)
    model, done = Encoder(causal, width).eval(), torch.zeros(1)
    x = torch.randn(ROWS, LENGTH, width)
    padding = torch.arange(LENGTH) >= torch.tensor([LENGTH, 100, 70, 40])[:, None]
    Encoder.noted = []
    try:
        assert rf.check_batch(model, {"x": x, "padding": padding}).verdict in ("rounding", "same")
        passes = Encoder.noted
    finally:
        Encoder.noted = None
    assert len(passes) <= 10 + ROWS

    def checked():
        rf.check_batch(model, {"x": x, "padding": padding})
        return done

    def plain():
        for module, source, mask, grad in passes:
            with torch.set_grad_enabled(grad):
                module(source, mask)
        return done

    found = measure(
        f"check_batch, {len(passes)} passes of width {width}", checked, plain, limit=limit, turns=7, warmup=1
    )
    print(f"\n{found}")
    found.check()
