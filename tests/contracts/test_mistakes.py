"""Mistakes of newcomers: each gives an error with its parts, and the line to type, put in, works."""

import contextvars
import traceback

import numpy as np
import pytest
import torch  # noqa: F401  (typed below)
from asserting import ragged, randn

import rfnb as rf
from rfnb import Dim
from rfnb.core.call_errors import arguments_of
from rfnb.core.errors import parts_of
from rfnb.core.place import in_package

batch, feat, out, vocab = Dim(3, name="batch"), Dim(5, name="feat"), Dim(4, name="out"), Dim(6, name="vocab")
time = ragged([7, 5, 3], batch)
x, logits = randn(batch, time, feat), randn(batch, time, vocab)
linear, lstm = rf.Linear(feat, out), rf.LSTM(feat, out)
words, ids = ragged([2, 2, 1], batch, "words"), rf.zeros([batch, time], dtype="int32", sparse_dim=vocab)
with rf.record(model=linear) as trace:
    linear(x)

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


def step(label, state):
    """A step of a search."""
    return rf.zeros([*label.dims, vocab]), state


ended = rf.zeros([], dtype="bool")

# What was typed, and what stands in the line to type.
ANSWERED = {
    "x + randn(batch, ragged([7, 5, 3], batch), feat)": "rf.replace_dim(b, in_dim=b.dims[1], out_dim=a.dims[1])",
    "linear(randn(batch, Dim(5, name='feat')))": "rf.replace_dim(source, in_dim=source.dims[1], out_dim=feat)",
    "rf.ragged_dim([7, -5, 3], over=batch, name='time')": "[min(max(length, 0), 7) for length in lengths]",
    "rf.ragged_dim([7.0, 5.0, 3.0], over=batch, name='time')": '[int(length) for length in lengths]',
    "rf.ragged_dim([7, 5, 3], name='time')": 'batch = Dim(3, name="batch")',
    "x @ x": "rf.matmul(a, b, reduce=feat)",
    "rf.where(x, x, 0.0)": "rf.where(cond != 0, ...)",
    "rf.softmax(x, axis=[time, feat])": "axis=x.dims[1]    # time<=7",
    "x.sum(dim=1)": "rf.reduce_sum(x, axis=x.dims[2])",
    "x.transpose(0, 1)": "x.copy_transpose(x.dims[::-1])",
    "x[0]": "rf.gather(x, axis=x.dims[2], indices=0)",
    "rf.relu(x.raw_tensor)": "rf.convert_to_tensor(value, dims=[...])",
    "bool(x > 0)": "rf.reduce_any(x, axis=x.dims)",
    'np.exp(x)': 'rf.exp(x)',
    'np.sum(x, axis=0)': 'rf.reduce_sum(x, axis=x.dims[2])',
    'np.concatenate([x, x])': 'x.copy_transpose(x.dims[::-1]).numpy()',
    'np.array(x)': 'x.copy_transpose(x.dims[::-1]).numpy()',
    'torch.softmax(x, -1)': 'rf.softmax(x, axis=x.dims[2])',
    'torch.nn.functional.relu(x)': 'rf.relu(x)',
    'rf.reduce_sum(x, axis=Dim(9, name="zzz"))': 'source.dims[0]',
    'rf.reduce_sum(x, axis=words)': 'source.dims[0]',
    'rf.softmax(x, axis=vocab)': 'x.dims[0]',
    'rf.cross_entropy(estimated=logits, target=ids, axis=time, estimated_type="logits")': 'axis=estimated.dims[2]',
    'rf.cross_entropy(estimated=logits, target=ids, axis=vocab, estimated_type="probabilities")': 'estimated_type="logits"',
    'rf.cross_entropy(estimated=logits, target=rf.cast(ids, "float32"), axis=vocab, estimated_type="logits")': 'rf.cast(target, "int64")',
    'rf.cross_entropy(logits, ids)': 'rf.cross_entropy(estimated=estimated, target=target, axis=..., estimated_type=...)',
    'rf.cross_entropy(estimated=ids, target=logits, axis=vocab, estimated_type="logits")': 'estimated.dims[0]',
    'trace.attention["nowhere"]': 'with rf.record() as trace:',
    'trace.states["h"]': 'with rf.record() as trace:',
    'rf.relu(x).mark_as_loss("r"); rf.get_run_ctx().total_loss()': 'with rf.init_train_step_run_ctx() as ctx:',
    'rf.gather(x, indices=7, axis=time)': 'rf.gather(source, indices=6, axis=time)',
    'rf.gather(x, indices=randn(batch), axis=time)': 'rf.cast(indices, "int64")',
    'rf.Embedding(vocab, out)(x)': 'source = rf.set_sparse_dim(source, vocab)',
    'rf.Embedding(vocab, out)(rf.zeros([batch, time], dtype="int32"))': 'source = rf.set_sparse_dim(source, vocab)',
    'linear(ids)': 'source.dims[0]',
    'lstm(x)': 'state = lstm.default_initial_state(batch_dims=[...])',
    'lstm(x, state=None, spatial_dim=time)': 'state = lstm.default_initial_state(batch_dims=[batch])',
    'lstm(x, spatial_dim=time, state=rf.zeros([batch, out]))': 'lstm(source, state=..., spatial_dim=time)',
    'rf.convert_to_tensor(np.zeros((3, 8, 5), "float32"), dims=[batch, time, feat])': 'Dim(8, name=...)',
    'rf.convert_to_tensor(np.zeros((3, 7), "float32"), dims=["batch", "time"])': 'Dim(3, name="batch")',
    'rf.zeros((3, 5))': 'Dim(3, name="...")',
    'rf.zeros([batch, batch])': 'batch.copy(match_priority=1)',
    'rf.concat(x, x, axis=time)': 'joined, joined_dim = rf.concat((a, time), (b, time))',
    'rf.concat((x, time), (x, feat))': 'rf.concat(..., allow_broadcast=True)',
    'rf.stack([x, randn(batch, feat)])': 'rf.expand_dim(source, dim=...)',
    'rf.merge_dims(x, dims=[batch, vocab])': 'x.dims[0]',
    'rf.expand_dim(x, dim=batch)': 'rf.expand_dim(source, dim=rf.Dim(3, name="..."))',
    'rf.squeeze(x, axis=batch)': 'rf.gather(x, indices=0, axis=batch)',
    'x.reshape(3, -1)': 'rf.merge_dims(x, dims=x.dims[:2])',
    'x.view(-1)': 'rf.merge_dims(x, dims=x.dims[:2])',
    'x.shape': 'x.dims',
    'x.size(0)': 'x.num_elements()',
    'len(x)': 'x.dims[0].extent',
    'x.permute(1, 0, 2)': 'x.copy_transpose(x.dims[::-1])',
    'x.to("cuda")': 'rf.copy_to_device(x, "cuda"), rf.cast(x, "float16")',
    'x.detach()': 'rf.stop_gradient(x)',
    'x.cpu()': 'rf.copy_to_device(x, "cpu")',
    'x.item()': 'rf.reduce_mean(x, axis=x.dims).raw_tensor.item()',
    'linear(x).backward()': 'rf.reduce_sum(x, axis=x.dims).raw_tensor.backward()',
    'x.mean()': 'rf.reduce_mean(x, axis=x.dims[2])',
    'x.T': 'x.copy_transpose(x.dims[::-1])',
    'for row in x: pass': 'rf.gather(x, axis=x.dims[2], indices=0)',
    'x[:, 0]': 'rf.gather(x, axis=x.dims[2], indices=0)',
    'x["time"]': 'rf.gather(x, axis=x.dims[2], indices=0)',
    'x[x > 0]': 'rf.gather(x, axis=x.dims[2], indices=0)',
    'if x > 0: pass': 'bool(rf.reduce_any(x, axis=x.dims))',
    'float(x)': 'rf.reduce_mean(x, axis=x.dims)\nrf.gather(x, axis=x.dims[2], indices=0)',
    'x + np.zeros((3, 7, 5))': 'rf.convert_to_tensor(value, dims=[...])',
    'x + torch.zeros(3, 7, 5)': 'rf.convert_to_tensor(value, dims=[...])',
    'x += "a"': 'rf.convert_to_tensor(value, dims=[...])',
    'x * logits * linear(x) @ 3': 'rf.matmul(a, b, reduce=...)',
    'rf.matmul(x, linear.weight)': 'reduce=a.dims[0]',
    'rf.matmul(x, logits, reduce=vocab)': 'a.dims[0]',
    'rf.dot_attention(randn(batch, out), x, x, key_dim=feat, axis=time)': 'query.dims[0]',
    'rf.LayerNorm(feat)(logits)': 'x.dims[0]',
    'rf.Conv1d(feat, out, 3)(x)': 'rf.Conv1d(feat, out, 3, padding=...)',
    'rf.Conv1d(feat, out, 3, padding="smae")(x, in_spatial_dim=time)': 'padding="same"',
    'rf.dropout(x, 1.5)': 'rf.dropout(source, 0.015)',
    'rf.dropout(x, drop_prob=50)': 'rf.dropout(source, 0.5)',
    'rf.Sequential(rf.Linear(feat, out), rf.Linear(feat, out))(x)': 'source.dims[0]',
    'rf.one_hot(x)': 'rf.set_sparse_dim(labels, vocab)',
    'rf.one_hot(rf.zeros([batch], dtype="int32"))': 'rf.set_sparse_dim(labels, vocab)',
    'rf.top_k(x, k=9, axis=feat)': 'rf.top_k(source, k=5, axis=feat)',
    'rf.top_k(x, k=2)': 'axis=source.dims[0]',
    'rf.sort(x, axis=feat, descending="yes")': 'rf.sort(source, axis=feat, descending=False)',
    'rf.pad(x, axes=[time], padding=[1, 1])': 'rf.pad(source, axes=[time], padding=[(1, 1)])',
    'rf.cond(True, 1, 2)': 'rf.cond(True, ..., ...)',
    'rf.nbest(x)': 'labels = loop.stack(rf.choice(...))   # then, after the loop: rf.decide(labels)',
    'rf.get_beam_scores(x)': 'labels = loop.stack(rf.choice(...))   # then, after the loop: rf.decide(labels)',
    'rf.show(trace, theme="solarized")': 'rf.show(trace, live=False)',
    'rf.show(None)': 'rf.viz.attention(weights), rf.viz.states(arrays), rf.viz.beams(...), rf.viz.dims(array, names=[...])',
    'rf.show(5)': 'rf.viz.attention(weights), rf.viz.states(arrays), rf.viz.beams(...), rf.viz.dims(array, names=[...])',
    'rf.viz.attention(np.zeros((2, 3, 4, 5, 6, 7)))': 'rf.viz.attention(weights, dims="axis0 axis1 axis2 axis3 target source")',
    'rf.viz.attention(np.zeros((3, 3)), source=["a"])': 'source_lengths=[1]',
    'rf.viz.attention(np.zeros((3, 3)), tokens=["a"])': 'target_lengths=[1]',
    'rf.viz.curves({"a": ["x"]})': 'rf.viz.curves({"loss": [(10, 4.6), (20, 3.1)]})',
    'rf.viz.curves("a")': 'rf.viz.curves({"loss": points})',
    'rf.viz.beams(x)': 'rf.viz.beams(trace.beams["decoder"])',
    'rf.viz.states(trace)': "rf.show(trace)",
    'rf.viz.attention(trace)': "rf.show(trace)",
    'rf.viz.attention(np.eye(3)).save("a.docx")': 'view.save("a.svg")',
    'rf.viz.attention(np.eye(3)).save("a.png", theme="drak")': 'theme="light"',
    'rf.save_html("a.html", 5)': 'rf.viz.attention(weights), rf.viz.states(arrays), rf.viz.beams(...), rf.viz.dims(array, names=[...])',
    'rf.show(trace, lables=["a"])': 'rf.show(trace, labels=labels, live=False)',
    'with rf.record(model=5): pass': 'rf.record(model={"encoder": encoder, "decoder": decoder})',
    'with rf.record(steps="all") as t: linear(x)': 'rf.record(steps=range(10))',
    'with rf.record(vaules=True) as t: pass': 'rf.record(values=True)',
    'trace.beams["x"]': 'with rf.record() as trace:',
    'rf.diff(trace, linear)': 'with rf.record(values=True) as trace:',
    'rf.diff(trace)': 'rf.diff(trace_a, ...)',
    'rf.diff(trace, trace, tolerance=-1)': 'rf.diff(a, b, tolerance=1e-3)',
    'rf.diff(trace, trace).find("linera")': 'diff.find("linear")',
    'rf.diff(trace, trace).growth("linera")': 'diff.growth("linear")',
    'rf.watch(linear, steps=10)': 'rf.watch(model)',
    'rf.watch(torch.nn.Linear(3, 4), "adam")': 'rf.watch(model, torch.optim.AdamW(model.parameters()))',
    'rf.watch()': 'rf.watch(...)',
    'rf.compare_runs(trace, 5)': 'rf.compare_runs(run, run.branches[0])',
    'rf.load_trace("nothing.rfnb")': 'with rf.record() as trace: ...',
    'linear.forward(x)': 'def __call__(self, source): ...',
    'linear.state_dict()': 'rf.save_params(dict(model.named_parameters()), "model.npz")',
    'linear.load_state_dict({})': 'rf.set_params(model, rf.load_params("model.npz"))',
    'linear.train()': 'with rf.init_train_step_run_ctx(train_flag=True):',
    'linear.cuda()': 'model.to(device="cuda")',
    'rf.load_params(linear, {"weight": np.zeros((5, 5))})': 'rf.load_params(filename)',
    'rf.as_torch(linear)(torch.zeros(3, 5))': 'source = rf.convert_to_tensor(source, dims=[...])',
    'rf.as_torch(linear, inputs="batch feature")(torch.zeros(3, 5))': 'source, _ = rf.replace_dim(source, in_dim=feature, out_dim=feat)',
    'x.mark_as_loss("l")': 'with rf.init_train_step_run_ctx() as ctx:',
    'with rf.init_train_step_run_ctx(): x.mark_as_loss("l"); x.mark_as_loss("l")': 'rf.init_train_step_run_ctx(step=...)',
    'rf.ctc_loss(logits=logits, targets=ids, input_spatial_dim=time, targets_spatial_dim=words, blank_index=0)': 'targets.dims[0]',
    'rf.Dim("time")': 'Dim(3, name="dim")',
    'rf.Dim([7, 5, 3], name="time")': 'time = rf.ragged_dim(lengths, over=batch, name="time")',
    'rf.where(x > 0, x)': 'rf.where(cond, true_, ...)',
    'rf.masked_select(x, mask=x > 0)': 'rf.masked_select(tensor, mask=mask, dims=...)',
    'rf.masked_select(x, mask=rf.reduce_sum(x, axis=feat), dims=[batch, time])': 'mask = x > 0',
    'rf.named(np.zeros((3, 4)), "batch")': 'rf.named(x, "batch axis1")',
    'rf.named(np.zeros((3, 4)), "batch time feat")': 'rf.named(x, "batch time")',
    'rf.named([[1, 2], [3]], "batch time")': "np.array([row + [0] * (2 - len(row)) for row in values])",
    'rf.reduce(x, mode="average", axis=time)': 'mode="sum"',
    'rf.TransformerEncoder(feat, num_layer=2)': 'rf.TransformerEncoder(feat, num_layers=2)',
    'rf.random_normal((3, 5))': 'Dim(3, name="...")',
    'rf.random_normal([batch], std=2)': 'rf.random_normal(dims, stddev=2)',
    'rf.range_over_dim("time")': 'Dim(3, name="time")',
    'rf.shift_right(x, axis=time)': 'rf.shift_right(source, axis=time, pad_value=...)',
    'class Net(rf.Module):\n    def forward(self, x): return x\nNet()(x)': '__call__ = forward',
    'class Net(rf.Module): pass\nNet()(x)': 'def __call__(self, source): ...',
    'rf.Tensor("x", [batch], "int32", sparse_dim=6)': 'sparse_dim=rf.Dim(6, name="vocab")',
    'rf.convert_to_tensor([1, 2, 3], dims=[batch], sparse_dim="vocab")': 'sparse_dim=rf.Dim(3, name="vocab")',
    'rf.Loop(axis="time")': 'rf.Loop(axis=x.dims[1])',
    'rf.Loop(axis=5)': 'rf.Loop(axis=x.dims[1])',
    'loop = rf.Loop(axis=time)\nfor _ in loop: pass\nfor _ in loop: pass': 'loop = rf.Loop(axis=loop.axis)',
    'rf.run(lambda: 1, pause=True)': 'rf.run(fn, paused=True)',
    'rf.run(lambda x: x, 1, break_if="h.max() > 1")': "rf.run(fn, break_when='h.max() > 1')",
    "trace.atention": "trace.attention",
    "linear.weights": "linear.weight",
    "rf.set_params(linear, {})": "rf.set_params(model, params, allow_missing=True)",
    'rf.Loop(max_seq_len=-3)': 'rf.Loop(max_seq_len=3)',
    'rf.named(np.zeros((3, 4)), [batch, feat])': 'rf.named(x, [batch, "feat"])',
    'rf.beam_search(step, batch=batch, max_seq_len=2, beam_size=0, axis=vocab)': 'rf.beam_search(step, batch=batch, max_seq_len=',
    'rf.beam_search(step, batch=batch, max_seq_len=2, eos=2, axis=vocab)':
        'rf.beam_search(step, batch=batch, max_seq_len=2, end_label=2, axis=vocab)',
    'loop = rf.Loop(axis=time)\nloop.state.h = rf.zeros([batch, feat])\nfor _ in loop: loop.state.h = linear(loop.unstack(x))':
        'loop.state.h = rf.zeros([batch, out])',
    'rf.show(x, kind="heatmap")': 'rf.viz.dims(value)',
    'rf.set_default_device("gpu")': 'rf.set_default_device("',  # the last device that there is: of this machine, or of a test
    'with rf.init_train_step_run_ctx() as ctx: ctx.mark_as_loss(0.5, "ce")': 'mark_as_loss(0.5, "ce", as_error=True)',
    'trace.save("missing/run.rfnb")': 'os.makedirs(\'missing\')',
    'rf.save_params(dict(linear.named_parameters()), "missing/model.npz")': 'os.makedirs(\'missing\')',
    'rf.save_html("missing/a.html", x)': 'os.makedirs(\'missing\')',
    'rf.save_html(".", x)': 'path = ',
    'trace.save("model.npz/run.rfnb")': "path = 'run.rfnb'",
    "trace.events[0].value": "event.values",
    "x.assign(x)": "x = y",
    "x.fill_(0)": "x = rf.full(dims=x.dims, fill_value=0.0)",
    "x.zero_()": "x = rf.zeros_like(x)",
    "x.add_(1)": "x = x + y",
    "loop = rf.Loop(axis=time)\nfor _ in loop: loop.state.h": "loop.state.h = rf.zeros([batch])",
    "loop = rf.Loop(axis=time)\nloop.state.h = rf.zeros([batch])\nfor _ in loop: loop.state.c": "rf.zeros(loop.state.h.dims)",
    "loop = rf.Loop(axis=time)\nloop.state.hidden = x\nfor _ in loop: loop.state.hiden": "loop.state.hidden",
    "loop = rf.Loop(axis=time)\nfor _ in loop: loop.state.h = rf.zeros([batch])": "loop.state.h = rf.zeros([batch])",
    "loop = rf.Loop(axis=time)\nloop.state.h = x\nfor _ in loop: loop.state.h = x; loop.state.h = x": "loop.state.h = value",
    "rf.State(hidden=x).hiden": "state.hidden",
    "loop = rf.Loop(axis=time)\nfor _ in loop: pass\nloop.stack(x)": "out = loop.stack(value)",
    "loop = rf.Loop(axis=time)\nloop.unstack(x)": "x_t = loop.unstack(x)",
    "for _ in rf.Loop(): pass": "loop = rf.Loop(max_seq_len=50)",
    "for _ in rf.Loop(max_seq_len=7): pass": "loop = rf.Loop(max_seq_len=7)",
    "for _ in (loop := rf.Loop()): loop.end(x > 0, include_eos=True)": "loop = rf.Loop(max_seq_len=50)",
    "for _ in (loop := rf.Loop(max_seq_len=7)): loop.end(ended, include_eos=True); loop.end(ended, include_eos=True)":
        "rf.logical_or(first, second)",
    "for i in (loop := rf.Loop(axis=time)):\n    if i: loop.stack(rf.zeros([batch]))": "rf.where(wanted, value, 0.0)",
    "rf.Sequential([linear, 5])": "rf.Sequential(rf.Linear(in_dim, out_dim), rf.relu)",
    "rf.ModuleList([]).append(5)": "rf.ModuleList(rf.Linear(in_dim, out_dim), rf.relu)",
    "rf.ModuleList([linear])(x)": "rf.Sequential(modules)",
    "rf.ParameterList([linear])": "rf.ModuleList(modules)",
    "rf.split(x, axis=feat, out_dims=[Dim(2, name='a'), Dim(2, name='b')])": "rf.Dim(1, name=\"rest\")",
    "rf.split(x, axis=feat, out_dims=[Dim(4, name='a'), Dim(2, name='b')])": "rf.Dim(1, name=\"b\")",
    "rf.split_dims(x, axis=feat, dims=[Dim(2, name='a'), Dim(2, name='b')])": "rf.pad(source, axes=[axis], padding=[(0, 1)])",
    "x.copy_transpose([batch, time])": "x.copy_transpose([x.dims[0], x.dims[1], x.dims[2]])",
    "rf.replace_dim(x, in_dim=feat, out_dim=vocab)": "rf.replace_dim(source, in_dim=in_dim)",
    'rf.beam_search(step, batch=batch, max_seq_len=2, end_label=77, axis=vocab)':
        'rf.beam_search(step, batch=batch, max_seq_len=max_seq_len, axis=axis, end_label=5)',
    'rf.debug(padding="none")': 'rf.debug(padding="nan")',
    'rf.debug(pading="nan")': "rf.debug(padding='nan')",
}  # fmt: skip


