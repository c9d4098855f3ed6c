"""Ops: functions on Tensors that work on raw arrays inside, so that observers see a call as one unit.

    @op
    def tanh(x: Tensor) -> Tensor: ...

    @op(draws=True)
    def random_normal(dims: Sequence[Dim]) -> Tensor: ...

A recorded loop (`with loop:`) repeats the ops of its body, so every function that reads raw arrays (`x.raw_tensor`) and may be called in
a body is an op. The function stays the same object: being an op costs its calls nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast, overload

from rfnb.core.errors import type_error

Function = TypeVar("Function", bound=Callable[..., Any])
Args = tuple[Any, ...]  # the positional arguments of a call
Kwargs = dict[str, Any]  # the named ones


class Op:
    """The properties of an op. Any op may draw random numbers or send probe events through the ops and probes inside it.

    Attributes:
        fn: The function.
        draws: Whether it draws random numbers itself.
        changes_state: Whether it has a permanent effect, which a recorded loop cannot repeat.
        decides: Whether it depends on its loop (a choice of a search): a recorded loop runs it in every step.
        of: The public caller, shown in place of a private name.
        plain: Does the same as `fn`, even while `fn` is intercepted (`core/intercept.py`).
    """

    __slots__ = ("changes_state", "decides", "draws", "fn", "of", "plain")

    def __init__(self, fn: FunctionType, *, draws: bool, changes_state: bool, decides: bool, of: str | None):
        self.fn = self.plain = fn
        self.draws, self.changes_state, self.decides, self.of = draws, changes_state, decides, of

    @property
    def name(self) -> str:
        """The name in messages."""
        return self.of or self.fn.__qualname__.removesuffix(".__call__")


_ops: dict[FunctionType, Op] = {}


@overload
def op(fn: Function, /) -> Function: ...
@overload
def op(
    *, draws: bool = False, changes_state: bool = False, decides: bool = False, of: str | None = None
) -> Callable[[Function], Function]: ...
def op(
    fn: Any = None, /, *, draws: bool = False, changes_state: bool = False, decides: bool = False, of: str | None = None
) -> Any:
    """Declare a function as an op; returns the function itself.

    Args:
        draws, changes_state, decides, of: See `Op`.

    Raises:
        TypeError: For anything but a function made by `def`.
    """

    def register(fn: Function) -> Function:
        if not isinstance(fn, FunctionType):
            raise type_error(
                "op: this is no function that `def` has made.",
                {"got": f"a {type(fn).__name__}"},
                "Calls of an op are seen wherever it is referred to, which Python allows for such functions only.\n"
                "Below other decorators, directly above the `def`:",
                "@op",
            )
        _ops[fn] = Op(fn, draws=draws, changes_state=changes_state, decides=decides, of=of)
        return cast(Function, fn)

    return register if fn is None else register(fn)


def op_of(fn: Any) -> Op | None:
    """The op of a function, or None."""
    return _ops.get(fn) if isinstance(fn, FunctionType) else None


def all_ops() -> list[Op]:
    """All ops in order of declaration."""
    return list(_ops.values())


def op_on_way(way: Sequence[CodeType]) -> str | None:
    """The name of the first op whose code is among these and that users call by name, or None.

    Args:
        way: Codes of running functions, innermost first.
    """
    names = _names_of_codes(len(_ops))
    return next((names[code] for code in way if code in names), None)


@lru_cache(maxsize=1)
def _names_of_codes(count: int) -> dict[CodeType, str]:
    """The codes of all ops that users call by name; computed again when there is another op."""
    names = {op.plain.__code__: op.name for op in all_ops()}
    return {code: name for code, name in names.items() if name.isidentifier() and name[0] != "_"}
