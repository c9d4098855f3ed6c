"""Inputs of an explorer: the type of each, from its given value.

"phonetics"                 a text                    True            yes or no
5, 0.5                      a number                  Dim an index of it, by label if it has a vocabulary
(1, 12), (0.0, 1.0, 0.1) a number in a range, with its step
["greedy", "beam"] one of these; for a dict one of its values, by key
anything else is passed on unchanged
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import missing_key_error, type_error, value_error

KINDS = {"text": str, "switch": bool, "whole": int, "number": float}


@dataclass(frozen=True)
class Input:
    """One input.

    Attributes:
        kind: "text", "switch" (a bool), "whole" (an int), "number" (a float), "choice", "fixed".
        value: The initial value.
        range: (minimum, maximum, step) of a number, or None.
        choices: Label -> value.
    """

    name: str
    kind: str
    value: Any
    range: tuple[Any, Any, Any] | None = None
    choices: Mapping[str, Any] | None = None

    def checked(self, value: Any) -> Any:
        """The value in the type of this input.

        Raises:
            TypeError, ValueError: If it is not accepted.
        """
        if self.kind == "fixed":
            return value
        if self.choices is not None:
            for choice in self.choices.values():
                if choice is value or (type(choice) is type(value) and choice == value):
                    return choice
            raise value_error(
                f'explore: "{self.name}" has no such choice.',
                {"given": repr(value), "choices": ", ".join(self.choices)},
                "Its value is one of the choices.",
            )
        wanted = KINDS[self.kind]
        if wanted is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, wanted) or (wanted is int and isinstance(value, bool)):
            raise type_error(
                f'explore: "{self.name}" takes values of another type.',
                {"given": f"{type(value).__name__} {value!r}", "takes": wanted.__name__},
                "An input keeps the type of its first value.",
            )
        if self.range is not None and not self.range[0] <= value <= self.range[1]:
            raise value_error(
                f'explore: "{self.name}" is out of its range.',
                {"given": value, "range": f"{self.range[0]} to {self.range[1]}"},
                "Its value must be within the range.",
            )
        return value


def inputs_of(fn: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Input]:
    """The inputs by name. A range starts with the default of the function if it is inside, else in its middle.

    Raises:
        TypeError: If the function does not take such an argument, or an argument is missing.
        ValueError: For a range or a list without a value.
    """
    defaults = _defaults(fn, given)
    return {name: _input(name, value, defaults.get(name, inspect.Parameter.empty)) for name, value in given.items()}


def _defaults(fn: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a C function
        return {}
    try:
        signature.bind(**given)
    except TypeError as error:
        known = ", ".join(signature.parameters) or "none"
        raise type_error(
            f"explore: the inputs do not match the arguments of the function: {error}.",
            {"inputs": ", ".join(given) or "none", "function": known},
            "Each argument without a default needs an input of its name.",
            'rf.explore(lambda word, beam_size: search(word, beam_size), word="phonetics", beam_size=(1, 12))',
        ) from None
    return {name: p.default for name, p in signature.parameters.items() if p.default is not inspect.Parameter.empty}


def _input(name: str, value: Any, default: Any) -> Input:
    if isinstance(value, bool):
        return Input(name, "switch", value)
    if isinstance(value, str):
        return Input(name, "text", value)
    if isinstance(value, int):
        return Input(name, "whole", value)
    if isinstance(value, float):
        return Input(name, "number", value)
    if isinstance(value, Dim) and value.size is not None:
        labels = getattr(value, "vocab", None)
        if labels:
            return _choice(name, {str(label): index for index, label in enumerate(labels)}, default)
        return _range(name, (0, value.size - 1), default)
    if isinstance(value, tuple) and 2 <= len(value) <= 3 and all(map(_is_number, value)):
        return _range(name, value, default)
    if isinstance(value, (list, tuple)) and all(isinstance(each, (str, int, float, type(None))) for each in value):
        return _choice(name, {str(each): each for each in value}, default)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return _choice(name, dict(value), default)
    return Input(name, "fixed", value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _range(name: str, given: Sequence[Any], default: Any) -> Input:
    low, high, *rest = given
    whole = all(isinstance(each, int) for each in given)
    step = rest[0] if rest else 1 if whole else (high - low) / 100
    if not (low < high and 0 < step <= high - low) and not (low == high and whole):
        raise value_error(
            f'explore: "{name}" has an invalid range.',
            {"given": repr(tuple(given))},
            "A range has a minimum, a larger maximum, and a step that fits between them.",
            f"rf.explore(fn, {name}=(1, 12))",
        )
    middle = low + step * ((high - low) / step // 2)
    fits = _is_number(default) and low <= default <= high
    kind = int if whole else float
    return Input(
        name, "whole" if whole else "number", kind(default if fits else middle), (kind(low), kind(high), kind(step))
    )


def _choice(name: str, choices: Mapping[str, Any], default: Any) -> Input:
    if not choices:
        raise value_error(
            f'explore: "{name}" has no choices.', {"given": "none"}, "A list contains the values to choose from."
        )
    fits = [value for value in choices.values() if type(value) is type(default) and value == default]
    return Input(name, "choice", fits[0] if fits else next(iter(choices.values())), choices=choices)


def need_input(inputs: Mapping[str, Input], name: str) -> Input:
    """The input with a name.

    Raises:
        MissingKeyError: If there is none.
    """
    if name not in inputs:
        raise missing_key_error(
            f'explore: there is no input "{name}".',
            {"inputs": ", ".join(inputs) or "none"},
            "The explorer has these inputs.",
        )
    return inputs[name]
