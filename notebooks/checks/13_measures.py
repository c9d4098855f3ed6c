"""Checks of 13_measures: pieces of words, and how outputs are measured."""

import math
import random
from collections import Counter

from rfnb.teaching import call, exercise, wrong

# -- Pieces -------------------------------------------------------------------------------------------------------------


def _joined(parts, pair):
    result, i = [], 0
    while i < len(parts):
        found = tuple(parts[i : i + 2]) == pair
        result.append("".join(pair) if found else parts[i])
        i += 1 + found
    return result


def _merges(counts, size, *, weighed=True, rank=None, most=True):
    pieces, merges = {word: list(word) for word in counts}, []
    while len(merges) < size:
        pairs = Counter()
        for word, parts in pieces.items():
            for pair in zip(parts, parts[1:]):
                pairs[pair] += counts[word] if weighed else 1
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair] if most else pairs[pair], pair))
        if rank:
            best = rank(pairs)
        merges.append(best)
        pieces = {word: _joined(parts, best) for word, parts in pieces.items()}
    return merges


def _once(counts, size):
    """The pairs of letters of the beginning, without the pieces that come of them."""
    pairs = Counter()
    for word, count in counts.items():
        for pair in zip(word, word[1:]):
            pairs[pair] += count
    return sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:size]


def _across(counts, size):
    """As if the words stood in a row without a gap."""
    return _merges({"".join(word * count for word, count in counts.items()): 1}, size)


_TEXTS = [
    ({"low": 5, "lower": 2, "newest": 6, "widest": 3}, 10),
    ({"ab": 1, "cd": 4}, 1),  # counts
    ({"ab": 2, "bc": 2, "abc": 1, "ca": 3}, 2),  # ties
    ({"banana": 3, "bandana": 2, "ananas": 1}, 5),
    ({"aaaa": 1, "aaa": 2}, 3),  # the same letter in a row
    ({"tea": 1, "eat": 1}, 9),  # fewer pairs than are asked for
    ({"on": 7, "no": 6, "noon": 2}, 4),
]


@exercise(
    "The pairs that are joined",
    hints=[
        "Begin with each word as a list of its letters. Count the pairs of neighbours in a Counter, each as often as its word is there.",
        "The best pair is the least by a key of two parts: how often it is there, negated, and the pair itself. Join it, then count again.",
        "Join from left to right, in a new list; after a pair go on behind it. Stop where there is no pair left.",
    ],
    points=2,
)
def learn_merges(answer):
    mistakes = [
        (
            lambda counts, size: _merges(counts, size, weighed=False),
            "Each word counted once. A pair counts as often as its word is in the text.",
        ),
        (_once, "These are pairs of letters only. After each join the pairs are counted again, with the new piece in them."),
        (_across, "A pair was counted across two words. The last letter of a word has no neighbour in the next."),
        (lambda counts, size: _merges(counts, size, most=False), "This is the rarest pair. The most frequent one is joined."),
        (
            lambda counts, size: _merges(counts, size, rank=lambda pairs: max(pairs, key=lambda pair: (pairs[pair], pair))),
            "Of pairs that are equally frequent, the first in the alphabet is joined, and this is the last.",
        ),
        (
            lambda counts, size: _merges(counts, size, rank=lambda pairs: pairs.most_common(1)[0][0]),
            "Of pairs that are equally frequent, the first in the alphabet is joined, not the one that was met first.",
        ),
    ]  # fmt: skip
    for counts, size in _TEXTS:
        want, given = _merges(counts, size), [("counts", counts), ("size", size)]
        got = call(answer, dict(counts), size)
        if not isinstance(got, list):
            wrong("The pairs come as a list.", [*given, ("got", repr(got)[:80])])
        if any(isinstance(one, str) for one in got):
            wrong(
                "A pair is a tuple of two texts, and this is one text.",
                [*given, ("got", got[:3])],
                '("e", "s"), not "es"',
            )
        got = [tuple(one) if isinstance(one, (tuple, list)) else one for one in got]
        if got == want:
            continue
        both = [*given, ("got", _shown(got)), ("expected", _shown(want))]
        for mistake, words in mistakes:
            if got == mistake(counts, size) or (size > 9 and got[:6] == mistake(counts, size)[:6] != want[:6]):
                wrong(words, both)
        if got[: len(want)] == want:
            wrong(f"These are {len(got)} pairs, and {min(size, len(want))} were wanted.", both)
        if got == want[: len(got)]:
            wrong("It stops too early.", both)
        wrong("Another pair is joined.", both)


