"""rf.debug: padding that shows, and indices that are checked."""

import inspect

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim

batch, feat, out = Dim(3, name="batch"), Dim(2, name="feat"), Dim(5, name="out")
time = ragged([4, 2, 0], batch)


class Model(rf.Module):
    """Scores per sequence; `bug` says where it forgets the padding."""

    def __init__(self, bug=None):
        self.bug = bug
        self.linear = rf.Linear(feat, out)

    def __call__(self, x):
        hidden = rf.relu(self.linear(x))
        if self.bug == "sum":
            hidden = rf.reduce_sum(hidden, axis=time, use_mask=False)
        elif self.bug == "raw":
            hidden = tensor(hidden.copy_transpose([batch, time, out]).raw_tensor.detach().mean(1), batch, out)
        else:
            hidden = rf.reduce_sum(hidden, axis=time)
        scores = hidden * 2.0
        return rf.log_softmax(scores, axis=out)


def line_with(text, of=Model):
    lines, first = inspect.getsourcelines(of)
    return first + next(index for index, line in enumerate(lines) if text in line)


def test_padding_is_nan_and_the_indices_in_it_are_allowed_ones():
    ids = tensor(np.zeros((3, 4), np.int64), batch, time, sparse_dim=out)
    with rf.debug(padding="nan"):
        x = rf.relu(randn(batch, time))
        assert torch.isnan(x.raw_tensor).tolist() == [[False] * 4, [False, False, True, True], [True] * 4]
        assert ids.raw_tensor.tolist() == [[0, 0, 0, 0], [0, 0, 4, 4], [4, 4, 4, 4]]
        assert (randn(batch, time) < 100).raw_tensor.tolist()[1] == [
            True,
            True,
            True,
            True,
        ]  # NaN < 100 is False, its opposite
        numbers = tensor(np.asarray([[5, 1, 2, 3], [4, 5, 6, 0], [0, 0, 0, 0]]), batch, time)
        assert numbers.raw_tensor.tolist() == [[5, 1, 2, 3], [4, 5, 5, 5], [5, 5, 5, 5]]


def test_a_model_that_masks_gives_the_same():
    model, x = Model(), randn(batch, time, feat)
    expected = model(x)
    with rf.debug(padding="nan"):
        actual = model(x)
    assert_same(actual, expected)


def test_a_sum_without_mask_is_found_with_its_line():
    with raises_message(
        FloatingPointError,
        f"""
        reduce_sum, called in test_debug.py:{line_with("use_mask=False")}: the first NaN that is not in padding.
          source  [batch=3, time<=4, out=5]
          result  [batch=3, out=5], NaN in 10 real values
        The operands had none there. Their padding is NaN while rf.debug is on, so either padding got into real frames, or the
        op makes NaN of what it got. If it is the padding, mask it before:
            source.copy_masked(0)
        """,
    ):
        with rf.debug(padding="nan"):
            Model("sum")(randn(batch, time, feat))


def test_raw_arrays_that_take_padding_along_are_found_where_they_come_back():
    place = f"test_debug.py:{line_with('detach', Model)}"
    with pytest.raises(FloatingPointError) as caught, rf.debug(padding="nan"):
        Model("raw")(randn(batch, time, feat))
    assert "asserting.py" in str(caught.value) or place in str(caught.value)  # `tensor` of the tests is user code
    assert "The values come from outside with NaN in real frames." in str(caught.value)


def test_nan_without_any_padding_is_told_apart():
    with raises_message(
        FloatingPointError,
        f"""
        log, called in test_debug.py:{inspect.currentframe().f_lineno + 7}: the first NaN that is not in padding.
          a       [batch=3]
          result  [batch=3], NaN in 3 real values
        The operands had none and have no padding: the op makes NaN of what it got (0/0, inf - inf, log of < 0).
        """,
    ):
        with rf.debug(padding="nan"):
            rf.exp(rf.log(tensor([-1.0, -2.0, -3.0], batch)))


def test_a_result_that_nothing_uses_is_found_at_the_end():
    with pytest.raises(FloatingPointError), rf.debug(padding="nan"):
        loss = rf.reduce_sum(randn(batch, time), axis=[batch, time], use_mask=False)
        assert loss is not None


def test_an_error_of_the_block_is_not_hidden():
    with pytest.raises(KeyError), rf.debug(padding="nan"):
        loss = rf.reduce_sum(randn(batch, time), axis=[batch, time], use_mask=False)
        raise KeyError(loss)


def test_copy_masked_is_what_it_says():
    with rf.debug(padding="nan"):
        assert rf.relu(randn(batch, time)).copy_masked(9.0).raw_tensor[2].tolist() == [9.0] * 4


