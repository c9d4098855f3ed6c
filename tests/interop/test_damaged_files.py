"""Files that are cut off, changed or made to harm: each reader reads them or refuses them with its own error."""

import gzip
import io
import json
import random
import struct
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from asserting import raises_message
from models.tiny import make_model
from ngram_models import random_arpa

import rfnb as rf
from rfnb import CheckpointError, Dim
from rfnb.data import g2p
from rfnb.lm.arpa import read_arpa
from rfnb.models.g2p_checkpoint import load_g2p, parameter_shapes, save_g2p
from rfnb.nn.kenlm_state import read_labels

FEAT, OUT = Dim(3, name="feat"), Dim(4, name="out")
MB = 1 << 20


def model():
    return rf.Linear(FEAT, OUT)


def values_of(module):
    return {name: parameter.numpy().tolist() for name, parameter in module.named_parameters()}


def write_trace(path):
    batch = Dim(2, name="batch")
    time = rf.ragged_dim([3, 2], over=batch, name="time")
    with rf.record() as trace:
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([batch, FEAT])
        for _ in loop:
            loop.state.h = loop.state.h + 1.0
    trace.save(path)


def write_torch(path):
    torch.save({"model": {"weight": torch.ones(3, 4), "bias": torch.zeros(4)}, "step": 3, "epoch": 1}, path)


def write_arpa(path):
    random_arpa(path, ["<unk>", "<s>", "</s>", "a", "b"], order=2, per_context=2)


def write_gzip(path):
    write_arpa(path)
    path.write_bytes(gzip.compress(path.read_bytes()))


# Each kind of file: what writes it, what reads it, the errors that its documentation names.
KINDS = {
    "trace": (write_trace, rf.load_trace, ValueError),
    "npz": (lambda path: rf.save_params(model(), path, step=3), rf.load_params, CheckpointError),
    "torch": (write_torch, rf.load_torch_checkpoint, CheckpointError),
    "g2p": (lambda path: save_g2p(make_model(), path), load_g2p, CheckpointError),
    "arpa": (write_arpa, read_arpa, ValueError),
    "arpa, gzip": (write_gzip, read_arpa, ValueError),
    "labels": (lambda path: path.write_text("the\ncat\n"), read_labels, ValueError),
    "labels, dict": (lambda path: path.write_text("{'the': 0, 'cat': 1}"), read_labels, ValueError),
}  # fmt: skip


def damages(data, rng):
    """The same file in many ways not the same."""
    for _ in range(60):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        yield "a flipped bit", bytes(changed)
    for _ in range(25):
        yield "cut off", data[: rng.randrange(len(data))]
    for _ in range(15):
        begin = rng.randrange(len(data))
        yield "a piece twice", data[:begin] + data[begin : begin + rng.randrange(1, 200)] + data[begin:]
    for _ in range(15):
        begin = rng.randrange(len(data))
        yield "a piece missing", data[:begin] + data[begin + rng.randrange(1, 200) :]
    for _ in range(15):
        begin = rng.randrange(len(data))
        yield "noise", data[:begin] + rng.randbytes(rng.randrange(1, 64)) + data[begin + 64 :]
    for whole in (
        b"",
        b"\0" * 1000,
        b"\xff" * 1000,
        rng.randbytes(1000),
        b"{" * 5000,
        b"[" * 5000,
        b"\x1f\x8b",
        b"PK\x03\x04",
    ):
        yield "something else", whole
    yield "more at the end", data + data


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_read_or_refused_with_its_own_error(tmp_path, kind):
    write, read, error_type = KINDS[kind]
    path, refused = tmp_path / "file", 0
    write(path)
    read(path)
    for name, data in damages(path.read_bytes(), random.Random(7)):
        path.write_bytes(data)
        try:
            read(path)
        except error_type as error:
            refused += 1
            assert type(error).__name__ in (error_type.__name__, "CheckpointError"), (name, error)
            assert str(path) in str(error), (name, error)
    assert refused > 20


@pytest.mark.parametrize("kind", ["npz", "torch"])
def test_a_model_keeps_its_parameters_when_loading_fails(tmp_path, kind):
    write, read, _ = KINDS[kind]
    path, module = tmp_path / "file", model()
    write(path)
    whole = path.read_bytes()
    for _, data in damages(whole, random.Random(8)):
        path.write_bytes(data)
        before = values_of(module)
        try:
            rf.set_params(module, read(path))
        except CheckpointError:
            assert values_of(module) == before


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_and_a_missing_file_are_errors_of_the_system(tmp_path, kind):
    _, read, error_type = KINDS[kind]
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "nothing")
    with pytest.raises((OSError, error_type)):
        read(tmp_path)


