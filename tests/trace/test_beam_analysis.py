"""The analysis of a recorded search equals searches that are run again."""

import gc
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import Dim
from rfnb.interop.seen.layouts import memory_of
from rfnb.trace.beam_labels import by_text, numbers_of

sys.path.insert(0, str(Path(__file__).parents[1] / "search"))
from asserting import raises_message, randn
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


@pytest.mark.parametrize(
    "options", ["plain", "equal scores", "threshold", "banned", "fusion", "sampling", "keep_beams"]
)
def test_what_a_step_keeps_does_not_hold_on_to_all_scores(options):
    # An array of few values may be a view of a large one, which then stays in memory with it.
    vocab, batch = rf.Dim(50_000, name="vocab"), rf.Dim(2, name="batch")
    table = (
        np.random.default_rng(0).standard_normal((2, vocab.size)).astype(np.float32) - 11
    )  # log probabilities, nearly
    scores = rf.convert_to_tensor(table * 0 if options == "equal scores" else table, dims=[batch, vocab])
    given = {
        "threshold": {"threshold": 0.5}, "banned": {"banned": [3]}, "sampling": {"sampling": True},
        "keep_beams": {"keep_beams": True}, "fusion": {"fusion": {"lm": (scores, 0.5)}},
    }.get(options, {})  # fmt: skip
    before = storages()
    with rf.record(kinds=["beams"]) as trace:
        for _ in rf.Loop(axis=rf.Dim(5, name="time"), name="search"):
            rf.choice(scores, axis=vocab, beam_size=4, **given)
    assert len(trace.events) == 5
    new = {place: size for place, size in storages().items() if place not in before}
    row = 2 * vocab.size * 4  # bytes of the scores of one hypothesis of each sequence
    assert [size for size in new.values() if size >= row // 2] == []


def storages():
    """Address and bytes of the memory of all tensors, but for those of other tests that have none of their own: sparse ones, of vmap."""
    gc.collect()
    own = [memory_of(item) for item in gc.get_objects() if type(item) is torch.Tensor]
    return {memory.data_ptr(): memory.nbytes() for memory in own if memory is not None}


def test_a_saved_search_says_the_same(tmp_path):
    model = Markov(seed=2)
    with rf.record(kinds=["beams"]) as trace:
        model.search(3, max_seq_len=6, banned=[2])
    trace.save(tmp_path / "run.rfnb")
    again = rf.load_trace(tmp_path / "run.rfnb").beams["search"]
    assert again.verdicts(0, 1) == trace.beams["search"].verdicts(0, 1)
    assert again.nbest(0)[0].parts == trace.beams["search"].nbest(0)[0].parts


# -- searches with options ----------------------------------------------------------------------------------------------------

OPTIONS = {
    "plain": {}, "normalized": {"length_normalization": True, "length_normalization_exponent": 0.7}, "threshold": {"threshold": 0.8},
    "banned": {"banned": [1]}, "ngram": {"no_repeat_ngram": 2},
}  # fmt: skip
KINDS = pytest.mark.parametrize("kind", OPTIONS)
EXPONENT = {"normalized": 0.7}


def everything(model, seq, steps):
    """The score of all sequences that end, or are cut after so many steps."""
    found = {}
    for labels in itertools.product(range(model.table.shape[-1]), repeat=steps):
        labels = labels[: labels.index(0) + 1] if 0 in labels else labels
        found[labels] = model.score(seq, labels)
    return found


def kept(history, seq, step):
    real = np.flatnonzero(history.steps[step]["scores"][seq] > -np.inf)
    return [tuple(history.hypothesis(seq, slot, step)) for slot in real]


@KINDS
@pytest.mark.parametrize("seed", range(3))
def test_hypotheses_are_in_the_order_of_the_search_with_the_models_own_scores(kind, seed):
    model = Markov(num_seqs=2, seed=seed, size=3, sharpness=1.0)
    history, found = recorded(model, 4, **OPTIONS[kind])
    for seq in range(2):
        assert [item.tokens for item in history.nbest(seq)] == [row for row, score in found[seq] if score > -np.inf]
        for item in [*history.nbest(seq), *history.finished(seq)]:
            assert item.score == pytest.approx(model.score(seq, item.tokens), abs=1e-4)
            assert item.parts["log_prob"] == pytest.approx(item.score, abs=1e-4)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0])
