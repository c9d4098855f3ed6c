"""Metrics: the numbers measured in a run of a model, how the model is called, and which modules are its layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from rfnb.core.errors import type_error, value_error
from rfnb.interop.seen.edit_checks import check_editable, check_whole

Metric = Callable[[Any], Any] | int | tuple[int, int]
"""A function of what the model returns, that gives a number or one for each sequence; or of the logits at the last position those of a
label, or of one label minus those of another: a margin."""


def called(model: torch.nn.Module, inputs: Any) -> Any:
    """The result of a model for inputs: a tensor, a tuple of arguments, or a dict of named arguments."""
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple) else model(inputs)


def check_model(what: str, model: Any, *, whole: bool = True) -> None:
    """Raise an error unless a model is a torch module and, if all of it is needed, all its parts run their own Python code."""
    if not isinstance(model, torch.nn.Module):
        raise type_error(
            f"{what}: the model is not a torch.nn.Module.",
            {"model": type(model).__name__},
            "For a Module of rfnb, make each run with rf.edit, or wrap it as a torch module:",
            f'rf.{what}(rf.as_torch(module, inputs="batch time feat"), ...)',
        )
    if whole:
        check_whole(what, model)


def measured(what: str, metric: Metric, output: Any) -> torch.Tensor:
    """The measured numbers of an output: (), or (batch,).

    Raises:
        ValueError: If it has no logits, or the metric does not return numbers.
    """
    if callable(metric):
        found = metric(output)
        value = found if isinstance(found, torch.Tensor) else torch.as_tensor(found, device="cpu")
    else:
        scores = logits_of(what, output)
        last = scores[:, -1] if scores.ndim == 3 else scores
        value = last[:, metric[0]] - last[:, metric[1]] if isinstance(metric, tuple) else last[:, metric]
    if value.ndim > 1:
        raise value_error(
            f"{what}: the metric returns more than one number per sequence.",
            {"given": tuple(value.shape)},
            "A metric returns one number, or one per sequence; a pair of labels stands for the margin between them at the last position.",
            f"rf.{what}(..., metric=lambda output: output.logits[:, -1, 3])",
        )
    return value


def logits_of(what: str, output: Any) -> torch.Tensor:
    """The logits of an output."""
    scores = output if isinstance(output, torch.Tensor) else getattr(output, "logits", None)
    if not isinstance(scores, torch.Tensor) or scores.ndim not in (2, 3):
        raise value_error(
            f"{what}: the result of the model has no logits.",
            {"returned": type(output).__name__},
            "Logits are a tensor {batch, time, vocab} or {batch, label}, or a field of this name. Otherwise pass a metric:",
            f"rf.{what}(..., metric=lambda output: ...)",
        )
    return scores


def layers_of(what: str, model: torch.nn.Module, layers: Sequence[str] | None) -> list[str]:
    """The paths of the layers: the given ones, else the longest list of modules of one class; in an encoder-decoder those of the decoder.

    Raises:
        ValueError: If there is no such list.
    """
    modules = dict(model.named_modules())
    if layers is not None:
        missing = [path for path in layers if path not in modules]
        if missing or not layers:
            raise value_error(
                f"{what}: no such layers.",
                {"given": ", ".join(layers) or "none", "missing": ", ".join(missing) or "all"},
                "Layers are given by their whole paths, in the order in which they run.",
                f'rf.{what}(..., layers=["{next((path for path in modules if path), "")}"])',
            )
        return _all_editable(what, modules, layers)
    lists = [
        (path, list(module))
        for path, module in modules.items()
        if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential))
    ]
    lists = [
        (path, parts) for path, parts in lists if len(parts) and max(Counter(map(type, parts)).values()) == len(parts)
    ]
    if not lists:
        raise value_error(
            f"{what}: the layers are unknown.",
            {"model": type(model).__name__},
            "The model has no list of modules of one class. Pass the paths of its layers, in the order in which they run:",
            f'rf.{what}(..., layers=["block1", "block2"])',
        )
    path, parts = max(reversed(lists), key=lambda pair: (len(pair[1]), "decoder" in pair[0]))
    return _all_editable(what, modules, [f"{path}.{number}" if path else str(number) for number in range(len(parts))])


def _all_editable(what: str, modules: Mapping[str, Any], paths: Sequence[str]) -> list[str]:
    for path in paths:
        check_editable(what, modules, path)
    return list(paths)
