"""Cheating: the reference is always the last hypothesis of the beam."""

from __future__ import annotations

import numpy as np

from rfnb.core.tensor import Tensor
from rfnb.rec.loop import Loop
from rfnb.rec.selection import align_host
from rfnb.search.rank import Flat
from rfnb.search.search_state import host_of


def reference_index(flat: Flat, target: Tensor, loop: Loop, end_label: int) -> np.ndarray:
    """The index in `flat` of the reference label on the reference path, int64 {batch dims}."""
    labels = np.clip(host_of(target, flat.rest), 0, flat.num_labels - 1).astype(np.int64)
    ended = loop.ended_before()
    dims = loop.end_dims
    if ended is not None and dims and set(dims) <= set(flat.rest):  # past the end there is the end
        labels = np.where(align_host(ended, dims, flat.rest), end_label, labels)
    if flat.in_dim is None:
        return labels
    return _path(flat, labels, loop) * flat.num_labels + labels


def _path(flat: Flat, labels: np.ndarray, loop: Loop) -> np.ndarray:
    """The hypothesis on the reference path: the last one; after a choice of this step that does not cheat, the best continuation of
    what was last before it.
    """
    assert flat.in_dim is not None
    count = flat.in_dim.extent
    before = loop.selections.now
    if before is None or before.out_dim is not flat.in_dim:
        return np.full_like(labels, count - 1)
    if before.out_dim.choice.cheats:
        return np.full_like(labels, count - 1)
    parents = host_of(before.parents, (*flat.rest, flat.in_dim))
    start = before.parents.sparse_dim
    assert start is not None
    last = start.extent - 1 if start in before.sources else 0  # in the first step there is one hypothesis
    backend = flat.backend
    scores = backend.raw_to_numpy(flat.raw).reshape(*labels.shape, count, flat.num_labels)
    own = np.take_along_axis(scores, labels[..., None, None], -1)[..., 0]
    own = np.where(parents == last, np.maximum(own, np.finfo(own.dtype).min), -np.inf)
    return own.argmax(-1)


def without_reference(flat: Flat, index: np.ndarray) -> Flat:
    """flat with -inf at the reference, so that it is not found twice."""
    backend = flat.backend
    here = np.zeros(backend.get_shape_tuple_raw(flat.raw), bool)
    np.put_along_axis(here, index[..., None], True, -1)
    mask = backend.from_numpy(here, dtype="bool", device=backend.get_device_raw(flat.raw))
    raw = backend.where_raw(mask, float("-inf"), flat.raw)
    return Flat(raw, flat.rest, flat.num_labels, flat.in_dim, flat.axis, backend)
