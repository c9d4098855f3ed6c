"""Attention of a running loop, in the page: it grows while the cell runs, and each weight read there is the one NumPy computes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from browser.what_if import sweep
from playwright.sync_api import expect
from waiting import ms

SOURCE, TARGET, KEY = 5, 12, 3
PAUSE = 7  # the loop waits after this step until the test lets it go on

CELL = f"""
import time
from pathlib import Path
import numpy as np
import rfnb as rf
source, target, key = rf.Dim({SOURCE}, name="source"), rf.Dim({TARGET}, name="target"), rf.Dim({KEY}, name="key")
keys = rf.convert_to_tensor(np.load("keys.npy"), dims=[source, key])
queries = rf.convert_to_tensor(np.load("queries.npy"), dims=[target, key])
with rf.record() as trace:
    rf.show(trace)
    loop = rf.Loop(axis=target)
    loop.state.context = rf.reduce_mean(keys, axis=source)
    for _ in loop:
        loop.state.context = rf.dot_attention(loop.unstack(queries), keys, keys, key_dim=key, axis=source)
        while loop.num_steps == {PAUSE} + 1 and not Path("stop").exists():
            time.sleep(0.02)
"""


def weights(queries: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Softmax over the source of the scaled products, in NumPy."""
    energies = queries.astype(np.float64) @ keys.T.astype(np.float64) / np.sqrt(keys.shape[1])
    exp = np.exp(energies - energies.max(axis=1, keepdims=True))
    return exp / exp.sum(axis=1, keepdims=True)


@pytest.fixture
def expected(lab) -> np.ndarray:
    """The weights; the notebook reads the same keys and queries."""
    random = np.random.default_rng(1)
    keys, queries = (
        random.normal(size=(SOURCE, KEY)).astype(np.float32),
        random.normal(size=(TARGET, KEY)).astype(np.float32),
    )
    np.save(lab.server.root / "keys.npy", keys)
    np.save(lab.server.root / "queries.npy", queries)
    return weights(queries, keys)


@pytest.fixture
def view(lab, expected):
    """The attention view, its cell waiting in the middle of the loop."""
    lab.open(lab.write("attention.ipynb", CELL))
    lab.run_all()
    found = lab.page.locator('[data-kind="attention"]')
    expect(found).to_have_attribute("data-step", str(PAUSE), timeout=ms(60))
    assert lab.cells()[0]["state"] == "running"
    return found


def finish(lab, view) -> None:
    """Lets the loop run to its end."""
    (lab.server.root / "stop").touch()
    lab.wait_cells()
    expect(view).to_have_attribute("data-step", str(TARGET - 1))


def read(view) -> tuple[int, int, float]:
    """Row, column and weight that the view says are under its cursor."""
    value = view.locator(".rfnb-readout .rfnb-value")
    expect(value).to_be_visible()
    return int(view.get_attribute("data-row")), int(view.get_attribute("data-col")), float(value.text_content())


def test_attention_grows_while_the_cell_runs(lab, view):
    finish(lab, view)
    assert lab.errors == []


def test_every_weight_under_the_pointer_is_the_one_numpy_computes(lab, view, expected):
    finish(lab, view)
    seen = {
        (int(at["row"]), int(at["col"])): float(at["value"]) for at in sweep(view, right=17, down=9) if at.get("row")
    }
    assert set(seen) == {(row, col) for row in range(TARGET) for col in range(SOURCE)}
    for (row, col), weight in seen.items():
        assert weight == pytest.approx(expected[row, col], abs=2e-4), (row, col)
    assert lab.errors == []


def test_the_keyboard_reads_the_same_weights_while_the_cell_runs(lab, view, expected):
    view.locator(".rfnb-pane").focus()
    keys = lab.page.keyboard
    for row in range(4):
        for col in range(SOURCE):
            keys.press(
                "ArrowDown" if row and not col else "ArrowRight"
            )  # the first key puts the cursor on the first cell
            assert read(view) == (row, col, pytest.approx(expected[row, col], abs=2e-4))
        keys.press("Home")
    assert lab.cells()[0]["state"] == "running"
    finish(lab, view)
    assert lab.errors == []


def test_the_stored_output_is_the_finished_picture(lab, view, expected):
    finish(lab, view)
    lab.page.wait_for_function(
        """(text) => [...window.jupyterapp.shell.currentWidget.content.model.cells][0].outputs.toJSON()
            .some(o => (o.data?.['text/plain'] ?? '').includes(text))""",
        arg=f"{TARGET} steps of loop",
    )
    (output,) = [o for o in lab.cells()[0]["outputs"] if "data" in o]
    page = output["data"]["text/html"]
    assert "<img" in page.split("<script")[0] and 'class="rfnb-frame"' in page, "a picture, then what makes it alive"
    shown = [float(number) for number in re.findall(r"\d\.\d\d\b", output["data"]["text/plain"])]
    assert shown[: expected.size] == [
        pytest.approx(weight, abs=0.006) for weight in expected.ravel()
    ]  # then the states
