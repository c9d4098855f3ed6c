"""The options of choice, each against plain Python or the model's own scores; in both faces of a loop."""
# ruff: noqa: E501

import inspect

import numpy as np
import pytest
import torch
from asserting import ragged, raises_message, randn, tensor, using_backend
from loop_faces import run_steps
from markov import Markov, hypotheses

import rfnb as rf
from rfnb import Dim
from rfnb.search.options import ChoiceOptions
from rfnb.trace.probe import listen

FACES = pytest.mark.parametrize("face", ["for", "with"])


def search(model, face="for", *, max_seq_len=5, include_eos=True, more=None, axis=None, **options):
    """labels {time, batch, beam} of a search over the steps of a table; the step is a state, so that both faces can do it."""
    loop = rf.Loop(max_seq_len=max_seq_len, name="search")
    loop.state.label, loop.state.step = model.start(), rf.zeros([], dtype="int32")
    steps = Dim(model.table.shape[1], name="step")
    table = tensor(model.table, model.batch, steps, model.before, model.vocab)

    def body():
        frame = rf.gather(table, indices=loop.iter_idx, axis=steps)
        scores = rf.gather(frame, indices=rf.set_sparse_dim(loop.state.label, model.before), axis=model.before)
        given = {**options, **(more(loop, scores) if more else {})}
        label = rf.choice(scores, axis=model.vocab, **given)
        loop.state.label = label
        loop.state.step = loop.state.step + 1
        loop.end(label == 0, include_eos=include_eos)
        return loop.stack(label)

    return run_steps(loop, face, body)


def plain(
    model, seq, beam_size, max_seq_len, *, allowed=None, prob_scale=1.0, base_scale=1.0, threshold=None, norm=None
):
    """(labels, score) of the final beam, in plain Python, best first."""
    beam = [((), 0.0, False)]
    for step in range(max_seq_len):
        found = []
        for labels, score, ended in beam:
            base = score * ((step + 1) / step) ** norm if norm is not None and ended else score
            for label in range(model.table.shape[-1]):
                if ended:
                    found += [(labels, base_scale * base, True)] if label == 0 else []
                elif allowed is None or allowed(step, labels, label):
                    own = float(model.table[seq, step, labels[-1] if labels else 0, label])
                    found.append(((*labels, label), prob_scale * own + base_scale * base, label == 0))
        found.sort(key=lambda item: -item[1])
        beam = [item for item in found if threshold is None or item[1] >= found[0][1] - threshold][:beam_size]
        if all(ended for *_, ended in beam):
            break
    return [(labels, score) for labels, score, _ in beam]


def check(labels, model, expected):
    """Real hypotheses are the expected ones."""
    for seq, found in enumerate(hypotheses(labels, model.batch)):
        real = [item for item in found if item[1] > -np.inf]
        wanted = expected(seq)
        assert [labels for labels, _ in real] == [labels for labels, _ in wanted]
        np.testing.assert_allclose([score for _, score in real], [score for _, score in wanted], atol=1e-4)


@FACES
@pytest.mark.parametrize("seed", range(3))
def test_a_recorded_search_is_the_search(face, seed):
    model = Markov(num_seqs=3, seed=seed)
    check(search(model, face, beam_size=3), model, lambda seq: plain(model, seq, 3, 5))


@FACES
def test_forced_prefixes_of_different_lengths(face):
    model = Markov(num_seqs=3, seed=1)
    time = ragged([2, 0, 1], model.batch, "prefix")
    prefix = tensor(np.asarray([[2, 3], [0, 0], [1, 0]]), model.batch, time, sparse_dim=model.vocab)
    begin = [(2, 3), (), (1,)]

    def allowed(seq):
        return lambda step, labels, label: step >= len(begin[seq]) or label == begin[seq][step]

    labels = search(model, face, beam_size=3, prefix=prefix)
    for seq in range(3):
        assert all(row[: len(begin[seq])] == begin[seq] for row, _ in hypotheses(labels, model.batch)[seq])
    # While one sequence has a single hypothesis, others have three: compare each with its own search.
    check(labels, model, lambda seq: plain(model, seq, 3, 5, allowed=allowed(seq)))


