"""Inputs of views: Tensors, arrays of any library, tuples of them over layers and steps as models return them, whole outputs.

by_layer(output.attentions, dims)                  # {"layer 0": ..., "layer 1": ...}
joined_steps(attentions_of_generate, "attention")  # the steps concatenated
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core import foreign_arrays
from rfnb.core.axis_names import parse
from rfnb.core.errors import shape_error, value_error
from rfnb.core.strict_json import JsonObject
from rfnb.core.tensor import Tensor
from rfnb.viz.dims.transformers_rows import is_model_output
from rfnb.viz.spec import host

_LEAST = 3  # minimal number of axes at which a tuple of arrays counts as layers, without names
STEPS_REMARK = (
    "The rows are the steps of generate, each with its own sources. After a beam search, a row may belong to another hypothesis than "
    "the row above it."
)


def of_output(value: Any, ends: str, where: str, ask: str, *, one: bool = False) -> Any:
    """The fields of a model's output whose names end in one of these, by prefix; any other value unchanged.

    Args:
        ends: "attentions".
        ask: The argument that makes a model return them: "output_attentions=True".
        one: Whether only one field can be drawn.

    Raises:
        ValueError: If the output has none, or several that cannot be drawn together.
    """
    if not is_model_output(value):
        return value
    if ends == "logits" and value.get(ends) is not None:  # the main field of a model with several heads
        return value[ends]
    found = {
        str(key)[: -len(ends)].rstrip("_"): item
        for key, item in value.items()
        if str(key).endswith(ends) and item is not None and (foreign_arrays.is_array(item) or len(item))
    }
    if not found:
        if ends == "attentions" and any(item == () for key, item in value.items() if str(key).endswith(ends)):
            refuse_missing(())  # although it was requested
        raise value_error(
            f"{where}: this output has no {ends}.",
            {"given": type(value).__name__, "fields": ", ".join(map(str, value))},
            "A model returns them on request:",
            f"output = model(..., {ask})",
        )
    if len(found) == 1:
        return next(iter(found.values()))
    counts = {label: _sequences(item) for label, item in found.items()}
    if one or len(set(counts.values())) > 1:
        fields = [f"{label}_{ends}".lstrip("_") for label in found]
        raise value_error(
            f"{where}: the fields of this output are of different {'steps' if one else 'sequences'}.",
            [(field, f"{count} sequences") for field, count in zip(fields, counts.values())],
            "A view needs the same steps and sequences for all fields; a beam search has several per input sequence. Choose one:",
            f"rf.viz.{where}(output.{fields[0]})",
        )
    return found


def refuse_missing(value: Any) -> None:
    """Refuse missing weights, `()` or None in a tuple, with instructions how to get them.

    Raises:
        ValueError: With both ways.
    """
    if value is not None and not _lacks_one(value):
        return
    raise value_error(
        "attention: the model returned no weights.",
        {"given": _outline(value)},
        "Models of transformers return them where their attention is written out, not from sdpa or flash attention:\n"
        '    model.set_attn_implementation("eager"), or attn_implementation="eager" in from_pretrained\n'
        "A recording sees the weights of each implementation:",
        "with rf.record(model=model) as trace:\n    model(**inputs)\nrf.show(trace)",
    )


def _lacks_one(value: Any) -> bool:
    """Whether it is an empty tuple, or a tuple or list that contains None or such a tuple."""
    if not isinstance(value, (tuple, list)) or foreign_arrays.is_array(value):
        return False
    own = isinstance(value, tuple) and (not value or any(item is None for item in value))
    return own or any(map(_lacks_one, value))


def _outline(value: Any) -> str:
    """A tuple as text, with the shapes of its arrays."""
    if isinstance(value, (tuple, list)) and not foreign_arrays.is_array(value):
        shown = [_outline(item) for item in value[:4]] + ["..."] * (len(value) > 4)
        return f"({', '.join(shown)}{',' * (len(shown) == 1)})"
    return f"array {tuple(value.shape)}" if foreign_arrays.is_array(value) else repr(value)


def _sequences(value: Any) -> int:
    """The size of the first axis of the first array in nested tuples."""
    while isinstance(value, (list, tuple)) and not foreign_arrays.is_array(value):
        value = value[0]
    return int(value.shape[0])


def by_layer(value: Any, dims: Any) -> JsonObject | None:
    """The arrays of a list or tuple as layers; None for anything else, e.g. nested lists of numbers.

    Args:
        dims: The names of the axes, if given: of the array of a layer, or of all stacked.
    """
    if not isinstance(value, (list, tuple)) or foreign_arrays.is_array(value) or not value:
        return None
    if not all(isinstance(item, Tensor) or foreign_arrays.is_array(item) for item in value):
        return None
    counts = {len(item.dims if isinstance(item, Tensor) else item.shape) for item in value}
    if dims is not None and not any(isinstance(item, Tensor) for item in value):
        entries = parse(dims, "viz")
        if ... not in entries and counts != {len(entries)}:
            return None
    elif min(counts) < _LEAST and not any(isinstance(item, Tensor) for item in value):
        return None
    return {f"layer {index}": item for index, item in enumerate(value)}


def flat_layers(weights: Mapping[Any, Any], dims: Any) -> JsonObject:
    """A dict in which tuples are flattened: {"encoder": (w0, w1)} has "encoder, layer 0" and "encoder, layer 1"."""
    out: JsonObject = {}
    for label, value in weights.items():
        inner = by_layer(value, dims)
        if inner is None:
            out[str(label)] = value
        else:
            out |= {", ".join(filter(None, [str(label), name])): item for name, item in inner.items()}
    return out


def by_label(value: Any, dims: Any, alone: str = "") -> Mapping[str, Any]:
    """The arrays by label: those of a dict, of layers, or a single one."""
    if isinstance(value, Mapping):
        return flat_layers(value, dims)
    return by_layer(value, dims) or {alone: value}


def joined_in(weights: Any, where: str) -> tuple[Any, JsonObject]:
    """The weights with the steps of generate joined, also those in a dict; and by label, which positions each step had seen."""
    if is_of_steps(weights):
        layers, existed = joined_steps(weights, where)
        return layers, dict.fromkeys(layers, existed)
    if not isinstance(weights, Mapping) or not any(map(is_of_steps, weights.values())):
        return weights, {}
    out: JsonObject = {}
    seen: JsonObject = {}
    for label, value in weights.items():
        each, masks = joined_in(value, where)
        flat = flat_layers({label: tuple(each.values()) if masks else each}, None)
        out |= flat
        seen |= dict.fromkeys(flat, next(iter(masks.values()), None))
    return out, seen


def is_of_steps(value: Any) -> bool:
    """Whether it is a tuple with a tuple of arrays per step, as from generate."""
    return (
        isinstance(value, (list, tuple))
        and not foreign_arrays.is_array(value)
        and len(value) > 0
        and all(
            isinstance(step, (list, tuple))
            and not foreign_arrays.is_array(step)
            and len(step) > 0
            and all(foreign_arrays.is_array(item) and len(item.shape) >= 3 for item in step)
            for step in value
        )
    )


def joined_steps(value: Sequence[Sequence[Any]], where: str) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    """The attentions [batch, head, target, source], or hidden states [batch, time, feature], of all steps of generate,
    joined as if from one pass, by label; and for attentions [row, col]: true where a position existed in the step.

    Raises:
        ShapeError: If the steps differ in axes other than the growing ones.
        ValueError: If they do not look like steps: all have the same size, with more than one position.
    """
    first = value[0][0]
    count = len(first.shape)
    grows = (2, 3) if count == 4 else (1,)
    shapes = [tuple(step[0].shape) for step in value]
    fixed = {tuple(size for axis, size in enumerate(shape) if axis not in grows) for shape in shapes}
    if len(fixed) > 1 or len({len(step) for step in value}) > 1 or any(len(shape) != count for shape in shapes):
        raise shape_error(
            f"{where}: the steps differ in more than their length.",
            [("step 0", f"{len(value[0])} layers of {shapes[0]}"), *_other(value, shapes)],
            "The steps of one generate have the same layers, sequences and heads.",
            f'rf.viz.{where}(values[-1])    # one of them; or {{"a": ..., "b": ...}}, slider="model"',
        )
    if len(value) > 1 and len(set(shapes)) == 1 and shapes[0][grows[0]] > 1:
        raise value_error(
            f"{where}: nested twice, but not the steps of generate.",
            {"outer": f"{len(value)} entries", "inner": f"{len(value[0])} of {shapes[0]}, in all"},
            "A step has one position, or a different length than the previous one. For values to compare, name what they differ in:",
            f'rf.viz.{where}(values, slider="epoch")' if where == "attention" else f"rf.viz.{where}(values[-1])",
        )
    arrays = [[host(item) for item in step] for step in value]
    names = [f"layer {index}" for index in range(len(arrays[0]))]
    if count == 3:
        return {name: np.concatenate([step[at] for step in arrays], 1) for at, name in enumerate(names)}, None
    longest = max(shape[3] for shape in shapes)
    wide = [[np.pad(item, [(0, 0)] * 3 + [(0, longest - item.shape[3])]) for item in step] for step in arrays]
    seen = np.concatenate([np.broadcast_to(np.arange(longest) < shape[3], (shape[2], longest)) for shape in shapes])
    rows = shapes[0][2]
    if rows == shapes[0][3] > 1 and not any(np.triu(np.asarray(item), 1).any() for item in arrays[0]):
        seen = seen.copy()
        seen[:rows, :rows] &= np.tril(np.ones((rows, rows), bool))  # the prompt, which is causal
    return {name: np.concatenate([step[at] for step in wide], 2) for at, name in enumerate(names)}, seen


def stacked_steps(value: Any, dims: Any) -> tuple[Any, bool]:
    """The scores of a tuple over the steps of generate, [batch, label] each, as [batch, step, label]; and whether it is such a tuple.

    A list counts as sequences, as in nested lists of numbers.
    """
    if not isinstance(value, tuple) or foreign_arrays.is_array(value) or dims is not None or not value:
        return value, False
    if not all(foreign_arrays.is_array(item) and len(item.shape) == 2 for item in value):
        return value, False
    if len({tuple(item.shape) for item in value}) > 1:
        raise shape_error(
            "distribution: the steps differ in their sizes.",
            [(f"step {index}", tuple(item.shape)) for index, item in enumerate(value[:4])],
            "A tuple has one array {batch, label} for each step, as generate gives its scores.",
            "rf.viz.distribution(scores[0])    # of one step",
        )
    return np.stack([host(item) for item in value], 1), True


def _other(value: Sequence[Sequence[Any]], shapes: list[tuple[int, ...]]) -> list[tuple[str, str]]:
    for index, (step, shape) in enumerate(zip(value, shapes)):
        if len(step) != len(value[0]) or shape != shapes[0]:
            return [(f"step {index}", f"{len(step)} layers of {shape}")]
    return []
