"""The `beams` view: the hypotheses that a beam search kept, cut and finished.

    rf.viz.beams(trace.beams["decoder"])                               # a recorded search
    rf.viz.beams(tokens=..., parents=..., scores=..., labels=vocab)    # plain arrays [step, beam] or [step, batch, beam]

The widget draws the same spec in `widgets/src/beams/`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.errors import dim_error, shape_error, value_error
from rfnb.core.foreign_arrays import is_array
from rfnb.core.strict_json import JsonObject
from rfnb.core.tensor import Tensor
from rfnb.trace.beam_fields import NEXT, CandidateFate
from rfnb.trace.beams import BeamHistory
from rfnb.viz.axes import NamedArray
from rfnb.viz.beams import top_labels
from rfnb.viz.beams.parts import Parts
from rfnb.viz.beams.reference import told
from rfnb.viz.beams.smaller_beams import told as told_of_smaller
from rfnb.viz.beams.text import prefix
from rfnb.viz.beams.tree import BeamTree, grow, tell
from rfnb.viz.spec import Spec, host

_FIELDS = ("tokens", "parents", "scores")
_CANDIDATES = ("cand_tokens", "cand_parents", "cand_scores", "cand_kept", "cand_verdict")
_FURTHER = (
    "base",
    "left",
    "end_scores",
    "cand_by",
    "taken",
)  # the score of a complete hypothesis excludes the extra score of its end
_PARTS = ("log_probs", "part:")
_DIGITS = 5  # significant digits of a score
_BLANK = "·"  # replaces the token if a hypothesis does not change
_EXAMPLE = "rf.viz.beams(tokens=[[5, 2]], parents=[[0, 0]], scores=[[-0.1, -2.3]])"


def spec(
    history: Any = None,
    *,
    labels: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    cuts: int = 8,
    length_exponent: float | None = None,
    join: str | None = None,
    reference: Sequence[Sequence[Any] | None] | None = None,
    title: str | None = None,
    smaller: bool = True,
    live: bool = False,
    ids: bool = False,
    **fields: Any,
) -> Spec:
    """The spec of a beam search.

    Args:
        history: A `BeamHistory`, a result of `rf.beam_search`, or a list with one dict of fields per step (arrays {batch, beam} or
            {beam}).
        labels: Text of each token. Default: those of the history, else the numbers.
        names: One per sequence of the batch. Default "sequence 0", ...
        cuts: Number of best cut candidates to keep per step.
        length_exponent: The n-best list is sorted by score / length ** exponent. Default: that of the search, else 0, by score.
        join: Separator between the tokens of a result. Default: that of the search, else a space.
        reference: For each sequence the expected labels (or None), numbers or texts, including the end label. The view
            shows where and why they were pruned, and marks the differences in each hypothesis.
        smaller: Whether to show what smaller beams would have found.
        live: Whether more steps may come.
        ids: Whether to include the index of each label, which forcing a label needs.
        **fields: Instead of a history: `tokens`, `parents`, `scores`, and optionally `ended`, `cand_tokens`, `cand_parents`,
            `cand_scores`, `cand_kept`, `cand_verdict`, each a list over steps.

    Raises:
        ShapeError: If the fields of a step differ in size.
        DimError: If the batch dim of a Tensor is ambiguous.
        ValueError: If a field is missing or unknown, or a parent index is out of range.
    """
    if hasattr(history, "history"):  # a SearchResult ranks by length, but does not prune by it
        length_exponent = history.length_exponent if length_exponent is None else length_exponent
        join = history.join if join is None else join
        history = history.history
    join = " " if join is None else join
    steps = [_complete(index, step) for index, step in enumerate(_steps(history, fields))]
    of_step = getattr(history, "labels_of", None) if labels is None else None
    labels = getattr(history, "labels", None) if labels is None else labels
    each = [of_step(index) if of_step is not None else labels for index in range(len(steps))]
    if length_exponent is None:
        length_exponent = getattr(history, "rank_exponent", 0.0) or getattr(history, "length_exponent", 0.0)
    batch = steps[0]["tokens"].shape[0] if steps else 0
    for index, step in enumerate(steps):
        _check(index, step, steps[index - 1] if index else None, batch)
    blank = getattr(history, "blank", None)
    by_rank = getattr(history, "by_rank", None) or [True] * len(steps)
    parts, threshold = Parts(steps), getattr(history, "threshold", None)
    whole = history if hasattr(history, "diagnose") else BeamHistory(steps, labels)
    known = {id(labels): _names(labels, blank) for labels in each}
    names_of = [known[id(labels)] for labels in each]
    seqs, blockers = [], getattr(history, "blockers", ())
    for seq in range(batch):
        listed = [_listed(step, seq, name, cuts, parts, ids, blockers) for step, name in zip(steps, names_of)]
        listed = _trim([step if ranked else {**step, "by_rank": False} for step, ranked in zip(listed, by_rank)])
        name = names[seq] if names is not None and seq < len(names) else f"sequence {seq}"
        one: JsonObject = {"label": str(name), "steps": listed, "best": []}
        if blank is not None:
            one["blank"] = _BLANK
            one["axis"] = getattr(history, "each_step", "step")
            one["sums"] = any("merged" in step for step in getattr(history, "steps", []))
        if parts.names:
            one["parts"] = parts.names
        tree = grow(one, length_exponent=length_exponent, threshold=threshold)
        done = _finish(one, tree, join)
        wanted = reference[seq] if reference is not None and seq < len(reference) else None
        if wanted is not None and (tree.nbest or ids):  # a held run has no result yet
            done["reference"] = told(whole, seq, wanted, tree)
        if not live or ids:
            best_of = top_labels.told(steps, seq, tree, lambda token, step: names_of[step](token), ids)
            done["steps"] = [{**step, "next": more} for step, more in zip(done["steps"], best_of)] or done["steps"]
            for step, taken in zip(done["steps"], top_labels.not_allowed(steps, seq, tree)):
                step.update({"taken": taken} if taken else {})
        if smaller and not live:
            entries, inside = told_of_smaller(whole, seq, tree, length_exponent=length_exponent, join=join)
            if entries:
                done["smaller"] = entries
                done["steps"] = [{**step, "inside": masks} for step, masks in zip(done["steps"], inside, strict=True)]
        seqs.append(done)
    about = getattr(history, "about", "")
    title = (f"Beam search: {about}" if about else "Beam search") if title is None else title
    head = {"title": title, "live": live, "length_exponent": length_exponent, "join": join, "seqs": seqs}
    if threshold is not None:
        head["threshold"] = threshold
    if getattr(history, "remark", ""):
        head["remark"] = history.remark
    loop_steps = getattr(history, "loop_steps", None)
    if loop_steps and loop_steps != list(range(len(loop_steps))):
        head["loop_steps"] = loop_steps
    return Spec("beams", head, {})


def _steps(history: Any, fields: dict[str, Any]) -> list[Mapping[str, Any]]:
    """One dict of fields per step, for any form of the input."""
    if history is None:
        known = (*_FIELDS, "ended", *_CANDIDATES)
        unknown = [name for name in fields if name not in known]
        missing = [name for name in _FIELDS if fields.get(name) is None]
        if unknown or missing:
            raise value_error(
                "beams: " + (f"unknown field {unknown[0]}." if unknown else f"{missing[0]} is missing."),
                {
                    "given": ", ".join(fields) or "nothing",
                    "needed": ", ".join(_FIELDS),
                    "known": ", ".join(known),
                },
                "A beam search is a BeamHistory, or its fields, each a list over steps.",
                _EXAMPLE,
            )
        given = {
            name: list(host(value) if is_array(value) else value) for name, value in fields.items() if value is not None
        }
        if len({len(value) for value in given.values()}) > 1:
            raise shape_error(
                "beams: the fields differ in their number of steps.",
                [(name, f"{len(value)} steps") for name, value in given.items()],
                "Each field is a list with one entry per step.",
                _EXAMPLE,
            )
        return [dict(zip(given, values)) for values in zip(*given.values())]
    steps = getattr(history, "steps", history)
    if isinstance(steps, (str, bytes, Mapping)) or not isinstance(steps, Iterable):
        raise value_error(
            "beams: this is not a beam search.",
            {"given": type(history).__name__},
            "A beam search is a BeamHistory, or a list with one dict of fields per step.",
            'rf.viz.beams(trace.beams["decoder"])',
        )
    return list(steps)


def _complete(index: int, step: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The fields of one step as arrays [batch, entry]."""
    missing = [name for name in _FIELDS if name not in step]
    if missing:
        raise value_error(
            f"beams: step {index} has no {missing[0]}.",
            {"given": ", ".join(step), "needed": ", ".join(_FIELDS)},
            "Each step says which token, which parent and which score each hypothesis has.",
            _EXAMPLE,
        )
    parts = [name for name in step if name.removeprefix("cand_").startswith(_PARTS)]
    out = {
        name: np.atleast_2d(_array(index, name, step[name]))
        for name in (*_FIELDS, "ended", *_CANDIDATES, *_FURTHER, *parts)
        if step.get(name) is not None
    }
    out |= {name: step[name] for name in NEXT if getattr(step.get(name), "ndim", 0) == 3}
    out.setdefault("ended", np.zeros(out["tokens"].shape, bool))
    return out


