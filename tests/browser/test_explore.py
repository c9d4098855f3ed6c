"""`rf.explore` in a real JupyterLab: real keys in its field, a real slider; what is shown is what a direct call gives."""

from __future__ import annotations

import json
import re

import pytest
from browser.conftest import SHOTS
from browser.tour import hovered, number
from plain_g2p import PlainG2P
from playwright.sync_api import expect
from waiting import ms

from rfnb.models.g2p_checkpoint import SHIPPED

CELLS = [
    "import json, rfnb as rf\nfrom rfnb.models import load_g2p, pronounce\nmodel = load_g2p()\nasked = []",
    """def say(word, beam_size=3, slowly=False):
    asked.append(word)
    return [f"{found.score:.4f} {found}" for found in pronounce(model, word, beam_size=beam_size)]
explorer = rf.explore(
    say, word="cat", beam_size=(1, 12), slowly=False,
    record={"model": model}, view={"kinds": ["attention", "beams"], "path": ["decoder.att", "search"]},
)""",
]
SEEN = """() => { const root = document.querySelector('.rfnb-explore'); window.rfnbSeen = [];
    new MutationObserver(() => { const n = root.querySelectorAll('.rfnb-root:not(.rfnb-part)').length;
        if (n !== window.rfnbSeen.at(-1)) window.rfnbSeen.push(n); }).observe(root, { childList: true, subtree: true }); }"""


@pytest.fixture(scope="module")
def page(lab_of_file):
    lab = lab_of_file
    lab.page.set_viewport_size({"width": 1280, "height": 1200})
    lab.open(lab.write("explore.ipynb", *CELLS, *["print(0)"] * 3))
    lab.run_all()
    lab.wait_cells()
    yield lab
    lab.screenshot(SHOTS / "explore.png")


@pytest.fixture(scope="module")
def plain():
    return PlainG2P.load(SHIPPED)


def box(lab):
    return lab.page.locator(".rfnb-explore").first


def word(lab):
    return box(lab).get_by_label("word")


def asked(lab, code):
    """The output of code in a new last cell."""
    lab.page.evaluate(
        """code => { const notebook = window.jupyterapp.shell.currentWidget.content;
        notebook.activeCellIndex = notebook.widgets.length - 1; notebook.activeCell.model.sharedModel.setSource(code);
        window.jupyterapp.commands.execute('notebook:run-cell'); }""",
        f"print(json.dumps({code}))",
    )
    lab.page.wait_for_function(
        "code => { const cell = [...window.jupyterapp.shell.currentWidget.content.model.cells].at(-1);"
        "return cell.sharedModel.getSource().includes(code) && cell.executionState === 'idle' && cell.outputs.length; }",
        arg=code,
    )
    return json.loads(lab.cells()[-1]["outputs"][0]["text"])


def shows(lab, plain, spelled, beam):
    """The page shows what a plain search gives for a word."""
    found = plain.beam_search(spelled, beam)
    lines = [f"{score:.4f} {' '.join(phonemes)}" for score, phonemes in found]
    expect(box(lab).locator(".rfnb-explore-said")).to_contain_text(f'word = "{spelled}", beam_size = {beam},')
    # The page brings the text up to date before that line, or after it.
    text = box(lab).locator("pre").filter(visible=True).first
    phonemes = [re.escape(line.split(" ", 1)[1]) for line in lines]
    expect(text).to_have_text(re.compile(r"^\s*" + r"\s+".join(rf"\S+ {line}" for line in phonemes) + r"\s*$"))


def test_thirty_quick_keys_give_one_final_state_that_is_that_of_a_direct_call(page, plain):
    page.page.evaluate(SEEN)
    before = len(asked(page, "asked"))
    field = word(page)
    field.click()
    page.page.keyboard.press("End")
    page.page.keyboard.type("alogueofmountains", delay=5)
    for _ in range(13):
        page.page.keyboard.press("Backspace")
    expect(field).to_have_value("catalog")
    shows(page, plain, "catalog", 3)
    assert asked(page, "[explorer.values['word'], explorer.result == say('catalog', 3), explorer._worker is None]") == [
        "catalog", True, True,
    ]  # fmt: skip
    runs = len(asked(page, "asked")) - before
    assert 1 < runs <= 31  # of 30 changes, and the direct call; most were taken together
    phonemes = plain.beam_search("catalog", 3)[0][1]
    weights = plain.saying("catalog", phonemes).weights
    attention = box(page).locator("[data-kind=attention]")
    attention.scroll_into_view_if_needed()
    for (row, col), words in hovered(attention).items():
        assert number(words[-1]) == pytest.approx(float(weights[row, col]), abs=2e-5), (row, col)
    assert page.page.evaluate("window.rfnbSeen") in ([], [1])  # the views stay, they are brought up to date
    assert page.errors == []


def test_a_slider_searches_anew(page, plain):
    handle = box(page).locator(".noUi-handle")
    handle.focus()
    for _ in range(9):
        page.page.keyboard.press("ArrowRight")
    shows(page, plain, "catalog", 12)
    page.page.keyboard.press("Home")
    shows(page, plain, "catalog", 1)
    assert page.errors == []


def test_an_error_is_a_sentence_and_the_last_views_stay_dimmed_and_marked(page, plain):
    field = word(page)
    field.fill("")
    alert = box(page).locator(".rfnb-explore-failed")
    expect(alert).to_contain_text('word = "", beam_size = 1')
    expect(alert).to_contain_text('WordError: The word is empty. Give at least one letter, e.g. "cat".')
    expect(box(page)).to_contain_text('The views below still show word = "catalog", beam_size = 1')
    old = box(page).locator(".rfnb-explore-old")
    expect(old.locator("[data-kind=attention]")).to_be_visible()
    assert float(old.evaluate("el => getComputedStyle(el).opacity")) < 0.6
    page.screenshot(SHOTS / "explore-error.png")
    field.fill("dog")
    expect(alert).to_have_count(0)
    expect(box(page).locator(".rfnb-explore-old")).to_have_count(0)
    shows(page, plain, "dog", 1)
    assert page.errors == []


def test_a_value_that_is_set_by_code_is_shown_in_its_field(page, plain):
    assert asked(page, "explorer.set(word='horse', beam_size=2).values['word']") == "horse"
    expect(word(page)).to_have_value("horse")
    shows(page, plain, "horse", 2)


@pytest.mark.parametrize("theme", ["Light", "Dark"])
@pytest.mark.parametrize("width", [1280, 800])
def test_it_is_readable_in_both_themes(page, theme, width):
    page.page.set_viewport_size({"width": width, "height": 1200})
    page.page.evaluate(f"window.jupyterapp.commands.execute('apputils:change-theme', {{theme: 'JupyterLab {theme}'}})")
    light = "true" if theme == "Light" else "false"
    page.page.wait_for_function(f"document.body.dataset.jpThemeLight === '{light}'", timeout=ms(30))
    word(page).scroll_into_view_if_needed()
    expect(word(page)).to_be_visible()
    page.screenshot(SHOTS / f"explore-{theme.lower()}-{width}.png")
