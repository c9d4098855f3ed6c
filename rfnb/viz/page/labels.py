"""Outputs in a page: of each step fewer of the best labels, the others go into the rest; of very many steps the first ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.viz.page.budget import Room
from rfnb.viz.page.heads import lessened
from rfnb.viz.spec import Spec, pack

_BEST = (12, 8, 5, 3, 2, 1)


def thin_labels(spec: Spec, room: Room) -> Spec:
    """The reference, its probability and its rank stay exact."""
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
    """The spec with at most so many of the best labels of each step."""
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


def _with(spec: Spec, blocks: dict[str, np.ndarray], head: dict[str, Any], words: str) -> Spec:
    """The spec with these blocks, and the labels that are still there."""
    there = [blocks["top"].ravel(), *([blocks["reference"].ravel()] if "reference" in blocks else [])]
    kept = {str(index) for index in np.unique(np.concatenate(there)).tolist()}
    tokens = {index: label for index, label in spec.head["tokens"].items() if index in kept}
    return lessened(spec, {**head, "tokens": tokens}, blocks, {}, words)
