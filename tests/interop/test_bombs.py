"""Small files that say they hold much: each is refused before it is unpacked, and before memory is taken for it. Bytes are counted."""

import io
import json
import math
import struct
import tracemalloc
import zipfile
import zlib
from collections import OrderedDict
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from interop.mutations import header_of, with_header
from models.tiny import make_model

import rfnb as rf
from rfnb import CheckpointError
from rfnb.models.g2p_checkpoint import load_g2p, save_g2p
from rfnb.viz.spec import Spec, pack, unpack

MB = 1 << 20


@pytest.fixture
def taken(monkeypatch):
    """Bytes that were inflated, and whether torch was asked to make anything."""
    count = SimpleNamespace(inflated=0, torch=0, stop=False)
    make, load = zlib.decompressobj, torch.load

    class LoopCounter:
        def __init__(self, *args):
            self._own = make(*args)

        def decompress(self, data, *most):
            out = self._own.decompress(data, *most)
            count.inflated += len(out)
            return out

        def __getattr__(self, name):
            return getattr(self._own, name)

    def loaded(*args, **kwargs):
        count.torch += 1
        assert not count.stop, "torch is asked to make it"
        return load(*args, **kwargs)

    monkeypatch.setattr(zlib, "decompressobj", LoopCounter)
    monkeypatch.setattr(torch, "load", loaded)
    return count


def refused(read, path, error_type=CheckpointError):
    """The message, and bytes of memory taken at most."""
    tracemalloc.start()
    try:
        with pytest.raises(error_type) as caught:
            read(path)
        return str(caught.value), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def npy(shape, data=b"", descr="<f4"):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}".encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def zipped(*members, packed=zipfile.ZIP_STORED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packed) as file:
        for name, data in members:
            file.writestr(name, data)
    return buffer.getvalue()


def with_sizes(data, file_size=None, compress_size=None, method=None, offset=None):
    """A zip file whose directory, and the header of the first member, say something else."""
    data = bytearray(data)
    entry = data.index(b"PK\x01\x02")
    for place, kind, value in [
        (entry + 24, "<I", file_size), (22, "<I", file_size), (entry + 20, "<I", compress_size), (18, "<I", compress_size),
        (entry + 10, "<H", method), (8, "<H", method), (entry + 42, "<I", offset),
    ]:  # fmt: skip
        if value is not None:
            struct.pack_into(kind, data, place, value)
    return bytes(data)


def overlapping():
    """All members are the first one."""
    data = bytearray(zipped(*((f"{number}.npy", npy("(1000,)", bytes(4000))) for number in range(9)), packed=8))
    place = data.index(b"PK\x01\x02")
    while (place := data.find(b"PK\x01\x02", place + 1)) > 0:
        struct.pack_into("<I", data, place + 42, 0)
    return bytes(data)


