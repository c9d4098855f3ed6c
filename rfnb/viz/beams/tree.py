"""The decisions of a beam search, derived from the `beams` spec of one sequence: states, verdicts, the n-best list.

They are stored in the spec too (`tell`), so that `widgets/src/beams/tree.ts` only links the nodes and words the verdicts.
Scores are natural-log probabilities, summed over steps; a slot with score None is empty.

A node (a hypothesis after one step) is in one of these states:

- `alive`: it leads to a hypothesis that survives to the end, or is one;
- `ended`: it is complete after this step, and is in the result;
- `carried`: it was already complete, and only occupies its slot;
- `dropped`: it was complete, and lost its slot later;
- `dead`: all its continuations were cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rfnb.core.strict_json import JsonObject
from rfnb.viz.beams.parts import columns
from rfnb.viz.visible_text import visible


@dataclass(slots=True)
class TreeNode:
    """One hypothesis after one step. `gain`: natural-log probability of its last token alone (None without a parent score).
    `written`: whether it added a label; in a search over alignments a hypothesis may not change. `parts`: the
    components of `gain`, as named in `Tree.parts`. `left`: whether it was complete and left the beam for the result."""

    step: int
    slot: int
    token: str
    score: float
    parent: TreeNode | None
    gain: float
    state: str = "dead"
    last: int = 0  # the last step that a continuation of it reached
    children: Sequence[TreeNode] = ()
    written: bool = True
    parts: Sequence[float] = ()
    left: bool = False
    length: int = 0  # the number of labels along its path
    labels: int = 0  # an id of the labels along its path, equal for equal labels

    def path(self) -> list[TreeNode]:
        """The nodes from the first step to this one, without those that only occupy a slot."""
        node: TreeNode | None = self
        nodes: list[TreeNode] = []
        while node is not None:
            if node.state != "carried":
                nodes.append(node)
            node = node.parent
        return nodes[::-1]


@dataclass(slots=True)
class Cut:
    """One candidate that did not survive its step."""

    step: int
    token: str
    score: float
    parent: TreeNode | None
    gain: float
    rank: int
    verdict: str
    why: str | None = None  # the reason, if not its rank
    parts: Sequence[float] = ()
    arm: str = ""  # if both arms share parents: the letter of its arm
    margin: float | None = None  # distance to the last survivor, below 0 if behind; None if not meaningful
    number: int = 0  # index in the list of the spec
    into: int | None = None  # the slot of the hypothesis that it was merged into


Rows = list[list[TreeNode | None]]  # by step and slot


@dataclass
class BeamTree:
    """The hypotheses of one search, as the view draws them."""

    nodes: Rows
    cuts: list[list[Cut]]  # by step, best first
    best: list[tuple[int, int]]  # path of the winner: (step, slot)
    nbest: list[TreeNode]  # complete hypotheses and those still open at the end, best first
    parts: list[str]  # names of the score components, if there is more than one log probability
    width: int  # maximal number of hypotheses in the beam, without those that left it
    arms: Arms | None = None  # for two searches in one

    @property
    def won(self) -> set[tuple[int, int]]:
        """The slots on a winner's path; for two arms, those of both."""
        return {*self.best, *(self.arms.best if self.arms else ())}

    @property
    def ends(self) -> list[tuple[int, int]]:
        """The (step, slot) at which the winners end."""
        return [path[-1] for path in (self.best, self.arms.best if self.arms else []) if path]

    def rivals(self, node: TreeNode) -> list[TreeNode]:
        """The hypotheses of its search in its step, including itself."""
        arms = self.arms
        row = [other for other in self.nodes[node.step] if other]
        return row if arms is None else [other for other in row if arms.arm_of(other) == arms.arm_of(node)]


