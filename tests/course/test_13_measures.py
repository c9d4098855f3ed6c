"""Notebook 13, measures: its checks tell right from wrong, and what it says is what its cells compute."""

import math
import re
from collections import Counter

import pytest
from course.harness import Course

course = Course("13_measures")
right = course.solutions


def each_word_once(counts, size):
    return right.learn_merges(dict.fromkeys(counts, 1), size)


def letters_only(counts, size):
    pairs = Counter(pair for word, count in counts.items() for pair in zip(word, word[1:]) for _ in range(count))
    return sorted(pairs, key=lambda pair: (-pairs[pair], pair))[:size]


def in_a_row(counts, size):
    return right.learn_merges({"".join(word * count for word, count in counts.items()): 1}, size)


def ranked(rank):
    """Pairs by another rank than frequency and alphabet."""

    def learn(counts, size):
        pieces, merges = {word: list(word) for word in counts}, []
        while len(merges) < size:
            pairs = Counter()
            for word, parts in pieces.items():
                for pair in zip(parts, parts[1:]):
                    pairs[pair] += counts[word]
            if not pairs:
                break
            merges.append(rank(pairs))
            pieces = {word: right.split(word, merges) for word in counts}
        return merges

    return learn


def once_in_a_word(counts, size):
    """The first pair, if each counted once in a word."""
    pairs = Counter(pair for word, count in counts.items() for pair in {*zip(word, word[1:])} for _ in range(count))
    best = min(pairs, key=lambda pair: (-pairs[pair], pair))
    return [best] if size == 1 else right.learn_merges(counts, size)


def by_letters(word, merges):
    """Joined wherever the letters are those of a pair."""
    parts = list(word)
    for left, other in merges:
        i = 0
        while i + 1 < len(parts):
            if parts[i] + parts[i + 1] == left + other:
                parts[i : i + 2] = [left + other]
            i += 1
    return parts


def by_popping(output, reference):
    pairs = right.align(output, reference)
    output.clear()
    return pairs


def longest_first(word, merges):
    known, parts = {"".join(pair) for pair in merges}, []
    while word:
        size = next((size for size in range(len(word), 1, -1) if word[:size] in known), 1)
        parts.append(word[:size])
        word = word[size:]
    return parts


def first_place_only(word, merges):
    parts = list(word)
    for left, other in merges:
        for i in range(len(parts) - 1):
            if (parts[i], parts[i + 1]) == (left, other):
                parts[i : i + 2] = [left + other]
                break
    return parts


def by_gaps(output, reference):
    """As difflib does it: nothing is replaced."""
    import difflib

    pairs = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, output, reference, autojunk=False).get_opcodes():
        if tag == "equal":
            pairs += zip(output[a:b], reference[c:d])
        else:
            pairs += [(one, None) for one in output[a:b]] + [(None, one) for one in reference[c:d]]
    return pairs


def by_place(output, reference):
    size = max(len(output), len(reference))
    return [*zip(output + [None] * (size - len(output)), reference + [None] * (size - len(reference)))]


def mean_of_rates(outputs, references):
    return sum(right.error_rate([o], [r]) for o, r in zip(outputs, references)) / len(outputs)


def edits(outputs, references):
    return right.error_rate(outputs, references) * sum(map(len, references))


def parts_of_bleu(outputs, references, clip=True):
    for n in (1, 2, 3, 4):
        matched = total = 0
        for output, reference in zip(outputs, references):
            said, meant = (
                Counter(tuple(text[i : i + n]) for i in range(len(text) - n + 1)) for text in (output, reference)
            )
            matched += sum(min(said[one], meant[one]) if clip else said[one] for one in said if one in meant)
            total += sum(said.values())
        yield matched / total if total else 0


def penalty(outputs, references):
    return math.exp(min(0, 1 - sum(map(len, references)) / sum(map(len, outputs))))


def bleu_of(shares):
    return math.prod(shares) ** 0.25


