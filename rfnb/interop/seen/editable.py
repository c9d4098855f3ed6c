"""Models whose values can be changed where they are computed: those that run their own Python code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from rfnb.core.errors import value_error


def check_editable(models: Mapping[str, Any]) -> None:
    """Raise for a model that runs what something else has made of its code.

    Raises:
        ValueError: With what works.
    """
    for prefix, model in models.items():
        for name, module in model.named_modules():
            found = _reason(module)
            if found is not None:
                path = ".".join(filter(None, [prefix, name])) or "the model"
                raise value_error(
                    f"edit: this module is {found[0]}.",
                    [("module", f"{path}, a {type(module).__name__}")],
                    f"{found[1]} Edit what it was made of:",
                    found[2],
                )


def _reason(module: torch.nn.Module) -> tuple[str, str, str] | None:
    """The kind of a module that cannot be edited, why, and what to type."""
    if isinstance(module, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return (
            "scripted",
            "Code of torch.jit is not Python any more.",
            "rf.edit(module, {...})    # before torch.jit.script(module)",
        )
    if type(module).__name__ == "OptimizedModule" and hasattr(module, "_orig_mod"):
        return (
            "compiled",
            "torch.compile runs what it has made of the code.",
            "with rf.edit(model._orig_mod, {...}): model._orig_mod(x)",
        )
    if getattr(module, "_compiled_call_impl", None) is not None:
        return (
            "compiled",
            "module.compile() runs what it has made of the code.",
            "rf.edit(module, {...})    # before module.compile()",
        )
    if type(module).__module__.startswith(("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")):
        return "quantised", "What it computes are codes.", "rf.edit(model, {...})    # before it is quantised"
    return None
