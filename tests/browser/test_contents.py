"""`rfnb lab` in a real page: the table of contents is shown, not edited, and a click on a lesson opens it."""

from __future__ import annotations

import sys

import pytest
from browser.jupyter import Lab
from cli.command import ROOT
from cli.serving import serving
from playwright.sync_api import expect
from waiting import ms


@pytest.fixture
def address(tmp_path):
    """Where a copy of the course is served."""
    start = [sys.executable, "-m", "rfnb", "lab", "course", "--"]
    (tmp_path / "home").mkdir()
    with serving(lambda words: [*start, *words], tmp_path, tmp_path / "home", PYTHONPATH=str(ROOT)) as (address, _):
        yield address


def test_the_contents_are_shown_and_a_click_opens_a_notebook(address, browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    lab = Lab(context.new_page(), server=None)
    lab.page.goto(f"{address}/lab/tree/notebooks/README.md", wait_until="domcontentloaded")
    shown = lab.page.locator(".jp-MarkdownViewer")
    expect(shown.get_by_role("heading", name="The course")).to_be_visible(timeout=ms(60))
    shown.get_by_role("link", name="The tour").click()
    notebook = lab.page.locator(".jp-NotebookPanel")
    expect(notebook.get_by_role("heading", name="See inside a sequence model")).to_be_visible(timeout=ms(60))
    assert [error for error in lab.errors if "outside request" in error] == []
    lab.screenshot(ROOT / "test-shots/contents.png")
    context.close()
