"""Convert parameters between torch.nn modules and rfnb; for recurrent layers also between layouts: gate orders, joint
kernels of input and state.

block order     i input gate, f forget gate, j cell input, o output gate
NativeLstm2     jifo, W and W_re (in, 4n), b
StandardLSTM    ijfo, one kernel (in + n, 4n); 1 is added to f
torch.nn.LSTM   ifjo, (4n, in), two biases
rf.LSTM like torch, one bias
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dim import Dims
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.gru import TorchGRUCell
from rfnb.nn.recurrent.lstm import LSTM
from rfnb.nn.recurrent.native_lstm import NativeLstm2
from rfnb.nn.recurrent.standard_lstm import BasicRNNCell, StandardLSTMCell

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


def _copy(what: str, model_pt: Any, model_rf: Module, parameter: Parameter, dims: Dims) -> None:
    """Copy the weight, whose torch axes are these dims, and the bias, after checking that both fit."""
    weight = _fitting(what, model_pt.weight, parameter, dims)
    bias_pt, bias_rf = getattr(model_pt, "bias", None), getattr(model_rf, "bias", None)
    if (bias_pt is None) != (bias_rf is None):
        raise value_error(
            f"import_params_torch: only one {what} has a bias.",
            {"torch": "no bias" if bias_pt is None else "bias", "rfnb": "no bias" if bias_rf is None else "bias"},
            "Both need the same parameters.",
            f"rf.{what}(..., with_bias={bias_pt is not None})",
        )
    bias = None if bias_rf is None else _fitting(what, bias_pt, bias_rf, bias_rf.dims)
    parameter.assign(weight)
    if bias_rf is not None:
        bias_rf.assign(bias)


def _fitting(what: str, raw: Any, parameter: Parameter, dims: Dims) -> Tensor:
    """A torch parameter as Tensor {dims}, in the order of torch."""
    if raw is None or tuple(raw.shape) != tuple(dim.extent for dim in dims):
        raise value_error(
            f"import_params_torch: the sizes of {what} differ.",
            {"torch": "no weight" if raw is None else tuple(raw.shape), "rfnb": parameter},
            "Both layers need parameters of the same sizes.",
        )
    return Tensor(what, dims, raw_tensor=raw.detach())


TORCH_ORDER = "ifjo"
LstmUnit = NativeLstm2 | StandardLSTMCell | LSTM


def reorder_gates(values: np.ndarray, *, source: str, target: str, axis: int = -1) -> np.ndarray:
    """The blocks of an axis in another order: `reorder_gates(W, source="jifo", target="ifjo")`.

    Raises:
        ValueError: If the orders have different letters, or the axis does not have that many blocks.
    """
    if sorted(source) != sorted(target) or values.shape[axis] % len(source):
        raise value_error(
            "reorder_gates: invalid order.",
            {"values": values.shape, "source": source, "target": target},
            "Both orders have the same letters, and the axis has a block for each.",
            'reorder_gates(W, source="jifo", target="ifjo")',
        )
    blocks = dict(zip(source, np.split(values, len(source), axis=axis)))
    return np.concatenate([blocks[part] for part in target], axis=axis)


def lstm_matrices(model: LstmUnit, *, order: str = "jifo") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The input matrix (in, 4n), recurrent matrix (n, 4n) and bias (4n,) of any LSTM, with blocks in this order. The bias
    includes the constant that the standard LSTM adds to f.
    """
    if isinstance(model, LSTM):
        bias = model.bias.numpy() if model.bias is not None else np.zeros(4 * model.out_dim.extent, np.float32)
        parts, own = [model.ff_weight.numpy().T, model.rec_weight.numpy().T, bias], TORCH_ORDER
    elif isinstance(model, StandardLSTMCell):
        size = model.in_dim.extent
        kernel, own = model.kernel.numpy(), model.order
        bias = reorder_gates(model.bias.numpy(), source=own, target="ijfo").copy()
        bias[2 * model.out_dim.extent : 3 * model.out_dim.extent] += model.forget_bias
        parts = [kernel[:size], kernel[size:], reorder_gates(bias, source="ijfo", target=own)]
    else:
        if model.W is None or model.b is None:
            raise value_error(
                "lstm_matrices: no input projection.",
                {"model": type(model).__name__},
                "Its input is the product already; it has no matrix of the frames.",
            )
        parts, own = [model.W.numpy(), model.W_re.numpy(), model.b.numpy()], model.order
    forward, recurrent, bias = (reorder_gates(part, source=own, target=order) for part in parts)
    return forward, recurrent, bias


