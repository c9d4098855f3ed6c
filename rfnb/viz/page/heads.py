"""Heads that are too large: labels are cut, then left out; what is drawn then are numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rfnb.viz.page.budget import Room
from rfnb.viz.spec import Spec, pack

_LETTERS = 60  # more are never drawn at once
_LABELS = 500


def lessened(spec: Spec, head: dict[str, Any], blocks: Any, codes: Any, *words: str) -> Spec:
    """The spec with less in it, which its head says in words."""
    said = " ".join(filter(None, [spec.head.get("thinned"), *words]))
    return Spec(spec.kind, spec.head | head | ({"thinned": said} if said else {}), blocks, codes)


def slim(spec: Spec, room: Room) -> Spec:
    """The spec with a head that takes at most half of the room, where cutting and leaving out labels reaches that."""
    head = spec.head
    for cut, words in ((_cut, "Long labels are cut."), (_left_out, "Lists of many labels are left out.")):
        if len(pack(Spec(spec.kind, head))) <= room.most // 2:
            break
        head = _mapped(spec.head, cut) | {"thinned": words}
    return Spec(spec.kind, head, spec.blocks)


def _mapped(data: Any, change: Callable[[Any], Any]) -> Any:
    data = change(data)
    if isinstance(data, dict):
        # A remark is a sentence, maybe with a line to type.
        return {key: value if key == "remark" else _mapped(value, change) for key, value in data.items()}
    return [_mapped(value, change) for value in data] if isinstance(data, (list, tuple)) else data


def _cut(data: Any) -> Any:
    return f"{data[: _LETTERS - 1]}…" if isinstance(data, str) and len(data) > _LETTERS else data


def _left_out(data: Any) -> Any:
    if isinstance(data, (list, tuple)) and len(data) > _LABELS and isinstance(data[0], str):
        return []
    return _cut(data)
