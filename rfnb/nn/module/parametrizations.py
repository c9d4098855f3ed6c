"""Parametrizations for training: dropout and noise on weights."""

from __future__ import annotations

from typing import Never

from rfnb.core.call_errors import no_keyword
from rfnb.core.tensor import Tensor
from rfnb.nn.dropout import dropout
from rfnb.nn.module.module import Module
from rfnb.nn.module.parametrize import register_parametrization
from rfnb.nn.run import run_ctx
from rfnb.ops.random import random_normal


def weight_dropout(module: Module, param_name: str, *extra: Never, drop_prob: float, **unknown: Never) -> Module:
    """In training, entries of this parameter are zero with `drop_prob`, anew at every access. Returns the module.

    Raises:
        AttributeError: If the module has no such parameter.
        ValueError: If drop_prob is not in [0, 1).

    Source: Wan et al. 2013, "Regularization of Neural Networks using DropConnect".
    """
    if extra or unknown:
        raise no_keyword(unknown)
    return register_parametrization(module, param_name, WeightDropout(drop_prob))


class WeightDropout:
    """Dropout on a parameter; see `weight_dropout`.

    Raises:
        ValueError: If drop_prob is not a probability below 1.
    """

    def __init__(self, drop_prob: float):
        if not 0 <= drop_prob < 1:
            raise ValueError(f"WeightDropout: drop_prob {drop_prob}.\nA probability from 0 up to, not including, 1.")
        self.drop_prob = drop_prob

    def __call__(self, param: Tensor) -> Tensor:
        """The same dims; the entries kept are scaled by 1 / (1 - drop_prob)."""
        if not run_ctx.get_run_ctx().is_train_flag_enabled(func=WeightDropout):
            return param
        return dropout(param, self.drop_prob)


def weight_noise(module: Module, param_name: str, *extra: Never, std: float, **unknown: Never) -> Module:
    """In training, this parameter has Gaussian noise added, anew at every access. Returns the module.

    Args:
        std: Standard deviation of the noise, in units of the parameter.

    Raises:
        AttributeError: If the module has no such parameter.

    Source: Graves 2011, "Practical Variational Inference for Neural Networks" (with a fixed standard deviation).
    """
    if extra or unknown:
        raise no_keyword(unknown)
    return register_parametrization(module, param_name, WeightNoise(std))


class WeightNoise:
    """Gaussian noise on a parameter; see `weight_noise`."""

    def __init__(self, std: float):
        self.std = std

    def __call__(self, param: Tensor) -> Tensor:
        """The same dims."""
        if self.std == 0 or not run_ctx.get_run_ctx().is_train_flag_enabled(func=WeightNoise):
            return param
        return param + random_normal(param.dims, dtype=param.dtype, device=param.device, stddev=self.std)
