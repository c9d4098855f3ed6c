"""The graph of autograd: how an array was computed."""

from __future__ import annotations

from typing import Any, NamedTuple


class GraphPlace(NamedTuple):
    """One array in the graph: output `number` of a node, or (without node) the array with the id `number`, which came from outside.

    The node is held, since its identity is only kept as long as Python knows it.
    """

    node: Any
    number: int


def graph_place(raw: Any) -> GraphPlace | None:
    """See `Backend.graph_place_raw`."""
    if not raw.requires_grad:
        return None
    return GraphPlace(None, id(raw)) if raw.grad_fn is None else GraphPlace(raw.grad_fn, raw.output_nr)


def graph_inputs(place: GraphPlace) -> list[GraphPlace]:
    """See `Backend.graph_inputs_raw`."""
    found = []
    for node, number in () if place.node is None else place.node.next_functions:
        if node is not None:
            # Of a node that only collects the gradient of an array from outside.
            variable = getattr(node, "variable", None)
            found.append(GraphPlace(node, number) if variable is None else GraphPlace(None, id(variable)))
    return found


def graph_order(place: GraphPlace) -> int:
    """See `Backend.graph_order_raw`."""
    return -1 if place.node is None else place.node._sequence_nr()
