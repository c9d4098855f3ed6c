"""The calls of ops in a recording: which tensors each has read and made, by number.

    with rf.record(ops=True) as trace:
        model(x)
    trace.select(kind="op")

A number is that of a tensor while it lives: what a module returns has the number that the op in it has given. So one knows what goes
where, although a trace keeps of these tensors their dims only. Ops that an op calls are its own affair.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Mapping
from typing import Any

from rfnb.core.intercept import Intercepted, outside
from rfnb.core.op import Op
from rfnb.core.tensor import Tensor
from rfnb.trace.event import named_tensors
from rfnb.trace.probe import Listener, probe, trace_context


class OpNumbers:
    """Numbers of tensors. None is kept alive by it. Tensors that stand for one array of another library (`_stands_for`) are one."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._next = itertools.count(1)

    def of(self, named: list[tuple[str, Tensor]]) -> list[int]:
        """The number of each tensor."""
        return [self._of(tensor) for _, tensor in named]

    def _of(self, tensor: Any) -> int:
        tensor = tensor.__dict__.get("_stands_for", tensor)
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor:  # the id of one that is gone is given again
            known = self._known[id(tensor)] = weakref.ref(tensor), next(self._next)
        return known[1]

    def added(self, values: Mapping[str, Any]) -> dict[str, list[int]]:
        """The numbers of what an event has read and made."""
        return {"reads": self.of(values["inputs"]), "writes": self.of(values["outputs"])}


class CallsOfOps:
    """A with-block in which calls of ops are told to a listener as events of the kind "op".

    The values of an event are `op` (its name), `inputs` and `outputs` as those of a "module" event, the numbers `reads` and `writes`, and
    `raised`, the name of the error, of a call that ended so.
    """

    def __init__(self, tell: Listener):
        self._tell = tell
        self._intercepted = Intercepted(self._call)

    def __enter__(self) -> CallsOfOps:
        self._intercepted.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._intercepted.__exit__(*error)

    def _call(self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if op.fn is probe:
            return outside(op)(*args, **kwargs)
        before = named_tensors([*((str(i), arg) for i, arg in enumerate(args)), *kwargs.items()])
        try:
            with trace_context.op():
                result = outside(op)(*args, **kwargs)
        except Exception as error:
            self._note(op, before, [], raised=type(error).__name__)
            raise
        self._note(op, before, named_tensors([("", result)]))
        return result

    def _note(self, op: Op, inputs: list[Any], outputs: list[Any], **more: str) -> None:
        if inputs or outputs:
            self._tell("op", trace_context.place, {"op": op.name, "inputs": inputs, "outputs": outputs, **more})
