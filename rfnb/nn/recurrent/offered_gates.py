"""Gates of single steps, for who records states."""

from __future__ import annotations

from collections.abc import Mapping

from rfnb.core.tensor import Tensor
from rfnb.trace.probe import probe, trace_context


def offer_gates(gates: Mapping[str, Tensor]) -> None:
    """Offer the gates of a step at "gates" below the path of the unit: at its own path the loop around it may offer the state."""
    with trace_context.scope("gates"):
        probe("states", **gates)
