"""Cost of what-if: a ghost as a ratio to the same search alone, and what a person waits for, in a real JupyterLab.

The change of the ratio bans a label that no hypothesis takes, so that both come to the same. Times are reported, not asserted: they
belong to a machine. What is asserted is that the things that were waited for came.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from itertools import pairwise

import pytest
from browser.conftest import browser, lab, server  # noqa: F401
from browser.what_if import RUN, Page, find

import rfnb as rf
from rfnb.control.ghosts import Ghost
from rfnb.models import load_g2p
from rfnb.models.g2p_search import search
from rfnb.viz.control.spec import spec

SECONDS = 3  # of each drag
REST = 300  # ms that somebody rests before a ghost comes (widgets/src/ghosts.ts)
_rows: list[str] = []
# ms from a pointer that comes to rest on a place until the first label of a lane is drawn, and until the last one.
_RESTS = """async (view, [x, y]) => {
    const pane = view.querySelector(".rfnb-pane"), frame = () => new Promise(requestAnimationFrame);
    const until = async (holds) => { while (!holds()) await frame(); await frame(); return performance.now(); };
    await until(() => view.dataset.lanes === "");
    const begin = performance.now();
    pane.dispatchEvent(new PointerEvent("pointermove", { clientX: x, clientY: y, bubbles: true }));
    const first = await until(() => /[1-9]/.test(view.dataset.lanes));
    const last = await until(() => view.dataset.ghosts === "1");
    pane.dispatchEvent(new PointerEvent("pointerleave", { bubbles: true }));
    return [first - begin, last - begin];
}"""
# Drags a value in each frame, for so many seconds; how many frames there were in a second.
_DRAGS = """async (view, [x, y, seconds]) => {
    const pane = view.querySelector(".rfnb-pane"), frame = () => new Promise(requestAnimationFrame);
    const at = (type, dy) =>
        pane.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y + dy, bubbles: true, buttons: 1, pointerId: 1 }));
    at("pointermove", 0);
    at("pointerdown", 0);
    const begin = performance.now();
    let down = 1;
    for (; performance.now() - begin < 1000 * seconds; down++) {
        at("pointermove", 50 - 100 * Math.abs(((down / 120) % 2) - 1)); // through the middle: at the ends of a range nothing differs
        await frame();
    }
    pane.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    at("pointerup", 0);
    return down / seconds;
}"""
MANY = """
for number in range(199):
    run.from_step(1, lambda at, number=number: at.ban(number % 30 + 5), name=f"branch {number}", paused=False).wait()
