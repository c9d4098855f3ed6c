"""A checkpoint in the documented names and layouts gives the outputs of the raw torch model that it is from."""

import os

import numpy as np
import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn, tensor

import rfnb as rf
from rfnb import CheckpointError, Dim

VOCAB, EMBED, HIDDEN, OUT = (
    Dim(size, name=name) for size, name in ((11, "vocab"), (4, "embed"), (5, "hidden"), (3, "out"))
)
BATCH = Dim(2, name="batch")


class Encoder(rf.Module):
    """Embedding, convolution, batch norm, layer norm, LSTM, linear; names as RETURNN gives them, by attributes."""

    def __init__(self):
        self.embed = rf.Embedding(VOCAB, EMBED)
        self.conv = rf.Conv1d(EMBED, HIDDEN, 3, padding="same")
        self.batch_norm = rf.BatchNorm(HIDDEN)
        self.layers = rf.ModuleList(rf.LayerNorm(HIDDEN), rf.Linear(HIDDEN, EMBED))
        self.lstm = rf.LSTM(EMBED, HIDDEN)
        self.out = rf.Linear(HIDDEN, OUT)

    def __call__(self, ids, *, spatial_dim):
        x, _ = self.conv(self.embed(ids), in_spatial_dim=spatial_dim)
        norm, linear = self.layers
        x = linear(norm(self.batch_norm(x)))
        state = self.lstm.default_initial_state(batch_dims=[BATCH])
        x, _ = self.lstm(x, state=state, spatial_dim=spatial_dim)
        return self.out(x)


class RawEncoder(torch.nn.Module):
    """The same in raw torch, for one sequence (time,) at a time."""

    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(11, 4)
        self.conv = torch.nn.Conv1d(4, 5, 3, padding="same")
        self.batch_norm = torch.nn.BatchNorm1d(5, eps=1e-3)
        self.norm = torch.nn.LayerNorm(5, eps=1e-6)
        self.linear = torch.nn.Linear(5, 4)
        self.lstm = torch.nn.LSTM(4, 5)
        self.out = torch.nn.Linear(5, 3)

    def forward(self, ids):
        x = self.batch_norm(self.conv(self.embed(ids).T[None]))[0].T
        return self.out(self.lstm(self.linear(self.norm(x)))[0])

    def documented(self):
        """The state in the documented names and layouts: torch's gates are i, f, g, o as well, with two biases that are added."""
        norm = self.batch_norm
        state = {
            "embed.weight": self.embed.weight,
            "conv.filter": self.conv.weight,
            "conv.bias": self.conv.bias,
            "batch_norm.gamma": norm.weight,
            "batch_norm.beta": norm.bias,
            "batch_norm.running_mean": norm.running_mean,
            "batch_norm.running_variance": norm.running_var,
            "layers.0.scale": self.norm.weight,
            "layers.0.bias": self.norm.bias,
            "layers.1.weight": self.linear.weight.T,
            "layers.1.bias": self.linear.bias,
            "lstm.ff_weight": self.lstm.weight_ih_l0,
            "lstm.rec_weight": self.lstm.weight_hh_l0,
            "lstm.bias": self.lstm.bias_ih_l0 + self.lstm.bias_hh_l0,
            "out.weight": self.out.weight.T,
            "out.bias": self.out.bias,
        }
        return {name: value.detach().contiguous() for name, value in state.items()}


@pytest.fixture
def raw():
    torch.manual_seed(1)
    model = RawEncoder().eval()
    with torch.no_grad():
        for tensor_ in (*model.parameters(), model.batch_norm.running_mean):
            tensor_.copy_(torch.randn_like(tensor_))
        model.batch_norm.running_var.copy_(torch.rand(5) + 0.5)
    return model


@pytest.fixture
def file(raw, tmp_path):
    torch.save({"model": raw.documented(), "epoch": 40, "step": 12345}, tmp_path / "epoch.040.pt")
    return tmp_path / "epoch.040.pt"


