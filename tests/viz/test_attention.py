"""The attention view: its spec, text and HTML, from plain arrays and from Tensors."""

from __future__ import annotations

import base64
import re
import struct
import zlib

import numpy as np
import pytest
from viz.stored_files import assert_stored

import rfnb as rf
from rfnb.core.dim import Dim, ragged_dim
from rfnb.core.errors import DimError, ShapeError
from rfnb.core.tensor import Tensor
from rfnb.viz.attention.spec import spec as attention_spec
from rfnb.viz.kinds import html_of, text_of
from rfnb.viz.spec import Spec, from_json, pack, to_json, unpack


def weights(*shape: int) -> np.ndarray:
    """Rows that sum to 1, all values different and exact in float32."""
    count = np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)
    return (count / count.sum(-1, keepdims=True)).astype(np.float32)


def example() -> Spec:
    """Two heads, two sequences of different lengths, one row not computed yet."""
    array = weights(2, 2, 3, 5)
    array[0, :, 2] = np.nan
    return attention_spec(
        array,
        source=[list("enuff"), ["h", "i"]],
        target=[["IH", "N", "AH"], ["HH", "AY"]],
        names=["enough", "hi"],
        title="decoder.att",
        live=True,
    )


def png_size(html: str) -> tuple[int, int]:
    """Width and height of the first picture; checks that its data can be read."""
    data = base64.b64decode(re.search(r'src="data:image/png;base64,([^"]+)"', html)[1])
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    parts, at = b"", 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        parts += data[at + 8 : at + 8 + length] if kind == b"IDAT" else b""
        at += 12 + length
    width, height = struct.unpack(">II", data[16:24])
    assert len(zlib.decompress(parts)) >= width * height
    return width, height


def test_spec_is_the_stored_one():
    assert_stored("attention_small.json", to_json(example()))


def test_text_is_the_stored_one():
    assert_stored("attention_small.txt", text_of(example()))


def test_text_of_a_large_map_is_shades_and_says_what_a_cell_is():
    text = text_of(attention_spec(np.eye(100, dtype=np.float32)))
    assert len(text.splitlines()) < 45 and max(map(len, text.splitlines())) < 90
    assert "each cell shows the largest of 3 x 2 weights" in text
    assert text.splitlines()[1].count("█") == 2


def test_padding_has_lengths_of_the_labels():
    assert [(seq["row_len"], seq["col_len"]) for seq in example().head["seqs"]] == [(3, 5), (2, 2)]


def test_weights_are_kept_exactly():
    array = weights(3, 5)
    assert (attention_spec(array).blocks["map0"][0] == array).all()


def test_dims_of_a_tensor_give_roles_and_lengths_in_any_order():
    batch, head = Dim(2, name="batch"), Dim(3, name="head")
    source, target = ragged_dim([5, 4], over=batch, name="enc"), ragged_dim([7, 6], over=batch, name="dec")
    array = weights(2, 3, 7, 5)
    one = attention_spec(Tensor("w", [batch, head, target, source], raw_tensor=array))
    other = attention_spec(
        Tensor("w", [target, source, head, batch], raw_tensor=array.transpose(2, 3, 1, 0).copy()), source_dim=source
    )
    assert [entry["label"] for entry in one.head["maps"]] == ["head 0", "head 1", "head 2"]
    assert [(seq["label"], seq["row_len"], seq["col_len"]) for seq in one.head["seqs"]] == [
        ("sequence 0", 7, 5),
        ("sequence 1", 6, 4),
    ]
    assert one.head["maps"][0]["col_dim"] == {"name": "enc", "size": None, "lengths": [5, 4], "kind": None, "id": 1}
    assert one.head == other.head
    assert all(np.array_equal(one.blocks[name], other.blocks[name], equal_nan=True) for name in one.blocks)


def test_lengths_over_batch_and_beam_give_a_sequence_each():
    batch, beam = Dim(2, name="batch"), Dim(3, name="beam")
    lengths = np.array([[4, 3, 2], [1, 4, 2]], np.int32)
    target = Dim(Tensor("lengths", [batch, beam], raw_tensor=lengths), name="target")
    spec = attention_spec(
        Tensor("w", [beam, target, batch, source := Dim(5, name="source")], raw_tensor=weights(3, 4, 2, 5)),
        source_dim=source,
    )
    assert len(spec.head["maps"]) == 1
    assert {seq["label"]: seq["row_len"] for seq in spec.head["seqs"]} == {
        "sequence 0, beam 0": 4, "sequence 0, beam 1": 3, "sequence 0, beam 2": 2,
        "sequence 1, beam 0": 1, "sequence 1, beam 1": 4, "sequence 1, beam 2": 2,
    }  # fmt: skip


def test_several_weights_share_the_sequences_that_are_equal():
    spec = attention_spec({"layer 0": weights(2, 3, 5), "layer 1": weights(2, 3, 5), "cross": weights(3, 7)})
    assert [entry["label"] for entry in spec.head["maps"]] == [
        "layer 0, head 0",
        "layer 0, head 1",
        "layer 1, head 0",
        "layer 1, head 1",
        "cross",
    ]
    assert [entry["seqs"] for entry in spec.head["maps"]] == [[0], [0], [0], [0], [1]]


