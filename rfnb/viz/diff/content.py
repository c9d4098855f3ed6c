"""The `diff` view as a page: summary, picture, and notes."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.trace.diff_text import number as diff_number
from rfnb.viz.kinds import drawing_of, title_of
from rfnb.viz.markup import code, picture, sentences, title
from rfnb.viz.page.array_coding import Grid, cols_first, fit
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import lessened
from rfnb.viz.pool import largest
from rfnb.viz.spec import Spec, pack
from rfnb.viz.terminal import WIDTH, aligned, bar, clip, width_of


def problem(spec: Any) -> str:
    """The problem with the spec; "" if it can be drawn."""
    cannot = "This diff cannot be drawn:"
    head = spec.head
    for name in ("rows", "cols", "hints", "pairs", "searches", "results", "notes", "next", "names"):
        if not isinstance(head.get(name), list):
            return f"{cannot} its list of {name} is missing."
    if len(head["names"]) != 2:
        return f"{cannot} it has no two names."
    size = len(head["rows"]), len(head["cols"])
    for name in ("log", "abs"):
        block = spec.blocks.get(name)
        if block is None or block.shape != (1, *size):
            return f"{cannot} the array {name} has no {size[0]} paths in {size[1]} steps."
    texts = [
        head.get("said"),
        head.get("limit"),
        *head["cols"],
        *head["hints"],
        *head["searches"],
        *head["notes"],
        *head["next"],
    ]
    if not all(isinstance(text, str) for text in [*texts, *head["names"]]):
        return f"{cannot} one of its sentences is not a string."
    mark = head.get("mark")
    if mark is not None and not _is_place(mark, size):
        return f"{cannot} the first difference has no place."
    for number, row in enumerate(head["rows"]):
        if not isinstance(row, dict) or not isinstance(row.get("label"), str):
            return f"{cannot} path {number} has no label."
        for name in ("first", "worst"):
            if row.get(name) is not None and not _is_index(row[name], size[1]):
                return f"{cannot} path {number} is at no step."
        if not all(_is_index(row.get(name), 1 << 40) for name in ("differ", "of")):
            return f"{cannot} path {number} has no numbers of values."
    return _of_pairs(spec, size, cannot) or _of_results(head, cannot)


def _of_pairs(spec: Any, size: tuple[int, int], cannot: str) -> str:
    for number, pair in enumerate(spec.head["pairs"]):
        if not isinstance(pair, dict) or not _is_place([pair.get("row"), pair.get("col")], size):
            return f"{cannot} pair {number} is at no place."
        if not isinstance(pair.get("words"), str):
            return f"{cannot} pair {number} has no words."
        if pair.get("block") is None:
            continue
        block = spec.blocks.get(pair["block"]) if isinstance(pair["block"], str) else None
        if block is None or block.ndim != 3 or block.shape[0] != 2 or not block.size:
            return f"{cannot} pair {number} has no two values."
        dims = pair.get("dims")
        if not isinstance(dims, list) or len(dims) != 2 or not all(isinstance(dim, str) for dim in dims):
            return f"{cannot} pair {number} has no two dims."
        for name in ("size", "pool"):
            numbers = pair.get(name)
            if (
                not isinstance(numbers, list)
                or len(numbers) != 2
                or not all(_is_index(one, 1 << 40) for one in numbers)
            ):
                return f"{cannot} pair {number} has no {name}."
        if not all(isinstance(pair.get(name), str) for name in ("name", "at")):
            return f"{cannot} pair {number} has no name."
    return ""


def _of_results(head: Any, cannot: str) -> str:
    for number, result in enumerate(head["results"]):
        good = (
            isinstance(result, dict) and isinstance(result.get("label"), str) and isinstance(result.get("edits"), str)
        )
        if not good or not all(_are_texts(result.get(side)) for side in "ab"):
            return f"{cannot} result {number} has no labels."
        counts = [sum(edit != skipped for edit in result["edits"]) for skipped in "id"]
        if set(result["edits"]) - set("=sid") or counts != [len(result["a"]), len(result["b"])]:
            return f"{cannot} result {number} has edits of other labels."
        scores = result.get("scores")
        numbers = (
            isinstance(scores, list)
            and len(scores) == 2
            and all(type(one) in (int, float, type(None)) for one in scores)
        )
        if not numbers:
            return f"{cannot} result {number} has no two scores."
    return ""


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def _is_place(place: Any, size: tuple[int, int]) -> bool:
    return isinstance(place, list) and len(place) == 2 and all(map(_is_index, place, size))


def _is_index(value: Any, size: int) -> bool:
    return type(value) is int and 0 <= value < size


def page(spec: Any) -> list[str]:
    """A diff as HTML."""
    head, drawing = spec.head, drawing_of(spec)
    made = picture(drawing)
    return [
        title(title_of(spec)),
        *sentences([head["said"], *head["hints"]]),
        *(made if head["rows"] and head["cols"] else made[1:]),
        *code("\n".join(head["searches"])),
        *sentences(head["notes"]),
        *code("\n".join(head["next"])),
    ]


_MOST_ROWS, _MOST_LABEL, _MOST_BARS = 24, 28, 32


def text(spec: Any) -> str:
    """The whole diff as text."""
    head = spec.head
    parts = [f"{title_of(spec)}: {head['said']}", *(f"  {hint}" for hint in head["hints"]), head["limit"]]
    parts += table(spec)
    parts += [*head["searches"], *head["notes"], *head["next"]]
    return "\n".join(parts)


def share(log: np.ndarray | float) -> np.ndarray:
    """The colour ramp position of a difference: 0 if equal, 0.1 for a thousandth of the tolerance, 1 for 100,000 times the tolerance."""
    with np.errstate(invalid="ignore"):
        seen = np.where(log == -np.inf, 0.0, np.clip(0.1 + 0.9 * (log + 3) / 8, 0.1, 1.0))
    return np.asarray(np.where(np.isnan(log), np.nan, seen), np.float64)


def table(spec: Any) -> list[str]:
    """The paths as lines: bars over the steps, the first difference, and its size."""
    head = spec.head
    rows = [index for index, row in enumerate(head["rows"]) if row["first"] is not None] or range(len(head["rows"]))
    shown = list(rows)[:_MOST_ROWS]
    if not shown or not head["cols"]:
        return []
    lines = []
    left = min(_MOST_LABEL, max(width_of(head["rows"][index]["label"]) for index in shown))
    log, most = spec.blocks["log"][0], spec.blocks["abs"][0]
    words = aligned([_words(head, most, index) for index in shown])
    room = max(8, min(_MOST_BARS, WIDTH - left - 6 - max(map(width_of, words))))
    for index, said in zip(shown, words):
        label = clip(head["rows"][index]["label"], left)
        lines.append(f"  {label}  {_bars(log[index], room)}  {said}")
    rest = len(head["rows"]) - len(shown)
    if rest:
        differ = sum(row["first"] is not None for index, row in enumerate(head["rows"]) if index not in shown)
        said = f"more paths, {differ} of which differ" if differ else "more paths that do not differ"
        lines.append(f"  and {rest} {said}")
    return lines


def _words(head: Any, most: np.ndarray, index: int) -> list[str]:
    row = head["rows"][index]
    if row["first"] is None:
        return ["the same", "", ""]
    mark = " (first of all)" if head.get("mark") and head["mark"][0] == index else ""
    begin, worst = f"from {head['cols'][row['first']]}{mark}", row["worst"]
    if worst is None:
        return [begin, "not in numbers", ""]
    far = float(most[index, worst])
    return [begin, f"{'largest ' if np.isfinite(far) else ''}{diff_number(far, 3)}", f"at {head['cols'][worst]}"]


def _bars(log: np.ndarray, room: int) -> str:
    """One bar per column, the largest difference of its steps: "·" equal bit for bit, blank without values, "!" a different label."""
    every = -(-len(log) // room)
    out = ""
    for start in range(0, len(log), every):
        here = log[start : start + every]
        here = here[~np.isnan(here)]
        worst = here.max() if here.size else np.nan
        out += (
            " "
            if np.isnan(worst)
            else "·"
            if worst == -np.inf
            else "!"
            if worst == np.inf
            else bar(float(share(worst)) * 0.999)
        )
    return out


_MAPS = ("log", "abs")


def thin(spec: Spec, room: Room) -> Spec:
    """The first difference keeps its values longest; those of other steps can be requested."""
    head, blocks, said = spec.head, dict(spec.blocks), []
    maps = {name: blocks[name] for name in _MAPS if name in blocks}
    pairs = [pair["block"] for pair in head["pairs"] if pair.get("block") in blocks]
    size = len(pack(Spec("diff", {}, maps)))
    codes = {}
    if size > room.most // 2:
        _, rows, cols = maps["log"].shape
        grids = [
            Grid(name, block, [(rows, cols)], "linear", largest, cols_first(cols, 100)) for name, block in maps.items()
        ]
        _, made = fit(grids, room.most // 2)
        maps, codes = {name: one.levels for name, one in made.items()}, {name: one.code for name, one in made.items()}
        size = sum(one.size for one in made.values())
        across = max(one.code.pool[2] for one in made.values())
        of = f"the largest difference of each {across} steps, rounded" if across > 1 else "these differences rounded"
        said.append(f"The page has {of} to one byte.")
    kept: dict[str, np.ndarray] = {}
    for name in pairs:
        more = len(pack(Spec("diff", {}, {name: blocks[name]})))
        if size + more > room.most:
            break
        kept[name], size = blocks[name], size + more
    if len(kept) < len(pairs):
        said.append(f"It has the values of {len(kept)} places; those of others come from the kernel.")
    entries = [pair if pair.get("block") in kept else {**pair, "block": None} for pair in head["pairs"]]
    return lessened(spec, {"pairs": entries}, {**maps, **kept}, codes, *said)
