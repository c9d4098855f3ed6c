"""Values on one line, as a check shows them: a tensor as its dims, and its values if they are few."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from rfnb.core.foreign_arrays import host_array, is_array
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import operand_rows
from rfnb.rec.state import State

# Only the beginning of huge lists; a value whose repr raises is shown by its class.
_shown = reprlib.Repr()
_shown.maxlist = _shown.maxtuple = _shown.maxdict = _shown.maxset = _shown.maxfrozenset = 30
_shown.maxstring, _shown.maxother = 200, 2000


def brief(value: Any, most: int = 120) -> str:
    """A value on one line: a tensor as its dims, and its values if they are few."""
    if isinstance(value, Tensor):
        (row,) = operand_rows([("", value)])
        few = value._raw is not None and value.numpy().size <= 12
        text = f"{row[1]} {_rounded(value.numpy())}" if few else f"{row[1]} {value.dtype}"
    elif is_array(value):
        array = array_in(value)
        few = array is not None and array.size <= 12
        text = _rounded(array) if array is not None and few else f"{tuple(value.shape)} {value.dtype}"
    elif isinstance(value, State):
        text = f"{type(value).__name__}({', '.join(f'{name}={brief(one, most)}' for name, one in value.items())})"
    elif type(value) in (list, tuple) and any(isinstance(one, Tensor) or is_array(one) for one in value):
        text = f"({', '.join(brief(one, most) for one in value)})"
    elif type(value).__repr__ is object.__repr__:
        text = f"a {type(value).__name__}"
    else:
        text = _shown.repr(_with_short_floats(value))
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1] + "…"


def kind_of(value: Any) -> str:
    """The kind of a value as text; distinguishes tensors of rf and torch."""
    kind = type(value)
    if value is None:
        return "None"
    if isinstance(value, Tensor):
        return "rf.Tensor"
    if kind.__module__.split(".")[0] in ("torch", "numpy"):
        return f"{kind.__module__.split('.')[0]}.{kind.__name__}"
    return kind.__name__


def _with_short_floats(value: Any) -> Any:
    if isinstance(value, float) and value == value and abs(value) < 1e9:
        return float(f"{value:.4g}")
    if type(value) in (list, tuple) and len(value) <= 1000:
        return type(value)(map(_with_short_floats, value))
    if type(value) is dict and len(value) <= 1000:
        return {key: _with_short_floats(one) for key, one in value.items()}
    return value


def _rounded(array: np.ndarray) -> str:
    return str(_with_short_floats(array.astype(float).round(4).tolist() if array.dtype.kind == "f" else array.tolist()))


def array_in(value: Any) -> np.ndarray | None:
    """The numeric array for a value, with axes in the order of its dims; None if the value is not numeric."""
    if isinstance(value, Tensor):
        return value.numpy()
    if not (is_array(value) or are_numbers(value)):
        return None
    try:
        return host_array(value, "compare")
    except (TypeError, ValueError):
        return None


def are_numbers(value: Any) -> bool:
    """Whether it is a (nested) list of numbers, which can be read as an array."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(are_numbers(item) for item in value)
    return isinstance(value, (bool, int, float, complex, np.generic))
