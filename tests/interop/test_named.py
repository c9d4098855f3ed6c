"""rf.named and rf.unnamed: arrays of any library with names for their axes, and the way back."""

import textwrap

import numpy as np
import pytest
import torch
from asserting import raises_message
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence

import rfnb as rf
from rfnb import Dim

SHAPE = (3, 7, 5)
ERRORS = {error.__name__: error for error in (rf.DimError, rf.ShapeError, TypeError, ValueError)}


def refused(said):
    """The block raises the error that the text begins with, with the rest of it as message."""
    kind, _, text = textwrap.dedent(said).strip().partition(": ")
    return raises_message(ERRORS[kind], text)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(1)


def names_and_sizes(tensor):
    return [(dim.name, dim.extent) for dim in tensor.dims]


# -- Names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        "batch time feature",
        "batch, time, feature",
        ["batch", "time", "feature"],
        (Dim(3, name="batch"), "time", Dim(5, name="feature")),
    ],
)
def test_one_name_per_axis(names):
    x = rf.named(torch.randn(SHAPE), names)
    assert names_and_sizes(x) == [("batch", 3), ("time", 7), ("feature", 5)]


def test_some_names_say_the_kind_of_the_dim():
    x = rf.named(torch.randn(2, 3, 5, 7), "b t channels x")
    assert [dim.kind for dim in x.dims] == ["batch", None, "feature", None]
    letters = rf.named(torch.randn(2, 3), "a b")
    assert [dim.kind for dim in letters.dims] == [None, None]


def test_the_storage_is_that_of_the_array_and_gradients_go_through():
    raw = torch.randn(SHAPE, requires_grad=True)
    x = rf.named(raw, "batch time feature", lengths=[7, 5, 3])
    assert x.raw_tensor is raw
    shorter = rf.named(raw, "batch time feature", lengths=[6, 5, 3])
    assert shorter.raw_tensor.data_ptr() == raw.data_ptr()
    loss = rf.reduce_sum(rf.square(shorter), axis=shorter.dims)
    loss.raw_tensor.backward()
    mask = torch.arange(7) < torch.tensor([6, 5, 3])[:, None]
    torch.testing.assert_close(raw.grad, 2 * raw.detach() * mask[..., None])


def test_an_array_that_is_not_contiguous_keeps_its_storage():
    raw = torch.randn(5, 3, 8)
    x = rf.named(raw.transpose(0, 1), "batch time (heads dim)", dims={"heads": 2})
    assert names_and_sizes(x) == [("batch", 3), ("time", 5), ("heads", 2), ("dim", 4)]
    assert x.raw_tensor.data_ptr() == raw.data_ptr()
    assert torch.equal(x.raw_tensor, raw.transpose(0, 1).unflatten(2, (2, 4)))


def test_composed_axes_are_those_of_einops():
    einops = pytest.importorskip("einops")
    raw = torch.randn(3, 7, 12)
    x = rf.named(raw, "b t (h d)", dims={"h": 4})
    assert torch.equal(rf.unnamed(x, "b h t d"), einops.rearrange(raw, "b t (h d) -> b h t d", h=4))
    assert torch.equal(rf.unnamed(x, "(b t) 1 (d h)"), einops.rearrange(raw, "b t (h d) -> (b t) 1 (d h)", h=4))


def test_further_axes_and_axes_of_length_one():
    x = rf.named(torch.randn(3, 1, 7, 2, 5), "batch 1 ... feature")
    assert names_and_sizes(x) == [("batch", 3), ("axis2", 7), ("axis3", 2), ("feature", 5)]
    assert tuple(rf.unnamed(x, "... 1 batch").shape) == (7, 2, 5, 1, 3)


def test_a_name_that_comes_twice_is_a_dim_and_its_twin():
    raw = torch.randn(2, 4, 4)
    x = rf.named(raw, "batch time time", lengths=[3, 2])
    _, target, source = x.dims
    assert source is target.copy(match_priority=1) and source.extent == target.extent == 3
    assert torch.equal(rf.unnamed(x, "batch time time"), raw[:, :3, :3])
    assert rf.viz.attention(x).spec.head["maps"][0]["self"]


# -- Lengths -----------------------------------------------------------------------------------------------------------

MASK = torch.arange(7) < torch.tensor([7, 5, 3])[:, None]


