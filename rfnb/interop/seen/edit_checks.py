"""Check whether values of a model can be edited: it must run its own Python code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from rfnb.core.errors import value_error


def check_editable(what: str, modules: Mapping[str, Any], path: str, part: str = "") -> None:
    """Raise an error for a place inside a module that runs converted code. The rest of the model may still be editable.

    Args:
        what: The calling function of rf.
        modules: The modules of the model by path.
        path, part: The place, as in a `ValueEdit`.

    Raises:
        ValueError: With what works.
    """
    names = path.split(".") if path else []
    for around in dict.fromkeys(".".join(names[:count]) for count in range(len(names) + 1)):
        found = _REASONS.get(form_of(modules[around])) if around in modules else None
        # Inputs and outputs of a quantised module are model tensors; quantised codes are refused there.
        if found is not None and not (found[0] == "quantised" and around == path and part in ("", "input")):
            _refuse(what, around, modules[around], *found)


def check_whole(what: str, model: torch.nn.Module) -> None:
    """Raise an error for a model with any module that runs converted code.

    Raises:
        ValueError: With what works.
    """
    for path, module in model.named_modules():
        found = _REASONS.get(form_of(module))
        if found is not None:
            _refuse(what, path, module, *found)


def _refuse(what: str, path: str, module: Any, kind: str, rule: str, fix: str) -> None:
    raise value_error(
        f"{what}: this module is {kind}.",
        {"module": f"{path or 'the model'}, a {type(module).__name__}"},
        f"{rule} Use the original module:",
        fix.replace("rf.edit", f"rf.{what}"),
    )


_REASONS = {
    "scripted": (
        "scripted",
        "Scripted code does not run in Python.",
        "rf.edit(module, ...)    # before torch.jit.script(module)",
    ),
    "wrapped": (
        "compiled",
        "torch.compile runs compiled code in its place.",
        "rf.edit(model._orig_mod, ...)",
    ),
    "compiled": (
        "compiled",
        "module.compile() runs compiled code in its place.",
        "rf.edit(module, ...)    # before module.compile()",
    ),
    "quantised": (
        "quantised",
        "It computes with integer codes.",
        "rf.edit(model, ...)    # before it is quantised",
    ),
}
"""By the form of a module: its kind, why it cannot be edited, and what to type."""


def form_of(module: torch.nn.Module) -> str:
    """The form of a module that does not run its own Python code; "" for others."""
    if isinstance(module, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return "scripted"
    if type(module).__name__ == "OptimizedModule" and hasattr(module, "_orig_mod"):
        return "wrapped"
    if getattr(module, "_compiled_call_impl", None) is not None:
        return "compiled"
    quantised = type(module).__module__.startswith(("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized"))
    return "quantised" if quantised else ""
