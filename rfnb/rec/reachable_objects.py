"""Everything reachable from the names of a loop's body: attributes, items, closures, globals of functions, classes, arrays, iterators.

Each place is a Slot, which knows the former value, reports a change, and restores it. User objects are searched; of library objects only
the attributes that user code mentions (`cfg.step += 1`). No user code runs on the way: no property, no `__getattr__`, no `__eq__`. A
first search (`deep`) goes as far as there are slots; later ones stop at depth three, since they are part of each run.
"""

from __future__ import annotations

import contextvars
import functools
import gc
import io
import itertools
import pickle
import random
import sys
import threading
import types
import weakref
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from rfnb.backends import registry
from rfnb.core.memo import kept_by_id
from rfnb.core.place import in_package
from rfnb.core.tensor import Tensor
from rfnb.core.tree import values_in
from rfnb.rec.draws import is_shared
from rfnb.rec.read_position import has_position, position_of


class Look(NamedTuple):
    """Limits of a search: nesting depth (self.layers[0].h has three), number of slots, and bytes of an array without version counter."""

    depth: int
    slots: int
    bytes: int


SHORT = Look(3, 2000, 1 << 20)
DEEP = Look(40, 20000, 1 << 26)
WIDE = Look(40, 5000, 1 << 20)  # into what libraries own as well: only to put it back
_FURTHER = 3  # from an attribute of what a library owns
_MOST_ITEMS = 100
# Bytes of all tensors of torch's inference mode, in which a whole model may have been loaded.
_MOST_OF_TENSORS = 1 << 24
MISSING = object()
PLAIN = frozenset(map(id, (bool, int, float, complex, str, bytes, type(None))))  # a class may have any `__eq__`
# Their attributes are what somebody has put there.
_OPEN = {
    "types.SimpleNamespace", "argparse.Namespace", "collections.ChainMap", "collections.UserDict", "collections.UserList",
    "os._Environ", "queue.Queue", "queue.LifoQueue", "queue.PriorityQueue", "_thread._local", "asyncio.queues.Queue",
    "threading.Event", "threading.Semaphore", "threading.BoundedSemaphore", "concurrent.futures._base.Future",
    "weakref.WeakKeyDictionary", "weakref.WeakValueDictionary", "_weakrefset.WeakSet",
}  # fmt: skip
_SEQUENCES = list, tuple, deque
_OF_TORCH = "Tensor", "Generator"
_CALLS = type(iter(int, 1))
_DESCRIPTORS = types.GetSetDescriptorType, types.MemberDescriptorType
_CODE = types.FunctionType, types.MethodType, types.BuiltinMethodType, functools.partial


class Contents:
    """The contents of a mutable object, for comparison: `shown` is for messages; `again` restores them if possible."""

    def __init__(self, shown: str, key: Any, again: Callable[[], Any] | None = None):
        self.shown, self.key, self.again = shown, key, again


class Slot:
    """A place and its former value.

    Args:
        root: The name in the body that it is reached from.
        path: Its name in messages.
        key: Its attribute or item, if it is one.
        now: Returns the current value.
        put: Sets the value.
        whole: `now` returns Contents.
    """

    def __init__(
        self,
        root: str,
        path: str,
        key: Any,
        now: Callable[[], Any],
        put: Callable[[Any], Any] | None = None,
        *,
        whole: bool = False,
    ):
        self.root, self.path, self.key, self._now, self._put, self.whole = root, path, key, now, put, whole
        self.before = now()

    def read(self) -> Any:
        """The value that is there now."""
        return self._now()

    def change(self, was_used: Callable[[Any], bool]) -> tuple[Any, Any] | None:
        """(before, now) if the steps of a loop are certain to differ by it: another number, another Tensor in place of one that was
        used, or other contents.
        """
        found = self.difference()
        if found is None or self.whole:
            return found
        before, now = found
        if any(isinstance(leaf, Tensor) for leaf in values_in(before)):
            return found if was_used(before) else None
        return found if is_number(before) and now is not MISSING else None

    def difference(self) -> tuple[Any, Any] | None:
        """(before, now) if they differ, else None."""
        before, now = self.before, self._now()
        if self.whole:
            return None if now is not MISSING and same_key(before.key, now.key) else (before, now)
        return None if same_plain(before, now) else (before, now)

    def put_back(self) -> bool:
        """Restore the former value; return whether that succeeded."""
        if self.difference() is None:
            return True
        try:
            if self.whole:
                if self.before.again is not None:
                    self.before.again()
            elif self._put is not None:
                self._put(self.before)
            return self.difference() is None
        except Exception:  # of whatever it is
            return False


