"""n-gram models: the rule of back-off by hand and by definition, the package kenlm, loops and searches, each error."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, tensor, using_backend
from loop_faces import run_steps
from ngram_models import random_arpa, score

import rfnb as rf
from rfnb import Dim
from rfnb.lm import ngram as ngram_file
from rfnb.lm.arpa import read_arpa
from rfnb.lm.ngram_table import Columns, NGramTable

TINY = Path(__file__).parents[1] / "golden" / "tiny.arpa"
WORDS = ["<unk>", "<s>", "</s>", "a", "b", "c", "d"]
LABELS = ["a", "b", "c", "d", "</s>", "other"]
LN10 = np.log(10)


def scores_of(lm, labels):
    time = Dim(len(labels), name="time")
    return lm(tensor(np.asarray(labels, np.int32), time), spatial_dim=time)[0].numpy()


def test_a_listed_ngram_and_a_back_off_by_hand():
    lm = rf.NGramLM(TINY, ["the", "cat", "sat", "dog", "</s>"])
    assert lm.order == 3
    # <s> the | the cat after <s>: listed trigram | sat after the cat: listed | </s> after cat sat: listed
    np.testing.assert_allclose(scores_of(lm, [0, 1, 2, 4]), np.array([-0.4, -0.2, -0.35, -0.1]) * LN10, rtol=1e-5)
    # dog after <s> the: bo(<s> the) + the dog | cat after the dog: bo(the dog) + bo(dog) + cat
    np.testing.assert_allclose(
        scores_of(lm, [0, 3, 1]), np.array([-0.4, -0.2 - 0.8, -0.3 - 0.1 - 1.2]) * LN10, rtol=1e-5
    )


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("prefixes", [True, False])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_scores_are_those_of_the_definition(tmp_path, monkeypatch, order, prefixes, dense):
    monkeypatch.setattr(ngram_file, "_DENSE", 1 << 24 if dense else 0)
    listed = random_arpa(tmp_path / "x.arpa", WORDS, order=order, seed=order, prefixes=prefixes)
    lm = rf.NGramLM(tmp_path / "x.arpa", LABELS)
    batch, time = Dim(6**4, name="batch"), Dim(4, name="time")
    rows = np.array(list(itertools.product(range(6), repeat=4)), np.int32)
    got, state = lm(tensor(rows, batch, time), spatial_dim=time)
    expected = [
        [score(listed, LABELS[row[i]], ["<s>", *(LABELS[j] for j in row[:i])], order) for i in range(4)] for row in rows
    ]
    np.testing.assert_allclose(got.copy_transpose([batch, time]).numpy(), expected, rtol=1e-5)
    dense_scores = lm.next_scores(state).copy_transpose([batch, lm.out_dim]).numpy()
    for row, values in list(zip(rows, dense_scores))[::7]:
        history = ["<s>", *(LABELS[j] for j in row)]
        np.testing.assert_allclose(values, [score(listed, word, history, order) for word in LABELS], rtol=1e-5)
    np.testing.assert_allclose(lm.end_score(state).numpy(), dense_scores[:, 4], rtol=1e-5)


@pytest.mark.parametrize(
    "labels", [["w29"], ["w3", "other", "w28", "other", "w3"], [f"w{index}" for index in range(30)], []]
)
def test_few_or_many_labels_of_a_model_some_of_them_the_same_word(tmp_path, labels):
    words = ["<unk>", "<s>", "</s>", *(f"w{index}" for index in range(30))]
    listed = random_arpa(tmp_path / "x.arpa", words, order=3)
    lm = rf.NGramLM(tmp_path / "x.arpa", words)
    contexts = np.arange(lm.table.num_contexts)
    found = lm.table.rows(contexts, Columns([0 if word == "other" else words.index(word) for word in labels]))
    texts = {index: gram for gram, index in lm.table._ids.items()}
    expected = [
        [score(listed, word, [words[one] for one in texts[context]], 3) for word in labels] for context in contexts
    ]
    np.testing.assert_allclose(found, np.reshape(expected, (len(contexts), len(labels))), rtol=1e-5)


@pytest.mark.parametrize("backend", ["torch", "numpy"])
@pytest.mark.parametrize("dense", [True, False])
def test_a_ragged_batch_gives_what_each_sequence_gives(backend, dense, monkeypatch):
    monkeypatch.setattr(ngram_file, "_DENSE", 1 << 24 if dense else 0)
    with using_backend(backend):
        lm = rf.NGramLM(TINY, ["the", "cat", "sat", "dog", "</s>"])
        batch = Dim(3, name="batch")
        time = ragged([4, 0, 2], batch)
        rows = np.array([[0, 1, 2, 4], [9, 9, 9, 9], [0, 3, 9, 9]], np.int32)
        got, state = lm(tensor(rows, batch, time, sparse_dim=lm.out_dim), spatial_dim=time)
        got = got.copy_transpose([batch, time]).numpy()
        np.testing.assert_allclose(got[0], scores_of(lm, [0, 1, 2, 4]), rtol=1e-6)
        np.testing.assert_allclose(got[2, :2], scores_of(lm, [0, 3]), rtol=1e-6)
        assert state.context.numpy()[1] == lm.start


@pytest.mark.parametrize("face", ["for", "with"])
@pytest.mark.parametrize("dense", [True, False])
def test_both_faces_of_a_loop(face, dense, monkeypatch):
    monkeypatch.setattr(ngram_file, "_DENSE", 1 << 24 if dense else 0)
    lm = rf.NGramLM(TINY, ["the", "cat", "sat", "dog", "</s>"])
    batch, time = Dim(2, name="batch"), Dim(4, name="time")
    labels = tensor(np.array([[0, 1, 2, 4], [0, 3, 2, 4]], np.int32), batch, time, sparse_dim=lm.out_dim)
    loop = rf.Loop(axis=time)
    loop.state.lm = lm.default_initial_state(batch_dims=[batch])

    def body():
        before = loop.stack(lm.next_scores(loop.state.lm))
        out, loop.state.lm = lm(loop.unstack(labels), state=loop.state.lm)
        return before, loop.stack(out)

    rows, out = run_steps(loop, face, body)
    assert_same(out, lm(labels, spatial_dim=time)[0])
    assert_same(rf.gather(rows, indices=labels, axis=lm.out_dim), out)


@pytest.mark.parametrize("face", ["for", "with"])
@pytest.mark.parametrize("dense", [True, False])
def test_the_context_follows_the_hypotheses_of_a_search(face, dense, monkeypatch):
    monkeypatch.setattr(ngram_file, "_DENSE", 1 << 24 if dense else 0)
    lm = rf.NGramLM(TINY, ["the", "cat", "sat", "dog", "</s>"])
    batch, time, labels = Dim(3, name="batch"), Dim(5, name="time"), lm.out_dim
    frames = tensor(np.random.default_rng(2).uniform(-1, 0, (3, 5, 5)), batch, time, labels)
    loop = rf.Loop(axis=time)
    loop.state.lm = lm.default_initial_state(batch_dims=[batch])

    def body():
        label = rf.choice(loop.unstack(frames) + lm.next_scores(loop.state.lm), axis=labels, beam_size=4)
        _, loop.state.lm = lm(label, state=loop.state.lm)
        return loop.stack(label)

    out = run_steps(loop, face, body)
    scores, state = lm(out, spatial_dim=time)
    assert_same(rf.reduce_sum(scores + rf.gather(frames, indices=out, axis=labels), axis=time), rf.get_beam_scores(out))
    assert_same(loop.state.lm.context, state.context)
    rows = out.copy_transpose([batch, next(dim for dim in out.dims if dim.kind == "beam"), time]).numpy()
    assert all(len({tuple(row) for row in one}) == 4 for one in rows)


def test_contexts_that_a_pruned_model_lacks_are_made(tmp_path):
    listed = random_arpa(tmp_path / "x.arpa", WORDS, order=3, seed=5, prefixes=False)
    lacking = [gram for gram in listed if len(gram) == 3 and gram[:2] not in listed]
    assert lacking
    table = NGramTable(read_arpa(tmp_path / "x.arpa"))
    words = table.words
    for first, second, third in lacking:
        start = table.lookup(np.array([0]), np.array([words[first]]))[1]
        middle = table.lookup(start, np.array([words[second]]))[1]
        np.testing.assert_allclose(
            table.lookup(middle, np.array([words[third]]))[0], listed[first, second, third][0] * LN10, rtol=1e-5
        )


@pytest.mark.parametrize("order", [2, 3, 4])
def test_the_package_gives_the_same(tmp_path, order):
    kenlm = pytest.importorskip("kenlm")
    random_arpa(tmp_path / "x.arpa", WORDS, order=order, seed=order, per_context=6, ends=True)
    ours, theirs = rf.NGramLM(tmp_path / "x.arpa", LABELS), rf.NGramLM(tmp_path / "x.arpa", LABELS, package=True)
    model = kenlm.Model(str(tmp_path / "x.arpa"))
    rng = np.random.default_rng(1)
    for _ in range(50):
        row = rng.integers(0, 6, 5)
        np.testing.assert_allclose(scores_of(ours, row), scores_of(theirs, row), rtol=1e-4)
        text = " ".join(LABELS[index] for index in row)
        np.testing.assert_allclose(scores_of(ours, row).sum(), model.score(text, eos=False) * LN10, rtol=1e-4)
    batch = Dim(2, name="batch")
    states = [lm.default_initial_state(batch_dims=[batch]) for lm in (ours, theirs)]
    np.testing.assert_allclose(ours.next_scores(states[0]).numpy(), theirs.next_scores(states[1]).numpy(), rtol=1e-4)


def test_labels_of_another_model():
    with raises_message(
        ValueError,
        f"""
        NGramLM: no label is a word of the model.
          file                {TINY}
          labels              x y (2)
          words of the model  <unk> <s> </s> the cat sat ... (8)
        Each label is a word. The model was made for others.
            rf.NGramLM(file, [...])   # the texts of the labels as in the model
        """,
    ):
        rf.NGramLM(TINY, ["x", "y"])


def test_labels_that_a_model_without_unknown_word_does_not_have(tmp_path):
    path = tmp_path / "x.arpa"
    random_arpa(path, WORDS[1:], order=2)
    with raises_message(
        ValueError,
        f"""
        NGramLM: some labels are not in the model.
          file                {path}
          labels              a b other (3)
          words of the model  <s> </s> a b c d (6)
          not in the model    other (1)
        The model has no word "<unk>" for what is unknown. Say what such labels cost:
            rf.NGramLM(..., unknown_score=-230)
        """,
    ):
        rf.NGramLM(path, ["a", "b", "other"])
    assert scores_of(rf.NGramLM(path, ["a", "b", "other"], unknown_score=-7.0), [2])[0] <= -7.0


def test_a_dim_without_texts():
    with raises_message(
        ValueError,
        """
        n-gram model: which texts do the labels have?
          labels  chars=5
          vocab   None
        The model knows words, so the dim needs the text of each label.
            chars = rf.Dim(5, name="chars", vocab=[...])
        """,
    ):
        rf.NGramLM(TINY, Dim(5, name="chars"))


def test_a_step_without_state():
    lm = rf.NGramLM(TINY, ["the", "cat"])
    with raises_message(
        RuntimeError,
        """
        NGramLM: a single step without state.
          label  [batch=2]
        The score of a label depends on those before it, which are the state of a loop.
            loop.state.lm = lm.default_initial_state(batch_dims=[batch])
            score, loop.state.lm = lm(label, state=loop.state.lm, spatial_dim=rf.single_step_dim)
        """,
    ):
        lm(rf.zeros([Dim(2, name="batch")], dtype="int32"))


def test_a_binary_file_without_the_package(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "kenlm", None)
    path = tmp_path / "x.bin"
    path.write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    with raises_message(
        ModuleNotFoundError,
        f"""
        NGramLM: the package kenlm is not installed.
          file  {path}
        KenLM's binary files are read through it; ARPA files (also .gz) need no package.
            pip install kenlm
        """,
    ):
        rf.NGramLM(path, ["a"])
