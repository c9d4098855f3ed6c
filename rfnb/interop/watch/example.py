"""The fixed example of a training: what the model does with it, recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from rfnb.core.place import warn_user
from rfnb.core.tensor import Tensor
from rfnb.core.tree import map_nested
from rfnb.interop.watch.parts import inner, parameters_of
from rfnb.interop.watch.untouched import settle, untouched
from rfnb.trace.record import record
from rfnb.trace.trace import Trace
from rfnb.trace.training import ExampleRecording

LIMIT, ALL = 64 << 20, 256 << 20  # bytes of one recording, and of all


class ExampleRun:
    """Runs the example.

    Args:
        model: In eval mode meanwhile.
        example: The arguments, or a function that calls the model. Tensors are copied, so that it stays what it is.
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
        """The recording; None, and once a warning, if it fails: the training goes on."""
        root = inner(self._model)
        fast = torch.backends.mha.get_fastpath_enabled()
        try:
            torch.backends.mha.set_fastpath_enabled(False)  # of nn.TransformerEncoder: nothing can be seen in it
            with untouched(self._model, evaluating=True), record(model=root, limit=LIMIT) as trace:
                self.call()
            settle(trace)
            return trace
        except Exception as error:
            if not self._warned:
                self._warned = True
                warn_user(f"watch: the example could not be run, the training goes on. {type(error).__name__}: {error}")
            return None
        finally:
            torch.backends.mha.set_fastpath_enabled(fast)


def fewer(examples: list[ExampleRecording]) -> list[ExampleRecording]:
    """The recordings that may be kept: of too many every second one goes, but for the first and the last."""
    while len(examples) > 2 and sum(one.trace.num_bytes for one in examples) > ALL:
        last = len(examples) - 1
        examples = [one for index, one in enumerate(examples) if index % 2 == 0 or index == last]
    return examples


def _copied(value: Any, device: torch.device) -> Any:
    return value.detach().clone().to(device) if isinstance(value, torch.Tensor) else value
