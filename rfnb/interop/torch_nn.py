"""Parameters of torch.nn modules for those of rfnb."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter

if TYPE_CHECKING:
    import torch


def import_params_torch_linear_to_rf(model_pt: torch.nn.Linear, model_rf: Module) -> None:
    """Copy weight (out, in) and bias (out,) of a torch.nn.Linear into an rf.Linear.

    Raises:
        ValueError: If sizes differ, or only one of them has a bias; nothing is copied then.
    """
    in_dim, out_dim = model_rf.weight.dims  # type: ignore[attr-defined]
    _copy("Linear", model_pt, model_rf, model_rf.weight, (out_dim, in_dim))  # type: ignore[attr-defined]


def import_params_torch_conv1d_to_rf(model_pt: torch.nn.Conv1d, model_rf: Module) -> None:
    """Copy weight (out, in / groups, size) and bias (out,) of a torch.nn.Conv1d into an rf.Conv1d.

    Raises:
        ValueError: If sizes differ, or only one of them has a bias; nothing is copied then.
    """
    _copy("Conv1d", model_pt, model_rf, model_rf.filter, model_rf.filter.dims)  # type: ignore[attr-defined]


def import_params_torch_layer_norm_to_rf(model_pt: torch.nn.LayerNorm, model_rf: Module) -> None:
    """Copy weight and bias of a torch.nn.LayerNorm into scale and bias of an rf.LayerNorm (check that eps is the same too).

    Raises:
        ValueError: If sizes differ, or only one of them has a bias; nothing is copied then.
    """
    _copy("LayerNorm", model_pt, model_rf, model_rf.scale, model_rf.scale.dims)  # type: ignore[attr-defined]


def _copy(what: str, model_pt: Any, model_rf: Module, parameter: Parameter, dims: tuple[Dim, ...]) -> None:
    """Copy the weight, whose order in torch are these dims, and the bias, once all is known to fit."""
    weight = _fitting(what, model_pt.weight, parameter, dims)
    bias_pt, bias_rf = getattr(model_pt, "bias", None), getattr(model_rf, "bias", None)
    if (bias_pt is None) != (bias_rf is None):
        raise value_error(
            f"import_params_torch: {what} with and without bias.",
            [("torch", "no bias" if bias_pt is None else "bias"), ("rfnb", "no bias" if bias_rf is None else "bias")],
            "Both need the same parameters.",
            f"rf.{what}(..., with_bias={bias_pt is not None})",
        )
    bias = None if bias_rf is None else _fitting(what, bias_pt, bias_rf, bias_rf.dims)
    parameter.assign(weight)
    if bias_rf is not None:
        bias_rf.assign(bias)


def _fitting(what: str, raw: Any, parameter: Parameter, dims: tuple[Dim, ...]) -> Tensor:
    """A torch parameter as Tensor {dims}, in the order that torch has."""
    if raw is None or tuple(raw.shape) != tuple(dim.extent for dim in dims):
        raise value_error(
            f"import_params_torch: {what} of another size.",
            [("torch", "no weight" if raw is None else tuple(raw.shape)), ("rfnb", shape_of(parameter))],
            "Parameters of the same layer have the same sizes.",
        )
    return Tensor(what, dims, raw_tensor=raw.detach())
