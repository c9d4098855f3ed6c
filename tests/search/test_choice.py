"""choice and decide: what a beam search finds, against brute force and against a search in plain Python."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor, using_backend
from loop_faces import run_steps
from markov import Markov, beam_search, hypotheses

import rfnb as rf
from rfnb import Dim, DimError


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_beam_of_everything_finds_all_sequences_in_order(size):
    model = Markov(num_seqs=2, size=size)
    _, labels = model.search(200, max_seq_len=4)
    for seq, found in enumerate(hypotheses(labels, model.batch)):
        expected = model.everything(seq)
        assert [labels for labels, _ in found[: len(expected)]] == [labels for labels, _ in expected]
        np.testing.assert_allclose([s for _, s in found[: len(expected)]], [s for _, s in expected], atol=1e-5)
        assert {score for _, score in found[len(expected) :]} == {-np.inf}  # there are no more


@pytest.mark.parametrize("beam_size", [1, 2, 3, 7])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_every_hypothesis_has_the_models_own_score(beam_size, seed):
    model = Markov(num_seqs=3, seed=seed)
    _, labels = model.search(beam_size, max_seq_len=6)
    for seq, found in enumerate(hypotheses(labels, model.batch)):
        assert len({labels for labels, _ in found}) == beam_size
        for labels, score in found:
            assert score == pytest.approx(model.score(seq, labels), abs=1e-5)
            assert 0 not in labels[:-1]
        assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


@pytest.mark.parametrize("beam_size", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(6))
def test_it_is_the_beam_search_in_plain_python(beam_size, seed):
    model = Markov(num_seqs=2, seed=seed)
    _, labels = model.search(beam_size, max_seq_len=7)
    for seq, found in enumerate(hypotheses(labels, model.batch)):
        *_, (_, _, beam) = beam_search(model.table[seq], beam_size, 7)
        expected = [labels[: labels.index(0) + 1] if 0 in labels else labels for labels, *_ in beam]
        assert [labels for labels, _ in found] == expected
        np.testing.assert_allclose([s for _, s in found], [score for _, score, _ in beam], atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
def test_beam_one_is_greedy(seed):
    model = Markov(num_seqs=3, seed=seed)
    _, labels = model.search(1, max_seq_len=5)
    for seq, ((found, _),) in enumerate(hypotheses(labels, model.batch)):
        label, greedy = 0, []
        while len(greedy) < 5 and (not greedy or label):
            label = int(model.table[seq, len(greedy), label].argmax())
            greedy.append(label)
        assert list(found) == greedy


def test_a_batch_gives_what_each_sequence_alone_gives():
    together = Markov(num_seqs=4, seed=5)
    _, labels = together.search(3, max_seq_len=8)
    found = hypotheses(labels, together.batch)
    for seq in range(4):
        alone = Markov()
        alone.table = together.table[seq : seq + 1]
        (expected,) = hypotheses(alone.search(3, max_seq_len=8)[1], alone.batch)
        assert [labels for labels, _ in found[seq]] == [labels for labels, _ in expected]
        np.testing.assert_allclose([s for _, s in found[seq]], [s for _, s in expected], atol=1e-5)


def test_without_the_ending_frame_the_sequences_are_the_same_but_the_end():
    model = Markov(num_seqs=2)
    _, whole = model.search(3, include_eos=True)
    _, cut = model.search(3, include_eos=False)
    for a, b in zip(hypotheses(whole, model.batch), hypotheses(cut, model.batch)):
        assert [(labels[:-1] if labels[-1] == 0 else labels, score) for labels, score in a] == b


def states_that_record(model, beam_size, *, max_seq_len=6):
    """A search whose states record what happened to their hypothesis."""
    position = Dim(max_seq_len, name="position")
    loop = rf.Loop(max_seq_len=max_seq_len)
    loop.state.label = model.start()
    loop.state.before = rf.zeros([model.batch, position], dtype="int64")  # written before the choice, one step late
    loop.state.record = {"after": [rf.zeros([position, model.batch], dtype="int64")]}  # written after the choice
    loop.state.steps = rf.zeros([], dtype="int32")
    for step in loop:
        here = rf.range_over_dim(position, dtype="int64") == step
        late = rf.range_over_dim(position, dtype="int64") == step - 1
        loop.state.before = rf.where(late, loop.state.label, loop.state.before, allow_broadcast_all_sources=True)
        label = rf.choice(model.log_prob(loop.state.label, step), beam_size=beam_size, axis=model.vocab)
        old = loop.state.record["after"][0]
        loop.state.record = {"after": [rf.where(here, label, old, allow_broadcast_all_sources=True)]}
        loop.state.steps = loop.state.steps + 1
        loop.state.label = label
        loop.end(label == 0, include_eos=True)
        labels = loop.stack(label)
    return loop, labels, position


@pytest.mark.parametrize("seed", range(5))
def test_states_follow_their_hypotheses(seed):
    model = Markov(num_seqs=3, seed=seed, sharpness=1.0)
    loop, labels, position = states_that_record(model, 4)
    (beam,) = (dim for dim in labels.dims if dim.kind == "beam")
    after = loop.state.record["after"][0].copy_transpose([model.batch, beam, position]).numpy()
    before = loop.state.before.copy_transpose([model.batch, beam, position]).numpy()
    steps = loop.state.steps.copy_transpose([model.batch, beam]).numpy()
    for seq, found in enumerate(hypotheses(labels, model.batch)):
        for k, (expected, _) in enumerate(found):
            assert tuple(after[seq, k, : len(expected)].tolist()) == expected
            assert not after[seq, k, len(expected) :].any()  # frozen since the end
            assert tuple(before[seq, k, : len(expected) - 1].tolist()) == expected[:-1]
            assert steps[seq, k] == len(expected)


def test_the_state_of_a_module_follows_its_hypothesis():
    """The final LSTM state of a hypothesis is that of the LSTM over its labels."""
    vocab, embed, hidden = Dim(4, name="vocab"), Dim(3, name="embed"), Dim(5, name="hidden")
    batch = Dim(2, name="batch")
    torch.manual_seed(3)
    embedding, lstm, out = rf.Embedding(vocab, embed), rf.LSTM(embed, hidden), rf.Linear(hidden, vocab)
    for weight in (embedding.weight, lstm.rec_weight, out.weight):
        weight.initial = rf.Normal(1.0, truncated=False)
    loop = rf.Loop(max_seq_len=5)
    loop.state.label = tensor(np.asarray([0, 1]), batch, sparse_dim=vocab)
    loop.state.lstm = lstm.default_initial_state(batch_dims=[batch])
    for _ in loop:
        h, loop.state.lstm = lstm(embedding(loop.state.label), state=loop.state.lstm, spatial_dim=rf.single_step_dim)
        label = rf.choice(out(h), beam_size=3, axis=vocab, input_type="logits")
        loop.state.label = label
        loop.end(label == 0, include_eos=True)
        labels, outputs = loop.stack(label), loop.stack(h)
    (beam,) = (dim for dim in labels.dims if dim.kind == "beam")
    hs = outputs.copy_transpose([batch, beam, loop.axis, hidden])
    cs = loop.state.lstm.c.copy_transpose([batch, beam, hidden])
    for seq, found in enumerate(hypotheses(labels, batch)):
        for k, (expected, score) in enumerate(found):
            frames = Dim(len(expected), name="frames")
            inputs = tensor(np.asarray([seq, *expected[:-1]]), frames, sparse_dim=vocab)
            y, state = lstm(embedding(inputs), state=lstm.default_initial_state(batch_dims=[]), spatial_dim=frames)
            log_prob = rf.log_softmax(out(y), axis=vocab).copy_transpose([frames, vocab]).numpy()
            assert log_prob[range(len(expected)), expected].sum() == pytest.approx(score, abs=1e-4)
            np.testing.assert_allclose(cs.numpy()[seq, k], state.c.numpy(), atol=1e-5)
            np.testing.assert_allclose(
                hs.numpy()[seq, k, : len(expected)], y.copy_transpose([frames, hidden]).numpy(), atol=1e-5
            )


def test_values_collected_before_and_after_the_choice_belong_to_the_final_hypotheses():
    model = Markov(num_seqs=2, seed=1)
    loop = rf.Loop(max_seq_len=5)
    loop.state.label = model.start()
    for step in loop:
        previous = loop.stack(loop.state.label)
        index = loop.stack(rf.zeros([], dtype="int32") + step)
        label = rf.choice(model.log_prob(loop.state.label, step), beam_size=3, axis=model.vocab)
        loop.state.label = label
        loop.end(label == 0, include_eos=True)
        labels, last = loop.stack(label), loop.last(label)
    (beam,) = (dim for dim in labels.dims if dim.kind == "beam")
    rows = previous.copy_transpose([model.batch, beam, loop.axis]).numpy()
    for seq, found in enumerate(hypotheses(labels, model.batch)):
        for k, (expected, _) in enumerate(found):
            assert rows[seq, k, : len(expected)].tolist() == [0, *expected[:-1]]
            assert last.copy_transpose([model.batch, beam]).numpy()[seq, k] == expected[-1]
    assert index.numpy().tolist() == list(range(loop.num_steps))


def test_an_ended_hypothesis_keeps_its_score_and_goes_on_through_label_zero_alone():
    vocab, batch = Dim(3, name="vocab"), Dim(1, name="batch")
    first = tensor([[np.log(0.7), np.log(0.2), np.log(0.1)]], batch, vocab)
    later = tensor([[np.log(0.1), np.log(0.1), np.log(0.8)]], batch, vocab)
    loop = rf.Loop(max_seq_len=4)
    for step in loop:
        label = rf.choice(later if step else first, beam_size=2, axis=vocab)
        loop.end(label == 0, include_eos=True)
        labels = loop.stack(label)
    (found,) = hypotheses(labels, batch)
    assert [labels for labels, _ in found] == [(0,), (1, 2, 2, 2)]
    np.testing.assert_allclose([score for _, score in found], [np.log(0.7), np.log(0.2 * 0.8**3)], atol=1e-5)
    assert labels.numpy()[:, 0, 0].tolist() == [0, 0, 0, 0]


def test_labels_are_along_the_axis_that_is_given_whatever_the_features_are():
    group, vocab = Dim(2, name="group"), Dim(3, name="vocab")
    scores = rf.log_softmax(tensor([[0.0, 2.0, 1.0], [3.0, 0.0, 4.0]], group, vocab), axis=vocab)
    scores.feature_dim = group
    loop = rf.Loop(max_seq_len=1)
    for _ in loop:
        label = rf.choice(scores, beam_size=2, axis=vocab)
        loop.end(label == 0, include_eos=True)
    (beam,) = (dim for dim in label.dims if dim is not group)
    assert label.sparse_dim is vocab
    assert label.copy_transpose([group, beam]).numpy().tolist() == [[1, 2], [2, 0]]


def test_where_all_have_ended_the_rest_of_the_beam_is_label_zero():
    """Two labels, of which the second is impossible: one sequence exists, whatever the beam size."""
    vocab, batch = Dim(2, name="vocab"), Dim(1, name="batch")
    log_prob = tensor([[0.0, -np.inf]], batch, vocab)
    loop = rf.Loop(max_seq_len=9)
    for _ in loop:
        label = rf.choice(log_prob, beam_size=3, axis=vocab)
        loop.end(label == 0, include_eos=True)
        labels = loop.stack(label)
    assert loop.num_steps == 1
    assert labels.numpy().tolist() == [[[0, 0, 0]]]
    assert rf.get_beam_scores(labels).numpy().tolist() == [[0, -np.inf, -np.inf]]


@pytest.mark.parametrize("input_type", ["log_prob", "prob", "logits"])
def test_the_input_types_agree(input_type):
    vocab, batch = Dim(3, name="vocab"), Dim(2, name="batch")
    prob = np.asarray([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]], np.float32)
    values = {"log_prob": np.log(prob), "prob": prob, "logits": np.log(prob) + 7}[input_type]
    for _ in rf.Loop(axis=Dim(1, name="time")):
        label = rf.choice(tensor(values, batch, vocab), beam_size=2, axis=vocab, input_type=input_type)
    assert label.sparse_dim is vocab and label.dtype == "int64"
    assert label.numpy().tolist() == [[1, 2], [0, 1]]


def test_a_probability_of_zero_is_taken_as_1e_20():
    vocab, batch = Dim(2, name="vocab"), Dim(1, name="batch")
    loop = rf.Loop(axis=Dim(1, name="time"))
    for _ in loop:
        labels = loop.stack(rf.choice(tensor([[0.0, 1.0]], batch, vocab), beam_size=2, axis=vocab, input_type="prob"))
    np.testing.assert_allclose(rf.get_beam_scores(labels).numpy(), [[0, np.log(1e-20)]], rtol=1e-5)


def test_the_feature_dim_is_the_default_axis():
    vocab, batch = Dim(3, name="vocab"), Dim(2, name="batch")
    scores = rf.log_softmax(randn(batch, vocab), axis=vocab)
    scores.feature_dim = vocab
    for _ in rf.Loop(axis=Dim(1, name="time")):
        assert rf.choice(scores, beam_size=1).sparse_dim is vocab


def test_the_order_of_the_dims_of_the_scores_does_not_matter():
    model = Markov(num_seqs=2, seed=2)
    expected = hypotheses(model.search(3)[1], model.batch)
    inner = model.log_prob
    model.log_prob = lambda *args: (lambda x: x.copy_transpose(x.dims[::-1]))(inner(*args))
    found = hypotheses(model.search(3)[1], model.batch)
    assert [[labels for labels, _ in seq] for seq in found] == [[labels for labels, _ in seq] for seq in expected]


def test_over_an_axis_each_sequence_is_searched_for_its_own_frames():
    """Frame-wise scores: without an end the best hypothesis takes the best label of each frame, up to the length."""
    batch, vocab = Dim(3, name="batch"), Dim(4, name="vocab")
    time = ragged([4, 2, 0], batch)
    scores = rf.log_softmax(randn(time, batch, vocab), axis=vocab)
    loop = rf.Loop(axis=time)
    loop.state.steps = rf.zeros([batch])
    for _ in loop:
        label = rf.choice(loop.unstack(scores), beam_size=2, axis=vocab)
        loop.state.steps = loop.state.steps + 1
        labels = loop.stack(label)
    best = rf.decide(labels)
    assert_same(best, rf.cast(rf.reduce_argmax(scores, axis=vocab), "int64"))
    expected = rf.reduce_sum(rf.reduce_max(scores, axis=vocab), axis=time).numpy()
    np.testing.assert_allclose(rf.get_beam_scores(labels).numpy()[:, 0], expected, atol=1e-5)
    assert loop.state.steps.copy_transpose([batch, beam_of(labels)]).numpy().tolist() == [[4, 4], [2, 2], [0, 0]]


def test_searching_inside_no_grad_gives_the_same_without_a_graph():
    model = Markov(num_seqs=2)
    expected = hypotheses(model.search(3)[1], model.batch)
    with torch.no_grad():
        _, labels = model.search(3)
    assert hypotheses(labels, model.batch) == expected
    assert not rf.get_beam_scores(labels).raw_tensor.requires_grad


def test_gradients_of_the_scores_reach_the_model():
    vocab, batch = Dim(3, name="vocab"), Dim(1, name="batch")
    x = tensor([[-2.0, 0.0, -1.0]], batch, vocab)
    rf.set_requires_gradient(x)
    loop = rf.Loop(axis=Dim(2, name="time"))
    for _ in loop:
        labels = loop.stack(rf.choice(x, beam_size=2, axis=vocab))
    rf.gather(rf.get_beam_scores(labels), indices=0, axis=labels.dims[-1]).raw_tensor.sum().backward()
    assert x.raw_tensor.grad.tolist() == [[0, 2, 0]]  # the best hypothesis is 1, 1


def test_decide_takes_the_best_hypothesis_with_its_length():
    model = Markov(num_seqs=3, seed=4)
    _, labels = model.search(4, max_seq_len=6)
    best = rf.decide(labels)
    (time,) = (dim for dim in best.dims if dim is not model.batch)
    assert set(best.dims) == {model.batch, time} and best.sparse_dim is model.vocab
    for seq, found in enumerate(hypotheses(labels, model.batch)):
        expected, _ = max(found, key=lambda item: item[1])
        assert time.lengths[seq] == len(expected)
        assert best.copy_transpose([model.batch, time]).numpy()[seq, : len(expected)].tolist() == list(expected)


def test_decide_with_length_normalization_takes_the_best_score_per_label():
    vocab, batch = Dim(2, name="vocab"), Dim(1, name="batch")
    log_prob = tensor(np.log(np.asarray([[0.4, 0.6]])), batch, vocab)
    loop = rf.Loop(max_seq_len=3)
    for _ in loop:
        label = rf.choice(log_prob, beam_size=4, axis=vocab)
        loop.end(label == 0, include_eos=True)
        labels = loop.stack(label)
    # (0): log .4, (1 0): log .24, (1 1 1): log .216, (1 1 0): log .144; per label -.92, -.71, -.51, -.65
    assert rf.decide(labels).numpy().tolist() == [[0]]
    assert rf.decide(labels, length_normalization=True).numpy().tolist() == [[1], [1], [1]]


def test_decide_of_a_value_without_beam_is_the_value():
    x = randn(Dim(2, name="batch"))
    assert rf.decide(x) is x


def test_what_a_step_gathered_is_freed_with_the_step():
    import weakref

    model = Markov()
    loop = rf.Loop(axis=Dim(4, name="time"))
    loop.state.label, loop.state.h = model.start(), rf.zeros([model.batch])
    watched = []
    for step in loop:
        h = loop.state.h + rf.cast(loop.state.label, "float32")  # before the choice, so it is gathered
        watched.append(weakref.ref(h))
        label = rf.choice(model.log_prob(loop.state.label, step), beam_size=2, axis=model.vocab)
        loop.state.label, loop.state.h = label, h
        del h
    assert [ref() for ref in watched] == [None] * 4


def test_a_search_is_forgotten_with_its_values():
    import gc
    import weakref

    model = Markov()
    loop, labels = model.search(2)
    watched = weakref.ref(loop)
    del loop
    gc.collect()
    assert watched() is None
    assert len(hypotheses(labels, model.batch)[0]) == 2  # the scores are still there


def beam_of(labels):
    return next(dim for dim in labels.dims if dim.kind == "beam")


def test_a_state_that_was_written_before_the_first_choice_has_the_beam_from_then_on():
    """So that every step but the first sees the same dims, e.g. to concatenate it with what was embedded of a label."""
    model, ctx = Markov(num_seqs=2), Dim(3, name="ctx")
    loop = rf.Loop(max_seq_len=3)
    loop.state.label, loop.state.ctx = model.start(), rf.zeros([model.batch, ctx])
    loop.state.constant, loop.state.count = rf.ones([model.batch, ctx]), rf.zeros([])
    for step in loop:
        dims = [set(loop.state[name].dims) for name in ("label", "ctx")]
        assert dims[0] | {ctx} == dims[1]
        loop.state.ctx, loop.state.count = loop.state.constant * 2, loop.state.count + 1
        label = rf.choice(model.log_prob(loop.state.label, step), beam_size=2, axis=model.vocab)
        loop.state.label = label
        loop.end(label == -1, include_eos=True)
    assert set(loop.state.constant.dims) == {model.batch, ctx} and loop.state.count.dims == ()


def one_step(fn):
    for _ in rf.Loop(axis=Dim(2, name="time"), name="search"):
        fn()


def test_choice_outside_of_a_loop():
    with raises_message(RuntimeError, """
        choice: outside of a loop.
        A choice is made in every step of a search.
            for _ in loop:
                label = rf.choice(...)
        """):  # fmt: skip
        rf.choice(randn(Dim(2, name="vocab")), beam_size=1, axis=Dim(2))


def test_choice_without_hypotheses():
    vocab = Dim(2, name="vocab")
    with raises_message(
        ValueError,
        """
        choice: beam_size 0.
          beam_size  0
        At least one hypothesis must survive.
            rf.choice(scores, beam_size=5)
        """,
    ):
        one_step(lambda: rf.choice(randn(vocab), beam_size=0, axis=vocab))


def test_choice_of_another_input_type():
    vocab = Dim(2, name="vocab")
    with raises_message(
        ValueError,
        """
        choice: input_type "energy".
          known  log_prob, prob, logits, score, regression
        It is one of these.
            input_type="log_prob"
        """,
    ):
        one_step(lambda: rf.choice(randn(vocab), beam_size=1, axis=vocab, input_type="energy"))


def test_choice_without_a_dim_of_the_labels():
    vocab, batch = Dim(2, name="vocab"), Dim(3, name="batch")
    with raises_message(
        DimError,
        """
        choice: which dim of scores has the labels?
          scores  [batch=3, vocab=2]
        It has no feature_dim, so name the dim of the labels:
            rf.choice(..., axis=...)
        """,
    ):
        one_step(lambda: rf.choice(rf.zeros([batch, vocab]), beam_size=1))


def test_choice_over_a_missing_axis():
    vocab, other, batch = Dim(2, name="vocab"), Dim(5, name="other"), Dim(3, name="batch")
    with raises_message(
        DimError,
        """
        choice: no dim other=5.
          scores  [batch=3, vocab=2]
          dim     other=5
        The dim other=5 is not among the dims of scores.
            scores.dims[0]    # batch=3
            scores.dims[1]    # vocab=2
        """,
    ):
        one_step(lambda: rf.choice(randn(batch, vocab), beam_size=1, axis=other))


def test_another_beam_size_in_a_later_step():
    vocab, sizes = Dim(4, name="vocab"), iter([2, 3])
    with raises_message(
        ValueError,
        """
        choice in loop "search", step 1: another beam size.
          before  2
          now     3
        A search keeps its number of hypotheses.
        """,
    ):
        one_step(lambda: rf.choice(randn(vocab), beam_size=next(sizes), axis=vocab, input_type="logits"))


def test_scores_with_nan():
    model = Markov(num_seqs=2)
    model.table[1, 1, 2, 3] = np.nan  # in step 1 of sequence 1, after label 2, which is the best of step 0
    model.table[1, 0, 0] = np.log([0.1, 0.2, 0.4, 0.3])
    with raises_message(
        ValueError,
        """
        choice in loop "search", step 1: the scores contain NaN.
          scores  [batch=2, beam=3, vocab=4]
          first   batch 1, beam 0
        A NaN cannot be ranked. Find the first op that makes one, e.g. a log of 0 or a division by 0.
        """,
    ):
        model.search(3)


def test_nan_after_the_end_of_a_hypothesis_is_not_looked_at():
    model = Markov()
    expected = hypotheses(model.search(8, max_seq_len=3)[1], model.batch)
    inner = model.log_prob

    def log_prob(label, step):
        return rf.where(label == 0, float("nan"), inner(label, step)) if step else inner(label, step)

    model.log_prob = log_prob
    assert hypotheses(model.search(8, max_seq_len=3)[1], model.batch) == expected


@pytest.mark.parametrize("face", ["for", "with"])
def test_values_from_before_and_after_the_choice_are_brought_together(face):
    """The label before, of the same hypothesis, in three ways: read after the choice, brought together by an op, or by where."""
    model = Markov(num_seqs=2, seed=1)
    loop = rf.Loop(max_seq_len=5)
    loop.state.label = model.start()
    steps = Dim(model.table.shape[1], name="step")
    table = tensor(model.table, model.batch, steps, model.before, model.vocab)

    def body():
        before = loop.state.label
        frame = rf.gather(table, indices=loop.iter_idx, axis=steps)
        scores = rf.gather(frame, indices=rf.set_sparse_dim(before, model.before), axis=model.before)
        label = rf.choice(scores, beam_size=3, axis=model.vocab)
        read = loop.state.label
        loop.state.label = label
        loop.end(label == 0, include_eos=True)
        return (
            loop.stack(label * 10 + before),
            loop.stack(label * 10 + read),
            loop.stack(rf.where(label == 0, before, 7)),
        )

    mixed, expected, picked = run_steps(loop, face, body)
    (beam,) = (dim for dim in mixed.dims if dim.kind == "beam")
    order = [model.batch, beam, loop.axis]
    mask = loop.axis.get_mask(order).numpy()
    got, wanted = mixed.copy_transpose(order).numpy(), expected.copy_transpose(order).numpy()
    assert (got == wanted)[mask].all() and len(set(wanted[mask].tolist())) > 4
    ended = np.where(wanted // 10 == 0, wanted % 10, 7)
    assert (picked.copy_transpose(order).numpy() == ended)[mask].all()


def test_what_was_chosen_in_the_step_before_is_what_is_carried():
    model = Markov()
    loop, kept = rf.Loop(max_seq_len=3), None
    loop.state.label = model.start()
    for step in loop:
        if kept is not None:
            assert not (kept - loop.state.label).numpy().any()
        label = rf.choice(model.log_prob(loop.state.label, step), beam_size=2, axis=model.vocab)
        loop.state.label = kept = label
        loop.end(label == 0, include_eos=True)


def test_values_of_two_searches_do_not_mix():
    a, b = Markov(), Markov(num_seqs=1, seed=1)
    b.batch = a.batch
    with raises_message(
        DimError,
        """
        add: the operands are from different searches.
          a  [batch=1, beam=2]
          b  [batch=1, beam=3]
        Hypothesis 0 of one search has nothing to do with hypothesis 0 of another. Take the best of each first:
            rf.decide(x)
        """,
    ):
        rf.get_beam_scores(a.search(2)[1]) + rf.get_beam_scores(b.search(3)[1])


def test_the_scores_of_no_search():
    with raises_message(
        ValueError,
        """
        get_beam_scores: no search has made this.
          value  [batch=2]
        A value of a search has its beam dim.
            labels = loop.stack(rf.choice(...))   # then, after the loop: rf.decide(labels)
        """,
    ):
        rf.get_beam_scores(randn(Dim(2, name="batch")))


def test_length_normalization_without_lengths():
    vocab, batch = Dim(3, name="vocab"), Dim(2, name="batch")
    loop = rf.Loop(axis=Dim(2, name="time"))
    for _ in loop:
        labels = rf.choice(randn(batch, vocab), beam_size=2, axis=vocab, input_type="logits")
        all_labels, last = loop.stack(labels), loop.last(labels)
    with raises_message(
        ValueError,
        """
        decide: length_normalization without lengths.
          value  [batch=2, beam=2]
        x needs a dim with a length for each hypothesis.
        """,
    ):
        rf.decide(last, length_normalization=True)
    # Where all have the same length it changes nothing.
    assert_same(rf.decide(all_labels, length_normalization=True), rf.decide(all_labels))


def test_the_numpy_backend_finds_the_same():
    expected = Markov(num_seqs=3, seed=3)
    with using_backend("numpy"):
        model = Markov(num_seqs=3, seed=3)
        found = hypotheses(model.search(4, max_seq_len=6)[1], model.batch)
    for got, want in zip(found, hypotheses(expected.search(4, max_seq_len=6)[1], expected.batch)):
        assert [labels for labels, _ in got] == [labels for labels, _ in want]
        np.testing.assert_allclose([s for _, s in got], [s for _, s in want], atol=1e-5)
