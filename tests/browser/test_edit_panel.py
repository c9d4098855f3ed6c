"""A search is paused, stepped and changed by clicks in a real JupyterLab, and comes to what plain torch computes with the same change."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
import torch
from browser.test_access import AXE
from browser.what_if import press
from control.plain_search import Decision, plain_search
from plain_g2p import PlainG2P
from playwright.sync_api import expect
from waiting import ms

from rfnb.models.g2p_checkpoint import SHIPPED

WORD, BEAM, MOST = "phonetics", 4, 28
RUN = """
import rfnb as rf
from rfnb.models import load_g2p
from rfnb.models.g2p_search import search
model = load_g2p()
def spell():
    with rf.stop_gradient_scope():
        return search(model, ["phonetics"], beam_size=4)
run = rf.run(spell, paused=True)
run.step()
run.speed = 0.01  # its second step is made by nobody but the page
run.resume()
rf.show(run)
None
"""
TOLD = """
import json
other = run.branches[-1] if run.branches else run
_, labels, scores = other.result
beam = next(dim for dim in scores.dims if dim.name == "beam")
batch = next(dim for dim in scores.dims if dim is not beam)
time = next(dim for dim in labels.dims if dim not in scores.dims)
print(json.dumps({"labels": labels.copy_transpose([batch, beam, time]).numpy()[0].tolist(),
                  "scores": scores.copy_transpose([batch, beam]).numpy()[0].tolist(),
                  "changes": [str(one) for one in other.changes], "branches": len(run.branches)}))
