"""Recurrent modules of torch."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence

from rfnb.interop.seen.calls import Call
from rfnb.interop.seen.readers import reads


@reads(torch.nn.RNNBase)
def dims_of_recurrent(call: Call, result: Any) -> None:
    """The dims of what a recurrent module returns: the sequence, and the last states {layer, batch, feature}."""
    output, last = result
    if isinstance(output, PackedSequence) or not call.tensors():
        return
    dims = call.names.of(call.tensors()[0][1])
    if dims is None:
        return
    call.names.dims(output, [*dims[:-1], "feature"], call)
    batch = [dims[0 if call.module.batch_first else 1]] if len(dims) == 3 else []
    for state in last if isinstance(last, tuple) else (last,):
        call.names.dims(state, ["layer", *batch, "feature"], call)
