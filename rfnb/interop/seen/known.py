# ruff: noqa: F401
"""The modules and functions of torch that are seen into: importing this registers them."""

from __future__ import annotations

from rfnb.interop.seen import (
    attention,
    fast,
    hf_attention,
    hf_cache,
    hf_inputs,
    hf_outputs,
    hf_softmax,
    outputs,
    recurrent,
    softmax,
    tokens,
)
