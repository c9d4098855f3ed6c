"""A watched training writes files while it runs: its own file, and event files of TensorBoard."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from interop.watch.watched_models import Tagger, batches, loss_of, made, train
from warm import warm

import rfnb as rf
from rfnb.interop.watch import callbacks
from rfnb.trace.training import NORMS

STATS = {"gradient norm", "update ratio", "weight norm", "mean", "std", "zeros", "saturated", "largest", "dead units"}


def watched(path, updates=12, **options):
    """An open watch after some updates."""
    model = made(Tagger)
    optimizer = torch.optim.Adam(model.parameters())
    data = batches(updates)
    watch = rf.watch(model, optimizer, example=data[0], save=path, updates=3, **options)
    for number, ids in enumerate(data, 1):
        optimizer.zero_grad()
        loss = loss_of(model, ids)
        loss.backward()
        optimizer.step()
        watch.log(loss=loss)
        watch.log(loss=loss + 1)  # averaged with the one before
        if number % 4 == 0:
            watch.epoch()
    return watch


def assert_equal(read, own):
    for name in ("title", "every", "counts", "types", "says"):
        assert getattr(read, name) == getattr(own, name)
    assert {name: (curve.steps, curve.values) for name, curve in read.curves.items()} == {
        name: (curve.steps, curve.values) for name, curve in own.curves.items()
    }
    assert {key[0] for key in read.tables} == {key[0] for key in own.tables} == STATS
    for key, table in own.tables.items():
        assert read.tables[key].columns == table.columns and read.tables[key].steps == table.steps
        np.testing.assert_array_equal(read.tables[key].array(), table.array())
    assert [(each.label, each.step) for each in read.examples] == [(each.label, each.step) for each in own.examples]
    for one, other in zip(read.examples, own.examples):
        assert rf.diff(one.trace, other.trace).first is None and len(one.trace.events) == len(other.trace.events)


def test_the_file_of_a_training_that_runs_has_all_that_was_seen_and_the_closed_one_too(tmp_path):
    path = tmp_path / "training.rfnb"
    watch = watched(path)
    read = rf.load_trace(path).training
    assert_equal(read, watch)
    assert read.closed and read.facts[-1] == "the training has not ended: its process was killed, or is running yet"
    size = path.stat().st_size
    watch.log(accuracy=float("inf"))
    assert path.stat().st_size > size and rf.load_trace(path).training.curves["accuracy"].values == [float("inf")]
    watch.close()
    assert_equal(rf.load_trace(path).training, watch)
    assert rf.load_trace(path).training.facts == watch.facts and path.read_bytes()[8:9] == b"{"


def test_a_killed_process_leaves_every_update_that_it_has_said(tmp_path):
    path = tmp_path / "training.rfnb"
    paths = Path(rf.__file__).parents[1], Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [*warm(), str(Path(__file__).with_name("killed_training.py")), str(path)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        said = [process.stdout.readline().split() for _ in range(13)]
        process.kill()
    assert process.returncode == -9 and [int(update) for update, _ in said] == list(range(1, 14))
    training = rf.load_trace(path).training
    loss = training.curves["loss"]
    assert loss.steps[:13] == list(range(1, 14)) and training.counts["updates"] >= 13
    assert loss.values[:13] == [float.fromhex(value) for _, value in said]
    assert [each.label for each in training.examples][:3] == ["0", "1", "2"]
    assert training.examples[1].trace.states["lstm"]["h"].raw_tensor.shape[1] == 7
    assert "the training has not ended" in training.summary()


def test_a_file_that_is_cut_off_anywhere_has_all_lines_before(tmp_path):
    path, cut = tmp_path / "training.rfnb", tmp_path / "cut.rfnb"
    watch = watched(path)
    data, losses = path.read_bytes(), watch.curves["loss"]
    head = data.index(b"\n") + 1
    known = 0
    for end in [head, *range(head + 1, len(data), 997), len(data)]:
        cut.write_bytes(data[:end])
        training = rf.load_trace(cut).training
        count = len(training.curves["loss"].steps) if "loss" in training.curves else 0
        assert count >= known and (
            count == 0 or training.curves["loss"].values[: count - 1] == losses.values[: count - 1]
        )
        known = count
    assert known == 12
    for end in range(1, head, 7):
        cut.write_bytes(data[:end])
        with pytest.raises(ValueError, match="load_trace: "):
            rf.load_trace(cut)
    watch.close()


def test_a_line_that_was_changed_ends_what_is_read_and_is_said(tmp_path):
    path = tmp_path / "training.rfnb"
    watched(path, updates=5)
    lines = path.read_bytes().split(b"\n")
    at = next(number for number, line in enumerate(lines) if b'"loss",[[3,' in line)
    for bad in (b"[1]", b'{"curves":[["loss",[["x",1.0]]]]}', b'{"tables":[["mean","",["a"],[[1,"00"]]]]}',
                b'{"example":99999999999}', b'{"counts":{"updates":1.5}}', b"{" * 9000, b"\xff\xfe"):  # fmt: skip
        path.write_bytes(b"\n".join([*lines[:at], bad, *lines[at:]]))
        training = rf.load_trace(path).training
        assert training.curves["loss"].steps == [1, 2]
        assert training.facts[-2].startswith("the last ") and training.facts[-2].endswith("were not read")


def test_a_version_of_tomorrow_is_refused(tmp_path):
    path = tmp_path / "training.rfnb"
    watched(path, updates=1)
    path.write_bytes(path.read_bytes().replace(b'"version":1', b'"version":9', 1))
    with pytest.raises(ValueError, match="A newer rfnb wrote it"):
        rf.load_trace(path)


def test_what_is_thinned_in_memory_is_thinned_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("rfnb.trace.training.MOST_POINTS", 8)
    monkeypatch.setattr("rfnb.trace.training.MOST_ROWS", 2)
    path = tmp_path / "training.rfnb"
    watch = watched(path, updates=21)
    assert len(watch.curves["loss"].steps) < 12
    assert_equal(rf.load_trace(path).training, watch)
    watch.close()


def test_a_folder_that_is_missing_is_said_at_once_and_nothing_is_watched(tmp_path):
    model = made(Tagger)
    with pytest.raises(OSError, match="its folder is missing"):
        rf.watch(model, torch.optim.Adam(model.parameters()), save=tmp_path / "nowhere" / "training.rfnb")
    with rf.watch(model, torch.optim.Adam(model.parameters()), save=tmp_path / "training.rfnb"):
        pass  # it is watched by nobody


@pytest.mark.parametrize("when", ["write", "close"])
def test_a_disk_that_is_full_is_a_warning_and_the_training_goes_on(tmp_path, monkeypatch, when):
    path = tmp_path / "training.rfnb"
    watch = watched(path, updates=2)

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    journal = watch._subscribers[0].__self__
    if when == "write":
        journal._file.close()
        journal._file = open("/dev/full", "wb", buffering=0)
    else:
        monkeypatch.setattr(watch, "save", full)
    with pytest.warns(UserWarning, match="No space left on device"):
        watch.log(other=3.0)
        watch.close()
    assert watch.curves["other"].values == [3.0]
    assert rf.load_trace(path).training.curves["loss"].values == watch.curves["loss"].values


def test_nothing_of_the_training_is_another_with_files(tmp_path):
    results = []
    for options in ({}, {"save": tmp_path / "training.rfnb"}):
        model = made(Tagger)
        optimizer = torch.optim.Adam(model.parameters())
        with rf.watch(model, optimizer, **options):
            losses = train(model, optimizer, batches(6))
        results.append((losses, [each.clone() for each in model.parameters()], torch.get_rng_state()))
    (one, ours, rng), (other, theirs, same) = results
    assert one == other and all(map(torch.equal, ours, theirs)) and torch.equal(rng, same)


def test_event_files_have_all_numbers_as_tensorboard_reads_them(tmp_path):
    reading = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    watch = watched(tmp_path / "training.rfnb", tensorboard=tmp_path / "events")
    watch.close()
    events = reading.EventAccumulator(str(tmp_path / "events"), size_guidance={"scalars": 0})
    events.Reload()
    for name, curve in watch.curves.items():
        read = events.Scalars(name)
        assert [each.step for each in read] == curve.steps
        np.testing.assert_allclose([each.value for each in read], curve.values, rtol=1e-6)
    tags = set(events.Tags()["scalars"]) - set(watch.curves)
    for (stat, _), table in watch.tables.items():
        for column, path in enumerate(table.columns):
            own = [(step, row[column]) for step, row in zip(table.steps, table.rows) if not np.isnan(row[column])]
            own = [(step, value) for step, value in own if value >= 0 or stat not in NORMS]
            tag = f"{stat}/{path or 'model'}"
            assert own == [(each.step, np.float32(each.value)) for each in (events.Scalars(tag) if tag in tags else [])]
            tags.discard(tag)
    assert not tags


def test_without_its_package_event_files_are_refused(monkeypatch):
    monkeypatch.setattr(callbacks, "find_spec", lambda name: None)
    model = made(Tagger)
    with pytest.raises(ImportError) as caught:
        rf.watch(model, torch.optim.Adam(model.parameters()), tensorboard="events")
    assert str(caught.value).splitlines() == [
        "watch: event files of TensorBoard cannot be written.",
        "  package  tensorboard is not installed",
        "Its own package writes them. Without it a file of rfnb grows with the training in the same way:",
        '    pip install tensorboard    # or: rf.watch(model, optimizer, save="training.rfnb")',
    ]
