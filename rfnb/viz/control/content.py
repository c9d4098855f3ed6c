"""The `control` view as a page: a description of the run, without buttons, which would not work."""

from __future__ import annotations

from typing import Any

from rfnb.viz.drawing import labels
from rfnb.viz.drawing.shapes import Drawing
from rfnb.viz.markup import Bold, inline, items


def page(spec: Any) -> list[str]:
    """The run in a few lines, as HTML."""
    (first, *others), title = lines_of(spec.head), str(spec.head["title"])
    top = f"<p>{inline(Bold(title))}{inline(first.removeprefix(title))}</p>"
    return [top, items(others)] if others else [top]


def text(spec: Any) -> str:
    """The run in a few lines."""
    return "\n".join(f"{'  ' if number else ''}{line}" for number, line in enumerate(lines_of(spec.head)))


def lines_of(head: dict[str, Any]) -> list[str]:
    """The lines that describe a run where it cannot be controlled."""
    live = ["It continued after this was written."] if head["live"] and head["state"] != "paused" else []
    out = [" ".join([f"{head['title']}: {head['words']}", *live])]
    if head["state"] in ("running", "pausing", "stopping") and head["at"]:
        out.append(f'{head["counter"]} of "{head["at"]["path"]}"')
    out += [f"breakpoint {point['text']}, hit {_times(point['hits'])}" for point in head["points"]]
    if len(head["runs"]) > 1:
        out += [
            ", ".join(filter(None, [run["name"], run["from"], run["state"]])) + ("  <- shown" if shown else "")
            for run in head["runs"]
            for shown in [run["number"] == head["run"]]
        ]
    return out + [head["note"]] * bool(head["note"])


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


_LINE, _LONGEST = 18.0, 200


def drawing(spec: Any, width: float) -> Drawing:
    """The run in a few lines, as a drawing."""
    lines = [line for text in lines_of(spec.head) for line in text.split("\n")]
    made = Drawing(width, _LINE * len(lines) + 8, " ".join(labels.short(line, _LONGEST) for line in lines))
    for number, line in enumerate(lines):
        made.add(labels.within(4, 13 + _LINE * number, line, width - 8))
    return made
