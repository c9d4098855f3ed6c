"""Several views one below the other in one spec: `head.parts` lists them, their blocks are named `0/...`, `1/...`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.strict_json import JsonObject
from rfnb.viz.spec import Spec

_TRACKS = 6


def spec(parts: Sequence[Spec], *, title: str = "", live: bool = False, link: str = "", batch: str = "") -> Spec:
    """The spec of a group.

    Args:
        parts: The specs, from top to bottom.
        link: Views with the same `link` share the selected sequence and step; "": all on the page.
        batch: The sequences to choose from: parts with this `head.batch` show the chosen one.
        live: Whether more data may arrive.
    """
    head: JsonObject = {"title": title, "live": live, "link": link, "batch": batch}
    return join(head, parts)


def join(head: JsonObject, parts: Sequence[Spec], kind: str = "group") -> Spec:
    """The spec of a group, or of another view with parts, with the rest of its head unchanged."""
    head = {**head, "parts": [{"kind": part.kind, "head": part.head} for part in parts]}
    blocks = {f"{index}/{name}": block for index, part in enumerate(parts) for name, block in part.blocks.items()}
    codes = {f"{index}/{name}": code for index, part in enumerate(parts) for name, code in part.codes.items()}
    return Spec(kind, head, blocks, codes)


def parts_of(spec: Any) -> list[Spec]:
    """The specs of the parts of a group."""
    out = []
    for index, part in enumerate(spec.head["parts"]):
        prefix = f"{index}/"
        blocks, codes = (
            {name[len(prefix) :]: value for name, value in of.items() if name.startswith(prefix)}
            for of in (spec.blocks, spec.codes)
        )
        out.append(Spec(part["kind"], part["head"], blocks, codes))
    return out


def pictured(part: Spec, *, few: bool = False) -> Spec:
    """The part as pictured in a group: of many tracks, those that a page opens first.

    Args:
        few: Whether there is little room: states are then those of the first sequence.
    """
    head = part.head
    if part.kind != "states":
        return part
    tracks, seqs = head["tracks"][:_TRACKS], head["seqs"][: 1 if few else None]
    said = [
        *([f"the first {len(tracks)} of {len(head['tracks'])} tracks"] if len(tracks) < len(head["tracks"]) else []),
        *([f"the first of {len(head['seqs'])} sequences"] if len(seqs) < len(head["seqs"]) else []),
    ]
    remark = f"This picture has {' and '.join(said)}." if said else ""
    remark = " ".join(filter(None, [head.get("remark"), remark]))
    more = {"remark": remark} if remark else {}
    return Spec(part.kind, {**head, "tracks": tracks, "seqs": seqs, **more}, part.blocks, part.codes)


def nothing(spec: Any) -> str:
    """The text for a group without parts."""
    return "waiting for events" if spec.head.get("live") else "nothing recorded"
