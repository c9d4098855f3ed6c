"""The tour in JupyterLab: finds its cells by what they contain, runs it with a short training, watches it while it runs."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from browser.jupyter import Lab
from browser.what_if import sweep
from playwright.sync_api import Locator, expect
from waiting import LONG, ms

TOUR = Path(__file__).parents[2] / "notebooks/00_tour.ipynb"
# The first cell. What fills while its cell runs waits until the page has shown it, twice: the test touches the files.
FIRST = """
import os, time
from pathlib import Path
from rfnb.viz.view import View
os.environ["RFNB_TOUR_LIMITS"] = '{"steps": 100, "seconds": 1e9}'  # four reports
def held(call, mark, wanted, sleep=time.sleep):
    counts = []
    def counted(*args):
        call(*args)
        counts.append(1) if wanted(*args) else None
        while len(counts) in (2, 4) and wanted(*args) and not Path(f"seen-{mark}-{len(counts) // 2}").exists():
            sleep(0.02)
    return counted
time.sleep = held(time.sleep, "live", lambda seconds: seconds == 0.2)
View.update = held(View.update, "training", lambda view, spec: spec.kind == "curves" and spec.head["live"])
"""
LAST = """from rfnb.models.g2p_checkpoint import save_g2p
save_g2p(training.model, "small.safetensors", dtype="float32")"""

# Each view of the tour: part of a line of the cell that shows it.
VIEWS = {
    "attention": "model = load_g2p(",
    "dims": "dims_view = ",
    "calls": "calls_view = ",
    "beams": "beam_view = ",
    "wide": "wide_view = ",
    "states": "states_view = ",
    "explore": "explorer = ",
    "hold": "held_view = ",
    "compare": "compare_view = ",
    "live": "live_view = ",
    "training": "curves_view.update(",
    "yours": "your_view = ",
}

# Scrolls the cell with a text to the top, and marks it in the page.
_SCROLL = """([text, mark]) => {
    const notebook = window.jupyterapp.shell.currentWidget.content;
    const index = notebook.widgets.findIndex(cell => cell.model.type === 'code' && cell.model.sharedModel.getSource().includes(text));
    if (index < 0) throw new Error('No cell of the notebook has ' + text);
    notebook.widgets[index].node.dataset.tour = mark;
    return notebook.scrollToItem(index, 'start');
}"""
_STATE = """text => [...window.jupyterapp.shell.currentWidget.content.model.cells]
    .find(cell => cell.sharedModel.getSource().includes(text)).executionState"""
# Notes the steps that a view has shown while its cell was running.
_WATCH = """([mark, kind, text]) => {
    const cell = [...window.jupyterapp.shell.currentWidget.content.model.cells].find(cell => cell.sharedModel.getSource().includes(text));
    const seen = (window.rfnbSeen ??= {})[mark] = [];
    const timer = setInterval(() => {
        if (cell.executionState !== 'running') { clearInterval(timer); return; }
        const step = document.querySelector(`[data-tour=${mark}] [data-kind=${kind}]`)?.dataset.step;
        if (step && step !== seen[seen.length - 1]) seen.push(step);
    }, 30);
}"""


_SEEN = "([mark, count]) => window.rfnbSeen[mark].filter(step => step !== '-1').length >= count"


def source() -> nbformat.NotebookNode:
    """The notebook as it is in the repository."""
    return nbformat.read(TOUR, as_version=4)


def code(text: str) -> str:
    """The code of the cell that has this text."""
    (found,) = [cell.source for cell in source().cells if cell.cell_type == "code" and text in cell.source]
    return found


def pronounced(text: str) -> tuple[str, int]:
    """Word and beam size of the search in the cell with this text."""
    cell = code(text)
    word, beam = re.search(r"pronounce\(model, (\S+), beam_size=(\d+)\)", cell).groups()
    word = re.search(r'"(\w+)"', word if '"' in word else re.search(rf"^{word} = .*$", cell, re.M).group())
    return word.group(1), int(beam)


class Tour:
    """The tour in a page."""

    def __init__(self, lab: Lab) -> None:
        self.lab, self.page = lab, lab.page

    def write(self, name: str, notebook: nbformat.NotebookNode) -> str:
        nbformat.write(notebook, self.lab.server.root / name)
        picture = self.lab.server.root / "data/tour.gif"
        picture.parent.mkdir(exist_ok=True)
        picture.write_bytes((TOUR.parent / "data/tour.gif").read_bytes())
        return name

    def run(self) -> None:
        """Runs a copy from top to bottom, looking at each cell that fills while it runs."""
        notebook = source()
        notebook.cells.insert(0, nbformat.v4.new_code_cell(FIRST))
        notebook.cells.append(nbformat.v4.new_code_cell(LAST))
        for left in self.lab.server.root.glob("seen-*"):
            left.unlink()
        self.lab.open(self.write("tour.ipynb", notebook))
        self.lab.run_all()
        for mark, kind in (("live", "attention"), ("training", "curves")):
            text = VIEWS[mark]
            self.page.wait_for_function(f"text => ({_STATE})(text) === 'running'", arg=text, timeout=ms(60))
            self.scroll(mark)
            self.page.evaluate(_WATCH, [mark, kind, text])
            for count in (1, 2):
                self.page.wait_for_function(_SEEN, arg=[mark, count])
                (self.lab.server.root / f"seen-{mark}-{count}").touch()
        self.cells = self.lab.wait_cells(2 * LONG)
        self.seen = self.page.evaluate("window.rfnbSeen")

    def scroll(self, mark: str) -> Locator:
        """Brings a cell to the top of the window, by its mark, or by a text that it has; gives the cell."""
        self.page.evaluate(_SCROLL, [VIEWS.get(mark, mark), mark])
        return self.page.locator(f"[data-tour={mark}]")

    def view(self, mark: str, kind: str) -> Locator:
        """A view, scrolled into the window."""
        found = self.scroll(mark).locator(f"[data-kind={kind}]").last
        found.scroll_into_view_if_needed()
        return found

    def printed(self, text: str) -> str:
        """The printed output of the cell with this text."""
        cell = self.page.evaluate(
            """text => [...window.jupyterapp.shell.currentWidget.content.model.cells]
            .find(cell => cell.sharedModel.getSource().includes(text)).outputs.toJSON()""",
            text,
        )
        return "".join("".join(output["text"]) for output in cell if output["output_type"] == "stream")

    def theme(self, name: str) -> None:
        """Light or Dark."""
        self.page.evaluate(
            f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: 'JupyterLab {name}'}})"
        )
        light = "true" if name == "Light" else "false"
        self.page.wait_for_function(f"document.body.dataset.jpThemeLight === '{light}'")

    def save(self) -> nbformat.NotebookNode:
        """Saves as a user does; gives what is in the file."""
        self.page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")
        self.page.wait_for_function("!window.jupyterapp.shell.currentWidget.context.model.dirty")
        return nbformat.read(self.lab.server.root / "tour.ipynb", as_version=4)


def hovered(view: Locator, step: float = 30) -> dict[tuple[int, int], list[str]]:
    """The bold words of the readout with the pointer over each cell of a map, by (row, col)."""
    return {(int(at["row"]), int(at["col"])): at["bold"] for at in sweep(view, step, step) if at.get("row")}


def number(text: str) -> float:
    """A number as the views write it."""
    return float(text.replace("−", "-"))


def compose(tour: Tour, mark: str, kind: str, *, above: int = 0, cell: tuple[int, int] | None = None) -> None:
    """Arranges the window for a picture: no side bars, a view in sight, the pointer on a cell of its map.

    Args:
        above: How many cells before the view's own are in the picture; -1 if the view alone matters, not its code.
    """
    tour.page.evaluate("() => { const { shell } = window.jupyterapp; shell.collapseLeft(); shell.collapseRight(); }")
    tour.page.mouse.move(2, 2)
    view = tour.scroll(mark).locator(f"[data-kind={kind}]").last
    tour.page.evaluate(
        """async ([mark, above]) => {
        const notebook = window.jupyterapp.shell.currentWidget.content;
        const index = notebook.widgets.findIndex(cell => cell.node.dataset.tour === mark) - above;
        await notebook.scrollToItem(index, 'start');
        const { node } = notebook.widgets[index], panel = node.closest('.jp-WindowedPanel-outer');
        for (let i = 0; i < 5; i++) {  // cells that come into sight change their height
            await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            panel.scrollTop += node.getBoundingClientRect().top - panel.getBoundingClientRect().top;
        }
    }""",
        [mark, max(0, above)],
    )
    if above < 0:
        view.scroll_into_view_if_needed()
    expect(view).to_be_in_viewport()
    if cell:
        box = view.locator(".rfnb-pane canvas").bounding_box()
        pitch = float(view.get_attribute("data-cell"))
        # The map ends at the right and at the bottom; above and before it are its labels.
        rows, cols = int(view.get_attribute("data-step")) + 1, int((box["width"] - 30) / pitch)
        for x in range(int(box["width"] - cols * pitch), int(box["width"]), 8):
            tour.page.mouse.move(box["x"] + x, box["y"] + box["height"] - (rows - cell[0] - 0.5) * pitch)
            if view.get_attribute("data-col") == str(cell[1]):
                break
        expect(view).to_have_attribute("data-row", str(cell[0]))
        expect(view).to_have_attribute("data-col", str(cell[1]))
    tour.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
