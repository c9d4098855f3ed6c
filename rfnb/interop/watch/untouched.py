"""untouched: a model computes something beside its training, and all that this changes is put back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch

from rfnb.backends import torch_random
from rfnb.core.block import block
from rfnb.interop.watch.parts import inner
from rfnb.nn.module.module import Module
from rfnb.nn.run.run_ctx import init_forward_step_run_ctx
from rfnb.ops.random_state import get_random_state, set_random_state
from rfnb.trace.probe import Later
from rfnb.trace.trace import Trace


@block
def untouched(model: Any, *, evaluating: bool) -> Iterator[None]:
    """A with-block without gradients, after which generators, buffers and train flags are as they were.

    Args:
        evaluating: Whether the model is in eval mode meanwhile.
    """
    root = inner(model)
    states, of_python, of_numpy = torch_random.get_random_state(), random.getstate(), np.random.get_state()
    modules = list(root.modules()) if isinstance(root, torch.nn.Module) else []
    flags = [(module, module.training) for module in modules]
    scripted = torch.jit.ScriptModule  # its program holds its buffers: they cannot be other ones
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
            for each, value in values:  # all: batch norm changes its statistics without another version of them
                each.data.copy_(value)
            torch_random.set_random_state(states)
            random.setstate(of_python)
            np.random.set_state(of_numpy)


def settle(trace: Trace) -> None:
    """Make all values of a recording: some are made of weights when somebody looks, and those go on."""
    for event in trace.events:
        if isinstance(event.values, Later):
            event.values.made()
