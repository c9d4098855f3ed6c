"""Reads files of any version as JSON: `written.py` stores the results of the version that wrote them, and the test compares."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import pickle
import re
import tempfile
from pathlib import Path

import nbformat
import numpy as np
import torch

import rfnb as rf
from rfnb import Dim
from rfnb.data.batching import examples_of
from rfnb.models.g2p import G2P, G2PConfig
from rfnb.models.g2p_checkpoint import load_g2p
from rfnb.models.g2p_search import greedy
from rfnb.models.g2p_training import Recipe, Trainer
from rfnb.teaching.notebook import records_in
from rfnb.viz.spec import from_json, unpack

SOURCE = Path(tempfile.mkdtemp(prefix="rfnb-yesterday"))  # plain files; some are stored packed
BATCH = Dim(2, name="batch")
IN, OUT, ALIKE = Dim(3, name="in"), Dim(4, name="out"), Dim(3, name="alike")


class Layers(rf.Module):
    """A layer of each kind of parameters."""

    def __init__(self):
        self.linear = rf.Linear(IN, OUT)
        self.lstm = rf.LSTM(OUT, IN)
        self.conv = rf.Conv1d(IN, OUT, 3, padding="same")
        self.norm = rf.BatchNorm(OUT, use_mask=True)
        self.attention = rf.SelfAttention(OUT, OUT, key_dim_total=OUT, value_dim_total=OUT, num_heads=2)
        self.embedding = rf.Embedding(IN, OUT)

    def __call__(self, x, *, spatial_dim):
        y, _ = self.lstm(
            self.linear(x), state=self.lstm.default_initial_state(batch_dims=[BATCH]), spatial_dim=spatial_dim
        )
        y, dim = self.conv(y, in_spatial_dim=spatial_dim)
        return self.attention(self.norm(y), axis=dim)


class Transposed(rf.Module):
    """Transposed convolutions; of the square ones as many features go in as come out."""

    def __init__(self, out_dim):
        self.one = rf.TransposedConv1d(IN, out_dim, 2, padding="valid")

    def __call__(self, x, *, spatial_dim):
        return self.one(x, in_spatial_dim=spatial_dim)[0]


MODELS = {"layers": Layers, "transposed": lambda: Transposed(OUT), "square": lambda: Transposed(ALIKE)}


def plain(value):
    """A value as JSON, floats with six digits."""
    if isinstance(value, rf.Tensor):
        dims = [[dim.name, None if dim.lengths is None else dim.lengths.tolist()] for dim in value.dims]
        raw = (
            None
            if value.raw_tensor is None
            else plain(rf.cast(value, "float32").numpy() if value.dtype == "bfloat16" else value.numpy())
        )
        return {
            "dims": dims,
            "dtype": value.dtype,
            "sparse": value.sparse_dim and value.sparse_dim.name,
            "numbers": raw,
        }
    if isinstance(value, Dim):
        return f"Dim {value.short_repr()}"
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic, torch.Tensor)):
        array = np.asarray(value)
        if array.size > 24:  # as many as show a change
            flat = array.ravel().astype("float64")
            return [list(array.shape), *plain([np.nansum(flat), np.nansum(flat * np.cos(np.arange(flat.size)))])]
        return plain(array.tolist())
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else repr(value)
    return value if value is None or isinstance(value, (bool, int, str)) else type(value).__name__


def of_trace(trace):
    events = [
        [e.kind, e.path, e.step, list(e.steps), plain(dict(e.values)) if e.kind == "note" else None]
        for e in trace.events
    ]
    return {
        "events": [event if event[4] else event[:4] for event in events],
        "attention": [plain(trace.attention.runs(path)) for path in sorted(trace.attention)],
        "states": [[plain(dict(run)) for run in trace.states.runs(path)] for path in sorted(trace.states)],
        "searches": [plain(run.nbest(0)) for path in sorted(trace.beams) for run in trace.beams.runs(path)],
        "truncated": plain(trace.truncated and [trace.truncated.kind, trace.truncated.limit, trace.truncated.dropped]),
        "model": trace.model,
    }  # fmt: skip


def of_tree(path):
    tree = rf.load_trace(path).tree
    return {
        name: [
            branch.parent, branch.left and list(branch.left), [list(step) for step in branch.steps], [str(each) for each in branch.changes],
            branch.state, plain(list(branch.outcome.seqs)), plain(list(branch.outcome.scores)), plain(branch.outcome.values),
            of_trace(branch.trace),
        ]
        for name, branch in tree.items()
    }  # fmt: skip


def of_training(path):
    training = rf.load_trace(path).training
    return {
        "counts": training.counts, "curves": plain({name: [curve.steps, curve.values] for name, curve in training.curves.items()}),
        "tables": [[*key, table.columns, plain(table.array())] for key, table in training.tables.items()],
        "examples": [[one.label, one.step, of_trace(one.trace)] for one in training.examples], "says": plain(training.says),
    }  # fmt: skip


def of_params(read):
    def opened(path):
        params = read(path)
        model = MODELS[path.stem]()
        try:
            rf.set_params(model, params)
        except rf.CheckpointError as error:  # of layout 1, where no size tells: the line to type
            line = next(line for line in str(error).splitlines() if "earlier version of rfnb has" in line)
            exec(line.strip(), {"params": params, "np": np})
            rf.set_params(model, params)
        time = Dim(5, name="time")
        x = rf.convert_to_tensor(torch.linspace(-1, 1, 30).reshape(2, 5, 3), dims=[BATCH, time, IN])
        y = model(x, spatial_dim=time)
        return {"names": sorted(params), "step": [params.step, params.epoch], "output": plain(y.numpy())}

    return opened


def of_g2p(path):
    return [[found.word, list(found.phonemes), plain(found.score)] for found in greedy(load_g2p(path), ["cat", "bat"])]


def trainer_of_state():
    """The training that `state.pt` is of."""
    words = {"cat": (("K", "AE", "T"),), "see": (("S", "IY"),), "bat": (("B", "AE", "T"),), "a": (("AH",), ("EY",))}
    model = G2P(G2PConfig(embedding=4, encoder=3, encoder_layers=1, decoder=5, dropout=0.1))
    return Trainer(
        model, examples_of(words, max_letters=20), Recipe(epochs=5, batch_size=2, learning_rate=1e-2, seed=3)
    )


def of_state(path):
    trainer = trainer_of_state()
    notes = trainer.load(path)
    return {"notes": notes, "steps": trainer.steps_done, "losses": [plain(trainer.step().loss) for _ in range(2)]}


def of_spec(spec):
    return [
        spec.kind,
        sorted(spec.head),
        {name: plain(array) for name, array in spec.blocks.items()},
        sorted(spec.codes),
    ]


def of_specs(path):
    return {name: of_spec(from_json(data)) for name, data in json.loads(path.read_text()).items()}


def of_frames(path):
    return {name: of_spec(unpack(bytes.fromhex(data))) for name, data in json.loads(path.read_text()).items()}


def frames_in(html):
    """The frames that a page holds."""
    return [
        unpack(base64.b64decode(data)) for data in re.findall(r'class="rfnb-frame" hidden data-bytes="([^"]*)"', html)
    ]


def of_page(path):
    return [of_spec(spec) for spec in frames_in(path.read_text(encoding="utf-8"))]


def of_notebook(path):
    cells = nbformat.read(path, as_version=4).cells
    html = "".join(output.data.get("text/html", "") for cell in cells for output in cell.outputs)
    return {
        "frames": [of_spec(spec) for spec in frames_in(html)],
        "records": [dict(record) for record in records_in(path)],
    }


def of_random(path):
    before = rf.get_random_state()
    try:
        rf.set_random_state({name: bytes.fromhex(data) for name, data in json.loads(path.read_text()).items()})
        return [rf.get_static_step_based_seed(), plain(rf.random_normal([Dim(3, name="x")]).numpy())]
    finally:
        rf.set_random_state(before)


def of_pickle(path):
    found = pickle.loads(path.read_bytes())
    model = found["model"]
    return {
        "tensor": plain(found["tensor"]), "dims": plain(found["dims"]), "params": plain(dict(found["params"])),
        "model": {name: plain(parameter) for name, parameter in model.named_parameters()}, "state": plain(dict(found["state"])),
        "trace": of_trace(found["trace"]), "spec": of_spec(found["spec"]),
    }  # fmt: skip


OPENED = {
    "run.rfnb": lambda path: of_trace(rf.load_trace(path)), "truncated.rfnb": lambda path: of_trace(rf.load_trace(path)),
    "torch.rfnb": lambda path: of_trace(rf.load_trace(path)), "tree.rfnb": of_tree, "training.rfnb": of_training,
    "layers.npz": of_params(rf.load_params), "transposed.npz": of_params(rf.load_params), "square.npz": of_params(rf.load_params),
    "layers.pt": of_params(rf.load_torch_checkpoint), "transposed.pt": of_params(rf.load_torch_checkpoint),
    "square.pt": of_params(rf.load_torch_checkpoint), "g2p.safetensors": of_g2p, "state.pt": of_state, "specs.json": of_specs,
    "frames.json": of_frames, "page.html": of_page, "notebook.ipynb": of_notebook, "random.json": of_random, "objects.pickle": of_pickle,
}  # fmt: skip


def unpacked(folder: Path, name: str) -> Path:
    """The plain file of a stored one."""
    stored = folder / f"{name}.gz"
    data = gzip.decompress(stored.read_bytes()) if stored.is_file() else (folder / name).read_bytes()
    where = SOURCE / folder.name
    where.mkdir(exist_ok=True)
    (where / name).write_bytes(data)
    return where / name


def digest(value):
    """A short name for a value."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
