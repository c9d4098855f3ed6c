"""The axes of a torch model's tensors get dims: guessed correctly, corrected, or given by the user."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn

import rfnb as rf
from rfnb.core.dim import Dim


def dims_of(trace, path, side="outputs", number=0, call=0):
    """The dims of an input or output of a call, as text."""
    tensor = trace.modules[path][call].values[side][number][1]
    return [dim.short_repr() for dim in tensor.dims]


def tensor_of(trace, path, side="outputs", number=0, call=0):
    return trace.modules[path][call].values[side][number][1]


class Tagger(nn.Module):
    """Embedding, an LSTM, labels."""

    def __init__(self, batch_first=True):
        super().__init__()
        self.embedding, self.lstm = nn.Embedding(11, 8), nn.LSTM(8, 6, batch_first=batch_first)
        self.norm, self.out = nn.LayerNorm(6), nn.Linear(6, 5)

    def forward(self, ids, attention_mask=None):
        return self.out(self.norm(self.lstm(self.embedding(ids))[0] * 2.0))


class Seq2Seq(nn.Module):
    """An encoder and a decoder that attends."""

    def __init__(self, batch_first=True):
        super().__init__()
        self.source, self.target = nn.Embedding(11, 8), nn.Embedding(13, 8)
        self.transformer = nn.Transformer(8, 2, 1, 1, 16, batch_first=batch_first)

    def forward(self, src, tgt, src_key_padding_mask=None):
        return self.transformer(self.source(src), self.target(tgt), src_key_padding_mask=src_key_padding_mask)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(1)


def ids(*shape, most=11):
    return torch.randint(0, most, shape)


@pytest.mark.parametrize("batch_first", [True, False])
def test_axes_are_named_as_the_modules_say(batch_first):
    model = Tagger(batch_first)
    with rf.record(model=model) as trace:
        model(ids(3, 7) if batch_first else ids(7, 3))
    order = ["batch=3", "time=7"] if batch_first else ["time=7", "batch=3"]
    assert dims_of(trace, "embedding", "inputs") == order
    assert dims_of(trace, "norm") == [*order, "feature=6"]
    assert dims_of(trace, "out") == [*order, "feature=5"]


@pytest.mark.parametrize("batch_first", [True, False])
def test_equal_sizes_of_batch_time_and_feature_are_told_apart(batch_first):
    model = Tagger(batch_first)
    with rf.record(model=model) as trace:
        model(ids(6, 6))
    order = ["batch=6", "time=6"] if batch_first else ["time=6", "batch=6"]
    assert dims_of(trace, "norm", "inputs") == [*order, "feature=6"]
    assert tensor_of(trace, "norm").dims == tensor_of(trace, "lstm").dims


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(("source", "target"), [(7, 5), (5, 5), (3, 3)])
def test_source_and_target_are_two_dims_whatever_their_sizes(batch_first, source, target):
    model = Seq2Seq(batch_first).eval()
    shapes = [(3, source), (3, target)] if batch_first else [(source, 3), (target, 3)]
    with rf.record(model=model) as trace:
        model(*(ids(*shape) for shape in shapes))
    src, tgt = (
        next(d for d in tensor_of(trace, name, "inputs").dims if d.kind == "spatial") for name in ("source", "target")
    )
    assert (src.name, tgt.name) == ("source", "target") and src is not tgt
    layer = "decoder.layers.0"
    assert tgt in tensor_of(trace, f"{layer}.linear1").dims and src not in tensor_of(trace, f"{layer}.linear1").dims
    attended = f"{layer}.multihead_attn"
    assert tgt in tensor_of(trace, attended, "inputs", 0).dims and src in tensor_of(trace, attended, "inputs", 1).dims


def test_views_of_the_same_memory_keep_dims_of_equal_sizes():
    class Turned(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Identity(), nn.Identity()

        def forward(self, x):
            return self.second(self.first(x).transpose(0, 1))

    model = Turned()
    with rf.record(model=model) as trace:
        model(torch.zeros(4, 4, 4))
    batch, time, feature = tensor_of(trace, "first").dims
    assert tensor_of(trace, "second").dims == (time, batch, feature)


def test_a_guess_is_marked_until_a_module_says_it():
    model = nn.Sequential(nn.Tanh(), nn.LSTM(4, 6))  # time first
    with rf.record(model=model) as trace:
        model[0](torch.zeros(7, 3, 4))
    assert all(dim.guessed for dim in tensor_of(trace, "0").dims)
    assert "guessed: rf.record(dims=" in rf.viz.dims(trace).text()
    with rf.record(model=model) as trace:
        model(torch.zeros(7, 3, 4))
    assert dims_of(trace, "0") == ["time=7", "batch=3", "feature=4"]
    assert not any(dim.guessed for dim in tensor_of(trace, "0").dims)
    assert "guessed" not in rf.viz.dims(trace).text()


def test_dims_survive_from_one_outermost_call_to_the_next():
    encoder, decoder = nn.Linear(4, 8), nn.TransformerDecoderLayer(8, 2, 16, batch_first=True).eval()
    with rf.record(model={"encoder": encoder, "decoder": decoder}) as trace:
        memory = encoder(torch.randn(3, 5, 4))
        for steps in (1, 2, 5):
            decoder(torch.randn(3, steps, 8), memory)
    batch, time, feature = tensor_of(trace, "encoder").dims
    for call in range(3):
        assert tensor_of(trace, "decoder", "inputs", 1, call).dims == (batch, time, feature)
        tgt = tensor_of(trace, "decoder", "inputs", 0, call).dims
        assert tgt[0] is batch and tgt[1] is not time and tgt[2] is feature


# -- said by the user ------------------------------------------------------------------------------------------------------------


class Encoder(nn.Module):
    def forward(self, src, other=None):
        return src * 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()

    def forward(self, x):
        return self.encoder(x + 1)


@pytest.mark.parametrize("given", [["batch", "frame", "mel"], "batch frame mel"])
def test_the_user_names_the_first_input_and_the_result(given):
    model = Model()
    with rf.record(model=model, dims={"encoder": given}) as trace:
        model(torch.zeros(3, 7, 2))
    assert dims_of(trace, "encoder", "inputs") == dims_of(trace, "encoder") == ["batch=3", "frame=7", "mel=2"]
    assert tensor_of(trace, "encoder", "inputs").dims == tensor_of(trace, "encoder").dims
    assert not any(dim.guessed for dim in tensor_of(trace, "encoder").dims)


@pytest.mark.parametrize(
    "given",
    [
        {"encoder.src": "frame batch mel", "encoder.output": "frame batch mel"},
        {"enc*": {"src": "frame batch mel", "output": "... mel"}},
    ],
)
def test_the_user_names_inputs_by_their_name_and_modules_by_a_pattern(given):
    model = Model()
    with rf.record(model=model, dims=given) as trace:
        model(torch.zeros(3, 7, 2))
    assert dims_of(trace, "encoder", "inputs") == ["frame=3", "batch=7", "mel=2"]
    assert dims_of(trace, "encoder")[-1] == "mel=2"


def test_the_user_gives_dims_with_lengths():
    batch = Dim(3, name="batch", kind="batch")
    time = rf.ragged_dim([7, 4, 5], over=batch, name="time")
    model = Tagger()
    with rf.record(model=model, dims={"": [batch, time]}) as trace:
        model(ids(3, 7))
    assert tensor_of(trace, "norm").dims[:2] == (batch, time)


def test_names_that_do_not_fit_end_the_run_and_say_why():
    model = Model()
    with rf.record(model=model, dims={"encoder": ["batch", "time"]}), pytest.raises(rf.ShapeError) as error:
        model(torch.zeros(3, 7, 2))
    assert str(error.value) == (
        'record: dims of "encoder": the names do not fit the array.\n'
        "  array  (3, 7, 2)\n"
        "  names  batch time\n"
        'There is one name per axis; "..." stands for any further ones, "(heads dim)" for one axis that is both.\n'
        '    rf.record(model=model, dims={"encoder": "batch time axis2"})'
    )
    assert not any("forward" in vars(module) for module in model.modules())


def test_an_unknown_path_is_an_error_at_the_start():
    with pytest.raises(ValueError) as error, rf.record(model=Model(), dims={"encodr": ["batch"]}):
        pass
    assert str(error.value) == (
        'record: dims are given for "encodr", but no module has this path.\n'
        "  modules  encoder\n"
        'A path is one of `model.named_modules()`, the end of one, or a pattern; the name of an input may follow ("encoder.src").\n'
        '    rf.record(model=model, dims={"encoder": ["batch", "time", "feature"]})'
    )


def test_an_unknown_input_is_an_error_at_the_start():
    with pytest.raises(ValueError) as error, rf.record(model=Model(), dims={"encoder": {"source": "batch time"}}):
        pass
    assert str(error.value) == (
        'record: dims are given for "source" of "encoder", which has no such input.\n'
        "  module  Encoder\n"
        "  inputs  src, other\n"
        'An input has the name of the parameter of `forward`; the result is "output".\n'
        '    rf.record(model=model, dims={"encoder": {"src": [...]}})'
    )


# -- lengths -------------------------------------------------------------------------------------------------------------------


def mask_of(lengths, most=None, left=False):
    most = most or max(lengths)
    rows = [[1] * length + [0] * (most - length) for length in lengths]
    return torch.tensor([row[::-1] if left else row for row in rows])


def test_an_attention_mask_gives_lengths():
    model = Tagger()
    with rf.record(model=model) as trace:
        model(ids(3, 7), mask_of([7, 5, 4]))
    _, time, _ = tensor_of(trace, "norm").dims
    assert list(time.lengths) == [7, 5, 4]
    assert tensor_of(trace, "", "inputs", 0).dims[1] is time


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("as_float", [True, False])
def test_a_padding_mask_is_true_at_padding(batch_first, as_float):
    model = Seq2Seq(batch_first).eval()
    padding = mask_of([5, 2, 4]) == 0
    if as_float:
        padding = torch.zeros(3, 5).masked_fill(padding, -torch.inf)
    turned = (lambda x: x) if batch_first else (lambda x: x.t())
    with rf.record(model=model) as trace:
        model(turned(ids(3, 5)), turned(ids(3, 5)), src_key_padding_mask=padding)
    src = next(d for d in tensor_of(trace, "encoder.layers.0").dims if d.kind == "spatial")
    tgt = next(d for d in tensor_of(trace, "decoder.layers.0").dims if d.kind == "spatial")
    assert list(src.lengths) == [5, 2, 4] and tgt.size == 5
    assert src in tensor_of(trace, "decoder.layers.0.multihead_attn", "inputs", 1).dims


def test_lengths_that_are_given_as_numbers():
    class PaddedInputs(nn.Module):
        def forward(self, x, lengths):
            return x * 2

    model = PaddedInputs()
    with rf.record(model=model) as trace:
        model(torch.zeros(3, 7, 2), torch.tensor([7, 3, 5]))
    assert list(tensor_of(trace, "").dims[1].lengths) == [7, 3, 5]


def test_padding_on_the_left_makes_no_lengths_and_the_view_says_so():
    model = Tagger()
    with rf.record(model=model) as trace:
        model(ids(3, 7), mask_of([7, 5, 4], left=True))
    assert tensor_of(trace, "norm").dims[1].size == 7
    assert "no lengths: attention_mask has padding before the end" in rf.viz.dims(trace).text()


def test_a_mask_that_is_longer_than_the_longest_sequence_makes_no_lengths():
    model = Tagger()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rf.record(model=model) as trace:
            model(ids(3, 7), mask_of([6, 5, 4], 7))
    assert tensor_of(trace, "norm").dims[1].size == 7


def test_why_says_the_rule_that_named_each_axis(capsys):
    with rf.record(model=Tagger(), why=True):
        Tagger()  # nothing of it
    assert capsys.readouterr().out == "No axis of a torch model was named.\n"
    model = Tagger()
    with rf.record(model=model, why=True):
        model(ids(3, 7))
    assert capsys.readouterr().out == (
        "The rule that named each axis:\n"
        "  -          batch=3 new?, time=7 new?\n"
        "  embedding  batch=3 module?, time=7 module?, feature=8 size\n"
        "  lstm       batch=3 memory, time=7 memory, feature=8 memory\n"
        "  lstm       batch=3 module, time=7 module, feature=6 size\n"
        "  lstm       layer=1 size, batch=3 module, feature=6 size\n"
        "  norm       batch=3 input, time=7 input, feature=6 size\n"
        "  out        batch=3 module, time=7 module, feature=5 size\n"
        "module  This kind of module, or what it computes, has its axes in this order.\n"
        "memory  The same memory in the same layout: its guessed name has been confirmed.\n"
        "input   An input of this call, or of an enclosing one, has a dim of this size: at this position, of this kind, or the first one.\n"
        "size    The model has one dim with this name and size.\n"
        "new     No dim of this kind and size is known: a new one, named after the module or an input, or by the number of axes.\n"
        "?       The name is a guess; to set it: dims={path: names}.\n"
    )


def test_why_says_what_the_user_said_and_is_silent_without_being_asked(capsys):
    model = Tagger()
    with rf.record(model=model, dims={"embedding": "batch letter"}, why=True), rf.record(model=model):
        model(ids(3, 7))
    out = capsys.readouterr().out
    assert "  embedding  batch=3 dims=, letter=7 dims=\n" in out and out.count("The rule that named") == 1
    with rf.record(model=model, dims={"embedding": "batch letter"}):
        model(ids(3, 7))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("second", ["letter", "time", "position"])
def test_a_name_for_the_time_of_tokens_stays_behind_what_hides_the_memory(second):
    """A product by 2 is no view of it: the axis is found by its size, as one of the data."""
    model = Tagger()
    with rf.record(model=model, dims={"embedding": ["batch", second]}) as trace:
        model(ids(3, 7))
    assert [dims_of(trace, path)[1] for path in ("embedding", "lstm", "norm", "out")] == [f"{second}=7"] * 4


class Summed(nn.Module):
    """Two sequences that enter torch's Transformer as sums, whose memory tells nothing."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(9, 8), nn.Embedding(20, 8)
        self.both = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True, norm_first=True)

    def embed(self, ids):
        return self.words(ids) + self.places(torch.arange(ids.shape[1]))


