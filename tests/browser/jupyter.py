"""A real JupyterLab server on loopback, and a driver for its page in a real Chromium.

Commands go through JupyterLab's own registry (`window.jupyterapp`), not through key presses, which get lost while the page
is still starting. Waiting is always for a plain condition in the page, never for a time.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import urllib.request
from pathlib import Path

import ipykernel.kernelspec
import nbformat
from waiting import LONG, wait_until
from warm import warm, warm_kernels

READY = """() => {
    const w = window.jupyterapp?.shell?.currentWidget;
    const k = w?.sessionContext?.session?.kernel;
    return !!(w?.context?.isReady && w.sessionContext.isReady && k?.connectionStatus === 'connected' && k.status === 'idle');
}"""
_CELLS = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells].filter(c => c.type === 'code')
    .map(c => ({count: c.executionCount, state: c.executionState, outputs: c.outputs.toJSON()}))"""
# anywidget says so of a model that its page has not loaded in two seconds, as on a busy machine. Views do not need it in time:
# `test_curves_page.py` has one in a page where it is never in time.
_TOO_SLOW = "[anywidget] Failed to initialize model."
# JupyterLab says it of a kernel that ends before its debugger has answered, as that of the test before may.
_DEBUGGER_ENDED = "Could not restore the debugger state: Canceled future"
_OUTSIDE = re.compile(r"(https?|wss?)://(?!127\.0\.0\.1[:/])")
# Opens a notebook in a page where others were closed: alone, as in a page of its own.
_OPEN = """async path => {
    const { commands, shell } = window.jupyterapp, opened = await commands.execute('docmanager:open', { path });
    for (const other of [...shell.widgets('main')]) if (other !== opened) other.dispose();
}"""
# Closes all notebooks, then ends all kernels: no page hears that they have gone. Says whether the page is as it was.
_LEAVE = """async () => {
    const { commands, serviceManager, shell } = window.jupyterapp;
    for (const panel of [...shell.widgets('main')]) panel.dispose();
    for (const name of Object.getOwnPropertySymbols(window)) // what was chosen in views that are linked
        if (name.description.startsWith('rfnb ')) window[name].clear();
    await serviceManager.sessions.shutdownAll();
    await commands.execute('filebrowser:go-to-path', { path: '/', dontShowBrowser: true });
    if (document.body.dataset.jpThemeLight !== 'true')
        await commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' });
    return !document.querySelector('.jp-NotebookPanel, .jp-Dialog, .rfnb-root');
}"""
LOADED = ("torch._dynamo", "rfnb", "rfnb.models", "anywidget")  # in kernels, before they begin
SIZE = {"width": 1280, "height": 1400}
# A cell of code, by its number among them: runs it, also what JupyterLab does then, as to move the focus, and says how often it had run
# before; whether it has run since; what it has put out.
_RUN = """async number => {
    const { commands, shell } = window.jupyterapp, notebook = shell.currentWidget.content;
    const cell = notebook.widgets.filter(cell => cell.model.type === 'code')[number], before = cell.model.executionCount;
    notebook.activeCellIndex = notebook.widgets.indexOf(cell);
    await commands.execute('notebook:run-cell');
    return before;
}"""
_CELL = "[...window.jupyterapp.shell.currentWidget.content.model.cells].filter(cell => cell.type === 'code')[number]"
_RAN = f"""([number, before]) => {{
    const cell = {_CELL};
    return cell.executionState === 'idle' && cell.executionCount && cell.executionCount !== before;
}}"""
_OUTPUTS = f"number => {_CELL}.outputs.toJSON()"
OFTEN = 50  # ms; by default Playwright looks at each frame, and has the page make frames
_DONE = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells].filter(c => c.type === 'code')
    .every(c => c.executionState === 'idle' && c.executionCount)"""


class Server:
    """JupyterLab, or another app, with a home, settings and data of its own; only loopback, no token, no news, no update check."""

    def __init__(self, home: Path, app: str = "jupyterlab") -> None:
        self.root = home / "notebooks"
        self.root.mkdir()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = home / "server.log"
        self._settings = home / "config/lab/user-settings"
        self.usual_settings()
        folders = {
            "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime",
            "IPYTHONDIR": "ipython", "MPLCONFIGDIR": "matplotlib",
        }  # fmt: skip
        env = {name: str(home / folder) for name, folder in folders.items()}
        warm_kernels(*LOADED)
        env = dict(os.environ, HOME=str(home), JUPYTER_PLATFORM_DIRS="1", OMP_NUM_THREADS="1", **env)
        ipykernel.kernelspec.write_kernel_spec(str(home / "data/kernels/plain"))  # as it is without a fork
        command = [
            *warm(*LOADED), "-m", app, "--no-browser", "--ip=127.0.0.1", f"--port={self.port}", "--allow-root",
            "--ServerApp.port_retries=0", "--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True",
            f"--ServerApp.root_dir={self.root}", "--LabApp.expose_app_in_browser=True",
        ]  # fmt: skip
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=env, start_new_session=True)
        wait_until(lambda: self._answers() or self.process.poll() is not None)
        if not self._answers():
            self.stop()
            raise RuntimeError("JupyterLab did not start:\n" + self.log.read_text()[-3000:])

    def usual_settings(self) -> None:
        """For pages from here on: what somebody has chosen, as the theme, is forgotten."""
        shutil.rmtree(self._settings, ignore_errors=True)
        settings = self._settings / "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(self.url + "/api/status", timeout=LONG):
            return True
        return False

    def stop(self) -> None:
        """Ends the server and its kernels."""
        for signum in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signum)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(LONG)
                return


class Lab:
    """One page with JupyterLab. `errors` has the page's errors and each request that tried to leave this machine."""

    def __init__(self, page, server: Server) -> None:
        self.page, self.server, self.errors = page, server, []
        self.uses = 0  # tests that had it
        self._started = False  # JupyterLab, with nothing open
        page.set_default_timeout(1000 * LONG)
        page.on("pageerror", lambda error: self._failed(str(error)))
        page.on("console", self._on_console)
        # Not by `page.route`, which turns the cache off. Chromium finds no other host (conftest.py).
        page.on("request", self._on_request)
        page.on("websocket", self._on_request)

    def _on_console(self, message) -> None:
        if message.type == "error" and "favicon" not in message.text:
            self._failed(message.text)

    def _failed(self, text: str) -> None:
        if _TOO_SLOW not in text and _DEBUGGER_ENDED not in text:
            self.errors.append(text)

    def _on_request(self, request) -> None:
        if _OUTSIDE.match(request.url):
            self.errors.append("outside request: " + request.url)

    def write(self, name: str, *cells: str, kernel: str = "python3") -> str:
        """Writes a notebook with these code cells into the server's folder; gives its name."""
        kernel = {
            "name": kernel,
            "display_name": "Python 3",
            "language": "python",
        }  # without it JupyterLab asks which one
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(cell) for cell in cells], metadata={"kernelspec": kernel}
        )
        nbformat.write(notebook, self.server.root / name)
        return name

    def open(self, name: str) -> None:
        """Opens a notebook of the server's folder, in a workspace of its own (no tabs of other tests); waits for its kernel."""
        if self._started:
            self.page.evaluate(_OPEN, name)
        else:
            workspace = f"{self.server.url}/lab/workspaces/t{os.urandom(4).hex()}/tree/{name}"
            self.page.goto(workspace, wait_until="domcontentloaded")
        self._started = False
        self.page.wait_for_function(READY, polling=OFTEN)

    def start(self, command: str) -> None:
        """Starts a JupyterLab command; does not wait (the promise of run-all-cells ends with the last cell)."""
        self.page.evaluate("(c) => { window.jupyterapp.commands.execute(c); }", command)

    def run_all(self) -> None:
        """Starts all cells, does not wait."""
        self.start("notebook:run-all-cells")

    def cells(self) -> list[dict]:
        """The code cells: `count` (None before it has run), `state` (running, idle), `outputs`."""
        return self.page.evaluate(_CELLS)

    def wait_cells(self, seconds: float = LONG) -> list[dict]:
        """Waits until every code cell has run; fails on an error output."""
        self.page.wait_for_function(_DONE, timeout=1000 * seconds, polling=OFTEN)
        cells = self.cells()
        self._check([output for cell in cells for output in cell["outputs"]])
        return cells

    def run_cell(self, number: int) -> list[dict]:
        """Runs a code cell, by its number; gives its outputs, and fails on an error."""
        self.wait_cell(number, self.page.evaluate(_RUN, number))
        outputs = self.page.evaluate(_OUTPUTS, number)
        self._check(outputs)
        return outputs

    def wait_cell(self, number: int, before: int | None = None) -> None:
        """Waits until a code cell has run, after it had the count `before`. All outputs of a notebook are much to ask for often."""
        self.page.wait_for_function(_RAN, arg=[number, before], polling=OFTEN)

    def _check(self, outputs: list[dict]) -> None:
        failed = [output for output in outputs if output["output_type"] == "error"]
        assert not failed, "\n".join("\n".join(output["traceback"]) for output in failed)

    def screenshot(self, path: Path) -> None:
        """Takes a picture of what is on the screen."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=path)

    def leave(self) -> bool:
        """Closes all notebooks and ends all kernels; says whether the page is as a new one, for another test."""
        unharmed = "/lab/workspaces/" in self.page.url and not self.errors
        self.page.set_viewport_size(SIZE)
        self.page.mouse.move(1, 1)
        self._started = self.page.evaluate(_LEAVE) and unharmed
        return self._started

    def shut_down_kernels(self) -> None:
        """Ends all kernels of the server."""
        self.page.evaluate("async () => { await window.jupyterapp.serviceManager.sessions.shutdownAll(); }")
