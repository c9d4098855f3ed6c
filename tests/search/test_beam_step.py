"""The step of a search as a pure function, with states and the way back in a loop of one's own, against the slow search."""

from functools import partial

import numpy as np
import pytest
from asserting import assert_same, raises_message, randn, tensor
from loop_faces import run_steps
from slow_search import SlowSearch

import rfnb as rf
from rfnb import Dim, DimError

NAMES = (
    "input_type",
    "prob_scale",
    "base_beam_score_scale",
    "length_normalization_exponent",
    "keep_beams",
    "end_label",
)


def slow(tables, options, initial, max_seq_len):
    """Of a model whose scores depend on the label before and the step."""
    num_labels = tables.shape[-1]
    body = {
        "scores": {"class": "linear", "activation": None, "with_bias": False, "from": "prev:output"},
        "output": {"class": "choice", "from": "scores", "initial_output": initial, **options},
        "end": {"class": "compare", "kind": "equal", "from": "output", "value": options.get("end_label", 0)},
    }
    net = {"output": {"class": "rec", "unit": body, "max_seq_len": max_seq_len, "include_eos": True}}
    search = SlowSearch(net, {"data": tables[:, 0, 0]}, {}, {"output/rec/scores/W": tables[0, 0]})
    value = search.value

    def of_step(name, seq, step, hyp):
        search.parameters = {"output/rec/scores/W": tables[seq, step]}
        return value(name, seq, step, hyp)

    search.value = of_step
    assert num_labels == tables.shape[-2]
    return search.arrays()


def run(tables, options, initial, max_seq_len, *, same_dim):
    """Labels {batch, beam} of each step along the final hypotheses, scores before the last division, lengths."""
    vocab, steps = Dim(tables.shape[-1], name="vocab"), Dim(tables.shape[1], name="step")
    batch, beam = Dim(len(tables), name="batch"), Dim(options["beam_size"], name="beam")
    before = vocab.copy(match_priority=1)
    table = tensor(tables, batch, steps, before, vocab)
    label = rf.zeros([batch], dtype="int64", sparse_dim=vocab) + initial
    base = ended = lengths = None
    labels, parents, last_beam = [], [], None
    given = {name: options[name] for name in NAMES if name in options}
    for step in range(max_seq_len):
        frame = rf.gather(table, indices=step, axis=steps)
        scores = rf.gather(frame, indices=rf.set_sparse_dim(label, before), axis=before)
        out_beam = beam if same_dim else Dim(beam.size, name=f"beam{step}")
        label, parent, base = rf.beam_search_step(
            scores, base, ended, axis=vocab, beam_dim=last_beam, out_beam_dim=out_beam, step=step,
            beam_size=beam.size, length_normalization=options.get("length_normalization", True), **given,
        )  # fmt: skip
        here = label == options.get("end_label", 0)
        if ended is None:
            ended, lengths = here, rf.cast(here, "int32") * 0 + 1
        else:
            ended, lengths = rf.gather_beams((ended, lengths), parent)
            lengths = lengths + rf.cast(rf.logical_not(ended), "int32")
            ended = rf.logical_or(ended, here)
        labels.append(label)
        parents.append(parent)
        last_beam = out_beam
        if ended.numpy().all():
            break
    found = rf.backtrack(labels, parents)
    order = [batch, last_beam]
    rows = np.stack([x.copy_transpose(order).numpy() for x in found], -1)
    return rows, base.copy_transpose(order).numpy(), lengths.copy_transpose(order).numpy()