@dataclass(frozen=True)
class Arms:
    """Two searches in one (`rfnb/viz/branches/sides.py`): from step `at` on slots below `split` are A, the others B."""

    at: int
    split: int
    names: tuple[str, str]
    last: tuple[int, int]  # the last step of each arm
    best: list[tuple[int, int]]  # the winner's path of B; that of A is in the tree

    @staticmethod
    def of(seq: JsonObject) -> Arms | None:
        """The arms of a sequence, or None."""
        told = seq.get("arms")
        if not told:
            return None
        best = [(int(step), int(slot)) for step, slot in told["best"]]
        return Arms(told["at"], told["split"], tuple(told["names"]), tuple(told["ends"]), best)

    def arm_of(self, node: TreeNode) -> int | None:
        """The index of a node's arm; None if it is in both."""
        return None if node.step < self.at else int(node.slot >= self.split)

    def tag(self, node: TreeNode) -> str:
        """The letter of a node's arm; "" if it is in both."""
        arm = self.arm_of(node)
        return "" if arm is None else "AB"[arm]

    def is_last(self, node: TreeNode) -> bool:
        """Whether the search of this node ends with its step."""
        arm = self.arm_of(node)
        return node.step in self.last if arm is None else node.step == self.last[arm]


def grow(seq: JsonObject, *, length_exponent: float = 0.0, threshold: float | None = None) -> BeamTree:
    """The tree of one sequence of a `beams` spec (checked by `problem` before)."""
    nodes, arms = _link(seq["steps"], seq.get("blank")), Arms.of(seq)
    if arms:
        _told_states(nodes, seq["steps"])
    else:
        _states(nodes, seq["steps"], carries=_carries(seq["steps"], nodes))
    cuts = _cuts(seq["steps"], nodes, seq.get("blank"), threshold, told=arms is not None)
    best = [(int(step), int(slot)) for step, slot in seq.get("best") or []]
    width = max((sum(not (node and node.left) for node in row) for row in nodes), default=0)
    return BeamTree(nodes, cuts, best, _nbest(nodes, length_exponent, arms), columns(seq), width, arms)


def tell(seq: JsonObject, tree: BeamTree) -> JsonObject:
    """The sequence of a spec with the verdicts of its tree on each hypothesis and candidate."""
    steps = []
    for step, row, cuts in zip(seq["steps"], tree.nodes, tree.cuts, strict=True):
        told = list(step.get("cuts", []))
        for cut in cuts:
            margin = {} if cut.margin is None else {"margin": round(cut.margin, 5)}
            into = {} if cut.into is None else {"into": cut.into}
            told[cut.number] = {**told[cut.number], **margin, **into, "verdict": cut.verdict}
        tokens = [node.token if node else token for node, token in zip(row, step["tokens"], strict=True)]
        states = [node and node.state for node in row]
        steps.append({**step, "tokens": tokens, "states": states, "cuts": told})
    return {**seq, "steps": steps}


def rating(node: TreeNode, length_exponent: float) -> float:
    """The sort key of the n-best list: score / length ** exponent (Wu et al. 2016, section 7, without its constants)."""
    try:
        return float(node.score / float(max(node.length, 1)) ** float(length_exponent))
    except OverflowError:
        return -0.0
    except ZeroDivisionError:
        return -math.inf


def parts_along(path: list[TreeNode]) -> list[float]:
    """The sum of each part over a path."""
    return [sum(column) for column in zip(*(node.parts for node in path))]


def _link(steps: list[JsonObject], blank: str | None) -> Rows:
    rows: Rows = []
    for index, step in enumerate(steps):
        row: list[TreeNode | None] = []
        parts, left = step.get("parts"), step.get("left")
        for slot, (token, parent_slot, score) in enumerate(zip(step["tokens"], step["parents"], step["scores"])):
            parent = rows[-1][parent_slot] if rows else None
            if score is None or (rows and parent is None):
                row.append(None)
                continue
            gain = score - (parent.score if parent else 0.0)
            node = TreeNode(index, slot, token, score, parent, gain, written=blank is None or token != blank)
            if parts:
                node.parts = [values[slot] for values in parts]
            node.left = bool(left and left[slot])
            if parent:  # most have none or one
                parent.children = (*parent.children, node)
            row.append(node)
        rows.append(row)
    return rows


