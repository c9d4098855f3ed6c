"""A run that is held by clicks in a page, for the tests of several hosts."""

from __future__ import annotations

from playwright.sync_api import expect

# A run that goes on for as long as the test needs, a step in 20 ms.
SETUP = """
import rfnb as rf
batch, feat, time = rf.Dim(2, name="batch"), rf.Dim(3, name="feat"), rf.Dim(20_000, name="time")
x = rf.random_normal([batch, time, feat])
def decay():
    loop = rf.Loop(axis=time, name="decay")
    loop.state.h = rf.zeros([batch, feat])
    for _ in loop:
        loop.state.h = 0.5 * loop.state.h + loop.unstack(x)
    return loop.state.h
run = rf.run(decay, name="decay", record={"steps": range(40)})
run.speed = 50
run
"""


def tools(lab):
    return lab.page.locator('[data-kind="control"]').first


def press(view, name):
    view.locator(f"[data-do={name}]").click()


def at(view) -> int:
    return int(view.get_attribute("data-at"))


def hold(view):
    """Pause a run, make three steps, and resume, all by clicks. Returns the step of the first pause."""
    expect(view).to_have_attribute("data-state", "running")
    press(view, "pause")
    expect(view).to_have_attribute("data-state", "paused")
    first = at(view)
    for _ in range(3):
        press(view, "step")
    expect(view).to_have_attribute("data-at", str(first + 3))
    expect(view).to_have_attribute("data-state", "paused")
    assert view.locator(".rfnb-run-words").inner_text().startswith(f'Paused before step {first + 3} of "decay"')
    press(view, "resume")
    expect(view).to_have_attribute("data-state", "running")
    press(view, "pause")
    expect(view).to_have_attribute("data-state", "paused")
    assert at(view) > first + 3
    return first
