"""Piecewise linear functions of a Tensor, or of the training step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.nn.module.module import Module
from rfnb.nn.run import run_ctx
from rfnb.ops.cast import cast
from rfnb.ops.const import full
from rfnb.ops.defaults import get_default_float_dtype, has_fractions
from rfnb.ops.math import clip_by_value


class PiecewiseLinear(Module):
    """The piecewise linear function through `points`, constant before the first and after the last.

    Args:
        points: x -> y, in any order; one or more.

    Raises:
        ValueError: Without points, or with one that is not finite.
    """

    def __init__(self, points: Mapping[float, float]):
        self.points = {float(x): float(points[x]) for x in sorted(points)}
        if not self.points or not np.isfinite([*self.points, *self.points.values()]).all():
            raise value_error(
                f"{type(self).__name__}: points are needed, all finite.",
                {"points": dict(points)},
                "Points map positions to values.",
                "rf.PiecewiseLinear({0: 1e-5, 1000: 1e-3})",
            )

    def __call__(self, x: Tensor | float) -> Tensor:
        """{...} -> {...}: the values at x; integers give the default float dtype. Differentiable."""
        if not isinstance(x, Tensor):
            return self._at(x)
        x = x if has_fractions(x.dtype) else cast(x, get_default_float_dtype())
        points = list(self.points.items())
        # The first value, with the dims and dtype of x; clipped, since 0 * infinity is NaN.
        out = clip_by_value(x, points[0][0], points[0][0]) * 0 + points[0][1]
        for (x0, y0), (x1, y1) in zip(points, points[1:]):
            out = out + clip_by_value((x - x0) / (x1 - x0), 0, 1) * (y1 - y0)
        return out

    def _at(self, x: float) -> Tensor:
        """The value at a number, computed on the host."""
        value = np.interp(x, list(self.points), list(self.points.values()))
        return full(dims=(), fill_value=float(value), dtype=get_default_float_dtype())


class PiecewiseLinearStepwiseScheduler(PiecewiseLinear):
    """`PiecewiseLinear` of the step in the run context, e.g. for a loss scale that grows in the first steps."""

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        """A scalar: the value at `get_run_ctx().step`. Arguments are ignored, so that it can replace other schedules."""
        return self._at(run_ctx.get_run_ctx().step)