@FACES
def test_banned_labels_are_not_chosen(face):
    model = Markov(num_seqs=2, seed=2)
    expected = lambda seq: plain(model, seq, 4, 5, allowed=lambda step, labels, label: label != 2)  # noqa: E731
    check(search(model, face, beam_size=4, banned=[2]), model, expected)
    mask = tensor(np.asarray([False, False, True, False]), model.vocab)
    check(search(model, face, beam_size=4, banned=mask), model, expected)


@FACES
@pytest.mark.parametrize("length", [1, 2])
def test_no_ngram_comes_twice(face, length):
    model = Markov(num_seqs=2, seed=3)

    def allowed(step, labels, label):
        row = (*labels, label)
        last = row[len(row) - length :]
        return len(row) < length or all(row[i : i + length] != last for i in range(len(row) - length))

    labels = search(model, face, beam_size=3, no_repeat_ngram=length, max_seq_len=6)
    check(labels, model, lambda seq: plain(model, seq, 3, 6, allowed=allowed))


@FACES
def test_scales(face):
    model = Markov(num_seqs=2, seed=4)
    labels = search(model, face, beam_size=3, prob_scale=0.7, base_beam_score_scale=0.9)
    check(labels, model, lambda seq: plain(model, seq, 3, 5, prob_scale=0.7, base_scale=0.9))


@FACES
def test_what_is_below_the_threshold_is_cut(face):
    model = Markov(num_seqs=2, seed=5)
    check(search(model, face, beam_size=6, threshold=2.0), model, lambda seq: plain(model, seq, 6, 5, threshold=2.0))


@FACES
@pytest.mark.parametrize("exponent", [1.0, 0.6])
@pytest.mark.parametrize("include_eos", [True, False])
def test_normalized_scores_are_those_per_label(face, exponent, include_eos):
    model = Markov(num_seqs=1, seed=6, sharpness=3.0)
    options = {"length_normalization": True, "length_normalization_exponent": exponent}
    labels = search(model, face, beam_size=3, include_eos=include_eos, max_seq_len=6, **options)
    found = plain(model, 0, 3, 6, norm=exponent)
    steps = max(len(row) for row, _ in found)
    longest = steps + (0 if include_eos or any(row[-1] for row, _ in found) is False else 1)
    longest = steps if include_eos else max(len(row) - (row[-1] == 0) for row, _ in found) + 1
    (got,) = hypotheses(labels, model.batch)
    np.testing.assert_allclose([score for _, score in got], [score / longest for _, score in found], atol=1e-4)
    if exponent == 1.0 and include_eos:
        for row, score in got:
            assert score == pytest.approx(model.score(0, row) / len(row), abs=1e-4)


@FACES
def test_kept_beams_do_not_compete(face):
    model = Markov(num_seqs=2, seed=7)
    labels = search(model, face, beam_size=3, keep_beams=True)
    for seq, found in enumerate(hypotheses(labels, model.batch)):
        firsts = np.argsort(-model.table[seq, 0, 0])[:3]
        for first, (row, score) in zip(firsts, found):
            expected = [int(first)]
            while expected[-1] and len(expected) < 5:
                expected.append(int(model.table[seq, len(expected), expected[-1]].argmax()))
            assert list(row) == expected and score == pytest.approx(model.score(seq, row), abs=1e-4)


@FACES
@pytest.mark.parametrize("cheating", [True, "exclusive"])
def test_cheating_keeps_the_reference_in_the_last_place(face, cheating):
    model = Markov(num_seqs=2, seed=8)
    reference = np.asarray([[3, 2, 1, 0, 0], [1, 1, 0, 0, 0]])
    axis = Dim(5, name="reference")
    target = tensor(reference, model.batch, axis, sparse_dim=model.vocab)
    labels = search(
        model, face, beam_size=3, cheating=cheating, max_seq_len=5,
        more=lambda loop, scores: {"target": rf.gather(target, indices=loop.iter_idx, axis=axis)},
    )  # fmt: skip
    for seq, found in enumerate(hypotheses(labels, model.batch)):
        row, score = found[-1]
        expected = [*reference[seq][: list(reference[seq]).index(0)], 0]
        assert list(row) == expected and score == pytest.approx(model.score(seq, row), abs=1e-4)
        if cheating == "exclusive":
            assert row not in [other for other, _ in found[:-1]]


