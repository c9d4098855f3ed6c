"""The `distribution` view: validation of its spec, and its page."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rfnb.core.strict_json import JsonObject
from rfnb.viz.distribution.scores import KINDS
from rfnb.viz.kinds import none_yet, title_of
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import lessened
from rfnb.viz.rounding import share as rounded
from rfnb.viz.spec import Spec, pack
from rfnb.viz.terminal import bar, clip, columns_of, width_of

_BLOCKS = {"top": 3, "top_log_probs": 3, "rest": 2, "entropy": 2}
_OF_REFERENCE = {"reference": 2, "log_prob": 2, "rank": 2}


def problem(spec: Any) -> str | None:
    """The problem with the spec, as a sentence; None if it can be drawn."""
    head = spec.head
    if not isinstance(head.get("seqs"), list) or not isinstance(head.get("tokens"), dict):
        return "This distribution has no list of sequences, or no labels."
    needed = {**_BLOCKS, **(_OF_REFERENCE if head.get("reference") else {})}
    first = spec.blocks.get("top")
    for name, count in needed.items():
        block = spec.blocks.get(name)
        if block is None or block.ndim != count:
            return f"This distribution has no array {name} of sequence, step{' and label' if count == 3 else ''}."
        if first is not None and (block.shape[:2] != first.shape[:2] or block.shape[0] < len(head["seqs"])):
            return f"This distribution has {name} of {block.shape[0]} sequences and {block.shape[1]} steps, which does not fit."
    return None


def missing(spec: Any) -> str:
    """The text for an empty view; "" for any other."""
    return "" if spec.head["seqs"] else none_yet(spec, "steps")


_WIDE, _MOST_STEPS, _MOST_SEQS = 80, 30, 4
_NAME, _NAME_OF_SEQ = 8, 26  # columns for the name of a step; if each step is a sequence


def text(spec: Any) -> str:
    """The sequences one below the other, their steps as lines."""
    head = spec.head
    lines = [f"{title_of(spec)}: {head['vocab_dim']['name']}={head['vocab_dim']['size']}, {of_scores(head)}"]
    for seq in range(min(_MOST_SEQS, len(head["seqs"]))):
        lines += _sequence(spec, seq)
    if len(head["seqs"]) > _MOST_SEQS:
        lines.append(f"Sequences: {len(head['seqs'])}, the first {_MOST_SEQS} are here")
    return "\n".join([*lines, *(f"! {warning}" for warning in warnings(spec))])


def _sequence(spec: Any, seq: int) -> list[str]:
    entry = spec.head["seqs"][seq]
    at = shown_steps(spec, seq, _MOST_STEPS)
    batch = (spec.head.get("step_dim") or {}).get("kind") == "batch"  # a classifier: one output per sequence
    rows, row, most = ("sequences", "sequence", _NAME_OF_SEQ) if batch else ("steps", "step", _NAME)
    said = ", ".join(filter(None, [f"{entry['len']} {rows}", of_seq(spec.head, seq)]))
    lines = [f"{clip(entry['label'], min(40, width_of(entry['label'])))}: {said}"]
    if not at:
        return lines
    steps = [step_of(spec, seq, step, 20) for step in at]
    names = max(len(row), *(min(most, width_of(step.name)) for step in steps))
    given = bool(spec.head.get("reference"))
    right = max(9, *(min(10, width_of(step.reference or "")) for step in steps)) if given else 0
    start = clip(row, names) + (f"  {clip('reference', right)}           prob   loss  rank" if given else "")
    lines.append(f"  {start}  best labels".rstrip())
    lines += [_line(step, names, right) for step in steps]
    if len(at) < entry["len"]:
        lines.append(f"  {len(at)} of {entry['len']} {rows}{', those with a wrong label among them' if given else ''}")
    return lines


def _line(step: StepWords, names: int, right: int) -> str:
    out = f"  {clip(step.name, names)}"
    if right:
        numbers = f"{_share(step.prob)}  {_loss(step.loss)}  {step.rank:>4}" if step.rank else " " * 18
        out += f"  {clip(step.reference if step.reference is not None else '-', right)} {step.verdict:<8} {numbers}"
    out += "  "
    if step.best is None:
        return out + "? no numbers"
    room = _WIDE - columns_of(out) - len("rest 1.00")
    done = 0.0
    for label, share in step.best:
        word = clip(label, min(8, width_of(label)))
        piece = f"{word} {bar(share)}{rounded(share)} "
        if columns_of(piece) > room or (done and share < 0.005):
            break
        out, room, done = out + piece, room - columns_of(piece), done + share
    rest = max(0.0, step.rest + sum(share for _, share in step.best) - done)
    return (out + (f"rest {rounded(rest)}" if rest >= 5e-7 else "")).rstrip()


def _share(value: float) -> str:
    return rounded(value, 3).rjust(5) if np.isfinite(value) else "    ?"


def _loss(value: float) -> str:
    return "  inf" if value == np.inf else f"{value:5.2f}" if value < 100 else f"{value:5.0f}"


RIGHT, WRONG = "✓ right", "✗ wrong"


class StepWords(NamedTuple):
    """The texts of one step.

    Attributes:
        best: Labels with their probabilities, best first; None in a step without values.
        reference: The right label, or None.
        prob, loss, rank: Those of the reference; loss in nats.
    """

    name: str
    best: list[tuple[str, float]] | None
    rest: float
    entropy: float
    reference: str | None
    prob: float
    loss: float
    rank: int

    @property
    def verdict(self) -> str:
        """ "✓ right" or "✗ wrong"; "" without a reference."""
        return "" if not self.rank else RIGHT if self.rank == 1 else WRONG


def label_of(head: JsonObject, index: int) -> str | None:
    """The label of an index; None for no index."""
    return None if index < 0 else str(head["tokens"].get(str(index), index))


def step_of(spec: Any, seq: int, step: int, most: int) -> StepWords:
    """One step, with at most the given number of best labels."""
    head, blocks = spec.head, spec.blocks
    top, logs = blocks["top"][seq, step][:most].tolist(), blocks["top_log_probs"][seq, step].astype(np.float64)
    with np.errstate(invalid="ignore"):
        probs = np.exp(logs).tolist()
    best = None if not top or top[0] < 0 else [(label_of(head, i) or "", p) for i, p in zip(top, probs) if i >= 0]
    rest = float(blocks["rest"][seq, step]) + float(sum(probs[most:]))
    words = head["seqs"][seq].get("steps") or []
    name = words[step] if step < len(words) else str(step)
    reference, log_prob, rank = None, np.nan, 0
    if head.get("reference"):
        reference = label_of(head, int(blocks["reference"][seq, step]))
        log_prob, rank = float(blocks["log_prob"][seq, step]), int(blocks["rank"][seq, step])
    entropy = float(blocks["entropy"][seq, step])
    return StepWords(str(name), best, rest, entropy, reference, float(np.exp(log_prob)), 0.0 - log_prob, rank)


def of_seq(head: JsonObject, seq: int) -> str:
    """The summary of a sequence: "4 of 5 right, 0.31 nats per label, perplexity 1.36"."""
    entry = head["seqs"][seq]
    if not head.get("reference"):
        return ""
    if not entry.get("known"):
        return "no reference"
    loss = entry.get("loss")
    mean = "infinite loss" if loss is None else f"{loss:.3g} nats per label, perplexity {np.exp(min(loss, 700.0)):.3g}"
    return f"{entry['right']} of {entry['known']} right, {mean}"


def of_scores(head: JsonObject) -> str:
    """The kind of scores, and whether it was given or detected: "made of logits (as found)"."""
    kind = KINDS.get(str(head.get("estimated_type")), "scores")
    return f"made of {kind}{' (as their sums tell)' if head.get('found') else ''}"


def warnings(spec: Any, most: int = 4) -> list[str]:
    """The problems of each sequence, as sentences; the first ones, and the number of further ones."""
    out = [f"{seq['label']}: {seq['note']}." for seq in spec.head["seqs"] if seq.get("note")]
    return out if len(out) <= most + 1 else [*out[:most], f"The same in {len(out) - most} more sequences."]


def shown_steps(spec: Any, seq: int, most: int) -> list[int]:
    """The first steps; if there are too many, also those with a wrong label."""
    length = min(int(spec.head["seqs"][seq]["len"]), spec.blocks["top"].shape[1])
    if length <= most:
        return list(range(length))
    first = list(range(most // 2))
    wrong = np.flatnonzero(spec.blocks["rank"][seq, :length] > 1).tolist() if spec.head.get("reference") else []
    more = [step for step in wrong if step >= len(first)][: most - len(first)]
    fill = [step for step in range(len(first), length) if step not in set(more)][: most - len(first) - len(more)]
    return sorted([*first, *more, *fill])


_BEST = (12, 8, 5, 3, 2, 1)


def thin(spec: Spec, room: Room) -> Spec:
    """Keep fewer labels; the reference, its probability and its rank stay exact."""
    made = spec
    for most in _BEST:
        made = _fewer(spec, most)
        if len(pack(made)) <= (room.easy if most > 5 else room.most):
            return made
    steps = spec.blocks["top"].shape[1]
    while len(pack(made)) > room.most and steps > 1:
        steps = min(steps - 1, int(steps * 0.9 * room.most / len(pack(made))) or 1)
        made = _first(_fewer(spec, 1), steps)
    return made


def _fewer(spec: Spec, most: int) -> Spec:
    """The spec with at most the given number of best labels in each step."""
    logs = spec.blocks["top_log_probs"].astype(np.float64)
    if most >= logs.shape[2]:
        return spec
    out = np.exp(logs[..., most:])
    blocks = {
        **spec.blocks,
        "top": spec.blocks["top"][..., :most],
        "top_log_probs": spec.blocks["top_log_probs"][..., :most],
    }
    blocks["rest"] = spec.blocks["rest"] + np.where(spec.blocks["top"][..., most:] < 0, 0.0, out).sum(-1)
    words = (
        f"Of each step the page has the best {most} of {logs.shape[2]} labels."
        if most > 1
        else "Of each step the page has the best label only."
    )
    return _with(spec, blocks, {}, words)  # fmt: skip


def _first(spec: Spec, steps: int) -> Spec:
    blocks = {name: block[:, :steps] for name, block in spec.blocks.items()}
    seqs = [
        {**seq, "len": min(seq["len"], steps), "steps": list(seq.get("steps") or [])[:steps]}
        for seq in spec.head["seqs"]
    ]
    total = spec.blocks["top"].shape[1]
    return _with(spec, blocks, {"seqs": seqs}, f"The page has the first {steps} of {total} steps.")


def _with(spec: Spec, blocks: dict[str, np.ndarray], head: JsonObject, words: str) -> Spec:
    """The spec with these blocks, and only the labels that are still used."""
    there = [blocks["top"].ravel(), *([blocks["reference"].ravel()] if "reference" in blocks else [])]
    kept = {str(index) for index in np.unique(np.concatenate(there)).tolist()}
    tokens = {index: label for index, label in spec.head["tokens"].items() if index in kept}
    return lessened(spec, {**head, "tokens": tokens}, blocks, {}, words)
