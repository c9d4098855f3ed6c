"""What a loop collects: the values of one `stack` or `last` call."""

from __future__ import annotations

from rfnb.core.tensor import Tensor


class Output:
    """One stack or last call site, in order of the calls in a step.

    Attributes:
        inner: Not of the body, but what the ops after a recorded loop need. A state in it gets the dims of the lengths late.
        initial: For `last`: what a sequence without any step has; None: zeros.
    """

    def __init__(self, handle: Tensor, last: bool, *, inner: bool = False):
        self.handle, self.last, self.inner = handle, last, inner
        self.initial: Tensor | None = None
        self.values: list[Tensor] = []
        self.last_value: Tensor | None = None
        self.result: Tensor | None = None  # if it was not made step by step