@pytest.mark.parametrize(
    "lengths",
    [
        [7, 5, 3],
        np.array([7, 5, 3]),
        torch.tensor([7, 5, 3]),
        {"time": (7, 5, 3)},
        MASK,
        MASK.numpy(),
        MASK.long(),
        {"time": MASK.tolist()},
        rf.named([7, 5, 3], "batch"),
        rf.named(MASK, "batch time"),
    ],
    ids=["list", "numpy", "torch", "dict", "mask", "numpy mask", "integer mask", "list mask", "Tensor", "Tensor mask"],
)
def test_lengths_of_any_kind(lengths):
    batch, time, _ = rf.named(torch.randn(SHAPE), "batch time feature", lengths=lengths).dims
    assert time.length_dims == (batch,) and time.lengths.tolist() == [7, 5, 3]


def test_lengths_of_several_dims():
    x = rf.named(torch.randn(2, 3, 4, 5), "batch source target feature", lengths={"source": [3, 1], "target": [4, 2]})
    batch, source, target, _ = x.dims
    assert (source.lengths.tolist(), target.lengths.tolist()) == ([3, 1], [4, 2])
    assert source.length_dims == target.length_dims == (batch,)


def test_lengths_over_two_dims():
    x = rf.named(torch.randn(2, 3, 7, 5), "batch speaker time feature", lengths=[[7, 1, 2], [3, 4, 5]])
    batch, speaker, time, _ = x.dims
    assert time.length_dims == (batch, speaker) and time.lengths.tolist() == [[7, 1, 2], [3, 4, 5]]


def test_lengths_on_the_cpu_ask_nothing_of_the_device():
    x = rf.named(torch.empty(SHAPE, device="meta"), "batch time feature", lengths=torch.tensor([6, 5, 3]))
    assert x.raw_tensor.is_meta and x.dims[1].lengths.tolist() == [6, 5, 3] and tuple(x.raw_tensor.shape) == (3, 6, 5)


@pytest.mark.parametrize(
    ("names", "lengths", "said"),
    [
        ("batch head target source", [2, 3, 4], """
            DimError: named: of which dim are the lengths?
              x         [batch=3, head=2, target=7, source=5]
              possible  target, source
            Lengths without a name belong to a dim named time, or similar. Name the dim:
                lengths={"source": lengths}
         """),
        ("a b time d", [1, 1, 1, 1], """
            ShapeError: named: the lengths do not fit the array.
              x                [a=3, b=2, time=7, d=5]
              lengths of time  (4,)
            There is one length per sequence.
                rf.named(x, ..., lengths={"time": [...]})
         """),
        ("batch b time d", [7, 9, 3], """
            ShapeError: named: a sequence is longer than the array.
              x                [batch=3, b=2, time=7, d=5]
              lengths of time  3, the longest 9
            The axis of time holds the longest sequence.
                lengths = lengths.clip(max=7)    # if sequences were cut
         """),
        ("batch b time d", [7.0, 0.5, 3.0], """
            DimError: Dim "time": lengths must be integers, 0 or more.
              lengths  float64, smallest 0.5
            A length counts frames.
                rf.cast(lengths, "int32")
         """),
        ("batch b time d", 7, """
            TypeError: named: lengths is one number.
              x        [batch=3, b=2, time=7, d=5]
              lengths  int64
            Lengths are one per sequence. An array that is of the same length for all has none.
                rf.named(x[..., :n], ...)    # cut the axis time instead
         """),
        ("batch b time d", {"tim": [7, 1, 1]}, """
            DimError: named: lengths has "tim", which is none of the names.
              x  [batch=3, b=2, time=7, d=5]
            Lengths by name are of one of the axes.
                lengths={"d": [...]}
         """),
        ("batch b time d", MASK.flip(1), """
            DimError: named: the mask is false first, and true afterwards.
              x     [batch=3, b=2, time=7, d=5]
              mask  (3, 7)
            A mask is true for real frames, and lengths count them from the start on. If it is true for padding, turn it around;
            if sequences are padded on the left, there are no lengths: keep it as a mask.
                lengths=~mask
                mask = rf.named(mask, "batch time", dims=x.dims)
         """),
        ("batch b time d", ~MASK, """
            DimError: named: the mask is false first, and true afterwards.
              x     [batch=3, b=2, time=7, d=5]
              mask  (3, 7)
            A mask is true for real frames, and lengths count them from the start on. If it is true for padding, turn it around;
            if sequences are padded on the left, there are no lengths: keep it as a mask.
                lengths=~mask
                mask = rf.named(mask, "batch time", dims=x.dims)
         """),
        ("batch b time d", torch.tensor([[1, 1, 0, 1, 0, 0, 0]] * 3), """
            DimError: named: the mask is none of lengths.
              x      [batch=3, b=2, time=7, d=5]
              mask   (3, 7)
              first  sequence (0,)
            Lengths count real frames from the start on; this mask has padding before or between them. Keep it as a mask:
                mask = rf.named(mask, "batch time", dims=x.dims)
         """),
        ("batch b time d", torch.ones(3, 5, dtype=torch.bool), """
            ShapeError: named: the mask does not fit the array.
              x     [batch=3, b=2, time=7, d=5]
              mask  (3, 5)
            A mask has an entry for each sequence and each position of time, that one last.
                mask = x.new_ones(x.shape[:2], dtype=bool)
         """),
    ],
)  # fmt: skip
def test_lengths_that_are_none(names, lengths, said):
    x = torch.randn(3, 2, 7, 5)
    with refused(said):
        rf.named(x, names, lengths=lengths)


