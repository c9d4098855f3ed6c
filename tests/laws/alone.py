"""The law of a single sequence as a function: alone it gives what it gives in the batch.

A case (see `laws.py`) is built twice with the same choices, once in its world and once in the world of one sequence of it. The
inputs of the second are cut from those of the first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from asserting import real_frames
from laws import Run, parts_in

import rfnb as rf
from rfnb import Dim, Tensor

# Cases in which sequences do have a part in each other, or that are not about sequences.
_NO_BATCH = "the result is for the whole batch"
_PACKED = "the frames of all sequences lie one after the other"
_DISTANCES = "starts at the distance of the longest sequences; the attention that uses it is compared"
MIXES_SEQUENCES: dict[str, str] = {
    **dict.fromkeys(["num_elements_of_shape", "masked_fraction_of_shape", "Loss", "reduce_mean of bools"], _NO_BATCH),
    **dict.fromkeys(["masked_select all dims of the mask", "masked_select_nested", "masked_scatter"], _PACKED),
    **dict.fromkeys(["pack_padded", "pad_packed"], _PACKED),
    "relative_positional_encoding added to a tensor": _DISTANCES,
    "relative_positional_encoding with an offset per sequence": _DISTANCES,
    "LearnedRelativePositionalEncoding": _DISTANCES,
    **dict.fromkeys(
        ["TwoDLSTM max", "TwoDLSTM weighted"], "the reference pools over the padding too; mask_pooling does not"
    ),
    "Parameter assign_key": "a parameter belongs to no sequence",
    "BatchNorm in training": "the statistics are those of the batch",
    "RunningMean": "the mean is over the batch",
    "normalize over the batch": "the statistics are those of the batch",
    "range_over_merged_dims with batch": "counts through all sequences",
}


def compare_alone(run: Run, change: Callable[[Tensor], Tensor] | None = None) -> int:
    """Compute each sequence alone and compare; how many results there were to compare.

    Args:
        change: {...} -> {...}, done to the inputs of floats. With another dtype a result may be off by some roundings of the
            largest number in it.

    Raises:
        AssertionError: If one differs.
    """
    compared, name, world = 0, run.name, run.world
    in_batch = None
    for sequence in range(world.batch.extent):
        alone = world.alone(sequence, run.choices)
        own_call, like = run.case(alone)
        if [_names(x) for x in run.inputs] != [_names(x) for x in like]:
            continue  # the case does something else for an empty sequence
        own_inputs = [_cut(x, other, world.batch, sequence) for x, other in zip(run.inputs, like)]
        if in_batch is None:
            found = run.clean if change is None else run.call(*_changed(run.inputs, change))
            in_batch = list(parts_in(found, (Tensor, Dim)))
        own_inputs = own_inputs if change is None else _changed(own_inputs, change)
        results = in_batch, list(parts_in(own_call(*own_inputs), (Tensor, Dim)))
        if [type(x) for x in results[0]] != [type(x) for x in results[1]] and not alone.char.extent:
            continue
        for together, own in zip(*results, strict=True):
            if isinstance(own, Dim):
                compared += _compare_lengths(name, together, own, world.batch, sequence)
            elif world.batch in together.dims:
                if not _are_alike(together, own, sequence):
                    assert not alone.char.extent, f"{name}: {together}, alone {own}"
                    continue
                assert together.dtype == own.dtype, name
                got = _cut(together, own, world.batch, sequence).numpy()
                real = real_frames(own.dims)
                expected, off = own.numpy()[real], 2e-5
                if own.dtype == "float16":
                    finite = np.abs(expected[np.isfinite(expected)].astype(np.float32))
                    off = 16 * 2**-11 * max(1.0, finite.max(initial=0.0))
                np.testing.assert_allclose(got[real], expected, rtol=2e-5, atol=off, err_msg=f"{name}: {own}")
                compared += 1
    return compared


def _changed(inputs: list[Tensor], change: Callable[[Tensor], Tensor]) -> list[Tensor]:
    return [change(x) if x.dtype == "float32" else x for x in inputs]


def _are_alike(together: Tensor, own: Tensor, sequence: int) -> bool:
    """Whether the dims have the same names, or lengths that are the same for this sequence: a sum that is clipped for another one has
    another name."""
    if len(together.dims) != len(own.dims):
        return False
    return all(
        a.name == b.name or _length(a, sequence) is not None and _length(a, sequence) == _length(b, 0)
        for a, b in zip(together.dims, own.dims)
    )


def _length(dim: Dim, sequence: int) -> int | None:
    return None if dim.lengths is None or dim.lengths.ndim != 1 else int(dim.lengths[sequence])


def _names(x: Tensor) -> list[str]:
    return [dim.name for dim in x.dims]


def _cut(x: Tensor, like: Tensor, batch: Dim, sequence: int) -> Tensor:
    """The part of x that is of this sequence, with the dims of `like`."""
    values = x.numpy()
    for axis, (dim, own) in enumerate(zip(x.dims, like.dims)):
        part = slice(sequence, sequence + 1) if dim is batch else slice(own.extent)
        values = values[(slice(None),) * axis + (part,)]
    return rf.convert_to_tensor(
        np.array(values), dims=like.dims, sparse_dim=like.sparse_dim, feature_dim=like.feature_dim
    )


def _compare_lengths(name: str, together: Dim, own: Dim, batch: Dim, sequence: int) -> int:
    if together.lengths is None or together.length_dims != (batch,):
        return 0
    assert own.lengths.tolist() == [together.lengths[sequence]], f"{name}: {together}, alone {own}"
    return 1
