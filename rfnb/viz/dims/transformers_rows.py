"""Rows for inputs and outputs of transformers models in a `dims` spec: outputs by field, key-value caches, tokenizer outputs.

transformers is not imported. The names of axes are those in its documentation; the view says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import numpy as np

from rfnb.core import foreign_arrays
from rfnb.core.errors import DimError
from rfnb.core.named_arrays import named
from rfnb.core.tensor import Tensor

REMARK = "Axes are named by their fields; names= overrides this."
_CACHE = ["batch", "head", "source", "feature"]
_MOST_TOKENS = 24
# Version 5.24 of transformers renamed the second to the first, in inputs and outputs.
CACHE_NAMES = ("cache", "past_key_values")
# Suffix of a field name -> the names of its axes, by index.
_FIELDS: dict[str, dict[int, list[str]]] = {
    "attentions": {4: ["batch", "head", "target", "source"]},
    "hidden_states": {3: ["batch", "time", "feature"]},
    "hidden_state": {3: ["batch", "time", "feature"]},
    "extract_features": {3: ["batch", "time", "feature"]},
    "logits": {3: ["batch", "time", "vocab"], 2: ["batch", "label"]},
    "pooler_output": {2: ["batch", "feature"]},
    **{name: {4: _CACHE} for name in CACHE_NAMES},
}


def is_model_output(value: Any) -> bool:
    """Whether it is a ModelOutput: a dict of the output fields of a model."""
    return _is(value, "ModelOutput")


def is_encoding(value: Any) -> bool:
    """Whether it is the output of a tokenizer, for a batch, or for one text with the package tokenizers."""
    return _is(value, "BatchEncoding") or _is_encoding_of_one(value)


def _is_encoding_of_one(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "tokenizers" and type(value).__name__ == "Encoding"


def is_cache(value: Any) -> bool:
    """Whether it is a key-value cache, by layer."""
    return _is(value, "Cache") and (hasattr(value, "layers") or hasattr(value, "self_attention_cache"))


def cache_in(values: Any) -> Any:
    """The key-value cache among inputs by name or in an output, or None."""
    # Access by the old name warns, so check first that the field exists.
    there = dict(values.items()) if isinstance(values, Mapping) else getattr(values, "__dict__", {})
    return next((value for name in CACHE_NAMES if (value := there.get(name)) is not None), None)


def _is(value: Any, name: str) -> bool:
    return any(
        base.__name__ == name and base.__module__.partition(".")[0] == "transformers" for base in type(value).__mro__
    )


def field_axes(field: str | None, count: int) -> list[str] | None:
    """The names of the axes of an array in a field, or None.

    Args:
        count: The number of its axes.
    """
    found = [of for end, of in _FIELDS.items() if field is not None and field.endswith(end)]
    return found[0].get(count) if found else None


def add_cache(rows: Any, label: str | None, value: Any, indent: int) -> None:
    """Add rows for the keys and values of each layer."""
    if label is not None:
        rows.heading(label, indent, note=type(value).__name__)
        indent += 1
    if hasattr(value, "self_attention_cache"):
        add_cache(rows, "self_attention", value.self_attention_cache, indent)
        add_cache(rows, "cross_attention", value.cross_attention_cache, indent)
        return
    for number, layer in enumerate(value.layers):
        rows.heading(str(number), indent)
        for side in ("keys", "values"):
            array: Any = getattr(layer, side, None)
            if foreign_arrays.is_array(array) and len(array.shape) == len(_CACHE):
                rows.remarks[REMARK] = None
                rows.array_row(side, array, indent + 1, rows.named_axes(_CACHE, array.shape))


def add_encoding(rows: Any, value: Any, indent: int) -> None:
    """Add rows for the fields of an encoding, with its attention mask as lengths, and the tokens of each sequence."""
    if _is_encoding_of_one(value):
        given = {"ids": value.ids, "attention_mask": value.attention_mask}
        encodings = [value]
    else:
        given, encodings = dict(value.items()), getattr(value, "encodings", None) or []
    fields = {str(key): _array(item) for key, item in given.items()}
    mask = fields.get("attention_mask")
    ids = mask if mask is not None else fields.get("input_ids")
    known: list[Any] = [] if ids is None else list(_tensor(rows, ids, ids, mask, []).dims)
    for key, array in fields.items():
        if array is None:
            rows.heading(key, indent, note="no array")
            continue
        rows.tensor(key, _tensor(rows, array, ids, mask, known), indent)
    for number, encoding in enumerate(encodings):
        tokens = list(encoding.tokens)
        shown = " ".join(tokens[:_MOST_TOKENS]) + (f" ... ({len(tokens)} in all)" if len(tokens) > _MOST_TOKENS else "")
        rows.heading(f"tokens {number}", indent, note=shown)


def _tensor(rows: Any, array: Any, ids: Any, mask: Any, known: list[Any]) -> Tensor:
    """A field with its dims.

    Args:
        ids: The array that defines the batch and time axes: the mask, else the tokens.
        known: Its dims, if they exist already. A field with other sizes shares at most its batch dim.
    """
    shape = tuple(array.shape)
    same = ids is not None and shape[: ids.ndim] == tuple(ids.shape)
    batched = len(shape) > 1 or (len(shape) == 1 and ids is not None and ids.ndim > 1)
    names = f"{'batch ' * batched}{'time ' * (len(shape) > batched)}{'...' * (len(shape) > 2)}"
    dims = known if same else [dim for dim in known[:1] if batched and dim.extent == shape[0]]
    try:
        made: Tensor = named(array, names, lengths=mask if same and len(shape) > 1 else None, dims=dims)
    except DimError:
        rows.remarks["attention_mask is false before it is true, or between: there are no lengths."] = None
        return named(array, names, dims=dims)
    if same and mask is not None and len(shape) > 1 and made.dims[1].extent < shape[1]:
        rows.remarks[f"The arrays have {shape[1]} positions; after {made.dims[1].extent} there is padding only."] = None
    return made


def _array(item: Any) -> Any:
    """The field as an array; lists of different lengths are padded with 0. None if it is not numeric."""
    if foreign_arrays.is_array(item):
        return item
    try:
        if isinstance(item, list) and item and all(isinstance(row, list) for row in item):
            return np.array(list(zip_longest(*item, fillvalue=0))).T
        return foreign_arrays.host_array(item, "dims")
    except (TypeError, ValueError):
        return None
