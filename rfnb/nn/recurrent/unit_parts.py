"""Parts of recurrent units: matrix products, layer normalization, gates, dropout and zoneout.

Source: Gal and Ghahramani 2016, "A Theoretically Grounded Application of Dropout in Recurrent Neural Networks", for
dropout masks that all steps of a sequence share.
"""

from __future__ import annotations

from collections.abc import Mapping

from rfnb.backends.registry import selected
from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.finite_padding import finite_with
from rfnb.core.op import op
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.nn.init import Glorot
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.run import run_ctx
from rfnb.ops.concat import split
from rfnb.ops.const import ones_like
from rfnb.ops.defaults import get_default_device, get_default_float_dtype
from rfnb.ops.dims import dim_match_priority_when_needed, replace_dim
from rfnb.ops.gather import gather
from rfnb.ops.linear import linear
from rfnb.ops.math import sigmoid, tanh
from rfnb.ops.random import drop
from rfnb.rec.state import State
from rfnb.trace.editing import GATES, editing, gates_edits
from rfnb.trace.probe import probe, trace_context


def matrix(in_dim: Dim, out_dim: Dim) -> Parameter:
    """A matrix {in, out}, Glorot uniform; if both dims are the same, a twin replaces the first.

    In memory it is (out, in), the layout of the backends' kernels, so it is passed without a copy.
    """
    backend, dims = selected(), (dim_match_priority_when_needed(in_dim, out_dim), out_dim)
    dtype, device = get_default_float_dtype(), get_default_device()
    raw = backend.full_raw((out_dim.extent, in_dim.extent), 0, dtype=dtype, device=device)
    weight = Parameter(dims, raw_tensor=backend.transpose_raw(raw, (1, 0)))
    weight.initial = Glorot()
    return weight


def product(source: Tensor, weight: Tensor, bias: Tensor | None = None, *, of: Dim) -> Tensor:
    """source weight + bias.

    Args:
        source: {..., of}, or int {...}, sparse over `of`: then rows of the weight.
        weight: {of or a dim in its place, out}; the first one is contracted.

    Returns:
        {..., out}, with feature_dim out.
    """
    rows = weight.dims[0]
    if source.sparse_dim is of:
        out = gather(weight, indices=source, axis=rows)
        out = out if bias is None else out + bias
    else:
        if rows is not of:
            source, _ = replace_dim(source, in_dim=of, out_dim=rows)
        out = linear(source, weight, bias, reduce=rows)
    out.feature_dim = weight.dims[1]
    return out


def kernel_parts(kernel: Tensor, in_dim: Dim, out_dim: Dim) -> tuple[Tensor, Tensor]:
    """A kernel {in + out, ...} as its input rows and its state rows, with twins in place of in and out."""
    rows = [in_dim.copy(match_priority=1), out_dim.copy(match_priority=1)]
    forward, recurrent = split(kernel, axis=kernel.dims[0], out_dims=rows)
    return forward, recurrent


@op
def layer_norm(x: Tensor, gain: Tensor, shift: Tensor | None, *, eps: float) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * gain + shift, over the dim of `gain`; {..., that dim}.

    Source: Ba et al. 2016, equation (4).
    """
    (axis,) = gain.dims
    if not x._finite:
        x = finite_with(x, gain)
    dims = (*(dim for dim in x.dims if dim is not axis), axis)
    raw = x.copy_transpose(dims)._raw
    out = new_tensor(x.backend.layer_norm_raw(raw, gain._raw, None if shift is None else shift._raw, eps), dims)
    out._feature_dim, out._finite = axis, x._finite
    return out


def dropout_mask(name: str, like: Tensor, drop_prob: float, *, func: type) -> State:
    """In training of `func`, a State with one mask like `like`, scaled by 1 / (1 - drop_prob); otherwise an empty State."""
    if not drop_prob or not run_ctx.get_run_ctx().is_train_flag_enabled(func=func):
        return State()
    return State({name: drop(ones_like(like), drop_prob)})


def check_drop_prob(what: str, option: str, drop_prob: float) -> None:
    """Raise a ValueError if it is not in [0, 1)."""
    if not 0 <= drop_prob < 1:
        raise value_error(
            f"{what}: no probability to drop.",
            {option: drop_prob},
            "A probability from 0 up to, not including, 1.",
            f"rf.{what}(..., {option}=0.1)",
        )


def lstm_update(
    gates: Tensor, c: Tensor, *, order: str, out_dim: Dim, forget_bias: float = 0.0
) -> tuple[Tensor, State, dict[str, Tensor]]:
    """c' = sigmoid(f) c + sigmoid(i) tanh(j);  h' = sigmoid(o) tanh(c').

    Args:
        gates: {..., 4 * out} before their functions.
        c: {..., out}, the previous cell state.
        order: Order of the blocks in `gates`, e.g. "jifo": j cell input, i input gate, f forget gate, o output gate.
        forget_bias: Added to f.

    Returns:
        h', the state (c', h'), and the gates by name.
    """
    parts = split_gates(gates, order=order, out_dim=out_dim)
    forget = parts["f"] + forget_bias if forget_bias else parts["f"]
    made = gated(input_gate=sigmoid(parts["i"]), forget_gate=sigmoid(forget), output_gate=sigmoid(parts["o"]))
    i, f, o = made.values()
    c = f * c + i * tanh(parts["j"])
    h = o * tanh(c)
    c.feature_dim = h.feature_dim = out_dim
    return h, State(c=c, h=h), made


def split_gates(gates: Tensor, *, order: str, out_dim: Dim) -> dict[str, Tensor]:
    """{..., 4 * out} -> for each letter of `order` {..., out}."""
    return dict(zip(order, split(gates, axis=4 * out_dim, out_dims=[out_dim] * 4)))


def zoneout(old: Tensor, new: Tensor, factor: float, *, func: type) -> Tensor:
    """In training of `func`, each entry is old with probability `factor`, else new. Otherwise their mean with these weights.

    Source: Krueger et al. 2017, "Zoneout", section 3.2.
    """
    if factor == 0:
        return new
    if factor < 1 and run_ctx.get_run_ctx().is_train_flag_enabled(func=func):
        return old + drop(new - old, factor) * (1 - factor)  # drop scales up by 1 / (1 - factor)
    return old + (new - old) * (1 - factor)


def check_zoneout_factors(what: str, cell: float, output: float) -> None:
    """Raise a ValueError if a factor is not a probability."""
    for name, factor in (("cell", cell), ("output", output)):
        if not 0 <= factor <= 1:
            rule = "A probability is from 0 to 1."
            fix = f"rf.{what}(..., zoneout_factor_{name}=0.1)"
            raise value_error(f"{what}: no probability to keep a value.", {f"zoneout_factor_{name}": factor}, rule, fix)


def offer_gates(gates: Mapping[str, Tensor]) -> None:
    """Send the gates of a step under "gates" below the path of the unit: the loop around it may send the state at the unit's own path."""
    with trace_context.scope(GATES):
        probe("states", **gates)


def gated(**gates: Tensor) -> dict[str, Tensor]:
    """The effective gates of a step: those computed, with the entries that `rf.edit` replaces."""
    return _gated(gates) if editing.get() else gates


@op(of="gated")
def _gated(gates: dict[str, Tensor]) -> dict[str, Tensor]:
    for edit in gates_edits():
        if edit.part in gates:
            assert edit.put is not None
            gates = edit.put(gates, None)
    return gates
