"""The coverage penalty: hypotheses that leave parts of the source unattended are ranked lower."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.tensor import Tensor
from rfnb.search.search_state import host_of
from rfnb.trace.beams import Hypothesis


class Coverage:
    """beta * sum over the source of log(min(attention summed over steps, 1)).

    Source: Wu et al. 2016, "Google's Neural Machine Translation System", section 7, equation (14).
    """

    def __init__(self, beta: float):
        self.beta = beta
        self.total: np.ndarray | None = None  # {batch, hypotheses before the choice, source}
        self.steps: list[np.ndarray] = []  # in each step, {batch, hypotheses before the choice}: the penalty
        self._mask: np.ndarray | None = None

    def attend(self, out: Any, label: Tensor, raw: bool, step: Any) -> None:
        """Add the attention of a step, the third value of the step function."""
        weights = step.last[2] if raw and len(step.last) > 2 else out[2] if not raw and len(out) > 2 else None
        if weights is None:
            raise ValueError(
                "beam_search: coverage without attention weights.\nThe step function gives them as third value.\n"
                "    return log_prob, state, weights"
            )
        if raw:
            host = np.asarray(weights.detach().cpu() if hasattr(weights, "detach") else weights)
            host = host.reshape(step.batch.extent, -1, host.shape[-1])
        else:
            (source,) = (dim for dim in weights.dims if dim not in label.dims)
            order = (*label.dims, source)
            host = host_of(weights, order)
            if source.lengths is not None and source.length_dims:
                self._mask = np.broadcast_to(source.host_mask(order), host.shape)
                host = np.where(self._mask, host, 0)
                self._mask = self._mask.reshape(label.dims[0].extent, -1, host.shape[-1])
            host = host.reshape(label.dims[0].extent if label.dims else 1, -1, host.shape[-1])
        self.total = host if self.total is None else self.total + host
        covered = np.log(np.clip(self.total, 1e-10, 1.0))
        if self._mask is not None:
            covered = np.where(self._mask[:, :1], covered, 0)
        self.steps.append(self.beta * covered.sum(-1))

    def follow(self, parents: Tensor) -> None:
        """The hypotheses after the choice continue their parents."""
        assert self.total is not None
        index = parents.numpy().reshape(self.total.shape[0], -1)
        self.total = np.take_along_axis(self.total, index[..., None], 1)

    def after_last_step(self, seq: int, parent: int) -> float:
        """The penalty of a hypothesis that the last step has made from the one in slot `parent`."""
        return float(self.steps[-1][seq, parent])

    def penalty(self, seq: int, item: Hypothesis) -> float:
        """The penalty of a hypothesis, when it was complete."""
        step, _ = item.path[-1]
        parent = item.path[-2][1] if step else 0
        return float(self.steps[step][seq, parent])