def _shown(merges):
    return ", ".join("+".join(map(str, one)) if isinstance(one, tuple) else repr(one) for one in merges) or "none"


def _split(word, merges):
    parts = list(word)
    for pair in merges:
        parts = _joined(parts, pair)
    return parts


def _by_length(word, merges):
    """From the left the longest piece that there is."""
    known, parts = {"".join(pair) for pair in merges}, []
    while word:
        piece = next((word[:size] for size in range(len(word), 1, -1) if word[:size] in known), word[0])
        parts.append(piece)
        word = word[len(piece) :]
    return parts


def _first_place(word, merges):
    parts = list(word)
    for left, right in merges:
        for i in range(len(parts) - 1):
            if (parts[i], parts[i + 1]) == (left, right):
                parts[i : i + 2] = [left + right]
                break
    return parts


_PIECES = [
    ("newer", [("e", "r"), ("n", "e"), ("w", "er"), ("ne", "wer")]),
    ("abab", [("a", "b"), ("ab", "ab")]),
    ("ababa", [("b", "a"), ("a", "b"), ("ba", "ba")]),  # the order of the merges, not of the letters
    ("aaaaa", [("a", "a"), ("aa", "aa")]),
    ("lowest", [("e", "s"), ("es", "t"), ("l", "o"), ("lo", "w"), ("low", "est")]),
    ("abcd", [("b", "c"), ("a", "b"), ("bc", "d"), ("c", "d")]),  # the longest from the left would be ab
    ("x", [("a", "b")]),
    ("", [("a", "b")]),
    ("tee", []),
    ("bcabc", [("ab", "c"), ("a", "b"), ("b", "c")]),  # abc is there before ab is, and is not made afterwards
]


@exercise(
    "A word in pieces",
    hints=[
        "Begin with its letters: list(word). Then each pair of merges in its turn, everywhere in the word.",
        "The order is that of `merges`, not that of the letters, and no piece is longer for being on the left.",
        "Join from left to right in a new list: if the last part and this one are the pair, go on behind them.",
    ],
)
def split(answer):
    for word, merges in _PIECES:
        want, got = _split(word, merges), call(answer, word, list(merges))
        got = list(got) if isinstance(got, (list, tuple)) else got
        if got == want:
            continue
        given = [("word", word), ("merges", _shown(merges)), ("got", got), ("expected", want)]
        if not isinstance(got, list):
            wrong("The pieces come as a list of texts.", given)
        if "".join(map(str, got)) != word:
            wrong("The pieces do not make the word again.", given, "What is in no pair stays a letter.")
        if got == _by_length(word, merges):
            wrong("This takes the longest piece from the left. The pairs are joined in their order.", given)
        if got == _first_place(word, merges):
            wrong("A pair is joined in every place of the word, not only in the first.", given)
        if got == list(word):
            wrong("Nothing is joined.", given)
        wrong(
            "Other pieces come out.",
            given,
            "Each pair has one turn, in the order of the list, and joins all its places.",
        )


# -- Perplexity ---------------------------------------------------------------------------------------------------------


def _perplexity(log_probs):
    return math.exp(-sum(map(sum, log_probs)) / sum(map(len, log_probs)))


_PERPLEXITY_MISTAKES = [
    (lambda lists: sum(math.exp(-sum(one) / len(one)) for one in lists) / len(lists),
     "This is the mean of the perplexities of the texts. All labels of all texts are taken together, so that a long text counts for more."),
    (lambda lists: math.exp(-sum(sum(one) / len(one) for one in lists) / len(lists)),
     "Each text counts the same here, whatever its length. Divide the sum of all by the number of all labels."),
    (lambda lists: -sum(map(sum, lists)) / sum(map(len, lists)), "This is the cross-entropy, in nats. Perplexity is exp of it."),
    (lambda lists: math.exp(sum(map(sum, lists)) / sum(map(len, lists))),
     "This is the mean probability, 1 / perplexity: the sign is missing."),
    (lambda lists: 2 ** (-sum(map(sum, lists)) / sum(map(len, lists))),
     "The logs are natural ones, so it is exp and not 2 to the power."),
    (lambda lists: math.exp(-sum(map(sum, lists)) / len(lists)),
     "It is divided by the number of texts. Divide by the number of labels."),
]  # fmt: skip


