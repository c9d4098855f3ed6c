"""Binds `x.mark_as_loss`, `x.mark_as_output` and `x.mark_as_default_output`, shortcuts to the current run context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.nn.run import run_ctx


def mark_as_loss(self: Tensor, name: str, **options: Any) -> None:
    """Make this, not reduced, a loss of the step; see `RunCtx.mark_as_loss`."""
    run_ctx.get_run_ctx().mark_as_loss(self, name, **options)


def mark_as_output(
    self: Tensor, name: str, *, shape: Sequence[Dim] | None = None, dims: Sequence[Dim] | None = None
) -> None:
    """Make this an output of the step; see `RunCtx.mark_as_output`. `shape` is the documented name of `dims` here."""
    run_ctx.get_run_ctx().mark_as_output(self, name, dims=shape if dims is None else dims)


def mark_as_default_output(self: Tensor, *, shape: Sequence[Dim] | None = None) -> None:
    """Make this the output "output" of the step; see `RunCtx.mark_as_output`."""
    run_ctx.get_run_ctx().mark_as_default_output(self, shape=shape)


def bind() -> None:
    """Make `mark_as_loss` and its kin methods of Tensor."""
    for method in (mark_as_loss, mark_as_output, mark_as_default_output):
        setattr(Tensor, method.__name__, method)


bind()
