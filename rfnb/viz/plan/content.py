"""The `plan` view: what is wrong with a spec of it, and its page: its picture, and the ops as a table."""

from __future__ import annotations

from html import escape
from typing import Any

from rfnb.viz.drawing.img import img
from rfnb.viz.kinds import drawing_of
from rfnb.viz.markup import fold, sentences, table
from rfnb.viz.plan.layout import MOST_OPS
from rfnb.viz.plan.text import rows_of


def problem(spec: Any) -> str:
    """The fault of the spec, as a sentence; empty if nothing is."""
    head = spec.head
    try:
        ids = set(head["values"]) | {op["id"] for place in head["places"] for op in place["ops"]}
        reads = [id_ for place in head["places"] for op in place["ops"] for id_ in op["reads"]]
        reads += [id_ for result in head["results"] for id_ in result["reads"]]
        reads += [edge["value"] for edge in head.get("back") or []]
        lost = [id_ for id_ in reads if id_ not in ids]
    except (KeyError, TypeError, AttributeError) as error:
        return f"This plan cannot be shown: {error!r} is not as it should be."
    return f"This plan cannot be shown: nothing makes {lost[0]}." if lost else ""


def page(spec: Any) -> list[str]:
    """The plan as HTML."""
    head, rows = spec.head, rows_of(spec.head)
    top = f"<p><b>{escape(head['title'])}</b> over {escape(head['axis'])}</p>"
    tables = []
    for place in head["places"]:
        tables += sentences([f"{place['name']}: {place['meaning']}{'' if place['ops'] else ' (nothing)'}"])
        tables += [table(rows[place["name"]])] if place["ops"] else []
    if not 0 < sum(map(len, rows.values())) <= MOST_OPS:
        return [top, *tables]
    # The picture has them already; the lines of code are here.
    return [top, img(drawing_of(spec)), fold("The ops as a table, with their lines of code", tables)]
