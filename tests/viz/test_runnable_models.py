"""Whole models in the engine of a page besides the shipped one: dates by words, CTC, Transformers with histories, LSTMs."""

from __future__ import annotations

import numpy as np
import pytest
from viz.runnable import run_in_node, told_in_node, views_in_node

import rfnb as rf
from rfnb.models import dates, lessons
from rfnb.models.number_words import padded_rows
from rfnb.viz import trace_page
from rfnb.viz.control.run_view import edit_handles_of, in_order
from rfnb.viz.group.spec import parts_of
from rfnb.viz.runnable.page import page_of
from rfnb.viz.runnable.program import PageProgram

LETTERS = "abcdefgh"
letter = rf.Dim(8, name="letter", vocab=list(LETTERS))
classes = rf.Dim(9, name="class", vocab=[*LETTERS, "-"])
TEXTS = ["abcd", "h", "gfedcbaabcdd", "bbbb"]
DATES = ["3 march not 5 may 2021", "2021", "5 may 2009", "may not march 3 3 2010 2011"]


def read(text):
    batch = rf.Dim(1, name="batch", kind="batch")
    return batch, *padded_rows([[LETTERS.index(one) for one in text]], batch, "time", letter, None)


def label_searched(step, state, batch, beam_size=4):
    """What `step` (label, state) -> logits, state goes on with, until "a"."""
    loop = rf.Loop(max_seq_len=7, name="search")
    loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=letter)
    loop.state.inner = state
    for _ in loop:
        logits, loop.state.inner = step(loop.state.label, loop.state.inner)
        loop.state.label = rf.choice(rf.log_softmax(logits * 4.0, axis=letter), axis=letter, beam_size=beam_size)
        loop.end(loop.state.label == 0, include_eos=True)
        labels = loop.stack(loop.state.label)
    return labels, rf.get_beam_scores(labels)


