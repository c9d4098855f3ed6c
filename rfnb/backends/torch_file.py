"""Reads files of `torch.save` without trusting the sizes they claim; nothing in them is executed.

`torch.load(weights_only=True)` creates whatever a file names, including an empty storage or byte array of any size, claimed in a few
bytes. So the pickle is read twice. The first pass (`_Said`) creates nothing, and compares its sizes with those of the file.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from typing import Any, BinaryIO

from rfnb.backends.zip_directory import members_of

_MOST = 1 << 28  # bytes of a pickle of names and plain values
_KNOWN = (
    "GLOBAL NEWOBJ REDUCE BUILD APPEND APPENDS SETITEM SETITEMS MARK TUPLE TUPLE1 TUPLE2 TUPLE3 NONE NEWFALSE NEWTRUE EMPTY_TUPLE "
    "EMPTY_LIST EMPTY_DICT EMPTY_SET BININT BININT1 BININT2 BINFLOAT BINUNICODE SHORT_BINSTRING BINPERSID BINGET LONG_BINGET BINPUT "
    "LONG_BINPUT LONG1 PROTO STOP"
).split()  # what torch knows of the codes of pickle
_PLAIN = ("torch.Size", "torch.device", "torch.nn.parameter.Parameter", "torch.serialization._get_layout")
_CODECS = ("latin1", "latin-1", "ascii", "utf-8")
_Pickle: Any = pickle._Unpickler  # in Python: C takes memory for a memo of any size


def load_plain(file: BinaryIO) -> Any:
    """The tensors and plain values in a file of `torch.save`, on the CPU.

    Args:
        file: An open, seekable file, positioned at its beginning.

    Raises:
        ValueError: If its sizes do not match the file, or it is nested too deeply.
        Exception: For a file that is damaged or contains something else.
    """
    import torch

    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    packed = file.read(4) == b"PK\x03\x04"
    file.seek(0)
    if packed:
        _check_zip(file, size)
    else:
        for _ in range(5):  # two numbers, facts about the machine, the data, the names of its storages
            _Said(file, size).load()
    file.seek(0)
    return torch.load(file, map_location="cpu", weights_only=True)


def _check_zip(file: BinaryIO, size: int) -> None:
    with zipfile.ZipFile(file) as members:
        if members.comment:
            raise ValueError("it has a comment, which torch does not write")
        there = {member.filename: member for member in members_of(members, size)}
        for name, member in there.items():
            if not name.endswith("/data.pkl"):
                continue
            if member.file_size > _MOST:
                raise ValueError(f"its description takes {member.file_size:,} bytes")
            with members.open(member) as stream:
                data = stream.read(member.file_size)
            _Said(io.BytesIO(data), sum(each.file_size for each in there.values())).load()


class _Said(_Pickle):
    """Reads a pickle as torch does, without creating anything.

    Args:
        most: Limit in bytes for all of its arrays together.
    """

    dispatch = {
        code: _Pickle.dispatch[code]
        for code in (getattr(pickle, name)[0] for name in _KNOWN)
        if code in _Pickle.dispatch
    }

    def __init__(self, file: BinaryIO, most: int):
        self._left, self._storages = most, set[Any]()
        super().__init__(_Bounded(file, most), encoding="utf-8")

    def find_class(self, module: str, name: str) -> Any:
        """A callable stand-in for a name; names of Python 2 are mapped to Python 3, as torch does."""
        module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        return _Name(f"{module}.{name}", self._left)

    def persistent_load(self, pid: Any) -> Any:
        """A storage, whose bytes are counted."""
        key, count = pid[2], pid[4]
        if type(count) is not int or type(key) not in (str, bytes) or not 0 <= count <= self._left:
            raise ValueError(f"an array of {count!r:.30} numbers, and {self._left:,} bytes are there")
        if key not in self._storages:
            self._storages.add(key)
            self._left -= count
        return _Stub()

    def _load_newobj(self) -> None:
        args, name = self.stack.pop(), self.stack.pop()
        self.append(_called(name, args))

    def _load_reduce(self) -> None:
        args = self.stack.pop()
        self.stack[-1] = _called(self.stack[-1], args)

    def _load_setitems(self) -> None:
        items = self.pop_mark()
        _check_keys(items[::2])
        self.stack[-1].update(zip(items[::2], items[1::2], strict=True))

    def _load_setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _check_keys([key])
        self.stack[-1][key] = value

    dispatch |= {
        pickle.NEWOBJ[0]: _load_newobj,
        pickle.REDUCE[0]: _load_reduce,
        pickle.SETITEMS[0]: _load_setitems,
        pickle.SETITEM[0]: _load_setitem,
    }


class _Bounded:
    """A file that never reads more than it has."""

    def __init__(self, file: BinaryIO, size: int):
        self._file, self._size, self.readline = file, size, file.readline

    def read(self, count: int) -> bytes:
        """This many bytes, or the remaining ones."""
        return self._file.read(min(count, self._size))


class _Stub(dict[Any, Any]):
    """A stand-in for the object that a name would have created."""

    def __setstate__(self, state: Any) -> None:
        pass

    def __hash__(self) -> int:  # type: ignore[override]
        return id(self)


class _Name:
    """A function or type named in a file."""

    def __init__(self, name: str, most: int):
        self.name, self._most = name, most

    def check(self, args: tuple[Any, ...]) -> None:
        """Check that calling it takes no more memory than its arguments.

        Raises:
            ValueError: If it might.
        """
        name, first = self.name, args[0] if args else None
        rebuilds = name.startswith(("torch._utils._rebuild_", "torch._tensor._rebuild_"))
        if name.startswith("torch.") and not rebuilds and name not in _PLAIN:
            raise ValueError(f"it makes a {name:.100} of its own")
        if name == "builtins.bytearray" and isinstance(first, int):
            raise ValueError(f"it makes an array of {first!r:.30} bytes")
        if name == "_codecs.encode" and not (len(args) < 3 and isinstance(first, str) and {*args[1:]} <= {*_CODECS}):
            raise ValueError("it has a text in an odd code")
        if name.endswith("._rebuild_qtensor") and math.prod(args[2]) > self._most:
            raise ValueError("it makes a quantised array that is larger than the file")
        if name in ("builtins.set", "collections.Counter", "collections.OrderedDict"):
            _check_keys(first or ())
            _check_keys([pair[0] for pair in first or () if isinstance(pair, list | tuple) and pair])


def _called(name: Any, args: Any) -> _Stub:
    if not isinstance(name, _Name) or not isinstance(args, tuple):
        raise ValueError("it calls what is no function")
    name.check(args)
    return _Stub()


def _check_keys(keys: Any) -> None:
    """Refuse deeply nested keys, which are compared by their full content: one of 40 nested pairs takes hours."""
    for key in keys:
        if isinstance(key, tuple) and any(isinstance(part, tuple) for part in key):
            raise ValueError("a key of a dict is nested")
