"""The `control` view as text: a line of what the run does, then its breakpoints and branches."""

from __future__ import annotations

from typing import Any


def text(spec: Any) -> str:
    """A run in a few lines."""
    return "\n".join(f"{'  ' if number else ''}{line}" for number, line in enumerate(lines_of(spec.head)))


def lines_of(head: dict[str, Any]) -> list[str]:
    """The lines that are said of a run where nothing can be done with it."""
    live = ["It went on after this was written."] if head["live"] and head["state"] != "paused" else []
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
