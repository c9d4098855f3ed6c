"""The G2P model once more, in plain torch with torch's own LSTM: what tests compare rfnb's results and views with.

Nothing of rfnb's ops, modules or search is used; the weights come from a checkpoint file or from any mapping of names to tensors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open

END = 0


@dataclass(frozen=True)
class Said:
    """The values of the decoder under teacher forcing: all {words, labels, ...}.

    Attributes:
        logits: Of the next label.
        weights: Of the attention, over the letters.
        h, c: The state after each label.
    """

    logits: torch.Tensor
    weights: torch.Tensor
    h: torch.Tensor
    c: torch.Tensor


class PlainG2P:
    """The model.

    Args:
        parameters: By their names in the checkpoint.
        letters, labels: Symbols, needed only for the methods that take or give text.
    """

    def __init__(self, parameters: Mapping[str, torch.Tensor], letters=(), labels=()):
        self.p = {name: value.detach().float() for name, value in parameters.items()}
        self.letters, self.labels = list(letters), list(labels)
        self.layers = len({name.split(".")[2] for name in self.p if name.startswith("encoder.layers.")})

    @classmethod
    def load(cls, path: Path) -> PlainG2P:
        """From a file of `save_g2p`."""
        with safe_open(path, framework="pt") as stored:
            metadata = stored.metadata()
            parameters = {name: stored.get_tensor(name) for name in stored.keys()}
        return cls(parameters, json.loads(metadata["letters"]), json.loads(metadata["labels"]))

    def _lstm(self, x, prefix, state=None):
        """torch's LSTM with the weights at `prefix`: outputs, (h, c)."""
        p = self.p
        module = torch.nn.LSTM(x.shape[2], p[f"{prefix}.rec_weight"].shape[1], batch_first=True)
        module.weight_ih_l0.data = p[f"{prefix}.ff_weight"]
        module.weight_hh_l0.data = p[f"{prefix}.rec_weight"]
        module.bias_ih_l0.data = p[f"{prefix}.bias"]
        module.bias_hh_l0.data.zero_()
        return module(x, state)

    @torch.no_grad()
    def gates(self, prefix: str, x: torch.Tensor, h: torch.Tensor) -> dict[str, torch.Tensor]:
        """The gates of the LSTM at `prefix` in a step, by name: of frames {words, in} and what h was before."""
        z = x @ self.p[f"{prefix}.ff_weight"].T + h @ self.p[f"{prefix}.rec_weight"].T + self.p[f"{prefix}.bias"]
        i, f, g, o = z.chunk(4, 1)
        parts = (torch.sigmoid(i), torch.sigmoid(f), torch.tanh(g), torch.sigmoid(o))
        return dict(zip(("input_gate", "forget_gate", "cell_input", "output_gate"), parts))

    @torch.no_grad()
    def encode(self, letters: torch.Tensor) -> torch.Tensor:
        """{words, letters} of equal length -> {words, letters, units}."""
        x = torch.nn.functional.embedding(letters, self.p["encoder.embedding.weight"])
        for layer in range(self.layers):
            ahead, _ = self._lstm(x, f"encoder.layers.{layer}.forward")
            back, _ = self._lstm(x.flip(1), f"encoder.layers.{layer}.backward")
            x = torch.cat([ahead, back.flip(1)], 2)
        return x

    @torch.no_grad()
    def decode(self, x: torch.Tensor, inputs: torch.Tensor) -> Said:
        """The outputs after each of `inputs` {words, labels}, the begin label 0 first, given the encoded words."""
        p = self.p
        h = torch.tanh(x.mean(1) @ p["decoder.start.weight"] + p["decoder.start.bias"])[None]
        c = torch.zeros_like(h)
        embedded = torch.nn.functional.embedding(inputs, p["decoder.embedding.weight"])
        states = []
        for position in range(inputs.shape[1]):  # one by one: torch's LSTM gives c of the last step only
            _, (h, c) = self._lstm(embedded[:, position : position + 1], "decoder.lstm", (h, c))
            states.append((h[0], c[0]))
        query, cells = (torch.stack(part, 1) for part in zip(*states, strict=True))
        keys = x @ p["decoder.att.keys.weight"]
        weights = torch.softmax(query @ keys.transpose(1, 2) / query.shape[2] ** 0.5, 2)
        both = torch.cat([query, weights @ x], 2)
        read = torch.tanh(both @ p["decoder.readout.weight"] + p["decoder.readout.bias"])
        logits = read @ p["decoder.output.weight"] + p["decoder.output.bias"]
        return Said(logits, weights, query, cells)

    def word(self, word: str) -> torch.Tensor:
        """A word as indices {1, letters}."""
        return torch.tensor([[self.letters.index(letter) for letter in word]])

    def saying(self, word: str, phonemes: list[str]) -> Said:
        """The steps in which the model writes these phonemes and ends: one entry per phoneme, and one for the end; no batch."""
        inputs = torch.tensor([[END, *map(self.labels.index, phonemes)]])
        said = self.decode(self.encode(self.word(word)), inputs)
        return Said(said.logits[0], said.weights[0], said.h[0], said.c[0])

    def scores(self, word: str, phonemes: list[str]) -> list[float]:
        """Natural-log probability of the first 1, 2, ... phonemes, and last that of all with the end."""
        log_probs = torch.log_softmax(self.saying(word, phonemes).logits.double(), 1)
        wanted = torch.tensor([*map(self.labels.index, phonemes), END])
        return log_probs.gather(1, wanted[:, None])[:, 0].cumsum(0).tolist()

    def greedy(self, words: list[str]) -> dict[str, list[str]]:
        """The phonemes of each word when the best one is taken in every step."""
        found = {}
        for length in {len(word) for word in words}:
            some = [word for word in words if len(word) == length]
            x = self.encode(torch.cat([self.word(word) for word in some]))
            inputs = torch.full((len(some), 1), END)
            for _ in range(2 * length + 10):
                best = self.decode(x, inputs).logits[:, -1].argmax(1, keepdim=True)
                inputs = torch.cat([inputs, best], 1)
                if (inputs[:, 1:] == END).any(1).all():
                    break
            found.update((word, self._text(row)) for word, row in zip(some, inputs.tolist(), strict=True))
        return found

    def _text(self, labels: list[int]) -> list[str]:
        """Labels after the begin label, up to the end."""
        said = [*labels[1:], END]
        return [self.labels[label] for label in said[: said.index(END)]]

    def beam_search(self, word: str, beam_size: int) -> list[tuple[float, list[str]]]:
        """The hypotheses that are left when all in the beam are complete: score and phonemes, best first."""
        x = self.encode(self.word(word))
        beam: list[tuple[float, list[int]]] = [
            (0.0, [END])
        ]  # labels begin with the begin label; a complete one ends with END
        for _ in range(2 * len(word) + 10):
            wider = []
            for score, labels in beam:
                if len(labels) > 1 and labels[-1] == END:
                    wider.append((score, labels))
                    continue
                logits = self.decode(x, torch.tensor([labels])).logits[0, -1]
                gains = torch.log_softmax(logits.double(), 0).tolist()
                wider += [(score + gain, [*labels, label]) for label, gain in enumerate(gains)]
            beam = sorted(wider, reverse=True)[:beam_size]
            if all(labels[-1] == END for _, labels in beam):
                break
        return [(score, self._text(labels)) for score, labels in beam]