def is_plain(value: Any) -> bool:
    """True for a number, a string or None."""
    return id(type(value)) in PLAIN


def is_number(value: Any) -> bool:
    """True for a plain number, as counters are."""
    return type(value) is int or type(value) is float


def same_plain(before: Any, now: Any) -> bool:
    """True if two values are the same object, or equal numbers or strings."""
    return before is now or (type(before) is type(now) and is_plain(now) and (before == now or before != before))


def same_key(before: Any, now: Any) -> bool:
    """True if the keys of two Contents are equal. User code may have put anything into them."""
    try:
        return bool(before == now)
    except Exception:
        return False


def reached(variables: Mapping[str, Any], look: Look = SHORT, names: frozenset[str] = frozenset()) -> list[Slot]:
    """The slots reachable from the values of these names; `names` are the attributes mentioned in the code."""
    return _Reach(look, names).of(variables)


class _Full(Exception):
    """The limit on slots is reached."""


class _Reach:
    """A search for slots."""

    def __init__(self, look: Look, names: frozenset[str]):
        self._look, self._found, self._left = look, list[Slot](), [_MOST_OF_TENSORS]
        self._seen: dict[int, Any] = {}  # by id; the objects, so that they keep it
        self._deep, self._wide = look is not SHORT, look is WIDE
        self._names = {*names, "_buffers"} if self._deep else set(names)  # those of layers of torch, which they change
        self._foreign: list[tuple[str, str, Any]] = []

    def of(self, variables: Mapping[str, Any]) -> list[Slot]:
        try:
            for name, value in variables.items():
                self._value(name, name, None, value, self._look.depth)
            known = -1
            while known != len(self._names):  # code that was found later may name further attributes
                known = len(self._names)
                for root, path, value in list(self._foreign):
                    self._named(root, path, value)
        except _Full:
            pass
        return self._found

    def _add(self, slot: Slot) -> None:
        self._found.append(slot)
        if len(self._found) == self._look.slots:
            raise _Full

    def _value(self, root: str, path: str, key: Any, value: Any, depth: int) -> None:
        kind = type(value)
        if id(value) in self._seen or id(kind) in PLAIN:
            return
        how = _how(kind)
        if how.layer and self._deep:
            self._seen[id(value)] = value
            self._foreign.append((root, path, value))
            self._keys(root, path, key, how.attributes(value))
        if how.closed or (issubclass(kind, type) and not self._is_looked_into(_module_of(value))):
            return
        self._seen[id(value)] = value
        if self._deep and not (how.open or how.tensor or issubclass(kind, _CODE)):
            self._foreign.append((root, path, value))
        if depth and not how.tensor:
            try:
                entries = list(self._entries(path, value, kind, how))
            except Exception:  # another thread changes it, or it lies about what it is
                entries = []
            for part, entry, now, put in entries:
                slot = Slot(root, part, entry, now, put)
                self._add(slot)
                self._value(root, part, entry, slot.before, depth - 1)
        if how.changes:
            contents = contents_of(value, self._left, self._look.bytes)
            if contents is not None:
                self._add(Slot(root, path, key, contents, whole=True))
        if how.keys:
            self._keys(root, path, key, how.keys(value))

    def _keys(self, root: str, path: str, key: Any, items: dict[Any, Any] | None) -> None:
        if items is not None:
            self._add(Slot(root, path, key, functools.partial(_keys_of, items, self._deep), whole=True))

    def _is_looked_into(self, module: Any) -> bool:
        return _is_of_user(module) or (self._wide and _is_of_library(module))

    def _entries(self, path: str, value: Any, kind: type, how: _How) -> Iterator[tuple[str, Any, Any, Any]]:
        """(path, key, value, setter) of the places in a value."""
        if issubclass(kind, (types.MethodType, types.BuiltinMethodType)):
            yield f"{path}.__self__", None, lambda: value.__self__, None
            if issubclass(kind, types.MethodType):
                yield path, None, lambda: value.__func__, None
        elif issubclass(kind, types.FunctionType):
            if not in_package(value.__code__) and self._is_looked_into(value.__module__ or ""):
                yield from self._function(path, value)
        elif issubclass(kind, functools.partial):
            for name in ("func", "args", "keywords"):
                yield f"{path}.{name}", None, functools.partial(getattr, value, name), None
        elif kind is _CALLS:
            yield path, None, lambda: value.__reduce__()[1][0], None
        elif kind is weakref.ref:
            yield f"{path}()", None, value, None
        elif kind is types.MappingProxyType:
            for held in gc.get_referents(value):
                yield path, None, functools.partial(_itself, held), None
        elif issubclass(kind, contextvars.ContextVar):
            yield f"{path}.get()", None, functools.partial(value.get, MISSING), value.set
        elif issubclass(kind, dict):
            # Of large ones the keys and values are compared as a whole.
            for name in itertools.islice(dict.keys(value), _MOST_ITEMS):
                yield (
                    f"{path}[{name!r}]" if is_plain(name) else f"{path}[...]", name,
                    _reader(dict.__getitem__, value, name), functools.partial(dict.__setitem__, value, name),
                )  # fmt: skip
        elif issubclass(kind, _SEQUENCES):
            base: Any = next(each for each in _SEQUENCES if issubclass(kind, each))
            put = base.__setitem__ if base is not tuple else None
            for index in range(min(base.__len__(value), _MOST_ITEMS)):
                yield (
                    f"{path}[{index}]", index, _reader(base.__getitem__, value, index),
                    put and functools.partial(put, value, index),
                )  # fmt: skip
        if issubclass(kind, type):
            yield from self._class(path, value)
        elif how.open or (self._wide and how.of_library):
            attributes = how.attributes(value) or {}
            for name in list(attributes):
                yield (
                    f"{path}.{name}", name, _reader(dict.__getitem__, attributes, name),
                    functools.partial(dict.__setitem__, attributes, name),
                )  # fmt: skip
            for name, member in how.members:
                put = functools.partial(member.__set__, value)
                yield f"{path}.{name}", name, _reader(member.__get__, value), put
            if self._deep and how.of_user:
                put = functools.partial(object.__setattr__, value, "__class__")
                yield f"{path}.__class__", None, functools.partial(type, value), put

    def _function(self, path: str, value: types.FunctionType) -> Iterator[tuple[str, Any, Any, Any]]:
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            yield name, None, _reader(_read_cell, cell), functools.partial(_write_cell, cell)
        around, names = value.__globals__, names_of(value.__code__)
        self._names |= names
        for name in names:
            if name in around:
                put = functools.partial(dict.__setitem__, around, name)
                yield name, None, _reader(dict.__getitem__, around, name), put
        for name in ("__defaults__", "__kwdefaults__", "__dict__", *(["__code__"] if self._deep else [])):
            if getattr(value, name):
                put = functools.partial(setattr, value, name)
                yield f"{path}.{name}", None, functools.partial(getattr, value, name), put

    def _class(self, path: str, value: type) -> Iterator[tuple[str, Any, Any, Any]]:
        """The places in a user class: attributes of the class and its bases, and the code of their methods."""
        for kind in type.mro(value) if type(value) is type else value.__mro__:
            if not self._is_looked_into(_module_of(kind)) or (kind is not value and id(kind) in self._seen):
                continue
            for name, item in list(vars(kind).items()):
                item = getattr(item, "__func__", item) if type(item) in (staticmethod, classmethod) else item
                if type(item) is property:
                    for fn in (item.fget, item.fset):
                        if fn is not None:
                            yield f"{path}.{name}", name, functools.partial(_itself, fn), None
                elif not name.startswith("__") or (self._deep and type(item) is types.FunctionType):
                    now = functools.partial(_of_class, kind, name)
                    yield f"{kind.__name__}.{name}", name, now, functools.partial(type.__setattr__, kind, name)

    def _named(self, root: str, path: str, value: Any) -> None:
        """The slots of a library object: the attributes that user code mentions."""
        how = _how(type(value))
        attributes = how.attributes(value) or {}
        for name in [name for name in self._names if name in attributes and name not in how.own]:
            if (id(value), name) not in self._seen:
                self._seen[id(value), name] = None  # type: ignore[index]
                now = _reader(dict.__getitem__, attributes, name)
                slot = Slot(root, f"{path}.{name}", name, now, functools.partial(dict.__setitem__, attributes, name))
                self._add(slot)
                self._value(root, slot.path, name, slot.before, 2 * _FURTHER if self._wide else _FURTHER)


