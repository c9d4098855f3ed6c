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
    """The results of body(loop) (handles of `loop.stack`) and the final states, for each form of the loop; `initial` are the states."""
    for face in FACES:
        yield run_face(face, body, axis=axis, **initial)


def run_face(face: str, body: Callable[[Loop], Any], *, axis: Dim, **initial: Any) -> tuple[Any, Any]:
    """As `in_all_faces`, for one of them."""
    loop = rf.Loop(axis=axis, optimize_move_layers_out=face != "with, nothing moved")
    for name, value in initial.items():
        loop.state[name] = value
    return run_steps(loop, face, lambda: body(loop)), loop.state


def run_steps(loop: Loop, face: str, body: Callable[[], Any]) -> Any:
    """Run the steps of a loop as `for _ in loop:`, or as `with loop:`; what body() gave last."""
    result = None
    if face == "for":
        for _ in loop:
            result = body()
    else:
        with loop:
            result = body()
    return result


def gradients(module: rf.Module, *inputs: rf.Tensor, of: Callable[[], rf.Tensor]) -> dict[str, Any]:
    """Gradients of the parameters and the inputs (by number), for the sum of the sines of the real frames of `of()`."""
    raws: dict[str, Any] = {name: parameter.raw_tensor for name, parameter in module.named_parameters()}
    raws |= {str(number): value.raw_tensor for number, value in enumerate(inputs)}
    for raw in raws.values():
        raw.grad = None
        raw.requires_grad_()
    out = of()
    rf.reduce_sum(rf.sin(out), axis=list(out.dims)).raw_tensor.backward()
    return {name: raw.grad.clone() for name, raw in raws.items()}
