"""Computation only on the frames where a mask is True. `rf.unmask` spreads the result over all frames again.

masked = rf.MaskedComputation(rf.LSTM(in_dim, out_dim))
out, state = masked(x, mask=mask, in_spatial_dim=time, out_spatial_dim=packed)      # {..., packed, out}
out, state = masked(x_t, mask=mask_t, in_spatial_dim=rf.single_step_dim, state=state)   # the same in a step of a loop
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Never

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error, value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.nn.attention.encoder_decoder import last_frame
from rfnb.nn.module.module import Module
from rfnb.ops.cast import cast
from rfnb.ops.const import zeros
from rfnb.ops.mask_packing import masked_select
from rfnb.ops.reduce import reduce_sum
from rfnb.ops.where import where
from rfnb.rec.nested import where_nested
from rfnb.rec.state import State


def masked_computation(
    fn: Callable[[Any], tuple[Tensor, Any]], *extra: Never, mask: Tensor, state: State, **unknown: Never
) -> tuple[Tensor, State]:
    """One step of a computation that advances only where mask is True; elsewhere its output and state do not change.

    The step is computed for all sequences; `MaskedComputation` packs the frames if the mask is known in advance.

    Args:
        fn: state.unit -> output and the next state.unit, any nested structure. A Dim in it (a growing history) becomes
            ragged: each sequence has only the frames of the steps that were not skipped.
        mask: bool {...}
        state: output: that of the previous step; unit: state of fn.

    Returns:
        output where mask is True, else that of the previous step; and the next state. Masks inside fn combine with this one.

    Raises:
        ValueError: If mask is not bool.
    """
    _check_bool("masked_computation", mask)
    out, unit = fn(state.unit)
    out, unit = _where(mask, (out, unit), (state.output, state.unit))
    return out, State(output=out, unit=unit)


class MaskedComputation(Module):
    """Runs `unit` only on the frames where a mask is True, as if the other frames did not exist.

    Args:
        unit: Module or function. With a state: `unit(*sources, state=..., spatial_dim=...)` (or `axis=...`) -> output and state;
            else `unit(*sources)` -> output.
        out_dim: Features of the output, for `default_initial_state`, if the unit has no attribute out_dim.
    """

    def __init__(self, unit: Callable[..., Any], *, out_dim: Dim | None = None):
        self.unit = unit
        self.out_dim = getattr(unit, "out_dim", None) if out_dim is None else out_dim
        names = inspect.signature(unit).parameters
        self._has_state = "state" in names
        self._dim_keyword = next((name for name in ("spatial_dim", "axis") if name in names), None)

    def __call__(
        self,
        *sources: Tensor,
        mask: Tensor | None,
        in_spatial_dim: Dim | None = None,
        out_spatial_dim: Dim | None = None,
        masked_from: Tensor | None = None,
        state: State | None = None,
    ) -> tuple[Tensor, State]:
        """Run a whole sequence, packed; or one step with `single_step_dim`.

        Args:
            sources: Those with in_spatial_dim are packed, with 0 in the padding; others are passed to the unit unchanged.
            mask: bool {..., in_spatial_dim}, for one step {...}. Its padding counts as False. None: all frames.
            in_spatial_dim: The dim of the frames.
            out_spatial_dim: The dim of the packed frames; if it has no size yet, its lengths are set here.
            masked_from: The sources packed {..., out_spatial_dim}, if already available; sources are then ignored.
            state: output: the output before the first frame; unit: state of the unit. Required for a step; use
                `default_initial_state` at the beginning.

        Returns:
            {..., out_spatial_dim, out}; for a step {..., out}: the output of the last frame that was not skipped. And the state.

        Raises:
            ValueError: If mask is not bool, a dim is missing, masked_from does not fit the mask or is given for a step,
                or a step has no state.
            DimError: If mask has no in_spatial_dim.
        """
        if mask is not None:
            _check_bool("MaskedComputation", mask)
        if in_spatial_dim is single_step_dim:
            if masked_from is not None:
                raise _packed_in_a_step(masked_from)
            return self._step(sources, mask, state)
        if mask is not None:
            sources = self._packed(sources, mask, in_spatial_dim, out_spatial_dim, masked_from)
        else:
            out_spatial_dim = in_spatial_dim if out_spatial_dim is None else out_spatial_dim
        if state is None and mask is not None:
            over = [dim for dim in mask.dims if dim is not in_spatial_dim]
            state = State(output=None, unit=self._initial_unit(over))
        out, unit = self._run(sources, None if state is None else state.unit, out_spatial_dim)
        return out, State(output=self._last(out, out_spatial_dim, state), unit=unit)

    def default_initial_state(
        self, *, batch_dims: Sequence[Dim], unit: Any = None, output: Tensor | None = None
    ) -> State:
        """The state before the first frame.

        Args:
            unit: State of the unit. Default: its default_initial_state.
            output: Default: h of the state of the unit, else zeros {*batch_dims, out_dim}.

        Raises:
            ValueError: If the features of the output cannot be determined.
        """
        unit = self._initial_unit(batch_dims) if unit is None else unit
        if output is None and isinstance(unit, dict):
            output = unit.get("h")
        if output is None and self.out_dim is None:
            raise value_error(
                "MaskedComputation: what is the output before the first frame?",
                {"unit": type(self.unit).__name__},
                "The unit has no out_dim that would tell the features of its output.",
                "rf.MaskedComputation(unit, out_dim=out_dim)",
            )
        if output is None:
            assert self.out_dim is not None
            output = zeros([*batch_dims, self.out_dim], feature_dim=self.out_dim)
        return State(output=output, unit=unit)

    def _initial_unit(self, batch_dims: Sequence[Dim]) -> Any:
        make = getattr(self.unit, "default_initial_state", None)
        return State() if make is None else make(batch_dims=list(batch_dims))

    def _step(self, sources: Sequence[Tensor], mask: Tensor | None, state: State | None) -> tuple[Tensor, State]:
        if state is None:
            raise value_error(
                "MaskedComputation: a single step without state.",
                {"sources": ", ".join(map(shape_of, sources))},
                "A skipped step repeats the output of the previous one.",
                "state = masked.default_initial_state(batch_dims=[batch])",
            )
        if mask is None:
            out, unit = self._run(sources, state.unit, single_step_dim)
            return out, State(output=out, unit=unit)
        return masked_computation(lambda unit: self._run(sources, unit, single_step_dim), mask=mask, state=state)

    def _run(self, sources: Sequence[Tensor], state: Any, spatial_dim: Dim | None) -> tuple[Tensor, Any]:
        if not self._has_state:
            return self.unit(*sources), state
        options = {} if self._dim_keyword is None else {self._dim_keyword: spatial_dim}
        return self.unit(*sources, state=state, **options)

    def _packed(
        self,
        sources: Sequence[Tensor],
        mask: Tensor,
        in_spatial_dim: Dim | None,
        out_spatial_dim: Dim | None,
        masked_from: Tensor | None,
    ) -> tuple[Tensor, ...]:
        if in_spatial_dim is None or out_spatial_dim is None:
            raise value_error(
                "MaskedComputation: over which dim?",
                {
                    "in_spatial_dim": _short(in_spatial_dim),
                    "out_spatial_dim": _short(out_spatial_dim),
                    "mask": mask,
                },
                "The frames of one dim become those of another one, which has the lengths of the mask. Name both:",
                'masked(x, mask=mask, in_spatial_dim=time, out_spatial_dim=Dim(None, name="packed"))',
            )
        if in_spatial_dim not in mask.dims:
            raise dim_error(
                f"MaskedComputation: the mask has no dim {in_spatial_dim.short_repr()}.",
                {"mask": mask, "in_spatial_dim": in_spatial_dim},
                "The mask says for each frame whether it is there. In a step of a loop there is no such dim:",
                "masked(x, mask=mask, in_spatial_dim=rf.single_step_dim, state=state)",
            )
        if masked_from is not None:
            _check_lengths(mask, in_spatial_dim, out_spatial_dim, masked_from)
            return (masked_from,)

        def packed(source: Tensor) -> Tensor:
            if in_spatial_dim not in source.dims:
                return source
            out, _ = masked_select(source, mask=mask, dims=[in_spatial_dim], out_dim=out_spatial_dim)
            return out.copy_masked(0, dims=[out_spatial_dim])

        return tuple(map(packed, sources))

    def _last(self, out: Tensor, spatial_dim: Dim | None, state: State | None) -> Tensor | None:
        if spatial_dim is None or spatial_dim not in out.dims:
            return None
        last = last_frame(out, axis=spatial_dim)
        lengths = spatial_dim.get_size_tensor(device=out.device)
        if state is None or state.output is None:
            return last
        return where(lengths > 0, last, state.output, allow_broadcast_all_sources=True)


@op(of="MaskedComputation")
def _where(mask: Tensor, new: Any, old: Any) -> Any:
    """One op of a recorded loop, since it branches on which dims have grown."""
    return where_nested(new, old, condition=mask)


def _check_bool(what: str, mask: Tensor) -> None:
    if mask.dtype != "bool":
        raise value_error(
            f"{what}: the mask is not bool.",
            {"mask": f"{shape_of(mask)} {mask.dtype}"},
            "It is True for the frames that are computed.",
            "mask = labels != blank",
        )


def _packed_in_a_step(masked_from: Tensor) -> ValueError:
    return value_error(
        "MaskedComputation: masked_from in a single step.",
        {"masked_from": masked_from},
        "Frames that are packed before the loop are computed before it, too; each step takes its frame of the result:",
        "out, loop.state.u = rf.unmask(packed_out, mask=mask, axis=rf.single_step_dim, in_spatial_dim=packed, state=loop.state.u)",
    )


def _check_lengths(mask: Tensor, in_spatial_dim: Dim, out_spatial_dim: Dim, masked_from: Tensor) -> None:
    masked_from.axis_of(out_spatial_dim, "MaskedComputation")
    counts = reduce_sum(cast(mask.copy_masked(False), "int32"), axis=in_spatial_dim)
    lengths = out_spatial_dim.get_size_tensor(device=mask.device)
    if (counts != lengths).numpy().any():
        raise value_error(
            "MaskedComputation: masked_from has other lengths than the mask.",
            {"masked_from": masked_from, "mask": mask},
            f"Each sequence of {out_spatial_dim.name} has as many frames as its mask is True.",
        )


def _short(dim: Dim | None) -> str:
    return "None" if dim is None else dim.short_repr()