@KINDS
def test_ranking_anew_gives_what_the_final_scores_of_a_search_with_that_exponent_would_be(kind, exponent):
    model = Markov(num_seqs=2, seed=1, size=3, sharpness=1.0)
    history, _ = recorded(model, 4, **OPTIONS[kind])
    for seq in range(2):
        ranked = history.rerank(seq, length_exponent=exponent)
        finals = [model.score(seq, item.tokens) / len(item.tokens) ** exponent for item in ranked]
        assert finals == sorted(finals, reverse=True)
        np.testing.assert_allclose([item.rating(exponent) for item in ranked], finals, atol=1e-4)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_where_nothing_is_pruned_ranking_anew_is_a_search_with_that_exponent(exponent):
    for seed in range(5):
        model = Markov(num_seqs=2, seed=seed, size=3, sharpness=1.0)
        with rf.record(kinds=["beams"]) as trace:
            model.search(100, max_seq_len=4)
        history = trace.beams["search"]
        _, labels = model.search(100, max_seq_len=4, length_normalization=True, length_normalization_exponent=exponent)
        for seq, found in enumerate(hypotheses(labels, model.batch)):
            rows = [row for row, score in found if score > -np.inf]
            assert [item.tokens for item in history.rerank(seq, length_exponent=exponent)] == rows


@KINDS
@pytest.mark.parametrize("beam_size", [1, 2, 3])
@pytest.mark.parametrize("seed", range(2))
def test_every_sequence_as_reference_gets_the_right_diagnosis(kind, beam_size, seed):
    model, steps, exponent = Markov(seed=seed, size=3, sharpness=1.0), 4, EXPONENT.get(kind, 0.0)
    with rf.record(kinds=["beams"]) as trace:
        _, labels = model.search(beam_size, max_seq_len=steps, **OPTIONS[kind])
    history, found = trace.beams["search"], [row for row, s in hypotheses(labels, model.batch)[0] if s > -np.inf]
    scores = everything(model, 0, steps)
    rank = {labels: score / len(labels) ** exponent for labels, score in scores.items()}
    for reference, score in scores.items():
        said, guess = history.diagnose(0, reference, score=score), history.diagnose(0, reference)
        if reference == found[0]:
            assert said.kind == guess.kind == "found"
            continue
        assert said.kind == ("search error" if rank[reference] > rank[found[0]] + 1e-6 else "model error")
        assert guess.kind in (said.kind, "unknown")
        assert (said.step is None) == (reference in found)
        if said.step is not None:
            assert reference[: said.step + 1] not in kept(history, 0, said.step)
            assert not said.step or reference[: said.step] in kept(history, 0, said.step - 1)


def test_what_is_known_of_where_it_fell_is_enough_to_call_it_a_model_error():
    """Its score can only fall, under any exponent of the length."""
    model = Markov(seed=3, sharpness=3.0)
    history, _ = recorded(model, 2, keep_candidates=3)
    for exponent in (0.0, 1.0):
        ending = [labels for labels in everything(model, 0, 3) if labels[-1] == 0]
        said = [history.diagnose(0, reference, length_exponent=exponent) for reference in ending]
        assert {None, "cut by rank"} <= {
            item.verdict for item in said if item.kind == "model error"
        }  # None: not even among the stored candidates


def test_a_reference_that_goes_on_after_its_end_is_cut_there():
    history, found = recorded(Markov(seed=1), 3)
    second = next(row for row, _ in found[0][1:] if row[-1] == 0)
    assert history.diagnose(0, [*second, 0, 0]) == history.diagnose(0, second)
    assert history.diagnose(0, [*found[0][0][0], 0]).kind == "found"


def test_a_reference_longer_than_the_search():
    model = Markov(seed=2, sharpness=0.3)
    model.table[..., 0] -= 5  # nothing ends
    history, found = recorded(model, 2)
    said = history.diagnose(0, [*found[0][0][0], 0])
    assert (said.kind, said.step) == ("model error", None)  # at most as good as its begin, which is the best
    assert said.text.startswith("The reference was in the beam until the search ended, after 6 of its 7 labels.")
    model.table += 1.0  # no log probabilities
    history, found = recorded(model, 2)
    assert history.diagnose(0, [*found[0][0][0], 0]).kind == "unknown"


def test_a_reference_without_its_end():
    history, found = recorded(Markov(seed=0), 3)
    long = max((row for row, _ in found[0]), key=len)
    with raises_message(
        ValueError,
        f"""
        BeamHistory.diagnose: the reference stops in the middle of hypotheses.
          reference  {" ".join(history.label(token) for token in long[:-1])}
          steps      {len(long) - 1} of {history.num_steps}
        It is the begin of what the search has found, but nothing ended there. A reference has the label that ends it:
            history.diagnose(seq, [*reference, end_label])
        """,
    ):
        history.diagnose(0, long[:-1])


