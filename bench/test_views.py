"""Views as a notebook stores them: bytes, seconds until they are on the screen, and script time, beside other tools.

Other tools are run as anybody would, where they are installed (`pip install rfnb[bench]`); what one draws by scripts that it loads
from a network is not on the screen here, and the table says so. Reported, not asserted: times belong to a machine.
"""

from __future__ import annotations

import importlib.metadata
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser.conftest import CHROMIUM, CHROMIUM_ARGS

import rfnb as rf

PATIENCE = 60  # seconds until "not up"
SHAPES = {
    "6x8x64x64": (6, 8, 64, 64),
    "6x8x256x256": (6, 8, 256, 256),
    "12x12x512x512": (12, 12, 512, 512),
    "1x1x4096x4096": (1, 1, 4096, 4096),
}
MOST_OF_OTHERS = 6 * 8 * 256 * 256  # weights: beyond that they write gigabytes
FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# How many elements there are that draw something, also in shadow trees.
DRAWN = """() => {
    const count = (top) => [...top.querySelectorAll('*')].reduce((sum, element) =>
        sum + (element.matches('canvas, svg *, td, img') ? 1 : 0) + (element.shadowRoot ? count(element.shadowRoot) : 0), 0);
    return count(document.body);
}"""
_rows: list[str] = []


def weights(shape: tuple[int, ...]) -> np.ndarray:
    energies = np.exp(3 * np.random.default_rng(0).standard_normal(shape, dtype=np.float32))
    return energies / energies.sum(-1, keepdims=True)


def states() -> Any:
    h = np.tanh(np.random.default_rng(0).standard_normal((500, 8, 512), dtype=np.float32))
    return rf.viz.states({f"layer {layer}": h[:, layer] for layer in range(8)})


def search(steps: int = 500, lanes: int = 64, candidates: int = 128) -> Any:
    random = np.random.default_rng(0)
    scores = -np.sort(10 * random.random((steps, candidates)), axis=1) - np.arange(steps)[:, None]
    tokens, parents = (random.integers(0, most, (steps, candidates)) for most in (5000, lanes))
    parents[0] = 0
    fields = {"tokens": tokens, "parents": parents, "scores": scores}
    kept = {name: list(field[:, :lanes]) for name, field in fields.items()}
    kept |= {f"cand_{name}": list(field) for name, field in fields.items()}
    return rf.viz.beams(**kept, cand_kept=list(np.arange(candidates)[None].repeat(steps, 0) < lanes))


def with_rfnb(array: np.ndarray) -> str:
    return stored(rf.viz.attention(array, dims=["layer", "head", "target", "source"]))


def stored(view: Any) -> str:
    return str(view._repr_mimebundle_(include=["text/html"])["text/html"])


def with_bertviz(array: np.ndarray) -> str:
    import torch
    from bertviz import model_view

    tokens = [f"t{index}" for index in range(array.shape[-1])]
    return str(model_view([torch.from_numpy(layer)[None] for layer in array], tokens, html_action="return").data)


def with_circuitsvis(array: np.ndarray) -> str:
    from circuitsvis.attention import attention_heads

    tokens = [f"t{index}" for index in range(array.shape[-1])]
    return "".join(str(attention_heads(tokens=tokens, attention=layer)) for layer in array)


def with_treescope(array: np.ndarray) -> str:
    import treescope

    return str(treescope.render_array(array, truncate=False, rows=[0, 2], columns=[1, 3])._repr_html_())


TOOLS: dict[str, Callable[[np.ndarray], str]] = {
    "rfnb": with_rfnb, "bertviz": with_bertviz, "circuitsvis": with_circuitsvis, "treescope": with_treescope,
}  # fmt: skip


@pytest.fixture(scope="module")
def chromium():
    if CHROMIUM is None:
        pytest.skip("no Chromium: apt-get install chromium, or set RFNB_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, headless=True, args=CHROMIUM_ARGS)
        yield browser
        browser.close()
    head = f"{'view':16} {'tool':20} {'MB':>8} {'made s':>8} {'up s':>8} {'script s':>9} {'hover ms':>9} {'worst':>7}  elements"
    print("\n" + "\n".join([head, *_rows]))


def script(metrics: Any) -> float:
    """Seconds of script in the page so far."""
    found = metrics.send("Performance.getMetrics")["metrics"]
    return next(float(entry["value"]) for entry in found if entry["name"] == "ScriptDuration")


def hovered(page: Any, metrics: Any) -> list[float]:
    """Milliseconds of script for each of some places that the pointer goes to: its event and the frame after it."""
    box, out = page.locator(".rfnb-pane").last.bounding_box(), []
    for n in range(40):
        before, share = script(metrics), 0.3 + 0.015 * n
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] * share)
        page.evaluate(FRAMES)
        out.append(1e3 * (script(metrics) - before))
    return out


def measured(chromium: Any, folder: Path, name: str, tool: str, make: Callable[[], str]) -> None:
    """Adds a line to the table."""
    start = time.perf_counter()
    html = make()
    made = time.perf_counter() - start
    size = len(json.dumps(html)) / 1e6  # as a string in the notebook
    path = folder / "page.html"
    path.write_text(f"<!doctype html><meta charset='utf-8'><body>{html}</body>", encoding="utf-8")
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(1000 * PATIENCE)
    local = ("file:", "data:", "blob:")
    page.route("**/*", lambda route: route.continue_() if route.request.url.startswith(local) else route.abort())
    metrics = context.new_cdp_session(page)
    metrics.send(
        "Performance.enable", {"timeDomain": "threadTicks"}
    )  # of the processor: others on the machine do not count
    line = f"{name:16} {tool:20} {size:8.3f} {made:8.2f}"
    try:
        start = time.perf_counter()
        page.goto(path.as_uri(), wait_until="load")
        if tool == "rfnb":
            page.wait_for_selector(".rfnb-root[data-kind]")
        page.evaluate(FRAMES)
        up = time.perf_counter() - start
        line += f" {up:8.2f} {script(metrics):9.2f}"
        hover = hovered(page, metrics) if tool == "rfnb" else []
        line += f" {statistics.median(hover):9.1f} {max(hover):7.1f}" if hover else f" {'':9} {'':7}"
        count = page.evaluate(DRAWN)
        line += f"  {count}" + ("" if count else ": nothing on the screen without network")
    except Exception as error:
        line += f"  not up in {PATIENCE} s: {type(error).__name__}"
    _rows.append(line)
    context.close()


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", SHAPES)
def test_attention(chromium, tmp_path, name, tool):
    array = weights(SHAPES[name])
    if tool != "rfnb":
        pytest.importorskip(tool)
        if array.size > MOST_OF_OTHERS:
            pytest.skip("gigabytes")
    version = "" if tool == "rfnb" else f" {importlib.metadata.version(tool)}"
    TOOLS[tool](weights((1, 1, 4, 4)))  # what is loaded once
    measured(chromium, tmp_path, name, tool + version if version else tool, lambda: TOOLS[tool](array))


@pytest.mark.parametrize("name", ["states 500x8x512", "beams 500x64"])
def test_states_and_beams(chromium, tmp_path, name):
    view = states() if name.startswith("states") else search()
    measured(chromium, tmp_path, name, "rfnb", lambda: stored(view))
