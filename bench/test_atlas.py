"""What an atlas of what-ifs costs, as a ratio to the search that it is about, alone and not recorded; and the time that an answer takes."""

from __future__ import annotations

import statistics
import time

import rfnb as rf
from rfnb.models import load_g2p
from rfnb.models.g2p_search import search

TURNS = 3


def seconds(fn):
    """Of processor time: neighbours take none of it."""
    before = time.process_time()
    fn()
    return time.process_time() - before


def test_an_atlas_of_nine_by_nine_within_a_hundred_plain_runs():
    model = load_g2p()

    def spell():
        with rf.stop_gradient_scope():
            return search(model, ["parachute"], beam_size=4)[1]

    run = rf.run(spell, record={"model": model})
    run.wait()
    columns, steps = range(9), range(8)

    def nine_by_nine():  # of the eight steps of the word; the ninth row is one more of them
        atlas = rf.atlas(run, columns=columns, steps=[*steps, 0])
        atlas.wait()
        assert atlas.num_left == 0 and atlas.shape == (9, 9)

    nine_by_nine()
    pairs = [(statistics.median(seconds(spell) for _ in range(9)), seconds(nine_by_nine)) for _ in range(TURNS)]
    ratio = statistics.median(atlas / one for one, atlas in pairs)
    print(f"\natlas of 9 x 9: {ratio:.0f} plain runs of {min(one for one, _ in pairs) * 1e3:.0f} ms")
    assert ratio <= 100


def test_why_not_a_word_within_a_second():
    """The answer about the last in the beam at the end, and what its margin is due to; the first of all imports vmap."""
    model, took = load_g2p(), []
    for word in ("bear", "parachute", "phonetics", "bear"):

        def spell(word=word):
            return search(model, [word], beam_size=4)[1]

        run = rf.run(spell, record={"model": model})
        run.wait()
        *_, other = run.trace.beams["search"].nbest(0)
        answers = []
        answer = seconds(lambda: answers.append(rf.why_not(run, " ".join(other.labels))))  # noqa: B023
        took.append((answer, seconds(lambda: str(answers[0].parts))))  # noqa: B023
    first, *others = took
    answer, parts = map(max, zip(*others))
    print(
        f"\nwhy not, the slowest word: {answer:.2f} s, its parts {parts:.2f} s; the first {first[0]:.2f} and {first[1]:.2f} s"
    )
    assert answer < 1 and parts < 1