def test_nothing_to_compare():
    history, _ = recorded(Markov(seed=0), 3)
    text = "BeamHistory.diagnose: there is nothing to compare.\nThe search found nothing, or the reference is empty."
    with raises_message(ValueError, text):
        history.diagnose(0, [])


@pytest.mark.parametrize("kind", [*OPTIONS, "ties"])
@pytest.mark.parametrize("keep", [None, 1, 100])
def test_a_smaller_beam_is_exact_where_it_says_so(kind, keep):
    exact = 0
    for seed in range(8):
        model = Markov(num_seqs=2, seed=seed, sharpness=[0.5, 1.0, 3.0][seed % 3])
        if kind == "ties":
            model.table = np.round(model.table)
        options = OPTIONS.get(kind, {})
        history, _ = recorded(model, 6, keep_candidates=keep, **options)
        for beam_size in (1, 2, 4, 6):
            own, _ = recorded(model, beam_size, **options)
            for seq in range(2):
                smaller = history.smaller(seq, beam_size)
                steps = history.num_steps if smaller.exact_until is None else smaller.exact_until
                for step in range(min(steps, own.num_steps)):
                    rows = [tuple(history.hypothesis(seq, slot, step)) for slot in smaller.slots[step]]
                    assert rows == kept(own, seq, step)
                if smaller.exact_until is None:
                    exact += beam_size < 6
                    assert own.num_steps > history.num_steps or smaller.best.tokens == own.best(seq).tokens
                else:
                    assert beam_size < 6  # the beam of the search itself is known
    assert exact


def test_of_a_choice_that_does_not_keep_the_best_no_smaller_beam_is_exact():
    for options in ({"keep_beams": True}, {"sampling": True}):
        history, _ = recorded(Markov(seed=1), 4, **options)
        assert history.smaller(0, 2).exact_until == 0
        assert history.smaller(0, 4).exact_until is None


def test_a_diagnosis_of_all_that_a_search_has_collected():
    """rf.beam_search also gives what fell out of the beam after its end."""
    model = Markov(seed=1)

    def step(labels, state):
        return torch.from_numpy(model.table[0])[state["step"], labels], {"step": state["step"] + 1}

    for beam_size in (1, 2, 3):
        result = rf.beam_search(
            step, batch=1, state={"step": 0}, max_seq_len=6, beam_size=beam_size, early_stopping=False
        )
        best = result.best().tokens
        assert result.diagnose(0, best).kind == "found"
        for row in result.nbest()[1:]:
            said = result.diagnose(0, row.tokens)
            assert (said.kind, said.step) == ("model error", None)


# -- several sources, several choices -----------------------------------------------------------------------------------------


def two_sources(**options):
    """A recorded choice of two sources, and its labels."""
    batch, tag = Dim(2, name="batch"), Dim(2, name="tag", vocab=["x", "y"])
    word = Dim(3, name="word", vocab=["</s>", "a", "b"])
    time = Dim(3, name="time")
    torch.manual_seed(5)
    scores = [rf.log_softmax(randn(time, batch, dim), axis=dim) for dim in (word, tag)]
    loop = rf.Loop(axis=time, name="search")
    with rf.record(kinds=["beams"]) as trace:
        for _ in loop:
            labels = rf.choice([loop.unstack(x) for x in scores], axis=[word, tag], beam_size=4, **options)
            out = [loop.stack(label) for label in labels]
    return trace, [x.copy_transpose([batch, x.dims[-1], time]).numpy() for x in out], out


def test_hypotheses_of_several_sources_are_combinations():
    trace, (words, tags), out = two_sources(source_beam_sizes=[3, 2])
    history = trace.beams["search"]
    for seq in range(2):
        for k, item in enumerate(history.nbest(seq)):
            pairs = list(zip(words[seq, k].tolist(), tags[seq, k].tolist()))
            assert [history.split(token) for token in item.tokens] == pairs
            assert item.labels == tuple(f"{['</s>', 'a', 'b'][w]}|{'xy'[t]}" for w, t in pairs)
            assert history.diagnose(seq, pairs).kind == ("model error" if k else "found")
    verdict = history.verdicts(0, 1)[-1]
    assert verdict.label in {f"{w}|{t}" for w in ("</s>", "a", "b") for t in "xy"}
    assert len({(item.token, item.parent) for item in history.verdicts(0, 1)}) == len(history.verdicts(0, 1))
    assert history.smaller(0, 2).exact_until is None or history.smaller(0, 2).exact_until > 0
    labels = rf.nbest(out)[0][0]
    assert labels.tokens == tuple(zip(words[0, 0].tolist(), tags[0, 0].tolist()))
    assert labels.text == " ".join(history.best(0).labels)


