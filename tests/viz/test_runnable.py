"""The engine of a page computes what rfnb does: each op, whole searches, and what it refuses."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from viz.runnable import NODE, run_in_node

import rfnb as rf
from rfnb.data import g2p
from rfnb.models import g2p_search, load_g2p
from rfnb.models.g2p import label_dim
from rfnb.models.g2p_search import beam_search, search
from rfnb.viz.page.output import STATIC
from rfnb.viz.runnable import op_lowering
from rfnb.viz.runnable.program import PageProgram

TOP = Path(__file__).parents[2]
LETTERS = "abcdefgh"
TEXTS = ["abcd", "h", "gfedcbaabc", "bbbb"]
letter, feat, other = rf.Dim(8, name="letter", vocab=list(LETTERS)), rf.Dim(5, name="feat"), rf.Dim(3, name="other")
batch, two, three, same = (
    rf.Dim(1, name="batch", kind="batch"),
    rf.Dim(2, name="two"),
    rf.Dim(3, name="three"),
    rf.Dim(5, name="same"),
)


def table(*dims, scale=1.0, shift=0.0, seed=0):
    values = np.random.default_rng(seed).standard_normal([dim.size for dim in dims]) * scale + shift
    return rf.convert_to_tensor(values.astype(np.float32), dims=list(dims), feature_dim=dims[-1])


X, POSITIVE, Y = table(letter, feat), table(letter, feat, scale=0.1, shift=1.0), table(feat, other, seed=1)
EDGES = rf.convert_to_tensor(
    np.float32(
        [[0, -0.0, 1, -1, 0.5], [2.5, -2.5, 88, -88, 1e-8], [np.inf, -np.inf, 1e4, -1e4, 3]] * 2 + [[1.5] * 5] * 2
    ),
    dims=[letter, feat],
)
column = rf.Dim(5, name="column")
six = rf.Dim(6, name="six")
SIX = table(feat, six, seed=5)
SQUARE, FIXED = table(feat, column, seed=3), table(batch, feat, seed=4)
LSTM, LINEAR, ZONEOUT = rf.LSTM(feat, other), rf.Linear(feat, other), rf.ZoneoutLSTM(feat, other)


def read(text):
    """{time}, {time, feat}: the labels of the letters, and a row for each."""
    time = rf.ragged_dim([len(text)], over=batch, name="time")
    ids = np.array([[LETTERS.index(one)] for one in text], np.int32)
    return time, rf.convert_to_tensor(ids, dims=[time, batch], sparse_dim=letter)


def of_rows(make, rows=X):
    def fn(text):
        time, ids = read(text)
        return make(rf.gather(rows, indices=ids), time)

    return fn


def of_lstm(x, time):
    state = LSTM.default_initial_state(batch_dims=[batch])
    return LSTM(x, state=state, spatial_dim=time)[0]


ONE = [
    "abs",
    "ceil",
    "cos",
    "exp",
    "expm1",
    "floor",
    "gelu",
    "log_sigmoid",
    "neg",
    "relu",
    "relu_square",
    "round",
    "selu",
    "sigmoid",
]
ONE += ["silu", "sin", "square", "tanh"]


def over(reduce):
    return {
        f"{reduce} over {axis}": of_rows(lambda x, time, axis=axis: getattr(rf, reduce)(x, axis=axis or time))
        for axis in (None, feat)
    }


class Leaky(rf.RecUnit):
    """A unit of the user's, whose output is not its state."""

    def __init__(self):
        super().__init__(feat, other)
        self.linear = rf.Linear(feat, other)

    def transform_input(self, source):
        return self.linear(source)

    def step(self, transformed, state):
        h = 0.9 * state.h + 0.1 * rf.tanh(transformed)
        return h * 2.0, rf.State(h=h)


def of_unit(name, direction):
    unit = Leaky() if name == "Leaky" else getattr(rf, name)(feat, other)

    def fn(x, time):
        output, state = unit(x, spatial_dim=time, direction=direction)
        return output + sum(state.values())

    return of_rows(fn)


