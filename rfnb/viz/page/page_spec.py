"""page_spec: reduces the exact spec of a view to one that is small enough for a page.

    page_spec(spec, Room(250_000, 20_000))

Small specs are unchanged. Large ones are reduced by kind: cells of maps and states are pooled and coded in one byte
(attention: the largest weight of a block; states: the value farthest from 0, NaN if there is one), curves keep the
minimum and maximum of each block, beams the best hypotheses of each step, outputs the best labels. `head.thinned`
describes it in a sentence. The exact values stay in the kernel (`viz/exact_values.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from rfnb.viz.attention.long_maps import is_long
from rfnb.viz.group.spec import join, parts_of
from rfnb.viz.hypotheses import without_slots
from rfnb.viz.kinds import asked
from rfnb.viz.page.budget import Room
from rfnb.viz.spec import Spec, pack

Choice = TypeVar("Choice")
_LETTERS = 60  # characters; more are never shown at once
_LABELS = 500


def page_spec(spec: Spec, room: Room) -> Spec:
    """The spec for a page: unchanged if it is small, else reduced to a frame of at most `room.most` bytes.

    A frame always has its title, so a very small limit may be exceeded.
    """
    if is_small(spec, room.small):
        return spec
    if spec.kind in ("group", "branches"):
        return _group(spec, room)
    if spec.kind == "beams":  # its large part is in the head
        return cast(Spec, asked(spec, "thin", room))
    best = without_slots(spec)
    if best is not spec:  # a page requests values of other hypotheses from the kernel
        return page_spec(best, room)
    slimmer = slim(spec, room)
    left = room.minus(size_of(Spec(spec.kind, slimmer.head)) + 40 * len(spec.blocks))
    return (asked(slimmer, "thin", left) if spec.blocks else None) or slimmer


def is_small(spec: Spec, size: int) -> bool:
    """Whether the frame of a spec fits into the given number of bytes."""
    if is_long(spec):
        return False
    raw = sum(block.nbytes for block in spec.blocks.values())
    if raw > 40 * size:  # zeros would still be small, and are coded exactly
        return False
    if raw < size and size_of(Spec(spec.kind, spec.head)) + raw + 200 * len(spec.blocks) < size:
        return True
    return size_of(spec) <= size


def size_of(spec: Spec) -> int:
    """The size of its frame in bytes."""
    return len(pack(spec))


def _group(spec: Spec, room: Room) -> Spec:
    """Each part gets an equal share of the room; the room left by small parts goes to larger ones."""
    parts = parts_of(spec)
    raw = [sum(block.nbytes for block in part.blocks.values()) + len(str(part.head)) for part in parts]
    made: dict[int, Spec] = {}
    left = room.minus(300 if spec.kind == "group" else size_of(Spec(spec.kind, {**spec.head, "parts": []})))
    for index in sorted(range(len(parts)), key=raw.__getitem__):
        waiting = len(parts) - len(made)
        share = Room(left.most // waiting, left.easy // waiting)
        made[index] = page_spec(parts[index], share)
        left = left.minus(size_of(made[index]))
    return join(spec.head, [made[index] for index in range(len(parts))], spec.kind)


def frame_of(spec: Spec, room: Room, *, level: int | None = None, **head: Any) -> bytes:
    """The frame for a page, with more fields in its head; deflated fast while more data may arrive."""
    made = page_spec(spec, room)
    level = (1 if made.live else 6) if level is None else level
    return pack(Spec(made.kind, {**made.head, **head}, made.blocks, made.codes), level=level)


def finest(choices: Sequence[Choice], make: Callable[[Choice], Spec], room: Callable[[Choice], int]) -> Spec:
    """The spec of the first choice whose frame has at most `room(choice)` bytes; of the last choice if none fits.

    Args:
        choices: From fine to coarse: sizes decrease.
    """
    low, high = 0, len(choices) - 1
    found: Spec | None = None
    while low < high:
        middle = (low + high) // 2
        made = make(choices[middle])
        if len(pack(made)) <= room(choices[middle]):
            found, high = made, middle
        else:
            low = middle + 1
    return found if found is not None else make(choices[-1])


def lessened(spec: Spec, head: dict[str, Any], blocks: Any, codes: Any, *words: str) -> Spec:
    """The spec with less content, as noted in its head."""
    said = " ".join(filter(None, [spec.head.get("thinned"), *words]))
    return Spec(spec.kind, spec.head | head | ({"thinned": said} if said else {}), blocks, codes)


def slim(spec: Spec, room: Room) -> Spec:
    """The spec with a head of at most half of the room, as far as shortening and dropping labels achieves it."""
    head = spec.head
    for cut, words in ((_cut, "Long labels are cut."), (_left_out, "Lists of many labels are left out.")):
        if len(pack(Spec(spec.kind, head))) <= room.most // 2:
            break
        head = _mapped(spec.head, cut) | {"thinned": words}
    return Spec(spec.kind, head, spec.blocks)


def _mapped(data: Any, change: Callable[[Any], Any]) -> Any:
    data = change(data)
    if isinstance(data, dict):
        # A remark is a sentence, possibly with a line to type.
        return {key: value if key == "remark" else _mapped(value, change) for key, value in data.items()}
    return [_mapped(value, change) for value in data] if isinstance(data, (list, tuple)) else data


def _cut(data: Any) -> Any:
    return f"{data[: _LETTERS - 1]}…" if isinstance(data, str) and len(data) > _LETTERS else data


def _left_out(data: Any) -> Any:
    if isinstance(data, (list, tuple)) and len(data) > _LABELS and isinstance(data[0], str):
        return []
    return _cut(data)
