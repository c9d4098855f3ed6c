"""The expected output is typed above the tree in a real JupyterLab: completed, answered like rf.why_not, repaired by a click."""

from __future__ import annotations

from browser.what_if import Page
from playwright.sync_api import expect


def test_what_was_expected_is_typed_its_fall_is_drawn_and_a_click_mends_it(lab):
    page = Page(lab)
    why, field = page.page.locator(".rfnb-why"), page.page.get_by_label("what was expected")
    field.click()
    page.page.keyboard.type("P E")
    options = why.locator("datalist option").evaluate_all("(all) => all.map((one) => one.value)")
    assert options == ["P EH", "P ER", "P EY"]
    page.page.keyboard.type("Y R AH SH UW T")
    page.page.keyboard.press("Enter")
    said = why.get_by_role("status")
    expect(said).to_contain_text("The model prefers P EH R AH SH UW T <end> to P EY R AH SH UW T <end>")
    expect(said).to_contain_text("It was pruned at step 1 on rank 5, 1.30 nats behind the last hypothesis kept.")
    expect(page.tree.locator(".rfnb-beams-reference")).to_contain_text("EY")  # in the tree, as far as it lived
    why.get_by_role("button", name="EY at 1").click()
    expect(page.rail).to_contain_text("EY at 1")
    [[name, changes, result]] = page.made()["branches"]
    assert (name, result) == ("EY at 1", "P EY R AH SH UW T") and "forced" in changes[0]
    field.fill("P QQ")
    page.page.keyboard.press("Enter")
    expect(said).to_contain_text("no such label")
    expect(why.get_by_role("button", name="EY at 1")).to_have_count(0)
    field.fill("")
    page.page.keyboard.press("Enter")
    expect(said).to_have_text("")
    assert not lab.errors
