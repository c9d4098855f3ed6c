"""A `generate` in a run that is held waits before each label, and takes labels that are forced or banned."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

pytest.importorskip("transformers")
import transformers
from asserting import raises_message
from interop.seen.generating import END, VOCAB, generated, make, prompts
from transformers.generation import LogitsProcessorList

BEAMS = {"num_beams": 4, "num_return_sequences": 2}
KINDS = pytest.mark.parametrize("kind", ["gpt2", "bart", "t5"])


def held(model, seed=0, **options):
    run = rf.run(lambda: generated(model, seed, **options), record={"model": model}, paused=True)
    run.wait()
    return run


def finish(run):
    run.resume()
    run.wait()
    return run.result


@KINDS
@pytest.mark.parametrize("options", [BEAMS, {}], ids=["beams", "greedy"])
def test_it_waits_before_each_label(kind, options):
    model = make(kind, 2, end_bias=0.5)
    plain = generated(model, 2, **options)
    run = held(model, 2, **options)
    for step in range(3):
        assert (run.at.step, run.at.path) == (step, "generate")
        assert run.trace.counts().get("beams", 0) == step
        run.step()
        run.wait()
    assert torch.equal(finish(run).sequences, plain.sequences)


@KINDS
@pytest.mark.parametrize("config", [{}, {"do_sample": True, "top_k": 3}], ids=["greedy", "samples"])
def test_what_is_forced_is_what_transformers_gives_by_allowing_only_it(kind, config):
    model, start = make(kind, 1), 5 if kind == "gpt2" else 2

    def allowed(seq, ids):
        return (
            [{start: 20, start + 1: 9}[len(ids)]] if seq == 1 and start <= len(ids) <= start + 1 else list(range(VOCAB))
        )

    torch.manual_seed(3)
    expected = generated(model, 1, prefix_allowed_tokens_fn=allowed, **config).sequences
    torch.manual_seed(3)
    run = held(model, 1, **config)
    run.step()
    run.wait()
    run.at.force(20, 9, seq=1)
    sequences = finish(run).sequences
    assert sequences[1, start : start + 2].tolist() == [20, 9]
    if not config:
        assert torch.equal(sequences, expected)
    assert run.trace.beams["generate"].from_slot(1, 0).tokens == tuple(_until_end(sequences[1, start - 1 :].tolist()))


def _until_end(tokens):
    return tokens[: tokens.index(END) + 1] if END in tokens else tokens


@KINDS
def test_nothing_else_goes_on_in_a_beam_search(kind):
    model, length = make(kind, 4), 4 if kind == "gpt2" else 1

    def allowed(seq, ids):
        return [11] if seq == 2 and len(ids) == length else list(range(VOCAB))

    expected = generated(model, 4, prefix_allowed_tokens_fn=allowed, **BEAMS)
    run = held(model, 4, **BEAMS)
    run.at.force(11, seq=2, only=True)
    out = finish(run)
    assert torch.equal(out.sequences, expected.sequences)
    torch.testing.assert_close(out.sequences_scores, expected.sequences_scores, rtol=0, atol=0)
    assert {item.tokens[0] for item in run.trace.beams["generate"].nbest(2)[:2]} == {11}


@KINDS
def test_what_is_banned_is_not_in_the_beam(kind):
    model = make(kind, 4)
    label = rf.beams_of(generated(model, 4, **BEAMS), model=model).best(0).tokens[0]

    class Ban(transformers.LogitsProcessor):
        steps = 0

        def __call__(self, input_ids, scores):
            Ban.steps += 1
            out = scores.clone()
            if Ban.steps == 1:
                out[:4, label] = -torch.inf
            return out

    expected = generated(model, 4, logits_processor=LogitsProcessorList([Ban()]), **BEAMS)
    run = held(model, 4, **BEAMS)
    run.at.ban(label)
    out = finish(run)
    assert torch.equal(out.sequences, expected.sequences) and torch.equal(
        out.sequences_scores, expected.sequences_scores
    )
    assert label not in run.trace.beams["generate"].steps[0]["tokens"][0]


def test_a_hypothesis_is_given_by_its_labels():
    model = make("gpt2", 1)
    run = held(model, 1)
    run.step()
    run.wait()
    first = run.trace.beams["generate"].from_slot(0, 0).tokens[0]
    run.at.force(17, hypothesis=[first])
    assert finish(run).sequences[0, 4:6].tolist() == [first, 17]
    assert [changed.words for changed in run.changes] == [f"forced 17 for hypothesis [{first}] of sequence 0"]


def test_a_branch_repeats_what_came_before():
    model = make("bart", 2)
    run = held(model, 2, **BEAMS)
    run.at.force(6, seq=1, only=True)
    result = finish(run).sequences
    branch = run.from_step(3, paused=True)
    branch.wait()
    assert branch.at.step == 3 and branch.drifted is None
    assert torch.equal(finish(branch).sequences, result)


def test_a_breakpoint_hears_what_was_chosen():
    model = make("gpt2", 3)
    tokens = rf.beams_of(generated(model, 3), model=model).from_slot(0, 0).tokens
    step = next(index for index in range(1, 6) if tokens[index] not in tokens[:index])
    run = rf.run(lambda: generated(model, 3), record={"model": model}, break_when=f"label({tokens[step]}, seq=0)")
    run.wait()
    assert run.at is not None and run.at.step == step + 1
    run.stop()


def test_beams_are_forced_with_nothing_else_only():
    run = held(make("gpt2"), **BEAMS)
    expected = (
        "force: generate keeps only the best hypotheses.\n  label       5\n  hypothesis  0\n  seq         1\n"
        "In its beam search, a forced hypothesis is the only one of its sequence that survives:\n"
        "    run.at.force(5, hypothesis=0, seq=1, only=True)"
    )
    with raises_message(ValueError, expected):
        run.at.force(5, seq=1)
    run.stop()


def test_labels_and_sequences_that_are_not_there_are_refused():
    run = held(make("gpt2"), **BEAMS)
    with raises_message(IndexError, "force: no sequence 3.\n  given      3\n  there are  3\nThey are 0 to 2."):
        run.at.force(5, seq=3, only=True)
    with raises_message(IndexError, "ban: no label 23.\n  labels  vocab=23\nLabels are 0 to 22."):
        run.at.ban(23)
    run.stop()


def test_a_run_that_is_stopped_leaves_the_model_as_it_was():
    model = make("gpt2")
    prompts()
    run = held(model)
    run.stop()
    run.wait()
    assert not {"generate", "prepare_inputs_for_generation", "forward"} & set(vars(model))
