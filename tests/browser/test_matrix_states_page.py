"""The matrix state of a recurrent layer in JupyterLab: gates are read, the state is set by a click, and the rest is as the paper says.

The expected numbers are made in the kernel by a step-by-step recurrence in plain torch, from the weights alone.
"""

from __future__ import annotations

import json
import re

import pytest
from browser.what_if import click, find
from playwright.sync_api import expect
from waiting import ms, wait_until

LAYER = """
import json
import torch
import torch.nn.functional as F
import rfnb as rf
torch.manual_seed(4)
batch, time = rf.Dim(1, name="batch"), rf.Dim(7, name="time")
width, out = rf.Dim(6, name="width"), rf.Dim(5, name="out")
keys, values = rf.Dim(6, name="keys"), rf.Dim(4, name="values")
layer = rf.GatedDeltaNet(width, out, key_dim_total=keys, value_dim_total=values, num_heads=2)
x = rf.random_normal([batch, time, width])

def steps():
    loop = rf.Loop(axis=time, name="steps")
    loop.state.s = layer.default_initial_state(batch_dims=[batch])
    for _ in loop:
        y, loop.state.s = layer(loop.unstack(x), state=loop.state.s, spatial_dim=rf.single_step_dim)
    return y

def by_the_paper(forgotten):
    # the gates of all steps, and the last output if the state behind step `forgotten` is 0
    w, frames = {name: each.raw_tensor.detach() for name, each in layer.named_parameters()}, x.raw_tensor[0]
    given, kernel = frames @ w["qkv.weight"], w["conv.weight"]
    padded = torch.cat([given.new_zeros(kernel.shape[1] - 1, given.shape[1]), given])
    mixed = torch.stack([sum(kernel[:, i] * padded[t + i] for i in range(kernel.shape[1])) for t in range(7)])
    q, k, v = (part.unflatten(-1, (2, -1)) for part in F.silu(mixed + w["conv.bias"]).split([6, 6, 4], -1))
    q, k = (part / (part.square().sum(-1, keepdim=True) + 1e-6).sqrt() for part in (q, k))
    forget = torch.exp(-w["log_rate"].exp() * F.softplus(frames @ w["decay.weight"] + w["decay_bias"]))
    write, S = torch.sigmoid(frames @ w["write.weight"]), torch.zeros(2, 3, 2)
    for t in range(7):
        S = forget[t, :, None, None] * S
        seen = torch.einsum("hk,hkv->hv", k[t], S)
        S = S + write[t, :, None, None] * k[t, :, :, None] * (v[t] - seen)[:, None]
        S = S * (t != forgotten)
    read = torch.einsum("hk,hkv->hv", q[-1], S)
    read = read / (read.square().mean(-1, keepdim=True) + 1e-6).sqrt() * w["norm.scale"]
    return forget, write, (read.flatten() * F.silu(frames[-1] @ w["gate.weight"])) @ w["out.weight"]

run = rf.run(steps, name="steps", paused=True, record={"model": layer})
run.step(3)
run
"""
TOLD = """
forget, write, plain = by_the_paper(None)
print(json.dumps({"forget": forget.tolist(), "write": write.tolist(), "plain": plain.tolist(), "cut": by_the_paper(5)[2].tolist(),
                  "state": run.state, "result": run.result.raw_tensor[0].tolist() if run.state == "done" else None}))
"""


def told(lab, cell=1):
    before = lab.cells()[cell]["count"]
    lab.page.evaluate(f"() => {{ window.jupyterapp.shell.currentWidget.content.activeCellIndex = {cell}; }}")
    lab.start("notebook:run-cell")
    wait_until(lambda: lab.cells()[cell]["count"] != before and lab.cells()[cell]["state"] == "idle")
    return json.loads(lab.wait_cells()[cell]["outputs"][0]["text"])


def read(view, track, rows, columns):
    """What a view says of the cells of a track."""
    found = []
    for row in range(rows):
        found.append([])
        for column in range(columns):
            find(view, rf"(.*\.)?{track} {row} {column}", "track", "row", "col")
            found[-1].append(float(re.sub("[^-.0-9e]", "", view.locator(".rfnb-readout .rfnb-value").inner_text())))
    return found


def transposed(rows):
    return [list(each) for each in zip(*rows, strict=True)]


def test_the_state_of_a_gated_delta_net_is_set_to_zero_by_a_click_and_the_run_goes_on_as_the_paper_says(lab):
    page = lab.page
    lab.open(lab.write("delta.ipynb", LAYER, TOLD))
    lab.start("notebook:run-cell-and-select-next")
    strips = page.locator('.rfnb-root.rfnb-part[data-kind="states"]').first
    tools = page.locator('[data-kind="control"]').first
    expect(tools).to_have_attribute("data-state", "paused", timeout=ms(60))
    for _ in range(3):
        tools.locator("[data-do=step]").click()
    expect(tools).to_have_attribute("data-at", "6")
    wanted = told(lab)
    assert transposed(read(strips, "forget_gate", 2, 6)) == [
        pytest.approx(row, abs=2e-3) for row in wanted["forget"][:6]
    ]
    assert transposed(read(strips, "write_gate", 2, 6)) == [pytest.approx(row, abs=2e-3) for row in wanted["write"][:6]]
    click(strips, r"(.*\.)?s\.matrix 11 5", "track", "row", "col")
    hands = strips.locator(".rfnb-hands")
    expect(hands).to_contain_text("after step 5: in the next step, 6")
    hands.get_by_label("units", exact=True).select_option(label="all units")
    hands.get_by_role("button", name="Zero").click()
    expect(hands.locator(".rfnb-hands-pending")).to_contain_text("In the next step, 6: state")
    tools.locator("[data-do=resume]").click()
    expect(tools).to_have_attribute("data-state", "done")
    assert wanted["cut"] != pytest.approx(wanted["plain"], abs=1e-3)
    assert told(lab)["result"] == pytest.approx(wanted["cut"], abs=1e-5)
    assert lab.errors == []
