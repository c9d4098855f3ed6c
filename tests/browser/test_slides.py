"""Slides of a notebook, opened as a file without network: led by keys, with views alive, answers hidden, printed one a page."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from waiting import LONG

from rfnb.site.slides import slides

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
MIME = "application/vnd.rfnb.lesson+json"
VIEW = """import rfnb as rf
rf.viz.attention([[0.9, 0.1], [0.25, 0.75]], source=["a", "b"], target=["x", "y"]).show()"""
ANSWERS = f"""from IPython.display import display
for kind, words in (("check", "not yet right"), ("solution", "def the_solution"), ("reveal", "It is: B")):
    display({{"text/html": "<p>" + words + "</p>", "text/plain": words, "{MIME}": {{"kind": kind}}}}, raw=True)"""


def notebook(folder: Path) -> Path:
    new = nbformat.v4
    cells = [
        new.new_markdown_cell("# A lesson\n\nWith $h_t$ and\n\n$$a = \\frac{1}{2}$$"),
        new.new_code_cell(VIEW),
        new.new_markdown_cell("## Answers\n\n[away](../docs/x.md)"),
        new.new_code_cell(ANSWERS),
        new.new_code_cell('lesson = None\nlesson and lesson.solution("x")'),
        new.new_markdown_cell("## The end"),
    ]
    nbformat.write(new.new_notebook(cells=cells), folder / "01_lesson.ipynb")
    return folder / "01_lesson.ipynb"


@pytest.fixture(scope="module")
def deck(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slides")
    return slides(notebook(folder), folder / "slides.html", cache=folder / "cache")


@pytest.fixture
def opened(browser, deck):
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page, errors = context.new_page(), []
    page.set_default_timeout(1000 * LONG)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on(
        "request", lambda request: request.url.startswith(("file:", "data:", "blob:")) or errors.append(request.url)
    )
    page.goto(deck.as_uri(), wait_until="load")
    yield page
    assert errors == []
    context.close()


def on(page) -> str:
    return page.locator(".bar output").inner_text()


def test_keys_and_buttons_lead_through_the_slides(opened):
    assert on(opened) == "1 of 3" and opened.locator("h1").is_visible() and not opened.locator("h2").first.is_visible()
    for key, expected in (("ArrowRight", 2), (" ", 3), ("ArrowRight", 3), ("PageUp", 2), ("Home", 1), ("End", 3)):
        opened.keyboard.press(key)
        assert on(opened) == f"{expected} of 3" and opened.url.endswith(f"#{expected}")
    opened.get_by_label("Previous slide").click()
    assert on(opened) == "2 of 3"
    opened.reload()
    assert on(opened) == "2 of 3", "the address says which"


def test_a_view_on_a_slide_is_alive_and_keeps_its_arrows(opened):
    view = opened.locator('[data-kind="attention"]')
    view.get_by_role("grid").first.focus()
    for key in ("Home", "ArrowDown", "ArrowRight"):
        opened.keyboard.press(key)
    assert view.locator(".rfnb-readout .rfnb-value").inner_text() == "0.75"
    assert on(opened) == "1 of 3"
    opened.keyboard.press("Escape")
    opened.keyboard.press("ArrowRight")
    assert on(opened) == "2 of 3"


def test_the_letters_of_a_view_are_large_and_the_pointer_reads_the_cell_under_it(opened):
    view = opened.locator('[data-kind="attention"]')
    least = view.evaluate("""view => Math.min(...[...view.querySelectorAll("*")].filter(e => e.offsetWidth && e.textContent.trim())
        .map(e => parseFloat(getComputedStyle(e).fontSize) * e.currentCSSZoom))""")
    assert least >= 13
    box, cell = view.locator(".rfnb-pane canvas").first.bounding_box(), 1.25 * float(view.get_attribute("data-cell"))
    right, bottom = box["x"] + box["width"] - cell / 2, box["y"] + box["height"] - cell / 2
    for at, value in (((right, bottom), "0.75"), ((right - cell, bottom), "0.25"), ((right, bottom - cell), "0.1")):
        opened.mouse.move(*at)
        assert view.locator(".rfnb-readout .rfnb-value").inner_text() == value


def test_code_of_a_picture_is_folded_and_formulas_are_drawn(opened):
    code = opened.locator("details.code pre").first
    assert not code.is_visible()
    opened.keyboard.press("c")
    assert code.is_visible() and "rf.viz.attention" in code.inner_text()
    assert opened.locator("math").count() == 2 and opened.locator("mfrac").bounding_box()["height"] > 10


def test_answers_are_not_on_the_slides_until_they_are_asked_for(opened):
    opened.keyboard.press("ArrowRight")
    text = opened.content()
    assert (
        "not yet right" not in text.split("<pre")[0] and opened.locator("p", has_text="def the_solution").count() == 0
    )
    answer = opened.locator("p", has_text="It is: B")
    assert not answer.is_visible()
    opened.locator("details.answer summary").click()
    assert answer.is_visible()
    assert opened.locator("section a").count() == 0 and opened.locator("p", has_text="away").count() == 1


def test_dark_and_light_by_a_key(opened):
    paper = "() => [document.body, document.querySelector('.rfnb-root')].map(e => getComputedStyle(e).backgroundColor)"
    light = opened.evaluate(paper)
    opened.keyboard.press("d")
    dark = opened.evaluate(paper)
    assert light == ["rgb(255, 255, 255)"] * 2 and dark == ["rgb(13, 17, 23)"] * 2


def test_on_paper_each_slide_is_a_page(opened):
    pdf = opened.pdf(print_background=True, width="1280px", height="900px")
    assert pdf.count(b"/Type /Page\n") == 3


def without_a_run(lesson: Path, **options):
    """A notebook whose cells have all made a picture."""
    made = nbformat.read(lesson, as_version=4)
    for cell in made.cells:
        if cell.cell_type == "code":
            cell.outputs = [nbformat.v4.new_output("display_data", data={"image/png": PIXEL})]
    return made


def test_no_formula_of_a_page_of_theory_is_wider_than_its_slide(browser, tmp_path):
    context = browser.new_context(viewport={"width": 900, "height": 560})
    page, formulas = context.new_page(), 0
    for name in ("07_search", "15_pretraining"):
        page_of = Path(__file__).parents[2] / f"docs/theory/{name}.md"
        path = slides(page_of, tmp_path / f"{name}.html", run=without_a_run)
        page.goto(path.as_uri(), wait_until="load")
        for number in range(1, page.locator(".slide").count() + 1):
            page.evaluate(f"location.hash = '#{number}'")
            page.wait_for_function(f"document.querySelector('.bar output').innerText.startsWith('{number} of')")
            found = page.eval_on_selector_all(
                ".slide.on .formula", "all => all.map(each => each.scrollWidth - each.clientWidth)"
            )
            assert max([0, *found]) <= 0, (name, number)
            formulas += len(found)
    assert formulas > 12
    context.close()
