"""patch_sweep: patch values from a clean run into a corrupted one, one at a time, and measure a number for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch

from rfnb.core.errors import shape_error, value_error
from rfnb.interop.edit import edited
from rfnb.interop.measurement import Measurement, spec
from rfnb.interop.metrics import Metric, called, check_model, layers_of, measured
from rfnb.interop.seen.replacements import calling
from rfnb.interop.seen.value_edits import swapped
from rfnb.trace.attach import AttachOptions
from rfnb.trace.record import record


def patch_sweep(
    model: Any,
    clean: Any,
    corrupted: Any,
    metric: Metric,
    *,
    over: str = "position",
    layers: Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    live: bool = False,
) -> Measurement:
    """Measure a number of the corrupted run with one value of the clean run patched in, for each such value.

        sweep = rf.patch_sweep(gpt, ids, other_ids, (3, 7))     # layers x positions; sweep.recovered, rf.show(sweep)

    It makes one pass for the clean run (two for heads), one for the corrupted one, and one for each number. The model is
    unchanged afterwards. Random numbers are drawn in each pass: switch dropout off first (`model.eval()`).

    Args:
        model: A torch.nn.Module.
        clean, corrupted: Inputs of the same sizes: a tensor, a tuple of arguments, or a dict of named ones.
        metric: A function from the model's output to a number, or to one per sequence (whose mean is taken); or a
            label, for its logit at the last position; or two labels, for the logit of the first minus that of the second.
        over: "position": the output of each layer at one position; "head": the output of each attention head at all
            positions; "layer": the whole output of a layer.
        layers: Paths of modules in order; for "head" those of attentions. Default: the longest list of modules of one class.
        labels: Labels of the positions, e.g. tokens. Default: numbers.
        live: Whether to show the map and fill it while it is computed.

    Returns:
        {layer, position}, {layer, head} or {layer, all}, as an array with `beside["clean"]` and `beside["corrupted"]`.

    Raises:
        TypeError, ValueError: If the model cannot be edited, has no such layers, or nothing to measure.
        ShapeError: If the sizes of the runs differ.

    Source: Meng et al. 2022, "Locating and Editing Factual Associations in GPT", section 2.1 (causal tracing); Wang et al. 2022,
    "Interpretability in the Wild", section 3.1 (heads).
    """
    check_model("patch_sweep", model, whole=False)
    if over not in ("position", "head", "layer"):
        raise value_error(
            f'patch_sweep: unknown value of over: "{over}".',
            {"known": "position, head, layer"},
            "over is the kind of value in each column of the map.",
            'rf.patch_sweep(..., over="position")',
        )
    paths = layers_of("patch_sweep", model, layers)
    with torch.no_grad():
        run = lambda inputs: float(measured("patch_sweep", metric, called(model, inputs)).mean())  # noqa: E731
        made: Measurement | None = None
        view: Any = None
        for row, numbers in enumerate(
            (_heads if over == "head" else _states)(model, paths, clean, run, corrupted, over)
        ):
            if made is None:
                before = {"clean": numbers[0], "corrupted": numbers[1]}
                columns = labels if over == "position" and labels is not None else list(range(len(numbers[2])))
                columns = ["all"] if over == "layer" else columns
                values = np.full((len(paths), len(numbers[2])), numbers[1])
                made = Measurement("metric", values, ("layer", paths), (over, columns), beside=before)
            if len(numbers[2]) != made.shape[1]:
                raise shape_error(
                    "patch_sweep: the layers have different sizes.",
                    [(paths[0], made.shape[1]), (paths[row], len(numbers[2]))],
                    f"Each row of the map has the same number of columns ({over}). Select layers of one size:",
                    f'rf.patch_sweep(..., layers=["{paths[0]}"])',
                )
            made.values[row] = numbers[2]
            if live:
                view = _shown(made, view, row + 1 < len(paths))
    assert made is not None
    return made


def _shown(made: Measurement, view: Any, more: bool) -> Any:
    from rfnb.viz.view import View

    if view is None:
        return View(spec(made, live=more)).show()
    view.update(spec(made, live=more))
    return view


Row = tuple[float, float, list[float]]  # of the clean run, of the corrupted one, of each patched one


def _states(
    model: torch.nn.Module, paths: Sequence[str], clean: Any, run: Callable[[Any], float], corrupted: Any, over: str
) -> Iterator[Row]:
    """The numbers of each layer."""
    kept: dict[str, torch.Tensor] = {}
    axes: dict[str, int] = {}
    with record("module", model=model, path=list(paths), values=True, limit=1 << 40) as trace:
        whole = run(clean)
    for path in paths:
        events = [event for event in trace.events if event.path == path]
        outputs = events[-1].values["outputs"] if events else []
        if not outputs:
            raise _not_called(path)
        tensor = outputs[0][1]
        kept[path] = tensor.raw_tensor
        places = [axis for axis, dim in enumerate(tensor.dims) if dim.kind not in ("batch", "feature")]
        axes[path] = places[0] if places else -1
        if over == "position" and (not places or tensor.raw_tensor.ndim < 2):
            raise value_error(
                "patch_sweep: the result of this module has no positions.",
                {"module": path, "returns": ", ".join(dim.name for dim in tensor.dims)},
                "Patch all of it at once:",
                'rf.patch_sweep(..., over="layer")',
            )
    base = run(corrupted)
    for path in paths:
        value, axis, numbers = kept[path], axes[path], []
        for place in range(value.shape[axis]) if over == "position" else [None]:
            with calling([(model.get_submodule(path), _changed(path, value, axis, place))]):
                numbers.append(run(corrupted))
        yield whole, base, numbers


def _changed(path: str, value: torch.Tensor, axis: int, place: int | None) -> Callable[[Any, Any, Any], Any]:
    def change(forward: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        result = forward(*args, **kwargs)
        raw = first_tensor(result)
        if raw is None or raw.shape != value.shape:
            raise shape_error(
                "patch_sweep: the runs have different sizes.",
                {
                    "layer": path,
                    "clean": tuple(value.shape),
                    "corrupted": None if raw is None else tuple(raw.shape),
                },
                "Both inputs have the same numbers of sequences and positions.",
            )
        if place is None:
            return swapped(result, raw, value)
        new = raw.clone()
        new.select(axis, place).copy_(value.select(axis, place))
        return swapped(result, raw, new)

    return change


def first_tensor(result: Any) -> torch.Tensor | None:
    """The first tensor in a module's result, or None."""
    while isinstance(result, (tuple, list)) and result:
        result = result[0]
    if isinstance(result, dict):
        return next((item for item in result.values() if isinstance(item, torch.Tensor)), None)
    return result if isinstance(result, torch.Tensor) else None


