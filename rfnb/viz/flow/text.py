"""The `flow` view as text: the dims with their marks, then a line for each station, what is in one below it."""

from __future__ import annotations

from typing import Any

from rfnb.viz.dims.table import lengths_text, names_of, size_text
from rfnb.viz.terminal import aligned, clip

MOST_LINES = 120
MOST_DIMS = 60
_MOST_MARKS = 8
_LABEL, _NAME, _MOST_INDENT, _MOST_COLUMN = 24, 32, 5, 30


def text(spec: Any) -> str:
    """The flow as text for a terminal."""
    head = spec.head
    lines = [str(head["title"]), *legend(head)]
    rows = rows_of(head)
    if not rows:
        lines.append("No calls were recorded.")
    else:
        shown = rows[:MOST_LINES]
        lines += ["", *aligned([[row[0], row[1], ", ".join(filter(None, row[2:]))] for row in shown], _MOST_COLUMN)]
        lines += [f"... {len(rows) - MOST_LINES:,} more lines"] if len(rows) > MOST_LINES else []
    return "\n".join(line.rstrip() for line in lines)


def legend(head: dict[str, Any]) -> list[str]:
    """A line for each dim: its mark, its name and size, its lengths."""
    names = names_of(head["dims"])
    rows = []
    for entry in head["dims"]:
        lengths = entry.get("lengths")
        about = ", ".join(
            filter(
                None, [entry.get("kind"), entry.get("origin"), f"lengths {lengths_text(lengths)}" if lengths else ""]
            )
        )
        rows.append([f"  {entry['mark']}", clip(size_text(entry, names[entry["id"]]), _NAME).rstrip(), about])
    more = [["", f"... {len(rows) - MOST_DIMS:,} more dims", ""]] if len(rows) > MOST_DIMS else []
    return aligned(rows[:MOST_DIMS] + more) if rows else []


def rows_of(head: dict[str, Any], level: int = 0, indent: int = 0) -> list[list[str]]:
    """A row for each station: its label, the marks of the dims that come and go, what it does with them, and what it reads."""
    marks = {entry["id"]: entry["mark"] for entry in head["dims"]}
    rows: list[list[str]] = []
    if not head["levels"]:
        return rows
    stations = head["levels"][level]["stations"]
    labels = {station["id"]: str(station["label"]) for station in stations}
    before = ""
    for station in stations:
        label = clip(str(station["label"]), _LABEL).rstrip() + (
            f" × {station['count']}" if station["count"] > 1 else ""
        )
        label = "  " * min(indent, _MOST_INDENT) + label
        takes, gives = (_marks([marks[dim] for dim in station[side]]) for side in ("takes", "gives"))
        if station["shape"] != "op":
            way = gives
        elif station["raised"]:
            way = f"{takes} → !"
        else:
            way = f"{takes} → {gives}" if station["makes"] or station["ends"] else gives
        names = list(dict.fromkeys(clip(labels[id_], 16).rstrip() for id_ in station["reads"]))
        reads = "" if names == [before] or not names else f"from {', '.join(names)}"
        said = f"raised {station['raised']}" if station["raised"] else station["change"]
        rows.append([label, way, said, reads])
        before = clip(str(station["label"]), 16).rstrip()
        if station["opens"] is not None:
            rows += rows_of(head, station["opens"], indent + 1)
    return rows


def _marks(marks: list[str]) -> str:
    more = [f"+{len(marks) - _MOST_MARKS:,}"] if len(marks) > _MOST_MARKS else []
    return f"[{' '.join(marks[:_MOST_MARKS] + more)}]"
