"""The output distribution of a model over its vocabulary: logits from the product that makes them, or the result of F.log_softmax.

An nn.Linear makes logits if its weight is tied to an embedding; if the user gave labels for it, or named its last axis
"vocab"; if it is called lm_head, generator, classifier or similar; or if it is the last product of the model and as
wide as an embedding has entries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from rfnb.core.dim import Dim
from rfnb.interop.seen.calls import Call, argument, around
from rfnb.interop.seen.function_calls import sees
from rfnb.interop.seen.hf_inputs import MODEL
from rfnb.interop.seen.readers import reads
from rfnb.interop.seen.snapshot import ValueSnapshot, say_changed
from rfnb.trace.probe import Later, listening, probe_later

_NAMES = {
    "lm_head",
    "generator",
    "classifier",
    "output_projection",
    "vocab_projection",
    "to_logits",
    "logits",
    "ctc_head",
    "score_head",
}


def output_modules(paths: Mapping[str, nn.Module], names: Any) -> set[int]:
    """The ids of the modules that make logits.

    Args:
        paths: The modules of all models.
        names: Has the names given by the user.
    """
    embeddings = [module for module in paths.values() if isinstance(module, (nn.Embedding, nn.EmbeddingBag))]
    weights, sizes = {id(each.weight) for each in embeddings}, {each.num_embeddings for each in embeddings}
    linear = {path: module for path, module in paths.items() if isinstance(module, nn.Linear)}
    inside = tuple(f"{path}." if path else "" for path, module in paths.items() if _says_itself(module))
    apart = {id(module) for path, module in linear.items() if path.startswith(inside)}
    products = {path: module for path, module in linear.items() if id(module) not in apart}
    last = next(reversed(products.values()), None)
    return {
        id(module)
        for path, module in products.items()
        if id(module.weight) in weights
        or path.rpartition(".")[2] in _NAMES
        or (module is last and module.out_features in sizes)
        or names.is_labelled(module)
        or names.is_said(module, "vocab")
    }


def _says_itself(module: nn.Module) -> bool:
    """Whether its output type identifies the logits (`hf_outputs.py`)."""
    return any(f"{base.__module__}.{base.__qualname__}" == MODEL for base in type(module).__mro__)


@reads(nn.Linear)
def logits(call: Call, result: Any) -> None:
    """Send the logits {..., vocab} of the output layer."""
    if id(call.module) in call.names.outputs and isinstance(result, torch.Tensor) and call.tensors():
        _, source = call.tensors()[0]
        _offer(call, "logits", result, -1, result.shape[-1], call.names.of(source))


@sees(F, "log_softmax")
@sees(torch, "log_softmax")
def log_softmax(call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
    """Send log probabilities, unless the logits were already sent."""
    if any(_says_itself(each.module) for each in around(call)):
        return
    source, axis = argument(args, kwargs, 0, "input"), argument(args, kwargs, 1, "dim")
    known = call.names.of(source)
    if not isinstance(axis, int) or (
        known is not None and known[axis].name == "vocab" and known[axis] in call.names.offered
    ):
        if known is not None:
            call.names.give(result, known)
        return
    _offer(call, "log_probs", result, axis, result.shape[axis], known)


def _offer(call: Call, name: str, result: torch.Tensor, axis: int, size: int, like: Sequence[Dim] | None) -> None:
    names, axis = call.names, axis % result.ndim
    vocab = names.vocab_dim(call, size)
    roles: list[Any] = list(like) if like is not None else [None] * result.ndim
    roles[axis] = vocab
    dims = names.dims(result, roles, call)
    names.offered.add(vocab)
    if not listening("outputs"):
        return
    kept = ValueSnapshot(result)

    def make() -> dict[str, Any]:
        if not kept.is_same:
            say_changed("scores", call.path, "output", "nothing")
            return {"axis": vocab}
        return {name: names.seen(kept.raw, dims, name), "axis": vocab}

    probe_later("outputs", Later(make, result.nbytes))
