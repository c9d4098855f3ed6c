"""Analysis of a search from its history: its candidates and hypotheses.

history.verdicts(seq=0, step=3)                # each candidate: kept, cut by rank with its margin, blocked, ...
history.fate(seq=0, k=1, step=3).kind          # what became of it
history.smaller(seq=0, beam_size=2).best       # "with a beam of 2 you would have got ...", see smaller_beam.py
history.diagnose(seq=0, reference=[5, 2, 0])   # search error or model error, at which step, by how much, see beam_diagnosis.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.trace.beam_fields import CandidateFate

if TYPE_CHECKING:
    from rfnb.trace.beams import BeamHistory


@dataclass(frozen=True)
class Verdict:
    """A candidate of a step.

    Attributes:
        token, label, parent, score: The candidate; parent is a slot of the previous step.
        rank: Its rank among the stored candidates by score, from 0.
        margin: Its score minus that of the worst kept hypothesis: below 0 if it was cut by rank.
        verdict: "kept", "ended" (kept, and complete now), "cut by rank", "below the threshold", "blocked" or "merged".
    """

    token: int
    label: str
    parent: int
    score: float
    rank: int
    margin: float
    verdict: str


@dataclass(frozen=True)
class Fate:
    """The fate of a hypothesis after a step.

    Attributes:
        kind: "continued", "cut" (none of its continuations was kept), "ended and cut" (complete, and then fell out), "ended and left"
            (complete, and so it left the beam), or "last step".
        children: Slots of the next step that continue it.
        margin: If cut: the margin of its best stored continuation, see Verdict; None if none is stored.
    """

    kind: str
    children: tuple[int, ...]
    margin: float | None = None


def verdicts(history: BeamHistory, seq: int, step: int) -> list[Verdict]:
    """See `BeamHistory.verdicts`."""
    fields = history.steps[step]
    if "cand_tokens" not in fields:
        scores = fields["scores"]
        named = {"cand_tokens": fields["tokens"], "cand_parents": fields["parents"]}
        fields = {**fields, **named, "cand_scores": scores, "cand_kept": scores > -np.inf}
    scores = fields["cand_scores"][seq]
    order = np.lexsort((fields["cand_tokens"][seq], fields["cand_parents"][seq], -scores))  # ties as in the search
    ranks = np.empty(len(order), int)
    ranks[order] = np.arange(len(order))
    worst = _worst_kept(fields, seq)
    out = []
    for index, score in enumerate(scores):
        if score == -np.inf:
            continue
        token, parent = int(fields["cand_tokens"][seq, index]), int(fields["cand_parents"][seq, index])
        verdict, margin = _verdict(history, fields, seq, index, step), float(score) - worst
        out.append(Verdict(token, history.label(token, step), parent, float(score), int(ranks[index]), margin, verdict))
    return out


def _verdict(history: BeamHistory, fields: dict[str, Any], seq: int, index: int, step: int) -> str:
    if not fields["cand_kept"][seq, index]:
        code = int(fields["cand_verdict"][seq, index]) if "cand_verdict" in fields else CandidateFate.CUT
        return CandidateFate(code or CandidateFate.CUT).text
    slot = slot_of(fields, seq, int(fields["cand_tokens"][seq, index]), int(fields["cand_parents"][seq, index]))
    before = step > 0 and bool(history.steps[step - 1]["ended"][seq, fields["cand_parents"][seq, index]])
    return "ended" if slot is not None and fields["ended"][seq, slot] and not before else "kept"


def _worst_kept(fields: dict[str, Any], seq: int) -> float:
    scores = fields["scores"][seq]
    real = scores[scores > -np.inf]
    return float(real.min()) if real.size else -np.inf


def slot_of(fields: dict[str, Any], seq: int, token: int, parent: int | None) -> int | None:
    """The slot of a kept hypothesis by its token and parent (None: any)."""
    same = (fields["tokens"][seq] == token) & (fields["scores"][seq] > -np.inf)
    if parent is not None:
        same &= fields["parents"][seq] == parent
    found = np.flatnonzero(same)
    return int(found[0]) if found.size else None


def fate(history: BeamHistory, seq: int, k: int, step: int) -> Fate:
    """See `BeamHistory.fate`."""
    history.path(seq, k, step)  # checks
    if k in history.left(seq, step):
        return Fate("ended and left", ())
    if step + 1 >= history.num_steps:
        return Fate("last step", ())
    fields = history.steps[step + 1]
    here = (fields["parents"][seq] == k) & (fields["scores"][seq] > -np.inf)
    children = tuple(np.flatnonzero(here).tolist())
    if children:
        return Fate("continued", children)
    margins = [item.margin for item in verdicts(history, seq, step + 1) if item.parent == k]
    kind = "ended and cut" if history.steps[step]["ended"][seq, k] else "cut"
    return Fate(kind, (), max(margins, default=None))
