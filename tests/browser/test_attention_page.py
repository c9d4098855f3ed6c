"""The attention view in a saved page, without Jupyter: all heads at a glance, masks, the row card, text, arcs and the slider."""

from __future__ import annotations

import numpy as np
import pytest
from browser.drawing import COUNT_DRAWING, drawn
from playwright.sync_api import expect
from waiting import wait_until

import rfnb as rf
from rfnb.viz import View, attention, save_html
from rfnb.viz.show import view_of

SIZE, LAYERS, HEADS = 24, 12, 12
GAP = 4  # between two maps
# Of a canvas, whether a point is darker than all others of its row of points in a box: red, green and blue added up.
DARKEST = """(canvas, [left, top, size]) => {
    const ratio = canvas.width / canvas.clientWidth, g = canvas.getContext('2d');
    const {data} = g.getImageData(Math.round(left * ratio), Math.round((top + size / 2) * ratio), Math.round(size * ratio), 1);
    let best = 0, least = 1e9;
    for (let x = 0; x < data.length / 4; x++) {
        const sum = data[4 * x] + data[4 * x + 1] + data[4 * x + 2];
        if (sum < least) [best, least] = [x, sum];
    }
    return (best + 0.5) / (data.length / 4);
}"""
COLOR = """(canvas, [x, y]) => {
    const ratio = canvas.width / canvas.clientWidth;
    return [...canvas.getContext('2d').getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data].slice(0, 3);
}"""

# How often styles are read, which makes the browser work them out.
COUNT_READING = """
window.rfnbRead = 0;
const read = window.getComputedStyle;
window.getComputedStyle = (...given) => { window.rfnbRead++; return read(...given); };
"""


@pytest.fixture
def page(browser, tmp_path):
    """A function that opens a saved view and gives its root."""
    opened = browser.new_page(viewport={"width": 1280, "height": 1000}, color_scheme="light")
    opened.add_init_script(COUNT_DRAWING + COUNT_READING)
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))

    def open_view(*views: View):
        save_html(tmp_path / "page.html", views)
        opened.goto((tmp_path / "page.html").as_uri())
        root = opened.locator(".rfnb-root[data-kind=attention]").first
        expect(root).to_be_visible()
        drawn(opened)
        return root

    yield open_view
    opened.close()
    assert errors == []


def looking_at(layer: int, head: int) -> int:
    """The source that a head looks at, in each row."""
    return (5 * layer + 2 * head) % SIZE


