"""npz files with one array of numbers per name, as `np.savez` writes them, read without trust in what they say of themselves."""

from __future__ import annotations

import io
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from rfnb.core.whole_file import write_whole

_SUFFIX = ".npy"
_HEADER = 1 << 16  # bytes; that of an array of numbers is 128 bytes
# A file of zeros packs a thousandfold. What is packed may unpack to this much, or to this many times its size.
_MOST, _TIMES = 1 << 30, 50


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write all arrays or, after an error, none.

    Raises:
        ValueError: A name that is no text, or that a zip file cannot hold.
    """
    for name in arrays:
        if not isinstance(name, str) or "\0" in name or not name.isprintable():
            raise ValueError(f"the name {name!r} is not text that can be printed")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:  # as np.savez, which does not take every name
        for name, array in arrays.items():
            with file.open(f"{name}{_SUFFIX}", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
    write_whole(path, buffer.getvalue())


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays by name; nothing in the file is executed, and no more memory taken than what it really holds.

    Raises:
        OSError: If the file cannot be read.
        ValueError: For everything that is wrong with what is in it.
    """
    try:
        with open(path, "rb") as raw, zipfile.ZipFile(raw) as file:
            return _read(file, os.fstat(raw.fileno()).st_size)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error) as error:
        raise ValueError(str(error) or type(error).__name__) from error


def _read(file: zipfile.ZipFile, size: int) -> dict[str, np.ndarray]:
    entries = file.infolist()
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > max(_MOST, _TIMES * size):
        raise ValueError(f"it unpacks to {unpacked:,} bytes, {unpacked // max(size, 1):,} times its size")
    found: dict[str, np.ndarray] = {}
    for entry in entries:
        name = entry.filename.removesuffix(_SUFFIX)
        if name == entry.filename:
            raise ValueError(f"{entry.filename!r} in it is no array")
        if name in found:
            raise ValueError(f"{name!r} is there twice")
        try:
            with file.open(entry) as stream:
                found[name] = _read_array(stream, entry.file_size)
        except ValueError as error:
            raise ValueError(f"{name!r}: {error}") from error
    return found


def _read_array(stream: Any, size: int) -> np.ndarray:
    """One array, whose header is compared with what there is before memory is taken."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(stream)
        shape, in_columns, dtype = readers[version](stream, max_header_size=_HEADER)
    except Exception as error:
        # NumPy parses the header as Python; what can go wrong there depends on the version of both.
        raise ValueError("it has no header of an array") from error
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded: they are pickles")
    if dtype.kind not in "biufc":
        raise ValueError(f"{dtype} is not a type of numbers")
    needed, there = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if needed != there:
        raise ValueError(f"{dtype} {shape} needs {needed:,} bytes, and there are {there:,}")
    flat = np.frombuffer(bytearray(stream.read()), dtype)  # to the end, where the checksum is compared
    array: np.ndarray = flat.reshape(shape[::-1]).T if in_columns else flat.reshape(shape)
    return array
