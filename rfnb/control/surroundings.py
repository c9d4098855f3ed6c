"""Captured surroundings: everything a function reaches outside of its loops, so that a branch can report changes."""

from __future__ import annotations

import functools
import hashlib
import inspect
import types
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rfnb.backends import registry
from rfnb.core.pickling import NotPicklable
from rfnb.core.tensor import Tensor
from rfnb.core.tree import values_in
from rfnb.rec.reachable_objects import Contents, Slot, contents_of, reached

_SHOWN = 4  # changes in a message
_MOST_BYTES = 1 << 24  # of tensors without a version, which are read to be compared


class SurroundingChange(NamedTuple):
    """A change in the surroundings.

    Attributes:
        words: Its description.
        counts: Whether it changes the numbers of a computation; unknown for a user's own list or number.
    """

    words: str
    counts: bool


class Surroundings(NotPicklable):
    """The modules, tensors, lists, arrays and numbers that a function reaches through its arguments and names, and settings.

    It searches user objects to a limited depth; the contents of files and libraries are not known.

    Args:
        fn, args, kwargs: The call.
    """

    def __init__(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]):
        roots = _roots(fn, args, kwargs)
        slots = reached(roots)
        modules: dict[str, Any] = {}
        for path, value in [*roots.items(), *((slot.path, slot.before) for slot in slots)]:
            if _is_module(value) and not any(path.startswith(f"{other}.") for other in modules):
                modules[path] = value
        of_modules = tuple(f"{path}." for path in modules)
        self._slots = [(slot, _short(slot.before)) for slot in slots if not slot.path.startswith(of_modules)]
        self._left = [_MOST_BYTES]
        self._modules = {
            path: (module, {name: self._mark(value) for name, value in _parts(module)})
            for path, module in modules.items()
        }
        self._settings = registry.selected().settings()

    def differences(self) -> dict[str, SurroundingChange]:
        """All changes by name; empty if they cannot be determined."""
        try:
            return self._differences()
        except Exception:  # of code of the user's own, or another thread changes what is looked at: no error of the run
            return {}

    def _differences(self) -> dict[str, SurroundingChange]:
        found: dict[str, SurroundingChange] = {}
        for path, (module, marks) in self._modules.items():
            now = dict(_parts(module))
            for name, mark in marks.items():
                if name not in now or not self._is(now[name], mark):
                    full = f"{path}.{name}" if name else path
                    kind = "parameter" if name else f"training={now[name]} of"
                    found[full] = SurroundingChange(f'{kind} "{full}"', True)
        for slot, before in self._slots:
            words = _slot_difference(slot, before)
            if words is not None:
                shown, counts = words
                found.setdefault(slot.path, SurroundingChange(shown, counts))
        now_set = registry.selected().settings()
        for name, value in self._settings.items():
            if now_set.get(name) != value:
                found[name] = SurroundingChange(f"{name} ({value}, now {now_set.get(name)})", True)
        parts = [each for each in found if each.endswith("]")]
        return {name: found[name] for name in sorted(found) if not any(part.startswith(f"{name}[") for part in parts)}

    def _mark(self, value: Any) -> Any:
        if isinstance(value, bool):
            return value
        raw = _raw_of(value)
        contents = None if raw is None else contents_of(raw, self._left)
        return _ref(raw), None if contents is None else _digest(contents().key)

    def _is(self, value: Any, mark: Any) -> bool:
        if isinstance(value, bool) or isinstance(mark, bool):
            return value is mark
        ref, before = mark
        raw = _raw_of(value)
        if (None if ref is None else ref()) is not raw:
            return False
        contents = None if raw is None else contents_of(raw, [_MOST_BYTES])
        return before is None or contents is None or _digest(contents().key) == before


def surroundings_of(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Surroundings | None:
    """The surroundings of a call; None if user code raises an error during inspection."""
    try:
        return Surroundings(fn, args, kwargs)
    except Exception:
        return None


def in_words(differences: Mapping[str, SurroundingChange], by_itself: Mapping[str, SurroundingChange]) -> str:
    """The differences as text: those that the run caused itself (`by_itself`), and others; "" if there are none."""
    while_it_ran = [each.words for name, each in differences.items() if by_itself.get(name) == each]
    since = [each.words for name, each in differences.items() if by_itself.get(name) != each]
    parts = [("changed while it ran", while_it_ran), ("changed since", since)]
    return "; ".join(f"{when}: {_listed(words)}" for when, words in parts if words)


def _listed(words: list[str]) -> str:
    more = f" and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return ", ".join(words[:_SHOWN]) + more


def _roots(fn: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The initial values of a call, by name."""
    roots: dict[str, Any] = {}
    while isinstance(fn, functools.partial):
        args, kwargs, fn = (*fn.args, *args), {**fn.keywords, **kwargs}, fn.func
    if isinstance(fn, types.MethodType):
        roots[type(fn.__self__).__name__], fn = fn.__self__, fn.__func__
        args = (None, *args)
    elif not isinstance(fn, types.FunctionType):
        roots[type(fn).__name__] = fn
    roots["fn"] = fn
    try:
        bound = inspect.signature(fn).bind_partial(*args, **kwargs)
        roots.update({name: value for name, value in bound.arguments.items() if value is not None})
    except (TypeError, ValueError):  # the call itself will say what is wrong with it
        roots.update({f"argument {index}": value for index, value in enumerate(args)}, **kwargs)
    return roots


def _is_module(value: Any) -> bool:
    """True for a module of rfnb or torch."""
    return any(
        base.__name__ == "Module" and base.__module__.partition(".")[0] in ("rfnb", "torch")
        for base in type(value).__mro__
    )


def _parts(module: Any) -> Iterator[tuple[str, Any]]:
    """Parameters and buffers by name, and the mode of a module that has one."""
    yield from module.named_parameters()
    if callable(getattr(type(module), "named_buffers", None)):
        yield from module.named_buffers()
    if isinstance(vars(module).get("training"), bool):
        yield "", module.training


def _raw_of(value: Any) -> Any:
    return value.raw_tensor if isinstance(value, Tensor) else value


def _ref(raw: Any) -> Any:
    try:
        return None if raw is None else weakref.ref(raw)
    except TypeError:
        return lambda: raw


def _digest(key: Any) -> Any:
    """A digest of large keys, since they are kept as long as the run."""
    return hashlib.blake2b(key).digest() if isinstance(key, bytes) else key


def _short(before: Any) -> Any:
    if isinstance(before, Contents):
        before.key = _digest(before.key)
    return before


def _slot_difference(slot: Slot, before: Any) -> tuple[str, bool] | None:
    """The change of a slot as text, and whether it counts."""
    if not isinstance(before, Contents):
        change = slot.change(lambda value: True)
        if change is None:
            return None
        if any(isinstance(leaf, Tensor) for leaf in values_in(change[0])):
            return f'"{slot.path}", another tensor', True
        return f'"{slot.path}" ({change[0]}, now {change[1]})', False
    now = slot.read()
    if isinstance(now, Contents) and _digest(now.key) == before.key:
        return None
    if not isinstance(now, Contents) or now.shown == before.shown or "version" in before.shown:
        return f'"{slot.path}", changed in place', "tensor" in before.shown
    return f'"{slot.path}" ({before.shown}, now {now.shown})', False
