"""Models of four families, held in JupyterLab: a weight of each is dragged, and what follows is what the model gives by itself.

The expected words are made in plain torch, with the same row put in the place of what a softmax gives.
"""

from __future__ import annotations

import json
import re

import pytest
from browser.what_if import find, press
from playwright.sync_api import expect
from waiting import ms

pytest.importorskip("transformers", reason="opens its models")

MODELS = '''
import json
import pathlib
import time
from unittest import mock

import torch
import transformers
from torch import nn
from torch.nn import functional

import rfnb as rf

ids, tokens = torch.tensor([[3, 4, 5, 9]]), {"vocab_size": 11, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
how = {"min_new_tokens": 5, "max_new_tokens": 5, "do_sample": False, "attention_mask": ids >= 0}


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(11, 16), nn.Linear(16, 11)
        self.positions = nn.Embedding(32, 16)
        self.transformer = nn.Transformer(16, 2, 1, 1, 24, batch_first=True)

    def put(self, ids):
        return self.embed(ids) + self.positions(torch.arange(ids.shape[1]))

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.out(self.transformer(self.put(source), self.put(target), tgt_mask=mask))


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.key, self.query, self.value = (nn.Linear(16, 8, bias=False) for _ in range(3))

    def forward(self, x):
        T = x.shape[1]
        weights = self.query(x) @ self.key(x).transpose(-2, -1) * 8**-0.5
        weights = weights.masked_fill(torch.tril(torch.ones(T, T)) == 0, float("-inf"))
        return torch.softmax(weights, dim=-1) @ self.value(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(Head() for _ in range(2))
        self.proj, self.ffwd = nn.Linear(16, 16), nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16))
        self.ln1, self.ln2 = nn.LayerNorm(16), nn.LayerNorm(16)

    def forward(self, x):
        y = self.ln1(x)
        x = x + self.proj(torch.cat([head(y) for head in self.heads], dim=-1))
        return x + self.ffwd(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.positions = nn.Embedding(11, 16), nn.Embedding(32, 16)
        self.blocks, self.lm_head = nn.Sequential(Block(), Block()), nn.Linear(16, 11)

    def forward(self, ids):
        return self.lm_head(self.blocks(self.embed(ids) + self.positions(torch.arange(ids.shape[1]))))


def strong(model, seed, std):
    torch.manual_seed(seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=std)
    return model.eval()


sizes = {"n_positions": 32, "n_embd": 16, "n_layer": 2, "n_head": 2}
gpt = strong(transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, **tokens)), 17, 1.0)
sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
sizes |= {"encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 32, "decoder_start_token_id": 1}
bart = strong(transformers.BartForConditionalGeneration(transformers.BartConfig(**sizes, **tokens)), 1, 1.0)
translator, own = strong(Translator(), 178, 1.0), strong(GPT(), 11, 0.7)


def longer(model, text, *before):
    for t in range(5):
        rf.gate(t)
        with torch.no_grad():
            text = torch.cat([text, model(*before, text)[:, -1].argmax(-1, keepdim=True)], 1)
    return text[0, -5:].tolist()


def instead(fn, shape, nth, col):
    """What a function gives if the last row of head 0 of the nth softmax of this shape is all on one source."""
    softmax, met = torch.softmax, []

    def put(weights):
        if tuple(weights.shape[-2:]) == shape:
            met.append(weights)
            if len(met) == nth + 1:
                weights = weights.clone()
                row = weights.flatten(0, -3)[0, -1]
                row.zero_()[col] = 1
        return weights

    def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, **_):
        scores = query @ key.transpose(-2, -1) * (scale or query.shape[-1] ** -0.5)
        if is_causal:
            scores = scores.masked_fill(torch.ones(scores.shape[-2:]).tril() == 0, -torch.inf)
        if attn_mask is not None:
            is_bool = attn_mask.dtype == torch.bool
            scores = scores.masked_fill(~attn_mask, -torch.inf) if is_bool else scores + attn_mask
        return put(softmax(scores, -1)) @ value

    written = mock.patch.object(torch, "softmax", lambda *args, **kwargs: put(softmax(*args, **kwargs)))
    with written, mock.patch.object(functional, "scaled_dot_product_attention", attention):
        result = fn()
    assert len(met) > nth
    return result


def held(name, model, fn, shape, nth, col):
    words = lambda: torch.as_tensor(fn()).flatten()[-5:].tolist()
    print(json.dumps([words(), instead(words, shape, nth, col)]))
    run = rf.run(fn, record={"model": model}, paused=True, name=name)
    run.step(3)
    return run
'''
HELD = {
    "GPT-2": 'gpt_run = held("GPT-2", gpt, lambda: gpt.generate(ids, **how), (1, 5), 0, 2)\ngpt_run',
    "BART": 'bart_run = held("BART", bart, lambda: bart.generate(ids, **how), (1, 4), 1, 1)\nbart_run',
    "nn.Transformer": 'torch_run = held("nn.Transformer", translator, lambda: longer(translator, ids[:, :1] * 0 + 1, ids), '
    "(2, 4), 0, 2)\ntorch_run",
    "own": 'own_run = held("own", own, lambda: longer(own, ids), (5, 5), 0, 2)\nown_run',
}
PLACES = {  # the map, the cell that is dragged: step, source
    "GPT-2": ("transformer.h.*.attn", "1 2"),
    "BART": ("encoder_attn", "1 1"),
    "nn.Transformer": ("multihead_attn", "1 2"),
    "own": ("blocks.*.heads", "1 2"),
}
# The second row of the map is made when the page lets it go on.
SWEEP = """
go, passes = pathlib.Path("go"), []
def number(output):
    passes.append(1)
    while len(passes) == 7 and not go.exists():
        time.sleep(0.01)
    return output.logits[0, -1, 3] - output.logits[0, -1, 7]
sweep = rf.patch_sweep(gpt, ids, ids.flip(1), number, live=True)
print(json.dumps(sweep.recovered.tolist()))
"""


