"""The `branches` view as text: the tree, then the chosen pair: notes, results with their edits, the views of both.

`chosen` and `views_of` select them, also for the picture and the page.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from rfnb.core.strict_json import JsonObject
from rfnb.trace.compare_text import blocks
from rfnb.viz.group.spec import parts_of
from rfnb.viz.kinds import text_of, title_of
from rfnb.viz.spec import Spec
from rfnb.viz.terminal import shortened
from rfnb.viz.visible_text import line

_MOST_BRANCHES, _LONGEST = 40, 200


def text(spec: Any) -> str:
    """The whole view."""
    head = spec.head
    lines = [line(title_of(spec)), *_tree(head["branches"][:_MOST_BRANCHES])]
    more = len(head["branches"]) - _MOST_BRANCHES
    lines += [f"and {more} more"] if more > 0 else []
    pair = chosen(head)
    if pair is None:
        return "\n".join(lines)
    lines += ["", *(line(str(said)) for said in pair.get("said") or [])]
    for result in pair.get("results") or []:
        lines += ["", f"{line(str(result['label']))}: {of_result(result)}"]
        lines += blocks([[shortened(line(str(text)), 24) for text in cell] for cell in result["columns"]])
    lines += rest_of(pair)
    return "\n\n".join(["\n".join(lines), *(text_of(views.both) for views in views_of(spec, pair["of"]))])


def of_result(result: Any) -> str:
    """The number of edits in a result, and both scores."""
    found = result.get("counts") or {}
    counts = [f"{found[letter]} {word}" for letter, word in WORDS.items() if letter in found]
    alone = f"only in {result['only']}" if result.get("only") else "not aligned"
    said = ["the same"] if result.get("same") else counts or [alone]
    scores = [f"score {side} {score:.3f}" for side, score in zip("AB", result.get("scores") or []) if score is not None]
    more = result.get("more") or 0
    return ", ".join([*said, *scores, *([f"{more} more columns"] if more and result["columns"] else [])])


def rest_of(pair: Any) -> list[str]:
    """A sentence with the number of omitted results; empty if all are shown."""
    return [f"and {pair['rest']} more sequences"] if pair.get("rest") else []


WORDS = {"s": "substituted", "i": "inserted", "d": "deleted"}


def _tree(branches: list[JsonObject]) -> list[str]:
    lines = []
    for branch in branches:
        indent = "   " * min(branch["depth"], 12)
        lines.append(
            f"{indent}{'└─ ' if branch['depth'] else ''}{line(branch['name'])}: {line(str(branch.get('story', '')))}"
        )
        said = [*branch["changes"], *branch["outcome"]]
        lines += [f"{indent}      {shortened(line(str(words)), _LONGEST)}" for words in said]
    return lines


class Views(NamedTuple):
    """Matching views of both runs.

    Attributes:
        both: Both searches in one, or A - B.
        a, b: Each side; None if `both` contains them.
    """

    both: Spec
    a: Spec | None
    b: Spec | None

    @property
    def title(self) -> str:
        """The title of the side, or of both sides."""
        return str((self.a or self.both).head.get("title") or self.both.kind)


def views_of(spec: Any, pair: Any) -> list[Views]:
    """The views of a pair, in order."""
    parts = parts_of(spec)
    sides = {(part.head.get("side"), part.head.get("key")): part for part in parts if "side" in part.head}
    a, b = pair
    return [
        Views(part, sides.get((a, part.head.get("key"))), sides.get((b, part.head.get("key"))))
        for part in parts
        if part.head.get("pair") == list(pair)
    ]


def chosen(head: Any) -> JsonObject | None:
    """The pair that is shown first, or None."""
    found = [pair for pair in head["pairs"] if pair["of"] == head.get("pair")]
    return found[0] if found else None
