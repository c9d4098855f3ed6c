"""The entries of the table for running means and piecewise linear functions."""

from __future__ import annotations

from typing import Any

from table import case, exempt
from world import World

import rfnb as rf
from rfnb import Tensor


@case("RunningMean")
def _running_mean(w: World) -> Any:
    dims = w.shuffled((w.feat, w.heads))[: w.rng.integers(1, 3)]

    def call(x: Tensor, y: Tensor) -> Any:
        with rf.set_default_device_ctx(x.device):
            mean = rf.RunningMean(dims, alpha=0.3, is_prob_distribution=True)
        with rf.init_train_step_run_ctx():
            return mean(x), mean(y)

    return call, [w.floats(w.batch, w.time, w.feat, w.heads), w.floats(w.heads, w.batch, w.feat)]


@case("PiecewiseLinear")
def _piecewise_linear(w: World) -> Any:
    return rf.PiecewiseLinear({-2: 1.0, 0.3: 4.0, 2.5: -1.0}), [w.floats(*w.dims())]


@case("PiecewiseLinearStepwiseScheduler")
def _schedule(w: World) -> Any:
    def call(x: Tensor) -> Tensor:
        with rf.init_train_step_run_ctx(step=3):
            return x * rf.PiecewiseLinearStepwiseScheduler({0: 0.0, 5: 1.0})()

    return call, [w.floats(*w.dims())]


exempt("a default, not an op", "batch_norm_distributed_default dropout_broadcast_default use_mask_default")
exempt("looks at what there is, computes nothing", "get_tensor_consumers get_tensor_dependencies walk_tensor_consumers")
