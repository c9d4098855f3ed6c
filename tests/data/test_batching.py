"""Batches: every example once, equal spelling lengths, and the same order for the same (seed, epoch)."""

import numpy as np
import pytest

from rfnb.data.batching import epoch_batches, examples_of, make_batch

PART = {
    "cat": (("K", "AE", "T"),),
    "read": (("R", "EH", "D"), ("R", "IY", "D")),
    "a": (("AH",), ("EY",)),
    "ox": (("AA", "K", "S"),),
    "see": (("S", "IY"),),
}


def many(count=100):
    rng = np.random.default_rng(0)
    letters = "abcdefg"
    part = {}
    while len(part) < count:
        word = "".join(rng.choice(list(letters), rng.integers(2, 5)))
        part[word] = (tuple(rng.choice(["K", "AE", "T"], rng.integers(1, 6))),)
    return examples_of(part)


def test_one_example_per_pronunciation():
    examples = examples_of(PART)
    assert len(examples) == 7
    assert len(examples_of(PART, max_letters=3)) == 5


def test_every_example_is_in_exactly_one_batch():
    examples = many()
    batches = epoch_batches(examples, batch_size=7, seed=1, epoch=0)
    assert sorted(index for batch in batches for index in batch) == list(range(100))
    assert max(map(len, batches)) == 7


def test_batches_have_one_spelling_length():
    examples = many()
    for batch in epoch_batches(examples, batch_size=7, seed=1, epoch=0):
        assert len({len(examples[index].letters) for index in batch}) == 1


def test_order_depends_on_seed_and_epoch_only():
    examples = many()
    first = epoch_batches(examples, batch_size=7, seed=1, epoch=0)
    assert epoch_batches(examples, batch_size=7, seed=1, epoch=0) == first
    assert epoch_batches(examples, batch_size=7, seed=1, epoch=1) != first
    assert epoch_batches(examples, batch_size=7, seed=2, epoch=0) != first


def test_number_of_batches_is_the_same_in_every_epoch():
    examples = many()
    assert len({len(epoch_batches(examples, batch_size=7, seed=1, epoch=epoch)) for epoch in range(5)}) == 1


def test_sorting_in_windows_saves_padding():
    examples = many()

    def padding(window):
        batches = epoch_batches(examples, batch_size=7, seed=1, epoch=0, window=window)
        lengths = [[len(examples[index].labels) for index in batch] for batch in batches]
        return sum(max(row) * len(row) - sum(row) for row in lengths)

    assert padding(8) < padding(1)


def test_batch_arrays():
    examples = examples_of(PART)
    batch = make_batch([examples[0], examples[6]])  # cat, see
    assert batch.letters.tolist() == [[2, 0, 19], [18, 4, 4]]
    assert batch.targets.tolist() == [[20, 2, 31, 0], [29, 18, 0, 0]]
    assert batch.inputs.tolist() == [[0, 20, 2, 31], [0, 29, 18, 0]]
    assert batch.lengths.tolist() == [4, 3]
    assert batch.letters.dtype == batch.targets.dtype == batch.inputs.dtype == np.int32


def test_unequal_spelling_lengths_are_refused():
    examples = examples_of(PART)
    with pytest.raises(ValueError, match="same number of letters"):
        make_batch(examples)
