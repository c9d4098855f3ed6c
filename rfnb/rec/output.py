"""An output of a loop: the values of one `stack` or `last` call."""

from __future__ import annotations

from typing import Any

from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor, same_dtype, with_raw


class Handle(Tensor):
    """The Tensor that `stack` and `last` return; once the loop is done it gets its dims and values and is an ordinary Tensor."""

    _loop: Any
    _what: str

    @property
    def _raw(self) -> Any:
        raise self._too_early()

    def _too_early(self) -> ValueError:
        loop, what = self._loop, self._what
        if loop.has_ended:
            return value_error(
                f'Loop "{loop.name}": it was left early, so loop.{what} has no values.',
                {"value": self.name, "steps": loop.num_steps},
                "A loop that is left by break or an error collects nothing. Let it end by itself:",
                "loop.end(condition, include_eos=True)      # in place of break",
            )
        return value_error(
            f'Loop "{loop.name}", step {loop.num_steps_begun - 1}: what loop.{what} returned is used inside the loop.',
            {"value": self.name},
            "It has its values once the loop is done. In a step, use the collected value itself:",
            f"out = loop.{what}(y)      # y in the step, out after the loop",
        )

    def __repr__(self) -> str:
        return f"Tensor{{'{self.name}', of loop {self._loop.name}, which is not done}}"


def handle_of(loop: Any, what: str, name: str, dtype: str) -> Tensor:
    """A handle for values collected by `stack` or `last`."""
    out = Tensor(name, (), dtype)
    out.__dict__.update(_loop=loop, _what=what)
    out.__class__ = Handle
    return out


def end_handle(handle: Tensor, kind: type[Tensor]) -> None:
    """Turn the handle into another Tensor."""
    handle.__class__ = kind
    handle.__dict__.pop("_loop", None)
    handle.__dict__.pop("_what", None)


class Output:
    """One `stack` or `last` call site, in the order of the calls in a step.

    Attributes:
        inner: Not from the body, but required by ops after a recorded loop. A state in it gets the length dims late.
        initial: For `last`: the value of a sequence without steps; None means zeros.
        further: Values of later steps that were not requested one by one: a template and their raw arrays.
    """

    def __init__(self, handle: Tensor, last: bool, *, inner: bool = False):
        self.handle, self.last, self.inner = handle, last, inner
        self.initial: Tensor | None = None
        self._values: list[Tensor] = []
        self.further: list[tuple[Tensor, list[Any]]] = []
        self.last_value: Tensor | None = None
        self.result: Tensor | None = None  # if it was not made step by step

    @property
    def values(self) -> list[Tensor]:
        """The value of each step."""
        for like, raws in self.further:
            self._values += [with_raw(like.__dict__, raw) for raw in raws]
        self.further.clear()
        return self._values

    def first_and_further(self) -> tuple[Tensor, list[Any]] | None:
        """The value of the first step and the raw arrays of all others; None if they must be read one by one."""
        if not self.further or not self._values:
            return None
        first, *others = self._values
        parts = [*((value, [value._raw]) for value in others), *self.further]
        if not all(like.dims == first.dims and same_dtype(like, first) for like, _ in parts):
            return None
        return first, [raw for _, raws in parts for raw in raws]