@exercise(
    "Perplexity",
    hints=[
        "Add all log-probabilities of all texts, and count all labels.",
        "The mean of -log p is the cross-entropy; exp of it is the perplexity.",
    ],
)
def perplexity(answer):
    cases = [
        [[math.log(0.5), math.log(0.25)]],
        [[-0.1, -0.2, -2.0], [-1.5]],
        [[-3.0], [-0.5, -0.5, -0.5, -0.5], [-1.0, -2.0]],
        [[0.0, 0.0]],
    ]
    for lists in cases:
        got, want = call(answer, [list(one) for one in lists]), _perplexity(lists)
        value = _number(got, "The perplexity", [("log_probs", lists)])
        if math.isclose(value, want, rel_tol=1e-4):
            continue
        given = [("log_probs", lists), ("got", f"{value:.4g}"), ("expected", f"{want:.4g}")]
        for mistake, words in _PERPLEXITY_MISTAKES:
            if math.isclose(value, mistake(lists), rel_tol=1e-4):
                wrong(words, given)
        wrong("This is another number.", given, "exp(-(sum of all log-probabilities) / (number of all labels))")


def _number(got, what, given):
    try:
        value = float(got)
    except (TypeError, ValueError):
        value = math.nan
    if math.isnan(value):
        wrong(f"{what} is a number.", [*given, ("got", repr(got)[:80])])
    return value


# -- Errors -------------------------------------------------------------------------------------------------------------


def _cost(output, reference):
    row = list(range(len(reference) + 1))
    for i, said in enumerate(output, 1):
        before, row = row, [i]
        for j, meant in enumerate(reference, 1):
            row.append(min(before[j - 1] + (said != meant), before[j] + 1, row[j - 1] + 1))
    return row[-1]


_ALIGNED = [
    ("K AE T", "K AE T"),
    ("K AE T", "K AH T"),
    ("K T", "K AE T"),
    ("K AE T S", "K AE T"),
    ("", "K AE"),
    ("K AE", ""),
    ("", ""),
    ("S AH G", "S EY G AH Z"),
    ("AH B AH B", "B AH B AH"),
    ("P EH R AH CH UW T", "P AE R SH UW T"),
    ("T AE K", "K AE T"),
    ("A B C D E", "B C D E A"),
]


def _drawn():
    source = random.Random(5)
    for _ in range(30):
        yield tuple(" ".join(source.choices("PTKS", k=source.randrange(7))) for _ in range(2))


@exercise(
    "The alignment with the fewest edits",
    hints=[
        "A table has the fewest edits between the first labels of the one and of the other. Its first row and column count up from 0.",
        "A cell is the least of three: above and left, plus 1 if the labels differ; above, plus 1; to the left, plus 1.",
        "Then go back from the last cell to the first: each step that explains the number gives a pair, with None for a gap.",
    ],
    points=2,
)
def align(answer):
    for said, meant in [*_ALIGNED, *_drawn()]:
        output, reference = said.split(), meant.split()
        given = [("output", said or "nothing"), ("reference", meant or "nothing")]
        got = call(answer, list(output), list(reference))
        if not isinstance(got, (list, tuple)) or any(
            not isinstance(one, (list, tuple)) or len(one) != 2 for one in got
        ):
            wrong(
                "The alignment is a list of pairs.",
                [*given, ("got", repr(got)[:80])],
                '[("K", "K"), ("AE", "AH"), (None, "T")]',
            )
        both = [*given, ("got", _lines(got))]
        left, right = ([one for one in side if one is not None] for side in ([a for a, _ in got], [b for _, b in got]))
        if (left, right) == (reference, output) and output != reference:
            wrong("Output and reference have changed places: the label of the output comes first.", both)
        if (left[::-1], right[::-1]) == (output, reference) and (output[::-1], reference[::-1]) != (output, reference):
            wrong("It stands backwards: the way back begins at the end, so turn the list around.", both)
        if (None, None) in map(tuple, got):
            wrong("A pair of two gaps says nothing.", both)
        for side, labels, name in ((left, output, "output"), (right, reference, "reference")):
            if side != labels:
                wrong(
                    f"The labels of the {name}, read along the pairs, are other ones.",
                    [*both, ("are", " ".join(map(str, side)) or "none")],
                )
        edits, fewest = sum(a != b for a, b in got), _cost(output, reference)
        if edits > fewest:
            each = (
                "A substitution is one edit, as a gap is: (said, meant) with two labels is allowed."
                if (not any(a != b for a, b in got if None not in (a, b)))
                else ""
            )
            wrong(f"This has {edits} edits, and {fewest} {'is' if fewest == 1 else 'are'} enough.", both, each)