def models():
    """By name a function of a text, and the texts."""
    rf.set_random_seed(3)
    of_dates = dates.DateModel("zeros", units=16)
    net = rf.TransformerDecoder(None, letter, 12, num_layers=2, num_heads=2, ff_dim=16)
    encoder = rf.TransformerEncoder(letter, 8, num_layers=1, num_heads=2, ff_dim=8)
    both = rf.TransformerDecoder(encoder.model_dim, letter, 8, num_layers=1, num_heads=2, ff_dim=8)
    embedding = rf.Embedding(letter, rf.Dim(6, name="embedding"))
    lstm = rf.LSTM(embedding.out_dim, rf.Dim(8, name="units"))
    output, frames = rf.Linear(lstm.out_dim, letter), rf.Linear(lstm.out_dim, classes)

    width, inner = embedding.out_dim, rf.Dim(4, name="inner")
    layer = rf.ConformerEncoderLayer(
        width, ff_dim=rf.Dim(8, name="ff"), num_heads=2, conv_kernel_size=3, conv_norm=rf.LayerNorm
    )
    rotary = rf.RotaryPosSelfAttention(width, width, key_dim_total=inner, value_dim_total=inner, num_heads=2)
    same_size = rf.Linear(width, width)

    def a_date(text):
        batch, words_dim, words = dates.batch_of([text.split()])
        encoded = of_dates.encode(words, spatial_dim=words_dim)
        loop = rf.Loop(axis=dates.iso_dim, name="search")
        loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=dates.character_dim)
        loop.state.decoder = encoded.start
        for _ in loop:
            logits, loop.state.decoder = of_dates(
                loop.state.label, encoded, state=loop.state.decoder, spatial_dim=rf.single_step_dim
            )
            log_probs = rf.log_softmax(logits, axis=dates.character_dim)
            loop.state.label = rf.choice(log_probs, axis=dates.character_dim, beam_size=3)
            labels = loop.stack(loop.state.label)
        return labels, rf.get_beam_scores(labels)

    def decoder(text):
        batch, time, ids = read(text)
        _, state = net(ids, spatial_dim=time, state=net.default_initial_state(batch_dims=[batch]))
        return label_searched(
            lambda label, state: net(label, spatial_dim=rf.single_step_dim, state=state), state, batch
        )

    def from_nothing(text):
        batch, time, ids = read(text)
        loop = rf.Loop(axis=time, name="lm")
        loop.state.net = net.default_initial_state(batch_dims=[batch])
        for _ in loop:
            logits, loop.state.net = net(loop.unstack(ids), spatial_dim=rf.single_step_dim, state=loop.state.net)
            out = loop.stack(rf.log_softmax(logits, axis=letter))
        return out

    def whole(text):
        batch, time, ids = read(text)
        return net(ids, spatial_dim=time, state=net.default_initial_state(batch_dims=[batch]))[0]

    def encoder_decoder(text):
        batch, time, ids = read(text)
        source = both.transform_encoder(encoder(ids, spatial_dim=time), axis=time)
        return label_searched(
            lambda label, state: both(label, spatial_dim=rf.single_step_dim, state=state, encoder=source),
            both.default_initial_state(batch_dims=[batch]), batch, beam_size=3,
        )  # fmt: skip

    def lstm_of(ids, time, batch):
        return lstm(embedding(ids), state=lstm.default_initial_state(batch_dims=[batch]), spatial_dim=time)

    def of_text(text):
        batch, time, ids = read(text)
        logits = output(lstm_of(rf.shift_right(ids, axis=time, pad_value=0), time, batch)[0])
        log_probs = rf.gather(rf.log_softmax(logits, axis=letter), indices=ids, axis=letter)
        return log_probs, rf.reduce_sum(log_probs, axis=time)

    def going_on(text):
        batch, time, ids = read(text)

        def step(label, state):
            out, state = lstm(embedding(label), state=state, spatial_dim=rf.single_step_dim)
            return output(out), state

        return label_searched(step, lstm_of(ids, time, batch)[1], batch)

    def conformer(text):
        _, time, ids = read(text)
        return rotary(layer(embedding(ids), spatial_dim=time), axis=time)

    def pointer(text):
        batch, time, ids = read(text)
        encoded = embedding(ids)
        loop = rf.Loop(axis=time, name="pointer")
        loop.state.query = rf.zeros([batch, encoded.feature_dim])
        for _ in loop:
            keys = same_size(encoded)
            seen = rf.dot_attention(loop.state.query, keys, encoded, key_dim=encoded.feature_dim, axis=time)
            loop.state.query = rf.tanh(seen + loop.state.query)
            out = loop.stack(loop.state.query)
        return out

    def ctc(text):
        batch, time, ids = read(text)
        logits = frames(lstm_of(ids, time, batch)[0]) * 8.0
        return rf.ctc_prefix_beam_search(logits, in_spatial_dim=time, blank_index=-1, beam_size=5)[:2]

    return {
        "dates with attention": (a_date, DATES),
        "a Transformer decoder after a prompt": (decoder, TEXTS),
        "a Transformer decoder from its begin": (from_nothing, TEXTS),
        "a Transformer decoder at once": (whole, TEXTS),
        "a Transformer encoder and decoder": (encoder_decoder, TEXTS),
        "an LSTM language model of a text": (of_text, TEXTS),
        "an LSTM language model that goes on": (going_on, TEXTS),
        "CTC with prefix search": (ctc, TEXTS),
        "a Conformer layer and rotary attention": (conformer, TEXTS),
        "attention with keys made in each step": (pointer, TEXTS),
    }


MODELS = models()
OF_LESSONS = {
    "lesson 9: CTC": (lambda text: lessons.hear(text), ["17024", "5", "5508", "0123456789"]),
    "lesson 10: walks": (lambda text: lessons.align_tune(text), ["CEG", "B", "CC", "GEBBCEG"]),
    "lesson 11: backwards": (lambda text: lessons.write_backwards(text, beam_size=2), TEXTS),
    "lesson 14: memories": (lambda text: lessons.remember(text, keep=0.5, write=0.5), TEXTS),
}
for _fn, _texts in OF_LESSONS.values():
    _fn(_texts[0])  # their models are made once, at the first call, which is not noted
