"""The seed and the extent of tests that draw random cases or run a part of a long set: equal in each run, so that no test fails by chance.

RFNB_SEED=7 draws other cases, or selects another part; RFNB_ALL=1 runs the whole of each set, which takes minutes to an hour per file.
"""

import os

SEED = int(os.environ.get("RFNB_SEED", "0"))
ALL = os.environ.get("RFNB_ALL") == "1"


def part_of(cases, parts, turn=0):
    """Every `parts`-th of the cases of a long set; RFNB_SEED=1 and so on select the others, RFNB_ALL=1 all of them.

    Args:
        turn: Shifts the selection like another seed.
    """
    every = list(cases)
    return every if ALL else every[(SEED + turn) % parts :: parts]
