"""The rules that named the axes in a model, for `rf.record(model=model, why=True)`."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim, Dims
from rfnb.trace.probe import trace_context

# In order of priority. Guesses have a question mark.
RULES = {
    "dims=": "The recording was given names for this module.",
    "module": "This kind of module, or what it computes, has its axes in this order.",
    "memory": "The same memory in the same layout: its guessed name has been confirmed.",
    "view": "A view of memory whose axes have names: the axis of this size and stride.",
    "origin": "The axis begins at this axis of a model input, traced through the torch calls.",
    "input": "An input of this call, or of an enclosing one, has a dim of this size: at this position, of this kind, or the first one.",
    "size": "The model has one dim with this name and size.",
    "new": "No dim of this kind and size is known: a new one, named after the module or an input, or by the number of axes.",
}


class Why:
    """The rules by which a recording named axes. Known tensors (the same memory) are named once."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, Dims, tuple[str, ...]], None] = {}

    def note(self, dims: Sequence[Dim], rules: Sequence[str]) -> None:
        """Record the rule for each axis of a tensor in the running call."""
        if dims:
            self._lines.setdefault((trace_context.place.path, tuple(dims), tuple(rules)), None)

    def text(self) -> str:
        """A line for each named tensor, followed by the rules."""
        rows = [
            (path or "-", ", ".join(f"{dim.short_repr()} {rule}" for dim, rule in zip(dims, rules)))
            for path, dims, rules in self._lines
        ]
        width = max((len(path) for path, _ in rows), default=0)
        used = {rule.rstrip("?") for _, _, rules in self._lines for rule in rules}
        marked = any(rule.endswith("?") for _, _, rules in self._lines for rule in rules)
        lines = ["The rule that named each axis:", *(f"  {path:{width}}  {axes}" for path, axes in dict.fromkeys(rows))]
        lines += [f"{rule:6}  {text}" for rule, text in RULES.items() if rule in used]
        lines += ["?       The name is a guess; to set it: dims={path: names}."] if marked else []
        return "\n".join(lines if rows else ["No axis of a torch model was named."])
