"""A recording is drawn with every run under a path, tokens on both axes, and the search that a step belongs to."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.models import beam_search, load_g2p
from rfnb.trace.probe import Later, probe, probe_later, trace_context
from rfnb.viz import trace_page
from rfnb.viz.group import spec as group
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import page_spec
from rfnb.viz.show import view_of
from rfnb.viz.spec import pack, unpack

LETTERS = list("abcdefghi")


class Layer(rf.Module):
    """Self-attention over embedded letters, and attention to what it is given."""

    def __init__(self):
        self.vocab, self.width = rf.Dim(9, name="letters", vocab=LETTERS), rf.Dim(4, name="width")
        self.embed = rf.Embedding(self.vocab, self.width)
        self.self_att = rf.SelfAttention(
            self.width, proj_dim=self.width, key_dim_total=rf.Dim(4), value_dim_total=rf.Dim(4), num_heads=1
        )

    def __call__(self, ids, axis, other=None, other_axis=None):
        x = self.self_att(self.embed(ids), axis=axis)
        return x if other is None else rf.dot_attention(x, other, other, key_dim=self.width, axis=other_axis)


class Pair:
    """An encoder and a decoder that are no parts of one Module: side by side they write under the same names."""

    def __init__(self):
        rf.set_random_seed(1)
        self.encoder, self.decoder = Layer(), Layer()
        self.batch = rf.Dim(2, name="batch")
        self.source = rf.ragged_dim([5, 3], over=self.batch, name="source")
        self.target = rf.ragged_dim([4, 2], over=self.batch, name="target")

    def ids(self, layer, axis):
        raw = np.arange(2 * axis.extent, dtype=np.int32).reshape(2, axis.extent) % 9
        return rf.convert_to_tensor(raw, dims=[self.batch, axis], sparse_dim=layer.vocab)

    def run(self):
        enc = self.encoder(self.ids(self.encoder, self.source), self.source)
        enc = rf.replace_dim(enc, in_dim=self.encoder.width, out_dim=self.decoder.width)[0]
        self.decoder(self.ids(self.decoder, self.target), self.target, enc, self.source)


def parts_of(trace, **options):
    return group.parts_of(view_of(trace, **options).spec)


def titles(parts):
    return [part.head["title"] for part in parts]


def test_all_runs_under_a_path_are_there():
    model = Pair()
    with rf.record(kinds=["attention", "tokens"]) as trace:
        model.run()
    parts = parts_of(trace)
    assert titles(parts) == ["Attention: self_att, run 1 of 2", "Attention: self_att, run 2 of 2", "Attention: layer"]
    assert [part.head["axis"] for part in parts] == ["source", "target", "target"]


def test_of_many_runs_the_last_are_there_and_the_title_counts_all():
    model = Pair()
    with rf.record(kinds=["attention"]) as trace:
        for _ in range(4):
            model.run()
    parts = parts_of(trace, path="self_att")
    assert titles(parts) == [f"Attention: self_att, run {run} of 8" for run in (5, 6, 7, 8)]


def test_more_views_than_are_drawn_are_counted():
    time, unit = rf.Dim(3, name="time"), rf.Dim(2, name="key")
    w = rf.convert_to_tensor(np.ones((3, 2), np.float32), dims=[time, unit])
    with rf.record() as trace:
        for index in range(14):
            loop = rf.Loop(axis=time, name=f"loop{index}")
            for _ in loop:
                rf.probe("attention", weights=loop.unstack(w), axis=unit)
    view = view_of(trace)
    assert len(group.parts_of(view.spec)) == 12
    said = 'the first 12 of 14 views; others: rf.show(trace, path="...")'
    assert view.spec.head["title"] == f"Recording: 14 loops — {said}"
    assert view_of(trace, kinds="attention").spec.head["title"] == said


def test_tokens_are_on_both_axes_of_attention():
    model = Pair()
    with rf.record(model={"enc": model.encoder, "dec": model.decoder}, kinds=["attention", "tokens"]) as trace:
        model.run()
    encoder, decoder, cross = parts_of(trace)
    seqs = lambda part: [(seq["rows"], seq["cols"]) for seq in part.head["seqs"]]  # noqa: E731
    source, target = [list("abcde"), list("fgh")], [list("abcd"), list("ef")]
    assert seqs(encoder) == list(zip(source, source))
    assert seqs(decoder) == list(zip(target, target))
    assert seqs(cross) == list(zip(target, source))


def test_tokens_of_another_dim_of_the_same_name_and_other_lengths_are_not_taken():
    model = Pair()
    with rf.record(kinds=["attention", "tokens"]) as trace:
        model.run()
        other = rf.ragged_dim([3, 3], over=model.batch, name="source")
        query = rf.random_normal([model.batch, model.target, model.encoder.width])
        keys = rf.random_normal([model.batch, other, model.encoder.width])
        rf.dot_attention(query, keys, keys, key_dim=model.encoder.width, axis=other)
    last = parts_of(trace)[-1]
    assert [seq["cols"] for seq in last.head["seqs"]] == [["0", "1", "2"]] * 2


def test_models_recorded_side_by_side_have_names_of_their_own():
    model = Pair()
    with rf.record(kinds=["attention"], model={"enc": model.encoder, "dec": model.decoder}) as trace:
        model.run()
    assert list(trace.attention) == ["enc.self_att", "dec.self_att", "dec"]
    assert titles(parts_of(trace)) == ["Attention: enc.self_att", "Attention: dec.self_att", "Attention: dec"]


@pytest.mark.parametrize("given, shown", [(3, "int"), ({"a": 3}, "{'a': int}"), ({1: None}, "{1: NoneType}")])
def test_what_is_no_model_is_refused(given, shown):
    with pytest.raises(TypeError) as caught, rf.record(model=given):
        pass
    assert str(caught.value) == (
        "record: the model is no Module, and no dict of Modules.\n"
        f"  model  {shown}\n"
        "Paths are those of a Module's `named_modules()`; of several models each has a name of its own in front.\n"
        '    rf.record(model={"encoder": encoder, "decoder": decoder})'
    )


def search(seed: int, steps: int):
    """A search in whose steps all of the attention is on the number of the label before."""
    rf.set_random_seed(seed)
    vocab, batch = rf.Dim(5, name="vocab"), rf.Dim(2, name="batch")
    table = rf.log_softmax(rf.random_normal([batch, vocab, frames := rf.Dim(5, name="frames")]), axis=vocab)

    def step(labels, state):
        weights = rf.one_hot(labels)
        weights = rf.replace_dim(weights, in_dim=vocab, out_dim=frames)[0]
        rf.probe("attention", weights=weights, axis=frames)
        return rf.matmul(table, weights, reduce=frames), state

    rf.beam_search(step, batch=[batch], axis=vocab, end_label=4, start_label=3, max_seq_len=steps, beam_size=3)


def test_each_run_of_a_search_has_its_own_attention():
    with rf.record(kinds=["attention", "beams"]) as trace:
        search(1, 4)
        search(2, 6)
    parts = parts_of(trace)
    assert titles(parts) == [
        "Beam search: search, run 1 of 2", "Beam search: search, run 2 of 2",
        "Attention: search, best hypothesis, run 1 of 2", "Attention: search, best hypothesis, run 2 of 2",
    ]  # fmt: skip
    for beams, attention in ((parts[0], parts[2]), (parts[1], parts[3])):
        assert attention.head["best"] is True
        for seq, (of_beams, of_attention) in enumerate(zip(beams.head["seqs"], attention.head["seqs"])):
            tokens = [of_beams["steps"][step]["tokens"][slot] for step, slot in of_beams["best"]]
            assert of_attention["rows"] == tokens
            rows = attention.blocks["map0"][seq]
            assert [str(int(row.argmax())) for row in rows[: len(tokens)]] == ["3", *tokens[:-1]]


class Encoder(rf.Module):
    def __init__(self, layers: int):
        self.vocab, self.width = rf.Dim(9, name="letters", vocab=LETTERS), rf.Dim(4, name="width")
        self.embed = rf.Embedding(self.vocab, self.width)
        self.layers = rf.ModuleList(*(self.layer(number + 1) for number in range(layers)))

    def layer(self, num_heads: int):
        total = rf.Dim(12, name="total")
        return rf.SelfAttention(
            self.width, proj_dim=self.width, key_dim_total=total, value_dim_total=total, num_heads=num_heads
        )

    def __call__(self, ids, axis):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, axis=axis)
        return x


def test_the_layers_of_a_model_are_one_view_with_the_maps_of_each():
    rf.set_random_seed(1)
    batch = rf.Dim(2, name="batch")
    time = rf.ragged_dim([4, 3], over=batch, name="time")
    model = Encoder(3)
    ids = rf.convert_to_tensor(np.arange(8, dtype=np.int32).reshape(2, 4), dims=[batch, time], sparse_dim=model.vocab)
    with rf.record(kinds={"attention", "tokens"}) as trace:
        model(ids, time)
    [part] = parts_of(trace, kinds="attention")
    assert part.head["title"] == "Attention: layers.*"
    assert (part.head["layers"], part.head["heads"]) == (
        ["layer 0", "layer 1", "layer 2"],
        ["head 0", "head 1", "head 2"],
    )
    maps = part.head["maps"]
    assert [entry["at"] for entry in maps] == [[0, 0], [1, 0], [1, 1], [2, 0], [2, 1], [2, 2]]
    assert all(entry["self"] and entry["seqs"] == [0, 1] for entry in maps)
    assert part.head["seqs"][1]["rows"] == part.head["seqs"][1]["cols"] == ["e", "f", "g"]
    for entry in maps:
        layer, head = entry["at"]
        weights = trace.attention[f"layers.{layer}"]
        dims = [batch, model.layers[layer].num_heads, *[dim for dim in weights.dims if (dim.twin_of or dim) is time]]
        array = weights.copy_transpose(dims).numpy()
        np.testing.assert_array_equal(part.blocks[entry["block"]], array[:, head])


def output(seed: int = 1):
    """Logits over a vocabulary with labels, and the right labels."""
    random = np.random.default_rng(seed)
    batch, vocab = rf.Dim(2, name="batch"), rf.Dim(5, name="phones", vocab=list("PTKAE"))
    time = rf.ragged_dim([4, 2], over=batch, name="time")
    logits = rf.convert_to_tensor(random.normal(size=(2, 4, 5)).astype(np.float32), dims=[batch, time, vocab])
    right = rf.convert_to_tensor(random.integers(0, 5, (2, 4)).astype(np.int32), dims=[batch, time], sparse_dim=vocab)
    return logits, right, time, vocab


def test_outputs_with_a_reference_are_a_view_with_the_losses_of_cross_entropy():
    logits, right, time, vocab = output()
    with rf.record() as trace:
        rf.probe("outputs", logits=logits, reference=right, axis=vocab)
    [part] = parts_of(trace)
    assert (part.kind, part.head["title"], part.head["axis"]) == ("distribution", "Output: output", "time")
    losses = rf.cross_entropy(estimated=logits, target=right, axis=vocab, estimated_type="logits").numpy()
    real = np.arange(4) < np.array([[4], [2]])
    np.testing.assert_allclose(-part.blocks["log_prob"][real], losses[real], rtol=1e-5)


def test_outputs_of_the_steps_of_a_loop_are_one_view():
    logits, right, time, vocab = output()
    with rf.record(kinds=["outputs"]) as trace:
        loop = rf.Loop(axis=time, name="decoder")
        for _ in loop:
            rf.probe("outputs", logits=loop.unstack(logits), reference=loop.unstack(right), axis=vocab)
        rf.probe("outputs", logits=logits, reference=right, axis=vocab)
    stepwise, whole = parts_of(trace)
    assert stepwise.head["title"] == "Output: decoder" and stepwise.head["seqs"] == whole.head["seqs"]
    np.testing.assert_array_equal(stepwise.blocks["rank"], whole.blocks["rank"])


def test_outputs_that_are_not_what_they_are_called_are_a_sentence():
    logits, _, _, vocab = output()
    with rf.record() as trace:
        rf.probe("outputs", probs=logits, axis=vocab)
    view = view_of(trace)
    assert "distribution: these are not probabilities." in view.text() and "these are not probabilities" in view.html()


def test_the_outputs_of_a_teacher_forced_model_are_labelled_with_what_it_has_read():
    model = Pair()
    ids = model.ids(model.encoder, model.source)
    with rf.record(kinds=["tokens", "outputs"]) as trace:
        model.encoder.embed(ids)
        rf.probe("outputs", logits=rf.one_hot(ids), reference=ids, axis=model.encoder.vocab)
    [part] = parts_of(trace, kinds="outputs")
    assert [seq["steps"] for seq in part.head["seqs"]] == [list("abcde"), list("fgh")]
    assert [seq["right"] for seq in part.head["seqs"]] == [5, 3]


class Decoder(torch.nn.Module):
    """A frame after the other in a Python loop, with a dim for the step or without."""

    def __init__(self, keep: bool):
        super().__init__()
        self.keep, self.cell, self.generator = keep, torch.nn.GRUCell(3, 3), torch.nn.Linear(3, 7)

    def forward(self, h: torch.Tensor) -> torch.Tensor:
        frames = []
        for _ in range(5):
            h = self.cell(h, h)
            frames.append(self.generator(h[:, None] if self.keep else h))
        return torch.cat(frames, 1) if self.keep else torch.stack(frames, 1)


@pytest.mark.parametrize("keep", [True, False])
def test_the_frames_of_a_decoder_in_a_python_loop_are_one_view(keep):
    torch.manual_seed(1)
    model = Decoder(keep)
    with rf.record(model=model) as trace:
        logits = model(torch.randn(2, 3))
    [part] = parts_of(trace, kinds="outputs")
    assert part.head["title"] == "Output: generator" and part.head["step_dim"]["name"] == "step"
    assert [seq["len"] for seq in part.head["seqs"]] == [5, 5]
    assert part.blocks["top"][..., 0].tolist() == logits.argmax(-1).tolist()


def test_the_calls_of_a_classifier_are_views_of_their_own():
    model = torch.nn.Sequential(torch.nn.Linear(3, 7), torch.nn.Tanh())
    model.add_module("classifier", torch.nn.Linear(7, 5))
    with rf.record(model=model) as trace:
        for _ in range(3):
            model(torch.randn(2, 3))
    parts = parts_of(trace, kinds="outputs")
    assert [(part.head["seqs"][0]["label"], part.head["seqs"][0]["len"]) for part in parts] == [("the batch", 2)] * 3


def test_sequences_are_named_by_what_was_read():
    model = Pair()
    with rf.record(model={"enc": model.encoder, "dec": model.decoder}, kinds=["attention", "tokens"]) as trace:
        model.run()
    for part in parts_of(trace):
        assert [seq["label"] for seq in part.head["seqs"]] == ["1: abcde", "2: fgh"]


def test_the_outputs_of_a_classifier_have_a_row_for_each_sequence_with_its_name():
    model = Pair()
    ids = model.ids(model.encoder, model.source)
    classes = rf.Dim(3, name="classes")
    with rf.record(kinds=["tokens", "outputs"]) as trace:
        model.encoder.embed(ids)
        rf.probe("outputs", logits=rf.zeros([ids.dims[0], classes]), axis=classes)
    [part] = parts_of(trace, kinds="outputs")
    assert [(seq["label"], seq["steps"]) for seq in part.head["seqs"]] == [("the batch", ["1: abcde", "2: fgh"])]


def test_sequences_of_a_batch_that_is_read_twice_are_named_while_the_words_are_the_same():
    model = Pair()
    with rf.record(kinds=["attention", "tokens"]) as trace:
        model.run()
        model.run()
    for part in parts_of(trace, path="self_att"):
        assert [seq["label"] for seq in part.head["seqs"]] == ["1: abcde", "2: fgh"]


def test_sequences_of_another_batch_have_no_name():
    model, other = Pair(), Pair()
    with rf.record(kinds=["attention", "tokens"]) as trace:
        model.run()
        keys = rf.random_normal([other.batch, other.source, model.encoder.width])
        query = rf.random_normal([other.batch, other.target, model.encoder.width])
        rf.dot_attention(query, keys, keys, key_dim=model.encoder.width, axis=other.source)
    assert [seq["label"] for seq in parts_of(trace)[-1].head["seqs"]] == ["sequence 0", "sequence 1"]


def with_state_and_heads() -> rf.Trace:
    """A search whose state is the number of the last label, and its square, with two heads that look at the label before."""
    rf.set_random_seed(5)
    vocab, batch, heads = rf.Dim(5, name="vocab"), rf.Dim(2, name="batch"), rf.Dim(2, name="heads")
    frames, unit = rf.Dim(5, name="frames"), rf.Dim(2, name="unit")
    table = rf.log_softmax(rf.random_normal([batch, vocab, frames]), axis=vocab)
    numbers = rf.convert_to_tensor(np.arange(5, dtype=np.float32), dims=[vocab])
    with rf.record(kinds=["attention", "beams", "states"]) as trace:
        loop = rf.Loop(max_seq_len=6, name="search")
        loop.state.label = rf.constant(3, dims=[batch], dtype="int64", sparse_dim=vocab)
        loop.state.h = rf.zeros([batch, unit])
        for _ in loop:
            weights = rf.replace_dim(rf.one_hot(loop.state.label), in_dim=vocab, out_dim=frames)[0]
            rf.probe("attention", weights=rf.stack([weights, weights * 0.5], out_dim=heads)[0], axis=frames)
            label = rf.choice(rf.matmul(table, weights, reduce=frames), axis=vocab, beam_size=3)
            value = rf.matmul(rf.one_hot(label), numbers, reduce=vocab)
            loop.state.label = label
            loop.state.h = rf.stack([value, value * value], out_dim=unit)[0]
            loop.end(label == 4, include_eos=True)
    return trace


def test_the_rows_of_every_hypothesis_are_in_its_slots():
    trace = with_state_and_heads()
    beams, attention, states = parts_of(trace)
    history = trace.beams["search"]
    best = 0
    for seq in range(2):
        for item in history.nbest(seq):
            after = [slot for _, slot in item.path]
            before = [int(history.steps[step]["parents"][seq, slot]) for step, slot in item.path]
            steps = np.arange(len(after))
            for head, entry in enumerate(attention.head["maps"]):
                rows = attention.blocks[entry["slots"]][seq, steps, before]
                want = np.eye(5, dtype=np.float32)[[3, *item.tokens[:-1]]] * (1, 0.5)[head]
                np.testing.assert_array_equal(rows, want)
                if item == history.best(seq):
                    np.testing.assert_array_equal(rows, attention.blocks[entry["block"]][seq, : len(rows)])
                    best += 1
            [entry] = [entry for entry in states.head["tracks"] if entry["label"] == "h"]
            labels = np.array(item.tokens, np.float32)
            np.testing.assert_array_equal(
                states.blocks[entry["slots"]][seq, steps, after], np.stack([labels, labels**2], -1)
            )
    assert best == 4
    assert [part.head["best"] for part in (attention, states)] == [True, True]


def test_a_page_with_too_little_room_for_every_hypothesis_has_the_best_one_exactly():
    for spec in parts_of(with_state_and_heads())[1:]:
        size = len(pack(spec)) - 1
        made = page_spec(spec, Room(size, size))
        assert made.blocks.keys() == {name for name in spec.blocks if "slots" not in name}
        for name, block in made.blocks.items():
            np.testing.assert_array_equal(block, spec.blocks[name])
        assert not made.codes and made.head == spec.head  # with the names of what the kernel has


def test_a_running_search_has_the_rows_of_the_best_hypothesis_only():
    spec = trace_page.spec(with_state_and_heads(), live=True)
    assert not any("slots" in name for name in spec.blocks)


@pytest.fixture(scope="module")
def pronounced():
    model = load_g2p()
    with rf.record(model=model) as trace:
        beam_search(model, ["tongue", "phonetics", "a"], beam_size=3)
    return trace


def test_the_picture_of_a_recording_leaves_the_page_room_for_its_values(pronounced):
    """Four views of thirty tracks: the picture once took all of the room, and states were pooled over all steps."""
    view = view_of(pronounced)
    stored = view._stored()
    assert "rfnb-frame" in stored and len(stored) <= 500_000
    picture, frame = view._page()
    assert len(picture) <= 120_000
    assert "the first 6 of 24 tracks" in picture
    for part, exact in zip(group.parts_of(unpack(frame)), group.parts_of(view.spec)):
        for name, code in part.codes.items():
            assert set(code.pool) == {1}, (part.head["title"], name)
        if part.kind != "beams":  # of which a page finds the words itself
            assert part.head["seqs"] == exact.head["seqs"]
        assert [seq["label"] for seq in part.head["seqs"]] == [seq["label"] for seq in exact.head["seqs"]]


def test_of_a_search_the_states_of_others_are_closed_at_first_and_none_where_states_are_chosen(pronounced):
    def closed(**options) -> list[tuple[str, bool]]:
        parts = rf.show(pronounced, **options).spec.head["parts"]
        return [(part["head"]["title"], bool(part["head"].get("folded"))) for part in parts if part["kind"] == "states"]

    assert [folded for title, folded in closed()] == ["encoder" in title for title, _ in closed()]
    assert {folded for _, folded in closed()} == {True, False}
    assert not any(folded for _, folded in closed(kinds="states")) and len(closed(kinds="states")) == len(closed())


def test_the_title_says_what_ran(pronounced):
    titles = [view_of(pronounced).spec.head["title"]]
    model, encoder = Pair(), Encoder(1)
    with rf.record() as trace:
        model.run()
    titles.append(view_of(trace).spec.head["title"])
    with rf.record(kinds=["attention", "beams"]) as trace:
        search(1, 4), search(2, 6)
    titles.append(view_of(trace).spec.head["title"])
    batch, time = rf.Dim(2, name="batch"), rf.Dim(3, name="time")
    ids = rf.convert_to_tensor(np.zeros((2, 3), np.int32), dims=[batch, time], sparse_dim=encoder.vocab)
    with rf.record(kinds=["attention", "tokens"], model=encoder) as trace:
        encoder(ids, time)
    titles.append(view_of(trace).spec.head["title"])
    with rf.record(model=model.encoder) as trace:
        pass
    titles.append(view_of(trace).spec.head["title"])
    assert titles == [
        "G2P: beam search of “tongue” and 2 more, 3 beams, 9 steps",
        "Layer: 2 calls, “abcde” and 1 more",
        "Recording: 2 beam searches, 3 beams",
        "Encoder: attention, “aaa” and 1 more",
        "Recording",
    ]


OTHER = rf.Dim(7, name="other")
UNDRAWN = {  # each field holds what it may, and all of them together are nothing to draw
    "attention": lambda h: {"weights": h, "axis": OTHER}, "states": lambda h: {"weights": 3, "h": "no", "axis": OTHER},
    "outputs": lambda h: {"log_probs": h, "axis": OTHER}, "beams": lambda h: {"log_probs": h, "parents": h},
    "tokens": lambda h: {"ids": h, "axis": "x"},
}  # fmt: skip


@pytest.mark.parametrize("kind", UNDRAWN)
@pytest.mark.parametrize("way", ["made", "given"])
def test_an_event_that_cannot_be_drawn_is_one_line_and_the_others_are_drawn(kind, way):
    def odd():
        raise KeyError("odd one")

    batch, time, feature = rf.Dim(2, name="batch"), rf.Dim(3, name="time"), rf.Dim(4, name="feature")
    h = rf.random_normal([batch, time, feature])
    with rf.record() as trace:
        rf.probe("states", h=h, axis=time)
        with trace_context.scope("other"):
            if way == "made":
                probe_later(kind, Later(odd, 8))
            else:
                probe(kind, **UNDRAWN[kind](h))
        rf.probe("attention", weights=rf.softmax(h, axis=feature), axis=feature, target=time)
    text = view_of(trace).text()
    assert "h: feature=4" in text and "Attention: attention: sequence 0" in text
    assert way == "given" or text.count("KeyError: 'odd one'") == 1


@pytest.mark.parametrize("kind", ["module", "op", "mine"])
def test_an_odd_event_of_any_other_kind_leaves_the_views(kind):
    batch, time = rf.Dim(2, name="batch"), rf.Dim(3, name="time")
    with rf.record() as trace:
        rf.probe(kind, inputs=3, outputs="no", name=[1])
        rf.probe("states", h=rf.random_normal([batch, time]), axis=time)
    assert "States: loop" in view_of(trace).text()
    assert view_of(trace, kinds=kind).text()


def test_the_states_of_several_layers_are_named_by_what_their_paths_share():
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = torch.nn.LSTM(4, 4, num_layers=2, batch_first=True)

        def forward(self, x):
            return x + self.rnn(x)[0]

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.Sequential(Block(), Block())

        def forward(self, x):
            return self.blocks(x)

    model = Model()
    with torch.no_grad(), rf.record(model=model) as trace:
        model(torch.randn(1, 5, 4))
    [part] = [part for part in group.parts_of(view_of(trace).spec) if part.kind == "states"]
    assert part.head["title"] == "States: blocks"
    labels = [track["label"] for track in part.head["tracks"]]
    assert labels[:4] == ["0.rnn.l0.h", "0.rnn.l0.c", "0.rnn.l1.h", "0.rnn.l1.c"]
    assert len(set(labels)) == len(labels) and not any(" and " in label for label in labels)
