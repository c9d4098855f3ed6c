"""Names of graph mode that programs may pass around; rfnb computes eagerly, so they have no effect."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from functools import partial
from types import SimpleNamespace

from rfnb.core.block import Setting, block


class ControlFlowContext:
    """The branch or loop of a graph that an op belongs to.

    Args:
        kind: "cond" or "while".
        outer_ctx: The enclosing context.
        identifier: Name for messages.
    """

    Types = SimpleNamespace(Cond="cond", While="while")

    def __init__(self, *, kind: str, outer_ctx: ControlFlowContext | None = None, identifier: str | None = None):
        self.kind, self.outer_ctx, self.identifier = kind, outer_ctx, identifier

    def __repr__(self) -> str:
        outer = f", inside {self.outer_ctx!r}" if self.outer_ctx else ""
        return f"ControlFlowContext({self.identifier or self.kind}{outer})"


_current: ContextVar[ControlFlowContext | None] = ContextVar("control_flow_ctx", default=None)


@block
def control_flow_ctx(ctx: ControlFlowContext | None = None) -> Iterator[ControlFlowContext | None]:
    """Make `ctx` current in a with-block. Nothing else changes: rfnb computes eagerly."""
    with Setting(_current, partial(_current.set, ctx)):
        yield ctx


def get_current_control_flow_ctx() -> ControlFlowContext | None:
    """The context of the enclosing with-block, or None."""
    return _current.get()