ZEROS = npy(f"({80 * MB},)", bytes(320 * MB // 4))
ONE = npy("(1,)", bytes(4))
BOMBS = {
    "deflated": (lambda: zipped(("w.npy", ZEROS), packed=zipfile.ZIP_DEFLATED), "times its size"),
    "in many parts": (lambda: zipped(*((f"{n}.npy", ZEROS[: 9 * MB]) for n in range(9)), packed=8), "times its size"),
    "says less": (lambda: with_sizes(zipped(("w.npy", npy("(9,)") + bytes(60 * MB)), packed=8), file_size=200), "no header of an array"),
    "bzip2": (lambda: zipped(("w.npy", bytes(MB)), packed=zipfile.ZIP_BZIP2), "is neither stored nor deflated"),
    "lzma": (lambda: zipped(("w.npy", bytes(MB)), packed=zipfile.ZIP_LZMA), "is neither stored nor deflated"),
    "stored, says more": (lambda: with_sizes(zipped(("w.npy", ONE)), file_size=9 * MB), "and says 9,437,184"),
    "packed, says more": (lambda: with_sizes(zipped(("w.npy", ONE), packed=8), compress_size=9 * MB), "lies over what follows it"),
    "one in another": (overlapping, "lies over what follows it"),
    "shape": (lambda: zipped(("w.npy", npy("(1000000000,)", bytes(4)))), "needs 4,000,000,000 bytes, and there are"),
    "shape of 5000 digits": (lambda: zipped(("w.npy", npy(f"({'9' * 4000},)", bytes(4)))), "is no shape"),
    "empty and huge": (lambda: zipped(("w.npy", npy(f"(0, {10**30})"))), "is no shape"),
    "negative twice": (lambda: zipped(("w.npy", npy("(-1, -1)", bytes(4)))), "(-1, -1) is no shape"),
    "bools": (lambda: zipped(("w.npy", npy("(True,)", bytes(4)))), "(True,) is no shape"),
    "65 axes": (lambda: zipped(("w.npy", npy(str((1,) * 65), bytes(4)))), "is no shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_an_npz_file_that_says_too_much_is_refused_before_it_is_unpacked(name, tmp_path, taken):
    make, cause = BOMBS[name]
    path = tmp_path / "x.npz"
    path.write_bytes(make())
    text, peak = refused(rf.load_params, path)
    assert cause in text
    assert taken.inflated < MB // 4 and peak < 2 * MB


def test_what_a_file_of_zeros_unpacks_to_is_bounded_by_its_size(tmp_path, taken):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, w=np.zeros(15 * MB, np.float32))
    tracemalloc.start()
    try:
        assert rf.load_params(path)["w"].shape == (15 * MB,)
        assert taken.inflated < 61 * MB and tracemalloc.get_traced_memory()[1] < 65 * MB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "..\\x", "C:\\x", "a/../../x"])
def test_names_of_members_are_no_paths(name, tmp_path):
    path = tmp_path / "a" / "b" / "x.npz"
    path.parent.mkdir(parents=True)
    path.write_bytes(zipped((f"{name}.npy", ONE)))
    assert list(rf.load_params(path)) == [name]
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == [path]


def test_arrays_that_have_changed_places_are_refused_where_their_shapes_tell(tmp_path):
    model, path = rf.Linear(rf.Dim(3, name="in"), rf.Dim(4, name="out")), tmp_path / "x.npz"
    rf.save_params(model, path)
    with zipfile.ZipFile(path) as file:
        members = {name: file.read(name) for name in file.namelist()}
    path.write_bytes(
        zipped(*({**members, "weight.npy": members["bias.npy"], "bias.npy": members["weight.npy"]}).items())
    )
    with pytest.raises(CheckpointError, match="shape"):
        rf.set_params(model, rf.load_params(path))


# -- torch -----------------------------------------------------------------------------------------------------------------


class Calls:
    """Is written as the call of a function."""

    def __init__(self, function, *args):
        self._call = function, args

    def __reduce__(self):
        return self._call


def nested(kind, times=60):
    value = kind(["x"])
    for _ in range(times):
        value = kind([value, value])
    return value


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    return buffer.getvalue()


def repacked(data, change=lambda name, each: each, packed=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return zipped(*((name, change(name, file.read(name))) for name in file.namelist()), packed=packed)


def with_count(data, count):
    """A pickle of torch whose only storage says another number."""
    end = next(end for end in (b"tq", b"Ntq") if b"K\x07" + end in data)
    return data.replace(b"K\x07" + end, b"\x8a\x08" + struct.pack("<q", count) + end, 1)


SEVEN = {"w": torch.zeros(7)}
OLD = {"_use_new_zipfile_serialization": False}
TORCH = {
    "deflated": lambda: repacked(saved({"w": torch.zeros(40 * MB)})),
    "lzma": lambda: repacked(saved(SEVEN), packed=zipfile.ZIP_LZMA),
    "bytearray": lambda: saved({"w": Calls(bytearray, 10**10)}),
    "storage": lambda: saved({"w": Calls(torch.storage.UntypedStorage, 10**10)}),
    "tensor": lambda: saved({"w": Calls(torch.FloatTensor, 10**10)}),
    "base tensor": lambda: saved({"w": Calls(torch.Tensor, 10**5, 10**5)}),
    "keys": lambda: repacked(saved({"w": 1}), lambda name, each: each.replace(b"wq\x01", b"w" + b"q\x01h\x01\x86" * 60), 0),
    "set": lambda: saved({"w": Calls(set, [nested(tuple)])}),
    "ordered": lambda: saved({"w": Calls(OrderedDict, [[nested(tuple), 1]])}),
    "declared": lambda: repacked(saved(SEVEN), lambda name, each: with_count(each, 10**12) if name.endswith("pkl") else each, 0),
    "negative": lambda: repacked(saved(SEVEN), lambda name, each: with_count(each, -7) if name.endswith("pkl") else each, 0),
    "declared, old": lambda: with_count(saved(SEVEN, **OLD), 10**10),
    "text, old": lambda: saved(SEVEN, **OLD).replace(b"X\x01\x00\x00\x00w", b"X\xff\xff\xff\xffw"),
    "memo": lambda: repacked(saved(SEVEN), lambda name, each: b"\x80\x02]r\xff\xff\xff\x7f." if name.endswith("pkl") else each, 0)[:-1],
}  # fmt: skip


@pytest.mark.parametrize("name", TORCH)
def test_a_file_of_torch_that_says_too_much_is_refused_before_torch_makes_anything(name, tmp_path, taken):
    path = tmp_path / "x.pt"
    path.write_bytes(TORCH[name]())
    taken.stop = True
    _, peak = refused(rf.load_torch_checkpoint, path)
    assert taken.torch == 0 and taken.inflated < MB and peak < 2 * MB


@pytest.mark.parametrize("options", [{}, OLD])
def test_what_torch_writes_is_read_in_both_formats(options, tmp_path):
    linear = torch.nn.Linear(3, 4)
    adam = torch.optim.Adam(linear.parameters())
    linear(torch.ones(3)).sum().backward()
    adam.step()
    about = {"b": b"x\xff", "a": bytearray(b"y"), "s": {1, "x"}, "c": 1j, "t": torch.float16, "d": torch.device("cpu")}
    state = {**linear.state_dict(), "p": linear.weight, "h": linear.weight.detach().bfloat16(), "i": torch.arange(3)}
    torch.save(
        {"model": state, "step": 3, "optimizer": adam.state_dict(), "about": about, "size": torch.Size([2])},
        tmp_path / "x.pt",
        **options,
    )
    loaded = rf.load_torch_checkpoint(tmp_path / "x.pt")
    assert loaded.step == 3
    assert {name: value.tolist() for name, value in loaded.items()} == {
        name: value.tolist() for name, value in state.items()
    }


def test_many_narrow_views_of_one_array_are_not_copied(tmp_path):
    one = torch.zeros(4 * MB, dtype=torch.bfloat16)
    torch.save({str(number): one[number:] for number in range(120)}, tmp_path / "x.pt")
    text, peak = refused(rf.load_torch_checkpoint, tmp_path / "x.pt")
    assert "call clone()" in text and peak < 2 * MB


def test_a_step_that_is_a_list_in_lists_is_named_in_short(tmp_path):
    torch.save({"model": {}, "step": nested(list)}, tmp_path / "x.pt")
    text, peak = refused(rf.load_torch_checkpoint, tmp_path / "x.pt")
    assert "is not an integer" in text and len(text) < 20_000 and peak < 2 * MB


# -- safetensors, frames ---------------------------------------------------------------------------------------------------


def headers(data):
    """The header of a safetensors file with one thing in it that is too large, negative, or over another one."""
    header, arrays = header_of(data)
    names = [name for name in header if name != "__metadata__"]
    for change in (
        {"shape": [10**12]}, {"shape": [10**30]}, {"shape": [-1]}, {"shape": [0, 2**63]}, {"shape": [2**32, 2**32]}, {"shape": [1] * 100},
        {"data_offsets": [0, 10**12]}, {"data_offsets": [-4, 0]}, {"data_offsets": [0, 4]}, {"data_offsets": [8, 4]},
    ):  # fmt: skip
        yield with_header({**header, names[0]: {**header[names[0]], **change}}, arrays)
    yield with_header({**header, "more": {"dtype": "F32", "shape": [0, 2**62], "data_offsets": [0, 0]}}, arrays)
    yield with_header({**header, "more": header[names[0]]}, arrays)
    yield struct.pack("<Q", 10**12) + data[8:]
    yield struct.pack("<Q", 2**63) + data[8:]


def recording(path):
    with rf.record() as trace:
        loop = rf.Loop(axis=rf.Dim(3, name="time"))
        loop.state.h = rf.zeros([rf.Dim(2, name="batch")])
        for _ in loop:
            loop.state.h = loop.state.h + 1.0
    trace.save(path)


@pytest.mark.parametrize(
    ("write", "read", "error_type"),
    [(recording, rf.load_trace, ValueError), (lambda path: save_g2p(make_model(), path), load_g2p, CheckpointError)],
)
def test_a_header_that_says_too_much_is_refused_before_memory_is_taken(write, read, error_type, tmp_path):
    path = tmp_path / "x"
    write(path)
    for data in headers(path.read_bytes()):
        path.write_bytes(data)
        text, peak = refused(read, path, error_type)
        assert str(path) in text and peak < 2 * MB


def test_a_frame_is_inflated_up_to_what_it_says_and_no_more(taken):
    spec = Spec("attention", {"title": "x", "live": False}, {"w": np.zeros((4, 5 * MB), np.float32)})
    frame = pack(spec, level=9)
    (stored,) = struct.unpack_from("<I", frame)
    top = (
        json.loads(zlib.decompress(frame[16 : 16 + stored]))
        if frame[16:17] == b"x"
        else json.loads(frame[16 : 16 + stored])
    )
    for shape in ([4, 10**12], [1, 7], [4, 80 * MB]):
        top["blocks"]["w"]["shape"] = shape
        text = json.dumps(top).encode()
        start = 16 + stored + -stored % 8
        bad = (
            struct.pack("<IIII", len(text), struct.unpack_from("<I", frame, 4)[0], len(text), 0)
            + text
            + bytes(-len(text) % 8)
            + frame[start:]
        )
        before = taken.inflated
        with pytest.raises(ValueError, match=r"^unpack: "):
            unpack(bad)
        assert taken.inflated - before <= 4 * math.prod(shape) + 1 and taken.inflated < MB