def test_one_row_of_weights_is_a_map_with_one_target():
    spec = attention_spec(np.array([0.25, 0.75], np.float32), source=["a", "b"])
    assert spec.blocks["map0"].shape == (1, 1, 2) and spec.head["seqs"][0]["row_len"] == 1


def test_frame_gives_the_spec_back():
    spec = example()
    back = unpack(pack(spec))
    assert back.kind == "attention" and back.head == spec.head
    assert all(np.array_equal(back.blocks[name], spec.blocks[name], equal_nan=True) for name in spec.blocks)
    assert all(
        np.array_equal(block, spec.blocks[name], equal_nan=True)
        for name, block in from_json(to_json(spec)).blocks.items()
    )


def test_html_is_one_picture_with_words_and_no_script():
    html = html_of(example())
    assert html.count("<img") == 1 and not re.search("<script|<style|<svg", html)
    assert "IH to f 0.33" in html
    assert min(png_size(html)) > 190


def test_a_large_map_is_drawn_within_bounds():
    width, height = png_size(html_of(attention_spec(np.eye(1000, dtype=np.float32))))
    assert width < 1800 and height < 1300  # two pixels a unit


def test_tokens_cannot_become_markup():
    html = html_of(
        attention_spec(np.eye(2, dtype=np.float32), source=["<b>", '"$x'], target=["&", "a_b$"], title="<script>")
    )
    assert "<script>" not in html and "<b>" not in html.replace("<p><b>", "")


@pytest.mark.parametrize(
    "array", [np.zeros((0, 5), np.float32), np.zeros((3, 0), np.float32), np.full((2, 3), np.nan, np.float32)]
)
def test_nothing_to_see_is_said_and_drawn(array):
    spec = attention_spec(array)
    assert text_of(spec) and "<img" in html_of(spec)


def test_infinite_and_negative_values_are_drawn():
    spec = attention_spec(np.array([[-np.inf, 2.0], [-3.0, np.inf]], np.float32))
    assert "inf" in text_of(spec) and "<img" in html_of(spec)


def test_a_broken_spec_is_a_sentence():
    broken = Spec(
        "attention", {"title": "x", "live": False, "maps": [{"label": "m", "block": "gone", "seqs": [0]}], "seqs": []}
    )
    assert text_of(broken) == "Map m has no array of sequence, target and source."
    assert html_of(broken) == "<p>Map m has no array of sequence, target and source.</p>"


def message_of(error: type[Exception], **options) -> str:
    array = options.pop("array", weights(2, 3))
    with pytest.raises(error) as caught:
        attention_spec(array, **options)
    return str(caught.value)


def test_too_few_labels_are_refused():
    assert message_of(ShapeError, source=["a", "b"]) == (
        "attention: sequence 0 has too few source labels.\n"
        "  length  3\n"
        "  labels  2\n"
        "Each real position needs a label; positions past the end need none.\n"
        "    source_lengths=[2]"
    )


def test_lists_of_labels_for_other_sequences_are_refused():
    assert message_of(ShapeError, array=weights(2, 2, 3), source=[list("abc")] * 3) == (
        "attention: the number of lists of source labels differs from the number of sequences.\n"
        "  sequences     2\n"
        "  source lists  3\n"
        "source is one list of labels for all, or one list per sequence.\n"
        "    source=[[...], [...]]"
    )


def test_lengths_beyond_the_axis_are_refused():
    assert message_of(ShapeError, target_lengths=[4]) == (
        "attention: target_lengths do not fit.\n"
        "  sequences       1\n"
        "  target          2\n"
        "  target_lengths  [4]\n"
        "There is one length per sequence, from 0 to the size of the axis.\n"
        "    target_lengths=[2]"
    )


def test_a_dim_that_is_not_there_is_refused():
    assert message_of(DimError, source_dim="frames") == (
        "attention: source_dim frames is not a dim of the weights.\n"
        "  given       [target=2, source=3]\n"
        "  source_dim  frames\n"
        "The source_dim is one of the dims, as the Dim itself or by its name.\n"
        "    source_dim='source'"
    )


def test_an_array_with_many_axes_needs_names():
    assert message_of(ShapeError, array=np.zeros((1, 2, 1, 2, 2, 2))) == (
        "attention: the names do not fit the array.\n"
        "  array  (1, 2, 1, 2, 2, 2)\n"
        "  names  none\n"
        'There is one name per axis; "..." stands for any further ones, "(heads dim)" for one axis that is both.\n'
        '    rf.viz.attention(weights, dims="axis0 axis1 axis2 axis3 target source")'
    )


def test_an_axis_that_is_a_vocabulary_is_labelled_with_it():
    batch, topics = rf.Dim(2, name="batch"), rf.Dim(3, name="topics", vocab=["art", "sport", "law"])
    time = rf.ragged_dim([4, 2], over=batch, name="time")
    weights = rf.softmax(rf.zeros([batch, time, topics]), axis=topics)
    view = rf.viz.attention(weights, source_dim=topics, target_dim=time)
    assert [seq["cols"] for seq in view.spec.head["seqs"]] == [["art", "sport", "law"]] * 2
    assert view.spec.head["seqs"][1]["rows"] == ["0", "1"]
    other = rf.viz.attention(weights, source_dim=topics, target_dim=time, source=["x", "y", "z"])
    assert other.spec.head["seqs"][0]["cols"] == ["x", "y", "z"]
