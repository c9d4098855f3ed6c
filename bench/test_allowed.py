"""Cost of a rule about labels, as a ratio: a search with one that allows everything against the same search without it."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb.models import load_g2p
from rfnb.models.g2p import label_dim
from rfnb.models.g2p_search import encode_batch

LABELS, STEPS = 1000, 30


def model(seqs: int, width: int):
    """A step of an LSTM over labels, in plain torch."""
    torch.manual_seed(0)
    cell, embed, out = (
        torch.nn.LSTMCell(width, width),
        torch.nn.Embedding(LABELS, width),
        torch.nn.Linear(width, LABELS),
    )

    def step(labels, state):
        state = cell(embed(labels), state)
        return out(state[0]).log_softmax(-1), state

    return step, (torch.zeros(seqs, width), torch.zeros(seqs, width))


@pytest.mark.parametrize(("seqs", "width"), [(4, 1024)])
def test_a_function_of_the_labels(overhead, seqs, width):
    step, state = model(seqs, width)
    everything = set(range(LABELS))
    options = {"batch": seqs, "state": state, "beam_size": 5, "max_seq_len": STEPS, "early_stopping": False}

    def search(**more):
        with torch.no_grad():
            result = rf.beam_search(step, **options, **more)
        return torch.tensor([result.best(seq).score for seq in range(seqs)])

    overhead(
        f"search with a rule, {seqs} sequences",
        lambda: search(allowed=lambda labels: everything),
        search,
        limit=1.1,
        turns=11,
        warmup=1,
    )


def of_a_search(history):
    """A lexicon of all that a search has had in its beam: with it the search is the same, and nearly everything else is forbidden."""
    words, beam = set(), [()]
    for step in history.steps:
        of_parents = [beam[parent] for parent in step["parents"][0]]
        beam = [
            word if word is None or label == 0 else (*word, int(label))
            for word, label in zip(of_parents, step["tokens"][0])
        ]
        words.update(filter(None, beam))
        beam = [None if ended else word for word, ended in zip(beam, step["ended"][0])]
    return rf.Lexicon(words)


@pytest.mark.parametrize("told", [False, True])
def test_a_lexicon_in_the_shipped_model(overhead, told):
    """The least model: a step takes as long as 40 of its calls, so each call of a rule is felt.

    What a rule adds to a step of the loop, of 460 us: 14 us to the states of four hypotheses (8 where each state is known), 11 to note
    their labels, 6 to mask the scores, and 16 for a mask that no step had before: with all of these new the ratio of the loop is 1.16,
    with the masks of a search before it, as here, 1.10. Of `rf.beam_search`, of 720 us, which tells what was
    forbidden: 27 us more for the probability of it, 11 for the best free candidates, 20 for the scores and limits of candidates,
    7 for the free scores. What was forbidden is not put in order, nor is any candidate, until somebody asks for the history.
    """
    spelling = load_g2p()
    with torch.inference_mode():
        batch, encoded = encode_batch(spelling, ["phoneticians"])

    def step(label, state):
        logits, state = spelling.decoder(label, encoded, state=state, spatial_dim=rf.single_step_dim)
        return rf.log_softmax(logits, axis=label_dim), state

    def beams(**more):
        with torch.inference_mode():
            return rf.beam_search(
                step, batch=batch, max_seq_len=STEPS, state=encoded.start, beam_size=4, axis=label_dim, **more
            )

    def loop(**more):
        with torch.inference_mode():
            steps = rf.Loop(max_seq_len=STEPS, name="search")
            steps.state.label = rf.zeros([batch], dtype="int64", sparse_dim=label_dim)
            steps.state.decoder = encoded.start
            for _ in steps:
                scores, state = step(steps.state.label, steps.state.decoder)
                label = rf.choice(scores, axis=label_dim, beam_size=4, **more)
                steps.state.label, steps.state.decoder = label, state
                steps.end(label == 0, include_eos=True)
                labels = steps.stack(label)
            return rf.get_beam_scores(labels)

    lexicon = of_a_search(beams().history)
    search = (lambda **more: torch.tensor(beams(**more).best().score)) if told else loop
    name = "rf.beam_search" if told else "loop"
    overhead(
        f"G2P, one word, beam 4, lexicon, {name}", lambda: search(allowed=lexicon), search, limit=1.25 if told else 1.15
    )
