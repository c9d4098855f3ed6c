"""Losses, one value per frame or sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import dim_error, message, not_one_of, value_error
from rfnb.core.generations import aligned, with_beams
from rfnb.core.layout import PlanCache, masks_for, spread_mask, to_order
from rfnb.core.op import op
from rfnb.core.place import warn_user
from rfnb.core.plan_parts import Shape
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_checks import check_dim
from rfnb.core.tensor_text import dims_text, labels_of, replace_code, shape_of
from rfnb.ops import math, reduce
from rfnb.ops import matmul as matmul_ops
from rfnb.ops.gather import gather
from rfnb.ops.index_range import check_integers, explain_indices, on_host
from rfnb.ops.one_hot import sparse_to_dense
from rfnb.ops.operands import check_devices, check_dtypes, common_backend, need_tensors
from rfnb.ops.softmax import log_softmax

_plans = PlanCache()


@op
def cross_entropy(
    *extra: Never,
    estimated: Tensor,
    target: Tensor,
    axis: Dim,
    estimated_type: str,
    label_smoothing: float = 0.0,
    **unknown: Never,
) -> Tensor:
    """The negative log probability of the target, in nats, not reduced.

    Args:
        estimated: {..., axis}
        target: int {...} sparse over axis, or a distribution {..., axis}. One of the two may lack dims of the other: one target for
            all frames of a sequence, or one distribution for all of them.
        axis: The dim of the classes.
        estimated_type: "logits", "log-probs" or "probs".
        label_smoothing: Fraction of the target's mass that is spread evenly over all classes (Szegedy et al. 2016, section 7).

    Returns:
        {...}; 0 in the padding of ragged dims.

    Raises:
        DimError: If neither estimated nor target has all the other dims (an outer product of losses is never intended).
        ValueError: For an unknown estimated_type, or a label_smoothing outside [0, 1].

    Warns:
        UserWarning: If a loss is negative, so that the inputs are not probabilities; not checked on a GPU, which would have to be
            waited for. Also if estimated is the result of `rf.softmax` but has the type "logits".
    """
    if not (isinstance(estimated, Tensor) and isinstance(target, Tensor)):
        need_tensors("cross_entropy", estimated, target)
    kinds = ("logits", "log-probs", "probs")
    if estimated_type not in kinds:
        raise not_one_of(f'cross_entropy: estimated_type "{estimated_type}".', "estimated_type", estimated_type, kinds)
    if label_smoothing and not 0 <= label_smoothing <= 1:
        raise value_error(
            "cross_entropy: label_smoothing is no share.",
            {"label_smoothing": label_smoothing},
            "It is the share of the target's mass that goes to all classes, from 0 to 1:",
            "rf.cross_entropy(..., label_smoothing=0.1)",
        )
    key = (estimated._raw.__class__, estimated.dims, target.dims, target.dtype, target.sparse_dim, axis)
    if estimated_type == "logits":
        if estimated._is_softmax:
            _warn_of_softmax(estimated)
        try:
            plan = _plans[key]
        except KeyError:
            plan = None
        if plan is not None:
            return _of_logits(plan, estimated, target, axis, label_smoothing)
    check_dim("cross_entropy", estimated, axis, "estimated")
    _check_labels(estimated, target, axis)
    rest = tuple(dim for dim in estimated.dims if dim is not axis)
    of_target = tuple(dim for dim in target.dims if dim is not axis)
    if set(rest) != set(of_target):
        together = aligned("cross_entropy", (estimated, target)) or with_beams((estimated, target), (axis,))
        if together is not None:
            estimated, target = together
            return cross_entropy(
                estimated=estimated, target=target, axis=axis, estimated_type=estimated_type, label_smoothing=label_smoothing
            )  # fmt: skip
        if set(rest) <= set(of_target) or set(of_target) <= set(rest):
            return _composed(estimated, target, axis, estimated_type, label_smoothing)
        labels = labels_of((*estimated.dims, *target.dims))
        raise dim_error(
            "cross_entropy: estimated and target have different dims beside the classes.",
            {
                "estimated": dims_text(estimated.dims, labels),
                "target": dims_text(target.dims, labels),
                "axis": labels[axis],
            },
            "Each frame has one target. If two dims are the same axis, replace one first:",
            _same_axis_code(estimated, target, rest),
        )
    if axis in target.dims or estimated_type != "logits":
        return _composed(estimated, target, axis, estimated_type, label_smoothing)
    return _of_logits(_plans.make(key, _plan, estimated, target, rest, axis), estimated, target, axis, label_smoothing)


def _of_logits(plan: tuple[Any, ...], estimated: Tensor, target: Tensor, axis: Dim, label_smoothing: float) -> Tensor:
    order, order_target, shape, mask, rest = plan
    backend = estimated.backend
    raw = estimated._raw if order is None else order(estimated._raw)
    ids = target._raw if order_target is None else order_target(target._raw)
    if len(shape) != 1:
        raw, ids = backend.reshape_raw(raw, (-1, axis.extent)), backend.reshape_raw(ids, (-1,))
    try:
        flat = backend.cross_entropy_raw(raw, ids, label_smoothing, None if mask is None else mask(raw))
    except (IndexError, RuntimeError, TypeError) as error:
        check_devices("cross_entropy", estimated, target)
        check_dtypes("cross_entropy", estimated=estimated)
        explain_indices(error, "cross_entropy", "target", target, axis, ("estimated", estimated))
        raise
    return new_tensor(flat if len(shape) == 1 else backend.reshape_raw(flat, shape), rest)


def _plan(estimated: Tensor, target: Tensor, rest: Dims, axis: Dim) -> tuple[Any, ...]:
    _check_labels(estimated, target, axis)  # here too: a plan serves other dims if they would pass
    backend = common_backend("cross_entropy", estimated, target)
    check_integers("cross_entropy", "target", target, ("estimated", estimated))
    orders = to_order(estimated.dims, (*rest, axis), backend), to_order(target.dims, rest, backend)
    return *orders, Shape(*rest), _flat_mask(rest, backend), rest


def _check_labels(estimated: Tensor, target: Tensor, axis: Dim) -> None:
    labels_dim = target.sparse_dim
    if axis in target.dims and target.dtype.startswith(("int", "uint")):
        raise dim_error(
            "cross_entropy: the axis is a dim of labels.",
            {
                "estimated": estimated,
                "target": f"{shape_of(target)} {target.dtype}",
                "axis": axis,
            },
            "The axis is that of the classes, which estimated has and labels do not:",
            "\n".join(
                f"axis=estimated.dims[{place}]    # {dim.short_repr()}"
                for place, dim in enumerate(estimated.dims)
                if dim not in target.dims
            )
            or "target = rf.cast(target, estimated.dtype)    # a distribution",
        )
    if axis.extent == 0:
        raise dim_error(
            "cross_entropy: there are no classes.",
            {"target": target, "axis": axis},
            "Each target is one of the classes.",
            'vocab = Dim(10, name="vocab")',
        )
    if labels_dim is not None and labels_dim is not axis and labels_dim.extent > axis.extent:
        raise dim_error(
            "cross_entropy: the targets may not be indices into the classes.",
            {"target": f"{shape_of(target)} over {labels_dim.short_repr()}", "axis": axis},
            "There are more labels than classes. If the targets are indices into the classes, say so:",
            f"target = rf.set_sparse_dim(target, {axis.name if axis.name.isidentifier() else '...'})",
        )


def _warn_of_softmax(estimated: Tensor) -> None:
    rule = "As logits they are all nearly equal, and little is learned. Leave the softmax out, or say what they are:"
    rows = {"estimated": f"{shape_of(estimated)}, of rf.softmax", "type": "logits"}
    warn_user(message("cross_entropy: a softmax of a softmax.", rows, rule, 'estimated_type="probs"'))


def _flat_mask(dims: Dims, backend: Any) -> Any:
    """A function raw -> the mask of all frames over `dims` in a single axis, on the device of raw; None if there is no padding."""
    mask = masks_for(dims, dims, backend, "cross_entropy")
    if mask is None:
        return None
    return spread_mask(mask, Shape(*dims), Shape(dims), backend)


def _same_axis_code(estimated: Tensor, target: Tensor, rest: Dims) -> str:
    """The line that replaces the first dim of target missing in estimated by the corresponding dim of estimated."""
    wrong = [dim for dim in target.dims if dim not in estimated.dims]
    right = [dim for dim in rest if dim not in target.dims]
    place = f"estimated.dims[{estimated.dims.index(right[0])}]" if wrong[0].name == right[0].name else None
    return replace_code("target", target.dims, wrong[0], right[0], place)


def _composed(estimated: Tensor, target: Tensor, axis: Dim, estimated_type: str, label_smoothing: float) -> Tensor:
    if estimated_type == "logits":
        log_prob = log_softmax(estimated, axis=axis)
    else:
        log_prob = math.safe_log(estimated) if estimated_type == "probs" else estimated
    if axis in target.dims:
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / axis.extent
        out = -matmul_ops.matmul(target, log_prob, reduce=axis)
    else:
        out = -gather(log_prob, indices=target.copy_masked(0), axis=axis)
        if label_smoothing:
            out = out * (1 - label_smoothing) - reduce.reduce_mean(log_prob, axis=axis) * label_smoothing
    more = estimated if len(out.dims) < len(estimated.dims) else target
    out = out.copy_transpose([dim for dim in more.dims if dim is not axis]).copy_masked(0)
    if estimated_type != "logits":
        other = "probs" if estimated_type == "log-probs" else "log-probs"
        fix = f'estimated_type="logits"       # any numbers\nestimated_type="{other}"'
        rows = lambda: [("estimated", f"{shape_of(estimated)} as {estimated_type}"), ("target", shape_of(target))]  # noqa: E731
        warn_below_zero("cross_entropy", out._raw, estimated, rows, fix)
    return out


def warn_below_zero(what: str, raw: Any, like: Tensor, rows: Callable[[], list[tuple[str, str]]], fix: str) -> None:
    """Warn about losses that do not come from probabilities. Only on a host, since a GPU would have to be waited for."""
    if not on_host(like.device):
        return
    host = like.backend.raw_to_numpy(raw)
    if host.size and host.min() < -(0.05 if like.dtype in ("float16", "bfloat16") else 1e-3):  # less is of rounding
        rule = "A probability is at most 1, and -log of it at least 0. So these are none; say what they are:"
        warn_user(message(f"{what}: a loss below 0.", [*rows(), ("lowest", f"{host.min():.4g}")], rule, fix))


@op
def label_smoothing(prob: Tensor, smoothing: float, *extra: Never, axis: Dim | None = None, **unknown: Never) -> Tensor:
    """Give the true label 1 - smoothing, and each other one smoothing / (n - 1).

    Args:
        prob: int, sparse over axis; or a distribution {..., axis}.

    Raises:
        DimError: If the dim of the labels is unknown.
    """
    need_tensors("label_smoothing", prob)
    if prob.sparse_dim is not None and (axis is None or axis is prob.sparse_dim):
        count = prob.sparse_dim.extent
        shared = smoothing if count > 1 else 0.0  # with one class there is nobody to give to
        return sparse_to_dense(prob, label_value=1 - shared, other_value=shared / max(count - 1, 1))
    axis = axis or prob.feature_dim
    if axis is None:
        raise dim_error(
            "label_smoothing: over which dim?",
            {"prob": prob},
            "It has neither a sparse_dim nor a feature_dim, so name the classes:",
            "rf.label_smoothing(prob, 0.1, axis=...)",
        )
    prob.axis_of(axis, "label_smoothing")
    smoothing = smoothing if axis.extent > 1 else 0.0
    other = smoothing / max(axis.extent - 1, 1)
    return prob * (1 - smoothing - other) + other
