"""Every public op that computes on Tensors, with a generator of inputs for the laws.

A new public op gets an entry in the file `table_*.py` of its subject: a function of a World that returns (call, inputs).
See `laws.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from laws import Case

CASES: dict[str, Case] = {}
EXEMPT: dict[str, str] = {}  # public name -> why no law applies to it


def case(*names: str) -> Callable[[Case], Case]:
    """Register a case under the name of its op; further names (after the first) tell several cases of one op apart."""

    def register(fn: Case) -> Case:
        CASES[" ".join(names)] = fn
        return fn

    return register


def exempt(reason: str, names: str) -> None:
    EXEMPT.update(dict.fromkeys(names.split(), reason))


def read_entries() -> None:
    """Register the entries of all files `table_*.py`."""
    for path in sorted(Path(__file__).parent.glob("table_*.py")):
        importlib.import_module(path.stem)
