"""A choice of several sources with limits on the labels of each, against plain Python; and what its history says."""

import itertools

import numpy as np
import pytest
from asserting import ragged, raises_message, tensor
from loop_faces import run_steps
from markov import Markov

import rfnb as rf
from rfnb import Dim

FACES = pytest.mark.parametrize("face", ["for", "with"])
SEQS, STEPS = 2, 5


def two(seed=0):
    """Two models over different vocabularies; label 0 of the first one ends."""
    a, b = Markov(num_seqs=SEQS, seed=seed, size=4), Markov(num_seqs=SEQS, seed=seed + 50, size=3)
    b.batch = a.batch
    b.vocab = Dim(3, name="tag", vocab=["x", "y", "z"])
    b.before = b.vocab.copy(match_priority=1)
    return a, b


def search(models, face="for", *, steps=STEPS, **options):
    """The labels of each source {time, batch, beam}."""
    first = models[0]
    loop = rf.Loop(max_seq_len=steps, name="search")
    for index, model in enumerate(models):
        loop.state[f"label{index}"] = rf.zeros([first.batch], dtype="int64", sparse_dim=model.vocab)
    step_dim = Dim(first.table.shape[1], name="step")
    tables = [tensor(model.table, first.batch, step_dim, model.before, model.vocab) for model in models]

    def body():
        scores = []
        for index, (model, table) in enumerate(zip(models, tables)):
            frame = rf.gather(table, indices=loop.iter_idx, axis=step_dim)
            label = rf.set_sparse_dim(loop.state[f"label{index}"], model.before)
            scores.append(rf.gather(frame, indices=label, axis=model.before))
        labels = rf.choice(scores, axis=[model.vocab for model in models], **options)
        for index, label in enumerate(labels):
            loop.state[f"label{index}"] = label
        loop.end(labels[0] == 0, include_eos=True)
        return [loop.stack(label) for label in labels]

    out = run_steps(loop, face, body)
    return out


def plain(models, seq, beam_size, sizes, *, allowed=None, steps=STEPS):
    """(labels of each source, score) of the final beam, best first."""
    beam = [((), 0.0, False)]
    for step in range(steps):
        found = []
        for rows, score, ended in beam:
            if ended:
                found.append((rows, score, True))
                continue
            best = []
            for index, (model, size) in enumerate(zip(models, sizes)):
                written = tuple(row[index] for row in rows)
                table = model.table[seq, step, written[-1] if written else 0]
                labels = [v for v in range(len(table)) if allowed is None or allowed(index, step, written, v)]
                best.append(sorted(((float(table[v]), v) for v in labels), reverse=True)[:size])
            for picked in itertools.product(*best):
                labels = tuple(label for _, label in picked)
                found.append(((*rows, labels), score + sum(own for own, _ in picked), labels[0] == 0))
        found.sort(key=lambda item: -item[1])
        beam = found[:beam_size]
        if all(ended for *_, ended in beam):
            break
    return [(rows, score) for rows, score, _ in beam]


def hypotheses(out, batch):
    """[seq]: (pairs of labels up to the length, score)."""
    (time,) = (dim for dim in out[0].dims if dim.is_dynamic())
    (beam,) = (dim for dim in out[0].dims if dim.kind == "beam")
    rows = np.stack([labels.copy_transpose([batch, beam, time]).numpy() for labels in out], -1)
    lengths = time.dyn_size_ext.copy_transpose([batch, beam]).numpy()
    scores = rf.get_beam_scores(out[0]).copy_transpose([batch, beam]).numpy()
    return [
        [
            (tuple(map(tuple, row[:length].tolist())), float(score))
            for row, length, score in zip(*of_seq)
            if score > -np.inf
        ]
        for of_seq in zip(rows, lengths, scores)
    ]


def check(out, models, expected):
    for seq, found in enumerate(hypotheses(out, models[0].batch)):
        wanted = expected(seq)
        assert [rows for rows, _ in found] == [rows for rows, _ in wanted]
        np.testing.assert_allclose([score for _, score in found], [score for _, score in wanted], atol=1e-4)