def peak_of(read, path, error_type):
    """bytes of memory taken at most while the file is refused, and the error."""
    tracemalloc.start()
    try:
        with pytest.raises(error_type) as caught:
            read(path)
        return tracemalloc.get_traced_memory()[1], str(caught.value)
    finally:
        tracemalloc.stop()


# -- npz -------------------------------------------------------------------------------------------------------------------


def npy(header, data=b"", version=b"\x01\x00"):
    text = header.encode() + b"\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + data


def write_npz(path, *entries, compression=zipfile.ZIP_STORED):
    with pytest.MonkeyPatch.context() as patch, zipfile.ZipFile(path, "w", compression) as file:
        patch.setattr("warnings.warn", lambda *args, **kwargs: None)  # of a name that is there twice
        for name, data in entries:
            file.writestr(name, data)


SMALL = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"\0" * 4)


@pytest.mark.parametrize(
    ("entry", "cause"),
    [
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,)}", b"\0" * 4), "needs 4,000,000,000 bytes, and there are 4"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", b"\0" * 4), "(-1,) is no shape"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", b"\0" * 40), "needs 4 bytes, and there are 40"),
        (npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", b"\x80\x04."), "Object arrays cannot be loaded: they are pickles"),
        (npy("{'descr': '<U3', 'fortran_order': False, 'shape': (1,)}", b"\0" * 12), "<U3 is not a type of numbers"),
        (npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", b"\0" * 4), "[('a', '<f4')] is not a type of numbers"),
        (npy("{'descr': '<f4', 'shape': (1,)}", b"\0" * 4), "it has no header of an array"),
        (npy("(" * 5000), "it has no header of an array"),
        (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (nan,)}", b"\0" * 4), "it has no header of an array"),
        (npy("{}", version=b"\x09\x00"), "it has no header of an array"),
        (b"text", "it has no header of an array"),
        (b"", "it has no header of an array"),
    ],
)  # fmt: skip
def test_an_array_is_refused_before_memory_is_taken(tmp_path, entry, cause):
    write_npz(tmp_path / "x.npz", ("weight.npy", entry))
    peak, text = peak_of(rf.load_params, tmp_path / "x.npz", CheckpointError)
    assert cause in text and "'weight': " in text
    assert peak < 2 * MB


def test_a_zip_bomb_is_refused_before_memory_is_taken(tmp_path):
    bomb = zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED)
    with bomb, bomb.open("weight.npy", "w", force_zip64=True) as entry:
        entry.write(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (402653184,)}"))
        for _ in range(1536):
            entry.write(b"\0" * MB)
    peak, text = peak_of(rf.load_params, tmp_path / "x.npz", CheckpointError)
    assert "it unpacks to 1,610,61" in text and "times its size" in text
    assert peak < 4 * MB


@pytest.mark.parametrize(
    ("entries", "cause"),
    [
        ([("a.npy", SMALL), ("a.npy", SMALL)], "'a' is there twice"),
        ([("a", SMALL)], "'a' in it is no array"),
        ([("/step.npy", SMALL)], "'/step' is not an integer, but float32 (1,)"),
    ],
)
def test_a_file_with_two_meanings_is_refused(tmp_path, entries, cause):
    write_npz(tmp_path / "x.npz", *entries)
    with pytest.raises(CheckpointError) as caught:
        rf.load_params(tmp_path / "x.npz")
    assert f"\n  cause  {cause}\n" in str(caught.value)


def test_names_that_end_like_files_are_told_apart(tmp_path):
    rf.save_params({"a": np.zeros(2), "a.npy": np.ones(2)}, tmp_path / "x.npz")
    assert {name: array.tolist() for name, array in rf.load_params(tmp_path / "x.npz").items()} == {
        "a": [0, 0],
        "a.npy": [1, 1],
    }


def test_arrays_in_the_order_of_columns_and_empty_ones_and_packed_files_are_read(tmp_path):
    arrays = {
        "a": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "b": np.zeros((0, 3)),
        "c": np.array(5),
        "d": np.array([True]),
    }
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "x.npz", **arrays)
        loaded = rf.load_params(tmp_path / "x.npz")
        assert all(
            np.array_equal(loaded[name], array) and loaded[name].dtype == array.dtype for name, array in arrays.items()
        )
    loaded["a"][0, 0] = 7  # the caller's own


