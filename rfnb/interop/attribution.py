"""attribute: attribute an output to input tokens, by gradients with respect to their embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from rfnb.core.errors import shape_error, value_error
from rfnb.interop.edit import edit
from rfnb.interop.measurement import Measurement
from rfnb.interop.metrics import Metric, called, check_model, measured
from rfnb.trace.record import record

_MOST, _POINTS = 512, 4  # maximal number of gradients, and gradients per interval of the path


def attribute(
    model: Any,
    inputs: Any,
    metric: Metric,
    *,
    method: str = "integrated",
    baseline: Any = 0.0,
    embedding: str | None = None,
    tokens: Sequence[Any] | None = None,
    tolerance: float = 0.005,
) -> Measurement:
    """The contributions of the input tokens to a number that a model computes.

        parts = rf.attribute(gpt, ids, (3, 7), tokens=words)        # why 3 and not 7; rf.show(parts)

    "integrated" is the mean gradient along the path from a baseline to the input, times the difference. The
    contributions plus the number of the baseline give the number of the input within `tolerance` (with as many points
    as needed, up to 512; otherwise `remark` states the error). "gradient" is the gradient at the input times the
    difference, which is exact for a linear model.

    Args:
        model: A torch.nn.Module.
        inputs: A tensor, a tuple of arguments, or a dict of named ones.
        metric: As in `rf.patch_sweep`: a function, a label, or two labels for their margin.
        method: "integrated" or "gradient".
        baseline: The start of the path of embeddings: a number, an array {feature} or {batch, position, feature}.
        embedding: Path of the module whose result (batch, position, feature) is used, in its first call. Default: that
            of `get_input_embeddings()`, else the first nn.Embedding.
        tokens: Labels of the positions; for several sequences a list per sequence. Default: numbers.
        tolerance: Error of the sum, relative to the difference between the two numbers.

    Returns:
        {part, position}: the row "tokens" has the contribution of each token, the last column is the number of the
        baseline. {sequence, part, position} for several sequences. `beside` has the numbers of "input" and "baseline",
        and the "sum" of all parts.

    Raises:
        TypeError, ValueError: If the model cannot be edited, or has no embedding or no logits to measure.
        ShapeError: If the baseline does not fit.

    Source: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks", section 3, with Gauss-Legendre points; gradient times
    input: Shrikumar et al. 2016.
    """
    check_model("attribute", model)
    if method not in ("integrated", "gradient"):
        raise value_error(
            f'attribute: unknown method "{method}".',
            {"known": "integrated, gradient"},
            "method determines the points at which gradients are computed.",
            'rf.attribute(..., method="integrated")',
        )
    path, point = _embedding_path(model, embedding, inputs), _Point()
    with torch.enable_grad(), edit({path or "model": model.get_submodule(path)}, {path or "model": point.put}):

        def run() -> torch.Tensor:
            point.is_first = True
            return measured("attribute", metric, called(model, inputs)).reshape(-1)

        with torch.no_grad():
            whole = run()
            start, way = _way(point.kept, baseline)
            point.instead = start
            base = run()

        def number(at: float) -> torch.Tensor:
            point.instead = start + at * way
            with torch.no_grad():
                return run()

        def gradient(at: float) -> torch.Tensor:
            point.instead = (start + at * way).requires_grad_()
            (made,) = torch.autograd.grad(run().sum(), point.instead)
            return (made * way).sum(-1)

        if method == "gradient":
            parts, remark = gradient(1.0), ""
        else:
            parts, remark = integrated(
                lambda places: [number(at) for at in places], lambda places: [gradient(at) for at in places],
                (base, whole), tolerance,
            )  # fmt: skip
    return _measured(parts, whole, base, remark, tokens, method)


class _Point:
    """The result of an embedding: recorded, or replaced."""

    def __init__(self) -> None:
        self.kept = torch.zeros(0, device="cpu")
        self.instead: torch.Tensor | None = None
        self.is_first = True

    def put(self, raw: torch.Tensor) -> torch.Tensor:
        """The value of this call; later calls in a run (by a decoder with the same embedding) are unchanged."""
        if not self.is_first:
            return raw
        self.is_first = False
        if self.instead is None:
            self.kept = raw.detach().clone()
            return raw
        return self.instead


def _embedding_path(model: torch.nn.Module, given: str | None, inputs: Any) -> str:
    """The path of the first embedding module to run, among the candidates."""
    modules = dict(model.named_modules())
    getter: Any = getattr(model, "get_input_embeddings", None)
    own = getter() if callable(getter) else None
    weight = getattr(own, "weight", None)  # encoder and decoder may have separate modules that share it
    may = {
        path: module
        for path, module in modules.items()
        if (path == given if given is not None else module is own or isinstance(module, torch.nn.Embedding))
        and (weight is None or given is not None or getattr(module, "weight", None) is weight)
    }
    with torch.no_grad(), record("module", model=may or None) as trace:
        if may:
            called(model, inputs)
    found = [event.path for event in trace.events if event.path in may]
    if not found:
        raise value_error(
            "attribute: the module of the embeddings is unknown.",
            {"model": type(model).__name__, "looked at": given or ", ".join(may) or "no nn.Embedding"},
            "embedding is the path of a module that returns (batch, position, feature):",
            'rf.attribute(..., embedding="embed")',
        )
    return found[0]


def _way(kept: torch.Tensor, baseline: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The embeddings of the baseline, and the difference to those of the input."""
    try:
        start = torch.as_tensor(baseline, dtype=kept.dtype, device=kept.device).expand(kept.shape).clone()
    except (RuntimeError, TypeError, ValueError):
        start = None
    if start is None or kept.ndim != 3:
        raise shape_error(
            "attribute: the baseline does not fit."
            if kept.ndim == 3
            else "attribute: these are not embeddings of positions.",
            {"embeddings": tuple(kept.shape), "baseline": getattr(baseline, "shape", baseline)},
            "Embeddings are (batch, position, feature), and a baseline is a number or an array that broadcasts against them.",
            "rf.attribute(..., baseline=model.get_input_embeddings().weight[pad])",
        )
    return start, kept - start


