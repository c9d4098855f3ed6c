"""Several views below each other as one spec: `head.parts` lists them, their blocks are named `0/...`, `1/...`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from rfnb.viz.kinds import module_of
from rfnb.viz.spec import Spec


def spec(parts: Sequence[Spec], *, title: str = "", live: bool = False, link: str = "") -> Spec:
    """The spec of a group.

    Args:
        parts: The specs, from top to bottom.
        link: Views with the same `link` point at the same sequence and step; "": all on the page.
        live: Whether more may come.
    """
    head: dict[str, Any] = {"title": title, "live": live, "link": link}
    head["parts"] = [{"kind": part.kind, "head": part.head} for part in parts]
    blocks = {f"{index}/{name}": block for index, part in enumerate(parts) for name, block in part.blocks.items()}
    return Spec("group", head, blocks)


def parts_of(spec: Any) -> list[Spec]:
    """The specs that a group was made of."""
    out = []
    for index, part in enumerate(spec.head["parts"]):
        prefix = f"{index}/"
        blocks = {name[len(prefix) :]: block for name, block in spec.blocks.items() if name.startswith(prefix)}
        out.append(Spec(part["kind"], part["head"], blocks))
    return out


def text(spec: Any) -> str:
    """The parts below each other."""
    texts = [module_of(part.kind).text(part) for part in parts_of(spec)]
    title = [spec.head["title"]] if spec.head.get("title") else []
    return "\n\n".join([*title, *texts]) if texts else f"{spec.head.get('title') or 'Views'}: {_nothing(spec)}"


def html(spec: Any) -> str:
    """The parts below each other."""
    title = escape(str(spec.head.get("title") or ""))
    texts = [module_of(part.kind).html(part) for part in parts_of(spec)]
    if not texts:
        return f"<p>{title or 'Views'}: {_nothing(spec)}</p>"
    return "\n<hr>\n".join([*([f"<p><b>{title}</b></p>"] if title else []), *texts])


def _nothing(spec: Any) -> str:
    return "waiting for events" if spec.head.get("live") else "nothing recorded"