@pytest.mark.parametrize("padding", ["nan", 1e6])
def test_gradients_stay_what_they_are(padding):
    def gradient():
        weight, bias = rf.Parameter([feat]), rf.Parameter([feat])
        weight.initial = 1.0
        out = rf.exp(rf.tanh(randn(batch, time, feat) * weight + bias) * bias)
        rf.reduce_sum(out, axis=[batch, time, feat]).raw_tensor.backward()
        return torch.stack([weight.raw_tensor.grad, bias.raw_tensor.grad])

    expected = gradient()
    with rf.debug(padding=padding):
        got = gradient()
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("scope", [rf.stop_gradient_scope, torch.no_grad])
def test_gradients_stay_what_they_are_after_a_look_without_gradients(scope):
    weight = rf.Parameter([feat])
    weight.initial = 1.0
    with rf.debug(padding="nan"):
        hidden = randn(batch, time, feat) * weight
        with scope():  # e.g. a search on the encoder, whose padding is filled when it is first read
            best = rf.reduce_max(hidden, axis=time)
        assert not best.raw_tensor.requires_grad and torch.isnan(hidden.raw_tensor[2]).all()
        rf.reduce_sum(hidden, axis=[batch, time, feat]).raw_tensor.backward()
    expected = rf.reduce_sum(randn(batch, time, feat), axis=[batch, time])
    torch.testing.assert_close(weight.raw_tensor.grad, expected.raw_tensor)


def test_off_is_off():
    switch = rf.debug(padding="nan", indices=True)
    switch.off()
    switch.off()
    assert rf.Tensor.__dict__["_raw"] is None and rf.Tensor.__dict__["dims"] == ()
    assert not torch.isnan(rf.relu(randn(batch, time)).raw_tensor).any()


def test_loops_work_under_it():
    h = rf.zeros([batch, out])
    lstm, x = rf.LSTM(feat, out), randn(batch, time, feat)

    def run():
        loop = rf.Loop(axis=time)
        loop.state.h = h
        for _ in loop:
            x_t = loop.unstack(x)
            loop.state.h = loop.state.h + rf.reduce_sum(x_t, axis=feat)
            stacked = loop.stack(loop.state.h)
        hidden, _ = lstm(x, state=lstm.default_initial_state(batch_dims=[batch]), spatial_dim=time)
        return stacked, hidden

    expected = run()
    with rf.debug(padding="nan"):
        actual = run()
    assert_same(actual, expected)


def ids(*rows):
    return tensor(np.asarray(rows, np.int64), batch, time, sparse_dim=out)


BAD = ids([0, 1, 2, 3], [4, 5, 9, 9], [9, 9, 9, 9])
INDEX_ERRORS = {
    "gather": (lambda: rf.gather(randn(out, feat), indices=BAD), "gather", "indices"),
    "Embedding": (lambda: rf.Embedding(out, feat)(BAD), "gather", "indices"),
    "one_hot": (lambda: rf.one_hot(BAD), "sparse_to_dense", "labels"),
    "scatter": (lambda: rf.scatter(randn(batch, time), indices=BAD, indices_dim=[batch, time]), "scatter", "indices"),
    "cross_entropy": (
        lambda: rf.cross_entropy(estimated=randn(batch, time, out), target=BAD, axis=out, estimated_type="logits"),
        "cross_entropy",
        "target",
    ),
}


@pytest.mark.parametrize(("call", "op", "role"), INDEX_ERRORS.values(), ids=INDEX_ERRORS)
def test_an_index_out_of_range_is_found_with_its_place(call, op, role):
    line = call.__code__.co_firstlineno + (op == "cross_entropy") * 0
    width = max(len(role), len("first at"))
    with pytest.raises(IndexError) as caught, rf.debug(indices=True):
        call()
    assert str(caught.value).splitlines() == [
        f"{op}, called in test_debug.py:{line}: 1 of the {role} out of range.",
        f"  {role:<{width}}  [batch=3, time<=4]",
        f"  {'into':<{width}}  out=5",
        f"  {'first at':<{width}}  batch 1, time 1",
        f"  {'value':<{width}}  5",
        f"  {'allowed':<{width}}  0 to 4",
        "Indices count from 0, and real frames index real entries.",
    ]


def test_an_index_into_the_padding_of_a_sequence_is_found():
    index = tensor(np.asarray([3, 2, 0]), batch, sparse_dim=time)
    with pytest.raises(IndexError) as caught, rf.debug(indices=True):
        rf.gather(randn(batch, time), indices=index)
    assert "batch 1" in str(caught.value) and "0 to 1" in str(caught.value) and "2 of the indices" in str(caught.value)


def test_indices_in_range_pass():
    with rf.debug(indices=True):
        assert_same(
            rf.gather(tensor([1.0, 2.0, 3.0, 4.0, 5.0], out), indices=ids([0] * 4, [1] * 4, [2] * 4)).dims,
            (batch, time),
        )


def test_error_of_a_padding_that_is_no_number():
    with raises_message(
        ValueError,
        """
        debug: padding='zero'.
          known  "nan", or a number
        It is what the padding is filled with.
            rf.debug(padding="nan")
        """,
    ):
        rf.debug(padding="zero")


def test_error_of_two_values_for_padding():
    with raises_message(
        RuntimeError,
        """
        debug: the padding is filled already.
          padding  another rf.debug(padding=...) is on
        There is one value for all padding. Switch the other one off first:
            switch.off()
        """,
    ):
        with rf.debug(padding="nan"):
            rf.debug(padding=1.0)