def _lines(pairs):
    return "  ".join(f"{'-' if a is None else a}:{'-' if b is None else b}" for a, b in pairs) or "no pair"


def _error_rate(outputs, references):
    return sum(map(_cost, outputs, references)) / sum(map(len, references))


_RATE_MISTAKES = [
    (lambda outputs, references: sum(_cost(o, r) / len(r) for o, r in zip(outputs, references)) / len(references),
     "This is the mean of the rates of the texts. All edits are added, and divided by the number of all labels."),
    (lambda outputs, references: sum(map(_cost, outputs, references)) / max(1, sum(map(len, outputs))),
     "It is divided by the length of the outputs. A system that says much would have fewer errors by that: the references count."),
    (lambda outputs, references: sum(map(_cost, outputs, references)),
     "This is the number of edits. Divide it by the number of labels in the references."),
    (lambda outputs, references: min(1.0, _error_rate(outputs, references)),
     "An error rate may be more than 1: who says too much has more edits than there are labels."),
    (lambda outputs, references: sum(o != r for o, r in zip(outputs, references)) / len(references),
     "This is the share of texts that are wrong. The labels are counted here."),
    (lambda outputs, references: 1 - _error_rate(outputs, references), "This is the share of what is right: 1 less the rate."),
]  # fmt: skip


@exercise(
    "The error rate",
    hints=[
        "The edits of one text are the pairs of its alignment in which the two are not the same.",
        "Add them over all texts, and divide once, by the number of all labels of the references.",
    ],
)
def error_rate(answer):
    cases = [
        (["K AE T", "S"], ["K AH T", "S IY"]),
        (["AH", "K AE T S T"], ["AH B AH V", "K AE T"]),
        (["K AE T", "S"], ["K AE T", "S IY"]),
        (["S S S S S", ""], ["K", "T"]),
        (["K T"], ["K AE T"]),
        (["P AE T S", "T IY", "OW"], ["P AE T", "T", "AA"]),
        (["S S T", "IY S"], ["S T AH", "S IY S AH"]),
    ]
    for outputs, references in cases:
        texts = [[one.split() for one in many] for many in (outputs, references)]
        want = _error_rate(*texts)
        given = [("outputs", " / ".join(outputs)), ("references", " / ".join(references))]
        value = _number(call(answer, *[[list(one) for one in many] for many in texts]), "The rate", given)
        if math.isclose(value, want, rel_tol=1e-4, abs_tol=1e-9):
            continue
        both = [*given, ("got", f"{value:.4g}"), ("expected", f"{want:.4g}")]
        for mistake, words in _RATE_MISTAKES:
            if math.isclose(value, mistake(*texts), rel_tol=1e-4):
                wrong(words, both)
        if math.isclose(value, 100 * want, rel_tol=1e-4):
            wrong("This is in percent, and a share is wanted.", both)
        wrong("This is another rate.", both, "(all edits) / (all labels of the references)")


# -- BLEU ---------------------------------------------------------------------------------------------------------------


def _bleu(outputs, references, *, clipped=True, brief=True, arithmetic=False, most=4):
    shares = []
    for n in range(1, most + 1):
        matched = total = 0
        for output, reference in zip(outputs, references):
            said, meant = (Counter(zip(*(text[i:] for i in range(n)))) for text in (output, reference))
            matched += (said & meant).total() if clipped else sum(count for one, count in said.items() if one in meant)
            total += said.total()
        shares.append(matched / total if total else 0.0)
    long, wanted = sum(map(len, outputs)), sum(map(len, references))
    penalty = math.exp(min(0.0, 1 - wanted / long)) if brief and long else 1.0
    if arithmetic:
        return penalty * sum(shares) / most
    return penalty * math.exp(sum(map(math.log, shares)) / most) if all(shares) else 0.0


