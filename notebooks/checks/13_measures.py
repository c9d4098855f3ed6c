"""Checks of 13_measures: pieces of words, and how outputs are measured."""

import math
import random
import re
from collections import Counter
from copy import deepcopy

from rfnb.teaching import call, exercise, wrong


def _asked(answer, given, *args):
    """What an answer gives, which leaves its arguments as they are."""
    copies = deepcopy(args)
    got = call(answer, *copies)
    if copies != args:
        wrong(
            "The call changes its arguments, and others read them after it.",
            given,
            "Work on a copy: list(...), dict(...).",
        )
    return got


def _named(answer, truth, mistakes, cases, same):
    """The words of the mistake that explains all wrong results of an answer: one of them may be the same by chance."""
    gots = []
    for case in cases:
        try:
            gots.append((case, answer(*deepcopy(case))))
        except Exception:
            break
    wrongly = [(case, got) for case, got in gots if not same(got, truth(*case))]
    asked = wrongly if len(wrongly) > 1 else gots  # a single one is too few
    for mistake, words in mistakes:
        if all(same(got, mistake(*case)) for case, got in asked):
            return words
    return ""


def _same_number(got, want):
    try:
        return math.isclose(float(got), want, rel_tol=1e-4, abs_tol=1e-9)
    except (TypeError, ValueError):
        return False


# -- Pieces -------------------------------------------------------------------------------------------------------------


def _joined(parts, pair):
    result, i = [], 0
    while i < len(parts):
        found = tuple(parts[i : i + 2]) == pair
        result.append("".join(pair) if found else parts[i])
        i += 1 + found
    return result


def _neighbours(counts, merges, unique=list):
    """How often each pair is there after some joins."""
    pairs = Counter()
    for word, count in counts.items():
        parts = _split(word, merges)
        for pair in unique(zip(parts, parts[1:])):
            pairs[pair] += count
    return pairs


def _merges(counts, size, *, unique=list, rank=None, most=True):
    merges = []
    while len(merges) < size:
        pairs = _neighbours(counts, merges, unique)
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair] if most else pairs[pair], pair))
        if rank:
            best = rank(pairs)
        merges.append(best)
    return merges


def _once(counts, size):
    """The pairs of letters of the beginning, without the pieces that come of them."""
    pairs = _neighbours(counts, [])
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
    ({"nana": 2, "at": 3}, 1),  # a pair that is twice in a word
    ({"aaa": 2, "ab": 3}, 1),  # a, a is twice in aaa
    ({"abc": 3, "az": 3}, 3),  # a, z is before ab, c, though az is after abc
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
    for counts, size in _TEXTS:
        want, given = _merges(counts, size), [("counts", counts), ("size", size)]
        got = _asked(answer, given, counts, size)
        if not isinstance(got, list):
            wrong("The pairs come as a list.", [*given, ("got", got)])
        if not all(
            isinstance(one, (tuple, list)) and len(one) == 2 and all(isinstance(piece, str) for piece in one)
            for one in got
        ):
            wrong("A pair is a tuple of two texts.", [*given, ("got", got[:3])], '("e", "s"), not "es"')
        got = [*map(tuple, got)]
        if got == want:
            continue
        both = [*given, ("got", _shown(got)), ("expected", _shown(want))]
        if words := _named(answer, _merges, _MERGE_MISTAKES, _TEXTS, _same_merges):
            wrong(words, both)
        if got[: len(want)] == want:
            wrong(f"These are {len(got)} pairs, and {min(size, len(want))} were wanted.", both)
        if got == want[: len(got)]:
            wrong(f"It stops too early: these are {len(got)} of {len(want)} pairs.", both)
        at = next(at for at, (one, other) in enumerate(zip(got, want)) if one != other)
        pairs, mine, best = _neighbours(counts, want[:at]), _shown([got[at]]), _shown([want[at]])
        often, most = pairs[got[at]], pairs[want[at]]
        wrong(
            f"Pair {at + 1} is {mine}, which at that point is in no word."
            if not often
            else f"Pair {at + 1} is {mine}, and {best} has its place: both are there {most} times, and it is sorted before the other."
            if often == most
            else f"Pair {at + 1} is {mine}, which at that point is there {often} times, and {best} is there {most} times.",
            both,
            ""
            if often
            else "A pair is joined from left to right, in all its places, and only where both are whole pieces.",
        )