class SourceTarget(Summed):
    def forward(self, source, target):
        return self.both(self.embed(source), self.embed(target))


class WordsLabels(Summed):
    def forward(self, words, labels):
        return self.both(self.embed(words), self.embed(labels))


@pytest.mark.parametrize(("kind", "source"), [(SourceTarget, "source"), (WordsLabels, "time")])
@pytest.mark.parametrize("sizes", [(1, 5, 5), (3, 5, 4), (5, 5, 5)])
def test_equally_long_sources_and_targets_that_enter_as_sums_are_followed_to_where_they_begin(kind, source, sizes):
    batch, sources, targets = sizes
    model = kind().eval()
    with torch.no_grad(), rf.record(model=model) as trace:
        model(torch.randint(9, (batch, sources)), torch.randint(9, (batch, targets)))
    names = {path: [dim.name for dim in trace.attention[path].dims] for path in trace.attention}
    target = "target" if kind is SourceTarget or sources == targets else "time"
    assert names == {
        "both.encoder.layers.0.self_attn": ["batch", "head", source, source],
        "both.decoder.layers.0.self_attn": ["batch", "head", target, target],
        "both.decoder.layers.0.multihead_attn": ["batch", "head", target, source],
    }
    cross = trace.attention["both.decoder.layers.0.multihead_attn"].dims
    assert (cross[2].twin_of or cross[2]) is not (cross[3].twin_of or cross[3])


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.back = nn.Linear(4, 6), nn.Linear(6, 6)

    def forward(self, x, h):
        return torch.tanh(self.up(x) + self.back(h))


class TimeFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.embed = Cell(), nn.Embedding(9, 4)

    def forward(self, x):
        h = torch.zeros(x.shape[1], 6)
        for t in range(len(x)):
            h = self.step(x[t], h)
        return h

    def step(self, x, h):
        return self.cell(x, h)


class TorchCell(TimeFirst):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 6)


class InputEmbedding(TimeFirst):
    def step(self, x, h):
        return self.cell(self.embed(x), h)


class InLine(TimeFirst):
    def forward(self, x):
        h = torch.zeros(x.shape[1], 6)
        for frame in x.unbind(0):
            h = torch.tanh(self.cell.up(frame) + self.cell.back(h))
        return h


class BatchFirst(TimeFirst):
    def forward(self, x):
        h = torch.zeros(x.shape[0], 6)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return h


class OneByOne(TimeFirst):
    """Sequences one after the other: no state passes from one to the next."""

    def forward(self, x):
        return torch.stack([self.cell.up(sequence) for sequence in x])


@pytest.mark.parametrize(
    ("kind", "first"),
    [(TimeFirst, "time"), (TorchCell, "time"), (InputEmbedding, "time"), (InLine, "time"), (BatchFirst, "batch"),
     (OneByOne, "batch")],
)  # fmt: skip
def test_the_axis_that_a_loop_reads_step_by_step_is_time(kind, first):
    model = kind().eval()
    x = torch.randint(9, (5, 3)) if kind is InputEmbedding else torch.randn(5, 3, 4)
    with torch.no_grad(), rf.record(model=model) as trace:
        model(x)
    dims = trace.modules[""][0].values["inputs"][0][1].dims
    assert [dim.name for dim in dims[:2]] == [first, {"time": "batch", "batch": "time"}[first]]
    for path in trace.states:
        for value in trace.states[path].values():
            assert [dim.name for dim in value.dims] == ["step", "batch", "feature"]
    if kind is not OneByOne:
        assert trace.states


def test_views_say_which_names_are_guesses():
    model, x = TimeFirst(), torch.randn(5, 3, 4)
    with torch.no_grad(), rf.record(model=model) as trace:
        model(x)
    assert trace.guessed == "batch, time"
    assert "guessed names: batch, time" in rf.show(trace).text().split("\n\n")[0].replace("\n    ", " ")
    assert "Guessed names of axes: batch, time." in trace.summary()
    with torch.no_grad(), rf.record(model=model, dims={"": ["time", "batch", "feature"]}) as trace:
        model(x)
    assert trace.guessed == "" and "uessed" not in rf.show(trace).text()
