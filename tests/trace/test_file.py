"""A saved trace comes back with the same events and the same dims; what is no trace file is named."""

import json
import os
import pickle

import numpy as np
import pytest
from asserting import assert_same, ragged, raises_message, randn, tensor, using_backend
from safetensors import SafetensorError
from safetensors.numpy import save_file

import rfnb as rf
from rfnb import Dim
from rfnb.trace.file import load_trace
from rfnb.trace.probe import probe, trace_context
from rfnb.trace.record import record


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run.rfnb"


def through_file(trace, path):
    trace.save(path)
    return load_trace(path)


def value_through_file(value, path):
    with record() as trace:
        probe("x", value=value)
    return through_file(trace, path).events[0].values["value"]


def test_events_come_back_as_they_were(path, probe_steps):
    with record() as trace:
        with trace_context.module("model.decoder"):
            probe_steps("states", [{"h": randn(Dim(3, name="unit"), seed=step)} for step in range(2)])
        probe("note", text="here")
    loaded = through_file(trace, path)
    places = [
        [(e.kind, e.path, e.step, e.index, e.module, e.steps, e.entry) for e in t.events] for t in (trace, loaded)
    ]
    assert places[0] == places[1]
    assert loaded.summary() == trace.summary()
    assert loaded.closed
    assert loaded.states["decoder"]["h"].numpy().tolist() == trace.states["decoder"]["h"].numpy().tolist()


def test_a_search_comes_back(path, search, probe_steps):
    with record() as trace:
        probe_steps("beams", search.values, name="search")
    assert through_file(trace, path).beams["search"].text() == trace.beams["search"].text()


def test_a_stacked_tensor_comes_back_over_the_dim_of_its_loop(path):
    batch, feat = Dim(2, name="batch"), Dim(3, name="feat")
    time = ragged([5, 4], batch)
    source = randn(batch, time, feat)
    with record() as trace:
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([batch, feat])
        for _ in loop:
            loop.state.h = loop.state.h + loop.unstack(source)
    h = through_file(trace, path).states["loop"]["h"]
    assert [dim.short_repr() for dim in h.dims] == ["time<=5", "batch=2", "feat=3"]
    assert h.numpy().tolist() == trace.states["loop"]["h"].numpy().tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool"])
def test_tensors_come_back_with_their_dtype(path, dtype):
    x = rf.cast(tensor([[0.0, 1.0, 2.0], [3.0, 1.0, 0.0]], Dim(2, name="batch"), Dim(3, name="feat")), dtype)
    loaded = value_through_file(x, path)
    assert loaded.dtype == dtype
    assert loaded.numpy().tolist() == x.numpy().tolist()


@pytest.mark.parametrize("sizes", [(), (0,), (3, 0)])
def test_scalars_and_empty_tensors_come_back(path, sizes):
    x = tensor(np.zeros(sizes, np.float32), *(Dim(size, name="dim") for size in sizes))
    assert value_through_file(x, path).numpy().shape == sizes


def test_a_transposed_tensor_comes_back(path):
    x = randn(Dim(2, name="batch"), Dim(3, name="feat"))
    turned = x.copy_transpose(x.dims[::-1])
    assert value_through_file(turned, path).numpy().tolist() == turned.numpy().tolist()


def test_a_tensor_comes_back_on_the_selected_backend(path):
    x = randn(Dim(2, name="batch"))
    with record() as trace:
        probe("x", value=x)
    trace.save(path)
    with using_backend("numpy"):
        loaded = load_trace(path).events[0].values["value"]
    assert isinstance(loaded.raw_tensor, np.ndarray)


def test_the_same_dim_is_the_same_dim_after_loading(path):
    batch, time = Dim(2, name="batch"), Dim(3, name="time")
    other = Dim(3, name="time")
    with record() as trace:
        probe("x", a=randn(batch, time), b=randn(time, other), axis=time)
        probe("x", c=randn(other))
    first, second = (event.values for event in through_file(trace, path).events)
    assert first["axis"] is first["a"].dims[1] is first["b"].dims[0]
    assert second["c"].dims[0] is first["b"].dims[1]
    assert first["axis"] is not second["c"].dims[0]


