"""Nothing in the way of people who do not see the page or do not use a mouse, as far as axe-core finds it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from viz.gallery import rail, specs

import rfnb as rf
from rfnb.viz.kinds import KINDS
from rfnb.viz.view import View

AXE = Path(__file__).parents[2] / "widgets/node_modules/axe-core/axe.min.js"
MOST_BLOCKS = 200_000  # bytes: what is large looks like what is small
FOUND = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.filter(({impact}) => impact !== "minor")
    .map(({impact, id, nodes}) => `${impact}: ${id}: ${nodes.length} times, first ${nodes[0].html.slice(0, 200)}`)"""
IN_EACH_GROUP = """which => document.querySelectorAll(".rfnb-root").forEach(root => {
    const all = [...root.querySelectorAll("button[aria-pressed]")].filter(b => b.closest(".rfnb-root") === root && b.checkVisibility());
    all[which]?.click();
})"""


@pytest.fixture(scope="module")
def gallery():
    """A view of each kind, the first of the gallery that is small, and one with a sound above its map."""
    if not AXE.is_file():
        missing = "needs Node.js and `make setup`"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(missing)
    small = [spec for spec in specs().values() if sum(block.nbytes for block in spec.blocks.values()) < MOST_BLOCKS]
    views = {kind: next(View(spec) for spec in small if spec.kind == kind) for kind in KINDS}
    return [*views.values(), View(rail())]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_kind_of_view_has_a_fault_that_axe_finds(browser, tmp_path, gallery, scheme):
    context = browser.new_context(color_scheme=scheme, viewport={"width": 1280, "height": 900})
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(rf.save_html(tmp_path / "gallery.html", gallery).as_uri())
    kinds = page.locator(".rfnb-root").evaluate_all("roots => roots.map(root => root.dataset.kind)")
    assert set(kinds) == set(KINDS)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate(FOUND) == [], "as it opens"
    for pane in page.locator("[role=grid], [role=application]").all():
        pane.focus()
        page.keyboard.press("End")
    for details in page.locator("details").all():
        details.evaluate("details => { details.open = true; }")
    assert page.evaluate(FOUND) == [], "with cursors in the pictures"
    for which in range(6):
        page.evaluate(IN_EACH_GROUP, which)
        assert page.evaluate(FOUND) == [], f"with button {which} of each view pressed"
    assert errors == []
    context.close()