def _itself(value: Any) -> Any:
    return value


def _of_class(kind: type, name: str) -> Any:
    found = vars(kind).get(name, MISSING)
    return found.__func__ if type(found) in (staticmethod, classmethod) else found


def _read_cell(cell: Any) -> Any:
    return cell.cell_contents


def _write_cell(cell: Any, value: Any) -> None:
    if value is MISSING:
        del cell.cell_contents
    else:
        cell.cell_contents = value


def _reader(read: Callable[..., Any], *owner: Any) -> Callable[[], Any]:
    def now() -> Any:
        try:
            return read(*owner)
        except (KeyError, IndexError, ValueError, AttributeError, RuntimeError):
            return MISSING  # it is not there any more; an empty cell

    return now


def _keys_of(items: dict[Any, Any], keep: bool) -> Contents:
    """The keys of a dict or the attribute names of an object; for a large one together with the values."""
    keys: Any = tuple(_base_of(items).keys(items))
    kept = {name: dict.__getitem__(items, name) for name in keys} if keep else None
    if len(keys) > _MOST_ITEMS:
        keys = (keys, [value if is_plain(value) else id(value) for value in dict.values(items)])
    return Contents(f"{len(items)} entries", keys, functools.partial(_keep_keys, items, kept))


def _base_of(items: dict[Any, Any]) -> Any:
    """The class whose methods define the order of a dict."""
    return OrderedDict if isinstance(items, OrderedDict) else dict


