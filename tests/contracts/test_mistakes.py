"""Mistakes of newcomers: each gives an error with its parts, and the line to type, put in, works."""

import pytest
from asserting import ragged, randn

import rfnb as rf
from rfnb import Dim
from rfnb.core.errors import parts_of

batch, feat, out, vocab = Dim(3, name="batch"), Dim(5, name="feat"), Dim(4, name="out"), Dim(6, name="vocab")
time = ragged([7, 5, 3], batch)
x, logits = randn(batch, time, feat), randn(batch, time, vocab)
linear, lstm = rf.Linear(feat, out), rf.LSTM(feat, out)

# What was typed, and what is meant by `source` or `a` in the line that the error gives.
CURED = [
    "rf.reduce_sum(x, time)", "rf.softmax(x, time)", "rf.reduce_mean(x, dim=time)", "rf.reduce_max(x, axis=-1)",
    "rf.reduce_mean(x, axis=feat, keepdim=True)", "rf.log_softmax(logits, dim=-1)",
    "rf.relu(x, inplace=True)", "rf.Linear(5, 4)", "rf.Linear(in_features=5, out_features=4)", "rf.Linear(feat, 4)", "rf.LayerNorm(5)",
    "rf.Embedding(10, 4)", "rf.LSTM(5, 4)", "rf.Dim(3.0)", "rf.merge_dims(x, dims=batch)", "rf.cumsum(x, axis=time)",
    "rf.top_k(x, k=2, axis=-1)", "rf.dropout(x, p=0.1)", "linear(x, feat)", "lstm(x, spatial_dim=time)",
    "lstm.default_initial_state(batch_dims=batch)", "rf.tanh(x, axis=feat)", "rf.sigmoid(x, 1)",
]  # fmt: skip


@pytest.mark.parametrize("typed", CURED)
def test_the_line_to_type_works(typed):
    source = logits if "logits" in typed else x
    names = {**globals(), "source": source, "a": source, "input": source}
    with pytest.raises((TypeError, ValueError)) as caught:
        exec(typed, names)
    what, operands, rule, fix = parts_of(caught.value)
    assert what and operands and rule
    exec(fix, names)


# What was typed, and what stands in the line to type.
ANSWERED = {
    "x + randn(batch, ragged([7, 5, 3], batch), feat)": "rf.replace_dim(b, in_dim=b.dims[1], out_dim=a.dims[1])",
    "linear(randn(batch, Dim(5, name='feat')))": "rf.replace_dim(source, in_dim=source.dims[1], out_dim=feat)",
    "rf.ragged_dim([7, -5, 3], over=batch, name='time')": "rf.clip_by_value(lengths, 0, 7)",
    "rf.ragged_dim([7.0, 5.0, 3.0], over=batch, name='time')": 'rf.cast(lengths, "int32")',
    "rf.ragged_dim([7, 5, 3], name='time')": 'batch = Dim(3, name="batch")',
    "x @ x": "rf.matmul(a, b, reduce=feat)",
    "rf.where(x, x, 0.0)": "rf.where(cond != 0, ...)",
    "rf.softmax(x, axis=[time, feat])": "axis=x.dims[1]    # time<=7",
    "x.sum(dim=1)": "rf.reduce_sum(x, axis=...)",
    "x.transpose(0, 1)": "x.copy_transpose([...])",
    "x[0]": "rf.gather(x, indices=0, axis=...)",
    "rf.relu(x.raw_tensor)": "rf.convert_to_tensor(value, dims=[...])",
    "bool(x > 0)": "rf.reduce_any(x, axis=x.dims)",
}


@pytest.mark.parametrize("typed", ANSWERED)
def test_the_line_to_type_is_shown(typed):
    with pytest.raises((TypeError, ValueError, AttributeError)) as caught:
        exec(typed, dict(globals()))
    what, operands, rule, fix = parts_of(caught.value)
    assert what and operands and rule
    assert ANSWERED[typed] in fix
