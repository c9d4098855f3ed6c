"""npz files with one numeric array per name, as written by `np.savez`, read without trusting their headers."""

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

from rfnb.backends.zip_directory import members_of
from rfnb.core.atomic_file import write_whole

_SUFFIX = ".npy"
_HEADER = 1 << 16  # bytes; the header of a numeric array has 128
_PART = 1 << 20  # bytes unpacked at once


def write_npz(path: str | os.PathLike[str], arrays: Mapping[str, np.ndarray]) -> None:
    """Write all arrays or, after an error, none.

    Raises:
        ValueError: A name that is not a string, or that a zip file cannot store.
    """
    for name in arrays:
        if not isinstance(name, str) or "\0" in name or not name.isprintable():
            raise ValueError(f"the name {name!r} is not text that can be printed")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as file:  # unlike np.savez, which does not accept every name
        for name, array in arrays.items():
            with file.open(f"{name}{_SUFFIX}", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)
    write_whole(path, buffer.getvalue())


def read_npz(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """The arrays by name. Nothing in the file is executed, and memory is bounded by its actual content.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If the content is malformed.
    """
    try:
        with open(path, "rb") as raw, zipfile.ZipFile(raw) as file:
            return _read(file, os.fstat(raw.fileno()).st_size)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, struct.error) as error:
        raise ValueError(str(error) or type(error).__name__) from error


def _read(file: zipfile.ZipFile, size: int) -> dict[str, np.ndarray]:
    found: dict[str, np.ndarray] = {}
    members = members_of(file, size)
    for entry in members:
        name = entry.filename.removesuffix(_SUFFIX)
        if name == entry.filename:
            raise ValueError(f"{entry.filename!r:.100} in it is no array")
        try:
            with file.open(entry) as stream:
                found[name] = _read_array(stream, entry.file_size)
        except ValueError as error:
            raise ValueError(f"{name!r:.100}: {error}") from error
    return found


def _read_array(stream: Any, size: int) -> np.ndarray:
    """One array. Its header is compared with the actual size before memory is allocated."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        version = np.lib.format.read_magic(stream)
        shape, in_columns, dtype = readers[version](stream, max_header_size=_HEADER)
    except Exception as error:
        # NumPy parses the header as Python; the possible errors depend on the versions of both.
        raise ValueError("it has no header of an array") from error
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded: they are pickles")
    if dtype.kind not in "biufc":
        raise ValueError(f"{dtype} is not a type of numbers")
    if not all(type(length) is int and 0 <= length < 1 << 63 for length in shape) or len(shape) > 64:
        raise ValueError(f"{shape!r:.100} is no shape")
    count, there = math.prod(shape), size - stream.tell()
    if count * dtype.itemsize != there:
        needed = count * dtype.itemsize
        raise ValueError(f"{dtype} {shape!r:.100} needs {needed:,} bytes, and there are {there:,}")
    flat = np.empty(count, dtype)
    data = flat.view(np.uint8)
    for begin in range(
        0, there, _PART
    ):  # read to the end, where the checksum is compared, but no more than the declared size
        part = stream.read(min(_PART, there - begin))
        if len(part) < min(_PART, there - begin):
            raise ValueError(f"it says {there:,} bytes, and has {begin + len(part):,}")
        data[begin : begin + len(part)] = np.frombuffer(part, np.uint8)
    array: np.ndarray = flat.reshape(shape[::-1]).T if in_columns else flat.reshape(shape)
    return array
