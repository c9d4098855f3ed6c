"""The seed of tests that draw at random, or try a part of what there is: the same in each run, so that none of them fails by luck.

RFNB_SEED=7 draws others, or tries another part; how many there are is another variable of each test.
"""

import os

SEED = int(os.environ.get("RFNB_SEED", "0"))


def part_of(cases, parts, turn=0):
    """Each `parts`-th of the cases, which are long to try: with RFNB_SEED=1 and so on the others, with RFNB_ALL=1 all of them.

    Args:
        turn: Begins at another case, as with another seed.
    """
    every = list(cases)
    return every if os.environ.get("RFNB_ALL") == "1" else every[(SEED + turn) % parts :: parts]
