"""Numbers in the sentences of lessons are true: each is computed here."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from course.harness import Course

import rfnb as rf
from rfnb.data.number_words import split
from rfnb.models import load_g2p, pronounce
from rfnb.models.g2p import label_dim
from rfnb.models.g2p_training import Recipe
from rfnb.models.number_words import NumberTransformer, say, word_dim


def parting_step() -> int:
    """The first step in which the two best pronunciations of the word differ."""
    best, second = pronounce(load_g2p(), "parachute", beam_size=4)[:2]
    (step,) = [step for step, (one, other) in enumerate(zip(best.phonemes, second.phonemes)) if one != other]
    assert {best.phonemes[step], second.phonemes[step]} == {"CH", "SH"}
    return step


def cross_heads() -> tuple[int, int]:
    """The layers of the Transformer of lesson 06, and the heads in each, that look at the digits."""
    with rf.record(model=(model := NumberTransformer())) as trace:
        say(model, [7])
    paths = [path for path in trace.attention if path.endswith("cross_att")]
    (heads,) = {dim.size for path in paths for dim in trace.attention.steps(path)[0].dims if dim.name == "heads"}
    return len(paths), heads


def words_of(name: str) -> int:
    return len(Course("07_search").lesson.file(name).read_text("utf-8").splitlines())


TRUE: dict[str, dict[str, Callable[[], bool]]] = {
    "04_encoder_decoder": {
        "8999 numbers below 10000, and 1000 others": lambda: tuple(map(len, split())) == (8999, 1000) and max(split()[0]) == 9999,
        "if all 30 labels are equally probable": lambda: word_dim.size == 30,
        "ln 30 = 3.4": lambda: round(math.log(30), 1) == 3.4,
    },
    "05_attention": {
        "The key has 256 numbers": lambda: load_g2p().decoder.att.query_dim.size == 256,
        "(0 is 1, 5 is 1024)": lambda: (4**0, 4**5) == (1, 1024),
    },
    "06_explanation": {"Its decoder has two layers with four heads that look at the digits": lambda: cross_heads() == (2, 4)},
    "07_search": {
        "in 39 phonemes and an end label": lambda: label_dim.size == 39 + 1,
        "up to step 4 (the first is 0), where CH and SH part": lambda: parting_step() == 4,
        "`words` has a thousand words": lambda: words_of("data/cmudict_test_words.tsv") == 1000,
    },
    "08_errors": {"trained on words of at most 20 letters": lambda: Recipe().max_letters == 20},
    "09_ctc": {"There are 3⁴ = 81 paths": lambda: 3**4 == 81},
    "10_transducers": {
        "With 100 frames and 20 labels there are more than 10²² walks": lambda: math.comb(100 - 1 + 20, 20) > 10**22,
        "8 moves before the last blank, and 3 of them are labels": lambda: math.comb(8, 3) == 8 * 7 * 6 // (3 * 2 * 1),
    },
    "11_transformer": {
        "It has two layers with two heads each": lambda: "num_layers=2, num_heads=2" in code_of("11_transformer"),
        "a vector of 32 numbers": lambda: 'model_dim = Dim(32, name="model")' in code_of("11_transformer"),
    },
    "12_clinic": {
        "6, 4 and 3 frames are real": lambda: Course("12_clinic").lesson.module("data/clinic.py").batch()[1].tolist() == [6, 4, 3],
    },
    "13_measures": {
        "A thousand words that the model has never seen": lambda: words_of("data/cmudict_test_words.tsv") == 1000,
        "the 2,000 words in `known`": lambda: words_of("data/words.txt") == 2000,
    },
    "14_linear_attention": {
        "attention keeps 12,800,000": lambda: 100_000 * (64 + 64) == 12_800_000,
        "The state has 16 rows, one for each number of a key": lambda: "torch.eye(16)" in code_of("14_linear_attention"),
    },
    "15_pretraining": {
        "Here the text is the spelling of 10,000 words": lambda: words_of("data/spellings.txt") == 10_000,
        "drawn from all 27": lambda: '*"abcdefghijklmnopqrstuvwxyz\'"' in code_of("15_pretraining"),
        "a layer of 5,000 numbers": lambda: round((64 + 1) * 2 * (39 + 1), -3) == 5000,
    },
}  # fmt: skip


def code_of(lesson: str) -> str:
    return "\n".join(cell.source for cell in Course(lesson).stored.cells if cell.cell_type == "code")


@pytest.mark.parametrize("lesson", TRUE)
def test_what_a_lesson_says_in_numbers_is_so(lesson):
    said = " ".join(" ".join(cell.source for cell in Course(lesson).stored.cells).split())
    for sentence, is_true in TRUE[lesson].items():
        assert sentence in said, "it says that no more, or in other words"
        assert is_true(), sentence
