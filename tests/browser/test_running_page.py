"""A page that runs its model, from a file, without network: words are typed, changes are made by keys, and numbers are those of Python."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from html import escape

import numpy as np
import pytest
from playwright.sync_api import expect
from viz.runnable import program_in
from waiting import LONG

from rfnb.models import load_g2p, pronounce
from rfnb.models.g2p_search import search
from rfnb.viz.runnable.page import _IN_HTML, save_page
from rfnb.viz.spec import Spec, pack, unpack


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    model = load_g2p()
    return save_page(
        tmp_path_factory.mktemp("page") / "page.html",
        lambda word, beam_size: search(model, [word], beam_size=beam_size),
        ("word", "parachute"),
        {"beam_size": (5, (1, 12, 1))},
        {},
        title="<img src=x onerror=alert(1)>",
        card="<script>alert(1)</script>",
    )


@pytest.fixture
def opened(browser, path, tmp_path):
    """Opens the page as it is, or changed."""
    contexts = []

    def opened(change=lambda text: text, **options):
        made = tmp_path / "page.html"
        made.write_text(change(path.read_text()))
        contexts.append(browser.new_context(offline=True, **options))
        page = contexts[-1].new_page()
        page.on("dialog", lambda dialog: pytest.fail(f"the page has run what is data: {dialog.message}"))
        page.goto(made.as_uri())
        return page

    yield opened
    for context in contexts:
        context.close()


def shows(page, word):
    expect(page.locator("main")).to_have_attribute("data-shown", word, timeout=1000 * LONG)
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


def best(page):
    """The n-best list as the page shows it."""
    rows = page.locator('[data-kind="beams"] tr').all_inner_texts()
    return [row.replace("−", "-").split("\t") for row in rows if row[:1].isdigit()]


WITHOUT = {"all": [], "wasm": [" 'wasm-unsafe-eval'"], "wasm and worker": [" 'wasm-unsafe-eval'", " worker-src blob:;"]}


@pytest.mark.parametrize("without", WITHOUT)
def test_a_word_is_typed_and_the_numbers_are_those_of_python(opened, without):
    def change(text):
        for rule in WITHOUT[without]:
            assert rule in text
            text = text.replace(rule, "")
        return text

    page = opened(change, viewport={"width": 1000, "height": 900})
    shows(page, "parachute")
    field = page.locator("input[name=word]")
    field.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("onomatopoeia")
    shows(page, "onomatopoeia")
    wanted = [(f"{each.score:.3f}", str(each)) for each in pronounce(load_g2p(), "onomatopoeia", beam_size=5)]
    assert [(row[1].strip(), row[2].strip()) for row in best(page)] == wanted
    assert field.evaluate("(el) => el === document.activeElement")


def test_by_keys_alone_a_candidate_is_kept_as_a_branch_on_a_narrow_dark_page(opened):
    page = opened(viewport={"width": 400, "height": 800}, color_scheme="dark")
    shows(page, "parachute")
    tree, pane = page.locator('[data-kind="beams"]'), page.locator('[data-kind="beams"] .rfnb-pane').first
    pane.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    for _ in range(40):
        if tree.get_attribute("data-cursor") == "1,cut0":
            break
        page.keyboard.press("ArrowDown")
    expect(tree).to_contain_text("With AH at 1: P AH R AE CH UW T, −7.46, 5.69 nats worse.", timeout=1000 * LONG)
    page.keyboard.press("Enter")
    expect(page.locator(".rfnb-rail")).to_contain_text("AH at 1", timeout=1000 * LONG)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.screenshot(path="test-shots/running_page_narrow.png", full_page=True)


def test_by_a_finger_a_branch_is_made_of_an_answer_and_compared(opened):
    page = opened(viewport={"width": 400, "height": 800}, has_touch=True, is_mobile=True)
    shows(page, "parachute")
    field = page.get_by_label("what was expected")
    field.fill("P EY R AH SH UW T")
    page.get_by_role("button", name="Ask").tap()
    why = page.locator(".rfnb-why")
    expect(why).to_contain_text(
        "It was pruned at step 3 on rank 7, 0.14 nats behind the last hypothesis kept.", timeout=1000 * LONG
    )
    expect(why).to_contain_text("With one letter hidden at a time it is due to", timeout=1000 * LONG)
    why.get_by_role("button", name="EY at 1").tap()
    rail = page.locator(".rfnb-rail")
    expect(rail).to_contain_text("EY at 1", timeout=1000 * LONG)
    rail.locator('[data-run="2"]').get_by_text("A|B").tap()
    expect(page.locator('[data-kind="attention"]').first).to_contain_text("A − B", timeout=1000 * LONG)
    page.screenshot(path="test-shots/running_page_compared.png", full_page=True)
    rail.locator('[data-run="2"]').get_by_text("A|B").tap()  # and back
    expect(page.locator('[data-kind="attention"]').first).not_to_contain_text("A − B", timeout=1000 * LONG)
    tree = page.locator('[data-kind="beams"]')
    place = tree.evaluate("""(el) => {
        const pane = el.querySelector(".rfnb-pane"), box = pane.getBoundingClientRect();
        pane.scrollIntoView();
        return [box.width, box.height];
    }""")
    assert place[0] <= 400
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_what_cannot_be_read_is_a_sentence_and_the_rest_stays(opened):
    page = opened(viewport={"width": 1000, "height": 900})
    shows(page, "parachute")
    for text, words in (
        ("mü", "“ü” is not one of the letters"),
        ("", "Type at least one letter"),
        ("a" * 600, "600 letters"),
    ):
        page.locator("input[name=word]").fill(text)
        expect(page.locator(".rfnb-page-failed")).to_contain_text(words)
        assert len(best(page)) == 5
    for number in ("20", "2.5", ""):
        page.locator("input[name=beam_size]").fill(number)
        expect(page.locator(".rfnb-page-failed")).to_contain_text("beam_size is a whole number from 1 to 12.")
        assert len(best(page)) == 5
    page.locator("input[name=beam_size]").fill("5")
    page.locator("input[name=word]").fill("QUEUE")  # read as the command reads it
    shows(page, "QUEUE")
    assert best(page)[0][2].strip() == str(pronounce(load_g2p(), "QUEUE", beam_size=5)[0])
    expect(page.locator(".rfnb-page-failed")).to_be_hidden()


def test_a_link_opens_a_word_and_a_damaged_page_is_a_sentence(opened, path):
    page = opened()
    page.goto(page.url + "#word=queue&beam_size=1&step=1")
    page.reload()
    shows(page, "queue")
    expect(page.locator('[data-kind="beams"]')).to_have_attribute("data-cursor", "1,0")
    assert [row[2].strip() for row in best(page)] == [str(pronounce(load_g2p(), "queue", beam_size=1)[0])]
    page.evaluate("() => { location.hash = 'words=cat'; }")
    expect(page.locator(".rfnb-page-said")).to_contain_text(
        "The link gives words; the fields here are word, beam_size."
    )
    at = path.read_text().index('data-bytes="') + 200_000
    for change in (
        lambda text: text[:at] + ("0" if text[at] != "0" else "1") + text[at + 1 :],
        lambda text: text[:at] + text[at + 4000 :],
        lambda text: text.replace('data-bytes="', 'data-bytes="\\\\', 1),
        lambda text: text.replace("data-about=", "data-other=", 1),
    ):
        page = opened(change)
        expect(page.locator(".rfnb-page-failed")).not_to_be_empty(timeout=1000 * LONG)
        assert page.locator("h1").inner_text() == "<img src=x onerror=alert(1)>"
        assert page.locator(".rfnb-picture img").count() > 0  # the picture of before stays


# -- what a page may meet --------------------------------------------------------------------------------------------------


def with_script(text, change):
    """The page with another script, which it allows."""
    code = re.search(r"<script>(.*)</script>\n</body>", text, re.DOTALL)[1]
    own = change(code)
    assert own != code
    sums = [base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in (code, own)]
    assert sums[0] in text
    return text.replace(code, own).replace(*sums)


def without_simd(text):
    """An engine of a browser that does not know the instructions of the kernel."""
    return with_script(text, lambda code: re.sub(r"AGFzbQEAAAAB[\w+/=]+", "AGFzbQEAAAABAAAA", code))


def with_weights(text, change):
    """The page with other weights, whose sum is theirs."""
    spec = unpack(program_in(text))
    blocks = {name: change(block) if re.fullmatch(r"w\d+", name) else block for name, block in spec.blocks.items()}
    frame = pack(Spec(spec.kind, spec.head, blocks))
    digits = base64.b85encode(frame).decode().translate(_IN_HTML)
    text = re.sub(r'(class="rfnb-program"[^>]* data-bytes=")[^"]+', lambda found: found[1] + digits, text)
    sums = [escape(json.dumps({"sum": zlib.adler32(each)})[1:-1], quote=True) for each in (program_in(text), frame)]
    old = re.search(r"&quot;sum&quot;: \d+", text)[0]
    return text.replace(old, sums[1])


NEW = ("DecompressionStream", "CompressionStream", "Worker", "WebAssembly", "OffscreenCanvas")
WITHOUT_NAMES = f"for (const name of {list(NEW)}) delete window[name];"


@pytest.mark.parametrize("old", ["wasm without SIMD", "no wasm, no worker, no streams"])
def test_an_older_browser_computes_the_same(opened, old):
    names = old != "wasm without SIMD"
    change = (lambda text: with_script(text, lambda code: WITHOUT_NAMES + code)) if names else without_simd
    page = opened(change, viewport={"width": 1000, "height": 900})
    shows(page, "parachute")
    page.locator("input[name=word]").fill("queue")
    shows(page, "queue")
    wanted = [(f"{each.score:.3f}", str(each)) for each in pronounce(load_g2p(), "queue", beam_size=5)]
    assert [(row[1].strip(), row[2].strip()) for row in best(page)] == wanted


CUT = {
    "in the style sheet": "</p>\n<style>", "in the picture": "data:image", "in the program": 'class="rfnb-program"',
    "in the script": "<script>",
}  # fmt: skip


@pytest.mark.parametrize("where", CUT)
def test_a_page_that_is_cut_off_says_so(opened, where):
    def change(text):
        return text[: text.index(CUT[where]) + 3000]

    page = opened(change)
    said = page.locator(".rfnb-page-still, .rfnb-page-failed").first
    expect(said).to_be_visible(timeout=1000 * LONG)
    expect(said).to_contain_text("damaged")
    assert page.locator("h1").inner_text() == "<img src=x onerror=alert(1)>"


def test_a_page_whose_script_is_another_one_or_may_not_run_says_so(opened):
    page = opened(
        lambda text: text.replace("</script>\n</body>", " </script>\n</body>")
    )  # its sum is not the one that is allowed
    expect(page.locator(".rfnb-page-still")).to_be_visible(timeout=1000 * LONG)
    page = opened(java_script_enabled=False)
    expect(page.locator(".rfnb-page-still")).to_be_visible(timeout=1000 * LONG)
    page.screenshot(path="test-shots/running_page_still.png")
    page = opened()
    shows(page, "parachute")
    assert page.locator(".rfnb-page-still").count() == 0


def test_weights_that_are_no_numbers_and_a_long_word_are_said_or_run(opened):
    page = opened(lambda text: with_weights(text, lambda block: np.full_like(block, 0xFF)))
    expect(page.locator(".rfnb-page-failed")).to_contain_text("computes NaN", timeout=1000 * LONG)
    assert page.locator(".rfnb-picture img").count() > 0
    page = opened()
    shows(page, "parachute")
    page.locator("input[name=word]").fill("abcde" * 100)
    shows(page, "abcde" * 100)
    assert len(best(page)) == 5
