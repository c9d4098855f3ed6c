"""RunningMean: an exponential moving average over the training batches."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.layout import full_shape
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_checks import dims_of
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.normalization import check_dims
from rfnb.nn.run import run_ctx
from rfnb.ops.amp import widened
from rfnb.ops.cast import cast, copy
from rfnb.ops.gradient import stop_gradient
from rfnb.ops.reduce import reduce_mean


class RunningMean(Module):
    """mean = (1 - alpha) * mean + alpha * (mean over the real frames of this batch), e.g. of label probabilities, as a prior.

    Args:
        in_dim: The dim or dims that are kept.
        alpha: Weight of a new batch: 0 never changes the mean, 1 always takes the new one.
        dtype: The dtype of the mean. Default: the default float dtype.
        is_prob_distribution: The mean starts uniform, 1 / size of in_dim, and always sums to 1. Default: it starts at 0.
        update_only_in_train: False updates it outside of training too.

    Parameters:
        mean: {in}, auxiliary.

    Raises:
        ValueError: If alpha is not in [0, 1].
    """

    def __init__(
        self,
        in_dim: Dim | Sequence[Dim],
        *,
        alpha: float,
        dtype: str | None = None,
        is_prob_distribution: bool | None = None,
        update_only_in_train: bool = True,
    ):
        if not 0 <= alpha <= 1:
            raise value_error(
                "RunningMean: alpha is not a weight.", {"alpha": alpha}, "The new batch has a weight from 0 to 1."
            )
        self.in_dim, self.alpha, self.update_only_in_train = in_dim, alpha, update_only_in_train
        self.is_prob_distribution = bool(is_prob_distribution)
        self._dims = dims_of("RunningMean", in_dim)
        self.mean = Parameter(self._dims, dtype, auxiliary=True)
        if is_prob_distribution:
            self.mean.initial = 1.0 / max(math.prod(full_shape(self._dims)), 1)

    def __call__(self, x: Tensor) -> Tensor:
        """{..., in} -> {in}: the mean, which already includes x if it is updated; without gradient.

        A batch without any real frame does not count.

        Raises:
            DimError: If x lacks a dim of in_dim, or has no other dim.
        """
        check_dims("RunningMean", x, self._dims)
        axes = [dim for dim in x.dims if dim not in self._dims]
        if not axes:
            raise dim_error(
                "RunningMean: nothing to take the mean over.",
                {"x": x},
                "The mean is over all dims but in_dim, so x needs another one.",
            )
        training = run_ctx.get_run_ctx().is_train_flag_enabled(func=RunningMean)
        if (training or not self.update_only_in_train) and x.num_elements():
            new = cast(reduce_mean(widened(stop_gradient(x)), axis=axes), self.mean.dtype)
            self.mean.assign_add((new - self.mean) * self.alpha)
        return copy(stop_gradient(self.mean))  # the next batch changes the mean in place
