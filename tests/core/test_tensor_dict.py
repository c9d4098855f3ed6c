"""TensorDict: templates that are filled with one batch after another."""

import numpy as np
import pytest
import torch
from asserting import assert_same, raises_message, tensor

import rfnb as rf
from rfnb import Dim, DimError, ShapeError
from rfnb.core.errors import MissingKeyError
from rfnb.core.vocabulary import Vocabulary
from rfnb.tensor import Tensor, TensorDict, batch_dim

feat, classes = Dim(2, name="feat"), Dim(5, name="classes")


@pytest.fixture(autouse=True)
def batch_without_size():
    batch_dim.reset_eager()
    yield
    batch_dim.reset_eager()


def templates():
    time = Dim(Tensor("time", [batch_dim], "int32"), name="time")
    x = Tensor("x", [batch_dim, time, feat])
    y = Tensor("y", [batch_dim], "int32", sparse_dim=classes)
    return TensorDict([x, y]), time


def one_batch(lengths):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((len(lengths), max(lengths), 2)).astype(np.float32)
    return {"x": x, "x:size1": np.asarray(lengths, np.int32), "y": np.arange(len(lengths), dtype=np.int32)}


def test_entries_are_copies_that_share_their_arrays():
    x = tensor([1.0, 2.0], feat, name="x")
    data = TensorDict({"a": x})
    assert data["a"] is not x and data["a"].raw_tensor is x.raw_tensor
    assert (data["a"].name, x.name, list(data), len(data), "x" in data) == ("a", "x", ["a"], 1, False)


def test_update_replaces_and_adds():
    data = TensorDict([Tensor("x", [feat])])
    data.update(TensorDict([Tensor("x", [classes]), Tensor("y", [])]))
    data.update({"z": {"dims": [feat], "dtype": "int32", "sparse_dim": classes}}, auto_convert=True)
    assert data["x"].dims == (classes,) and data["z"].sparse_dim is classes and list(data) == ["x", "y", "z"]
    assert data.all_dims() == [classes, feat]


def test_dims_may_have_their_old_name():
    data = rf.TensorDict()
    data.update({"x": {"dim_tags": [batch_dim, feat], "feature_dim": feat}}, auto_convert=True)
    assert data["x"].dims == rf.Tensor("x", dim_tags=[batch_dim, feat]).dims == (batch_dim, feat)
    with pytest.raises(TypeError, match="unknown options"):
        rf.Tensor("x", [feat], dim_tags=[batch_dim, feat])


def test_a_batch_fills_templates_and_the_next_one_has_other_sizes():
    data, time = templates()
    for lengths in ([3, 1], [2, 4, 1], [1]):
        raw = one_batch(lengths)
        data.assign_from_raw_tensor_dict_(raw)
        assert isinstance(data["x"].raw_tensor, torch.Tensor)
        assert batch_dim.extent == len(lengths) and time.lengths.tolist() == lengths
        expected = [raw["x"][i, :n].sum() for i, n in enumerate(lengths)]
        assert_same(rf.reduce_sum(data["x"], axis=[time, feat]), expected)


def test_a_tensor_dict_gives_what_it_can_take_again():
    data, time = templates()
    data.assign_from_raw_tensor_dict_(one_batch([3, 1]))
    raw = data.as_raw_tensor_dict()
    assert list(raw) == ["x", "x:size0", "x:size1", "y", "y:size0"]
    assert (raw["x:size1"].tolist(), int(raw["y:size0"])) == ([3, 1], 2)
    other, _ = templates()
    data.reset_content()
    other.assign_from_raw_tensor_dict_(raw)
    assert other["x"].dims[1].lengths.tolist() == [3, 1]
    np.testing.assert_array_equal(other["x"].numpy(), raw["x"].numpy())


def test_which_sizes_are_given_out_can_be_chosen():
    data, _ = templates()
    data.assign_from_raw_tensor_dict_(one_batch([3, 1]))
    assert list(data.as_raw_tensor_dict(include_scalar_dyn_sizes=False)) == ["x", "x:size1", "y"]
    assert list(data.as_raw_tensor_dict(exclude_duplicate_dims=True)) == ["x", "x:size0", "x:size1", "y"]
    assert "x:size2" in data.as_raw_tensor_dict(include_const_sizes=True)


