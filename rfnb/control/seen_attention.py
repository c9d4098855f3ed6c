"""The attention of models of other libraries, which a run records and does not change: it is refused where it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rfnb.core.errors import value_error
from rfnb.trace.attach import attacher_of
from rfnb.trace.match import is_end_of
from rfnb.trace.trace import Trace


def seen_paths(record: bool | Mapping[str, Any], trace: Trace | None) -> Iterator[str]:
    """The paths where something may attend that a run records.

    Args:
        record: Of the run: the models that it sees into.
        trace: What it has recorded so far.
    """
    if trace is not None:
        yield from trace.attention
    model = record.get("model") if isinstance(record, Mapping) else None
    for prefix, each in (model if isinstance(model, Mapping) else {"": model}).items():
        if each is not None and attacher_of(each) is not None:
            yield from (".".join(filter(None, [prefix, name])) for name, _ in each.named_modules())


def refused(path: str, seen: Iterable[str], known: Mapping[str, Any], *, attends: bool) -> Exception | None:
    """The error where attention at a path, which rf has not made so far, cannot be changed; None: it may still come.

    Args:
        seen: As of `seen_paths`.
        known: The paths where rf has attended.
        attends: Whether rf may attend there although it has nowhere so far.
    """
    found = next((each for each in seen if is_end_of(path, each) and each not in known), None)
    if found is None and attends:
        return None
    why = (
        f"it is of another library, which is recorded and not changed ({found})" if found else "rf attends nowhere here"
    )
    return value_error(
        f'attention "{path}": {why}.',
        [("changed", ", ".join(known) or "none so far")],
        "A run changes weights that rf makes: its layers, rf.dot_attention, or your own by rf.generic_attention. A model of transformers "
        "takes a function of yours in the place of its attention, which can change it:",
        'transformers.AttentionInterface.register("mine", attend); model.set_attn_implementation("mine")',
    )
