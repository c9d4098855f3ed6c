"""check_batch: test whether the result for a sequence depends on the batch around it, by rounding or by a leak, and where that begins.

    rf.check_batch(model, {"input_ids": ids, "attention_mask": mask})
    rf.check_batch(model, x, lengths=[7, 5, 4])

Each sequence runs alone and in the batch, in float64, where rounding is below 1e-12 and a leak keeps its size. Only results
are kept until one differs. Then both runs are repeated, and each torch call of one is matched with that of the other
(`tape.py`, `tape_comparison.py`): the leak begins in the first call with equal inputs in the real cells but a different result, if
that difference propagates to the output. Other differences (the tables of rotary positions, padded on the left) are not
leaks.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

import torch

from rfnb.core.errors import runtime_error, value_error
from rfnb.interop.batch_axes import PaddingBeside, as_they_are, of_a_step, of_one_sequence
from rfnb.interop.batch_report import BatchCheck, Leak, Way
from rfnb.interop.leak_source import LeakSource, nan_birth, source_of
from rfnb.interop.metrics import called, check_model
from rfnb.interop.padded_inputs import PaddedInputs, padded_inputs
from rfnb.interop.tape import Tape, TapeCall, copied, kind_of, opened, raised, tensors_in
from rfnb.interop.tape_comparison import Options, TapePair, TensorDifference, apart

_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}
_CACHES = ("past_key_values", "past_key_value", "cache", "past", "state", "states", "hidden", "hx")
_STEPS = 2  # steps with a cache
_ROWS = 2  # sequences that are compared with tapes, of those with another result
_FUSED = "fused code, which is not run where each call is recorded"
_PASSES = 10  # at most, besides one for each sequence and those with a cache


def check_batch(
    model: Any, inputs: Any, *, lengths: Sequence[int] | torch.Tensor | None = None, dtype: torch.dtype = torch.float64
) -> BatchCheck:
    """Check whether the result for a sequence depends on its batch: rounding or a leak, and where it begins.

        check = rf.check_batch(model, {"input_ids": ids, "attention_mask": mask})
        check.verdict, check.first.path, check.first.source

    Each sequence runs alone, in the batch, padded on the other side, and with a cache if the model has one, in float64:
    one pass per sequence, at most ten more, and five with a cache. A copy of the model runs, so the model is not
    changed. A loss is checked with more padding that has other values in it.

    Args:
        model: A torch.nn.Module, e.g. a model of transformers; for a Module of rfnb `rf.as_torch(module)`. It must be
            in `eval()` mode. Or a function of tensors.
        inputs: The padded batch: a tensor, a tuple of arguments, or a dict of named ones. A mask or lengths in it define the padding.
        lengths: Lengths of the sequences, if the inputs do not contain them; the padding follows them.
        dtype: The dtype of the comparison. Use float32 if the device or a kernel has no float64.

    Returns:
        A `BatchCheck`. `print(check)` prints a report, `rf.show(check)` shows it.

    Raises:
        TypeError: If the model is not a torch module or function.
        ValueError: If nothing is padded, the padding is unknown, or the output of the model cannot be compared.
        RuntimeError: If the model is not deterministic, or cannot run in this dtype.
    """
    if isinstance(model, FunctionType | MethodType):
        model = type(model.__name__, (torch.nn.Module,), {"forward": staticmethod(model)})().eval()
    check_model("check_batch", model)
    if dtype not in _TOLERANCE:
        raise value_error(
            "check_batch: this dtype does not distinguish rounding from a leak.",
            {"dtype": dtype, "known": "torch.float64, torch.float32"},
            "The dtype of the comparison is finer than that of the model.",
            "rf.check_batch(model, inputs, dtype=torch.float64)",
        )
    return _Check(model, inputs, padded_inputs("check_batch", inputs, lengths), dtype).run()


class _Check:
    """The passes of one check."""

    def __init__(self, model: torch.nn.Module, inputs: Any, padded: PaddedInputs, dtype: torch.dtype):
        self.model, self.padded, self.dtype = model, padded, dtype
        self.inputs = inputs
        self.tolerance = _TOLERANCE[dtype]
        self.fine = copied(model, dtype)
        self.passes = self.cached = 0
        self.lowered = False
        self.lowers = True  # whether its code asks for a lower precision by itself, which only a tape keeps it from
        self.seeks = True  # the source of a leak: of the first one alone, since it takes a pass
        self.remarks: list[str] = []

    def run(self) -> BatchCheck:
        given = self._output(self.inputs)
        side = self.padded.stream.side
        alone = [self._output(self.padded.alone(row)) for row in range(self.padded.batch)]
        ways, other = [self._apart(Way("batch", []), given, alone)], None
        known = bool(self._leaking(ways[0]))  # then tapes are needed
        moved = self._other_side(keep=known)
        if moved is not None:
            other = Way("left" if side == "right" else "right", [], given=False)
            ways.append(self._apart(other, moved[1], alone))
            known = known or bool(self._leaking(other))
        compared = any(not math.isnan(far) for way in ways for far in way.apart)
        scalars = [each for each in tensors_in(given) if not each.ndim and each.is_floating_point()]
        loss = self._scalars(given, keep=known) if scalars else None
        keep = any(self._leaking(way) for way in (ways[0], *(loss[:1] if loss else ())))
        base = self._deterministic(given, keep=keep)
        if not scalars and not compared:
            raise value_error(
                "check_batch: the results of the model cannot be compared.",
                {"returned": type(given).__name__, "shapes": [tuple(each.shape) for each in tensors_in(given)]},
                "The result of a sequence is a part of the result of its batch: results need a batch axis.",
            )
        single: dict[int, tuple[Tape, Any]] = {}  # the tapes of sequences alone
        self._locate(ways[0], base, single)
        if other is not None and moved is not None:
            self.seeks = False
            self._locate(other, moved, single)
        if loss is not None:
            way, further, tape = loss
            ways.append(way)
            if self._leaking(way):
                self.seeks = ways[0].leak is None
                way.leak = self._leak_of_loss(base, tape or self._tape(self.padded.other(further))[0], further)
        cached = self._cached(other is not None and other.leak is None)
        ways += [] if cached is None else [cached]
        leaks = any(way.leak is not None and way.given for way in ways)
        rounded, finite = (math.nan, True) if leaks else self._rounded()
        for way in ways:
            if not way.given and way.leak is not None:
                way.remark = f"Pad on the {side}, or give positions that do not count padding."
        verdict = "leak" if leaks else "not finite" if not finite else "rounding" if rounded > 0 else "same"
        return BatchCheck(
            verdict, ways, str(_dtype_of(self.model))[6:], rounded, str(self.dtype)[6:], self.passes, self.cached, self.remarks
        )  # fmt: skip

    # -- runs ----------------------------------------------------------------------------------------------------------
    def _tape(self, inputs: Any, *, cached: bool = False, keep: bool = True, **more: Any) -> tuple[Tape, Any]:
        with torch.no_grad():
            return self.taped(inputs, cached=cached, keep=keep, **more)

    def taped(self, inputs: Any, *, cached: bool = False, keep: bool = True, **more: Any) -> tuple[Tape, Any]:
        """A pass of the copy, with its calls if they are kept, and its output."""
        self.passes += not cached
        self.cached += cached
        inputs = raised(inputs, self.dtype)
        if more:
            inputs = {**inputs, **more}
        try:
            tape = Tape(self.fine, self.dtype, keep=keep)
            with tape if keep or self.lowers else contextlib.nullcontext():
                output = called(self.fine, inputs)
        except (RuntimeError, NotImplementedError) as error:
            if self.passes > 1 and "not implemented" not in str(error):
                raise
            raise runtime_error(
                f"check_batch: the model cannot run in {str(self.dtype)[6:]}.",
                {"error": str(error).splitlines()[0][:100]},
                "A finer dtype distinguishes rounding from a leak; a fused kernel may lack it. Use the plain code "
                'of the model (attn_implementation="eager"), or float32:',
                "rf.check_batch(model, inputs, dtype=torch.float32)",
            ) from error
        return tape, output

    def _output(self, inputs: Any) -> Any:
        """The output of a pass of which nothing else is kept."""
        tape, output = self._tape(inputs, keep=False)
        self.lowered |= tape.lowered
        self.lowers = self.lowered or self.passes < 2  # of the batch and of a sequence alone, whose code may be another
        return output

    def _apart(self, way: Way, output: Any, alone: list[Any]) -> Way:
        """Fill in the distance of a way from each sequence alone."""
        for row, said in enumerate(alone):
            far = self._outputs(output, said, self._options(row, self._side(way)))
            way.apart.append(math.nan if far is None else far)
        return way

    def _side(self, way: Way) -> str:
        """The side of the padding in a way."""
        return self.padded.stream.side if way.given else way.name

    def _inputs(self, way: Way) -> Any:
        """The inputs of a way."""
        return self.inputs if way.given else self.padded.moved()

    def _leaking(self, way: Way) -> list[int]:
        """The sequences with a different result in this way."""
        return [row for row, far in enumerate(way.apart) if far > self.tolerance]

    def _deterministic(self, given: Any, keep: bool) -> tuple[Tape | None, Any]:
        """The same pass again: its tape if it is kept, and its output; raise an error if that differs."""
        tape = None
        if keep or self.dtype != torch.float32:
            tape, again = self._tape(self.inputs, keep=keep)
        else:
            with torch.no_grad():
                again = called(self.fine, raised(self.inputs, self.dtype))
            self.passes += 1
        far = self._outputs(given, again, as_they_are)
        if far is not None and far > self.tolerance:
            leaves = [
                (name or "the model", each) for name, each in self.model.named_modules() if not list(each.children())
            ]
            training = [name for name, each in leaves if each.training]
            raise runtime_error(
                "check_batch: the model is not deterministic.",
                {
                    "apart": f"{far:.2g} between two passes of the same batch",
                    "training": ", ".join(training[:4]) or "nothing",
                },
                "A difference between two equal runs cannot be distinguished from a leak.",
                "model.eval()" if training else "torch.manual_seed(0)    # in the model, where it draws",
            )
        return (tape if keep else None), again

    def _other_side(self, keep: bool) -> tuple[Tape | None, Any] | None:
        """The batch padded on the other side; None if the inputs do not support it."""
        if not any(_is_mask(each, self.padded) for each in tensors_in(self.inputs)) or self.padded.told:
            self.remarks.append("Not tried on the other side: only a mask could mark the padding there.")
            return None
        try:
            tape, output = self._tape(self.padded.moved(), keep=keep)
            return (tape if keep else None), output
        except (RuntimeError, ValueError, IndexError) as error:
            self.remarks.append(f"Not tried on the other side: {_short(error)}.")
            return None

    def _rounded(self) -> tuple[float, bool]:
        """The difference of the shortest and the longest sequence in the dtype of the model, and whether all values are finite there;
        of the shortest alone if no pass is left for the other."""
        by_length = sorted(range(self.padded.batch), key=self.padded.stream.lengths.__getitem__)
        own, far = _dtype_of(self.model), []
        with torch.no_grad():
            batch = called(self.model, raised(self.inputs, own))
            self.passes += 1
            for row in (by_length[0], by_length[-1])[: max(1, _PASSES + self.padded.batch - self.passes)]:
                alone = called(self.model, raised(self.padded.alone(row), own))
                self.passes += 1
                options = self._options(row, self.padded.stream.side)
                found = [apart(a, b, options, 0.0) for a, b in zip(_compared(batch), _compared(alone))]
                far += [each.most for each in found if each is not None]
        return max((each for each in far if math.isfinite(each)), default=0.0), all(map(math.isfinite, far))

    # -- comparisons ---------------------------------------------------------------------------------------------------
    def _options(self, row: int, side: str) -> Options:
        return of_one_sequence(self.padded, row, side)

    def _outputs(self, output: Any, other: Any, options: Options) -> float | None:
        far = self._far(output, other, options)
        return None if far is None else far.most

    def _far(self, output: Any, other: Any, options: Options) -> TensorDifference | None:
        """The largest difference between results."""
        found = [apart(a, b, options, self.tolerance) for a, b in zip(_compared(output), _compared(other))]
        return max((each for each in found if each is not None), key=lambda each: each.most, default=None)

    def _locate(self, way: Way, made: tuple[Tape | None, Any], single: dict[int, tuple[Tape, Any]]) -> None:
        """Find where the leak of a way begins, of one sequence that it gives another result for."""
        rows, (tape, output) = self._leaking(way), made
        for row in sorted(rows, key=lambda row: row not in single)[:_ROWS]:
            if tape is None:
                tape, output = self._tape(self.padded.moved())
            if row not in single:
                single[row] = self._tape(self.padded.alone(row))
            alone, said = single[row]
            options = self._options(row, self._side(way))
            far = self._outputs(output, said, options) or 0.0
            if far > self.tolerance:
                way.apart[row], way.leak = far, self._leak(tape, output, alone, said, options, row, way)
                break
            if not alone.lowered:  # no tape sees the fused code that runs without one
                way.leak = self._leak_at("", _FUSED, None)
                break
            way.apart[row] = far  # code of the sequence alone has asked for a lower precision

    def _leak(
        self, tape: Tape, output: Any, alone: Tape, said: Any, options: Options, row: int, way: Way
    ) -> Leak | None:
        beside = TapePair(tape, alone, options, self.tolerance)
        call = beside.origin(tape.maker(each) for each in _compared(output))
        if call is None:
            return self._unplaced(self._far(output, said, options))
        if (counted := self._counted(call, alone, options, row, way)) is not None:
            return counted
        blamed = beside.blamed(call)
        if blamed is not None:
            return self._told_of_caller(tape, beside, call, blamed, row, way)
        born = nan_birth(tape, call, beside.apart(call))
        there = beside.apart(born or call) or beside.apart(call)
        return self._told(tape, born or call, there, self._inputs(way), self._side(way), row, born is not None)

    def _counted(self, call: TapeCall, alone: Tape, options: Options, row: int, way: Way) -> Leak | None:
        """The leak that remains without position ids that count padding; None if they are the cause, or cannot be given."""
        stream, side, whole = self.padded.stream, self._side(way), self._inputs(way)
        known = "position_ids" in inspect.signature(self.model.forward).parameters
        if side != "left" or not known or not isinstance(whole, Mapping) or "position_ids" in whole:
            return None
        if any(made.is_floating_point() for made in call.made):
            return None
        real = stream.real if stream.side == "left" else stream.real.flip(1)
        positions = (real.long().cumsum(1) - 1).clamp_min(0)
        device = next(tensors_in(whole)).device
        try:
            again, output = self._tape(whole, position_ids=positions.to(device))
        except (RuntimeError, TypeError):
            return None
        beside = TapePair(again, alone, options, self.tolerance)
        found = beside.origin(again.maker(each) for each in _compared(output))
        if found is None:
            return None
        return self._told(again, found, beside.apart(found), {**whole, "position_ids": positions.to(device)}, side, row)

    def _told_of_caller(
        self,
        tape: Tape,
        beside: TapePair,
        call: TapeCall,
        blamed: tuple[TapeCall, TensorDifference | None],
        row: int,
        way: Way,
    ) -> Leak:
        """The leak in an argument of a call that is computed by code that the single sequence does not run."""
        own, far = blamed
        inputs, side = self._inputs(way), self._side(way)
        if far is not None:
            return self._told(tape, own, far, inputs, side, row)
        far = beside.apart(call)
        source = source_of(self, tape, call, far, inputs, side, row, False)
        said = f'"{own.path}", which the sequence alone calls {own.turn} times'
        return self._leak_at(own.path.rpartition(".")[0], said, own.turn, far, source)

    def _told(
        self,
        tape: Tape,
        call: TapeCall,
        far: TensorDifference | None,
        inputs: Any,
        side: str,
        row: int | None,
        born: bool = False,
    ) -> Leak:
        turns = sum(1 for path, _ in tape.modules if path == call.path)
        step = call.turn if turns > 1 else None
        source = source_of(self, tape, call, far, inputs, side, row, born)
        if born and source is not None:
            far = _unknown({"batch": source.batch, "time": source.time})
        return self._leak_at(call.path, call.name, step, far, source)

    def _leak_at(
        self,
        path: str,
        said: str,
        step: int | None,
        far: TensorDifference | None = None,
        source: LeakSource | None = None,
    ) -> Leak:
        """A leak in a module, where the batch differs from a sequence alone."""
        _, cell, _, (batched, alone) = far or _unknown({})
        return Leak(path, kind_of(self.fine, path), said, step, cell, alone, batched, source)

    def _unplaced(self, far: TensorDifference | None = None) -> Leak:
        """A leak that did not begin in a torch call: from NumPy, or from values written into a tensor."""
        return self._leak_at("", "its result", None, far)

    def _scalars(self, given: Any, keep: bool) -> tuple[Way, int, Tape | None] | None:
        """The check of a loss: the same batch with more padding and other values in it; with the additional length, and the tape
        if that is kept."""
        for name, more in (("other padding", 3), ("padding refilled", 0)):
            try:
                tape, output = self._tape(self.padded.other(more), keep=keep)
            except (RuntimeError, ValueError, IndexError) as error:
                self.remarks.append(f"Not tried with {'more padding' if more else name}: {_short(error)}.")
                continue
            far = [
                float(abs(a - b) / (abs(a) + abs(b)).clamp_min(1e-30))
                for a, b in zip(tensors_in(given), tensors_in(output))
                if not a.ndim and not b.ndim
            ]
            return Way(name, [max(far, default=math.nan)]), more, tape if keep else None
        return None

    def _leak_of_loss(self, base: tuple[Tape | None, Any], tape: Tape, further: int) -> Leak:
        whole, given = base
        assert whole is not None
        beside = PaddingBeside(whole, tape, self.padded, further, self.tolerance)
        call = beside.origin(whole.maker(each) for each in tensors_in(given) if not each.ndim)
        if call is None:
            return self._unplaced()
        return self._told(whole, call, beside.apart(call), self.inputs, self.padded.stream.side, None)

    # -- with a cache --------------------------------------------------------------------------------------------------
    def _cached(self, left: bool) -> Way | None:
        """The last steps one by one with a cache, compared with the whole pass; None if the model has no cache."""
        name = _cache_name(self.model)
        if name is None or not isinstance(self.inputs, Mapping) or len(self.padded.streams) != 1:
            return None
        stream = self.padded.stream
        on_left = stream.side == "left" or left
        whole = self.inputs
        if stream.side != "left":
            whole = self.padded.moved() if on_left else self.padded.until(min(stream.lengths))
        own = {key: each for key, each in whole.items() if "label" not in key}
        size = stream.size if on_left else min(stream.lengths)
        if size <= _STEPS or min(stream.lengths) <= _STEPS:
            return None
        extra = {"use_cache": True} if "use_cache" in inspect.signature(self.model.forward).parameters else {}
        try:
            output = self._tape(own, cached=True, keep=False, **extra)[1]
            begin = size - _STEPS
            part = _positions(own, size, 0, begin)
            cache = _cache_in(self._tape(part, cached=True, keep=False, **extra)[1], name)
            if cache is None:
                return None
            way = Way("cached", [])
            for at in range(begin, size):
                given = _positions(own, size, at, at + 1, masks_until=at + 1)
                step, said = self._tape(given, cached=True, **{name: cache}, **extra)
                options = of_a_step(size, at, self.padded.batch)
                far = self._outputs(output, said, options)
                way.apart.append(math.nan if far is None else far)
                if far is not None and far > self.tolerance and way.leak is None:
                    tape, output = self._tape(own, cached=True, **extra)
                    beside = TapePair(tape, step, options, self.tolerance)
                    call = beside.origin(tape.maker(each) for each in _compared(output))
                    if call is None:
                        way.leak = self._unplaced(self._far(output, said, options))
                    else:
                        blamed = beside.blamed(call)
                        call = call if blamed is None or blamed[1] is None else blamed[0]
                        there = (blamed and blamed[1]) or beside.apart(call)
                        turned = there and there._replace(values=there.values[::-1])  # of the whole pass, of a step
                        way.leak = self._leak_at(call.path, call.name, at, turned)
                cache = _cache_in(said, name) or cache
        except (RuntimeError, ValueError, IndexError, TypeError, AttributeError) as error:
            self.remarks.append(f"Not tried with a cache: {_short(error)}.")
            return None
        return way


def _unknown(cell: dict[str, int]) -> TensorDifference:
    """A difference at a cell of which no numbers are known."""
    return TensorDifference(math.nan, cell, (), (math.nan, math.nan))


def _positions(
    inputs: Mapping[str, Any], size: int, begin: int, end: int, masks_until: int | None = None
) -> dict[str, Any]:
    """Some positions of all inputs; of masks all positions until then, since a cache covers them."""
    made = {}
    for name, value in inputs.items():
        if isinstance(value, torch.Tensor) and value.ndim > 1 and value.shape[1] == size:
            of_mask = masks_until is not None and "mask" in name
            value = value[:, :masks_until] if of_mask else value[:, begin:end]
        made[name] = value
    return made


def _cache_name(model: torch.nn.Module) -> str | None:
    names = inspect.signature(model.forward).parameters
    return next((name for name in _CACHES if name in names), None)


def _cache_in(output: Any, name: str) -> Any:
    """The cache that a model returned, or None."""
    if isinstance(output, Mapping):
        return output.get(name)
    found = getattr(output, name, None)
    return output[1] if found is None and type(output) is tuple and len(output) == 2 else found


def _compared(output: Any) -> list[torch.Tensor]:
    """The tensors of an output to compare: no cache, no loss."""
    output = opened(output)
    if isinstance(output, Mapping):
        output = [value for key, value in output.items() if key not in _CACHES]
    elif type(output) is tuple and len(output) == 2 and not isinstance(output[1], torch.Tensor):
        output = output[:1] if isinstance(output[0], torch.Tensor) else output
    return [each for each in tensors_in(output) if each.ndim]


def _is_mask(tensor: torch.Tensor, padded: PaddedInputs) -> bool:
    real = padded.stream.real
    if tensor.shape != real.shape:
        return False
    own = tensor.detach().cpu().bool()
    return bool((own == real).all()) or bool((own != real).all())


def _dtype_of(model: torch.nn.Module) -> torch.dtype:
    return next((each.dtype for each in model.parameters() if each.is_floating_point()), torch.float32)


def _short(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:100].rstrip(".")