def test_the_events_have_the_labels_of_each_source():
    trace, (words, tags), _ = two_sources()
    last = trace.select(kind="beams")[-1].values
    assert (last["tokens"].numpy() == words[:, :, -1]).all() and (last["tokens:1"].numpy() == tags[:, :, -1]).all()
    assert [last[name].sparse_dim.name for name in ("tokens", "cand_tokens", "tokens:1", "cand_tokens:1")] == [
        "word", "word", "tag", "tag"
    ]  # fmt: skip


def test_a_view_shows_the_combinations():
    trace, _, _ = two_sources()
    history = trace.beams["search"]
    view = rf.viz.beams(history)
    assert view.spec.head["seqs"][0]["result"] == " ".join(history.best(0).labels)
    assert history.best(0).labels[0] in view.text() and history.best(0).labels[0] in view.html()


def test_several_sources_after_saving(tmp_path):
    trace, _, _ = two_sources()
    trace.save(tmp_path / "run.rfnb")
    again = rf.load_trace(tmp_path / "run.rfnb").beams["search"]
    assert again.text() == trace.beams["search"].text() and "|" in again.text()


def test_each_of_two_choices_in_a_step_has_its_own_labels():
    word, tag = Dim(2, name="word", vocab=["a", "b"]), Dim(3, name="tag", vocab=["x", "y", "z"])
    time = Dim(2, name="time")
    with rf.record(kinds=["beams"]) as trace:
        for _ in rf.Loop(axis=time, name="search"):
            rf.choice(rf.log_softmax(randn(word), axis=word), axis=word, beam_size=2)
            rf.choice(rf.log_softmax(randn(tag), axis=tag), axis=tag, beam_size=3)
    history = trace.beams["search"]
    labels = history.best(0).labels
    assert [label in "ab" for label in labels] == [True, False, True, False] and history.loop_steps == [0, 0, 1, 1]
    before, after = [np.arange(3) * 10 + step for step in range(2)], [np.arange(3) * 10 + step for step in range(2)]
    first, second = (
        history.along([x[None] for x in values], 0, 1, before_choice=values is before) for values in (before, after)
    )
    slots = [slot for _, slot in history.path(0, 1)]
    assert [int(x) for x in second] == [slots[1] * 10, slots[3] * 10 + 1]
    assert [int(x) for x in first] == [0, slots[1] * 10 + 1]
    assert {item.label for item in history.verdicts(0, 1)} == {"x", "y", "z"}
    assert rf.viz.beams(history).spec.head["seqs"][0]["result"] == " ".join(labels)


def test_a_reference_may_be_texts():
    model = Markov(seed=1)
    with rf.record() as trace:
        model.search(2)
    history = trace.beams["search"]
    for item in history.finished(0):
        assert history.diagnose(0, item.labels) == history.diagnose(0, item.tokens)
    with raises_message(
        ValueError,
        """
        BeamHistory.diagnose: no such label.
          reference  x
          labels     </s>, a, b, c
        A reference has labels of the search, their numbers or texts.
        """,
    ):
        history.diagnose(0, ["a", "x", "</s>"])


@pytest.mark.parametrize(
    ("given", "numbers"),
    [
        ("EH", [1]),
        ("a EH b", [0, 1, 2]),
        ("ab", [0, 2]),
        ("New York", [3]),  # one label has a space
        ("a  b ", [0, 2]),
        (["a", 1, "b"], [0, 1, 2]),
        ("", []),
    ],
)
def test_what_is_given_as_a_text_is_a_label_or_words_or_letters(given, numbers):
    known = by_text(["a", "EH", "b", "New York", "a"])  # of two equal ones the first

    def wrong(part):
        return ValueError(f"none: {part!r}")

    assert numbers_of(given, known, 5, wrong) == numbers
    for none, part in (("a XX", "'XX'"), ([5], "5"), ([True], "True"), ([-1], "-1"), ([0.5], "0.5")):
        with pytest.raises(ValueError, match=f"none: {part}"):
            numbers_of(none, known, 5, wrong)
    assert numbers_of([9], {}, None, wrong) == [9]
