"""Pages of models besides the shipped one, in a browser: a link opens them at a text and a step, and in a search a label is banned."""

from __future__ import annotations

import re

import pytest
from browser.test_running_page import shows
from playwright.sync_api import expect
from viz.test_runnable_models import MODELS, parts_here
from waiting import LONG

from rfnb.viz.runnable.page import save_page


@pytest.mark.parametrize("name", MODELS)
def test_a_page_of_a_model_opens_at_a_link_and_is_typed_in(browser, tmp_path, name):
    fn, texts = MODELS[name]
    path = save_page(tmp_path / "page.html", fn, ("text", texts[0]), {}, {}, title=name, weights="float32")
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 900})
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto(f"{path.as_uri()}#text={texts[2].replace(' ', '%20')}&step=1")
    shows(page, texts[2])
    shot = re.sub(r"\W+", "_", name)
    page.screenshot(path=f"test-shots/model_{shot}.png", full_page=True)
    linked = page.locator('[data-linked="1"], [data-kind="beams"][data-cursor^="1,"]')
    expect(linked.first).to_be_attached()
    field = page.locator("input[name=text]")
    field.fill(texts[3])
    shows(page, texts[3])
    for part in parts_here(fn, texts[3]).values():
        if part.kind != "beams" or not page.locator('[data-kind="beams"]').count():
            continue
        tree, (seq,) = page.locator('[data-kind="beams"]'), part.head["seqs"]
        ranked = tree.locator("tr.rfnb-beams-best, .rfnb-beams-nbest tr").all_inner_texts()
        step, slot = seq["best"][-1]
        assert f"{seq['steps'][step]['scores'][slot]:.3f}".replace("-", "−") in " ".join(ranked)
        tree.locator(".rfnb-pane").first.focus()
        page.keyboard.press("Home")
        page.keyboard.press("w")
        expect(tree).not_to_have_attribute("data-ghosts", "0", timeout=1000 * LONG)
        page.keyboard.press("Enter")
        tree.locator(".rfnb-edits").get_by_role("button", name="Ban").first.click()
        rail = page.locator(".rfnb-rail [data-run]")
        expect(rail).to_have_count(2, timeout=1000 * LONG)
        expect(rail.last).to_contain_text(re.compile(r"^.?no "))
    assert wrong == []
    context.close()
