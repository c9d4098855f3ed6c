"""Notebooks as they are after a run, each run once: what is made of a notebook and of the code that it uses is kept.

    notebook = executed(Path("notebooks/07_search.ipynb"))        # seconds; the second time none

The key of what is kept is all that a run depends on: the notebook, its checks and solutions, modules and data beside it, the sources
of rfnb, the versions of Python and of all packages, and the environment that is asked for. Nothing is kept of a run that fails.
"""

from __future__ import annotations

import hashlib
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parents[1]
# Runs first in the kernel: a notebook that asks for a host other than this one fails with a sentence.
OFFLINE = """
import socket as _socket
_connect = _socket.socket.connect
def _offline(self, address):
    if isinstance(address, tuple) and address[0] not in ("127.0.0.1", "::1", "localhost"):
        raise OSError(f"notebooks run offline, and this one asks for {address[0]}")
    return _connect(self, address)
_socket.socket.connect = _offline
"""
# For a page: predictions are revealed, and the training of the tour is a number of steps, not three minutes.
FOR_A_PAGE = {"RFNB_LESSON": "reveal", "RFNB_TOUR_LIMITS": '{"steps": 200, "seconds": 1e9}'}
_KEPT = 3  # runs of a notebook, the newest


class SiteError(ValueError):
    """Pages or slides that cannot be made: a notebook fails, a link leads nowhere."""


def executed(
    path: Path, *, env: Mapping[str, str] = FOR_A_PAGE, seconds: float = 300, cache: Path | None = None
) -> Any:
    """The notebook as it is after a run from top to bottom, without network; nothing is written into its own folder.

    Args:
        path: The notebook.
        env: Variables of the kernel. Others that begin with RFNB_ are not handed on.
        seconds: Limit of one cell.
        cache: Where runs are kept. Default: `rfnb/notebooks` in the cache folder of the user.

    Returns:
        A notebook of `nbformat`, with outputs.

    Raises:
        SiteError: A cell raised, or took longer than its limit; or the file is no notebook.
        KeyboardInterrupt: Ctrl+C was pressed meanwhile.
    """
    import nbformat

    kept = (cache or cache_folder()) / f"{path.stem}-{key_of(path, env)}.ipynb"
    if kept.is_file():
        return nbformat.read(kept, as_version=4)
    notebook = _run(path, env, seconds)
    _keep(nbformat.writes(notebook), kept, path.stem)
    return notebook


def is_kept(path: Path, *, env: Mapping[str, str] = FOR_A_PAGE, cache: Path | None = None) -> bool:
    """Whether `executed` would give a run that is kept."""
    return ((cache or cache_folder()) / f"{path.stem}-{key_of(path, env)}.ipynb").is_file()


def cache_folder() -> Path:
    """The folder in which runs are kept: `rfnb/notebooks` in XDG_CACHE_HOME, or in `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rfnb" / "notebooks"


def key_of(path: Path, env: Mapping[str, str] = FOR_A_PAGE) -> str:
    """A hash of all that a run of the notebook depends on."""
    found = hashlib.sha256(repr((sorted(env.items()), _threads())).encode())
    for file in _beside(path):
        found.update(
            f"{file.relative_to(path.parent).as_posix()}\0".encode() + hashlib.sha256(file.read_bytes()).digest()
        )
    found.update(_surroundings(PACKAGE).encode())
    return found.hexdigest()[:32]


def _beside(path: Path) -> Iterator[Path]:
    """The notebook, its checks and solutions, and what it may import or read beside it."""
    yield path
    for pattern in (f"checks/{path.stem}*", f"solutions/{path.stem}*", "*.py", "checks/__init__.py", "data/**/*"):
        yield from (file for file in sorted(path.parent.glob(pattern)) if file.is_file())


@lru_cache(maxsize=1)
def _surroundings(package: Path) -> str:
    """A hash of the sources of rfnb, as they were when this process asked first, and of the versions of all packages."""
    found = hashlib.sha256(
        repr((sys.version, sorted(f"{item.name} {item.version}" for item in distributions()))).encode()
    )
    for file in sorted(package.rglob("*")):
        if file.is_file() and "__pycache__" not in file.parts:
            found.update(
                f"{file.relative_to(package).as_posix()}\0".encode() + hashlib.sha256(file.read_bytes()).digest()
            )
    return found.hexdigest()


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
    # The kernel finds the rfnb that runs here, and not one that is installed beside it.
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
            # On Ctrl+C nbclient ends the kernel, and trips over its absence by whatever error comes first.
            if not hasattr(client, "_async_cleanup_kernel_future"):
                raise
            logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # tasks of it, too, when this process ends
            raise KeyboardInterrupt from error
    del notebook.cells[0]
    return notebook


def _keep(text: str, kept: Path, stem: str) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=kept.parent, suffix=".part", delete=False, encoding="utf-8") as part:
        part.write(text)
    os.replace(part.name, kept)  # whoever reads beside it sees all of it or nothing
    older = sorted(kept.parent.glob(f"{stem}-{'[0-9a-f]' * 32}.ipynb"), key=lambda file: file.stat().st_mtime)
    for file in older[:-_KEPT]:
        file.unlink(missing_ok=True)
