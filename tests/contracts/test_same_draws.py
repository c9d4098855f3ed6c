"""No test draws otherwise in each run: what is right must not fail by luck. `seed.py` has the seed, and the way to another one."""

import random
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from seed import SEED

TESTS = Path(__file__).parents[1]
WITHOUT_SEED = re.compile(r"GITHUB_RUN|random\.Random\(\)|default_rng\(\)|SystemRandom|derandomize=False")


def test_what_is_drawn_has_a_seed():
    files = [path for path in TESTS.rglob("*.py") if path != Path(__file__)]
    assert len(files) > 300
    assert not [path.name for path in files if WITHOUT_SEED.search(path.read_text("utf-8"))]


@pytest.mark.skipif(SEED != 0, reason="others are wanted")
def test_hypothesis_draws_the_same():
    assert settings.default.derandomize and settings.default.database is None


def test_what_a_test_draws_is_its_own_whatever_was_drawn_before_it(request):
    seed = zlib.crc32(request.node.nodeid.encode()) ^ SEED
    drawn = [random.random(), np.random.random(), torch.rand(()).item()]
    generator = torch.Generator().manual_seed(seed)
    own = [
        random.Random(seed).random(),
        np.random.RandomState(seed).random(),
        torch.rand((), generator=generator).item(),
    ]
    assert drawn == own


@pytest.mark.parametrize("source", ['os.environ["GITHUB_RUN_NUMBER"]', "random.Random()", "np.random.default_rng()"])
def test_each_way_to_draw_otherwise_is_found(source):
    assert WITHOUT_SEED.search(source)
