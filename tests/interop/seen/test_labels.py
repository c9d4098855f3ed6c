"""The texts of tokens of a torch model: lists, dicts and tokenizers, for the embeddings that they are of."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import rfnb as rf


class Model(nn.Module):
    """Two vocabularies, and positions."""

    def __init__(self):
        super().__init__()
        self.source, self.positions, self.target = nn.Embedding(5, 4), nn.Embedding(64, 4), nn.Embedding(7, 4)

    def forward(self, src, tgt):
        return (self.source(src) + self.positions(torch.arange(src.shape[1]))).sum(1, keepdim=True) + self.target(tgt)


class Tokenizer:
    """Knows fewer tokens than there are rows."""

    def __len__(self):
        return 6

    def convert_ids_to_tokens(self, index):
        return "abcdef"[index]


def vocab_of(trace, path):
    vocab = trace.by_path("tokens")[path][0].values["ids"].sparse_dim.vocab
    return None if vocab is None else list(vocab)


def recorded(labels):
    model = Model()
    with rf.record(model=model, labels=labels) as trace:
        model(torch.tensor([[0, 4, 2]]), torch.tensor([[1, 6]]))
    return trace


@pytest.mark.parametrize("labels", [list("abcde"), {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}])
def test_labels_are_of_the_embedding_with_as_many_entries(labels):
    trace = recorded(labels)
    assert vocab_of(trace, "source") == list("abcde")
    assert vocab_of(trace, "positions") is None and vocab_of(trace, "target") is None


def test_labels_by_path():
    trace = recorded({"source": list("vwxyz"), "tar*": Tokenizer()})
    assert vocab_of(trace, "source") == list("vwxyz")
    assert vocab_of(trace, "target") == ["a", "b", "c", "d", "e", "f", "6"]


def test_a_tokenizer_may_know_fewer_tokens_than_there_are_rows():
    model = nn.Sequential(nn.Embedding(7, 4))
    with rf.record(model=model, labels=Tokenizer()) as trace:
        model(torch.tensor([[1, 6]]))
    assert vocab_of(trace, "0") == ["a", "b", "c", "d", "e", "f", "6"]


def test_tokens_label_views():
    trace = recorded({"source": list("vwxyz")})
    assert trace.by_path("tokens")["source"][0].values["ids"].sparse_dim.vocab[4] == "z"


def test_a_tokenizer_that_the_model_has_itself_is_taken_where_it_fits():
    model = nn.Sequential(nn.Embedding(7, 4))
    model.tokenizer = Tokenizer()
    with rf.record(model=model) as trace:
        model(torch.tensor([[1, 6]]))
    assert vocab_of(trace, "0") == ["a", "b", "c", "d", "e", "f", "6"]
    small = nn.Sequential(nn.Embedding(5, 4))  # of another model
    small.tokenizer = Tokenizer()
    with rf.record(model=small) as trace:
        small(torch.tensor([[1, 4]]))
    assert vocab_of(trace, "0") is None


def test_a_path_that_is_not_there():
    with pytest.raises(ValueError) as error, rf.record(model=Model(), labels={"sauce": list("ab")}):
        pass
    assert str(error.value) == (
        'record: labels are given for "sauce", but no module has this path.\n'
        "  embeddings  source, positions, target\n"
        "  modules     4\n"
        'A path is one of `model.named_modules()`, the end of one ("embedding"), or a pattern ("encoder.*").\n'
        '    rf.record(model=model, labels={"source": [...]})'
    )


def test_more_labels_than_tokens():
    with pytest.raises(ValueError) as error, rf.record(model=Model(), labels={"source": list("abcdefgh")}):
        pass
    assert str(error.value) == (
        "record: there are more labels than the model has tokens.\n"
        "  labels  8\n"
        "  tokens  source 5, positions 64, target 7\n"
        "A vocabulary has one label per index, in order. Specify its module:\n"
        '    rf.record(model=model, labels={"source": [...]})'
    )


def test_what_gives_no_labels():
    with pytest.raises(TypeError) as error, rf.record(model=Model(), labels=3.5):
        pass
    assert str(error.value) == (
        "record: these are no labels.\n"
        "  labels  float\n"
        "Labels are a list of text, a dict {text: index}, or a tokenizer; for several vocabularies a dict of these by path.\n"
        '    rf.record(model=model, labels=["<pad>", "a", "b"])'
    )


def test_tokens_of_tokenizers_and_of_tiktoken_are_those_that_they_give_themselves():
    sentence = "abc é"
    model = torch.nn.Sequential(torch.nn.Embedding(259, 4), torch.nn.Linear(4, 259))
    tokenizers, tiktoken = pytest.importorskip("tokenizers"), pytest.importorskip("tiktoken")
    ranks = {bytes([index]): index for index in range(256)} | {b"ab": 256}
    byte_pairs = tiktoken.Encoding("own", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|end|>": 258})
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"abc": 0, "é": 1, "<unk>": 2}, unk_token="<unk>"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    ids = [*byte_pairs.encode(sentence), 258, 257]
    for labels, own, wanted in (
        (byte_pairs, ids, ["ab", "c", " ", "\\xc3", "\\xa9", "<|end|>", "257"]),
        (words, words.encode(sentence).ids, ["abc", "é"]),
        ([f"w{index}" for index in range(259)], [3, 258], ["w3", "w258"]),
    ):
        with rf.record(model=model, labels=labels) as trace:
            model(torch.tensor([own]))
        (tokens,) = trace.select(kind="tokens")
        vocab = tokens.values["ids"].sparse_dim.vocab
        assert [vocab[index] for index in tokens.values["ids"].raw_tensor[0].tolist()] == wanted


def test_a_tokenizer_of_tiktoken_counts_its_tokens():
    """It says how many by a name of its own; of two embeddings the first is of positions."""
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([index]): index for index in range(256)}
    labels = tiktoken.Encoding("own", pat_str=r"\S+|\s+", mergeable_ranks=ranks, special_tokens={})
    model = torch.nn.ModuleDict({"positions": torch.nn.Embedding(32, 4), "words": torch.nn.Embedding(256, 4)})
    model.forward = lambda ids: model["positions"](torch.arange(3)) + model["words"](ids)
    with rf.record(model=model, labels=labels) as trace:
        model(torch.tensor([97, 98, 99]))
    ids = {event.path: event.values["ids"] for event in trace.select(kind="tokens")}
    assert ids["words"].sparse_dim.vocab[98] == "b" and ids["positions"].sparse_dim.vocab is None