@FACES
def test_forced_scores_are_the_models_own(face):
    """search=False with add_to_beam_scores: one hypothesis, the reference, with its score."""
    model = Markov(num_seqs=2, seed=9)
    reference = np.asarray([[3, 2, 1, 0, 2], [1, 1, 0, 3, 3]])
    axis = Dim(5, name="reference")
    target = tensor(reference, model.batch, axis, sparse_dim=model.vocab)
    labels = search(
        model, face, add_to_beam_scores=True,
        more=lambda loop, scores: {"target": rf.gather(target, indices=loop.iter_idx, axis=axis)},
    )  # fmt: skip
    for seq, found in enumerate(hypotheses(labels, model.batch)):
        ((row, score),) = found
        expected = [*reference[seq][: list(reference[seq]).index(0)], 0]
        assert list(row) == expected and score == pytest.approx(model.score(seq, expected), abs=1e-4)


@FACES
def test_fusion_adds_the_scores_of_another_model(face):
    model, other = Markov(num_seqs=2, seed=10), Markov(num_seqs=1, seed=11)
    unigram = tensor(other.table[0, 0, 0], model.vocab)
    labels = search(model, face, beam_size=3, fusion={"lm": (unigram, 0.5)})
    both = Markov(num_seqs=2, seed=10)
    both.table = model.table + 0.5 * other.table[0, 0, 0]
    check(labels, model, lambda seq: plain(both, seq, 3, 5))


@FACES
def test_custom_combination_takes_the_place_of_the_sum(face):
    model = Markov(num_seqs=2, seed=12)

    def combine(*, scores_in, scores_base, t, end_flags, batch_dim, scores_beam_in, base_beam_in):
        assert batch_dim is model.batch and scores_beam_in is base_beam_in
        return rf.combine_bc(scores_in * 0.7, "add", scores_base * 0.9)

    labels = search(model, face, beam_size=3, custom_score_combine=combine)
    check(labels, model, lambda seq: plain(model, seq, 3, 5, prob_scale=0.7, base_scale=0.9))


@FACES
def test_an_explicit_end_label(face):
    """The same model with label 3 in the place of label 0."""
    model, turned = Markov(num_seqs=2, seed=13), Markov(num_seqs=2, seed=13)
    order = [3, 1, 2, 0]
    turned.table = model.table[:, :, order][..., order]
    turned.start = lambda: rf.zeros([turned.batch], dtype="int64", sparse_dim=turned.vocab) + 3
    loop = rf.Loop(max_seq_len=5)
    loop.state.label = turned.start()
    for step in loop:
        label = rf.choice(turned.log_prob(loop.state.label, step), beam_size=3, axis=turned.vocab, end_label=3)
        loop.state.label = label
        loop.end(label == 3, include_eos=True)
        labels = loop.stack(label)
    got, wanted = hypotheses(labels, turned.batch), hypotheses(search(model, beam_size=3), model.batch)
    assert [[tuple(order[i] for i in row) for row, _ in seq] for seq in got] == [
        [row for row, _ in seq] for seq in wanted
    ]


# -- sampling -----------------------------------------------------------------------------------------------------------------


@FACES
def test_samples_are_distributed_as_the_model_says_and_have_its_score(face):
    rf.set_random_seed(1)
    model = Markov(num_seqs=1, seed=14, sharpness=1.0)
    labels = search(model, face, beam_size=4000, sampling=True, max_seq_len=2)
    (found,) = hypotheses(labels, model.batch)
    counts = {}
    for row, score in found:
        assert score == pytest.approx(model.score(0, row), abs=1e-4)
        counts[row] = counts.get(row, 0) + 1
    for row, score in model.everything(0, 2):
        assert counts.get(row, 0) / 4000 == pytest.approx(np.exp(score), abs=0.03)


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"top_k": 2}, [0, 0.625, 0.375]), ({"top_p": 0.6}, [0, 0.625, 0.375]), ({"top_p": 0.4}, [0, 1, 0]), ({"top_k": 1}, [0, 1, 0]),
     ({"temperature": 0.5}, [0.04 / 0.38, 0.25 / 0.38, 0.09 / 0.38]), ({"temperature": 1e-4}, [0, 1, 0]), ({}, [0.2, 0.5, 0.3])],
)  # fmt: skip
def test_what_is_sampled_from(options, expected):
    rf.set_random_seed(2)
    vocab = Dim(3, name="vocab")
    scores = tensor(np.log([0.2, 0.5, 0.3]), vocab)
    for _ in rf.Loop(axis=Dim(1, name="time")):
        label = rf.choice(scores, beam_size=5000, axis=vocab, sampling=True, **options)
    counts = np.bincount(label.numpy(), minlength=3) / 5000
    np.testing.assert_allclose(counts, expected, atol=0.03)
    assert (counts[np.asarray(expected) == 0] == 0).all()


