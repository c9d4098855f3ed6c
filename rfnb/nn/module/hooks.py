"""Hooks: functions that run after a method of one object, and the handles that remove them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Never

from rfnb.core.errors import attribute_error, type_error

Hook = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any]


class RemovableHandle:
    """Returned by `register_forward_hook` and `setup_post_hook_on_method`; `remove()` removes the hook."""

    def __init__(self, hooks: dict[int, Any], key: int, when_empty: Callable[[], None] | None = None):
        self._hooks, self._key, self._when_empty = hooks, key, when_empty

    @classmethod
    def add(
        cls, hooks: dict[int, Any], hook: Any, *, prepend: bool = False, when_empty: Callable[[], None] | None = None
    ) -> RemovableHandle:
        """Add a hook, last or first, and return the handle that removes it."""
        key = max(hooks, default=-1) + 1
        others = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[key] = hook
        hooks.update(others)
        return cls(hooks, key, when_empty)

    def remove(self) -> None:
        """Remove the hook; removing the last one restores the original method. A second call does nothing."""
        if self._hooks.pop(self._key, None) is not None and not self._hooks and self._when_empty is not None:
            self._when_empty()


def setup_post_hook_on_method(
    obj: Any, attr: str, hook: Hook, *extra: Never, prepend: bool = False, **unknown: Never
) -> RemovableHandle:
    """Run `hook(obj, args, kwargs, result)` after each call of the method `attr` of this one object.

    The return value of the hook replaces the result. Other objects of the class are not affected; a deep copy keeps the hook.

    Args:
        attr: Name of a method, or of another callable attribute. "__call__" for a Module, as `Module.register_forward_hook`.
        prepend: Run before existing hooks.

    Raises:
        AttributeError: No such attribute.
        TypeError: If it is not a method that can be overridden on one object.
    """
    if attr == "__call__" and hasattr(obj, "register_forward_hook"):
        return obj.register_forward_hook(hook, prepend=prepend)
    present = vars(obj).get(attr)
    if isinstance(present, _Hooked):
        return RemovableHandle.add(present.hooks, hook, prepend=prepend, when_empty=present.restore)
    if not hasattr(obj, attr):
        raise attribute_error(
            f'setup_post_hook_on_method: {type(obj).__name__} has no "{attr}".',
            {"obj": type(obj).__name__, "attr": attr},
            "A hook needs an existing method.",
            f'rf.setup_post_hook_on_method({type(obj).__name__.lower()}, "__call__", hook)',
        )
    method = getattr(obj, attr)
    if attr.startswith("__") or not callable(method) or hasattr(method, "register_forward_hook"):
        is_part = hasattr(method, "register_forward_hook")
        raise type_error(
            f"setup_post_hook_on_method: {type(obj).__name__}.{attr} cannot be hooked.",
            {"it is": f"the module {type(method).__name__}" if is_part else type(method).__name__},
            "A hook is on a method of an object; Python finds special methods on the class.",
            f"module.{attr}.register_forward_hook(hook)" if is_part else None,
        )
    hooked = _Hooked(obj, attr)
    object.__setattr__(obj, attr, hooked)
    return RemovableHandle.add(hooked.hooks, hook, when_empty=hooked.restore)


class _Hooked:
    """Replaces a method of one object, as an attribute of that object."""

    def __init__(self, obj: Any, attr: str):
        self.obj, self.attr = obj, attr
        self.own = {attr: vars(obj)[attr]} if attr in vars(obj) else {}
        self.hooks: dict[int, Hook] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Looked up in the class at call time: a deep copy of the object must not call the method of the original.
        method = self.own[self.attr] if self.own else getattr(type(self.obj), self.attr).__get__(self.obj)
        result = method(*args, **kwargs)
        for hook in list(self.hooks.values()):
            result = hook(self.obj, args, kwargs, result)
        return result

    def restore(self) -> None:
        """Restore the original method."""
        if vars(self.obj).get(self.attr) is self:
            object.__delattr__(self.obj, self.attr)
            vars(self.obj).update(self.own)
