"""Edit distance: known words, an independent implementation, batch dims."""

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, tensor, using_backend
from rapidfuzz.distance import Levenshtein

import rfnb as rf
from rfnb import Dim, DimError

batch = Dim(5, name="batch")
A, B = ["kitten", "", "flaw", "abc", "aaaa"], ["sitting", "ab", "lawn", "", "aa"]
chars, letters = ragged(list(map(len, A)), batch, "chars"), ragged(list(map(len, B)), batch, "letters")


def words(rows, *dims):
    width = dims[-1].extent
    return tensor(np.asarray([[*map(ord, row), *[7] * (width - len(row))] for row in rows], np.int32), *dims)


@pytest.mark.parametrize("backend", ["torch", "numpy"])
def test_of_words(backend):
    with using_backend(backend):
        out = rf.edit_distance(words(A, batch, chars), chars, words(B, batch, letters), letters)
        assert_same(out, tensor(np.asarray([3, 2, 2, 3, 2], np.int32), batch))


def test_agrees_with_another_implementation_on_random_sequences():
    rng = np.random.default_rng(1)
    many = Dim(60, name="many")
    a, b = ([rng.integers(0, 3, n).tolist() for n in rng.integers(0, 12, 60)] for _ in range(2))
    time, frames = (ragged(list(map(len, x)), many, name) for x, name in ((a, "time"), (b, "frames")))
    x, y = (
        tensor(np.asarray([row + [9] * (dim.extent - len(row)) for row in rows], np.int32), many, dim)
        for rows, dim in ((a, time), (b, frames))
    )
    expected = [Levenshtein.distance(one, other) for one, other in zip(a, b)]
    assert rf.edit_distance(x, time, y, frames).numpy().tolist() == expected


def test_a_beam_against_one_reference_each():
    beam = Dim(2, name="beam")
    a, _ = rf.stack([words(A, batch, chars), words(A[::-1], batch, chars)], out_dim=beam)
    out = rf.edit_distance(a, chars, words(B, batch, letters), letters, dtype="int64")
    assert out.dims == (beam, batch) and out.dtype == "int64"
    assert out.numpy()[0].tolist() == [3, 2, 2, 3, 2]


def test_nothing_at_all():
    none, time = Dim(0, name="none"), Dim(2, name="time")
    empty = rf.zeros([none, time], dtype="int32")
    assert rf.edit_distance(empty, time, empty, time).numpy().shape == (0,)
    frames = Dim(0, name="frames")
    a, b = rf.zeros([batch, frames], dtype="int32"), rf.zeros([batch, time], dtype="int32")
    assert rf.edit_distance(a, frames, b, time).numpy().tolist() == [2] * 5
    assert rf.edit_distance(b, time, a, frames).numpy().tolist() == [2] * 5


def test_a_sequence_without_its_dim():
    with raises_message(
        DimError,
        """
        edit_distance: no dim letters<=7.
          b    [batch=5, chars<=6]
          dim  letters<=7
        The dim letters<=7 is not among the dims of b.
            b.dims[0]    # batch=5
            b.dims[1]    # chars<=6
        """,
    ):
        rf.edit_distance(words(A, batch, chars), chars, words(A, batch, chars), letters)


def test_batches_that_do_not_match():
    other, time = Dim(5, name="other"), Dim(2, name="time")
    with raises_message(
        DimError,
        """
        edit_distance: the batch dims of a and b do not match.
          a  [batch=5, chars<=6]
          b  [other=5, time=2]
        This would compare every batch=5 with every other=5.
        If they are the same axis, replace one first; if all with all is meant, say so:
            b, _ = rf.replace_dim(b, in_dim=..., out_dim=...)
            b = rf.expand_dim(b, dim=...)
        """,
    ):
        rf.edit_distance(words(A, batch, chars), chars, rf.zeros([other, time], dtype="int32"), time)
