"""The `plan` view as text: one line an op."""

from __future__ import annotations

from typing import Any

from rfnb.viz.terminal import aligned


def text(spec: Any) -> str:
    """The ops by their place: number, name, dims, what they read, the line of code."""
    head = spec.head
    lines = [f"{head['title']} over {head['axis']}"]
    rows = rows_of(head)
    flat = [row for part in rows.values() for row in part]
    written = iter(aligned(flat, 40) if flat else [])
    for place in head["places"]:
        lines.append(f"{place['name']}: {place['meaning']}" + ("" if place["ops"] else "  (nothing)"))
        lines += [f"  {next(written)}" for _ in place["ops"]]
    lines += [f"{head['values'][edge['value']]} = {before_of(head, edge)}" for edge in head.get("back") or []]
    for result in head["results"]:
        lines.append(f"{result['label']} = {', '.join(names_of(head, result['reads'])) or 'constant'}")
    return "\n".join(lines)


def rows_of(head: dict[str, Any]) -> dict[str, list[list[str]]]:
    """place -> for each op its number, name, dims, what it reads, the line of code."""
    return {
        place["name"]: [
            [
                number(op["id"]),
                op["name"],
                op["dims"],
                f"from {', '.join(names_of(head, op['reads']))}" if op["reads"] else "",
                op["code"],
            ]
            for op in place["ops"]
        ]
        for place in head["places"]
    }


def names_of(head: dict[str, Any], ids: list[str]) -> list[str]:
    """The names of the values that are read, as the body calls them, or the numbers of the ops that make them."""
    return [head["values"].get(id_) or number(id_) for id_ in ids]


def before_of(head: dict[str, Any], edge: dict[str, str]) -> str:
    """The part of a result of the step before that a state is: "next cell.h of the step before" for "state.cell.h"."""
    part = str(head["values"][edge["value"]]).removeprefix(f"state.{edge['result'].removeprefix('next ')}")
    return f"{edge['result']}{part} of the step before"


def number(id_: str) -> str:
    """ "#3" for "op3"."""
    return f"#{id_.removeprefix('op')}"
