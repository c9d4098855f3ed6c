"""torch.compile of functions that use rfnb inside; see docs/compile.md."""

import pytest
import torch
from asserting import assert_same, ragged, randn

import rfnb as rf
from rfnb import Dim, Tensor
from rfnb.backends import registry

batch, feat, out = Dim(3, name="batch"), Dim(4, name="feat"), Dim(6, name="out")


@pytest.fixture(autouse=True)
def fresh_compiler(monkeypatch):
    """Nothing was compiled, and nobody has selected a backend, as other tests do: the compiler cannot ask for the selected one."""
    monkeypatch.setattr(registry, "_chosen", [False])
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def compiled(call, x, **options):
    """The result of `call(x)`, compiled without code generation, after one call that is not compiled."""
    expected = call(x)
    run = torch.compile(
        lambda raw: call(rf.convert_to_tensor(raw, dims=x.dims, sparse_dim=x.sparse_dim)).raw_tensor,
        backend="eager",
        **options,
    )
    return Tensor(dims=expected.dims, raw_tensor=run(x.raw_tensor)), expected


def test_linear_and_relu_are_one_graph():
    linear = rf.Linear(feat, out)
    assert_same(*compiled(lambda x: rf.relu(linear(x)), randn(batch, feat), fullgraph=True))


@pytest.mark.filterwarnings("ignore")
def test_a_transformer_gives_the_same():
    vocab, model, time = Dim(5, name="vocab"), Dim(8, name="model"), ragged([4, 2, 3], batch)
    encoder = rf.TransformerEncoder(vocab, model, num_layers=1, num_heads=2)
    ids = rf.random_uniform([batch, time], dtype="int64", minval=0, maxval=5, sparse_dim=vocab)
    got, expected = compiled(lambda x: encoder(x, spatial_dim=time), ids)
    assert_same(got, Tensor(dims=expected.dims, raw_tensor=expected.raw_tensor))


@pytest.mark.filterwarnings("ignore")
def test_an_lstm_gives_the_same():
    lstm, time = rf.LSTM(feat, out), ragged([4, 2, 3], batch)
    state = lstm.default_initial_state(batch_dims=[batch])
    got, expected = compiled(lambda x: lstm(x, state=state, spatial_dim=time)[0], randn(batch, time, feat))
    assert_same(got, Tensor(dims=expected.dims, raw_tensor=expected.raw_tensor))