ALL = MODELS | OF_LESSONS


def same_values(program, answer, wanted):
    """Assert that the engine gives the function's result, by dims."""
    leaves = [each for each in wanted if isinstance(each, rf.Tensor)] if isinstance(wanted, tuple) else [wanted]
    for value, own in zip(answer["values"], leaves, strict=True):
        names = [at if at == "beam" else program.spec["dims"][at]["name"] for at in value["dims"]]
        got = np.array([float(one.replace("Infinity", "inf")) for one in value["values"]]).reshape(value["shape"])
        got = got.transpose([names.index(dim.name) for dim in own.dims])
        np.testing.assert_allclose(got, own.numpy().astype(float), atol=1e-4)


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """By model its program, and what the engine says."""
    programs = {name: PageProgram.of(fn, texts[0]) for name, (fn, texts) in ALL.items()}
    found = {}
    for texts in {id(texts): texts for _, texts in ALL.values()}.values():
        own = {name: program for name, program in programs.items() if ALL[name][1] is texts}
        told = run_in_node(own, texts, tmp_path_factory.mktemp("models"))
        found |= {name: (program, told[name]) for name, program in own.items()}
    return found


@pytest.mark.parametrize("name", ALL)
def test_a_model_computes_in_a_page_what_it_does_here(name, answers):
    (fn, texts), (program, told) = ALL[name], answers[name]
    assert told["missing"] == []
    for text, answer in zip(texts, told["answers"], strict=True):
        assert "error" not in answer, answer
        with rf.stop_gradient_scope():
            same_values(program, answer, fn(text))


def parts_here(fn, text):
    run = rf.run(fn, text=text)
    run.wait()
    recorded = trace_page.spec(run.trace, handles=edit_handles_of(run))
    parts = in_order(parts_of(recorded) if recorded.kind == "group" else [recorded])
    return {str(part.head["key"]): part for part in parts}


@pytest.mark.parametrize("name", ALL)
def test_the_views_of_a_page_have_the_values_that_python_draws(name, tmp_path):
    """Of histories that grow, heads, layers and both runs of a module; for other texts than that of the export."""
    fn, texts = ALL[name]
    page = page_of(fn, ("text", texts[0]), {}, {}, weights="float32")[0]
    for text, group in zip(texts, views_in_node(page, [(text, {}) for text in texts], tmp_path), strict=True):
        own = parts_here(fn, text)
        search = next((part.head["seqs"][0] for part in parts_of(group) if part.kind == "beams"), None)
        if len(text) > 1:
            of_attention = {key for key, part in own.items() if part.kind == "attention"}
            assert of_attention <= {str(part.head["key"]) for part in parts_of(group)}
        for part in parts_of(group):
            wanted, (seq,) = own.get(part.head["key"]), part.head["seqs"]
            entries = "maps" if part.kind == "attention" else "tracks"
            if len(text) == 1 and (
                wanted is None or len(wanted.head.get(entries, ())) > len(part.head.get(entries, ()))
            ):
                continue  # of one step Python draws all layers in one view
            assert text in seq["label"]
            if part.kind == "distribution":  # of what the function returns: `test_runnable_torch.py`
                continue
            if (
                part.kind == "attention"
                and name == "lesson 11: backwards"
                and search is not None
                and part.head.get("best")
            ):
                written = [search["steps"][step]["tokens"][slot] for step, slot in search["best"]]
                read = [*text, ">", *written[:-1]]  # by each step; other hypotheses may be longer
                assert ([each for each in seq["cols"] if each], seq["rows"]) == (read, written)
            if part.kind == "beams":
                assert (seq["best"], seq["result"]) == (
                    wanted.head["seqs"][0]["best"],
                    wanted.head["seqs"][0]["result"],
                )
                continue
            for entry, of in zip(part.head[entries], wanted.head[entries], strict=True):
                assert (entry["label"], entry.get("names")) == (of["label"], of.get("names"))
                np.testing.assert_allclose(part.blocks[entry["block"]], wanted.blocks[of["block"]], atol=1e-4)
                if "slots" in of:
                    over = [
                        [],
                        *(step["ended"] for step in search["steps"]),
                    ]  # before each step: what ended has no row of its own
                    got, here = part.blocks[entry["slots"]].copy(), wanted.blocks[of["slots"]].copy()
                    for step, ended in enumerate(over[: got.shape[1]]):
                        got[0, step, np.flatnonzero(ended)] = here[0, step, np.flatnonzero(ended)] = 0
                    np.testing.assert_allclose(got, here, atol=1e-4)