_BLEU_MISTAKES = [
    (lambda o, r: _bleu(o, r, clipped=False),
     "An n-gram counts at most as often as it is in the reference: “the the the the” is no good text. Counters have & for that."),
    (lambda o, r: _bleu(o, r, brief=False), "The brevity penalty is missing: exp(1 - references / outputs) where the outputs are shorter."),
    (lambda o, r: _bleu(o, r, arithmetic=True), "This is the mean of the four shares. The geometric one is wanted: exp of the mean log."),
    (lambda o, r: sum(_bleu([a], [b]) for a, b in zip(o, r)) / len(o),
     "This is the mean over the texts. The counts of all texts are added first, for each n."),
    (lambda o, r: _bleu(r, o), "Output and reference have changed places: a share is of the n-grams of the output."),
    (lambda o, r: _bleu(o, r, most=3), "n goes up to 4, and here only up to 3."),
    (lambda o, r: _bleu(o, r) * math.exp(max(0.0, 1 - sum(map(len, r)) / sum(map(len, o)))),
     "Outputs that are longer than the references get no reward: the penalty is at most 1."),
]  # fmt: skip


def _sentences():
    """Outputs and references, longer ones and shorter ones, some with words again and again."""
    long = "the train to the coast leaves at half past nine"
    cases = [
        ([long], [long]),
        ([long, "we have sold all of the tickets"], [long, "we have sold nearly all of the tickets"]),
        (["the the the the the train to the coast"], [long]),
        (["the train to the coast leaves at nine", "yes we do have some"], [long, "yes we do"]),
        (["to the coast the train leaves at half past nine", "no"], [long, "no"]),
        (["nobody knows"], [long]),
        (
            ["leaves at half past nine the train to the coast", "we do not know"],
            ["the train leaves at half past nine", "we do not know that"],
        ),
        (["a b c d e a b c d", "c d e"], ["a b c d e", "c d e a b"]),
        (["at half past nine the train leaves for the coast every day"], ["the train leaves for the coast"]),
    ]
    source = random.Random(3)
    for _ in range(6):
        texts = [[" ".join(source.choices("abc", k=source.randint(4, 9))) for _ in range(3)] for _ in range(2)]
        cases.append((texts[0], texts[1]))
    return [tuple([one.split() for one in many] for many in case) for case in cases]


@exercise(
    "BLEU",
    hints=[
        "The n-grams of a text as tuples: slices of n words from each place. Count them with a Counter.",
        "For each n, over all texts: two Counters joined by & have what matches, each as often as in the rarer one.",
        "The geometric mean is exp of the mean of the logs; the penalty is exp of 1 - R / O, where that is below 0. Mind the log of 0.",
    ],
    points=2,
)
def bleu(answer):
    for outputs, references in _sentences():
        given = [("outputs", " / ".join(map(" ".join, outputs))), ("references", " / ".join(map(" ".join, references)))]
        got = call(answer, [list(one) for one in outputs], [list(one) for one in references])
        value, want = _number(got, "BLEU", given), _bleu(outputs, references)
        if math.isclose(value, want, rel_tol=1e-4, abs_tol=1e-6):
            continue
        both = [*given, ("got", f"{value:.4g}"), ("expected", f"{want:.4g}")]
        for mistake, words in _BLEU_MISTAKES:
            if math.isclose(value, mistake(outputs, references), rel_tol=1e-4):
                wrong(words, both)
        if math.isclose(value, 100 * want, rel_tol=1e-4):
            wrong("This is in percent, and a share is wanted.", both)
        wrong(
            "This is another number.",
            both,
            "Does one text count for as much as its n-grams, and is nothing counted twice?",
        )


# -- A text that fools it -----------------------------------------------------------------------------------------------

MEDICINE = "the medicine must not be taken by children under six years"
_ENOUGH = 0.6


@exercise(
    "A text that fools BLEU",
    hints=[
        "Which word of the reference carries the most sense for the fewest n-grams?",
        "Leave that word out, and nothing else.",
    ],
)
def fool(answer):
    if not isinstance(answer, str):
        wrong("The answer is a text.", [("got", repr(answer)[:80])])
    words = answer.lower().replace(".", "").split()
    value = _bleu([words], [MEDICINE.split()])
    given = [("text", " ".join(words)), ("BLEU", f"{value:.2f}")]
    if {"not", "never", "no", "cannot", "mustn't"} & set(words):
        wrong("Children are still kept from the medicine: it says the same, or near it.", given)
    if not {"medicine", "children"} <= set(words) or "must" not in words and "may" not in words:
        wrong("It has to say something of the medicine and of children: that it may or must be taken.", given)
    if value < _ENOUGH:
        wrong(f"BLEU is less than {_ENOUGH}, so it notices.", given, "Change as few words as you can.")
