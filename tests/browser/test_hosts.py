"""Stored outputs under the rules of hosts that are not here: VS Code, Colab, pages of Sphinx and Quarto, GitHub."""

from __future__ import annotations

import html
from pathlib import Path

import bleach
import pytest
from jupyter_core.paths import jupyter_path
from viz.odd_views import all_kinds

import rfnb as rf
from rfnb.viz.widget import _LOADER

# As VS Code's webviews of notebooks have it: inline scripts run, nothing is imported.
VSCODE = "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data: blob: https:"
# By host: attributes of html and of body, and whether that is dark.
THEMES = {
    "jupyter-dark": ("", 'data-jp-theme-light="false"', True),
    "jupyter-light": ("", 'data-jp-theme-light="true"', False),
    "vscode-dark": ("", 'class="vscode-dark" data-vscode-theme-kind="vscode-dark"', True),
    "vscode-light": ("", 'class="vscode-light" data-vscode-theme-kind="vscode-light"', False),
    "vscode-high-contrast": ("", 'class="vscode-high-contrast"', True),
    "vscode-high-contrast-light": ("", 'class="vscode-high-contrast-light vscode-high-contrast"', False),
    "colab-dark": ('theme="dark"', "", True),
    "colab-light": ('theme="light"', "", False),
    "sphinx-dark": ('data-theme="dark"', "", True),
    "sphinx-light": ('data-theme="light"', "", False),
    "furo-dark": ("", 'data-theme="dark"', True),
    "furo-light": ("", 'data-theme="light"', False),
    "quarto-dark": ("", 'class="quarto-dark"', True),
    "quarto-light": ("", 'class="quarto-light"', False),
}


def views() -> list:
    return [
        rf.viz.attention([[0.9, 0.1], [0.25, 0.75]], source=["a", "</script>"], target=["x", "y"]),
        rf.viz.states({"h": [[0.5, -0.25], [1.0, 0.0]]}, steps=["x", "y"]),
    ]


def stored() -> str:
    """The HTML of two outputs, as a notebook has it."""
    return "\n".join(f"<div>{view._repr_mimebundle_()['text/html']}</div>" for view in views())


@pytest.fixture(scope="module")
def opened(browser):
    """A function that opens a page in the place of the one before; gives it and its errors."""
    context, errors = browser.new_context(viewport={"width": 900, "height": 900}), []
    tab = context.new_page()
    tab.on("pageerror", lambda error: errors.append(str(error)))

    def open_(path: Path, page: str, color_scheme: str = "light"):
        path.write_text(page, encoding="utf-8")
        errors.clear()
        tab.emulate_media(color_scheme=color_scheme)
        tab.goto(path.as_uri())
        return tab, errors

    yield open_
    context.close()


def check_alive(frame) -> None:
    frame.locator('[data-kind="attention"] .rfnb-pane').wait_for()
    frame.locator('[data-kind="states"] .rfnb-pane').wait_for()
    assert frame.locator(".rfnb-picture").count() == 0
    frame.locator('[data-kind="attention"] .rfnb-pane').press("ArrowDown")
    assert "0.9" in frame.locator('[data-kind="attention"] .rfnb-readout').inner_text()
    assert frame.locator('[data-kind="states"]').get_attribute("data-linked") == "0", "they share one selection"


def test_stored_outputs_are_alive_under_the_policy_of_vs_code(opened, tmp_path):
    meta = f'<meta http-equiv="Content-Security-Policy" content="{VSCODE}">'
    page, errors = opened(tmp_path / "page.html", f"<!doctype html>{meta}<body>{stored()}")
    check_alive(page)
    assert errors == []


def test_stored_outputs_are_alive_in_a_frame_of_no_origin(opened, tmp_path):
    inner = html.escape(f"<!doctype html><body>{stored()}", quote=True)
    frame = f'<iframe sandbox="allow-scripts" width="850" height="850" srcdoc="{inner}"></iframe>'
    page, errors = opened(tmp_path / "page.html", f"<!doctype html><body>{frame}")
    check_alive(page.frame_locator("iframe"))
    assert errors == []


RENDER = """async ([code, host]) => {
    const { default: loader } = await import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
    const el = document.createElement("div"), model = { get: () => "IPY_MODEL_1" }, { signal } = new AbortController();
    await loader.render({ model, el, signal, host: host && { getWidget: async () => { throw Error(host); } } });
    return el.textContent; }"""


def test_a_host_that_is_too_old_or_has_lost_a_view_says_so_in_its_place(browser):
    tab = browser.new_page()
    said = [tab.evaluate(RENDER, [_LOADER, host]) for host in (None, "no such model")]
    assert said == [
        "This view needs anywidget 0.11 where JupyterLab runs: pip install --upgrade anywidget there, then reload the page.",
        "This view was not loaded: Error: no such model. Reload the page, or run the cell again.",
    ]
    tab.close()


