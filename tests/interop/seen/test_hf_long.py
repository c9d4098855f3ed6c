"""Attention of transformers of more weights than one makes is by rows, and these are the ones that the model returns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.trace import long_attention

transformers = pytest.importorskip("transformers")
LENGTH = 30


@pytest.mark.parametrize("window", [None, 7])
@pytest.mark.parametrize("padded", [False, True])
def test_rows_are_those_of_the_model(window, padded, monkeypatch):
    monkeypatch.setattr(long_attention, "LARGE", LENGTH * LENGTH - 1)
    torch.manual_seed(3)
    config = transformers.MistralConfig(
        vocab_size=23, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=window,
    )  # fmt: skip
    model = transformers.MistralForCausalLM._from_config(config, attn_implementation="sdpa").eval()
    ids, mask = torch.randint(0, 23, (2, LENGTH)), torch.ones(2, LENGTH, dtype=torch.int64)
    if padded:
        mask[1, 20:] = 0
    with torch.no_grad(), rf.record(model=model, kinds="attention") as trace:
        plain = model(ids, attention_mask=mask).logits
    with torch.no_grad():
        assert torch.equal(plain, model(ids, attention_mask=mask).logits)
        model.set_attn_implementation("eager")
        expected = model(ids, attention_mask=mask, output_attentions=True).attentions
    for layer, path in enumerate(trace.by_path("attention")):
        long = trace.attention.long(path)
        for seq, length in enumerate((LENGTH, 20 if padded else LENGTH)):
            rows = long.rows(0, length, head=3, seq=seq)
            np.testing.assert_allclose(rows, expected[layer][seq, 3, :length].numpy(), atol=1e-5)
    assert rf.show(trace).spec.head["parts"]