@FACES
def test_noise_is_in_the_scores(face):
    rf.set_random_seed(3)
    model = Markov(num_seqs=2, seed=15)
    scores = [
        score for row, score in hypotheses(search(model, face, beam_size=2, random_sample_scale=1.0), model.batch)[0]
    ]
    again = [
        score for row, score in hypotheses(search(model, face, beam_size=2, random_sample_scale=1.0), model.batch)[0]
    ]
    assert scores != again


# -- training -----------------------------------------------------------------------------------------------------------------


def test_scheduled_sampling_mixes_the_reference_in():
    rf.set_random_seed(4)
    vocab, batch = Dim(4, name="vocab"), Dim(3000, name="batch")
    scores = rf.expand_dim(tensor(np.asarray([0.0, 0.0, -30.0, -30.0], np.float32), vocab), batch)
    target = rf.zeros([batch], dtype="int64", sparse_dim=vocab) + 3
    for mix, share in ((None, 0), (0.25, 0.25), (1.0, 1.0)):
        schedule = True if mix is None else {"gold_mixin_prob": mix}
        for _ in rf.Loop(axis=Dim(1, name="time")):
            label = rf.choice(scores, axis=vocab, input_type="logits", target=target, scheduled_sampling=schedule)
        assert label.dims == (batch,) and label.sparse_dim is vocab
        counts = np.bincount(label.numpy(), minlength=4) / 3000
        np.testing.assert_allclose(counts, [(1 - share) / 2, (1 - share) / 2, 0, share], atol=0.03)


def test_in_training_the_choice_is_the_target():
    vocab, batch = Dim(4, name="vocab"), Dim(2, name="batch")
    target = tensor(np.asarray([2, 1]), batch, sparse_dim=vocab)
    for _ in rf.Loop(axis=Dim(1, name="time")):
        assert rf.choice(randn(batch, vocab), axis=vocab, beam_size=3, target=target) is target


def test_regression_passes_the_value_on():
    x = randn(Dim(2, name="batch"), Dim(3, name="feature"))
    for _ in rf.Loop(axis=Dim(1, name="time")):
        assert rf.choice(x, input_type="regression") is x


def test_in_training_a_regression_gets_the_target_unless_it_is_sampled():
    rf.set_random_seed(1)
    batch, feature = Dim(3000, name="batch"), Dim(2, name="feature")
    target = rf.ones([batch, feature])
    target.feature_dim = feature
    for _ in rf.Loop(axis=Dim(1, name="time")):
        value = rf.zeros([batch, feature])
        assert rf.choice(value, input_type="regression", target=target) is target
        assert rf.choice(value, input_type="regression", target=target, scheduled_sampling=True) is value
        mixed = rf.choice(value, input_type="regression", target=target, scheduled_sampling={"gold_mixin_prob": 0.25})
    found = mixed.copy_transpose([batch, feature]).numpy()
    assert (found[:, 0] == found[:, 1]).all() and found.mean() == pytest.approx(0.25, abs=0.05)


# -- several choices --------------------------------------------------------------------------------------------------------


