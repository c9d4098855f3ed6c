"""Watches the ops of a step: their array library calls, and the circumstances these depend on."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache
from typing import Any

from rfnb.backends.raw_calls import CHANGE, RawCall
from rfnb.core.dim import Dim
from rfnb.core.finite_padding import StepWithEnded, steps_now
from rfnb.core.intercept import is_intercepted
from rfnb.core.place import place_text
from rfnb.core.tensor import Tensor, with_raw
from rfnb.core.tree import map_nested
from rfnb.rec.hold import holding
from rfnb.rec.loop_compilation import compiled_how
from rfnb.rec.lowering import TAKEN, Lowering, NotLowered
from rfnb.rec.modes import modes_now
from rfnb.rec.recorder import Node
from rfnb.trace.probe import Offer, held_back, listeners, offer_again, offer_here

Registers = list[Any]
DimMap = dict[Dim, Dim]  # the dims of a step, by those of the first
Run = Callable[[Registers, DimMap], None]
Op = tuple[Node, Run]  # with the function that runs it from the registers


class Circumstances:
    """The conditions other than arguments that ops depend on, as they are in this step. Under equal ones, ops behave the same."""

    def __init__(self) -> None:
        self.steps: tuple[StepWithEnded, ...] = steps_now()
        self.key = modes_now(), tuple([step.dims for step in self.steps]), listeners(), compiled_how()

    @property
    def listeners(self) -> tuple[Any, ...]:
        """The listeners for events of ops."""
        return self.key[2]

    @property
    def compiled(self) -> str | None:
        """The mode for compiling programs, or None."""
        return self.key[3]

    def unseen(self) -> bool:
        """True if nothing observes or alters ops: no outer recording, no debug mode, no attention edits."""
        hold = holding()
        changed = hold is not None and hold.changes_attention()
        return not changed and not is_intercepted() and not isinstance(Tensor.__dict__["_raw"], property)


class TracedOps:
    """Ops that were run, and their calls.

    Args:
        registers: The values after the ops ran.
        seen: For each op, its calls and events.
    """

    def __init__(
        self, nodes: Sequence[Node], registers: Registers, seen: Sequence[tuple[Sequence[RawCall], list[Offer]]] = ()
    ):
        self._nodes, self._registers, self._seen = nodes, registers, list(seen)

    @property
    def changes(self) -> bool:
        """True if arrays were written to."""
        return any(call.kind == CHANGE for calls, _ in self._seen for call in calls)

    @property
    def offers(self) -> bool:
        """True if any event was sent to listeners."""
        return any(offers for _, offers in self._seen)

    def calls(self) -> list[tuple[Sequence[RawCall], list[Any]]]:
        """For each op, its calls and the arrays that they returned."""
        registers = self._registers
        return [
            (calls, [registers[register]._raw for register in node.writes])
            for node, (calls, _) in zip(self._nodes, self._seen, strict=True)
        ]

    def lower(self, lowering: Lowering) -> list[int]:
        """Add the lines of all ops; return the numbers of those outside the program.

        Raises:
            NotLowered: If there may be a program in a later step.
        """
        return [place for place in range(len(self._seen)) if not self._lowered(place, lowering)]

    def _lowered(self, place: int, lowering: Lowering) -> bool:
        calls, offers = self._seen[place]
        try:
            lowering.add(calls, place)
            for register in self._nodes[place].writes:
                lowering.is_of_step(self._registers[register]._raw)
            for offer in offers:
                _lower_offer(lowering, offer, place)
        except NotLowered as error:
            if error.later:
                raise
            return False
        return True


class RawTrace(TracedOps):
    """Ops that are run and watched.

    Args:
        ops: Run here, from `registers`.
        watch: `Backend.trace_calls()`
    """

    def __init__(self, ops: Sequence[Op], registers: Registers, dims: DimMap, watch: Any, listened: bool = False):
        super().__init__([node for node, _ in ops], registers)
        before = dict(dims)
        with watch as calls:
            for _, run in ops:
                calls.clear()
                context: Any = held_back() if listened else nullcontext([])
                with context as offers:
                    run(registers, dims)
                self._seen.append((list(calls), offers))
                offer_again(offers)
        self.made_dims = dims != before


def input_names(keys: Iterable[Any], names: Mapping[Any, str]) -> dict[Any, str]:
    """A unique variable name for each key, for the code of a program."""
    found: dict[Any, str] = {}
    for key in keys:
        name = _identifier(names.get(key, "x"))
        found[key] = name if name is not None and name not in found.values() else f"x{len(found)}"
    return found


@lru_cache(maxsize=1024)
def _identifier(title: str) -> str | None:
    """A title as an identifier, or None."""
    name = re.sub(r"\W+", "_", title.replace("#", "op")).strip("_")
    return name if name.isidentifier() and not keyword.iskeyword(name) and name not in TAKEN else None


def note(nodes: Sequence[Node], place: int) -> str:
    """The comment above the lines of an op."""
    return f"{nodes[place].name}  {place_text(nodes[place].place)}".rstrip()


def guard(value: Tensor) -> Any:
    """The properties of a value, other than its numbers, that ops depend on."""
    return (value.dims, value.sparse_dim, value._feature_dim, value._finite, value.backend.signature_raw(value._raw))


def attributes(value: Tensor) -> dict[str, Any]:
    """All attributes of a Tensor except its array."""
    return {key: item for key, item in value.__dict__.items() if key != "_raw"}


def own_array(value: Tensor) -> Tensor:
    """The same values in an array of their own: two names may share an array in this step, and not in the next."""
    return with_raw(value.__dict__, value.backend.reshape_raw(value._raw, value._raw.shape))


def _lower_offer(lowering: Lowering, offer: Offer, place: int) -> None:
    """Add a line that sends the values of each step to listeners."""
    _, at, values = offer
    if type(values) is not dict:
        raise NotLowered("offers what is made later")
    raws: list[Any] = []

    def taken(leaf: Any) -> Any:
        if isinstance(leaf, Tensor) and leaf._raw is not None:
            if lowering.is_of_step(leaf._raw):
                raws.append(leaf._raw)
                return _Slot(len(raws) - 1, attributes(leaf))
        elif not isinstance(leaf, (Tensor, Dim, str, int, float, type(None))):
            raise NotLowered(f"offers a {type(leaf).__name__}")
        return leaf

    template = map_nested(taken, values)

    def offered(*now: Any) -> None:
        offer_here(
            offer,
            map_nested(
                lambda leaf: with_raw(leaf.attributes, now[leaf.index]) if isinstance(leaf, _Slot) else leaf, template
            ),
        )

    offered.__name__ = "offer"
    lowering.effect(offered, raws, place)


class _Slot:
    def __init__(self, index: int, attributes: dict[str, Any]):
        self.index, self.attributes = index, attributes