# What users have by the names that lines to type use.
OWN = {
    "xs": [x], "points": [(1, 2.0)], "labels": {"time": list("abcdefg")}, "encoder": linear, "decoder": lstm, "a": x, "b": x,
    "other": trace, "values": [[1, 2], [3]], "lengths": [7, 5, 3], "batches": [x], "filename": "model.npz", "model": linear,
    "diff": rf.diff(trace, trace), "event": trace.events[0], "y": x, "value": rf.zeros([batch]), "state": rf.State(hidden=x),
    "modules": [linear], "in_dim": feat, "out_dim": out, "first": ended, "second": ended, "wanted": ended, "loop": rf.Loop(axis=time),
}  # fmt: skip
# Lines that do not run as they are, by the reason.
NOT_RUN = {
    "what is meant is left open": {
        "rf.where(x, x, 0.0)", "rf.relu(x.raw_tensor)", "rf.cross_entropy(logits, ids)", "x += \"a\"", "rf.Conv1d(feat, out, 3)(x)",
        "lstm(x, spatial_dim=time, state=rf.zeros([batch, out]))", "rf.concat((x, time), (x, feat))", "rf.stack([x, randn(batch, feat)])",
        "x + np.zeros((3, 7, 5))", "x + torch.zeros(3, 7, 5)", "x * logits * linear(x) @ 3", "rf.cond(True, 1, 2)", "rf.nbest(x)",
        "rf.get_beam_scores(x)", "rf.watch()",
        "rf.as_torch(linear)(torch.zeros(3, 5))", "rf.where(x > 0, x)", "rf.shift_right(x, axis=time)",
        "with rf.init_train_step_run_ctx(): x.mark_as_loss(\"l\"); x.mark_as_loss(\"l\")", "rf.diff(trace)", "rf.diff(trace, linear)",
        "rf.show(None)", "rf.show(5)",
        "lstm(x)", 'rf.convert_to_tensor(np.zeros((3, 8, 5), "float32"), dims=[batch, time, feat])', 'rf.save_html("a.html", 5)',
    },
    "there is no recorded search, and no run": {"rf.viz.beams(x)", "rf.compare_runs(trace, 5)"},
    "what was wrong is called so": {'rf.load_params(linear, {"weight": np.zeros((5, 5))})', "rf.diff(trace, trace, tolerance=-1)"},
    "it goes into a running loop": {
        "for _ in (loop := rf.Loop(max_seq_len=7)): loop.end(ended, include_eos=True); loop.end(ended, include_eos=True)",
        "for i in (loop := rf.Loop(axis=time)):\n    if i: loop.stack(rf.zeros([batch]))",
    },
    "the step is over": {'with rf.init_train_step_run_ctx() as ctx: ctx.mark_as_loss(0.5, "ce")'},
    "the dim is made inside": {'rf.as_torch(linear, inputs="batch feature")(torch.zeros(3, 5))'},
    "there is no such device": {'x.to("cuda")', "linear.cuda()"},
    "a part of a class": {"linear.forward(x)", "class Net(rf.Module): pass\nNet()(x)",
                          "class Net(rf.Module):\n    def forward(self, x): return x\nNet()(x)"},
}  # fmt: skip


