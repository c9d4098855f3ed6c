"""The one place that attention weights pass before something attends with them: for who changes them, and for who records them.

    weights = attended(softmax(energy, axis=time), axis=time)
    out = matmul(weights, values, reduce=time)

Where nobody has hold of the run and nobody records this is a look at two variables. An attention without weights, in a fused kernel,
asks `are_edited` first.
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
    """The weights to attend with: `weights`, or what who holds the run has put into the place of some of their rows.

    What was put there is a constant for gradients, and of the dims and the dtype of `weights`.

    Args:
        weights: {..., axis}, before dropout.
        axis: Attended over.
        values: What is attended to, which tells where in the weights the query positions are (`attending_dim`).
        target: Their dim, for who knows it.
        seen: bool {..., axis}: where a query may look besides the padding of `axis`. Default: everywhere.

    Probes:
        attention: what it gives.
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
    """Let whoever records have the weights that a fused kernel has attended with; it is too late to change them."""
    if listening("attention"):
        probe("attention", weights=weights, axis=axis, target=target)


def attending_dim(weights: Tensor, values: Tensor, axis: Dim) -> Dim | None:
    """The dim of the query positions, which the values lack; None if that is not one dim. For views, which cannot tell it from heads."""
    found = [dim for dim in weights.dims if dim is not axis and dim not in values.dims and dim.kind != "beam"]
    return found[0] if len(found) == 1 else None


def are_edited() -> bool:
    """Whether weights that are made here are to be others: then they are made one by one, and passed through `attended`."""
    hold = holding()
    return (hold is not None and hold.edits_attention()) or bool(weights_edits())


def note_fused(query: Tensor, key_dim: Dim, axis: Dim) -> None:
    """Something has attended without weights, which would be over the dims of the query and `axis`."""
    hold = holding()
    if hold is not None:
        hold.note_attention((*(dim for dim in query.dims if dim is not key_dim), axis), axis)