def _heads(
    model: torch.nn.Module, paths: list[str], clean: Any, run: Callable[[Any], float], corrupted: Any, over: str
) -> Iterator[Row]:
    """The numbers of the heads of each attention; for a given layer, of the attention in it."""
    with record("attention", model={path: model.get_submodule(path) for path in paths}) as trace:
        whole = run(clean)
    found = []
    for path in paths:
        inside = [each for each in trace.attention if each == path or each.startswith(f"{path}.")]
        if not inside:
            raise _not_called(path, "attention")
        found.append(inside[0])
    base = run(corrupted)
    paths[:] = found
    patches = {path: _HeadPatch() for path in found}
    first = {f"{path}.heads[head=0]": patch.first for path, patch in patches.items()}
    with _edited(model, found, first | {f"{path}.heads": patch.note for path, patch in patches.items()}):
        run(clean)
    for path in found:
        patch, numbers = patches[path], []
        count = patch.find_heads()
        with _edited(model, [path], {f"{path}.heads": patch.put}):
            for patch.now in range(count):
                numbers.append(run(corrupted))
        yield whole, base, numbers


def _edited(model: torch.nn.Module, paths: Sequence[str], edits: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Edit attentions during a with-block. No other module is wrapped."""
    attentions = {path: model.get_submodule(path) for path in paths}
    return edited(attentions, edits, AttachOptions(lambda kind: False, {}, inside=False))


class _HeadPatch:
    """The heads of one attention: recorded in one run, then one of them patched into each run. It is attached once for all runs."""

    def __init__(self) -> None:
        self.now = self._axis = 0
        self._first = self._kept = torch.zeros(0, device="cpu")

    def first(self, raw: torch.Tensor) -> torch.Tensor:
        """Record the first head, which locates the axis of heads: that differs between attention functions."""
        self._first = raw
        return raw

    def note(self, raw: torch.Tensor) -> torch.Tensor:
        """Record all heads."""
        self._kept = raw.clone()
        return raw

    def find_heads(self) -> int:
        """Find the axis of heads in what was recorded; return their number."""
        kept, first = self._kept, self._first
        self._axis = next(
            axis
            for axis in (1, 2)
            if kept.select(axis, 0).shape == first.shape and torch.equal(kept.select(axis, 0), first)
        )
        return int(kept.shape[self._axis])

    def put(self, raw: torch.Tensor) -> torch.Tensor:
        """The heads of another run with head `now` of the recorded ones."""
        out = raw.clone()
        out.select(self._axis, self.now).copy_(self._kept.select(self._axis, self.now))
        return out


def _not_called(path: str, what: str = "") -> Exception:
    return value_error(
        f"patch_sweep: {'no attention was seen in' if what else 'no result came out of'} this module.",
        {"module": path},
        "The clean run must call the modules of a sweep. Choose others:",
        'rf.patch_sweep(..., layers=["h.0", "h.1"])',
    )
