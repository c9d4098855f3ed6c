"""Detects random draws by the body while it is recorded: ops may draw, the body may not, and other threads are ignored.

Python and NumPy share one generator among all threads, so the generator's state alone does not tell who drew. During recording their
functions report the calling thread; for torch, a thread-local mode does (`Backend.watch_draws`). A function imported by name is not
seen: if the state changed although no draw was reported, that is refused too, unless another thread has run meanwhile and may have held
such a function.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import random
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache
from itertools import repeat
from operator import itemgetter
from typing import Any

import numpy as np

from rfnb.backends import registry
from rfnb.core.intercept import one_of

_watches: list[DrawWatch] = []  # of all threads
_STILL = {"get_state", "get_bit_generator"}  # do not draw
_TORCH = ("torch", "torch.random")
# Devices have generators of their own.
_OF_DEVICES = ("torch.cuda", "torch.cuda.random", "torch.xpu", "torch.xpu.random", "torch.mps")
_SEEDS = ("manual_seed", "seed", "set_rng_state")
_PYTHON = ("random", "getrandbits", "seed")  # what all others call
_generator: Any = random._inst
_numpy_generator: Any = np.random.mtrand._rand
_MT19937_BYTES = 624 * 4 + 4  # its words and the position in them
# Those of NumPy, while nobody watches: what tells has no generator.
_NUMPY = [
    *(name for name in dir(np.random) if getattr(getattr(np.random, name), "__self__", None) is _numpy_generator
      and name not in _STILL),
    "seed",
]  # fmt: skip
_WORDS_OF_PYTHON = id(_generator) + object.__basicsize__
_NAMES = frozenset({*_PYTHON, *_NUMPY, "_watches"})  # in code that draws, or tells those who watched when it began


class DrawWatch:
    """Watches for random draws from `start` to `stop`.

    Args:
        own: Called with the name of a function by which this thread is about to draw.
    """

    def __init__(self, own: Callable[[str], None]):
        self._own, self._thread = own, threading.get_ident()
        self._told = self._others_draw = False
        self._on_backend: Any = contextlib.nullcontext()

    def start(self, *, trace: bool = False) -> Any:
        """Start watching. With `trace`, also return the list of calls of the array library (`Backend.trace_calls`)."""
        if not _watches:
            for functions in _places(all(name in sys.modules for name in _TORCH)):
                functions.look()
        _watches.append(self)
        _settle()
        self._others = _places_of_others(self._thread)
        # Draws nothing, but takes the lock of the generator: what another thread has begun to draw is drawn now. Not `with` that
        # lock, since an interrupt in it would keep it for ever.
        _numpy_generator.random_sample(0)
        self._state = _state()
        self._on_backend = registry.selected().watch_draws(self._own, trace=trace)
        return self._on_backend.__enter__()

    def stop(self) -> None:
        """Stop watching; a second call does nothing."""
        self._on_backend.__exit__(None, None, None)
        if self in _watches:
            _watches.remove(self)
        _settle()

    def tell(self, name: str) -> None:
        """Report an imminent draw."""
        if threading.get_ident() == self._thread:
            self._told = True
            self._own(name)
        else:
            self._others_draw = True

    def somebody_unseen(self) -> bool:
        """True if a generator state changed without a reported draw. Call it before `stop`, which ends the reports."""
        changed, still = self._state != _state(), self._others == _places_of_others(self._thread)
        # Last: a thread that draws while its place is compared may come round to the same one, but has told before.
        return changed and still and not self._others_draw

    def forgive(self) -> None:
        """Accept all draws so far: an op made them."""
        if self._told:
            self._told, self._state = False, _state()


def _places_of_others(own: int) -> dict[int, Any]:
    """The current instruction of every other thread, or a value that equals nothing: code that mentions a drawing function may be
    waiting for the generator's lock, or may return to the same instruction.
    """
    # Only its innermost frame, and no collection of garbage, which could let it run on: what Python makes of the frame of
    # a thread that leaves it at the same time is in memory that is something else by then.
    collecting = gc.isenabled()
    try:
        try:
            gc.disable()
            return {
                thread: (id(frame), frame.f_lasti) if _NAMES.isdisjoint(frame.f_code.co_names) else object()
                for thread, frame in sys._current_frames().items()
                if thread != own
            }
        finally:
            if collecting:
                gc.enable()
    finally:
        if collecting:
            gc.enable()


def is_shared(value: Any) -> bool:
    """True if this is the generator of Python or NumPy that all threads share."""
    return value is _generator or value is _numpy_generator


def library_files() -> tuple[str, ...]:
    """The files that define these functions."""
    folders = [os.path.dirname(sys.modules[name].__file__ or "") for name in ("torch", "numpy") if name in sys.modules]
    return (random.__file__, *(folder + os.sep for folder in folders))


def _state() -> Any:
    generator = _numpy_generator._bit_generator
    if type(generator) is np.random.MT19937:  # its `state` would be thirty times as long on the way
        numpy_state: Any = ctypes.string_at(generator.ctypes.state_address, _MT19937_BYTES)
    else:
        numpy_state = repr(generator.state)
    return numpy_state, _python_state()


def _python_state() -> Any:
    """The state of Python's generator; `getstate` would build an int for each of its words."""
    if not _words_are_there():
        return random.getstate()
    return ctypes.string_at(_WORDS_OF_PYTHON, _MT19937_BYTES), _generator.gauss_next


