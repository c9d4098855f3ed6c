"""The report of `rf.check_batch`: as text, as a table and as a view."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape

import numpy as np

from rfnb.core.errors import NearNames
from rfnb.interop.leak_source import LeakSource
from rfnb.interop.measurement import Measurement
from rfnb.interop.measurement import spec as spec_of_map
from rfnb.viz.markup import table
from rfnb.viz.spec import Spec
from rfnb.viz.terminal import aligned


@dataclass(frozen=True)
class Leak:
    """The origin of a leak.

    Attributes:
        path: The path of the module; "" for the model itself.
        kind: The class of the module.
        call: The function of torch.
        step: Index of the call of the module if it is called several times, else None.
        cell: The first cell along time of its result in the batch that differs, by the names of its axes.
        alone, batched: The values there.
        source: The padding cell that causes it, or a cell of another sequence; None if there is none, in runs with a cache,
            and of further leaks than the first.
    """

    path: str
    kind: str
    call: str
    step: int | None
    cell: Mapping[str, int]
    alone: float
    batched: float
    source: LeakSource | None

    def __str__(self) -> str:
        at = "the model itself" if not self.path else f'"{self.path}"'
        step = "" if self.step is None else f", step {self.step}"
        cell = ", ".join(f"{name}={index}" for name, index in self.cell.items())
        there = f", at [{cell}]: {self.alone:.6g} alone, {self.batched:.6g} in the batch" if cell else ""
        there = f", at [{cell}]: NaN" if cell and math.isnan(self.batched) else there
        return f"{at} ({self.kind}), in {self.call}{step}{there}"


@dataclass
class Way:
    """One way to run the same sequences.

    Attributes:
        name: "batch", "left" or "right" (padded on the other side), "other padding" (of a loss: more, with other values; "padding
            refilled" if there is no room for more), "cached".
        apart: For each sequence, the largest relative difference from the sequence alone; NaN if nothing was compared.
        leak: The origin of the leak; None if results are equal.
        given: Whether these are the given inputs; a leak in other ways is reported, but not an alarm.
        remark: A remark on the result.
    """

    name: str
    apart: list[float]
    leak: Leak | None = None
    given: bool = True
    remark: str = ""


@dataclass
class BatchCheck(NearNames):
    """The report of `rf.check_batch`.

    Attributes:
        verdict: "leak"; "rounding": the batch changes results in the dtype of the model, and not in float64; "same";
            "not finite": in the dtype of the model, and not in float64.
        ways: The tested ways.
        first: The origin of the leak, in the first given way that leaks.
        dtype, rounded: The dtype of the model, and the relative difference in it between a sequence in the batch and alone; NaN
            with a leak.
        fine: The dtype of the comparison.
        passes, cached_passes: Numbers of runs of the model: without a cache, and with one.
        remarks: Sentences about what could not be tested.
    """

    verdict: str
    ways: list[Way]
    dtype: str
    rounded: float
    fine: str
    passes: int
    cached_passes: int
    remarks: list[str] = field(default_factory=list)

    @property
    def first(self) -> Leak | None:
        return next((way.leak for way in self.ways if way.leak is not None and way.given), None)

    @property
    def ok(self) -> bool:
        """Whether there is no leak."""
        return self.verdict in ("same", "rounding")

    @property
    def measured(self) -> Measurement:
        """The largest differences: ways by sequences."""
        width = max(len(way.apart) for way in self.ways)
        values = np.array([way.apart + [math.nan] * (width - len(way.apart)) for way in self.ways])
        return Measurement(
            "difference",
            values,
            ("way", [way.name for way in self.ways]),
            ("sequence", range(width)),
            remark=self._said(),
        )

    def _said(self) -> str:
        if self.verdict == "rounding":
            fine = max((each for way in self.ways if way.given for each in way.apart if each == each), default=0.0)
            both = f"in {self.dtype} a sequence alone and in the batch are {self.rounded:.2g} apart, in {self.fine} {fine:.2g}"
            return f"Rounding: {both}. It shrinks with the dtype"
        if self.verdict == "same":
            return "The same alone and in the batch"
        if self.verdict == "not finite":
            return f"Not finite: in {self.dtype} there is NaN where {self.fine} has numbers"
        return f"A leak: in {self.fine} it stays. It begins in {self.first}"

    def _lines(self) -> list[str]:
        lines = [f"{self._said()}."]
        if self.first is not None and self.first.source is not None:
            lines.append(f"It comes from {self.first.source}.")
        for way in self.ways:
            if way.leak is not None and not way.given:
                lines.append(f"For information ({way.name}): {way.leak}. {way.remark}".rstrip())
        return [*lines, *self.remarks]

    def _rows(self) -> list[list[str]]:
        said = []
        for way in self.ways:
            numbers = " ".join("-" if value != value else f"{value:.1e}" for value in way.apart[:8])
            said.append([way.name, numbers, "leak" if way.leak is not None else "same"])
        return said

    def __repr__(self) -> str:
        passes = f"{self.passes} passes" + (f", {self.cached_passes} with a cache" if self.cached_passes else "")
        lines = aligned([["way", f"apart, by sequence ({self.fine})", ""], *self._rows()])
        return "\n".join([*self._lines(), *lines, f"{passes}."])

    def _repr_html_(self) -> str:
        said = "".join(f"<p>{escape(line)}</p>" for line in self._lines())
        return said + table(self._rows(), ["way", f"apart, by sequence ({self.fine})", "verdict"], named=True)


def spec(check: BatchCheck, *, title: str | None = None) -> Spec:
    """The spec of its view: ways by sequences, as powers of ten.

    Args:
        title: Default: the verdict.
    """
    made = check.measured
    made.values = np.log10(np.clip(made.values, 1e-16, 1e3))
    made.name, made.remark = "log10 of the difference", " ".join(check._lines()).rstrip(".")
    return spec_of_map(made, title=title or f"Alone and in the batch: {check.verdict}")