def _array(index: int, name: str, value: Any) -> np.ndarray:
    """A field as [batch, entry] or [entry]; for a Tensor, whose dims have no order, the batch comes first."""
    if not isinstance(value, Tensor) or len(value.dims) < 2:
        return host(value)
    named = NamedArray.of(value)
    batch = [axis for axis in named.axes if axis.kind == "batch"]
    beam = [axis for axis in named.axes if axis.kind == "beam"]
    if len(batch) != 1 and len(beam) == 1:
        batch = [axis for axis in named.axes if axis not in beam]
    if len(batch) != 1 or len(named.axes) != 2:
        raise dim_error(
            f"beams: step {index}: the batch dim of {name} is ambiguous.",
            {name: named.describe()},
            "The order of dims does not matter; a field has a dim of kind batch and one more, or a beam dim.",
            'rf.Dim(3, name="batch"), rf.Dim(4, name="beam")',
        )
    return named.arranged(batch, [axis for axis in named.axes if axis is not batch[0]])


def _check(index: int, step: dict[str, np.ndarray], before: dict[str, np.ndarray] | None, batch: int) -> None:
    groups = [("tokens", "parents", "scores", "ended"), tuple(name for name in _CANDIDATES if name in step)]
    for group in groups:
        shapes = {step[name].shape for name in group}
        if len(shapes) > 1 or any(shape[0] != batch for shape in shapes):
            raise shape_error(
                f"beams: step {index}: the fields do not fit together.",
                [(name, step[name].shape) for name in group],
                f"All fields of a step have the same shape, (batch, beam), here with batch {batch}.",
                _EXAMPLE,
            )
    if before is None:
        return
    size = before["tokens"].shape[1]
    parents = step["parents"][np.isfinite(step["scores"])]
    wrong = parents[(parents < 0) | (parents >= size)]
    if wrong.size:
        raise value_error(
            f"beams: step {index}: a parent is not the index of a hypothesis.",
            [("parent", int(wrong[0])), (f"step {index - 1}", f"{size} hypotheses, 0 to {size - 1}")],
            "A parent is the slot, in the step before, of the hypothesis that is continued.",
            _EXAMPLE,
        )


