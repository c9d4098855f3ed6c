"""What the overview of a long attention costs: a ratio to scores, softmax and pooling in raw torch, row block by row block."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf

SIZE, WIDTH, BLOCK = 8192, 64, 512
LIMIT = 1.0  # one pass less than the raw softmax makes; causal: half of the scores are not computed


def queries_and_keys():
    torch.manual_seed(1)
    return torch.randn(SIZE, WIDTH), torch.randn(SIZE, WIDTH)


def raw(queries, keys, factor, causal):
    """The largest weight of each block of `factor` rows and columns."""
    rows = []
    for first in range(0, SIZE, BLOCK):
        scores = queries[first : first + BLOCK] @ keys.T * WIDTH**-0.5
        if causal:
            scores.masked_fill_(torch.ones_like(scores, dtype=torch.bool).triu(first + 1), -torch.inf)
        weights = scores.softmax(-1)
        rows.append(torch.nn.functional.max_pool2d(weights[None], factor)[0])
    return torch.cat(rows).numpy()


@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_an_overview_costs_about_what_its_scores_do(overhead, causal):
    queries, keys = queries_and_keys()
    factor = rf.LongAttention(queries, keys, causal=causal).factor
    own = rf.LongAttention(queries, keys, causal=causal).overview()
    np.testing.assert_allclose(own, raw(queries, keys, factor, causal), atol=1e-6)
    overhead(
        f"overview {SIZE} x {SIZE}, {'causal' if causal else 'all'}",
        lambda: torch.from_numpy(rf.LongAttention(queries, keys, causal=causal).overview()),
        lambda: torch.from_numpy(raw(queries, keys, factor, causal)),
        limit=LIMIT,
        turns=5,
        warmup=1,
    )
