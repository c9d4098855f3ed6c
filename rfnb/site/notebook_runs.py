"""Notebooks after a run, with a cache: a notebook runs again only if it or the code that it uses has changed.

    notebook = executed(Path("notebooks/07_search.ipynb"))        # seconds; the second time it is cached

The cache key covers everything that a run depends on: the notebook, its checks and solutions, modules and data beside
it, the sources of rfnb, the versions of Python and of all packages, and the requested environment. A failed run is not
cached.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1]
# Runs first in the kernel: a notebook that accesses another host fails with a sentence.
OFFLINE = """
import socket as _socket
_connect = _socket.socket.connect
def _offline(self, address):
    if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"notebooks run offline, and this one asks for {address[0]}")
    return _connect(self, address)
_socket.socket.connect = _offline
"""
# For a page: predictions are revealed, and the training of the tour runs a number of steps instead of three minutes.
FOR_A_PAGE = {"RFNB_LESSON": "reveal", "RFNB_TOUR_LIMITS": '{"steps": 200, "seconds": 1e9}'}
_KEPT = 3  # cached runs per notebook, newest first


class SiteError(ValueError):
    """Pages or slides cannot be made: a notebook fails, or a link leads nowhere."""


def executed(
    path: Path, *, env: Mapping[str, str] = FOR_A_PAGE, seconds: float = 300, cache: Path | None = None
) -> Any:
    """The notebook after a run from top to bottom, without network; nothing is written into its own folder.

    Args:
        path: The notebook.
        env: Environment variables of the kernel. Other variables that begin with RFNB_ are not passed on.
        seconds: Limit of one cell.
        cache: Where runs are cached. Default: `rfnb/notebooks` in the cache folder of the user.

    Returns:
        A notebook of `nbformat`, with outputs.

    Raises:
        SiteError: A cell raised or exceeded its limit, or the file is not a notebook.
        KeyboardInterrupt: Ctrl+C was pressed.
    """
    import nbformat

    kept = (cache or cache_folder()) / f"{path.stem}-{key_of(path, env)}.ipynb"
    if not kept.is_file():
        with _one_at_a_time(kept.with_suffix(".lock")):
            if not kept.is_file():
                _keep(nbformat.writes(_run(path, env, seconds)), kept, path.stem)
    return nbformat.read(kept, as_version=4)


def is_kept(path: Path, *, env: Mapping[str, str] = FOR_A_PAGE, cache: Path | None = None) -> bool:
    """Whether `executed` would return a cached run."""
    return ((cache or cache_folder()) / f"{path.stem}-{key_of(path, env)}.ipynb").is_file()


def cache_folder() -> Path:
    """The cache folder for runs: `rfnb/notebooks` in XDG_CACHE_HOME, or in `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rfnb" / "notebooks"


def key_of(path: Path, env: Mapping[str, str] = FOR_A_PAGE) -> str:
    """A hash of everything that a run of the notebook depends on."""
    found = hashlib.sha256(repr((sorted(env.items()), _threads())).encode())
    for file in _beside(path):
        found.update(_hash_of(file, path.parent))
    found.update(_surroundings(PACKAGE).encode())
    return found.hexdigest()[:32]


def _beside(path: Path) -> Iterator[Path]:
    """The notebook, its checks and solutions, and the files beside it that it may import or read."""
    yield path
    for pattern in (f"checks/{path.stem}*", f"solutions/{path.stem}*", "*.py", "checks/__init__.py", "data/**/*"):
        yield from (file for file in sorted(path.parent.glob(pattern)) if file.is_file())


@lru_cache(maxsize=1)
def _surroundings(package: Path) -> str:
    """A hash of the sources of rfnb, as of the first call in this process, and of the versions of all packages."""
    found = hashlib.sha256(
        repr((sys.version, sorted(f"{item.name} {item.version}" for item in distributions()))).encode()
    )
    for file in sorted(package.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            found.update(_hash_of(file, package))
    return found.hexdigest()


def _hash_of(file: Path, folder: Path) -> bytes:
    """The path of a file in the folder, and a hash of its content."""
    return f"{file.relative_to(folder).as_posix()}\0".encode() + hashlib.sha256(file.read_bytes()).digest()


def _threads() -> str:
    return os.environ.get("OMP_NUM_THREADS", "2")


def _run(path: Path, env: Mapping[str, str], seconds: float) -> Any:
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError

    try:
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
    except (UnicodeDecodeError, nbformat.reader.NotJSONError, nbformat.ValidationError) as error:
        raise SiteError(f"{path} is no notebook that Jupyter could open.") from error
    notebook.cells.insert(0, nbformat.v4.new_code_cell(OFFLINE))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("RFNB_")}
    # The kernel must find this rfnb, not another installed one.
    python_path = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")]))
    with tempfile.TemporaryDirectory() as home:
        folders = {
            "HOME": home,
            "TMPDIR": home,
            "IPYTHONDIR": f"{home}/ipython",
            "MPLCONFIGDIR": f"{home}/matplotlib",
            "PYTHONPATH": python_path,
        }
        client = NotebookClient(
            notebook,
            timeout=int(seconds),
            iopub_timeout=int(seconds),
            resources={"metadata": {"path": str(path.parent)}},
        )
        try:
            client.execute(
                env={**inherited, "OMP_NUM_THREADS": _threads(), **folders, **env}, stderr=subprocess.DEVNULL
            )
        except (CellExecutionError, CellTimeoutError) as error:
            raise SiteError(f"{path.name} does not run through.\n{str(error).strip()}") from error
        except Exception as error:
            # On Ctrl+C nbclient ends the kernel, and then fails with whatever error its absence causes first.
            if not hasattr(client, "_async_cleanup_kernel_future"):
                raise
            logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # also silences its tasks when this process ends
            raise KeyboardInterrupt from error
    del notebook.cells[0]
    return notebook


@contextmanager
def _one_at_a_time(lock: Path) -> Iterator[None]:
    """A second process, or thread, that wants the same run waits for the first. Windows has no such lock: there both run."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    lock.parent.mkdir(parents=True, exist_ok=True)
    with open(lock, "w", encoding="utf-8") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _keep(text: str, kept: Path, stem: str) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=kept.parent, suffix=".part", delete=False, encoding="utf-8") as part:
        part.write(text)
    os.replace(part.name, kept)  # atomic for concurrent readers
    older = sorted(kept.parent.glob(f"{stem}-{'[0-9a-f]' * 32}.ipynb"), key=lambda file: file.stat().st_mtime)
    for file in older[:-_KEPT]:
        file.unlink(missing_ok=True)
