"""Networks in RETURNN's dict notation: the way in. What they are made of is in `rfnb/interop/net/`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rfnb.interop.net.network import DictNetwork


def net_from_dict(
    network: Mapping[str, Any],
    extern_data: Mapping[str, Any],
    *,
    search: bool = False,
    loop: str = "with",
    optimize_move_layers_out: bool | None = None,
) -> DictNetwork:
    """A network that is described as a dict of layers, as a Module: {layer name: {"class": ..., "from": ..., options}}.

    Loops ("class": "rec" with a network as unit) run on `rf.Loop`, units by name on `rf.Rec`.

    Args:
        network: The layers. Dims are Dim objects, or texts "<dim NAME:SIZE>", of which equal ones are the same dim.
        extern_data: The inputs: {key: {"dim": 40}}, {"dim": 100, "sparse": True}, {"shape": (None, 3), "dim": 3}, or {"dim_tags":
            [...]}. Dims of two inputs are different ones unless they are declared as one, whatever their lengths.
        search: Whether choices search; else they give out the labels of their targets.
        loop: "with": the body of a loop is recorded once, and what does not need the state runs for all steps at once; "for":
            each step runs in Python. Both give the same numbers.
        optimize_move_layers_out: Whether recorded loops move anything out. Default: as the dict says, else yes.

    Returns:
        The network; `set_parameters` sets its parameters by path, a call gives the outputs by layer name.

    Raises:
        ValueError: An unknown layer class, option, activation or layer name; the message lists what is near.

    Source: the documentation of RETURNN, "Network", and that of its layer classes.
    """
    from rfnb.interop.net.network import DictNetwork  # with all classes of layers: too much for `import rfnb`

    return DictNetwork(network, extern_data, search=search, loop=loop, move_out=optimize_move_layers_out)
