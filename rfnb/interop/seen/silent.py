"""Silent attentions: a module called attention that ran, and of which nothing was offered, is one sentence.

What a module offers is counted, whoever does it: a function that is seen, or `rf.probe` in its own code. A module is not silent if
something was offered in it, in the modules that it calls, or by the attention that has called it.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from rfnb.interop.seen.calls import Call
from rfnb.interop.seen.hf_softmax import ODD
from rfnb.interop.seen.readers import say_unseen
from rfnb.interop.seen.sides import around, says_attention
from rfnb.trace.probe import listening, offers_here

_RUN = "attention that runs"
_REASON = (
    "it calls no softmax, no F.scaled_dot_product_attention and no function of attention that is known here: it may have no map, "
    "or write it out in another way"
)


class _Silent(NamedTuple):
    """A call of which nothing was offered.

    Attributes:
        kinds: Its class, and those of the attentions around it that did nothing else.
    """

    call: Call
    kinds: tuple[str, ...]


class _Run:
    """An attention that runs.

    Attributes:
        begun: How much had been offered before.
        inside: How much was offered by the attentions in it.
        silent: Those of them that have offered nothing.
    """

    __slots__ = ("begun", "inside", "silent")

    def __init__(self) -> None:
        self.begun, self.inside = offers_here.count, 0
        self.silent: list[_Silent] = []


def begin(call: Call) -> None:
    """A call begins."""
    if _is_called_attention(type(call.module).__name__) and listening("attention"):
        call.seen[_RUN] = _Run()


def end(call: Call) -> None:
    """A call ends. Of an outermost attention, say what in it has offered nothing."""
    run: _Run | None = call.seen.get(_RUN)
    if run is None:
        return
    offered = offers_here.count - run.begun
    silent, kind = run.silent, type(call.module).__name__
    if offered > run.inside:  # by itself: what it has called is a part of that
        silent = []
    elif not offered:
        silent = [each._replace(kinds=(*each.kinds, kind)) for each in silent] or [_Silent(call, (kind,))]
    outer = next((each.seen[_RUN] for each in around(call.outer) if _RUN in each.seen), None)
    if outer is not None:
        outer.inside += offered
        outer.silent += silent
        return
    for each in silent:
        say_unseen(each.call, each.kinds, each.call.seen.get(ODD, _REASON))


_is_called_attention = functools.cache(says_attention)
