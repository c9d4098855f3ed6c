"""Dims of a network: those declared in its dict, those of a call, and the axis of a tensor that an option names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import dim_error
from rfnb.core.tensor import Tensor
from rfnb.ops.dims import replace_dim
from rfnb.ops.expand import squeeze
from rfnb.rec.step_tensor import StepDim

_DECLARED = re.compile(r"<dim (?P<name>.*):(?P<size>None|\d+)>")


class DeclaredDims:
    """The dims in a dict: objects, or texts "<dim NAME:SIZE>" (SIZE may be None); equal texts are the same dim."""

    def __init__(self) -> None:
        self._of_text: dict[str, Dim] = {}
        self.found: set[Dim] = set()

    def __call__(self, value: Any) -> Any:
        """A nested value with a Dim in place of each such text."""
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self(item) for item in value]
        if isinstance(value, Dim):
            self.found.add(value)
        found = _DECLARED.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return value
        if value not in self._of_text:
            size, name = found["size"], found["name"]
            kind = "batch" if name in ("batch", "global batch") and size == "None" else None
            self._of_text[value] = Dim(None if size == "None" else int(size), name=name, kind=kind)
            self.found.add(self._of_text[value])
        return self._of_text[value]


class CallDims:
    """The actual dims for declared dims without a size in one call, and knowledge about all dims.

    Attributes:
        batch: The batch dim of the call, None before there is data.
        declared: Dims declared in the dict, which are never identified by size.
        times: Dims that count as time even without lengths: those of inputs, and of loops.
        in_loop: Whether this is a step of a loop, where a static dim, such as heads, is not a time.
    """

    def __init__(self, declared: Iterable[Dim] = ()) -> None:
        self.batch: Dim | None = None
        self.declared, self.times, self.in_loop = set(declared), set[Dim](), False
        self._actual: dict[Dim, Dim] = {}

    def __call__(self, dim: Dim) -> Dim:
        """The actual dim in this call for a declared one."""
        if dim.kind == "batch" and not dim.is_dim_known() and self.batch is not None:
            return self.batch
        return self._actual.get(dim, dim)

    def is_known(self, dim: Dim) -> bool:
        """Whether it has a size in this call."""
        return self(dim).is_dim_known()

    def bind(self, declared: Dim, actual: Dim) -> None:
        """From now on, use this dim for the declared one."""
        self._actual[declared] = actual
        self.declared.add(actual)

    def of_loop(self, axis: Dim | None) -> CallDims:
        """A copy, with room for knowledge that only holds inside a loop over `axis`."""
        out = CallDims(self.declared)
        out.batch, out.times, out.in_loop, out._actual = self.batch, set(self.times), True, dict(self._actual)
        if axis is not None:
            out.times.add(axis)
        return out


def size_of(dim: Dim) -> int | None:
    """The static size; None for a dim that differs in each step of a recorded loop, e.g. a history."""
    return None if isinstance(dim, StepDim) else dim.size


def is_ragged_like(dim: Dim) -> bool:
    """Whether it may be a time dim: it has lengths per sequence, or a size that depends on the data."""
    return not dim.is_batch_dim() and (size_of(dim) is None or dim.need_masking())


def time_dim(x: Tensor, dims: CallDims) -> Dim | None:
    """The time dim: the first one with lengths; else one that is known as a time; else, outside of a step of a loop, the
    first that is neither batch nor feature.
    """
    spatial = spatial_dims(x)
    found = next((dim for dim in spatial if is_ragged_like(dim)), None)
    if found is None:
        found = next((dim for dim in spatial if dim in dims.times), None)
    return found if found is not None or dims.in_loop or not spatial else spatial[0]


def attended_dim(x: Tensor, query: Tensor, dims: CallDims) -> Dim | None:
    """The time dim of a value that a step reads as a whole: also the only static dim that the query lacks."""
    time = time_dim(x, dims)
    if time is not None:
        return time
    own = [dim for dim in spatial_dims(x) if dim not in query.dims]
    return own[0] if len(own) == 1 else None


def is_batch_like(dim: Dim) -> bool:
    """Whether it is a batch or beam dim: the notation counts batch * beam as one axis, so only "batch" itself refers to them."""
    return dim.kind in ("batch", "beam")


def spatial_dims(x: Tensor) -> list[Dim]:
    """All dims except batch, beam and feature."""
    return [dim for dim in x.dims if not is_batch_like(dim) and dim is not x.feature_dim]


def frame_dims(x: Tensor) -> list[Dim]:
    """All dims except the feature."""
    return [dim for dim in x.dims if dim is not x.feature_dim]


def inner_dims(x: Tensor) -> list[Dim]:
    """All dims except batch and beam, the feature last."""
    return [*spatial_dims(x), *([x.feature_dim] if x.feature_dim is not None else [])]


def in_order(x: Tensor) -> list[Dim]:
    """The dims with batch first and feature last, as the notation counts axes: without beams, which are part of the batch."""
    return [*(dim for dim in x.dims if dim.is_batch_dim()), *inner_dims(x)]


def axis_of(x: Tensor, axis: Any, dims: CallDims, what: str) -> Dim:
    """The dim for the axis in an option.

    Args:
        axis: A Dim; "T", "F", "B" or "time", "feature", "batch"; "spatial" if there is only one; "spatial:i" or "s:i" the i-th of
            them; "dim:SIZE"; "stag:NAME"; an int counts batch first, feature last.

    Raises:
        DimError: If none or several match.
    """
    found = axes_of(x, axis, dims, what)
    if len(found) != 1:
        raise dim_error(
            f"{what}: axis {_text(axis)} is {len(found)} dims of the source.",
            {"source": x},
            "The option needs exactly one dim.",
        )
    return found[0]


def axes_of(x: Tensor, axis: Any, dims: CallDims, what: str) -> list[Dim]:
    """The dims for the axes in an option; also "except_batch", "except_time", "static", "spatial" for all of them, and lists."""
    if isinstance(axis, (list, tuple)):
        return _all_of(x, axis, dims, what)
    found = [dim for dim in _candidates(x, axis, dims, what) if dim in x.dims]
    if not found:
        raise dim_error(
            f"{what}: the source has no axis {_text(axis)}.",
            {"source": x},
            'An axis is a Dim, "T", "F", "B", "spatial:0", "dim:SIZE" or "stag:NAME".',
        )
    return found


def _all_of(x: Tensor, axes: Sequence[Any], dims: CallDims, what: str) -> list[Dim]:
    """The dims of a list; in ("dim:2", "F") the first is not the feature dim, even if that also has size 2."""
    by_size = {item for item in axes if isinstance(item, str) and item.lower().startswith("dim:")}
    found = {item: axes_of(x, item, dims, what) for item in axes if item not in by_size}
    taken = {dim for each in found.values() for dim in each}
    for item in by_size:
        left = [dim for dim in _of_size(x, item, what) if dim not in taken]
        found[item] = left if len(left) == axes.count(item) else axes_of(x, item, dims, what)
    return list(dict.fromkeys(dim for item in axes for dim in found[item]))


def _of_size(x: Tensor, axis: str, what: str) -> list[Dim]:
    size = _number(axis, axis.partition(":")[2], x, what)
    return [dim for dim in inner_dims(x) if size_of(dim) == size]


_COUNTED = ("s", "spatial", "static", "d", "dyn", "dynamic", "t", "time")


def _candidates(x: Tensor, axis: Any, dims: CallDims, what: str) -> list[Dim]:
    if isinstance(axis, Dim):
        return [dims(axis)]
    spatial, ordered, inner = spatial_dims(x), in_order(x), inner_dims(x)
    if isinstance(axis, int):
        return [ordered[axis]] if -len(ordered) <= axis < len(ordered) else []
    name, _, rest = str(axis).partition(":")
    name = name.lower().rstrip("?")
    time = time_dim(x, dims)
    if rest and name in _COUNTED:
        pool = spatial
        if name not in ("s", "spatial"):
            pool = [d for d in spatial if (size_of(d) is not None) == name.startswith("st")]
        index = _number(axis, rest, x, what)
        return [pool[index]] if -len(pool) <= index < len(pool) else []
    if name == "dim":
        found = _of_size(x, str(axis), what)
        if len(found) > 1:
            raise dim_error(
                f"{what}: {len(found)} dims of the source have the size of axis {_text(axis)}.",
                {"source": x},
                "A size identifies a dim only if no other one has it. Name it:",
                f'"{_name_of(found[0])}"',
            )
        return found
    if name in ("stag", "stag-single"):
        rest = rest.partition(":")[2] if name == "stag-single" else rest
        exact = [dim for dim in ordered if dim.name == rest]
        return exact or [dim for dim in ordered if rest.lower() in dim.name.lower()]
    kinds: dict[str, list[Dim]] = {
        "b": [dim for dim in ordered if dim.is_batch_dim()],
        "t": [time] if time is not None else [],
        "f": [x.feature_dim] if x.feature_dim is not None else [],
        "s": spatial,
        "static": [dim for dim in inner if size_of(dim) is not None],
        "dyn": [dim for dim in spatial if size_of(dim) is None],
        "except_batch": inner,
        "except_time": [dim for dim in inner if dim is not time],
    }
    kinds.update(batch=kinds["b"], time=kinds["t"], feature=kinds["f"], spatial=kinds["s"], dynamic=kinds["dyn"])
    return kinds.get(name, [])


def _number(axis: Any, text: str, x: Tensor, what: str) -> int:
    if text.lstrip("-").isascii() and text.lstrip("-").isdigit() and len(text) < 20:
        return int(text)
    raise dim_error(f"{what}: axis {_text(axis)} lacks a number.", {"source": x}, 'Write "spatial:0", "dim:SIZE", ...')


def _name_of(dim: Dim) -> str:
    return f"stag:{dim.name}"


def _text(axis: Any) -> str:
    return axis.short_repr() if isinstance(axis, Dim) else repr(axis)


def with_feature(x: Tensor, dim: Dim, what: str) -> Tensor:
    """x with `dim` as its feature dim; another feature dim of the same size is replaced, one of size 1 is dropped."""
    old = x.feature_dim
    if old is None or old is dim:
        return x
    if size_of(old) == 1 and size_of(dim) != 1:
        return squeeze(x, old)
    if size_of(old) != size_of(dim):
        raise dim_error(
            f"{what}: feature dims of different sizes.",
            {"source": x, "has": old, "needed": dim},
            "The sources are combined feature by feature, so they need the same number of features.",
        )
    out, _ = replace_dim(x, in_dim=old, out_dim=dim)
    out.feature_dim = dim
    return out


def same_static_dims(sources: Sequence[Tensor], dims: CallDims, what: str) -> list[Tensor]:
    """The sources with the static dims of the first ones, e.g. heads, if they are equivalent (`with_twins`)."""
    out: list[Tensor] = []
    for x in sources:
        for other in out:
            x = with_twins(x, other, spatial_dims(x), spatial_dims(other), dims, what)
        out.append(x)
    return out


def with_twins(
    x: Tensor, other: Tensor, own: Sequence[Dim], others: Sequence[Dim], dims: CallDims, what: str
) -> Tensor:
    """x with the dims `others` in place of equivalent dims `own`.

    A dim given by a number ("dims": [8, 64]) only has a size and a position. So, among dims that only one side has,
    static ones with the same size are identified in order, unless both are declared as dims.

    Raises:
        DimError: If several dims of one side have this size, so that the match is ambiguous.
    """
    left = [dim for dim in own if dim not in other.dims and _may_match(dim)]
    right = [dim for dim in others if dim not in x.dims and _may_match(dim)]
    for size in dict.fromkeys(size_of(dim) for dim in left):
        mine, theirs = ([dim for dim in side if size_of(dim) == size] for side in (left, right))
        if all(a in dims.declared and b in dims.declared for a in mine for b in theirs):
            continue
        if len(mine) != len(theirs):
            raise dim_error(
                f"{what}: it is ambiguous which dims are the same.",
                {"first": other, "second": x, "same size": f"{theirs} and {mine}"},
                "Dims given as numbers are distinguished only by size. Declare them, with the same names in both layers:",
                f'"dims": ["<dim {mine[0].name}:{size}>", ...]',
            )
        for a, b in zip(mine, theirs, strict=True):
            if not (a in dims.declared and b in dims.declared):
                feature = x.feature_dim
                x, _ = replace_dim(x, in_dim=a, out_dim=b)
                x.feature_dim = b if feature is a else feature
    return x


def _may_match(dim: Dim) -> bool:
    return not is_batch_like(dim) and size_of(dim) not in (None, 1) and not is_ragged_like(dim)


def same_lengths(a: Dim, b: Dim) -> bool:
    """Whether two dims have the same size, or the same lengths."""
    if a.lengths is None or b.lengths is None:
        return a.extent == b.extent
    return np.array_equal(a.lengths, b.lengths)


def common_feature(
    sources: Sequence[Tensor], what: str, preferred: Dim | None = None
) -> tuple[list[Tensor], Dim | None]:
    """The sources with the same feature dim: the preferred one if the size fits, else that of the first one with several features."""
    features = [x.feature_dim for x in sources if x.feature_dim is not None]
    if not features:
        return list(sources), None
    target = next((dim for dim in features if size_of(dim) != 1), features[0])
    if preferred is not None and size_of(preferred) == size_of(target):
        target = preferred
    return [with_feature(x, target, what) for x in sources], target


def marked(x: Tensor, feature: Dim | None) -> Tensor:
    """x with its feature dim set."""
    x.feature_dim = feature if feature is not None and feature in x.dims else None
    return x
