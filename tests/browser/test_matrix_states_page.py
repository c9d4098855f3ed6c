"""Matrix states in JupyterLab, of a layer in a loop and of a model of transformers in `generate`: gates are read, a state is changed
by hand, and the rest is as the paper says.

The expected numbers are made in the kernel by a step-by-step recurrence in plain torch.
"""

from __future__ import annotations

import json
import re

import pytest
from browser.what_if import click, press, sweep
from playwright.sync_api import expect
from waiting import LONG, ms

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
HYBRID = """
import json
from unittest import mock
import torch
import transformers
from transformers.models.qwen3_next import modeling_qwen3_next as of_model
import rfnb as rf
torch.manual_seed(0)
sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}
sizes |= {"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 3, "linear_value_head_dim": 2}
sizes |= {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
config = transformers.Qwen3NextConfig(vocab_size=40, layer_types=["linear_attention", "full_attention"], intermediate_size=32, **sizes)
model = transformers.Qwen3NextForCausalLM(config).eval()
for parameter in model.parameters():
    if parameter.ndim > 1:
        parameter.data.normal_(0, 0.3)
model.model.layers[0].linear_attn.A_log.data.fill_(-2)  # it keeps more of its state
ids = torch.tensor([[7, 30, 12, 3, 25, 18]])
how = {"max_new_tokens": 7, "do_sample": False, "pad_token_id": 0, "output_scores": True, "return_dict_in_generate": True}

def speak():
    return model.generate(ids, **how)

def by_the_paper(step=None, change=lambda state: state):
    # gates, norms and scores of all steps if the state at the end of one step is changed before it is read
    calls = []

    def rule(query, key, value, g, beta, initial_state=None, **rest):
        q, k = (x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt() for x in (query, key))
        q, k = (x.repeat_interleave(value.shape[2] // x.shape[2], 2) for x in (q / q.shape[-1] ** 0.5, k))
        S = torch.zeros(*k.shape[:1], *k.shape[2:], value.shape[-1]) if initial_state is None else initial_state
        reads = []
        for t in range(q.shape[1]):
            S = g[:, t].exp()[..., None, None] * S
            seen = (k[:, t, :, :, None] * S).sum(-2)
            S = S + beta[:, t, :, None, None] * k[:, t, :, :, None] * (value[:, t] - seen)[:, :, None]
            S = change(S) if t == q.shape[1] - 1 and len(calls) == step else S
            reads.append((q[:, t, :, :, None] * S).sum(-2))
        calls.append((g[0, -1].exp().tolist(), beta[0, -1].tolist(), S[0].square().sum((-2, -1)).sqrt().tolist()))
        return torch.stack(reads, 1), S

    names = "torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"
    with mock.patch.multiple(of_model, **dict.fromkeys(names, rule)):
        made = speak()
    return calls, told(made)

def told(made):
    return [made.sequences[0, ids.shape[1]:].tolist(), [round(float(each.max()), 3) for each in made.scores]]

def without_head(state, head):
    state = state.clone()
    state[:, head] = 0
    return state

run = rf.run(speak, name="speak", paused=True, record={"model": model})
run.step(3)
run
"""
FUTURES = """
calls, plain = by_the_paper()
heads = [by_the_paper(2, lambda state: without_head(state, head))[1] for head in range(4)]
print(json.dumps({"calls": calls, "plain": plain, "whole": by_the_paper(2, torch.zeros_like)[1], "heads": heads, "state": run.state,
                  "result": told(run.result) if run.state == "done" else None,
                  "branches": [[one.name, [str(change) for change in one.changes], told(one.result)] for one in run.branches]}))
"""
TOLD = """
forget, write, plain = by_the_paper(None)
print(json.dumps({"forget": forget.tolist(), "write": write.tolist(), "plain": plain.tolist(), "cut": by_the_paper(5)[2].tolist(),
                  "state": run.state, "result": run.result.raw_tensor[0].tolist() if run.state == "done" else None}))
"""


def told(lab, cell=1):
    return json.loads(lab.run_cell(cell)[0]["text"])


