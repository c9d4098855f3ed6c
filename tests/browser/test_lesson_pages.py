"""The pages of lessons in which a model runs: the runtime and each model are shared, opened from disk without network."""

from __future__ import annotations

import pytest
from browser.test_running_page import best, shows
from playwright.sync_api import expect
from waiting import LONG

from rfnb.models import load_g2p, pronounce
from rfnb.models.lessons import LETTERS, write_backwards
from rfnb.site.lesson_pages import PAGES, told_of, write_pages

# By kind of view what a click on these buttons leads to. A function without labels has the same values, or others.
KEPT = {"beams": [("Ban", "no ")], "states": [("Set", "values change by up to"), ("Scale", "the same")]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("site") / "running"
    write_pages(made)
    return made


def test_the_runtime_and_each_model_are_there_once(folder):
    models = {f"{page.model}.js" for page in PAGES.values()}
    assert {path.name for path in folder.iterdir()} == {"rfnb-page.js", *models, *(f"{name}.html" for name in PAGES)}
    assert all((folder / f"{name}.html").stat().st_size < 150_000 for name in PAGES)


def test_a_lesson_says_where_its_model_runs():
    assert all(f"{name}.html" in told_of(name) for name in PAGES)
    assert told_of("01_dims") == ""


@pytest.mark.parametrize("name", [name for name in PAGES if PAGES[name].model == "g2p"])
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (400, "dark")])
def test_a_page_of_a_lesson_begins_with_its_view_and_follows_what_is_typed(browser, folder, name, width, scheme):
    page_of_lesson = PAGES[name]
    context = browser.new_context(offline=True, viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto((folder / f"{name}.html").as_uri())
    shows(page, page_of_lesson.word)
    parts = page.locator(".rfnb-group > *")
    kinds = parts.evaluate_all("(all) => all.map((el) => el.matches('details') ? 'folded' : el.dataset.kind)")
    shown = [kind for kind in kinds if kind != "folded"]
    assert shown and set(shown) == set(page_of_lesson.first) and shown[0] == page_of_lesson.first[0]
    assert kinds.index("folded") == len(shown) if "folded" in kinds else True
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "word":
            break
    page.keyboard.press("Control+a")
    page.keyboard.type("queue")
    shows(page, "queue")
    page.locator("details.rfnb-fold summary").evaluate_all("(all) => all.forEach((el) => el.parentElement.open = true)")
    expect(page.locator('[data-kind="beams"]')).to_be_visible()
    wanted = pronounce(load_g2p(), "queue", **page_of_lesson.numbers)
    assert [(row[1].strip(), row[2].strip()) for row in best(page)] == [
        (f"{one.score:.3f}", str(one)) for one in wanted
    ]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.screenshot(path=f"test-shots/lesson_{name}_{width}.png")
    assert wrong == []
    context.close()


@pytest.mark.parametrize(
    ("name", "typed", "steps"),
    [
        ("09_ctc", "5508", 52),
        ("10_transducers", "GCCB", 10),
        ("11_transformer", "badge", 6),
        ("14_linear_attention", "abba", 4),
    ],
)
def test_a_page_with_a_model_of_a_lesson_follows_what_is_typed_and_held(browser, folder, name, typed, steps):
    """Its numbers are compared in tests/viz/test_runnable_models.py; here it is opened, typed in and changed."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.goto((folder / f"{name}.html").as_uri())
    shows(page, PAGES[name].word)
    kinds = page.locator(".rfnb-group > [data-kind]").evaluate_all("(all) => all.map((el) => el.dataset.kind)")
    assert kinds and set(kinds) == set(PAGES[name].first) and kinds[0] == PAGES[name].first[0]
    page.locator(".rfnb-page-fields input").first.fill(typed)
    shows(page, typed)
    expect(page.locator(".rfnb-run-words").first).to_have_text(f"Done after {steps} steps.")  # of the loop on view
    if name == "11_transformer":
        labels = write_backwards(typed).numpy().ravel()
        assert [row[2].replace(" ", "").strip() for row in best(page)] == ["".join(LETTERS[label] for label in labels)]
    rail = page.locator(".rfnb-rail [data-run]")
    view = page.locator(f'[data-kind="{"beams" if name == "11_transformer" else "states"}"]').first
    for what, told in KEPT[view.get_attribute("data-kind")]:
        view.locator(".rfnb-pane").first.focus()
        page.keyboard.press("Control+Home")
        page.keyboard.press("Enter")
        view.locator(".rfnb-edits").get_by_role("button", name=what).first.click()
        expect(rail.last).to_contain_text(told, timeout=1000 * LONG)
    expect(rail).to_have_count(1 + len(KEPT[view.get_attribute("data-kind")]))
    page.screenshot(path=f"test-shots/lesson_{name}.png", full_page=True)
    page.set_viewport_size({"width": 400, "height": 900})
    page.screenshot(path=f"test-shots/lesson_{name}_400.png", full_page=True)
    inside = "(el) => [el.getBoundingClientRect().right, el.closest('.rfnb-rail').getBoundingClientRect().right]"
    for number in page.locator(".rfnb-rail-far span:last-child").all():  # by how much values change is never cut
        right, most = number.evaluate(inside)
        assert 0 < right <= most and number.evaluate("(el) => el.scrollWidth <= el.clientWidth")
    assert wrong == []
    context.close()
