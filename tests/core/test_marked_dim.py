"""verify_out_shape with dims that have no axis, and with those that may be missing."""

import pytest
from asserting import ragged, raises_message, tensor

from rfnb import Dim, Tensor
from rfnb.core.marked_dim import ImplicitDim, ImplicitDynSizeDim, ImplicitSparseDim, OptionalDim
from rfnb.core.tensor import VerifyOutShapeException

batch, feat, vocab = Dim(2, name="batch"), Dim(3, name="feat"), Dim(5, name="vocab")
time = ragged([2, 1], batch)
ids = tensor([[1, 2], [3, 0]], batch, time, sparse_dim=vocab)
alone = Tensor("alone", [time, feat])


def test_the_sparse_dim_is_named_with_its_mark():
    assert ids.verify_out_shape({time, batch, ImplicitSparseDim(vocab)}) is ids
    assert ids.verify_out_shape({time, batch, ImplicitDim(vocab)}) is ids
    assert ids.verify_out_shape({time, batch}, allow_missing_implicit_dims=True) is ids
    with raises_message(
        VerifyOutShapeException,
        """
        verify_out_shape: other dims than expected.
          tensor        Tensor{'', [batch=2, time<=2] int64 sparse over vocab=5}
          expected      {batch=2, time<=2}
          not expected  ImplicitSparseDim(vocab=5)
        The dims must be the same set, and those without an axis named too. As it is:
            x.verify_out_shape({batch, time, ImplicitSparseDim(vocab)})
        """,
    ):
        ids.verify_out_shape({time, batch})


def test_what_lengths_are_over_is_named_with_its_mark():
    alone.verify_out_shape({time, feat, ImplicitDynSizeDim(batch)})
    for wrong in ({time, feat}, {time, feat, ImplicitSparseDim(batch)}, {time, feat, batch}):
        with pytest.raises(VerifyOutShapeException):
            alone.verify_out_shape(wrong)


def test_lengths_over_a_ragged_dim_depend_on_what_that_one_is_over():
    words = ragged([[1, 2], [1, 0]], (batch, time), "words")
    Tensor("x", [words]).verify_out_shape({words, ImplicitDynSizeDim(batch), ImplicitDynSizeDim(time)})
    words = Dim(Tensor("lengths", [time], "int32"), name="words")  # over time, and that is over batch
    Tensor("x", [words]).verify_out_shape({words, ImplicitDynSizeDim(time), ImplicitDynSizeDim(batch)})


def test_a_dim_with_an_axis_is_not_implicit():
    ids.verify_out_shape({batch, time, ImplicitSparseDim(vocab)})
    Tensor("range", [feat], "int32", sparse_dim=feat).verify_out_shape({feat})


def test_an_optional_dim_may_be_there_or_not():
    beam = Dim(4, name="beam")
    for dims in ([batch, beam], [batch]):
        Tensor("x", dims).verify_out_shape({batch, OptionalDim(beam)})


def test_a_mark_that_is_not_there_is_an_error():
    with raises_message(
        VerifyOutShapeException,
        """
        verify_out_shape: other dims than expected.
          tensor    Tensor{'x', [batch=2] (template)}
          expected  {batch=2, ImplicitSparseDim(vocab=5), feat=3}
          missing   ImplicitSparseDim(vocab=5), feat=3
        The dims must be the same set, and those without an axis named too. As it is:
            x.verify_out_shape({batch})
        """,
    ):
        Tensor("x", [batch]).verify_out_shape({batch, feat, ImplicitSparseDim(vocab)})


def test_marks_are_equal_by_kind_and_dim():
    assert ImplicitSparseDim(vocab) == ImplicitSparseDim(vocab) != ImplicitDynSizeDim(vocab)
    assert len({OptionalDim(vocab), OptionalDim(vocab), OptionalDim(feat)}) == 2
    assert repr(OptionalDim(vocab)) == "OptionalDim(vocab)"
