"""Labels of a recording: those that the call of a view has read along its dims, or numbers with a sentence where that is open."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf
from rfnb.viz.group import spec as group
from rfnb.viz.show import view_of

LETTERS = list("abcdefghi")
TAGS = ["DET", "NOUN", "VERB"]


class Reader(rf.Module):
    """Self-attention over embedded letters."""

    def __init__(self):
        self.vocab, self.width = rf.Dim(9, name="letters", vocab=LETTERS), rf.Dim(4, name="width")
        self.embed = rf.Embedding(self.vocab, self.width)
        self.tags = rf.Dim(3, name="tags", vocab=TAGS)
        self.embed_tags = rf.Embedding(self.tags, self.width)
        self.att = rf.SelfAttention(
            self.width, proj_dim=self.width, key_dim_total=rf.Dim(4), value_dim_total=rf.Dim(4), num_heads=1
        )

    def __call__(self, ids, axis, tags=None):
        x = self.embed(ids)
        x = x if tags is None else x + self.embed_tags(tags)
        return self.att(x, axis=axis)


@pytest.fixture
def setting():
    rf.set_random_seed(1)
    batch = rf.Dim(2, name="batch")
    time = rf.ragged_dim([4, 2], over=batch, name="time")
    return Reader(), batch, time


def ids(model, batch, time, first=0):
    raw = (np.arange(2 * time.extent, dtype=np.int32).reshape(2, -1) + first) % 9
    return rf.convert_to_tensor(raw, dims=[batch, time], sparse_dim=model.vocab)


def parts_of(trace, **options):
    return group.parts_of(view_of(trace, **options).spec)


def labels(part):
    return [seq["cols"] for seq in part.head["seqs"]]


FIRST, SECOND = [list("abcd"), list("ef")], [list("defg"), list("hi")]
NUMBERS = [list("0123"), list("01")]


def test_each_call_has_the_labels_that_it_has_read(setting):
    model, batch, time = setting
    with rf.record(kinds=["attention", "tokens"]) as trace:
        model(ids(model, batch, time), time)
        model(ids(model, batch, time, 3), time)
    one, two = parts_of(trace)
    assert (labels(one), labels(two)) == (FIRST, SECOND)
    assert [[seq["label"] for seq in part.head["seqs"]] for part in (one, two)] == [
        ["1: abcd", "2: ef"],
        ["1: defg", "2: hi"],
    ]
    assert "remark" not in one.head and "remark" not in two.head


def test_two_different_lists_along_a_dim_of_one_call_are_not_chosen_from(setting):
    model, batch, time = setting
    tags = rf.convert_to_tensor(
        np.array([[0, 1, 2, 0], [2, 1, 0, 0]], np.int32), dims=[batch, time], sparse_dim=model.tags
    )
    with rf.record(kinds=["attention", "tokens"]) as trace:
        model(ids(model, batch, time), time, tags)
    [part] = parts_of(trace)
    assert labels(part) == NUMBERS
    said = (
        "time has numbers: several lists of tokens were read along it at embed and embed_tags (“abcd” or “DET NOUN VERB DET”). "
        'To choose one: rf.show(trace, labels={"time": [...]})'
    )
    assert part.head["remark"] == said
    view = view_of(trace)
    for text in (view.text(), view.html()):
        assert "several lists of tokens were read" in " ".join(text.split())
    [part] = parts_of(trace, labels={"time": FIRST})
    assert labels(part) == FIRST and "remark" not in part.head


def test_what_is_read_again_in_the_same_words_is_not_open(setting):
    model, batch, time = setting
    again = ids(model, batch, time).copy()
    raw = again.numpy().copy()
    raw[1, 2:] = 8  # padding means nothing
    again = rf.convert_to_tensor(raw, dims=[batch, time], sparse_dim=model.vocab)
    with rf.record(kinds=["attention", "tokens"]) as trace:
        x = model.embed(ids(model, batch, time)) + model.embed(again)
        model.att(x, axis=time)
    [part] = parts_of(trace)
    assert [row[: len(want)] for row, want in zip(labels(part), FIRST)] == FIRST


def test_outside_of_one_call_what_was_read_before_is_open_once_it_differs(setting):
    """The modules of a model may be called one by one: then nothing says which of two batches was attended over."""
    model, batch, time = setting
    with rf.record(kinds=["attention", "tokens"]) as trace:
        for first in (0, 3):
            model.att(model.embed(ids(model, batch, time, first)), axis=time)
    one, two = parts_of(trace)
    assert labels(one) == FIRST and "remark" not in one.head  # nothing else was read before it
    assert labels(two) == NUMBERS and "(“abcd” or “defg”)" in two.head["remark"]
    assert [seq["label"] for seq in two.head["seqs"]] == ["sequence 0", "sequence 1"]


def test_tokens_outside_of_the_vocabulary_are_numbers_not_its_last_word(setting):
    model, batch, time = setting
    rows = np.array([[0, 12, -1, 8], [4, 5, 0, 0]], np.int32)
    with rf.record(kinds=["attention", "tokens"]) as trace:
        rf.probe("tokens", ids=rf.convert_to_tensor(rows, dims=[batch, time], sparse_dim=model.vocab))
        rf.probe("attention", weights=rf.softmax(rf.zeros([batch, time, model.width]), axis=time), axis=time)
    [part] = parts_of(trace)
    assert labels(part) == [["a", "12", "-1", "i"], ["e", "f"]]


def test_labels_of_another_batch_of_the_same_size_are_not_taken(setting):
    model, batch, _ = setting
    time, other = rf.Dim(4, name="time"), rf.Dim(2, name="batch")
    with rf.record(kinds=["attention", "tokens"]) as trace:
        rf.probe("tokens", ids=ids(model, batch, time))
        rf.probe("attention", weights=rf.softmax(rf.zeros([other, time, model.width]), axis=time), axis=time)
    [part] = parts_of(trace)
    assert labels(part) == [list("0123")] * 2 and part.head["seqs"][0]["label"] == "sequence 0"


def test_labels_follow_their_own_dim_where_two_of_the_same_size_count_sequences(setting):
    model, batch, _ = setting
    batch, speaker, time = rf.Dim(2, name="batch", kind="batch"), rf.Dim(2, name="speaker"), rf.Dim(4, name="time")
    time = rf.ragged_dim([4, 2], over=speaker, name="time")
    with rf.record(kinds=["attention", "tokens"]) as trace:
        rf.probe("tokens", ids=ids(model, speaker, time))
        rf.probe("attention", weights=rf.softmax(rf.zeros([batch, speaker, time, model.width]), axis=time), axis=time)
    [part] = parts_of(trace)
    found = {seq["label"]: seq["cols"] for seq in part.head["seqs"]}
    assert len(found) == 4
    assert all(cols == FIRST[int(label[-1])] for label, cols in found.items()), found


def test_a_dim_of_the_same_name_and_lengths_is_another_one(setting):
    model, batch, time = setting
    other = rf.ragged_dim([4, 2], over=batch, name="time")
    with rf.record(kinds=["attention", "tokens"]) as trace:
        model(ids(model, batch, time), time)
        rf.probe("attention", weights=rf.softmax(rf.zeros([batch, other, model.width]), axis=other), axis=other)
    one, two = parts_of(trace)
    assert labels(one) == FIRST and labels(two) == NUMBERS
    assert (one.head["col_axis"], two.head["col_axis"]) == ("time", "time 2")  # no link between them either


def test_what_a_loop_writes_labels_its_own_steps_and_not_those_of_the_next_run():
    vocab, batch = rf.Dim(9, name="letters", vocab=LETTERS), rf.Dim(2, name="batch")
    time, unit = rf.Dim(3, name="time"), rf.Dim(4, name="unit")
    x = rf.ones([batch, time, unit])

    def run(first, write=True):
        loop = rf.Loop(axis=time, name="loop")
        loop.state.h = rf.zeros([batch, unit])
        out = None
        for _ in loop:
            loop.state.h = loop.state.h + loop.unstack(x)
            label = rf.cast(rf.reduce_max(loop.state.h, axis=unit), "int32") + first
            label.sparse_dim = vocab
            if write:
                out = loop.stack(label)
        return out

    with rf.record(kinds=["states", "tokens"]) as trace:
        run(0), run(0, write=False), run(3)
    steps = [[seq["steps"] for seq in part.head["seqs"]] for part in parts_of(trace)]
    assert steps[0] == [list("bcd")] * 2 and steps[2] == [list("efg")] * 2
    assert steps[1] == [list("012")] * 2


def test_labels_and_calls_stay_in_a_file(setting, tmp_path):
    model, batch, time = setting
    with rf.record(kinds=["attention", "tokens"], model=model) as trace:
        model(ids(model, batch, time), time)
        model(ids(model, batch, time, 3), time)
    trace.save(tmp_path / "run.rfnb")
    again = rf.load_trace(tmp_path / "run.rfnb")
    assert [labels(part) for part in parts_of(again)] == [FIRST, SECOND]
    assert again.model == "Reader" and view_of(again).spec.head["title"] == view_of(trace).spec.head["title"]


class Texts:
    """A tokenizer as those of transformers, of nine tokens."""

    def __len__(self):
        return 9

    def convert_ids_to_tokens(self, index):
        return f"<{index}>"


@pytest.fixture
def numbered(setting):
    """A recording in which the text of what was read is not known."""
    model, batch, time = setting
    model.vocab.vocab = None
    with rf.record() as trace:
        model(ids(model, batch, time), time)
    return trace


def test_tokens_label_all_axes_with_as_many_positions(numbered):
    for given in ({"tokens": list("wxyz")}, {"labels": list("wxyz")}, {"tokens": {"time": list("wxyz")}}):
        (part,) = parts_of(numbered, **given)
        assert labels(part) == [list("wxyz"), list("wx")]
        assert [seq["rows"] for seq in part.head["seqs"]] == labels(part)
        assert "has numbers" not in part.head.get("remark", "")
    assert labels(parts_of(numbered, tokens=[list("wxyz"), list("uv")])[0]) == [list("wxyz"), list("uv")]


def test_a_tokenizer_writes_the_text_of_what_was_read(numbered):
    assert labels(parts_of(numbered, tokenizer=Texts())[0]) == [["<0>", "<1>", "<2>", "<3>"], ["<4>", "<5>"]]
    assert labels(parts_of(numbered, tokenizer=LETTERS)[0]) == [list("abcd"), list("ef")]
    (part,) = parts_of(numbered)
    assert labels(part) == NUMBERS
    assert part.head["remark"] == "time has numbers: rf.show(trace, tokenizer=tokenizer) writes the text of its tokens."


def test_tokens_that_no_axis_has_room_for_are_refused_with_those_that_there_are(numbered):
    with pytest.raises(ValueError) as caught:
        view_of(numbered, tokens=list("abc"))
    assert str(caught.value) == (
        "show: no axis has as many positions as there are tokens.\n"
        "  tokens  3\n"
        "  time    4\n"
        "Tokens label the axes with as many positions; a dict declares which ones.\n"
        '    rf.show(trace, tokens={"time": [...]})'
    )
    with pytest.raises(ValueError, match="the tokenizer has more tokens than the model"):
        view_of(numbered, tokenizer=[*LETTERS, "j"])
    with pytest.raises(TypeError, match="show: these are no labels"):
        view_of(numbered, tokenizer=3)


def test_sound_is_above_the_attention_to_what_has_no_tokens(numbered):
    samples = np.sin(np.arange(8000) * 0.1)
    (part,) = parts_of(numbered, samples=[samples, samples[:4000]], sampling_rate=8000)
    assert part.head["rail"]["label"].startswith("log-mel spectrogram, 0 to 4 kHz")
    assert "rail" not in parts_of(numbered, samples=[samples, samples], sampling_rate=8000, tokenizer=LETTERS)[0].head
    with pytest.raises(ValueError, match="samples without sampling_rate"):
        view_of(numbered, samples=[samples, samples])


def test_an_unknown_option_is_named_with_those_that_there_are(numbered):
    with pytest.raises(TypeError) as caught:
        view_of(numbered, token=list("abcd"))
    for words in ('there is no argument "token"', "[tokens], [tokenizer], [samples]", "rf.show(trace"):
        assert words in str(caught.value)
    for drawn in (view_of(numbered), view_of(numbered).spec):
        with pytest.raises(TypeError, match=f"show: a {type(drawn).__name__} takes no tokens"):
            view_of(drawn, tokens=list("abcd"))
