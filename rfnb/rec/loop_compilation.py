"""Compilation of recorded loops by the array library: `rf.compile_loops`.

A program is compiled for one step and called for each. Arrays, weights included, and sizes are arguments, so the compiled function
depends only on its lines and serves every loop with the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Never

import numpy as np

from rfnb.core.block import Setting
from rfnb.core.errors import type_error, value_error
from rfnb.rec.lowering import LoweredCall

WAYS = "inductor", "aot_eager", "cuda_graph"
_current: ContextVar[str | None] = ContextVar("rfnb_compile_loops", default=None)


def compile_loops(how: str | None = "inductor", *extra: Never, **unknown: Never) -> Setting:
    """Compile the steps of recorded loops (`with loop:`) inside this with-block.

        with rf.compile_loops():
            logits = decoder(...)

    Results and gradients equal those of the uncompiled loop, up to rounding. Some steps run uncompiled: those with ops that draw random
    numbers or read values, those with listeners, and those in mixed precision. If the library fails to compile, a warning says so.
    Compilation takes seconds, once for each kind of step. On a CPU it seldom pays; see docs/compile.md.

    Args:
        how: "inductor": `torch.compile`, which fuses elementwise ops (on a CPU it needs a compiler for C++). "aot_eager":
            `torch.compile` without code generation; for tests, no faster. "cuda_graph": launches all kernels of a step at once, for
            arrays on a GPU and without gradients; each kind and shape is captured once and keeps its memory. None: do not compile.

    Raises:
        ValueError: For another `how`.
        TypeError: For `@rf.compile_loops` without parentheses.
    """
    if how is not None and how not in WAYS:
        if callable(how):
            rows = [("got", f"the function {getattr(how, '__name__', how)}")]
            rule = "Its argument is a way to compile; also around a whole function it is called first:"
            raise type_error(
                "compile_loops: used as a decorator without parentheses.", rows, rule, "@rf.compile_loops()"
            )
        rows = [("how", repr(how)), ("known", ", ".join(map(repr, WAYS)))]
        rule = "It is a way to compile, or None."
        raise value_error("compile_loops: how is unknown.", rows, rule, "with rf.compile_loops():")
    return _compiling(how)


def _compiling(how: str | None) -> Setting:
    return Setting(_current, partial(_current.set, how))


def compiled_how() -> str | None:
    """The compilation mode of this context, or None."""
    return _current.get()


def compiled_step(
    backend: Any,
    bound: Mapping[str, Any],
    lines: Sequence[LoweredCall],
    code: Sequence[str],
    inputs: Sequence[str],
    results: str,
) -> Callable[[], Callable[..., tuple[Any, ...]]] | None:
    """Compile a step for a series of steps during which its constants do not change; None if it is not compiled.

    Args:
        bound: What names of the lines stand for.
        code: The lines as text.
    """
    how = compiled_how()
    # A line without targets calls what is none of the library.
    if how is None or backend is None or not all(line.targets for line in lines):
        return None
    body = "\n        ".join([*code, f"return {results}"])
    words = set(re.findall(r"\w+", body))
    used = {name: x for name, x in bound.items() if name in words}
    given = {name: x for name, x in used.items() if type(x) is int or isinstance(x, backend.RawTensorType)}
    parts = {name: x for name, x in used.items() if name not in given}
    source = (
        f"def make({', '.join(parts)}):\n    def step({', '.join([*given, *inputs])}):\n        {body}\n    return step"
    )
    changes = any(line.effect for line in lines)
    bind = _compiled(source, tuple([_Part(_key(x), x) for x in parts.values()]), backend, how, changes)
    return None if bind is None else partial(bind, *given.values())


@dataclass(frozen=True)
class _Part:
    key: Any
    value: Any = field(compare=False)


def _key(x: Any) -> Any:
    """A cache key: functions and strings stand for themselves; 0.0 and -0.0, and 1 and True, are distinguished."""
    return (type(x), repr(x)) if isinstance(x, (float, complex, np.generic)) else x


@lru_cache(maxsize=128)
def _compiled(source: str, parts: tuple[_Part, ...], backend: Any, how: str, changes: bool) -> Any:
    """The compiled function of a source. It has a code object of its own, since torch stores what it compiled there."""
    return backend.compile_raw(maker(source)(*[part.value for part in parts]), how, changes=changes)


def maker(source: str) -> Any:
    """The function `make` of a source."""
    # `__import__`: what an operation of torch needs late, it imports as the code that called it would.
    scope: dict[str, Any] = {"__builtins__": {"slice": slice, "__import__": __import__}}
    exec(compile(source, "<a step of a recorded loop>", "exec"), scope)
    return scope["make"]
