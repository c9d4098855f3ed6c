"""The words of the test set in a page: the same n-best lists as here, with every option that a page has.

Each run tries a few words, other ones with RFNB_SEED=7, more with RFNB_PAGE_WORDS=100, all 1,000 with RFNB_ALL=1.
"""

from __future__ import annotations

import os
import random

import pytest
from seed import ALL, SEED
from viz.runnable import run_in_node
from viz.test_runnable import OPTIONS, STOPS, TOP, of_steps, searching

import rfnb as rf
from rfnb.models import load_g2p
from rfnb.models.g2p_search import search
from rfnb.viz.runnable.program import PageProgram

EVERY_WORD = [line.split("\t")[0] for line in (TOP / "notebooks/data/cmudict_test_words.tsv").read_text().splitlines()]
COUNT = 1000 if ALL else int(os.environ.get("RFNB_PAGE_WORDS", "6"))
WORDS = EVERY_WORD if len(EVERY_WORD) <= COUNT else random.Random(SEED).sample(EVERY_WORD, COUNT)
SEARCHES = {
    **{f"a beam of {beam}": lambda model, word, beam=beam: search(model, [word], beam_size=beam) for beam in (1, 5, 12)},
    **{name: lambda model, word, options=options: searching(model, word, **options) for name, options in OPTIONS.items()},
    **{f"it ends {name}": lambda model, word, options=options: of_steps(model, word, **options) for name, options in STOPS.items()},
}  # fmt: skip


def of_python(fn, word):
    """The n-best list: labels until the end, and scores."""
    with rf.stop_gradient_scope():
        found = fn(word)
    if hasattr(found, "history"):
        return [(_until_end(each.tokens), each.score) for each in found.history.nbest(0)]
    labels, scores = [each for each in found if isinstance(each, rf.Tensor)]
    batch, beam = scores.dims
    (steps,) = labels.remaining_dims([batch, beam])
    rows = labels.copy_transpose([batch, beam, steps]).numpy()[0]
    return [(_until_end(row), float(score)) for row, score in zip(rows, scores.numpy()[0], strict=True)]


def _until_end(tokens):
    labels = [int(each) for each in tokens]
    return labels[: labels.index(0)] if 0 in labels else labels


def same_lists(found, wanted):
    """The same labels with the same scores; those with equal scores in any order, and any of those that are equal to the last."""
    if len(found) != len(wanted):
        return False
    for (labels, score), (own, its) in zip(found, wanted, strict=True):
        if abs(score - its) > 1e-4 and score != its:
            return False
        near = [each for each, other in wanted if abs(other - score) < 1e-4 or other == score]
        if labels != own and labels not in near and abs(score - wanted[-1][1]) > 1e-4:
            return False
    return True


@pytest.mark.parametrize("name", SEARCHES)
def test_words_have_the_same_lists_in_a_page(name, tmp_path):
    model = load_g2p()

    def fn(word):
        return SEARCHES[name](model, word)

    told = run_in_node({"g2p": PageProgram.of(fn, "parachute")}, WORDS, tmp_path)["g2p"]["answers"]
    wrong = {}
    for word, answer in zip(WORDS, told, strict=True):
        minus = float("-inf")
        found = [(each["labels"], minus if each["score"] is None else each["score"]) for each in answer["nbest"][0]]
        wanted = of_python(fn, word)
        if not same_lists([each for each in found if each[1] > minus], [each for each in wanted if each[1] > minus]):
            wrong[word] = found, wanted
    assert not wrong, dict(list(wrong.items())[:3])
