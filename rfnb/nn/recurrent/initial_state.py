"""Initial states of a recurrence: zeros, learned values, the final state of the last call, or given tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.run.run_ctx import get_run_ctx
from rfnb.ops.const import ones_like
from rfnb.ops.dims import replace_dim
from rfnb.ops.gradient import stop_gradient
from rfnb.rec.state import State

_KINDS = '"zeros", "ones", "var", "keep_over_epoch", "keep_over_epoch_no_init", "placeholder", tensors'
_OF_PART = {None: "zeros", 0: "zeros", 1: "ones", "zeros": "zeros", "ones": "ones", "var": "var"}
_WHOLE = ("keep_over_epoch", "keep_over_epoch_no_init", "placeholder")


class InitialState(Module):
    """The state before the first step, of one of the documented kinds.

    Args:
        kind: None, 0, "zeros"; 1, "ones"; "var": a parameter per part, zero at first, the same for all sequences;
            "keep_over_epoch": the final state of the previous call, zeros in the first call of an epoch in the run
            context; "keep_over_epoch_no_init": the same, also in the first call of an epoch; "placeholder": each call
            must pass one. Or a tensor {..., out}
            for a state of one part; or a dict by name or a list in order, of tensors and of "zeros", "ones", "var".
        parts: Names of the parts of the state, in order.
        out_dim: Features of each part.

    Parameters:
        One per part that is "var", by the name of the part: {out}.

    Raises:
        ValueError: An unknown kind, parts that are missing or unknown, one tensor for several parts.
    """

    def __init__(self, what: str, kind: Any, *, parts: Sequence[str], out_dim: Dim):
        self.what, self.parts, self.out_dim = what, tuple(parts), out_dim
        self.whole = kind if isinstance(kind, str) and kind in _WHOLE else None
        self._kept: State | None = None
        self._kept_in: int | None = None
        self._of_part: dict[str, Any] = {}
        if self.whole is not None:
            return
        if isinstance(kind, (dict, list, tuple, Tensor)):
            named = parts_by_name(what, self.parts, kind)
        else:
            named = State((part, kind) for part in self.parts)
        for part, value in named.items():
            self._of_part[part] = value if isinstance(value, Tensor) else self._kind_of(value)
            if isinstance(value, Tensor):
                _check_out_dim(what, part, value, out_dim)
            elif self._of_part[part] == "var":
                setattr(self, part, Parameter((out_dim,)))

    def _kind_of(self, value: Any) -> str:
        known = isinstance(value, (str, int, float, type(None))) and not isinstance(value, bool) and value in _OF_PART
        if not known:
            raise value_error(
                f"{self.what}: unknown initial state.",
                {"initial_state": repr(value), "known": _KINDS},
                "Of the numbers, 0 and 1 are known.",
                f'rf.{self.what}(..., initial_state="zeros")',
            )
        return _OF_PART[value]

    @property
    def is_zero(self) -> bool:
        """Whether every call starts with zeros."""
        return self.whole is None and all(isinstance(kind, str) and kind == "zeros" for kind in self._of_part.values())

    def __call__(self, zeros: State) -> State:
        """The state for a call; `zeros` gives the dims and dtype."""
        if self.whole == "placeholder":
            raise value_error(
                f"{self.what}: no state.",
                {"initial_state": '"placeholder"', "state": None},
                "Such a state is given to each call:",
                "rec(source, axis=time, state=state)",
            )
        if self.whole is not None:
            return self._carried(zeros)
        return State((part, self._value(part, zero)) for part, zero in zeros.items())

    def _value(self, part: str, zero: Tensor) -> Tensor:
        kind = self._of_part.get(part, "zeros")
        if isinstance(kind, Tensor):
            return kind
        if kind == "var":
            return zero + getattr(self, part)
        return ones_like(zero) if kind == "ones" else zero

    # -- what is carried from call to call -----------------------------------------------------------------------------------
    def keep(self, state: State) -> None:
        """Store the final state of a call."""
        if self.whole is not None and self.whole != "placeholder":
            self._kept = State((part, stop_gradient(value)) for part, value in state.items() if part in self.parts)
            self._kept_in = get_run_ctx().epoch

    def reset(self) -> None:
        """Start with zeros in the next call."""
        self._kept = None

    def _carried(self, zeros: State) -> State:
        new_epoch = self.whole == "keep_over_epoch" and self._kept_in != get_run_ctx().epoch
        if self._kept is None or new_epoch:
            return zeros
        return State((part, self._brought(part, zero)) for part, zero in zeros.items())

    def _brought(self, part: str, zero: Tensor) -> Tensor:
        """The stored state, with the dims of this call."""
        assert self._kept is not None
        value = self._kept[part].copy_transpose(
            [*(d for d in self._kept[part].dims if d is not self.out_dim), self.out_dim]
        )
        if [dim.extent for dim in value.dims] != [dim.extent for dim in zero.dims]:
            raise value_error(
                f'{self.what}: the state "{part}" of the previous call belongs to another batch.',
                {"kept": value, "needed": zero},
                "Sequence b of a call continues sequence b of the previous call. To start again:",
                "rec.initial_state.reset()",
            )
        for old, new in zip(value.dims, zero.dims):
            if old is not new:
                value, _ = replace_dim(value, in_dim=old, out_dim=new)
        return value


def given_state(what: str, parts: Sequence[str], value: Any, out_dim: Dim) -> State:
    """A state passed to a call: a dict by name, a list in order, or a tensor for the only part; dropout masks are kept.

    Raises:
        ValueError: Parts are missing or unknown, or one tensor for several parts.
        DimError: A part without out_dim.
    """
    state = parts_by_name(what, parts, value)
    for part, tensor in state.items():
        if not isinstance(tensor, Tensor):
            raise value_error(
                f'{what}: the state "{part}" is no Tensor.',
                {part: type(tensor).__name__},
                "Each part of a state is a Tensor.",
                f"state = {what.lower()}.default_initial_state(batch_dims=[batch])",
            )
        if not part.endswith("_mask"):
            _check_out_dim(what, part, tensor, out_dim)
    return state


def parts_by_name(what: str, parts: Sequence[str], value: Any) -> State:
    """The parts of a state by name, in the documented order, with masks at the end."""
    if isinstance(value, dict):
        masks = [name for name in value if str(name).endswith("_mask")]
        if {name for name in value if name not in masks} != set(parts):
            raise value_error(
                f"{what}: a state of other parts.",
                {"given": ", ".join(map(str, value)) or "nothing", "needed": ", ".join(parts)},
                "A state has all its parts.",
                f"{{{', '.join(f'{part!r}: {part}' for part in parts)}}}",
            )
        return State((name, value[name]) for name in (*parts, *masks))
    if isinstance(value, (list, tuple)):
        if len(value) != len(parts):
            raise value_error(
                f"{what}: a state of other parts.",
                {"given": f"{len(value)} values", "needed": ", ".join(parts)},
                "A list has all parts of the state in this order.",
                f"[{', '.join(parts)}]",
            )
        return State(zip(parts, value))
    if len(parts) != 1:
        given = shape_of(value) if isinstance(value, Tensor) else type(value).__name__
        raise value_error(
            f"{what}: one value for a state of {len(parts)} parts.",
            {"given": given, "needed": ", ".join(parts)},
            "Name the part of the state.",
            f"{{{', '.join(f'{part!r}: {part}' for part in parts)}}}",
        )
    return State({parts[0]: value})


def _check_out_dim(what: str, part: str, value: Tensor, out_dim: Dim) -> None:
    if out_dim not in value.dims:
        raise dim_error(
            f'{what}: the state "{part}" has no {out_dim.short_repr()}.',
            {part: value},
            "Each part of the state has the dim of the output.",
            f"{part}, _ = rf.replace_dim({part}, in_dim=..., out_dim={out_dim.name})",
        )
