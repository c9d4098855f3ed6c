"""The attentions of the layers of a model as one view: what `layers.0.self_att`, `layers.1.self_att`, ... have recorded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rfnb.viz.attention import badges
from rfnb.viz.attention.maps import finished, index_of
from rfnb.viz.spec import Spec


def layer_of(path: str) -> tuple[str, str] | None:
    """The path with its numbers left open, and which layer it is: ("layers.*.self_att", "layer 0"); None without numbers."""
    parts = path.split(".")
    numbers = [index for index, part in enumerate(parts) if part.isdigit()]
    if not numbers:
        return None
    names = [f"{_singular(parts[index - 1]) if index else 'layer'} {parts[index]}" for index in numbers]
    return ".".join("*" if index in numbers else part for index, part in enumerate(parts)), ", ".join(names)


def _singular(name: str) -> str:
    return name[:-1] if name.endswith("s") and not name.endswith("ss") and len(name) > 3 else name or "layer"


def joined_layers(one: Spec, other: Spec, labels: Sequence[str]) -> Spec:
    """The maps of two specs as one view: the layers of the other come after those of the one.

    Args:
        labels: Of all layers.
    """
    maps, blocks = [*one.head["maps"]], dict(one.blocks)
    seqs = [*one.head["seqs"]]
    heads = [*one.head["heads"]]
    first = len(one.head["layers"])
    rename = {name: f"{first}.{name}" for name in other.blocks}
    blocks.update({rename[name]: block for name, block in other.blocks.items() if name != "badges"})
    for entry in other.head["maps"]:
        layer, head = entry["at"]
        at = [first + layer, index_of(heads, other.head["heads"][head])]
        where = []
        for seq in (other.head["seqs"][index] for index in entry["seqs"]):
            if seq not in seqs:
                seqs.append(seq)
            where.append(seqs.index(seq))
        own = {name: rename[entry[name]] for name in ("mask", "slots") if name in entry}
        maps.append({**entry, **own, "at": at, "block": rename[entry["block"]], "seqs": where})
    for entry in maps:
        layer, head = entry["at"]
        entry["label"] = ", ".join(filter(None, [labels[layer], heads[head]]))
    found = [
        [*spec.blocks.get("badges", np.full((len(spec.head["maps"]), 1, len(badges.NAMES)), np.nan))]
        for spec in (one, other)
    ]
    blocks.pop("badges", None)
    head = {**one.head, "maps": maps, "seqs": seqs, "layers": [*labels], "heads": heads}
    return finished(head, blocks, found[0] + found[1])