def test_reset_forgets_values_and_sizes_but_not_over_what_lengths_are():
    data, time = templates()
    data.assign_from_raw_tensor_dict_(one_batch([3, 1]))
    kept = data["x"].copy()
    data.reset_content()
    assert data["x"].raw_tensor is None and kept.raw_tensor is not None
    assert not time.is_dim_known() and not batch_dim.is_dim_known()
    assert time.declared_length_dims == (batch_dim,) and feat.size == 2


def test_lengths_go_over_the_batch_dim_where_nothing_is_declared():
    time = Dim(None, name="time")
    data = TensorDict([Tensor("x", [time, batch_dim])])
    data.assign_from_raw_tensor_dict_({"x": np.zeros((3, 2), np.float32), "x:size0": np.asarray([3, 2])})
    assert time.length_dims == (batch_dim,) and time.lengths.tolist() == [3, 2]


def test_lengths_go_over_the_declared_dims():
    groups, chars = Dim(2, name="groups"), Dim(3, name="chars")
    time = Dim(Tensor("time", [groups, batch_dim], "int32"), name="time")
    data = TensorDict([Tensor("x", [batch_dim, chars, time, groups])])
    lengths = np.asarray([[1, 2, 1], [4, 3, 2]], np.int32)
    data.assign_from_raw_tensor_dict_({"x": np.zeros((3, 3, 4, 2), np.float32), "x:size2": lengths})
    assert time.length_dims == (groups, batch_dim) and time.lengths.tolist() == lengths.tolist()


def test_a_template_of_a_template_has_the_dims():
    data, time = templates()
    data.assign_from_raw_tensor_dict_(one_batch([3, 1]))
    copy = data.copy_template()
    assert copy["x"].raw_tensor is None and copy["x"].dims == (batch_dim, time, feat)
    assert copy["y"].sparse_dim is classes and copy["y"].dtype == "int32"


def test_the_batch_dim_takes_its_size_from_lengths_too():
    time = rf.ragged_dim([3, 1, 2], over=batch_dim, name="time")
    assert batch_dim.extent == 3 and time.length_dims == (batch_dim,)
    with pytest.raises(ShapeError):
        rf.convert_to_tensor(np.zeros((2, 3), np.float32), dims=[batch_dim, time])


def test_the_batch_dim_has_one_size_until_it_is_reset():
    rf.convert_to_tensor(np.zeros((3, 2), np.float32), dims=[batch_dim, feat])
    with raises_message(
        ShapeError,
        """
        Tensor: raw shape (5, 2) does not fit its dims.
          axis  dim      needs  got
          0     batch=3  3      5    <- differs
          1     feat=2   2      2
        The dims of a tensor are in the order of its raw array.
        batch=3 has the size of earlier data. Before data of another size:
            rf.batch_dim.reset_eager()
        """,
    ):
        rf.convert_to_tensor(np.zeros((5, 2), np.float32), dims=[batch_dim, feat])
    batch_dim.reset_eager()
    rf.convert_to_tensor(np.zeros((5, 2), np.float32), dims=[batch_dim, feat])


def test_an_array_does_not_make_a_declared_ragged_dim_full():
    data, time = templates()
    with raises_message(
        DimError,
        f"""
        Dim "time" has no size yet.
          created  {time.created}
        A dim made without size gets it from the op that it is passed to as out_dim, or by hand.
            time.dyn_size_ext = lengths
        """,
    ):
        data["x"].raw_tensor = torch.zeros(2, 3, 2)


