"""Values from before and after a choice, of older steps and of other searches in one op."""

import numpy as np
import pytest
import torch
from asserting import raises_message, randn, tensor
from loop_faces import run_steps
from markov import Markov, hypotheses

import rfnb as rf
from rfnb import Dim, DimError

FACES = pytest.mark.parametrize("face", ["for", "with"])
FEAT, TIME, HIDDEN, KEYS = Dim(3, name="feat"), Dim(5, name="time"), Dim(4, name="hidden"), Dim(2, name="keys")


def arg(x):
    return rf.reduce_argmax(x, axis=FEAT)


def attention(query, keys):
    return rf.dot_attention(query, rf.expand_dim(keys, TIME), rf.expand_dim(keys, TIME) * 2, key_dim=FEAT, axis=TIME)


def cross_entropy(a, b):
    return rf.cross_entropy(estimated=a, target=b, axis=FEAT, estimated_type="logits")


class Layers:
    """Modules with weights that differ."""

    def __init__(self):
        torch.manual_seed(1)
        self.lstm, self.linear = rf.LSTM(FEAT, HIDDEN), rf.Linear(FEAT, HIDDEN)
        self.attention = rf.CausalSelfAttention(
            in_dim=FEAT, proj_dim=None, key_dim_total=KEYS, value_dim_total=KEYS, num_heads=1
        )
        for module in (self.lstm, self.linear, self.attention):
            for parameter in module.parameters():
                parameter.initial = rf.Normal(0.7, truncated=False)

    def step(self, before, after):
        """An LSTM whose state is from before the choice and whose input from after it."""
        state = rf.LstmState(h=rf.tanh(self.linear(before)), c=self.linear(before))
        return self.lstm(after, state=state, spatial_dim=rf.single_step_dim)[0]


OPS = {
    "add": lambda a, b: a + b,
    "maximum": rf.maximum,
    "compare": lambda a, b: rf.cast(a < b, "float32"),
    "combine": lambda a, b: rf.combine(a, "sub", b),
    "where": lambda a, b: rf.where(a > 0, a, b),
    "squared difference": rf.squared_difference,
    "clip": lambda a, b: rf.clip_by_value(a, b - 0.1, b + 0.1),
    "complex": lambda a, b: rf.abs(rf.make_complex(a, b)),
    "concat": lambda a, b: rf.concat((a, FEAT), (b, FEAT))[0],
    "stack": lambda a, b: rf.stack([a, b])[0],
    "matmul": lambda a, b: rf.matmul(a, b, reduce=FEAT),
    "gather": lambda a, b: rf.gather(a, indices=arg(b), axis=FEAT),
    "scatter": lambda a, b: rf.scatter(a, indices=rf.set_sparse_dim(arg(b) % 2, KEYS), indices_dim=[], out_dim=KEYS),
    "dot_attention": attention,
    "cross entropy of labels": lambda a, b: cross_entropy(a, arg(b)),
    "cross entropy of distributions": lambda a, b: cross_entropy(a, rf.softmax(b, axis=FEAT)),
    "lstm": Layers().step,
}


class Mixed:
    """A search in which `use(before, read, after)` gets a state from before the choice, the same read after it, and what was
    embedded of the label. What it returns is stacked."""

    def __init__(self, seed=1):
        self.model = model = Markov(num_seqs=2, seed=seed)
        self.loop = loop = rf.Loop(max_seq_len=4, name="search")
        loop.state.label, loop.state.h = model.start(), rf.zeros([model.batch, FEAT])
        self.steps = Dim(model.table.shape[1], name="step")
        self.table = tensor(model.table, model.batch, self.steps, model.before, model.vocab)
        self.embedding = tensor(np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32), model.vocab, FEAT)

    def body(self, use):
        model, loop = self.model, self.loop
        before = loop.state.h
        frame = rf.gather(self.table, indices=loop.iter_idx, axis=self.steps)
        scores = rf.gather(frame, indices=rf.set_sparse_dim(loop.state.label, model.before), axis=model.before)
        label = rf.choice(scores, axis=model.vocab, beam_size=3)
        after = rf.gather(self.embedding, indices=label, axis=model.vocab)
        read = loop.state.h
        loop.state.label, loop.state.h = label, after + read * 0.5
        loop.end(label == 0, include_eos=True)
        return [loop.stack(value) for value in use(before, read, after)]

    def host(self, value):
        """[seq, hypothesis, step, ...], 0 past the end."""
        beams = [dim for dim in value.dims if dim.kind == "beam"]
        assert len(beams) == 1
        order = [self.model.batch, *beams, self.loop.axis]
        rest = [dim for dim in value.dims if dim not in order]
        mask = self.loop.axis.get_mask(order).numpy()
        return value.copy_transpose([*order, *rest]).numpy() * mask.reshape(mask.shape + (1,) * len(rest))


