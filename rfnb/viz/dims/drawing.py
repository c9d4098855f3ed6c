"""The `dims` view as a drawing: the dims with their lengths, then a row per tensor, with equal dims in one column."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from rfnb.core.strict_json import JsonObject
from rfnb.viz.dims import table
from rfnb.viz.dims.table import folded
from rfnb.viz.drawing import fonts, labels
from rfnb.viz.drawing.labels import sentence
from rfnb.viz.drawing.shapes import Drawing, Lines, Rect, Text
from rfnb.viz.rounding import minus

_ROW, _CHIP, _GAP = 22.0, 18.0, 14.0
_MOST_ROWS, _MOST_DIMS, _MOST_BARS = 40, 16, 48
_LONGEST = 40  # characters of a name
_PAPER = 700.0  # a page has this width, and scrolls if the window is narrower; paper and axes do not


def drawing(spec: Any, width: float) -> Drawing:
    """The dims as a drawing; wider if its columns need it."""
    head = {**spec.head, "rows": folded(spec.head)}
    made = Drawing(0, 0)
    names = table.names_of(head["dims"])
    chips = {e["id"]: _chip_text(e, names[e["id"]]) for e in head["dims"]}
    if head.get("failure"):
        _failure(made, str(head["failure"]), width)
    if table.has_legend(head):
        _legend(made, head["dims"], chips)
    if head["rows"]:
        _rows(made, head, chips, width)
    if not made.shapes:
        return sentence(f"{head.get('title', 'Dims')}: no dims", width)
    made.alt = description(head, chips)
    return made


def description(head: JsonObject, chips: dict[int, str]) -> str:
    """A description of the picture: the dims, and those of each tensor."""
    words = ", ".join(chips[entry["id"]] for entry in head["dims"][:_MOST_DIMS])
    rows = [
        f"{labels.short(str(row.get('label', '')), _LONGEST)} {table.compact(row, chips)}"
        for row in head["rows"][:_MOST_ROWS]
        if row["dims"]
    ]
    return f"{labels.short(str(head.get('title', 'Dims')), 120)}: {words}. {'; '.join(rows)}".strip()


def _chip_text(entry: JsonObject, name: str) -> str:
    size = table.size_text(entry, name)[len(name) :]
    return labels.short(name, _LONGEST) + size.replace("<=", "≤").replace("=", " ")


def _failure(made: Drawing, failure: str, width: float) -> None:
    for text in failure[:4000].split("\n")[:30]:
        shown = labels.fitted(text, width - 20, 10.5)
        made.add(Text(8, made.height + 9, shown, 10.5, "ink", mono=True))
        made.height += 15
        made.width = max(made.width, 16 + 1.05 * fonts.width(shown, 10.5))
    made.add(Rect(0, 0, 3, made.height, "warn"))
    made.height += 10


def _chip(made: Drawing, x: float, y: float, id_: int, text: str, *, ragged: bool = False) -> float:
    """Draw a dim with its glyph, vertically centred at y; returns its right end."""
    width = fonts.width(text, 11) + 28
    hue = _hue(id_)
    made.add(Rect(x, y - _CHIP / 2, width, _CHIP, "paper", hue, 1.0, 2.0 if ragged else _CHIP / 2))
    made.add(Text(x + 8, y, table.GLYPHS[id_ % 8], 9, hue), Text(x + 20, y, text, 11))
    return x + width


def _hue(id_: int) -> str:
    """The hue of a dim: shifted against the glyphs after 8 dims, so that the pair stays unique."""
    return f"hue{(id_ + 3 * (id_ // 8)) % 8}"


def _legend(made: Drawing, entries: Sequence[JsonObject], chips: dict[int, str]) -> None:
    shown = entries[:_MOST_DIMS]
    second = max(fonts.width(chips[entry["id"]], 11) for entry in shown) + 28 + _GAP if shown else 0
    for entry in shown:
        y, lengths = made.height + _ROW / 2, entry.get("lengths") or []
        _chip(made, 0, y, entry["id"], chips[entry["id"]], ragged=bool(lengths))
        kind = labels.fitted(table.about(entry), 400, 10.5)
        made.add(Text(second, y, kind, 10.5, "muted"))
        x = second + max(58.0, fonts.width(kind, 10.5) + 10)
        if lengths:
            most = max(1, max(lengths))
            for number, length in enumerate(lengths[:_MOST_BARS]):
                tall = max(1.0, 15.0 * length / most)
                made.add(Rect(x + 5 * number, y + 7.5 - tall, 4, tall, _hue(entry["id"])))
            x += 5 * min(len(lengths), _MOST_BARS) + 8
            more = f"+{len(lengths) - _MOST_BARS}, " if len(lengths) > _MOST_BARS else ""
            words = f"{more}{table.lengths_text(lengths)}; {table.waste_text(lengths)} are padding"
            made.add(Text(x, y, words, 10.5, "muted"))
            x += fonts.width(words, 10.5)
        made.width = max(made.width, x)
        made.height += _ROW
    made.shows(len(shown), len(entries), "dims")
    made.height += 8


def _rows(made: Drawing, head: JsonObject, chips: dict[int, str], width: float) -> None:
    rows = head["rows"][:_MOST_ROWS]
    columns = table.columns_of(rows)
    ragged = {entry["id"] for entry in head["dims"] if entry.get("lengths")}
    titles = [
        "\u2003" * min(row.get("indent", 0), 12) + labels.short(str(row.get("label", "")), _LONGEST) for row in rows
    ]
    lefts = [max(fonts.width(title, 11) for title in titles) + _GAP]
    for column in range(max(columns.values(), default=-1) + 1):
        widths = [fonts.width(chips[dim], 11) + 28 for dim, at in columns.items() if at == column]
        lefts.append(lefts[-1] + max(widths, default=0.0) + 8)
    texts = [_texts(row) for row in rows]
    wide = [max((fonts.width(text[part], 10.5) for text in texts), default=0) for part in range(4)]
    ends = list(accumulate((own + (_GAP if own else 0) for own in wide), initial=lefts[-1] + 6))[1:]
    parts = sum(end - _GAP <= width for end in ends) if width < _PAPER else 4
    if any(wide[parts:]):
        made.notes.append("The columns that have no room are left out.")
    top = made.height
    for row, title, text in zip(rows, titles, texts):
        y = made.height + _ROW / 2
        heading = row.get("dtype") is None and not row["dims"]
        made.add(Text(0, y, title, 11, bold=heading))
        for dim in row["dims"]:
            _chip(made, lefts[columns[dim]], y, dim, chips[dim], ragged=dim in ragged)
        x = lefts[-1] + 6
        for part, own in zip(text[:parts], wide):
            made.add(Text(x, y, part, 10.5, "muted"))
            x += own + (_GAP if own else 0)
        remark, alarm = table.remarks(row, chips, table.stored(row, columns, chips)), table.alarm_text(row.get("stats"))
        if remark and (parts == 4 or x + fonts.width(remark, 10.5) <= width):
            remark = labels.fitted(f"! {remark}" if alarm else remark, max(260.0, width - x), 10.5)
            made.add(Text(x, y, remark, 10.5, "warn" if alarm else "muted"))
            x += fonts.width(remark, 10.5)
        made.width = max(made.width, x)
        made.height += _ROW
    lines = [top + _ROW * index for index in range(1, len(rows))]
    made.add(Lines("line", 0.6, [[(0.0, y), (made.width, y)] for y in lines]))
    made.shows(len(rows), len(head["rows"]), "rows")


def _texts(row: JsonObject) -> list[str]:
    """The dtype, device, bytes and statistics of a row."""
    device = row.get("device") or ""
    return [
        row.get("dtype") or "",
        "" if device == "cpu" else device,
        table.bytes_text(row.get("bytes")),
        minus(table.stats_text(row.get("stats"))),
    ]
