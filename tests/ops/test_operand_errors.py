"""Operands that no kernel accepts: indices out of range or of a wrong type, arrays on different devices. Whole messages."""

import re

import numpy as np
import pytest
import torch
from asserting import assert_same, on_selected_backend, ragged, raises_message, randn, tensor, using_backend

import rfnb as rf
from rfnb import Dim
from rfnb.core.layout import clear_plans

batch, feat, vocab, key = Dim(2, name="batch"), Dim(4, name="feat"), Dim(7, name="vocab"), Dim(3, name="key")
time = ragged([3, 2], batch)
x, table, tables = randn(batch, time, feat), randn(vocab, feat), randn(batch, vocab, feat)
logits = randn(batch, time, vocab)
embedding, linear = rf.Embedding(vocab, feat), rf.Linear(feat, vocab)


def ids(values):
    return tensor(np.asarray(values, np.int32), batch, time, sparse_dim=vocab)


good, large, negative = ids([[1, 2, 3], [4, 0, 0]]), ids([[1, 2, 3], [4, 9, 0]]), ids([[1, 2, 3], [4, -1, 0]])
padded = ids([[1, 2, 3], [4, 0, 99]])
INDEXING = {
    "gather": lambda ids: rf.gather(table, indices=ids),
    "gather of batches": lambda ids: rf.gather(tables, indices=ids),
    "Embedding": lambda ids: embedding(ids),
    "scatter": lambda ids: rf.scatter(x, indices=ids, indices_dim=time),
    "one_hot": lambda ids: rf.one_hot(ids),
    "cross_entropy": lambda ids: rf.cross_entropy(estimated=logits, target=ids, axis=vocab, estimated_type="logits"),
}


@pytest.mark.parametrize("ids", [large, negative], ids=["large", "negative"])
@pytest.mark.parametrize("name", INDEXING)
def test_an_index_that_there_is_not_is_named_with_its_place(name, ids):
    op = INDEXING[name]
    if name == "gather of batches" and ids is negative:
        pytest.skip("this kernel counts from the end; rf.debug(indices=True) finds it")
    op(good)  # then there is a plan
    with pytest.raises(IndexError) as caught:
        op(ids)
    text = re.sub(r" +", " ", str(caught.value))
    assert re.match(r"\w+, called in test_operand_errors.py:\d+: 1 of the \w+ out of range\.", text)
    assert "\n first at batch 1, time 1\n value " + str(ids.numpy()[1, 1]) + "\n allowed 0 to 6\n" in text
    assert text.endswith("on a GPU too:\n with rf.debug(indices=True):")


@pytest.mark.parametrize("garbage", [-100, -1, 9, 2**31 - 1])
@pytest.mark.parametrize("name", INDEXING)
def test_what_is_in_the_padding_of_indices_does_not_matter(name, garbage):
    """As -100 for labels that count for nothing, or what masked_select leaves behind."""
    values = padded.numpy().copy()
    values[1, 2:] = garbage
    assert_same(INDEXING[name](ids(values)).copy_masked(0), INDEXING[name](padded.copy_masked(0)).copy_masked(0))


@pytest.mark.parametrize("name", INDEXING)
def test_a_device_that_cannot_say_which_index_was_wrong_gets_none(name, monkeypatch):
    """A GPU computes nothing any more after an index out of range, so it sees 0 in the padding, and no second try is needed."""
    backend, tries = good.backend, []
    monkeypatch.setattr(backend, "get_device_raw", staticmethod(lambda raw: "cpu:0"))
    monkeypatch.setattr(backend, "is_on_host_raw", staticmethod(lambda raw: False))
    monkeypatch.setattr("rfnb.ops.gather.mended", lambda *operands: tries.append(operands))
    monkeypatch.setattr("rfnb.ops.one_hot.mended", lambda *operands: tries.append(operands))
    clear_plans()
    assert INDEXING[name](padded).raw_tensor is not None
    assert not tries


def test_the_numpy_backend_says_the_same():
    with using_backend("numpy"), pytest.raises(IndexError, match="1 of the indices out of range"):
        rf.gather(randn(vocab, feat), indices=ids([[1, 2, 3], [4, 9, 0]]))


@pytest.mark.parametrize("values", [randn(batch, time), randn(batch, time) > 0], ids=["float", "bool"])
@pytest.mark.parametrize("op", INDEXING.values(), ids=INDEXING)
def test_what_is_no_integer_is_no_index(op, values):
    op(good)  # the plan for integers is not taken for other dtypes
    with pytest.raises((TypeError, rf.DimError)) as caught:
        op(rf.set_sparse_dim(values, vocab))
    assert f"{values.dtype}" in str(caught.value)


def meta(*dims, dtype=torch.float32, sparse_dim=None):
    raw = torch.zeros([dim.extent for dim in dims], dtype=dtype, device="meta")
    return rf.convert_to_tensor(raw, dims=dims, sparse_dim=sparse_dim)