UNITS = "GRUCell TorchGRUCell NativeLstm2 RHNCell ZoneoutLSTMCell LayerNormVariantsLSTMCell Leaky".split()


def recurrent(x, time, *, recorded=False, reverse=False):
    """A loop over the letters with a state, frames, its index and three ways out."""
    loop = rf.Loop(axis=time, name="rnn")
    loop.state.h = rf.zeros([batch, feat])
    loop.state.c = rf.State(sum=rf.zeros([batch]), last=rf.ones([batch, other]))

    def step():
        h = rf.tanh(loop.unstack(x) + 0.5 * loop.state.h)
        c = loop.state.c
        loop.state.c = rf.State(sum=c.sum + rf.reduce_sum(h, axis=feat), last=rf.matmul(h, Y, reduce=feat) * c.last)
        loop.state.h = h * (1.0 + rf.cast(loop.iter_idx, "float32"))
        return loop.stack(loop.state.h), loop.last(c.sum)

    if recorded:
        with loop:
            stacked, last = step()
    else:
        for _ in loop:
            stacked, last = step()
    return rf.combine_bc(stacked, "+", last) + rf.reduce_sum(loop.state.c.last, axis=other)


def constants(x, time):
    """A loop that carries and collects what is not of its step."""
    loop = rf.Loop(axis=time, name="constants")
    loop.state.h = rf.reduce_sum(x, axis=time)
    for _ in loop:
        out = loop.stack(loop.state.h)
        rows = loop.stack(Y)
        loop.state.h = FIXED
    return rf.combine_bc(out, "+", rf.reduce_sum(rows, axis=[time, other]))


def greedy(x, time):
    """Labels until one comes again, each the best of what the last gives."""
    loop = rf.Loop(max_seq_len=7, name="greedy")
    loop.state.label = rf.reduce_argmax(rf.reduce_sum(x, axis=time), axis=feat)
    for _ in loop:
        scores = rf.gather(SQUARE, indices=loop.state.label, axis=feat)
        label = rf.reduce_argmax(scores, axis=column)
        loop.state.label = rf.set_sparse_dim(label, feat)
        loop.end(label == 2, include_eos=True)
        out = loop.stack(rf.cast(label, "float32"))
    return out


def sliced(x, time):
    padded, (longer,) = rf.pad(x, axes=[feat], padding=[(1, 2)], value=3.0)
    return rf.slice(padded, axis=longer, start=-6, end=5)[0]


def history(x, time):
    """The largest of all frames so far, of two layers."""
    loop = rf.Loop(axis=time, name="history")
    loop.state.one, loop.state.two = (rf.cum_concat_initial_state([batch, feat]) for _ in range(2))
    for _ in loop:
        all_x, axis, loop.state.one = rf.cum_concat(loop.unstack(x), axis=rf.single_step_dim, state=loop.state.one)
        most = rf.reduce_max(all_x, axis=axis)
        again, axis, loop.state.two = rf.cum_concat(most, axis=rf.single_step_dim, state=loop.state.two)
        out = loop.stack(rf.reduce_sum(again, axis=axis) * (rf.cast(loop.iter_idx, "float32") + 1.0))
    return out