def _carries(steps: list[JsonObject], nodes: Rows) -> bool:
    """Whether complete hypotheses keep their slot in the beam (else they move to a pool)."""
    for index in range(1, len(steps)):
        ended = steps[index - 1]["ended"]
        kept = [node.parent.slot for node in nodes[index] if node and node.parent]
        cut = [cut["parent"] for cut in steps[index].get("cuts", [])]
        if any(ended[slot] for slot in kept + cut):
            return True
    return False


def _states(nodes: Rows, steps: list[JsonObject], *, carries: bool) -> None:
    end = len(nodes) - 1
    for row in nodes:
        for node in row:
            if node and node.parent and steps[node.step - 1]["ended"][node.parent.slot]:
                node.state, node.token = "carried", node.parent.token  # any of several end labels
    for index in range(end, -1, -1):
        for node in nodes[index]:
            if node is None:
                continue
            node.last = max((child.last for child in node.children), default=node.step) if node.children else node.step
            if node.state == "carried":
                continue
            if steps[index]["ended"][node.slot]:
                node.state = "ended" if not carries or node.last == end else "dropped"
            elif index == end or any(child.state in ("alive", "ended") for child in node.children):
                node.state = "alive"
            else:
                node.state = "dead"


def _told_states(nodes: Rows, steps: list[JsonObject]) -> None:
    """The states stored in the spec, for two searches in one."""
    for row, step in zip(reversed(nodes), reversed(steps)):
        for node in row:
            if node:
                node.last = max((child.last for child in node.children), default=node.step)
                node.state = step["states"][node.slot] or node.state


def rank_of(tree: BeamTree, node: TreeNode) -> int:
    """The rank of a hypothesis in its step by score, from 1."""
    present = sorted(tree.rivals(node), key=lambda other: (-other.score, other.slot))
    return next(rank for rank, other in enumerate(present, 1) if other is node)


def verdict_of(tree: BeamTree, node: TreeNode) -> str:
    """The fate of a hypothesis as text, worded as in the page (`widgets/src/beams/verdict.ts`)."""
    present = tree.rivals(node)
    rank, behind = rank_of(tree, node), max(other.score for other in present) - node.score
    place = f"rank {rank} of {len(present)}, " + ("the best" if rank == 1 else f"{behind:.2f} nats behind the best")
    following = tree.cuts[node.step + 1] if node.step + 1 < len(tree.cuts) else []
    cut = next((cut for cut in following if cut.parent is node), None)  # its best cut continuation
    if node.state == "carried":
        first = node
        while first.parent and first.state == "carried":
            first = first.parent
        return f"complete since step {first.step}: {place}"
    if node.state == "ended":
        return f"complete, and left the beam: {place}" if node.left else f"complete: {place}"
    if node.state == "dropped":
        return f"complete, then cut after step {node.last}: {place}"
    if node.state == "dead":
        return f"kept: {place}; " + (
            "nothing that continues it survived" + (f", at best {visible(cut.token)} ({cut.verdict})" if cut else "")
            if node.last == node.step
            else f"the last that continued it was cut after step {node.last}"
        )
    return f"kept: {place}"


def _cuts(
    steps: list[JsonObject],
    nodes: Rows,
    blank: str | None,
    threshold: float | None,
    *,
    told: bool,
) -> list[list[Cut]]:
    """The cut candidates.

    Args:
        told: Whether to use the verdicts in the spec: for two searches in one, a rank is not that in the step.
    """
    out, numbers = [], _number_labels(nodes)
    for index, step in enumerate(steps):
        ends = step.get("ends") or [0.0] * len(nodes[index])
        kept = [
            node.score - (ends[node.slot] or 0.0) for node in nodes[index] if node
        ]  # the scores as they were ranked
        row, rank, by_rank = [], len(kept), step.get("by_rank", True)
        for number, cut in enumerate(step.get("cuts", [])):
            parent, why = nodes[index - 1][cut["parent"]] if index else None, cut.get("why")
            if why not in ("blocked", "merged"):  # these were not ranked
                rank += 1
            if cut["score"] is None or (index and parent is None):
                continue
            before = parent.labels if parent else 0
            labels = before if cut["token"] == blank else numbers.get((before, cut["token"]))
            into = _same_labels(nodes[index], labels) if why == "merged" else None
            verdict = cut.get("verdict") if told else None
            verdict = verdict or cut_verdict(
                cut["score"], rank, kept, why, into=into, threshold=threshold, by_rank=by_rank, by=cut.get("by")
            )
            gain = cut["score"] - (parent.score if parent else 0.0)
            margin = cut["score"] - min(kept) if kept and why in (None, "blocked") else None
            margin, into = (cut.get("margin"), cut.get("into")) if told else (margin, into)
            parts = cut.get("parts", [])
            row.append(
                Cut(
                    index, cut["token"], cut["score"], parent, gain, rank, verdict, why, parts, cut.get("arm", ""),
                    margin, number, into,
                )
            )  # fmt: skip
        out.append(row)
    return out


