"""Places of boxes and lines by `dot` of Graphviz, where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from typing import Any

_INCH = 72.0  # units of a drawing in what dot calls an inch
_RIM = 14.0
_SECONDS = 10

Boxes = Sequence[tuple[str, float, float]]  # id, width, height
Joins = Sequence[tuple[str, str]]  # id of the higher, id of the lower one


def placed_by_dot(graphs: Sequence[tuple[Boxes, Joins]]) -> list[dict[str, Any]] | None:
    """The places of several graphs: `width`, `height`, `places` (id to middle), `paths` (of each join, Bezier curves), `form`.

    None if dot is not installed, or fails: then they are placed in layers.
    """
    program = shutil.which("dot")
    if program is None:
        return None
    plain = _run(program, "\n".join(_source(boxes, joins) for boxes, joins in graphs))
    parts = plain.split("stop\n")[:-1] if plain else []
    if len(parts) != len(graphs):
        return None
    try:
        return [_places(part, boxes, joins) for part, (boxes, joins) in zip(parts, graphs)]
    except (KeyError, ValueError, IndexError):  # of a version that writes something else
        return None


def _run(program: str, source: str) -> str:
    """The answer of dot, or nothing."""
    try:
        done = subprocess.run(
            [program, "-Tplain"], input=source, capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def _source(boxes: Boxes, joins: Joins) -> str:
    """A graph in the language of dot. Boxes have numbers for names: no text of users gets there."""
    number = {id_: index for index, (id_, _, _) in enumerate(boxes)}
    lines = [
        f'b{number[id_]} [width="{width / _INCH:.4f}", height="{height / _INCH:.4f}"];' for id_, width, height in boxes
    ]
    lines += [f"b{number[high]} -> b{number[low]};" for high, low in joins]
    style = 'graph [ranksep="0.45", nodesep="0.3"]; node [shape=box, fixedsize=true, label=""]; edge [arrowhead=none];'
    return "digraph {" + style + "\n".join(lines) + "}"


def _places(plain: str, boxes: Boxes, joins: Joins) -> dict[str, Any]:
    names = [id_ for id_, _, _ in boxes]
    places: dict[str, tuple[float, float]] = {}
    found: dict[tuple[str, str], list[list[float]]] = {}
    width = height = 0.0

    def at(x: str, y: str) -> list[float]:
        return [float(x) * _INCH + _RIM, (height - float(y)) * _INCH + _RIM]

    for words in (line.split() for line in plain.replace("\\\n", "").splitlines()):
        if words[0] == "graph":
            width, height = float(words[2]), float(words[3])
        elif words[0] == "node":
            x, y = at(words[2], words[3])
            places[names[int(words[1][1:])]] = x, y
        elif words[0] == "edge":
            count = int(words[3])
            numbers = words[4 : 4 + 2 * count]
            path = [at(x, y) for x, y in zip(numbers[::2], numbers[1::2])]
            path[-1][1] -= 6.0  # room for the tip
            found[names[int(words[1][1:])], names[int(words[2][1:])]] = path
    size = {"width": width * _INCH + 2 * _RIM, "height": height * _INCH + 2 * _RIM}
    return {
        **size,
        "places": {id_: places[id_] for id_ in names},
        "paths": [found[join] for join in joins],
        "form": "bezier",
    }
