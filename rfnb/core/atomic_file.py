"""Writes files atomically: a reader sees the old or the new file, never a part, whenever the process ends.

write_whole("model.npz", data)

with whole_file("run.rfnb") as part:
    save_file(arrays, part)
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rfnb.core.errors import ErrorOf

_numbers = itertools.count()  # two threads may write the same file


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file; arguments and errors as in `whole_file`."""
    with whole_file(path) as part:
        part.write_bytes(data)


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a path to write to; when the block ends, its content replaces the file at once, and after an error the old file stays.

    The result is as if the file had been written in place: a link stays and its target is new, an existing file keeps its permissions, a
    new one follows the umask. Anything that is not a file (a device, a pipe) is written to directly.

    Raises:
        OSError: With the requested path: its folder does not exist or is not writable, it is a folder, or the disk is full.
    """
    asked = os.fspath(path)
    try:
        target = Path(os.path.realpath(asked))
        if target.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), asked)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), asked)
        if target.exists() and not target.is_file():
            yield target
            return
        part = target.with_name(f".{_short(target.name)}.{os.getpid()}.{next(_numbers)}.part")
        try:
            open(part, "xb").close()  # with the permissions of the umask
            mode = stat.S_IMODE((target if target.exists() else part).stat().st_mode)
            yield part
            with open(part, "r+b") as written:
                os.fsync(written.fileno())
            os.chmod(part, mode)  # some writers replace the part by a file of their own
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        if error.filename is None or not (error.filename == asked or _is_part(error.filename)):
            raise
        error.filename, error.filename2 = asked, None
        told = _told(error, os.fspath(Path(asked).parent))
        if told is None:
            raise
        told.errno, told.strerror, told.filename = error.errno, error.strerror, asked
        raise told from error


def _told(error: OSError, folder: str) -> OSError | None:
    """The error for a path at which no file can be written, with what to type; None for another error (a full disk, no rights). It
    prints its lines, where an OSError shows a number and the path.
    """
    path, kind = error.filename, type(error)
    rules = {
        FileNotFoundError: (
            "its folder is missing",
            "A file is written into a folder that is there. Make it first:",
            f"import os\nos.makedirs({folder!r})",
        ),
        NotADirectoryError: (
            "its folder is a file",
            "What the path has as folder is a file. Take another folder:",
            f"path = {os.path.basename(path)!r}",
        ),
        IsADirectoryError: (
            "its path is a folder",
            "A file has another name than a folder. Say which file in it:",
            f"path = {os.path.join(path, 'file')!r}",
        ),
    }
    if kind not in rules:
        return None
    what, rule, line = rules[kind]
    # In another process it is a plain one, with the same text.
    own = {"__str__": lambda self: str(self.args[0]), "__reduce__": lambda self: (kind, self.args)}
    make: ErrorOf[OSError] = ErrorOf(type(kind.__name__, (kind,), own))
    return make(f"The file cannot be written: {what}.", [("path", path), ("folder", folder)], rule, line)


def remove_parts(path: str | os.PathLike[str]) -> None:
    """Remove the leftovers of killed processes for a file that nothing is writing now."""
    target = Path(os.path.realpath(path))
    for left in target.parent.glob("*.part"):
        if left.name.startswith(f".{_short(target.name)}.") and _is_part(left):
            left.unlink(missing_ok=True)


def _short(name: str) -> str:
    """The part of a name that fits into a file name together with its suffix, within 255 bytes."""
    return os.fsencode(name)[:200].decode("utf-8", "ignore")


def _is_part(path: object) -> bool:
    return str(path).endswith(".part")
