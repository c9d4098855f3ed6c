"""`dim.dyn_size_ext`: a raw array given to it sizes the dim, and nobody writes into it without the dim hearing of it."""

import copy
import pickle

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, using_backend

import rfnb as rf
from rfnb import Dim, DimError, Tensor

batch = Dim(3, name="batch")


def declared(name="time"):
    return Dim(Tensor(name, [batch], dtype="int32"), name=name)


def raw(*lengths):
    return torch.tensor(lengths, dtype=torch.int32)


def test_the_lengths_of_a_dim_made_from_a_template_are_the_template():
    template = Tensor("time", [batch], dtype="int32")
    time = Dim(template, name="time")
    assert time.dyn_size_ext is template and template.raw_tensor is None
    assert not time.is_dim_known() and time.dyn_size is None and time.get_dyn_size_ext_for_device("cpu") is None
    with pytest.raises(DimError, match='Dim "time" has no size yet'):
        time.get_size_tensor()


@pytest.mark.parametrize("through", ["dim", "template"])
def test_a_raw_array_given_to_the_template_sizes_the_dim(through):
    template = Tensor("time", [batch], dtype="int32")
    time = Dim(template, name="time")
    (time.dyn_size_ext if through == "dim" else template).raw_tensor = raw(5, 4, 2)
    assert time.extent == 5 and time.lengths.tolist() == [5, 4, 2] and time.length_dims == (batch,)
    assert template.raw_tensor.tolist() == [5, 4, 2]
    assert_same(time.dyn_size_ext, tensor(np.asarray([5, 4, 2], np.int32), batch))


def test_a_template_of_two_dims_sizes_both():
    template = Tensor("sizes", [batch], dtype="int32")
    one, other = Dim(template, name="one"), Dim(template, name="other")
    template.raw_tensor = raw(5, 4, 2)
    assert one.lengths.tolist() == other.lengths.tolist() == [5, 4, 2]


def test_the_next_batch_gives_the_template_other_sizes():
    time = declared()
    time.dyn_size_ext.raw_tensor = raw(5, 4, 2)
    longer = time + 1
    assert longer.lengths.tolist() == [6, 5, 3]
    time.reset_eager()
    assert not time.is_dim_known() and time.dyn_size_ext.raw_tensor is None
    time.dyn_size_ext.raw_tensor = raw(1, 2, 3)
    assert longer.lengths.tolist() == [2, 3, 4]


def test_a_raw_array_given_to_known_lengths_is_heard_of_everywhere():
    time = ragged([3, 2, 1], batch)
    x = rf.ones([batch, time])
    for _ in range(2):
        assert_same(rf.reduce_sum(x, axis=time), tensor([3.0, 2.0, 1.0], batch))
    time.dyn_size_ext.raw_tensor = raw(3, 1, 1)
    assert_same(rf.reduce_sum(x, axis=time), tensor([3.0, 1.0, 1.0], batch))
    time.dyn_size_ext.raw_tensor -= 1
    assert time.lengths.tolist() == [2, 0, 0]


def test_lengths_that_are_computed_cannot_be_given():
    time = ragged([3, 2, 1], batch)
    with raises_message(
        DimError,
        """
        dyn_size_ext.raw_tensor: the lengths of "time+1" are computed from those of other dims.
          dim  time+1<=4
        Change the dims that it is made of.
        """,
    ):
        (time + 1).dyn_size_ext.raw_tensor = raw(1, 1, 1)


def first_plus_one(lengths):
    lengths[0] += 1