def set_lstm_matrices(
    model: LstmUnit, forward: np.ndarray, recurrent: np.ndarray, bias: np.ndarray, *, order: str = "jifo"
) -> None:
    """Set the matrices (in, 4n), (n, 4n) and bias (4n,) of an LSTM, with blocks in this order.

    For the standard LSTM, the constant that it adds to f in each step is subtracted from the bias.

    Raises:
        ValueError: If sizes differ, or rf.LSTM has no bias and this one is not 0; nothing is copied then.
    """
    if isinstance(model, LSTM):
        weights = [reorder_gates(part, source=order, target=TORCH_ORDER) for part in (forward, recurrent, bias)]
        pairs: list[tuple[Parameter | None, np.ndarray]] = [
            (model.ff_weight, weights[0].T), (model.rec_weight, weights[1].T), (model.bias, weights[2]),
        ]  # fmt: skip
    elif isinstance(model, StandardLSTMCell):
        forward, recurrent, bias = (
            reorder_gates(part, source=order, target="ijfo") for part in (forward, recurrent, bias)
        )
        bias[2 * len(bias) // 4 : 3 * len(bias) // 4] -= model.forget_bias
        kernel = np.concatenate([forward, recurrent]) if forward.shape[1:] == recurrent.shape[1:] else forward
        pairs = [(model.kernel, kernel), (model.bias, bias)]
        _check_rows(model, forward)
    else:
        weights = [reorder_gates(part, source=order, target=model.order) for part in (forward, recurrent, bias)]
        pairs = list(zip((model.W, model.W_re, model.b), weights))
    _assign(type(model).__name__, pairs)


def convert_lstm(source: LstmUnit, target: LstmUnit) -> None:
    """Copy the parameters of one kind of LSTM into another, so that both compute the same function.

    Raises:
        ValueError: If sizes differ.
    """
    set_lstm_matrices(target, *lstm_matrices(source))


def import_params_torch_lstm_to_rf(
    model_pt: torch.nn.LSTM, model_rf: LstmUnit, *, layer: int = 0, reverse: bool = False
) -> None:
    """Copy a layer of a torch.nn.LSTM (one direction of it) into an LSTM of any kind. Its two biases are summed.

    Raises:
        ValueError: If sizes differ, or it has a projection; nothing is copied then.
    """
    weight, recurrent, bias = _of_torch(model_pt, layer, reverse)
    set_lstm_matrices(
        model_rf, weight.T, recurrent.T, sum(bias, np.zeros(len(weight), weight.dtype)), order=TORCH_ORDER
    )


def export_params_lstm_to_torch(
    model_rf: LstmUnit, model_pt: torch.nn.LSTM, *, layer: int = 0, reverse: bool = False
) -> None:
    """Copy an LSTM of any kind into a layer of a torch.nn.LSTM, whose second bias becomes 0.

    Raises:
        ValueError: If sizes differ, or it has no bias; nothing is copied then.
    """
    import torch

    forward, recurrent, bias = lstm_matrices(model_rf, order=TORCH_ORDER)
    values = (forward.T, recurrent.T, bias, np.zeros_like(bias))
    names = _torch_names(layer, reverse)
    own = [getattr(model_pt, name, None) for name in names]
    sizes = [None if parameter is None else tuple(parameter.shape) for parameter in own]
    if sizes != [value.shape for value in values]:
        raise _other_size("torch.nn.LSTM", sizes, [value.shape for value in values])
    with torch.no_grad():
        for parameter, value in zip(own, values):
            parameter.copy_(torch.from_numpy(np.array(value)))  # type: ignore[union-attr]


def import_params_torch_gru_to_rf(
    model_pt: torch.nn.GRU, model_rf: TorchGRUCell, *, layer: int = 0, reverse: bool = False
) -> None:
    """Copy a layer of a torch.nn.GRU (one direction of it).

    Raises:
        ValueError: If sizes differ; nothing is copied then.
    """
    weight, recurrent, bias = _of_torch(model_pt, layer, reverse)
    own, other = bias or [np.zeros(len(weight), weight.dtype)] * 2
    pairs = [(model_rf.W, weight.T), (model_rf.W_re, recurrent.T), (model_rf.b, own), (model_rf.b_re, other)]
    _assign("TorchGRUCell", pairs)


def import_params_torch_rnn_to_rf(
    model_pt: torch.nn.RNN, model_rf: BasicRNNCell, *, layer: int = 0, reverse: bool = False
) -> None:
    """Copy a layer of a torch.nn.RNN with tanh (one direction of it). Its two biases are summed.

    Raises:
        ValueError: If sizes differ, or its function is not tanh; nothing is copied then.
    """
    if model_pt.nonlinearity != "tanh":
        raise value_error(
            "import_params_torch: the activation differs.",
            {"torch": model_pt.nonlinearity, "rfnb": "tanh"},
            "BasicRNNCell uses tanh.",
            'torch.nn.RNN(..., nonlinearity="tanh")',
        )
    weight, recurrent, bias = _of_torch(model_pt, layer, reverse)
    _check_rows(model_rf, weight.T)
    pairs = [
        (model_rf.kernel, np.concatenate([weight.T, recurrent.T])),
        (model_rf.bias, sum(bias, np.zeros(len(weight), weight.dtype))),
    ]
    _assign("BasicRNNCell", pairs)


def _torch_names(layer: int, reverse: bool) -> list[str]:
    end = f"l{layer}{'_reverse' if reverse else ''}"
    return [f"{name}_{end}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]


def _of_torch(model: Any, layer: int, reverse: bool) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
    """Both matrices in torch, and the list of its biases, none or two."""
    if getattr(model, "proj_size", 0):
        raise value_error(
            "import_params_torch: projections are not supported.",
            {"proj_size": model.proj_size},
            "The units of rfnb have no projection.",
            "torch.nn.LSTM(..., proj_size=0)",
        )
    found = [getattr(model, name, None) for name in _torch_names(layer, reverse)]
    if found[0] is None:
        raise value_error(
            "import_params_torch: there is no such layer.",
            {"layer": layer, "reverse": reverse, "torch": repr(model)},
            "Layers count from 0; reverse needs bidirectional=True.",
        )
    weight, recurrent, *bias = (raw.detach().cpu().numpy() for raw in found if raw is not None)
    return weight, recurrent, bias


def _check_rows(model: Any, forward: np.ndarray) -> None:
    if forward.shape[0] != model.in_dim.extent:
        raise _other_size(type(model).__name__, [(model.in_dim.extent, "...")], [forward.shape])


def _assign(what: str, pairs: Any) -> None:
    """Copy all, after checking that all fit."""
    for parameter, values in pairs:
        if parameter is None and not values.any():
            continue
        if parameter is None or tuple(dim.extent for dim in parameter.dims) != values.shape:
            raise _other_size(what, ["no parameter" if parameter is None else shape_of(parameter)], [values.shape])
    for parameter, values in pairs:
        if parameter is not None:
            parameter.assign(np.ascontiguousarray(values))


def _other_size(what: str, needed: list[Any], given: list[Any]) -> ValueError:
    return value_error(
        f"{what}: the parameters have different sizes.",
        {"needed": ", ".join(map(str, needed)), "given": ", ".join(map(str, given))},
        "Both layers need parameters of the same sizes.",
    )
