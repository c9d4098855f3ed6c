"""What a loop collects: the values of one `stack` or `last` call."""

from __future__ import annotations

from rfnb.core.tensor import Tensor


class Output:
    """One stack or last call site, in order of the calls in a step."""

    def __init__(self, handle: Tensor, last: bool):
        self.handle, self.last = handle, last
        self.values: list[Tensor] = []
        self.last_value: Tensor | None = None
        self.result: Tensor | None = None  # if it was not made step by step
