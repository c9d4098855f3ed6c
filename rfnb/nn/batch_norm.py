"""BatchNorm: each feature normalised over all real frames of the batch."""

from __future__ import annotations

from typing import Never

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, not_implemented_error
from rfnb.core.tensor import Tensor
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.normalization import affine, check_dims, wide_moments
from rfnb.nn.run import run_ctx
from rfnb.ops.amp import narrowed, widened
from rfnb.ops.dims import use_mask_default
from rfnb.ops.gradient import stop_gradient
from rfnb.ops.math import rsqrt


class BatchNorm(Module):
    """(x - mean) / sqrt(variance + eps) * gamma + beta, over all dims but `in_dim`.

    In training the statistics are those of the batch, and the running statistics are updated; otherwise the running ones are used.

    Args:
        affine: Whether to have gamma and beta.
        momentum: running = (1 - momentum) * running + momentum * batch.
        track_running_stats: False always uses the statistics of the batch.
        use_mask: False includes the padding. Default: padding is excluded.
        distributed: True is not supported.

    Raises:
        NotImplementedError: For distributed statistics.

    Parameters:
        gamma: {in}, one. beta: {in}, zero.
        running_mean: {in}, zero. running_variance: {in}, one; biased (torch keeps the unbiased one). Both auxiliary.

    Source: Ioffe and Szegedy 2015, algorithm 1.
    """

    def __init__(
        self,
        in_dim: Dim,
        *,
        affine: bool = True,
        momentum: float = 0.1,
        eps: float = 1e-3,
        track_running_stats: bool = True,
        use_mask: bool | None = None,
        distributed: bool | None = None,
    ):
        if batch_norm_distributed_default() if distributed is None else distributed:
            raise not_implemented_error(
                "BatchNorm: distributed statistics.",
                {"in_dim": in_dim, "distributed": distributed},
                "The statistics are those of the batch of this process.",
                "rf.BatchNorm(in_dim)",
            )
        self.in_dim, self.momentum, self.eps = in_dim, momentum, eps
        self.use_mask = use_mask_default(default=use_mask)
        self.gamma = Parameter((in_dim,), initial=1.0) if affine else None
        self.beta = Parameter((in_dim,)) if affine else None
        self.running_mean = Parameter((in_dim,), auxiliary=True) if track_running_stats else None
        self.running_variance = Parameter((in_dim,), auxiliary=True, initial=1.0) if track_running_stats else None

    def __call__(self, source: Tensor) -> Tensor:
        """{..., in} -> {..., in}.

        Raises:
            DimError: If source has no in_dim, or no other dim to take statistics over.
        """
        check_dims("BatchNorm", source, (self.in_dim,))
        training = run_ctx.get_run_ctx().is_train_flag_enabled(func=BatchNorm)
        wide = widened(source)
        if self.use_mask and (training or self.running_mean is None):
            wide = wide.copy_masked(0)  # as in `moments`
        mean, variance = self.running_mean, self.running_variance
        if mean is None or variance is None:
            mean_now, variance_now = self._of_batch(wide)
        elif training:
            mean_now, variance_now = self._of_batch(wide)
            mean.assign_add((stop_gradient(mean_now) - mean) * self.momentum)
            variance.assign_add((stop_gradient(variance_now) - variance) * self.momentum)
        else:
            mean_now, variance_now = mean, variance
        out = (wide - widened(mean_now)) * rsqrt(widened(variance_now) + self.eps)
        return narrowed(affine(out, self.gamma, self.beta), source)

    def _of_batch(self, source: Tensor) -> tuple[Tensor, Tensor]:
        axes = tuple(dim for dim in source.dims if dim is not self.in_dim)
        if not axes:
            raise dim_error(
                "BatchNorm: nothing to take statistics over.",
                {"source": source, "in_dim": self.in_dim},
                "In training the mean is over all dims but in_dim, so source needs another one.",
            )
        return wide_moments(source, axes, use_mask=self.use_mask)


def batch_norm_distributed_default(*extra: Never, **unknown: Never) -> bool:
    """Whether BatchNorm takes its statistics over all processes of a distributed training: always False.

    rfnb has no global configuration, and reduces only within one process.
    """
    return False
