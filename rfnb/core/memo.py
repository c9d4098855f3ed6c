"""Arrays that are computed once and kept: masks, positions, counts. Their total size is bounded, wherever they are kept."""

from __future__ import annotations

import functools
import threading
import weakref
from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeVar

from rfnb.backends import registry

K = TypeVar("K")
V = TypeVar("V")
LIMIT = 256 << 20  # bytes
_LATEST = 256  # entries
_SMALLEST = 256  # bytes; what an entry costs without its array
_kept: deque[tuple[weakref.ref[Any], Any, int]] = deque()
_total = [0]
# `with` is enough for a lock: Python lets an interrupt come after calls and backward jumps, not between taking a lock and the block,
# nor between the block and giving it back. (Not so `lock.acquire()` before a `try`: that is a call.)
_lock = threading.Lock()
_look_at = [4096]  # entries: the number at which those are dropped whose holder is gone


def make_room(entries: dict[Any, Any], most: int) -> None:
    """Drop the oldest entries until one more fits within the limit."""
    while len(entries) >= most:
        entries.pop(next(iter(entries)), None)


def kept_by_id(most: int) -> Callable[[Callable[[K], V]], Callable[[K], V]]:
    """Cache fn(object) for the most recent objects. Objects are identified by id, since their hash may be slow or run user code; cached
    objects stay alive.
    """

    def decorate(fn: Callable[[K], V]) -> Callable[[K], V]:
        made: dict[int, tuple[K, V]] = {}

        @functools.wraps(fn)
        def wrapper(value: K) -> V:
            found = made.get(id(value))
            if found is None:
                make_room(made, most)
                found = made[id(value)] = value, fn(value)
            return found[1]

        return wrapper

    return decorate


class Memo(dict):
    """key -> array, computed once. In the function of a plan it starts empty for the dims of each batch."""

    def keep(self, key: Any, array: Any, size: int | None = None) -> Any:
        """Store a raw array or Tensor and return it; the oldest ones are dropped if the total exceeds the limit.

        Args:
            size: Its size in bytes, if known.
        """
        self[key] = array
        account(self, key, bytes_of(array) if size is None else size)
        return array


def account(holder: Any, key: Any, size: int) -> None:
    """Count an array that `holder` keeps under a key; `holder.pop(key, None)` releases it."""
    size += _SMALLEST
    _kept.append((weakref.ref(holder), key, size))
    _total[0] += size
    if _total[0] > LIMIT or len(_kept) > _look_at[0]:
        _shrink()


def is_kept(array: Any) -> bool:
    """True if a raw array is one of the most recently kept ones: the next request returns the same object."""
    for ref, key, _ in list(islice(reversed(_kept), _LATEST)):
        holder = ref()
        if isinstance(holder, dict):
            kept: Any = holder.get(key)
            # The class is asked whether it is a Tensor: an array of another library answers anything, or raises.
            if kept is array or (hasattr(kept.__class__, "_raw") and kept._raw is array):
                return True
    return False


def _shrink() -> None:
    """Drop released arrays; if the total is still too large, drop the oldest ones down to half the limit."""
    with _lock:
        alive = [entry for entry in (_kept.popleft() for _ in range(len(_kept))) if _is_there(*entry)]
        total, first = sum(size for _, _, size in alive), 0
        if total > LIMIT:
            while total > LIMIT // 2:
                ref, key, size = alive[first]
                holder = ref()
                if holder is not None:
                    holder.pop(key, None)
                total, first = total - size, first + 1
        _kept.extendleft(reversed(alive[first:]))
        _total[0], _look_at[0] = total, 2 * len(_kept) + 4096


def kept_bytes() -> int:
    """The size in bytes of all kept arrays."""
    return sum(entry[2] for entry in list(_kept) if _is_there(*entry))


def _is_there(ref: weakref.ref[Any], key: Any, size: int) -> bool:
    holder = ref()
    return holder is not None and key in holder


def bytes_of(array: Any) -> int:
    """The size in bytes of a raw array or of a Tensor's."""
    raw = array._raw if hasattr(type(array), "_raw") else array
    return int(registry.BY_TYPE[type(raw)].num_bytes_raw(raw))


def is_array(value: Any) -> bool:
    """True for a raw array, or a Tensor that has one."""
    return not registry.BY_TYPE.keys().isdisjoint(type(getattr(value, "_raw", value)).__mro__)
