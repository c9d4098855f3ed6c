"""The `branches` view as a drawing: the runs as lines over their steps, then the chosen pair: results one above the other,
searches in one picture, attention and states of A, B and A - B.
"""

from __future__ import annotations

from typing import Any

from rfnb.core.strict_json import JsonObject
from rfnb.viz.branches.sides import SAME
from rfnb.viz.branches.text import WORDS, Views, chosen, of_result, rest_of, views_of
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.labels import sentence
from rfnb.viz.drawing.shapes import Drawing, Lines, Marks, Rect, Text
from rfnb.viz.group.spec import pictured
from rfnb.viz.kinds import drawing_of, title_of
from rfnb.viz.rounding import minus
from rfnb.viz.spec import Spec
from rfnb.viz.visible_text import line

_ROW, _TOP, _LEFT, _MOST = 34.0, 24.0, 22.0, 40
_CELL, _LONGEST, _MOST_CELLS = 26.0, 10, 200
_SHAPES = {"done": "dot", "stopped": "square", "failed": "cross"}


def drawing(spec: Any, width: float) -> Drawing:
    """The whole view as one drawing."""
    head = spec.head
    made = Drawing(width, 0)
    title = labels.fitted(title_of(spec), width, 14, bold=True)
    made.add(Text(0, 10, title, 14, bold=True))
    made.height = 26
    _below(made, rail(head, width), 0)
    pair = chosen(head)
    if pair is None:
        return made
    for said in pair.get("said") or []:
        for text in _wrapped(minus(line(str(said))), width):
            made.add(Text(0, made.height + 8, text))
            made.height += labels.LINE + 2
    made.height += 6
    for result in pair.get("results") or []:
        _below(made, _result(result, width), 10)
    for said in rest_of(pair):
        made.add(Text(4, made.height + 4, said, color="muted"))
        made.height += labels.LINE + 8
    for views in views_of(spec, pair["of"]):
        labels.heading(made, views.title)
        made.height += 2
        both = views.a is None or views.b is None
        _below(made, drawing_of(views.both, width) if both else difference(views, width), 14)
    return made


def _below(made: Drawing, one: Drawing, gap: float) -> None:
    made.put(one, 0, made.height)
    made.alt = f"{made.alt} {one.alt}".strip()
    made.notes += one.notes
    made.height += one.height + gap


def _wrapped(text: str, width: float) -> list[str]:
    """A sentence in lines that fit."""
    lines, words = [], text.split(" ")
    now = ""
    for word in words:
        longer = f"{now} {word}" if now else word
        if now and fonts.width(longer, 11) > width:
            lines.append(now)
            now = "   " + word
        else:
            now = longer
    return [labels.fitted(each, width) for each in [*lines, now]][:6]


