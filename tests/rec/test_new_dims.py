"""One model, batch after batch with dims of its own: every way to write its steps gives what each sequence gives alone."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
import torch
from asserting import ragged, with_padding
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_faces import FACES, run_steps

import rfnb as rf
from rfnb import Dim
from rfnb.rec import nested

IN, OUT, KEY = Dim(3, name="in"), Dim(4, name="out"), Dim(4, name="key")
GARBAGE = [0.0, float("nan"), float("inf"), 3e38]

rf.set_random_seed(7)
UNITS = {
    "LSTM": rf.LSTM(IN, OUT),
    "NativeLstm2": rf.NativeLstm2(IN, OUT),
    "StandardLSTMCell": rf.StandardLSTMCell(IN, OUT),
    "GRUCell": rf.GRUCell(IN, OUT),
    "TorchGRUCell": rf.TorchGRUCell(IN, OUT),
    "BasicRNNCell": rf.BasicRNNCell(IN, OUT),
}
WAYS = (*FACES, "scan", "unit")


class Decoder(rf.Module):
    """A unit that attends to a memory, the context fed back."""

    def __init__(self):
        self.unit = rf.LSTM(IN + KEY, OUT)
        self.query = rf.Linear(OUT, KEY)

    def start(self, batch):
        context = rf.zeros([batch, KEY], feature_dim=KEY)
        return rf.State(unit=self.unit.default_initial_state(batch_dims=[batch]), context=context)

    def step(self, x, state, memory, source):
        joined = rf.concat_features(x, state.context)
        h, unit = self.unit(joined, state=state.unit, spatial_dim=rf.single_step_dim)
        context = rf.dot_attention(self.query(h), memory, memory, key_dim=KEY, axis=source)
        context.feature_dim = KEY
        return rf.concat_features(h, context), rf.State(unit=unit, context=context)


DECODER = Decoder()


class Batch:
    """Sequences, with dims that nobody has seen."""

    def __init__(self, lengths, sources, seed, garbage, time_first):
        generator = np.random.default_rng(seed)
        self.lengths, self.sources = lengths, sources
        self.batch = Dim(len(lengths), name="batch")
        self.time, self.source = ragged(lengths, self.batch), ragged(sources, self.batch, "source")
        self.frames = [generator.normal(size=(n, 3)).astype("float32") for n in lengths]
        self.memories = [generator.normal(size=(n, 4)).astype("float32") for n in sources]
        dims = (self.time, self.batch, IN) if time_first else (self.batch, self.time, IN)
        self.x = self._padded(self.frames, self.time, IN, garbage).copy_transpose(dims)
        self.x.feature_dim = IN
        self.memory = self._padded(self.memories, self.source, KEY, garbage)

    def _padded(self, rows, axis, feature, garbage):
        raw = np.zeros((len(rows), axis.extent, feature.size), "float32")
        for index, row in enumerate(rows):
            raw[index, : len(row)] = row
        return with_padding(rf.convert_to_tensor(raw, dims=[self.batch, axis, feature]), garbage)


def in_steps(way, step, start, time, x):
    """The output of each step {time, ...}, and the last state."""
    if way == "scan":
        out, state, _ = rf.scan(spatial_dim=time, xs=x, initial=start, body=step)
        return out, state
    loop = rf.Loop(axis=time, optimize_move_layers_out=way != "with, nothing moved")
    loop.state.s = start

    def body():
        out, loop.state.s = step(loop.unstack(x), loop.state.s)
        return loop.stack(out)

    return run_steps(loop, way, body), loop.state.s


def of_unit(name, way, batch):
    unit = UNITS[name]
    start = unit.default_initial_state(batch_dims=[batch.batch])
    if way == "unit":
        return unit(batch.x, state=start, spatial_dim=batch.time)

    def step(x, state):
        return unit(x, state=state, spatial_dim=rf.single_step_dim)

    return in_steps(way, step, start, batch.time, batch.x)


def of_decoder(way, batch):
    def step(x, state):
        return DECODER.step(x, state, batch.memory, batch.source)

    return in_steps(way, step, DECODER.start(batch.batch), batch.time, batch.x)


def check(way, of, batch):
    """Each sequence, its outputs and its last state, against the same by Python steps for it alone."""
    out, state = of(way, batch)
    for index, length in enumerate(batch.lengths):
        if not length:  # no step was made, so the state is the initial one
            assert all(not part[index].any() for part in _parts(state, batch.batch))
            continue
        alone = Batch(batch.lengths[index : index + 1], batch.sources[index : index + 1], 0, 0.0, False)
        alone.x = rf.convert_to_tensor(batch.frames[index][None], dims=[alone.batch, alone.time, IN], feature_dim=IN)
        alone.memory = rf.convert_to_tensor(batch.memories[index][None], dims=[alone.batch, alone.source, KEY])
        expected, final = of("for", alone)
        got = out.copy_transpose([batch.batch, batch.time, out.feature_dim]).numpy()[index, :length]
        want = expected.copy_transpose([alone.batch, alone.time, expected.feature_dim]).numpy()[0]
        np.testing.assert_allclose(got, want, atol=2e-6)
        for got_part, part in zip(_parts(state, batch.batch), _parts(final, alone.batch), strict=True):
            np.testing.assert_allclose(got_part[index], part[0], atol=2e-6)


def _parts(state, batch):
    """Arrays (batch, feature), in an order of their own."""
    leaves = [(path, x) for path, x in nested.leaves(state) if isinstance(x, rf.Tensor)]
    return [x.copy_transpose([batch, x.feature_dim]).numpy() for _, x in sorted(leaves, key=lambda leaf: leaf[0])]


lengths = st.lists(st.integers(0, 4), min_size=1, max_size=3).filter(any)
batches = st.lists(
    st.tuples(lengths, st.lists(st.integers(1, 4), min_size=3, max_size=3), st.sampled_from(GARBAGE), st.booleans()),
    min_size=2,
    max_size=3,
)


def made(spec, seed):
    sizes, sources, garbage, time_first = spec
    return Batch(sizes, sources[: len(sizes)], seed, garbage, time_first)


@pytest.mark.parametrize("name", UNITS)
@settings(max_examples=12, deadline=None)
@given(specs=batches, ways=st.permutations(WAYS), gradients=st.booleans())
def test_units(name, specs, ways, gradients):
    for seed, spec in enumerate(specs):
        with contextlib.nullcontext() if gradients else torch.no_grad():
            for way in ways:
                check(way, lambda way, batch: of_unit(name, way, batch), made(spec, seed))


@settings(max_examples=25, deadline=None)
@given(specs=batches, ways=st.permutations((*FACES, "scan")), gradients=st.booleans())
def test_a_decoder(specs, ways, gradients):
    for seed, spec in enumerate(specs):
        with contextlib.nullcontext() if gradients else torch.no_grad():
            for way in ways:
                check(way, of_decoder, made(spec, seed))


def gradients_of(way, batch):
    parameters = [parameter.raw_tensor for parameter in DECODER.parameters()]
    for raw in parameters:
        raw.grad = None
    out, state = of_decoder(way, batch)
    loss = rf.reduce_sum(rf.square(out), axis=out.dims)
    loss = loss + sum(rf.reduce_sum(x, axis=x.dims) for x in rf.State(s=state).flatten_tensors())
    loss.raw_tensor.backward()
    return [raw.grad.numpy().copy() for raw in parameters]


@settings(max_examples=20, deadline=None)
@given(specs=batches, ways=st.permutations((*FACES, "scan")))
def test_gradients_of_a_decoder(specs, ways):
    for seed, spec in enumerate(specs):
        expected = gradients_of("for", made((*spec[:2], 0.0, False), seed))
        for way in ways:
            for got, want in zip(gradients_of(way, made(spec, seed)), expected, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


CHANGES = {
    "nothing": {},
    "lengths": {"lengths": [1, 4, 3]},
    "sources": {"sources": [4, 1, 2]},
    "the number of sequences": {"lengths": [4, 2], "sources": [2, 3]},
    "no padding": {"lengths": [4, 4, 4]},
    "the order of dims": {"time_first": True},
    "what is in the padding": {"garbage": float("nan")},
    "the values": {"seed": 5},
}


@pytest.mark.parametrize("way", (*FACES, "scan"))
@pytest.mark.parametrize("change", CHANGES)
def test_one_thing_changes_from_batch_to_batch(change, way):
    """And back: nothing of the batch before is left in the next one."""
    usual = {"lengths": [4, 2, 3], "sources": [2, 3, 1], "seed": 1, "garbage": 0.0, "time_first": False}
    for options in (usual, usual | CHANGES[change], usual):
        with torch.no_grad():
            check(way, of_decoder, Batch(**options))
