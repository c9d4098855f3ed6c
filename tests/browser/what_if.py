"""The page of a held run in a real JupyterLab, for tests of what-if: its views, where places are in them, what the kernel has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect
from waiting import LONG, ms

RUN = """
import rfnb as rf
from rfnb.models import load_g2p, pronounce
model = load_g2p()
run = rf.run(pronounce, model, "parachute", beam_size=4, paused=True, record={"model": model}, name="parachute")
run.step(3)
run
"""
TOLD = """
import json
print(json.dumps({"branches": [[one.name, [str(change) for change in one.changes], " ".join(one.result[0].phonemes)]
                  for one in run.branches], "state": run.state, "steps": len(run.steps)}))
"""
# The middle of a place where the attributes of a view match, in whole pixels of the window, as those of a press are. Each look costs
# the page a millisecond: for one place it looks in wide steps first, and then between them; of many places the first one is meant.
_FIND = """async (view, [names, pattern, many]) => {
    const pane = view.querySelector(".rfnb-pane"), wanted = new RegExp(`^(${pattern})$`);
    const hovers = (type, x, y) => pane.dispatchEvent(new PointerEvent(type, { clientX: x, clientY: y, bubbles: true }));
    const fits = (x, y) => {
        hovers("pointermove", x, y);
        return wanted.test(names.map((name) => view.dataset[name]).join(" "));
    };
    const search = ({ left, top, right, bottom }) => {
        for (const down of many ? [0] : [0, 2, 1, 3])
            for (const across of many ? [0] : [0, 1, 2])
                for (let y = Math.round(top) + 6 + 5 * down; y < Math.min(bottom, innerHeight - 60); y += many ? 5 : 20)
                    for (let x = Math.round(left) + 6 + 9 * across; x < right; x += many ? 9 : 27)
                        if (fits(x, y)) return [x, y];
        return null;
    };
    // How far the place goes on from a point in a direction.
    const reach = (x, y, right, down) => {
        let far = 0;
        while (far < 60 && fits(x + right * (far + 6), y + down * (far + 6))) far += 6;
        while (far < 60 && fits(x + right * (far + 1), y + down * (far + 1))) far++;
        return far;
    };
    const middle = ([x, y]) => {
        x += (reach(x, y, 1, 0) - reach(x, y, -1, 0)) >> 1;
        return [x, y + ((reach(x, y, 0, 1) - reach(x, y, 0, -1)) >> 1)];
    };
    pane.scrollIntoView({ block: pane.clientHeight < 600 ? "center" : "start" });
    for (let first = null, before = null, missed = 0; ;) {
        if (!first || !fits(...first)) first = search(pane.getBoundingClientRect());
        const found = first && middle(first);
        for (let frame = 0; frame < 3; frame++) await new Promise(requestAnimationFrame);
        hovers("pointerleave", ...(found ?? [0, 0]));
        if (!found && ++missed < 5) continue; // it may not be drawn yet
        if (!found || JSON.stringify(found) === JSON.stringify(before)) return found; // nothing moves any more
        before = found;
    }
}"""


def in_lab(lab, name: str) -> None:
    lab.open(name)
    lab.start("notebook:run-cell-and-select-next")


def without_subshells(lab, name: str) -> None:
    """As where the host has none, or they are switched off: what a page asks waits for the cell that runs."""
    lab.open(name)
    lab.page.evaluate("() => { window.jupyterapp.serviceManager.kernels.commsOverSubshells = 'disabled'; }")
    lab.start("notebook:run-cell-and-select-next")


def in_notebook_7(lab, name: str) -> None:
    page = lab.page
    page.goto(f"{lab.server.url}/notebooks/{name}")
    page.locator(".jp-Cell").first.click()
    page.get_by_text("Idle").or_(page.locator('[data-status="idle"]')).first.wait_for(timeout=1000 * LONG)
    page.keyboard.press("Shift+Enter")


# What a view says with a pointer on each place of a grid, all in one turn of the page, so that nothing moves meanwhile.
_SWEEP = """(view, [right, down]) => {
    const pane = view.querySelector(".rfnb-pane"), { width, height } = pane.getBoundingClientRect(), found = [];
    const readout = view.querySelector(".rfnb-readout");
    for (let y = down / 2; y < height; y += down)
        for (let x = right / 2; x < width; x += right) {
            const { left, top } = pane.getBoundingClientRect();
            pane.dispatchEvent(new PointerEvent("pointermove", { clientX: left + x, clientY: top + y, bubbles: true }));
            const bold = [...readout.querySelectorAll("b")].map((b) => b.textContent);
            found.push({ ...view.dataset, bold, said: readout.textContent, value: readout.querySelector(".rfnb-value")?.textContent });
        }
    pane.dispatchEvent(new PointerEvent("pointerleave", { bubbles: true }));
    return found;
}"""


def sweep(view, right: float, down: float) -> list[dict[str, Any]]:
    """What a view says at places so many pixels apart: its data, and of its readout the words, the bold ones and the value."""
    return view.evaluate(_SWEEP, [right, down])


def find(view, pattern: str, *names: str, stay: bool = True) -> tuple[float, float]:
    """Where a pointer is on the place that a view says it is on; it stays there, or has never been there."""
    many = re.search(r"[*+[]", pattern.removeprefix(r"(.*\.)?")) is not None
    for _ in range(20):  # the page may move between a look and a move
        at = view.evaluate(_FIND, [list(names), pattern, many])
        assert at is not None, f"{pattern} is nowhere"
        if not stay:
            return tuple(at)
        view.page.mouse.move(*at)
        if is_on(view, pattern, names):
            return tuple(at)
    raise AssertionError(f"{pattern} does not stay in its place")


# After two frames what the view says has followed its data.
_AT = """async (view, names) => {
    for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
    return names.map((name) => view.dataset[name]).join(" ");
}"""


def is_on(view, pattern: str, names) -> bool:
    """Whether a view says that it is on the place, also in its readout."""
    return bool(re.fullmatch(pattern, view.evaluate(_AT, [*names])))


def press(view, pattern: str, *names: str) -> tuple[float, float]:
    """Presses the pointer on the place that a view says it is on; where the page has moved meanwhile, it is let go without effect."""
    mouse = view.page.mouse
    for _ in range(20):
        at = find(view, pattern, *names)
        mouse.down()
        if is_on(view, pattern, names):
            return at
        mouse.move(5, 5)
        view.page.keyboard.press("Escape")
        mouse.up()
    raise AssertionError(f"{pattern} does not stay in its place")


def click(view, pattern: str, *names: str) -> None:
    """Clicks on a place, wherever it is by now."""
    press(view, pattern, *names)
    view.page.mouse.up()


class Page:
    """The page of a held run; `clicks` are those of a person. `start` opens a notebook and runs its first cell."""

    def __init__(self, lab, start: Callable[[Any, str], None] = in_lab, cells: tuple[str, ...] = (RUN, TOLD)):
        self.lab, self.page, self.clicks = lab, lab.page, 0
        start(lab, lab.write("what_if.ipynb", *cells))
        self.tree, self.map, self.strips = (
            self.page.locator(f'.rfnb-root.rfnb-part[data-kind="{kind}"]').first
            for kind in ("beams", "attention", "states")
        )
        self.told, self.rail = self.tree.locator(".rfnb-beams-told"), self.page.locator(".rfnb-rail").first
        expect(self.tree).to_have_attribute("data-step", "2", timeout=ms(60))
        expect(self.told).to_contain_text(re.compile("(Rest on|Tap) a candidate"), timeout=ms(60))  # the kernel answers

    def find(self, view, pattern: str, *names: str, stay: bool = True) -> tuple[float, float]:
        """As the function `find`."""
        return find(view, pattern, *names, stay=stay)

    def press(self, view, pattern: str, *names: str) -> tuple[float, float]:
        """As the function `press`."""
        return press(view, pattern, *names)

    def click(self, view, pattern: str, *names: str) -> None:
        """As the function `click`."""
        click(view, pattern, *names)

    def drag(self, at: tuple[float, float], right: int, down: int) -> None:
        """Moves the pressed pointer from a place, a few pixels at a time."""
        for part in range(1, 13):
            self.page.mouse.move(at[0] + right * part / 12, at[1] + down * part / 12)

    def slide(self, at: tuple[float, float], down: int, held: Callable[[], None] = lambda: None) -> None:
        """Moves a finger from a place; `held` is called before it is lifted."""
        protocol = self.page.context.new_cdp_session(self.page)

        def touch(kind: str, *points: tuple[float, float]) -> None:
            places = [{"x": x, "y": y} for x, y in points]
            protocol.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

        touch("touchStart", at)
        for part in range(1, 13):
            touch("touchMove", (at[0], at[1] + down * part / 12))
        held()
        touch("touchEnd")

    def rows(self) -> list[str]:
        return [" ".join(text.split()) for text in self.rail.locator(".rfnb-rail-row").all_inner_texts()]

    def made(self) -> dict:
        """The state of the kernel once all its runs have ended."""
        expect(self.rail).not_to_contain_text("running", use_inner_text=True, timeout=1000 * LONG)
        return json.loads(self.lab.run_cell(1)[0]["text"])
