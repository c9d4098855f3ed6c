"""No kind of view, narrow or wide, light or dark, has text that is cut off, covered or pale, or a page that is too wide."""

from __future__ import annotations

from pathlib import Path

import pytest
from seed import part_of
from viz.gallery import rail, specs

import rfnb as rf
from rfnb.models import load_g2p, pronounce
from rfnb.models.g2p_search import search
from rfnb.viz.kinds import KINDS
from rfnb.viz.view import View

HERE = Path(__file__).parent
RECORD, FAULTS = ((HERE / f"looks_{name}.js").read_text(encoding="utf-8") for name in ("record", "faults"))
# After three frames, and once the small maps, of which a frame draws only some, are all there.
SETTLED = """async () => {
    const unfinished = () => [...document.querySelectorAll("[data-drawn=false]")].some((part) => part.checkVisibility());
    for (let frame = 0; frame < 3 || unfinished(); frame++) await new Promise(requestAnimationFrame);
}"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A page of each picture of the gallery, of a word that is looked into, and of two of its runs beside each other."""
    folder, model = tmp_path_factory.mktemp("looks"), load_g2p()
    with rf.record(model=model) as trace, rf.stop_gradient_scope():
        search(model, ["parachute", "ox"], beam_size=4)
    views = {name: View(spec) for name, spec in specs().items()} | {"rail": View(rail()), "words": rf.show(trace)}
    assert {view.spec.kind for view in views.values()} == set(KINDS)
    return {name: rf.save_html(folder / f"{name}.html", view).as_uri() for name, view in views.items()}


SCHEMES = ("light", "dark")


@pytest.fixture
def page(browser):
    context = browser.new_context()
    made = context.new_page()
    made.add_init_script(RECORD)
    yield made
    context.close()


def faults(page, schemes=SCHEMES) -> list[str]:
    """The faults in each colour scheme, one after the other: a page that changes to it is as one that is opened in it."""
    found = []
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        page.evaluate(SETTLED)
        found += [f"{scheme}: {fault}" for fault in page.evaluate(FAULTS)]
    return found


SIZES = [(900, SCHEMES), (1280, SCHEMES[::-1])]


def test_nothing_is_cut_covered_pale_or_too_wide(page, saved):
    """A page is opened narrow or wide, by turns; a page that changes its size is as one that is opened in it."""
    found = []
    for turn, (name, address) in enumerate(saved.items()):
        sizes = part_of(SIZES, 2, turn)[:1] + part_of(SIZES[::-1], 2, turn)[:1]
        page.set_viewport_size({"width": sizes[0][0], "height": 900})
        page.emulate_media(color_scheme=sizes[0][1][0])
        page.goto(address)
        for mode in ("", "text", "arcs") if name.startswith("attention") else ("",):
            button = page.locator(f"[data-do={mode or None}]").first
            if mode and not button.is_visible():
                continue
            if mode:
                button.click()
            for width, schemes in sizes:
                page.set_viewport_size({"width": width, "height": 900})
                found += [f"{name}, {mode}, {width}, {fault}" for fault in faults(page, schemes)]
    assert found == []


def test_the_comparison_of_two_runs_fits_on_a_screen(page, tmp_path):
    model = load_g2p()
    run = rf.run(pronounce, model, "parachute", beam_size=4, record={"model": model}, name="parachute")
    run.wait()
    branch = run.from_step(1, lambda at: at.force("EY", only=True), name="EY at 1")
    branch.wait()
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(rf.save_html(tmp_path / "page.html", rf.show(rf.compare_runs(run, branch))).as_uri())
    assert faults(page) == []
    boxes = [
        page.locator(css).first.bounding_box()
        for css in (".rfnb-root", ".rfnb-branches-beams", ".rfnb-branches-attention")
    ]
    assert boxes[0]["height"] <= 900 and boxes[1]["y"] == boxes[2]["y"]  # the search beside what it looked at
    assert page.locator("details[open]").count() == 0


def test_each_fault_is_found(page, tmp_path):
    """The measure itself, on a page that has them all."""
    (tmp_path / "page.html").write_text(
        """<!doctype html><body><div class="rfnb-root" data-kind="x" style="--rfnb-paper: white; background: white">
        <p style="width: 40px; overflow: hidden; white-space: nowrap">a text that is cut</p>
        <p style="position: absolute; top: 200px; left: 9px">below</p><p style="position: absolute; top: 203px; left: 12px">above</p>
        <svg width="99" height="30"><text y="20" fill="#ddd">pale</text></svg><canvas width="60" height="40"></canvas>
        <p style="width: 3000px">wide</p></div><script>
        const g = document.querySelector("canvas").getContext("2d");
        g.clearRect(0, 0, 60, 40), g.fillText("a label that is cut", 5, 12), (g.fillStyle = "#ddd"), g.fillText("faint", 5, 35);
        </script>""",
        encoding="utf-8",
    )
    page.set_viewport_size({"width": 900, "height": 900})
    page.goto((tmp_path / "page.html").as_uri())
    for scheme in SCHEMES:
        text = "\n".join(faults(page, [scheme]))
        for words in (
            "px too wide", '"a text that is cut" is cut', 'lies upon x: "above"', '"pale" has too little contrast',
            'canvas "a label that is cut" is cut by', 'canvas "faint" has contrast 1.',
        ):  # fmt: skip
            assert words in text, text
        assert ('canvas "faint" is of the other scheme' in text) == (scheme == "dark"), text
