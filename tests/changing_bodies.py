"""Recurrent bodies of several kinds in a loop, with all that may be another one in the next run."""

import contextlib

import torch
from asserting import ragged

import rfnb as rf
from rfnb import Dim

IN, UNITS, TWIN = Dim(3, name="in"), Dim(4, name="units"), Dim(4, name="units")
STEPS = 9


class Model(rf.Module):
    """A recurrent body of one kind, with all of its parameters."""

    def __init__(self, kind):
        rf.set_random_seed(1)
        self.kind = kind
        self.out = rf.Linear(IN + UNITS, UNITS)
        self.key = rf.Linear(UNITS, UNITS, with_bias=False)
        self.lstm, self.gru = rf.LSTM(IN, UNITS), rf.GRUCell(IN, UNITS)
        generator = torch.Generator().manual_seed(3)
        for parameter in self.parameters():
            raw = parameter.raw_tensor
            parameter.raw_tensor = (torch.randn(raw.shape, generator=generator) / 2).to(raw.dtype)

    def step(self, x, h, now, encoder, source):
        if self.kind == "lstm":
            h, state = self.lstm(x, state=rf.LstmState(h=h, c=h), spatial_dim=rf.single_step_dim)
            return h + state.c
        if self.kind == "gru":
            return self.gru(x, state=rf.State(h=h), spatial_dim=rf.single_step_dim)[0]
        if self.kind == "attention":
            values = encoder if now["same_values"] else encoder * 2
            h = rf.dot_attention(self.key(h), encoder, values, key_dim=UNITS, axis=source) + rf.reduce_sum(x, axis=IN)
        else:
            h = self.out(rf.concat((x, IN), (h, UNITS), out_dim=IN + UNITS)[0])
        h = h if now["function"] is None else now["function"](h)
        h.feature_dim = UNITS
        return h


FIRST = {
    "lengths": None, "steps": STEPS, "batch": 2, "source": [5, 3], "number": 0.5, "function": rf.tanh, "dtype": "float32",
    "gradients": True, "train": False, "strided": False, "same_values": False, "initial": "zeros", "nan": False, "twin": False,
    "add": None, "frozen": False, "around": contextlib.nullcontext, "parameter": None, "hook": False, "bias": True,
    "own_index": False, "nan_padding": False,
}  # fmt: skip


def run(face, model, now):
    """The outputs, the last state, and the gradients of all parameters."""
    batch = Dim(now["batch"], name="batch")
    time = Dim(now["steps"], name="time") if now["lengths"] is None else ragged(now["lengths"], batch, "time")
    source = Dim(5, name="source") if now["source"] is None else ragged(now["source"], batch, "source")
    generator = torch.Generator().manual_seed(7)

    def values(*dims):
        shape = [dim.extent for dim in dims]
        raw = torch.randn(shape[::-1] if now["strided"] else shape, generator=generator, dtype=torch.float64)
        raw = (raw.permute(*reversed(range(len(shape)))) if now["strided"] else raw).to(getattr(torch, now["dtype"]))
        return rf.convert_to_tensor(raw, dims=dims)

    x, encoder, weight = values(batch, time, IN), values(batch, source, UNITS), values(UNITS)
    for raw in model.parameters():
        raw.raw_tensor.grad = None
    with now["around"](), torch.set_grad_enabled(now["gradients"]):
        if now["nan"]:
            x.raw_tensor[0, 1] = torch.nan
        if now["nan_padding"] and now["source"] is not None:
            mask = source.get_mask([batch, source]).raw_tensor
            encoder.raw_tensor.masked_fill_(~mask.unsqueeze(-1), torch.nan)
        initial = rf.zeros([batch, UNITS], dtype=now["dtype"]) if now["initial"] != "ones" else values(batch, UNITS)
        if now["initial"] == "gradient":
            initial = initial + rf.reduce_sum(model.key.weight, axis=model.key.weight.dims)
        initial.feature_dim = UNITS
        rf.init_train_step_run_ctx(train_flag=now["train"])
        loop = rf.Loop(axis=time)
        loop.state.h = initial
        loop.state.other = initial if now["initial"] == "shared" else initial * 1
        added = {
            None: 0.0,
            "scalar": rf.constant(0.25, dims=[], dtype=now["dtype"]),
            "weight": weight,
            "state": initial,
        }
        added = added.get(now["add"], now["add"])

        def body():
            frame = loop.unstack(x)
            h = model.step(frame, loop.state.h, now, encoder, source) * now["number"] + added
            if now["twin"]:
                h, _ = rf.replace_dim(h, in_dim=UNITS, out_dim=TWIN)
                h, _ = rf.replace_dim(h * h, in_dim=TWIN, out_dim=UNITS)
            if now["own_index"]:
                h = h + rf.cast(loop.iter_idx, h.dtype)
            if rf.get_run_ctx().is_train_flag_enabled(func=None):
                h = h * 3
            loop.state.other = loop.state.other * 0.5 + loop.state.h
            loop.state.h = h = rf.cast(h, now["dtype"])
            return loop.stack(h + loop.state.other)

        if face == "with":
            with loop:
                out = body()
        else:
            for _ in loop:
                out = body()
        last = loop.state.h
        total = rf.reduce_sum(out, axis=out.dims).raw_tensor
    if total.requires_grad:
        total.backward()
    found = [out.copy_masked(0).copy_transpose([time, batch, UNITS]).raw_tensor.detach(),
             last.copy_transpose([batch, UNITS]).raw_tensor.detach()]  # fmt: skip
    return found, [parameter.raw_tensor.grad for parameter in model.parameters()]
