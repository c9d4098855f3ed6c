"""The site, opened from its files as a reader without network does: every page, every link, the views, the search.

The site is built by the command with the notebooks that have run already (those of `make test-notebooks` are kept) and one more.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urldefrag, urljoin, urlparse

import pytest
from waiting import LONG, ms
from warm import warm

from rfnb.site.notebook_runs import executed

ROOT = Path(__file__).parents[2]
ALWAYS = ROOT / "notebooks/your_model.ipynb"
_SEEN = """() => ({
    width: document.documentElement.scrollWidth,
    links: [...document.querySelectorAll('[href], [src]')].map(e => e.getAttribute('href') ?? e.getAttribute('src')),
    ids: [...document.querySelectorAll('[id], a[name]')].map(e => e.id || e.name),
    outputs: document.querySelectorAll('.rfnb-output').length,
    alerts: [...document.querySelectorAll('.rfnb-root [role=alert]')].filter(e => e.offsetParent).map(e => e.innerText),
})"""
_ALIVE = "() => [...document.querySelectorAll('.rfnb-output')].every(output => output.querySelector(':scope > div > .rfnb-root'))"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    executed(ALWAYS)
    folder = tmp_path_factory.mktemp("built") / "site"
    command = [*warm(), "-m", "rfnb.site", "--quick", "-o", str(folder)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    run = subprocess.run(command, capture_output=True, text=True, timeout=10 * LONG, env=env)
    assert run.returncode == 0, run.stderr[-3000:]
    assert run.stdout.splitlines()[-1] == str(folder / "index.html")
    return folder


class Reader:
    """A page without network; `errors` has what went wrong, and each request that is not for a file."""

    def __init__(self, browser, **options):
        self.context = browser.new_context(**{"viewport": {"width": 800, "height": 700}, **options})
        self.page, self.errors = self.context.new_page(), []
        self.page.set_default_timeout(1000 * LONG)
        self.page.on("pageerror", lambda error: self.errors.append(f"{self.page.url}: {error}"))
        self.page.on("console", self._on_console)
        self.page.route(re.compile(r"^(?!file:|data:|blob:)"), self._on_outside)

    def _on_console(self, message) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(f"{self.page.url}: {message.text}")

    def _on_outside(self, route) -> None:
        self.errors.append(f"{self.page.url}: asks for {route.request.url}")
        route.abort()

    def open(self, path: Path, query: str = "") -> None:
        self.page.goto(path.as_uri() + query, wait_until="load")


@pytest.fixture(scope="module")
def pages(browser, site):
    """The content of each page by its path, and all problems."""
    reader, found = Reader(browser), {}
    for path in sorted(site.rglob("*.html")):
        reader.open(path)
        reader.page.wait_for_function(_ALIVE)
        found[path] = SimpleNamespace(**reader.page.evaluate(_SEEN))
    reader.context.close()
    return SimpleNamespace(by_path=found, errors=reader.errors)


@pytest.fixture
def reader(browser):
    opened = Reader(browser, viewport={"width": 1280, "height": 900})
    yield opened
    opened.context.close()


def test_every_page_opens_without_error_and_without_network(pages):
    assert len(pages.by_path) > 50
    assert pages.errors == []


def test_all_views_of_all_pages_are_alive(pages):
    alive = {path.stem: seen.outputs for path, seen in pages.by_path.items() if seen.outputs}
    assert alive["your_model"] >= 5
    assert [alert for seen in pages.by_path.values() for alert in seen.alerts] == []


def test_every_link_leads_to_a_file_of_the_site_and_to_a_place_in_it(pages, site):
    wrong, count = [], 0
    for path, seen in pages.by_path.items():
        for link in dict.fromkeys(seen.links):
            address, anchor = urldefrag(urljoin(path.as_uri(), link))
            if urlparse(address).scheme != "file":
                continue
            count += 1
            target = Path(unquote(urlparse(address).path))
            there = target.is_file() and target.is_relative_to(site)
            if not there or (target.suffix == ".html" and anchor and unquote(anchor) not in pages.by_path[target].ids):
                wrong.append(f"{path.relative_to(site)}: {link}")
    assert count > 5000 and wrong == []


def test_no_page_scrolls_sideways_on_a_small_screen(pages, site):
    assert {str(path.relative_to(site)): seen.width for path, seen in pages.by_path.items() if seen.width > 800} == {}


def test_a_view_of_a_page_answers_to_keys_and_a_notebook_can_be_taken_along(reader, site):
    from playwright.sync_api import expect

    reader.open(site / "notebooks/your_model.html")
    view = reader.page.locator("[data-kind=attention]", has_text="Written (rows)")
    readout = view.locator(".rfnb-readout").first
    before = readout.inner_text()
    view.get_by_role("grid").first.focus()
    for key in ("Home", "ArrowDown"):
        reader.page.keyboard.press(key)
    expect(readout).not_to_have_text(before)
    taken = site / "notebooks" / reader.page.locator(".rfnb-about a").get_attribute("href")
    assert taken.read_bytes() == ALWAYS.read_bytes(), "without outputs, as it is in the course"
    assert reader.errors == []


def test_views_follow_the_theme_that_the_reader_chooses(reader, site):
    reader.open(site / "notebooks/your_model.html")
    reader.page.wait_for_function(_ALIVE)
    paper = "() => getComputedStyle(document.querySelector('.rfnb-root')).backgroundColor"
    seen = set()
    for _ in range(3):  # auto, light, dark
        reader.page.locator("button.theme-toggle:visible").first.click()
        dark = reader.page.evaluate("document.body.dataset.theme") == "dark"
        assert (reader.page.evaluate(paper) != "rgb(255, 255, 255)") == dark
        seen.add(dark)
    assert seen == {True, False}


def test_search_finds_names_and_words_without_a_server(reader, site):
    reader.open(site / "search.html", "?q=reduce_logmeanexp")
    found = reader.page.locator("#search-results ul.search a").first
    found.wait_for(timeout=ms(60))
    found.click()
    reader.page.wait_for_url("**/reference/over-dims-reductions-products-orders.html*#rf.reduce_logmeanexp")
    assert "real frames" in reader.page.locator("[id='rf.reduce_logmeanexp'] + dd").inner_text()
    reader.open(site / "search.html", "?q=draobyek")  # is only in what a cell has printed
    reader.page.locator("#search-results ul.search a", has_text="Your model").first.wait_for(timeout=ms(60))
    assert reader.errors == []


def test_search_ranks_the_lesson_first_and_shows_where_the_words_stand(reader, site):
    for query, title in (
        ("beam search", "7 · "),
        ("padding", "2 · "),
        ("perplexity", "13 · "),
        ("transducer", "10 · "),
    ):
        reader.open(site / "search.html", f"?q={query}")
        first = reader.page.locator("#search-results ul.search > li").first
        first.locator(".context mark").first.wait_for(timeout=ms(60))
        assert first.locator("a").inner_text().startswith(title), query
        assert first.locator(".rfnb-kind").inner_text() == "lesson"
        assert {word.lower() for word in first.locator("mark").all_inner_texts()} == set(query.split())
    reader.open(site / "search.html", "?q=reduce_logmeanexp")
    assert reader.page.locator("#search-results ul.search > li a").first.inner_text() == "rf.reduce_logmeanexp"
    for_teachers = """() => Scorer.score(['docs/teaching/07_search', '', '', null, 5, '', 'text'])
        < Scorer.score(['notebooks/07_search', '', '', null, 5, '', 'text'])"""
    assert reader.page.evaluate(for_teachers)
    assert reader.errors == []


def test_the_site_opens_on_the_course(reader, site):
    reader.open(site / "index.html")
    assert reader.page.locator("h1").inner_text().startswith("The course")
    reader.page.locator("article a", has_text="7 · Searching").first.click()
    reader.page.wait_for_url("**/notebooks/07_search.html")
    assert reader.page.locator(".rfnb-about a").first.inner_text() == "download this lesson"
    assert reader.errors == []


def test_a_page_on_paper_has_no_sidebar_and_its_whole_width(reader, site):
    reader.open(site / "notebooks/your_model.html")
    reader.page.emulate_media(media="print")
    assert not reader.page.locator(".sidebar-drawer").is_visible()
    assert reader.page.locator("article").bounding_box()["x"] < 40


def test_code_in_a_sentence_leads_to_the_reference(reader, site):
    reader.open(site / "notebooks/your_model.html")
    reader.page.locator("p a", has_text="rf.watch").first.click()
    reader.page.wait_for_url("**/reference/*.html#rf.watch")
    assert reader.page.locator("[id='rf.watch']").is_visible()
