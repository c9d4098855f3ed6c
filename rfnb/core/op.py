"""The notion of an op: a function on Tensors whose inside works on raw arrays, so that others see its call as one thing.

    @op
    def tanh(x: Tensor) -> Tensor: ...

    @op(draws=True)
    def random_normal(dims: Sequence[Dim]) -> Tensor: ...

A recorded loop (`with loop:`) repeats the ops of its body, so whatever looks into a Tensor (`x.raw_tensor`) and may be called in a
body is one. A function stays what it is: being an op costs its calls nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast, overload

from rfnb.core.errors import type_error

Function = TypeVar("Function", bound=Callable[..., Any])


class Op:
    """All that is known of an op. Any op may draw random numbers or offer values to a trace by ops and probes inside of it.

    Attributes:
        fn: The function.
        draws: It draws random numbers itself.
        changes_state: It changes something for good: nothing that a recorded loop could repeat.
        decides: It looks at the loop it is in (a choice of a search): a recorded loop runs it in every step.
        of: What calls it, if its own name is a private one: it is shown instead.
        plain: Does what `fn` does, also while somebody else answers the calls of `fn` (`core/intercept.py`).
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
    """The function itself, which is an op from now on.

    Args:
        draws, changes_state, decides, of: See `Op`.

    Raises:
        TypeError: For anything but a function that `def` has made.
    """

    def register(fn: Function) -> Function:
        if not isinstance(fn, FunctionType):
            raise type_error(
                "op: this is no function that `def` has made.",
                [("got", f"a {type(fn).__name__}")],
                "Calls of an op are seen wherever it is referred to, which Python allows for such functions only.\n"
                "Below other decorators, directly above the `def`:",
                "@op",
            )
        _ops[fn] = Op(fn, draws=draws, changes_state=changes_state, decides=decides, of=of)
        return cast(Function, fn)

    return register if fn is None else register(fn)


def op_of(fn: Any) -> Op | None:
    """The op that a function is; None if it is none."""
    return _ops.get(fn) if isinstance(fn, FunctionType) else None


def all_ops() -> list[Op]:
    """Every op there is, in the order they were declared."""
    return list(_ops.values())


def op_on_way(way: Sequence[CodeType]) -> str | None:
    """The name of the first op whose code is among these, one that is called by its name; None if there is none.

    Args:
        way: Of running functions, innermost first.
    """
    names = {op.plain.__code__: op.name for op in all_ops()}
    return next((names[code] for code in way if names.get(code, "").isidentifier() and names[code][0] != "_"), None)
