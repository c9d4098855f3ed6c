"""Solutions of 04_encoder_decoder."""

import torch

import rfnb as rf


def decoder_inputs(words, begin):
    first = torch.full_like(words[:, :1], begin)
    return torch.cat([first, words[:, :-1]], dim=1)


def decoder_step(model, label, state):
    h, state = model.decoder(model.words(label), state=state, spatial_dim=rf.single_step_dim)
    return model.output(h), state


def masked_loss(logits, words, lengths):
    real = torch.arange(words.shape[1]) < lengths[:, None]  # (batch, time)
    return torch.nn.functional.cross_entropy(
        logits[real], words[real]
    )  # of the real cells alone: NaN elsewhere is not seen


def trained(weights, epochs, loss_of, validate, optimizer, patience):
    train, valid, kept, waited = [], [], [], 0
    for batches in epochs:
        losses = []
        for batch in batches:
            optimizer.zero_grad()
            loss = loss_of(batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        train.append(sum(losses) / len(losses))
        valid.append(validate())
        waited += 1
        if valid[-1] == min(valid) and valid.count(valid[-1]) == 1:
            waited, kept = 0, [weight.detach().clone() for weight in weights]
        if waited == patience:
            break
    with torch.no_grad():
        for weight, best in zip(weights, kept):
            weight.copy_(best)
    return train, valid


def last_output(outputs, lengths):
    return outputs[torch.arange(len(outputs)), lengths - 1]


PREDICTIONS = {
    "after_s": "EH, which it wanted to say",
    "after_nine": "hundred, and then no longer seventeen",
    "few": "it turns and rises",
    "comes_back": "ratio 0",
    "best_taught": "ratio 1",
    "better": "both about the same",
    "longer": "it falls to less than half",
}
