"""The structure of the dims in the key of a plan: everything that planning may depend on, other than lengths and their maximum.

Two keys have the same structure if the dims of one can replace those of the other: they are equal in the same places, have lengths over
each other in the same way, the same static sizes, names and kinds, and both or neither have padding.
"""

from __future__ import annotations

import weakref
from typing import Any

from rfnb.core import algebra
from rfnb.core.beam_dim import BeamDim
from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_mask import has_empty, has_padding, is_empty
from rfnb.core.dim_math import is_clipped, parts_of
from rfnb.core.size_queries import resizes

_forms: weakref.WeakValueDictionary[Any, DimForm] = weakref.WeakValueDictionary()


class DimForm:
    """The properties of a dim by itself; similar dims share one object, so that it is compared by identity.

    Attributes:
        latest: The dim that most recently had this form, weakly referenced.
    """

    __slots__ = ("__weakref__", "beam", "key", "latest")

    def __init__(self, key: tuple[Any, ...], beam: bool):
        self.key, self.beam = key, beam
        self.latest: weakref.ref[Dim] | None = None


IN_FORM = {has_padding, has_empty, is_empty, is_clipped}  # what is asked of a dim that its form says anyway
PLACES = tuple(object() for _ in range(256))  # each stands for the dim that came so-and-so-manieth
_TUPLE = object()  # what follows, as many as the next number says, is in a tuple
Index = dict[Dim, int]


def structure_of(key: tuple[Any, ...]) -> tuple[Any, Index] | None:
    """The structure of a key, and its dims with their numbers, including the parts of derived dims; None if no other key can be like it
    (a dim without size, one declared equal to another, beams of two steps).
    """
    index: Index = {}
    out: list[Any] = []
    try:
        return (tuple(out), index) if _walk(key, index, out) else None
    except IndexError:  # more dims than there are places
        return None


def _walk(parts: tuple[Any, ...], index: Index, out: list[Any]) -> bool:
    get, add, now = index.get, out.append, resizes[0]
    for part in parts:
        kind = part.__class__
        if kind is tuple:
            out += (_TUPLE, len(part))
            if not _walk(part, index, out):
                return False
        elif kind is Dim or isinstance(part, Dim):
            place = get(part)
            if place is not None:
                add(PLACES[place])
                continue
            known = part._structure
            if known is None or known[0] != now:
                known = part._structure = (now, *_form_of(part))
            _, form, related, _ = known
            if form is None or (form.beam and any(other._structure[1].beam for other in index)):
                return False
            index[part] = len(index)
            add(form)
            if related and not _walk(related, index, out):
                return False
        else:
            add(part)
    return True


def _form_of(dim: Dim) -> tuple[DimForm | None, Dims, weakref.ref[Dim] | None]:
    """The form of a dim, the dims it is made of or has its lengths over, in the order and multiplicity of the form, and the dim that
    had the form before it.
    """
    lengths = None if dim.size is not None else dim._lengths or dim._known()
    over: Dims = () if lengths is None else lengths.over
    alone = dim.special or dim.declared_as is not None or dim.same_as is not None
    if alone or (lengths is None and dim.size is None) or (dim.declared_length_dims and not over):
        return None, (), None
    extent = (
        dim._known_extent() if dim._extent is None else dim._extent
    )  # it is there from now on, for the shapes of plans
    beam = isinstance(dim, BeamDim)
    key: tuple[Any, ...] = (
        type(dim),
        dim.name,
        dim.kind,
        dim.by_user,
        dim.match_priority,
        dim.size,
        beam,
        not dim.padded_parts,
    )
    if lengths is not None and dim.size is None:
        ragged = bool(over and lengths.array.size) and lengths.bounds()[0] != extent
        key += (len(over), ragged, bool(over) and 0 in lengths.array, extent == 0, is_clipped(dim))
    parts: Dims = ()
    if dim.expr is not None or dim.twin_of is not None:
        parts = tuple(dict.fromkeys(parts_of(dim)))
        key += (None if dim.expr is None else skeleton(dim.expr, parts), dim.twin_of is None)
    form = _forms.get(key)
    if form is None:
        form = DimForm(key, beam)
        form = _forms.setdefault(key, form)
    before, form.latest = form.latest, weakref.ref(dim)
    return form, parts + over, before


def skeleton(expr: algebra.Sum, parts: Dims) -> algebra.Sum:
    """The expression with dims replaced by their indices."""

    def of(factor: Any) -> Any:
        if isinstance(factor, algebra.Division):
            return algebra.Division(factor.kind, of(factor.numerator), of(factor.denominator))
        return PLACES[parts.index(factor)] if isinstance(factor, Dim) else factor

    return tuple((number, tuple(map(of, factors))) for number, factors in expr)