def _keep_keys(items: dict[Any, Any], kept: dict[Any, Any] | None) -> None:
    base = _base_of(items)
    for name in [] if kept is None else [name for name in dict.keys(items) if name not in kept]:
        base.__delitem__(items, name)
    for name in kept or ():
        if name not in items or len(items) > _MOST_ITEMS:
            base.__setitem__(items, name, (kept or {})[name])
    if kept is not None and list(base.keys(items)) != list(kept):
        now = {name: dict.__getitem__(items, name) for name in kept}
        base.clear(items)
        for name, value in now.items():
            base.__setitem__(items, name, value)


def contents_of(value: Any, left: list[int], most: int = SHORT.bytes) -> Callable[[], Contents] | None:
    """A function that returns the contents of a mutable object, or None. `left`: how many bytes of tensors may be copied."""
    kind = type(value)
    if not _how(kind).changes:
        return None
    if issubclass(kind, (list, deque)):
        return functools.partial(_contents_of_list, value, list if issubclass(kind, list) else deque)
    if issubclass(kind, set):
        return lambda: Contents(
            f"set of {len(value)}", frozenset(map(id, set(value))), functools.partial(_refill, value, set(value))
        )
    if issubclass(kind, np.ndarray):
        return _bytes_of(value, f"array {value.shape}", most)
    if issubclass(kind, np.random.Generator):
        return lambda: Contents("a generator of random numbers", pickle.dumps(value.bit_generator.state))
    if is_shared(value):
        return None  # other threads draw from it too, see `rfnb/rec/draws.py`
    if issubclass(kind, np.random.RandomState):
        return lambda: Contents("a generator of random numbers", pickle.dumps(value.get_state()))
    if issubclass(kind, random.Random):
        return lambda: Contents("a generator of random numbers", value.getstate())
    raw = value.__dict__.get("_raw") if issubclass(kind, Tensor) and kind.__dict__.get("_raw") is None else value
    if raw is not None and _how(type(raw)).torch:
        if hasattr(raw, "is_inference") and raw.is_inference():  # it has no version
            read = _bytes_of(raw, "a tensor", min(most, SHORT.bytes))
            left[0] -= 0 if read is None else raw.nbytes
            return read if left[0] >= 0 else None
        if hasattr(raw, "_version"):
            return lambda: Contents(f"a tensor of version {raw._version}", raw._version)
        if hasattr(raw, "get_state"):
            return lambda: Contents("a generator of random numbers", raw.get_state().tolist())
    if _is_buffer(kind):
        return functools.partial(_contents_of_buffer, value)
    if has_position(kind) and position_of(value) is not None:
        in_memory = kind in (io.StringIO, io.BytesIO)

        def position() -> Contents:
            shown, key = position_of(value) or ("closed", None)
            return Contents(shown, key, _again_in_memory(value) if in_memory else None)

        return position
    return None


