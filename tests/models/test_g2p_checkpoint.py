"""The checkpoint file: what goes in comes out, and bad files are named as what they are."""

import json

import numpy as np
import pytest
from models.tiny import TINY
from safetensors.numpy import load_file, save_file

from rfnb.data import g2p
from rfnb.models import g2p_checkpoint
from rfnb.models.g2p_checkpoint import CheckpointError, load_g2p, parameter_values, save_g2p


@pytest.fixture
def file(model, tmp_path):
    save_g2p(model, tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def metadata_of(file):
    header = file.read_bytes()
    size = int.from_bytes(header[:8], "little")
    return json.loads(header[8 : 8 + size])["__metadata__"]


def test_float32_file_gives_the_same_parameters(model, tmp_path):
    save_g2p(model, tmp_path / "model.safetensors", dtype="float32")
    loaded = load_g2p(tmp_path / "model.safetensors")
    assert loaded.config == TINY
    before, after = parameter_values(model), parameter_values(loaded)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_float16_file_gives_the_rounded_parameters(model, file):
    before, after = parameter_values(model), parameter_values(load_g2p(file))
    assert all(np.array_equal(before[name].astype(np.float16).astype(np.float32), after[name]) for name in before)
    assert all(value.dtype == np.float32 for value in after.values())


def test_symbols_and_sizes_are_in_the_metadata(file):
    metadata = metadata_of(file)
    assert tuple(json.loads(metadata["letters"])) == g2p.LETTERS
    assert tuple(json.loads(metadata["labels"])) == g2p.LABELS
    assert json.loads(metadata["config"])["decoder"] == 11


def test_missing_file_says_so(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no G2P checkpoint at .*nothing.safetensors.\nGive the path"):
        load_g2p(tmp_path / "nothing.safetensors")


def test_missing_shipped_file_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setattr(g2p_checkpoint, "SHIPPED", tmp_path / "g2p.safetensors")
    with pytest.raises(FileNotFoundError, match="python -m rfnb.models.train_g2p --install"):
        load_g2p()


@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_truncated_file_is_named_as_such(file, keep):
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(
        CheckpointError, match=r"model.safetensors \([\d,]+ bytes\) is damaged, cut off, or no safetensors file"
    ):
        load_g2p(file)


def test_foreign_bytes_are_named_as_such(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(b"PK\x03\x04" * 50)
    with pytest.raises(CheckpointError, match="is damaged, cut off, or no safetensors file"):
        load_g2p(tmp_path / "a.safetensors")


def test_safetensors_file_of_something_else_is_refused(tmp_path):
    save_file({"w": np.zeros(3, np.float32)}, tmp_path / "a.safetensors", {"format": "pt"})
    with pytest.raises(CheckpointError, match="not a G2P checkpoint of rfnb.\n  format    pt\n  expected  rfnb-g2p-1"):
        load_g2p(tmp_path / "a.safetensors")


def rewrite(file, change_values=None, change_metadata=None):
    values, metadata = load_file(file), metadata_of(file)
    if change_values:
        change_values(values)
    if change_metadata:
        change_metadata(metadata)
    save_file(values, file, metadata)


def test_missing_and_unknown_parameters_are_listed(file):
    def change(values):
        values["decoder.extra"] = values.pop("decoder.output.bias")

    rewrite(file, change)
    with pytest.raises(CheckpointError) as error:
        load_g2p(file)
    assert str(error.value).splitlines()[1:] == ["  missing    decoder.output.bias", "  not known  decoder.extra"]


def test_parameter_of_another_shape_is_named(file):
    rewrite(file, lambda values: values.update({"decoder.output.bias": np.zeros(3, np.float16)}))
    with pytest.raises(CheckpointError, match=r"shape      decoder.output.bias: \(3,\), needed \(40,\)"):
        load_g2p(file)


def test_parameter_that_is_not_finite_is_named(file):
    rewrite(file, lambda values: values.update({"decoder.output.bias": np.full(40, np.nan, np.float16)}))
    with pytest.raises(CheckpointError, match="not finite decoder.output.bias"):
        load_g2p(file)


def test_other_symbols_are_refused(file):
    rewrite(file, change_metadata=lambda metadata: metadata.update(labels=json.dumps(["<end>", "AA"])))
    with pytest.raises(CheckpointError, match="trained with other letters or phonemes"):
        load_g2p(file)


@pytest.mark.parametrize("change", [{"config": "{"}, {"config": '{"width": 3}'}, {"letters": "x"}])
def test_broken_metadata_is_named(file, change):
    rewrite(file, change_metadata=lambda metadata: metadata.update(change))
    with pytest.raises(CheckpointError, match="The metadata of .* is not complete"):
        load_g2p(file)
