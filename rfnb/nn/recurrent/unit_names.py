"""Recurrent units by their documented names."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import type_error, value_error
from rfnb.nn.recurrent.blocksparse_lstm import BlocksparseLSTMCell, BlocksparseMultiplicativeMultistepLSTMCell
from rfnb.nn.recurrent.gru import GRUCell, TorchGRUCell
from rfnb.nn.recurrent.layer_norm_lstm import LayerNormVariantsLSTMCell
from rfnb.nn.recurrent.native_lstm import NativeLstm, NativeLstm2
from rfnb.nn.recurrent.rhn import RHNCell
from rfnb.nn.recurrent.standard_lstm import BasicLSTMCell, BasicRNNCell, StandardLSTMCell
from rfnb.nn.recurrent.unit import RecUnit
from rfnb.nn.recurrent.zoneout_lstm import ZoneoutLSTMCell

_UNITS: dict[str, type[RecUnit]] = {
    "LSTM": NativeLstm2,
    "LSTMP": NativeLstm2,
    "NativeLstm2": NativeLstm2,
    "VanillaLSTM": NativeLstm2,
    "NativeLstm": NativeLstm,
    "LSTMBlock": NativeLstm2,
    "LSTMBlockFused": NativeLstm2,
    "CudnnLSTM": NativeLstm2,
    "StandardLSTM": StandardLSTMCell,
    "BasicLSTM": BasicLSTMCell,
    "GRU": GRUCell,
    "CudnnGRU": TorchGRUCell,
    "TorchGRU": TorchGRUCell,
    "BasicRNN": BasicRNNCell,
    "RHN": RHNCell,
    "LayerNormVariantsLSTM": LayerNormVariantsLSTMCell,
    "ZoneoutLSTM": ZoneoutLSTMCell,
    "BlocksparseLSTM": BlocksparseLSTMCell,
    "BlocksparseMultiplicativeMultistepLSTM": BlocksparseMultiplicativeMultistepLSTMCell,
}
# Kernels over whole sequences, and the unit that replaces each for single steps.
_IN_STEPS: dict[str, type[RecUnit]] = dict.fromkeys(("lstmblock", "lstmblockfused", "cudnnlstm"), StandardLSTMCell)
_BY_KEY = {name.lower(): unit for name, unit in _UNITS.items()}


def unit_class(name: str, *, what: str = "Rec", in_steps: bool = False) -> type[RecUnit]:
    """The class of a unit by name; case and a final "Cell" do not matter.

    Args:
        what: The caller, for the message.
        in_steps: Whether only single steps are made: LSTMBlock, LSTMBlockFused and CudnnLSTM then mean the standard LSTM.

    Raises:
        ValueError: An unknown name.
    """
    key = name.lower().removesuffix("cell")
    found = _IN_STEPS.get(key) if in_steps else None
    found = found or _BY_KEY.get(key)
    if found is None:
        raise value_error(
            f'{what}: unknown unit "{name}".',
            {"known": ", ".join(_UNITS)},
            'Case does not matter, and "Cell" at the end may be there or not. A unit of your own is passed as a class:',
            f"rf.{what}(MyUnit, in_dim, out_dim)",
        )
    return found


def make_unit(
    unit: str | type[RecUnit] | RecUnit, in_dim: Dim | None, out_dim: Dim | None, options: dict[str, Any] | None, *, what: str,
    in_steps: bool = False,
) -> RecUnit:  # fmt: skip
    """A unit by name, by class, or as an instance.

    Raises:
        TypeError: If it is something else, or options that the unit does not accept.
        ValueError: An unknown name, a dim that is missing, or dims or options for an instance.
    """
    if isinstance(unit, RecUnit):
        other_dim = (in_dim or unit.in_dim) is not unit.in_dim or (out_dim or unit.out_dim) is not unit.out_dim
        if options or other_dim:
            raise value_error(
                f"{what}: dims or options for an existing unit.",
                {
                    "unit": f"{type(unit).__name__} {unit.in_dim.short_repr()} -> {unit.out_dim.short_repr()}",
                    "unit_opts": options,
                },
                "It has its own.",
                f"rf.{what}(unit)",
            )
        return unit
    cls = unit_class(unit, what=what, in_steps=in_steps) if isinstance(unit, str) else unit
    if not (isinstance(cls, type) and issubclass(cls, RecUnit)):
        raise type_error(
            f"{what}: no unit.",
            {"unit": repr(unit)},
            "A unit is a name, a class derived from RecUnit, or an object of one.",
            f'rf.{what}("lstm", in_dim, out_dim)',
        )
    if in_dim is None or out_dim is None:
        dims = [(name, dim and dim.short_repr()) for name, dim in (("in_dim", in_dim), ("out_dim", out_dim))]
        raise value_error(
            f"{what}: which dims?",
            dims,
            "A unit is made for the features of its input and of its output.",
            f"rf.{what}({unit!r}, in_dim, out_dim)",
        )
    return cls(in_dim, out_dim, **(options or {}))
