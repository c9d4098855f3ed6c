"""The search of the whole G2P model once more, in plain torch, with what a test changes in its steps."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from models.tiny import make_model
from plain_g2p import END, PlainG2P

import rfnb as rf
from rfnb.data import g2p
from rfnb.models.g2p import G2P
from rfnb.models.g2p_search import search


@functools.cache
def model() -> G2P:
    """A small model with random weights, whose scores are spread so far that no two are nearly equal."""
    made = make_model(seed=4)
    for name in ("output.weight", "att.keys.weight"):
        parameter = dict(made.decoder.named_parameters())[name]
        parameter.raw_tensor.data *= 6.0
    return made


@functools.cache
def plain_model() -> PlainG2P:
    """The same in plain torch."""
    return PlainG2P(
        {name: parameter.raw_tensor for name, parameter in model().named_parameters()}, g2p.LETTERS, g2p.LABELS
    )


def searching(words: Sequence[str], beam_size: int) -> Callable[[], tuple[rf.Tensor, rf.Tensor]]:
    """The search of rfnb: labels {time, batch, beam} and scores {batch, beam}."""

    def run() -> tuple[rf.Tensor, rf.Tensor]:
        with rf.stop_gradient_scope():
            _, labels, scores = search(model(), words, beam_size=beam_size)
        return labels, scores

    return run


@dataclass
class Hyp:
    """A hypothesis: its score, labels and state, and whether it has ended."""

    score: float
    labels: tuple[int, ...]
    h: torch.Tensor
    c: torch.Tensor
    ended: bool = False


@dataclass(frozen=True)
class Decision:
    """The arguments of `force` and `ban`."""

    kind: str
    label: int
    hypothesis: int | None = 0
    only: bool = False


@torch.no_grad()
def plain_search(
    word: str,
    beam_size: int,
    *,
    most: int,
    states: Mapping[int, Callable[[list[Hyp]], None]] | None = None,
    weights: Mapping[int, Callable[[np.ndarray], None]] | None = None,
    decisions: Mapping[int, Sequence[Decision]] | None = None,
    gates: Mapping[int, Callable[[dict[str, torch.Tensor]], None]] | None = None,
    plain: PlainG2P | None = None,
) -> list[Hyp]:
    """The beam after the last step.

    Args:
        plain: Default: that of `plain_model`.
        most: Steps at most.
        states: What is done before a step with the beam.
        weights: What is done in a step with the weights {hypothesis, letter}.
        decisions: What is forced and banned in a step.
        gates: What is done in a step with the gates {hypothesis, unit} of the decoder, by name.
    """
    plain = plain or plain_model()
    p, x = plain.p, plain.encode(plain.word(word))
    h = torch.tanh(x.mean(1) @ p["decoder.start.weight"] + p["decoder.start.bias"])[0]
    beam = [Hyp(0.0, (), h, torch.zeros_like(h))]
    keys = (x @ p["decoder.att.keys.weight"])[0]
    for step in range(most):
        if all(hyp.ended for hyp in beam):
            break
        if states is not None and step in states:
            states[step](beam)
        last = torch.tensor([[hyp.labels[-1] if hyp.labels else END] for hyp in beam])
        embedded = torch.nn.functional.embedding(last, p["decoder.embedding.weight"])
        before = tuple(torch.stack([getattr(hyp, name) for hyp in beam])[None] for name in "hc")
        _, (h, c) = plain._lstm(embedded, "decoder.lstm", before)
        if gates is not None and step in gates:
            made = plain.gates("decoder.lstm", embedded[:, 0], before[0][0])
            gates[step](made)
            c = (made["forget_gate"] * before[1][0] + made["input_gate"] * made["cell_input"])[None]
            h = made["output_gate"] * torch.tanh(c)
        attends = torch.softmax(h[0] @ keys.T / h.shape[2] ** 0.5, 1).numpy().copy()
        if weights is not None and step in weights:
            weights[step](attends)
        both = torch.cat([h[0], torch.from_numpy(attends) @ x[0]], 1)
        read = torch.tanh(both @ p["decoder.readout.weight"] + p["decoder.readout.bias"])
        gains = torch.log_softmax((read @ p["decoder.output.weight"] + p["decoder.output.bias"]).double(), 1)
        now = [hyp if hyp.ended else replace(hyp, h=h[0, place], c=c[0, place]) for place, hyp in enumerate(beam)]
        beam = _chosen(now, gains.numpy(), beam_size, () if decisions is None else decisions.get(step, ()))
    return beam


def _chosen(beam: list[Hyp], gains: np.ndarray, beam_size: int, decisions: Sequence[Decision]) -> list[Hyp]:
    total = np.array([[hyp.score] * gains.shape[1] for hyp in beam]) + gains
    for place, hyp in enumerate(beam):
        if hyp.ended:
            total[place] = -np.inf
            total[place, END] = hyp.score
    out = np.zeros(total.shape, bool)
    forced = [(one.hypothesis, one.label) for one in decisions if one.kind == "force"]
    for one in decisions:
        if one.kind == "force":
            out |= one.only
        else:
            out[slice(None) if one.hypothesis is None else one.hypothesis, one.label] = True
    for place in forced:
        out[place] = False
    total = np.where(out, -np.inf, total)
    order = np.argsort(-total.reshape(-1), kind="stable")[:beam_size]
    places = [divmod(int(at), gains.shape[1]) if total.reshape(-1)[at] > -np.inf else (0, 0) for at in order]
    for place in forced:
        if place not in places:
            places[max(at for at, each in enumerate(places) if each not in forced)] = place
    return [
        replace(
            beam[hyp], score=float(total[hyp, label]), labels=(*beam[hyp].labels, label), ended=beam[hyp].ended or label == END
        )
        for hyp, label in places
    ]  # fmt: skip


def assert_found(result: tuple[rf.Tensor, rf.Tensor], seq: int, beam: list[Hyp]) -> None:
    """The hypotheses of a sequence are those of a plain search, with their scores."""
    labels, scores = result
    (batch, beam_dim), (time,) = scores.dims, [dim for dim in labels.dims if dim not in scores.dims]
    rows = labels.copy_transpose([batch, beam_dim, time]).numpy()[seq].tolist()
    np.testing.assert_allclose(
        scores.copy_transpose([batch, beam_dim]).numpy()[seq], [hyp.score for hyp in beam], rtol=1e-4
    )
    for row, hyp in zip(rows, beam, strict=True):
        assert row[: len(hyp.labels)] == list(hyp.labels)
