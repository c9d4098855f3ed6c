"""KenLmState: scores of the reference implementation, words in parts against the definition on texts, each error."""

import math
from pathlib import Path

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, tensor
from loop_faces import run_steps

import rfnb as rf
from rfnb import Dim
from rfnb.lm.arpa import read_arpa
from rfnb.lm.ngram_table import NGramTable

GOLDEN = Path(__file__).parents[1] / "golden"
TINY = GOLDEN / "tiny.arpa"
WORDS = ["</s>", "the", "cat", "sat", "dog", "hello", "xyz", "UNK"]
PARTS = ["the", "c@@", "at", "s@@", "@@", "d@@", "og", "do@@", "g", "</s>", "a@@b", "hel@@", "lo", "UNK"]


def batch_of(name):
    data = np.load(GOLDEN / f"{name}.npz")
    batch, labels = Dim(3, name="batch"), Dim(8, name="labels", vocab=WORDS)
    time = ragged(data["in_len/data"], batch)
    return data, batch, time, tensor(data["in/data"], batch, time, sparse_dim=labels)


@pytest.mark.parametrize("way", ["for", "with", "at once"])
@pytest.mark.parametrize("name", ["kenlm_words", "kenlm_words_dense"])
def test_scores_are_those_of_the_reference(name, way):
    data, batch, time, labels = batch_of(name)
    lm = rf.KenLmState(TINY, vocab_file=labels.sparse_dim, dense_output=name.endswith("dense"))
    dims = [batch, time, lm.out_dim][: data["out/output"].ndim]
    if way == "at once":
        out, _ = lm(labels, spatial_dim=time)
    else:
        loop = rf.Loop(axis=time)
        loop.state.lm = lm.default_initial_state(batch_dims=[batch])

        def body():
            score, loop.state.lm = lm(loop.unstack(labels), state=loop.state.lm)
            return loop.stack(score)

        out = run_steps(loop, way, body)
    assert_same(out, tensor(data["out/output"], *dims), tolerance=1e-4)


def total(text):
    """ln p of the words of a text, by the table."""
    table = NGramTable(read_arpa(TINY))
    context, out = np.array([table.start]), 0.0
    for word in text.split():
        index = table.word(word)
        score, context = table.lookup(context, np.array([table.word("<unk>") if index is None else index]))
        out += float(score[0])
    return out


def check_parts(rows, offset=0, **options):
    """Each step against the documented rule on the text."""
    for dense in (False, True):
        lm = rf.KenLmState(
            TINY, vocab_file=PARTS, bpe_merge_symbol="@@", input_step_offset=offset, dense_output=dense, **options
        )
        batch, time = Dim(len(rows), name="batch"), Dim(len(rows[0]), name="time")
        out, _ = lm(tensor(np.array(rows, np.int32), batch, time), spatial_dim=time)
        out = out.copy_transpose([batch, time, *out.remaining_dims([batch, time])]).numpy()
        for row, got in zip(rows, out):
            text, before = "", 0.0
            for step, (label, value) in enumerate(zip(row, got)):
                text += PARTS[label] + " " if step >= offset else ""
                joined = text.replace("@@ ", "")
                if not dense:
                    assert math.isclose(value, total(joined) - before, abs_tol=1e-4)
                    before = total(joined)
                    continue
                done, _, last = joined.rpartition(" ")
                base = total(f"{done} {last}@@" if last else done)
                expected = [total(f"{done} {last}{one}") - base for one in PARTS]
                np.testing.assert_allclose(value, expected, atol=1e-4)


def random_rows(seed):
    return np.random.default_rng(seed).integers(0, len(PARTS), (25, 7)).tolist()


def test_words_in_parts_by_hand():
    lm = rf.KenLmState(TINY, vocab_file=PARTS, bpe_merge_symbol="@@")
    time = Dim(3, name="time")
    out, state = lm(tensor(np.array([0, 1, 2], np.int32), time), spatial_dim=time)
    the, unknown, cat = -0.4, -0.2 - 0.25 - 1.6, -0.2
    np.testing.assert_allclose(out.numpy(), np.log(10) * np.array([the, unknown, cat - unknown]), rtol=1e-5)
    assert state.partial.numpy() == 0


def test_words_in_parts_are_scored_as_their_text():
    check_parts(random_rows(0))


def test_the_first_labels_may_be_skipped():
    check_parts(random_rows(1), offset=2)


def test_the_package_gives_the_same():
    pytest.importorskip("kenlm")
    check_parts(random_rows(2), package=True)


@pytest.mark.parametrize("face", ["for", "with"])
def test_partial_words_in_a_loop(face):
    lm = rf.KenLmState(TINY, vocab_file=PARTS, bpe_merge_symbol="@@")
    batch, time = Dim(25, name="batch"), Dim(7, name="time")
    labels = tensor(np.array(random_rows(3), np.int32), batch, time)
    loop = rf.Loop(axis=time)
    loop.state.lm = lm.default_initial_state(batch_dims=[batch])

    def body():
        out, loop.state.lm = lm(loop.unstack(labels), state=loop.state.lm)
        return loop.stack(out)

    out = run_steps(loop, face, body)
    assert_same(out, lm(labels, spatial_dim=time)[0])