_MERGE_MISTAKES = [
    (lambda counts, size: _merges(dict.fromkeys(counts, 1), size),
     "Each word counted once. A pair counts as often as its word is in the text."),
    (lambda counts, size: _merges(counts, size, unique=set),
     "A pair that is twice in a word counted once there. Count all its places."),
    (_once, "These are pairs of letters only. After each join the pairs are counted again, with the new piece in them."),
    (_across, "A pair was counted across two words. The last letter of a word has no neighbour in the next."),
    (lambda counts, size: _merges(counts, size, most=False), "This is the rarest pair. The most frequent one is joined."),
    (lambda counts, size: _merges(counts, size, rank=lambda pairs: max(pairs, key=lambda pair: (pairs[pair], pair))),
     "Of pairs that are equally frequent, the first in the alphabet is joined, and this is the last."),
    (lambda counts, size: _merges(counts, size, rank=lambda pairs: pairs.most_common(1)[0][0]),
     "Of pairs that are equally frequent, the first in the alphabet is joined, not the one that was met first."),
    (lambda counts, size: _merges(counts, size, rank=lambda pairs: min(pairs, key=lambda pair: (-pairs[pair], "".join(pair)))),
     "Of pairs that are equally frequent, the first as a pair is joined, not the one whose joined text is the first."),
]  # fmt: skip


def _same_merges(got, want):
    return got == want or (len(want) > 9 and got[:6] == want[:6])  # what comes late may differ for another reason


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


def _again(word, merges):
    """Each pair as long as there is one that can be joined."""
    parts, before = list(word), None
    while parts != before:
        before = parts
        for pair in merges:
            parts = _joined(parts, pair)
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
    ("abc", [("b", "c"), ("ab", "c")]),  # a, bc has the letters of the pair ab, c
]

_SPLIT_MISTAKES = [
    (_by_length, "This takes the longest piece from the left. The pairs are joined in their order."),
    (_first_place, "A pair is joined in every place of the word, not only in the first."),
    (_again, "A pair is joined when its turn is over. Each pair has one turn, in the order of the list."),
    (lambda word, merges: list(word), "Nothing is joined."),
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
        want, given = _split(word, merges), [("word", word), ("merges", _shown(merges))]
        got = _asked(answer, given, word, merges)
        got = list(got) if isinstance(got, (list, tuple)) else got
        if got == want:
            continue
        given += [("got", got), ("expected", want)]
        if not isinstance(got, list):
            wrong("The pieces come as a list of texts.", given)
        if "".join(map(str, got)) != word:
            wrong("The pieces do not make the word again.", given, "What is in no pair stays a letter.")
        if words := _named(answer, _split, _SPLIT_MISTAKES, _PIECES, lambda got, want: list(got) == want):
            wrong(words, given)
        if any(a + b in got and (a, b) not in merges for a, b in zip(_split(word, merges), _split(word, merges)[1:])):
            wrong("Two pieces are joined that are no pair of the list, though their letters are those of one.", given)
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
    (lambda lists: math.exp(-sum(sum(one[:-1]) for one in lists) / max(1, sum(len(one) - 1 for one in lists))),
     "The last label of each text is left out. The end is a label, too, so it counts."),
    (lambda lists: sum(map(len, lists)) / sum(math.exp(p) for one in lists for p in one),
     "This is 1 / the mean of the probabilities. The mean is one of their logs."),
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
        [[-8.0] * 100],  # the product of the probabilities is less than a float can be
    ]
    for lists in cases:
        given = [("log_probs", lists)]
        got, want = _asked(answer, given, lists), _perplexity(lists)
        value = _number(got, "The perplexity", given)
        if math.isclose(value, want, rel_tol=1e-4):
            continue
        given += [("got", f"{value:.4g}"), ("expected", f"{want:.4g}")]
        if words := _named(answer, _perplexity, _PERPLEXITY_MISTAKES, [(lists,) for lists in cases], _same_number):
            wrong(words, given)
        wrong("This is another number.", given, "exp(-(sum of all log-probabilities) / (number of all labels))")