@pytest.mark.parametrize(
    "options, sizes, dtype, classes",
    [
        ({"dim": 9}, [None, 9], "float32", None),
        ({"dim": 9, "shape": (None, 9), "dtype": "float64"}, [None, 9], "float64", None),
        ({"dim": 7, "sparse": True}, [None], "int32", 7),
        ({"dim": 7, "sparse": True, "shape": ()}, [], "int32", 7),
        ({"shape": (None,)}, [None], "float32", None),
        ({"dim": 3, "shape": (None, 4, 3)}, [None, 4, 3], "float32", None),
    ],
)
def test_the_old_form_of_options_says_sizes(options, sizes, dtype, classes):
    batch_dim.reset_eager()
    data = TensorDict()
    data.update({"x": options}, auto_convert=True)
    x = data["x"]
    assert x.dims[0] is batch_dim and [dim.dimension for dim in x.dims[1:]] == sizes and x.dtype == dtype
    assert (x.sparse_dim and x.sparse_dim.dimension) == classes
    assert x.feature_dim is (x.dims[-1] if sizes and sizes[-1] else None)
    if sizes == [None, 9]:
        raw = np.ones((2, 5, 9), dtype)
        data.assign_from_raw_tensor_dict_({"x": raw, "x:size1": np.asarray([5, 3], np.int32)})
        assert float(rf.reduce_sum(x, axis=x.dims)) == 8 * 9


@pytest.mark.parametrize(
    "tags", [np.array(["a", "bcd"]), np.array([b"a", b"b"]), np.array(["a", "bcd"], object)], ids=str
)
def test_texts_stay_arrays_of_numpy_beside_numbers_of_the_backend(tags):
    data, time = templates()
    data.update({"seq_tag": {"dims": [batch_dim], "dtype": "string"}}, auto_convert=True)
    data.assign_from_raw_tensor_dict_({**one_batch([3, 1]), "seq_tag": tags})
    assert data["seq_tag"].raw_tensor is tags and data["seq_tag"].dtype == "string" and data["seq_tag"].device == "cpu"
    assert isinstance(data["x"].raw_tensor, torch.Tensor)
    again = TensorDict({name: tensor.copy_template() for name, tensor in data.data.items()})
    again.assign_from_raw_tensor_dict_(data.as_raw_tensor_dict())
    assert again["seq_tag"].raw_tensor[1] == tags[1]


def test_a_vocabulary_is_a_list_of_labels_wherever_a_dim_has_them():
    words = Vocabulary(labels=["<s>", "a", "b"], eos_label=0, user_defined_symbols={"</s>": 0})
    vocab = Dim(3, name="vocab", vocab=words)
    assert list(vocab.vocab) == words[:] and words[1] == "a" and "b" in words and len(words) == 3
    assert words.label_to_id("</s>") == words.eos_label_id == 0
    ids = Tensor(
        "ids", [Dim(2, name="two")], sparse_dim=vocab, vocab=["<s>", "a", "b"], raw_tensor=torch.tensor([1, 2])
    )
    assert ids.dtype == "int64" and ids.copy_template().dtype == "int64" and "a" in rf.show(ids).text()
    with raises_message(
        ValueError,
        f"""
        vocab: the labels do not fit.
          sparse_dim  {vocab}
          its labels  3
          labels      2
        Each class of a dim has one label, in all Tensors.
        """,
    ):
        ids.vocab = ["a", "b"]
    with pytest.raises(ValueError, match="A symbol is a name for one of the labels"):
        Vocabulary(labels=["a"], user_defined_symbols={"b": 1})