OPS = {
    **{f"{name} of {rows}": of_rows(lambda x, _, name=name: getattr(rf, name)(x), {"X": X, "edges": EDGES}[rows])
       for name in ONE for rows in ("X", "edges") if (name, rows) != ("gelu", "edges")},  # of infinity torch has NaN
    **{name: of_rows(lambda x, _, name=name: getattr(rf, name)(x), POSITIVE) for name in ("log", "log1p", "sqrt", "rsqrt", "reciprocal")},
    **{name: fn for mode in ("sum", "mean", "max", "min", "logsumexp", "argmax") for name, fn in over(f"reduce_{mode}").items()},
    "a loop": of_rows(recurrent),
    "a recorded loop": of_rows(lambda x, time: recurrent(x, time, recorded=True)),
    "a loop until its end": of_rows(greedy),
    "a loop of constants": of_rows(constants),
    "any": of_rows(lambda x, time: rf.reduce_any(x > 0.5, axis=time)),
    "all": of_rows(lambda x, time: rf.reduce_all(x > -1.0, axis=feat)),
    "softmax": of_rows(lambda x, time: rf.softmax(x, axis=time)),
    "log_softmax": of_rows(lambda x, time: rf.log_softmax(x * 30.0, axis=feat)),
    "reverse_sequence": of_rows(lambda x, time: rf.reverse_sequence(x, axis=time)),
    "matmul": of_rows(lambda x, time: rf.matmul(x, Y, reduce=feat)),
    "matmul over time": of_rows(lambda x, time: rf.matmul(x, rf.tanh(x) , reduce=[time, feat])),
    "linear": of_rows(lambda x, time: LINEAR(x)),
    "of two": of_rows(lambda x, time: (x + 1) * (x - 2.5) / (x * x + 1) - rf.maximum(x, rf.minimum(x, 0.25)) ** 2),
    "floordiv and mod": of_rows(lambda x, time: x // 0.3 + x % 0.7),
    "broadcast": of_rows(lambda x, time: rf.combine_bc(rf.reduce_sum(x, axis=time), "+", rf.matmul(x, Y, reduce=feat))),
    "compare": of_rows(lambda x, time: rf.logical_or(x > 0.1, rf.logical_and(x <= -0.2, rf.logical_not(x == 3)))),
    "where": of_rows(lambda x, time: rf.where(x > 0, x, rf.exp(x))),
    "concat_features": of_rows(lambda x, time: rf.concat_features(rf.tanh(x), rf.tanh(x) * 2)),
    "split": of_rows(lambda x, time: rf.split(x, axis=feat, out_dims=[two, three])[1]),
    "squeeze": of_rows(lambda x, time: rf.squeeze(x, axis=batch)),
    "replace_dim": of_rows(lambda x, time: rf.replace_dim(x, in_dim=feat, out_dim=same)[0]),
    "zeros_like": of_rows(lambda x, time: rf.zeros_like(x) + x),
    "range_over_dim": of_rows(lambda x, time: rf.cast(rf.range_over_dim(time), "float32") * 0.5 + rf.reduce_sum(x, axis=feat)),
    "cumsum": of_rows(lambda x, time: rf.cumsum(x, spatial_dim=time)),
    "shift": of_rows(lambda x, time: rf.shift_right(x, axis=time, pad_value=0.5) - rf.shift_left(x, axis=time, pad_value=0.0, amount=2)),
    "pad and slice": of_rows(sliced),
    "split and merge": of_rows(lambda x, time: rf.merge_dims(rf.split_dims(rf.matmul(x, SIX, reduce=feat), axis=six, dims=[two, three]), dims=[three, two])[0]),  # noqa: E501
    "expand and stack": of_rows(lambda x, time: rf.stack([rf.expand_dim(x, two), rf.expand_dim(-x, two)], out_dim=rf.Dim(2, name="stacked"))[0]),  # noqa: E501
    "layer norm": of_rows(lambda x, time: rf.LayerNorm(feat)(x * 3.0)),
    "RMS norm": of_rows(lambda x, time: rf.RMSNorm(feat)(x * 3.0)),
    "positions": of_rows(lambda x, time: rf.sinusoidal_positional_encoding(spatial_dim=time, feat_dim=feat, offset=3) + x),
    "self-attention": of_rows(lambda x, time: rf.dot_attention(x, x, x, key_dim=feat, axis=time, causal_query_spatial_dim=time)),
    "additive attention": of_rows(lambda x, time: rf.additive_attention(rf.reduce_mean(x, axis=time), x, x, energy_weight=table(feat), key_dim=feat, axis=time)),  # noqa: E501
    "a history": of_rows(history),
    "a large number": of_rows(lambda x, time: rf.where(x > 0, x, -1e30) / 7),
    "whole numbers": of_rows(lambda x, time: (rf.cast(x * 9, "int32") // 2 + 1) * 2.5),
    "dot_attention": of_rows(lambda x, time: rf.dot_attention(rf.reduce_mean(x, axis=time), x, rf.matmul(x, Y, reduce=feat), key_dim=feat, axis=time)),  # noqa: E501
    "LSTM": of_rows(of_lstm),
    "ZoneoutLSTM": of_rows(lambda x, time: ZONEOUT(x, state=ZONEOUT.default_initial_state(batch_dims=[batch]), spatial_dim=time)[0]),
    **{f"{name}, {direction}": of_unit(name, direction) for name in UNITS for direction in (1, -1)},
    "top_k": of_rows(lambda x, time: rf.top_k(x, axis=feat, k=3)[0], EDGES),
    "places of top_k": of_rows(lambda x, time: rf.top_k(x, axis=feat, k_dim=two)[1]),
}  # fmt: skip


@pytest.fixture(scope="module")
def programs():
    return {name: PageProgram.of(fn, "abcd") for name, fn in OPS.items()}


@pytest.fixture(scope="module", params=[False, True], ids=["wasm", "plain"])
def answers(programs, request, tmp_path_factory):
    """By case what the engine says of the texts."""
    found = run_in_node(programs, TEXTS, tmp_path_factory.mktemp("ops"), plain=request.param)
    assert {each["plain"] for each in found.values()} == {request.param}
    return found


@pytest.mark.parametrize("name", OPS)
def test_an_op_computes_in_a_page_what_it_does_here(name, programs, answers):
    assert answers[name]["missing"] == []
    for text, answer in zip(TEXTS, answers[name]["answers"]):
        assert "error" not in answer, answer
        wanted, (value,) = OPS[name](text), answer["values"]
        axes = [programs[name].spec["dims"][at]["name"] for at in value["dims"]]
        got = np.array([float(each.replace("Infinity", "inf")) for each in value["values"]]).reshape(value["shape"])
        got = got.transpose([axes.index(dim.name) for dim in wanted.dims])
        np.testing.assert_allclose(got, wanted.numpy().astype(float), rtol=2e-5, atol=2e-6)


# -- searches --------------------------------------------------------------------------------------------------------------

WORDS = [line.split("\t")[0] for line in (TOP / "notebooks/data/cmudict_test_words.tsv").read_text().splitlines()[::5]]


@pytest.fixture(scope="module")
def model():
    return load_g2p()


def spelled(answer):
    """The n-best list of the first loop: labels as text, and scores."""
    return [(" ".join(g2p.LABELS[label] for label in each["labels"]), each["score"]) for each in answer["nbest"][0]]


@pytest.mark.parametrize("beam_size", [1, 5, 12])
def test_a_page_spells_the_words_of_the_test_set_as_the_model_does(model, beam_size, tmp_path):
    words = WORDS if beam_size == 5 else WORDS[::10]
    program = PageProgram.of(lambda word: search(model, [word], beam_size=beam_size), "parachute")
    answers = run_in_node({"g2p": program}, words, tmp_path)["g2p"]["answers"]
    for found, answer in zip(beam_search(model, words, beam_size=beam_size), answers):
        told = spelled(answer)
        assert [labels for labels, _ in told] == [str(each) for each in found]
        assert [score for _, score in told] == pytest.approx([each.score for each in found], abs=1e-4)


GIVES = {"log_prob": rf.log_softmax, "logits": lambda logits, axis: logits, "prob": rf.softmax}


def searching(model, word, beam_size=4, **options):
    """As `rfnb.models.g2p_search.search`, with options of the choice."""
    batch, encoded = g2p_search.encode_batch(model, [word])
    loop = rf.Loop(max_seq_len=2 * len(word) + 10, name="search")
    loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=label_dim)
    loop.state.decoder = encoded.start
    for _ in loop:
        logits, state = model.decoder(
            loop.state.label, encoded, state=loop.state.decoder, spatial_dim=rf.single_step_dim
        )
        scores = GIVES[options.get("input_type", "log_prob")](logits, axis=label_dim)
        label = rf.choice(scores, axis=label_dim, beam_size=beam_size, **options)
        loop.state.decoder, loop.state.label = state, label  # after the choice: those of the chosen
        loop.end(label == g2p.END_LABEL, include_eos=True)
        labels = loop.stack(label)
    return labels, rf.get_beam_scores(labels)


OPTIONS = {
    "length normalization": {"length_normalization": True},
    "its exponent": {"length_normalization": True, "length_normalization_exponent": 0.5},
    "scales": {"prob_scale": 0.7, "base_beam_score_scale": 0.9},
    "a banned label": {"banned": [g2p.LABELS.index("T"), g2p.LABELS.index("AH")]},
    "no two labels again": {"no_repeat_ngram": 2, "banned": [0]},
    "no label again": {"no_repeat_ngram": 1, "beam_size": 3},
    "a threshold": {"threshold": 2.0},
    "logits": {"input_type": "logits"},
    "probabilities": {"input_type": "prob"},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_a_search_with_options_is_equal(model, name, tmp_path):
    words = ["parachute", "mississippi", "a", "banana", "onomatopoeia"]

    def fn(word):
        return searching(model, word, **OPTIONS[name])

    program = PageProgram.of(fn, "parachute")
    answers = run_in_node({"g2p": program}, words, tmp_path)["g2p"]["answers"]
    for word, answer in zip(words, answers):
        with rf.stop_gradient_scope():
            labels, scores = fn(word)
        batch, beam = scores.dims
        (time,) = labels.remaining_dims([batch, beam])
        wanted = [labels.copy_transpose([time, batch, beam]), scores]
        for value, here in zip(answer["values"], wanted, strict=True):
            assert value["shape"] == [dim.extent for dim in here.dims]
            assert np.array(value["values"], float) == pytest.approx(here.numpy().ravel(), abs=1e-4)


def of_steps(model, word, beam_size=4, **options):
    """The same by `rf.beam_search`."""
    batch, encoded = g2p_search.encode_batch(model, [word])

    def step(label, state):
        logits, state = model.decoder(label, encoded, state=state, spatial_dim=rf.single_step_dim)
        return rf.log_softmax(logits, axis=label_dim), state

    return rf.beam_search(
        step, batch=batch, state=encoded.start, beam_size=beam_size, max_seq_len=2 * len(word) + 10, axis=label_dim, **options
    )  # fmt: skip


STOPS = {
    "as soon as it is sure": {},
    "of three results": {"num_best": 3},
    "by length": {"length_exponent": 1.0, "num_best": 2},
    "complete": {"early_stopping": "complete", "num_best": 2},
    "likely": {"early_stopping": "likely"},
    "in the end": {"early_stopping": False},
}


@pytest.mark.parametrize("name", STOPS)
def test_a_search_of_a_step_function_ends_where_it_ends_here(model, name, tmp_path):
    words = ["parachute", "mississippi", "a"]
    program = PageProgram.of(lambda word: of_steps(model, word, **STOPS[name]), "parachute")
    answers = run_in_node({"g2p": program}, words, tmp_path)["g2p"]["answers"]
    for word, answer in zip(words, answers, strict=True):
        wanted = of_steps(model, word, **STOPS[name]).history.nbest(0)
        for found, own in zip(answer["nbest"][0], wanted, strict=True):
            assert (found["labels"], found["ended"]) == (
                [int(one) for one in own.tokens[: len(own.tokens) - own.ended]],
                own.ended,
            )
            assert found["score"] == pytest.approx(own.score, abs=1e-4)


# -- what is refused -------------------------------------------------------------------------------------------------------


def in_each_other(text):
    time, ids = read(text)
    outer = rf.Loop(axis=time, name="outer")
    for _ in outer:
        inner = rf.Loop(axis=time, name="inner")
        for _ in inner:
            found = inner.stack(inner.unstack(ids))
        out = outer.stack(rf.reduce_sum(rf.cast(found, "float32"), axis=time))
    return out


def changing(text):
    time, ids = read(text)
    loop = rf.Loop(axis=time, name="changing")
    loop.state.h = rf.zeros([batch, feat])
    for step in loop:
        x = rf.gather(X, indices=loop.unstack(ids))
        loop.state.h = rf.tanh(x) if step == 2 else rf.sigmoid(x)
        out = loop.stack(loop.state.h)
    return out


REFUSED = {
    "an op that there is not": (of_rows(lambda x, time: rf.sort(x, axis=feat)[0]), "cannot run sort"),
    "loops in each other": (in_each_other, 'the loop "inner" inside of "outer"'),
    "steps that differ": (changing, 'cannot run loop "changing": its steps are not the same'),
    "a number of the letters": (of_rows(lambda x, time: x * float(len({*time.name}) + time.extent**2)), "depends on the text"),
    "a hash of the text": (lambda text: rf.convert_to_tensor(np.float32([sum(map(ord, text)) % 7]), dims=[batch]) + 1.0, "depends on the text"),  # noqa: E501
    "a branch by the text": (lambda text: of_rows(lambda x, _: rf.tanh(x) if text[0] == "a" else rf.exp(x))(text), "depends on the text"),
    "what has ended leaves": (lambda text: of_steps(load_g2p(), text, ended="leave"), 'a search with ended="leave"'),
    "coverage": (lambda text: of_steps(load_g2p(), text, coverage=0.5), "coverage"),
    "sampling": (lambda text: searching(load_g2p(), text, sampling=True), "cannot search with sampling"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_page_cannot_run_is_refused_by_name(name):
    fn, words = REFUSED[name]
    with pytest.raises((TypeError, ValueError), match=words):
        PageProgram.of(fn, "abcd")


@pytest.mark.parametrize(
    ("text", "words"), [("abz", "“z” is not one of the letters"), ("", "Type at least one letter")]
)
def test_a_text_that_cannot_be_read_is_said(programs, text, words, tmp_path):
    (answer,) = run_in_node({"tanh": programs["tanh of X"]}, [text], tmp_path)["tanh"]["answers"]
    assert words in answer["error"]


@pytest.mark.parametrize("text", ["ab", "hhhhhhhh"])
def test_whole_numbers_beyond_32_bits_are_said(text, tmp_path):
    """Powers of the number of letters: in a page they would silently be other numbers."""

    def fn(text):
        time, ids = read(text)
        return rf.cumsum(rf.cast(ids, "int64") ** 5, spatial_dim=time) * 20000

    (answer,) = run_in_node({"it": PageProgram.of(fn, "abcd")}, [text], tmp_path)["it"]["answers"]
    assert ("error" in answer) == (text != "ab")
    assert text == "ab" or "more than 32 bits" in answer["error"]
    with pytest.raises(TypeError, match="integers of more than 32 bits"):
        PageProgram.of(lambda text: fn(text) * 20000, "hhhh")


def test_a_page_has_the_ops_that_a_program_may_have():
    code = f"import {{ names }} from {json.dumps((STATIC / 'rfnb-engine.js').as_uri())}; console.log(JSON.stringify(names));"
    done = subprocess.run(
        [NODE or "node", "--input-type=module", "-e", code], capture_output=True, text=True, check=True
    )
    of_searches = {"choice", "convert_to_tensor", "get_beam_scores"}  # these are no functions of arrays
    own = {
        *op_lowering.ONE,
        *op_lowering.TWO,
        *op_lowering.OVER,
        *op_lowering.OTHER,
        "named",
    }  # the last one is an array that is given other dims
    assert {*json.loads(done.stdout)} | of_searches == own
