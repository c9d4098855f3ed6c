"""A recording of a model is opened by somebody who does not have its code: all of it is there, as text and as numbers."""

from __future__ import annotations

import json
import os
import subprocess
import textwrap
from pathlib import Path

import torch
from warm import warm

import rfnb as rf

CODE = """
import torch
from torch import nn

class Label(str):
    pass

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.lstm = nn.Linear(8, 24), nn.LSTM(8, 8, batch_first=True)

    def forward(self, x):
        q, k, v = (each.view(*x.shape[:2], 2, 4).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        weights = (q @ k.transpose(-1, -2) / 2).softmax(-1)
        return self.lstm(x + (weights @ v).transpose(1, 2).flatten(2))[0]

class Tokenizer:
    def id_to_token(self, index):
        return Label(f"w{index}")

    def get_vocab_size(self):
        return 13

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(13, 8), nn.Linear(8, 13)
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
"""
READING = """
import importlib.util, json, sys
import rfnb as rf

assert importlib.util.find_spec("code_of_somebody") is None
trace = rf.load_trace(sys.argv[1])
ids = trace.select(kind="tokens")[0].values["ids"]
found = {
    "attention": {path: trace.attention[path].raw_tensor.tolist() for path in trace.attention},
    "dims": [dim.name for dim in trace.attention["blocks.0"].dims],
    "gates": trace.states["blocks.1.lstm"]["forget_gate"].raw_tensor.tolist(),
    "logits": trace.modules["head"][-1].values["outputs"][0][1].raw_tensor.tolist(),
    "texts": [ids.sparse_dim.vocab[index] for index in ids.raw_tensor[0].tolist()],
    "view": rf.show(trace).text(), "page": len(rf.show(trace).html()) > 1000,
    "foreign": sorted(name for name in sys.modules if name in ("code_of_somebody", "transformers", "tokenizers")),
}
print(json.dumps(found))
"""


def test_a_recording_is_whole_where_the_code_of_its_model_is_not(tmp_path, monkeypatch):
    (tmp_path / "code_of_somebody.py").write_text(textwrap.dedent(CODE))
    monkeypatch.syspath_prepend(str(tmp_path))
    import code_of_somebody as code

    torch.manual_seed(3)
    model, path = code.Model().eval(), tmp_path / "model.rfnb"
    ids = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 5, 12]])
    with torch.no_grad(), rf.record(model=model, labels=code.Tokenizer(), values=True) as trace:
        logits = model(ids)
    trace.save(path)
    # Another folder, and no way to the module.
    environment = {**os.environ, "PYTHONPATH": str(Path(rf.__file__).parents[1])}
    run = subprocess.run([*warm(), "-c", READING, str(path)], capture_output=True, text=True, env=environment, cwd="/")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["attention"] == {each: trace.attention[each].raw_tensor.tolist() for each in trace.attention}
    assert list(found["attention"]) == ["blocks.0", "blocks.1"] and found["dims"] == ["batch", "head", "time", "time"]
    assert found["gates"] == trace.states["blocks.1.lstm"]["forget_gate"].raw_tensor.tolist()
    assert found["logits"] == logits.tolist() and found["texts"] == ["w3", "w1", "w4", "w1", "w5"]
    assert trace.guessed  # and the file says so too
    assert found["view"] == rf.show(trace).text() and found["page"] and found["foreign"] == []
