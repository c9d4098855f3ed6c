"""Three beam searches with a fault each, for notebook 8. Reading on spoils an exercise."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from rfnb import Dim, convert_to_tensor, gather_beams, log_softmax, single_step_dim, zeros
from rfnb.data import g2p
from rfnb.models.g2p import G2P, label_dim
from rfnb.models.g2p_search import encode_batch

_MOST_STEPS = 60


class Found(NamedTuple):
    """What a search found.

    Attributes:
        phonemes: Without the end label.
        score: natural-log probability that it takes the result to have.
        steps: What `rf.viz.beams` draws.
    """

    phonemes: tuple[str, ...]
    score: float
    steps: list[dict[str, Any]]

    def __str__(self) -> str:
        return f"{' '.join(self.phonemes)} ({self.score:.3f})"


def searches(model: G2P) -> dict[str, Any]:
    """The three by name: functions (word, beam_size=4) -> Found."""
    return {name: of(model, fault) for name, fault in FAULTS.items()}


def of(model: G2P, fault: str) -> Any:
    """A search with a fault, or without one: ""."""
    return lambda word, beam_size=4: _search(model, word, beam_size, fault)


@torch.no_grad()
def _search(model: G2P, word: str, beam_size: int, fault: str) -> Found:
    batch, encoded = encode_batch(model, [word])
    beam = Dim(beam_size, name="beam", kind="beam")
    labels, state = zeros([batch, beam], dtype="int64", sparse_dim=label_dim), encoded.start
    scores = torch.tensor([0.0] + [-torch.inf] * (beam_size - 1), device=labels.device)
    ended = torch.zeros_like(scores, dtype=torch.bool)
    steps: list[dict[str, Any]] = []
    while not ended.all() and len(steps) < _MOST_STEPS:
        logits, state = model.decoder(labels, encoded, state=state, spatial_dim=single_step_dim)
        log_probs = log_softmax(logits, axis=label_dim).copy_transpose([batch, beam, label_dim]).raw_tensor[0]
        if fault != "the end label is not final":
            log_probs[ended] = -torch.inf
            log_probs[ended, g2p.END_LABEL] = 0.0
        scores, place = (scores[:, None] + log_probs).flatten().topk(beam_size)
        parents, chosen = place // label_dim.size, place % label_dim.size
        ended = ended[parents] | (chosen == g2p.END_LABEL)
        labels = convert_to_tensor(chosen[None], dims=[batch, beam], sparse_dim=label_dim)
        if fault != "states do not follow":
            state = gather_beams(state, convert_to_tensor(parents, dims=[beam], sparse_dim=beam))
        now = torch.zeros_like(ended) if fault == "the end label is not final" else ended
        steps.append({"tokens": chosen, "parents": parents, "scores": scores, "ended": now})
    slot, written = 0, []
    for step in reversed(steps):
        written.append(int(step["tokens"][slot]))
        slot = int(step["parents"][slot])
    phonemes = g2p.decode_labels(written[::-1])
    if fault == "the length is off by one":
        phonemes = phonemes[:-1]
    return Found(phonemes, float(scores[0]), steps)


FAULTS = {"A": "the end label is not final", "B": "the length is off by one", "C": "states do not follow"}
