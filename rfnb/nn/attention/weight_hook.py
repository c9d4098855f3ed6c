"""Single hook point for attention weights, used for editing and recording.

    weights = attended(softmax(energy, axis=time), axis=time)
    out = matmul(weights, values, reduce=time)

Without a held run or a recording this only reads two variables. A fused kernel, which computes no weights, calls `are_edited` first.
"""

from __future__ import annotations

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.rec.hold import holding
from rfnb.trace.editing import weights_edits
from rfnb.trace.probe import listening, probe


def attended(
    weights: Tensor, *, axis: Dim, values: Tensor | None = None, target: Dim | None = None, seen: Tensor | None = None
) -> Tensor:
    """The weights to attend with: `weights`, with some rows replaced if a held run edits them.

    Replaced rows are constants for gradients, with the dims and dtype of `weights`.

    Args:
        weights: {..., axis}, before dropout.
        axis: Attended over.
        values: The values attended to, which determine the dim of the query positions (`attending_dim`).
        target: The dim of the query positions, if known.
        seen: bool {..., axis}: which positions a query may attend to, apart from the padding of `axis`. Default: all.

    Probes:
        attention: the result.
    """
    if holding() is None and not listening("attention"):
        return weights
    if target is None and values is not None:
        target = attending_dim(weights, values, axis)
    return _attended(weights, seen, axis=axis, target=target)


@op(of="attended")
def _attended(weights: Tensor, seen: Tensor | None, *, axis: Dim, target: Dim | None) -> Tensor:
    hold = holding()
    if hold is not None:
        weights = hold.attended(weights, axis, seen)
    for edit in weights_edits():
        assert edit.put is not None
        weights = edit.put(weights, axis)
    offer(weights, axis, target)
    return weights


def offer(weights: Tensor, axis: Dim, target: Dim | None) -> None:
    """Send the weights of a fused kernel to recordings. They can no longer be changed."""
    if listening("attention"):
        probe("attention", weights=weights, axis=axis, target=target)


def attending_dim(weights: Tensor, values: Tensor, axis: Dim) -> Dim | None:
    """The dim of the query positions, which the values lack; None unless exactly one dim qualifies. Views cannot tell it
    from the heads without this.
    """
    found = [dim for dim in weights.dims if dim is not axis and dim not in values.dims and dim.kind != "beam"]
    return found[0] if len(found) == 1 else None


def are_edited() -> bool:
    """True if weights computed here are to be edited: they are then computed explicitly and passed through `attended`."""
    hold = holding()
    return (hold is not None and hold.edits_attention()) or bool(weights_edits())


def note_fused(query: Tensor, key_dim: Dim, axis: Dim) -> None:
    """Record that a fused kernel attended without weights; these would be over the dims of the query and `axis`."""
    hold = holding()
    if hold is not None:
        hold.note_attention((*(dim for dim in query.dims if dim is not key_dim), axis), axis)
