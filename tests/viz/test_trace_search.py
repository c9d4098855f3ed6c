"""Views of what was recorded in the steps of a search: of the best hypothesis, wherever in the beam it was."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf
from rfnb.trace.probe import trace_context
from rfnb.viz.group import spec as group
from rfnb.viz.show import view_of

END, BEGIN = 5, 4


class Decoder(rf.Module):
    """An LSTM over labels, and the logits of the next one."""

    def __init__(self):
        self.vocab = rf.Dim(6, name="vocab", vocab=["A", "B", "C", "D", "<s>", "</s>"])
        self.embed = rf.Embedding(self.vocab, rf.Dim(5, name="width"))
        self.lstm = rf.LSTM(self.embed.out_dim, rf.Dim(7, name="unit"))
        self.output = rf.Linear(self.lstm.out_dim, self.vocab)

    def __call__(self, labels, state, spatial_dim):
        out, state = self.lstm(self.embed(labels), state=state, spatial_dim=spatial_dim)
        return self.output(out), state


def search(seed: int):
    """A recorded search for two sequences; gives the model, the batch dim, the start of each, and the trace."""
    rf.set_random_seed(seed)
    model, batch = Decoder(), rf.Dim(2, name="batch")
    start = model.lstm.default_initial_state(batch_dims=[batch])
    start.h = rf.random_normal([batch, model.lstm.out_dim])
    with rf.record(kinds=["beams", "states", "outputs", "tokens"], model=model) as trace:
        loop = rf.Loop(max_seq_len=7, name="search")
        loop.state.label = rf.constant(BEGIN, dims=[batch], dtype="int64", sparse_dim=model.vocab)
        loop.state.lstm = start
        for _ in loop:
            logits, loop.state.lstm = model(loop.state.label, loop.state.lstm, rf.single_step_dim)
            logits = logits * 2.0
            rf.probe("outputs", logits=logits, axis=model.vocab)
            label = rf.choice(rf.log_softmax(logits, axis=model.vocab), axis=model.vocab, beam_size=4)
            loop.state.label = label
            loop.end(label == END, include_eos=True)
    return model, batch, start, trace


def best_slots(trace, seq):
    return [slot for _, slot in trace.beams["search"].best(seq).path]


@pytest.fixture(scope="module")
def wandering():
    """A search whose best hypothesis is in slot 2 at step 3 in one of the sequences, so that following a slot shows others."""
    for seed in range(400):
        made = search(seed)
        slots = [best_slots(made[-1], seq) for seq in range(2)]
        if any(len(own) > 4 and own[3] == 2 for own in slots) and all(len(own) > 2 for own in slots):
            return made
    raise AssertionError("no such search was found")


def teacher_forced(model, batch, start, tokens, seq):
    """The values of the model along the labels of one hypothesis, without any search."""
    time = rf.Dim(len(tokens), name="time")
    rows = np.array([[BEGIN, *tokens[:-1]]] * 2)
    ids = rf.convert_to_tensor(rows, dims=[batch, time], sparse_dim=model.vocab)
    with rf.record(kinds="states") as trace:
        logits, _ = model(ids, start, time)
    [states] = trace.states.runs(next(iter(trace.states)))
    one = lambda x: x.copy_transpose([batch, time, *x.remaining_dims([batch, time])]).numpy()[seq]  # noqa: E731
    return {name: one(value) for name, value in states.items()}, one(logits * 2.0)


def part_of(trace, kind):
    [part] = [part for part in group.parts_of(view_of(trace).spec) if part.kind == kind]
    return part


def test_states_and_gates_are_those_of_the_best_hypothesis_and_not_of_a_slot(wandering):
    model, batch, start, trace = wandering
    part = part_of(trace, "states")
    tracks = {track["label"]: track for track in part.head["tracks"]}
    assert {"lstm.gates.input_gate", "lstm.gates.forget_gate", "lstm.gates.output_gate"} <= set(tracks)
    assert part.head["title"] == "States: lstm.gates and search, best hypothesis" and part.head["best"]
    wrong = 0
    for seq in range(2):
        best = trace.beams["search"].best(seq)
        want, _ = teacher_forced(model, batch, start, best.tokens, seq)
        for label, track in tracks.items():
            name = label.removeprefix("lstm.gates.").removeprefix("search.lstm.")
            block = part.blocks[track["block"]][seq]
            np.testing.assert_allclose(block[: len(best.tokens)], want[name], atol=1e-5, err_msg=label)
            assert np.isnan(block[len(best.tokens) :]).all()
            slot0 = part.blocks[track["slots"]][seq, : len(best.tokens), 0]
            wrong += not np.allclose(slot0, want[name], atol=1e-5)
        assert part.head["seqs"][seq]["steps"] == list(best.labels)
    assert wrong  # that it is the slot of the hypothesis matters


def test_the_rows_of_all_other_hypotheses_are_there_to_choose_from(wandering):
    """A page picks one slot for each step: gates are in that before the choice, states in that after it."""
    model, batch, start, trace = wandering
    part, history = part_of(trace, "states"), trace.beams["search"]
    seen = 0
    for seq in range(2):
        for item in history.nbest(seq):
            want, _ = teacher_forced(model, batch, start, item.tokens, seq)
            after = [slot for _, slot in item.path]
            before = [int(history.steps[step]["parents"][seq, slot]) for step, slot in item.path]
            for track in part.head["tracks"]:
                name = track["label"].removeprefix("lstm.gates.").removeprefix("search.lstm.")
                assert bool(track.get("before")) == track["label"].startswith("lstm.gates.")
                slots = before if track.get("before") else after
                rows = part.blocks[track["slots"]][seq, np.arange(len(slots)), slots]
                np.testing.assert_allclose(rows, want[name], atol=1e-5)
                seen += 1
    assert seen > 20


def test_outputs_are_those_that_the_best_hypothesis_was_chosen_by(wandering):
    model, batch, start, trace = wandering
    part = part_of(trace, "distribution")
    assert part.head["title"] == "Output: search, best hypothesis"
    for seq in range(2):
        best = trace.beams["search"].best(seq)
        _, logits = teacher_forced(model, batch, start, best.tokens, seq)
        want = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        count = len(best.tokens)
        top = part.blocks["top"][seq, :count]
        np.testing.assert_array_equal(top[:, 0], want.argmax(-1))
        np.testing.assert_allclose(
            part.blocks["top_log_probs"][seq, :count], np.take_along_axis(want, top, -1), atol=1e-4
        )
        assert part.head["seqs"][seq]["steps"] == list(best.labels) and (part.blocks["top"][seq, count:] == -1).all()


def test_all_views_of_a_search_run_over_the_same_axis_and_call_it_the_same(wandering):
    *_, trace = wandering
    states, output = part_of(trace, "states"), part_of(trace, "distribution")
    beams = part_of(trace, "beams")
    assert states.head["axis"] == output.head["axis"] == beams.head["axis"] != ""
    assert {part.head["batch"] for part in (states, output, beams)} == {""}
    assert states.head["step_dim"]["name"] == output.head["step_dim"]["name"] == "step"


def test_what_runs_between_two_choices_of_a_step_is_in_slots_and_says_so():
    vocab, batch, unit = rf.Dim(4, name="vocab"), rf.Dim(2, name="batch"), rf.Dim(3, name="unit")
    rf.set_random_seed(3)
    table = rf.random_normal([batch, vocab, unit])
    with rf.record(kinds=["beams", "states"]) as trace:
        loop = rf.Loop(max_seq_len=3, name="search")
        loop.state.h = rf.random_normal([batch, unit])
        for _ in loop:
            one = rf.choice(
                rf.log_softmax(rf.matmul(table, loop.state.h, reduce=unit), axis=vocab), axis=vocab, beam_size=2
            )
            h = rf.gather(table, indices=one, axis=vocab)
            with trace_context.scope("between"):
                rf.probe("states", between=h)
            two = rf.choice(rf.log_softmax(rf.matmul(table, h, reduce=unit), axis=vocab), axis=vocab, beam_size=3)
            loop.state.h = rf.gather(table, indices=two, axis=vocab)
            loop.end(two == 3, include_eos=True)
    parts = [part for part in group.parts_of(view_of(trace).spec) if part.kind == "states"]
    between = [part for part in parts if any(track["label"].endswith("between") for track in part.head["tracks"])]
    assert len(between) == 1 and "best" not in between[0].head
    assert between[0].head["remark"].startswith("These are slots of the beam, not hypotheses")


def test_in_a_step_that_goes_on_the_rows_so_far_are_of_the_best_hypothesis(wandering):
    """While it is live the newest values are there before the choice of their step is."""
    *_, trace = wandering
    last = [event for event in trace.by_path("beams")["search"] if event.step == 1][0]
    short = rf.Trace()
    for event in trace.events:
        if event.index == last.index:
            break
        short._keep(event)
    states, output = part_of(short, "states"), part_of(short, "distribution")
    assert states.head["best"] and output.head["title"].endswith("best hypothesis")
    for part in (states, output):
        assert [len(seq["steps"]) for seq in part.head["seqs"]] == [1, 1]
        assert [seq["label"] for seq in part.head["seqs"]] == ["sequence 0", "sequence 1"]


def test_a_recording_of_some_steps_only_is_drawn():
    rf.set_random_seed(1)
    vocab, batch, frames = rf.Dim(5, name="vocab"), rf.Dim(2, name="batch"), rf.Dim(5, name="frames")
    table = rf.log_softmax(rf.random_normal([batch, vocab, frames]), axis=vocab)

    def step(labels, state):
        weights = rf.replace_dim(rf.one_hot(labels), in_dim=vocab, out_dim=frames)[0]
        rf.probe("attention", weights=weights, axis=frames)
        return rf.matmul(table, weights, reduce=frames), state

    options = {"batch": [batch], "axis": vocab, "end_label": 4, "start_label": 3, "max_seq_len": 6, "beam_size": 3}
    with rf.record(kinds=["attention", "beams"], steps=range(2)) as trace:
        rf.beam_search(step, **options)
    parts = group.parts_of(view_of(trace).spec)
    assert [part.kind for part in parts] == ["beams", "attention"]
    with rf.record(kinds=["attention", "beams"], steps=lambda step: step != 1) as trace:
        rf.beam_search(step, **options)
    assert view_of(trace).text()