def heads() -> np.ndarray:
    """Weights [layer, head, target, source]; most of it on one source, the rest is noise."""
    weights = np.random.default_rng(0).random((LAYERS, HEADS, SIZE, SIZE)) * 0.01
    for layer in range(LAYERS):
        for head in range(HEADS):
            weights[layer, head, :, looking_at(layer, head)] += 0.7
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def causal(seed: int, *shape: int) -> np.ndarray:
    energies = np.random.default_rng(seed).standard_normal(shape)
    energies = np.where(np.tril(np.ones(shape[-2:], bool)), energies, -np.inf)
    weights = np.exp(energies - energies.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def places(root) -> tuple[int, int, int, int]:
    """Size of a map, height below it, and where the first one begins."""
    size, caption, left, top = map(int, root.locator(".rfnb-heads").get_attribute("data-places").split(","))
    return size, caption, left, top


def move(root, x: float, y: float, selector: str = ".rfnb-pane") -> None:
    box = root.locator(selector).bounding_box()
    root.page.mouse.move(box["x"] + x, box["y"] + y)


def value(root) -> float:
    return float(root.locator(".rfnb-readout .rfnb-value").inner_text())


def test_each_of_144_heads_is_drawn_at_its_place_and_chosen_there(page):
    root = page(attention(heads(), dims=["layer", "head", "target", "source"]))
    size, caption, left, top = places(root)
    canvas = root.locator(".rfnb-sheet canvas")
    expect(canvas).to_be_visible()
    expect(root.locator(".rfnb-heads")).to_have_attribute("data-drawn", "true")  # they are drawn some at a time
    for layer, head in [(0, 0), (0, 11), (3, 7), (8, 2), (11, 11)]:
        x, y = left + head * (size + GAP), top + layer * (size + caption + GAP)
        darkest = canvas.evaluate(DARKEST, [x, y, size])
        assert darkest == pytest.approx((looking_at(layer, head) + 0.5) / SIZE, abs=1 / SIZE), (layer, head)
        move(root, x + size / 2, y + size / 2, ".rfnb-sheet")
        expect(root.locator(".rfnb-heads-status")).to_contain_text(f"layer {layer}, head {head} ·")
        root.page.mouse.down()
        root.page.mouse.up()
        assert root.get_attribute("data-map") == str(layer * HEADS + head)
        assert root.locator("select[aria-label=map]").input_value() == str(layer * HEADS + head)


def test_the_means_are_those_of_numpy(page):
    weights = heads()
    root = page(attention(weights, dims=["layer", "head", "target", "source"]))
    for label, mean in (
        ("layer 3, mean of the heads", weights[3].astype(float).mean(0)),
        ("mean of the layers, head 5", weights[:, 5].astype(float).mean(0)),
        ("mean of the layers, mean of the heads", weights.astype(float).mean((0, 1))),
    ):
        root.locator("select[aria-label=map]").select_option(label=label)
        root.locator(".rfnb-pane").focus()
        root.page.keyboard.press("Control+Home")
        for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
            root.page.keyboard.press(key)
        assert value(root) == pytest.approx(mean[2, 1], rel=1e-6), label


def test_the_card_has_the_numbers_of_numpy(page):
    weights = heads()
    root = page(attention(weights, dims=["layer", "head", "target", "source"]))
    root.locator("select[aria-label=map]").select_option(label="layer 2, head 3")
    root.locator(".rfnb-pane").focus()
    root.page.keyboard.press("Home")
    for _ in range(7):
        root.page.keyboard.press("ArrowDown")
    row = weights[2, 3, 7].astype(float)
    order = np.argsort(-row)
    tokens = root.locator(".rfnb-card-top .rfnb-card-token").all_inner_texts()
    assert [int(token) for token in tokens] == order[:8].tolist()
    facts = dict(zip(root.locator(".rfnb-card dt").all_inner_texts(), root.locator(".rfnb-card dd").all_inner_texts()))
    assert float(facts["the other 16"]) == pytest.approx(row[order[8:]].sum(), abs=6e-3)
    entropy = -(row * np.log(row)).sum()
    assert float(facts["entropy"].split()[0]) == pytest.approx(entropy, rel=6e-3)
    assert float(facts["as if at"].split()[0]) == pytest.approx(np.exp(entropy), rel=6e-3)
    others = root.locator(".rfnb-card-heads button").all_inner_texts()
    assert len(others) == HEADS
    for head, text in enumerate(others):
        assert text.split() == ["head", str(head), str(looking_at(2, head)), f"{weights[2, head, 7].max():.2f}"]


def test_what_a_mask_hides_has_no_colour_of_the_scale(page):
    weights = causal(1, 1, SIZE, SIZE)
    root = page(attention(weights, tokens=[f"t{index}" for index in range(SIZE)]))
    canvas, cell = root.locator(".rfnb-pane canvas"), float(root.get_attribute("data-cell"))
    box = root.locator(".rfnb-pane").bounding_box()
    root.page.keyboard.press("Escape")
    left, top = box["width"] - cell * SIZE, box["height"] - cell * SIZE  # about: labels are at the left and above
    colors = {tuple(canvas.evaluate(COLOR, [left + cell * 20.5 + dx, top + cell * 3.5])) for dx in range(14)}
    assert (255, 255, 255) in colors and len(colors) > 1, "paper and hatching"
    assert all(max(color) - min(color) < 16 for color in colors), "no blue of the scale"
    seen = canvas.evaluate(COLOR, [left + cell * 3.5, top + cell * 20.5])
    assert max(seen) - min(seen) > 4
    expect(root.locator(".rfnb-legend")).to_contain_text("causal mask")
    expect(root.locator(".rfnb-legend")).to_contain_text("self-attention")
    expect(root.locator(".rfnb-notes")).to_contain_text("Nothing lies above the diagonal")


def test_a_scale_that_does_not_end_at_1_says_so(page):
    even = np.full((8, 16), 1 / 16, np.float32)
    expect(page(attention(even)).locator(".rfnb-legend")).to_contain_text("full colour is 0.0625, not 1")


def test_zoom_has_a_way_back(page):
    root = page(attention(heads()[0, 0]))
    before = root.get_attribute("data-cell")
    expect(root.locator("button[aria-label='zoom to fit']")).to_be_disabled()
    root.locator("button[aria-label='zoom in']").click()
    assert float(root.get_attribute("data-cell")) > float(before)
    root.locator("button[aria-label='zoom to fit']").click()
    assert root.get_attribute("data-cell") == before


def test_text_is_shaded_by_the_row_under_the_pointer(page):
    weights = heads()[0]
    root = page(attention(weights, source=[f"s{index}" for index in range(SIZE)]))
    root.locator("[data-do=text]").click()
    sides = root.locator(".rfnb-tokens")
    sides.nth(0).locator(".rfnb-token").nth(5).hover()
    assert root.get_attribute("data-row") == "5"
    numbers = (
        sides.nth(1).locator(".rfnb-token").evaluate_all("all => all.map(one => Number(one.dataset.number ?? NaN))")
    )
    top = np.argsort(-weights[0, 5])[:5]
    assert {index for index, number in enumerate(numbers) if number == number} == set(top.tolist())
    assert numbers[looking_at(0, 0)] == pytest.approx(weights[0, 5].max(), abs=6e-3)
    backgrounds = sides.nth(1).locator(".rfnb-token").evaluate_all("all => all.map(one => one.style.background)")
    strongest = backgrounds[looking_at(0, 0)]
    assert strongest and backgrounds.count(strongest) == 1


def test_text_of_1000_tokens_from_right_to_left_wraps_within_the_page(page):
    words = ["שלום", "עולם", "טוב", "בוקר"]
    weights = np.random.default_rng(3).dirichlet(np.ones(1000), 1000).astype(np.float32)
    root = page(attention(weights, tokens=[words[index % 4] for index in range(1000)]))
    root.locator("[data-do=text]").click()
    side = root.locator(".rfnb-tokens").nth(0)
    assert side.get_attribute("dir") == "rtl"
    first, second = (side.locator(".rfnb-token").nth(index).bounding_box() for index in (0, 1))
    assert first["x"] > second["x"]
    assert root.evaluate("root => root.scrollWidth <= root.clientWidth")
    side.focus()
    for key in ("Home", "ArrowLeft"):  # to the next token
        root.page.keyboard.press(key)
    assert root.get_attribute("data-row") == "1"


def test_arcs_are_the_most_of_each_row_and_never_too_many(page):
    root = page(attention(heads()[0, 0]))
    root.locator("[data-do=arcs]").click()
    assert root.locator(".rfnb-arcs").get_attribute("data-marks") == str(SIZE), "each row has most on one source"
    drawn(root.page)
    groups = np.eye(20, dtype=np.float32).repeat(15, 0).repeat(15, 1)  # each row looks at 15 sources above all
    many = page(attention(0.06 * groups + 0.1 / 285 * (1 - groups)))
    many.locator("[data-do=arcs]").click()
    assert many.locator(".rfnb-arcs").get_attribute("data-marks") == "2000"
    expect(many.locator(".rfnb-arcs")).to_contain_text("the 2000 strongest of 2700")
    assert drawn(many.page)["bezierCurveTo"] <= 2 * 2000
    even = page(attention(np.full((300, 300), 1 / 300, np.float32)))
    even.locator("[data-do=arcs]").click()
    assert even.locator(".rfnb-arcs").get_attribute("data-marks") == "0", "lines of these say nothing"
    expect(even.locator(".rfnb-arcs")).to_contain_text("none of the 300 that look about evenly")


def test_a_slider_shows_the_same_weights_in_each_epoch(page):
    epochs = {str(epoch): causal(epoch, 2, SIZE, SIZE) for epoch in (1, 2, 3)}
    root = page(attention(epochs, slider="epoch"))
    slider = root.locator("input[aria-label=epoch]")
    root.locator(".rfnb-pane").focus()
    for key in ("Home", "ArrowDown", "ArrowDown", "ArrowRight"):
        root.page.keyboard.press(key)
    for index, weights in enumerate(epochs.values()):
        slider.fill(str(index))
        assert slider.get_attribute("aria-valuetext") == f"epoch {index + 1}"
        assert value(root) == pytest.approx(weights[0, 2, 1], rel=1e-6)


def test_moving_the_pointer_reads_one_row_of_each_head_and_draws_little(page):
    root = page(attention(heads(), dims=["layer", "head", "target", "source"]))
    move(root, 300, 300)
    assert wait_until(lambda: not drawn(root.page)), "it draws in parts"
    move(root, 330, 330)
    counts = drawn(root.page)
    assert counts["putImageData"] <= HEADS, "the strips of the card"
    assert counts["drawImage"] <= 1 + (LAYERS + 1) * (HEADS + 1)


def test_moving_the_pointer_reads_no_styles(page):
    root = page(attention(heads(), dims=["layer", "head", "target", "source"]))
    move(root, 300, 300)
    drawn(root.page)
    before = root.page.evaluate("rfnbRead")
    for place in (330, 360, 390):
        move(root, place, place)
        drawn(root.page)
    assert root.page.evaluate("rfnbRead") == before


def test_of_many_linked_views_only_those_near_the_screen_follow_the_pointer(page):
    weights = heads()[0, 0]
    root = page(*[attention(weights) for _ in range(8)])
    views = root.page.locator(".rfnb-root[data-kind=attention]")
    expect(views).to_have_count(8)
    root.locator(".rfnb-pane").focus()
    for key in ("Home", "ArrowDown"):
        root.page.keyboard.press(key)
    last = views.last
    expect(last).to_have_attribute("data-linked", "1")
    expect(last.locator(".rfnb-card")).to_contain_text("Hover over a row")
    last.scroll_into_view_if_needed()
    expect(last.locator(".rfnb-card-title").first).to_contain_text("target 1 looks at")


def test_of_4000_tokens_only_those_in_sight_are_shaded(page):
    size = 4000
    weights = np.full((size, size), 1 / size, np.float32)
    weights[:, ::2] *= 0.1
    root = page(attention(weights))
    root.locator("[data-do=text]").click()
    sides = root.locator(".rfnb-tokens")
    tokens = sides.nth(1).locator(".rfnb-token")
    expect(tokens).to_have_count(size)
    root.evaluate("""root => {
        window.changed = new Set();
        new MutationObserver(all => all.forEach(({target}) => changed.add(target)))
            .observe(root, {subtree: true, attributeFilter: ["style"]});
    }""")
    sides.nth(0).locator(".rfnb-token").nth(3).hover()
    assert 0 < root.page.evaluate("changed.size") < 1000
    shaded = "token => token.style.background !== ''"
    assert tokens.nth(1).evaluate(shaded) and not tokens.nth(size - 1).evaluate(shaded)
    sides.nth(1).evaluate("side => { side.scrollTop = side.scrollHeight; }")
    root.page.wait_for_function(shaded, arg=tokens.nth(size - 1).element_handle())


def test_the_row_card_hugs_the_map_however_wide_the_page_is(page):
    """A map of few columns keeps its size in a wide page, and grows again with a narrow one."""
    root = page(attention(np.eye(9), source=list("parachute"), target=list("parachute")))
    for width in (1600, 900, 1280, 1600):
        root.page.set_viewport_size({"width": width, "height": 800})
        root.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        cell = float(root.get_attribute("data-cell"))
        map, card = (root.locator(name).first.bounding_box() for name in (".rfnb-attention-main", ".rfnb-card"))
        assert cell == 38 and card["x"] - (map["x"] + 9 * cell) < 140, width
        assert root.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_an_alignment_has_no_arcs_text_or_card_of_weights(page):
    texts = rf.ctc_output(np.log(np.full((1, 12, 3), 1 / 3, np.float32)), vocab=["_", "a", "b"], blank="_").align(
        ["ab"]
    )
    root = page(view_of(texts))
    assert root.locator("[aria-label='shown as'] button:visible").all_inner_texts() == ["Map", "Table"]
    assert root.locator(".rfnb-card:visible").count() == root.locator(".rfnb-heads:visible").count() == 0
