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

    Where a search before it has met the same prefixes, as here, the ratio is 1.07 of the loop and 1.09 of `rf.beam_search`. Of 430
    and 605 us a step take the states of four hypotheses 9 us, their labels 12, the mask and its choice 9; and `rf.beam_search` 7 us
    more, to keep the scores of which somebody may ask what was forbidden, and what would have been best. Of a lexicon that no search
    has used it is 1.23 and 1.18: 60 us a step are the first masks of four states.
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
    overhead(f"G2P, one word, beam 4, lexicon, {name}", lambda: search(allowed=lexicon), search, limit=1.1)
