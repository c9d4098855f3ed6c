"""What `rf.check_batch` costs: a ratio to the passes of the model that it makes, by themselves, in turns."""

from __future__ import annotations

import pytest
import torch
from ratio import measure

import rfnb as rf

LIMIT = 1.2  # 1.08 to 1.10 and 1.11 to 1.18 were measured in a fresh process
ROWS, LENGTH, WIDTH = 4, 128, 256


class Encoder(torch.nn.Module):
    """Four layers, whose inputs are noted in each pass, also in copies of it."""

    noted: list | None = None

    def __init__(self, causal):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, batch_first=True, norm_first=causal)
        self.layers = torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.causal = causal

    def forward(self, x, padding):
        if Encoder.noted is not None:
            Encoder.noted.append((self, x.clone(), padding.clone(), torch.is_grad_enabled()))
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1) if self.causal else None
        return self.layers(x, mask=mask, src_key_padding_mask=padding)


@pytest.mark.parametrize("causal", [False, True])
def test_the_passes_that_a_check_needs(causal):
    """Four sequences of up to 128 positions, four layers of width 256; no leak, so nothing is looked for."""
    torch.manual_seed(1)
    model, done = Encoder(causal).eval(), torch.zeros(1)
    x = torch.randn(ROWS, LENGTH, WIDTH)
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

    found = measure(f"check_batch, {len(passes)} passes", checked, plain, limit=LIMIT, turns=7, warmup=1)
    print(f"\n{found}")
    found.check()
