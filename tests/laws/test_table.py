"""The cases themselves: each has something to check."""

import pytest
from table import CASES, read_entries
from world import World

import rfnb as rf
from rfnb import Dim, Tensor

read_entries()

# Ops that may give their input back, and cases without a ragged dim, each with the reason.
_NUMBER = "gives one number"
GIVES_ITS_INPUT = {
    "identity": "by definition",
    "copy_to_device": "it is there already",
    "dropout": "outside of training",
}
_DISTANCES = "the distances are for the longest sequences"
NEVER_RAGGED = {
    "relative_positional_encoding added to a tensor": _DISTANCES,
    "relative_positional_encoding with an offset per sequence": _DISTANCES,
    "num_elements_of_shape": _NUMBER,
    "masked_fraction_of_shape": _NUMBER,
    "where outer": "is about an outer product",
    "masked_select_nested": "packs a batch of states without time",
    "scan until a condition": "the ragged dim of the outputs is summed over",
    "beam_search_step": "a step has no time, and refuses NaN",
}


def draws():
    """Worlds in which no sequence is empty, so that no case has a reason to do something else."""
    return [World([4, 2, 3], [3, 4, 2], [2, 3, 2, 4], seed) for seed in range(12)]


def parts(value):
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from parts(part)
    elif isinstance(value, dict):
        yield from parts(list(value.values()))
    else:
        yield value


def computes(case):
    """Whether in one of the draws something else than the inputs comes out."""
    for world in draws():
        call, inputs = case(world)
        if any(all(part is not x for x in inputs) for part in parts(call(*inputs)) if isinstance(part, Tensor)):
            return True
    return False


def is_ragged(case):
    """Whether in one of the draws an input or result has a dim with padding."""
    for world in draws():
        call, inputs = case(world)
        dims = {dim for x in inputs for dim in x.dims}
        for part in parts(call(*inputs)):
            dims |= {part} if isinstance(part, Dim) else set(part.dims) if isinstance(part, Tensor) else set()
        if any(dim.has_padding() for dim in dims):
            return True
    return False


def test_every_case_computes_something():
    assert [name for name in CASES if name not in GIVES_ITS_INPUT and not computes(CASES[name])] == []


def test_every_case_has_a_ragged_dim():
    assert [name for name in CASES if name not in NEVER_RAGGED and not is_ragged(CASES[name])] == []


def test_the_lists_of_exceptions_are_needed_and_have_a_reason():
    assert [name for name, reason in GIVES_ITS_INPUT.items() if not reason or computes(CASES[name])] == []
    assert [name for name, reason in NEVER_RAGGED.items() if not reason or is_ragged(CASES[name])] == []


@pytest.mark.parametrize("check", [computes, is_ragged])
def test_a_case_that_checks_nothing_is_seen(check):
    assert not check(lambda w: (lambda x: x, [w.floats(w.feat)]))
    assert check(lambda w: (rf.exp, [w.floats(w.batch, w.time)]))
