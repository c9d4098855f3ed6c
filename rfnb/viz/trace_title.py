"""The title of a recording: the model, the task and the sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.trace.lookup import SearchEvents


def title_of(trace: Any, searches: Sequence[SearchEvents], names: Sequence[str]) -> str:
    """The title of a recording: "G2P: beam search of “tongue” and 7 more, 4 beams, 9 steps".

    Args:
        names: Names of the sequences, "1: tongue"; without names, their number is given.
    """
    if not len(trace):
        return "Recording"
    what = _searched(searches, names) if searches else _ran(trace, names)
    return f"{_model(trace) or 'Recording'}: {what}"


def _model(trace: Any) -> str:
    """The class of the model, if it was given or called; several classes if there are few."""
    if trace.model:
        return str(trace.model)
    outermost: dict[int, str] = {}
    for events in trace.by_path("module").values():
        for event in events:
            if event.call:
                outermost[event.call] = outermost.get(event.call, "")
    # The event of the outermost module of a call comes last.
    for event in trace.select(kind="module") if outermost else ():
        outermost[event.call] = str(event.values.get("module") or "")
    classes = [name for name in dict.fromkeys(outermost.values()) if name]
    return ", ".join(classes) if len(classes) <= 3 else ""


def _searched(searches: Sequence[SearchEvents], names: Sequence[str]) -> str:
    sizes = [max((_beam(one.history, step) for step in range(one.history.num_steps)), default=0) for one in searches]
    if len(searches) > 1:
        most = max(sizes)
        return f"{len(searches)} beam searches, {'up to ' if min(sizes) < most else ''}{_count(most, 'beam')}"
    history = searches[0].history
    kind = "beam search" if sizes[0] > 1 else "greedy search" if all(history.by_rank) else "sampling"
    beams = [] if sizes[0] == 1 else [_count(sizes[0], "beam")]
    steps = len(dict.fromkeys(history.loop_steps))
    return ", ".join([f"{kind} of {_of(names, history.num_seqs)}", *beams, _count(steps, history.each_step)])


def _beam(history: Any, step: int) -> int:
    """The number of slots after a step, without hypotheses that left the beam."""
    left = max((len(history.left(seq, step)) for seq in range(history.num_seqs)), default=0)
    return int(history.beam_size(step)) - left


def _ran(trace: Any, names: Sequence[str]) -> str:
    """A description of a run without a search: the steps of its loop, or its calls."""
    loops: dict[str, set[int]] = {}
    for event in trace.select():
        if event.step is not None:
            name = event.path.removeprefix(event.module).strip(".") or event.path
            loops.setdefault(name, set()).add(event.entry)
    calls = {event.call for event in trace.select(kind="module")} - {0}
    if len(loops) > 1:
        what = f"{len(loops)} loops"
    elif loops:
        name, entries = loops.popitem()
        what = f"{_count(len(entries), 'step')} of {name or 'a loop'}"
    elif len(calls) > 1:
        what = _count(len(calls), "call")
    else:
        kinds = [kind for kind in trace.kinds if kind not in ("tokens", "module", "unseen")]
        what = " and ".join(filter(None, [", ".join(kinds[:-1]), *kinds[-1:]])) or _count(len(calls), "call")
    return f"{what}, {_of(names, len(names))}" if names else what


def _of(names: Sequence[str], count: int) -> str:
    """The sequences: “tongue” and 7 more, or their number."""
    first = next((name.partition(": ")[2] for name in names), "")
    if not first:
        return _count(count, "sequence")
    return f"“{first}”" + (f" and {count - 1} more" if count > 1 else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
