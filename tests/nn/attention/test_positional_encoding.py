"""Sinusoidal encodings against the formula, number by number."""

import math

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, tensor

import rfnb as rf
from rfnb import Dim, single_step_dim

batch, feat, odd = Dim(2, name="batch"), Dim(6, name="feat"), Dim(5, name="odd")


def signal(position, size, base=10000.0):
    half = size // 2
    angles = [position * base ** (-m / max(half - 1, 1)) for m in range(half)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles] + [0.0] * (size % 2)


def of_distance(distance, size):
    """Dai et al. 2019: the wavelengths rise by a factor of 10000^(2 / size), and do not reach 10000 * 2π."""
    angles = [distance / 10000 ** (2 * m / size) for m in range(size // 2)]
    return [math.sin(a) for a in angles] + [math.cos(a) for a in angles] + [0.0] * (size % 2)


def test_sines_come_first_then_cosines():
    time = Dim(4, name="time")
    out = rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=feat)
    assert out.dims == (time, feat) and out.feature_dim is feat and out.dtype == "float32"
    assert_same(out, [signal(position, 6) for position in range(4)])


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_small_and_odd_sizes(size):
    time, own = Dim(4, name="time"), Dim(size, name="own")
    expected = [signal(position, size) for position in range(4)]
    assert_same(rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=own), expected)
    assert_same(rf.sinusoidal_encoding(rf.range_over_dim(time), feat_dim=own), expected)


def test_another_base_and_dtype():
    time = Dim(3, name="time")
    out = rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=feat, base=100.0, dtype="float64")
    assert_same(out, [signal(position, 6, 100.0) for position in range(3)], tolerance=1e-12)


def test_a_ragged_dim_has_the_same_positions_in_every_sequence():
    time = ragged([3, 1], batch)
    out = rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=feat)
    assert_same(out, [signal(position, 6) for position in range(3)])


def test_the_table_is_made_once_per_size():
    a, b = (rf.sinusoidal_positional_encoding(spatial_dim=Dim(7, name=name), feat_dim=feat) for name in "ab")
    assert a.raw_tensor is b.raw_tensor


def test_offsets_per_sequence_and_for_all():
    time = Dim(3, name="time")
    out = rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=odd, offset=tensor([0, 4], batch))
    assert_same(
        out.copy_transpose([batch, time, odd]), [[signal(o + i, 5) for i in range(3)] for o in (0, 4)]
    )  # fmt: skip
    out = rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=odd, offset=4)
    assert_same(out, [signal(4 + i, 5) for i in range(3)])


def test_a_single_step():
    out = rf.sinusoidal_positional_encoding(spatial_dim=single_step_dim, feat_dim=feat, offset=tensor([0, 9], batch))
    assert_same(out, [signal(0, 6), signal(9, 6)])
    assert_same(rf.sinusoidal_positional_encoding(spatial_dim=single_step_dim, feat_dim=feat, offset=9), signal(9, 6))


def test_a_single_step_without_offset():
    with raises_message(ValueError, """
        sinusoidal_positional_encoding: which position is this step?
          spatial_dim  single_step_dim
          offset       None
        A single step does not know the number of previous steps.
            rf.sinusoidal_positional_encoding(spatial_dim=rf.single_step_dim, offset=step, ...)
    """):  # fmt: skip
        rf.sinusoidal_positional_encoding(spatial_dim=single_step_dim, feat_dim=feat)


def test_encoding_of_indices_over_any_dims():
    out = rf.sinusoidal_encoding(tensor([[1, 2, 0], [5, 100, 3]], batch, time := Dim(3, name="time")), feat_dim=feat)
    assert set(out.dims) == {batch, time, feat} and out.sparse_dim is None and out.feature_dim is feat
    assert_same(out, [[signal(p, 6) for p in row] for row in ([1, 2, 0], [5, 100, 3])])


@pytest.mark.parametrize("size", [1, 2, 3, 5, 6])
@pytest.mark.parametrize("offset", [0, 2, 70])
def test_distances_rise_and_are_negative_for_keys_in_the_past(offset, size):
    queries, keys, own = Dim(3, name="queries"), Dim(4, name="keys"), Dim(size, name="own")
    dims = {"query_spatial_dim": queries, "key_value_spatial_dim": keys, "feat_dim": own}
    out, distance = rf.relative_positional_encoding(**dims, query_offset=offset)
    assert out.dims == (distance, own) and distance.size == 6 and out.feature_dim is own
    per_sequence, _ = rf.relative_positional_encoding(**dims, query_offset=tensor([offset, 1], batch))
    per_sequence = per_sequence.copy_transpose([batch, distance, own]).numpy()
    for query in range(3):
        for key in range(4):
            place = key - query + 2  # where query and key are found
            for got, shift in ((out.numpy(), offset), (per_sequence[0], offset), (per_sequence[1], 1)):
                assert got[place].tolist() == pytest.approx(of_distance(key - (query + shift), size), abs=1e-5)


def test_distances_of_a_single_query():
    out, distance = rf.relative_positional_encoding(
        query_spatial_dim=single_step_dim, key_value_spatial_dim=Dim(4, name="keys"), feat_dim=feat, query_offset=3
    )
    assert distance.size == 4
    assert_same(out, [of_distance(key - 3, 6) for key in range(4)])


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_positions_in_a_tensor_lose_no_digits(dtype):
    """Neither beyond 16 bits of a position, nor those of float64."""
    time, far = Dim(2, name="time"), 4099
    tolerance = {"float64": 1e-12, "float32": 1e-3, "bfloat16": 1e-2, "float16": 2e-3}[dtype]
    out = rf.sinusoidal_positional_encoding(
        spatial_dim=time, feat_dim=feat, offset=tensor([far, 0], batch), dtype=dtype
    )  # fmt: skip
    out = rf.cast(out, "float64").copy_transpose([batch, time, feat])
    expected = [[signal(first + i, 6) for i in range(2)] for first in (far, 0)]
    assert_same(out, rf.convert_to_tensor(np.array(expected), dims=out.dims), tolerance=tolerance)
