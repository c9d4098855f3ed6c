"""Labels given by text or index, and hypotheses given by their labels so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import index_error, value_error
from rfnb.core.whole_number import is_place, whole
from rfnb.rec.loop import Loop
from rfnb.rec.selection import align_host
from rfnb.rec.selections import LabelDecision
from rfnb.search.decision import Decision


def text_index(text: str, labels: Dim, what: str, fix: str | None = None) -> int:
    """The index of a label in the vocabulary of a dim.

    Raises:
        IndexError: If there is no such label, or several.
    """
    vocab = getattr(labels, "vocab", None)
    found = [index for index, each in enumerate(vocab or ()) if each == text]
    if len(found) == 1:
        return found[0]
    near = f"{len(vocab)} labels, as {', '.join(map(repr, list(vocab)[:6]))}" if vocab else "none has a text"
    raise index_error(
        f"{what}: {f'{len(found)} labels' if found else 'no label'} {text!r}.",
        {"labels": labels, "texts": near},
        "A label is given by its text, if it is the only one with it, or by its index.",
        fix,
    )


def label_index(decided: LabelDecision, labels: Dim) -> int:
    """The index of a decision's label.

    Raises:
        IndexError: If there is no such label.
    """
    label, size = decided.label, labels.extent
    if isinstance(label, str):
        return text_index(label, labels, decided.kind, f"run.at.{decided.kind}(0)")
    if isinstance(label, bool) or not isinstance(label, (int, np.integer)) or not 0 <= label < size:
        raise index_error(
            f"{decided.kind}: no label {label!r}.",
            {"labels": labels},
            f"Labels are 0 to {size - 1}.",
        )
    return int(label)


def check_number(kind: str, what: str, given: Any, count: int) -> None:
    """Check that an index is below `count`.

    Raises:
        IndexError: If it is not.
    """
    if not is_place(given, count):
        index = whole(given)
        words = repr(given) if index is None else str(index)
        raise index_error(
            f"{kind}: no {what} {words}.",
            {"given": words, "there are": count},
            f"They are 0 to {count - 1}.",
        )


def spelled(decided: LabelDecision, labels: Dim) -> LabelDecision:
    """The decision, with a text that is not a label but several separated by spaces split into these."""
    vocab = getattr(labels, "vocab", None) or ()
    given = decided.label
    words = given.split() if isinstance(given, str) and given not in vocab else ()
    if len(words) < 2 or decided.kind != "force" or not set(words) <= set(vocab):
        return decided
    return decided._replace(label=words[0], then=(*words[1:], *decided.then))


def hypothesis_index(decided: LabelDecision, loop: Loop) -> int | None:
    """The place in the beam of a hypothesis given by its place or by its labels so far.

    Raises:
        IndexError: If there is no such hypothesis.
        ValueError: If labels do not identify hypotheses of this search.
    """
    given = decided.hypothesis
    if given is None or whole(given) is not None:
        return whole(given)
    found = labels_so_far(loop, decided.seq, decided.kind)
    vocab = getattr(loop.search.last.tokens.sparse_dim, "vocab", None) if found else None
    texts = [[str(label) if vocab is None else str(vocab[label]) for label in labels] for labels in found]
    return place_of_labels(decided, found, texts)


def place_of_labels(decided: LabelDecision, found: Sequence[Sequence[int]], texts: Sequence[Sequence[str]]) -> int:
    """The first hypothesis with the given labels, of which these are the labels so far, and their texts.

    Raises:
        IndexError: If there is none.
    """
    given: Any = decided.hypothesis
    for index, (labels, own) in enumerate(zip(found, texts)):
        if isinstance(given, str):
            same = given.split() == own or given in (" ".join(own), "".join(own))
        else:
            same = (
                isinstance(given, (list, tuple))
                and len(given) == len(own)
                and all(one in pair for one, *pair in zip(given, labels, own))
            )
        if same:
            return index
    raise index_error(
        f"{decided.kind}: no hypothesis {given!r}.",
        [(f"hypothesis {index}", " ".join(own)) for index, own in enumerate(texts)],
        "A hypothesis is given by its place in the beam before the step, or by its labels so far.",
        f"run.at.{decided.kind}({decided.label!r}, hypothesis=0)",
    )


def labels_so_far(loop: Loop, seq: int, what: str) -> list[list[int]]:
    """The labels of each hypothesis of a sequence before the next step, up to its end; [] before the first choice.

    Raises:
        IndexError: If there is no such sequence.
        ValueError: If steps do not choose exactly one label.
    """
    search = loop.search
    if search is None or search.last is None:
        return []
    steps = [step for step in loop.selections.steps if isinstance(step, Decision)]
    several = search.links[0].sources is not None
    if several or len(search.links) != 1 or len(steps) != len(loop.selections.steps):
        raise value_error(
            f"{what}: which hypothesis?",
            {"choices of a step": "of several sources" if several else len(search.links)},
            "Labels tell hypotheses apart where each step chooses one. Give the place in the beam:",
            f"run.at.{what}(..., hypothesis=0)",
        )
    batch = search.batch_dims()
    check_number(what, "seq", seq, math.prod(dim.extent for dim in batch))
    count = search.last.out_dim.extent
    place, labels = np.arange(count), []
    for step in reversed(steps):
        tokens, parents = (_of_seq(x, batch, step.out_dim, seq) for x in (step.tokens, step.parents))
        labels.append(tokens[place])
        place = parents[place]
    rows = np.array(labels[::-1]).reshape(len(steps), count).T
    host = loop.step_lengths
    lengths = np.full(count, len(steps))
    if host is not None and loop.ended_before() is not None:
        dims = (*batch, search.last.carried)
        shape = [dim.extent for dim in dims]
        lengths = np.broadcast_to(align_host(host, loop.end_dims, dims), shape).reshape(-1, count)[seq]
    return [row[:length].tolist() for row, length in zip(rows, lengths)]


def _of_seq(x: Any, batch: Sequence[Dim], beam: Dim, seq: int) -> np.ndarray:
    """The entries of a sequence in an array {batch dims, beam}."""
    host = x.copy_transpose([*batch, beam]).numpy()
    found: np.ndarray = host.reshape(math.prod(dim.extent for dim in batch), beam.extent)[seq]
    return found
