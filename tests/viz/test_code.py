"""Coded blocks and frames: what goes to a page, byte for byte."""

from __future__ import annotations

import base64
import json
import math
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from viz.stored_files import assert_stored

from rfnb.viz.code import LEVELS, BlockCode, decode, encode
from rfnb.viz.spec import Spec, from_json, pack, to_json, unpack

ODD = np.array([[0, 1, 0.25], [math.nan, math.inf, -math.inf], [1e-3, 0.5, 0.04]], np.float32)


def coded_spec() -> Spec:
    """A block of each kind."""
    exact = np.arange(12, dtype=np.float32).reshape(1, 3, 4) / 7
    weights, of_weights = encode(ODD[None], "sqrt", shape=(1, 3, 3), pool=(1, 1, 1))
    signed, of_signed = encode(ODD[None] - 0.5, "linear", shape=(1, 3, 3), pool=(1, 1, 1), step=6)
    pooled, of_pooled = encode(ODD[None, :2], "sqrt", shape=(1, 3, 7), pool=(1, 2, 3), step=3)
    blocks = {"exact": exact, "weights": of_weights, "signed": of_signed, "pooled": of_pooled}
    return Spec("states", {"title": "ä"}, blocks, {"weights": weights, "signed": signed, "pooled": pooled})


def values_of(spec: Spec) -> dict[str, np.ndarray]:
    return {
        name: decode(block, spec.codes[name]) if name in spec.codes else block for name, block in spec.blocks.items()
    }


def test_a_frame_of_coded_blocks_is_the_stored_one():
    """widgets/tests/frame.test.ts reads the same frame."""
    spec = coded_spec()
    numbers = {
        name: [
            {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}.get(str(v), str(v)) for v in map(float, block.flat)
        ]
        for name, block in values_of(spec).items()
    }
    frame = pack(spec, level=0)  # deflating differs between versions of zlib
    assert_stored("coded.json", {"frame": base64.b64encode(frame).decode(), "values": numbers})


@pytest.mark.parametrize("level", [0, 1, 9])
def test_a_frame_gives_back_blocks_and_codes(level):
    spec = coded_spec()
    for back in (unpack(pack(spec, level=level)), from_json(json.loads(json.dumps(to_json(spec))))):
        assert back.head == spec.head and dict(back.codes) == dict(spec.codes)
        for name, block in spec.blocks.items():
            assert back.blocks[name].dtype == block.dtype and np.array_equal(back.blocks[name], block)


floats = st.floats(width=32, allow_subnormal=False)


@given(
    arrays.arrays(np.float32, arrays.array_shapes(min_dims=1, max_dims=3, max_side=9), elements=floats),
    st.sampled_from(["sqrt", "linear"]),
    st.sampled_from([1, 2, 3, 6]),
)
@settings(max_examples=200, deadline=None)
def test_values_come_back_to_half_a_level_and_what_is_no_number_exactly(values, kind, step):
    code, levels = encode(values, kind, shape=values.shape, pool=(1,) * values.ndim, step=step)
    back = decode(unpack(pack(Spec("states", {}, {"b": levels}, {"b": code}))).blocks["b"], code)
    assert back.shape == values.shape
    odd = ~np.isfinite(values)
    np.testing.assert_array_equal(back[odd], values[odd])
    assert (back[values == 0] == 0).all(), "zero is zero"
    size = np.float64(code.high) - code.low
    root = np.sqrt if code.kind == "sqrt" else np.asarray
    shares = [root((one[~odd].astype(np.float64) - code.low) / size) for one in (values, back)]
    assert (np.abs(shares[0] - shares[1]) <= 0.5 * step / LEVELS + 1e-6).all()


def test_values_that_share_a_byte_are_the_same():
    code, levels = encode(ODD[None, :2], "sqrt", shape=(1, 3, 7), pool=(1, 2, 3))
    back = decode(levels, code)
    assert code.stored_shape == levels.shape == (1, 2, 3)
    np.testing.assert_array_equal(back[0, 0], np.array([0, 0, 0, 1, 1, 1, np.float32(0.25)], np.float32))
    np.testing.assert_array_equal(back[0, 0], back[0, 1])
    np.testing.assert_array_equal(back[0, 2, ::3], [math.nan, math.inf, -math.inf])


def frame_of(entry: dict, data: bytes, *, size: int | None = None, version: int = 2, head: object = None) -> bytes:
    """A frame with one block, by hand: it may lie."""
    text = json.dumps({"kind": "states", "head": {} if head is None else head, "blocks": {"b": entry}}).encode()
    short = zlib.compress(text)
    top = struct.pack("<IIII", len(short), version, len(text) if size is None else size, 0)
    return top + short + bytes(-len(short) % 8) + data


BOMB = zlib.compress(bytes(40000))
ENTRY = {"offset": 0, "size": len(BOMB), "dtype": "f32", "shape": [10000], "deflated": True}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"shape": [100]}, 'unpack: block "b" is not what the frame says.\n  said   400\n  there  401\n'),
        ({"shape": [10001]}, "said   40004\n  there  40000\n"),
        ({"shape": [10**6]}, "Its deflated data cannot be this long."),
        ({"shape": [10**6, 10**6]}, "A frame holds at most 256 MB."),
        ({"shape": [-1, -1]}, "The lengths in a frame must match its content."),
        ({"deflated": False}, "The lengths in a frame must match its content."),
        ({"offset": 8}, "It cannot be inflated"),
        ({"code": {"kind": "cube", "low": 0, "high": 1}}, "A code has a kind (sqrt, linear), low and high"),
        ({"code": {"kind": "sqrt", "low": 0, "high": 1}, "pool": [0]}, "one factor from 1 on per axis"),
        ({"code": {"kind": "sqrt", "low": 0, "high": 1}, "pool": [1, 2]}, "one factor from 1 on per axis"),
        ({"dtype": "f16"}, "The head of a frame has kind, head and blocks."),
        ({"shape": None}, "The head of a frame has kind, head and blocks."),
    ],
)
def test_a_frame_that_lies_is_refused(changed, words):
    assert np.array_equal(unpack(frame_of(ENTRY, BOMB)).blocks["b"], np.zeros(10000, np.float32))
    with pytest.raises(ValueError) as caught:
        unpack(frame_of(ENTRY | changed, BOMB))
    assert words in str(caught.value)


def test_a_head_that_lies_is_refused():
    for size in (2**31, 5):
        with pytest.raises(ValueError, match="unpack: its head is not what the frame says"):
            unpack(frame_of(ENTRY, BOMB, size=size))
    with pytest.raises(ValueError, match="this version of rfnb cannot read this version of frames"):
        unpack(frame_of(ENTRY, BOMB, version=1))


@given(st.binary(max_size=200), st.integers(0, 400))
@settings(max_examples=200, deadline=None)
def test_bytes_of_any_kind_give_a_spec_or_a_value_error(noise, at):
    frame = bytearray(pack(coded_spec()))
    frame[at : at + len(noise)] = noise
    try:
        assert unpack(bytes(frame)).kind is not None
    except ValueError:
        pass


def test_a_code_says_its_shape():
    assert BlockCode("linear", -1, 1, (2, 5, 7), (1, 2, 3)).stored_shape == (2, 3, 3)