@FACES
@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("op", OPS)
def test_an_op_brings_values_from_before_and_after_a_choice_together(op, swapped, face):
    fn = OPS[op]
    mixed = Mixed()

    def use(before, read, after):
        return [fn(after, old) if swapped else fn(old, after) for old in (before, read)]

    got, expected = map(mixed.host, run_steps(mixed.loop, face, lambda: mixed.body(use)))
    np.testing.assert_allclose(got, expected, atol=1e-5)
    assert np.unique(expected).size > 5 or expected.dtype == bool or op == "compare"


@FACES
def test_through_all_choices_of_a_step(face):
    """A value from before both, one from between them, and one from after both."""
    a, batch, time = Dim(4, name="a"), Dim(2, name="batch"), Dim(4, name="time")
    scores = [rf.log_softmax(randn(time, batch, a), axis=a) for _ in range(2)]
    loop = rf.Loop(axis=time, name="search")
    loop.state.first, loop.state.second = (rf.zeros([batch], dtype="int64", sparse_dim=a) for _ in range(2))

    def body():
        old = loop.state.first
        first = rf.choice(loop.unstack(scores[0]), axis=a, beam_size=2)
        loop.state.first = first
        second = rf.choice(loop.unstack(scores[1]), axis=a, beam_size=3)
        loop.state.second = second
        now = loop.state.first  # brought to the second choice
        return loop.stack(rf.stack([old * 100, first * 10, second])[0]), loop.stack(now), loop.stack(second)

    together, first, second = run_steps(loop, face, body)
    (beam,) = (dim for dim in second.dims if dim.kind == "beam")
    (parts,) = (dim for dim in together.dims if dim.name == "stack")
    rows = together.copy_transpose([batch, beam, time, parts]).numpy()
    first, second = (x.copy_transpose([batch, beam, time]).numpy() for x in (first, second))
    assert (rows[..., 1] == first * 10).all() and (rows[..., 2] == second).all()
    assert (rows[:, :, 1:, 0] == first[:, :, :-1] * 100).all() and (rows[:, :, 0, 0] == 0).all()


def test_attention_over_a_history_that_was_read_before_the_choice():
    layers = Layers()

    def search(read_late):
        mixed = Mixed()
        mixed.loop.state.history = layers.attention.default_initial_state(batch_dims=[mixed.model.batch])
        inner = mixed.loop.state

        def use(before, read, after):
            state = inner.history if read_late else kept[0]
            out, inner.history = layers.attention(after, axis=rf.single_step_dim, state=state)
            return [out]

        kept = [None]
        for _ in mixed.loop:
            kept[0] = inner.history
            (out,) = mixed.body(use)
        return mixed.host(out)

    np.testing.assert_allclose(search(read_late=False), search(read_late=True), atol=1e-5)


# -- older steps --------------------------------------------------------------------------------------------------------------


def test_a_value_of_an_older_step_is_found_out_by_a_switch():
    def search(age, keep=2):
        model = Markov(num_seqs=2, seed=1)
        loop, kept = rf.Loop(max_seq_len=5, name="search"), []
        loop.state.label = model.start()
        for step in loop:
            label = rf.choice(model.log_prob(loop.state.label, step), beam_size=3, axis=model.vocab)
            if len(kept) > age:
                label + kept[-age - 1]
            kept.append(label)
            loop.state.label = label
            loop.end(label == 0, include_eos=True)
            labels = loop.stack(label)
        return hypotheses(labels, model.batch)

    expected = search(9)
    with rf.debug(beams=True):
        assert search(9) == expected
        for age in (0, 1):
            with raises_message(
                DimError,
                """
                add: the operands are of different steps of a search.
                  a  [batch=2, beam'=3]
                  b  [batch=2, beam'=3]
                A value of an earlier step does not follow its hypothesis by itself. Carry it in the state of the loop:
                    loop.state.x = x
                """,
            ):
                search(age)