def _number_labels(nodes: Rows) -> dict[tuple[int, str], int]:
    """Set the path length of each node and the id of its labels, determined by the id of its parent and the next label."""
    numbers: dict[tuple[int, str], int] = {}
    for row in nodes:
        for node in row:
            if node:
                before = node.parent.labels if node.parent else 0
                goes_on = node.written and node.state != "carried"
                node.length = (node.parent.length if node.parent else 0) + goes_on
                node.labels = numbers.setdefault((before, node.token), len(numbers) + 1) if goes_on else before
    return numbers


def _same_labels(row: list[TreeNode | None], labels: int | None) -> int | None:
    """The slot of the hypothesis that a candidate was merged into; None if that was not kept."""
    return next((node.slot for node in row if node and node.labels == labels), None)


def cut_verdict(
    score: float,
    rank: int,
    kept: list[float],
    why: str | None = None,
    *,
    into: int | None = None,
    threshold: float | None = None,
    by_rank: bool = True,
    by: str | None = None,
) -> str:
    """The reason why a candidate did not survive, and by how much, e.g. "cut: rank 6, 0.83 nats behind the last survivor".

    Args:
        kept: The scores of the survivors, as ranked.
        why: The reason, if not its rank.
        into: The slot of the hypothesis that it was merged into.
        threshold: The threshold of the search.
        by_rank: Whether the best were kept; False for sampling.
        by: The constraint that forbade it, if known.
    """
    if why == "merged":
        return "merged: part of " + ("another hypothesis" if into is None else f"slot {into}") + " with the same labels"
    if not kept:
        return f"{why}: no survivor" if why else f"cut: rank {rank}, with no survivor"
    margin = min(kept) - score
    behind = (
        f"{nats(margin)} behind the last survivor" if margin >= 0 else f"{nats(-margin)} ahead of the last survivor"
    )
    if why == "blocked":
        return f"blocked: forbidden{f' by {by}' if by else ''}, " + ("and " if margin >= 0 else "although ") + behind
    if why == "below the threshold" and threshold is not None:
        return f"below the threshold: {nats(max(kept) - score)} behind the best, where {threshold:g} are allowed"
    if why is not None:
        return f"{why}: {behind}"
    if not by_rank:
        return f"not chosen, {behind}: this choice did not keep the best"
    return f"cut: rank {rank}, " + behind if margin >= 0 else f"cut: rank {rank}, although " + behind


def nats(value: float) -> str:
    """A difference of scores with enough digits to be nonzero."""
    return f"{value:.5f} nats" if 0 < value < 0.005 else f"{value:.2f} nats"


def _nbest(nodes: Rows, length_exponent: float, arms: Arms | None) -> list[TreeNode]:
    flat = [node for row in nodes for node in row if node]
    ended = [node for node in flat if node.state == "ended"]
    last = [node for node in flat if arms.is_last(node)] if arms else nodes[-1] if nodes else []
    open_ = [node for node in last if node and node.state == "alive"]
    return sorted(ended + open_, key=lambda node: (-rating(node, length_exponent), node.step, node.slot))


def grown(head: Any, seq: Any) -> BeamTree:
    """The tree of a sequence of a spec, with the options in its head."""
    return grow(seq, length_exponent=head.get("length_exponent") or 0.0, threshold=head.get("threshold"))