@FACES
def test_a_forced_choice_after_a_searching_one_adds_its_score(face):
    """Two choices a step: label pairs (a, b), of which b is given."""
    a, b, batch = Dim(3, name="a"), Dim(4, name="b"), Dim(2, name="batch")
    time = Dim(3, name="time")
    scores_a, scores_b = (rf.log_softmax(randn(time, batch, dim), axis=dim) for dim in (a, b))
    target = tensor(np.asarray([[1, 2], [3, 0], [2, 2]]), time, batch, sparse_dim=b)
    loop = rf.Loop(axis=time)

    def body():
        chosen = rf.choice(loop.unstack(scores_a), axis=a, beam_size=2)
        rf.choice(loop.unstack(scores_b), axis=b, target=loop.unstack(target))
        return loop.stack(chosen)

    labels = run_steps(loop, face, body)
    best = rf.reduce_max(scores_a, axis=a).copy_transpose([time, batch]).numpy().sum(0)
    forced = rf.gather(scores_b, indices=target, axis=b).copy_transpose([time, batch]).numpy().sum(0)
    np.testing.assert_allclose(rf.get_beam_scores(labels).numpy()[:, 0], best + forced, atol=1e-5)
    assert (
        rf.decide(labels).copy_transpose([time, batch]).numpy().tolist()
        == rf.reduce_argmax(scores_a, axis=a).numpy().tolist()
    )


@FACES
def test_a_forced_choice_before_the_search_keeps_one_hypothesis(face):
    a, batch, time = Dim(5, name="a"), Dim(2, name="batch"), Dim(3, name="time")
    scores = rf.log_softmax(randn(time, batch, a), axis=a)
    target = tensor(np.asarray([[1, 2], [3, 0], [2, 2]]), time, batch, sparse_dim=a)
    loop = rf.Loop(axis=time)

    def body():
        frame = loop.unstack(scores)
        forced = rf.choice(frame, axis=a, target=loop.unstack(target), add_to_beam_scores=True)
        chosen = rf.choice(frame, axis=a, beam_size=3)
        return loop.stack(forced), loop.stack(chosen)

    forced, chosen = run_steps(loop, face, body)
    (beam,) = (dim for dim in chosen.dims if dim.kind == "beam")
    assert beam.size == 3 and set(forced.dims) == {time, batch, beam}
    rows = chosen.copy_transpose([batch, beam, time]).numpy()
    assert len({tuple(row) for row in rows[0]}) == 3  # three different hypotheses
    table = scores.copy_transpose([batch, time, a]).numpy()
    own = rf.gather(scores, indices=target, axis=a).copy_transpose([batch, time]).numpy().sum(1)
    for seq in range(2):
        for k, score in enumerate(rf.get_beam_scores(chosen).copy_transpose([batch, beam]).numpy()[seq]):
            assert score == pytest.approx(own[seq] + sum(table[seq, t, rows[seq, k, t]] for t in range(3)), abs=1e-4)


def test_the_numpy_backend_has_the_options_too():
    with using_backend("numpy"):
        for options in (
            {"banned": [1]},
            {"no_repeat_ngram": 1},
            {"threshold": 1.0},
            {"keep_beams": True},
            {"length_normalization": True},
        ):
            model = Markov(num_seqs=2, seed=16)
            got = hypotheses(search(model, beam_size=3, **options), model.batch)
            with using_backend("torch"):
                again = Markov(num_seqs=2, seed=16)
                wanted = hypotheses(search(again, beam_size=3, **options), again.batch)
            assert [[row for row, _ in seq] for seq in got] == [[row for row, _ in seq] for seq in wanted]


def test_of_equal_scores_the_first_label_of_the_first_hypothesis_is_chosen():
    vocab, batch = Dim(50, name="vocab"), Dim(2, name="batch")
    loop = rf.Loop(axis=Dim(2, name="time"))
    for _ in loop:
        labels = loop.stack(rf.choice(rf.zeros([batch, vocab]), beam_size=7, axis=vocab))
    assert labels.copy_transpose([batch, labels.dims[-1], loop.axis]).numpy()[1].tolist() == [[0, k] for k in range(7)]