def test_lengths_that_could_be_over_several_dims_are_refused_until_they_have_names():
    x = torch.randn(3, 3, 7)
    with refused("""
        DimError: named: over which dim are the lengths of time?
          x         [speaker=3, channel=3, time=7]
          lengths   (3,)
          possible  speaker, or channel
        Neither names nor sizes tell. Name them too:
            lengths={"time": rf.named(lengths, "speaker")}
    """):
        rf.named(x, "speaker channel time", lengths=[7, 5, 3])
    speaker, _, time = rf.named(x, "speaker channel time", lengths={"time": rf.named([7, 5, 3], "speaker")}).dims
    assert time.length_dims == (speaker,)


# -- Dims of others ----------------------------------------------------------------------------------------------------


def test_dims_are_shared_by_name():
    x = rf.named(torch.randn(3, 7, 5), "batch time feature", lengths=[7, 5, 3])
    batch, time, _ = x.dims
    for given in (x.dims, {"time": time, "batch": batch}, {"time": time}, time):  # the batch is that of the lengths
        assert rf.named(torch.randn(3, 7, 2), "batch time out", dims=given).dims[:2] == (batch, time)
    assert rf.named(torch.randn(7, 3), [time, batch]).dims == (time, batch)


def test_what_is_named_in_two_calls_has_other_dims_and_no_outer_product_is_made():
    a = rf.named(torch.ones(3, 7), "batch time")
    b = rf.named(torch.ones(3, 7), "batch time", dims={"batch": a.dims[0]})
    with pytest.raises(rf.DimError, match="the same dim, made twice, would be in the result two times"):
        a + b
    assert (a + rf.named(torch.ones(3, 7), "batch time", dims=a.dims)).dims == a.dims


def test_arrays_in_a_tuple_share_the_parts_of_an_axis_that_have_a_size():
    q, k = torch.rand(3, 5, 8), torch.rand(3, 5, 8)
    one, other = rf.named((q, k), "b t (heads dim)", dims={"heads": 2})
    assert one.dims == other.dims and [dim.extent for dim in one.dims] == [3, 5, 2, 4]


def test_lengths_over_a_dim_that_has_lengths_and_comes_later():
    words, chars = np.array([3, 2]), np.array([[5, 2, 4, 0], [1, 4, 0, 0]])
    lengths = {"word": words, "char": rf.named(chars, "batch word")}
    x = rf.named(torch.rand(2, 6, 4), "batch char word", lengths=lengths)
    batch, char, word = x.dims
    assert [dim.extent for dim in x.dims] == [2, 5, 3]  # up to the longest
    assert char.length_dims == (batch, word) and char.lengths.tolist() == [[5, 2, 4], [1, 4, 0]]
    assert word.lengths.tolist() == [3, 2]


def test_arrays_in_a_tuple_or_dict_share_dims():
    raws = tuple(torch.randn(3, 2, 7, 5) for _ in range(4))
    tensors = rf.named(raws, "batch head target source")
    assert type(tensors) is tuple and len({tensor.dims for tensor in tensors}) == 1
    both = rf.named({"a": raws[0], "b": [raws[1], None]}, "batch head target source", lengths={"source": [5, 4, 3]})
    assert both["a"].dims == both["b"][0].dims and both["b"][1] is None
    assert both["a"].dims[3].lengths.tolist() == [5, 4, 3]


def test_a_dim_without_size_takes_the_lengths():
    time = Dim(None, name="time")
    x = rf.named(torch.randn(SHAPE), ["batch", time, "feature"], lengths=[6, 5, 3])
    assert x.dims[1] is time and time.lengths.tolist() == [6, 5, 3]


