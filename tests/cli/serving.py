"""A JupyterLab that `rfnb lab` has started, and what it serves."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from waiting import LONG, wait_until


@contextlib.contextmanager
def serving(
    command: Callable[[list[str]], list[str]], folder: Path, home: Path, **env: str
) -> Iterator[tuple[str, Path]]:
    """A JupyterLab until the end of the block: its address, when it answers, and the file of what it prints.

    Args:
        command: The words that start it, made of the words for JupyterLab.
        folder: Where it is typed.
        home: An empty folder for what Jupyter remembers.
        env: Further variables.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = {f"JUPYTER_{name.upper()}_DIR": str(home / name) for name in ("config", "data", "runtime")}
    env = {**os.environ, "JUPYTER_PLATFORM_DIRS": "1", **own, **env, "HOME": str(home)}
    words = [
        "--no-browser",
        "--ip=127.0.0.1",
        f"--port={port}",
        "--ServerApp.port_retries=0",
        "--IdentityProvider.token=",
    ]
    log, address = home / "log.txt", f"http://127.0.0.1:{port}"
    with open(log, "wb") as out:
        process = subprocess.Popen(command(words), cwd=folder, env=env, stdout=out, stderr=out, start_new_session=True)
    try:
        wait_until(lambda: process.poll() is not None or get(f"{address}/api/status") is not None)
        assert process.poll() is None, log.read_text()
        yield address, log
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(LONG)


def get(address: str) -> str | None:
    """The text at an address; its status, if that is an error; None: nobody answers."""
    try:
        with urllib.request.urlopen(address, timeout=LONG) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return str(error.code)
    except OSError:
        return None
