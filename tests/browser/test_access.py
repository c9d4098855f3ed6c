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
# By a selector of what is looked at, and the rules, of which most take no notice of colours.
FOUND = """async ([where, rules]) => (await axe.run(where, {resultTypes: ["violations"], ...(rules && {runOnly: rules})})).violations
    .filter(({impact}) => impact !== "minor")
    .map(({impact, id, nodes}) => `${impact}: ${id}: ${nodes.length} times, first ${nodes[0].html.slice(0, 200)}`)"""
# Presses a button of each view that has so many; marks these views, and says how many they are.
IN_EACH_GROUP = """which => [...document.querySelectorAll(".rfnb-root")].filter(root => {
    const all = [...root.querySelectorAll("button[aria-pressed]")].filter(b => b.closest(".rfnb-root") === root && b.checkVisibility());
    all[which]?.click();
    return root.toggleAttribute("data-changed", which < all.length);
}).length"""
# What can differ between light and dark.
COLOURS = ["color-contrast", "link-in-text-block"]


@pytest.fixture(scope="module")
def gallery():
    """A view of each kind, the first of the gallery that is small, and one with a sound above its map."""
    if not AXE.is_file():
        missing = "needs Node.js and `make setup`"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(missing)
    small = [spec for spec in specs().values() if sum(block.nbytes for block in spec.blocks.values()) < MOST_BLOCKS]
    views = {kind: next(View(spec) for spec in small if spec.kind == kind) for kind in KINDS}
    return [*views.values(), View(rail())]


def faults(page, where="html") -> list[str]:
    """All in light, in dark those of colours."""
    found = []
    for scheme, rules in (("light", None), ("dark", COLOURS)):
        page.emulate_media(color_scheme=scheme)
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found += [f"{scheme}: {fault}" for fault in page.evaluate(FOUND, [where, rules])]
    return found


def test_no_kind_of_view_has_a_fault_that_axe_finds(browser, tmp_path, gallery):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(rf.save_html(tmp_path / "gallery.html", gallery).as_uri())
    kinds = page.locator(".rfnb-root").evaluate_all("roots => roots.map(root => root.dataset.kind)")
    assert set(kinds) == set(KINDS)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert faults(page) == [], "as it opens"
    for pane in page.locator("[role=grid], [role=application]").all():
        pane.focus()
        page.keyboard.press("End")
    for details in page.locator("details").all():
        details.evaluate("details => { details.open = true; }")
    assert faults(page) == [], "with cursors in the pictures"
    assert page.evaluate("document.querySelectorAll('button[aria-pressed]').length") > 5
    for which in range(6):
        if page.evaluate(IN_EACH_GROUP, which) == 0:
            break
        assert faults(page, "[data-changed]") == [], f"with button {which} of each view pressed"
    assert errors == []
    context.close()