def read(view, rows, columns, *tracks):
    """The readouts of the cells of a view's tracks, each a list of rows."""
    said = {(at["track"].rpartition(".")[2], at["row"], at["col"]): at["value"] for at in sweep(view, 9, 5)}
    return [
        [
            [float(re.sub("[^-.0-9e]", "", said[track, str(row), str(column)])) for column in columns]
            for row in range(rows)
        ]
        for track in tracks
    ]


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
    for gate, shown in zip(("forget", "write"), read(strips, 2, (0, 3, 5), "forget_gate", "write_gate")):
        assert transposed(shown) == [pytest.approx(wanted[gate][step], abs=2e-3) for step in (0, 3, 5)]
    click(strips, r"(.*\.)?s\.matrix 11 5", "track", "row", "col")
    hands = strips.locator(".rfnb-edits")
    expect(hands).to_contain_text("after step 5: in the next step, 6")
    hands.get_by_label("units", exact=True).select_option(label="all units")
    hands.get_by_role("button", name="Zero").click()
    expect(hands.locator(".rfnb-edits-pending")).to_contain_text("In the next step, 6: state")
    tools.locator("[data-do=resume]").click()
    expect(tools).to_have_attribute("data-state", "done")
    assert wanted["cut"] != pytest.approx(wanted["plain"], abs=1e-3)
    assert told(lab)["result"] == pytest.approx(wanted["cut"], abs=1e-5)
    assert lab.errors == []


def test_a_head_of_the_state_of_a_hybrid_is_taken_away_between_two_tokens_by_mouse_and_by_keys(lab):
    """In `generate` of a model of transformers: by the norm of all of it, by the norm of a head, and by keys alone."""
    page = lab.page
    lab.open(lab.write("hybrid.ipynb", HYBRID, FUTURES))
    lab.start("notebook:run-cell-and-select-next")
    tools = page.locator('[data-kind="control"]').first
    expect(tools).to_have_attribute("data-state", "paused", timeout=ms(120))
    strips = (
        page.locator('.rfnb-root.rfnb-part[data-kind="states"]').filter(has_text="linear_attn, best hypothesis").first
    )
    expect(strips).to_have_attribute("data-step", "2")
    wanted = told(lab)
    for at, shown in enumerate(read(strips, 4, range(3), "forget_gate", "write_gate", "norm")):
        assert transposed(shown) == [pytest.approx(call[at], abs=2e-3) for call in wanted["calls"][:3]]
    rail = page.locator(".rfnb-rail").first
    for place, least in ((r"(.*\.)?matrix -1 2", 160), (r"(.*\.)?norm 1 2", 260)):
        at = press(strips, place, "track", "row", "col")
        for part in range(1, 13):
            page.mouse.move(at[0], at[1] + least * part / 12)
        expect(strips).to_have_attribute("data-dragged", re.compile(r"\d+"))
        page.mouse.up()
    expect(rail.locator(".rfnb-rail-row")).to_have_count(3)
    strips.locator(".rfnb-pane").focus()
    page.keyboard.press("Control+Home")
    for _ in range(40):
        if strips.get_attribute("data-track").endswith("matrix"):
            break
        page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    hands = strips.locator(".rfnb-edits")
    expect(hands).to_contain_text("in step 2: in a branch from step 2")
    unit = int(strips.get_attribute("data-row"))
    hands.get_by_label("units", exact=True).focus()
    page.keyboard.press("ArrowDown")
    while page.evaluate("document.activeElement.textContent") != "Zero":
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(rail.locator(".rfnb-rail-row")).to_have_count(4)
    tools.locator("[data-do=resume]").click()
    expect(tools).to_have_attribute("data-state", "done")
    expect(rail).not_to_contain_text("running", use_inner_text=True, timeout=1000 * LONG)
    now = told(lab)
    (_, whole, first), (_, norm, second), (_, keys, third) = now["branches"]
    assert [len(each) for each in (whole, norm, keys)] == [1, 1, 1]
    expected = [wanted["plain"], wanted["whole"], wanted["heads"][1], wanted["heads"][unit // 6]]
    for (labels, scores), (wanted_labels, wanted_scores) in zip([now["result"], first, second, third], expected):
        assert labels == wanted_labels and scores == pytest.approx(wanted_scores, abs=2e-3)
    assert first != now["result"] and second != first
    assert lab.errors == []
