"""Beam search against that of JoeyNMT and of `transformers`, where they are installed: models of the same size with random weights.

A peer's model is its own, so the values differ; what both sides have to agree in is the number of steps, which nothing ends early.
Encoded once before, so that only searches are compared. JoeyNMT: `pip install --no-deps joeynmt`, and what it then lacks.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from test_search import LABELS, SOURCE, UNITS, Word, World

import rfnb as rf

BEAM = 4


def steps_of(search, output):
    """Runs a search of rfnb whose label 0 is made impossible, and gives the number of its steps."""
    output.bias.raw_tensor.data[0] = -1e4

    def run():
        _, labels = search(BEAM)
        return torch.tensor(labels.raw_tensor.shape[-1])

    return run


def word():
    made = Word()
    return steps_of(made.rfnb, made.model.decoder.output), made.steps


def batch():
    made = World(16)
    return steps_of(made.rfnb, made.model.logits), made.steps


def joeynmt(steps, *, num_words, length, labels, embedding, units, layers, input_feeding):
    """A search of JoeyNMT: bidirectional LSTM, Luong attention; and the number of its steps."""
    search = pytest.importorskip("joeynmt.search", reason="compares with an installed JoeyNMT", exc_type=ImportError)
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    tokens = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "sep_token": None}
    special = SimpleNamespace(**tokens, unk_id=0, pad_id=1, bos_id=2, eos_id=3, sep_id=None, lang_tags=[])
    vocab = Vocabulary([str(index) for index in range(labels - 4)], special)
    side = {"rnn_type": "lstm", "dropout": 0.0, "embeddings": {"embedding_dim": embedding, "dropout": 0.0}}
    encoder = {"type": "recurrent", "hidden_size": units // 2, "num_layers": layers, "bidirectional": True, **side}
    decoder = {
        "type": "recurrent", "hidden_size": units, "num_layers": 1, "attention": "luong", "input_feeding": input_feeding,
        "init_hidden": "bridge", "hidden_dropout": 0.0, **side,
    }  # fmt: skip
    tied = {"tied_embeddings": False, "tied_softmax": False}
    torch.manual_seed(1)
    model = build_model({"encoder": encoder, "decoder": decoder, **tied}, vocab, vocab).eval()
    source = torch.randint(4, labels, (num_words, length))
    mask = torch.ones(num_words, 1, length, dtype=torch.bool)
    with torch.inference_mode():
        lengths = torch.full((num_words,), length)
        states, last, *_ = model(return_type="encode", src=source, src_length=lengths, src_mask=mask)
    calls = []
    counting = model.decoder.output_layer.register_forward_hook(lambda *_: calls.append(1))

    def run():
        with torch.inference_mode():
            search.beam_search(model, BEAM, states, last, mask, steps, 0.0, min_output_length=steps)
        return torch.tensor(steps)

    run()
    assert len(calls) == steps, len(calls)
    counting.remove()
    return run


def bart(steps, *, num_words, length, labels, units, layers):
    """A small Transformer, and what it is searched from."""
    transformers = pytest.importorskip("transformers", reason="compares with an installed transformers")
    sizes = {
        f"{side}_{name}": size for side in ("encoder", "decoder")
        for name, size in (("layers", layers), ("attention_heads", 4), ("ffn_dim", 4 * units))
    }  # fmt: skip
    ids = {"decoder_start_token_id": 0, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    config = transformers.BartConfig(
        vocab_size=labels,
        d_model=units,
        max_position_embeddings=length + steps,
        forced_eos_token_id=None,
        **ids,
        **sizes,
    )
    torch.manual_seed(1)
    model = transformers.BartForConditionalGeneration(config).eval()
    model.final_logits_bias[0, 2] = -1e4
    return model, {"input_ids": torch.randint(4, labels, (num_words, length))}


def generate(model, inputs, steps):
    """A search of transformers, and the number of its steps."""
    with torch.inference_mode():
        encoded = model.get_encoder()(**inputs)

    def run():
        # A copy: generate repeats what it is given for each hypothesis, in place.
        found = model.generate(
            encoder_outputs=type(encoded)(**encoded), num_beams=BEAM, do_sample=False, max_new_tokens=steps
        )
        return torch.tensor(found.shape[1] - 1)

    return run


def search_in_rfnb(model, inputs, steps):
    """The same with rf.beam_search."""
    options = rf.hf_search_options(model, **inputs)

    def run():
        found = rf.beam_search(**options, beam_size=BEAM, max_seq_len=steps, ended="leave", early_stopping="likely")
        return torch.tensor(found.steps)

    return run


SMALL = {"num_words": 1, "length": 12, "labels": 48}
LARGE = {"num_words": 16, "length": SOURCE, "labels": LABELS}


def test_one_word_against_joeynmt(overhead):
    ours, steps = word()
    theirs = joeynmt(steps, **SMALL, embedding=64, units=256, layers=2, input_feeding=False)
    overhead("G2P, one word, beam 4 / JoeyNMT", ours, theirs, limit=1.0, warmup=3, turns=31)


def test_one_word_against_transformers(overhead):
    ours, steps = word()
    theirs = generate(*bart(steps, **SMALL, units=128, layers=2), steps)
    overhead("G2P, one word, beam 4 / transformers", ours, theirs, limit=1.0, warmup=3, turns=31)


def test_the_same_transformer_searched_by_both(overhead):
    steps = Word.steps
    model, inputs = bart(steps, **SMALL, units=128, layers=2)
    ours, theirs = search_in_rfnb(model, inputs, steps), generate(model, inputs, steps)
    overhead("one word, Bart, rf.beam_search / generate", ours, theirs, warmup=3, turns=31)


def test_a_batch_against_joeynmt(overhead):
    ours, steps = batch()
    theirs = joeynmt(steps, **LARGE, embedding=UNITS, units=UNITS, layers=1, input_feeding=True)
    overhead("attention LSTM, batch 16, beam 4 / JoeyNMT", ours, theirs, limit=1.0, warmup=1, turns=7)


def test_a_batch_against_transformers(overhead):
    ours, steps = batch()
    theirs = generate(*bart(steps, **LARGE, units=UNITS, layers=2), steps)
    overhead("attention LSTM, batch 16, beam 4 / transformers", ours, theirs, limit=1.0, warmup=1, turns=7)


def test_a_batch_of_the_same_transformer_searched_by_both(overhead):
    steps = World(16).steps
    model, inputs = bart(steps, **LARGE, units=UNITS, layers=2)
    ours, theirs = search_in_rfnb(model, inputs, steps), generate(model, inputs, steps)
    overhead("batch 16, Bart, rf.beam_search / generate", ours, theirs, warmup=1, turns=7)
