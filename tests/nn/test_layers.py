"""Linear, Embedding, dropout and the run context, against raw torch."""

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, d_in, d_out = Dim(5, name="batch"), Dim(2, name="in"), Dim(3, name="out")


@pytest.fixture(autouse=True)
def context():
    rf.set_random_seed(2)
    yield
    rf.init_forward_step_run_ctx()


def test_linear_is_torchs_linear_in_values_and_gradients():
    linear, x = rf.Linear(d_in, d_out), randn(batch, d_in)
    linear.bias.initial = rf.Normal(1.0)
    rf.set_requires_gradient(x)
    out = linear(x.copy_transpose([d_in, batch]))
    assert out.feature_dim is d_out
    raw = [
        t.detach().clone().requires_grad_() for t in (x.raw_tensor, linear.weight.raw_tensor, linear.bias.raw_tensor)
    ]
    expected = torch.nn.functional.linear(raw[0], raw[1].T, raw[2])
    torch.testing.assert_close(out.copy_transpose([batch, d_out]).raw_tensor, expected)
    rf.reduce_sum(rf.square(out), axis=[batch, d_out]).raw_tensor.backward()
    expected.square().sum().backward()
    for got, want in zip((x, linear.weight, linear.bias), raw):
        torch.testing.assert_close(got.raw_tensor.grad, want.grad)


def test_a_square_linear_multiplies_along_the_right_side_of_its_weight():
    linear, x = rf.Linear(d_in, d_in, with_bias=False), tensor([1.0, 10.0], d_in)
    linear.weight.assign(rf.convert_to_tensor(np.asarray([[1, 2], [3, 4]], np.float32), dims=linear.weight.dims))
    out = linear(x)
    assert linear.bias is None and out.dims == (d_in,)
    assert out.numpy().tolist() == [31, 42]  # (1, 10) W, not W (1, 10)


def test_linear_over_a_missing_dim():
    for linear in (rf.Linear(d_in, d_out), rf.Linear(d_in, d_in)):
        with raises_message(
            DimError,
            """
            Linear: no dim in=2.
              source  [batch=5]
              dim     in=2
            The dim in=2 is not among the dims of source.
                source.dims[0]    # batch=5
            """,
        ):
            linear(randn(batch))


def test_embedding_picks_rows_and_gives_them_gradients():
    embedding = rf.Embedding(d_in, d_out)
    out = embedding(tensor(np.asarray([1, 0, 1, 1, 1]), batch, sparse_dim=d_in))
    weight = embedding.weight.numpy()
    assert out.feature_dim is d_out
    assert_same(out, weight[[1, 0, 1, 1, 1]])
    rf.reduce_sum(out, axis=[batch, d_out]).raw_tensor.backward()
    assert embedding.weight.raw_tensor.grad.tolist() == [[1, 1, 1], [4, 4, 4]]


def test_embedding_of_indices_into_another_dim():
    with raises_message(
        DimError,
        """
        Embedding: the indices are into another dim.
          source      [batch=5]
          sparse_dim  out=3
          in_dim      in=2
        The sparse dim of the source says what its integers index.
            source = rf.set_sparse_dim(source, in)
        """,
    ):
        rf.Embedding(d_in, d_out)(tensor(np.zeros(5, np.int64), batch, sparse_dim=d_out))


def test_the_run_context_is_inference_until_training_starts():
    assert not rf.get_run_ctx().train_flag
    ctx = rf.init_train_step_run_ctx(step=3, epoch=2)
    assert rf.get_run_ctx() is ctx and ctx.is_train_flag_enabled()
    assert (ctx.stage, ctx.step, ctx.epoch) == ("train_step", 3, 2)
    with pytest.raises(KeyError), ctx.train_flag_ctx(False):
        assert not ctx.train_flag
        raise KeyError
    assert ctx.train_flag
    assert rf.init_forward_step_run_ctx().stage == "forward_step" and not rf.get_run_ctx().train_flag


def test_dropout_is_the_identity_outside_of_training():
    x = randn(batch, d_in)
    assert rf.dropout(x, 0.5) is x
    rf.init_train_step_run_ctx()
    assert rf.dropout(x, 0.0) is x
    assert rf.dropout(x, 0.5) is not x


def test_dropout_keeps_the_mean_and_scales_what_it_keeps():
    units = Dim(20_000, name="units")
    x = rf.ones([units])
    values = rf.dropout(x, 0.2, on_forward=True).numpy()
    assert sorted(set(values.tolist())) == [0, 1.25]
    assert values.mean() == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("axes", [d_in, [d_in], [d_in, batch]])
def test_dropout_is_shared_over_the_dims_that_are_not_named(axes):
    units = Dim(40, name="units")
    x = rf.ones([batch, units, d_in])
    values = rf.dropout(x, 0.5, axis=axes, on_forward=True).copy_transpose([batch, d_in, units]).numpy()
    assert (values == values[:, :, :1]).all()
    if axes != [d_in, batch]:
        assert (values == values[:1]).all()


def test_dropout_of_everything_is_refused():
    with raises_message(
        ValueError,
        """
        dropout: drop_prob is no probability.
          source     [batch=5]
          drop_prob  1.0
        A probability from 0 up to, not including, 1:
            rf.dropout(source, 0.1)
        """,
    ):
        rf.dropout(randn(batch), 1.0)


def test_dropout_leaves_the_dims_alone():
    time = ragged([4, 1, 0, 2, 3], batch)
    x = randn(time, batch, d_in)
    assert rf.dropout(x, 0.5, on_forward=True).dims == (time, batch, d_in)
