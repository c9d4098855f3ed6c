"""Cost of what-if, as a ratio: the ghost of a word to its end, with its recording, against the same search alone.

The change bans a label that no hypothesis takes, so that both come to the same.
"""

from __future__ import annotations

import threading

import rfnb as rf
from rfnb.control.ghosts import Ghost
from rfnb.models import load_g2p
from rfnb.models.g2p_search import search


def test_the_ghost_of_a_word(overhead):
    model = load_g2p()

    def spell():
        with rf.stop_gradient_scope():
            return search(model, ["parachute"], beam_size=5)[2]

    run = rf.run(spell, paused=True, record={"model": model})
    run.step(3)
    ban = {"do": "ban", "label": "OY"}

    def ghost():
        made, over = Ghost(run, 1, "search", 0, [ban], "no OY at 1"), threading.Event()
        made.on_change(lambda: made.is_over and over.set())
        while not made.is_over:
            over.wait(1.0)
        assert made.told()["same"]
        return made.run.result

    overhead("ghost of a word against its search", ghost, spell, limit=3.0, turns=31, warmup=3)
    run.stop()