@pytest.mark.parametrize(
    ("values", "cause"),
    [
        ({0: np.zeros(1)}, "the name 0 is not text that can be printed"),
        ({"a\0b": np.zeros(1)}, "the name 'a\\x00b' is not text that can be printed"),
        ({"a\ud800": np.zeros(1)}, "the name 'a\\ud800' is not text that can be printed"),
        ({"a": np.array([{}])}, "'a': object is not an array of numbers"),
        ({"/step": np.array(1)}, "'/step' is the name of the step"),
    ],
)
def test_what_would_not_come_back_as_it_was_is_not_written(tmp_path, values, cause):
    path = tmp_path / "x.npz"
    path.write_bytes(b"old")
    text = f"""
        save_params: this cannot be written.
          file   {path}
          cause  {cause}
        A file has arrays of numbers by name. A file that was there before is as it was.
            rf.save_params(dict(model.named_parameters()), filename)
        """
    with raises_message(CheckpointError, text):
        rf.save_params(values, path)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("dtype", ["complex64", "U3", "object"])
def test_values_that_a_parameter_cannot_hold_are_refused(dtype):
    module = model()
    before = values_of(module)
    params = {name: np.zeros(np.shape(value)) for name, value in before.items()}
    params["bias"] = params["bias"].astype(dtype)
    with pytest.raises(CheckpointError, match="dtype      bias: .*, needed float32"):
        rf.set_params(module, params)
    assert values_of(module) == before


# -- torch -----------------------------------------------------------------------------------------------------------------