def test_a_model_with_loaded_parameters_computes_what_raw_torch_computes(raw, file):
    loaded = rf.load_torch_checkpoint(file)
    assert (loaded.step, loaded.epoch) == (12345, 40)
    model = Encoder()
    assert rf.set_params(model, loaded) == []
    lengths, time = [6, 4], ragged([6, 4], BATCH)
    ids = tensor(np.random.default_rng(0).integers(0, 11, (2, 6)), BATCH, time, sparse_dim=VOCAB)
    got = model(ids, spatial_dim=time).copy_transpose([BATCH, time, OUT]).raw_tensor
    for sequence, length in enumerate(lengths):
        expected = raw(ids.raw_tensor[sequence, :length])
        torch.testing.assert_close(got[sequence, :length], expected, rtol=1e-5, atol=1e-5)


def test_a_bare_state_dict_and_bfloat16_are_read(tmp_path):
    torch.save({"weight": torch.tensor([1.5, 2.0], dtype=torch.bfloat16), "count": torch.tensor(3)}, tmp_path / "a.pt")
    loaded = rf.load_torch_checkpoint(tmp_path / "a.pt")
    assert loaded["weight"].tolist() == [1.5, 2.0] and loaded["weight"].dtype == np.float32
    assert loaded["count"].item() == 3 and loaded.step is None and loaded.epoch is None


def test_a_torch_checkpoint_can_become_an_npz_file(file, tmp_path):
    params = rf.load_torch_checkpoint(file)
    rf.save_params(params, tmp_path / "model.npz", step=params.step, epoch=params.epoch)
    again = rf.load_params(tmp_path / "model.npz")
    assert again.step == 12345 and all(np.array_equal(params[name], again[name]) for name in params)


def test_what_does_not_fit_is_listed_and_nothing_loaded(raw, tmp_path):
    state = raw.documented()
    state["lstm.ff_weight"] = state["lstm.ff_weight"].T.contiguous()
    state["lstm.weight"] = state.pop("lstm.rec_weight")
    torch.save({"model": state}, tmp_path / "a.pt")
    model = Encoder()
    before = model.embed.weight.numpy().copy()
    with raises_message(CheckpointError, """
        The parameters in a.pt are not those of the model:
          missing    lstm.rec_weight
          shape      lstm.ff_weight: (4, 20), needed (20, 4)
          not known  lstm.weight
        Parameters come under the names that the model has for them:
            params["lstm.rec_weight"] = params.pop("lstm.weight")
        """):  # fmt: skip
        rf.set_params(model, rf.load_torch_checkpoint(tmp_path / "a.pt"), source="a.pt")
    assert np.array_equal(model.embed.weight.numpy(), before)


class Code:
    """Code that a pickle may execute when it is read."""

    def __reduce__(self):
        return os.mkdir, ("should-not-be-there",)


def test_code_in_a_file_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.save({"model": {"weight": Code()}}, tmp_path / "bad.pt")
    with pytest.raises(
        CheckpointError, match="bad.pt is damaged, or holds more than tensors and plain values.\n  cause  "
    ):
        rf.load_torch_checkpoint(tmp_path / "bad.pt")
    assert not (tmp_path / "should-not-be-there").exists()


def test_a_file_that_is_cut_off(file, tmp_path):
    whole = file.read_bytes()
    for data in (b"", whole[:50], whole[:-100], b"something else"):
        file.write_bytes(data)
        with pytest.raises(CheckpointError, match="epoch.040.pt is damaged"):
            rf.load_torch_checkpoint(file)
    with pytest.raises(FileNotFoundError):
        rf.load_torch_checkpoint(tmp_path / "nothing.pt")


def test_a_file_without_tensors_by_name(tmp_path):
    torch.save({"optimizer": {"lr": 0.1}}, tmp_path / "a.pt")
    with raises_message(CheckpointError, f"""
        load_torch_checkpoint: {tmp_path / "a.pt"} has no tensors by name.
          has  optimizer
        It is {{"model": state_dict, ...}} or a state_dict.
        """):  # fmt: skip
        rf.load_torch_checkpoint(tmp_path / "a.pt")


def test_the_conv_of_the_model_is_not_symmetric(raw):
    """So that the comparison above would see a flipped filter."""
    model, time = Encoder(), Dim(6, name="time")
    rf.set_params(model, raw.documented())
    x = randn(BATCH, time, EMBED)
    out, _ = model.conv(x, in_spatial_dim=time)
    model.conv.filter.assign(tensor(model.conv.filter.numpy()[:, :, ::-1].copy(), *model.conv.filter.dims))
    with pytest.raises(AssertionError):
        assert_same(model.conv(x, in_spatial_dim=time)[0], out)
