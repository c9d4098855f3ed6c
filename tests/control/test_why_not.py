"""rf.why_not: planted causes are named, numbers are those of the model, and each repair that was tried gives what was expected."""

import random

import numpy as np
import pytest
import torch
from asserting import raises_message
from markov import Markov
from plain_g2p import END, PlainG2P
from waiting import LONG

import rfnb as rf
from rfnb.models import load_g2p
from rfnb.models.g2p_checkpoint import SHIPPED
from rfnb.models.g2p_search import search


@pytest.fixture(scope="module")
def model():
    return load_g2p()


def spell(model, word, beam_size):
    with rf.stop_gradient_scope():
        return search(model, [word], beam_size=beam_size)[1]


def done(model, word="parachute", beam_size=4):
    run = rf.run(spell, model, word, beam_size, record={"model": model}, name=word)
    assert run.wait(LONG)
    return run


@pytest.fixture(scope="module")
def parachute(model):
    return done(model)


def test_a_model_error_says_where_it_fell_and_one_label_mends_it(parachute):
    why = rf.why_not(parachute, "P EY R AH SH UW T")
    assert (why.kind, why.fell, why.rank) == ("model error", 1, 5)
    assert why.margin == pytest.approx(-1.30, abs=0.01)
    assert why.expected_score == pytest.approx(-6.7185, abs=1e-3) and why.found_score == pytest.approx(
        -1.7721, abs=1e-3
    )
    assert [each.words for each in why.repairs] == ["EY at 1", "beam_size=5 keeps it in step 1"]
    assert why.text == (
        "The model prefers P EH R AH SH UW T <end> to P EY R AH SH UW T <end> (-1.772 and -6.719: 4.95 nats). "
        "It was pruned at step 1 on rank 5, 1.30 nats behind the last hypothesis kept."
    )
    branch = why.branch(0)
    assert branch.wait(LONG)
    assert branch.trace.beams["search"].nbest(0)[0].labels == why.expected
    assert "   1  EY        -5.22  EH     -0.32    -4.90" in repr(why) and "0  EY at 1" in repr(why)


def test_the_least_beam_keeps_it_there(model):
    why = rf.why_not(done(model, beam_size=5), "P EY R AH SH UW T")
    assert why.fell is None or why.fell > 1


def test_a_search_error_is_one_and_a_wider_beam_mends_it(model):
    why = rf.why_not(done(model, beam_size=1), "P EH R AH SH UW T")
    assert why.kind == "search error" and why.expected_score > why.found_score
    assert [(each.kind, each.tried) for each in why.repairs] == [("label", True), ("beam", False)]
    assert why.repairs[1].words == "beam_size=2 keeps it in step 4"


def test_the_position_that_an_attention_has_to_look_at_is_found(parachute):
    """The letters at h: the word that results if the attention of EH is dragged there."""
    why = rf.why_not(parachute, "P HH EH R AH CH UW T")
    (found,) = (each for each in why.repairs if each.kind == "attention")
    assert found.words == "decoder.att all on position 5 in step 1"
    branch = why.branch(why.repairs.index(found))
    assert branch.wait(LONG) and branch.trace.beams["search"].nbest(0)[0].labels == why.expected


def test_what_was_said_was_said(parachute):
    why = rf.why_not(parachute, "P EH R AH SH UW T")
    assert (
        why.kind == "found"
        and why.repairs == []
        and repr(why).startswith("The search found it: P EH R AH SH UW T <end>")
    )
    assert parachute.branches == [] or all(branch.name for branch in parachute.branches)


@pytest.mark.parametrize("word", ["phonetics", "colonel", "queue", "yacht", "choir", "rhythm"])
def test_numbers_are_those_of_plain_torch_and_repairs_give_what_was_expected(model, word):
    draw, plain = random.Random(word), PlainG2P.load(SHIPPED)
    run = done(model, word)
    found = run.trace.beams["search"].nbest(0)
    others = [item.labels for item in found[1:]]
    mutated = list(found[0].labels[:-1])
    mutated[draw.randrange(len(mutated))] = "T"
    for expected in [*others[:2], (*mutated, found[0].labels[-1])]:
        if expected == found[0].labels:
            continue
        why = rf.why_not(run, list(expected))
        scores = plain.scores(word, list(expected[:-1]))
        np.testing.assert_allclose(
            np.cumsum([step.expected_score for step in why.steps if step.expected]), scores, atol=1e-4
        )
        assert why.expected_score == pytest.approx(scores[-1], abs=1e-3)
        assert why.steps[-1].behind == pytest.approx(why.expected_score - why.found_score, abs=1e-3)
        assert why.kind == ("search error" if why.expected_score > why.found_score else "model error")
        for number, each in enumerate(why.repairs):
            if each.tried:
                branch = why.branch(number)
                assert branch.wait(LONG) and branch.trace.beams["search"].nbest(0)[0].labels == why.expected


