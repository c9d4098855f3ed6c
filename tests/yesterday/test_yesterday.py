"""Files that earlier versions have written are read as those versions read them, or refused by a sentence that names both versions."""

import importlib
import json
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from yesterday.opened import OPENED, trainer_of_state, unpacked

import rfnb as rf
from rfnb.core import formats
from rfnb.core.formats import Format
from rfnb.models.g2p_checkpoint import load_g2p
from rfnb.places.unknown_names import DEPRECATED, Deprecated
from rfnb.viz.spec import unpack

HERE = Path(__file__).parent
FILES = [
    pytest.param(folder, name, id=f"{folder.name}/{name}")
    for folder in sorted(HERE.glob("[0-9]*"))
    for name in json.loads((folder / "expected.json").read_text())
]


def almost(found, expected):
    """Whether two values of JSON are the same, floats up to the fifth digit."""
    if isinstance(found, float) and isinstance(expected, (int, float)):
        return found == pytest.approx(expected, rel=1e-4, abs=1e-5)
    if isinstance(found, dict) and isinstance(expected, dict):
        return found.keys() == expected.keys() and all(almost(found[name], expected[name]) for name in found)
    if isinstance(found, list) and isinstance(expected, list):
        return len(found) == len(expected) and all(map(almost, found, expected))
    return found == expected


@pytest.mark.parametrize(("folder", "name"), FILES)
def test_a_file_of_an_earlier_version_is_read_as_it_read_it(folder, name):
    expected = json.loads((folder / "expected.json").read_text())[name]
    found = json.loads(json.dumps(OPENED[name](unpacked(folder, name)), allow_nan=False))
    assert almost(found, expected)


def with_metadata(path, change):
    with safe_open(path, framework="numpy") as file:
        metadata, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}
    change(metadata)
    save_file(arrays, path, metadata=metadata)


def recording(path, version):
    def change(metadata):
        metadata["rfnb"] = json.dumps(json.loads(metadata["rfnb"]) | {"version": version})

    with_metadata(path, change)
    rf.load_trace(path)


def g2p(path, version):
    with_metadata(path, lambda metadata: metadata.update(format=f"rfnb-g2p-{version}"))
    load_g2p(path)


def g2p_training(path, version):
    path.write_bytes(f"rfnb.state.{version}".encode() + path.read_bytes()[12:])
    trainer_of_state().load(path)


def parameters(path, version):
    arrays = rf.load_params(path)
    np.savez(path, **{**arrays, "/layout": np.asarray(version)})
    rf.load_params(path)


def frame(path, version):
    data = bytes.fromhex(json.loads(path.read_text())["states"])
    unpack(data[:4] + struct.pack("<I", version) + data[8:])


READERS = {
    "run.rfnb": (recording, formats.RECORDING), "tree.rfnb": (recording, formats.RECORDING),
    "training.rfnb": (recording, formats.RECORDING), "g2p.safetensors": (g2p, formats.G2P_MODEL),
    "state.pt": (g2p_training, formats.G2P_TRAINING), "frames.json": (frame, formats.FRAME),
    "layers.npz": (parameters, formats.PARAMETERS),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_another_version_is_refused_by_a_sentence_that_names_both(name):
    """Of each kind of file: one version more than is read, and one less."""
    read, written = READERS[name]
    folder = FILES[0].values[0]
    read(unpacked(folder, name), written.now)
    for version, whose in ((written.now + 1, "A newer rfnb"), (written.oldest - 1, "An older rfnb")):
        if version > 0:
            with pytest.raises(ValueError) as caught:
                read(unpacked(folder, name), version)
            text = str(caught.value)
            assert (
                f"version {version} of {written.what}" in text
                and f"version {written.now}, by rfnb {rf.__version__}" in text
            )
            assert f"{whose} wrote it" in text and text.splitlines()[-1].startswith("    pip install ")


def test_the_table_has_every_version_with_its_release():
    table = [each for each in vars(formats).values() if isinstance(each, Format)]
    assert {id(each) for each in table} == {id(each) for _, each in READERS.values()}, (
        "a format that nothing above reads"
    )
    assert formats.RELEASE == rf.__version__
    assert all(
        sorted(each.since) == list(range(min(each.since), each.now + 1)) and each.oldest in each.since for each in table
    )


def test_versions_of_a_format_that_was_changed_twice_are_told_apart():
    changed = Format("things", {1: "0.1.0", 2: "0.2.0", 3: "0.3.0"}, oldest=2)
    assert [version for version in range(6) if changed.problem(version) is None] == [2, 3]
    assert changed.problem(1)[1:] == ("An older rfnb wrote it, and can still read it.", 'pip install "rfnb<0.2.0"')
    assert changed.problem(4)[1:] == ("A newer rfnb wrote it.", "pip install --upgrade rfnb")
    assert changed.problem(4, "0.4.1")[2] == 'pip install "rfnb>=0.4.1"'
    for odd in (True, "1", None, 1.0, 0, -1, [1]):
        assert "the file is damaged" in changed.problem(odd)[1]


@pytest.mark.parametrize("module", ["rfnb", "rfnb.decoder.transformer"])
def test_a_deprecated_name_works_and_says_once_what_to_type(monkeypatch, module):
    entry = Deprecated("rfnb.core.dim:Dim", "rf.Dim(3)", since="0.2.0", gone="0.4.0")
    monkeypatch.setitem(DEPRECATED, f"{module}.Axis", entry)
    where = importlib.import_module(module)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert all(where.Axis is rf.Dim for _ in range(3))
    (warning,) = said
    assert warning.category is FutureWarning and warning.filename == __file__
    assert str(warning.message) == (
        f"{module}.Axis is deprecated.\n  since    rfnb 0.2.0\n  gone in  rfnb 0.4.0\n"
        "It works until then. Type instead:\n    rf.Dim(3)"
    )


def test_deprecated_names_stand_for_what_is_there_and_do_not_hide_a_name():
    for full, entry in DEPRECATED.items():
        module, _, name = full.rpartition(".")
        place, _, attribute = entry.now.partition(":")
        assert hasattr(importlib.import_module(place), attribute) and entry.line
        assert name not in vars(importlib.import_module(module))
