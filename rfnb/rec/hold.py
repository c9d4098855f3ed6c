"""Holds: control over the loops that run in a context.

    with held_by(hold):
        search(x)           # each Loop that begins gets its step from hold.around, each step of a scan asks hold.step_of

Without a hold, a loop, a `scan` and an attention each read one context variable.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from rfnb.core.block import Setting

if TYPE_CHECKING:
    from rfnb.core.dim import Dim, Dims
    from rfnb.core.tensor import Tensor
    from rfnb.rec.loop import Loop
    from rfnb.rec.loop_step import Step


class Hold(ABC):
    """Consulted when a loop begins and when attention weights are computed.

    Attributes:
        attended_calls: How often it was asked about attention weights.
        is_narrow: Whether the beam of a search has one hypothesis, as where all its labels are forced.
    """

    attended_calls = 0
    is_narrow = False

    @abstractmethod
    def around(self, loop: Loop, step: Step) -> Step:
        """The step for a loop that begins: `step` itself or a wrapper."""

    @abstractmethod
    def step_of(self, function: str, index: int, state: Any, ends: Any = None) -> Any:
        """Begin step `index` of a function that carries one state ("scan", "while_loop"); return the state to begin with.

        Args:
            ends: What knows which sequences have ended, as `Ends`; None: it ends for all at once.
        """

    def over(self, function: str) -> None:
        """A function that carries one state made its last step or was left."""
        return

    def run_unit(self, unit: Any, source: Tensor, state: Any, axis: Dim, direction: int) -> tuple[Tensor, Any] | None:
        """The output and the last state of a recurrent unit over an axis; None: it runs as without a hold."""
        return None

    def changes_attention(self) -> bool:
        """True if this step replaces any attention weights."""
        return False

    def edits_attention(self) -> bool:
        """True if attention weights computed here are to be replaced, so that the weights are needed and not just the result."""
        return False

    def note_attention(self, dims: Dims, axis: Dim) -> None:
        """Note an attention over `axis`, with weights over `dims` that nothing requests."""
        return

    def attended(self, weights: Tensor, axis: Dim, seen: Tensor | None) -> Tensor:
        """The weights over `axis` to attend with, in place of `weights`.

        Args:
            seen: bool, where a query may look besides the padding of `axis`; None: everywhere.
        """
        return weights

    def before_call(
        self, path: str, inputs: Callable[[], Mapping[str, Tensor]]
    ) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]] | None:
        """Hear of a call of another library's module: return its inputs and their replacements; None if nothing holds them.

        Args:
            inputs: By name of the argument.
        """
        return None


class ValuesBeside(Protocol):
    """Values that a function carries from step to step beside the loop's states; a hold may read and change them."""

    def now(self) -> Mapping[str, Any]:
        """The current values, by name."""

    def edit(self, name: str, value: Any) -> None:
        """Replace a current value."""


_current: ContextVar[Hold | None] = ContextVar("rfnb_hold", default=None)


holding = _current.get  # the hold on the loops of this context, or None


def let_go() -> None:
    """Release the hold of this context."""
    _current.set(None)


def held_by(hold: Hold | None) -> Setting:
    """Hold the loops that begin inside a with-block; None releases them."""
    return Setting(_current, partial(_current.set, hold))
