"""What a beam search decided, read off the `beams` spec of one sequence: states, verdicts, the n-best list.

`widgets/src/beams/tree.ts` is the same in TypeScript; both are tested with the files in `tests/viz/fixtures/`.
Scores are natural-log probabilities, summed over steps; a slot with score None holds no hypothesis.

A node (a hypothesis after one step) is in one of these states:

- `alive`: it leads to a hypothesis that is still there at the end, or it is one;
- `ended`: it is complete after this step, and stays in the result;
- `carried`: it was complete before, and only keeps its place in the beam;
- `dropped`: it was complete, and lost its place later;
- `dead`: all that continued it was cut.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Node:
    """One hypothesis after one step. `gain`: natural-log probability of its last token alone (None without a parent score).
    `written`: whether the token is one; in a search over alignments a hypothesis may stay as it is."""

    step: int
    slot: int
    token: str
    score: float
    parent: Node | None
    gain: float
    state: str = "dead"
    rank: int = 0
    last: int = 0  # the last step that a continuation of it reached
    verdict: str = ""
    children: list[Node] = field(default_factory=list)
    written: bool = True

    def path(self) -> list[Node]:
        """The nodes from the first step to this one, without those that only keep their place."""
        node: Node | None = self
        nodes: list[Node] = []
        while node is not None:
            if node.state != "carried":
                nodes.append(node)
            node = node.parent
        return nodes[::-1]


@dataclass
class Cut:
    """One candidate that did not survive its step."""

    step: int
    token: str
    score: float
    parent: Node | None
    gain: float
    rank: int
    verdict: str


@dataclass
class Tree:
    """The hypotheses of one search, as the view draws them."""

    nodes: list[list[Node | None]]  # by step and slot
    cuts: list[list[Cut]]  # by step, best first
    best: list[tuple[int, int]]  # path of the winner: (step, slot)
    nbest: list[Node]  # complete hypotheses and those still open at the end, best first


def grow(seq: dict[str, Any], *, length_exponent: float = 0.0) -> Tree:
    """The tree of one sequence of a `beams` spec (checked by `problem` before)."""
    nodes = _link(seq["steps"], seq.get("blank"))
    cuts = _cuts(seq["steps"], nodes)
    _states(nodes, seq["steps"], carries=_carries(seq["steps"], nodes))
    for step, row in enumerate(nodes):
        _rank(row, last_step=step == len(nodes) - 1)
    best = [(int(step), int(slot)) for step, slot in seq.get("best") or []]
    return Tree(nodes, cuts, best, _nbest(nodes, length_exponent))


def rating(node: Node, length_exponent: float) -> float:
    """What the n-best list is sorted by: score / length ** exponent (Wu et al. 2016, section 7, without its constants)."""
    return node.score / max(sum(one.written for one in node.path()), 1) ** length_exponent


def _link(steps: list[dict[str, Any]], blank: str | None) -> list[list[Node | None]]:
    rows: list[list[Node | None]] = []
    for index, step in enumerate(steps):
        row: list[Node | None] = []
        for slot, (token, parent_slot, score) in enumerate(zip(step["tokens"], step["parents"], step["scores"])):
            parent = rows[-1][parent_slot] if rows else None
            if score is None or (rows and parent is None):
                row.append(None)
                continue
            gain = score - (parent.score if parent else 0.0)
            node = Node(index, slot, token, score, parent, gain, written=blank is None or token != blank)
            if parent:
                parent.children.append(node)
            row.append(node)
        rows.append(row)
    return rows


def _carries(steps: list[dict[str, Any]], nodes: list[list[Node | None]]) -> bool:
    """Whether complete hypotheses keep their place in the beam (else they leave it for a pool)."""
    for index in range(1, len(steps)):
        ended = steps[index - 1]["ended"]
        kept = [node.parent.slot for node in nodes[index] if node and node.parent]
        cut = [cut["parent"] for cut in steps[index].get("cuts", [])]
        if any(ended[slot] for slot in kept + cut):
            return True
    return False


def _states(nodes: list[list[Node | None]], steps: list[dict[str, Any]], *, carries: bool) -> None:
    end = len(nodes) - 1
    for row in nodes:
        for node in row:
            if node and node.parent and steps[node.step - 1]["ended"][node.parent.slot]:
                node.state = "carried"
    for index in range(end, -1, -1):
        for node in nodes[index]:
            if node is None:
                continue
            node.last = max([node.step, *(child.last for child in node.children)])
            if node.state == "carried":
                continue
            if steps[index]["ended"][node.slot]:
                node.state = "ended" if not carries or node.last == end else "dropped"
            elif index == end or any(child.state in ("alive", "ended") for child in node.children):
                node.state = "alive"
            else:
                node.state = "dead"


def _rank(row: list[Node | None], *, last_step: bool) -> None:
    present = sorted((node for node in row if node), key=lambda node: (-node.score, node.slot))
    for rank, node in enumerate(present, 1):
        node.rank = rank
        behind = present[0].score - node.score
        place = f"rank {rank} of {len(present)}, " + ("the best" if rank == 1 else f"{behind:.2f} nats behind the best")
        node.verdict = _verdict(node, place)


def _verdict(node: Node, place: str) -> str:
    if node.state == "carried":
        first = node
        while first.parent and first.state == "carried":
            first = first.parent
        return f"complete since step {first.step}: {place}"
    if node.state == "ended":
        return f"complete: {place}"
    if node.state == "dropped":
        return f"complete, then cut after step {node.last}: {place}"
    if node.state == "dead":
        return f"kept: {place}; " + (
            "nothing that continues it survived"
            if node.last == node.step
            else f"the last that continued it was cut after step {node.last}"
        )
    return f"kept: {place}"


def _cuts(steps: list[dict[str, Any]], nodes: list[list[Node | None]]) -> list[list[Cut]]:
    out = []
    for index, step in enumerate(steps):
        kept = [node.score for node in nodes[index] if node]
        row = []
        for place, cut in enumerate(step.get("cuts", []), len(kept) + 1):
            parent = nodes[index - 1][cut["parent"]] if index else None
            if cut["score"] is None or (index and parent is None):
                continue
            gain = cut["score"] - (parent.score if parent else 0.0)
            row.append(
                Cut(
                    index,
                    cut["token"],
                    cut["score"],
                    parent,
                    gain,
                    place,
                    cut_verdict(cut["score"], place, kept, cut.get("why")),
                )  # fmt: skip
            )
        out.append(row)
    return out


def cut_verdict(score: float, rank: int, kept: list[float], why: str | None = None) -> str:
    """Why a candidate did not go on, e.g. "cut: rank 6, 0.83 nats behind the last survivor"; `why`: if not by its rank."""
    if why == "merged":
        return "merged: part of another hypothesis with the same labels"
    if why == "blocked":
        return "blocked: forbidden, whatever its score"
    if not kept:
        return f"cut: rank {rank}, with no survivor"
    margin = min(kept) - score
    if why is not None:
        return f"{why}: {margin:.2f} nats behind the last survivor"
    if margin >= 0:
        return f"cut: rank {rank}, {margin:.2f} nats behind the last survivor"
    return f"cut: rank {rank}, although {-margin:.2f} nats ahead of the last survivor"


def _nbest(nodes: list[list[Node | None]], length_exponent: float) -> list[Node]:
    flat = [node for row in nodes for node in row if node]
    ended = [node for node in flat if node.state == "ended"]
    open_ = [node for node in (nodes[-1] if nodes else []) if node and node.state == "alive"]
    return sorted(ended + open_, key=lambda node: (-rating(node, length_exponent), node.step, node.slot))


def problem(head: Any) -> str | None:
    """What is wrong with the head of a `beams` spec, as a sentence; None if it can be drawn."""
    seqs = head.get("seqs") if isinstance(head, dict) else None
    if not isinstance(seqs, list):
        return "This beam search cannot be drawn: it has no list of sequences."
    for index, seq in enumerate(seqs):
        steps = seq.get("steps") if isinstance(seq, dict) else None
        if not isinstance(steps, list):
            return f"This beam search cannot be drawn: sequence {index} has no list of steps."
        before = None
        for number, step in enumerate(steps):
            fault = _fault(step, before)
            if fault:
                return f"This beam search cannot be drawn: sequence {index}, step {number}: {fault}."
            before = len(step["tokens"])
    return None


def _fault(step: Any, before: int | None) -> str | None:
    fields = ("tokens", "parents", "scores", "ended")
    if not isinstance(step, dict) or not all(isinstance(step.get(name), list) for name in fields):
        return "tokens, parents, scores and ended must be lists"
    sizes = [len(step[name]) for name in fields]
    if len(set(sizes)) > 1:
        return "tokens, parents, scores and ended have " + ", ".join(map(str, sizes)) + " entries"
    parents = step["parents"] + [cut["parent"] for cut in step.get("cuts") or []]
    if before is not None:
        for parent in parents:
            if not (isinstance(parent, int) and 0 <= parent < before):
                return f"a parent is {parent}, but the step before has {before} hypotheses"
    return None
