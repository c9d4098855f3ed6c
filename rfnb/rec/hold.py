"""Hold: who has hold of the loops that run in this context.

    with held_by(hold):
        search(x)           # each Loop that begins gets its step from hold.around, each step of a scan asks hold.step_of

Nobody has: a loop then looks at a context variable once, and a `scan` and whoever attends too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from rfnb.core.block import Setting

if TYPE_CHECKING:
    from rfnb.core.dim import Dim
    from rfnb.core.tensor import Tensor
    from rfnb.rec.loop import Loop
    from rfnb.rec.loop_step import Step


class Hold(ABC):
    """Is asked where a loop begins, and where attention weights are made.

    Attributes:
        attended_calls: How often it was asked about attention weights.
        is_narrow: Whether the beam of a search has one hypothesis, as where all its labels are forced.
    """

    attended_calls = 0
    is_narrow = False

    @abstractmethod
    def around(self, loop: Loop, step: Step) -> Step:
        """The step that a loop has as it begins: `step`, or one around it."""

    @abstractmethod
    def step_of(self, function: str, index: int, state: Any, ends: Any = None) -> Any:
        """Step `index` of a function that carries one state ("scan", "while_loop") begins; gives the state that it begins with.

        Args:
            ends: What knows which sequences have ended, as `Ends`; None: it ends for all at once.
        """

    @abstractmethod
    def over(self, function: str) -> None:
        """A function that carries one state has made its last step, or was left."""

    @abstractmethod
    def changes_attention(self) -> bool:
        """Whether any attention weights are to be others in this step."""

    @abstractmethod
    def edits_attention(self) -> bool:
        """Whether attention weights that are made here are to be others: then they have to be there, and not only their result."""

    @abstractmethod
    def note_attention(self, dims: tuple[Dim, ...], axis: Dim) -> None:
        """Something attends here over `axis`, with weights over `dims` that nobody needs."""

    @abstractmethod
    def attended(self, weights: Tensor, axis: Dim, seen: Tensor | None) -> Tensor:
        """The weights over `axis` to attend with, in the place of `weights`.

        Args:
            seen: bool, where a query may look besides the padding of `axis`; None: everywhere.
        """

    def before_call(
        self, path: str, inputs: Callable[[], Mapping[str, Tensor]]
    ) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor]] | None:
        """A call of a module of another library comes; gives its inputs, and what they are to be; None: nobody holds these.

        Args:
            inputs: By name of the argument.
        """
        return None


class ValuesBeside(Protocol):
    """The values that a function carries from step to step of a loop beside its states; a hold may look at them and change them."""

    def now(self) -> Mapping[str, Any]:
        """The present values, by name."""
        ...

    def edit(self, name: str, value: Any) -> None:
        """Another present value."""
        ...


_current: ContextVar[Hold | None] = ContextVar("rfnb_hold", default=None)


def holding() -> Hold | None:
    """The hold on the loops of this context; None: nobody has one."""
    return _current.get()


def let_go() -> None:
    """Nobody has hold of the loops of this context any more."""
    _current.set(None)


def held_by(hold: Hold | None) -> Setting:
    """Somebody has hold of the loops that are made in a with-block; None: nobody."""
    return Setting(_current, partial(_current.set, hold))