def integrated(
    number: Callable[[Sequence[float]], Sequence[torch.Tensor]],
    gradient: Callable[[Sequence[float]], Sequence[torch.Tensor]],
    ends: Sequence[torch.Tensor],
    tolerance: float,
    scale: torch.Tensor | None = None,
    most: int = _MOST,
    together: int = 1,
) -> tuple[torch.Tensor, str]:
    """The mean gradient along the path, by adaptive bisection: the intervals with the largest error of the sum are halved.
    If a norm divides by its input, nearly all the change is close to a baseline of zeros.

    Args:
        number, gradient: Functions of points on the path, from 0 to 1: {number}, and its gradient with respect to the
            interpolated embeddings, {number, part}.
        ends: The numbers at 0 and 1, and optionally at equidistant points between.
        tolerance: Error of the sum of parts, relative to `scale`.
        scale: Default: the difference between the numbers at 0 and 1.
        most: Maximal number of gradients.
        together: Number of intervals that may be halved at once.

    Returns:
        The parts, and a remark about them.
    """
    wanted = (ends[-1] - ends[0]).detach()
    points, weights = np.polynomial.legendre.leggauss(_POINTS)

    def made(spans: Sequence[tuple[float, float, torch.Tensor, torch.Tensor]]) -> list[_Piece]:
        places = [(first + last) / 2 + (last - first) / 2 * float(at) for first, last, *_ in spans for at in points]
        found = gradient(places)
        out = []
        for index, (first, last, before, after) in enumerate(spans):
            own = zip(weights, found[index * _POINTS : (index + 1) * _POINTS])
            parts = sum((float(w) * (last - first) / 2 * each for w, each in own), wanted.new_zeros(()))
            sums = parts.sum(-1) if len(wanted) == len(parts) else parts.sum().reshape(1)
            out.append(_Piece(first, last, before, after, parts, (sums - (after - before)).abs().double()))
        return out

    at = np.linspace(0, 1, len(ends)).tolist()
    pieces = made(list(zip(at, at[1:], ends, ends[1:])))
    scale = wanted.abs().double().clamp(min=1e-9) if scale is None else scale
    while True:
        parts = sum((one.parts for one in pieces), wanted.new_zeros(()))
        sums = parts.sum(-1) if len(wanted) == len(parts) else parts.sum().reshape(1)
        gap = float(((sums - wanted).abs().double() / scale).max())
        gaps = [float((one.gap / scale).max()) for one in pieces]
        if (
            gap <= tolerance
            and float((sum((one.gap for one in pieces), wanted.new_zeros(())) / scale).max()) <= 10 * tolerance
        ):
            return parts, ""
        if len(pieces) * _POINTS >= most:
            return (
                parts,
                f"With {len(pieces) * _POINTS} points the sum of the parts is off by {gap:.1%} of the difference: "
                "the model is not smooth along the path.",
            )
        order = sorted(range(len(pieces)), key=lambda index: -gaps[index])[
            : min(together, most // _POINTS - len(pieces))
        ]
        halved = [pieces[index] for index in order if gaps[index] >= gaps[order[0]] / 2]
        middles = [(one.first + one.last) / 2 for one in halved]
        spans = [
            span for one, middle, there in zip(halved, middles, number(middles))
            for span in ((one.first, middle, one.before, there), (middle, one.last, there, one.after))
        ]  # fmt: skip
        gone = set(map(id, halved))
        pieces = [*(one for one in pieces if id(one) not in gone), *made(spans)]


class _Piece(NamedTuple):
    """An interval of the path: its ends, the numbers there, its parts, and its error."""

    first: float
    last: float
    before: torch.Tensor
    after: torch.Tensor
    parts: torch.Tensor
    gap: torch.Tensor


def _measured(
    parts: torch.Tensor, whole: torch.Tensor, base: torch.Tensor, remark: str, tokens: Any, method: str
) -> Measurement:
    host, numbers = parts.detach().cpu().double().numpy(), base.detach().cpu().double().numpy()
    per_seq = np.broadcast_to(numbers if len(numbers) == len(host) else numbers / len(host), len(host))
    values = np.concatenate([host, per_seq[:, None]], 1)[:, None]
    labels: list[Any] = list(range(host.shape[1])) if tokens is None else list(tokens)
    nested = bool(labels) and isinstance(labels[0], (list, tuple))
    columns: list[Any] = [[*row, "baseline"] for row in labels] if nested else [*labels, "baseline"]
    single = len(values) == 1
    beside = {"input": whole, "baseline": base, "sum": torch.from_numpy(values.sum((1, 2)))}
    numbers_of = {
        name: float(each) if each.numel() == 1 else each.detach().cpu().double().numpy()
        for name, each in beside.items()
    }
    columns = columns[0] if single and nested else columns
    name = "gradient x input" if method == "gradient" else "integrated gradients"
    return Measurement(
        name,
        values[0] if single else values,
        ("part", ["tokens"]),
        ("position", columns),
        beside=numbers_of,
        remark=remark,
    )
