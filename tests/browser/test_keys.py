"""Keys pressed inside of a view stay there: JupyterLab's own would delete the cell, turn it into text, or leave it."""

from __future__ import annotations

import string

from playwright.sync_api import expect
from seed import part_of
from waiting import ms

from rfnb.viz.kinds import KINDS

# One view of each kind, with all its controls in sight: several maps and sequences, cuts, parts of scores, logarithmic axes, a table.
_VIEWS = """
import numpy as np, rfnb as rf
rf.set_random_seed(1)
batch, key, head = rf.Dim(2, name="batch"), rf.Dim(4, name="key"), rf.Dim(3, name="head")
time = rf.ragged_dim([5, 3], over=batch, name="time")
target = rf.Dim(4, name="target")
keys, query = rf.random_normal([batch, time, head, key]), rf.random_normal([batch, target, head, key])
with rf.record() as trace:
    loop = rf.Loop(axis=target, name="decoder")
    loop.state.h = rf.zeros([batch, head, key])
    for _ in loop:
        loop.state.h = rf.dot_attention(loop.unstack(query) + loop.state.h, keys, keys, key_dim=key, axis=time)
rf.show(trace)
"""
_MORE = """
rf.show({"keys": keys, "query": query})
rf.viz.curves({"loss": [3.0, 2.0, 1.5], "learning rate": [1e-3, 1e-4, 1e-5]}).show()
search = [{"tokens": [1, 2], "parents": [0, 0], "scores": [-1.0, -2.0], "log_probs": [-0.5, -1.0], "part:lm": [-0.5, -1.0],
           "base": [0.0, 0.0], "cand_tokens": [1, 2, 3], "cand_parents": [0, 0, 0], "cand_scores": [-1.0, -2.0, -3.0],
           "cand_kept": [True, True, False]} for _ in range(3)]
rf.viz.beams([{name: np.array([value, value]) for name, value in step.items()} for step in search]).show()
rf.viz.distribution(np.eye(3), [0, 2, -1]).show()
steps = rf.Loop(axis=target)
steps.state.x = rf.zeros([])
with steps:
    steps.state.x = steps.state.x + 1
rf.show(steps)
layer = rf.Sequential(rf.Linear(key, head), rf.Linear(head, key))
with rf.record(ops=True) as trace:
    rf.Sequential(layer, layer)(keys)
rf.viz.flow(trace).show()
run = rf.run(lambda: [rf.gate(step) for step in range(3)], paused=True)
run.break_when(2)
rf.viz.control(run).show()
branched = rf.run(lambda: [rf.gate(step) for step in range(3)], name="main")
branched.result
branched.from_step(1, paused=False).result
rf.show(branched.tree())
traces = []
for change in (0.0, 0.5):
    with rf.record(values=True) as other:
        rf.Sequential(layer, layer)(keys + change)
    traces.append(other)
rf.viz.diff(*traces).show()
from rfnb.viz.question.mask import mask_spec
rf.show(mask_spec("causal", [[1, 0], [1, 1]]))
weights = np.full((3, 40, 300), 1 / 300)
rf.viz.attention(weights, dims=["head", "target", "source"], title="table").show()
"""

_FOCUSABLES = """() => [...document.querySelectorAll('.rfnb-root')].filter(root => !root.parentElement.closest('.rfnb-root'))
    .flatMap(root => [...root.querySelectorAll('*')])
    .filter(e => e.tabIndex >= 0 && !e.disabled && e.checkVisibility())"""
_NOTEBOOK = """() => {
    const panel = window.jupyterapp.shell.currentWidget.content;
    return {cells: [...panel.model.cells].map(cell => [cell.type, cell.sharedModel.getSource()]), active: panel.activeCellIndex,
        selected: panel.widgets.filter(cell => panel.isSelectedOrActive(cell)).length, mode: panel.mode,
        views: document.querySelectorAll('.rfnb-root').length, dialogs: document.querySelectorAll('.jp-Dialog').length,
        inputs: panel.widgets.filter(cell => cell.inputHidden).length,
        numbers: document.querySelectorAll('.jp-Notebook .cm-lineNumbers').length};
}"""
_ARROWS = ("ArrowDown", "ArrowRight", "ArrowUp", "ArrowLeft")
_KEYS = [*string.ascii_lowercase, *string.ascii_uppercase, *string.digits, *_ARROWS, "Escape"]
# Keys as events at what has the focus, which the control gets again where it has lost it.
_PRESS = f"""([index, keys]) => {{
    const codes = {{ArrowLeft: 37, ArrowUp: 38, ArrowRight: 39, ArrowDown: 40, Escape: 27}};
    for (const key of keys) {{
        if (!document.activeElement.closest('.rfnb-root')) ({_FOCUSABLES})()[index]?.focus();
        const keyCode = codes[key] ?? key.toUpperCase().charCodeAt(0), shiftKey = /^[A-Z]$/.test(key);
        const how = {{key, keyCode, shiftKey, bubbles: true, cancelable: true, composed: true}};
        for (const type of ['keydown', 'keyup']) document.activeElement.dispatchEvent(new KeyboardEvent(type, how));
    }}
}}"""


