"""The result and the `beams` events of a search over alignments, as Tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.dim import Dim, Dims
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.search.label_rules import AllowedPrefixes
from rfnb.search.prefix_beam import PrefixStep, trace_back
from rfnb.trace.probe import probe


class Report:
    """Makes Tensors of host arrays.

    Args:
        like: A Tensor that determines backend and device.
        batch: The batch dims; the first axis of all arrays is over all of them.
        classes: The dim of the labels, including the blank.
        beam: The dim of the prefixes.
        blank: Index of the blank.
        each_step: The unit of a step: "frame" if all hypotheses have then read the same number of frames.
    """

    def __init__(self, like: Tensor, batch: Dims, classes: Dim, beam: Dim, blank: int, *, each_step: str = "step"):
        self._backend, self._device = like.backend, like.device
        self._batch, self._classes, self._beam, self._blank = batch, classes, beam, blank
        self._each_step = each_step
        self._candidates: dict[int, Dim] = {}

    def tensor(self, values: np.ndarray, *dims: Dim, dtype: str, sparse_dim: Dim | None = None) -> Tensor:
        """An array [batch, ...] as a Tensor {*batch dims, *dims}."""
        dims = (*self._batch, *dims)
        values = np.ascontiguousarray(values).reshape([dim.extent for dim in dims])
        out = new_tensor(self._backend.from_numpy(values, dtype=dtype, device=self._device), dims)
        out.sparse_dim = sparse_dim
        return out

    def step(self, name: str, step: PrefixStep, ended: np.ndarray, rule: AllowedPrefixes | None = None) -> None:
        """Send the `beams` event of a step; `ended` [batch, beam]."""
        fields: dict[str, Any] = {} if rule is None else {"blockers": [rule.name]}
        assert step.merged is not None  # it was asked for
        if step.candidates is not None:
            count = step.candidates["cand_tokens"].shape[1]
            dim = self._candidates.setdefault(count, Dim(count, name="candidate"))
            for key, values in step.candidates.items():
                dtype = "bool" if values.dtype == bool else "float32" if values.dtype.kind == "f" else "int64"
                sparse_dim = self._classes if key == "cand_tokens" else None
                fields[key] = self.tensor(values, dim, dtype=dtype, sparse_dim=sparse_dim)
        beam = self._beam
        if step.next is not None:
            labels, log_probs = step.next
            dims = (*([beam] if labels.ndim == 3 else []), Dim(labels.shape[-1], name="next"))
            fields["next_tokens"] = self.tensor(labels, *dims, dtype="int64", sparse_dim=self._classes)
            fields["next_log_probs"] = self.tensor(log_probs, *dims, dtype="float32")
        for key, values in step.parts.items():
            fields[key] = self.tensor(values, beam, dtype="float32")
        probe(
            "beams",
            name=name,
            tokens=self.tensor(step.tokens, beam, dtype="int64", sparse_dim=self._classes),
            parents=self.tensor(step.parents, beam, dtype="int64", sparse_dim=beam),
            scores=self.tensor(step.scores, beam, dtype="float32"),
            ended=self.tensor(ended, beam, dtype="bool"),
            merged=self.tensor(step.merged, beam, dtype="bool"),
            blank=self._blank,
            each_step=self._each_step,
            **fields,
        )

    def result(
        self,
        steps: list[PrefixStep],
        order: np.ndarray,
        scores: np.ndarray,
        out_dim: Dim | None,
        labels: Dim,
        *,
        beam: bool = True,
    ) -> tuple[Tensor, Tensor, Dim]:
        """Labels {*batch dims, beam, out_dim}, scores {*batch dims, beam} and out_dim of the prefixes in these slots; a beam of size
        one may be omitted.
        """
        tokens, lengths = trace_back(steps, order, self._blank)
        return self.of_labels(tokens, lengths, scores, out_dim, labels, beam=beam)

    def of_labels(
        self,
        tokens: np.ndarray,
        lengths: np.ndarray,
        scores: np.ndarray,
        out_dim: Dim | None,
        labels: Dim,
        *,
        beam: bool = True,
    ) -> tuple[Tensor, Tensor, Dim]:
        """Like `result`, from classes [batch, beam, label] and their number."""
        lengths = np.where(scores > -np.inf, lengths, 0)
        tokens = tokens[:, :, : int(lengths.max(initial=0))]
        if labels.extent < self._classes.extent:
            tokens = tokens - (tokens > self._blank)
        out_dim = Dim(None, name="labels") if out_dim is None else out_dim
        dims = (*self._batch, self._beam) if beam else self._batch
        raw = self._backend.from_numpy(lengths.reshape([dim.extent for dim in dims]), dtype="int32", device="cpu")
        out_dim.dyn_size_ext = new_tensor(raw, dims)
        tokens = np.clip(tokens, 0, max(labels.extent - 1, 0))
        own = dims[len(self._batch) :]
        return (
            self.tensor(tokens, *own, out_dim, dtype="int64", sparse_dim=labels),
            self.tensor(scores, *own, dtype="float32"),
            out_dim,
        )