@pytest.mark.parametrize(
    ("shape", "dims", "lengths", "said"),
    [
        ((3, 9, 5), "time", None, """
            DimError: named: the Dim "time" does not fit its axis.
              x    [batch=3, time=9, feature=5]
              Dim  time<=7
            A Dim fits an axis as long as its longest sequence. If what lies beyond is padding, cut it off:
                x = x[:, :7]
         """),
        ((3, 6, 5), "time", None, """
            DimError: named: the Dim "time" does not fit its axis.
              x    [batch=3, time=6, feature=5]
              Dim  time<=7
            A Dim fits an axis as long as its longest sequence. For another axis it is another dim; a name makes a new one:
                rf.named(x, [batch, "time", "feature"])
         """),
        ((3, 7, 5), "time", [7, 5, 4], """
            DimError: named: the Dim "time" has other lengths.
              x     [batch=3, time=7, feature=5]
              time  Dim{time<=7: 7, 5, 3 over batch=3, 29 % padding}
            A Dim has its own lengths: leave out lengths=, or leave out the Dim for a new one.
                rf.named(x, ..., dims={"time": time})
         """),
        ((3, 7, 5), "tme", None, """
            DimError: named: dims has "tme", which is none of the names.
              names  batch time feature
              dims   tme, batch
            Dims are used for the axes of their name.
                dims={"batch": ...}
         """),
        ((3, 7, 5), None, None, """
            TypeError: named: dims holds something that is no Dim.
              with  str
            Dims are used for the axes of their name; an int is the size of a dim that is a part of an axis.
                dims={"time": time, "heads": 8}    # or dims=x.dims
         """),
    ],
)  # fmt: skip
def test_a_dim_that_does_not_fit(shape, dims, lengths, said):
    time = rf.ragged_dim([7, 5, 3], over=Dim(3, name="batch"), name="time")
    with refused(said):
        rf.named(
            torch.randn(shape), "batch time feature", dims={dims or "time": time if dims else "x"}, lengths=lengths
        )


def test_a_size_in_dims_is_that_of_the_axis():
    with refused("""
        DimError: named: "b" is not of the size that was said.
          axis  b=4
          b     8
        A size in dims is that of its axis.
            dims={"b": 4}
    """):
        rf.named(torch.randn(4, 2), "b t", dims={"b": 8})


# -- Arrays that know their axes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("enforce_sorted", [True, False])
def test_a_packed_sequence(enforce_sorted):
    lengths = [7, 5, 3] if enforce_sorted else [5, 7, 3]
    parts = [torch.randn(length, 4, requires_grad=True) for length in lengths]
    x = rf.named(pack_sequence(parts, enforce_sorted=enforce_sorted))
    assert names_and_sizes(x) == [("batch", 3), ("time", 7), ("feature", 4)]
    assert x.dims[1].lengths.tolist() == lengths and x.dims[1].length_dims == (x.dims[0],)
    for index, part in enumerate(parts):
        assert torch.equal(x.raw_tensor[index, : len(part)], part)
    x.raw_tensor.sum().backward()
    assert all(torch.equal(part.grad, torch.ones_like(part)) for part in parts)
    ids = rf.named(pack_padded_sequence(torch.tensor([[1, 2], [3, 0]]), [2, 1], batch_first=True), "b t")
    assert names_and_sizes(ids) == [("b", 2), ("t", 2)] and ids.dims[1].lengths.tolist() == [2, 1]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.parametrize("lengths", [(5, 2, 4), (3, 3, 3)])
def test_a_nested_tensor(layout, lengths):
    parts = [torch.randn(length, 4) for length in lengths]
    nested = torch.nested.nested_tensor(parts, layout=layout, requires_grad=True)
    x = rf.named(nested)
    assert names_and_sizes(x) == [("batch", 3), ("time", max(lengths)), ("feature", 4)]
    assert x.dims[1].lengths.tolist() == list(lengths) and x.dims[1].length_dims == (x.dims[0],)
    for index, part in enumerate(parts):
        assert torch.equal(x.raw_tensor[index, : len(part)], part)
    x.raw_tensor.sum().backward()
    assert nested.grad is not None


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_with_two_ragged_axes_and_a_jagged_one_whose_axis_was_moved():
    both = rf.named(torch.nested.nested_tensor([torch.ones(3, 4), torch.ones(2, 5)]), "batch time freq")
    batch, time, freq = both.dims
    assert (time.lengths.tolist(), freq.lengths.tolist()) == ([3, 2], [4, 5])
    jagged = torch.nested.nested_tensor([torch.ones(3, 4), torch.ones(2, 4)], layout=torch.jagged)
    moved = rf.named(jagged.transpose(1, 2))
    assert names_and_sizes(moved) == [("batch", 2), ("feature", 4), ("time", 3)]
    assert moved.dims[2].lengths.tolist() == [3, 2]


