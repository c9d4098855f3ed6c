"""The table of docs/hosts.md: each kind of view in each host, looked at in a real Chromium. Minutes; not a part of the tests.

    PYTHONPATH=tests python tests/browser/hosts.py docs/hosts.md
    PYTHONPATH=tests python tests/browser/hosts.py docs/hosts.md --python ENVIRONMENT/bin/python    # with marimo and voila

What is not installed is "not here". Hosts that cannot be run here (VS Code, Colab, Quarto, GitHub) are pages that obey their rules.
"""

from __future__ import annotations

import argparse
import contextlib
import html
import os
import re
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import bleach
import nbformat
from browser.conftest import CHROMIUM, CHROMIUM_ARGS
from browser.jupyter import Lab, Server
from browser.test_hosts import ALLOWED, VSCODE
from nbclient import NotebookClient
from playwright.sync_api import Page, sync_playwright
from viz.odd_views import all_kinds
from waiting import LONG, wait_until

import rfnb as rf
from rfnb.viz.kinds import KINDS

TESTS = Path(__file__).parents[1]
SETUP = f"""import sys
sys.path.insert(0, {str(TESTS)!r})
import rfnb as rf
from viz.odd_views import all_kinds
specs = {{spec.kind: spec for spec in reversed(all_kinds(["a", "b", "c"]))}}"""
SPECS = {spec.kind: spec for spec in reversed(all_kinds(["a", "b", "c"]))}
WORDS = {"control": "Paused before step"}
SHOWN = "rf.viz.View(specs[{!r}])"
HEAD = """# Views in other hosts

This table shows how each kind of view appears in each host, in a real Chromium without a network: **alive** (drawn by the
script of the view), **picture** (complete, but static), **text**, or **blank**. A held run is text in a host without a kernel.
VS Code, Colab, Quarto and GitHub were not run: for these, the test pages obey the rules that the hosts publish.
`tests/browser/hosts.py` writes this page for the selected hosts; the tests beside it open JupyterLab and Notebook 7 with every change.
"""
Found = dict[str, str]


def look(page: Page, kinds: list[str], patience: float = LONG) -> Found:
    """The visible content of each kind of view once the first one is drawn, also inside shadow roots."""
    alive = page.locator(".rfnb-root:not(.rfnb-picture)")
    with contextlib.suppress(Exception):
        alive.first.wait_for(timeout=1000 * patience)
        page.wait_for_function("() => document.readyState === 'complete'")
    found = {}
    for kind in kinds:
        views = page.locator(f'.rfnb-root[data-kind="{kind}"], .rfnb-root [data-kind="{kind}"]')
        with contextlib.suppress(Exception):
            views.first.wait_for(timeout=3000 if kind in WORDS else 10_000)
        box = views.first.bounding_box() if views.count() else None
        found[kind] = "alive" if box and box["height"] > 15 else "blank"
    left = page.locator(".rfnb-picture").count()
    return {
        kind: said if said == "alive" else "text" if in_words(page, kind) else "picture" if left else said
        for kind, said in found.items()
    }


def in_words(page: Page, kind: str) -> bool:
    """Whether what a view says without script is on the page: of a run that is held that is all there is without a kernel."""
    return page.get_by_text(WORDS[kind]).count() > 0 if kind in WORDS else False


def stored(kind: str) -> str:
    """The HTML of a view as a notebook has it."""
    return str(rf.viz.View(SPECS[kind])._repr_mimebundle_()["text/html"])


def each_page(browser, folder: Path, page_of: Callable[[str], str], read: Callable[[Page, str], str]) -> Found:
    """A page for each kind."""
    found = {}
    for kind in KINDS:
        path = folder / "page.html"
        path.write_text(page_of(stored(kind)), encoding="utf-8")
        tab = browser.new_page()
        tab.goto(path.as_uri())
        found[kind] = read(tab, kind)
        tab.close()
    return found


def is_alive(tab: Page, kind: str) -> str:
    for frame in reversed(tab.frames):  # of a page with a frame, that one first
        with contextlib.suppress(Exception):
            frame.locator(f'.rfnb-root[data-kind="{kind}"], .rfnb-root [data-kind="{kind}"]').first.wait_for(
                timeout=1000 if kind in WORDS else 10_000
            )
            return "alive"
    framed = any(in_words(frame, kind) for frame in tab.frames)
    return "text" if framed else "picture" if tab.locator("img").count() else "blank"


def is_picture(tab: Page, kind: str) -> str:
    drawn = tab.locator("img").evaluate_all("all => all.some(image => image.complete && image.naturalWidth > 50)")
    return "picture" if drawn else "text" if len(tab.inner_text("body")) > 30 else "blank"


