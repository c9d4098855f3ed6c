"""In a batch, a sequence is what it is alone, whatever was done to its length, and however short it is.

RFNB_SEED=7 tries other chains of the slow test, RFNB_ALL=1 all of them, which takes an hour.
"""

from __future__ import annotations

import pytest
from lengths import OPS, compare
from seed import ALL, SEED

import rfnb as rf

BATCHES = [[5, 1], [2, 0, 1], [1, 0], [0, 0], [5, 2, 1, 0]]
_NAMES = list(OPS)


def chains(step: int) -> list[tuple[str, str, str]]:
    """A chain of three for each op that is the first one; all steps together have each pair of ops at each two places."""
    names, count = _NAMES, len(_NAMES)
    return [
        (name, names[(place + step) % count], names[(2 * place + step) % count]) for place, name in enumerate(names)
    ]


@pytest.fixture(autouse=True)
def double():
    with rf.set_default_float_dtype_ctx("float64"):
        yield


@pytest.mark.parametrize("name", _NAMES)
def test_an_op_gives_each_sequence_what_it_gives_it_alone(name):
    assert compare([name], BATCHES) > 50


@pytest.mark.parametrize("step", [3, 42])
def test_a_chain_gives_each_sequence_what_it_gives_it_alone(step):
    for chain in chains(step):
        assert compare(chain, [[5, 1], [2, 0, 1], [1, 0]])


@pytest.mark.slow
@pytest.mark.parametrize("step", range(len(_NAMES)) if ALL else [SEED % len(_NAMES)])
def test_every_pair_of_ops_in_a_chain(step):
    for chain in chains(step):
        assert compare(chain, BATCHES)


def test_each_pair_is_in_a_chain():
    every = [chain for step in range(len(_NAMES)) for chain in chains(step)]
    for places in ((0, 1), (0, 2), (1, 2)):
        assert len({tuple(chain[place] for place in places) for chain in every}) == len(_NAMES) ** 2


def test_the_law_finds_a_length_that_is_taken_for_a_sum(monkeypatch):
    """As it was: what is below 0 went on below 0."""
    monkeypatch.setattr("rfnb.core.dim_math.is_clipped", lambda dim: False)
    with pytest.raises(AssertionError):
        compare(["slice end=-3", "concat a frame in front"], [[5, 1]])
