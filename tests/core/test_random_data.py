"""Random data for templates: sizes that fit together, values of the right kind, the same for a seed."""

import numpy as np
import pytest
from asserting import raises_message, using_backend

from rfnb.tensor import Dim, Tensor, TensorDict, batch_dim
from rfnb.tensor.utils import (
    get_random_seq_lens_for_dyn_dims,
    tensor_dict_dims_random_seq_len_min_max,
    tensor_dict_fill_random_numpy_,
    tensor_fill_random_numpy_,
)

feat, vocab = Dim(5, name="feat"), Dim(4, name="vocab")


@pytest.fixture(autouse=True)
def batch_without_size():
    batch_dim.reset_eager()
    yield
    batch_dim.reset_eager()


def templates():
    time, words = Dim(Tensor("time", [batch_dim], "int32"), name="time"), Dim(None, name="words")
    return TensorDict(
        [
            Tensor("x", [batch_dim, time, feat]),
            Tensor("ids", [batch_dim, words], "int32", sparse_dim=vocab),
            Tensor("flag", [time, batch_dim], "bool"),
        ]
    ), (time, words)


def test_values_fit_their_dims_and_dtypes():
    data, (time, words) = templates()
    tensor_dict_fill_random_numpy_(data)
    assert batch_dim.extent == 3 and time.length_dims == words.length_dims == (batch_dim,)
    assert 2 <= time.lengths.min() and time.lengths.max() <= 7
    assert data["x"].numpy().shape == (3, time.extent, 5) and data["x"].dtype == "float32"
    assert set(np.unique(data["ids"].numpy())) <= set(range(4)) and data["ids"].dtype == "int32"
    assert data["flag"].numpy().shape == (time.extent, 3)


def test_a_seed_gives_the_same_data_on_every_backend():
    values = []
    for backend in ("torch", "numpy"):
        with using_backend(backend):
            data, (time, _) = templates()
            tensor_dict_fill_random_numpy_(data, rnd=7)
            values.append((time.lengths.tolist(), data["x"].numpy()))
            data.reset_content()
    assert values[0][0] == values[1][0]
    np.testing.assert_array_equal(values[0][1], values[1][1])


def test_bounds_of_lengths_are_kept():
    data, (time, words) = templates()
    tensor_dict_fill_random_numpy_(data, dyn_dim_max_sizes={time: 9, words: 1}, dyn_dim_min_sizes={time: 9})
    assert time.lengths.tolist() == [9, 9, 9] and words.lengths.tolist() == [1, 1, 1]


def test_what_has_values_or_sizes_keeps_them():
    rnd = np.random.RandomState(1)
    x = Tensor("x", [feat], "int32", raw_tensor=np.zeros(5, np.int32))
    assert tensor_fill_random_numpy_(x, rnd=rnd) is False and x.numpy().tolist() == [0] * 5
    template = Tensor("y", [feat], "int64")
    assert tensor_fill_random_numpy_(template, rnd=rnd, min_val=3, max_val=3) is True
    assert template.numpy().tolist() == [3] * 5


def test_lengths_over_lengths_and_derived_dims():
    time = Dim(Tensor("time", [batch_dim], "int32"), name="time")
    chars = Dim(Tensor("chars", [batch_dim, time], "int32"), name="chars")
    lengths = get_random_seq_lens_for_dyn_dims([chars, time, time + 1], np.random.default_rng(1), batch_size=2)
    assert list(lengths) == [batch_dim, time, chars]
    assert lengths[batch_dim] == 2 and lengths[time].shape == (2,) and lengths[chars].shape == (2, lengths[time].max())


def test_bounds_by_dim_by_name_and_for_all():
    data, (time, words) = templates()
    of = lambda seq_lens: tensor_dict_dims_random_seq_len_min_max(data, seq_lens)  # noqa: E731
    assert of(None) == [(time, 2, 7), (words, 2, 7)]
    assert of(4) == [(time, 4, 4), (words, 4, 4)]
    assert of({time: 5, "words": (1, 2)}) == [(time, 5, 5), (words, 1, 2)]
    assert of({time: 5, None: (0, 1)}) == [(time, 5, 5), (words, 0, 1)]
    with raises_message(
        ValueError,
        """
        tensor_dict_dims_random_seq_len_min_max: the bounds are the wrong way round.
          dim       time=?
          shortest  3
          longest   2
        The shortest comes first.
        """,
    ):
        of((3, 2))