def arguments_behind(error):
    """The arguments of the functions that led to an error, the outermost first."""
    found = {}
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if in_package(frame.f_code):
                args, kwargs = arguments_of(frame)
                for name, value in {**dict(zip(frame.f_code.co_varnames, args)), **kwargs}.items():
                    if value is not None:
                        found.setdefault(name, value)
        error = error.__cause__ or error.__context__
    owner = found.get("instance", found.get("self"))
    if isinstance(owner, rf.Tensor):
        found.update(x=owner, a=owner, b=found.get("other"))
    return {**found, "model": owner} if isinstance(owner, rf.Module) else found


def complete(fix):
    """The lines of a text that are whole code; a `with` without a body gets one."""
    whole = []
    lines = fix.splitlines()
    for line, after in zip(lines, [*lines[1:], ""]):
        code = line.split("    #")[0].rstrip()
        if code != "    ..." and "..." not in code.replace('"..."', "") or code.endswith(": ..."):
            whole.append(code + " pass" if code.endswith(":") and (after[:1] != " " or "..." in after) else code)
    return "\n".join(whole)


@pytest.mark.parametrize("typed", ANSWERED)
def test_the_line_to_type_is_shown_and_runs(typed, tmp_path, switches, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rf.save_params(dict(linear.named_parameters()), "model.npz")
    names = dict(globals())
    with pytest.raises((TypeError, ValueError, AttributeError, LookupError, RuntimeError, OSError)) as caught:
        exec(typed, names)
    what, operands, rule, fix = parts_of(caught.value)
    assert what and operands and rule
    assert ANSWERED[typed] in fix
    if not any(typed in each for each in NOT_RUN.values()):
        code = complete(fix)
        assert code
        monkeypatch.setattr(rf, "debug", switches.debug)
        contextvars.copy_context().run(exec, code, {**OWN, **names, **arguments_behind(caught.value)})


class Switches:
    """Switches that a line to type has turned on, to be turned off again."""

    def __init__(self):
        self._on, self._debug = [], rf.debug

    def debug(self, *args, **kwargs):
        self._on.append(self._debug(*args, **kwargs))
        return self._on[-1]

    def off(self):
        for switch in self._on:
            switch.off()


@pytest.fixture
def switches():
    made = Switches()
    yield made
    made.off()


def test_what_does_not_run_is_in_the_table():
    assert set().union(*NOT_RUN.values()) - ANSWERED.keys() == set()


# What is accepted, and warned of.
WARNED = {
    "trace.select(kind='typo')": 'trace.select(kind="',
    "with rf.record(path='linaer'): linear(x)": 'rf.record(path="linear")',
    "rf.show(trace, path='linaer')": 'rf.show(trace, path="linear")',
    "trace.select(path='linaer')": 'trace.select(path="',
    "rf.cross_entropy(estimated=rf.softmax(logits, axis=vocab), target=ids, axis=vocab, estimated_type='logits')": 'estimated_type="probs"',
}  # fmt: skip


@pytest.mark.parametrize("typed", WARNED)
def test_the_line_to_type_is_in_a_warning(typed):
    with pytest.warns(UserWarning) as caught:
        # The other one may be in a container since another line was typed: its path is "0" then.
        exec(typed, {**globals(), "linear": rf.Linear(feat, out)})
    assert WARNED[typed] in str(caught[0].message).splitlines()[-1]


def test_logits_are_not_warned_of(recwarn):
    rf.cross_entropy(estimated=logits, target=ids, axis=vocab, estimated_type="logits")
    assert not recwarn.list


def test_arrays_and_scalars_of_numpy_stand_on_the_left():
    assert bool((np.float32(2) * x == x * 2).raw_tensor.all())
    assert bool(((np.float64(0) < x) == (x > 0)).raw_tensor.all())