@pytest.mark.parametrize("host", THEMES)
@pytest.mark.parametrize("system", ["light", "dark"])
def test_a_view_has_the_theme_that_its_host_says_whatever_that_of_the_system_is(opened, tmp_path, host, system):
    root, body, dark = THEMES[host]
    page, _ = opened(
        tmp_path / "page.html", f"<!doctype html><html {root}><body {body}>{stored()}", color_scheme=system
    )
    view = page.locator('[data-kind="attention"]')
    view.wait_for()
    assert view.evaluate("view => getComputedStyle(view).colorScheme") == ("dark" if dark else "light")
    paper = view.evaluate("view => getComputedStyle(view).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)")
    assert (sum(paper) < 150) is dark, paper


def test_a_picture_is_painted_anew_when_colab_changes_its_theme(opened, tmp_path):
    page, _ = opened(
        tmp_path / "page.html", f'<!doctype html><html theme="light"><body>{stored()}', color_scheme="light"
    )
    canvas = page.locator('[data-kind="attention"] .rfnb-attention-main canvas').first
    canvas.wait_for()
    ink = """canvas => { const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height); let sum = 0, count = 0;
        for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 200) { sum += data[at] + data[at + 1] + data[at + 2]; count++; }
        return sum / count; }"""
    before = canvas.evaluate(ink)
    page.evaluate("document.documentElement.setAttribute('theme', 'dark')")
    page.wait_for_function(
        f"before => Math.abs(({ink})(document.querySelector('.rfnb-attention-main canvas')) - before) > 20", arg=before
    )


# What GitHub's sanitizer leaves is of this sort: no scripts, no styles, no attributes of our own.
ALLOWED = {
    *bleach.sanitizer.ALLOWED_TAGS,
    "div",
    "img",
    "p",
    "pre",
    "span",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "br",
    "b",
}


@pytest.mark.parametrize("kind", ["attention", "states"])
def test_a_sanitized_output_is_its_picture_and_words_alone(opened, tmp_path, kind):
    view = next(view for view in views() if view.kind == kind)
    left = bleach.clean(
        view._repr_mimebundle_()["text/html"],
        tags=ALLOWED,
        attributes={"img": ["src", "alt", "width", "height"]},
        protocols=["data", "http", "https"],
        strip=True,
    )
    page, errors = opened(tmp_path / "page.html", f"<!doctype html><body>{left}")
    picture = page.locator("img")
    assert picture.count() == 1 and picture.evaluate("image => image.complete && image.naturalWidth > 100")
    assert len(page.inner_text("body")) < 1500, "no data is read as text, at most the few lines of the loader"
    assert errors == []


# What a host may change of the tables of a view.
STYLE = [
    "textAlign", "verticalAlign", "backgroundColor", "fontSize", "fontWeight", "lineHeight", "whiteSpace", "tableLayout", "color",
    "paddingTop", "paddingLeft", "marginLeft", "marginBottom", "borderTopWidth", "borderBottomWidth", "borderCollapse", "borderSpacing",
]  # fmt: skip
READ = """(root, names) => [...root.querySelectorAll("table, thead, tr, th, td")].map((part) => [part.tagName, part.className,
    part.textContent.slice(0, 20), ...names.map((name) => name + ": " + getComputedStyle(part)[name])].join("; "))"""


@pytest.mark.parametrize(
    "spec", [spec for spec in all_kinds(["a", "b", "c"]) if spec.kind != "control"], ids=lambda spec: spec.kind
)
def test_tables_are_the_same_under_the_style_sheet_of_converted_notebooks(opened, tmp_path, spec):
    [sheet] = [
        sheet for path in jupyter_path("nbconvert", "templates") for sheet in Path(path).glob("lab/static/index.css")
    ]  # fmt: skip
    output = rf.viz.View(spec)._repr_mimebundle_()["text/html"]
    found = {}
    for host in ("", sheet.read_text(encoding="utf-8")):
        style = f"<style>{host}</style><style>:root {{ --jp-layout-color0: #eee; --jp-ui-font-size1: 20px; }}</style>"
        cell = "<div class='jp-RenderedHTMLCommon jp-OutputArea-output'><div style='width:820px'>"
        page = f"<!doctype html><meta charset='utf-8'>{style}<body class='jp-Notebook'>{cell}{output}</div></div>"
        tab, errors = opened(tmp_path / "page.html", page)
        root = tab.locator(".rfnb-root").first
        root.wait_for()
        for table in tab.locator('[data-do="table"]').all():
            table.click()
        tab.mouse.move(0, 0)
        found[bool(host)] = root.evaluate(READ, STYLE)
        assert errors == []
    assert set(found[True]) ^ set(found[False]) == set()