def _names(labels: Sequence[str] | None, blank: int | None) -> Callable[[Any], str]:
    """A function from a token to its text."""

    @functools.cache
    def name(token: Any) -> str:
        if isinstance(token, str):
            return token
        index = int(token)
        if index == blank:
            return _BLANK
        return str(index if labels is None or not 0 <= index < len(labels) else labels[index])

    return name


def _listed(
    step: dict[str, np.ndarray],
    seq: int,
    name: Callable[[Any], str],
    cuts: int,
    parts: Parts,
    ids: bool,
    blockers: Sequence[str],
) -> JsonObject:
    """One step of one sequence as plain lists."""
    ends = step["end_scores"][seq] if "end_scores" in step else None
    scores = _numbers(step["scores"][seq] if ends is None else step["scores"][seq] + ends)
    kept: JsonObject = {
        "tokens": list(map(name, step["tokens"][seq].tolist())),
        "parents": [parent if score is not None else 0 for parent, score in zip(_whole(step["parents"][seq]), scores)],
        "scores": scores,
        "ended": step["ended"][seq].astype(bool).tolist(),
    }
    if ids:
        kept["ids"] = _whole(step["tokens"][seq])
    if ends is not None and np.any(ends):
        kept["ends"] = _numbers(ends)
    if "left" in step and step["left"][seq].any():
        kept["left"] = step["left"][seq].astype(bool).tolist()
    if parts.names:
        kept["parts"] = parts.of(step, seq)
    return {**kept, "cuts": _cut(step, seq, name, cuts, parts, ids, blockers)}


