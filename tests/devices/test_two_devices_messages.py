"""The first errors of users who begin to work on a device: whole messages."""

from __future__ import annotations

import pytest
from asserting import assert_same, raises_message
from simulated import NAME

import rfnb as rf
from rfnb import Dim

batch, feat, out, vocab = Dim(2, name="batch"), Dim(3, name="feat"), Dim(5, name="out"), Dim(7, name="vocab")
time = rf.ragged_dim([4, 2], over=batch, name="time")


def on_device(x):
    return rf.copy_to_device(x, NAME)


def frames():
    return rf.random_normal([batch, time, feat])


def moved(module):
    module.to(device=NAME)
    return module


def test_a_module_on_the_device_and_its_input_on_the_host():
    linear, x = moved(rf.Linear(feat, out)), frames()
    with raises_message(
        RuntimeError,
        """
        Linear: the operands are on different devices.
          x       [batch=2, time<=4, feat=3] float32 on cpu
          weight  [feat=3, out=5] float32 on sim:0, and 1 more
        A module computes on the device of its parameters. Copy the inputs to it:
            x = rf.copy_to_device(x, "sim:0")
        """,
    ):
        linear(x)


def test_a_module_on_the_host_and_its_input_on_the_device():
    linear, x = rf.Linear(feat, out), on_device(frames())
    with raises_message(
        RuntimeError,
        """
        Linear: the operands are on different devices.
          x       [batch=2, time<=4, feat=3] float32 on sim:0
          weight  [feat=3, out=5] float32 on cpu, and 1 more
        The parameters of a model are on one device, where it computes. Move them all:
            linear.to(device="sim:0")
        """,
    ):
        linear(x)
    linear.to(device=f"{NAME}:0")
    assert linear(x).device == f"{NAME}:0"


class Model(rf.Module):
    def __init__(self):
        self.encoder = rf.TransformerEncoder(vocab, 2 * feat, num_layers=1, num_heads=1)

    def __call__(self, ids):
        return self.encoder(ids, spatial_dim=time)


def test_a_parameter_is_named_by_its_path_in_the_model_of_the_user():
    model = moved(Model())
    model.encoder.layers[0].ff.linear_ff.weight.to(device="cpu")
    ids = on_device(rf.zeros([batch, time], dtype="int32", sparse_dim=vocab))
    with raises_message(
        RuntimeError,
        """
        TransformerEncoder: the operands are on different devices.
          ids                                   [batch=2, time<=4] int32 on sim:0
          encoder.input_embedding.weight        [vocab=7, 2*feat=6] float32 on sim:0, and 13 more
          encoder.layers.0.ff.linear_ff.weight  [2*feat=6, ff=24] float32 on cpu
        The parameters of a model are on one device, where it computes. Move them all:
            model.to(device="sim:0")
        """,
    ):
        model(ids)
    model.to(device=f"{NAME}:0")
    model(ids)


def test_the_state_of_another_device():
    lstm, x = moved(rf.LSTM(feat, out)), on_device(frames())
    state = lstm.default_initial_state(batch_dims=[batch])
    state = rf.LstmState(h=rf.copy_to_device(state.h, "cpu"), c=rf.copy_to_device(state.c, "cpu"))
    with raises_message(
        RuntimeError,
        """
        LSTM: the operands are on different devices.
          x          [batch=2, time<=4, feat=3] float32 on sim:0
          state.h    [batch=2, out=5] float32 on cpu
          state.c    [batch=2, out=5] float32 on cpu
          ff_weight  [4*out=20, feat=3] float32 on sim:0, and 2 more
        A module computes on the device of its parameters. Copy the inputs to it:
            state.h = rf.copy_to_device(state.h, "sim:0")
            state.c = rf.copy_to_device(state.c, "sim:0")
        """,
    ):
        lstm(x, state=state, spatial_dim=time)


class Masking(rf.Module):
    def __init__(self):
        self.linear = rf.Linear(feat, out)
        self.bias = rf.ones([out])

    def __call__(self, x):
        y = self.linear(x)
        return y + self.bias


