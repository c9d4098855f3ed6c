"""Calls of modules: the dims of their inputs and outputs, and the `module` event of each.

Lengths of sequences come from the masks and lengths that a module gets. If all padding follows the end of each
sequence, and the longest one fills the axis, the dim gets lengths. With other masks the dim remains static.
This waits for a GPU once per mask of a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from rfnb.core.dim import Dim, Dims, ragged_dim
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.interop.seen.annotations import say_annotated
from rfnb.interop.seen.axis_reads import dims_by_origin
from rfnb.interop.seen.calls import Call, tensors_of
from rfnb.interop.seen.names import Names
from rfnb.interop.seen.readers import reads
from rfnb.interop.seen.roles import KIND_OF, SPATIAL, batch_first_of, roles_for, roles_guessed
from rfnb.interop.seen.user_axis_names import FIRST, OUTPUT, fits, names_for
from rfnb.trace.probe import Later, listening, probe_call, probe_later


def say_inputs(call: Call) -> None:
    """Set the dims of a call's inputs that the user named.

    Raises:
        ShapeError: If the user's names do not fit.
    """
    if call.facts.told:
        _apply(call, call.facts.told, call.tensors())
    if not call.facts.is_annotated:
        return
    first = call.outer is None and batch_first_of(call.module)
    say_annotated(call, call.tensors(), lambda name, raw: call.names.of(raw) or _named(call, name, raw, first))


def enter(call: Call) -> None:
    """Set the dims of a call's other inputs, before it runs."""
    names, inputs = call.names, call.tensors()
    state, of = names._layouts.state, names.finds
    known: list[Any] = [of(raw) for _, raw in inputs]
    masked = False
    if len(inputs) == 1 and known[0] is not None and "mask" not in (name := inputs[0][0]) and "len" not in name:
        for dim in known[0]:
            if dim.guessed:
                break
        else:  # nearly all calls
            call.dims = list(dict.fromkeys(known[0]))
            call.begin(known, state)
            return
    for index, (name, raw) in enumerate(inputs):
        dims = known[index]
        masked = masked or "mask" in name or "len" in name
        if dims is not None:
            for dim in dims:
                if dim.guessed and (roles := roles_for(call.module, name, raw)) is not None:
                    dims = known[index] = names.dims(raw, roles, call.outer)
                    break
            for dim in dims:
                if dim not in call.dims:
                    call.dims.append(dim)
    if None in known:
        first = call.outer is None and batch_first_of(call.module)
        for index, (name, raw) in enumerate(inputs):
            if known[index] is None:
                known[index] = dims = _named(call, name, raw, first)
                call.dims += [dim for dim in dims if dim not in call.dims]
        call.dims = []
        for dims in known:  # in the order of the inputs: with equal sizes, the first one wins
            call.dims += [dim for dim in dims or () if dim not in call.dims]
    if masked:
        add_lengths(call, inputs)
        call.dims = [names.now(dim) for dim in call.dims]
    call.begin(known, state)


_TWO_SIDES = torch.nn.Transformer, torch.nn.TransformerDecoder, torch.nn.TransformerDecoderLayer


def _named(call: Call, name: str, raw: torch.Tensor, batch_first: bool) -> Dims:
    """The dims of an unknown input."""
    roles = roles_for(call.module, name, raw)
    if call.outer is None:
        return _first_seen(call, raw, roles or roles_guessed(name, raw, batch_first), guessed=roles is None)
    known = dims_by_origin(call, raw, always=isinstance(call.module, _TWO_SIDES))
    if any(known):
        views = call.names.axes_of_views(raw)
        by = ["origin" if dim is not None else "view" for dim in known]
        known = [dim if dim is not None else view for dim, view in zip(known, views)]
        for axis, role in enumerate(roles or ()):
            # Two inputs of a model for different sides are distinct, even if each was taken for its only time.
            if known[axis] in call.dims and role == "target" and isinstance(call.module, _TWO_SIDES):
                known[axis] = side = Dim(raw.shape[axis], name=role, kind="spatial")
                call.root.made.append(side)
        dims = call.names.found(
            raw.shape, roles or [None] * raw.ndim, call.outer, known=known, by=by, guessed=roles is None
        )
        call.names.give(raw, dims)
        return dims
    if roles is not None:
        return call.names.dims(raw, roles, call.outer)
    return call.names.dims_of(raw, call.outer)


def _first_seen(call: Call, raw: torch.Tensor, roles: Sequence[Any], *, guessed: bool) -> Dims:
    """The dims of an input of an outermost call. The batch may be that of another input; times are identified only by name."""
    known, new = call.names.axes(raw), []
    by = ["view"] * raw.ndim
    for axis, role in enumerate(roles):
        if known[axis] is None and KIND_OF.get(role) == "spatial":
            same = (dim for dim in call.made if dim.name == role and dim.extent == raw.shape[axis] and dim not in known)
            known[axis], by[axis] = next(same, None), "input"
            if known[axis] is None:
                by[axis] = "new"
                known[axis] = dim = Dim(raw.shape[axis], name=role, kind="spatial")
                if guessed:
                    call.names.guess(dim)
                new.append(dim)
    dims = call.names.found(raw.shape, roles, call, known=known, by=by, guessed=guessed)
    call.made += new
    call.names.give(raw, dims)
    return dims


