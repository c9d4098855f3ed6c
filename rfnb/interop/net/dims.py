"""Dims of a network: those that its dict declares, those of a call, and the axis of a tensor that an option names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, message
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of
from rfnb.ops.dims import replace_dim
from rfnb.ops.expand import squeeze
from rfnb.rec.step_tensor import StepDim

_DECLARED = re.compile(r"<dim (?P<name>.*):(?P<size>None|\d+)>")


class DeclaredDims:
    """The dims in a dict: objects, or texts "<dim NAME:SIZE>" (SIZE may be None), where the same text is the same dim."""

    def __init__(self) -> None:
        self._of_text: dict[str, Dim] = {}

    def __call__(self, value: Any) -> Any:
        """A nested value with a Dim for each such text."""
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self(item) for item in value]
        found = _DECLARED.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return value
        if value not in self._of_text:
            size, name = found["size"], found["name"]
            kind = "batch" if name in ("batch", "global batch") and size == "None" else None
            self._of_text[value] = Dim(None if size == "None" else int(size), name=name, kind=kind)
        return self._of_text[value]


class CallDims:
    """What the declared dims without a size are in one call.

    Attributes:
        batch: The batch dim of the call, None before there is data.
    """

    def __init__(self) -> None:
        self.batch: Dim | None = None
        self._actual: dict[Dim, Dim] = {}

    def __call__(self, dim: Dim) -> Dim:
        """The dim of this call for a declared one."""
        if dim.kind == "batch" and not dim.is_dim_known() and self.batch is not None:
            return self.batch
        return self._actual.get(dim, dim)

    def is_known(self, dim: Dim) -> bool:
        """Whether it has a size in this call."""
        return self(dim).is_dim_known()

    def bind(self, declared: Dim, actual: Dim) -> None:
        """From here on the declared dim is this one."""
        self._actual[declared] = actual

    def child(self) -> CallDims:
        """The same, with room for what holds inside of a loop only."""
        out = CallDims()
        out.batch, out._actual = self.batch, dict(self._actual)
        return out


def size_of(dim: Dim) -> int | None:
    """The static size; None of a dim that each step of a recorded loop has another of, e.g. a history."""
    return None if isinstance(dim, StepDim) else dim.size


def is_ragged_like(dim: Dim) -> bool:
    """Whether it may be a time dim: it has lengths per sequence, or a size that only the data tells."""
    return not dim.is_batch_dim() and (size_of(dim) is None or dim.need_masking())


def time_dim(x: Tensor) -> Dim | None:
    """The time dim: the first one with lengths, else the first that is neither batch nor feature."""
    spatial = spatial_dims(x)
    return next((dim for dim in spatial if is_ragged_like(dim)), spatial[0] if spatial else None)


def spatial_dims(x: Tensor) -> list[Dim]:
    """All dims but batch, beam and feature."""
    return [dim for dim in x.dims if dim.kind not in ("batch", "beam") and dim is not x.feature_dim]


def in_order(x: Tensor) -> list[Dim]:
    """The dims batch first, feature last, as the notation counts axes."""
    batch = [dim for dim in x.dims if dim.kind in ("batch", "beam")]
    feature = [x.feature_dim] if x.feature_dim is not None else []
    return [*batch, *spatial_dims(x), *feature]


def axis_of(x: Tensor, axis: Any, dims: CallDims, what: str) -> Dim:
    """The dim that an option names.

    Args:
        axis: A Dim; "T", "F", "B" or "time", "feature", "batch"; "spatial" if there is one; "spatial:i" or "s:i" the i-th of
            them; "dim:SIZE"; "stag:NAME"; an int counts batch first, feature last.

    Raises:
        DimError: If there is none, or if several fit.
    """
    found = axes_of(x, axis, dims, what)
    if len(found) != 1:
        raise DimError(
            message(f"{what}: axis {_text(axis)} is {len(found)} dims of the source.", [("source", shape_of(x))],
                    "One dim is needed here.")
        )  # fmt: skip
    return found[0]


def axes_of(x: Tensor, axis: Any, dims: CallDims, what: str) -> list[Dim]:
    """The dims that an option names; also "except_batch", "except_time", "static", "spatial" for all of them, and lists."""
    if isinstance(axis, (list, tuple)):
        return list(dict.fromkeys(dim for item in axis for dim in axes_of(x, item, dims, what)))
    found = [dim for dim in _candidates(x, axis, dims) if dim in x.dims]
    if not found:
        raise DimError(
            message(f"{what}: the source has no axis {_text(axis)}.", [("source", shape_of(x))],
                    'An axis is a Dim, "T", "F", "B", "spatial:0", "dim:SIZE" or "stag:NAME".')
        )  # fmt: skip
    return found


def _candidates(x: Tensor, axis: Any, dims: CallDims) -> list[Dim]:
    if isinstance(axis, Dim):
        return [dims(axis)]
    spatial, ordered = spatial_dims(x), in_order(x)
    if isinstance(axis, int):
        return [ordered[axis]] if -len(ordered) <= axis < len(ordered) else []
    name, _, rest = str(axis).partition(":")
    name = name.lower().rstrip("?")
    time = time_dim(x)
    if rest and name in ("s", "spatial", "static", "d", "dyn", "dynamic", "t", "time"):
        pool = (
            spatial
            if name in ("s", "spatial")
            else [d for d in spatial if (size_of(d) is not None) == name.startswith("st")]
        )
        index = int(rest)
        return [pool[index]] if -len(pool) <= index < len(pool) else []
    if name == "dim":
        return [dim for dim in ordered if size_of(dim) == int(rest)]
    if name in ("stag", "stag-single"):
        rest = rest.partition(":")[2] if name == "stag-single" else rest
        exact = [dim for dim in ordered if dim.name == rest]
        return exact or [dim for dim in ordered if rest.lower() in dim.name.lower()]
    kinds: dict[str, list[Dim]] = {
        "b": [dim for dim in ordered if dim.is_batch_dim()],
        "t": [time] if time is not None else [],
        "f": [x.feature_dim] if x.feature_dim is not None else [],
        "s": spatial,
        "static": [dim for dim in ordered if size_of(dim) is not None and not dim.is_batch_dim()],
        "dyn": [dim for dim in spatial if size_of(dim) is None],
        "except_batch": [dim for dim in ordered if not dim.is_batch_dim()],
        "except_time": [dim for dim in ordered if dim is not time and not dim.is_batch_dim()],
    }
    kinds.update(batch=kinds["b"], time=kinds["t"], feature=kinds["f"], spatial=kinds["s"], dynamic=kinds["dyn"])
    return kinds.get(name, [])


def _text(axis: Any) -> str:
    return axis.short_repr() if isinstance(axis, Dim) else repr(axis)


def with_feature(x: Tensor, dim: Dim, what: str) -> Tensor:
    """x with `dim` as its feature dim; another feature dim of the same size is replaced, one of size 1 is left out."""
    old = x.feature_dim
    if old is None or old is dim:
        return x
    if size_of(old) == 1 and size_of(dim) != 1:
        return squeeze(x, old)
    if size_of(old) != size_of(dim):
        raise DimError(
            message(f"{what}: feature dims of different sizes.",
                    [("source", shape_of(x)), ("has", old.short_repr()), ("needed", dim.short_repr())],
                    "The features of all sources are combined one by one.")
        )  # fmt: skip
    out, _ = replace_dim(x, in_dim=old, out_dim=dim)
    out.feature_dim = dim
    return out


def same_static_dims(sources: Sequence[Tensor]) -> list[Tensor]:
    """The sources with the static dims of the first ones, e.g. heads: where one lacks a dim that another has, and has one of
    the same size that the other lacks, it is taken for the same."""
    out: list[Tensor] = []
    for x in sources:
        for other in out:
            for dim in other.dims:
                own = _twin_in(x, dim, other)
                if own is not None:
                    x, feature = replace_dim(x, in_dim=own, out_dim=dim)[0], x.feature_dim
                    x.feature_dim = feature
        out.append(x)
    return out


def _twin_in(x: Tensor, dim: Dim, other: Tensor) -> Dim | None:
    if dim in x.dims or size_of(dim) in (None, 1) or dim is other.feature_dim or dim.kind in ("batch", "beam"):
        return None
    return next((own for own in spatial_dims(x) if size_of(own) == size_of(dim) and own not in other.dims), None)


def same_times(sources: Sequence[Tensor]) -> list[Tensor]:
    """The sources with the time of the first one, where they have another of the same lengths."""
    first = next((dim for dim in map(time_dim, sources) if dim is not None), None)
    out = []
    for x in sources:
        time = time_dim(x)
        if (
            first is not None
            and time is not None
            and time is not first
            and first not in x.dims
            and same_lengths(time, first)
        ):
            feature = x.feature_dim
            x, _ = replace_dim(x, in_dim=time, out_dim=first)
            x.feature_dim = feature
        out.append(x)
    return out


def same_lengths(a: Dim, b: Dim) -> bool:
    """Whether two dims have the same size, or the same lengths."""
    if a.lengths is None or b.lengths is None:
        return a.extent == b.extent
    return np.array_equal(a.lengths, b.lengths)


def common_feature(
    sources: Sequence[Tensor], what: str, preferred: Dim | None = None
) -> tuple[list[Tensor], Dim | None]:
    """The sources with the same feature dim: the preferred one if the size fits, else that of the first which has more than one."""
    features = [x.feature_dim for x in sources if x.feature_dim is not None]
    if not features:
        return list(sources), None
    target = next((dim for dim in features if size_of(dim) != 1), features[0])
    if preferred is not None and size_of(preferred) == size_of(target):
        target = preferred
    return [with_feature(x, target, what) for x in sources], target


def marked(x: Tensor, feature: Dim | None) -> Tensor:
    """x, with its feature dim set."""
    x.feature_dim = feature if feature is not None and feature in x.dims else None
    return x