"""


FAULTS = """async () => (await axe.run(".rfnb-edits", {resultTypes: ["violations"]})).violations
    .filter(({impact}) => impact !== "minor").map(({id, nodes}) => `${id}: ${nodes[0].html.slice(0, 200)}`)"""


@pytest.fixture(scope="module")
def plain(one_thread):
    return PlainG2P.load(SHIPPED)


class Page:
    """A run in a page, and what is clicked there."""

    def __init__(self, lab):
        self.lab = lab
        lab.open(lab.write("hands.ipynb", RUN, TOLD))
        lab.start("notebook:run-cell-and-select-next")
        self.bar = lab.page.locator('.rfnb-root[data-kind="control"]').last
        expect(self.bar.get_by_role("button", name=re.compile("^Pause"))).to_be_visible(timeout=ms(60))

    def click(self, name: str) -> None:
        self.bar.get_by_role("button", name=re.compile(f"^{name}")).first.click()

    def view(self, kind: str, title: str = ""):
        views = self.lab.page.locator(f'.rfnb-root.rfnb-part[data-kind="{kind}"]')
        return (views.filter(has_text=title) if title else views).last

    def paused(self, before: int) -> None:
        expect(self.bar).to_contain_text(f"Paused before step {before} of", timeout=ms(60))

    def pause(self) -> int:
        """Pauses it after its first step; the step that comes next, at full speed once it goes on."""
        expect(self.view("beams")).to_have_attribute("data-step", re.compile(r"\d"), timeout=ms(60))
        self.click("Pause")
        expect(self.bar).to_contain_text("Paused before step", timeout=ms(60))
        found = re.search(r"Paused before step (\d+)", self.bar.inner_text())
        assert found is not None
        self.bar.get_by_label("speed").select_option(label="full speed")
        return int(found[1])

    def done(self) -> dict:
        """The result of the branch that was made last, once that is over."""
        expect(self.bar).to_contain_text("Done after", timeout=ms(60))
        [output] = self.lab.run_cell(1)
        assert output["output_type"] == "stream", output
        return json.loads("".join(output["text"]))


def assert_found(found: dict, beam: list) -> None:
    np.testing.assert_allclose(found["scores"], [hyp.score for hyp in beam], rtol=1e-4)
    for row, hyp in zip(found["labels"], beam, strict=True):
        assert row[: len(hyp.labels)] == list(hyp.labels)


def test_a_search_is_paused_stepped_forced_by_clicks_and_run_on(lab, plain):
    page = Page(lab)
    begun = page.pause()
    for more in range(1, 4):
        page.click("Step")
        page.paused(begun + more)
    view = page.view("beams")
    expect(view).to_have_attribute("data-step", str(begun + 2))
    press(view, r"[1-9]\d*,cut\d+", "cursor")
    step = int(view.get_attribute("data-cursor").split(",")[0])
    readout = view.locator(".rfnb-beams-prefix").inner_text().split()
    label = readout[-1]
    lab.page.mouse.up()
    branch = lab.page.locator(".rfnb-rail-row", has_text=f"{label} at {step}")
    expect(branch).to_be_visible()
    page.paused(begun + 3)  # the run that it leaves stays where it is
    branch.click()
    found = page.done()
    # The same in plain torch: the hypothesis is the one that has what was read before the label.
    before = plain_search(WORD, BEAM, most=step, plain=plain)
    [hypothesis] = [at for at, hyp in enumerate(before) if [plain.labels[one] for one in hyp.labels] == readout[:-1]]
    decision = Decision("force", plain.labels.index(label), hypothesis, only=True)
    assert_found(found, plain_search(WORD, BEAM, most=MOST, decisions={step: [decision]}, plain=plain))
    assert found["branches"] == 1
    expect(page.view("beams").locator(".rfnb-edits")).to_contain_text(f"◆ step {step}: ")
    assert lab.errors == []


def test_a_row_of_attention_is_drawn_by_the_pointer(lab, plain):
    page = Page(lab)
    begun = page.pause()
    page.click("Step")
    page.paused(begun + 1)
    view = page.view("attention")
    expect(view).to_have_attribute("data-step", str(begun))
    view.locator(".rfnb-pane").first.focus()
    for key in ["Home", *["ArrowDown"] * (begun + 1)]:
        lab.page.keyboard.press(key)
    expect(view).to_have_attribute("data-row", str(begun))
    hands = view.locator(".rfnb-edits")
    choice = hands.get_by_label("the step that is changed")
    assert choice.locator("option").all_inner_texts() == [
        f"in the next step, {begun + 1}",
        f"in a branch from step {begun}",
    ]
    row = hands.locator(".rfnb-row canvas")
    row.hover()  # once nothing moves any more
    box = row.bounding_box()
    pitch = box["width"] / len(WORD)
    lab.page.mouse.move(box["x"] + 2.5 * pitch, box["y"] + 60)
    lab.page.mouse.down()
    lab.page.mouse.move(box["x"] + 2.5 * pitch, box["y"] + 48, steps=4)
    lab.page.mouse.up()
    if AXE.is_file():
        lab.page.evaluate(AXE.read_text(encoding="utf-8"))
        assert lab.page.evaluate(FAULTS) == []
    hands.get_by_role("button", name="Apply").click()
    pending = hands.locator(".rfnb-edits-pending")
    expect(pending).to_contain_text(f"In the next step, {begun + 1}: attention")
    page.click("Resume")
    found = page.done()
    assert found["branches"] == 0 and len(found["changes"]) == 1
    beam = plain_search(WORD, BEAM, most=begun + 1, plain=plain)
    # The row began as that of the step before, of the best hypothesis; then half of it is on the third letter.
    best = [plain.labels[one] for one in beam[0].labels]
    drawn = plain.saying(WORD, best[:-1]).weights[-1].numpy().copy()
    drawn[2] = 0.0
    drawn *= 0.5 / drawn.sum()
    drawn[2] = 0.5

    def changed(weights: np.ndarray) -> None:
        weights[0] = drawn

    expected = plain_search(WORD, BEAM, most=MOST, weights={begun + 1: changed}, plain=plain)
    np.testing.assert_allclose(found["scores"], [hyp.score for hyp in expected], atol=2e-3)
    assert [row[: len(hyp.labels)] for row, hyp in zip(found["labels"], expected)] == [list(h.labels) for h in expected]
    assert lab.errors == []


def test_a_state_is_set_to_zero_by_a_click(lab, plain):
    page = Page(lab)
    begun = page.pause()
    page.click("Step")
    page.paused(begun + 1)
    view = page.view("states", "search")
    expect(view).to_have_attribute("data-step", str(begun))
    view.locator(".rfnb-pane").first.focus()
    for key in ["Home", *["ArrowRight"] * (begun + 1)]:
        lab.page.keyboard.press(key)
    expect(view).to_have_attribute("data-col", str(begun))
    track = view.get_attribute("data-track")
    name = track.rpartition(".")[2]
    assert name in ("h", "c")
    hands = view.locator(".rfnb-edits")
    expect(hands).to_contain_text(f"after step {begun}: in the next step, {begun + 1}")
    hands.get_by_label("units", exact=True).select_option(label="all units")
    hands.get_by_role("button", name="Zero").click()
    expect(hands.locator(".rfnb-edits-pending")).to_contain_text(f"In the next step, {begun + 1}: state")
    page.click("Resume")
    found = page.done()

    def zero(beam: list) -> None:
        setattr(beam[0], name, torch.zeros_like(getattr(beam[0], name)))

    assert_found(found, plain_search(WORD, BEAM, most=MOST, states={begun + 1: zero}, plain=plain))
    assert lab.errors == []
