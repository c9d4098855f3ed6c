"""SpecAugment: stretches of time and of features masked out in training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Never

import numpy as np

from rfnb.backends import registry
from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.nn.run import run_ctx
from rfnb.ops.operands import need_tensors
from rfnb.ops.random_mask import random_mask


def specaugment(
    x: Tensor,
    *extra: Never,
    spatial_dim: Dim,
    feature_dim: Dim | None = None,
    global_train_step_dependent: bool = True,
    only_on_train: bool = True,
    max_consecutive_spatial_dims: int = 20,
    max_consecutive_feature_dims: int | None = None,
    num_spatial_mask_factor: int = 100,
    num_masks_per_seq: int | None = None,
    steps: Sequence[int] = (0, 1000, 2000),
    **unknown: Never,
) -> Tensor:
    """In training, set random runs of frames, then random runs of features to 0, independently for each sequence;
    otherwise return x itself.

    Let `stage` be the number of `steps` reached and f = 2 ** (stage - 1). The numbers of runs are drawn uniformly: for
    frames from stage - 1 to f * max(length // num_spatial_mask_factor, 2), at most length; for features from stage - 1
    to 1 + f.

    Args:
        x: {..., spatial_dim, feature_dim}
        feature_dim: Default: that of x.
        global_train_step_dependent: Ramp up with the step of the run context, without masks before the first of
            `steps`. False: as if all were reached.
        only_on_train: False also masks outside of training.
        max_consecutive_spatial_dims: Maximal number of frames in a run; at least 1.
        max_consecutive_feature_dims: Maximal number of features in a run. Default: a fifth of all features.
        num_spatial_mask_factor: Number of frames per additional run.
        num_masks_per_seq: Replaces max(length // num_spatial_mask_factor, 2).
        steps: Training steps, in increasing order.

    Returns:
        The dims of x.

    Raises:
        DimError: If spatial_dim or feature_dim is not in x, or x has no feature_dim and none is given.

    Source: Park et al. 2019, "SpecAugment", section 2, time and frequency masks without time warping, which uses one
    number for all lengths; with more masks for longer sequences as in Park et al. 2020, "SpecAugment on Large Scale
    Datasets".
    """
    need_tensors("specaugment", x)
    feature_dim = x.feature_dim if feature_dim is None else feature_dim
    if feature_dim is None:
        raise dim_error(
            "specaugment: which dim is that of the features?",
            {"x": x, "spatial_dim": spatial_dim},
            "x has no feature_dim.",
            "rf.specaugment(..., feature_dim=...)",
        )
    for dim in (spatial_dim, feature_dim):
        check_dim("specaugment", x, dim, "x")
    ctx = run_ctx.get_run_ctx()
    if only_on_train and not ctx.is_train_flag_enabled(func=specaugment):
        return x
    stage = sum(1 for step in steps if ctx.step >= step) if global_train_step_dependent else len(steps)
    if stage == 0:
        return x
    factor = 2 ** (stage - 1)
    least, most = _numbers_of_runs(spatial_dim, stage - 1, factor, num_masks_per_seq, num_spatial_mask_factor)
    x = random_mask(x, mask_axis=spatial_dim, broadcast_axis=feature_dim, min_num=least, max_num=most,
                    max_dims=max_consecutive_spatial_dims)  # fmt: skip
    if max_consecutive_feature_dims is None:
        max_consecutive_feature_dims = max(feature_dim.extent // 5, 1)
    return random_mask(x, mask_axis=feature_dim, broadcast_axis=spatial_dim, min_num=stage - 1, max_num=1 + factor,
                       max_dims=max_consecutive_feature_dims)  # fmt: skip


def _numbers_of_runs(
    spatial_dim: Dim, least: int, factor: int, number: int | None, frames_for_one: int
) -> tuple[Tensor | int, Tensor | int]:
    """The bounds for each sequence, on the host; numbers if all sequences have the same length."""
    lengths = np.asarray(spatial_dim.extent if spatial_dim.lengths is None else spatial_dim.lengths)
    most = factor * (np.maximum(lengths // frames_for_one, 2) if number is None else np.full_like(lengths, number))
    bounds = np.minimum(least, lengths), np.minimum(most, lengths)
    if not spatial_dim.length_dims:
        return int(bounds[0]), int(bounds[1])
    made = [registry.selected().from_numpy(bound, dtype="int32", device="cpu") for bound in bounds]
    return new_tensor(made[0], spatial_dim.length_dims), new_tensor(made[1], spatial_dim.length_dims)