def test_dims_come_back_with_their_lengths_and_labels(path):
    batch = Dim(2, name="batch", kind="batch")
    vocab = Dim(3, name="vocab", vocab=["a", "b", "c"])
    x = tensor(np.zeros((2, 5), np.int32), batch, ragged([5, 3], batch), sparse_dim=vocab)
    loaded = value_through_file(x, path)
    new_batch, new_time = loaded.dims
    assert (new_batch.name, new_batch.kind, new_batch.size) == ("batch", "batch", 2)
    assert (new_time.name, new_time.lengths.tolist(), new_time.length_dims) == ("time", [5, 3], (new_batch,))
    assert loaded.sparse_dim.vocab == ["a", "b", "c"]
    assert new_time.created == x.dims[1].created


def test_a_twin_comes_back_as_the_twin_of_its_dim(path):
    time = Dim(3, name="time")
    loaded = value_through_file(randn(time, time.copy(match_priority=1)), path)
    assert loaded.dims[1] is loaded.dims[0].copy(match_priority=1)


def test_a_derived_dim_comes_back_with_its_lengths(path):
    batch = Dim(2, name="batch")
    longer = ragged([3, 2], batch) + 2
    loaded = value_through_file(randn(batch, longer), path)
    assert (loaded.dims[1].name, loaded.dims[1].lengths.tolist()) == ("time+2", [5, 4])


def test_a_dim_that_was_resized_since_keeps_the_size_of_its_tensor(path):
    time = Dim(None, name="time")
    values = []
    with record() as trace:
        for length in (3, 5):
            time.reset_eager()
            time.dyn_size_ext = np.int32(length)
            values.append(randn(time))
            probe("x", value=values[-1])
    loaded = through_file(trace, path)
    assert [event.values["value"].numpy().tolist() for event in loaded.events] == [x.numpy().tolist() for x in values]
    assert [event.values["value"].dims[0].short_repr() for event in loaded.events] == ["time=3", "time=5"]


def test_plain_data_comes_back(path):
    data = {"a": [1, 2.5, None, True, "text", (1, float("inf"))], 3: {"b": float("nan")}}
    loaded = value_through_file(data, path)
    assert isinstance(loaded["a"][-1], tuple)
    assert np.isnan(loaded[3].pop("b"))
    assert loaded == {"a": [1, 2.5, None, True, "text", (1, float("inf"))], 3: {}}


def test_arrays_and_templates_come_back(path):
    x = randn(Dim(3, name="feat"))
    with record() as trace:
        probe("module", inputs=[("x", x)], array=np.arange(3))
    values = through_file(trace, path).events[0].values
    ((name, template),) = values["inputs"]
    assert (name, template.raw_tensor, template.dims[0].size) == ("x", None, 3)
    assert values["array"].tolist() == [0, 1, 2]


def test_where_a_recording_was_cut_comes_back(path):
    with pytest.warns(UserWarning), record(limit=0) as trace:
        probe("x")
    assert through_file(trace, path).truncated == trace.truncated


def test_a_recording_can_be_saved_while_it_runs(path):
    with record() as trace:
        probe("x", value=randn(Dim(3, name="feat")))
        loaded = through_file(trace, path)
        probe("y")
    assert loaded.kinds == ["x"]


def test_saving_replaces_an_older_file_and_leaves_nothing_else(path):
    path.write_text("old")
    with record() as trace:
        probe("x")
    trace.save(path)
    assert [item.name for item in path.parent.iterdir()] == ["run.rfnb"]
    assert load_trace(str(path)).kinds == ["x"]


def test_a_loaded_trace_can_be_saved_again(path, probe_steps):
    h = randn(Dim(2, name="batch"), Dim(3, name="unit"))
    with record() as trace:
        probe_steps("states", [{"h": h}] * 2)
    first = through_file(trace, path)
    second = through_file(first, path)
    assert_same(second.states["loop"]["h"].numpy().tolist(), first.states["loop"]["h"].numpy().tolist())


def test_a_trace_has_the_permissions_of_the_umask_and_stays_behind_a_link(path):
    (path.parent / "disk").mkdir()
    path.symlink_to("disk/run.rfnb")
    before = os.umask(0o027)
    try:
        through_file(rf.Trace(), path)
    finally:
        os.umask(before)
    assert path.is_symlink() and path.stat().st_mode & 0o777 == 0o640


# -- errors ----------------------------------------------------------------------------------------------------------------