def sanitized(output: str) -> str:
    """As GitHub leaves it: no scripts, no styles, no attributes of ours."""
    return bleach.clean(
        output, tags=ALLOWED, attributes={"img": ["src", "alt"]}, protocols=["data", "https"], strip=True
    )


def by_rules(browser, folder: Path) -> Iterator[tuple[str, Found]]:
    """Pages that obey the rules of hosts that are not here."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{VSCODE}">'
    yield "VS Code, by rules", each_page(browser, folder, lambda each: f"<!doctype html>{meta}<body>{each}", is_alive)
    inner = '<iframe sandbox="allow-scripts" width="900" height="900" srcdoc="{}"></iframe>'
    framed = each_page(
        browser,
        folder,
        lambda each: "<!doctype html>" + inner.format(html.escape(f"<body>{each}", quote=True)),
        is_alive,
    )
    yield "Colab, by rules", framed
    yield (
        "Quarto, by rules",
        each_page(browser, folder, lambda each: f'<!doctype html><body class="quarto-light">{each}', is_alive),
    )
    yield (
        "GitHub, by rules",
        each_page(browser, folder, lambda each: f"<!doctype html><body>{sanitized(each)}", is_picture),
    )


def notebook_of(kinds: list[str]) -> nbformat.NotebookNode:
    cells = [nbformat.v4.new_code_cell(code) for code in (SETUP, *map(SHOWN.format, kinds))]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.v4.new_notebook(cells=cells, metadata=kernel)


def converted(browser, folder: Path) -> Iterator[tuple[str, Found]]:
    """Pages of nbconvert, of a notebook as it ran, with the state of widgets in it."""
    made = notebook_of(list(KINDS))
    NotebookClient(made, store_widget_state=True, resources={"metadata": {"path": str(folder)}}).execute()
    nbformat.write(made, folder / "with_state.ipynb")
    made.metadata.pop("widgets", None)
    nbformat.write(made, folder / "without_state.ipynb")
    for name, source, to in (
        ("nbconvert", "without_state", "html"),
        ("nbconvert rfnb-html, saved widget state", "with_state", "rfnb-html"),
    ):
        subprocess.run(
            [sys.executable, "-m", "nbconvert", "--to", to, f"{source}.ipynb"],
            cwd=folder,
            check=True,
            capture_output=True,
        )
        tab = browser.new_page()
        tab.goto((folder / f"{source}.html").as_uri())
        yield name, look(tab, list(KINDS))
        tab.close()


def jupyter(browser, folder: Path) -> Iterator[tuple[str, Found]]:
    """JupyterLab and Notebook 7, all cells run in the page; JupyterLab reopened with the saved state, no kernel started anew."""
    for name, app in (("JupyterLab", "jupyterlab"), ("Notebook 7", "notebook")):
        (folder / app).mkdir()
        server = Server(folder / app, app)
        context = browser.new_context(viewport={"width": 1280, "height": 9000})
        try:
            lab = Lab(context.new_page(), server)
            nbformat.write(notebook_of(list(KINDS)), server.root / "kinds.ipynb")
            if app == "jupyterlab":
                lab.open("kinds.ipynb")
                lab.start("notebook:run-all-cells")
            else:
                lab.page.goto(f"{server.url}/notebooks/kinds.ipynb")
                lab.page.locator(".jp-Cell").first.click()
                lab.page.locator('[data-status="idle"]').or_(lab.page.get_by_text("Idle")).first.wait_for()
                for _ in range(len(KINDS) + 1):
                    lab.page.keyboard.press("Shift+Enter")
            yield name, look(lab.page, list(KINDS), 2 * LONG)
        finally:
            context.close()
            server.stop()


@contextlib.contextmanager
def program(words: list[str], path: str = "") -> Iterator[str]:
    """A server with this command, in which {port} is a free port; gives its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [word.format(port=port) for word in words], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    def answers() -> bool:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=LONG):
            return True
        return process.poll() is not None

    try:
        wait_until(answers)
        yield f"http://127.0.0.1:{port}{path}"
    finally:
        process.terminate()
        process.wait(LONG)