def test_a_tensor_that_a_module_of_the_user_holds_and_that_did_not_move():
    model = moved(Masking())
    with raises_message(
        RuntimeError,
        """
        add: the operands are on different devices.
          y          [batch=2, time<=4, out=5] float32 on sim:0
          self.bias  [out=5] float32 on cpu
        An op computes on one device. Copy an operand to that of the others:
            self.bias = rf.copy_to_device(self.bias, "sim:0")
        """,
    ):
        model(on_device(frames()))


def test_what_an_op_calls_inside_is_not_shown_but_the_call():
    keys, query = on_device(frames()), rf.random_normal([batch, feat])
    with raises_message(
        RuntimeError,
        """
        dot_attention: the operands are on different devices.
          query  [batch=2, feat=3] float32 on cpu
          keys   [batch=2, time<=4, feat=3] float32 on sim:0
        An op computes on one device. Copy an operand to that of the others:
            query = rf.copy_to_device(query, "sim:0")
        """,
    ):
        rf.dot_attention(query, keys, keys, key_dim=feat, axis=time)


def test_the_targets_of_a_loss():
    logits, targets = on_device(rf.random_normal([batch, time, vocab])), rf.zeros([batch, time], dtype="int32")
    targets = rf.set_sparse_dim(targets, vocab)
    for planned in (False, True):
        if planned:
            rf.cross_entropy(estimated=logits, target=on_device(targets), axis=vocab, estimated_type="logits")
        with raises_message(
            RuntimeError,
            """
            cross_entropy: the operands are on different devices.
              logits   [batch=2, time<=4, vocab=7] float32 on sim:0
              targets  [batch=2, time<=4] int32 on cpu
            An op computes on one device. Copy an operand to that of the others:
                targets = rf.copy_to_device(targets, "sim:0")
            """,
        ):
            rf.cross_entropy(estimated=logits, target=targets, axis=vocab, estimated_type="logits")


def test_a_method_of_a_module_that_calls_its_parts():
    decoder = moved(rf.TransformerDecoder(feat, vocab, model_dim=2 * feat, num_layers=1, num_heads=1))
    encoded = frames()
    with raises_message(
        RuntimeError,
        """
        Linear: the operands are on different devices.
          encoded                       [batch=2, time<=4, feat=3] float32 on cpu
          layers.0.cross_att.kv.weight  [feat=3, kv=12] float32 on sim:0, and 1 more
        A module computes on the device of its parameters. Copy the inputs to it:
            encoded = rf.copy_to_device(encoded, "sim:0")
        """,
    ):
        decoder.transform_encoder(encoded, axis=time)
    decoder.transform_encoder(on_device(encoded), axis=time)


def test_what_is_in_a_list():
    x = frames()
    with raises_message(
        RuntimeError,
        """
        stack: the operands are on different devices.
          sources[0]  [batch=2, time<=4, feat=3] float32 on sim:0
          x           [batch=2, time<=4, feat=3] float32 on cpu
        An op computes on one device. Copy an operand to that of the others:
            x = rf.copy_to_device(x, "sim:0")
        """,
    ):
        rf.stack([on_device(x), x])


def test_numbers_of_the_host_come_along_where_the_kernel_takes_them_and_are_named_where_it_does_not():
    x, number = on_device(frames()), rf.convert_to_tensor(2.0)
    assert_same(x * number, x + x)
    with pytest.raises(RuntimeError, match="stack: the operands are on different devices") as caught:
        rf.stack([on_device(number), number])
    assert str(caught.value).endswith(f'    number = rf.copy_to_device(number, "{NAME}:0")')


def test_an_error_about_something_else_stays_as_it_is():
    class Broken(rf.Module):
        def __call__(self, x):
            raise RuntimeError("no luck with this device")

    with raises_message(RuntimeError, "no luck with this device"):
        rf.Sequential([Broken()])(on_device(frames()))
