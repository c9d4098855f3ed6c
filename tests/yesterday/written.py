"""Writes the files of one version of rfnb, small ones of every kind, and what that version reads in them:

    PYTHONPATH=CHECKOUT_OF_THAT_VERSION:tests python tests/yesterday/written.py tests/yesterday/0.1.0

`test_yesterday.py` opens them with every later version. A folder is never written anew: what its version has written is what is out there.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import sys
import tempfile
from pathlib import Path

import nbformat
import numpy as np
import torch
from yesterday.opened import BATCH, MODELS, OPENED, SOURCE, trainer_of_state

import rfnb as rf
from rfnb import Dim
from rfnb.interop.torch_module import rf_module_to_pt_module
from rfnb.models.g2p import G2P, G2PConfig
from rfnb.models.g2p_checkpoint import save_g2p
from rfnb.viz.page.budget import Room
from rfnb.viz.page.page_spec import frame_of
from rfnb.viz.show import view_of
from rfnb.viz.spec import pack, to_json

LABELS = Dim(4, name="labels", vocab=["#", "a", "b", "c"])
UNIT = Dim(5, name="unit")


def letters(seqs=2):
    """A search for "a b c"."""
    scores = torch.log(
        torch.tensor([[0.1, 0.6, 0.2, 0.1], [0.1, 0.1, 0.6, 0.2], [0.1, 0.2, 0.1, 0.6], [0.7, 0.1, 0.1, 0.1]])
    )
    before = Dim(4, name="before")
    table = rf.convert_to_tensor(scores, dims=[before, LABELS])
    return rf.beam_search(
        lambda label, state: (rf.gather(table, indices=rf.set_sparse_dim(label, before), axis=before), state),
        batch=Dim(seqs, name="seq"), max_seq_len=6, beam_size=3, end_label=0, axis=LABELS,
    )  # fmt: skip


def recording(path):
    """Events of all kinds, dims of all kinds, all kinds of values."""
    time = rf.ragged_dim([3, 2], over=BATCH, name="time")
    key = rf.convert_to_tensor(torch.randn(2, 3, 5), dims=[BATCH, time, UNIT])
    ids = rf.convert_to_tensor(torch.tensor([[0, 1, 2], [3, 0, 1]]), dims=[BATCH, time], sparse_dim=LABELS)
    attention = rf.SelfAttention(UNIT, UNIT, key_dim_total=UNIT, value_dim_total=UNIT, num_heads=1)
    embedding, lstm = rf.Embedding(LABELS, UNIT), rf.LSTM(UNIT, UNIT)
    with rf.record(ops=True, values=True) as trace:
        x = embedding(ids)
        x = attention(x, axis=time)
        lstm(x, state=lstm.default_initial_state(batch_dims=[BATCH]), spatial_dim=time)
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([BATCH, UNIT])
        for _ in loop:
            loop.state.h = rf.tanh(loop.state.h + loop.unstack(key))
        letters()
        values = {
            "numbers": [1, 2.5, float("nan"), float("-inf"), 10**30, True, None], "text": "text: \u00e9 \U0001f600",
            "pair": (1, ("a",)), "table": {"a": 1, 2: [3.0]}, "dim": time, "one": rf.single_step_dim,
            "array": np.arange(6, dtype="uint8").reshape(2, 3), "twin": rf.zeros([time, time.copy(match_priority=1)]),
            "bfloat16": rf.cast(rf.ones([UNIT]), "bfloat16"), "template": rf.Tensor("template", [BATCH, UNIT], "float16"),
        }  # fmt: skip
        rf.probe("note", **values)
    trace.save(path)


def truncated(path):
    """A recording that has come to its limit."""
    with rf.record(limit=2500) as trace:
        for _ in range(6):
            rf.probe("states", h=rf.zeros([BATCH, UNIT]))
    trace.save(path)


def of_torch(path):
    """A recording of a model of torch."""
    layer = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    model = torch.nn.ModuleDict(
        {"encoder": torch.nn.TransformerEncoder(layer, 1), "lstm": torch.nn.LSTM(4, 3, batch_first=True)}
    )
    with rf.record(model=dict(model)) as trace:
        model["lstm"](model["encoder"](torch.randn(2, 3, 4)))
    trace.save(path)


def tree(path):
    """A search with branches."""
    run = rf.run(letters, name="main")
    _ = run.result
    without = run.from_step(2, lambda at: at.ban("c"), name="without c")
    _ = without.result
    _ = without.from_step(3, lambda at: at.force("c", seq=1), name="later").result
    run.save(path)


def watched(path):
    """A training that was watched."""
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    optimizer, inputs = torch.optim.Adam(net.parameters(), lr=1e-2), torch.randn(8, 4)
    with rf.watch(net, optimizer, example=inputs[:2]) as watch:
        for _ in range(2):
            for part in inputs.split(4):
                optimizer.zero_grad()
                loss = net(part).square().mean()
                loss.backward()
                optimizer.step()
                watch.log(loss=loss)
            watch.epoch()
    watch.save(path)


def params(name):
    """The parameters of one of the models, as an npz file."""
    return lambda path: rf.save_params(MODELS[name](), path, step=30, epoch=2)


def state_dict(name):
    """The same as torch saves them, with an optimizer."""

    def write(path):
        model = rf_module_to_pt_module(MODELS[name]())
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 30, "epoch": 2}, path)

    return write


def g2p(path):
    """A G2P model."""
    save_g2p(
        G2P(G2PConfig(embedding=4, encoder=3, encoder_layers=1, decoder=5, dropout=0.1)), path, scores='{"per": 1}'
    )


def g2p_state(path):
    """A training of one."""
    trainer = trainer_of_state()
    for _ in range(3):
        trainer.step()
    trainer.save(path, seconds=1.5, loss=2.5, log=[{"epoch": 1}])


def views():
    """A view of each kind that a page has."""
    trace = rf.load_trace(SOURCE / "run.rfnb")
    run = rf.load_trace(SOURCE / "tree.rfnb")
    net = rf.Sequential({"a": rf.Linear(UNIT, UNIT), "b": rf.Linear(UNIT, UNIT)})
    with rf.record(ops=True) as ops:
        net(rf.zeros([BATCH, UNIT]))
    search = trace.beams["search"]
    weights = np.random.default_rng(0).dirichlet(np.ones(5), size=4)
    made = {
        "attention": rf.viz.attention(weights, source=list("abcde"), target=list("wxyz")),
        "states": rf.viz.states({"h": np.random.default_rng(1).normal(size=(6, 4))}),
        "beams": view_of(search),
        "distribution": rf.viz.distribution(np.log(weights)),
        "dims": view_of(rf.zeros([BATCH, UNIT])),
        "flow": rf.viz.flow(ops),
        "curves": rf.show(rf.load_trace(SOURCE / "training.rfnb").training),
        "branches": view_of(run.tree),
        "diff": view_of(rf.diff(run.tree["main"].trace, run.tree["without c"].trace)),
        "group": view_of(trace),
    }
    return made


def specs(path):
    """Views as readable JSON."""
    path.write_text(
        json.dumps({name: to_json(view.spec) for name, view in views().items() if name != "group"}, allow_nan=False)
    )


def frames(path):
    """The same as pages hold them: exactly, and thinned."""
    found = {}
    for name, view in views().items():
        found[name] = pack(view.spec).hex()
        found[f"{name}, thinned"] = frame_of(view.spec, Room(6000, 6000)).hex()
    path.write_text(json.dumps(found))


def page(path):
    """A page of views."""
    shown = views()
    rf.save_html(path, [shown["attention"], shown["beams"]], title="A page of yesterday")


def notebook(path):
    """A notebook with stored outputs: a widget with its state, a frozen view, an answer of a lesson."""
    from ipywidgets import Widget

    shown = views()
    live, frozen = shown["attention"], shown["states"].freeze()
    bundles = [live._repr_mimebundle_(), frozen._repr_mimebundle_()]
    lesson = {
        "kind": "check", "lesson": "07_search", "exercise": "widest", "status": "passed", "points": 2, "answer": "3", "committed": True,
    }  # fmt: skip
    bundles.append({"text/plain": "passed", "application/vnd.rfnb.lesson+json": lesson})
    cells = []
    for number, bundle in enumerate(bundles):
        output = nbformat.v4.new_output("display_data", data=bundle)
        cells.append(
            nbformat.v4.new_code_cell(f"view{number}", outputs=[output], execution_count=number + 1, id=f"c{number}")
        )
    state = Widget.get_manager_state()
    found = nbformat.v4.new_notebook(
        cells=cells, metadata={"widgets": {"application/vnd.jupyter.widget-state+json": state}}
    )
    nbformat.validate(found)
    nbformat.write(found, path)


def random_state(path):
    """The state of the generators."""
    rf.set_random_seed(7)
    rf.get_static_step_based_seed()
    path.write_text(json.dumps({name: state.hex() for name, state in rf.get_random_state().items() if name != "cuda"}))


def pickled(path):
    """Objects as pickle writes them."""
    time = rf.ragged_dim([3, 2], over=BATCH, name="time")
    x = rf.convert_to_tensor(torch.arange(30.0).reshape(2, 3, 5), dims=[BATCH, time, UNIT])
    objects = {
        "tensor": x, "dims": [time, UNIT, 2 * time + 1, time.copy(match_priority=1)], "model": MODELS["layers"](),
        "state": rf.State(h=x), "params": rf.load_params(SOURCE / "layers.npz"), "trace": rf.load_trace(SOURCE / "truncated.rfnb"),
        "spec": views()["attention"].spec,
    }  # fmt: skip
    path.write_bytes(pickle.dumps(objects))


WRITTEN = {
    "run.rfnb": recording, "truncated.rfnb": truncated, "torch.rfnb": of_torch, "tree.rfnb": tree, "training.rfnb": watched,
    "layers.npz": params("layers"), "transposed.npz": params("transposed"), "square.npz": params("square"),
    "layers.pt": state_dict("layers"), "transposed.pt": state_dict("transposed"), "square.pt": state_dict("square"),
    "g2p.safetensors": g2p, "state.pt": g2p_state, "specs.json": specs, "frames.json": frames, "page.html": page,
    "notebook.ipynb": notebook, "random.json": random_state, "objects.pickle": pickled,
}  # fmt: skip
PACKED = {"page.html", "notebook.ipynb", "frames.json", "specs.json"}  # by gzip: text


def main(folder: Path) -> None:
    """Write the files, and what they hold."""
    folder.mkdir(parents=True)
    for name, write in WRITTEN.items():
        torch.manual_seed(1)
        rf.set_random_seed(1)
        path = SOURCE / name
        write(path)
        data = path.read_bytes()
        if name in PACKED:
            (folder / f"{name}.gz").write_bytes(gzip.compress(data, 9, mtime=0))
        else:
            (folder / name).write_bytes(data)
    found = {name: OPENED[name](SOURCE / name) for name in WRITTEN}
    (folder / "expected.json").write_text(json.dumps(found, sort_keys=True, allow_nan=False) + "\n")


if __name__ == "__main__":
    os.chdir(Path(__file__).parents[1])
    main(Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else Path(tempfile.mkdtemp()) / "files")