def marimo(browser, folder: Path, python: str) -> Iterator[tuple[str, Found]]:
    """A notebook of marimo: edited, run, and as a page whose frontend is served by marimo's own files."""
    cells = [f"@app.cell\ndef _(rf, specs):\n    {SHOWN.format(kind)}\n    return\n" for kind in KINDS]
    setup = "\n".join("    " + line for line in SETUP.splitlines())
    text = f"import marimo\napp = marimo.App()\n\n@app.cell\ndef _():\n{setup}\n    return rf, specs\n\n" + "\n".join(
        cells
    )
    (folder / "kinds.py").write_text(text + '\nif __name__ == "__main__":\n    app.run()\n')
    for mode in ("edit", "run"):
        words = [
            python,
            "-m",
            "marimo",
            mode,
            str(folder / "kinds.py"),
            "--headless",
            "--no-token",
            "--host",
            "127.0.0.1",
        ]
        with program([*words, "--port", "{port}"]) as address:
            tab = browser.new_page(viewport={"width": 1280, "height": 9000})
            tab.goto(address)
            if mode == "edit":  # until its cells run it shows nothing, or what the session before has left
                tab.locator(".marimo-cell").last.wait_for()
                tab.keyboard.press("Control+Shift+R")
            yield f"marimo {mode}", look(tab, list(KINDS), 2 * LONG)
            if mode == "edit":
                first = tab.locator(".marimo-cell").nth(1)  # that of the first view
                first.hover()
                first.get_by_test_id("run-button").first.click()
                tab.reload()
                yield "marimo edit, one cell run again, page reloaded", look(tab, list(KINDS), 2 * LONG)
            tab.close()
    made = [
        python,
        "-m",
        "marimo",
        "export",
        "html",
        str(folder / "kinds.py"),
        "-o",
        str(folder / "marimo.html"),
        "--force",
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)])}
    subprocess.run(made, env=env, cwd=folder, capture_output=True, timeout=10 * LONG)
    where = subprocess.run(
        [python, "-c", "import marimo; print(marimo.__path__[0])"], capture_output=True, text=True, check=True
    )
    # The page takes the front end from a CDN: here the files of the package.
    page = folder / "marimo.html"
    page.write_text(re.sub(r"https://cdn[^\"']*/dist/", "./front/", page.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / "front").symlink_to(Path(where.stdout.strip()) / "_static")
    with program(
        [sys.executable, "-m", "http.server", "{port}", "--bind", "127.0.0.1", "--directory", str(folder)],
        "/marimo.html",
    ) as address:
        tab = browser.new_page(viewport={"width": 1280, "height": 9000})
        tab.goto(address)
        yield "marimo export html", look(tab, list(KINDS), 2 * LONG)
        tab.close()


def voila(browser, folder: Path, python: str) -> Iterator[tuple[str, Found]]:
    """A notebook of Voila, run for the page."""
    nbformat.write(notebook_of(list(KINDS)), folder / "voila.ipynb")
    words = [
        python,
        "-m",
        "voila",
        str(folder / "voila.ipynb"),
        "--no-browser",
        "--port={port}",
        "--Voila.ip=127.0.0.1",
    ]
    with program(words, "/static/voila.css") as address:
        tab = browser.new_page(viewport={"width": 1280, "height": 9000})
        tab.goto(address.removesuffix("/static/voila.css"), timeout=5000 * LONG)
        yield "Voila", look(tab, list(KINDS), 2 * LONG)
        tab.close()


def table(rows: dict[str, Found], versions: dict[str, str]) -> str:
    """The page."""
    lines = ["| host | " + " | ".join(KINDS) + " |", "|---" * (len(KINDS) + 1) + "|"]
    lines += [
        f"| {host} | " + " | ".join(found.get(kind, "not here") for kind in KINDS) + " |"
        for host, found in rows.items()
    ]
    tried = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{HEAD}\n" + "\n".join(lines) + f"\n\nTried with {tried}.\n"


def main() -> None:
    """Look, and write the table as far as it is after each host."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("out", type=Path)
    options.add_argument("--python", default=sys.executable, help="of an environment with marimo and voila")
    options.add_argument("--only", nargs="*", default=["by_rules", "converted", "jupyter", "marimo", "voila"])
    asked = options.parse_args()
    listed = (
        "import importlib.metadata as m\nfor name in {!r}:\n try: print(name, m.version(name))\n except Exception: pass"
    )
    names = ["jupyterlab", "notebook", "anywidget", "ipywidgets", "nbconvert", "marimo", "voila"]
    said = subprocess.run([asked.python, "-c", listed.format(names)], capture_output=True, text=True, check=True).stdout
    versions = dict(line.split() for line in said.splitlines())
    rows: dict[str, Found] = {}
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as name:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=CHROMIUM_ARGS)
        for host in asked.only:
            folder = Path(name) / host
            folder.mkdir()
            further = [asked.python] if host in ("marimo", "voila") else []
            if further and host not in versions:
                rows[host] = {}
                continue
            try:
                for row, found in globals()[host](browser, folder, *further):
                    rows[row] = found
                    print(row, found, flush=True)
                    asked.out.write_text(table(rows, versions), encoding="utf-8")
            except Exception as error:
                print(host, f"{type(error).__name__}: {error}"[:500], flush=True)
                rows[f"{host}: {type(error).__name__}"] = {}
        asked.out.write_text(table(rows, versions), encoding="utf-8")


if __name__ == "__main__":
    main()
