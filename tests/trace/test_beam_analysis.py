"""What the history of a search tells, against searches that were run again."""

import sys
from pathlib import Path

import numpy as np
import pytest

import rfnb as rf

sys.path.insert(0, str(Path(__file__).parents[1] / "search"))
from markov import Markov, beam_search, hypotheses


def recorded(model, beam_size, **options):
    with rf.record(kinds=["beams"]) as trace:
        _, labels = model.search(beam_size, max_seq_len=6, **options)
    return trace.beams["search"], hypotheses(labels, model.batch)


@pytest.mark.parametrize("seed", range(4))
def test_any_hypothesis_is_rebuilt_with_its_score_and_parts(seed):
    model = Markov(num_seqs=2, seed=seed)
    history, found = recorded(model, 4)
    for seq in range(2):
        assert [(item.tokens, pytest.approx(item.score, abs=1e-5)) for item in history.nbest(seq)] == found[seq]
        for item in [*history.nbest(seq), *history.finished(seq)]:
            assert item.parts["log_prob"] == pytest.approx(model.score(seq, item.tokens), abs=1e-4)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
def test_finished_hypotheses_are_ranked_anew_without_a_new_search(exponent):
    model = Markov(seed=3)
    history, _ = recorded(model, 4)
    ranked = history.rerank(0, length_exponent=exponent)
    keys = [model.score(0, item.tokens) / len(item.tokens) ** exponent for item in ranked]
    assert keys == sorted(keys, reverse=True) and len({item.tokens for item in ranked}) == len(ranked)
    assert {item.tokens for item in history.finished(0)} <= {item.tokens for item in ranked}


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("beam_size", [1, 2, 3])
def test_a_smaller_beam_is_what_a_search_with_it_keeps_as_long_as_it_is_exact(seed, beam_size):
    model = Markov(seed=seed)
    history, _ = recorded(model, 6, keep_candidates=100)
    smaller = history.smaller(0, beam_size)
    steps = beam_search(model.table[0], beam_size, 6)
    exact = len(steps) if smaller.exact_until is None else smaller.exact_until
    for step in range(min(exact, len(steps), history.num_steps)):
        kept = [tuple(history.hypothesis(0, slot, step)) for slot in smaller.slots[step]]
        wanted = [labels[: labels.index(0) + 1] if 0 in labels else labels for labels, *_ in steps[step][2]]
        assert kept == wanted
    if smaller.exact_until is None and history.num_steps >= len(steps):
        labels = max(steps[-1][2], key=lambda item: item[1])[0]
        assert smaller.best.tokens == (labels[: labels.index(0) + 1] if 0 in labels else labels)


def test_some_smaller_beams_are_exact_and_some_are_not():
    kinds = {recorded(Markov(seed=seed, sharpness=1.0), 3)[0].smaller(0, 2).exact_until is None for seed in range(30)}
    assert kinds == {True, False}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_search_error_is_told_from_a_model_error(seed, beam_size):
    model = Markov(seed=seed)
    history, found = recorded(model, beam_size)
    best = history.best(0)
    for reference, score in model.everything(0, 6)[:40]:
        said = history.diagnose(0, reference, score=score)
        if best.tokens == reference:
            assert said.kind == "found"
            continue
        assert said.kind == ("search error" if score > best.score + 1e-6 else "model error")
        guess = history.diagnose(0, reference)
        assert guess.kind in (said.kind, "unknown")
        in_beam = reference in [item.tokens for item in history.nbest(0)]
        assert (said.step is None) == in_beam
        if said.step is not None and said.step < len(reference):
            kept = [tuple(history.hypothesis(0, k, said.step)) for k in range(beam_size)]
            assert reference[: said.step + 1] not in kept
            if said.margin is not None:
                own = model.score(0, reference[: said.step + 1])
                assert said.margin == pytest.approx(own - history.steps[said.step]["scores"][0].min(), abs=1e-4)
                assert said.margin <= 1e-6


def test_every_candidate_has_a_verdict():
    model = Markov(seed=5)
    history, _ = recorded(model, 2, banned=[3])
    seen = set()
    for step in range(history.num_steps):
        for item in history.verdicts(0, step):
            seen.add(item.verdict)
            assert (item.verdict in ("kept", "ended")) == (
                item.rank < 4 and item.margin >= 0 and item.token != 3
            ) or item.token == 3
    assert seen == {"kept", "ended", "cut by rank", "blocked"}


def test_the_fate_of_each_hypothesis():
    history, _ = recorded(Markov(seed=1), 3)
    for step in range(history.num_steps):
        for k in range(3):
            fate = history.fate(0, k, step)
            if step == history.num_steps - 1:
                assert fate.kind == "last step"
            elif fate.children:
                assert fate.kind == "continued"
                assert (history.steps[step + 1]["parents"][0, list(fate.children)] == k).all()
            else:
                assert fate.kind in ("cut", "ended and cut") and (fate.margin is None or fate.margin <= 0)
                assert k not in history.steps[step + 1]["parents"][0]


def test_memory_grows_with_steps_times_beam_not_with_the_vocabulary():
    sizes = []
    for size in (40, 4000):
        vocab, batch = rf.Dim(size, name="vocab"), rf.Dim(2, name="batch")
        table = rf.convert_to_tensor(
            np.random.default_rng(0).standard_normal((2, size)).astype(np.float32), dims=[batch, vocab]
        )
        with rf.record(kinds=["beams"]) as trace:
            for _ in rf.Loop(axis=rf.Dim(5, name="time"), name="search"):
                rf.choice(table, axis=vocab, beam_size=4, input_type="logits")
        fields = trace.beams["search"].steps
        sizes.append(sum(value.size for step in fields for value in step.values()))
    assert sizes[0] == sizes[1]


def test_a_saved_search_says_the_same(tmp_path):
    model = Markov(seed=2)
    with rf.record(kinds=["beams"]) as trace:
        model.search(3, max_seq_len=6, banned=[2])
    trace.save(tmp_path / "run.rfnb")
    again = rf.load_trace(tmp_path / "run.rfnb").beams["search"]
    assert again.verdicts(0, 1) == trace.beams["search"].verdicts(0, 1)
    assert again.nbest(0)[0].parts == trace.beams["search"].nbest(0)[0].parts