@pytest.mark.skipif(not hasattr(torch.Tensor, "refine_names"), reason="this torch has no named tensors any more")
def test_a_tensor_with_names_of_torch():
    raw = torch.randn(3, 7).refine_names("batch", None)
    x = rf.named(raw)
    assert names_and_sizes(x) == [("batch", 3), ("axis1", 7)] and not x.raw_tensor.has_names()


class WithNames(torch.Tensor):
    """A tensor with names of axes, as torch has had them."""

    names = ("batch", None)

    def has_names(self):
        return True

    def rename(self, names):
        assert names is None
        return self.as_subclass(torch.Tensor)


def test_names_of_torch_are_taken_off():
    raw = torch.randn(3, 7).as_subclass(WithNames)
    x = rf.named(raw)
    assert names_and_sizes(x) == [("batch", 3), ("axis1", 7)] and type(x.raw_tensor) is torch.Tensor
    assert x.raw_tensor.data_ptr() == raw.data_ptr()
    assert names_and_sizes(rf.named(raw, "a b")) == [("a", 3), ("b", 7)]


class JaxLike:
    """An array of another library: values by protocol only."""

    def __init__(self, array):
        self._array, self.shape, self.dtype, self.ndim = array, array.shape, array.dtype, array.ndim

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._array, dtype)


def test_arrays_of_other_libraries():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for given in (array, JaxLike(array), array.tolist(), tuple(map(tuple, array.tolist())), array[::-1][::-1]):
        x = rf.named(given, "batch time")
        assert x.dtype == "float32" and np.array_equal(x.numpy(), array)
    assert rf.named(3, "").dims == () and rf.named([torch.tensor(2.0), torch.tensor(3.0)], "time").numpy().tolist() == [
        2,
        3,
    ]


class Dlpack:
    """An array that gives its storage away, and nothing else."""

    def __init__(self, tensor):
        self._tensor, self.shape, self.dtype = tensor, tensor.shape, tensor.dtype

    def __dlpack__(self, **options):
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


def test_an_array_that_gives_its_storage_away_keeps_it():
    raw = torch.randn(2, 3).bfloat16()
    x = rf.named(Dlpack(raw), "batch time")
    assert x.raw_tensor.data_ptr() == raw.data_ptr() and x.dtype == "bfloat16"


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64"]
)
def test_every_dtype_stays(dtype):
    raw = torch.ones(2, 3, dtype=getattr(torch, dtype))
    assert rf.named(raw, "batch time").raw_tensor is raw and rf.named(raw, "batch time").dtype == dtype