@pytest.mark.parametrize("op", ["concat", "matmul", "where"])
def test_with_the_switch_other_ops_find_it_out_too(op):
    def search():
        mixed, kept = Mixed(), []

        def use(before, read, after):
            kept.append(after)
            return [OPS[op](kept[0], after)]

        run_steps(mixed.loop, "for", lambda: mixed.body(use))

    with rf.debug(beams=True), pytest.raises(DimError, match=f"^{op}: the operands are of different steps of a search"):
        search()


@FACES
def test_a_search_with_the_switch_is_the_same(face):
    def search():
        mixed = Mixed()
        return [
            mixed.host(value) for value in run_steps(mixed.loop, face, lambda: mixed.body(lambda *values: values[1:]))
        ]

    expected = search()
    with rf.debug(beams=True):
        got = search()
    for a, b in zip(got, expected):
        np.testing.assert_allclose(a, b, atol=1e-6)


# -- several searches ---------------------------------------------------------------------------------------------------------


def two_searches():
    """A finished search and a second model over the same batch and labels."""
    first, second = Markov(num_seqs=2, seed=1), Markov(num_seqs=2, seed=7)
    second.batch, second.vocab, second.before = first.batch, first.vocab, first.before
    return first, second, first.search(3, max_seq_len=4, name="first")[1]


def test_all_hypotheses_of_a_search_are_scored_by_another_model():
    first, second, labels = two_searches()
    (time,) = (dim for dim in labels.dims if dim.is_dynamic())
    (beam,) = (dim for dim in labels.dims if dim.kind == "beam")
    loop = rf.Loop(axis=time, name="second")
    loop.state.label = rf.zeros([first.batch, beam], dtype="int64", sparse_dim=first.vocab)
    for step in loop:
        label = rf.choice(
            second.log_prob(loop.state.label, step), axis=first.vocab, target=loop.unstack(labels), add_to_beam_scores=True
        )  # fmt: skip
        loop.state.label = label
        out = loop.stack(label)
    scores = rf.get_beam_scores(out)
    (own,) = (dim for dim in scores.dims if dim not in (first.batch, beam))
    got = scores.copy_transpose([first.batch, beam, own]).numpy()[..., 0]
    for seq, found in enumerate(hypotheses(labels, first.batch)):
        for k, (row, _) in enumerate(found):
            assert got[seq, k] == pytest.approx(second.score(seq, row), abs=1e-4)
    assert beam in rf.decide(out).dims  # the second search is decided, with the hypotheses of the first as a batch


def test_a_search_goes_on_from_each_hypothesis_of_another():
    """Each is what a search alone gives that starts there."""
    first, second, labels = two_searches()
    (time,) = (dim for dim in labels.dims if dim.is_dynamic())
    (beam,) = (dim for dim in labels.dims if dim.kind == "beam")
    start = rf.gather(labels, indices=0, axis=time)

    def search(start, batch, model):
        loop = rf.Loop(max_seq_len=3, name="second")
        loop.state.label, loop.state.count = start, rf.zeros(batch)
        for step in loop:
            label = rf.choice(model.log_prob(loop.state.label, step), axis=model.vocab, beam_size=2)
            loop.state.label, loop.state.count = label, loop.state.count + 1
            loop.end(label == 0, include_eos=True)
            out, before = loop.stack(label), loop.stack(loop.state.count)
        return out, before, loop.state.count

    out, counts, last = search(start, [first.batch, beam], second)
    scores = rf.get_beam_scores(out)
    (own,) = (dim for dim in scores.dims if dim not in (first.batch, beam))
    axis = next(dim for dim in out.dims if dim.is_dynamic())
    tables = rf.nbest(out)
    starts = start.copy_transpose([first.batch, beam]).numpy()
    assert last.copy_transpose([first.batch, beam, own]).numpy().shape == (2, 3, 2)
    for seq in range(2):
        for k in range(3):
            alone = Markov(seed=7)
            alone.table = second.table[seq : seq + 1]
            begin = rf.zeros([alone.batch], dtype="int64", sparse_dim=alone.vocab) + int(starts[seq, k])
            wanted, wanted_counts, _ = search(rf.set_sparse_dim(begin, alone.vocab), [alone.batch], alone)
            (expected,) = rf.nbest(wanted)
            rows = tables[seq * 3 + k]
            assert [row.tokens for row in rows] == [row.tokens for row in expected]
            np.testing.assert_allclose([row.score for row in rows], [row.score for row in expected], atol=1e-4)
    best = rf.decide(out)
    (left,) = (dim for dim in best.dims if dim not in (first.batch, beam))
    rows = best.copy_transpose([first.batch, beam, left]).numpy()
    for seq in range(2):
        for k in range(3):
            tokens = tables[seq * 3 + k][0].tokens
            assert tuple(rows[seq, k, : len(tokens)].tolist()) == tokens
    values = counts.copy_transpose([first.batch, beam, own, axis]).numpy()
    mask = axis.get_mask([first.batch, beam, own, axis]).numpy()
    assert (values[mask] == (np.arange(axis.extent) + 1.0 + np.zeros(values.shape))[mask]).all()


