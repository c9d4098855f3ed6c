"""Trains the models of lessons 9 and 11 by the cells of their notebooks, and writes the weights that their pages run with.

python notebooks/data/make_running.py      # a minute; writes rfnb/models/lessons.safetensors
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

import rfnb.models.lessons as pages

NOTEBOOKS = Path(__file__).parents[1]


def after(lesson: str, *cells: str) -> dict:
    """The names of some cells of a lesson, which are executed."""
    stored = {
        each["id"]: "".join(each["source"])
        for each in json.loads((NOTEBOOKS / f"{lesson}.ipynb").read_text("utf-8"))["cells"]
    }
    names: dict = {}
    for cell in cells:
        exec(compile(stored[cell], cell, "exec"), names)
    return names


def listener() -> dict[str, np.ndarray]:
    """The model of lesson 9, and the frames that it gets for each key: 2 of silence, 9 of the tones, 2 of silence."""
    told = after("09_ctc", "09-start", "09-sound", "09-learn-model", "09-learn-train")
    values = {name: value.detach().numpy() for name, value in told["listener"].named_parameters()}
    made = {}
    for way, end in (("forward", ""), ("backward", "_reverse")):
        made[f"ctc.lstm.{way}.ff_weight"] = values[f"lstm.weight_ih_l0{end}"]
        made[f"ctc.lstm.{way}.rec_weight"] = values[f"lstm.weight_hh_l0{end}"]
        made[f"ctc.lstm.{way}.bias"] = values[f"lstm.bias_ih_l0{end}"] + values[f"lstm.bias_hh_l0{end}"]
    made |= {"ctc.output.weight": values["output.weight"].T, "ctc.output.bias": values["output.bias"]}
    rng, shift, rate = np.random.default_rng(3), told["SHIFT"], told["RATE"]
    time, sounds = np.arange(9 * shift) / rate, []
    for key in pages.KEYS:
        tones = sum(np.sin(2 * np.pi * tone * time) for tone in (told["ROW"][key], told["COLUMN"][key]))
        sound = np.pad(tones, 2 * shift) + rng.normal(0, 0.5, pages.FRAMES * shift)
        sounds.append(told["features"](torch.tensor(sound.astype("float32"))).numpy())
    return made | {"ctc.sounds": np.stack(sounds)}


def writer() -> dict[str, np.ndarray]:
    """The model of lesson 11."""
    told = after("11_transformer", "11-begin", "11-untrained", "11-train")
    return {f"backwards.{name}": each.raw_tensor.detach().numpy() for name, each in told["net"].named_parameters()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    weights = listener() | writer()
    save_file({name: np.ascontiguousarray(each.astype("float16")) for name, each in weights.items()}, pages.STORED)
    print(f"{pages.STORED.name}: {sum(each.size for each in weights.values()):,} numbers")
