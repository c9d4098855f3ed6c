"""Solutions of 07_search: greedy, beam, sampling."""

import torch

PREDICTIONS = {
    "greedy": "P EH R AH CH UW T",
    # by step what stays, as lane and label
    "be_the_beam": [
        [[0, "W"], [0, "HH"], [0, "V"]],
        [[0, "IH"], [1, "W"], [1, "HH"]],
        [[0, "P"], [1, "IH"], [2, "W"]],
    ],
    "alpha_0": "W IH P L AE SH",
    "alpha_1": "HH W IH P L AE SH",
    "hot": "one of three, about equally often",
    "better": "1 to 20",
    "harm": "1 to 10",
    "why_worse": "The score is the model's opinion. Where it prefers a wrong pronunciation, missing it may be luck.",
    "why_first": "Before the third step all slots read the same state, as all hypotheses come from one.",
}


def beam_step(scores, log_probs, beam_size):
    totals = scores[:, None] + log_probs
    best, place = totals.flatten().topk(beam_size)
    vocab = log_probs.shape[1]
    return best, place // vocab, place % vocab


def normalised(log_prob, length, alpha):
    penalty = (5 + length) ** alpha / (5 + 1) ** alpha
    return log_prob / penalty


# log(-1.309 / -1.375) / log(12 / 13): equal ratings of 7 and 8 labels
alpha_flip = 0.61


def nucleus(probs, p):
    ordered, labels = probs.sort(descending=True)
    before = ordered.cumsum(0) - ordered
    kept = torch.where(before < p, ordered, 0.0)
    out = torch.zeros_like(probs)
    out[labels] = kept / kept.sum()
    return out


# [word for word in words if edits(greedy_found[word], word) < edits(beam_found[word], word)][0]
beaten_word = "hsiao"

# max(first_200, key=lambda word: abs(claimed - score(model, [word], [text])[0])) of winner(my_search(word, follow=False))
lying_word = "burell"


def top_k(logits, temperature, k):
    best = logits.topk(k).indices
    kept = torch.full_like(logits, -torch.inf)
    kept[best] = logits[best] / temperature
    return kept.softmax(0)