@pytest.mark.parametrize("same_dim", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_a_loop_of_ones_own_searches_as_the_slow_search(seed, same_dim):
    rng = np.random.default_rng(seed)
    size, num_seqs, limit = int(rng.integers(3, 6)), int(rng.integers(1, 4)), int(rng.integers(1, 7))
    tables = rng.standard_normal((num_seqs, 8, size, size)).astype(np.float32) * 2
    options = {"beam_size": int(rng.integers(1, 7)), "input_type": "logits", "length_normalization": bool(seed % 2)}
    if seed % 3 == 0:
        options.update(prob_scale=0.8, base_beam_score_scale=0.9, length_normalization_exponent=0.6)
    if seed % 4 == 1:
        options.update(keep_beams=True, beam_size=size)
    if seed % 5 == 2:
        options["end_label"] = 1
    wanted = slow(tables, options, 1, limit)
    rows, scores, lengths = run(tables, options, 1, limit, same_dim=same_dim)
    steps = 1 + max(int(key.split("/")[1]) for key in wanted if key.startswith("trace/"))
    assert rows.shape[-1] == steps
    last = wanted[f"trace/{steps - 1}/0/scores"]
    real = last > -1e25
    np.testing.assert_allclose(scores[real], last[real], rtol=1e-4, atol=1e-4)
    assert (np.isfinite(scores) == real).all()
    expected_lengths = wanted["out_len/output/1"].reshape(real.shape)
    assert (lengths[real] == expected_lengths[real]).all()
    expected = wanted["out/output"].reshape(*real.shape, -1)
    for place in np.argwhere(real):
        count = lengths[tuple(place)]
        assert rows[tuple(place)][:count].tolist() == expected[tuple(place)][:count].tolist()


def test_two_choices_in_a_step_are_followed_back_one_after_the_other():
    beams = [Dim(2, name=name) for name in ("a", "b", "c")]
    index = lambda values, dim, of: tensor(np.asarray(values), dim, sparse_dim=of)  # noqa: E731
    first = tensor(np.asarray([10, 20]), beams[0])
    last = tensor(np.asarray([1, 2]), beams[2])
    unused = index([0, 0], beams[0], beams[0])
    chain = [index([1, 0], beams[1], beams[0]), index([1, 1], beams[2], beams[1])]
    found = rf.backtrack([first, last], [unused, chain])
    assert_same(found[0], tensor(np.asarray([10, 10]), beams[2]))
    assert_same(found[1], last)


def test_lengths_of_dims_follow_the_hypotheses_too():
    beam = Dim(3, name="beam")
    lengths = tensor(np.asarray([2, 1, 3], np.int32), beam)
    time = Dim(lengths, name="time")
    x = tensor(np.arange(9, dtype=np.float32).reshape(3, 3), beam, time)
    parents = tensor(np.asarray([2, 2, 0]), beam, sparse_dim=beam)
    new, picked = rf.gather_beams((time, x), parents)
    assert new.dyn_size_ext.copy_transpose([beam]).numpy().tolist() == [3, 3, 2]
    assert picked.dims == (beam, new)
    assert picked.numpy()[:, :2].tolist() == [[6, 7], [6, 7], [0, 1]]


def test_of_equal_scores_the_first_goes_on_and_missing_ones_are_label_0():
    vocab, beam = Dim(3, name="vocab"), Dim(5, name="beam")
    scores = tensor(np.zeros(3, np.float32), vocab)
    label, parent, score = rf.beam_search_step(scores, beam_size=5, axis=vocab, out_beam_dim=beam)
    assert label.numpy().tolist() == [0, 1, 2, 0, 0] and parent.numpy().tolist() == [0] * 5
    assert score.numpy().tolist() == [0, 0, 0, -np.inf, -np.inf]


@pytest.mark.parametrize("step", [0, 1, 3])
def test_the_number_of_the_step_may_be_a_tensor(step):
    """Scores are divided by the number of labels, which is at least one."""
    batch, beam, vocab = Dim(1, name="batch"), Dim(2, name="beam"), Dim(3, name="vocab")
    scores = rf.log_softmax(randn(batch, beam, vocab), axis=vocab)
    base, ended = tensor([[-1.0, -2.0]], batch, beam), tensor([[True, False]], batch, beam)

    def total(step):
        return rf.beam_search_step(
            scores, base, ended, axis=vocab, beam_dim=beam, out_beam_dim=beam, beam_size=2, step=step,
            length_normalization=True,
        )[2]  # fmt: skip

    assert_same(total(rf.constant(step, dims=[], dtype="int32")), total(step))
    assert step < 2 or not np.allclose(total(step).numpy(), total(1).numpy())


def test_in_a_recorded_loop():
    """From the second step on, all steps are alike."""
    vocab, beam = Dim(3, name="vocab"), Dim(4, name="beam", kind="beam")
    time = Dim(4, name="time")
    all_scores = tensor(np.random.default_rng(0).standard_normal((4, 4, 3)).astype(np.float32), time, beam, vocab)
    all_scores = rf.log_softmax(all_scores, axis=vocab)

    def body(loop):
        label, parent, score = rf.beam_search_step(
            loop.unstack(all_scores), loop.state.score, beam_size=4, axis=vocab, beam_dim=beam, out_beam_dim=beam
        )
        loop.state.score = score
        loop.state.sum = rf.gather_beams(loop.state.sum, parent) + rf.cast(label, "float32")
        return loop.stack(label), loop.stack(parent)

    found = []
    for face in ("for", "with"):
        loop = rf.Loop(axis=time)
        loop.state.score = loop.state.sum = rf.zeros([beam])
        out = run_steps(loop, face, partial(body, loop))
        found.append([*out, loop.state.score, loop.state.sum])
    for a, b in zip(*found, strict=True):
        assert_same(a, b)


# -- what cannot be ------------------------------------------------------------------------------------------------------------------


def test_a_beam_of_another_size():
    vocab, beam = Dim(3, name="vocab"), Dim(4, name="beam")
    with raises_message(
        rf.DimError,
        """
        beam_search_step: out_beam_dim has another size.
          beam_size     2
          out_beam_dim  beam=4
        It is the dim of the surviving hypotheses.
        """,
    ):
        rf.beam_search_step(rf.zeros([vocab]), beam_size=2, axis=vocab, out_beam_dim=beam)


def test_kept_beams_that_do_not_divide():
    vocab, beam = Dim(3, name="vocab"), Dim(2, name="beam")
    with raises_message(
        ValueError,
        """
        beam_search_step: keep_beams with a beam that does not divide.
          beam_size   3
          hypotheses  2
        Each hypothesis gets beam_size / hypotheses of its own labels.
        """,
    ):
        rf.beam_search_step(rf.zeros([beam, vocab]), beam_size=3, axis=vocab, beam_dim=beam, keep_beams=True)


def test_parents_for_each_step():
    with raises_message(
        ValueError,
        """
        backtrack: another number of parents than of values.
          values   1
          parents  0
        Each step has its values and its parents.
        """,
    ):
        rf.backtrack([rf.zeros([])], [])


def test_scores_without_a_dim_of_the_labels():
    with raises_message(
        DimError,
        """
        beam_search_step: which dim of scores has the labels?
          scores  [batch=3, vocab=2]
        It has no feature_dim, so name the dim of the labels:
            rf.beam_search_step(..., axis=...)
        """,
    ):
        rf.beam_search_step(rf.zeros([Dim(3, name="batch"), Dim(2, name="vocab")]), beam_size=1)
