"""A real kernel whose cells are run one by one, in any order."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nbformat
from jupyter_core.utils import run_sync
from nbclient import NotebookClient
from waiting import LONG
from warm import IN_LESSONS, warm_kernels


class Kernel:
    """Runs cells; `run` gives the outputs of one.

    Attributes:
        folder: That it runs in.
    """

    def __init__(self, client: NotebookClient, folder: Path):
        self._client, self.folder = client, folder

    def run(self, source: str) -> list[dict[str, Any]]:
        """The outputs of a cell, with errors among them."""
        self._client.nb.cells.append(nbformat.v4.new_code_cell(source))
        at = len(self._client.nb.cells) - 1
        return [dict(each) for each in self._client.execute_cell(self._client.nb.cells[at], at).outputs]

    def outputs(self, number: int) -> list[dict[str, Any]]:
        """The outputs of a cell that was run before, as they are by now; -1 is the last one."""
        return [dict(each) for each in self._client.nb.cells[number].outputs]

    def kill(self) -> None:
        """Ends the kernel without a warning, and starts it again under its name, as Jupyter does with one that has died."""
        run_sync(self._client.km.restart_kernel)(now=True)
        run_sync(self._client.kc.wait_for_ready)(timeout=LONG)

    def said(self, source: str) -> list[str]:
        """The texts of what a cell displays, one of each output; of an error its last line."""
        return [text_of(each) for each in self.run(source)]


def text_of(output: dict[str, Any]) -> str:
    """An output as text."""
    if output["output_type"] == "error":
        return f"{output['ename']}: {output['evalue']}"
    return output["text"].rstrip() if "text" in output else output["data"].get("text/plain", "")


@contextmanager
def kernel_in(folder: Path) -> Iterator[Kernel]:
    """A kernel of its own that runs in this folder."""
    notebook = nbformat.v4.new_notebook()
    client = NotebookClient(
        notebook,
        timeout=int(LONG),
        iopub_timeout=int(LONG),
        allow_errors=True,
        resources={"metadata": {"path": str(folder)}},
    )
    warm_kernels(*IN_LESSONS)
    with client.setup_kernel():
        yield Kernel(client, folder)