WRITES = {
    "an entry": lambda lengths: lengths.__setitem__(0, 1),
    "all": lambda lengths: lengths.fill_(1),
    "from others": lambda lengths: lengths.copy_(raw(1, 1, 1)),
    "a view": lambda lengths: lengths[1:].zero_(),
    "a view of a view": lambda lengths: lengths.view(-1)[1:][0].zero_(),
    "each": lambda lengths: [each.zero_() for each in lengths],
    "without gradient": lambda lengths: lengths.detach().zero_(),
    "data": lambda lengths: lengths.data.__setitem__(0, 1),
    "other data": lambda lengths: setattr(lengths, "data", raw(1, 1, 1)),
    "out": lambda lengths: torch.add(raw(1, 1, 1), 1, out=lengths),
    "plus one": first_plus_one,
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_nobody_writes_into_the_lengths(write):
    time = ragged([3, 2, 1], batch)
    for lengths in (time.dyn_size_ext.raw_tensor, time.dyn_size, time.get_size_tensor().raw_tensor):
        with raises_message(
            TypeError,
            """
            Dim "time": its lengths are written in place.
              lengths  [batch=3] int32
            Masks and plans are made of lengths once, and would not hear of it. Assign others:
                time.dyn_size_ext = rf.minimum(time.dyn_size_ext, 5)    # any op makes others
            """,
        ):
            write(lengths)
    assert time.dyn_size_ext.raw_tensor.tolist() == time.lengths.tolist() == [3, 2, 1]


@pytest.mark.parametrize("backend", ["torch", "numpy"])
def test_nobody_writes_into_an_array_of_the_lengths(backend):
    time = ragged([3, 2, 1], batch)
    with using_backend(backend):
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(time.dyn_size_ext.raw_tensor)[0] = 1
    assert time.dyn_size_ext.raw_tensor.tolist() == [3, 2, 1]


def test_lengths_are_read_as_ever():
    lengths = ragged([3, 2, 1], batch).dyn_size_ext.raw_tensor
    assert isinstance(lengths, torch.Tensor) and lengths.dtype == torch.int32 and int(lengths[1]) == 2
    for result in (lengths + 1, lengths.clone(), lengths.to(torch.int64), lengths.max(), torch.stack([lengths])):
        assert type(result) is torch.Tensor
    mask = torch.arange(3)[None] < lengths[:, None]
    assert mask.tolist() == [[True, True, True], [True, True, False], [True, False, False]]
    packed = torch.nn.utils.rnn.pack_padded_sequence(torch.zeros(3, 3, 1), lengths, batch_first=True)
    assert packed.batch_sizes.tolist() == [3, 2, 1]
    mine = lengths.clone()
    mine[0] = 9
    assert mine.tolist() == [9, 2, 1]
    for copied in (copy.deepcopy(lengths), pickle.loads(pickle.dumps(lengths))):
        assert type(copied) is torch.Tensor and copied.tolist() == [3, 2, 1]


def test_lengths_are_a_tensor_that_ops_take():
    time = ragged([3, 2, 1], batch)
    assert_same(time.dyn_size_ext * 2, tensor(np.asarray([6, 4, 2], np.int32), batch))
    assert type(time.dyn_size_ext * 2) is type(time.dyn_size_ext.copy()) is Tensor
    loaded = pickle.loads(pickle.dumps(time.dyn_size_ext))
    assert type(loaded) is Tensor and loaded.raw_tensor.tolist() == [3, 2, 1]


def test_transform_tensors_takes_functions_that_change_the_tensor():
    time = ragged([3, 2, 1], batch)
    assert time.extent == 3

    def shorter(sizes):
        sizes.raw_tensor = sizes.raw_tensor.clamp(max=2)

    time.transform_tensors(shorter)
    assert time.lengths.tolist() == [2, 2, 1] and time.extent == 2
    time.transform_tensors(lambda sizes: sizes - 1)
    assert time.lengths.tolist() == [1, 1, 0]


def test_transform_tensors_to_a_device_keeps_the_lengths():
    time = ragged([3, 2, 1], batch)
    time.transform_tensors(lambda sizes: setattr(sizes, "raw_tensor", sizes.raw_tensor.to("cpu")))
    assert time.lengths.tolist() == [3, 2, 1]


def test_dyn_size_tags_are_those_with_lengths():
    rows, time, later = Dim(None, name="rows", kind="batch"), declared(), Dim(None, name="later")
    rows.dyn_size_ext = np.int32(3)
    one = Dim(None, name="one")
    one.dyn_size_ext = np.int32(7)
    assert Tensor("x", [rows, time, one, later, batch], dtype="float32").get_dyn_size_tags() == [time, later]
    assert randn(batch, ragged([3, 2, 1], batch)).get_dyn_size_tags()[0].name == "time"
