"""The written exam in two variants: every number of the solutions is computed here, and every choice of questions has 90 points."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
import torch
from course.harness import NOTEBOOKS, Course
from course.test_theory import NUMBER, by_paths, half_life, plain, rounds, same, waste

FOLDER = NOTEBOOKS.parent / "docs/teaching"
GROUPS = [(2, [4, 8]), (4, [1, 2, 5, 6, 9, 10]), (2, [3, 7, 11])]  # how many of which questions


def beam_of_two(first: list[float], after: dict[str, list[float]]) -> list[tuple[str, float]]:
    """The two hypotheses after the second step, and the best one that is cut; probabilities are those of A, B and the end."""
    kept = sorted(zip("AB.", first), key=lambda pair: -pair[1])[:2]
    found = {one + label: p * q for one, p in kept for label, q in zip("AB.", after[one])}
    return [(name, round(p, 9)) for name, p in sorted(found.items(), key=lambda pair: -pair[1])][:3]


def attention(
    powers: list[float], values: list[float], of: int
) -> tuple[list[float], float, list[float], float, float]:
    """Weights and context without the last position; all weights with it; the context if it is set to 0 then; d context / d score."""
    real, spoiled, seen = np.array(powers[:-1]), np.array(powers) / sum(powers), np.array(values[:-1])
    weights = real / real.sum()
    context = float(weights @ seen)
    return (
        weights.tolist(),
        context,
        spoiled.tolist(),
        float(spoiled[:-1] @ seen),
        float(weights[of] * (seen[of] - context)),
    )


def ctc(frames: list[list[float]]) -> tuple[dict[tuple[int, ...], float], tuple[int, ...]]:
    """The probability of each labelling of two frames (0 is the blank), and the most probable one."""
    every = {one: by_paths(np.array(frames), list(one)) for one in [(), (1,), (2,), (1, 2), (2, 1), (1, 1), (2, 2)]}
    assert same(sum(every.values()), 1)
    return every, max(every, key=every.__getitem__)


def joins(counts: dict[str, int]) -> list[tuple[dict[str, int], dict[str, list[str]]]]:
    """Two joins of byte-pair encoding: how often each pair was there before, and the pieces of the words after it."""
    words, found = {word: list(word) for word in counts}, []
    for _ in range(2):
        pairs = Counter[str]()
        for word, parts in words.items():
            for pair in zip(parts, parts[1:]):
                pairs[" ".join(pair)] += counts[word]
        best = max(pairs, key=pairs.__getitem__)
        assert [pairs[best]] == sorted(pairs.values())[-1:] != sorted(pairs.values())[-2:-1], "the first is alone"
        for word, parts in words.items():
            words[word] = re.sub(re.escape(best), best.replace(" ", ""), " ".join(parts)).split()
        found.append((dict(pairs), dict(words)))
    return found


def measures(output: str, reference: str) -> tuple[list[tuple[int, int]], float, Counter[str], int]:
    """Matches and n-grams for n of 1 and 2, the brevity penalty, the kinds of edits, and the words of the reference."""
    said, meant = output.split(), reference.split()
    shares = []
    for n in (1, 2):
        one, other = (Counter(zip(*(words[i:] for i in range(n)))) for words in (said, meant))
        shares.append(((one & other).total(), one.total()))
    edits = Counter(
        "insertion" if b is None else "deletion" if a is None else "substitution"
        for a, b in Course("13_measures").solutions.align(said, meant) if a != b
    )  # fmt: skip
    return shares, min(1.0, math.exp(1 - len(meant) / len(said))), edits, len(meant)


def chrf(precision: float, recall: float) -> float:
    return 5 * precision * recall / (4 * precision + recall)


def memory(pairs: list[tuple[list[float], float]]) -> tuple[list[float], list[float]]:
    """The states of linear attention, and of the delta rule with gates of 1, after the pairs are written."""
    solutions = Course("14_linear_attention").solutions
    sums, corrected, one = torch.zeros(2, 1), torch.zeros(2, 1), torch.tensor(1.0)
    for key, value in pairs:
        k, v = torch.tensor(key), torch.tensor([value])
        sums = solutions.linear_step(sums, k, k, v)[1]
        corrected = solutions.delta_step(corrected, k, k, v, one, one)[1]
    return sums[:, 0].tolist(), corrected[:, 0].tolist()


def outputs(a: float, b: float, c: float, signal: list[float]) -> list[float]:
    """Of a state-space model with one cell."""
    h, found = 0.0, []
    for x in signal:
        h = a * h + b * x
        found.append(round(c * h, 9))
    return found


def masked(letters: int, share: float, size: int) -> tuple[float, float, float, float, float]:
    """Chosen, hidden, drawn, drawn and the same, changed: numbers of letters on average."""
    chosen = letters * share
    drawn = 0.1 * chosen
    return chosen, 0.8 * chosen, drawn, drawn / size, 0.8 * chosen + drawn * (size - 1) / size


def right_where_shown(size: int) -> float:
    """Of the chosen places that show a letter: the share that shows the right one, counted over all letters."""
    kept = np.eye(size) * 0.1 / size
    drawn = np.full((size, size), 0.1 / size / size)
    return float(np.trace(kept + drawn) / (kept + drawn).sum())


EXAM: dict[str, Callable[[], bool]] = {
    "$1-12/21=3/7$, or 42.9 %": lambda: same(waste([2, 3, 7]), 3 / 7) and rounds(300 / 7, "42.9"),
    "The factor is 2/7": lambda: same((2 * 3.0 / 7) / 3.0, 2 / 7),
    "At most $0.8^{20}=0.0115$": lambda: rounds(0.8**20, "0.0115"),
    "$f=2^{-1/20}=0.966$": lambda: rounds(2 ** (-1 / 20), "0.966") and rounds(half_life(2 ** (-1 / 20)), "20.0"),
    "1 + 2 + 1 + 0 = 4 bits; the perplexity is $2^{4/4}=2$": lambda: -math.log2(1 / 2 * 1 / 4 * 1 / 2 * 1) == 4,
    "$p-1=-0.75$": lambda: 1 / 4 - 1 == -0.75,
    "Weights ½, ¼, ¼ and 0; the context is 2.5": lambda: (
        same(attention([4, 2, 2, 1], [1, 3, 5, 100], 2)[0], [1 / 2, 1 / 4, 1 / 4])
        and same(attention([4, 2, 2, 1], [1, 3, 5, 100], 2)[1], 2.5)
    ),
    "so 4/9, 2/9, 2/9 and 1/9": lambda: same(attention([4, 2, 2, 1], [1, 3, 5, 100], 2)[2], [4 / 9, 2 / 9, 2 / 9, 1 / 9]),
    "these sum to 8/9, and the context is too small (2.22)": lambda: (
        rounds(attention([4, 2, 2, 1], [1, 3, 5, 100], 2)[3], "2.22") and same((4 + 2 + 2) / 9, 8 / 9)
    ),
    r"$\alpha_3(v_3-c)=\frac14(5-2.5)=0.625$": lambda: same(attention([4, 2, 2, 1], [1, 3, 5, 100], 2)[4], 0.625),
    "A, then the end: 0.5 · 0.4 = 0.20": lambda: same(0.5 * 0.4, 0.20),
    "A (0.5) and B (0.4), both of the beginning; the end with 0.1 is cut. Second step: `B .` 0.36 with parent B, and `A .` 0.20 with "
    "parent A; the next ones have 0.15": lambda: (
        beam_of_two([0.5, 0.4, 0.1], {"A": [0.3, 0.3, 0.4], "B": [0.05, 0.05, 0.9]}) == [("B.", 0.36), ("A.", 0.2), ("AA", 0.15)]
    ),
    "Paths *aa*, *a*–, –*a*: 0.09 + 0.15 + 0.15 = 0.39": lambda: same(ctc([[0.5, 0.3, 0.2]] * 2)[0][1,], 0.39),
    "which has 0.25. The most probable labels are *a* with 0.39": lambda: (
        same(ctc([[0.5, 0.3, 0.2]] * 2)[0][()], 0.25) and ctc([[0.5, 0.3, 0.2]] * 2)[1] == (1,)
    ),
    r"$4\cdot12\cdot64^2=196{,}608$": lambda: 4 * (4 * 64**2 + 2 * 64 * 256) == 4 * 12 * 64**2 == 196_608,
    "First *ab*, which occurs 8 times (6 in *abab*, 2 in *bab*; *ba* occurs 5 times). Then the pair *ab ab* occurs 3 times, and *b ab* "
    "twice: *abab* becomes one piece. *abab* is [abab], and *bab* is [b, ab]": lambda: (
        [before for before, _ in joins({"abab": 3, "bab": 2})] == [{"a b": 8, "b a": 5}, {"ab ab": 3, "b ab": 2}]
        and joins({"abab": 3, "bab": 2})[1][1] == {"abab": ["abab"], "bab": ["b", "ab"]}
    ),
    r"per letter it has $8^{1/3}=2$, which is less than 2.2; or 1 bit against 1.14": lambda: (
        same(8 ** (1 / 3), 2) and same(math.log2(8) / 3, 1) and rounds(math.log2(2.2), "1.14")
    ),
    "$p_1=4/4$ (both *the* are in the reference), $p_2=2/3$, and the penalty is $e^{1-6/4}=0.61$. The word error rate is 4/6, "
    "one insertion and three deletions": lambda: (
        (found := measures("the the cat sat", "the cat sat on the mat"))[0] == [(4, 4), (2, 3)]
        and rounds(found[1], "0.61") and found[2] == {"insertion": 1, "deletion": 3} and found[3] == 6
    ),
    r"$5\cdot0.18/(4\cdot0.6+0.3)=1/3$": lambda: same(chrf(0.6, 0.3), 1 / 3) and same(0.6 * 0.3, 0.18),
    "$S=(2,0)+(0.6,0.8)=(2.6,0.8)$, and reads 2.6. By the delta rule the second key reads 1.2, so $-0.2$ is written: $S=(1.88,-0.16)$, "
    "and 1.88 is read": lambda: (
        same(memory([([1.0, 0.0], 2.0), ([0.6, 0.8], 1.0)]), [[2.6, 0.8], [1.88, -0.16]]) and same(0.6 * 2, 1.2) and same(1 - 1.2, -0.2)
    ),
    r"A matrix has $32\cdot32=1024$ numbers, attention $64\,t$: they are equal at 16, and attention keeps more from 17 on": lambda: (
        32 * 32 == 1024 == 64 * 16
    ),
    r"6, 3, 1.5; the third output is $6\cdot2+1.5\cdot1=13.5$": lambda: (
        outputs(0.5, 2, 3, [1, 0, 0]) == [6, 3, 1.5] and outputs(0.5, 2, 3, [1, 0, 2])[2] == 13.5
    ),
    "200 are chosen, 160 of them hidden; 20 are drawn, and 5 of those are the same letter as before, so 175 are changed": lambda: (
        same(masked(1000, 0.2, 4), [200, 160, 20, 5, 175])
    ),
    "with $(1+1/4)/2=0.625$": lambda: same(right_where_shown(4), 0.625) and (1 + 1 / 4) / 2 == 0.625,
    "The encoder reads $200-20+4=184$, the decoder writes $20+4+1=25$; BART's writes 200": lambda: spans(200, 4, 5) == (184, 25),
}  # fmt: skip

EXAM_B: dict[str, Callable[[], bool]] = {
    "$9/24=3/8$, or 37.5 %": lambda: same(waste([2, 5, 8]), 3 / 8) and same(900 / 24, 37.5),
    "The factor is $15/24=5/8$": lambda: same(15 / 24, 1 - waste([2, 5, 8])),
    r"$h(1-h)\le\frac14$, so at most $(2/4)^{10}=0.00098$": lambda: (
        rounds(0.5**10, "0.00098") and max(h * (1 - h) for h in np.linspace(0, 1, 101)) <= 1 / 4
    ),
    "$f=10^{-1/50}=0.955$": lambda: rounds(10 ** (-1 / 50), "0.955"),
    "1 + 3 + 0 + 2 = 6 bits; the perplexity is $2^{6/4}=2.83$": lambda: (
        -math.log2(1 / 2 * 1 / 8 * 1 * 1 / 4) == 6 and rounds(2 ** (6 / 4), "2.83")
    ),
    "$p-1=-0.875$": lambda: 1 / 8 - 1 == -0.875,
    "$4^{1/2}=2$ per label, which is less": lambda: 4**0.5 == 2 < 2 ** (6 / 4),
    "Weights 1/2, 1/6, 1/3 and 0; the context is 4": lambda: (
        same(attention([3, 1, 2, 4], [2, 8, 5, 50], 1)[0], [1 / 2, 1 / 6, 1 / 3])
        and same(attention([3, 1, 2, 4], [2, 8, 5, 50], 1)[1], 4)
    ),
    "so 0.3, 0.1, 0.2 and 0.4. Set to 0 afterwards: 0.3, 0.1, 0.2 and 0; these sum to 0.6, and the context is too small (2.4)": lambda: (
        same(attention([3, 1, 2, 4], [2, 8, 5, 50], 1)[2], [0.3, 0.1, 0.2, 0.4])
        and same(attention([3, 1, 2, 4], [2, 8, 5, 50], 1)[3], 2.4) and same(0.3 + 0.1 + 0.2, 0.6)
    ),
    r"$\alpha_2(v_2-c)=\frac16(8-4)=0.667$": lambda: rounds(attention([3, 1, 2, 4], [2, 8, 5, 50], 1)[4], "0.667"),
    r"8, and 1 after division by $\sqrt{64}$": lambda: 64**0.5 == 8,
    "A, A, then the end: 0.6 · 0.4 = 0.24": lambda: same(0.6 * 0.4, 0.24),
    "A (0.6) and B (0.35), both of the beginning; the end with 0.05 is cut. Second step: `B .` 0.28 with parent B, and `A A` 0.24 with "
    "parent A; the next ones have 0.18": lambda: (
        beam_of_two([0.6, 0.35, 0.05], {"A": [0.4, 0.3, 0.3], "B": [0.05, 0.15, 0.8]}) == [("B.", 0.28), ("AA", 0.24), ("AB", 0.18)]
    ),
    "has 0.24 at most and can only fall, and 0.28 is finished": lambda: 0.24 < 0.28,
    r"`B .` has $\ln0.28/2=-0.64$, and `A A .` will have $\ln0.24/3=-0.48$": lambda: (
        rounds(math.log(0.28) / 2, "-0.64") and rounds(math.log(0.24) / 3, "-0.48")
    ),
    "Paths *aa*, *a*–, –*a*: 0.12 + 0.24 + 0.15 = 0.51": lambda: (
        same(ctc([[0.5, 0.4, 0.1], [0.6, 0.3, 0.1]])[0][1,], 0.51) and same([0.4 * 0.3, 0.4 * 0.6, 0.5 * 0.3], [0.12, 0.24, 0.15])
    ),
    "*a b* has 0.04, *b b* has 0; three frames": lambda: (
        same([ctc([[0.5, 0.4, 0.1], [0.6, 0.3, 0.1]])[0][one] for one in ((1, 2), (2, 2))], [0.04, 0])
    ),
    "which has 0.30. The most probable labels are *a* with 0.51": lambda: (
        same((found := ctc([[0.5, 0.4, 0.1], [0.6, 0.3, 0.1]]))[0][()], 0.30) and found[1] == (1,)
    ),
    r"$6\cdot12\cdot128^2=1{,}179{,}648$. b) By $\sqrt{128/2}=8$": lambda: (
        6 * (4 * 128**2 + 2 * 128 * 512) == 6 * 12 * 128**2 == 1_179_648 and (128 / 2) ** 0.5 == 8
    ),
    "First *at*, which occurs 7 times (2 in *tata*, 1 in *tat*, 4 in *at*; *ta* occurs 5 times). Then the pair *t at* occurs 3 times, and "
    "*at a* twice: *tat* becomes a piece. *tata* is [tat, a], *tat* is [tat], *at* is [at]": lambda: (
        [before for before, _ in joins({"tata": 2, "tat": 1, "at": 4})] == [{"t a": 5, "a t": 7}, {"t at": 3, "at a": 2}]
        and joins({"tata": 2, "tat": 1, "at": 4})[1][1] == {"tata": ["tat", "a"], "tat": ["tat"], "at": ["at"]}
    ),
    "the first has $16^{1/4}=2$ per letter, which is more than 1.9; or 1 bit against 0.93": lambda: (
        16**0.25 == 2 and math.log2(16) / 4 == 1 and rounds(math.log2(1.9), "0.93")
    ),
    "$p_1=4/5$ (the second *dog* does not count), $p_2=3/4$, and the penalty is $e^{1-6/5}=0.82$. The word error rate is 3/6, "
    "one insertion and two deletions": lambda: (
        (found := measures("a dog dog ran to", "a dog ran to the park"))[0] == [(4, 5), (3, 4)]
        and rounds(found[1], "0.82") and found[2] == {"insertion": 1, "deletion": 2} and found[3] == 6
    ),
    r"$5\cdot0.32/(4\cdot0.8+0.4)=4/9$": lambda: same(chrf(0.8, 0.4), 4 / 9) and same(0.8 * 0.4, 0.32),
    "$S=(0,3)+(1.6,1.2)=(1.6,4.2)$, and reads 4.2. By the delta rule the second key reads 1.8, so 0.2 is written: $S=(0.16,3.12)$, and "
    "3.12 is read": lambda: (
        same(memory([([0.0, 1.0], 3.0), ([0.8, 0.6], 2.0)]), [[1.6, 4.2], [0.16, 3.12]]) and same(0.6 * 3, 1.8) and same(2 - 1.8, 0.2)
    ),
    r"A matrix has $128\cdot128=16384$ numbers, attention $256\,t$: they are equal at 64, and attention keeps more from 65 on": lambda: (
        128 * 128 == 16384 == 256 * 64
    ),
    r"5, 4, 3.2; the third output is $3.2\cdot2+4\cdot1=10.4$": lambda: (
        outputs(0.8, 1, 5, [1, 0, 0]) == [5, 4, 3.2] and outputs(0.8, 1, 5, [2, 1, 0])[2] == 10.4
    ),
    "300 are chosen, 240 of them hidden; 30 are drawn, and 3 of those are the same letter as before, so 267 are changed": lambda: (
        same(masked(2000, 0.15, 10), [300, 240, 30, 3, 267])
    ),
    "with $(1+1/10)/2=0.55$": lambda: same(right_where_shown(10), 0.55) and (1 + 1 / 10) / 2 == 0.55,
    "The encoder reads $300-24+6=282$, the decoder writes $24+6+1=31$; BART's writes 300": lambda: spans(300, 6, 4) == (282, 31),
}  # fmt: skip


def spans(labels: int, count: int, size: int) -> tuple[int, int]:
    """How many labels the encoder of T5 reads, and its decoder writes."""
    step = labels // count
    source, target = Course("15_pretraining").solutions.cut_out(
        ["x"] * labels, [(one * step, one * step + size) for one in range(count)]
    )
    return len(source), len(target)


VARIANTS = {"exam": EXAM, "exam_b": EXAM_B}


@pytest.mark.parametrize("name", VARIANTS)
def test_every_number_of_the_solutions_is_computed(name):
    said = plain((FOLDER / f"{name}.md").read_text("utf-8").partition("\n## Solutions")[2])
    for sentence, is_true in VARIANTS[name].items():
        assert sentence in said and is_true(), sentence
        said = said.replace(sentence, "")
    assert NUMBER.findall(said.partition("## Marks")[0]) == []


@pytest.mark.parametrize("name", VARIANTS)
def test_every_choice_of_questions_has_90_points_and_every_question_its_solution(name):
    questions, _, solutions = (FOLDER / f"{name}.md").read_text("utf-8").partition("\n## Solutions")
    points = [int(one) for one in re.findall(r"^\*\*\d+\. .+\((\d+) points\)", questions, re.MULTILINE)]
    parts = [
        sum(map(int, re.findall(r"^[a-d]\) \((\d+)\)", one, re.MULTILINE)))
        for one in re.split(r"^\*\*\d+\.", questions, flags=re.MULTILINE)[1:]
    ]
    assert parts == points and len(points) == len(re.findall(r"^\*\*\d+\.\*\*", solutions, re.MULTILINE))
    assert sorted(one for _, group in GROUPS for one in group) == list(range(1, len(points) + 1))
    for choice in itertools.product(*(itertools.combinations(group, count) for count, group in GROUPS)):
        assert sum(points[number - 1] for each in choice for number in each) == 90


def test_the_table_says_which_questions_to_take_and_the_examples_follow_it():
    text = plain((FOLDER / "exam.md").read_text("utf-8").partition("## Questions")[0])
    rows = [
        [*map(int, re.findall(r"\d+", row))]
        for row in re.findall(r"\| (?:both|four of six|two of three) \|(.+?)\| \d+ \|", text)
    ]
    assert rows == [group for _, group in GROUPS]
    choices = [[*map(int, re.findall(r"\d+", one))] for one in re.findall(r"take ((?:\d+, )+\d+ and \d+)", text)]
    assert len(choices) == 1
    for choice in [*choices, list(range(1, 9))]:
        assert all(len(set(choice) & set(group)) == count for count, group in GROUPS), choice


def test_both_variants_ask_for_the_same_skills():
    titles = [
        re.findall(r"^\*\*(\d+\. .+? \(\d+ points\))", (FOLDER / f"{name}.md").read_text("utf-8"), re.MULTILINE)
        for name in VARIANTS
    ]
    assert titles[0] == titles[1] and len(titles[0]) == 11