# -- What is no array, and names that are none -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "names", "said"),
    [
        (lambda: torch.randn(SHAPE), None, """
            ShapeError: named: the axes of x have no names.
              x  Tensor (3, 7, 5)
            There is one name per axis.
                rf.named(x, "axis0 axis1 axis2")
         """),
        (lambda: torch.randn(SHAPE), "batch time", """
            ShapeError: named: the names do not fit the array.
              array  (3, 7, 5)
              names  batch time
            There is one name per axis; "..." stands for any further ones, "(heads dim)" for one axis that is both.
                rf.named(x, "batch time axis2")
         """),
        (lambda: torch.randn(SHAPE), "batch 1 feature", """
            ShapeError: named: "1" stands for an axis that is not of length 1.
              array   (3, 7, 5)
              names   batch 1 feature
              axis 1  7
            A "1" is an axis of length 1, which is left out. Others have names:
                rf.named(x, "batch axis1 feature")
         """),
        (lambda: torch.randn(SHAPE), "batch time (heads dim)", """
            ShapeError: named: (heads dim) does not fit its axis.
              axis   5
              heads  ?
              dim    ?
            The product of their sizes is the size of the axis; one of them may be left open.
                dims={"heads": ...}
         """),
        (lambda: torch.randn(3, 3, 5), "time feature feature", """
            DimError: named: two axes of different sizes are called "feature".
              x  [time=3, feature=3, feature=5]
            A name that comes twice is a dim and its twin, as in self-attention. Of other dims the names differ:
                rf.named(x, "batch head target source")
         """),
        (lambda: torch.randn(SHAPE), "b t d -> b d t", """
            ValueError: named: these names cannot be read.
              names  'b t d -> b d t'
            Names say what the axes of one array are; there is nothing to the right of an arrow. To reorder, take the way back:
                rf.unnamed(rf.named(x, "batch time feature"), "time batch feature")
         """),
        (lambda: torch.randn(SHAPE), "b (t (h d))", """
            ValueError: named: these names cannot be read.
              names  'b (t (h d))'
            Parentheses hold names, and no further parentheses.
                "batch time feature"
         """),
        (lambda: torch.randn(SHAPE), "b t 5", """
            ValueError: named: these names cannot be read.
              names  'b t 5'
            "5" is no name: a name begins with a letter; of numbers only "1" is known.
                "batch time feature"
         """),
        (lambda: torch.randn(SHAPE), "... b ...", """
            ValueError: named: these names cannot be read.
              names  '... b ...'
            "..." stands for all further axes, so it is there at most once.
                "batch time feature"
         """),
        (lambda: torch.randn(SHAPE), ["b", 7, "t"], """
            TypeError: named: names of axes are text.
              names  list
              with   int
            They are one text, or a list of names and Dims:
                "batch time feature"
         """),
        (lambda: torch.eye(3).to_sparse(), "a b", """
            TypeError: named: the tensor is sparse (sparse_coo): most of its entries are not there.
              given  torch.Tensor (3, 3) torch.float32
            What is named and drawn are plain arrays of numbers.
                x.to_dense()
         """),
        (lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8), "a", """
            TypeError: named: the tensor is quantised: it holds codes, not numbers.
              given  torch.Tensor (2,) torch.qint8
            What is named and drawn are plain arrays of numbers.
                x.dequantize()
         """),
        (lambda: [[1, 2], [3]], "a b", """
            TypeError: named: this is no array of numbers.
              given  list
            Arrays are those of torch, NumPy and others (`__array__`, `__dlpack__`), and nested lists of numbers;
            the lists of one level are equally long.
                np.array([row + [0] * (2 - len(row)) for row in values])    # filled up; lengths=[...] says how long
         """),
        (lambda: rf.named([1, 2], "time"), "a", """
            TypeError: named: x has dims already.
              x  [time=2]
            Names are for arrays without dims. To replace a dim by another:
                x, _ = rf.replace_dim(x, in_dim=x.dims[0], out_dim=...)
         """),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_no_array_and_no_names(make, names, said):
    with refused(said):
        rf.named(make(), names)


# -- The way back ------------------------------------------------------------------------------------------------------


def test_unnamed_is_the_way_back_in_any_order():
    raw = torch.randn(SHAPE, requires_grad=True)
    x = rf.named(raw, "batch time feature", lengths=[7, 5, 3])
    assert rf.unnamed(x, "batch time feature") is raw
    assert torch.equal(rf.unnamed(x, "feature batch time"), raw.permute(2, 0, 1))
    assert torch.equal(rf.unnamed(x, [x.dims[1], "..."]), raw.transpose(0, 1))
    assert torch.equal(rf.unnamed(x, "(batch time) 1 feature"), raw.reshape(21, 1, 5))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("batch time", """
            DimError: unnamed: feature=5 is not named.
              x      [batch=3, time=7, feature=5]
              names  batch time
            All dims are axes of the array; "..." stands for all further ones.
                rf.unnamed(x, "batch time feature")
         """),
        ("batch time features", """
            DimError: unnamed: "features" is no dim of x.
              x      [batch=3, time=7, feature=5]
              names  batch time features
            Names are those of the dims.
                rf.unnamed(x, "batch time feature")
         """),
    ],
)  # fmt: skip
def test_unnamed_with_other_names(names, said):
    with refused(said):
        rf.unnamed(rf.named(torch.randn(SHAPE), "batch time feature"), names)


def test_a_name_of_two_dims_is_no_order():
    x = rf.Tensor("x", [Dim(2, name="time"), Dim(3, name="time")], raw_tensor=torch.randn(2, 3))
    with refused("""
        DimError: unnamed: "time" is the name of several dims of x.
          x      [time#1=2, time#2=3]
          names  time
        A name means one dim. Of several of that name, give the Dims:
            rf.unnamed(x, [x.dims[0], x.dims[1]])
    """):
        rf.unnamed(x, "time ...")
    assert rf.unnamed(x, x.dims[::-1]).shape == (3, 2)
