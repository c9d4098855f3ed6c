"""The `group` view as text."""

from __future__ import annotations

from typing import Any

from rfnb.viz.group.spec import parts_of
from rfnb.viz.kinds import text_of


def text(spec: Any) -> str:
    """The parts below each other."""
    texts = [text_of(part) for part in parts_of(spec)]
    title = [spec.head["title"]] if spec.head.get("title") else []
    return "\n\n".join([*title, *texts])
