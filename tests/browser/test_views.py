"""The views in a real JupyterLab: live while a cell runs, the last state, the stored output, the theme."""

from __future__ import annotations

from playwright.sync_api import expect
from waiting import ms

_MODEL = """
import time as clock
from pathlib import Path
import rfnb as rf
batch = rf.Dim(2, name="batch")
source = rf.ragged_dim([7, 5], over=batch, name="source")
target, key = rf.Dim(8, name="target"), rf.Dim(4, name="key")
rf.set_random_seed(1)
keys, start = rf.random_normal([batch, source, key]), rf.random_normal([batch, key])
class Attention(rf.Module):
    def __call__(self, query):
        return rf.dot_attention(query, keys, keys, key_dim=key, axis=source)
class Decoder(rf.Module):
    def __init__(self):
        self.attention = Attention()
    def __call__(self, pause):  # after this step, until there is a file "stop"
        loop = rf.Loop(axis=target)
        loop.state.h = start
        for _ in loop:
            loop.state.h = rf.tanh(loop.state.h * 0.5 + self.attention(loop.state.h))
            while loop.num_steps == pause + 1 and not Path("stop").exists():
                clock.sleep(0.02)
            out = loop.stack(loop.state.h)
        return out
"""
_LIVE = """
with rf.record(kinds={"attention", "states"}) as trace:
    rf.show(trace, live=True)
    Decoder()(PAUSE)
"""

_PICTURE = "canvas => canvas.toDataURL()"


def test_a_live_view_advances_while_the_cell_runs_and_ends_with_the_last_state(lab):
    (lab.server.root / "stop").unlink(missing_ok=True)
    lab.open(lab.write("live.ipynb", _MODEL, _LIVE.replace("PAUSE", "2")))
    lab.run_all()
    view = lab.page.locator('.rfnb-part[data-kind="attention"]')
    expect(view).to_have_attribute("data-step", "2", timeout=ms(60))
    assert lab.cells()[1]["count"] is None, "the cell is still running"
    expect(view).to_have_attribute("data-live", "true")
    (lab.server.root / "stop").touch()
    cells = lab.wait_cells()
    expect(view).to_have_attribute("data-step", "7")
    expect(view).to_have_attribute("data-live", "false")
    [output] = cells[1]["outputs"]
    assert "largest magnitude" in "".join(output["data"]["text/plain"])
    assert "<img" in "".join(output["data"]["text/html"])
    assert "application/vnd.jupyter.widget-view+json" in output["data"]
    colors = """canvas => { const d = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        return new Set(new Uint32Array(d.buffer)).size; }"""
    assert view.locator(".rfnb-pane canvas").evaluate(colors) > 5
    assert lab.errors == []


def test_keys_move_the_cursor_and_linked_views_follow_and_the_theme_changes(lab):
    lab.open(lab.write("linked.ipynb", _MODEL, _LIVE.replace("PAUSE", "-1").replace(", live=True", "")))
    lab.run_all()
    lab.wait_cells()
    attention, states = (lab.page.locator(f'.rfnb-part[data-kind="{kind}"]') for kind in ("attention", "states"))
    pane = attention.locator(".rfnb-pane")
    pane.focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowDown", "End"):
        lab.page.keyboard.press(key)
    expect(attention).to_have_attribute("data-row", "2")
    expect(attention).to_have_attribute("data-col", "6")
    expect(states).to_have_attribute("data-linked", "2")
    expect(attention.locator(".rfnb-readout")).to_contain_text("target 2")
    lab.page.locator(".rfnb-group-bar select[aria-label=sequence]").select_option("1")
    expect(states).to_have_attribute("data-seq", "1")
    light = pane.locator("canvas").evaluate(_PICTURE)
    lab.page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Dark'})")
    lab.page.wait_for_function("document.body.dataset.jpThemeLight === 'false'")
    lab.page.wait_for_function(
        f"light => ({_PICTURE})(document.querySelector('[data-kind=attention] .rfnb-pane canvas')) !== light", arg=light
    )
    assert lab.errors == []


def test_show_as_the_last_line_displays_once_and_a_view_displays_itself(lab):
    script = "import rfnb as rf, numpy as np\nview = rf.viz.attention(np.eye(3), title='mine')"
    lab.open(lab.write("once.ipynb", script, "rf.show(view)", "view"))
    lab.run_all()
    cells = lab.wait_cells()
    assert [len(cell["outputs"]) for cell in cells] == [0, 1, 1]
    expect(lab.page.locator('.rfnb-root[data-kind="attention"]')).to_have_count(2)
    assert lab.errors == []