def leave(call: Call, result: Any) -> list[tuple[str, torch.Tensor, Dims]]:
    """Set the dims of a call's results that no reader has set; returns its tensors by name, with their dims.

    Raises:
        ShapeError: If the user's names do not fit.
    """
    names = call.names
    if result.__class__ is torch.Tensor and result.layout is torch.strided and not result.is_nested:
        outputs = [("", result)]  # nearly always
    else:
        outputs = tensors_of(result)
    if call.facts.told:
        _apply_to_result(call, call.facts.told, outputs)
    if call.facts.is_annotated:
        say_annotated(call, outputs, lambda name, raw: names.of(raw) or _returned(call, raw), returned=True)
    of = names.finds
    return [(name, raw, of(raw) or _returned(call, raw)) for name, raw in outputs]


def _returned(call: Call, raw: torch.Tensor) -> Dims:
    """The dims of a result without given names: those of the first input with this shape, unless views indicate others."""
    names, shape = call.names, raw.shape
    for at, (_, each) in enumerate(call.tensors()):
        if each.shape == shape:
            dims = call.named()[at]
            if names.give_new(raw, dims):
                return dims
            if all(own is None or own is dim for own, dim in zip(names.axes_of_views(raw), dims)):
                names.give(raw, dims)
                return dims
            break
    return names.dims_of(raw, call)


@reads(torch.nn.Linear)
def linear(call: Call, result: Any) -> None:
    """The dims of a product: those of the input, and the features of the result."""
    if call.tensors() and isinstance(result, torch.Tensor) and id(call.module) not in call.names.outputs:
        call.names.dims(result, [*call.named()[0][:-1], "feature"], call)


@reads(*SPATIAL)
def convolution(call: Call, result: Any) -> None:
    """The dims of a convolution or pooling: those of the input, and new ones where the size changes."""
    if not call.tensors():
        return
    _, raw = call.tensors()[0]
    dims, roles = call.names.of(raw), roles_for(call.module, "input", raw)
    for _, each in tensors_of(result) if dims is not None and roles is not None else ():
        if call.names.of(each) is not None or each.ndim != raw.ndim:
            continue
        new: list[Any] = []
        for dim, role, size in zip(dims or (), roles or (), each.shape):
            if size != dim.extent and KIND_OF.get(role) == "spatial":
                dim = Dim(size, name=role, kind="spatial")
                call.root.made.append(dim)
            new.append(dim if size == dim.extent else role)
        call.names.dims(each, new, call)


def tell_call(call: Call, outputs: Sequence[tuple[str, torch.Tensor, Dims]], raised: str | None = None) -> None:
    """Send the `module` event of a call."""
    if not listening("module"):
        return
    names, kind, given, dims_given = call.names, call.facts.kind, call.tensors(), call.named()
    kept: list[Any] = [names]
    about: list[Any] = [kind, raised, len(given)]
    size, usual = 0, True
    for (name, raw), dims in zip(given, dims_given):
        dtype = raw.dtype
        about += name, dtype, dims, dims[-1].kind if dims else None
        usual = usual and dtype in _SAMPLES
    for name, raw, dims in outputs:
        dtype = raw.dtype
        about += name, dtype, dims, dims[-1].kind if dims else None
        usual = usual and dtype in _SAMPLES
        if names.values:
            raw = names.kept(raw)
            size += raw.nbytes
            kept += name, raw, dims
    look = tuple(about)
    if usual and probe_call(look, _template, size, _beside if names.values else None, kept):
        return
    inputs = [(name, raw, dims) for (name, raw), dims in zip(given, dims_given)]
    made = partial(_values, names, kind, raised, inputs, outputs, kept[2::3])
    if names.values:
        probe_later("module", Later(made, size, look=look, kept=partial(_beside, *kept)))
    else:
        probe_later("module", Later(made, look=look))


_Named = Sequence[tuple[str, torch.Tensor, tuple[Dim, ...]]]


def _values(
    names: Names, kind: str, raised: str | None, inputs: _Named, outputs: _Named, kept: Sequence[torch.Tensor]
) -> dict[str, Any]:
    """The values of a `module` event."""
    made = [(name, names.seen(raw, dims)) for name, raw, dims in outputs]
    for (_, tensor), raw in zip(made, kept):
        tensor._raw = raw
    values = {"inputs": [(name, names.seen(raw, dims)) for name, raw, dims in inputs], "outputs": made, "module": kind}
    return values if raised is None else values | {"raised": raised}


# For other dtypes the template is made in the call: they may have no name here, which is an error then.
_SAMPLES = {
    dtype: torch.empty(0, dtype=dtype, device="cpu")
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.bool)
}


