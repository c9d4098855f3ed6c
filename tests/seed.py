"""The seed of tests that draw at random, or try a part of what there is: the same in each run, so that none of them fails by luck.

RFNB_SEED=7 draws others, or tries another part; how many there are is another variable of each test.
"""

import os

SEED = int(os.environ.get("RFNB_SEED", "0"))
