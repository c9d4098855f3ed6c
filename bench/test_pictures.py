"""The parts of `rf.show`: text, drawing, picture, as a ratio to matplotlib drawing one small heat map on an empty figure.

Both sides run on one machine in turns. A picture of any size takes less than a few such heat maps; with matplotlib it took hundreds.
"""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rfnb as rf
from rfnb.viz.drawing.img import lighter
from rfnb.viz.drawing.png import png
from rfnb.viz.drawing.theme import theme
from rfnb.viz.kinds import drawing_of, html_of, text_of
from rfnb.viz.spec import Spec

ROUNDS = 5


def weights(*shape: int) -> np.ndarray:
    energies = np.exp(3 * np.random.default_rng(0).normal(size=shape))
    return (energies / energies.sum(-1, keepdims=True)).astype(np.float32)


def search(steps: int, lanes: int) -> Spec:
    random = np.random.default_rng(1)
    parents = random.integers(0, lanes // 2, (steps, lanes))
    parents[0] = 0
    scores = -np.arange(steps)[:, None] - np.sort(random.random((steps, lanes)), 1)
    return rf.viz.beams(tokens=random.integers(0, 500, (steps, lanes)), parents=parents, scores=scores).spec


CASES: dict[str, Callable[[], Spec]] = {
    "attention 1x1x12x12": lambda: rf.viz.attention(weights(12, 12)).spec,
    "attention 4x8x64x64": lambda: (
        rf.viz.attention(weights(4, 8, 64, 64), dims=["layer", "head", "target", "source"]).spec
    ),
    "attention 12x12x128x128": lambda: (
        rf.viz.attention(weights(12, 12, 128, 128), dims=["layer", "head", "target", "source"]).spec
    ),
    "attention, labels of 100,000 letters": lambda: rf.viz.attention(weights(8, 8), source=["a" * 100_000] * 8).spec,
    "states 500x512": lambda: rf.viz.states({"h": weights(500, 512)}).spec,
    "states 32,000x16": lambda: rf.viz.states({"h": weights(32_000, 16)}).spec,
    "beams 20x4": lambda: search(20, 4),
    "beams 500x64": lambda: search(500, 64),
    "curves 1x100,000": lambda: rf.viz.curves({"loss": weights(1, 100_000)[0]}).spec,
    "curves 500x1,000": lambda: rf.viz.curves({f"series {n}": weights(1, 1000)[0] for n in range(500)}).spec,
}


def heat_map() -> None:
    """What matplotlib takes for a small picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4, 3), layout="constrained")
    FigureCanvasAgg(figure)
    figure.subplots().imshow(np.eye(12))
    figure.savefig(io.BytesIO(), format="png")


def seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.parametrize("name", CASES)
def test_the_static_form_takes_a_few_small_heat_maps(name):
    spec = CASES[name]()
    drawing = drawing_of(spec)
    parts: dict[str, Callable[[], Any]] = {
        "matplotlib": heat_map,
        "text": lambda: text_of(spec),
        "drawing": lambda: drawing_of(spec),
        "png": lambda: png(lighter(drawing), theme("light")),
        "html": lambda: html_of(spec),
    }
    for work in parts.values():
        work()
    took = {part: statistics.median(seconds(work) for _ in range(ROUNDS)) for part, work in parts.items()}
    cells = "  ".join(f"{part} {1e3 * value:6.1f} ms" for part, value in took.items())
    print(f"\n{name:38} {cells}  {len(html_of(spec)) / 1e3:6.1f} kB")
    assert took["html"] < 10 * took["matplotlib"]
