"""Handles for hooks that can be taken away again."""

from __future__ import annotations

from typing import Any


class RemovableHandle:
    """Returned by `register_forward_hook`; `remove()` takes the hook away."""

    def __init__(self, hooks: dict[int, Any], key: int):
        self._hooks, self._key = hooks, key

    @classmethod
    def add(cls, hooks: dict[int, Any], hook: Any, *, prepend: bool = False) -> RemovableHandle:
        key = max(hooks, default=-1) + 1
        others = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[key] = hook
        hooks.update(others)
        return cls(hooks, key)

    def remove(self) -> None:
        self._hooks.pop(self._key, None)
