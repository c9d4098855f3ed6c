"""A view's share of a notebook as JupyterLab saves it, by default and with widget state; large data is restored."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from notebooks.runner import execute
from playwright.sync_api import expect
from waiting import ms

from rfnb.viz.page.output import STATIC

START = """
import numpy as np, rfnb as rf
rng = np.random.default_rng(0)
LAYERS = ["layer", "head", "target", "source"]
def attention(*shape, **options):
    energies = np.exp(3 * rng.standard_normal(shape, dtype=np.float32))
    return rf.viz.attention(energies / energies.sum(-1, keepdims=True), dims=LAYERS, **options)
def search(steps, lanes, candidates):
    scores = -np.sort(10 * rng.random((steps, candidates)), axis=1) - np.arange(steps)[:, None]
    tokens, parents = (rng.integers(0, most, (steps, candidates)) for most in (5000, lanes))
    parents[0] = 0
    fields = {"tokens": tokens, "parents": parents, "scores": scores}
    kept = {name: list(field[:, :lanes]) for name, field in fields.items()}
    kept |= {f"cand_{name}": list(field) for name, field in fields.items()}
    return rf.viz.beams(**kept, cand_kept=list(np.arange(candidates)[None].repeat(steps, 0) < lanes))
def states(steps, layers, units):
    h = np.tanh(rng.standard_normal((steps, layers, units), dtype=np.float32))
    return rf.viz.states({f"layer {n}": h[:, n] for n in range(layers)})
"""
USUAL = 262_000  # 250 kB for the view; its text, and the notebook around it
# Each view, the most bytes of its notebook, and of the same with the state of widgets: that has the frame again, and the bundle, which
# is once in a notebook, has a bound of its own (tests/viz/test_bundle.py), and is not counted here.
SIZES = {
    "attention(6, 8, 64, 64)": (132_000, 212_000),
    "attention(6, 8, 256, 256)": (USUAL, 470_000),
    "attention(12, 12, 512, 512)": (USUAL, 470_000),
    "attention(12, 12, 512, 512, budget=2_000_000)": (2_000_000, 4_000_000),
    "attention(1, 1, 4096, 4096)": (USUAL, 470_000),
    "search(500, 64, 128)": (USUAL, 470_000),
    "states(500, 8, 512)": (USUAL, 470_000),
}


@pytest.mark.parametrize("view", SIZES)
def test_a_saved_notebook_stays_small(tmp_path, view):
    path = tmp_path / "one.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(f"{START}\n{view}.show();")]), path)
    notebook = execute(path, home=tmp_path)
    sizes = []
    for _ in range(2):
        nbformat.write(notebook, path)
        sizes.append(path.stat().st_size)
        notebook.metadata.pop("widgets", None)
    with_state, usual = sizes
    with_state -= (STATIC / "rfnb.js").stat().st_size
    print(f"{view}: {usual:_} bytes, with the state of widgets, without the bundle, {with_state:_}")
    assert (usual <= SIZES[view][0], with_state <= SIZES[view][1]) == (True, True), (usual, with_state)
    html = notebook.cells[0].outputs[0].data["text/html"]
    assert "rfnb-frame" in html, "it is alive also without kernel"


CELLS = (
    START,
    "view = attention(12, 12, 512, 512, budget=2_000_000).show()",
    "one = attention(1, 1, 4096, 4096).show().freeze()",
)


def test_a_notebook_of_large_views_is_saved_and_opened_again(lab):
    name = lab.write("large_views.ipynb", *CELLS)
    lab.open(name)
    lab.run_all()
    lab.wait_cells()
    views = lab.page.locator(".rfnb-root[data-kind=attention]")
    expect(views).to_have_count(2, timeout=ms(60))
    lab.page.evaluate("async () => { await window.jupyterapp.commands.execute('docmanager:save'); }")
    path = Path(lab.server.root / name)
    saved = nbformat.read(path, as_version=4)
    saved.metadata.pop("widgets", None)  # the server of the tests saves the state of widgets, too
    assert "rfnb-frame" in path.read_text() and len(nbformat.writes(saved).encode()) <= 2_000_000 + USUAL
    lab.shut_down_kernels()
    lab.open(name)
    frozen = lab.page.locator(".rfnb-output .rfnb-root[data-kind=attention]")
    expect(frozen.first).to_be_visible(timeout=ms(60))
    grid = frozen.first.get_by_role("grid").first
    grid.focus()
    for key in ("Home", "ArrowDown"):
        lab.page.keyboard.press(key)
    expect(frozen.first.locator(".rfnb-readout .rfnb-value").first).to_contain_text("about")
    assert lab.page.get_by_text("cannot be drawn").count() == 0