def test_the_rows_of_trellises_are_named_by_what_the_text_is(tmp_path):
    wanted = {
        "lesson 9: CTC": ("551", {"trellis.paths": list("-5-5-1-"), "trellis.labels": list("-" + lessons.KEYS)}),
        "lesson 10: walks": ("CCG", dict.fromkeys(("walks.paths", "back from the end.paths"), ["start", *"CCG"])),
    }
    for name, (text, names) in wanted.items():
        page = page_of(ALL[name][0], ("text", ALL[name][1][0]), {}, {}, weights="float32")[0]
        parts = parts_of(views_in_node(page, [(text, {})], tmp_path)[0])
        tracks = [track for part in parts if part.kind == "states" for track in part.head["tracks"]]
        assert {track["label"]: track.get("names") for track in tracks if track["label"] in names} == names


def test_of_a_ctc_search_alone_a_page_says_what_to_return_as_well():
    table = rf.convert_to_tensor(np.eye(8, dtype="float32") * 8, dims=[letter.copy(match_priority=1), letter])

    def alone(text, more=False):
        _, time, ids = read(text)
        scores = rf.log_softmax(rf.gather(table, indices=ids, axis=table.dims[0]), axis=letter)
        found, *_ = rf.ctc_prefix_beam_search(
            scores, in_spatial_dim=time, wb_target_dim=letter, blank_index=-1, beam_size=4
        )
        return (found, scores) if more else found

    with pytest.raises(ValueError, match="would show nothing") as refused:
        page_of(alone, ("text", "abcd"), {}, {})
    assert "beam_size=4), log_probs" in str(refused.value)
    page = page_of(lambda text: alone(text, True), ("text", "abcd"), {}, {})[0]
    assert [part["kind"] for part in page.head["parts"]] == ["distribution"]


def test_of_two_loops_with_one_path_the_second_is_changed_and_both_outputs_are_compared(tmp_path):
    table = rf.convert_to_tensor(np.eye(8, dtype="float32") + 0.1, dims=[letter, letter.copy(match_priority=1)])

    def twice(text):
        _, time, ids = read(text)
        x = rf.gather(table, indices=ids, axis=letter.copy(match_priority=1))
        for _ in range(2):
            loop = rf.Loop(axis=time, name="loop")
            loop.state.h = rf.zeros([dim for dim in x.dims if dim is not time])
            for _ in loop:
                loop.state.h = rf.tanh(loop.state.h * 0.5 + loop.unstack(x))
                x_next = loop.stack(loop.state.h)
            x = x_next * 2.0
        return rf.log_softmax(x, axis=letter)

    page, *_ = page_of(twice, ("text", "abcd"), {}, {})
    then = [{"do": "set", "state": "h", "how": "zero"}]
    ask = {"rfnb": "do", "id": 1, "path": "loop", "nth": 1, "step": 2, "then": then, "name": "x"}
    asked = [{"rfnb": "typed", "text": "abcd", "inputs": {}}, {**ask, "do": "ghost"}, {**ask, "do": "edit"},
             {"rfnb": "do", "id": 2, "do": "compare", "number": 2}]  # fmt: skip
    _, ghost, _, compared = told_in_node(page, asked, tmp_path, frames=True)
    assert ghost[-1]["words"].startswith("With x: values change by up to ")
    titles = [part["head"]["title"] for part in compared[0]["frame"]["head"]["parts"]]
    assert titles[1:] == [
        "Output, A: abcd", "Output, B: x", "States: loop, run 2 of 2, A − B", "States: loop, run 1 of 2: the same in A and B",
    ]  # fmt: skip