def _again_in_memory(file: Any) -> Callable[[], Any]:
    """A function that restores the contents and position of an in-memory file."""
    kept, position = ("", 0) if file.closed else (file.getvalue(), file.tell())

    def again() -> None:
        file.seek(0)
        file.truncate()
        file.write(kept)
        file.seek(position)

    return again


def _contents_of_list(value: Any, base: Any) -> Contents:
    kept = base.copy(value)
    shown = f"{type(value).__name__} of {len(kept)}"
    return Contents(shown, tuple(map(id, kept)), lambda: (base.clear(value), base.extend(value, kept)))


def _refill(value: set[Any], kept: set[Any]) -> None:
    set.clear(value)
    set.update(value, kept)


def _is_buffer(kind: type) -> bool:
    """True for classes of plain memory: bytearray, array.array, memoryview, ctypes."""
    return issubclass(kind, (bytearray, memoryview)) or any(
        base.__module__ in ("array", "_ctypes") and base.__name__ in ("array", "_SimpleCData", "Array", "Structure")
        for base in kind.__mro__
    )


def _contents_of_buffer(value: Any) -> Contents:
    size = memoryview(value).nbytes
    kept = memoryview(value).tobytes() if size <= DEEP.bytes else b""

    def again() -> None:
        if len(kept) == size != memoryview(value).nbytes and hasattr(value, "extend"):  # it has grown
            del value[:]
            value.extend(kept if isinstance(value, bytearray) else type(value)(value.typecode, kept))
        memoryview(value).cast("B")[:] = kept

    return Contents(f"{size} bytes", kept, again)


def _bytes_of(array: Any, shown: str, most: int) -> Callable[[], Contents] | None:
    """The values of an array that is small enough to read; for one too large to copy, a checksum."""
    to_host = registry.BY_TYPE[type(array)].raw_to_numpy if type(array) in registry.BY_TYPE else np.asarray
    if array.nbytes > most:
        return None
    if array.nbytes > SHORT.bytes:
        return lambda: Contents(shown, zlib.adler32(np.ascontiguousarray(to_host(array)).view(np.uint8).data))
    if type(array) is np.ndarray and array.dtype.hasobject:
        return lambda: Contents(shown, tuple(map(id, array.ravel().tolist())))
    return lambda: Contents(shown, to_host(array).tobytes())


