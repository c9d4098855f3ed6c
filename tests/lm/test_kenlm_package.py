"""The package kenlm gives what the own reader gives: scores of labels and of all that may come next, in loops and searches.

Only where it is installed: `pip install kenlm` compiles, `pip install kenlm-ex` does not.
"""

from pathlib import Path

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, tensor
from loop_faces import run_steps
from ngram_models import random_arpa

import rfnb as rf
from rfnb import Dim
from rfnb.lm import kenlm_package

kenlm = pytest.importorskip("kenlm")

HERE = Path(__file__).parent
TINY = HERE.parent / "golden" / "tiny.arpa"
BINARY = [HERE / "kenlm" / f"tiny.{kind}" for kind in ("probing", "trie")]
LN10 = np.log(10)
WORDS = ["the", "cat", "sat", "dog", "hello", "</s>", "xyz"]
PARTS = ["the", "c@@", "at", "s@@", "@@", "d@@", "og", "do@@", "g", "</s>", "hel@@", "lo", "UNK"]


class Pair:
    """A model in both readers, and random labels in a ragged batch."""

    def __init__(self, file, labels, *, other=None, **options):
        self.own = rf.NGramLM(file, labels, **options)
        self.theirs = rf.NGramLM(other or file, self.own.out_dim, package=True, **options)
        self.batch = Dim(30, name="batch")
        rng = np.random.default_rng(0)
        self.time = ragged([0, 6, *rng.integers(0, 7, 28)], self.batch)
        self.rows = rng.integers(0, len(labels), (30, 6)).astype(np.int32)
        self.labels = tensor(self.rows, self.batch, self.time, sparse_dim=self.own.out_dim)

    def check(self):
        (own, state), (theirs, their_state) = (lm(self.labels, spatial_dim=self.time) for lm in (self.own, self.theirs))
        assert_same(theirs, own, tolerance=1e-5)
        assert_same(self.theirs.next_scores(their_state), self.own.next_scores(state), tolerance=1e-5)
        assert_same(self.theirs.end_score(their_state), self.own.end_score(state), tolerance=1e-5)
        return own, state


def random_model(path, order, unknown, seed=0):
    words = ["<unk>"] * unknown + ["<s>", "</s>", "a", "b", "c", "d"]
    random_arpa(path, words, order=order, seed=seed, per_context=6, ends=True)
    return path


@pytest.mark.parametrize("order", [2, 3, 4, 5])
@pytest.mark.parametrize("unknown", [True, False])
def test_scores_of_labels_and_of_all_that_may_come_next(tmp_path, order, unknown):
    path = random_model(tmp_path / "x.arpa", order, unknown)
    labels = ["a", "b", "c", "d", "</s>", "<s>", "other", "further"]
    pair = Pair(path, labels, **({} if unknown else {"unknown_score": -100 * LN10}))
    assert pair.own.unknown_labels == pair.theirs.unknown_labels == ["other", "further"]
    pair.check()


@pytest.mark.parametrize("order", [2, 4])
def test_whole_texts_cost_what_the_package_says(tmp_path, order):
    path = random_model(tmp_path / "x.arpa", order, True)
    pair = Pair(path, ["a", "b", "c", "d", "other"])
    scores, state = pair.check()
    total = rf.reduce_sum(scores, axis=pair.time) + pair.own.end_score(state)
    model = kenlm.Model(str(path))
    texts = [
        " ".join(pair.own.out_dim.vocab[label] for label in row[:count])
        for row, count in zip(pair.rows, pair.time.lengths)
    ]
    assert texts[0] == ""
    expected = tensor(np.array([model.score(text) for text in texts]) * LN10, pair.batch)
    assert_same(total, expected, tolerance=1e-5)


@pytest.mark.parametrize("unknown", ["<unk>", "UNK"])
def test_the_score_of_what_is_unknown(tmp_path, unknown):
    path = random_model(tmp_path / "x.arpa", 3, False)
    pair = Pair(path, ["a", "b", "other"], unknown=unknown, unknown_score=-7.0)
    pair.check()
    with pytest.raises(ValueError, match="some labels are not in the model"):
        rf.NGramLM(path, ["a", "other"], package=True)