def test_a_held_run_is_looked_at_as_it_would_end(model):
    run = rf.run(spell, model, "parachute", 4, paused=True, record={"model": model})
    run.step(3)
    why = rf.why_not(run, "P EY R AH SH UW T")
    assert why.kind == "model error" and run.state == "paused" and not run.branches
    run.stop()


# -- planted -----------------------------------------------------------------------------------------------------------
def planted(table, **options):
    """A search of three steps at most; the label before decides, and 0 ends."""
    model = Markov(num_seqs=1)
    model.table = np.log(np.asarray(table, np.float32))[None, None].repeat(10, 1)
    run = rf.run(lambda: model.search(max_seq_len=4, **options)[1], record=True)
    assert run.wait(LONG)
    return run


CHAIN = [[0.01, 0.6, 0.38, 0.01], [0.3, 0.3, 0.2, 0.2], [0.97, 0.01, 0.01, 0.01], [0.25, 0.25, 0.25, 0.25]]


def test_a_planted_search_error():
    why = rf.why_not(planted(CHAIN, beam_size=1), "b")  # 0.38 * 0.97 beats all that begins with a
    assert why.kind == "search error" and why.fell == 0
    assert why.expected_score == pytest.approx(np.log(0.38 * 0.97), abs=1e-5)
    assert why.repairs[0].words == "b at 0"


def test_a_grammar_that_forbids_the_best():
    why = rf.why_not(planted(CHAIN, beam_size=3, allowed=rf.Lexicon([[1], [1, 1]])), "b")
    assert why.kind == "not allowed" and why.fell == 0 and why.repairs == []
    assert why.text == "b </s> is not allowed: a limit of the search forbids it. It was forbidden at step 0."


def test_a_model_that_gives_it_probability_0():
    with np.errstate(divide="ignore"):
        why = rf.why_not(planted([[0.0, 1.0, 0.0, 0.0], *CHAIN[1:]], beam_size=2), "b")
    assert why.kind == "impossible" and why.expected_score is None


def test_a_length_exponent_that_would_have_given_it():
    why = rf.why_not(planted(CHAIN, beam_size=3), "a a")
    (found,) = (each for each in why.repairs if each.kind == "length")
    exponent = float(found.words.split("=")[1].split(",")[0])
    own, other = why.expected_score / 3**exponent, why.found_score / 2**exponent
    assert own > other


# -- recordings ---------------------------------------------------------------------------------------------------------
def test_of_a_recording_it_says_what_that_knows(model, parachute):
    for source in (parachute.trace, parachute.trace.beams["search"]):
        why = rf.why_not(source, "P AE R AH CH UW T")
        assert why.kind == "model error" and why.steps[1].expected_score == pytest.approx(-1.90, abs=0.01)
        assert all(not each.tried for each in why.repairs)
        assert why.repairs or "Nothing else was tried: a recording cannot run again" in repr(why)
        fallen = rf.why_not(source, "P EY R AH SH UW T")
        assert fallen.kind == "model error" and fallen.fell == 1 and fallen.expected_score is None
    step = lambda labels, state: (torch.log(torch.tensor(CHAIN))[labels], state)  # noqa: E731
    result = rf.beam_search(step, batch=1, max_seq_len=4, beam_size=3, vocab=["</s>", "a", "b", "c"])
    assert rf.why_not(result, "b").kind == "found" and rf.why_not(result, "a").kind == "model error"


# -- mistakes -----------------------------------------------------------------------------------------------------------
def test_labels_that_are_none(parachute):
    with raises_message(
        ValueError,
        """
        why_not: no such label.
          label   'XX'
          labels  <end>, AA, AE, AH, AO, AW, AY, B, CH, D, DH, EH
        Give labels of the search, by text or index.
            rf.why_not(run, 'P EH R AH SH UW T <end>')
        """,
    ):
        rf.why_not(parachute, "P XX")
    with pytest.raises(ValueError, match="no label after the end label"):
        rf.why_not(parachute, [END, 3])
    with pytest.raises(ValueError, match="no such label"):
        rf.why_not(parachute, [99])
    with pytest.raises(IndexError, match="no sequence 3"):
        rf.why_not(parachute, "P", seq=3)


