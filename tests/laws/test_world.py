"""The fixed worlds have all choices of a case, and the hard lengths; random ones come when they are asked for."""

import subprocess
from pathlib import Path

import pytest
from table import CASES, read_entries
from warm import warm
from world import LENGTHS, RAGGED, choices_of, covering, worlds_for

read_entries()


def lengths_of(world):
    return world.time.lengths.tolist(), world.source.lengths.tolist()


@pytest.mark.parametrize("name", ["reduce_sum", "pad", "top_k", "conv", "softmax", "relu"])
def test_each_choice_of_a_case_is_in_a_ragged_world(name):
    worlds = [make() for make in worlds_for(CASES[name])]
    assert [lengths_of(world) for world in worlds[:4]] == [LENGTHS[kind][:2] for kind in LENGTHS if kind not in RAGGED]
    made = set()
    for world in worlds[4:]:
        CASES[name](world)
        made |= {*world.rng.made}
    everything = set().union(*(choices_of(CASES[name], seed) for seed in range(16)))
    assert made >= everything and (made or name == "relu")
    assert len(worlds) >= 6 and len({str(lengths_of(world)) for world in worlds[4:]}) == 2


def test_of_equal_seeds_those_with_new_pairs_are_taken():
    choices = {0: [(0, 0), (1, 0)], 1: [(0, 0), (1, 0)], 2: [(0, 1), (1, 1)], 3: [(0, 1), (1, 0)]}
    assert covering(choices) == [0, 2]
    assert covering({0: [(0, 0), (1, 0), (2, 0)], 1: [(0, 0), (1, 0), (2, 1)], 2: [(0, 1), (1, 1), (2, 1)]}) == [0, 2]


def test_a_choice_is_large_as_often_as_small():
    from world import world

    rng = world().rng
    assert sorted({rng.random() for _ in range(20)}) == [0.1, 0.9]
    assert len(rng.made) == 20


def test_random_worlds_are_there_when_asked_for():
    code = "import world; print(len(world.worlds_for(lambda w: None)), world.worlds_for(lambda w: None)[-1]())"
    here = Path(__file__).parent
    found = subprocess.run(
        [*warm(), "-c", f"import sys; sys.path[:0] = {[str(here), str(here.parent)]!r}; {code}"],
        env={"RFNB_WORLDS": "3", "PYTHONPATH": str(here.parents[1])},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert found.startswith("9 World(")
