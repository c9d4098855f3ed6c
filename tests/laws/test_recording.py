"""The law of recording compares, and can fail; see `recording.py`."""

import pytest
from recording import STEPS, compare_faces
from table import CASES, read_entries
from world import world

import rfnb as rf

read_entries()


def test_ops_are_compared_and_not_all_refused():
    """Else the test above would say nothing. What is refused makes a module in every step, with parameters from the step."""
    for name in ("matmul", "softmax", "gather", "LSTM one step", "top_k", "masked_select", "dropout in training"):
        if name in CASES:
            expected = "refused" if name.startswith("LSTM") else "same"
            assert compare_faces(name, CASES[name], world()) == expected, name


def a_value_kept_in_python(w):
    kept = []

    def call(x):
        kept.append(1)
        return x * len(kept)

    return call, [w.floats(w.batch, w.feat)]


def raw_random_numbers(w):
    def call(x):
        return x + rf.convert_to_tensor(w.values.random(w.feat.extent).astype("float32"), dims=[w.feat])

    return call, [w.floats(w.batch, w.feat)]


class Kept:
    """A class that counts."""

    count = 0


def a_value_kept_in_a_class(w):
    def call(x):
        Kept.count += 1
        return x * Kept.count

    return call, [w.floats(w.batch, w.feat)]


def a_value_that_is_another_one_late(w):
    calls = [0]

    def call(x):
        calls[0] += 1
        return x * max(calls[0] - STEPS + 2, 1)

    return call, [w.floats(w.batch, w.feat)]


@pytest.mark.parametrize("case", [a_value_kept_in_python, a_value_kept_in_a_class, raw_random_numbers])
def test_what_python_keeps_is_refused(case):
    assert compare_faces("refused", case, world()) == "refused"


def test_the_law_can_fail():
    """The steps that are asked what they would do are three: what is another one later is the limit of recording."""
    with pytest.raises(AssertionError):
        compare_faces("wrong", a_value_that_is_another_one_late, world())
