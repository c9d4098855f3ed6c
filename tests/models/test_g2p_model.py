"""The model: its size, its sums against a plain torch computation, and words that do not disturb each other."""

import numpy as np
import pytest
import torch
from models.tiny import make_model
from plain_g2p import PlainG2P

from rfnb.core.dim import Dim, single_step_dim
from rfnb.data.batching import make_batch
from rfnb.models.g2p import G2P, SMALL, label_dim, letter_dim
from rfnb.models.g2p_search import encode_batch, score
from rfnb.models.g2p_training import batch_loss
from rfnb.ops.const import convert_to_tensor


def raw(model):
    return {name: parameter.raw_tensor.detach() for name, parameter in model.named_parameters()}


def torch_logits(p, letters, inputs):
    """Logits (words, labels, 40) of words of equal length: the model once more, in plain torch, with torch's own LSTM."""
    plain = PlainG2P(p)
    return plain.decode(plain.encode(letters), inputs).logits


def logits_of(model, batch):
    batch_dim = Dim(len(batch.letters), name="batch")
    letters_dim = Dim(batch.letters.shape[1], name="letters")
    labels_dim = Dim(batch.inputs.shape[1], name="labels")
    letters = convert_to_tensor(batch.letters, dims=[batch_dim, letters_dim], sparse_dim=letter_dim)
    inputs = convert_to_tensor(batch.inputs, dims=[batch_dim, labels_dim], sparse_dim=label_dim)
    encoded = model.encode(letters, spatial_dim=letters_dim)
    logits, state = model.decoder(inputs, encoded, state=encoded.start, spatial_dim=labels_dim)
    return logits.copy_transpose([batch_dim, labels_dim, label_dim]), state, (batch_dim, encoded, inputs, labels_dim)


@pytest.fixture
def batch(examples):
    return make_batch([examples[0], examples[3], examples[4]])  # cat, see, bat


def test_default_model_has_at_most_1_2_million_parameters():
    assert G2P().num_parameters() == 1_197_800
    assert G2P(SMALL).num_parameters() == 631_976


def test_logits_equal_plain_torch(model, batch):
    logits, _, _ = logits_of(model, batch)
    expected = torch_logits(raw(model), torch.tensor(batch.letters).long(), torch.tensor(batch.inputs).long())
    torch.testing.assert_close(logits.raw_tensor.detach(), expected, rtol=1e-5, atol=1e-6)


def test_loss_is_the_mean_over_real_labels(model, batch):
    expected = torch_logits(raw(model), torch.tensor(batch.letters).long(), torch.tensor(batch.inputs).long())
    targets = torch.tensor(batch.targets).long()
    targets[torch.arange(targets.shape[1]) >= torch.tensor(batch.lengths)[:, None]] = -100
    wanted = torch.nn.functional.cross_entropy(expected.flatten(0, 1), targets.flatten(), label_smoothing=0.1)
    assert batch_loss(model, batch, 0.1).raw_tensor.item() == pytest.approx(wanted.item(), rel=1e-5)


def test_single_steps_equal_the_whole_sequence(model, batch):
    logits, state, (batch_dim, encoded, inputs, labels_dim) = logits_of(model, batch)
    step_state = encoded.start
    for position in range(labels_dim.extent):
        labels = convert_to_tensor(inputs.numpy()[:, position], dims=[batch_dim], sparse_dim=label_dim)
        one, step_state = model.decoder(labels, encoded, state=step_state, spatial_dim=single_step_dim)
        np.testing.assert_allclose(
            one.copy_transpose([batch_dim, label_dim]).raw_tensor.detach(),
            logits.raw_tensor.detach()[:, position],
            rtol=1e-5,
            atol=1e-6,
        )
    np.testing.assert_allclose(step_state.h.raw_tensor.detach(), state.h.raw_tensor.detach(), rtol=1e-5, atol=1e-6)


def test_word_scores_the_same_alone_and_in_a_batch_of_other_lengths(model):
    words, said = ["cat", "a", "thoughtfully"], [("K", "AE", "T"), ("AH",), ("TH", "AO", "T", "F", "AH", "L", "IY")]
    together = score(model, words, said)
    alone = [score(model, [word], [phonemes])[0] for word, phonemes in zip(words, said, strict=True)]
    np.testing.assert_allclose(together, alone, rtol=1e-5)


def test_same_seed_makes_the_same_model():
    a, b, c = make_model(1), make_model(1), make_model(2)
    assert all(torch.equal(raw(a)[name], raw(b)[name]) for name in raw(a))
    assert not all(torch.equal(raw(a)[name], raw(c)[name]) for name in raw(a))


def test_longest_word_is_encoded(model):
    _, encoded = encode_batch(model, ["a" * 64])
    assert encoded.letters_dim.extent == 64
