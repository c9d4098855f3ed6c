"""Gradients of a module's parameters and its input, computed in two ways, compared."""

from collections.abc import Callable
from typing import Any

import torch


def assert_same_gradients(module: Any, raw: torch.Tensor, *ways: Callable[[torch.Tensor], list[torch.Tensor]]) -> None:
    """Each way maps a raw input to results, e.g. one for each sequence; their gradients are equal, and some are not 0.

    Raises:
        AssertionError: With the name of the parameter (or "input").
    """
    first, *others = (_gradients(module, raw, way) for way in ways)
    for other in others:
        for name, gradient in first.items():
            torch.testing.assert_close(
                other[name], gradient, rtol=2e-3, atol=2e-4, msg=lambda text, name=name: f"{name}: {text}"
            )  # fmt: skip
    assert any(gradient.abs().max() > 0.1 for gradient in first.values())


def _gradients(module: Any, raw: torch.Tensor, way: Callable[[torch.Tensor], list[torch.Tensor]]) -> dict[str, Any]:
    raw = raw.detach().clone().requires_grad_()
    parameters = {name: p.raw_tensor for name, p in module.named_parameters() if p.trainable}
    for parameter in parameters.values():
        parameter.grad = None
    torch.cat([result.flatten() for result in way(raw)]).sin().sum().backward()  # not the same for all results
    return {name: p.grad if p.grad is not None else torch.zeros_like(p) for name, p in parameters.items()} | {
        "input": raw.grad
    }
