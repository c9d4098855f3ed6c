"""NumPy also runs random numbers, loops, search, recordings and files, which the laws leave out. Gradients report that it has none."""

import numpy as np
import pytest
from asserting import assert_same, raises_message

import rfnb as rf
from rfnb import Dim

batch, feat, vocab = Dim(2, name="batch"), Dim(4, name="feat"), Dim(5, name="vocab")


@pytest.fixture(autouse=True)
def numpy_selected():
    rf.select_backend("numpy")
    rf.set_random_seed(1)
    yield
    rf.select_backend("torch")


def time():
    return rf.ragged_dim([3, 1], over=batch, name="time")


def is_numpy(x):
    return isinstance(x.raw_tensor, (np.ndarray, np.generic))


RANDOM = {
    "random_uniform": lambda: rf.random_uniform([batch, feat]),
    "integers": lambda: rf.random_uniform([batch], dtype="int32", maxval=5, sparse_dim=vocab),
    "random_normal": lambda: rf.random_normal([batch, feat]),
    "random_truncated_normal": lambda: rf.random_truncated_normal([batch, feat]),
    "random": lambda: rf.random([batch, feat], distribution="normal"),
    "random_choice_with_replacement": lambda: rf.random_choice_with_replacement(
        [batch, feat], probs=rf.ones([vocab]) / 5, axis=vocab
    ),
    "dropout": lambda: rf.dropout(rf.ones([batch, feat]), 0.5, on_forward=True),
    "Normal": lambda: rf.Parameter([feat, vocab], initial=rf.Normal(1.0)),
    "Glorot": lambda: rf.Linear(feat, vocab).weight,
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_can_be_drawn_again(name):
    state = rf.get_random_state()
    first, second = RANDOM[name](), RANDOM[name]()
    rf.set_random_state(state)
    assert is_numpy(first) and not np.array_equal(first.numpy(), second.numpy())
    assert_same(rf.convert_to_tensor(RANDOM[name]().numpy(), dims=first.dims, sparse_dim=first.sparse_dim),
                rf.convert_to_tensor(first.numpy(), dims=first.dims, sparse_dim=first.sparse_dim))  # fmt: skip


def test_constants_and_templates():
    data = rf.TensorDict([rf.Tensor("x", [batch, feat])])
    rf.tensor.utils.tensor_dict_fill_random_numpy_(data)
    assert all(map(is_numpy, (data["x"], rf.zeros([batch]), rf.ones([feat]), rf.constant([1, 2], dims=[batch]))))


def test_losses_are_collected():
    with rf.init_train_step_run_ctx() as ctx:
        rf.ones([batch, time()]).mark_as_loss("x", use_normalized_loss=True)
        assert is_numpy(ctx.total_loss()) and float(ctx.total_loss().numpy()) == 1


def test_training_moves_running_statistics_and_drops():
    norm, x = rf.BatchNorm(feat), rf.random_normal([batch, time(), feat])
    with rf.init_train_step_run_ctx():
        assert (rf.dropout(norm(x), 0.5).numpy() == 0).any()
    assert norm.running_mean.numpy().any()


def test_a_loop_a_search_and_a_record():
    cell, out, embed = rf.LSTM(feat, feat), rf.Linear(feat, vocab), rf.Embedding(vocab, feat)
    with rf.record() as trace:
        loop = rf.Loop(max_seq_len=4)
        loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=vocab)
        loop.state.cell = cell.default_initial_state(batch_dims=[batch])
        for _ in loop:
            h, loop.state.cell = cell(embed(loop.state.label), state=loop.state.cell, spatial_dim=rf.single_step_dim)
            label = rf.choice(rf.log_softmax(out(h), axis=vocab), beam_size=2)
            loop.state.label = label
            loop.end(label == 0, include_eos=True)
            labels = loop.stack(label)
        best = rf.decide(labels)
    assert is_numpy(best) and best.sparse_dim is vocab and batch in best.dims
    assert {event.kind for event in trace.events} >= {"beams", "module"}


def test_a_transformer_decodes_step_by_step_as_at_once():
    model = rf.TransformerDecoder(None, vocab, feat, num_layers=1, num_heads=2)
    frames = Dim(3, name="frames")
    ids = rf.random_uniform([batch, frames], dtype="int32", maxval=5, sparse_dim=vocab)
    whole, _ = model(ids, spatial_dim=frames, state=model.default_initial_state(batch_dims=[batch]))
    state = model.default_initial_state(batch_dims=[batch])
    for step in range(3):
        one, state = model(rf.gather(ids, indices=step, axis=frames), spatial_dim=rf.single_step_dim, state=state)
        assert_same(one, rf.gather(whole, indices=step, axis=frames))
    assert is_numpy(whole)


def test_files(tmp_path):
    first, second = rf.Linear(feat, vocab), rf.Linear(feat, vocab)
    with rf.record() as trace:
        rf.dot_attention(rf.ones([feat]), rf.ones([batch, feat]), rf.ones([batch]), key_dim=feat, axis=batch)
    trace.save(tmp_path / "run.rfnb")
    assert len(rf.load_trace(tmp_path / "run.rfnb").events) == len(trace.events)
    rf.save_params(first, tmp_path / "model.safetensors")
    rf.set_params(second, rf.load_params(tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(first.weight.numpy(), second.weight.numpy())


def test_what_only_touches_gradients_keeps_the_values():
    x = rf.random_normal([feat])
    with rf.stop_gradient_scope(), rf.gradient_checkpoint_scope():
        for same in (rf.stop_gradient(x), rf.scaled_gradient(x, -1.0), rf.scaled_gradient_ext(x, scale=2.0, shift=1.0)):
            assert is_numpy(same)
            np.testing.assert_array_equal(same.numpy(), x.numpy())


@pytest.mark.parametrize("name", ["gradient", "set_requires_gradient"])
def test_gradients_say_that_there_are_none(name):
    x = rf.ones([feat])
    with raises_message(
        NotImplementedError,
        f"""
        {name}: no gradients with NumPy.
          backend  numpy
        NumPy computes values, torch also gradients.
            rf.select_backend("torch")
        """,
    ):
        getattr(rf, name)(*((x, x) if name == "gradient" else (x,)))
