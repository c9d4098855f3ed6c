"""The attentions of the layers of a model as one view: what `layers.0.self_att`, `layers.1.self_att`, ... have recorded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rfnb.viz.attention import badges
from rfnb.viz.attention.maps import finished, index_of
from rfnb.viz.spec import Spec


def pattern_of(path: str) -> str | None:
    """The path with its numbers left open, "layers.*.self_att"; None without numbers."""
    parts = path.split(".")
    return ".".join("*" if part.isdigit() else part for part in parts) if any(map(str.isdigit, parts)) else None


def layers_of(paths: Sequence[str]) -> tuple[str, list[str]]:
    """The common form of paths that differ in numbers only, and the layer that each is: "layers.*.self_att", ["layer 0", "layer 1"]."""
    rows = [path.split(".") for path in paths]
    numbers = [at for at, part in enumerate(rows[0]) if part.isdigit()]
    # A number that all have is no layer: that of a part of an nn.Sequential.
    differ = [at for at in numbers if len({row[at] for row in rows}) > 1] or numbers
    labels = [", ".join(f"{_singular(row[at - 1]) if at else 'layer'} {row[at]}" for at in differ) for row in rows]
    return ".".join("*" if at in differ else part for at, part in enumerate(rows[0])), labels


def _singular(name: str) -> str:
    if len(name) < 2 or name.isdigit():  # "h" of GPT-2
        return "layer"
    return name[:-1] if name.endswith("s") and not name.endswith("ss") and len(name) > 3 else name


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
    lows, highs = zip(*(spec.head["range"] for spec in (one, other)))
    return finished(head, blocks, found[0] + found[1], (min(lows), max(highs)))
