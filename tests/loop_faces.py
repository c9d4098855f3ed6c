"""One body of a loop in all the ways that a loop can run.

for outputs, states in in_all_faces(body, axis=time, h=rf.zeros([batch, out])):
    assert_same(outputs, expected)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import rfnb as rf
from rfnb import Dim, Loop

FACES = ("for", "with", "with, nothing moved")


def in_all_faces(body: Callable[[Loop], Any], *, axis: Dim, **initial: Any) -> Iterator[tuple[Any, Any]]:
    """What body(loop) gives (handles of `loop.stack`) and the final states, for each face; `initial` are the states."""
    for face in FACES:
        yield run_face(face, body, axis=axis, **initial)


def run_face(face: str, body: Callable[[Loop], Any], *, axis: Dim, **initial: Any) -> tuple[Any, Any]:
    """As `in_all_faces`, for one of them."""
    loop = rf.Loop(axis=axis, optimize_move_layers_out=face != "with, nothing moved")
    for name, value in initial.items():
        loop.state[name] = value
    result = None
    if face == "for":
        for _ in loop:
            result = body(loop)
    else:
        with loop:
            result = body(loop)
    return result, loop.state
