"""rf.why_not of `generate` of transformers: scores are those of the model, parts sum to the margin, occlusion is that of hiding by hand."""

import pytest
import torch

import rfnb as rf

pytest.importorskip("transformers")
from interop.seen.generating import generated, make, prompts
from waiting import LONG

BEAMS = {"num_beams": 4, "num_return_sequences": 2}


def run_of(model, **options):
    run = rf.run(lambda: generated(model, 2, **options), record={"model": model})
    assert run.wait(LONG)
    return run


def taught(model, seq, labels):
    """The natural-log probability of labels, all at once."""
    ids, labels = prompts(2)[seq : seq + 1], torch.tensor([labels])
    if model.config.is_encoder_decoder:
        start = torch.zeros_like(labels[:, :1])
        given = {"input_ids": ids, "decoder_input_ids": torch.cat([start, labels[:, :-1]], 1)}
    else:
        given = {"input_ids": torch.cat([ids, labels[:, :-1]], 1)}
    with torch.no_grad():
        logits = model(**given).logits[:, -labels.shape[1] :].log_softmax(-1)
    return logits.gather(2, labels[..., None])[0, :, 0].tolist()


@pytest.mark.parametrize(("kind", "options"), [("t5", BEAMS), ("bart", {}), ("gpt2", BEAMS)])
def test_scores_are_those_of_the_model_and_what_the_limit_cut_is_a_result(kind, options):
    model = make(kind, 2, end_bias=0.5)
    run, seq = run_of(model, **options), 1
    rows = run.result.sequences
    row = rows[seq * (len(rows) // 3)].tolist()[1 if model.config.is_encoder_decoder else 4 :]
    found = row[: row.index(1) + 1] if 1 in row else row
    expected = [*found[:2], 5, *found[3:]]
    why = rf.why_not(run, expected, seq=seq)
    assert why.found == run.trace.beams["generate"].texts(found)
    numbers = [step.expected_score for step in why.steps[: len(expected)]]
    assert numbers == pytest.approx(taught(model, seq, expected), abs=1e-4)
    assert why.kind == ("model error" if why.expected_score <= why.found_score else "search error")
    for number, each in enumerate(why.repairs):
        if each.tried:
            branch = why.branch(number)
            assert branch.wait(LONG) and branch.trace.beams["generate"].best(seq).labels == why.expected


@pytest.mark.parametrize("kind", ["t5", "bart", "gpt2"])
def test_parts_sum_to_the_margin_and_occlusion_is_that_of_hiding_by_hand(kind):
    model, seq = make(kind, 3, end_bias=0.5), 2
    run = run_of(model, **BEAMS)
    found = run.trace.beams["generate"].best(seq).tokens
    expected = [7, *found[1:]]
    why = rf.why_not(run, list(expected), seq=seq)
    parts = why.parts
    plain = [taught(model, seq, labels) for labels in (expected, found)]
    margin = sum(plain[0]) - sum(plain[1])
    assert parts.beside["margin"] == pytest.approx(margin, abs=1e-3)
    assert parts.sum() == pytest.approx(margin, rel=0.01)
    ids = prompts(2)[seq]
    assert list(parts.columns[1][:4]) == [str(number) for number in ids.tolist()]
    encoder = model.get_encoder() if model.config.is_encoder_decoder else model
    for position in range(4):

        def hide(module, args, out, position=position):
            if args[0].shape[-1] >= 4 and torch.equal(args[0][0, :4], ids):
                out = out.clone()
                out[:, position] = module.weight.mean(0)
            return out

        with encoder.get_input_embeddings().register_forward_hook(hide):
            own = [taught(model, seq, labels) for labels in (expected, found)]
        fallen = margin - (sum(own[0]) - sum(own[1]))
        assert parts.occluded[:, position].sum() == pytest.approx(fallen, abs=1e-3)


def test_scores_that_a_processor_changes_are_not_taken_apart():
    model = make("t5", 2, end_bias=0.5)
    run = run_of(model, repetition_penalty=3.0, **BEAMS)
    found = run.trace.beams["generate"].best(0).tokens
    with pytest.raises(ValueError, match="not those of its model alone"):
        rf.why_not(run, [found[0], found[0], *found[2:]]).parts