@pytest.mark.parametrize("file", BINARY, ids=lambda path: path.name)
def test_its_own_format(file):
    Pair(TINY, WORDS, other=file).check()
    lm = rf.NGramLM(file, WORDS)
    assert lm.order == 3 and lm.unknown_labels == ["xyz"]


@pytest.mark.parametrize("file", [TINY, *BINARY], ids=lambda path: path.name)
@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("merge", [None, "@@"])
def test_words_and_parts_of_words(file, dense, merge):
    labels = PARTS if merge else [*WORDS, "UNK"]
    pair = Pair(TINY, labels)
    own, theirs = (
        rf.KenLmState(path, vocab_file=pair.own.out_dim, bpe_merge_symbol=merge, dense_output=dense, package=package)
        for path, package in ((TINY, False), (file, True))
    )
    (a, state), (b, their_state) = (lm(pair.labels, spatial_dim=pair.time) for lm in (own, theirs))
    assert_same(b, a, tolerance=1e-4)
    assert_same(theirs.next_scores(their_state), own.next_scores(state), tolerance=1e-4)


@pytest.mark.parametrize("face", ["for", "with"])
def test_contexts_follow_the_hypotheses_of_a_search(tmp_path, face):
    pair = Pair(random_model(tmp_path / "x.arpa", 4, True), ["a", "b", "c", "d", "other"])
    frames = tensor(np.random.default_rng(2).uniform(-2, 0, (30, 6, 5)), pair.batch, pair.time, pair.own.out_dim)

    def search(lm):
        loop = rf.Loop(axis=pair.time)
        loop.state.lm = lm.default_initial_state(batch_dims=[pair.batch])

        def body():
            scores = loop.unstack(frames) + lm.next_scores(loop.state.lm)
            label = rf.choice(scores, axis=lm.out_dim, beam_size=4)
            _, loop.state.lm = lm(label, state=loop.state.lm)
            return loop.stack(label)

        out = run_steps(loop, face, body)
        found = rf.get_beam_scores(out)
        beam = next(dim for dim in found.dims if dim is not pair.batch)
        return out.copy_transpose([pair.batch, beam, pair.time]).numpy(), found.copy_transpose(
            [pair.batch, beam]
        ).numpy()

    own, theirs = search(pair.own), search(pair.theirs)
    real = np.arange(6) < pair.time.lengths[:, None, None]
    live = own[1] > -1e10
    np.testing.assert_allclose(theirs[1][live], own[1][live], rtol=1e-5)
    np.testing.assert_array_equal((theirs[0] * real)[live], (own[0] * real)[live])


def test_rows_are_kept_within_a_limit(monkeypatch):
    monkeypatch.setattr(kenlm_package, "_CACHED", 3 * len(WORDS))
    pair = Pair(TINY, WORDS)
    pair.check()
    assert len(pair.theirs.table._rows) <= 3


def test_a_model_of_order_1(tmp_path):
    path = tmp_path / "x.arpa"
    random_arpa(path, ["<unk>", "<s>", "</s>", "a"], order=1)
    with raises_message(
        ValueError,
        f"""
        NGramLM: the package kenlm cannot read this model.
          file    {path}
          reason  This ngram implementation assumes at least a bigram model. Byte: 18
        It reads models of order 2 or higher. ARPA files are also read without it:
            rf.NGramLM(..., package=False)
        """,
    ):
        rf.NGramLM(path, ["a"], package=True)


def test_another_word_for_what_is_unknown():
    with raises_message(
        ValueError,
        f"""
        NGramLM: the package kenlm knows one word for what is unknown.
          file     {TINY}
          unknown  UNK
        The model has a score for it, as <unk>.
            rf.NGramLM(..., unknown="<unk>")
        """,
    ):
        rf.NGramLM(TINY, ["the", "xyz"], unknown="UNK", unknown_score=-3.0, package=True)


def test_no_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        rf.NGramLM(tmp_path / "nothing.arpa", ["a"], package=True)
