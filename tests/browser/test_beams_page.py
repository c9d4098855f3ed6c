"""The beams and dims views in a saved page, without Jupyter: drawn, walked by keyboard, fast at 64 hypotheses x 500 steps."""

from __future__ import annotations

import numpy as np
import pytest
from browser.drawing import COUNT_DRAWING, drawn
from playwright.sync_api import expect

from rfnb.core.dim import Dim, ragged_dim
from rfnb.core.tensor import Tensor
from rfnb.viz import View, beams, dims, save_html

COLORS = """canvas => {
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    return new Set(new Uint32Array(data.buffer)).size;
}"""


@pytest.fixture
def page(browser, tmp_path):
    """A function that opens a saved view and gives its root."""
    opened = browser.new_page(viewport={"width": 960, "height": 800})
    opened.add_init_script(COUNT_DRAWING)
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))

    def open_view(view: View):
        save_html(tmp_path / "page.html", [view])
        opened.goto((tmp_path / "page.html").as_uri())
        return opened.locator(f'.rfnb-root[data-kind="{view.kind}"]')

    yield open_view
    opened.close()
    assert errors == []


def search(steps: int, beam: int) -> View:
    """A search with random scores, best first."""
    random = np.random.default_rng(0)
    tokens = random.integers(0, 500, (steps, beam))
    parents = random.integers(0, beam, (steps, beam))
    scores = -np.arange(1, steps + 1)[:, None] - np.sort(random.random((steps, beam)), axis=1)
    return beams(tokens=tokens, parents=parents, scores=scores)


def test_a_search_is_drawn_and_walked_by_keyboard(page):
    root = page(search(12, 4))
    assert root.locator("canvas").evaluate(COLORS) > 8
    assert root.get_attribute("data-cursor") == "11,0"
    root.locator(".rfnb-beams-scroll").focus()
    root.page.keyboard.press("ArrowDown")
    assert root.get_attribute("data-cursor") == "11,1"
    assert root.locator(".rfnb-beams-readout").inner_text().startswith("step 11, slot 1: ")


def test_a_search_opens_with_all_its_steps_in_sight(page):
    root = page(search(60, 16))
    pane = root.locator(".rfnb-beams-scroll")
    assert pane.evaluate("pane => pane.scrollWidth <= pane.clientWidth && pane.scrollHeight <= pane.clientHeight")


def test_a_search_of_64_hypotheses_and_500_steps_draws_no_more_than_the_picture_has(page):
    root = page(search(500, 64))
    whole = drawn(root.page)
    width = root.locator("canvas").evaluate("canvas => canvas.width")
    # One cell per pixel column and place of the beam, one line per pixel column and move; the path of the winner twice.
    assert 0 < whole["rect"] <= width * 64
    assert whole["lineTo"] <= width * 64 + 4 * 500
    assert whole.get("bezierCurveTo", 0) <= 2 * 500
    assert whole.get("fillText", 0) < 200
    assert root.locator("canvas").evaluate(COLORS) > 8


def test_while_the_cursor_walks_the_tree_of_64_hypotheses_is_not_drawn_again(page):
    root = page(search(500, 64))
    drawn(root.page)
    root.locator(".rfnb-beams-scroll").focus()
    walks = []
    for _ in range(8):
        root.page.keyboard.press("ArrowLeft")
        walks.append(drawn(root.page))
    assert root.get_attribute("data-cursor").startswith("491,")
    # The tree below the cursor is kept as a picture; on top of it are the path of the winner and that of the cursor.
    assert all(0 < calls.get("bezierCurveTo", 0) + calls["lineTo"] <= 2 * 500 + 10 for calls in walks[1:]), walks


def test_the_dims_of_tensors_are_chips_and_the_same_dim_is_marked_everywhere(page):
    batch, model = Dim(3, name="batch"), Dim(2, name="model")
    time = ragged_dim([5, 3, 2], over=batch, name="time")
    x = Tensor("x", [batch, time, model], raw_tensor=np.zeros((3, 5, 2), "float32"))
    h = Tensor("h", [batch, model], raw_tensor=np.zeros((3, 2), "float32"))
    root = page(dims([x, h]))
    chips = root.locator('td [data-text="model=2"]')
    assert chips.count() == 2
    left = [box["x"] for box in (chips.nth(0).bounding_box(), chips.nth(1).bounding_box())]
    assert left[0] == left[1]
    chips.nth(0).hover()
    assert root.locator(".rfnb-dims-same").count() == 3
    assert root.locator(".rfnb-dims-readout").inner_text() == "model=2: in 2 of 2 rows"


def test_the_legend_and_the_buttons_are_those_of_the_picture_also_after_a_resize(page):
    root = page(search(10, 4))
    for width, other, words in (
        (1280, "Overview", "double frame"),
        (420, "Labels", "square"),
        (1280, "Overview", "double frame"),
    ):
        root.page.set_viewport_size({"width": width, "height": 800})
        expect(root.locator("button", has_text=other)).to_be_visible()
        expect(root.locator(".rfnb-beams-legend")).to_contain_text(words)