"""


@pytest.fixture(scope="module", autouse=True)
def table(request):
    yield
    capture = request.config.pluginmanager.getplugin("capturemanager")
    if _rows:
        with capture.global_and_fixture_disabled():
            print("", *_rows, sep="\n")


def spelled():
    model = load_g2p()

    def spell():
        with rf.stop_gradient_scope():
            return search(model, ["parachute"], beam_size=5)[2]

    run = rf.run(spell, paused=True, record={"model": model})
    run.step(3)
    return run, spell


@pytest.mark.parametrize("rows", [False, True], ids=["its result", "its rows of attention too"])
def test_the_ghost_of_a_word(overhead, rows):
    run, spell = spelled()
    ban = {"do": "ban", "label": "OY"}

    def ghost():
        made, over = Ghost(run, 1, "search", 0, [ban], "no OY at 1", rows=rows), threading.Event()
        made.on_change(lambda: made.is_over and over.set())
        while not made.is_over:
            over.wait(1.0)
        assert made.told()["same"]
        return made.run.result

    name = f"ghost of a word{' with attention' if rows else ''} against its search"
    overhead(name, ghost, spell, limit=3.0, turns=31, warmup=3)
    run.stop()


def answers_in(page):
    """When the answers to drags come to a page, of those from here on."""
    times = []

    def heard(frame):
        frame = frame if isinstance(frame, bytes) else frame.encode()
        if b'"rfnb": "ghost"' in frame and b'"over": true' in frame:
            times.append(time.perf_counter())

    page.on("websocket", lambda socket: socket.on("framereceived", heard))
    return times


def test_the_first_step_of_a_ghost_and_answers_to_a_drag_in_a_page(lab, row):  # noqa: F811
    answers = answers_in(lab.page)
    page = Page(lab)
    places = [find(page.tree, f"1,cut{number}", "cursor") for number in (0, 1, 2)]
    lab.page.mouse.move(5, 5)
    found = [page.tree.evaluate(_RESTS, list(places[turn % 3])) for turn in range(15)]
    first, last = (statistics.median(each) - REST for each in zip(*found))
    _rows.append(f"ghost: {first:.0f} ms after the delay until its first step is drawn, {last:.0f} ms until its end")
    row("ghost in a page", first_ms=first, last_ms=last)
    assert len(found) == 15
    for view, pattern, names, what in (
        (page.map, "1 5", ("row", "col"), "a weight"),
        (page.strips, r"(.*\.)?h [0-9]+ 1", ("track", "row", "col"), "a unit"),
        (page.strips, r"(.*\.)?forget_gate [0-9]+ 1", ("track", "row", "col"), "a gate"),
    ):
        at = find(view, pattern, *names, stay=False)
        answers.clear()
        frames = view.evaluate(_DRAGS, [*at, SECONDS])
        rate, longest = (
            len(answers) / SECONDS,
            1000 * max((after - before for before, after in pairwise(answers)), default=0),
        )
        _rows.append(
            f"drag of {what}: {rate:.0f} answers a second, at most {longest:.0f} ms between two; the page drew {frames:.0f} frames a second"
        )
        row(f"drag of {what}", answers_per_second=rate, longest_ms=longest, frames_per_second=frames)
        assert rate > 0


def test_the_rail_with_two_hundred_branches(lab, row):  # noqa: F811
    page = Page(lab, cells=(RUN, MANY))
    figures = []
    for many in (False, True):
        if many:
            page.page.evaluate("() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 1; }")
            lab.start("notebook:run-cell")
            lab.wait_cells()
            lab.page.wait_for_function("() => document.querySelectorAll('.rfnb-rail-row').length === 200")
        protocol = page.page.context.new_cdp_session(page.page)
        protocol.send("Performance.enable")

        def script(protocol=protocol):
            metrics = {one["name"]: one["value"] for one in protocol.send("Performance.getMetrics")["metrics"]}
            return 1000 * (metrics["ScriptDuration"] + metrics["LayoutDuration"] + metrics["RecalcStyleDuration"])

        before, begin, step = script(), time.perf_counter(), int(page.tree.get_attribute("data-step"))
        page.page.locator('[data-do="step"]').first.click()
        lab.page.wait_for_function(
            "(step) => document.querySelector('[data-kind=beams]').dataset.step === String(step)", arg=step + 1
        )
        figures.append((1000 * (time.perf_counter() - begin), script() - before))
    words = [f"{wall:.0f} ms, of which scripts and layout {own:.0f}" for wall, own in figures]
    _rows.append(f"a click on Step until its picture: {words[0]} with no branch, {words[1]} with 199")
    row("rail of 200", alone_ms=figures[0], many_ms=figures[1])
    run, _ = spelled()
    for number in range(199):
        run.from_step(
            1, lambda at, number=number: at.ban(number % 30 + 5), name=f"branch {number}", paused=False
        ).wait()
    times = []
    for _ in range(9):
        begin = time.perf_counter()
        head = spec(run).head
        times.append(1000 * (time.perf_counter() - begin))
    assert len(head["runs"]) == 200
    size = len(json.dumps(head)) / 1000
    _rows.append(f"rail: its state in {statistics.median(times):.1f} ms, {size:.0f} kB, with 200 branches")
    row("state of 200 branches", ms=statistics.median(times), kilobytes=size)
    for branch in run.branches:
        branch.stop()
    run.stop()
