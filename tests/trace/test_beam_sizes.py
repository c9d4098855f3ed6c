"""Many smaller beams at once are each what `BeamHistory.smaller` has."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "search"))
from markov import Markov

import rfnb as rf
from rfnb.trace.beams import BeamHistory
from rfnb.trace.smaller_beam import kept_by

OPTIONS = {
    "plain": {},
    "threshold": {"threshold": 2.0},
    "banned": {"banned": [2]},
    "n-grams": {"no_repeat_ngram": 2},
    "normalized": {"length_normalization": True},
    "sampled": {"sampling": True},
    "kept beams": {"keep_beams": True},
}


def assert_same_beams(history: BeamHistory) -> set[int | None]:
    """Compared for all sequences and sizes; the first steps that are not exact."""
    sizes, found = [1, 2, 3, 5, 6], set()
    for seq in range(history.num_seqs):
        kept, until = kept_by(history, seq, sizes)
        for index, size in enumerate(sizes):
            one = history.smaller(seq, size)
            assert [set(np.flatnonzero(here[index]).tolist()) for here in kept] == [set(slots) for slots in one.slots]
            assert until[index] == one.exact_until
            found.add(one.exact_until)
    return found


@pytest.mark.parametrize("kind", [*OPTIONS, "ties"])
@pytest.mark.parametrize("keep", [None, 1, 100])
def test_many_smaller_beams_at_once_are_each_the_one(kind, keep):
    found = set()
    for seed in range(6):
        model = Markov(num_seqs=2, seed=seed, sharpness=[0.5, 1.0, 3.0][seed % 3])
        if kind == "ties":
            model.table = np.round(model.table)
        with rf.record(kinds=["beams"]) as trace:
            model.search(6, max_seq_len=6, keep_candidates=keep, **OPTIONS.get(kind, {}))
        found |= assert_same_beams(trace.beams["search"])
    assert found - {None} or kind == "banned" or keep == 100


def test_of_plain_arrays_likewise():
    random = np.random.default_rng(0)
    found = set()
    for stored in (True, False):
        scores = -np.sort(random.random((2, 5, 12)).round(1), axis=2) - np.arange(5)[None, :, None]
        steps = []
        for step in range(5):
            parents, tokens = random.integers(0, 6 if step else 1, (2, 12)), random.integers(0, 4, (2, 12))
            fields = {"tokens": tokens, "parents": parents, "scores": scores[:, step]}
            own = {name: value[:, :6] for name, value in fields.items()}
            more = {f"cand_{name}": value for name, value in fields.items()}
            steps.append({**own, **more, "cand_kept": np.arange(12)[None].repeat(2, 0) < 6} if stored else own)
        steps[2]["scores"][1, 4:] = -np.inf
        found |= assert_same_beams(BeamHistory(steps))
    assert len(found) > 1


def test_what_was_cut_and_not_stored_makes_a_smaller_beam_an_estimate():
    # Slot 0 of the first step has no child among the two that were kept: a beam of 1 has kept something that is not known.
    first = {"tokens": np.array([[1, 2]]), "parents": np.array([[0, 0]]), "scores": np.array([[-1.0, -1.5]])}
    second = {"tokens": np.array([[1, 2]]), "parents": np.array([[1, 1]]), "scores": np.array([[-1.7, -1.9]])}
    history = BeamHistory([first, second])
    assert history.smaller(0, 1).exact_until == 1
    assert kept_by(history, 0, [1])[1] == [1]