@cache
def _words_are_there() -> bool:
    """True if this Python stores position and words where CPython does."""
    kind = next(each for each in type(_generator).__mro__ if each.__module__ == "_random")
    if sys.implementation.name != "cpython" or kind.__basicsize__ < object.__basicsize__ + _MT19937_BYTES:
        return False
    position, *words = np.frombuffer(ctypes.string_at(_WORDS_OF_PYTHON, _MT19937_BYTES), np.uint32).tolist()
    return (*words, position) == random.getstate()[1]


class _Functions:
    """Functions of a module: the originals and the reporting wrappers."""

    def __init__(self, module: Any, names: Sequence[str]):
        self._module, self._names, self._of = module.__name__, names, itemgetter(*names)
        self._scope, self._plain = vars(module), ()
        self._both: tuple[Any, Any] = (), ()

    def look(self) -> None:
        """Read the current functions, which may have been replaced."""
        plain = self._of(self._scope)
        if plain != self._plain:
            told = [_telling(f"{self._module}.{name}", fn) for name, fn in zip(self._names, plain)]
            self._both = tuple(zip(self._names, plain)), tuple(zip(self._names, told))
            self._plain = plain

    def settle(self) -> None:
        """Install the functions that should be in place."""
        self._scope.update(one_of(self._both, _watches))


class _OfInstance:
    """The primitive functions of Python's generator, which its other functions look up on the instance."""

    def __init__(self) -> None:
        told = [(name, _telling(f"random.{name}", getattr(random, name))) for name in _PYTHON]
        self._scope, self._told = vars(_generator), told

    def look(self) -> None:
        pass

    def settle(self) -> None:
        self._scope.update(one_of(((), self._told), _watches))
        deque(map(self._scope.pop, one_of((_PYTHON, ()), _watches), repeat(None)), 0)


@cache
def _places(with_torch: bool) -> list[_Functions | _OfInstance]:
    """All functions that draw or set a state. The mode sees torch's draws; its seeds are not watched."""
    numpy = _Functions(np.random, _NUMPY)
    torch = [_Functions(sys.modules[name], _SEEDS) for name in _TORCH if with_torch]
    for module in [sys.modules[name] for name in _OF_DEVICES if name in sys.modules]:
        names = [name for seed in _SEEDS for name in (seed, f"{seed}_all") if hasattr(module, name)]
        torch.append(_Functions(module, names))
    return [numpy, _OfInstance(), _Functions(random, (*_PYTHON, "setstate")), *torch]


def _settle() -> None:
    """Install the reporting wrappers while a watch is active, else the originals."""
    for functions in _places(all(name in sys.modules for name in _TORCH)):
        functions.settle()


def _telling(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    def told(*args: Any, **kwargs: Any) -> Any:
        for watch in list(_watches):
            watch.tell(name)
        return fn(*args, **kwargs)

    return told
