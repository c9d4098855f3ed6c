"""Every kind of view in every size, on light and dark paper, as pictures to look at:

    PYTHONPATH=tests python tests/viz/gallery.py FOLDER

`index.html` in the folder shows them side by side.
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

import numpy as np
import torch
from viz.held import held
from viz.odd_views import all_kinds, encoder_flow, loop, search, two_runs, weights
from viz.questions import causal, lanes, spans
from viz.questions import weights as placed
from viz.two_searches import branch_tree

import rfnb as rf
from rfnb.viz.drawing.img import lighter
from rfnb.viz.drawing.png import png
from rfnb.viz.drawing.shapes import padded
from rfnb.viz.drawing.theme import THEMES
from rfnb.viz.kinds import drawing_of
from rfnb.viz.show import view_of
from rfnb.viz.spec import Spec

WORDS = "the quick brown fox jumps over a lazy dog and then it sleeps under the old oak tree until dawn".split()
WIDTHS = {"page": 860.0, "column": 373.0}


def rail() -> Spec:
    """An alignment of words to a tone that rises and falls, with its spectrogram."""
    seconds = np.arange(2 * 16_000) / 16_000
    samples = np.sin(2 * np.pi * 1200 * seconds * (1 + 0.3 * np.sin(3 * seconds))) * np.abs(np.sin(4 * seconds))
    labels, text = "-|HELOWRD", "HELLO WORLD"
    logits = np.random.default_rng(0).normal(size=(1, 100, len(labels)))
    logits[..., 0] += 4
    for place, letter in enumerate(text.replace(" ", "|")):
        logits[0, 6 + 8 * place : 9 + 8 * place, labels.index(letter)] += 7
    ctc = rf.ctc_output(logits, vocab=labels, samples=samples, sampling_rate=16_000, frame_shift=0.02)
    return view_of(ctc.align(text)).spec


def specs() -> dict[str, Spec]:
    """The specs by the names of their pictures."""
    random = np.random.default_rng(0)
    walk = lambda *shape: np.tanh(random.normal(size=shape).cumsum(0) * 0.4)  # noqa: E731
    four = ["layer", "head", "target", "source"]
    steps = np.arange(400)
    loss = 4.3 * np.exp(-steps / 60) + 0.3 + random.normal(size=400) * 0.05
    loss[200], loss[390:] = np.inf, np.nan
    odd = weights(5, 7)
    odd[1, 2], odd[2, 3], odd[4] = np.nan, np.inf, np.nan
    batch = rf.Dim(3, name="batch")
    time = rf.ragged_dim([7, 5, 3], over=batch, name="time")
    model = rf.Dim(512, name="model")
    view = rf.viz
    return {
        "attention-small": view.attention(weights(6, 8), source=list("thoughtf"), target="TH AO T F AH L".split()).spec,
        "attention-causal": view.attention(np.tril(weights(20, 20)), tokens=WORDS, mask="causal").spec,
        "attention-padding": view.attention(
            weights(4, 5, 7), dims=["batch", "target", "source"], source_lengths=[7, 4, 2, 6]
        ).spec,
        "attention-odd": view.attention(odd).spec,
        "attention-heads": view.attention(weights(12, 20, 30), dims=["head", "target", "source"]).spec,
        "attention-layers": view.attention(np.tril(weights(6, 8, 64, 64)), dims=four, mask="causal").spec,
        "attention-144": view.attention(weights(12, 12, 64, 64), dims=four).spec,
        "attention-rail": rail(),
        "attention-long": view.attention(weights(2, 32_000)).spec,
        "states-small": view.states({"h": walk(12, 24), "c": 3 * walk(12, 24)}, steps=WORDS[:12]).spec,
        "states-batch": view.states({"h": walk(40, 4, 64).transpose(1, 0, 2)}, lengths=[40, 22, 7, 9]).spec,
        "states-large": view.states({"h": walk(500, 512)}).spec,
        "beams-small": search(6, 4, WORDS),
        "beams-middle": search(40, 12, WORDS),
        "beams-large": search(500, 64, WORDS),
        "question-mask": causal(),
        "question-weights": placed(),
        "question-labels": spans(),
        "question-beam": lanes(),
        "distribution": view.distribution(weights(12, 40), range(12), labels=[f"word {n}" for n in range(40)]).spec,
        "distribution-large": view.distribution(weights(60, 8000), [0] * 60).spec,
        "curves": view.curves(
            {
                "loss": loss,
                "validation WER": [(x, 70 * np.exp(-x / 120) + 10) for x in range(0, 400, 50)],
                "rate": steps,
            },
            units={"loss": "nats", "validation WER": "%"},
        ).spec,
        "curves-runs": view.curves(
            {f"seed {seed}": {"loss": loss + 0.2 * seed, "lr": 1e-3 * 0.99**steps} for seed in range(3)},
            units={"loss": "nats"},
        ).spec,
        "curves-dense": view.curves({"loss": np.exp(-np.arange(50_000) / 9000) + 0.1 * random.random(50_000)}).spec,
        "curves-500": view.curves(
            {f"layer {n} norm": np.exp(random.normal(size=1000).cumsum() * 0.02) for n in range(500)}
        ).spec,
        "dims": view.dims(
            {"x": rf.random_normal([batch, time, model]), "y": rf.random_normal([time, batch, model])}
        ).spec,
        "dims-torch": view.dims(torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16), 12)).spec,
        "plan": view.plan(loop()).spec,
        "flow": encoder_flow(6),
        "control": held(),
        "branches": view.branches(branch_tree(["#", *WORDS[:7]])).spec,
        "diff": two_runs(["encoder", "decoder.att", "decoder.readout"]),
        "group": all_kinds(WORDS[:6], title="A recording")[-1],
    }


def main(folder: Path) -> None:
    """Write the pictures and the page that shows them."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [
        "<!doctype html><meta charset='utf-8'><title>Views</title><body style='background:#888;font:14px sans-serif'>"
    ]
    for name, spec in specs().items():
        for size, width in WIDTHS.items():
            drawing = padded(lighter(drawing_of(spec, width)), 6)
            for theme in THEMES.values():
                file = f"{name}-{size}-{theme.name}.png"
                data = png(drawing, theme)
                (folder / file).write_bytes(data)
                parts.append(
                    f"<p>{file}: {len(data) / 1000:.1f} kB {escape('; '.join(drawing.notes))}<br>"
                    f"<img src='{file}' width='{drawing.width:.0f}' alt='{escape(drawing.alt[:200], quote=True)}'>"
                )
    (folder / "index.html").write_text("\n".join(parts), encoding="utf-8")
    print(f"{folder / 'index.html'}: {len(list(folder.glob('*.png')))} pictures")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "gallery"))
