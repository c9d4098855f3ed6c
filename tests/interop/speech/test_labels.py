"""Vocabularies of the toolkits: where the blank is, what is between words."""

from types import SimpleNamespace

import pytest
import torch

import rfnb as rf


def output(vocab, classes=5, **options):
    torch.manual_seed(2)
    return rf.ctc_output(torch.randn(2, 9, classes), vocab=vocab, **options)


class Tokenizer:
    """The attributes of a CTC tokenizer of transformers."""

    pad_token_id, unk_token_id, word_delimiter_token = 0, 3, "|"

    def get_vocab(self):
        return {"<pad>": 0, "A": 1, "B": 2, "<unk>": 3, "|": 4, "<s>": 5, "</s>": 6}

    def __call__(self, text, add_special_tokens=True):
        assert not add_special_tokens
        return {"input_ids": [self.get_vocab().get(letter.replace(" ", "|"), 3) for letter in text]}


class Pieces:
    """The attributes of a processor of sentencepiece."""

    pieces = ["<unk>", "▁A", "B", "▁"]

    def get_piece_size(self):
        return 4

    def id_to_piece(self, index):
        return self.pieces[index]

    def unk_id(self):
        return 0

    def encode(self, text):
        return [self.pieces.index(piece) for piece in text.replace("A", "▁A ").split()]


@pytest.mark.parametrize(
    ["vocab", "options", "blank", "how"],
    [
        ("-|ABC", {}, 0, ", by its name"),
        (["<blank>", "a", "b", "c", "d"], {}, 0, ", by its name"),
        (["a", "b", "c", "<pad>", "d"], {}, 3, ", by its name"),
        (["a", "b", "c", "d"], {}, 4, ", the class after those of the vocabulary"),
        (["a", "b", "c", "d"], {"blank": 0}, 0, ""),
        (["a", "b", "-", "c", "d"], {"blank": "-"}, 2, ""),
        (["a", "b", "c", "d", "e"], {"blank": -1}, 4, ""),
        ({"a": 1, "b": 2, "c": 4, "<pad>": 0}, {"config": SimpleNamespace(pad_token_id=0)}, 0, ", config.pad_token_id"),
        ({0: "-", 1: "a", 2: "b", 3: "c", 4: "d"}, {}, 0, ", by its name"),
        (Tokenizer(), {}, 0, ", the pad token of the tokenizer"),
        (SimpleNamespace(tokenizer=Tokenizer()), {}, 0, ", the pad token of the tokenizer"),
        (SimpleNamespace(get_labels=lambda: tuple("-|ABC"), sample_rate=8000), {}, 0, ", by its name"),
        (Pieces(), {}, 4, ", the class after those of the vocabulary"),
    ],
)  # fmt: skip
def test_the_blank_is_found_and_said(vocab, options, blank, how):
    ctc = output(vocab, **options)
    assert ctc.blank == blank and len(ctc.labels) == 5
    assert f"blank {blank} “{ctc.labels[blank]}”{how}" in repr(ctc)


def test_the_rest_of_the_line_says_words_and_times():
    assert repr(output("-|ABC")) == (
        "<CtcOutput: 2 sequences of 9 frames, 5 labels, blank 0 “-”, by its name, words by “|”, no times: say frame_shift=>"
    )
    assert "words by “▁…”" in repr(output(Pieces()))
    assert "no words" in repr(output("-|ABC", word_delimiter=""))
    processor = SimpleNamespace(tokenizer=Tokenizer(), feature_extractor=SimpleNamespace(sampling_rate=16000))
    config = SimpleNamespace(inputs_to_logits_ratio=320)
    assert "20 ms per frame (of the config)" in repr(output(processor, config=config))


def test_texts_go_through_the_tokenizer():
    ctc = output(Tokenizer())
    assert [one.text for one in ctc.align(["AB A", "B"])] == ["AB A", "B"]
    assert [word.text for word in ctc.align(["AB A", "B"])[0].words] == ["AB", "A"]
    assert [one.text for one in output(Pieces()).align(["AB", "A"])] == ["AB", "A"]


def test_special_labels_that_the_model_has_no_class_for_are_left_out():
    assert output(Tokenizer()).labels == ("<pad>", "A", "B", "<unk>", "|")