def _open(lab):
    lab.open(lab.write("keys.ipynb", _VIEWS, _MORE, "1 + 1"))
    lab.run_all()
    lab.wait_cells()
    # The notebook in full, whatever is in sight.
    for kind in KINDS:
        lab.page.locator(f'.rfnb-root[data-kind="{kind}"]').first.wait_for()
    lab.page.locator('.rfnb-root[data-kind="attention"]').last.locator("[data-do=table]").click()
    return lab.page


def _focus(page, index: int) -> dict | None:
    """Puts the focus on a focusable element of the views by its number; says which it is, None if there are no more."""
    return page.evaluate(
        f"""index => {{
        const element = ({_FOCUSABLES})()[index];
        if (!element) return null;
        element.focus();
        return {{is: element === document.activeElement, kind: element.closest('.rfnb-root').dataset.kind, tag: element.localName,
            label: element.getAttribute('aria-label') ?? element.textContent.slice(0, 30)}};
    }}""",
        index,
    )


def test_letters_and_arrows_on_each_control_leave_the_notebook_as_it_is(lab):
    """The keyboard is tried on a part of the controls, and on all of them the same keys as events, which JupyterLab hears alike."""
    page = _open(lab)
    _focus(page, 0)
    before = page.evaluate(_NOTEBOOK)
    assert before["mode"] == "command", "where JupyterLab listens to single letters"
    controls = page.evaluate(f"({_FOCUSABLES})().length")
    by_keyboard, count, tags, kinds = part_of(range(controls), 6), 0, set(), set()
    while (at := _focus(page, count)) is not None:
        assert at["is"], at
        before["active"] = page.evaluate(_NOTEBOOK)["active"]  # the cell that the control is in
        page.evaluate(_PRESS, [count, _KEYS])
        assert page.evaluate(_NOTEBOOK) == before, at
        for key in _KEYS if count in by_keyboard else ():
            page.keyboard.press(key)
            # What is redrawn meanwhile takes the focus away with it; then keys go to the page, not to the view.
            if not page.evaluate("() => document.activeElement.closest('.rfnb-root') !== null"):
                _focus(page, count)
        assert page.evaluate(_NOTEBOOK) == before, at
        count, tags, kinds = count + 1, tags | {at["tag"]}, kinds | {at["kind"]}
    assert kinds == set(KINDS)
    assert {"select", "input", "button", "div"} <= tags and count > 25, (count, tags)
    assert lab.errors == []


def test_a_control_that_is_used_keeps_the_focus(lab):
    page = _open(lab)
    count = 0
    while (at := _focus(page, count)) is not None:
        if at["tag"] == "button":
            page.keyboard.press("Enter")
            # Where a run ends by it, JupyterLab makes its output anew, and the focus comes back to the new button.
            page.wait_for_function("() => document.activeElement.closest('.rfnb-root') !== null", timeout=ms(10))
            page.keyboard.press("Enter")
        count += 1
    assert lab.errors == []


def test_arrows_work_in_choosers_sliders_and_tables(lab):
    page = _open(lab)
    selects = page.locator(".rfnb-root select:visible")
    assert selects.count() >= 5
    for select in selects.all():
        select.focus()
        page.keyboard.press("ArrowDown")
        expect(select).to_have_js_property("selectedIndex", 1)
        page.keyboard.press("ArrowUp")
        expect(select).to_have_js_property("selectedIndex", 0)
    slider = page.get_by_role("slider", name="length exponent of the n-best list")
    slider.focus()
    for key, value in (("ArrowRight", "0.1"), ("ArrowUp", "0.2"), ("ArrowLeft", "0.1")):
        page.keyboard.press(key)
        assert slider.input_value() == value
    table = page.locator(".rfnb-root .rfnb-table:visible")
    table.focus()
    page.keyboard.press("ArrowDown")
    page.wait_for_function("() => [...document.querySelectorAll('.rfnb-table')].some(table => table.scrollTop > 0)")
    assert lab.errors == []