TIME, FEAT, CLASSES = Dim(None, name="t"), Dim(9, name="f"), Dim(3, name="v")
B, T, F = "batch", None, 9
OTHER_FORMS = [  # options, sizes (or names) by axis, feature axis, dtype
    ({"shape": (9, None), "feature_dim_axis": 1}, [B, 9, T], 1, "float32"),
    ({"shape": (None, 9), "feature_dim_axis": -1}, [B, T, 9], 2, "float32"),
    ({"shape": (None, 9), "feature_dim_axis": None}, [B, T, 9], None, "float32"),
    ({"shape": (None, 9), "feature_dim_axis": 2, "batch_dim_axis": 0, "time_dim_axis": 1}, [B, T, 9], 2, "float32"),
    ({"shape": (None, 9), "batch_dim_axis": 1, "time_dim_axis": 0}, [T, B, 9], 2, "float32"),
    ({"shape": (9,), "batch_dim_axis": None}, [9], 0, "float32"),
    ({"dim": 9, "time_dim_axis": None}, [B, 9], 1, "float32"),
    ({"shape": (5, 9), "dim": 9, "time_dim_axis": 1}, [B, 5, 9], 2, "float32"),
    ({"shape": (None, 4), "dim": 3, "sparse": True}, [B, T, 4], None, "int32"),
    ({"shape": (None,), "dim": None}, [B, T], None, "float32"),
    ({"shape": ()}, [B], None, "float32"),
    ({"shape": (None, 9), "feature_dim": FEAT}, [B, T, FEAT], 2, "float32"),
    ({"dim": 9, "same_dim_tags_as": {"T": TIME}}, [B, TIME, 9], 2, "float32"),
    ({"dim": 3, "sparse": True, "vocab": {"labels": ["a", "b", "c"]}}, [B, T], None, "int32"),
    ({"sparse": True, "vocab": ["a", "b", "c"]}, [B, T], None, "int32"),
    ({"sparse_dim": CLASSES}, [B, T], None, "int32"),
    ({"sparse_dim": CLASSES, "dtype": "int64", "dim": 3}, [B, T], None, "int64"),
    ({"dim_tags": [batch_dim, TIME, FEAT], "dim": 9}, [B, TIME, FEAT], 2, "float32"),
    ({"dim_tags": [batch_dim, TIME], "sparse": True, "dim": 3}, [B, TIME], None, "int32"),
    ({"dims": [batch_dim, TIME], "sparse_dim": CLASSES}, [B, TIME], None, "int32"),
    ({"dims": [batch_dim, TIME, FEAT], "shape": (None, 9)}, [B, TIME, FEAT], None, "float32"),
    ({"dims": [batch_dim, TIME], "time_dim_axis": 1, "batch_dim_axis": 0}, [B, TIME], None, "float32"),
    ({"dims": [TIME, batch_dim, FEAT], "feature_dim_axis": 2, "batch_dim_axis": 1}, [TIME, B, FEAT], 2, "float32"),
    ({"dims": [batch_dim], "dtype": "string", "available_for_inference": False}, [B], None, "string"),
]


@pytest.mark.parametrize("options, axes, feature_axis, dtype", OTHER_FORMS, ids=str)
def test_each_form_of_options_gives_the_axes_that_it_says(options, axes, feature_axis, dtype):
    TIME.reset_eager()
    batch_dim.reset_eager()
    data = TensorDict()
    data.update({"x": options}, auto_convert=True)
    x = data["x"]
    found = [dim if dim in (TIME, FEAT) else B if dim is batch_dim else dim.dimension for dim in x.dims]
    assert found == axes and x.feature_dim_axis == feature_axis and x.dtype == dtype
    assert x.available_for_inference == options.get("available_for_inference", True)
    assert x.sparse == (options.get("sparse", False) or "sparse_dim" in options)
    assert x.sparse_dim is None or (
        x.sparse_dim.dimension == 3 and (CLASSES in (x.sparse_dim, options.get("sparse_dim", CLASSES)))
    )
    assert list(x.vocab or ()) == (["a", "b", "c"] if "vocab" in options else [])
    time = next((dim for dim in x.dims if dim.dimension is None and dim is not batch_dim), None)
    raw = np.zeros([{B: 2, T: 4}.get(axis, getattr(axis, "size", axis) or 4) for axis in found])
    raw = raw.astype("U3" if dtype == "string" else dtype)
    lengths = np.asarray([4, 2], np.int32) if B in axes else np.int32(4)
    data.assign_from_raw_tensor_dict_({"x": raw} if time is None else {"x": raw, f"x:size{x.axis_of(time)}": lengths})
    assert data["x"].numpy().shape == raw.shape and data["x"].dtype == dtype
    if time is not None and B in axes:
        assert data["x"].get_time_dim_tag() is time and time.dyn_size_ext.raw_tensor.tolist() == [4, 2]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": "int32"},
        {"sparse": True},
        {"sparse": False, "sparse_dim": CLASSES},
        {"sparse_dim": CLASSES, "dim": 9},
        {"shape": (None, None), "dim": 9},
        {"shape": (None, 9), "feature_dim": CLASSES},
        {"shape": (None, 9), "time_dim_axis": 2},
        {"shape": (None, 9), "time_dim_axis": 0},
        {"dim": 9, "same_dim_tags_as": {"T": "data"}},
        {"dim": 9, "same_dim_tags_as": {"T": FEAT}},
        {"dims": [batch_dim, TIME, FEAT], "dim": 8},
        {"dims": [batch_dim, TIME, FEAT], "shape": (9, None)},
        {"dims": [batch_dim, FEAT], "time_dim_axis": 1},
        {"dims": [TIME, batch_dim], "batch_dim_axis": 0},
        {"dim": 3, "sparse": True, "vocab": ["a", "b"]},
        {"dims": [batch_dim, TIME], "vocab": ["a", "b"]},
        {"dims": [batch_dim, TIME], "sparse": True, "dim": 3, "vocab": {"bpe_file": "x", "vocab_file": "y"}},
    ],
    ids=str,
)
def test_options_that_contradict_each_other_are_refused(options):
    with pytest.raises((ValueError, DimError), match=r"(?s)^.+\n .+\n.+"):
        TensorDict().update({"x": options}, auto_convert=True)


