"""The `branches` view as HTML that needs nothing: the tree as a picture and in words, results as tables, the views of the chosen pair."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.branches.check import problem
from rfnb.viz.branches.drawing import difference, rail
from rfnb.viz.branches.parts import chosen, views_of
from rfnb.viz.branches.text import of_result
from rfnb.viz.drawing.img import img, smaller
from rfnb.viz.kinds import WIDE, html_of
from rfnb.viz.visible import line, visible

_MOST = 80_000  # bytes of all pictures
_MOST_BRANCHES, _LONGEST = 60, 80


def html(spec: Any) -> str:
    """All of it."""
    head = spec.head
    fault = problem(head)
    if fault:
        return f"<p>{escape(fault)}</p>"
    found = [
        f"<p><b>{escape(line(str(head.get('title') or 'Branches')))}</b></p>",
        img(rail(head, WIDE)),
        _list(head["branches"]),
    ]
    pair = chosen(head)
    if pair is None:
        return "\n".join(found)
    found.append("<ul>" + "".join(f"<li>{escape(line(str(said)))}</li>" for said in pair.get("said") or []) + "</ul>")
    found += [_result(result) for result in pair.get("results") or []]
    views = views_of(spec, pair["of"])
    pictures = [_view(each) for each in views]
    if sum(map(len, pictures)) > _MOST:
        with smaller(_MOST // 8):
            pictures = [_view(each) for each in views]
    return "\n".join(found + pictures)


def _view(views: Any) -> str:
    if views.a is None or views.b is None:
        return html_of(views.both)
    made = difference(views, WIDE)
    notes = "".join(f"<p>{escape(note)}</p>" for note in made.notes)
    return f"<p><b>{escape(line(views.title))}</b></p>\n{img(made)}\n{notes}"


def _list(branches: list[dict[str, Any]]) -> str:
    rows = []
    for branch in branches[:_MOST_BRANCHES]:
        cells = [
            "&nbsp;" * 3 * min(branch["depth"], 12) + escape(line(branch["name"])),
            escape(line(str(branch.get("story", "")))),
            "<br>".join(escape(line(str(words))) for words in branch["changes"]),
            "<br>".join(escape(line(str(words))) for words in branch["outcome"]),
        ]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    heads = "".join(f"<th>{name}</th>" for name in ("branch", "its way", "what was changed", "what it came to"))
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _result(result: dict[str, Any]) -> str:
    said = f"<p>{escape(line(str(result['label'])))}: {escape(of_result(result))}</p>"
    if not result["columns"]:
        return said
    rows = []
    for side, name in enumerate(("A", "B", "edit")):
        cells = []
        for cell in result["columns"]:
            text = escape(visible(str(cell[side])[:_LONGEST]))
            if name == "edit":
                text = {"=": "", "s": "S", "i": "I", "d": "D"}.get(cell[2], "?")
            elif cell[2] == ("i", "d")[side]:
                text = "–"
            cells.append(f"<td>{f'<b>{text}</b>' if cell[2] != '=' else text}</td>")
        rows.append(f"<tr><th>{name}</th>{''.join(cells)}</tr>")
    return f"{said}\n<table><tbody>{''.join(rows)}</tbody></table>"
