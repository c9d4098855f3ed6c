"""The generators of random numbers that a run draws from: those of rfnb and its backend, of NumPy and of Python.

They are one for all threads. So a run takes its own numbers with it where it waits: who draws meanwhile, another run or a cell,
changes nothing of it.
"""

from __future__ import annotations

import pickle
import random
from typing import Any, NamedTuple

import numpy as np

from rfnb.ops.random_state import get_random_state, put_back

# Not the functions of the modules, which tell whoever records a loop that somebody draws.
_numpy: Any = np.random.mtrand._rand
_python: Any = random._inst


class Generators(NamedTuple):
    """The places where they stand."""

    own: dict[str, bytes]
    numpy: bytes
    python: Any


def generators_now() -> Generators:
    """The places where they stand now."""
    return Generators(get_random_state(), pickle.dumps(_numpy.get_state(legacy=False)), _python.getstate())


def set_generators(to: Generators) -> None:
    """Let them stand where they stood."""
    now = generators_now()
    if now.own != to.own:
        put_back(to.own)
    if now.numpy != to.numpy:
        _numpy.set_state(pickle.loads(to.numpy))
    if now.python != to.python:
        _python.setstate(to.python)