def _template(look: tuple[Any, ...]) -> dict[str, Any]:
    """The template of the values of a `module` event."""
    kind, raised, count, *rest = look
    made: list[tuple[str, Tensor]] = []
    for name, dtype, dims, last in zip(*[iter(rest)] * 4):
        tensor = new_tensor(_SAMPLES[dtype], dims)
        tensor.name, tensor._feature_dim = "", dims[-1] if last == "feature" else None
        made.append((name, tensor.copy_template()))
    values = {"inputs": made[:count], "outputs": made[count:], "module": kind}
    return values if raised is None else values | {"raised": raised}


def _beside(names: Names, *kept: Any) -> dict[str, Any]:
    """The values of a `module` event that a trace keeps: of the inputs it has the template.

    Args:
        kept: Of each result its name, the array and its dims, one behind the other, which are few objects for the garbage collector;
            and the template.
    """
    outputs = [(name, names.seen(raw, dims)) for name, raw, dims in zip(kept[:-1:3], kept[1:-1:3], kept[2:-1:3])]
    return {**kept[-1], "outputs": outputs}


# -- names from the user -------------------------------------------------------------------------------------------------------
def _apply(call: Call, told: dict[str, Any], inputs: list[tuple[str, torch.Tensor]]) -> None:
    for name, (path, entries) in told.items():
        if name == OUTPUT:
            continue
        own = inputs[:1] if name == FIRST else [(each, raw) for each, raw in inputs if each == name]
        for each, raw in own:
            if name != FIRST or fits(entries, raw.ndim):
                call.names.say(raw, names_for(path, entries, raw, each), call)


def _apply_to_result(call: Call, told: dict[str, Any], outputs: list[tuple[str, torch.Tensor]]) -> None:
    if not outputs:
        return
    (name, raw), inputs = outputs[0], call.tensors()
    if OUTPUT in told:
        path, entries = told[OUTPUT]
        call.names.say(raw, names_for(path, entries, raw, name or "output"), call)
    elif FIRST in told:
        path, entries = told[FIRST]
        if fits(entries, raw.ndim):
            call.names.say(raw, names_for(path, entries, raw, name or "output"), call)
        elif not inputs or not fits(entries, inputs[0][1].ndim):
            label, first = inputs[0] if inputs else (name or "output", raw)
            names_for(path, entries, first, label)  # raises the error for the mismatch


def is_mask(name: str, raw: torch.Tensor) -> bool:
    """Whether an input marks real entries, or gives their number."""
    if raw.ndim == 2:
        return name.endswith(("attention_mask", "padding_mask"))
    return raw.ndim == 1 and name.endswith(("lengths", "length", "_lens")) and not raw.is_floating_point()


def add_lengths(call: Any, inputs: list[tuple[str, torch.Tensor]]) -> None:
    """Set the lengths of dims of a call's inputs that a mask among them determines."""
    for name, raw in inputs:
        if is_mask(name, raw) and raw.device.type != "meta" and id(raw) not in call.root.masks:
            call.root.masks[id(raw)] = raw
            place = _place(call, name, raw, inputs)
            if place is not None:
                _tell(call, name, raw, *place)


def _place(call: Any, name: str, mask: torch.Tensor, inputs: list[tuple[str, torch.Tensor]]) -> tuple[Dim, Dim] | None:
    """The batch and time dims of a mask."""
    prefix = next(
        (
            word
            for word in ("src", "tgt", "memory", "decoder", "encoder", "key", "source", "target")
            if name.startswith(word)
        ),
        "",
    )
    others = [(each, raw) for each, raw in inputs if not is_mask(each, raw)]
    own = [pair for pair in others if prefix and pair[0].startswith(prefix)]
    for _, raw in own or others:
        dims = call.names.of(raw) or ()
        batch = next((dim for dim in dims if dim.kind == "batch" and dim.extent == mask.shape[0]), None)
        times = [
            dim
            for dim in dims
            if dim.kind not in ("batch", "feature") and (mask.ndim == 1 or dim.extent == mask.shape[1])
        ]
        if batch is not None and times:
            return batch, times[0]
    return None


def _tell(call: Any, name: str, mask: torch.Tensor, batch: Dim, time: Dim) -> None:
    if time.size is None:  # it has lengths
        return
    mask = mask.detach()
    if mask.ndim == 1:
        lengths = mask.cpu().numpy()
        right = bool(((lengths >= 0) & (lengths <= time.extent)).all())
    else:
        real = _real(name, mask.cpu())
        lengths = real.sum(1)
        right = bool((real == (np.arange(real.shape[1]) < lengths[:, None])).all())
    if right and lengths.size and int(lengths.max()) == time.extent:
        if int(lengths.min()) == time.extent:
            return
        new = ragged_dim(lengths.astype(np.int32), over=batch, name=time.name)
        new.kind, new.guessed, new.vocab = time.kind, time.guessed, time.vocab
        call.names.becomes(time, new)
        return
    if not right:
        time.remark = f"no lengths: {name} has padding before the end"


def _real(name: str, mask: torch.Tensor) -> np.ndarray[Any, Any]:
    """The real entries: padding masks of torch and fairseq are true, or minus infinity, in the padding; attention masks
    are 1 for real entries.
    """
    if not name.endswith("padding_mask"):
        return np.asarray((mask > 0).numpy())
    return np.asarray((mask == 0).numpy() if mask.is_floating_point() else ~mask.bool().numpy())