class _How:
    """The rules for searching the objects of a class.

    Attributes:
        closed: They are not searched: layers of rfnb, dims, plain values.
        tensor: They are Tensors.
        changes: `contents_of` may handle them; `torch`: as an array or a generator of torch.
        open: All of their attributes are searched, not only those that user code mentions; `of_user`: user code defines the class;
            `of_library`: a library that does not compute defines it; `layer`: a layer of rfnb, to which users attach attributes.
        own: Names of attributes that are internal to the class.
        members: (name, descriptor) of their `__slots__`.
        keys: Returns the dict whose keys are contents, or None.
    """

    def __init__(self, kind: type):
        module, name = _module_of(kind), kind.__name__
        self.tensor = issubclass(kind, Tensor)
        is_code = issubclass(kind, _CODE)
        self.torch = any(
            base.__module__ in ("torch", "torch._C") and base.__name__ in _OF_TORCH for base in kind.__mro__
        )
        in_place = (list, deque, set, np.ndarray, np.random.Generator, np.random.RandomState, random.Random, Tensor)
        holds = is_code or issubclass(
            kind, (dict, *_SEQUENCES, contextvars.ContextVar, weakref.ref, types.MappingProxyType)
        )
        self.of_user = _is_of_user(module) and not issubclass(kind, type)
        is_iterator = any(type(vars(base).get("__next__")) is types.FunctionType for base in kind.__mro__)
        self.open = self.of_user or f"{module}.{name}" in _OPEN or is_iterator
        self.changes = issubclass(kind, in_place) or self.torch or _is_buffer(kind) or has_position(kind)
        self.members = [
            (name, member)
            for base in kind.__mro__
            if _is_of_user(_module_of(base))
            for name, member in vars(base).items()
            if type(member) is types.MemberDescriptorType
        ]
        found = [vars(base)["__dict__"] for base in kind.__mro__ if "__dict__" in vars(base)]
        self._dict = next((each for each in found if type(each) in _DESCRIPTORS), None)
        self._local = issubclass(kind, threading.local)
        self.keys: Callable[[Any], Any] | None = None
        if issubclass(kind, dict):
            self.keys = _itself
        elif self.open and not is_code:
            self.keys = self.attributes
        is_module_or_class = issubclass(kind, (type, types.ModuleType))
        has_attributes = self._dict is not None or self._local or bool(self.members)
        looked_into = self.changes or holds or is_module_or_class or has_attributes
        self.of_library = _is_of_library(module) and not issubclass(kind, type)
        self.layer = module.startswith(_HUNG_ON) and self._dict is not None
        self.own = _own_names(kind) if self.layer and not module.startswith("rfnb.nn.") else frozenset()
        self.closed = not looked_into or (module.split(".")[0] == "rfnb" and not self.tensor) or id(kind) in PLAIN

    def attributes(self, value: Any) -> dict[str, Any] | None:
        """The instance attributes of an object of the class."""
        if self._local:
            return vars(value)
        found = None if self._dict is None else self._dict.__get__(value)
        return found if type(found) is dict else None


def _own_names(kind: type) -> frozenset[str]:
    """The names used in the methods of an rfnb class: these attributes are internal, like the step of a loop."""
    methods = [each for base in kind.__mro__ for each in vars(base).values() if isinstance(each, types.FunctionType)]
    return frozenset().union(*(names_of(method.__code__) for method in methods))


_HUNG_ON = tuple(f"rfnb.{room}." for room in ("nn", "rec", "search", "trace", "control"))


@kept_by_id(4096)
def _how(kind: type) -> _How:
    return _How(kind)


@kept_by_id(4096)
def names_of(code: types.CodeType) -> frozenset[str]:
    """The names of globals and attributes in code and its nested code."""
    inside = [names_of(each) for each in code.co_consts if isinstance(each, types.CodeType)]
    return frozenset(code.co_names).union(*inside)


def _module_of(kind: type) -> str:
    """The module of a class; user code that runs without `__name__` creates classes that look like Python's own."""
    module = kind.__module__ if isinstance(kind.__module__, str) else ""
    return "__main__" if module == "builtins" and kind.__flags__ & _MADE_BY_CODE else module


_MADE_BY_CODE = 1 << 9  # Py_TPFLAGS_HEAPTYPE
_COMPUTE = "rfnb", "torch", "numpy", "jax", "pytest", "_pytest", "IPython"


@functools.lru_cache(maxsize=1024)
def _is_of_library(module: Any) -> bool:
    """True for a library that may store what it receives, such as a metrics logger."""
    root = module.partition(".")[0] if isinstance(module, str) else "rfnb"
    return root not in _COMPUTE and root not in sys.stdlib_module_names and not _is_of_user(module)


@functools.lru_cache(maxsize=1024)
def _is_of_user(module: str) -> bool:
    if not isinstance(module, str):
        return False
    root = module.partition(".")[0]
    if root == "__main__":
        return True
    if root in sys.stdlib_module_names or root == "rfnb":
        return False
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return "site-packages" not in file and "dist-packages" not in file
