"""Random small networks with a search, in the dict notation: all documented options of choices in many combinations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

SHAPES = ("one", "several", "two", "three", "frames")


@dataclass
class RandomNet:
    """A network with its data and parameters; `made_of` says in words what is special."""

    network: dict[str, Any]
    extern_data: dict[str, Any]
    inputs: dict[str, np.ndarray]
    lengths: dict[str, np.ndarray]
    parameters: dict[str, np.ndarray]
    made_of: str


def random_net(seed: int, shape: str) -> RandomNet:
    """One choice in a step, one of several sources, two or three choices, or one for each frame of the input."""
    return _Maker(np.random.default_rng(seed), shape).made()


class _Maker:
    def __init__(self, rng: np.random.Generator, shape: str):
        self.rng, self.shape = rng, shape
        self.vocab, self.other = int(rng.integers(3, 8)), int(rng.integers(3, 6))
        self.num_seqs = int(rng.integers(1, 4))
        self.known_length = self.maybe(0.3)
        self.end_label = 0 if self.maybe(0.8) else int(rng.integers(1, self.vocab))
        self.parameters: dict[str, np.ndarray] = {}

    def maybe(self, probability: float = 0.5) -> bool:
        return bool(self.rng.random() < probability)

    def weights(self, path: str, num_in: int, num_out: int, *, bias: bool = True) -> None:
        self.parameters[f"{path}/W"] = self.rng.standard_normal((num_in, num_out)).astype(np.float32)
        if bias:
            self.parameters[f"{path}/b"] = self.rng.standard_normal(num_out).astype(np.float32)

    # -- data --------------------------------------------------------------------------------------------------------------------
    def data(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Frames, and reference labels that end where their sequence does; other labels besides."""
        rng = self.rng
        lengths = {"data": rng.integers(1, 5, self.num_seqs), "classes": rng.integers(1, 7, self.num_seqs)}
        if self.shape == "frames":  # of a loop over frames, targets have as many
            lengths["classes"] = lengths["data"]
        lengths["classes2"] = lengths["classes"]
        time, steps = max(lengths["data"]), max(lengths["classes"])
        frames = rng.standard_normal((self.num_seqs, time, 2)).astype(np.float32)
        inner = [label for label in range(self.vocab) if label not in (0, self.end_label)]
        classes = rng.choice(inner, (self.num_seqs, steps))
        other = rng.integers(0, self.other, (self.num_seqs, steps))
        for seq, length in enumerate(lengths["classes"]):
            classes[seq, length - 1] = self.end_label
            classes[seq, length:], other[seq, length:], frames[seq, lengths["data"][seq] :] = 0, 0, 0
        inputs = {"data": frames, "classes": classes.astype(np.int32), "classes2": other.astype(np.int32)}
        return inputs, {key: value.astype(np.int32) for key, value in lengths.items()}

    # -- the network ---------------------------------------------------------------------------------------------------------------
    def scores(self, name: str, sources: list[str], num_in: int, num_out: int, kind: str) -> dict[str, Any]:
        """The layer that a choice reads."""
        self.weights(f"output/rec/{name}", num_in, num_out)
        if kind == "prob":
            return {"class": "softmax", "from": sources, "n_out": num_out}
        return {"class": "linear", "from": sources, "n_out": num_out,
                "activation": "log_softmax" if kind == "log_prob" else None}  # fmt: skip

    def ranking(self, *, single: bool) -> dict[str, Any]:
        """Options of a choice that searches."""
        out: dict[str, Any] = {}
        if self.maybe(0.4):
            out["prob_scale"] = float(self.rng.uniform(0.3, 1.5))
        if self.maybe(0.3):
            out["base_beam_score_scale"] = float(self.rng.uniform(0.7, 1.1))
        if single and self.maybe(0.4):
            out["cheating"] = "exclusive" if self.maybe() else True
        return out

    def made(self) -> RandomNet:
        rng = self.rng
        kind = str(rng.choice(["prob", "log_prob", "logits"]))
        beam = int(rng.integers(1, 9))
        normalized: dict[str, Any] = {"length_normalization": False}
        if self.maybe():
            normalized = {"length_normalization_exponent": float(rng.uniform(0.3, 1.2))} if self.maybe() else {}
        last: dict[str, Any] = {"class": "choice", "target": "classes", "beam_size": beam, "from": "p", "input_type": kind,
                                "initial_output": int(rng.integers(0, self.vocab)), **normalized}  # fmt: skip
        body: dict[str, Any] = {
            "emb": {"class": "linear", "activation": None, "with_bias": False, "from": "prev:output", "n_out": 3},
            "s": {"class": "linear", "activation": "tanh", "from": ["prev:s", "emb", "base:ctx"], "n_out": 4},
            "output": last,
        }
        self.weights("ctx_frames", 2, 2)
        self.weights("output/rec/emb", self.vocab, 3, bias=False)
        num_in = 9
        if self.shape in ("two", "three"):
            self.first_choice(body, kind, beam, normalized)
            embedding = "emb_first" if self.shape == "two" else self.middle_choice(body, kind, normalized)
            body["p"] = self.scores("p", ["s", embedding], 6, self.vocab, kind)
        else:
            body["p"] = self.scores("p", ["s"], 4, self.vocab, kind)
        if self.shape == "several":
            num_in += 2
            body["q"] = self.scores("q", ["s"], 4, self.other, kind)
            last.update({"from": ["p", "q"], "target": ["classes", "classes2"]})
            if self.maybe():
                last["source_beam_sizes"] = [int(rng.integers(1, self.vocab + 1)), int(rng.integers(1, self.other + 1))]
            body["part"] = {"class": "copy", "from": "output/out_1", "initial_output": 0}
            body["emb_part"] = {
                "class": "linear",
                "activation": None,
                "with_bias": False,
                "from": "prev:part",
                "n_out": 2,
            }
            body["s"]["from"] = ["prev:s", "emb", "emb_part", "base:ctx"]
            self.weights("output/rec/emb_part", self.other, 2, bias=False)
        self.weights("output/rec/s", num_in, 4)
        last.update(self.ranking(single=self.shape != "several"))
        if "cheating" not in last and self.shape == "one" and self.maybe(0.2):
            last.update(keep_beams=True, beam_size=min(beam, self.vocab))
        if "cheating" not in last and self.shape == "two" and self.maybe(0.2):
            last["search"] = False
            last["length_normalization"] = False
            body["first"]["length_normalization"] = False
        loop: dict[str, Any] = {
            "class": "rec",
            "from": [],
            "target": "classes",
            "unit": body,
            "include_eos": self.maybe(),
        }
        if self.shape == "frames":
            loop["from"], body["s"]["from"] = "ctx_frames", ["prev:s", "emb", "data:source"]
        elif self.known_length:
            loop["size_target"] = "classes"
        else:
            body["end"] = {"class": "compare", "kind": "equal", "from": "output", "value": self.end_label}
            loop["max_seq_len"] = int(rng.integers(1, 9))
        network = {
            "ctx_frames": {"class": "linear", "activation": "tanh", "from": "data", "n_out": 2},
            "ctx": {"class": "reduce", "mode": "mean", "axis": "T", "from": "ctx_frames"},
            "output": loop,
            "decision": {"class": "decide", "from": "output", "is_output_layer": True},
            "scores": {"class": "choice_get_beam_scores", "from": "output", "is_output_layer": True},
        }
        if self.maybe(0.3):  # values from before the choice follow the hypotheses too
            body["s"].update(is_output_layer=True, need_last=True)
            network["last"] = {"class": "rec_last_output", "rec_layer": "output", "sub_layer_name": "s"}
        if loop["include_eos"] and last.get("length_normalization") is False:
            network["decision"]["length_normalization"] = self.maybe()
        extern = {"data": {"dim": 2}, "classes": {"dim": self.vocab, "sparse": True}}
        extern["classes2"] = {"dim": self.other, "sparse": True}
        inputs, lengths = self.data()
        special = {name: {key: value for key, value in layer.items() if key not in ("class", "target", "from", "initial_output")}
                   for name, layer in body.items() if layer["class"] == "choice"}  # fmt: skip
        made_of = f"vocab {self.vocab} {self.other}, seqs {self.num_seqs}, end {self.end_label}, " + repr(
            {key: loop[key] for key in ("max_seq_len", "size_target", "include_eos") if key in loop} | special
        )
        return RandomNet(network, extern, inputs, lengths, self.parameters, made_of)

    def first_choice(self, body: dict[str, Any], kind: str, beam: int, normalized: dict[str, Any]) -> None:
        """A choice before "output" in each step."""
        size = beam if self.maybe(0.3) else int(self.rng.integers(1, 5))
        first: dict[str, Any] = {"class": "choice", "target": "classes2", "beam_size": size, "from": "q", "input_type": kind,
                                 "initial_output": 0, "is_output_layer": True, **normalized, **self.ranking(single=True)}  # fmt: skip
        if "cheating" in first and size == 1:
            first["beam_size"] = 2  # else it has the reference path alone, which may be none in a beam that is not full
        body["emb_before"] = {
            "class": "linear",
            "activation": None,
            "with_bias": False,
            "from": "prev:first",
            "n_out": 2,
        }
        body["first"] = first
        body["emb_first"] = {"class": "linear", "activation": None, "with_bias": False, "from": "first", "n_out": 2}
        body["q"] = self.scores("q", ["s", "emb_before"], 6, self.other, kind)
        for name in ("emb_before", "emb_first"):
            self.weights(f"output/rec/{name}", self.other, 2, bias=False)

    def middle_choice(self, body: dict[str, Any], kind: str, normalized: dict[str, Any]) -> str:
        """A choice between the first one and "output"; returns the layer that reads it."""
        body["middle"] = {"class": "choice", "target": "classes2", "beam_size": int(self.rng.integers(2, 5)), "from": "r",
                          "input_type": kind, "initial_output": 0, "is_output_layer": True, **normalized,
                          **self.ranking(single=True)}  # fmt: skip
        body["r"] = self.scores("r", ["s", "emb_first"], 6, self.other, kind)
        body["emb_middle"] = {"class": "linear", "activation": None, "with_bias": False, "from": "middle", "n_out": 2}
        self.weights("output/rec/emb_middle", self.other, 2, bias=False)
        return "emb_middle"
