"""All that is said of the dims and stations of a `flow` spec: marks of a letter or two for the lines, and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.viz.drawing.labels import short
from rfnb.viz.drawing.theme import HUES

_MOST, _LETTERS = 12, 60  # dims in a sentence, letters of a name


def marks_of(entries: Sequence[dict[str, Any]]) -> dict[int, str]:
    """A mark for each dim by id, no two alike: its first letter, else with a number."""
    marks: dict[int, str] = {}
    count: dict[str, int] = {}
    for entry in entries:
        letter = next((sign for sign in str(entry["name"]) if sign.isalpha()), "d")
        count[letter] = count.get(letter, 0) + 1
        marks[entry["id"]] = letter if count[letter] == 1 else f"{letter}{count[letter]}"
    return marks


def legend_of(entries: Sequence[dict[str, Any]], texts: dict[int, str], marks: dict[int, str]) -> list[dict[str, Any]]:
    """The legend of the lines: `text`, `glyph`, `hue`, `ragged`."""
    return [
        {"text": texts[dim], "glyph": marks[dim], "hue": dim % len(HUES), "ragged": bool(entry["lengths"])}
        for dim, entry in enumerate(entries)
    ]


def change_of(station: dict[str, Any], names: dict[int, str]) -> str:
    """The change that a station makes to the dims, in a few words: "model → ff", "makes heads", "ends time"; nothing if they stay."""
    ends, makes = (_few([short(names[dim], 24) for dim in station[side]], 4) for side in ("ends", "makes"))
    if ends and makes:
        return f"{ends} → {makes}"
    return f"makes {makes}" if makes else f"ends {ends}" if ends else ""


def words_of(station: dict[str, Any], texts: dict[int, str]) -> str:
    """All that is said of a station, in a sentence."""
    names = lambda ids: _few([short(texts[dim], _LETTERS) for dim in ids[:_MOST]], _MOST, len(ids))  # noqa: E731
    dims = lambda ids: f"[{names(ids)}]"  # noqa: E731
    label, count = short(station["label"], _LETTERS), station["count"]
    if station["shape"] != "op":
        return f"{label}: {dims(station['gives'])}"
    said = [f"{label} × {count}" if count > 1 else label]
    if station["module"]:
        said[0] += f", {short(station['module'], _LETTERS)}"
    parts = [f"in {dims(station['takes'])}"]
    parts += [] if station["raised"] else [f"out {dims(station['gives'])}"]
    if station["ends"] and station["makes"]:
        verb = "renames" if station["label"] == "replace_dim" else "makes"
        of = (names(station["ends"]), names(station["makes"]))
        parts.append(f"renames {of[0]} to {of[1]}" if verb == "renames" else f"makes {of[1]} of {of[0]}")
    elif station["makes"]:
        parts.append(f"makes {names(station['makes'])}")
    elif station["ends"]:
        parts.append(f"{names(station['ends'])} {'ends' if len(station['ends']) == 1 else 'end'} here")
    parts += ["each reads what the one before has made"] if station["chained"] and count > 1 else []
    parts += [f"raised {short(station['raised'], _LETTERS)}"] if station["raised"] else []
    return f"{said[0]}: {'; '.join(parts)}"


def _few(words: list[str], most: int, count: int | None = None) -> str:
    """The words as a list; of many the first ones, and how many there are more."""
    more = (len(words) if count is None else count) - most
    return ", ".join(words[:most]) + (f", {more:,} more" if more > 0 else "")
