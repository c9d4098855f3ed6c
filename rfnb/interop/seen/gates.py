"""The states and gates of recurrent torch modules, computed from inputs and weights.

Where h is known (the last layer), all gates follow from it at once; in lower layers they are computed step by step.
Sequences are [time, batch, unit].
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from rfnb.backends.torch_random import device_state, set_device_state
from rfnb.core.block import block
from rfnb.core.errors import message
from rfnb.core.place import warn_user
from rfnb.interop.seen.snapshot import ValueSnapshot, say_changed

Raws = dict[str, torch.Tensor]

_LSTM = ("input_gate", "forget_gate", "cell_input", "output_gate")
_GRU = ("reset_gate", "update_gate", "candidate")
_MOST_COPIED = 16 << 20  # bytes of weights copied in each call during training


def parts_of(module: Any) -> tuple[str, ...]:
    """The gates of a unit, in torch's order, by the names used in rf's own units."""
    if isinstance(module, (nn.LSTM, nn.LSTMCell)):
        return _LSTM
    return _GRU if isinstance(module, (nn.GRU, nn.GRUCell)) else ()


class _Unit:
    """One step of a unit, and its gates if the previous h is known."""

    def __init__(self, module: Any, weights: Raws):
        self._parts, self._w = parts_of(module), weights
        self._relu = getattr(module, "nonlinearity", "tanh") == "relu" or getattr(module, "mode", "") == "RNN_RELU"

    def gates(self, x: torch.Tensor, h: torch.Tensor) -> Raws:
        """The gates from the input {..., in} and the previous h."""
        w = self._w
        of_x = torch.nn.functional.linear(x, w["weight_ih"], w.get("bias_ih"))
        of_h = torch.nn.functional.linear(h, w["weight_hh"], w.get("bias_hh"))
        if self._parts == _LSTM:
            i, f, g, o = (of_x + of_h).chunk(4, -1)
            return dict(zip(_LSTM, (i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid())))
        if self._parts == _GRU:
            (xr, xz, xn), (hr, hz, hn) = of_x.chunk(3, -1), of_h.chunk(3, -1)
            r, z = (xr + hr).sigmoid(), (xz + hz).sigmoid()
            return dict(zip(_GRU, (r, z, (xn + r * hn).tanh())))
        return {"h": (of_x + of_h).relu() if self._relu else (of_x + of_h).tanh()}

    def step(self, gates: Raws, h: torch.Tensor, c: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """h and c after a step with these gates."""
        if self._parts == _LSTM:
            assert c is not None
            c = gates["forget_gate"] * c + gates["input_gate"] * gates["cell_input"]
            h = gates["output_gate"] * c.tanh()
            return (torch.nn.functional.linear(h, self._w["weight_hr"]) if "weight_hr" in self._w else h), c
        if self._parts == _GRU:
            z = gates["update_gate"]
            return (1 - z) * gates["candidate"] + z * h, None
        return gates["h"], None

    def along(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor | None, known: torch.Tensor | None) -> Raws:
        """States and gates of all steps, [time, ...]; where h is known, all gates at once."""
        if known is None:
            gates, hs = [], []
            for frame in x:
                gates.append(self.gates(frame, h))
                h, c = self.step(gates[-1], h, c)
                hs.append(h)
                if c is not None:
                    gates[-1]["c"] = c
            series = {name: torch.stack([each[name] for each in gates]) for name in gates[0]} if gates else {}
            return {"h": torch.stack(hs) if hs else x, **{name: value for name, value in series.items() if name != "h"}}
        series = self.gates(x, torch.cat([h[None], known[:-1]]))
        out = {"h": known}
        if c is not None:
            cs = []
            for i, f, g in zip(series["input_gate"], series["forget_gate"], series["cell_input"]):
                c = f * c + i * g
                cs.append(c)
            out["c"] = torch.stack(cs)
        return {**out, **series, **out}


class _UnitWeights:
    """The weights of a module, copied during training."""

    def __init__(self, module: nn.Module):
        found = dict(module.named_parameters(recurse=False)) or vars(module)
        own = {name: value for name in found if isinstance(value := getattr(module, name), torch.Tensor)}
        trained = module.training and torch.is_grad_enabled() and any(raw.requires_grad for raw in own.values())
        small = sum(raw.nbytes for raw in own.values()) <= _MOST_COPIED
        self._kept = {name: ValueSnapshot(raw, copy=trained and small) for name, raw in own.items()}

    @property
    def are_same(self) -> bool:
        return all(kept.is_same for kept in self._kept.values())

    def of(self, suffix: str = "") -> Raws:
        """The weights of a layer, by name without its suffix."""
        return {
            name.removesuffix(suffix): _exact(kept.raw)
            for name, kept in self._kept.items()
            if name.endswith(suffix) and (suffix.endswith("_reverse") or not name.endswith("_reverse"))
        }


class Layers:
    """The data of a call of nn.LSTM, nn.GRU or nn.RNN from which its states are computed.

    Args:
        generator: The state of the device's random generator before the call; None: cuDNN draws; False: nothing is drawn.
    """

    def __init__(self, module: Any, source: Any, state: Any, output: Any, generator: Any, path: str):
        self._module, self._path, self._generator = module, path, generator
        self._size, self._training = module.proj_size or module.hidden_size, module.training
        self._packed = source[1:] if isinstance(source, PackedSequence) else None
        self._x, self._y = (
            ValueSnapshot(source.data if self._packed else source),
            ValueSnapshot(output.data if self._packed else output),
        )
        self._first, self._weights = _snapshots(state), _UnitWeights(module)
        self._made: list[list[Raws]] | None = None

    def states(self, layer: int, direction: int) -> Raws:
        """States and gates of all steps of a layer, in the axis order of the module's input."""
        with torch.no_grad():
            if self._made is None:
                self._made = self._all()
            raws = self._made[layer][direction]
        return {name: self._as_given(raw) for name, raw in raws.items()}

    def _all(self) -> list[list[Raws]]:
        module, directions = self._module, 1 + self._module.bidirectional
        empty: list[list[Raws]] = [[{} for _ in range(directions)] for _ in range(module.num_layers)]
        known = self._sequence(self._y) if self._y.is_same else None
        outputs = [None] * directions if known is None else list(known.split(self._size, -1))
        if not (self._x.is_same and self._weights.are_same and all(each.is_same for each in self._first)):
            say_changed(
                "weights or inputs", self._path, "gates", "h of the last layer" if known is not None else "nothing"
            )
            return self._last(empty, outputs)
        if self._generator is None:
            self._say_dropout("drawn by cuDNN with its own random state")
            return self._last(empty, outputs)
        x, made = self._sequence(self._x), []
        with nullcontext() if self._generator is False else _drawing_from(x.device, self._generator):
            for layer in range(module.num_layers):
                top = layer == module.num_layers - 1
                made.append([self._layer(x, layer, each, outputs[each] if top else None) for each in range(directions)])
                x = torch.cat([raws["h"] for raws in made[-1]], -1)
                if self._generator is not False and not top:
                    x = self._dropped(x)
        if self._generator is not False and known is not None:
            again = [
                self._layer(self._last_input, module.num_layers - 1, each, None)["h"] for each in range(directions)
            ]
            if not torch.allclose(torch.cat(again, -1), known, rtol=1e-3, atol=1e-3):
                self._say_dropout("a repeated draw does not reproduce the output")
                return self._last(empty, outputs)
        return made

    def _last(self, empty: list[list[Raws]], outputs: list[Any]) -> list[list[Raws]]:
        for raws, h in zip(empty[-1], outputs):
            if h is not None:
                raws["h"] = h
        return empty

    def _layer(self, x: torch.Tensor, layer: int, direction: int, known: torch.Tensor | None) -> Raws:
        module, suffix = self._module, f"_l{layer}" + "_reverse" * direction
        unit = _Unit(module, self._weights.of(suffix))
        self._last_input = x
        rows, place = x.shape[1:-1], layer * (1 + module.bidirectional) + direction
        first = [_exact(each.raw)[place] for each in self._first]
        h = first[0] if first else x.new_zeros(*rows, self._size)
        c = None
        if isinstance(module, nn.LSTM):
            c = first[1] if first else x.new_zeros(*rows, module.hidden_size)
        turned = self._turned if direction else lambda raw: raw
        raws = unit.along(turned(x), h, c, None if known is None else turned(known))
        return {name: self._zero_behind(turned(raw)) for name, raw in raws.items()}

    # -- sequences -----------------------------------------------------------------------------------------------------------
    def _sequence(self, kept: ValueSnapshot) -> torch.Tensor:
        """[time, batch, ...] or [time, ...] of an input or output of the module, in the user's batch order."""
        raw = _exact(kept.raw)
        if self._packed is not None:
            return pad_packed_sequence(PackedSequence(raw, *self._packed))[0]
        return raw.transpose(0, 1) if self._module.batch_first and raw.ndim == 3 else raw

    def _as_given(self, raw: torch.Tensor) -> torch.Tensor:
        return raw.transpose(0, 1) if self._module.batch_first and raw.ndim == 3 else raw

    def _lengths(self) -> torch.Tensor | None:
        return None if self._packed is None else lengths_of(self._packed[0], self._packed[2])

    def _turned(self, raw: torch.Tensor) -> torch.Tensor:
        """Each sequence reversed."""
        lengths = self._lengths()
        if lengths is None:
            return raw.flip(0)
        time = torch.arange(raw.shape[0], device="cpu")[:, None]
        index = torch.where(time < lengths, lengths - 1 - time, time).to(raw.device)
        return raw.gather(0, index[..., None].expand_as(raw))

    def _zero_behind(self, raw: torch.Tensor) -> torch.Tensor:
        lengths = self._lengths()
        if lengths is None:
            return raw
        real = (torch.arange(raw.shape[0], device="cpu")[:, None] < lengths).to(raw.device)
        return raw * real[..., None]

    def _dropped(self, x: torch.Tensor) -> torch.Tensor:
        """The input of the next layer, with the dropout that was drawn: over torch's packed layout or in time order."""
        p = self._module.dropout
        if self._packed is None:
            return torch.nn.functional.dropout(x, p, True)
        sizes, order, back = self._packed
        rows = x if order is None else x.index_select(1, order)
        flat = torch.cat([rows[step, : int(size)] for step, size in enumerate(sizes)])
        return pad_packed_sequence(PackedSequence(torch.nn.functional.dropout(flat, p, True), sizes, order, back))[0]

    def _say_dropout(self, why: str) -> None:
        warn_user(
            message(
                "record: the gates of layers with dropout between them are unknown.",
                {"module": self._path or "the model", "dropout": f"{self._module.dropout}, {why}"},
                "Dropout masks, which gates depend on, are not stored. Only h of the last layer is known. Without dropout:",
                "model.eval()",
            )
        )