def test_a_value_that_a_file_cannot_hold_is_refused(path):
    with record() as trace, trace_context.module("decoder"):
        probe("note", items=[object()])
    with raises_message(
        TypeError,
        """
        trace.save: a value that a file cannot hold.
          event  note at decoder: items
          value  object
        A file holds Tensors, Dims, arrays of numbers and plain data. Record without this kind of event:
            with rf.record(kinds={"attention", "states", "beams"}) as trace: ...
        """,
    ):
        trace.save(path)
    assert not path.exists()


def test_a_full_disk_is_named_and_the_old_file_stays(path, monkeypatch):
    path.write_bytes(b"old")
    monkeypatch.setattr("safetensors.numpy.save_file", raising(SafetensorError("No space left on device")))
    text = f"""
        trace.save: the file cannot be written.
          path   {path}
          cause  No space left on device
        A file that was there before is as it was.
            trace.save("/another/disk/run.rfnb")
        """
    with raises_message(OSError, text):
        rf.Trace().save(path)
    assert [item.name for item in path.parent.iterdir()] == ["run.rfnb"] and path.read_bytes() == b"old"


def raising(error):
    def fail(*args, **kwargs):
        raise error

    return fail


MAKE_ONE = '    with rf.record() as trace: ...\n    trace.save("run.rfnb")'


def foreign(path, found):
    return f"load_trace: this is not a trace file.\n  path   {path}\n  found  {found}\nA trace file is made by trace.save.\n{MAKE_ONE}"


def test_a_missing_file_is_named_with_what_is_there(path):
    (path.parent / "other.rfnb").write_text("")
    text = f"load_trace: no such file.\n  path   {path}\n  there  other.rfnb\nA trace file is made by trace.save.\n{MAKE_ONE}"
    with raises_message(FileNotFoundError, text):
        load_trace(path)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"PK\x03\x04" + b"0" * 99, "a zip file (torch.save makes such)"),
        (pickle.dumps({"a": 1}), "a pickle"),
        (b"hello there, this is text", "a file that begins with b'hello th'"),
    ],
)
def test_another_kind_of_file_is_named(path, content, found):
    path.write_bytes(content)
    with raises_message(ValueError, foreign(path, found)):
        load_trace(path)


def test_a_safetensors_file_of_something_else_is_named(path):
    save_file({"weight": np.zeros(3)}, path, metadata={"model": "x"})
    with raises_message(ValueError, foreign(path, "a safetensors file without a trace (metadata: model)")):
        load_trace(path)


@pytest.mark.parametrize("keep", [0, 100, -5])
def test_a_file_that_was_cut_off_is_named(path, keep):
    with record() as trace:
        probe("x", value=randn(Dim(30, name="feat")))
    trace.save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"^load_trace: the file is damaged\.\n") as caught:
        load_trace(path)
    lines = str(caught.value).splitlines()
    assert lines[2].startswith("  found  it is empty" if keep == 0 else "  found  it is cut off or changed (")
    assert lines[3:] == [
        f"  bytes  {path.stat().st_size}",
        "A trace file is read as a whole or not at all. Copy it again, or record again:",
        *MAKE_ONE.splitlines(),
    ]


def changed(path, change):
    """A trace file with one thing changed in its description."""
    with record() as trace:
        probe("x", value=randn(Dim(3, name="feat")))
    trace.save(path)
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        head = json.loads(file.metadata()["rfnb"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}
    change(head)
    save_file(arrays, path, metadata={"rfnb": json.dumps(head)})


def test_a_newer_version_is_refused(path):
    changed(path, lambda head: head.update(version=2))
    with raises_message(
        ValueError,
        f"load_trace: a version of the format that this rfnb does not read.\n  path       {path}\n"
        f"  found      version 2 of recordings, written by rfnb {rf.__version__}\n  read here  version 1, by rfnb {rf.__version__}\n"
        f'A newer rfnb wrote it.\n    pip install "rfnb>={rf.__version__}"',
    ):
        load_trace(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head["dims"].clear(),
        lambda head: head["dims"][0].update(size=5),
        lambda head: head["dims"][0].update(size=-1),
        lambda head: head.pop("events"),
        lambda head: head["events"].append(3),
        lambda head: head["events"][0]["values"].update(value={"tensor": 3}),
        lambda head: head["events"][0]["values"].update(value={"a": 1, "b": 2}),
    ],
)
def test_a_description_that_does_not_fit_is_named(path, change):
    changed(path, change)
    with pytest.raises(
        ValueError, match=r"^load_trace: the file is damaged\.\n.*\n  found  its description does not fit its arrays"
    ):
        load_trace(path)
