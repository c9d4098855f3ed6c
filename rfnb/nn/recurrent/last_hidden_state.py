"""The final states of recurrences as one tensor, e.g. to start a decoder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Never

from rfnb.core.dim import Dim
from rfnb.core.errors import missing_key_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops.concat import concat
from rfnb.ops.dims import replace_dim


def last_hidden_state(
    states: Any,
    *extra: Never,
    key: str | int | None = "*",
    combine: str = "concat",
    out_dim: Dim | None = None,
    n_out: int | None = None,
    **unknown: Never,
) -> Tensor:
    """Parts of final states, concatenated or summed; the documented GetLastHiddenStateLayer.

        c = rf.last_hidden_state([forward_state, backward_state], key="c", combine="add")

    Args:
        states: The final state of a recurrence, or a list of such states: dicts of parts {..., feature}, tuples, or single Tensors.
        key: "*": all parts one after the other (of an LSTM: c, then h). "flat": the same, but not for a state of one
            part. A name ("c", "h"): that part. An int: the part at this position. None: the only part.
        combine: "concat" in the order of the states, or "add".
        out_dim: Features of the result; default: a new dim, or for "add" that of the first state.
        n_out: The required size of the result.

    Returns:
        {..., out_dim}

    Raises:
        KeyError: No part of this name.
        ValueError: A key that does not match a state, sizes that differ from each other (add), out_dim or n_out; another `combine`.
    """
    if combine not in ("concat", "add"):
        raise value_error(
            "last_hidden_state: how to combine?",
            {"combine": repr(combine), "known": "concat, add"},
            "It is one of these.",
            'combine="concat"',
        )
    several = isinstance(states, list) or (isinstance(states, tuple) and not _is_parts(states))
    parts: list[Tensor] = [part for state in (states if several else [states]) for part in _selected(state, key)]
    if not parts:
        raise value_error(
            "last_hidden_state: no state.",
            {"states": "none"},
            "There is at least one.",
            "rf.last_hidden_state(state)",
        )
    if combine == "add":
        out = _added([_joined(_selected(state, key)) for state in (states if several else [states])])
    else:
        out = _joined(parts)
    size = _feature(out).extent
    for name, needed in (("out_dim", out_dim and out_dim.extent), ("n_out", n_out)):
        if needed is not None and needed != size:
            raise value_error(
                "last_hidden_state: another size.",
                [("result", f"{shape_of(out)}, size {size}"), (name, needed)],
                f"With key {key!r} and combine {combine!r} the states give {size} features.",
                f"n_out={size}",
            )
    if out_dim is not None and _feature(out) is not out_dim:
        out, _ = replace_dim(out, in_dim=_feature(out), out_dim=out_dim)
    return out


def _is_parts(value: Sequence[Any]) -> bool:
    """Whether a tuple is one state, that is, consists of Tensors. (A list is a list of states.)"""
    return all(isinstance(part, Tensor) for part in value)


def _selected(state: Any, key: str | int | None) -> list[Tensor]:
    """The parts of one state that the key selects."""
    named: dict[Any, Tensor] = {}
    if isinstance(state, dict):
        named = {name: part for name, part in state.items() if not str(name).endswith("_mask")}
    elif isinstance(state, (tuple, list)):
        named = dict(enumerate(state))
    else:
        named = {"state": state}
    parts = list(named.values())
    if key == "*" or (key == "flat" and len(parts) > 1) or (key is None and len(parts) == 1):
        return parts
    if isinstance(key, str) and key != "flat":
        if key in named and isinstance(state, dict):
            return [named[key]]
        raise missing_key_error(
            f'last_hidden_state: no part "{key}".', _text(named), "A name is that of a part of the state.", 'key="*"'
        )
    if isinstance(key, int) and not isinstance(key, bool) and len(parts) > 1 and 0 <= key < len(parts):
        return [parts[key]]
    rule = {
        "flat": 'All parts of a state of several are "flat"; this one has one part.',
        None: "Without key a state has one part; this one has several.",
    }.get(key if key in ("flat", None) else "", "An int is the place of a part in a state of several.")
    raise value_error(f"last_hidden_state: key {key!r} does not go with this state.", _text(named), rule, 'key="*"')


def _text(named: dict[Any, Tensor]) -> list[tuple[str, str]]:
    return [(str(name), shape_of(part)) for name, part in named.items()]


def _joined(parts: list[Tensor]) -> Tensor:
    if len(parts) == 1:
        return parts[0]
    out, dim = concat(*((part, _feature(part)) for part in parts), allow_broadcast=True)
    out.feature_dim = dim
    return out


def _added(values: list[Tensor]) -> Tensor:
    out, dim = values[0], _feature(values[0])
    for value in values[1:]:
        own = _feature(value)
        if own.extent != dim.extent:
            raise value_error(
                "last_hidden_state: states of different sizes.",
                {"first": values[0], "other": value},
                "States that are added have one size.",
                'combine="concat"',
            )
        out = out + (value if own is dim else replace_dim(value, in_dim=own, out_dim=dim)[0])
    out.feature_dim = dim
    return out


def _feature(part: Tensor) -> Dim:
    if part.feature_dim is None:
        raise value_error(
            "last_hidden_state: a state without feature_dim.",
            {"state": part},
            "The features of the states are combined; name their dim.",
            "state.h.feature_dim = out_dim",
        )
    return part.feature_dim