def _cut(
    step: dict[str, np.ndarray],
    seq: int,
    name: Callable[[Any], str],
    most: int,
    parts: Parts,
    ids: bool,
    blockers: Sequence[str],
) -> list[JsonObject]:
    """The best cut candidates."""
    if "cand_tokens" not in step:
        return []
    scores = step["cand_scores"][seq].astype(np.float64)
    there = np.isfinite(scores)
    if "cand_kept" in step:
        there &= ~step["cand_kept"][seq].astype(bool)
    places = np.flatnonzero(there)
    rounded = np.round(scores[places], _DIGITS)
    order = np.argsort(-rounded, kind="stable")[:most]
    places, rounded = places[order], rounded[order]
    why = step["cand_verdict"][seq][places].tolist() if "cand_verdict" in step else [CandidateFate.CUT] * len(places)
    rows = list(zip(*parts.of(step, seq, "cand_"))) if parts.names else []
    by = step["cand_by"][seq] if "cand_by" in step and blockers else None
    tokens, parents = step["cand_tokens"][seq][places].tolist(), _whole(step["cand_parents"][seq][places])
    return [
        {"token": name(token), "parent": parent, "score": score}
        | ({"why": CandidateFate(code).text} if code > CandidateFate.CUT else {})
        | ({"by": str(blockers[int(by[place]) - 1])} if by is not None and by[place] else {})
        | ({"parts": list(rows[place])} if rows else {})
        | ({"id": int(token)} if ids else {})
        for token, parent, score, code, place in zip(tokens, parents, rounded.tolist(), why, places.tolist())
    ]


def _whole(values: np.ndarray) -> list[int]:
    return values.astype(np.int64).tolist()


def _numbers(scores: np.ndarray) -> list[float | None]:
    """Scores for JSON; None for an empty slot (probability 0)."""
    finite, rounded = np.isfinite(scores), np.round(scores.astype(np.float64), _DIGITS).tolist()
    return rounded if finite.all() else [score if ok else None for score, ok in zip(rounded, finite.tolist())]


def _trim(steps: list[JsonObject]) -> list[JsonObject]:
    """The steps without trailing ones in which only other sequences of the batch continued."""
    while len(steps) > 1:
        before, last = steps[-2]["ended"], steps[-1]
        if not all(score is None or before[parent] for parent, score in zip(last["parents"], last["scores"])):
            break
        steps = steps[:-1]
    return steps


def _finish(seq: JsonObject, tree: BeamTree, join: str) -> JsonObject:
    """Add the winner's path, its text, and the notes on each hypothesis."""
    path = tree.nbest[0].path() if tree.nbest else []
    return {**tell(seq, tree), "best": [[node.step, node.slot] for node in path], "result": prefix(path, join)}
