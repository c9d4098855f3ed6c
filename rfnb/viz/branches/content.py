"""The `branches` view as a page: the tree as a picture and as text, results as tables, the views of the chosen pair."""

from __future__ import annotations

from typing import Any

from rfnb.core.strict_json import JsonObject
from rfnb.viz.branches.drawing import difference, rail
from rfnb.viz.branches.text import WORDS, chosen, of_result, rest_of, views_of
from rfnb.viz.drawing.img import img, smaller
from rfnb.viz.kinds import WIDE, html_of, title_of
from rfnb.viz.markup import Bold, items, picture, sentences, table, title
from rfnb.viz.visible_text import line, visible

_MOST = 80_000  # bytes of all pictures
_MOST_BRANCHES, _LONGEST = 60, 80


_NUMBERS = ("depth", "ticks")


def problem(spec: Any) -> str | None:
    """The problem as a sentence; None if it can be drawn. `widgets/src/branches/check.ts` does the same."""
    head = spec.head
    branches = head.get("branches")
    if not isinstance(branches, list) or not branches:
        return "These branches cannot be drawn: there is no list of them."
    for index, branch in enumerate(branches):
        fault = _branch(branch, index)
        if fault:
            return f"These branches cannot be drawn: branch {index} {fault}."
    pairs, parts = head.get("pairs"), head.get("parts")
    if not isinstance(pairs, list) or not isinstance(parts, list):
        return "These branches cannot be drawn: there is no list of pairs and parts."
    known = [pair.get("of") if isinstance(pair, dict) else None for pair in pairs]
    chosen = head.get("pair")
    for of in [*known, *([chosen] if chosen is not None else [])]:
        if (
            not isinstance(of, list)
            or len(of) != 2
            or not all(isinstance(n, int) and 0 <= n < len(branches) for n in of)
        ):
            return "These branches cannot be drawn: a pair does not consist of two of them."
    return None


def _branch(branch: Any, index: int) -> str | None:
    if not isinstance(branch, dict) or not isinstance(branch.get("name"), str):
        return "has no name"
    if not all(isinstance(branch.get(name), int) and branch[name] >= 0 for name in _NUMBERS):
        return "has no number of steps"
    parent, left = branch.get("parent"), branch.get("left")
    if parent is not None and not (isinstance(parent, int) and 0 <= parent < index):
        return "leaves one that is not above it"
    if left is not None and not (isinstance(left, int) and left >= 0):
        return "leaves at no step"
    lists = ("marks", "changes", "outcome")
    return None if all(isinstance(branch.get(name), list) for name in lists) else "has no list of changes"


def page(spec: Any) -> list[str]:
    """The whole page."""
    head, pair = spec.head, chosen(spec.head)
    found = [title(line(title_of(spec))), img(rail(head, WIDE)), _list(head["branches"])]
    if pair is None:
        return found
    found.append(items(line(str(said)) for said in pair.get("said") or []))
    found += [part for result in pair.get("results") or [] for part in _result(result)]
    found += sentences(rest_of(pair))
    views = views_of(spec, pair["of"])
    pictures = [_view(each) for each in views]
    if sum(map(len, pictures)) > _MOST:
        with smaller(_MOST // 8):
            pictures = [_view(each) for each in views]
    return found + pictures


def _view(views: Any) -> str:
    if views.a is None or views.b is None:
        return html_of(views.both)
    return "\n".join([title(line(views.title)), *picture(difference(views, WIDE))])


def _list(branches: list[JsonObject]) -> str:
    rows = [
        [
            "\u00a0" * 3 * min(branch["depth"], 12) + line(branch["name"]),
            line(str(branch.get("story", ""))),
            *("\n".join(line(str(words)) for words in branch[name]) for name in ("changes", "outcome")),
        ]
        for branch in branches[:_MOST_BRANCHES]
    ]
    made = table(rows, ["branch", "path", "edits", "result"])
    more = len(branches) - len(rows)
    return "\n".join([made, *sentences([f"and {more} more"] if more > 0 else [])])


def _result(result: JsonObject) -> list[str]:
    said = sentences([f"{line(str(result['label']))}: {of_result(result)}"])
    rows: list[list[str]] = [[name] for name in ("A", "B", "edit")]
    for a, b, edit in result["columns"]:
        texts = [visible(str(text)[:_LONGEST]) if edit != gap else "–" for text, gap in ((a, "i"), (b, "d"))]
        for row, text in zip(rows, [*texts, "" if edit == "=" else WORDS.get(edit, "?")[:3]]):
            row.append(text if edit == "=" else Bold(text))
    return [*said, table(rows, named=True)] if result["columns"] else said
