"""Counts the drawing calls of a page: the same on every machine, in light and dark."""

from __future__ import annotations

# Counts the calls of every method of a canvas in window.rfnbDrawn; runs before the scripts of the page.
COUNT_DRAWING = """
window.rfnbDrawn = {};
for (const [name, {value}] of Object.entries(Object.getOwnPropertyDescriptors(CanvasRenderingContext2D.prototype))) {
    if (typeof value !== "function" || name === "constructor") continue;
    CanvasRenderingContext2D.prototype[name] = function (...given) {
        window.rfnbDrawn[name] = (window.rfnbDrawn[name] ?? 0) + 1;
        return value.apply(this, given);
    };
}
"""


def drawn(page) -> dict[str, int]:
    """The calls since the last time, by name, when the page has drawn what it wants to draw."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.evaluate("() => { const drawn = window.rfnbDrawn; window.rfnbDrawn = {}; return drawn; }")