def test_what_has_no_search(parachute):
    with pytest.raises(TypeError, match="why_not: not a search"):
        rf.why_not(5, "P")
    run = rf.run(lambda: 3)
    run.wait(LONG)
    with pytest.raises(ValueError, match="no search"):
        rf.why_not(run, "P")
    with rf.record() as trace:
        pass
    with pytest.raises(ValueError, match="no search in this recording"):
        rf.why_not(trace, "P")
    why = rf.why_not(parachute, "P EY R AH SH UW T")
    with pytest.raises(ValueError, match="an option of the search"):
        why.branch(1)
    with pytest.raises(IndexError, match="no repair 7"):
        why.branch(7)


def test_a_function_that_changes_a_parameter_each_time_is_not_run_again_unasked():
    model, counts = Markov(), rf.Parameter([])

    def said():
        counts.assign_add(1.0)
        return model.search(2)[1]

    run = rf.run(said, record=True)
    run.wait(LONG)
    with pytest.raises(RuntimeError, match="a rerun would repeat its side effect"):
        rf.why_not(run, "b")
    assert counts.numpy() == 1


FIRST = [0.0, 0.55, 0.45, 0.0]
AFTER = [[0.25] * 4, [0.02, 0.5, 0.24, 0.24], [0.01, 0.01, 0.01, 0.97], [0.97, 0.01, 0.01, 0.01]]


def told_to(first=FIRST, after=AFTER, **options):
    """A search that says "a" first, whatever comes then: "b c" is better in the end. Its labels depend on the one before."""
    begin, then = torch.tensor(first).log(), torch.tensor(after).log()

    def search():
        def step(labels, state):
            return torch.where(state == 0, begin.expand(len(labels), -1), then[labels]), state + 1

        given = {"batch": 1, "max_seq_len": 6, "state": torch.zeros(1, 1), "beam_size": 4, "vocab": ["</s>", *"abc"]}
        return rf.beam_search(step, **given | options)

    return rf.run(search, record=True)


@pytest.mark.parametrize(
    "options, expected, kind, fell, says, repairs",
    [
        ({"beam_size": 1}, "b c", "search error", 0, "the search lost it", ["b at 0", "beam_size=2 keeps it in step 0"]),
        ({"first": [0.0, 0.96, 0.04, 0.0], "threshold": 2.0}, "b c", "unknown", 0, "is not known", ["threshold=3.18 keeps it in step 0"]),
        ({"max_seq_len": 3}, "a a a a", "too long", None, "is longer than the search", ["max_seq_len=5 allows its length"]),
        ({"allowed": [[1, 0], lambda labels: [1] if not labels else [0]]}, "b c", "not allowed", 0, "forbids it", []),
        ({"beam_size": 1, "allowed": lambda labels: range(3 if labels else 4)}, "b c", "not allowed", 0,
         "forbids c at step 1. It was pruned at step 0 on rank 2", []),
        ({"beam_size": 1, "max_seq_len": 3}, "b", "model error", 0, "to b </s>",
         ["length_exponent=0.1, if it is in the beam at the end", "beam_size=2 keeps it in step 0"]),
        ({"beam_size": 1, "first": [0, 0.5, 0.3, 0.2], "allowed": lambda labels: range(4) if labels else [1, 3]}, "c",
         "search error", 0, "on rank 2, 0.92 nats", ["c at 0", "beam_size=2 keeps it in step 0"]),
        ({}, "c a", "impossible", 0, "the probability 0", []),
    ],
)  # fmt: skip
def test_what_is_in_the_way_is_named_where_nothing_of_it_was_scored(options, expected, kind, fell, says, repairs):
    """Each cause by its own name: what could not be forced was called impossible for the model, though a limit was in its way."""
    why = rf.why_not(told_to(**options), expected)
    assert (why.kind, why.fell) == (kind, fell) and says in why.text
    assert [repair.words for repair in why.repairs] == repairs


def test_what_stops_in_the_middle_is_refused_and_no_fault_of_the_model():
    endless = [[0.25] * 4, [0, 0.5, 0.25, 0.25], [0, 0.01, 0.01, 0.98], [0, 0.98, 0.01, 0.01]]
    run = told_to(after=endless, beam_size=1, max_seq_len=3)
    with pytest.raises(ValueError, match="is incomplete(.|\n)*'b c'(.|\n)*rf.why_not\\(run, 'a a a'\\)"):
        rf.why_not(run, "b c")
    assert rf.why_not(run, "b c a").kind == "search error"
