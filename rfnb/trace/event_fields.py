"""The fields of events by kind, and the type of each: one table for both entrances, `probe` with a user's values and `load_trace` with
a file.

All code that reads events relies on it. Fields may be missing; properties that only all steps of a run determine together (names, sizes,
parents within the beam) are checked where they are combined: by `trace.attention`, `trace.states` and `trace.beams`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor

MOST_EXPONENT = 50  # of a length: a number still, whatever the length


class Holds(NamedTuple):
    """The rule for a field.

    Attributes:
        words: Description for messages.
        fits: Tells whether a value is valid.
        or_none: Whether None is valid too.
    """

    words: str
    fits: Callable[[Any], bool]
    or_none: bool = False


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _has_numbers(value: Any) -> bool:
    return isinstance(value, Tensor) and value._raw is not None


def _or_none(holds: Holds) -> Holds:
    return Holds(f"{holds.words}, or None", holds.fits, True)


NUMBERS = Holds("a Tensor with its numbers", _has_numbers)
OPTIONAL = _or_none(NUMBERS)
ARRAY = _or_none(
    Holds(
        "a Tensor with its numbers, an array",
        lambda x: x._raw is not None if isinstance(x, Tensor) else isinstance(x, np.ndarray),
    )
)
NO_TEMPLATE = Holds("anything but a Tensor without numbers", lambda x: not isinstance(x, Tensor) or x._raw is not None)
DIM = _or_none(Holds("a Dim", lambda value: isinstance(value, Dim)))
TEXT = Holds("a text", lambda value: isinstance(value, str))
TEXTS = Holds("texts", lambda value: isinstance(value, (list, tuple)) and all(isinstance(x, str) for x in value))
YES_OR_NO = Holds("True or False", lambda value: isinstance(value, (bool, np.bool_)))
WHOLE = Holds("a whole number", lambda value: isinstance(value, (int, np.integer)) and not isinstance(value, bool))
NUMBER = Holds("a number", _is_number)
EXPONENT = Holds(
    f"a number up to {MOST_EXPONENT}", lambda value: _is_number(value) and -MOST_EXPONENT <= value <= MOST_EXPONENT
)

FIELDS: dict[str, dict[str, Holds]] = {
    "attention": {
        **dict.fromkeys(("weights", "queries", "keys"), OPTIONAL), "mask": ARRAY, **dict.fromkeys(("axis", "target", "before"), DIM),
        **dict.fromkeys(("scale", "window"), _or_none(NUMBER)), "remark": _or_none(TEXT),
    },
    "states": {"axis": DIM, "": NO_TEMPLATE},
    "tokens": {"ids": ARRAY},
    "outputs": {**dict.fromkeys(("logits", "log_probs", "probs", "reference"), ARRAY), "axis": DIM},
    "beams": {
        **dict.fromkeys(("tokens", "parents", "scores", "ended", "log_probs", "base", "before", "merged", "left", "taken"), NUMBERS),
        **dict.fromkeys(("cand_", "next_", "end_", "part:", "tokens:"), NUMBERS),
        "beam": DIM, "by_rank": YES_OR_NO, "blank": _or_none(WHOLE), "threshold": _or_none(NUMBER), "blockers": TEXTS,
        **dict.fromkeys(("length_exponent", "rank_exponent"), EXPONENT), **dict.fromkeys(("each_step", "about", "remark"), TEXT),
    },
}  # fmt: skip
"""What each field of an event holds, if it is there; what begins so ("cand_"), what has no row ("")."""


def misfit(kind: str, values: Mapping[str, Any]) -> tuple[str, Holds] | None:
    """The first field with an invalid value, and its rule."""
    fields = FIELDS.get(kind)
    if fields is not None:
        for name, value in values.items():
            holds = fields.get(name) or _row_of(fields, name)
            if holds is not None and not (holds.or_none and value is None) and not holds.fits(value):
                return name, holds
    return None


def _row_of(fields: Mapping[str, Holds], name: str) -> Holds | None:
    for mark in ":", "_":
        start, found, _ = name.partition(mark)
        if found and start + mark in fields:
            return fields[start + mark]
    return fields.get("")


def check_calls(values: Mapping[str, Any]) -> None:
    """Check the event of a module or op call read from a file; those sent by modules themselves are valid.

    Raises:
        TypeError, ValueError: If it is invalid.
    """
    for name in ("op", "module", "raised"):
        if name in values and not isinstance(values[name], str):
            raise TypeError(f"{name} is no text")
    for side, numbers in (("inputs", "reads"), ("outputs", "writes")):
        given, known = values.get(side, ()), values.get(numbers, ())
        if not isinstance(given, (list, tuple)) or not isinstance(known, (list, tuple)):
            raise TypeError(f"{side} are no list")
        for name, tensor in given:
            if not isinstance(name, str) or not isinstance(tensor, Tensor):
                raise TypeError(f"{side} have another thing than named Tensors")
        if not all(type(number) is int for number in known) or len(known) not in (0, len(given)):
            raise ValueError(f"{side} without {numbers}")
