"""The distribution view: numbers against torch, what the scores are, the reference, labels, and its forms."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from viz.stored_files import assert_stored

import rfnb as rf
from rfnb.core.errors import DimError, ShapeError
from rfnb.viz.kinds import drawing_of, html_of, text_of
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import page_spec
from rfnb.viz.spec import Spec, pack, to_json

LABELS = ["T", "AH", " a", "a ", "a", "", "</s>"]
RNG = np.random.default_rng(3)
LOGITS = (2 * RNG.standard_normal((3, 5, 7))).astype(np.float32)
TARGETS = RNG.integers(0, 7, (3, 5))
LENGTHS = [5, 3, 1]


def tensors():
    batch, vocab = rf.Dim(3, name="batch"), rf.Dim(7, name="phones", vocab=LABELS)
    time = rf.ragged_dim(LENGTHS, over=batch, name="time")
    scores = rf.convert_to_tensor(LOGITS, dims=[batch, time, vocab])
    targets = rf.convert_to_tensor(TARGETS.astype(np.int32), dims=[batch, time], sparse_dim=vocab)
    return scores, targets, vocab


def example() -> Spec:
    """Probabilities that can be checked by hand: right, wrong with rank 3, without reference, NaN; and a sequence of one step."""
    first = [[0.5, 0.25, 0.125, 0.125], [0.25, 0.5, 0.0, 0.25], [0.25] * 4, [np.nan, 0.5, 0.25, 0.25]]
    second = [[0.0, 0.0, 1.0, 0.0], *[[0.25] * 4] * 3]
    return rf.viz.distribution(
        np.array([first, second]), [[0, 3, -1, 1], ["a "]], labels=["T", " a", "a ", ""], names=["that", "a"],
        title="decoder",
    ).spec  # fmt: skip


def test_spec_is_the_stored_one():
    assert_stored("distribution_small.json", to_json(example()))


def test_text_is_the_stored_one():
    assert_stored("distribution_small.txt", text_of(example()))


def test_every_line_of_the_text_fits_into_80_columns():
    wide = rf.viz.distribution(LOGITS, TARGETS.tolist(), labels=[label * 9 for label in "abcdefg"]).spec
    assert all(len(line) <= 80 for spec in (example(), wide) for line in text_of(spec).splitlines())


@pytest.mark.parametrize("kind", ["logits", "log-probs", "probs"])
def test_the_losses_are_those_of_torch(kind):
    logits = torch.tensor(LOGITS, dtype=torch.float64)
    given = {"logits": logits, "log-probs": logits.log_softmax(-1), "probs": logits.softmax(-1)}[kind]
    spec = rf.viz.distribution(given.numpy(), TARGETS.tolist()).spec
    wanted = torch.nn.functional.cross_entropy(
        logits.reshape(15, 7), torch.tensor(TARGETS).reshape(15), reduction="none"
    )
    np.testing.assert_allclose(-spec.blocks["log_prob"].ravel(), wanted.numpy(), rtol=1e-6)
    assert spec.head["estimated_type"] == kind and spec.head["found"]
    assert [seq["loss"] for seq in spec.head["seqs"]] == pytest.approx(wanted.reshape(3, 5).mean(-1).tolist(), rel=1e-6)


def test_entropy_rest_and_rank_are_those_of_all_labels():
    logits = torch.tensor(LOGITS, dtype=torch.float64)
    spec = rf.viz.distribution(LOGITS, TARGETS.tolist(), top=2).spec
    probs = logits.softmax(-1)
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    np.testing.assert_allclose(spec.blocks["entropy"], entropy.numpy(), rtol=1e-5)
    best, order = probs.topk(2, dim=-1)
    np.testing.assert_array_equal(spec.blocks["top"], order.numpy())
    np.testing.assert_allclose(spec.blocks["rest"], (1 - best.sum(-1)).numpy(), rtol=1e-5)
    ranks = 1 + (probs > probs.gather(-1, torch.tensor(TARGETS)[..., None])).sum(-1)
    np.testing.assert_array_equal(spec.blocks["rank"], ranks.numpy())
    assert [seq["right"] for seq in spec.head["seqs"]] == (ranks == 1).sum(-1).tolist()


def test_a_large_vocabulary_has_the_same_best_labels_as_a_sort():
    scores = np.round(RNG.standard_normal((20, 900)), 1)  # many are equal: then the first
    spec = rf.viz.distribution(scores, np.arange(20) * 40, top=9).spec
    order = np.argsort(-scores, axis=-1, kind="stable")
    np.testing.assert_array_equal(spec.blocks["top"][0], order[:, :9])
    ranks = [1 + int(np.flatnonzero(row == 40 * step)[0]) for step, row in enumerate(order)]
    assert spec.blocks["rank"][0].tolist() == ranks


@pytest.mark.parametrize("size", [1, 7, 512, 513, 640, 1999])
@pytest.mark.parametrize("kind", ["logits", "log-probs", "probs"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_of_any_vocabulary_are_those_of_a_plain_loop(size, kind, dtype):
    """Best labels found by stretches, sums in parts: the same as of one row after the other, written down plainly."""
    rng = np.random.default_rng(size)
    logits = np.round(3 * rng.standard_normal((9, size)), 1)
    logits[1] = 0.5  # all are equal
    logits[2, : size // 2] = -np.inf
    logits[3, rng.integers(size)] = 60.0
    logits[4, -1] = 9.0  # the best one behind the last whole stretch
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    scores = {"logits": logits, "log-probs": logs, "probs": np.exp(logs)}[kind].astype(dtype)
    scores[5, 0], scores[6, -1] = np.nan, np.inf
    reference = rng.integers(size, size=9)
    reference[7] = -1
    spec = rf.viz.distribution(scores, reference, estimated_type=kind, top=20).spec
    exact = 1e-5 if dtype is np.float32 else 1e-6
    for step, row in enumerate(scores.astype(np.float64)):
        got = {name: block[0, step] for name, block in spec.blocks.items()}
        if step in (5, 6):
            assert (got["top"] == -1).all() and got["rank"] == 0 and np.isnan([got["rest"], got["entropy"]]).all()
            continue
        order = sorted(range(size), key=lambda label: (-row[label], label))
        assert got["top"].tolist() == order[:20]
        want = logs[step]
        np.testing.assert_allclose(got["top_log_probs"], want[order[:20]], rtol=exact, atol=exact)
        np.testing.assert_allclose(got["rest"], np.exp(want)[order[20:]].sum(), atol=exact)
        np.testing.assert_allclose(got["entropy"], -sum(np.exp(x) * x for x in want if x > -np.inf), atol=2e-5)
        if step == 7:
            assert got["rank"] == 0 and np.isnan(got["log_prob"])
        else:
            assert got["rank"] == 1 + order.index(reference[step])
            np.testing.assert_allclose(got["log_prob"], want[reference[step]], rtol=exact, atol=exact)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, bool, np.float16])
def test_numbers_of_any_type_are_scores(dtype):
    spec = rf.viz.distribution(np.eye(3).astype(dtype), [0, 1, 0]).spec
    assert spec.blocks["rank"].tolist() == [[1, 1, 2]] and spec.head["estimated_type"] == "probs"


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (0, 2, 3), (2, 0, 3), (2, 2, 0), (0, 0)])
def test_nothing_is_drawn_as_nothing(shape):
    spec = rf.viz.distribution(np.zeros(shape, np.float32), estimated_type="logits").spec
    assert text_of(spec).startswith("Output") and html_of(spec) and not (spec.blocks["top"] >= 0).any()


def test_right_is_what_argmax_gives_also_where_labels_are_equal():
    spec = rf.viz.distribution(np.array([[0.5, 0.5], [0.5, 0.5]]), [0, 1]).spec
    assert spec.blocks["rank"].tolist() == [[1, 2]] and spec.head["seqs"][0]["right"] == 1


def test_tensors_give_labels_lengths_and_the_reference_whatever_the_order_of_dims():
    scores, targets, vocab = tensors()
    spec = rf.viz.distribution(scores, targets).spec
    assert spec.head["vocab_dim"]["name"] == "phones" and set(spec.head["tokens"].values()) == set(LABELS)
    assert [seq["len"] for seq in spec.head["seqs"]] == LENGTHS
    losses = rf.cross_entropy(estimated=scores, target=targets, axis=vocab, estimated_type="logits")
    real = np.arange(5) < np.array(LENGTHS)[:, None]
    np.testing.assert_allclose(-spec.blocks["log_prob"][real], losses.numpy()[real], rtol=1e-5)
    assert np.isnan(spec.blocks["log_prob"][~real]).all() and (spec.blocks["top"][~real] == -1).all()
    for order in ([2, 0, 1], [1, 2, 0]):
        other = scores.copy_transpose([scores.dims[at] for at in order])
        flipped = targets.copy_transpose(list(reversed(targets.dims)))
        assert to_json(rf.viz.distribution(other, flipped).spec) == to_json(spec)


def test_what_lies_in_the_padding_has_no_part_in_anything():
    scores, targets, _ = tensors()
    raw = LOGITS.copy()
    raw[~(np.arange(5) < np.array(LENGTHS)[:, None])] = np.nan
    dirty = rf.convert_to_tensor(raw, dims=scores.dims)
    assert to_json(rf.viz.distribution(dirty, targets).spec) == to_json(rf.viz.distribution(scores, targets).spec)


def test_a_classifier_has_a_row_for_each_example():
    batch, classes = rf.Dim(4, name="batch"), rf.Dim(3, name="classes", vocab=["cat", "dog", "cow"])
    scores = rf.convert_to_tensor(np.eye(3, dtype=np.float32)[[0, 1, 2, 0]], dims=[batch, classes])
    targets = rf.convert_to_tensor(np.array([0, 1, 1, 0], np.int32), dims=[batch], sparse_dim=classes)
    spec = rf.viz.distribution(scores, targets).spec
    assert spec.head["step_dim"]["name"] == "batch" and spec.head["seqs"][0]["right"] == 3
    assert spec.head["seqs"][0]["label"] == "the batch"


def test_the_rows_of_a_classifier_are_called_sequences_not_steps():
    view = rf.viz.distribution(
        rf.convert_to_tensor(
            LOGITS[0, :2], dims=[rf.Dim(2, name="batch"), rf.Dim(LOGITS.shape[-1], name="classes", kind="feature")]
        )
    )
    lines = view.text().splitlines()
    assert lines[1] == "the batch: 2 sequences" and lines[2] == "  sequence  best labels"


def test_half_precision_is_told_by_looser_sums():
    probs = torch.tensor(LOGITS[0]).softmax(-1).to(torch.bfloat16)
    assert rf.viz.distribution(probs).spec.head["estimated_type"] == "probs"


@pytest.mark.parametrize("scores, shown, sums, exps", [
    (np.array([[0.5, 0.25]]), "all from 0 to 1", "0.75", "2.93"),
    (np.array([[-1.0, -2.0]]), "all 0 or less", "-3", "0.503"),
])  # fmt: skip
def test_scores_that_may_be_any_of_the_three_are_refused(scores, shown, sums, exps):
    with pytest.raises(ValueError) as caught:
        rf.viz.distribution(scores)
    assert str(caught.value) == (
        "distribution: the scores may be probabilities, their logs or logits.\n"
        f"  scores       {shown}\n"
        f"  sums         {sums}\n"
        f"  sums of exp  {exps}\n"
        "Neither the scores nor their exp sum to 1 over the labels. If that is intended, pass them as logits:\n"
        '    rf.viz.distribution(scores, estimated_type="logits")'
    )
    assert rf.viz.distribution(scores, estimated_type="logits").spec.head["found"] is False


def test_scores_that_are_not_what_was_said_are_refused():
    with pytest.raises(ValueError) as caught:
        rf.viz.distribution(np.array([[1.0, 2.0]]), estimated_type="log-probs")
    assert str(caught.value) == (
        "distribution: these are not log probabilities.\n"
        "  scores       of both signs or large\n"
        "  sums         3\n"
        "  sums of exp  10.1\n"
        "Probabilities of all labels sum to 1, and so does exp of their logs. Logits may be any numbers:\n"
        '    rf.viz.distribution(scores, estimated_type="logits")'
    )


def test_a_reference_with_a_dim_of_its_own_is_refused():
    scores, _, vocab = tensors()
    other = rf.Dim(3, name="other")
    wrong = rf.convert_to_tensor(np.zeros(3, np.int32), dims=[other], sparse_dim=vocab)
    with pytest.raises(DimError) as caught:
        rf.viz.distribution(scores, wrong)
    assert str(caught.value) == (
        "distribution: the reference has a dim other=3 that the scores do not have.\n"
        "  scores     [batch=3, time<=5], without the vocabulary\n"
        "  reference  [other=3]\n"
        "The dims of the reference are among those of the scores.\n"
        "    rf.viz.distribution(scores, reference=targets)    # of the same batch and the same steps"
    )


def test_a_reference_that_is_too_long_is_refused():
    with pytest.raises(ShapeError) as caught:
        rf.viz.distribution(np.eye(3), [0, 1, 2, 0])
    assert str(caught.value) == (
        "distribution: the reference does not fit the scores.\n"
        "  scores     1 sequences, 3 steps\n"
        "  reference  int64 (4,)\n"
        "The reference has one index into the vocabulary per step: one list for all sequences, or one list per sequence.\n"
        "    reference=[[...], [...]]"
    )


def test_an_unknown_label_is_refused():
    with pytest.raises(ValueError) as caught:
        rf.viz.distribution(np.eye(2), ["a", "c"], labels=["a", "b"])
    assert str(caught.value) == (
        "distribution: the reference has a label 'c' that the vocabulary does not have.\n"
        "  vocabulary  2 labels\n"
        "The reference has labels of the vocabulary, or indices into it.\n"
        "    rf.viz.distribution(scores, reference=..., labels=[...])"
    )


@pytest.mark.parametrize("reference, note", [
    ([0, 7], "the reference is outside the vocabulary of 2 in step 1"),
    ([0, 0], "the reference has probability 0 in step 1, so its loss is infinite"),
])  # fmt: skip
def test_what_is_odd_is_said_everywhere(reference, note):
    view = rf.viz.distribution(np.eye(2), reference)
    assert view.spec.head["seqs"][0]["note"] == note
    assert f"! sequence 0: {note}." in " ".join(view.text().split()) and note in view.html()


def test_the_picture_says_what_is_wrong_in_words():
    drawing = drawing_of(example())
    texts = [shape.text for shape in drawing.shapes if hasattr(shape, "text")]
    assert texts.count("✓ right") == 2 and texts.count("✗ wrong") == 1
    assert "Wrong: ␣a instead of ∅ in step 1." in drawing.alt
    assert "<img" in html_of(example()) and "<script" not in html_of(example())


def test_labels_that_differ_in_spaces_differ_everywhere():
    view = rf.viz.distribution(np.eye(3), labels=[" a", "a ", "a"])
    texts = [shape.text for shape in drawing_of(view.spec).shapes if hasattr(shape, "text")]
    for label in ("␣a", "a␣", "a"):
        assert label in texts and f" {label} " in view.text()


@pytest.mark.parametrize("size", [4_000, 12_000, 20_000])
def test_a_page_has_fewer_labels_and_all_of_the_probability(size):
    scores = RNG.standard_normal((300, 100))
    spec = rf.viz.distribution(scores, RNG.integers(0, 100, 300)).spec
    page = page_spec(spec, Room(size, size))
    assert len(pack(page)) <= size and page.head["thinned"]
    steps = page.blocks["top"].shape[1]
    total = np.exp(page.blocks["top_log_probs"]).sum(-1) + page.blocks["rest"]
    np.testing.assert_allclose(total, 1, rtol=1e-5)
    for name in ("log_prob", "rank", "reference"):
        np.testing.assert_array_equal(page.blocks[name], spec.blocks[name][:, :steps])
    seen = set(page.blocks["top"].ravel().tolist()) | set(page.blocks["reference"].ravel().tolist())
    assert set(page.head["tokens"]) == {str(index) for index in seen}
