"""The search behind an output of `generate` is the one that was made."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb.trace.beam_diagnosis import result_of

pytest.importorskip("transformers")
from asserting import raises_message
from interop.seen.generating import END, LABELS, VOCAB, generated, make
from interop.seen.hf_families import CACHE

BEAMS = {"num_beams": 4, "num_return_sequences": 2}
CONFIGS = [
    {},
    {"length_penalty": 0.0},
    {"length_penalty": 2.0},
    {"length_penalty": -0.5},
    {"early_stopping": True},
    {"early_stopping": "never"},
    {"num_return_sequences": 1},
    {"num_return_sequences": 4},
    {"num_beams": 2, "repetition_penalty": 1.5},
    {"no_repeat_ngram_size": 2},
    {"min_new_tokens": 3},
]


def assert_same_results(out, history, beams, skip=0):
    """The n-best list is what `generate` gives, by the same slots, with the same scores."""
    each = len(out.sequences) // history.num_seqs
    steps = out.beam_indices.shape[1]
    for index, (tokens, slots) in enumerate(zip(out.sequences[:, -steps:].tolist(), out.beam_indices.tolist())):
        seq, rank = divmod(index, each)
        item = history.nbest(seq)[rank]
        assert rank or result_of(history, seq) == item
        count = sum(slot >= 0 for slot in slots)
        assert item.tokens == tuple(tokens[:count])
        assert [seq * beams + slot for slot in history.parents_along(seq, item)] == slots[:count]
        rating = item.score / count**history.rank_exponent
        assert rating == pytest.approx(float(out.sequences_scores[index]), rel=1e-5)
        assert item.ended == (tokens[count - 1] == END)


@pytest.mark.parametrize("kind", ["gpt2", "bart", "t5"])
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_results_are_those_of_generate(kind, config):
    for seed in range(4):
        model = make(kind, seed, end_bias=float(seed))
        options = {**BEAMS, **config}
        out = generated(model, seed, **options)
        history = rf.beams_of(out)
        if history.remark:  # the end is in no result
            history = rf.beams_of(out, model=model)
        assert not history.remark and history.num_seqs == 3
        assert_same_results(out, history, options["num_beams"])


def test_hypotheses_end_at_different_steps():
    out = generated(make("gpt2", 3, end_bias=3.0), 3, **BEAMS)
    lengths = (out.beam_indices >= 0).sum(1)
    assert len(set(lengths.tolist())) > 1 and (lengths == 6).any()


def test_candidates_are_the_best_of_all_continuations():
    out = generated(make("bart", 1), 1, **BEAMS)
    history = rf.beams_of(out)
    running = torch.tensor([[0.0] + [-1e9] * 3] * 3)
    for step, scores in enumerate(out.scores):
        total = (running[:, :, None] + scores.view(3, 4, VOCAB)).flatten(1)
        for seq in range(3):
            found = [item for item in history.verdicts(seq, step) if item.verdict != "kept" or item.score > -1e8]
            best = total[seq].topk(len(found)).values.tolist()
            assert sorted((item.score for item in found), reverse=True) == best
            for item in found:
                assert item.score == float(total[seq, item.parent * VOCAB + item.token])
        fields = history.steps[step]
        running = torch.tensor(fields["scores"][:, :4])


def test_log_probs_are_those_of_the_model_before_it_was_changed():
    out = generated(make("gpt2", 2), 2, repetition_penalty=3.0, output_logits=True, **BEAMS)
    history = rf.beams_of(out)
    item = history.nbest(1)[0]
    own = torch.stack([each.log_softmax(-1) for each in out.logits]).view(6, 3, 4, VOCAB)
    rows = [own[t, 1, slot, token] for t, (slot, token) in enumerate(zip(history.parents_along(1, item), item.tokens))]
    assert item.parts["log_prob"] == pytest.approx(float(sum(rows)), rel=1e-5)
    assert any(abs(item.parts["log_prob"] - item.score) > 0.1 for seq in range(3) for item in history.nbest(seq))


@pytest.mark.parametrize("kind", ["gpt2", "bart", "t5"])
@pytest.mark.parametrize("config", [{}, {"do_sample": True, "top_k": 5, "temperature": 0.7}], ids=str)
def test_rows_are_scored_as_transformers_does(kind, config):
    for seed in range(4):
        model = make(kind, seed, end_bias=1.0)
        torch.manual_seed(seed)
        out = generated(model, seed, **config)
        history = rf.beams_of(out, model=model)
        own = model.compute_transition_scores(out.sequences, out.scores, normalize_logits=True)
        for seq, (tokens, scores) in enumerate(zip(out.sequences[:, -len(out.scores) :].tolist(), own)):
            count = tokens.index(END) + 1 if END in tokens else len(tokens)
            item = history.best(seq)
            assert item.tokens == tuple(tokens[:count]) and item.ended == (END in tokens)
            assert item.score == pytest.approx(float(scores[:count].sum()), rel=1e-5)


def test_samples_of_a_prompt_are_slots_of_it():
    torch.manual_seed(1)
    out = generated(make("gpt2"), do_sample=True, num_return_sequences=2)
    history = rf.beams_of(out, num_return_sequences=2)
    assert (history.num_seqs, history.beam_size()) == (3, 2)
    assert sorted(item.tokens for item in history.nbest(2)) == sorted(map(tuple, out.sequences[4:, 4:].tolist()))


def test_a_search_that_samples_is_known_by_its_results():
    torch.manual_seed(5)
    out = generated(make("gpt2", 5), 5, do_sample=True, **BEAMS)
    history = rf.beams_of(out, eos_token_id=END)
    assert history.remark.startswith("Only the hypotheses that led to a result are known")
    assert_same_results(out, history, 4)
    assert rf.viz.beams(history).spec.head["remark"] == history.remark


def test_a_view_has_labels_and_how_was_searched():
    out = generated(make("bart", 3, end_bias=2.0), 3, length_penalty=0.5, **BEAMS)
    view = rf.show(out, tokenizer=LABELS)
    assert view.spec.head["title"] == "Beam search: num_beams=4, length_penalty=0.5"
    best = rf.beams_of(out).best(0)
    assert view.spec.head["seqs"][0]["result"].split() == [LABELS[token] for token in best.tokens]


def test_a_dict_with_the_same_names_will_do():
    out = generated(make("gpt2"), **BEAMS)
    assert repr(rf.beams_of(dict(out)).nbest(0)) == repr(rf.beams_of(out).nbest(0))


def test_an_output_without_scores_says_what_to_ask_for():
    out = make("gpt2").generate(torch.tensor([[5, 6]]), max_new_tokens=2, return_dict_in_generate=True)
    expected = (
        f"beams_of: this output has no scores.\n  given  sequences, {CACHE}\n  lacks  scores\n"
        "They are the scores of all labels in each step, from which the search is reconstructed:\n"
        "    out = model.generate(..., return_dict_in_generate=True, output_scores=True)"
    )
    with raises_message(ValueError, expected):
        rf.beams_of(out)


def test_results_alone_are_no_search():
    expected = (
        "beams_of: this tensor has the results only, without the search.\n  given   a tensor (1, 4)\n"
        "  needed  sequences, scores\ngenerate returns the data of its search on request:\n"
        "    out = model.generate(..., return_dict_in_generate=True, output_scores=True)"
    )
    with raises_message(ValueError, expected):
        rf.beams_of(make("gpt2").generate(torch.tensor([[5, 6]]), max_new_tokens=2))


def test_beams_without_their_slots_are_refused():
    out = dict(generated(make("gpt2"), **BEAMS))
    del out["beam_indices"]
    expected = (
        "beams_of: this output has no beam_indices.\n  sequences       6\n  rows of scores  12\n"
        "  lacks           beam_indices\n"
        "They are the beam slots of each result, step by step; generate returns them with the scores of a beam search:\n"
        "    out = model.generate(..., return_dict_in_generate=True, output_scores=True)"
    )
    with raises_message(ValueError, expected):
        rf.beams_of(out)


def test_what_another_library_gives_is_refused():
    expected = (
        "beams_of: this is not an output of generate.\n  given   dict\n  has     prompt_token_ids, outputs\n"
        "  needed  sequences, scores\n"
        "Pass the output of a transformers model, or a dict of torch tensors with the same names:\n"
        "    out = model.generate(..., return_dict_in_generate=True, output_scores=True)"
    )
    with raises_message(TypeError, expected):
        rf.beams_of({"prompt_token_ids": [1, 2], "outputs": []})


def test_a_tokenizer_with_more_labels_than_the_model_is_refused():
    expected = (
        "beams_of: the tokenizer has more labels than the model.\n  tokenizer  24\n  model      23\n"
        "It belongs to another model, or labels were added to it but not to the model:\n"
        "    model.resize_token_embeddings(len(tokenizer))"
    )
    with raises_message(ValueError, expected):
        rf.beams_of(generated(make("gpt2"), **BEAMS), tokenizer=[*LABELS, "x"])