def test_the_history_of_a_search_from_each_hypothesis_of_another():
    first, second, labels = two_searches()
    (time,) = (dim for dim in labels.dims if dim.is_dynamic())
    start = rf.gather(labels, indices=0, axis=time)
    with rf.record(kinds=["beams"]) as trace:
        loop = rf.Loop(max_seq_len=3, name="second")
        loop.state.label = start
        for step in loop:
            label = rf.choice(second.log_prob(loop.state.label, step), axis=second.vocab, beam_size=2)
            loop.state.label = label
            loop.end(label == 0, include_eos=True)
            out = loop.stack(label)
    history = trace.beams["second"]
    assert history.num_seqs == 6
    for seq, table in enumerate(rf.nbest(out)):
        assert [item.tokens for item in history.nbest(seq)] == [row.tokens for row in table]


def test_a_search_inside_of_a_step_of_another():
    """In each step the best pair of labels of an inner search is what the outer one adds to its scores."""
    model, inner = Markov(num_seqs=2, seed=2), Markov(num_seqs=2, seed=3)
    inner.batch, inner.vocab, inner.before = model.batch, model.vocab, model.before
    loop = rf.Loop(max_seq_len=3, name="outer")
    loop.state.label = model.start()
    for step in loop:
        within = rf.Loop(max_seq_len=2, name="inner")
        within.state.label = loop.state.label
        for inner_step in within:
            label = rf.choice(inner.log_prob(within.state.label, inner_step), axis=model.vocab, beam_size=2)
            within.state.label = label
            within.end(label == 0, include_eos=True)
            found = within.stack(label)
        best = rf.reduce_max(
            rf.get_beam_scores(found),
            axis=[d for d in rf.get_beam_scores(found).dims if "inner" in str(d) or d.size == 2 and d.kind == "beam"],
        )
        scores = model.log_prob(loop.state.label, step)
        label = rf.choice(rf.combine_bc(scores, "add", best), axis=model.vocab, beam_size=3)
        loop.state.label = label
        loop.end(label == 0, include_eos=True)
        labels = loop.stack(label)

    def bonus(seq, before):
        first = inner.table[seq, 0, before]
        rest = [0.0 if label == 0 else inner.table[seq, 1, label].max() for label in range(4)]
        kept = sorted(range(4), key=lambda label: -first[label])[:2]
        return max(first[label] + rest[label] for label in kept)

    for seq, rows in enumerate(hypotheses(labels, model.batch)):
        for row, score in rows:
            befores = [0, *row[:-1]]
            assert score == pytest.approx(model.score(seq, row) + sum(bonus(seq, b) for b in befores), abs=1e-4)


def test_beams_of_two_searches_in_any_op():
    first, second, labels = two_searches()
    other = second.search(2, max_seq_len=4, name="second")[1]
    a, b = (rf.expand_dim(rf.get_beam_scores(x), FEAT) for x in (labels, other))
    for name, fn in (
        ("concat", OPS["concat"]),
        ("matmul", OPS["matmul"]),
        ("stack", OPS["stack"]),
        ("where", OPS["where"]),
    ):
        with pytest.raises(DimError, match=f"^{name}: the operands are from different searches"):
            fn(a, b)