@FACES
@pytest.mark.parametrize("sizes", [(4, 3), (2, 2), (1, 3)])
def test_the_best_combinations(face, sizes):
    models = two(1)
    out = search(models, face, beam_size=4, source_beam_sizes=sizes)
    check(out, models, lambda seq: plain(models, seq, 4, sizes))


@FACES
def test_a_prefix_of_each_source(face):
    models = two(2)
    batch = models[0].batch
    time_a, time_b = ragged([2, 0], batch, "prefix_a"), ragged([1, 3], batch, "prefix_b")
    prefix_a = tensor(np.asarray([[2, 3], [0, 0]]), batch, time_a, sparse_dim=models[0].vocab)
    prefix_b = tensor(np.asarray([[1, 0, 0], [2, 0, 1]]), batch, time_b, sparse_dim=models[1].vocab)
    begin = [[(2, 3), (1,)], [(), (2, 0, 1)]]

    def expected(seq):
        def allowed(source, step, written, label):
            forced = begin[seq][source]
            return step >= len(forced) or label == forced[step]

        return plain(models, seq, 3, (4, 3), allowed=allowed)

    check(search(models, face, beam_size=3, source_beam_sizes=[4, 3], prefix=[prefix_a, prefix_b]), models, expected)
    alone = search(models, face, beam_size=3, source_beam_sizes=[4, 3], prefix=[None, prefix_b])
    begin = [[(), (1,)], [(), (2, 0, 1)]]
    check(alone, models, expected)


@FACES
def test_banned_labels_of_one_source(face):
    models = two(3)
    expected = lambda seq: plain(models, seq, 4, (4, 3), allowed=lambda i, step, written, label: i == 0 or label != 1)  # noqa: E731
    options = {"beam_size": 4, "source_beam_sizes": [4, 3]}
    check(search(models, face, banned=[None, [1]], **options), models, expected)
    mask = tensor(np.asarray([False, True, False]), models[1].vocab)
    check(search(models, face, banned=[None, mask], **options), models, expected)


def no_ngram_twice(lengths):
    def allowed(source, step, written, label):
        length, row = lengths[source], (*written, label)
        last = row[len(row) - length :]
        return not length or len(row) < length or all(row[i : i + length] != last for i in range(len(row) - length))

    return allowed


@FACES
@pytest.mark.parametrize(("given", "lengths"), [(2, (2, 2)), ([0, 2], (0, 2)), ([1, 2], (1, 2))])
def test_no_ngram_of_a_source_comes_twice(face, given, lengths):
    models = two(4)
    models[0].table[..., 0] -= 3  # long
    out = search(models, face, beam_size=3, source_beam_sizes=[4, 3], no_repeat_ngram=given)
    check(out, models, lambda seq: plain(models, seq, 3, (4, 3), allowed=no_ngram_twice(lengths)))


@FACES
def test_an_ended_hypothesis_goes_on_through_the_end_labels_if_they_are_given(face):
    models = two(5)
    a, b = search(models, face, beam_size=4, source_beam_sizes=[4, 3], end_label=[0, 2])
    check([a, b], models, lambda seq: plain(models, seq, 4, (4, 3)))
    (time,) = (dim for dim in a.dims if dim.is_dynamic())
    (beam,) = (dim for dim in a.dims if dim.kind == "beam")
    order = [models[0].batch, beam, time]
    past = np.arange(time.extent) >= time.dyn_size_ext.copy_transpose(order[:2]).numpy()[..., None]
    assert past.any()
    assert set(a.copy_transpose(order).numpy()[past]) == {0}
    assert set(b.copy_transpose(order).numpy()[past]) == {2}


def test_the_sums_of_each_source_are_checked():
    models = two(1)
    search(models, beam_size=2, check=True)
    models[1].table[1, 0, 0] -= 0.5
    with raises_message(
        ValueError,
        """
        choice in loop "search", step 0: the probabilities do not sum to 1.
          scores  [batch=2, tag=3]
          first   batch 1
          sum     0.6065
        What a choice adds up are log probabilities over the labels.
            rf.choice(scores, input_type="logits", ...)   # normalizes
        """,
    ):
        search(models, beam_size=2, check=True)


