"""attribute: which tokens an output is due to, by gradients with respect to their embeddings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from rfnb.core.errors import shape_error, value_error
from rfnb.interop.edit import edit
from rfnb.interop.measured import Measured
from rfnb.interop.metrics import Metric, called, check_model, measured
from rfnb.trace.record import record

_MOST, _POINTS = 512, 4  # gradients at most, and in each piece of the way


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
) -> Measured:
    """The parts that the tokens of the input have in a number that a model gives.

        parts = rf.attribute(gpt, ids, (3, 7), tokens=words)        # why 3 and not 7; rf.show(parts)

    "integrated" takes the mean of the gradients on the way from a baseline to the input, times the way: what it gives, with the number of
    the baseline, is the number of the input, within `tolerance` (as many points as that needs, up to 512, else `remark` says how far off
    they are). "gradient" is one gradient times the way: exact where the model is linear.

    Args:
        model: A torch.nn.Module.
        inputs: A tensor, a tuple of arguments, or a dict of named ones.
        metric: As of `rf.patch_sweep`: a function, a label, or two labels, whose margin it is.
        method: "integrated" or "gradient".
        baseline: What the embeddings come from: a number, an array {feature} or {batch, position, feature}.
        embedding: Path of the module whose result (batch, position, feature) is looked at, in its first call. Default: that of
            `get_input_embeddings()`, else the first nn.Embedding.
        tokens: Labels of the positions; of several sequences a list of each. Default: numbers.
        tolerance: Of the sum, beside the difference between the two numbers.

    Returns:
        {part, position}: the row "tokens" has a part for each, the last column is the number of the baseline. {sequence, part, position} of
        several. `beside` has the numbers of "input" and "baseline", and the "sum" of all parts.

    Raises:
        TypeError, ValueError: If the model cannot be edited, has no embedding, or nothing to measure.
        ShapeError: If the baseline does not fit.

    Source: Sundararajan et al. 2017, "Axiomatic Attribution for Deep Networks", section 3, with Gauss-Legendre points; gradient times
    input: Shrikumar et al. 2016.
    """
    check_model("attribute", model)
    if method not in ("integrated", "gradient"):
        raise value_error(
            f'attribute: method "{method}".',
            [("known", "integrated, gradient")],
            "It says at which points gradients are taken.",
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
    """The result of an embedding: noted, or another value."""

    def __init__(self) -> None:
        self.kept = torch.zeros(0, device="cpu")
        self.instead: torch.Tensor | None = None
        self.is_first = True

    def put(self, raw: torch.Tensor) -> torch.Tensor:
        """The value of this call; later ones of a run (of a decoder with the same embedding) stay as they are."""
        if not self.is_first:
            return raw
        self.is_first = False
        if self.instead is None:
            self.kept = raw.detach().clone()
            return raw
        return self.instead


def _embedding_path(model: torch.nn.Module, given: str | None, inputs: Any) -> str:
    """The path of the module that embeds first, of those that may."""
    modules = dict(model.named_modules())
    getter: Any = getattr(model, "get_input_embeddings", None)
    own = getter() if callable(getter) else None
    weight = getattr(own, "weight", None)  # an encoder and a decoder may have modules of their own with it
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
            "attribute: which module makes the embeddings?",
            [("model", type(model).__name__), ("looked at", given or ", ".join(may) or "no nn.Embedding")],
            "It is the path of a module that runs and returns (batch, position, feature):",
            'rf.attribute(..., embedding="embed")',
        )
    return found[0]


def _way(kept: torch.Tensor, baseline: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """The embeddings of the baseline, and what leads from them to those of the input."""
    try:
        start = torch.as_tensor(baseline, dtype=kept.dtype, device=kept.device).expand(kept.shape).clone()
    except (RuntimeError, TypeError, ValueError):
        start = None
    if start is None or kept.ndim != 3:
        raise shape_error(
            "attribute: the baseline does not fit."
            if kept.ndim == 3
            else "attribute: these are no embeddings of positions.",
            [("embeddings", tuple(kept.shape)), ("baseline", getattr(baseline, "shape", baseline))],
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
    """The mean of the gradients on the way, by pieces: those whose parts are furthest from the difference of the numbers at their ends
    are halved. Where a norm divides by the size of what it gets, nearly all happens close to a baseline of zeros.

    Args:
        number, gradient: At some places of the way, from 0 to 1: {number} each, and its gradient by what moves, {number, part}.
        ends: The numbers at 0 and at 1, and where there are more, at places between with the same distance.
        tolerance: Of the sum of parts, as a share of `scale`.
        scale: Default: how far the numbers at 0 and 1 are apart.
        most: How many gradients.
        together: How many pieces may be halved at once.

    Returns:
        The parts, and what is to be said of them.
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
                f"With {len(pieces) * _POINTS} points the parts are off by {gap:.1%} of the difference: "
                "the model is not smooth on the way.",
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
    """A piece of the way, its ends, the numbers there, the parts of it, and how far they are off."""

    first: float
    last: float
    before: torch.Tensor
    after: torch.Tensor
    parts: torch.Tensor
    gap: torch.Tensor


def _measured(
    parts: torch.Tensor, whole: torch.Tensor, base: torch.Tensor, remark: str, tokens: Any, method: str
) -> Measured:
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
    return Measured(
        name,
        values[0] if single else values,
        ("part", ["tokens"]),
        ("position", columns),
        beside=numbers_of,
        remark=remark,
    )
