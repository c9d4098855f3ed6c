"""The entries of the table for ops that change gradients: their values stay as they are."""

from __future__ import annotations

from typing import Any

from table import case, exempt
from world import World

import rfnb as rf


@case("scaled_gradient")
def _scaled_gradient(w: World) -> Any:
    dims = w.dims(at_least=1)
    return rf.scaled_gradient, [w.floats(*dims), w.floats(*w.shuffled(dims)[:1])]


@case("scaled_gradient_ext")
def _scaled_gradient_ext(w: World) -> Any:
    def call(x: Any) -> Any:
        return rf.scaled_gradient_ext(x, scale=0.5, shift=2.0, scale_shift_by_sum_over_axis=w.time)

    return call, [w.floats(w.batch, w.time, w.feat)]


@case("label_smoothed_log_prob_gradient")
def _label_smoothed_log_prob_gradient(w: World) -> Any:
    exclude = [None, [0]][w.rng.integers(2)]

    def call(x: Any) -> Any:
        return rf.label_smoothed_log_prob_gradient(x, 0.1, axis=w.classes, exclude_labels=exclude)

    return call, [w.floats(w.batch, w.time, w.classes)]


exempt("changes only how gradients are computed", "gradient_checkpoint_scope")