@pytest.mark.parametrize("face", ["for", "with"])
def test_partial_words_follow_the_hypotheses_of_a_search(face):
    lm = rf.KenLmState(TINY, vocab_file=PARTS, bpe_merge_symbol="@@")
    batch, time, labels = Dim(3, name="batch"), Dim(5, name="time"), lm.out_dim
    frames = tensor(np.random.default_rng(2).uniform(-6, 0, (3, 5, len(PARTS))), batch, time, labels)
    loop = rf.Loop(axis=time)
    loop.state.lm, loop.state.total = lm.default_initial_state(batch_dims=[batch]), rf.zeros([batch])

    def body():
        label = rf.choice(loop.unstack(frames), axis=labels, beam_size=4)
        score, new = lm(label, state=loop.state.lm)
        loop.state.total = loop.state.total + score
        loop.state.lm = new
        return loop.stack(label)

    out = run_steps(loop, face, body)
    scores, state = lm(out, spatial_dim=time)
    assert_same(loop.state.total, rf.reduce_sum(scores, axis=time))
    assert_same(loop.state.lm.partial, state.partial)
    assert_same(loop.state.lm.context, state.context)


@pytest.mark.parametrize("face", ["for", "with"])
def test_dense_scores_choose_the_next_part_in_a_beam(face):
    """The score of the best label is the additional cost of the text, with the end of the last word as its parts are written."""
    lm = rf.KenLmState(TINY, vocab_file=PARTS, bpe_merge_symbol="@@")
    batch, time, labels = Dim(2, name="batch"), Dim(4, name="time"), lm.out_dim
    frames = tensor(np.random.default_rng(3).uniform(-3, 0, (2, 4, len(PARTS))), batch, time, labels)
    loop = rf.Loop(axis=time)
    loop.state.lm = lm.default_initial_state(batch_dims=[batch])

    def body():
        scores = loop.unstack(frames) + 0.5 * lm.next_scores(loop.state.lm)
        label = rf.choice(scores, axis=labels, beam_size=3)
        _, loop.state.lm = lm(label, state=loop.state.lm)
        return loop.stack(label)

    out = run_steps(loop, face, body)
    found = rf.get_beam_scores(out)
    beam = next(dim for dim in found.dims if dim is not batch)
    rows = out.copy_transpose([batch, beam, time]).numpy()
    values = frames.copy_transpose([batch, time, labels]).numpy()
    for row, frame, got in zip(rows, values, found.copy_transpose([batch, beam]).numpy()):
        for hypothesis, score in zip(row, got):
            text, expected = "", 0.0
            for index, label in enumerate(hypothesis):
                joined = text.replace("@@ ", "")
                done, _, last = joined.rpartition(" ")
                base = total(f"{done} {last}@@" if last else done)
                expected += frame[index, label] + 0.5 * (total(f"{done} {last}{PARTS[label]}") - base)
                text += PARTS[label] + " "
            assert math.isclose(score, expected, abs_tol=1e-3)


def test_files_of_labels(tmp_path):
    lines, python = tmp_path / "lines", tmp_path / "python"
    lines.write_text("the\ncat\nUNK\n")
    python.write_text("{'cat': 1, 'the': 0, 'UNK': 2}\n")
    for path in (lines, python):
        assert rf.KenLmState(lambda: TINY, vocab_file=path).out_dim.vocab == ["the", "cat", "UNK"]
    python.write_text("{'cat': 1, 'UNK': 2}\n")
    with raises_message(
        ValueError,
        f"""
        KenLmState: these are no labels.
          vocab_file  {python}
          cause       the indices are not 0, 1, ...: each label has its own, and none is left out
        A file has one label per line, or a dict of each label's index, all from 0 on:
            {{'a': 0, 'b': 1}}
        """,
    ):
        rf.KenLmState(TINY, vocab_file=python)


def test_labels_of_a_file_may_have_any_white_space_but_blanks(tmp_path):
    path = tmp_path / "lines"
    odd = ["the", "a\u00a0b", "\u3000", "x\u2028", "\x0cy", "UNK"]
    path.write_text("\n".join(odd), encoding="utf-8")
    assert rf.KenLmState(TINY, vocab_file=path).out_dim.vocab == odd


def test_a_label_for_what_is_unknown_has_to_be_there():
    with raises_message(
        ValueError,
        """
        KenLmState: the label "UNK" is not in the vocabulary.
          labels  2
        vocab_unknown_label is the label for unknown words. Name it, or pass None:
            rf.KenLmState(..., vocab_unknown_label=None)
        """,
    ):
        rf.KenLmState(TINY, vocab_file=["the", "cat"])
    rf.KenLmState(TINY, vocab_file=["the", "cat"], vocab_unknown_label=None)


def test_a_label_of_two_words():
    with raises_message(
        ValueError,
        """
        KenLmState: a label is empty or has a blank in it.
          label  1: 'the cat'
        Labels are joined by blanks, which separate the words.
        """,
    ):
        rf.KenLmState(TINY, vocab_file=["UNK", "the cat", "cat"])


def test_a_step_without_state():
    lm = rf.KenLmState(TINY, vocab_file=WORDS)
    with raises_message(
        RuntimeError,
        """
        KenLmState: a single step without state.
          label  [batch=2]
        The score of a label depends on those before it, which are the state of a loop.
            loop.state.lm = lm.default_initial_state(batch_dims=[batch])
            score, loop.state.lm = lm(label, state=loop.state.lm, spatial_dim=rf.single_step_dim)
        """,
    ):
        lm(rf.zeros([Dim(2, name="batch")], dtype="int32"))