def odd_tensors():
    return {
        "expanded": (torch.zeros(1, dtype=torch.bfloat16).expand(10**12), "(1000000000000,) of an array of 1 (expanded); call clone()"),
        "sparse": (torch.eye(3).to_sparse(), "sparse_coo; call to_dense()"),
        "rows": (torch.eye(3).to_sparse_csr(), "sparse_csr; call to_dense()"),
        "quantised": (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "quantised; call dequantize()"),
        "meta": (torch.ones(3, device="meta"), "on the device meta, without values"),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", odd_tensors())
def test_a_tensor_that_is_no_plain_array_is_named(tmp_path, name):
    value, problem = odd_tensors()[name]
    torch.save({"model": {"weight": torch.ones(2), "odd": value}}, tmp_path / "x.pt")
    text = f"""
        load_torch_checkpoint: it contains values that are not plain tensors.
          file  {tmp_path / "x.pt"}
                odd: {problem}
        Parameters are dense arrays of numbers. Convert and save them:
            torch.save({{name: value.to_dense().clone() for name, value in state.items()}}, filename)
        """
    with raises_message(CheckpointError, text):
        rf.load_torch_checkpoint(tmp_path / "x.pt")


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_narrow_floats_become_float32(tmp_path, dtype):
    torch.save({"w": torch.tensor([1.5, -2.0]).to(getattr(torch, dtype))}, tmp_path / "x.pt")
    loaded = rf.load_torch_checkpoint(tmp_path / "x.pt")
    assert loaded["w"].tolist() == [1.5, -2.0] and loaded["w"].dtype == np.float32


def test_views_of_shared_memory_are_read(tmp_path):
    base = torch.arange(12.0)
    state = {
        "a": base[:6].reshape(2, 3),
        "b": base.reshape(3, 4).t(),
        "c": base[::2],
        "d": torch.conj(torch.ones(2) * 1j),
    }
    torch.save(state, tmp_path / "x.pt")
    loaded = rf.load_torch_checkpoint(tmp_path / "x.pt")
    assert all(np.array_equal(loaded[name], value.resolve_conj().numpy()) for name, value in state.items())


@pytest.mark.parametrize(
    "state",
    [{0: torch.ones(2)}, {"model": {3: torch.ones(2)}}, {"model": {}, "step": "x"}, {"model": {}, "epoch": 0.5}],
)
def test_names_are_texts_and_steps_are_numbers(tmp_path, state):
    torch.save(state, tmp_path / "x.pt")
    with pytest.raises(CheckpointError):
        rf.load_torch_checkpoint(tmp_path / "x.pt")


# -- safetensors -----------------------------------------------------------------------------------------------------------


def header_of(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def write_header(path, header, data):
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


@pytest.mark.parametrize(
    "change",
    [{"encoder": 10**9}, {"decoder": 10**9}, {"embedding": 10**12}, {"encoder_layers": 10**9}, {"encoder": 10**30}],
)
def test_the_shapes_of_a_g2p_file_are_compared_before_memory_is_taken(tmp_path, change):
    path = tmp_path / "g2p.safetensors"
    save_g2p(make_model(), path)
    header, data = header_of(path)
    config = json.loads(header["__metadata__"]["config"]) | change
    header["__metadata__"]["config"] = json.dumps(config)
    write_header(path, header, data)
    peak, text = peak_of(load_g2p, path, CheckpointError)
    assert "\n  missing    " in text or "\n  shape      " in text
    assert peak < 2 * MB


@pytest.mark.parametrize(
    "change",
    [
        {"encoder": 0},
        {"encoder": -7},
        {"encoder": 7.0},
        {"encoder": True},
        {"encoder": "7"},
        {"dropout": 1},
        {"dropout": None},
        {"dropout": [0]},
    ],
)
def test_sizes_of_a_g2p_file_are_whole_numbers(tmp_path, change):
    path = tmp_path / "g2p.safetensors"
    save_g2p(make_model(), path)
    header, data = header_of(path)
    header["__metadata__"]["config"] = json.dumps(json.loads(header["__metadata__"]["config"]) | change)
    write_header(path, header, data)
    ((name, value),) = change.items()
    with raises_message(CheckpointError, f"The metadata of {path} is not complete: {name} is {value!r}."):
        load_g2p(path)


@pytest.mark.parametrize(
    ("config", "cause"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"encoder": 7, "encoder": 8}', "the key 'encoder' is there twice"),
        ('{"dropout": NaN}', "NaN is not JSON"),
    ],
)
def test_the_description_of_a_g2p_file_has_one_meaning(tmp_path, config, cause):
    path = tmp_path / "g2p.safetensors"
    save_g2p(make_model(), path)
    header, data = header_of(path)
    header["__metadata__"]["config"] = config
    write_header(path, header, data)
    with raises_message(CheckpointError, f"The metadata of {path} is not complete: {cause}."):
        load_g2p(path)


def test_arrays_of_other_types_are_named(tmp_path):
    path = tmp_path / "g2p.safetensors"
    save_g2p(make_model(), path)
    header, data = header_of(path)
    for name, dtype in (("decoder.output.bias", "BF16"), ("decoder.start.bias", "I16")):
        header[name]["dtype"] = dtype
    write_header(path, header, data)
    with pytest.raises(CheckpointError) as caught:
        load_g2p(path)
    assert sorted(str(caught.value).splitlines()[1:]) == [
        "  dtype      decoder.output.bias: BF16, needed F16, F32 or F64",
        "  dtype      decoder.start.bias: I16, needed F16, F32 or F64",
    ]


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_the_shapes_are_those_of_the_model(layers):
    from rfnb.models.g2p import G2P, G2PConfig

    config = G2PConfig(embedding=3, encoder=5, encoder_layers=layers, decoder=7)
    shapes = {name: tuple(dim.extent for dim in parameter.dims) for name, parameter in G2P(config).named_parameters()}
    assert parameter_shapes(config) == shapes and len(g2p.LETTERS) == shapes["encoder.embedding.weight"][0]


@pytest.mark.parametrize(
    "change",
    [
        lambda head: head["dims"][0].update(size=10**30),
        lambda head: head["dims"][0].update(size=True),
        lambda head: head["dims"][0].update(name=5),
        lambda head: head["dims"][0].update(vocab=[1, 2]),
        lambda head: head["dims"][0].update(twin_of=-1, match_priority=1),
        lambda head: head["events"][0].update(path=3),
        lambda head: head["events"][0].update(steps=["a"]),
        lambda head: head["events"][0].update(kind=None),
        lambda head: head["events"][0].update(loop_dim=-1),
        lambda head: head["events"][0]["values"].update(value={"set": [1]}),
        lambda head: head["events"][0]["values"].update(value={"array": "99"}),
        lambda head: head["events"][0]["values"].update(value={"dict": [[{"list": []}, 1]]}),
    ],
)
def test_a_trace_whose_description_has_other_types_is_refused(tmp_path, change):
    path = tmp_path / "run.rfnb"
    write_trace(path)
    header, data = header_of(path)
    head = json.loads(header["__metadata__"]["rfnb"])
    change(head)
    header["__metadata__"]["rfnb"] = json.dumps(head)
    write_header(path, header, data)
    with pytest.raises(ValueError, match=r"^load_trace: the file is damaged\.\n"):
        rf.load_trace(path)


@pytest.mark.parametrize("inside", ['{"list":[', '{"tuple":['])
def test_a_trace_nested_too_deeply_is_refused(tmp_path, inside):
    path = tmp_path / "run.rfnb"
    write_trace(path)
    header, data = header_of(path)
    for depth in (sys.getrecursionlimit() * 3 // 5, 100_000):  # torch's compiler raises the limit
        closing = "]}" * depth
        event = json.dumps(json.loads(header["__metadata__"]["rfnb"])["events"][0] | {"values": {"x": "@"}})
        head = json.loads(header["__metadata__"]["rfnb"])
        text = json.dumps(head | {"events": ["@"]}).replace('"@"', event.replace('"@"', inside * depth + closing))
        write_header(path, {**header, "__metadata__": {"rfnb": text}}, data)
        with pytest.raises(ValueError, match=r"^load_trace: the file is damaged\.\n"):
            rf.load_trace(path)


def test_a_trace_with_arrays_that_numpy_lacks_is_refused(tmp_path):
    path = tmp_path / "run.rfnb"
    write_trace(path)
    header, data = header_of(path)
    name = next(name for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32")
    entry = header[name]
    header[name] = {**entry, "dtype": "BF16", "shape": [2 * int(np.prod(entry["shape"]))]}
    write_header(path, header, data)
    with pytest.raises(
        ValueError, match=r"^load_trace: the file is damaged\.\n(.*\n)*  found  its arrays are of no type or size"
    ):
        rf.load_trace(path)


# -- n-gram models and labels ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"\\data\\\n" + b" " * (64 * MB), b"\\data\\\nngram 1=1\n\n\\1-grams:\n-1 " + b"a" * (64 * MB)]
)
def test_a_gzip_bomb_of_one_line_is_refused_before_memory_is_taken(tmp_path, data):
    path = tmp_path / "x.arpa.gz"
    path.write_bytes(gzip.compress(data, 1))
    del data
    peak, text = peak_of(read_arpa, path, ValueError)
    assert text.startswith("ARPA file: a line of 1,048,576 bytes or more.\n") and peak < 6 * MB


def test_more_lines_than_the_header_names_are_refused_at_the_first(tmp_path):
    path = tmp_path / "x.arpa"
    lines = "\n".join(f"-1 w{index}" for index in range(9))
    path.write_text(f"\\data\\\nngram 1=2\n\n\\1-grams:\n{lines}\n\n\\end\\\n")
    with raises_message(
        ValueError,
        f"""
        ARPA file: another number of 1-grams than in the header.
          file  {path}
          line  7: -1 w2
        The header names 2, there are more.
        """,
    ):
        read_arpa(path)


@pytest.mark.parametrize("count", ["²", "9" * 5000, "-1", "1_0", "NaN"])
def test_a_count_is_a_number(tmp_path, count):
    path = tmp_path / "x.arpa"
    path.write_text(f"\\data\\\nngram 1={count}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"^ARPA file: no count of n-grams\."):
        read_arpa(path)


def test_a_thousand_orders_are_refused(tmp_path):
    path = tmp_path / "x.arpa"
    path.write_text("\\data\\\n" + "".join(f"ngram {order}=0\n" for order in range(1, 1001)))
    with pytest.raises(ValueError, match=r"^ARPA file: more than 100 orders\."):
        read_arpa(path)


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (b"\xff\xfe", "not UTF-8: invalid start byte at byte 0"),
        (b"{" * 100_000, "too many nested parentheses"),
        (b"{'a': " + b"-" * 200_000 + b"1}", "nested too deeply"),
        (b"{'a': 0, 'a': 1}", "a label is there twice"),
        (b"{'a': True}", "a label that is no text, or an index that is not an integer"),
        (b"{1: 0}", "a label that is no text, or an index that is not an integer"),
        (b"{'a', 'b'}", "not a dict"),
        (b"{'a': 1}", "the indices are not 0, 1, ...: each label has its own, and none is left out"),
        (b"{'a': __import__('os')}", "malformed node or string on line 1"),
    ],
)  # fmt: skip
def test_a_file_that_has_no_labels_is_refused(tmp_path, text, cause):
    path = tmp_path / "vocab"
    path.write_bytes(text)
    with pytest.raises(ValueError) as caught:
        read_labels(path)
    assert str(caught.value).startswith(
        f"KenLmState: these are no labels.\n  vocab_file  {path}\n  cause       {cause}"
    )


def test_a_byte_order_mark_is_no_part_of_the_first_label(tmp_path):
    for text in ("the\ncat\n", "{'the': 0, 'cat': 1}"):
        (tmp_path / "vocab").write_bytes(b"\xef\xbb\xbf" + text.encode())
        assert read_labels(tmp_path / "vocab") == ["the", "cat"]


def test_a_torch_file_of_another_kind_is_refused(tmp_path):
    buffer = io.BytesIO()
    torch.save(model(), buffer)
    (tmp_path / "x.pt").write_bytes(buffer.getvalue())
    with pytest.raises(CheckpointError, match="holds more than tensors and plain values"):
        rf.load_torch_checkpoint(tmp_path / "x.pt")
