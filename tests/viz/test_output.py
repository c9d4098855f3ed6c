"""A notebook stores picture, data and script of a view within the budget; notebooks also work without their widgets."""

from __future__ import annotations

import base64
import importlib
import re
import tomllib
import zlib
from pathlib import Path

import nbformat
import numpy as np
import pytest

import rfnb as rf
from rfnb.viz import display
from rfnb.viz.page.exporter import PageExporter, without_widgets
from rfnb.viz.page.output import STATIC
from rfnb.viz.spec import Spec, unpack
from rfnb.viz.view import View

WIDGET = "application/vnd.jupyter.widget-view+json"


def weights(*shape: int) -> np.ndarray:
    energies = np.exp(3 * np.random.default_rng(0).standard_normal(shape, dtype=np.float32))
    return energies / energies.sum(-1, keepdims=True)


def html(view: View) -> str:
    return view._repr_mimebundle_()["text/html"]


def scripts(page: str) -> dict[str, bytes]:
    """The data of an output by class."""
    found = re.findall(r'<div class="rfnb-(\w+)" hidden data-bytes="([^"]*)"></div>', page)
    return {name: base64.b64decode(data, validate=True) for name, data in found}


def test_an_output_has_its_picture_first_then_its_frame_and_the_bundle():
    view = View(rf.viz.attention(weights(2, 3), source=["a", "</script>", "<b>"]).spec)
    page = html(view)
    assert page.index("<img") < page.index("<script") and page.count("<script") == page.count("</script>") == 1
    data = scripts(page)
    assert unpack(data["frame"]).head["seqs"] == view.spec.head["seqs"]
    css, code = zlib.decompress(data["bundle"]).decode().split("\0")
    assert css == (STATIC / "rfnb-drawn.css").read_text() and code == (STATIC / "rfnb-static-attention.js").read_text()
    assert not re.search(r"https?:|src=\"(?!data:)|href", page)


@pytest.mark.parametrize("budget", [None, 200_000, 400_000, 2_000_000])
def test_an_output_takes_no_more_than_its_budget(budget):
    spec = rf.viz.attention(weights(6, 8, 96, 96), dims=["layer", "head", "target", "source"]).spec
    page = html(View(spec, budget=budget))
    assert "rfnb-frame" in page and len(page.encode()) <= (budget or 250_000)


def test_where_the_script_has_no_room_the_picture_is_left():
    page = html(View(rf.viz.attention(weights(2, 3)).spec, budget=20_000))
    assert "<img" in page and "<script" not in page


def test_a_live_view_stores_a_picture_until_it_ends():
    spec = rf.viz.attention(weights(2, 3)).spec
    view = View(Spec("attention", {**spec.head, "live": True}, spec.blocks))
    assert "<script" not in html(view)
    view.update(spec)
    assert "rfnb-frame" in html(view)


def test_a_frozen_view_stores_html_alone_and_stays_frozen(monkeypatch):
    stored = []
    monkeypatch.setattr(display, "publish", lambda bundle: stored.append(bundle) or "handle")
    monkeypatch.setattr(display, "republish", lambda handle, bundle: stored.append(bundle))
    monkeypatch.setattr(display, "shell", lambda: object())
    view = View(rf.viz.attention(weights(2, 3)).spec)
    assert view.show().freeze() is view
    view.update(rf.viz.attention(weights(3, 3)).spec)
    assert [WIDGET in bundle for bundle in stored] == [True, False, False]
    assert stored[0]["text/html"] == stored[1]["text/html"] != stored[2]["text/html"]
    assert "rfnb-frame" in stored[2]["text/html"]


def notebook(*outputs: dict) -> nbformat.NotebookNode:
    cells = [nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("display_data", data)]) for data in outputs]
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_markdown_cell("x"), *cells], metadata={"widgets": {"state": 1}}
    )


def test_the_exporter_leaves_out_our_widgets_and_no_others():
    ours = {WIDGET: {"model_id": "1"}, "text/html": html(View(rf.viz.attention(weights(2, 3)).spec))}
    other = {WIDGET: {"model_id": "2"}, "text/html": "<p>slider</p>"}
    mixed = notebook(ours, other)
    made = without_widgets(mixed)
    assert [set(cell.outputs[0].data) for cell in made.cells[1:]] == [{"text/html"}, {WIDGET, "text/html"}]
    assert "widgets" in made.metadata
    assert [cell.outputs[0].data for cell in mixed.cells[1:]] == [ours, other], "the given one stays as it is"
    assert "widgets" not in without_widgets(notebook(ours)).metadata


def test_nbconvert_knows_the_exporter_by_its_name():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, name = project["entry-points"]["nbconvert.exporters"]["rfnb-html"].split(":")
    assert getattr(importlib.import_module(module), name) is PageExporter
