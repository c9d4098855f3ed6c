"""The fixed example of a training: recordings of the model on it.

The extra computation does not affect the training: all state that it changes is restored.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
import torch

from rfnb.backends import torch_random
from rfnb.core.block import block
from rfnb.core.place import warn_user
from rfnb.core.tensor import Tensor
from rfnb.core.tree import map_nested
from rfnb.interop.watch.model_parts import inner, parameters_of
from rfnb.nn.module.module import Module
from rfnb.nn.run.run_ctx import init_forward_step_run_ctx
from rfnb.ops.random_state import get_random_state, set_random_state
from rfnb.trace.probe import Later
from rfnb.trace.record import record
from rfnb.trace.trace import Trace
from rfnb.trace.training import ExampleRecording

LIMIT, ALL = 64 << 20, 256 << 20  # bytes of one recording, and of all


class ExampleRun:
    """Runs the example.

    Args:
        model: Switched to eval mode for the run.
        example: The arguments, or a function that calls the model. Tensors are copied, so that it cannot change.
    """

    def __init__(self, model: Any, example: Any):
        self._model = model
        self._warned = False
        root = inner(model)
        self.call: Callable[[], Any]
        if callable(example) and not isinstance(example, (torch.Tensor, Tensor)):
            self.call = example
            return
        device = parameters_of(model)[0].tensor.device
        example = dict(example) if isinstance(example, Mapping) or hasattr(example, "keys") else example
        given = map_nested(partial(_copied, device=device), example)
        if isinstance(given, dict):
            self.call = lambda: root(**given)
        elif isinstance(given, (tuple, list)) and not hasattr(given, "_fields"):
            self.call = lambda: root(*given)
        else:
            self.call = lambda: root(given)

    def record(self) -> Trace | None:
        """The recording; None, with one warning, if it fails: the training continues."""
        root = inner(self._model)
        fast = torch.backends.mha.get_fastpath_enabled()
        try:
            torch.backends.mha.set_fastpath_enabled(False)  # the fast path of nn.TransformerEncoder hides its values
            with untouched(self._model, evaluating=True), record(model=root, limit=LIMIT) as trace:
                self.call()
            settle(trace)
            return trace
        except Exception as error:
            if not self._warned:
                self._warned = True
                warn_user(
                    f"watch: the example could not be run; the training continues. {type(error).__name__}: {error}"
                )
            return None
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)


def fewer(examples: list[ExampleRecording]) -> list[ExampleRecording]:
    """The recordings to keep: if there are too many, every second one is dropped, except the first and the last."""
    while len(examples) > 2 and sum(one.trace.num_bytes for one in examples) > ALL:
        last = len(examples) - 1
        examples = [one for index, one in enumerate(examples) if index % 2 == 0 or index == last]
    return examples


def _copied(value: Any, device: torch.device) -> Any:
    return value.detach().clone().to(device) if isinstance(value, torch.Tensor) else value


@block
def untouched(model: Any, *, evaluating: bool) -> Iterator[None]:
    """A with-block without gradients that restores random generators, buffers and train flags.

    Args:
        evaluating: Whether to switch the model to eval mode.
    """
    root = inner(model)
    states, of_python, of_numpy = torch_random.get_random_state(), random.getstate(), np.random.get_state()
    modules = list(root.modules()) if isinstance(root, torch.nn.Module) else []
    flags = [(module, module.training) for module in modules]
    scripted = torch.jit.ScriptModule  # its program holds its buffers, which cannot be replaced
    buffers = [(module, dict(module._buffers)) for module in modules if not isinstance(module, scripted)]
    held = {id(each): each for module in modules for each in module._buffers.values() if each is not None}
    values = [(each, each.detach().clone()) for each in held.values()]
    with ExitStack() as stack:
        if isinstance(root, Module):
            of_rf = get_random_state()
            stack.callback(lambda: set_random_state(of_rf))
            auxiliary = [each.raw_tensor for _, each in root.named_parameters() if each.auxiliary]
            values += [(each, each.detach().clone()) for each in auxiliary]
            if evaluating:
                stack.enter_context(init_forward_step_run_ctx())
        if evaluating:
            for module in modules:
                module.training = False
        try:
            with torch.no_grad():
                yield
        finally:
            for module, flag in flags:
                module.training = flag
            for module, of in buffers:
                module._buffers.clear()
                module._buffers.update(of)
            for each, value in values:  # all: batch norm changes its statistics without increasing their version
                each.data.copy_(value)
            torch_random.set_random_state(states)
            random.setstate(of_python)
            np.random.set_state(of_numpy)


def settle(trace: Trace) -> None:
    """Compute all lazy values of a recording: some depend on weights, which will change."""
    for event in trace.events:
        if isinstance(event.values, Later):
            event.values.made()
