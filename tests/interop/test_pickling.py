"""Whole objects through pickle, torch.save, other processes and copies; what belongs to a running loop is refused."""

import copy
import io
import multiprocessing
import pickle

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn
from ngram_models import random_arpa

import rfnb as rf
from rfnb import Dim

BATCH, FEAT, OUT = Dim(2, name="batch"), Dim(3, name="feat"), Dim(4, name="out")


def through_pickle(value):
    return pickle.loads(pickle.dumps(value))


def through_torch(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


class Net(rf.Module):
    def __init__(self):
        self.layers = rf.Sequential(rf.Linear(FEAT, OUT), rf.relu, rf.LayerNorm(OUT))
        self.shared = rf.Linear(OUT, OUT.copy(match_priority=1))
        self.again = rf.ModuleList([self.shared])

    def __call__(self, x):
        return self.shared(self.layers(x))


def values_of(model):
    return {name: parameter.numpy().tolist() for name, parameter in model.named_parameters()}


MODELS = {
    "net": Net,
    "conformer": lambda: rf.ConformerEncoder(FEAT, Dim(4, name="model"), num_layers=2, num_heads=2, input_layer=None),
    "transformer": lambda: rf.TransformerDecoder(
        encoder_dim=FEAT, vocab_dim=Dim(7, name="vocab"), model_dim=Dim(4, name="model"), num_layers=1, num_heads=2
    ),
    "lstm": lambda: rf.LSTM(FEAT, OUT),
    "zoneout": lambda: rf.ZoneoutLSTM(FEAT, OUT, zoneout_factor_cell=0.1),
    "batch norm": lambda: rf.BatchNorm(FEAT),
    "noisy": lambda: rf.weight_noise(rf.Linear(FEAT, OUT), "weight", std=0.1),
    "dict": lambda: rf.net_from_dict(
        {"l": {"class": "linear", "n_out": 5, "activation": "tanh"}, "output": {"class": "rec", "unit": "lstm", "n_out": 3, "from": "l"}},
        {"data": {"dim": 3}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("through", [through_pickle, through_torch, copy.deepcopy])
@pytest.mark.parametrize("name", MODELS)
def test_a_model_comes_back_with_names_paths_and_values(name, through):
    model = MODELS[name]()
    loaded = through(model)
    assert type(loaded).__name__ == type(model).__name__
    assert values_of(loaded) == values_of(model) and values_of(model)
    paths = [[module.module_path for module in one.modules()] for one in (model, loaded)]
    assert paths[0] == paths[1]
    assert not {id(p) for p in loaded.parameters()} & {id(p) for p in model.parameters()}


def test_a_loaded_model_computes_the_same_with_loaded_dims():
    model, x = Net(), randn(BATCH, FEAT)
    loaded, feat, batch = through_pickle((model, FEAT, BATCH))
    out = loaded(rf.convert_to_tensor(x.numpy(), dims=[batch, feat]))
    assert out.numpy().tolist() == model(x).numpy().tolist()


def test_what_is_shared_in_a_model_stays_shared_and_has_its_path():
    loaded = through_pickle(Net())
    assert loaded.again[0] is loaded.shared and loaded.shared.module_path == "shared"


def test_a_part_of_a_model_is_saved_without_the_rest():
    model = Net()
    part = through_pickle(model.layers)
    assert part.module_path == "" and part[0].module_path == "0"
    assert len(pickle.dumps(model.layers)) < len(pickle.dumps(model))


def test_a_shallow_copy_of_a_model_leaves_the_paths_of_its_children_alone():
    model = Net()
    other = copy.copy(model)
    assert other.shared is model.shared and other is not model
    del model.again
    assert hasattr(other, "again") and other.shared.module_path == "shared"
    assert model.shared._is_child_at(model, "shared")


def test_a_parametrization_comes_back():
    plain = rf.register_parametrization(rf.Linear(FEAT, OUT), "weight", rf.tanh)
    loaded = through_pickle(plain)
    assert rf.is_parametrized(loaded, "weight") and "weight" in vars(loaded)
    assert loaded.weight.numpy().tolist() == plain.weight.numpy().tolist()
    rf.remove_parametrization(loaded, "weight")
    assert type(loaded) is rf.Linear


def test_hooks_stay_with_their_object():
    model = rf.Linear(FEAT, OUT)
    model.register_forward_hook(double)
    loaded, feat = through_pickle((model, FEAT))
    x = randn(BATCH, FEAT)
    out = loaded(rf.convert_to_tensor(x.numpy(), dims=[BATCH, feat]))
    assert out.numpy().tolist() == model(x).numpy().tolist()


def double(module, args, kwargs, result):
    return result * 2


def test_an_ngram_model_comes_back(tmp_path):
    vocab = Dim(4, name="vocab", vocab=["</s>", "a", "b", "c"])
    random_arpa(tmp_path / "x.arpa", ["<unk>", "<s>", "</s>", "a", "b", "c"], order=2, per_context=2)
    lm = rf.NGramLM(tmp_path / "x.arpa", vocab, end="</s>")
    loaded, batch = through_pickle((lm, BATCH))
    scores = [
        one.next_scores(one.default_initial_state(batch_dims=[dim])) for one, dim in ((lm, BATCH), (loaded, batch))
    ]
    assert scores[0].numpy().tolist() == scores[1].numpy().tolist()


def run():
    """A recorded run of a loop with states and a search."""
    vocab = Dim(5, name="vocab", vocab=list("abcde"))
    rf.set_random_seed(3)
    with rf.record() as trace:
        loop = rf.Loop(max_seq_len=3, name="search")
        loop.state.label = rf.zeros([BATCH], dtype="int64", sparse_dim=vocab)
        for _ in loop:
            label = rf.choice(rf.log_softmax(rf.random_normal([BATCH, vocab]), axis=vocab), axis=vocab, beam_size=2)
            loop.state.label = label
            labels = loop.stack(label)
            loop.end(label == 0, include_eos=True)
    return trace, labels


@pytest.mark.parametrize("through", [through_pickle, through_torch, copy.copy, copy.deepcopy])
def test_a_trace_comes_back(through):
    trace, _ = run()
    loaded = through(trace)
    assert loaded.summary() == trace.summary() and loaded.closed
    assert loaded.beams["search"].text() == trace.beams["search"].text()
    assert loaded.beams["search"].labels == list("abcde")


def test_a_copy_of_a_running_recording_has_what_there_was_and_gets_no_more():
    with rf.record() as trace:
        rf.probe("x", number=1)
        early = copy.copy(trace)
        rf.probe("x", number=2)
    assert (len(early), len(trace)) == (1, 2)


def test_a_beam_history_and_its_view_come_back():
    trace, _ = run()
    history = trace.beams["search"]
    loaded, view = through_pickle((history, rf.viz.beams(history)))
    assert loaded.text() == history.text() and loaded.nbest(0) == history.nbest(0)
    assert view.text() == rf.viz.beams(history).text()


@pytest.mark.parametrize("through", [through_pickle, through_torch, copy.copy, copy.deepcopy])
def test_a_view_comes_back_and_is_shown_nowhere(through):
    view = rf.viz.attention(np.eye(3, dtype=np.float32))
    view._repr_mimebundle_()
    loaded = through(view)
    assert (loaded.text(), loaded.html()) == (view.text(), view.html())
    assert loaded._widget is None


def test_a_search_stays_behind_and_deciding_later_is_refused():
    _, labels = run()
    loaded = through_pickle(labels)
    assert loaded.numpy().tolist() == labels.numpy().tolist()
    for decide in (rf.decide, rf.get_beam_scores):
        with raises_message(
            ValueError,
            """
            The search that made this was left behind when it was pickled.
              value  [search:time<=3, batch=2, beam=2]
              beam   beam=2
            A loaded beam is a dim like any other. Decide, or ask for scores, before:
                torch.save((rf.decide(labels), rf.get_beam_scores(labels)), path)
            """,
        ):
            decide(loaded)


def refused(name):
    return f"""
        A loop cannot be pickled or copied.
          object  {name}
        What it carries and records belongs to its run. Take what comes out of it:
            outputs, last = loop.stack(h), loop.state.h    # `last` after the loop
        """


@pytest.mark.parametrize("through", [through_pickle, through_torch, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("what", ["Loop", "LoopState", "recorded Loop"])
def test_a_loop_is_refused(what, through):
    time = ragged([3, 2], BATCH)
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([BATCH])
    if what == "recorded Loop":
        with loop:
            loop.state.h = loop.state.h + loop.unstack(randn(BATCH, time))
    value = loop.state if what == "LoopState" else loop
    with raises_message(TypeError, refused(type(value).__name__)):
        through(value)


@pytest.mark.parametrize("through", [through_pickle, copy.copy, copy.deepcopy])
def test_a_value_of_a_recorded_step_is_refused(through):
    time = ragged([3, 2], BATCH)
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([BATCH])
    with raises_message(TypeError, refused("StepTensor")), loop:
        loop.state.h = loop.state.h + 1
        through(loop.state.h)


def test_weights_only_refuses_a_model_and_takes_its_parameters():
    model = Net()
    for value in (rf.Linear(FEAT, OUT), randn(FEAT), FEAT):
        buffer = io.BytesIO()
        torch.save(value, buffer)
        buffer.seek(0)
        with pytest.raises(pickle.UnpicklingError, match="Unsupported global: GLOBAL rfnb"):
            torch.load(buffer, weights_only=True)
    buffer = io.BytesIO()
    torch.save({name: parameter.raw_tensor.detach() for name, parameter in model.named_parameters()}, buffer)
    buffer.seek(0)
    other = Net()
    rf.set_params(other, torch.load(buffer, weights_only=True))
    assert values_of(other) == values_of(model)


class Words(torch.utils.data.Dataset):
    """Each item is a batch with a time of its own."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        batch = Dim(2, name="batch")
        time = ragged([index + 2, index + 1], batch)
        return rf.ones([batch, time]) * float(index), time + 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_data_loader_send_batches(method):
    loader = torch.utils.data.DataLoader(Words(), batch_size=None, num_workers=1, multiprocessing_context=method)
    for index, (x, longer) in enumerate(loader):
        assert x.dims[1] + 1 is longer and longer.lengths.tolist() == [index + 3, index + 2]
        assert x.numpy().tolist() == np.full((2, index + 2), float(index)).tolist()


def test_another_process_gets_a_model_and_gives_back_a_result():
    model, x = Net(), randn(BATCH, FEAT)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        out = pool.apply(detached, (model, x))
    assert [dim.name for dim in out.dims] == ["batch", "out"]
    np.testing.assert_allclose(out.numpy(), model(x).numpy(), rtol=1e-6)


def detached(model, x):
    return rf.stop_gradient(model(x))


def test_states_go_through():
    x = randn(BATCH, FEAT)
    state, feat, batch = through_pickle((rf.State(a=x, b=[None, rf.State(c=x)]), FEAT, BATCH))
    assert state.a.dims == (batch, feat) and state.b[1].c is state.a
    assert_same(state.a.numpy().tolist(), x.numpy().tolist())