# -- reports ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"banned": [2]}, {"threshold": 1.5}, {"keep_beams": True}, {"sampling": True}, {"fusion": True}]
)
def test_events_have_kept_candidates_first_and_say_why_others_were_cut(options):
    model = Markov(num_seqs=2, seed=17)
    if "fusion" in options:
        options = {"fusion": {"lm": (tensor(model.table[0, 0, 0], model.vocab), 0.5)}}
    events = []
    with listen(lambda kind, place, values: events.append(values) if kind == "beams" else None):
        search(model, beam_size=3, **options)
    for values in events:
        kept, scores = values["cand_kept"].numpy(), values["scores"].numpy()
        verdict = values["cand_verdict"].numpy()
        assert ((verdict == 0) == kept).all()
        if "sampling" not in options:
            for row in range(2):
                real = np.isfinite(scores[row]).sum()
                assert kept[row, :real].all() and not kept[row, real:].any()
                np.testing.assert_allclose(values["cand_scores"].numpy()[row, :real], scores[row, :real])
        tokens = values["cand_tokens"].numpy()
        if "banned" in options:
            real = values["cand_scores"].numpy() > -np.inf
            assert ((verdict == 3) == (tokens == 2))[real].all()
        if "threshold" in options:
            best = scores.max(-1, keepdims=True)
            below = values["cand_scores"].numpy() < best - 1.5
            assert ((verdict == 2) == below)[values["cand_scores"].numpy() > -np.inf].all()
        whole = values["base"].numpy() + values["log_probs"].numpy()
        if "fusion" in options:
            whole = whole + 0.5 * values["part:lm"].numpy()
        real = np.isfinite(scores)
        np.testing.assert_allclose(whole[real], scores[real], atol=1e-5)


def test_torch_and_gradients():
    """Scores of a search with scales can be trained."""
    x = torch.zeros(1, 3, requires_grad=True)
    vocab, batch = Dim(3, name="vocab"), Dim(1, name="batch")
    loop = rf.Loop(axis=Dim(2, name="time"))
    for _ in loop:
        labels = loop.stack(rf.choice(tensor_of(x, batch, vocab), beam_size=2, axis=vocab, prob_scale=0.5))
    rf.reduce_sum(rf.get_beam_scores(labels), axis=[batch, labels.dims[-1]]).raw_tensor.backward()
    assert x.grad.sum().item() == pytest.approx(2.0)


def tensor_of(raw, *dims):
    return rf.convert_to_tensor(raw, dims=list(dims))


# -- errors -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, "choice: no beam_size.\n  beam_size  None\nAt least one hypothesis must survive.\n    rf.choice(scores, beam_size=5)"),
        ({"beam_size": 2, "cheating": "always"}, "choice: cheating='always'.\n  known  False, True, \"exclusive\"\nIt is one of these.\n    cheating=\"exclusive\""),
        ({"beam_size": 2, "cheating": True}, "choice: cheating without target.\nThe reference label is put into the beam, of a single source.\n    rf.choice(scores, beam_size=5, cheating=True, target=labels)"),
        ({"beam_size": 2, "input_type": "regression"}, "choice: regression with beam_size 2.\nA value that is no label has one continuation: itself.\n    rf.choice(value, input_type=\"regression\", beam_size=1)"),
        ({"search": False}, "choice: search=False without target.\nThen the reference labels are chosen.\n    rf.choice(scores, target=labels)"),
        ({"beam_size": 2, "scheduled_sampling": True}, "choice: scheduled_sampling in a search.\nIt is for training, where the reference is known.\n    rf.choice(scores, target=labels, scheduled_sampling=True)"),
        ({"beam_size": 2, "top_k": 3}, "choice: temperature, top_k or top_p without sampling.\nThey say what a label is sampled from.\n    rf.choice(scores, beam_size=1, sampling=True, temperature=0.7)"),
        ({"beam_size": 2, "sampling": True, "top_p": 0.0}, "choice: there is nothing to sample from.\n  temperature  1.0\n  top_k        None\n  top_p        0.0\ntemperature is above 0, top_k at least 1, and 0 < top_p <= 1."),
        ({"beam_size": 2, "prob_scale": float("nan")}, "choice: prob_scale=nan.\nA scale is a finite number."),
        ({"beam_size": 2, "source_beam_sizes": [2]}, "choice: source_beam_sizes of a single source.\nThey are for a list of scores.\n    rf.choice([a, b], source_beam_sizes=[4, 2], ...)"),
        ({"beam_size": 2, "banned": [9]}, "choice: a banned label is none.\n  banned  9\n  labels  vocab=4\nLabels are whole numbers, counted from 0.\n    banned=[0, 2]"),
        ({"beam_size": 2, "end_label": 4}, 'choice in loop "search", step 0: no such end_label.\n  end_label  4\n  labels     vocab=4\nAn ended hypothesis continues through one of the labels.\n    rf.choice(scores, end_label=3, ...)'),
        ({"beam_size": 2, "banned": [0, 1, 2, 3]}, 'choice in loop "search", step 0: no hypothesis is left.\n  scores  [batch=2, vocab=4]\n  first   batch 0\nAll labels of all hypotheses have probability 0, or are banned. What was found so far is in a trace:\n    with rf.record() as trace: ...   # the same search; then rf.show(trace)'),
    ],
)  # fmt: skip
def test_options_that_do_not_fit(options, text):
    model = Markov(num_seqs=2)
    with raises_message(ValueError, text):
        search(model, **options)


