"""A Tensor from a dict of options, as configurations describe data: the options of Tensor, or the old ones, in which sizes tell the
axes.

    {"dims": [batch_dim, time, feat], "feature_dim": feat}
    {"dim": 9}                                          # {batch, time, 9 features}
    {"shape": (None,), "dim": 100, "sparse": True}      # {batch, time} over 100 classes

Information given in both forms must agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rfnb.core.dim import Dim, batch_dim
from rfnb.core.errors import value_error
from rfnb.core.not_specified import NotSpecified, is_specified
from rfnb.core.tensor import Tensor
from rfnb.core.vocabulary import labels_of

_AXES = (
    "dims",
    "dim_tags",
    "dim",
    "shape",
    "sparse",
    "sparse_dim",
    "raw_tensor",
)  # one of these says which axes there are
_OLD = (
    "dim", "sparse", "shape", "vocab", "sparse_dim", "batch_dim_axis", "time_dim_axis", "feature_dim", "feature_dim_axis",
    "same_dim_tags_as",
)  # fmt: skip


def tensor_of(name: str, options: Mapping[str, Any]) -> Tensor:
    """A Tensor from options.

    Raises:
        TypeError: For an option that Tensor never had, or that is meaningless here.
        ValueError: If they contradict each other, or do not define the axes.
    """
    if not set(_AXES) & set(options):
        raise _misfit(name, options, "no axes")
    rest = {key: value for key, value in options.items() if key not in _OLD}
    size, sparse_dim, vocab = options.get("dim"), options.get("sparse_dim"), labels_of(options.get("vocab"))
    sparse = options.get("sparse", sparse_dim is not None)
    if sparse and sparse_dim is None and (size is not None or vocab is not None):
        sparse_dim = Dim(len(vocab or ()) if size is None else size, name=f"{name}:classes", kind=Dim.Types.Feature)
    classes = None if sparse_dim is None else sparse_dim.dimension
    if sparse is not (sparse_dim is not None) or (sparse and size not in (None, classes)):
        raise _misfit(name, options, "the classes")
    by_sizes = not {"dims", "dim_tags", "raw_tensor"} & set(options)
    if by_sizes:
        rest |= _axes(name, options, None if sparse else size, sparse)
    else:
        rest |= {key: options[key] for key in ("feature_dim", "feature_dim_axis", "same_dim_tags_as") if key in options}
    tensor = Tensor(name, sparse_dim=sparse_dim, vocab=vocab, **rest)
    if "shape" in options and not by_sizes:
        if tuple(options["shape"]) != tuple(dim.size for dim in tensor.dims if not dim.is_batch_dim()):
            raise _misfit(name, options, "shape")
    if size is not None and not sparse and not by_sizes:
        feature = tensor.feature_dim or (tensor.dims[-1] if tensor.dims else None)
        if feature is None or feature.size != size:
            raise _misfit(name, options, "dim")
        tensor.feature_dim = feature
    open_axes = [at for at, dim in enumerate(tensor.dims) if dim.size is None and not dim.is_batch_dim()]
    for place in ("batch_dim_axis", "time_dim_axis"):
        axis = options.get(place, NotSpecified)
        if is_specified(axis) and not (place == "time_dim_axis" and open_axes == [axis]):
            setattr(tensor, place, axis)  # raises if it is another one
    return tensor


def _axes(name: str, options: Mapping[str, Any], size: int | None, sparse: bool) -> dict[str, Any]:
    """The dims and the feature dim of the old form."""
    has_time = options.get("time_dim_axis", 1) is not None
    inner = options.get("shape", (*((None,) if has_time else ()), *(() if sparse or size is None else (size,))))
    inner = list(inner) if isinstance(inner, Sequence) else [inner]
    batch_axis = options.get("batch_dim_axis", 0)
    axes: list[Any] = [*inner] if batch_axis is None else [*inner[:batch_axis], batch_dim, *inner[batch_axis:]]
    feature_axis = _feature_axis(options, axes, size, sparse)
    given = options.get("feature_dim")
    if feature_axis is not None and size is not None and axes[feature_axis] != size:
        raise _misfit(name, options, "dim")
    if given is not None and (feature_axis is None or given.size != axes[feature_axis]):
        raise _misfit(name, options, "feature_dim")
    time_axis = options.get("time_dim_axis", NotSpecified)
    free = [at for at, axis in enumerate(axes) if axis is not batch_dim and at != feature_axis]
    if not is_specified(time_axis):
        time_axis = next((at for at in free if axes[at] is None), next(iter(free), None))
    elif time_axis is not None and time_axis not in free:
        raise _misfit(name, options, "time_dim_axis")
    same = {time_axis if place in ("t", "T", "time") else place: dim for place, dim in _same(options)}
    if not set(same) <= set(free) or any(not isinstance(dim, Dim) or dim.size != axes[at] for at, dim in same.items()):
        raise _misfit(name, options, "same_dim_tags_as")
    for at in free:
        axes[at] = same.get(at) or _spatial(name, at, axes[at], at == time_axis, batch_axis is not None)
    if feature_axis is not None:
        axes[feature_axis] = given or Dim(axes[feature_axis], name=f"{name}:feature", kind=Dim.Types.Feature)
    out: dict[str, Any] = {"dims": axes, "feature_dim": None if feature_axis is None else axes[feature_axis]}
    return out | {"dtype": options.get("dtype") or ("int32" if sparse else "float32")}


def _same(options: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    return list((options.get("same_dim_tags_as") or {}).items())


def _spatial(tensor: str, axis: int, size: int | None, is_time: bool, per_sequence: bool) -> Dim:
    name = f"{tensor}:time" if is_time else f"{tensor}:spatial{axis}"
    lengths = Tensor(name, [batch_dim], "int32") if size is None and per_sequence else size
    return Dim(lengths, name=name, kind=Dim.Types.Spatial if is_time else None)


def _feature_axis(options: Mapping[str, Any], axes: list[Any], size: int | None, sparse: bool) -> int | None:
    """The axis of the features: the given one, else the last one if it has a size; classes have none."""
    axis = options.get("feature_dim_axis", NotSpecified)
    if is_specified(axis):
        return axis if axis is None or axis >= 0 else axis + len(axes)
    last = next((at for at in reversed(range(len(axes))) if axes[at] is not batch_dim), None)
    return None if sparse or last is None or (axes[last] is None and size is None) else last


def _misfit(name: str, options: Mapping[str, Any], what: str) -> Exception:
    return value_error(
        f'TensorDict: the options of "{name}" do not fit: {what}.',
        {"options": dict(options)},
        "In the old form dim is the size of the features, or with sparse the number of classes, and shape has the sizes without batch.\n"
        "What says all is the dims:",
        f'{{"{name}": {{"dims": [batch_dim, time, feat], "feature_dim": feat}}}}',
    )
