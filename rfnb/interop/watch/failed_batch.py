"""Find the module that made a NaN or infinite value: repeat the batch, with the same random numbers, module by module.

A child returns before its parent, so the first call with a bad output either made or received it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch

from rfnb.backends.torch_random import get_random_state, set_random_state
from rfnb.core.errors import ErrorOf
from rfnb.core.op import Args, Kwargs
from rfnb.interop.watch.activations import floats_of
from rfnb.interop.watch.example import settle, untouched
from rfnb.interop.watch.forward import Forward
from rfnb.interop.watch.model_parts import inner, is_whole, parameters_of
from rfnb.trace.record import record
from rfnb.trace.trace import Trace

not_finite_error = ErrorOf(FloatingPointError)
LIMIT = 64 << 20  # bytes of the recording of the batch


class StoredCall(NamedTuple):
    """The data of a model call in training that is needed to repeat it.

    Attributes:
        number: The number of the batch, from 1.
        states: States of the generators, as in `rf.get_random_state`.
        autocast: Device type, dtype and whether it was on.
        versions: Versions of its input tensors, to check that they are unchanged.
    """

    number: int
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    states: dict[str, bytes]
    autocast: tuple[str, torch.dtype, bool]
    versions: tuple[int, ...]


def kept(number: int, args: Args, kwargs: Kwargs, device: str) -> StoredCall:
    """The data of a call that is about to run."""
    autocast = device, torch.get_autocast_dtype(device), torch.is_autocast_enabled(device)
    return StoredCall(number, args, kwargs, get_random_state(), autocast, _versions(args, kwargs))


class BadCall(NamedTuple):
    """The first call with a bad output.

    Attributes:
        path: The path of the module; "" for the model.
        kind: Its class.
        inputs, output: Descriptions of these.
        fine: Whether its inputs were finite, or minus infinity as in masks.
        infinite: Whether its inputs contained minus infinity.
        before: The path of the last earlier module whose output was fine, or None.
        batch: Number of the batch.
    """

    path: str
    kind: str
    inputs: str
    output: str
    fine: bool
    infinite: bool
    before: str | None
    batch: int


class RepeatedCalls(NamedTuple):
    """The result of repeating calls.

    Attributes:
        found: None if all outputs are finite.
        trace: The recording of that batch, or None.
        changed: Whether inputs have changed since.
        order: The paths of the modules, in the order of their calls.
    """

    found: BadCall | None
    trace: Trace | None
    changed: bool
    order: list[str]


def do_again(model: Any, calls: list[StoredCall]) -> RepeatedCalls:
    """Repeat the calls of an update, until a module returns a bad value."""
    root = inner(model)
    changed, order = False, []
    for call in calls:
        changed |= _versions(call.args, call.kwargs) != call.versions
        look = _Look(call.number)
        with untouched(model, evaluating=False), ExitStack() as stack:
            device, dtype, enabled = call.autocast
            stack.enter_context(torch.autocast(device, dtype=dtype, enabled=enabled))
            set_random_state(call.states)
            trace = stack.enter_context(record(model=root, limit=LIMIT))
            forwards = [Forward(module, look.around(path)) for path, module in _modules(root)]
            try:
                for forward in forwards:
                    forward.put()
                root(*call.args, **call.kwargs)
            except Exception:  # a model may refuse non-finite values; what was seen before shows the cause
                pass
            finally:
                for forward in reversed(forwards):
                    forward.remove()
        order = look.order
        found = look.found or look.infinite
        if found is not None:
            settle(trace)
            return RepeatedCalls(found, trace, changed, order)
    return RepeatedCalls(None, None, changed, order)


def bad_parameters(model: Any) -> list[str]:
    """The names of the parameters with non-finite values."""
    return [each.name for each in parameters_of(model) if not bool(torch.isfinite(each.tensor.detach()).all())]


class _Look:
    """Observes calls of modules, and records the first bad ones."""

    def __init__(self, batch: int):
        self.batch = batch
        self.found: BadCall | None = None  # NaN, or plus infinity
        self.infinite: BadCall | None = None  # minus infinity, as in masks: used only if there is nothing else
        self.order: list[str] = []
        self._fine: str | None = None

    def around(self, path: str) -> Callable[..., Any]:
        def around(forward: Forward, args: Args, kwargs: Kwargs) -> Any:
            inputs = [each.detach() for each in floats_of([args, kwargs])]
            says, bad_inputs = words(inputs), any(map(_is_bad, inputs))
            infinite = any(bool(torch.isneginf(each).any()) for each in inputs)
            result = forward.forward(*args, **kwargs)
            outputs = [each.detach() for each in floats_of([result])]
            self.order.append(path)
            if self.found is None:
                made = (
                    path, type(forward.module).__name__, says, words(outputs), not bad_inputs, infinite, self._fine, self.batch
                )  # fmt: skip
                if any(map(_is_bad, outputs)):
                    self.found = BadCall(*made)
                elif self.infinite is None and any(bool(torch.isinf(each).any()) for each in outputs):
                    self.infinite = BadCall(*made)
                else:
                    self._fine = path
            return result

        return around


def _modules(root: torch.nn.Module) -> list[tuple[str, torch.nn.Module]]:
    """All modules that may be observed, including containers."""
    found: list[tuple[str, torch.nn.Module]] = []
    closed: list[str] = []
    for path, module in root.named_modules():
        if any(path.startswith(f"{other}.") for other in closed) or isinstance(module, torch.jit.ScriptModule):
            continue
        found.append((path, module))
        if is_whole(module):
            closed.append(path)
    return found


def _is_bad(x: torch.Tensor) -> bool:
    return bool(torch.isnan(x).any()) or bool((x == torch.inf).any())


def words(tensors: list[torch.Tensor]) -> str:
    """A description of whether values are finite: "finite, float32 (3, 7)"; "NaN in 4 of 21, float32 (3, 7)"."""
    if not tensors:
        return "no numbers"
    return "; ".join(
        f"{_state(each)}, {str(each.dtype).removeprefix('torch.')} {tuple(each.shape)}" for each in tensors[:4]
    )


def _state(x: torch.Tensor) -> str:
    counts = {
        "NaN": int(torch.isnan(x).sum()), "inf": int((x == torch.inf).sum()), "-inf": int((x == -torch.inf).sum())
    }  # fmt: skip
    said = [f"{name} in {count} of {x.numel()}" for name, count in counts.items() if count]
    return " and ".join(said) or "finite"


def _versions(args: Any, kwargs: Any) -> tuple[int, ...]:
    return tuple(each._version for each in floats_of([args, kwargs]) if not each.is_inference())