def test_keep_beams_that_do_not_divide():
    a, time = Dim(4, name="a"), Dim(2, name="time")
    with raises_message(
        ValueError,
        """
        choice in loop "loop", step 0: keep_beams with a beam that does not divide.
          beam_size   4
          hypotheses  3
        Each hypothesis gets beam_size / hypotheses of its own labels.
        """,
    ):
        for _ in rf.Loop(axis=time):
            rf.choice(randn(a), axis=a, beam_size=3, input_type="logits")
            rf.choice(randn(a), axis=a, beam_size=4, keep_beams=True, input_type="logits")


def test_probabilities_that_do_not_sum_to_one():
    model = Markov(num_seqs=2)
    model.table[1, 1, 2] -= 0.5
    model.table[1, 0, 0] = np.log([0.1, 0.2, 0.4, 0.3])
    with raises_message(
        ValueError,
        """
        choice in loop "search", step 1: the probabilities do not sum to 1.
          scores  [batch=2, beam=3, vocab=4]
          first   batch 1, beam 0
          sum     0.6065
        What a choice adds up are log probabilities over the labels.
            rf.choice(scores, input_type="logits", ...)   # normalizes
        """,
    ):
        search(model, beam_size=3, check=True)


def test_what_was_found_before_an_error_is_in_the_trace():
    model = Markov(num_seqs=2)
    model.table[0, :2, :, 0] = -np.inf  # nothing ends
    model.table[0, 2] = -np.inf
    with rf.record() as trace, pytest.raises(ValueError, match="step 2: no hypothesis is left"):
        search(model, beam_size=2)
    assert trace.beams["search"].num_steps == 2


def test_options_have_the_names_and_defaults_of_choice():
    given = inspect.signature(rf.choice).parameters
    options = {name: given[name].default for name in given if name not in ("scores", "axis")}

    assert ChoiceOptions(**options)._asdict() == ChoiceOptions()._asdict()
    assert set(options) | {"tokens"} == set(ChoiceOptions._fields)


@pytest.mark.parametrize("name", [name for name in ChoiceOptions._fields if name not in ("beam_size", "name")])
def test_an_option_that_is_given_is_not_left_out_of_a_choice(name):
    value = {"input_type": "logits", "end_label": 1, "temperature": 0.5}.get(name, 2)
    assert ChoiceOptions(beam_size=3, name="mine").are_usual()
    assert ChoiceOptions(beam_size=3, **{name: value}).are_usual() == (name == "allowed")  # which the usual choice has


def test_ngrams_are_those_of_the_hypothesis_where_not_every_step_makes_the_choice():
    batch, letters, marks = Dim(2, name="batch"), Dim(5, name="letters"), Dim(6, name="marks")
    loop = rf.Loop(max_seq_len=8, name="search")
    loop.state.marked = rf.zeros([batch, marks])
    rf.set_random_seed(7)
    for step in loop:
        marked = loop.state.marked
        rf.choice(rf.log_softmax(rf.random_normal([batch, letters]), axis=letters), axis=letters, beam_size=4)
        if step % 2 == 0:
            scores = rf.log_softmax(rf.random_normal([batch, marks], stddev=3.0), axis=marks)
            mark = rf.choice(scores, axis=marks, beam_size=4, no_repeat_ngram=1)
            marked = loop.state.marked + rf.one_hot(mark)
        loop.state.marked = marked
        loop.end(rf.constant(False, dims=[batch]), include_eos=True)

    assert rf.reduce_max(loop.state.marked, axis=loop.state.marked.dims).numpy() == 1
    assert (rf.reduce_sum(loop.state.marked, axis=marks).numpy() == 4).all()