OPERANDS = {
    "add": lambda make: x + make(feat),
    "less": lambda make: make(feat) < x,
    "where": lambda make: rf.where(x > 0, x, make(feat)),
    "concat": lambda make: rf.concat((x, feat), (make(batch, time, key), key)),
    "stack": lambda make: rf.stack([x, make(batch, time, feat)]),
    "linear": lambda make: linear(make(batch, feat)),
    "matmul": lambda make: rf.matmul(x, make(feat, vocab), reduce=feat),
    "gather": lambda make: rf.gather(make(vocab, feat), indices=good),
    "scatter": lambda make: rf.scatter(make(batch, time, feat), indices=good, indices_dim=time),
    "cross_entropy": lambda make: rf.cross_entropy(
        estimated=make(batch, time, vocab), target=good, axis=vocab, estimated_type="logits"
    ),
    "dot_attention": lambda make: rf.dot_attention(x, make(batch, key, feat), make(batch, key, feat), key_dim=feat, axis=key),
}  # fmt: skip
# Kernels that take an array without values for one on the CPU; on a GPU they raise.
WITHOUT_A_PLAN = {"matmul", "gather", "scatter", "dot_attention"}


@pytest.mark.parametrize("planned", [False, True])
@pytest.mark.parametrize("name", OPERANDS)
def test_operands_on_different_devices(name, planned):
    if planned and name in WITHOUT_A_PLAN:
        pytest.skip("no kernel that raises")
    clear_plans()
    if planned:
        OPERANDS[name](randn)
    with pytest.raises(RuntimeError, match="the operands are on different devices") as caught:
        OPERANDS[name](meta)
    assert "on cpu" in str(caught.value) and "on meta" in str(caught.value)


def test_a_scalar_may_be_on_the_cpu():
    assert (meta(feat) * tensor(2.0)).device == "meta"


ERRORS = {
    "devices": (
        lambda: x + meta(feat),
        RuntimeError,
        """
        add: the operands are on different devices.
          a  [batch=2, time<=3, feat=4] float32 on cpu
          b  [feat=4] float32 on meta
        An op computes on one device. Copy an operand to that of the others:
            b = rf.copy_to_device(b, "cpu")
        """,
    ),
    "float indices": (
        lambda: rf.gather(x, indices=randn(batch), axis=feat),
        TypeError,
        """
        gather: the indices are float32.
          source   [batch=2, time<=3, feat=4]
          indices  [batch=2] float32
        Indices are integers.
            rf.cast(indices, "int64")       # or rf.masked_select(source, mask=..., dims=[...])
        """,
    ),
    "a float index": (
        lambda: rf.gather(x, indices=1.0, axis=feat),
        TypeError,
        """
        gather: the index is a float.
          source  [batch=2, time<=3, feat=4]
          index   1.0
        Indices are integers.
            rf.gather(source, indices=1, axis=...)
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()


def test_one_index_without_dims_is_named_too():
    index = rf.convert_to_tensor(9, dims=(), sparse_dim=vocab)
    with pytest.raises(IndexError) as caught:
        rf.gather(table, indices=index)
    assert "first at  the only one\n  value     9\n  allowed   0 to 6\n" in str(caught.value)


def test_the_first_gather_of_batches_looks_for_indices_below_0():
    """Of further ones rf.debug(indices=True) does."""
    clear_plans()
    with pytest.raises(IndexError, match="1 of the indices out of range"):
        INDEXING["gather of batches"](negative)


def test_entries_of_batches_are_no_entries_from_the_end():
    scores = rf.random_normal([batch, time, vocab])
    assert_same(rf.gather(scores, indices=good), rf.gather(scores, indices=good, clip_to_valid=True))
    with pytest.raises(IndexError, match="1 of the indices out of range"):
        rf.gather(scores, indices=negative)


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@pytest.mark.parametrize("of", [(), (batch,), (batch, time)], ids=["number", "batch", "frames"])
@pytest.mark.parametrize(
    "source", [(vocab,), (vocab, feat), (feat, vocab), (batch, vocab), (batch, vocab, feat)], ids=str
)
def test_indices_of_every_integer_dtype_are_the_same_and_others_none_whoever_was_first(source, of, backend):
    """torch takes uint8 for a mask, as bool."""
    with using_backend(backend):
        x = on_selected_backend(randn(*source))
        indices = rf.convert_to_tensor(np.ones([dim.extent for dim in of], np.int64), dims=of, sparse_dim=vocab)
        expected = rf.gather(x, indices=indices)
        for dtype in ("int32", "int16", "int8", "uint8"):
            assert_same(rf.gather(x, indices=rf.cast(indices, dtype), axis=vocab), expected)
        for dtype in ("bool", "float32"):
            with pytest.raises(TypeError, match=f"^gather: the indices are {dtype}."):
                rf.gather(x, indices=rf.cast(rf.set_sparse_dim(indices, None), dtype), axis=vocab)
