"""A CTC model of transformers from its samples to words with times."""

import json

import numpy as np
import pytest
import torch
from torch.nn.functional import ctc_loss

import rfnb as rf

transformers = pytest.importorskip("transformers")

VOCAB = {"<pad>": 0, "<unk>": 1, "|": 2, "A": 3, "B": 4, "C": 5, "D": 6}
SIZES = [1600, 1000]


@pytest.fixture(scope="module")
def processor(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.json"
    path.write_text(json.dumps(VOCAB))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(
        str(path), unk_token="<unk>", pad_token="<pad>", word_delimiter_token="|"
    )
    features = transformers.Wav2Vec2FeatureExtractor(sampling_rate=16000, padding_value=0.0, return_attention_mask=True)
    return transformers.Wav2Vec2Processor(feature_extractor=features, tokenizer=tokenizer)


@pytest.fixture(scope="module")
def model():
    config = transformers.Wav2Vec2Config(
        vocab_size=len(VOCAB), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        conv_dim=(8, 8), conv_stride=(5, 4), conv_kernel=(10, 8), num_feat_extract_layers=2, num_conv_pos_embeddings=4,
        num_conv_pos_embedding_groups=2, feat_extract_norm="layer", initializer_range=0.5,
    )  # fmt: skip
    torch.manual_seed(5)
    return transformers.Wav2Vec2ForCTC(config).eval()


@pytest.fixture(scope="module")
def samples():
    generator = np.random.default_rng(1)
    return [generator.normal(size=size).astype(np.float32) for size in SIZES]


@pytest.fixture(scope="module")
def logits(model, processor, samples):
    inputs = processor(audio=samples, sampling_rate=16000, padding=True, return_tensors="pt")
    with torch.no_grad():
        return model(**inputs).logits


@pytest.fixture(scope="module")
def ctc(logits, processor, model, samples):
    return rf.ctc_output(logits, vocab=processor, config=model.config, samples=samples)


def test_blank_words_times_and_lengths_come_from_processor_and_config(ctc, model):
    frames = [int(n) for n in model._get_feat_extract_output_lengths(torch.tensor(SIZES))]
    assert repr(ctc) == (
        f"<CtcOutput: 2 sequences of {frames[1]} to {frames[0]} frames, 7 labels, blank 0 “<pad>”, the pad token of the tokenizer, "
        "words by “|”, 1.25 ms per frame (of the config)>"
    )
    assert [one.frames for one in ctc.greedy()] == frames


def test_greedy_is_what_the_tokenizer_decodes(ctc, logits, processor):
    for found, own in zip(ctc.greedy(), logits):
        assert found.text == processor.tokenizer.decode(own[: found.frames].argmax(-1)).strip()


def test_greedy_words_have_the_offsets_of_the_tokenizer(ctc, logits, processor):
    for found, own in zip(ctc.greedy(), logits):
        decoded = processor.tokenizer.decode(own[: found.frames].argmax(-1), output_word_offsets=True)
        theirs = [(word["word"], word["start_offset"], word["end_offset"]) for word in decoded["word_offsets"]]
        assert [(word.text, word.start, word.end) for word in found.words] == [one for one in theirs if one[0]]


def test_the_loss_is_that_of_torch_and_the_alignment_has_its_sum(ctc, logits, processor):
    texts = ["AB CAD", "DAD"]
    ids = [processor.tokenizer(text).input_ids for text in texts]
    lengths = [one.frames for one in ctc.greedy()]
    wanted = ctc_loss(
        logits.log_softmax(-1).transpose(0, 1), torch.tensor(sum(ids, [])), torch.tensor(lengths),
        torch.tensor([len(row) for row in ids]), reduction="none",
    )  # fmt: skip
    torch.testing.assert_close(ctc.loss(texts).raw_tensor, wanted)
    aligned = ctc.align(texts)
    np.testing.assert_allclose([-one.log_prob_of_all for one in aligned], wanted.numpy(), rtol=1e-5)
    assert [[word.text for word in one.words] for one in aligned] == [["AB", "CAD"], ["DAD"]]
    assert aligned[0].words[1].end_time == pytest.approx(aligned[0].words[1].end * 20 / 16000)


def test_a_label_that_the_tokenizer_does_not_know_is_said(ctc):
    with pytest.raises(ValueError) as error:
        ctc.align(["AB?", "A"])
    assert str(error.value) == (
        "align: the reference has a label that is not in the vocabulary.\n"
        "  reference 0  'AB?'\n"
        "  label        'label 2 of its tokenizer'\n"
        "  vocabulary   <pad> <unk> | A B C D\n"
        "Every label of a reference is one of the vocabulary."
    )


def test_the_search_finds_more_than_the_best_path_and_less_than_the_whole_sum(ctc):
    searched = ctc.beam_search(beam_size=8)
    for greedy, found, aligned in zip(ctc.greedy(), searched, ctc.align(searched)):
        assert greedy.log_prob - 1e-4 <= found[0].score <= aligned.log_prob_of_all + 1e-4
        assert found[0].text == aligned.text


def test_a_recorded_run_and_its_alignment_are_shown_in_one_page(ctc, model, processor, samples, tmp_path):
    inputs = processor(audio=samples, sampling_rate=16000, padding=True, return_tensors="pt")
    with torch.no_grad(), rf.record() as trace:
        found = ctc.beam_search(beam_size=3)
        assert torch.equal(model(**inputs).logits, model(**inputs).logits)
    view = rf.show(ctc.align(found))
    assert found[0][0].text.split()[0] in view.text()
    rf.save_html(tmp_path / "page.html", [view, rf.show(trace.beams["ctc"])])
    assert (tmp_path / "page.html").stat().st_size > 10000