ERRORS = {
    "a missing entry": (
        lambda data: data["z"],
        MissingKeyError,
        """
        TensorDict: no "z".
          has  x, y
        An entry is found by the name of its Tensor.
        """,
    ),
    "a missing array": (
        lambda data: data.assign_from_raw_tensor_dict_({"x": None}),
        MissingKeyError,
        """
        assign_from_raw_tensor_dict_: no y.
          needs  x, y
          given  x
        There is an array for each entry of the TensorDict, under its name.
        """,
    ),
    "an entry without name": (
        lambda data: TensorDict([Tensor(None, [feat])]),
        ValueError,
        """
        TensorDict: an entry without name.
          entry  Tensor{'', [feat=2] (template)}
        In a sequence every entry is a Tensor with a name. Name it here:
            TensorDict({"x": tensor})
        """,
    ),
    "options without auto_convert": (
        lambda data: data.update({"z": {"dims": [feat]}}),
        TypeError,
        """
        TensorDict: "z" is no Tensor.
          got      options dims
          options  dims, dtype, sparse_dim, feature_dim, feature_dim_axis, raw_tensor, version, available_for_inference, vocab
        An entry is a Tensor, or with auto_convert a dict of these options.
            data.update({...}, auto_convert=True)
        """,
    ),
    "unknown options": (
        lambda data: data.update({"z": {"shape": (2,), "size_placeholder": {}}}, auto_convert=True),
        TypeError,
        """
        Tensor "z": unknown options.
          got  size_placeholder
        Every axis has its Dim, which says all about it.
            time = Dim(lengths, name="time")
        """,
    ),
    "sizes that do not fit": (
        lambda data: data.update({"z": {"dim": 9, "shape": (None, 8)}}, auto_convert=True),
        ValueError,
        """
        TensorDict: the options of "z" do not fit: dim.
          options  {'dim': 9, 'shape': (None, 8)}
        In the old form dim is the size of the features, or with sparse the number of classes, and shape has the sizes without batch.
        What says all is the dims:
            {"z": {"dims": [batch_dim, time, feat], "feature_dim": feat}}
        """,
    ),
    "a template": (
        lambda data: data.as_raw_tensor_dict(),
        ValueError,
        """
        as_raw_tensor_dict: a template has no values.
          x  Tensor{'x', [batch=?, time=?, feat=2] (template)}
        Every Tensor needs its array:
            data["x"].raw_tensor = ...
        """,
    ),
    "another size of a static dim": (
        lambda data: data.assign_from_raw_tensor_dict_({**one_batch([2, 1]), "x:size2": np.int32(3)}),
        ShapeError,
        """
        TensorDict: the sizes given with "x" do not fit.
          dim  feat=2
          got  3
        A dim has one size, in all Tensors.
        """,
    ),
    "lengths of a static dim": (
        lambda data: data.assign_from_raw_tensor_dict_({**one_batch([2, 1]), "x:size2": np.asarray([2, 2])}),
        ShapeError,
        """
        TensorDict: the sizes given with "x" do not fit.
          dim  feat=2
          got  lengths over 1 dims
        A dim has one size, in all Tensors.
        """,
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_error(name):
    data, _ = templates()
    call, error, text = ERRORS[name]
    with raises_message(error, text):
        call(data)


# -- sequences ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def outputs():
    time = rf.ragged_dim([5, 3, 0], over=batch_dim, name="time")
    beam = Dim(2, name="beam")
    hyps = Dim(rf.convert_to_tensor(np.array([[1, 2], [3, 0], [2, 2]], "int32"), dims=[batch_dim, beam]), name="hyps")
    rows = 10 * rf.range_over_dim(batch_dim)
    frames = rf.combine_bc(rf.range_over_dim(time), "add", rows)
    labels = rf.set_sparse_dim(
        rf.range_over_dim(hyps) + rf.range_over_dim(beam) + rf.range_over_dim(batch_dim), classes
    )
    x = rf.combine_bc(rf.cast(frames, "float32"), "mul", rf.cast(rf.range_over_dim(feat) + 1, "float32"))
    x.feature_dim = feat
    twice, _ = rf.concat((frames, time), (frames, time))
    scale = rf.convert_to_tensor(np.array([2.0, 3.0]), dims=[feat])
    last_batch = labels.copy_transpose([beam, hyps, batch_dim])
    return TensorDict({"x": x, "mask": time.get_mask(), "labels": last_batch, "twice": twice, "scale": scale})


def test_a_sequence_is_cut_to_its_own_lengths(outputs):
    for index, length in enumerate([5, 3, 0]):
        one = outputs.sequence(index)
        time = one["x"].dims[0]
        assert one["x"].dims == (time, feat) and one["mask"].dims == (time,) and time.dimension == length
        frames = np.arange(length) + 10 * index
        np.testing.assert_array_equal(one["x"].raw_tensor, np.stack([frames, 2 * frames], -1).astype("float32"))
        np.testing.assert_array_equal(one["twice"].raw_tensor, np.concatenate([frames, frames]).astype("int32"))
        assert one["mask"].raw_tensor.all() and one["x"].feature_dim is feat
        np.testing.assert_array_equal(one["scale"].raw_tensor, np.array([2.0, 3.0]))
        assert all(isinstance(tensor.raw_tensor, np.ndarray) for tensor in one.data.values())


def test_lengths_over_more_than_the_batch_stay_lengths_over_the_rest(outputs):
    one = outputs.sequence(-2)
    assert one["labels"].sparse_dim is classes and [dim.name for dim in one["labels"].dims] == ["beam", "hyps"]
    hyps = one["labels"].dims[1]
    assert list(hyps.dyn_size_ext.raw_tensor) == [3, 0] and one["labels"].raw_tensor[0].tolist() == [1, 2, 3]
    assert float(rf.reduce_sum(one["labels"], axis=list(one["labels"].dims)).raw_tensor) == 6


def test_what_is_no_sequence_is_refused(outputs):
    other = Dim(4, name="other", kind=Dim.Types.Batch)
    with pytest.raises(IndexError, match=r"(?s)no sequence 3.*batch=3.*has the sequences 0 to 2"):
        outputs.sequence(3)
    with pytest.raises(ValueError, match=r"(?s)which dim is the batch\?.*not given.*outputs.sequence\(0, batch=dim\)"):
        TensorDict([Tensor("x", [feat])]).sequence(0)
    both = TensorDict({**outputs.data, "other": rf.zeros([other])})
    with pytest.raises(ValueError, match=r"(?s)which dim is the batch\?.*other=4"):
        both.sequence(0)
    assert both.sequence(0, batch=other)["other"].dims == ()
    with pytest.raises(ValueError, match="a template has no values"):
        outputs.copy_template().sequence(0)
    with pytest.raises(TypeError, match="index is a str"):
        outputs.sequence("first")
