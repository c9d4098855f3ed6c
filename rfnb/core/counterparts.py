"""Plans for the dims of a new batch, all at once: it will need the same plans as the previous batch.

A dim knows the plans that were built for keys in which it is the newest one. When the next dim of its form appears, these plans are
built in one go for the corresponding dims, before they are needed. That takes a fraction of the time of looking up each one by the
structure of its key; any further plan that a batch needs is looked up that way, and built with the others from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

from rfnb.core.beam_dim import BeamDim, note_kept
from rfnb.core.dim import Dim, Dims
from rfnb.core.plan_parts import CannotRebuild, Template, builder
from rfnb.core.size_queries import resizes, watching
from rfnb.core.structure import Index

if TYPE_CHECKING:
    from rfnb.core.layout import PlanCache

_MOST = 512  # plans that are put together at once
_serial = attrgetter("serial")
# What puts a plan together: where it is kept, the dims of its key among all, the functions of these, whether it has questions.
_Part = tuple[Any, Callable[[Dims], Dims], Template]
generation = [0]  # that of the plans: those of one before are asked for again, so that what nobody asks for goes


class _NoCounterpart(Exception):
    """No dim corresponds to a given one."""


class AskedPlans:
    """The plans of a batch, kept at its newest dim.

    Attributes:
        asked_for: All dims of their keys, with None for the newest one, which must not reference itself; and the function that
            builds the plans. Both are replaced at once, so that concurrent threads at worst lose a note.
        stay: The older dims among these, which the previous batch had too.
    """

    __slots__ = ("asked_for", "since", "stay")

    def __init__(self) -> None:
        self.since = generation[0]  # which a resize ends too
        self.asked_for: tuple[tuple[Dim | None, ...], tuple[_Part, ...]] = (None,), ()
        self.stay: frozenset[Dim] = frozenset()


def note(cache: PlanCache, template: Template, key: Any, index: Index) -> None:
    """Record at the newest dim of a key that its plan was requested."""
    newest = max(index, key=_serial)
    known = newest._plans
    if known is None or known.since != generation[0]:
        known = newest._plans = AskedPlans()
    dims, parts = known.asked_for
    if len(parts) >= _MOST:
        return
    if template.key_of is None:
        try:
            template.key_of = builder(key, index)
        except CannotRebuild:  # a key with what is no dim: the call fails further on, and says so
            return
    places = []
    for dim in index:
        own = None if dim is newest else dim
        if own not in dims:
            dims += (own,)
        places.append(dims.index(own))
    pick = itemgetter(*places) if len(places) > 1 else _only(places[0])
    known.asked_for = dims, (*parts, (cache, pick, template))


def _only(place: int) -> Callable[[Dims], Dims]:
    return lambda dims: (dims[place],)


def look_ahead(index: Index) -> int:
    """Build all plans that the newest dim of a key will need, if this is its first key; return their number."""
    newest = max(index, key=_serial)
    if newest._plans is not None or watching:  # what is read here is no question of a plan that is being made
        return 0
    newest._plans = known = AskedPlans()
    old = newest._structure[3] and newest._structure[3]()
    last: AskedPlans | None = None if old is None else old._plans
    if last is None or last.since != known.since:
        return 0
    before, parts = last.asked_for
    put: dict[Dim, Dim] = {}
    try:
        _put(old, newest, put)
        dims = _counterparts(before, put, last.stay, newest, old)
    except _NoCounterpart:
        return 0
    if len(set(dims)) < len(dims):
        return 0
    is_beam = BeamDim in set(map(type, dims))
    for cache, pick, template in parts:
        own = pick(dims)
        try:
            if not template.questions or template.serves(own):
                key = template.key_of(own)  # type: ignore[misc]
                cache.setdefault(key, template.build(own))
                if is_beam:
                    note_kept(cache, key, own)
        except Exception:  # whoever asks for it will hear of it
            continue
    same = set()
    for dim, old_dim in zip(dims, before):
        if dim is old_dim:
            same.add(dim)
    known.stay = last.stay if len(same) == len(last.stay) else frozenset(same)
    place = dims.index(newest)
    known.asked_for = (*dims[:place], None, *dims[place + 1 :]), parts
    return len(parts)


# What a batch pays for comes here, so there are loops instead of comprehensions, which are calls.


def _put(old: Dim, new: Dim, put: dict[Dim, Dim]) -> None:
    """Record that `new` corresponds to `old`, and likewise for their parts and the dims of their lengths."""
    pairs = [(old, new)]
    for one, other in pairs:
        known, now = one._structure, other._structure
        if known is None or now is None or known[0] != resizes[0] or now[0] != resizes[0]:
            raise _NoCounterpart
        if put.setdefault(one, other) is not other or known[1] is None or known[1] is not now[1]:
            raise _NoCounterpart
        pairs += zip(known[2], now[2], strict=True)


def _counterparts(
    before: tuple[Dim | None, ...], put: dict[Dim, Dim], stay: frozenset[Dim], newest: Dim, old: Dim
) -> Dims:
    """The dims that correspond to the given ones; the newest one is None among them."""
    for dim, new in put.items():
        if new is not dim and dim in stay:
            stay = frozenset()
            break
    dims = []
    for each in before:
        if each is None:
            dims.append(newest)
        elif each in stay:
            dims.append(each)
        else:
            dims.append(put.get(each) or _counterpart(each, put, old))
    return tuple(dims)


def _counterpart(dim: Dim, put: dict[Dim, Dim], newest: Dim) -> Dim:
    """The dim that corresponds to `dim`: itself, if it is older than the batch of `newest`."""
    found = put.get(dim)
    if found is None:
        form, related = _form(dim)
        now: Dims = ()
        for part in related:
            now += (put.get(part) or _counterpart(part, put, newest),)
        before = newest._structure[3] and newest._structure[3]()
        stays = now == related and before is not None and dim.serial < before.serial
        found = dim if stays else form.latest()
        if found is None or (found is dim) is not stays or _form(found) != (form, now):
            raise _NoCounterpart
        put[dim] = found
    return found


def _form(dim: Dim) -> tuple[Any, Dims]:
    """The form of a dim, and the dims it is made of or has its lengths over, if both are still valid.

    They are, as `AskedPlans.since` guarantees, since nothing was resized after plans were noted for dims with forms, except by a
    concurrent thread.
    """
    known = dim._structure
    if known is None or known[0] != resizes[0] or known[1] is None:
        raise _NoCounterpart
    return known[1], known[2]
