"""Initial values of the parameters of a unit by their role: input weights, recurrent weights, biases."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.nn.init import Glorot, HeUniform, ParamInit
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.recurrent.unit import RecUnit
from rfnb.ops.concat import concat
from rfnb.ops.const import full
from rfnb.ops.dims import replace_dim

_BY_NAME: dict[str, Any] = {
    "glorot": Glorot(), "glorot_uniform": Glorot(), "xavier": Glorot(), "he_uniform": HeUniform(), "zeros": 0.0, "ones": 1.0,
}  # fmt: skip


def init_parameters(unit: RecUnit, *, forward: Any = None, recurrent: Any = None, bias: Any = None) -> None:
    """Initialise the input weights, the recurrent weights and the biases; None keeps the unit's own scheme.

    If only `recurrent` is given, it is used for the input weights too. A joint matrix has rows of both kinds.

    Args:
        forward, recurrent, bias: A ParamInit, a number, or one of the names "glorot", "glorot_uniform", "xavier", "he_uniform",
            "zeros", "ones".

    Raises:
        ValueError: An unknown name.
    """
    forward, recurrent, bias = (_scheme(value) for value in (forward, recurrent, bias))
    forward = recurrent if forward is None else forward
    for name, parameter in unit.named_parameters():
        role = unit.role_of(name)
        scheme = {"forward": forward, "recurrent": recurrent, "bias": bias}.get(role)
        if role == "joint" and (forward is not None or recurrent is not None):
            parameter.initial = scheme = _joint(unit, parameter, forward, recurrent)
        elif scheme is not None:
            parameter.initial = scheme


def _joint(unit: RecUnit, parameter: Parameter, forward: Any, recurrent: Any) -> Any:
    if forward is recurrent or isinstance(forward, (int, float)) and forward == recurrent:
        return forward
    rows, columns = parameter.dims
    parts = [
        (_values(scheme, Dim(dim.extent, name=dim.name), columns, parameter), dim)
        for scheme, dim in ((forward, unit.in_dim), (recurrent, unit.out_dim))
    ]
    joined, dim = concat(*((value, value.dims[0]) for value, _ in parts))
    return replace_dim(joined, in_dim=dim, out_dim=rows)[0]


def _values(scheme: Any, rows: Dim, columns: Dim, like: Parameter) -> Tensor:
    scheme = Glorot() if scheme is None else scheme
    if isinstance(scheme, ParamInit):
        return scheme([rows, columns], like.dtype, device=like.device)  # type: ignore[return-value]
    return full(dims=[rows, columns], fill_value=float(scheme), dtype=like.dtype, device=like.device)


def _scheme(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value not in _BY_NAME:
        raise value_error(
            f'init_parameters: unknown initializer "{value}".',
            {"known": ", ".join(_BY_NAME)},
            "It is one of these, a number, or a ParamInit.",
            "forward_weights_init=rf.Glorot()",
        )
    return _BY_NAME[value]