class CellStep:
    """The data of a call of a cell from which its states are computed."""

    def __init__(self, module: Any, source: torch.Tensor, state: Any, after: tuple[torch.Tensor, ...], path: str):
        self._module, self._path, self._x, self._weights = module, path, ValueSnapshot(source), _UnitWeights(module)
        self._before, self._after = _snapshots(state), _snapshots(after)

    def states(self) -> Raws:
        """h, c and the gates of the step."""
        out = {name: kept.raw for name, kept in zip(("h", "c"), self._after) if kept.is_same}
        if not (self._x.is_same and self._weights.are_same and all(each.is_same for each in self._before)):
            say_changed("weights or inputs", self._path, "gates", ", ".join(out) or "nothing")
            return out
        x = _exact(self._x.raw)
        h = _exact(self._before[0].raw) if self._before else x.new_zeros(*x.shape[:-1], self._module.hidden_size)
        with torch.no_grad():
            gates = _Unit(self._module, self._weights.of()).gates(x, h)
        return {**gates, **out} if parts_of(self._module) else out


@block
def _drawing_from(device: torch.device, state: Any) -> Iterator[None]:
    """In a with-block, set the generator of a device to a state; restore it afterwards."""
    before = device_state(device)
    set_device_state(device, state)
    try:
        yield
    finally:
        set_device_state(device, before)


def _exact(raw: torch.Tensor) -> torch.Tensor:
    """Half precision as float32."""
    return raw.float() if raw.dtype in (torch.float16, torch.bfloat16) else raw


def _snapshots(state: Any) -> list[ValueSnapshot]:
    """The snapshots of a state: a tensor, several ones, or None."""
    states = state if isinstance(state, (tuple, list)) else () if state is None else (state,)
    return [ValueSnapshot(raw) for raw in states]


def lengths_of(batch_sizes: torch.Tensor, order: torch.Tensor | None) -> torch.Tensor:
    """The lengths of packed sequences in the user's batch order, which is in `unsorted_indices`; it waits for the device."""
    nothing = torch.empty(int(batch_sizes.sum()), 0, device="cpu")
    return pad_packed_sequence(PackedSequence(nothing, batch_sizes, None, None if order is None else order.cpu()))[1]
