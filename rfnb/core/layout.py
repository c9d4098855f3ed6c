"""Plans: the reasoning about dims for one op, done once per combination of op, options and dims.

An op looks up its plan by the type of the raw arrays and the tuples of dims, and calls it. All functions here are pure: dims in,
permutations and views out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rfnb.backends import protocol
from rfnb.core.beam_dim import BeamDim, note_kept
from rfnb.core.counterparts import generation, look_ahead, note
from rfnb.core.dim import Dim, Dims
from rfnb.core.dim_identity import check_remade
from rfnb.core.dim_math import is_clipped, parts_of
from rfnb.core.dim_relations import same_sizes
from rfnb.core.errors import NoPlanError, dim_error, message
from rfnb.core.marked_dim import dims_of_lengths
from rfnb.core.memo import Memo, account, bytes_of, is_array
from rfnb.core.place import warn_user
from rfnb.core.plan_parts import CannotRebuild, PlanPart, Shape, Template
from rfnb.core.size_queries import PlanWatch, on_resize, watched
from rfnb.core.structure import Index, structure_of
from rfnb.core.tensor_checks import check_lengths_here
from rfnb.core.tensor_text import dims_text, labels_of, replace_code

_caches: list[PlanCache] = []
_LIMIT = 4096  # plans of all caches that are made before those go that were not asked for meanwhile
_TEMPLATES = 1024, 8  # structures of a cache, plans of a structure
_NONE: Any = object()
_made = [0]


class PlanCache(dict):
    """key -> plan. Look up with `cache[key]`; on KeyError `make` the plan.

    A key consists of fixed values (kinds, dtypes, options) and of dims, possibly in tuples. The plan depends on nothing else. It is
    found by the dims themselves, or else by their structure: then it is rebuilt with these dims (`core/plan_parts.py`). So a batch with
    new dims finds the plans of the previous one.

    Args:
        by_structure: Whether plans are found by structure. If not, the cache is for plans that are as quick to make as to find,
            stored by `keep`.
    """

    def __init__(self, *, by_structure: bool = True) -> None:
        super().__init__()
        self._by_structure = by_structure
        # What was there when the last generation began: here again when it is asked for.
        self.before: dict[Any, Any] = {}
        self.templates: dict[Any, list[Template]] = {}
        _caches.append(self)

    def __missing__(self, key: Any) -> Any:
        plan = self.before.get(key, _NONE)
        if plan is _NONE:
            structure = structure_of(key) if self._by_structure else None
            if structure is not None:
                made = look_ahead(structure[1]) if structure[1] else 0
                if made:
                    _made[0] += made  # looked at below, or when the plan that is not there is made
                    plan = self.get(key, _NONE)
                if plan is _NONE:
                    plan = self._for_others(key, *structure)
            if plan is _NONE:
                raise NoPlanError
            assert structure is not None
            for dim in structure[1]:
                if dim.__class__ is BeamDim:
                    note_kept(self, key, structure[1])
                    break
            _count()
        self[key] = plan
        return plan

    def make(self, key: Any, make: Callable[..., Any], *args: Any) -> Any:
        """`make(*args)`, stored as the plan for the dims of `key`, and for others of the same structure if it can serve them.

        Decisions of `make` that depend on extents or lengths are read from the dims: a plan serves dims with the same answers.
        """
        structure = structure_of(key)
        with watched() as watch:
            plan = make(*args)
        if structure is not None and watch.for_others:
            self._keep_template(structure, watch, plan)
        self[key] = plan
        note_kept(self, key, dims_in(key) if structure is None else structure[1])
        for array in plan if plan.__class__ is tuple else (plan,):
            if is_array(array):
                account(self, key, bytes_of(array))
        _count()
        return plan

    def keep(self, key: Any, plan: Any) -> Any:
        """Store the plan for the dims of `key` only; it must hold no array."""
        self[key] = plan
        note_kept(self, key, dims_in(key))
        _count()
        return plan

    def __contains__(self, key: Any) -> bool:
        return super().__contains__(key) or key in self.before

    def pop(self, key: Any, default: Any = None) -> Any:
        """Remove the plan for these dims."""
        self.before.pop(key, None)
        return super().pop(key, default)

    def _for_others(self, key: Any, structure: Any, index: Index) -> Any:
        dims = tuple(index)
        for template in self.templates.get(structure, ()):
            if template.serves(dims):
                if dims:
                    note(self, template, key, index)
                return template.build(dims)
        return _NONE

    def _keep_template(self, structure: tuple[Any, Index], watch: PlanWatch, plan: Any) -> None:
        form, index = structure
        try:
            template = Template(plan, index, watch.asked)
        except CannotRebuild:
            return
        known = self.templates.setdefault(form, [])
        known.append(template)
        del known[: -_TEMPLATES[1]]
        if len(self.templates) > _TEMPLATES[0]:
            self.templates.pop(next(iter(self.templates)), None)


def _count(made: int = 1) -> None:
    _made[0] += made
    if _made[0] >= _LIMIT:  # dims of old batches, and all that is made of them, are in the plans that nobody asks for
        _made[0] = 0
        generation[0] += 1
        for cache in _caches:
            cache.before = dict(cache)
            cache.clear()


def forget_dims() -> None:
    """Remove the plans for all dims (a known size has changed), but not the parts shared with plans for other dims."""
    generation[0] += 1
    for cache in _caches:
        cache.clear()
        cache.before = {}


def clear_plans() -> None:
    """Remove all plans."""
    forget_dims()
    for cache in _caches:
        cache.templates.clear()


def dims_in(key: tuple[Any, ...]) -> Iterator[Dim]:
    """The dims in the key of a plan."""
    for part in key:
        if part.__class__ is tuple:
            yield from dims_in(part)
        elif isinstance(part, Dim):
            yield part


on_resize(forget_dims)


def union(
    what: str,
    operands: Sequence[tuple[str, Dims]],
    *,
    outer: bool = False,
    order: Dims | None = None,
    index_space: Dim | None = None,
) -> Dims:
    """The dims of an elementwise result: those of the operand that has all of them (the first on a tie), else in order of appearance.

    An outer product is refused where it is almost always a mistake, unless `outer`: no operand has all dims, and two of them share no
    dim or bring different ragged dims. An operand also has the dims that it depends on without an axis: those of its lengths (so these
    lengths come along), and `index_space`, which all operands index into.

    Raises:
        DimError: For such an outer product, or if `order` is not the set of dims of the result.
    """
    result: list[Dim] = []
    for _, dims in operands:
        result += [dim for dim in dims if dim not in result]
    complete = next((dims for _, dims in operands if len(dims) == len(result)), None)
    if complete is None and not outer and not any(_depends_on_all(dims, result, index_space) for _, dims in operands):
        _check_outer(what, operands, result)
        check_remade(what, operands, outer_code=_outer_code(what))
    if order is not None:
        if set(order) != set(result) or len(order) != len(result):
            raise dim_error(
                f"{what}: dim_order does not name the dims of the result.",
                [*((label, dims_text(dims)) for label, dims in operands), ("dim_order", dims_text(tuple(order)))],
                f"The result has the dims {dims_text(result)}.",
            )
        return tuple(order)
    return complete if complete is not None else tuple(result)


def _depends_on_all(dims: Dims, result: list[Dim], index_space: Dim | None) -> bool:
    has = {*dims, *dims_of_lengths(dims), *(() if index_space is None else (index_space,))}
    return has.issuperset(result)


# Asked before operands are refused: (operands) -> (rule, fix), if somebody knows better what is meant.
Explain = Callable[[Sequence[tuple[str, Dims]]], "tuple[str, str] | None"]
_explanations: list[Explain] = []


def explain_mismatch(explain: Explain) -> Explain:
    """A decorator: register a function that explains mismatching dims of operands."""
    _explanations.append(explain)
    return explain


@explain_mismatch
def _of_clipped(operands: Sequence[tuple[str, Dims]]) -> tuple[str, str] | None:
    """Explain that a sum of lengths differs from its appearance because a part of it would be negative."""
    (label, dims), *others = operands
    for other, other_dims in others:
        for kept, left, name in ((dims, other_dims, other), (other_dims, dims, label)):
            for dim in (dim for dim in left if dim not in kept and dim.expr is not None):
                part = next((part for part in parts_of(dim) if is_clipped(part)), None)
                target = next((each for each in kept if each not in left and each.extent == dim.extent), None)
                if part is not None and target is not None:
                    return (
                        f"{dim.short_repr()} is not {target.short_repr()}: {part.name} is below 0 for some sequence, which has 0 frames "
                        "of it.\nSo its lengths are no sum any more. Cut it, or pad it, to the frames of the other:",
                        f"{name} = rf.replace_dim_v2({name}, in_dim={name}.dims[{left.index(dim)}], out_dim={target.name})",
                    )
    return None


def _check_outer(what: str, operands: Sequence[tuple[str, Dims]], result: list[Dim]) -> None:
    labels = labels_of(result)
    shown = [(label, dims_text(dims, labels)) for label, dims in operands]
    for index, (label_a, a) in enumerate(operands):
        for label_b, b in operands[index + 1 :]:
            only_a = [dim for dim in a if dim not in b]
            only_b = [dim for dim in b if dim not in a]
            if not only_a or not only_b:
                continue
            ragged = [dim for dim in only_a if dim.need_masking()], [dim for dim in only_b if dim.need_masking()]
            if len(only_a) == len(a) or len(only_b) == len(b):
                rule = f"{label_a} and {label_b} have no dim in common, so this would be an outer product."
            elif ragged[0] and ragged[1]:
                rule = (
                    f"{labels[ragged[0][0]]} and {labels[ragged[1][0]]} are two different ragged dims, "
                    "so this would compare every frame with every frame."
                )
            else:
                continue
            known = next(filter(None, (explain(operands) for explain in _explanations)), None)
            if known is not None:
                raise dim_error(f"{what}: the dims of the operands do not match.", shown, *known)
            pairs = [
                (one, other) for one in only_a for other in only_b if one.name == other.name and same_sizes(one, other)
            ]
            first, second = pairs[0] if pairs else ((ragged[0] or only_a)[0], (ragged[1] or only_b)[0])
            fix = _outer_code(what)
            if _alike(first, second):
                rule += "\nIf they are the same axis, replace one first; if the outer product is meant, say so:"
                place = f"{label_a}.dims[{a.index(first)}]" if first.name == second.name else None
                fix = f"{replace_code(label_b, b, second, first, place)}\n{fix}"
            else:
                rule += "\nIf it is meant, say so:"
            raise dim_error(f"{what}: the dims of the operands do not match.", shown, rule, fix)


def _outer_code(what: str) -> str:
    if what in protocol.BINARY_KINDS:
        return f'rf.combine_bc(a, "{what}", b)'
    if what in protocol.COMPARE_KINDS:
        return f'rf.compare_bc(a, "{what}", b)'
    return f"rf.{what}(..., allow_broadcast_all_sources=True)"


def _alike(a: Dim, b: Dim) -> bool:
    return a.name == b.name or a.extent == b.extent


def composed(fn: Any, first: Any, second: Any) -> Callable[[Any, Any], Any]:
    """`fn` of two operands that go through `first` and `second` before; None: as it is."""
    if first is None and second is None:
        return fn
    if first is None:
        return lambda a, b: fn(a, second(b))
    if second is None:
        return lambda a, b: fn(first(a), b)
    return lambda a, b: fn(first(a), second(b))


def view(dims: Dims, out: Dims, backend: Any) -> Callable[[Any], Any] | None:
    """The broadcast of a raw array over `dims` against `out`: None for as it is, else a function."""
    order = [dim for dim in out if dim in dims]
    perm = [dims.index(dim) for dim in order]
    permuted = perm != list(range(len(perm)))
    first = out.index(order[0]) if order else len(out)
    missing = [axis for axis in range(first, len(out)) if out[axis] not in dims]
    missing = [axis - first for axis in missing]
    if not permuted and not missing:
        return None
    transpose, expand = backend.transpose_raw, backend.expand_dims_raw
    if not missing:
        return lambda raw: transpose(raw, perm)
    if not permuted and len(missing) == 1:
        axis = missing[0]
        return lambda raw: expand(raw, axis)

    def apply(raw: Any) -> Any:
        if permuted:
            raw = transpose(raw, perm)
        for axis in missing:
            raw = expand(raw, axis)
        return raw

    return apply


def to_order(dims: Dims, out: Dims, backend: Any) -> Callable[[Any], Any] | None:
    """A function that permutes the dims; None if there is nothing to do."""
    perm = [dims.index(dim) for dim in out]
    if perm == list(range(len(perm))):
        return None
    transpose = backend.transpose_raw
    return lambda raw: transpose(raw, perm)


def full_shape(dims: Dims) -> tuple[int, ...]:
    """The shape of a raw array over `dims`."""
    return tuple(dim.extent for dim in dims)


def masks_for(dims: Dims, over: Sequence[Dim], backend: Any, what: str) -> Callable[[Any], Any] | None:
    """A function raw -> boolean array broadcastable to `dims`, True where no dim of `over` is padded; None if there is no padding at
    all.

    Raises:
        DimError: If the lengths of a ragged dim are over a dim that is missing here.
    """
    ragged = tuple([dim for dim in over if dim.size is None and dim.has_padding()])
    for dim in over:
        if dim.padded_parts and what != "padding":
            _warn_of_padding(what, dims, dim)
    if not ragged:
        return None
    for dim in ragged:
        check_lengths_here(what, [("tensor", dims)], dim)
    over_first = ragged[0].length_dims
    own = tuple([other for other in dims if other is ragged[0] or other in over_first])
    return _Mask(dims, ragged, own, view(own, dims, backend), backend)


def _warn_of_padding(what: str, dims: Dims, dim: Dim) -> None:
    """Warn that padding merged into a dim of plain size is treated as data."""
    parts = ", ".join(part.split("=")[0].removesuffix("<") for part in dim.padded_parts)
    text = message(
        f"{what}: there is padding among the frames of {dim.short_repr()}.",
        {"tensor": dims_text(dims), "merged": f"{', '.join(dim.padded_parts)}, in {dim.created}"},
        "A dim merged of a ragged one has a plain size, and what was padding counts as data. Work on the dims as they were before, "
        "or\njoin the real frames only:",
        f"y, frames = rf.masked_select(x, mask=rf.sequence_mask([{parts}]), dims=[{parts}])    # instead of merge_dims",
    )
    warn_user(text)


class _Mask(PlanPart):
    """The mask from `masks_for`, made once per device.

    Args:
        own: The dims of the mask of the first ragged dim, in the order of `dims`.
        shape: The shape in which such a mask broadcasts against `dims`.
    """

    __slots__ = ("args", "masks")

    def __init__(self, *args: Any):
        self.args = args
        self.masks: Memo | None = None

    def __call__(self, raw: Any) -> Any:
        dims, ragged, own, shape, backend = self.args
        if self.masks is None:
            self.masks = Memo()
        device = backend.device_key_raw(raw)
        found = self.masks.get(device)
        if found is None:
            if len(ragged) == 1:
                found = ragged[0]._raw_mask(own, backend, backend.get_device_raw(raw))
                found = self.masks.keep(
                    device, found if shape is None else shape(found), 0
                )  # a view of what the dim keeps
            else:  # on the host: what torch makes in inference mode could not serve training later
                host = functools.reduce(np.logical_and, (dim.host_mask(dims) for dim in ragged))
                found = backend.from_numpy(host, dtype="bool", device=backend.get_device_raw(raw))
                self.masks.keep(device, found, host.nbytes)
        return found


def spread_mask(mask: Callable[[Any], Any], full: Shape, flat: Shape, backend: Any) -> Callable[[Any], Any]:
    """A function raw -> the result of `mask`, expanded to the shape `full` and then with axes flattened to `flat`; made once per
    device.
    """
    masks, device_of = Memo(), backend.device_key_raw

    def spread(raw: Any) -> Any:
        device = device_of(raw)
        found = masks.get(device)
        if found is None:
            found = masks.keep(device, backend.reshape_raw(backend.broadcast_raw(mask(raw), full), flat))
        return found

    return spread
