"""Reads that do not wait twice, and rankings that do not wait at all."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from asserting import assert_same, randn
from recorded_searches import BASE, search
from simulated import NAME, watched

import rfnb as rf
from rfnb import Dim
from rfnb.backends.numpy_backend import NumpyBackend
from rfnb.backends.torch_backend import TorchBackend
from rfnb.rec.device_reads import DeviceReads, Value

MANY = [
    torch.tensor([True, False, True]),
    torch.tensor(5),
    torch.arange(6, dtype=torch.int32).reshape(2, 3).T,
    torch.zeros(2, 0, dtype=torch.int64),
    torch.tensor([0.5, -0.0, float("nan")]),
    torch.tensor([[1.0, 2.5]], dtype=torch.bfloat16),
    torch.tensor([1.0, 3.0], dtype=torch.float64),
]


def test_arrays_of_a_device_come_in_one_copy():
    here = torch.tensor([1.0, 2.0])
    raws = [raw.to(NAME) for raw in MANY]
    with watched() as seen:
        found = TorchBackend.raws_to_numpy([raws[0], here, *raws[1:]])
    assert len(seen.waits) == 1
    for one, raw in zip([found[0], *found[2:]], MANY, strict=True):
        np.testing.assert_array_equal(one, TorchBackend.raw_to_numpy(raw), strict=True)
    np.testing.assert_array_equal(found[1], here.numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("device", ["cpu", NAME])
def test_the_first_of_equal_values_come_first(dtype, device):
    inf, nan = float("inf"), float("nan")
    special = torch.tensor([0.0, -0.0, nan, -nan, inf, -inf, inf, 1.5, -1.5, 1.5, -inf, nan, -1e-30])
    generator = torch.Generator().manual_seed(0)
    rows = [special[torch.randperm(len(special), generator=generator)] for _ in range(3)]
    rows.append(torch.randint(-2, 3, (len(special),), generator=generator).float())
    raw = torch.stack(rows).to(dtype)
    best, index = (x.cpu() for x in TorchBackend.first_top_k_raw(raw.to(device), 7))
    expected, places = torch.sort(raw, dim=-1, descending=True, stable=True)
    assert index.tolist() == places[:, :7].tolist()
    np.testing.assert_array_equal(best.float(), expected[:, :7].float())
    host = raw.double().nan_to_num(nan=0.0, posinf=9.0, neginf=-9.0).numpy()  # NumPy has NaN last
    best, index = NumpyBackend.first_top_k_raw(host, 5)
    np.testing.assert_array_equal(index, np.argsort(-host, -1, kind="stable")[:, :5])


def test_the_first_look_brings_all_that_is_wanted():
    wanted, checked = DeviceReads(), []
    raws = [torch.tensor([float(number)], device="cpu").to(NAME) for number in range(3)]
    values = [Value(raw, TorchBackend) for raw in raws]
    wanted.add(values[0])
    wanted.check(values[1], lambda host: checked.append(host.tolist()))
    with watched() as seen:
        wanted.make_checks()
        assert checked == [] and seen.waits == []
        assert values[0]().tolist() == [0.0]
        assert [value.is_here for value in values] == [True, True, False]
        wanted.make_checks()
        assert checked == [[1.0]]
        assert values[2]().tolist() == [2.0]
    assert len(seen.waits) == 2
    wanted.check(Value(raws[2], TorchBackend), lambda host: checked.append(host.tolist()))
    wanted.make_checks(of_all=True)
    assert checked == [[1.0], [2.0]]


def test_an_entry_at_a_number_of_the_device_is_not_waited_for():
    with rf.set_default_device_ctx(NAME):
        rows, columns = Dim(3, name="rows"), Dim(2, name="columns")
        x = rf.convert_to_tensor(np.arange(6.0).reshape(3, 2), dims=[rows, columns])
        index = rf.convert_to_tensor(np.int64(1), dims=[])
        with watched() as seen:
            found = [rf.gather(x, indices=index, axis=axis) for axis in (rows, columns)]
        assert seen.waits == []
    assert [one.numpy().tolist() for one in found] == [[2.0, 3.0], [1.0, 3.0, 5.0]]


BAD = {"nan": float("nan"), "inf": float("inf"), "impossible": float("-inf"), "above": 0.5}


def spoiled(kind, face, *, over_axis):
    """A search whose scores are bad in step 2, of sequence 1."""
    batch, vocab = Dim(2, name="batch", kind="batch"), Dim(6, name="labels")
    steps = Dim(5, name="steps")
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 5, 6)).astype(np.float32)
    x -= np.log(np.exp(x).sum(-1, keepdims=True))
    x[1, 2, 3 if kind != "impossible" else slice(None)] = BAD[kind] * (40 if kind == "above" else 1)
    scores = rf.convert_to_tensor(x, dims=[batch, steps, vocab])
    loop = rf.Loop(axis=steps, name="search") if over_axis else rf.Loop(max_seq_len=5, name="search")
    loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=vocab)

    def body():
        now = loop.unstack(scores) if over_axis else rf.gather(scores, indices=loop.iter_idx, axis=steps)
        own = now + rf.cast(loop.state.label, "float32") * 0.0
        label = rf.choice(own, axis=vocab, beam_size=3)
        loop.state.label = label
        if not over_axis:
            loop.end(label < 0, include_eos=True)
        return loop.stack(label)

    if face == "for":
        for _ in loop:
            body()
    else:
        with loop:
            body()


@pytest.mark.parametrize("over_axis", [False, True])
@pytest.mark.parametrize("face", ["for", "with"])
@pytest.mark.parametrize("kind", BAD)
def test_what_is_wrong_with_scores_is_told_in_the_same_words(kind, face, over_axis):
    texts = []
    for device in ("cpu", NAME):
        with rf.set_default_device_ctx(device), pytest.raises(ValueError, match="step 2: ") as error:
            spoiled(kind, face, over_axis=over_axis)
        texts.append(str(error.value))
    assert texts[0] == texts[1]


def test_a_search_over_a_known_length_never_waits():
    batch, vocab = Dim(2, name="batch", kind="batch"), Dim(6, name="labels")
    with rf.set_default_device_ctx(NAME):
        for count in (3, 9):
            steps = rf.ragged_dim([count, count - 1], over=batch, name="steps")
            scores = rf.log_softmax(rf.random_normal([batch, steps, vocab]), axis=vocab)
            with watched() as seen:
                loop = rf.Loop(axis=steps)
                loop.state.label = rf.zeros([batch], dtype="int64", sparse_dim=vocab)
                for _ in loop:
                    label = rf.choice(
                        loop.unstack(scores) + rf.cast(loop.state.label, "float32") * 0.0, axis=vocab, beam_size=3
                    )
                    loop.state.label = label
                    labels = loop.stack(label)
            # When it is done: what the scores were like, and the way back.
            assert len(seen.waits) <= 2, seen.waits
        assert labels.device.startswith(NAME)


def test_one_search_on_both_devices_after_each_other():
    on_cpu = search("for", **BASE)
    with rf.set_default_device_ctx(NAME):
        search("for", **BASE)
    for name, value in search("for", **BASE).items():
        np.testing.assert_array_equal(value, on_cpu[name])


@pytest.mark.parametrize("order", [("time", "feat"), ("feat", "time"), ("time",), ("time", "batch", "feat")])
def test_the_counter_of_a_loop_is_an_index_wherever_the_axis_is(order):
    dims = {name: Dim(size, name=name) for name, size in [("time", 3), ("feat", 2), ("batch", 4)]}
    x = randn(*(dims[name] for name in order))
    on_device = rf.copy_to_device(x, NAME)
    for face in (False, True):
        loop = rf.Loop(axis=dims["time"])
        with watched() as seen:
            if face:
                with loop:
                    out = loop.stack(rf.gather(on_device, indices=loop.iter_idx, axis=dims["time"]))
            else:
                for _ in loop:
                    out = loop.stack(rf.gather(on_device, indices=loop.iter_idx, axis=dims["time"]))
        assert out.raw_tensor.device.type == NAME and seen.waits == []
        assert_same(rf.copy_to_device(out, "cpu"), x)
