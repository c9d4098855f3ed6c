"""What an atlas of what-ifs costs, as a ratio to the runs that it is made of: recorded ones, as a reader makes them."""

from __future__ import annotations

import statistics
import time

import rfnb as rf
from rfnb.models import load_g2p
from rfnb.models.g2p_search import search

TURNS = 3


def test_an_atlas_of_nine_by_nine_within_a_hundred_plain_runs():
    model = load_g2p()

    def spell():
        with rf.stop_gradient_scope():
            return search(model, ["parachute"], beam_size=4)[1]

    def plain():
        run = rf.run(spell, record={"model": model})
        run.wait()
        return run

    run = plain()
    columns, steps = range(9), range(8)

    def nine_by_nine():  # of the eight steps of the word; the ninth row is one more of them
        atlas = rf.atlas(run, columns=columns, steps=[*steps, 0])
        atlas.wait()
        assert atlas.num_left == 0 and atlas.shape == (9, 9)

    def seconds(fn):
        before = time.perf_counter()
        fn()
        return time.perf_counter() - before

    nine_by_nine()
    pairs = [(statistics.median(seconds(plain) for _ in range(9)), seconds(nine_by_nine)) for _ in range(TURNS)]
    ratio = statistics.median(atlas / one for one, atlas in pairs)
    print(f"\natlas of 9 x 9: {ratio:.0f} plain runs of {min(one for one, _ in pairs) * 1e3:.0f} ms")
    assert ratio <= 100