WRONG = {
    "learn_merges": {
        "Each word counted once": each_word_once,
        "These are pairs of letters only": letters_only,
        "A pair was counted across two words": in_a_row,
        "and this is the last": ranked(lambda pairs: max(pairs, key=lambda pair: (pairs[pair], pair))),
        "not the one that was met first": ranked(lambda pairs: pairs.most_common(1)[0][0]),
        "This is the rarest pair": ranked(lambda pairs: min(pairs, key=lambda pair: (pairs[pair], pair))),
        "A pair is a tuple of two texts": lambda counts, size: ["".join(pair) for pair in right.learn_merges(counts, size)],
        "is joined, not the one whose joined text": ranked(
            lambda pairs: min(pairs, key=lambda pair: (-pairs[pair], "".join(pair)))
        ),
        "A pair that is twice in a word": once_in_a_word,
        "Pair 3 is o+w, and l+o has its place: both are there 7 times": lambda counts, size: (
            [("e", "s"), ("es", "t"), ("o", "w")] if "low" in counts else right.learn_merges(counts, size)
        ),
        "Pair 1 is l+w, which at that point is in no word": lambda counts, size: [("l", "w")] * size,
        "Pair 1 is w+e, which at that point is there 8 times, and e+s is there 9 times": lambda counts, size: [("w", "e")] * size,
        "It stops too early": lambda counts, size: right.learn_merges(counts, size)[:-1],
        "pairs, and 10 were wanted": lambda counts, size: right.learn_merges(counts, size + 1),
        "The pairs come as a list": lambda counts, size: dict(right.learn_merges(counts, size)),
    },
    "split": {
        "This takes the longest piece from the left": longest_first,
        "not only in the first": first_place_only,
        "Nothing is joined": lambda word, merges: list(word),
        "do not make the word again": lambda word, merges: right.split(word, merges)[:1],
        "come as a list of texts": lambda word, merges: " ".join(right.split(word, merges)),
        "when its turn is over": lambda word, merges: right.split(word, merges * 5),
        "that are no pair of the list": by_letters,
        "Other pieces come out": lambda word, merges: right.split(word, merges[::-1]),
    },
    "perplexity": {
        "the mean of the perplexities": lambda lists: sum(math.exp(-sum(one) / len(one)) for one in lists) / len(lists),
        "Each text counts the same here": lambda lists: math.exp(-sum(sum(one) / len(one) for one in lists) / len(lists)),
        "This is the cross-entropy": lambda lists: math.log(right.perplexity(lists)),
        "the sign is missing": lambda lists: 1 / right.perplexity(lists),
        "The logs are natural ones": lambda lists: 2 ** math.log(right.perplexity(lists)),
        "divided by the number of texts": lambda lists: math.exp(-sum(map(sum, lists)) / len(lists)),
        "The last label of each text": lambda lists: right.perplexity([one[:-1] for one in lists if len(one) > 1]),
        "1 / the mean of the probabilities": lambda lists: (
            sum(map(len, lists)) / sum(math.exp(one) for text in lists for one in text)
        ),
        "cannot be raised": lambda lists: math.prod(math.exp(one) for text in lists for one in text) ** (-1 / sum(map(len, lists))),
        "This is another number": lambda lists: right.perplexity(lists) + 1,
        "The perplexity is a number": lambda lists: "low",
    },
    "align": {
        "A substitution is one edit": by_gaps,
        "This has 2 edits, and 1 is enough": by_place,
        "have changed places": lambda output, reference: [pair[::-1] for pair in right.align(output, reference)],
        "It stands backwards": lambda output, reference: right.align(output, reference)[::-1],
        "is a list of pairs": lambda output, reference: len(right.align(output, reference)),
        "The call changes its arguments": by_popping,
        "'-' is no label of the two": lambda output, reference: [(a or "-", b or "-") for a, b in right.align(output, reference)],
        "A pair of two gaps says nothing": lambda output, reference: [*right.align(output, reference), (None, None)],
        "The labels of the reference": lambda output, reference: [*zip(output, reference)],
        "The labels of the output": lambda output, reference: [pair for pair in right.align(output, reference) if pair[1]],
    },
    "error_rate": {
        "the mean of the rates": mean_of_rates,
        "by the length of the outputs": lambda o, r: edits(o, r) / max(1, sum(map(len, o))),
        "This is the number of edits": edits,
        "the share of texts that are wrong": lambda o, r: sum(a != b for a, b in zip(o, r)) / len(o),
        "may be more than 1": lambda o, r: min(1, right.error_rate(o, r)),
        "1 less the rate": lambda o, r: 1 - right.error_rate(o, r),
        "in percent": lambda o, r: 100 * right.error_rate(o, r),
        "edits       2": lambda o, r: 0.6 if len(o) == 2 else right.error_rate(o, r),  # 1 less the rate, but by chance
        "This is another rate": lambda o, r: sum(len(a) != len(b) for a, b in zip(o, r)) / 7,
    },
    "bleu": {
        "at most as often as it is in the reference": lambda o, r: penalty(o, r) * bleu_of(parts_of_bleu(o, r, clip=False)),
        "The brevity penalty is missing": lambda o, r: bleu_of(parts_of_bleu(o, r)),
        "the mean of the four shares": lambda o, r: penalty(o, r) * sum(parts_of_bleu(o, r)) / 4,
        "the mean over the texts": lambda o, r: sum(right.bleu([a], [b]) for a, b in zip(o, r)) / len(o),
        "Output and reference have changed places": lambda o, r: right.bleu(r, o),
        "only up to 3": lambda o, r: penalty(o, r) * math.prod(list(parts_of_bleu(o, r))[:3]) ** (1 / 3),
        "get no reward": lambda o, r: bleu_of(parts_of_bleu(o, r)) * math.exp(1 - sum(map(len, r)) / sum(map(len, o))),
        "in percent": lambda o, r: 100 * right.bleu(o, r),
        "The penalty is the other way round": lambda o, r: bleu_of(parts_of_bleu(o, r)) * penalty(r, o),
        "This is the product of the four shares": lambda o, r: penalty(o, r) * bleu_of(parts_of_bleu(o, r)) ** 4,
        "this divides by those of the reference": lambda o, r: penalty(o, r) * bleu_of(parts_of_bleu(r, o)),
        "across the end of a text": lambda o, r: right.bleu([sum(o, [])], [sum(r, [])]),
        "17 of 17, 14 of 15, 11 of 13, 8 of 11": lambda o, r: right.bleu(o, r) ** 2,
    },
    "fool": {
        "Children are still kept": "the medicine must never be taken by children under six years",
        "BLEU is less than 0.6": "children may have the medicine",
        "something of the medicine and of children": "the must be taken by under six years",
        "The answer is a text": ["the", "medicine"],
    },
}  # fmt: skip