def rail(head: JsonObject, width: float) -> Drawing:
    """Each run as a line over its steps, from the step in which it branches off; a ring is a change, and the mark at the
    end shows how it ended.
    """
    branches = head["branches"][:_MOST]
    ticks = max(1, *(branch["ticks"] for branch in branches))
    room = max(80.0, min(360.0, width * 0.4))
    pair = head.get("pair") or [None, None]
    x = lambda tick: _LEFT + room * min(tick, ticks) / ticks  # noqa: E731
    y = lambda index: _TOP + (index + 0.5) * _ROW  # noqa: E731
    made = Drawing(width, _TOP + len(branches) * _ROW + 4)
    every = labels.stride(room / ticks, 26)
    made.add(Text(_LEFT + room + 14, 8, "steps of all loops", 10, "muted"))
    made.add(*(Text(x(tick), 8, str(tick), 10, "muted", "middle") for tick in range(0, ticks + 1, every)))
    words = []
    for index, branch in enumerate(branches):
        name, here = line(branch["name"]), y(index)
        start = branch["left"] or 0
        if branch["parent"] is not None:
            made.add(Lines("muted", 1.2, [[(x(start), y(branch["parent"])), (x(start), here)]]))
        is_chosen = index in pair
        made.add(
            Lines(
                "accent" if is_chosen else "muted",
                3.0 if is_chosen else 1.6,
                [[(x(start), here), (x(branch["ticks"]), here)]],
            )
        )
        marks = [(x(tick), here) for tick in branch["marks"]]
        if marks:
            made.add(Marks("paper", marks, 4.5), Marks("ink", marks, 4.5, "ring"))
        shape = _SHAPES.get(str(branch.get("state")), "ring")
        made.add(Marks("ink", [(x(branch["ticks"]), here)], 4.0, shape))
        if is_chosen:
            letter = "AB"[pair.index(index)]
            made.add(
                Rect(0, here - 8, 16, 16, "paper", "ink", 1.2, 3), Text(8, here, letter, 11, "ink", "middle", bold=True)
            )
        at, left = _LEFT + room + 14, width - _LEFT - room - 14
        said = minus("; ".join(map(str, branch["outcome"] or branch["changes"])))
        made.add(Text(at, here - 6, labels.fitted(name, left, 11, bold=True), bold=is_chosen))
        made.add(labels.within(at, here + 7, said, left, 10, "muted"))
        words.append(f"{labels.short(name, 60)}: {line(str(branch.get('story', '')))}")
    made.shows(len(branches), len(head["branches"]), "branches")
    made.alt = "; ".join(words) + "."
    return made


def _result(result: JsonObject, width: float) -> Drawing:
    """The labels of both, one above the other; differences are framed, with their edit."""
    cells = result["columns"][:_MOST_CELLS]
    made = Drawing(width, 18, alt=f"{line(str(result['label']))}: {of_result(result)}.")
    made.add(labels.within(0, 8, minus(f"{result['label']}: {of_result(result)}"), width, bold=True))
    at, top = _LEFT, 18.0
    for a, b, edit in cells:
        texts = [labels.short(text, _LONGEST) if edit != gap else "–" for text, gap in ((a, "i"), (b, "d"))]
        wide = max(_CELL, *(fonts.width(text, 11) + 12 for text in texts))
        if at + wide > width and at > _LEFT:
            at, top = _LEFT, top + 58
        if at == _LEFT:
            made.add(Text(4, top + 10, "A", bold=True), Text(4, top + 30, "B", bold=True))
        if edit != "=":
            made.add(Rect(at + 1, top, wide - 2, 40, None, "accent", 1.6, 3))
            made.add(Text(at + wide / 2, top + 47, WORDS.get(edit, "?")[:3], 9, "muted", "middle"))
        for text, y in zip(texts, (top + 10, top + 30)):
            made.add(Text(at + wide / 2, y, text, 11, "ink", "middle", bold=edit != "="))
        at += wide
        made.height = top + 54
    return made


def difference(views: Views, width: float) -> Drawing:
    """A, B and A - B: side by side if there is room, else one below the other. For states only A - B: each would fill a page."""
    if views.both.head.get("same"):
        return sentence(SAME, width)
    sides = [("A", views.a), ("B", views.b), ("A − B", pictured(views.both))]
    if views.both.kind == "states":
        sides = sides[2:]
    across = len(sides) if width >= 600 else 1
    room = (width - 16 * (across - 1)) / across
    made, top, right, tall = Drawing(width, 0), 0.0, 0.0, 0.0
    for index, (name, side) in enumerate(sides):
        if side is None:
            continue
        one = drawing_of(Spec(side.kind, {**side.head, "remark": None}, side.blocks, side.codes), room)
        if index % across == 0 and index:
            top, tall = top + tall + 10, 0.0
        left = (index % across) * (room + 16)
        made.add(Text(left, top + 8, name, 12, bold=True))
        made.put(one, left, top + 18)
        tall, right = max(tall, one.height + 18), max(right, left + one.width)
        made.alt += f"{name}: {one.alt} "
        made.notes += [f"{name}: {note}" for note in one.notes]
    made.height, made.width = top + tall, min(width, right)
    remark = views.both.head.get("remark")
    made.notes += [str(remark)] if remark else []
    return made