def printed(lab, cell):
    (output,) = (each for each in lab.cells()[cell]["outputs"] if each["output_type"] == "stream")
    return json.loads(output["text"])


def shown(view):
    """The readouts of a map's last column, row by row."""
    found = []
    for place in ("0 3", "1 3"):
        find(view, place, "row", "col")
        found.append(float(view.locator(".rfnb-readout .rfnb-value").inner_text()))
    return found


def test_a_weight_of_each_family_is_dragged_and_a_sweep_fills_its_map(lab):
    page = lab.page
    lab.open(lab.write("families.ipynb", MODELS, *HELD.values(), SWEEP))
    lab.run_all()
    for cell in range(5):
        lab.wait_cell(cell)
    for cell, name in enumerate(HELD, 1):
        output = page.locator(".jp-CodeCell").nth(cell)
        output.evaluate("(el) => el.scrollIntoView()")
        maps = output.locator('.rfnb-root.rfnb-part[data-kind="attention"]').filter(has_text=PLACES[name][0]).first
        expect(maps).to_have_attribute("data-step", "2", timeout=ms(60))
        plain, wanted = ([str(label) for label in labels] for labels in printed(lab, cell))
        assert plain != wanted
        at = press(maps, PLACES[name][1], "row", "col")
        for part in range(1, 13):
            page.mouse.move(at[0], at[1] - 10 * part)
        text = r"\D+".join(wanted[:-1] if name == "BART" else wanted)  # which ends with its </s>
        expect(maps).to_have_attribute("data-dragged", re.compile(rf"^With .*: 1 on \d: \D*{text}\D"))
        page.mouse.up()
        row = output.locator(".rfnb-rail-row").nth(1)
        expect(row).to_contain_text(re.compile(text))
        row.click(modifiers=["Shift"])
        expect(output.locator(".rfnb-root.rfnb-part").filter(has_text=PLACES[name][0]).first).to_contain_text("A − B")
    output = page.locator(".jp-CodeCell").nth(5)
    output.evaluate("(el) => el.scrollIntoView()")
    view = output.locator(".rfnb-root").first
    assert shown(view) == [pytest.approx(0.939, abs=1e-3), 0.0]
    expect(view).to_have_attribute("data-live", "true")
    expect(view).not_to_contain_text("sum to 1")
    (lab.server.root / "go").touch()
    lab.wait_cells()
    expect(view).to_have_attribute("data-live", "false")
    assert shown(view) == pytest.approx([row[3] for row in printed(lab, 5)], abs=1e-3)
    assert lab.errors == []