def _number(got, what, given):
    try:
        value = float(got)
    except (TypeError, ValueError):
        value = math.nan
    if math.isnan(value):
        wrong(f"{what} is a number.", [*given, ("got", got)])
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
    ("A B C", "C D E"),  # three substitutions, and not two insertions, two deletions
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
        got = _asked(answer, given, output, reference)
        if not isinstance(got, (list, tuple)) or any(
            not isinstance(one, (list, tuple)) or len(one) != 2 for one in got
        ):
            wrong(
                "The alignment is a list of pairs.",
                [*given, ("got", got)],
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
        if strange := {*left, *right} - {*output, *reference}:
            wrong(f"{min(map(repr, strange))} is no label of the two. A gap is None.", both)
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
    (lambda outputs, references: 100 * _error_rate(outputs, references), "This is in percent, and a share is wanted."),
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
    split_cases = [tuple([one.split() for one in many] for many in case) for case in cases]
    for (outputs, references), texts in zip(cases, split_cases):
        want = _error_rate(*texts)
        given = [("outputs", " / ".join(outputs)), ("references", " / ".join(references))]
        value = _number(_asked(answer, given, *texts), "The rate", given)
        if math.isclose(value, want, rel_tol=1e-4, abs_tol=1e-9):
            continue
        edits, labels = sum(map(_cost, *texts)), sum(map(len, texts[1]))
        both = [*given, ("edits", edits), ("labels", labels), ("got", f"{value:.4g}"), ("expected", f"{want:.4g}")]
        if words := _named(answer, _error_rate, _RATE_MISTAKES, split_cases, _same_number):
            wrong(words, both)
        wrong("This is another rate.", both, "(all edits) / (all labels of the references)")


# -- BLEU ---------------------------------------------------------------------------------------------------------------


def _counts(outputs, references, *, clipped=True, most=4):
    """For each n how many n-grams match, and how many there are."""
    counts = []
    for n in range(1, most + 1):
        matched = total = 0
        for output, reference in zip(outputs, references):
            said, meant = (Counter(zip(*(text[i:] for i in range(n)))) for text in (output, reference))
            matched += (said & meant).total() if clipped else sum(count for one, count in said.items() if one in meant)
            total += said.total()
        counts.append((matched, total))
    return counts


def _penalty(outputs, references):
    return math.exp(min(0.0, 1 - sum(map(len, references)) / sum(map(len, outputs))))


def _bleu(outputs, references, *, brief=True, arithmetic=False, root=True, **how):
    shares = [matched / total if total else 0.0 for matched, total in _counts(outputs, references, **how)]
    mean = sum(shares) / len(shares) if arithmetic else math.prod(shares) ** (1 / len(shares) if root else 1)
    return mean * (_penalty(outputs, references) if brief and any(outputs) else 1.0)


def _in_a_row(texts):
    return [[word for text in texts for word in text]]


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
    (lambda o, r: _bleu(o, r, brief=False) * _penalty(r, o),
     "The penalty is the other way round: short outputs lose by it, so it is exp(1 - references / outputs)."),
    (lambda o, r: _bleu(o, r, root=False), "This is the product of the four shares. Their geometric mean has the fourth root, too."),
    (lambda o, r: _bleu(r, o, brief=False) * _penalty(o, r),
     "A share is of the n-grams of the output, and this divides by those of the reference."),
    (lambda o, r: _bleu(_in_a_row(o), _in_a_row(r)), "An n-gram was counted across the end of a text, as if all texts were one."),
    (lambda o, r: 100 * _bleu(o, r), "This is in percent, and a share is wanted."),
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
    cases = _sentences()
    for outputs, references in cases:
        given = [("outputs", " / ".join(map(" ".join, outputs))), ("references", " / ".join(map(" ".join, references)))]
        got = _asked(answer, given, outputs, references)
        value, want = _number(got, "BLEU", given), _bleu(outputs, references)
        if math.isclose(value, want, rel_tol=1e-4, abs_tol=1e-6):
            continue
        shares = ", ".join(f"{matched} of {total}" for matched, total in _counts(outputs, references))
        parts = [("n-grams", shares), ("penalty", f"{_penalty(outputs, references):.4g}")]
        both = [*given, *parts, ("got", f"{value:.4g}"), ("expected", f"{want:.4g}")]
        if words := _named(answer, _bleu, _BLEU_MISTAKES, cases, _same_number):
            wrong(words, both)
        wrong(
            "This is another number.",
            both,
            "Print your counts for each n, and the penalty: which of them differs?",
        )


# -- A text that fools it -----------------------------------------------------------------------------------------------

MEDICINE = "the medicine must not be taken by children under six years"
_ENOUGH = 0.6
_NEGATIONS = {"not", "never", "no", "nor", "none", "nobody", "cannot", "without"}
_VERBS = {"must", "may", "can", "could", "should", "shall", "will", "might", "is", "has", "needs", "ought"}
_AGAINST = {"forgotten", "refused", "missed", "skipped", "avoided", "omitted", "withheld", "denied", "forbidden"}


@exercise(
    "A text that fools BLEU",
    hints=[
        "Which word of the reference carries the most sense for the fewest n-grams?",
        "Leave that word out, and nothing else.",
    ],
)
def fool(answer):
    if not isinstance(answer, str):
        wrong("The answer is a text.", [("got", answer)])
    words = re.findall(r"[\w'’]+", answer.lower())
    value = _bleu([words], [MEDICINE.split()])
    given = [("text", " ".join(words)), ("BLEU", f"{value:.2f}")]
    said = re.sub(r"\bnot (only\b|.*\bbut\b)", "", " ".join(words)).split()  # "not only by", "not by adults but by"
    no = any(word in _NEGATIONS or word.endswith(("n't", "n’t")) for word in said)
    if {"medicine", "children"} <= {*said} and no != bool(_AGAINST & {*said}):
        wrong("Children are still kept from the medicine: it says the same, or near it.", given)
    if not {"medicine", "children"} <= {*said} or not _VERBS & {*said}:
        wrong("It has to say something of the medicine and of children: that it may or must be taken.", given)
    if value < _ENOUGH:
        wrong(f"BLEU is less than {_ENOUGH}, so it notices.", given, "Change as few words as you can.")
