"""The coverage penalty and n-gram blocking of rf.beam_search, against brute force over all sequences."""

import numpy as np
import pytest
from asserting import ragged, tensor
from markov import Markov

import rfnb as rf
from rfnb import Dim

STEPS = 4


class Attending(Markov):
    """A Markov model that attends to a source of `lengths` frames: weights by the label before and the step."""

    def __init__(self, lengths, **options):
        super().__init__(num_seqs=len(lengths), **options)
        self.lengths = lengths
        rng = np.random.default_rng(5)
        self.energies = (
            rng.standard_normal((len(lengths), 10, self.table.shape[-1], max(lengths))).astype(np.float32) * 2
        )

    def weights(self, seq, labels):
        """[step, frame] of a sequence of labels."""
        energies = [
            self.energies[seq, step, before, : self.lengths[seq]] for step, before in enumerate([0, *labels[:-1]])
        ]
        return np.stack([np.exp(row) / np.exp(row).sum() for row in energies])

    def penalty(self, seq, labels):
        return float(np.log(np.minimum(self.weights(seq, labels).sum(0), 1.0)).sum())

    def run(self, **options):
        steps, source = Dim(10, name="step"), ragged(self.lengths, self.batch, "source")
        table = tensor(self.table, self.batch, steps, self.before, self.vocab)
        energies = tensor(self.energies, self.batch, steps, self.before, source)

        def step(label, state):
            pick = lambda x: rf.gather(  # noqa: E731
                rf.gather(x, indices=state["step"], axis=steps), indices=rf.set_sparse_dim(label, self.before), axis=self.before
            )  # fmt: skip
            return pick(table), {"step": state["step"] + 1}, rf.softmax(pick(energies), axis=source)

        start = {"step": rf.zeros([], dtype="int32")}
        return rf.beam_search(step, batch=self.batch, state=start, axis=self.vocab, max_seq_len=STEPS, **options)

    def everything(self, seq, max_seq_len=STEPS):
        return [(labels, score) for labels, score in super().everything(seq, max_seq_len) if labels[-1] == 0]


@pytest.mark.parametrize("ended", ["stay", "leave"])
@pytest.mark.parametrize("exponent", [0.0, 0.8])
@pytest.mark.parametrize("beta", [0.2, 2.0])
def test_a_beam_of_everything_finds_the_best_with_coverage(beta, exponent, ended):
    model = Attending([3, 2, 4], seed=2, size=3)
    result = model.run(beam_size=120, coverage=beta, length_exponent=exponent, num_best=3, ended=ended)
    for seq in range(3):
        final = {
            labels: score / len(labels) ** exponent + beta * model.penalty(seq, labels)
            for labels, score in model.everything(seq)
        }
        expected = sorted(final, key=lambda labels: -final[labels])[:3]
        got = result.nbest(seq)[:3]
        assert [row.tokens for row in got] == expected
        for row in got:
            assert row.score == pytest.approx(final[row.tokens], abs=1e-4)
            assert row.parts["coverage"] == pytest.approx(beta * model.penalty(seq, row.tokens), abs=1e-4)


@pytest.mark.parametrize("ended", ["stay", "leave"])
def test_sources_of_different_lengths_do_not_disturb_each_other(ended):
    model = Attending([3, 1, 4], seed=3)
    together = model.run(beam_size=3, coverage=1.0, ended=ended)
    for seq, length in enumerate(model.lengths):
        alone = Attending([length])
        alone.table, alone.energies = model.table[seq : seq + 1], model.energies[seq : seq + 1, ..., :length]
        wanted = [
            (row.tokens, pytest.approx(row.score, abs=1e-4))
            for row in alone.run(beam_size=3, coverage=1.0, ended=ended).nbest()
        ]
        assert [(row.tokens, row.score) for row in together.nbest(seq)] == wanted


@pytest.mark.parametrize("ended", ["stay", "leave"])
@pytest.mark.parametrize("length", [1, 2, 3])
def test_a_beam_of_everything_finds_the_best_without_an_ngram_twice(length, ended):
    model = Attending([2, 2], seed=4, size=3)
    result = model.run(beam_size=120, no_repeat_ngram=length, num_best=3, ended=ended)
    for seq in range(2):
        allowed = []
        for labels, score in model.everything(seq):
            ngrams = list(zip(*(labels[offset:] for offset in range(length))))
            if len(set(ngrams)) == len(ngrams):
                allowed.append((labels, score))
        got = result.nbest(seq)[:3]
        assert [row.tokens for row in got] == [labels for labels, _ in allowed[:3]]
        np.testing.assert_allclose([row.score for row in got], [score for _, score in allowed[:3]], atol=1e-4)
        assert {row.tokens for row in result.nbest(seq)} <= {labels for labels, _ in allowed}
