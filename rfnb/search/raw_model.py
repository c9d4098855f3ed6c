"""Adapts a step function on raw arrays to Tensors: rows are batch times hypotheses, and the state follows the parents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim
from rfnb.core.errors import shape_error, type_error, value_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tree import map_nested


class RawModel:
    """Calls a step function with raw labels (n,) and its state.

    Attributes:
        name: Name of a fused model; "" for the model itself.
        state: Any nested structure with arrays (n, ...).
        vocab_of: The step that defines the labels; None for its own.
    """

    def __init__(self, fn: Callable[[Any, Any], Any], batch: Dim, vocab: Sequence[str] | None, name: str = ""):
        self.fn, self.batch, self.vocab, self.name = fn, batch, vocab, name
        self.state: Any = None
        self.vocab_of: RawModel | None = None
        self.labels_dim: Dim | None = None
        self.rows = batch.extent
        self.last: tuple[Any, ...] = ()

    def __call__(self, label: Tensor, state: Any) -> tuple[Any, ...]:
        """(scores {batch, beam, labels}, None)."""
        beams = [dim for dim in label.dims if dim is not self.batch]
        raw = label.copy_transpose([self.batch, *beams])._raw
        self.rows = int(np.prod([dim.extent for dim in label.dims]))
        out = self.last = self.checked(self.fn(label.backend.reshape_raw(raw, (self.rows,)), self.state))
        scores, self.state = out[0], out[1]
        shape = tuple(scores.shape)
        owner = self.vocab_of or self
        known = owner.labels_dim
        if len(shape) != 2 or shape[0] != self.rows or (known is not None and shape[1] != known.extent):
            raise shape_error(
                f"beam_search: the step function{self.name and ' of '}{self.name} gives scores of another shape.",
                {
                    "labels": f"({self.rows},)",
                    "scores": shape,
                    "needs": f"({self.rows}, {known.extent if known else 'labels'})",
                },
                "One row for each label it was given: batch times hypotheses."
                + ("\nAll models score the same labels." if self.name else ""),
            )
        if known is None:
            vocab = None if self.vocab is None else list(self.vocab)
            if vocab is not None and len(vocab) != shape[1]:
                raise value_error(
                    "beam_search: vocab is of other labels than the scores.",
                    {"vocab": f"{len(vocab)} labels", "scores": shape},
                    "It has the text of each label, in their order.",
                )
            known = owner.labels_dim = Dim(shape[1], name="labels", vocab=vocab)
        self.labels_dim = known
        tensor = self.tensor(scores, [known], beams)
        tensor.feature_dim = known
        return tensor, None

    @staticmethod
    def checked(out: Any) -> tuple[Any, ...]:
        """Check the result of a step function.

        Raises:
            TypeError: If it does not contain at least scores and state.
        """
        if not isinstance(out, (tuple, list)) or not 2 <= len(out) <= 3:
            given = f"{type(out).__name__} of {len(out)}" if isinstance(out, (tuple, list)) else type(out).__name__
            raise type_error(
                "beam_search: the step function gives no pair.",
                {"given": given},
                "It gives the scores of the next labels and the next state (None if there is none).",
                "return log_prob, state",
            )
        return tuple(out)

    def tensor(self, raw: Any, rest: list[Dim], beams: list[Dim]) -> Tensor:
        """A raw array (n, ...) as a Tensor {batch, beam, ...}."""
        backend = registry.get_backend_by_raw_tensor_type(type(raw))
        dims = (self.batch, *beams, *rest)
        return new_tensor(backend.reshape_raw(raw, [dim.extent for dim in dims]), dims)

    def follow(self, parents: Tensor) -> None:
        """Reorder the state, so that each hypothesis continues its parent's."""
        backend = parents.backend
        order = (self.batch, *(dim for dim in parents.dims if dim is not self.batch))
        index = parents.copy_transpose(order)._raw
        width = self.rows // max(self.batch.extent, 1)
        starts = (np.arange(self.batch.extent) * width)[:, None]
        starts = backend.from_numpy(starts, dtype="int64", device=parents.device)
        rows = backend.reshape_raw(backend.binary_tensors_fn("add")(index, starts), (-1,))
        before = self.rows

        def of_parents(leaf: Any) -> Any:
            if hasattr(leaf, "reorder_cache"):
                leaf.reorder_cache(rows)
                return leaf
            shape = getattr(leaf, "shape", None)
            if shape is None or len(shape) == 0 or shape[0] != before or isinstance(leaf, Tensor):
                return leaf
            return backend.take_raw(leaf, rows, 0)

        self.state = map_nested(of_parents, self.state)