def by_recursion(output, reference):
    """Right, and another way."""
    from functools import cache

    @cache
    def best(i, j):
        if i == len(output):
            return len(reference) - j, tuple((None, one) for one in reference[j:])
        if j == len(reference):
            return len(output) - i, tuple((one, None) for one in output[i:])
        ways = [
            ((output[i], reference[j]), best(i + 1, j + 1), output[i] != reference[j]),
            ((output[i], None), best(i + 1, j), 1),
            ((None, reference[j]), best(i, j + 1), 1),
        ]
        return min(((rest[0] + cost, (pair, *rest[1])) for pair, rest, cost in ways), key=lambda way: way[0])

    return list(best(0, 0)[1])


RIGHT = {
    "learn_merges": {"another way": ranked(lambda pairs: sorted(pairs, key=lambda pair: (-pairs[pair], pair))[0])},
    "align": {"by recursion": by_recursion},
    "bleu": {"by products": lambda o, r: penalty(o, r) * bleu_of(parts_of_bleu(o, r))},
    "fool": {
        "may": "the medicine may be taken by children under six years",
        "a full stop": right.fool.capitalize() + ".",
    },
}


@pytest.mark.parametrize("exercise", course.exercises)
def test_the_check_tells_right_from_wrong(exercise):
    course.assert_judges(exercise, WRONG[exercise], right=RIGHT.get(exercise))


@pytest.mark.notebook
def test_it_runs_and_every_prediction_has_its_truth(ran):
    ran.assert_truths(course.solutions.PREDICTIONS)


@pytest.mark.notebook
def test_rates_of_phonemes_and_words_differ_by_their_unit(ran):
    said = "".join(ran.shown("rates_guess.reveal("))
    of_phonemes, of_words = map(
        float, re.search(r"(\d+\.\d) % of the phonemes, and (\d+\.\d) % of the words", said).groups()
    )
    assert of_phonemes == pytest.approx(6.5, abs=0.2) and of_words == pytest.approx(28.6, abs=0.5)


@pytest.mark.notebook
def test_the_phoneme_of_most_edits_is_the_vowel_without_stress(ran):
    said = "".join(ran.shown("mixed_guess.reveal("))
    part, edits = map(int, re.search(r"AH is in (\d+) of (\d+) edits", said).groups())
    assert 0.25 < part / edits < 0.5


@pytest.mark.notebook
def test_pieces_are_harder_to_guess_and_say_the_words_with_a_larger_probability(ran):
    letters, pieces = map(float, re.findall(r"perplexity (\d+\.\d)", ran.printed("better_guess = ")))
    said = "".join(ran.shown("better_guess.reveal("))
    totals = [float(one) for one in re.findall(r"(-\d+) by", said)]
    per_letter = [float(one) for one in re.search(r"compared: (\d+\.\d) and (\d+\.\d)\.", said).groups()]
    assert pieces > 2 * letters and totals[1] > totals[0] and per_letter[1] < per_letter[0]


@pytest.mark.notebook
def test_every_measure_likes_what_lost_its_sense(ran):
    said = "".join(ran.shown("best_guess.reveal("))
    rows = {
        name: [*map(float, rest.split())] for name, rest in re.findall(r"^ *([ABC])  ([\d. ]+)$", said, re.MULTILINE)
    }
    (bleu_a, chrf_a, wer_a), (bleu_b, chrf_b, wer_b), (bleu_c, chrf_c, wer_c) = rows["A"], rows["B"], rows["C"]
    assert bleu_a > 3 * bleu_b > bleu_c == 0 and wer_a < wer_c < wer_b and chrf_a > chrf_c > chrf_b
    assert "3 of 5 have a BLEU of 0" in " ".join(said.split())


@pytest.mark.notebook
def test_checks_are_unsolved(ran):
    checks = {data["exercise"]: data["status"] for data in ran.records("check")}
    assert checks == dict.fromkeys(course.exercises, "unsolved")
