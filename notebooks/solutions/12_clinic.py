"""Solutions of 12_clinic."""

import torch


def alone_or_together(model, x, lengths):
    together = model(x, lengths)
    for seq, length in enumerate(lengths.tolist()):
        alone = model(x[seq : seq + 1, :length], lengths[seq : seq + 1])
        if not torch.allclose(alone[0], together[seq, :length], atol=1e-5):
            return False
    return True


def blind_to_padding(model, x, lengths):
    other, padding = x.clone(), torch.arange(x.shape[1]) >= lengths[:, None]
    other[padding] = 100.0
    return torch.allclose(model(x, lengths)[~padding], model(other, lengths)[~padding], atol=1e-5)


def steps_agree(model, tokens):
    whole, state = model.whole(tokens), model.start()
    for place, token in enumerate(tokens):
        logits, state = model.step(token, state)
        if not torch.allclose(logits, whole[place], atol=1e-5):
            return False
    return True


def forgets(make, first, second):
    used = make()
    used(first)
    return torch.allclose(used(second), make()(second), atol=1e-5)


def scores_are_true(search, model):
    return all(abs(score - model.score(labels)) < 1e-6 for labels, score in search(model, 4, 6))


PREDICTIONS = {
    "diagnosis_1": "the loop goes over the batch, not over time",
    "diagnosis_2": "the padding mask is upside down",
    "diagnosis_3": "positions are counted wrong in steps",
    "diagnosis_4": "a state of the last call is still there",
    "diagnosis_5": "states do not follow their hypotheses",
    "one_idea": "Two ways that must give the same.",
    "no_loss": "The model learns around them, and the loss does not see the search.",
}
