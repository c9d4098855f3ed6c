"""Solutions of 13_measures: pieces of words, and how outputs are measured."""

import math
from collections import Counter

PREDICTIONS = {
    "pieces": "n ation al ity",
    "better": "the model of pieces",
    "rates": "about 7 %",
    "mixed_up": "AH, as in hut",
    "best_bleu": "A",
    "why_together": "A share of few n-grams is rough or 0, and one 0 makes the product 0; sums over all texts weigh each n-gram the same.",
    "why_read": "BLEU counts n-grams that match, and a lost “not” costs one word: only somebody who reads sees that the sense is gone.",
}


def learn_merges(counts, size):
    pieces = {word: list(word) for word in counts}
    merges = []
    for _ in range(size):
        pairs = Counter()
        for word, parts in pieces.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += counts[word]
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        pieces = {word: _joined(parts, best) for word, parts in pieces.items()}
    return merges


def _joined(parts, pair):
    result, i = [], 0
    while i < len(parts):
        found = tuple(parts[i : i + 2]) == pair
        result.append("".join(pair) if found else parts[i])
        i += 1 + found
    return result


def split(word, merges):
    parts = list(word)
    for pair in merges:
        parts = _joined(parts, pair)
    return parts


def perplexity(log_probs):
    return math.exp(-sum(map(sum, log_probs)) / sum(map(len, log_probs)))


def align(output, reference):
    cost = [[max(i, j) if 0 in (i, j) else 0 for j in range(len(reference) + 1)] for i in range(len(output) + 1)]
    for i, said in enumerate(output, 1):
        for j, meant in enumerate(reference, 1):
            cost[i][j] = min(cost[i - 1][j - 1] + (said != meant), cost[i - 1][j] + 1, cost[i][j - 1] + 1)
    pairs, i, j = [], len(output), len(reference)
    while i or j:
        if i and j and cost[i][j] == cost[i - 1][j - 1] + (output[i - 1] != reference[j - 1]):
            pairs.append((output[i - 1], reference[j - 1]))
            i, j = i - 1, j - 1
        elif i and cost[i][j] == cost[i - 1][j] + 1:
            pairs.append((output[i - 1], None))
            i -= 1
        else:
            pairs.append((None, reference[j - 1]))
            j -= 1
    return pairs[::-1]


def error_rate(outputs, references):
    edits = sum(said != meant for pair in zip(outputs, references) for said, meant in align(*pair))
    return edits / sum(map(len, references))


def bleu(outputs, references):
    logs = []
    for n in (1, 2, 3, 4):
        matched = total = 0
        for output, reference in zip(outputs, references):
            said, meant = (Counter(zip(*(text[i:] for i in range(n)))) for text in (output, reference))
            matched += (said & meant).total()
            total += said.total()
        if not matched:
            return 0.0
        logs.append(math.log(matched / total))
    long, wanted = sum(map(len, outputs)), sum(map(len, references))
    return math.exp(sum(logs) / 4 + min(0, 1 - wanted / long))


fool = "the medicine must be taken by children under six years"
