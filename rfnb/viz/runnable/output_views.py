"""The output of a model in a page: probabilities of the classes or labels that the function returns scores of, per position of the text.

A value that the function returns is shown if its sums say that it consists of probabilities or their logs, or if a product or a
softmax makes it. The results of a sigmoid are shown as they are, in a map. Whatever else follows a product (a tanh) makes no distribution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.tensor import Tensor
from rfnb.viz.attention.spec import spec as attention_spec
from rfnb.viz.distribution.spec import spec as distribution_spec
from rfnb.viz.runnable.program import PageProgram, units_of
from rfnb.viz.spec import Spec

_MAKES = ("linear", "log_softmax", "softmax")
_SHAPES = """named copy_transpose squeeze expand_dim gather slice merge_dims split_dims replace_dim identity set_sparse_dim stop_gradient
cast concat""".split()
_KEEPS = [*_SHAPES, *"add sub mul truediv where reduce_mean".split()]


def outputs_of(
    program: PageProgram, leaves: Sequence[Tensor], text: str, vocabularies: Sequence[Any]
) -> list[tuple[Spec, dict[str, Any]]]:
    """The views of what a function returns, each with its binding to the program.

    Args:
        leaves: What the function returns for the text: the values of `program.spec["result"]`.
        vocabularies: Labels, as lists; values have those of which there are as many as classes.
    """
    found = []
    read = [
        (block.get("given", {}).get("value"), block["as"][0]["dims"])
        for block in program.spec["blocks"]
        if "op" in block
    ]
    read += [(each.get("value"), each["dims"]) for each in program.spec["constants"]]
    of_text = {dim for value, dims in read if isinstance(value, dict) and "letters" in value for dim in dims}
    for number, (ref, leaf) in enumerate(zip(program.spec["result"], leaves, strict=True)):
        dims = dims_of(program, ref)
        sizes = [None if isinstance(dim, str) else program.spec["dims"][dim]["size"] for dim in dims]
        if not leaf.dtype.startswith("float") or "beam" in dims or not dims:
            continue
        known = [at for at, each in enumerate(sizes) if isinstance(each, int) and each > 1]
        axis = leaf.dims.index(leaf.feature_dim) if leaf.feature_dim in leaf.dims else max(known, default=0)
        size = sizes[axis]
        along = [at for at, each in enumerate(sizes) if at != axis and each != 1]
        is_map = _is_made(program, ref, ("sigmoid",), _SHAPES)
        if not isinstance(size, int) or (size < 2 and not is_map) or len(along) > 1:
            continue
        array = leaf.numpy().transpose([*(at for at in range(len(dims)) if at not in (*along, axis)), *along, axis])
        units = units_of(text, program.spec["unit"])
        array = array.reshape(array.shape[-1 - len(along) :])
        is_text = bool(along) and dims[along[0]] in of_text and len(array) == len(units)
        vocabs = [list(vocab) for vocab in (leaf.dims[axis].vocab, *vocabularies) if vocab is not None]
        labels = next(([str(each) for each in vocab] for vocab in vocabs if len(vocab) == size), None)
        names = [
            *([program.spec["unit"] if is_text else "step"] if along else []),
            "class" if labels is None else "label",
        ]
        given: dict[str, Any] = {
            "dims": names,
            "labels": labels,
            "steps": units if is_text else None,
            "title": "Output",
        }
        try:
            made = _map(array, **given) if is_map else distribution_spec(array, **given)
        except ValueError:  # they may be anything
            made = distribution_spec(array, estimated_type="logits", **given)
        if made.head.get("estimated_type") == "logits" and not _is_made(program, ref):
            continue
        head = {**made.head, "key": f"{made.kind} result {number}", "seqs": [{"label": text}]}
        bound = {
            "kind": made.kind, "head": {what: value for what, value in head.items() if what != "tokens"}, "result": number,
            "classes": dims[axis], "along": {names[0]: "text" if is_text else "numbers"} if along else {},
            "steps": dims[along[0]] if along else None, "labels": labels,
        }  # fmt: skip
        found.append((Spec(made.kind, {**made.head, "key": head["key"]}, made.blocks), bound))
    return found


def _map(array: np.ndarray, dims: Sequence[str], labels: Any, steps: Any, title: str) -> Spec:
    """The values of each class, 0 to 1, one row for each position."""
    rows, cols = ["position", *dims][-2:]
    of = {"target": ["all"] if array.ndim == 1 else steps, "source": labels, "dims": [rows, cols], "source_dim": cols}
    made = attention_spec(array.reshape(-1, array.shape[-1]), **of, title=title, scale="linear")
    made.head["maps"][0].pop("remark", None)
    made.head["range"] = [0.0, 1.0]
    return made


def _blocks_of(program: PageProgram) -> tuple[list[Any], list[Any]]:
    blocks = program.spec["blocks"]
    return blocks, [block for block in blocks if "loop" in block]


def dims_of(program: PageProgram, ref: Sequence[Any]) -> list[Any]:
    """The dims of a value by their numbers; none of one that no op has made."""
    blocks, loops = _blocks_of(program)
    if ref[0] == "output":
        return list(loops[ref[1]]["as"][ref[2]]["dims"])
    kinds = {
        number: kind
        for block in blocks
        if "op" in block
        for number, kind in zip(block["results"], block["as"], strict=True)
    }
    return list(kinds[ref[1]]["dims"]) if ref[0] == "value" else []


def _is_made(
    program: PageProgram, ref: Sequence[Any], makes: Sequence[str] = _MAKES, keeps: Sequence[str] = _KEEPS
) -> bool:
    """Whether a value comes from a product or a softmax, with nothing but sums, factors and choices behind it."""
    blocks, loops = _blocks_of(program)

    def is_made(ref: Any, ops: Sequence[Mapping[str, Any]]) -> bool:
        if not isinstance(ref, list) or not ref:
            return False
        if ref[0] == "output":
            loop = loops[ref[1]]
            return is_made(loop["outputs"][ref[2]]["value"], loop["ops"])
        if ref[0] == "frame":
            return is_made(ref[1], blocks)
        if ref[0] == "outer":
            return is_made(["value", ref[1]], blocks)
        op = next((op for op in ops if ref[0] == "value" and "op" in op and ref[1] in op["results"]), None)
        if op is None:
            return False
        given = [ref for what, value in op["given"].items() for ref in _refs(value) if what not in ("indices", "cond")]
        if op["op"] in makes or (
            op["op"] == "matmul" and "linear" in makes and any(each[0] == "constant" for each in given)
        ):
            return True
        return op["op"] in keeps and any(is_made(each, ops) for each in given)

    return is_made(list(ref), blocks)


def _refs(value: Any) -> list[Any]:
    if isinstance(value, dict) and "list" in value:
        return [ref for each in value["list"] for ref in _refs(each)]
    return [value] if isinstance(value, list) else []