@FACES
def test_two_choices_in_a_step_each_without_a_label_twice(face):
    """The second one reorders the hypotheses: what the first one has written follows them."""
    a, b = two(6)
    loop = rf.Loop(max_seq_len=3, name="search")
    steps = Dim(a.table.shape[1], name="step")
    tables = [tensor(model.table[:, :, 0], a.batch, steps, model.vocab) for model in (a, b)]

    def body():
        frames = [rf.gather(table, indices=loop.iter_idx, axis=steps) for table in tables]
        first = rf.choice(frames[0], axis=a.vocab, beam_size=4, no_repeat_ngram=1)
        second = rf.choice(frames[1], axis=b.vocab, beam_size=6, no_repeat_ngram=1)
        loop.end(second == -1, include_eos=True)
        return loop.stack(first), loop.stack(second)

    out = run_steps(loop, face, body)
    for seq, found in enumerate(hypotheses(out, a.batch)):
        beam = [((), 0.0)]
        for step in range(3):
            for source, (model, size) in enumerate(((a, 4), (b, 6))):
                beam = sorted(
                    (
                        (
                            (*rows[:step], *((*row, label) for row in ([()] if not source else rows[step:]))),
                            score + float(own),
                        )
                        for rows, score in beam
                        for label, own in enumerate(model.table[seq, step, 0])
                        if label not in [row[source] for row in rows[:step]]
                    ),
                    key=lambda item: -item[1],
                )[:size]
        assert [rows for rows, _ in found] == [rows for rows, _ in beam]
        np.testing.assert_allclose([score for _, score in found], [score for _, score in beam], atol=1e-4)


# -- errors -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "shown", "example"),
    [
        ({"banned": [1, 2]}, "banned   [1, 2]", "banned=[[1, 2], None]"),
        ({"banned": [[1]]}, "banned   [[1]]", "banned=[[1, 2], None]"),
        ({"end_label": 3}, "end_label  3", "end_label=[0, 3]"),
        ({"no_repeat_ngram": [2]}, "no_repeat_ngram  [2]", "no_repeat_ngram=[2, 0]"),
    ],
)  # fmt: skip
def test_a_limit_that_does_not_say_of_which_source_it_is(options, shown, example):
    (name,) = options
    width = max(len("sources"), len(name)) + 2
    with raises_message(
        ValueError,
        f"choice: {name} of several sources.\n  {'sources':<{width}}2\n  {name:<{width}}{shown.split(None, 1)[1]}\n"
        f"It is about the labels of one source, so there is a list with one for each.\n    rf.choice([a, b], {example}, ...)",
    ):
        search(two(), beam_size=2, **options)


def test_a_prefix_that_does_not_say_of_which_source_it_is():
    models = two()
    prefix = rf.zeros([models[0].batch], dtype="int64")
    with raises_message(
        ValueError,
        """
        choice: prefix of several sources.
          sources  2
          prefix   [batch=2]
        It is about the labels of one source, so there is a list with one for each.
            rf.choice([a, b], prefix=[labels_a, None], ...)
        """,
    ):
        search(models, beam_size=2, prefix=prefix)


def test_an_end_label_that_a_source_does_not_have():
    with raises_message(
        ValueError,
        """
        choice in loop "search", step 0: no such end_label.
          end_label  3
          labels     tag=3
        An ended hypothesis continues through one of the labels.
            rf.choice(scores, end_label=2, ...)
        """,
    ):
        search(two(), beam_size=2, end_label=[0, 3])


def test_fusion_with_several_sources():
    models = two()
    with raises_message(
        ValueError,
        """
        choice: fusion with several sources.
        The scores of another model are over the labels of one source: add them there.
            rf.choice([a + 0.5 * language_model, b], ...)
        """,
    ):
        search(models, beam_size=2, fusion={"lm": (rf.zeros([models[0].vocab]), 0.5)})
