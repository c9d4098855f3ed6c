"""Who draws random numbers while a body is recorded: ops may, the body itself may not, other threads are none of its business.

The generators of Python and NumPy are one for all threads, so that their states alone do not tell. While a body is recorded, their
functions tell which thread calls them; on torch a mode of the thread does (`Backend.watch_draws`). A function that somebody has
imported by its name is not seen; then the state has changed although nobody was seen to draw, and that is refused too, as long as no
other thread has ever been seen to draw.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

import numpy as np

from rfnb.backends import registry

_lock = threading.Lock()
_watches: list[Watch] = []
_others_draw = threading.Event()  # other threads were seen to draw: from then on, a changed state may be theirs
_STILL = {"get_state", "get_bit_generator"}  # do not draw
_PYTHON = ("random", "getrandbits", "seed")  # what all others call
_generator: Any = random._inst
_numpy_generator: Any = np.random.mtrand._rand


class Watch:
    """What draws, from `active()` on.

    Args:
        own: Called with the name of a function by which this thread is about to draw.
    """

    def __init__(self, own: Callable[[str], None]):
        self._own, self._thread = own, threading.get_ident()
        self._state: Any = None

    @contextmanager
    def active(self) -> Iterator[None]:
        """Watch in a with-block."""
        with _lock:
            _watches.append(self)
            if len(_watches) == 1:
                _put(telling=True)
        if self._others_are_drawing():
            _others_draw.set()
        with _numpy_generator._bit_generator.lock:  # what another thread has begun to draw is drawn now
            self._state = _state()
        try:
            with registry.selected().watch_draws(self._own):
                yield
        finally:
            with _lock:
                _watches.remove(self)
                if not _watches:
                    _put(telling=False)

    def _others_are_drawing(self) -> bool:
        """Whether another thread is inside of a function of `random`, with a function in hand that does not tell."""
        for thread, found in sys._current_frames().items():
            frame: FrameType | None = found if thread != self._thread else None
            while frame is not None:
                if frame.f_code.co_filename == random.__file__:
                    return True
                frame = frame.f_back
        return False

    def tell(self, name: str) -> None:
        """Somebody is about to draw."""
        if threading.get_ident() == self._thread:
            self._own(name)
        else:
            _others_draw.set()

    def somebody_unseen(self) -> bool:
        """Whether a state has changed, but nobody was seen, in this recording or an earlier one."""
        return not _others_draw.is_set() and self._state != _state()

    def forgive(self) -> None:
        """What was drawn until now is in order: an op did it."""
        self._state = _state()


def is_shared(value: Any) -> bool:
    """Whether it is the generator of Python or of NumPy that all threads use."""
    return value is _generator or value is _numpy_generator


def library_files() -> tuple[str, ...]:
    """Where the code of these functions begins."""
    folders = [os.path.dirname(sys.modules[name].__file__ or "") for name in ("torch", "numpy") if name in sys.modules]
    return (random.__file__, *(folder + os.sep for folder in folders))


def _state() -> Any:
    _, words, position, *_ = _numpy_generator.get_state()
    return np.asarray(words).tobytes(), position, random.getstate()


@cache
def _functions() -> dict[tuple[Any, str], tuple[Any, Any]]:
    """(module, name) -> the function, and the one that tells: of all that draw, or set a state."""
    drawing = [
        name for name in dir(np.random) if getattr(getattr(np.random, name), "__self__", None) is _numpy_generator
    ]
    places = [(np.random, name) for name in (*drawing, "seed") if name not in _STILL]
    places += [(random, name) for name in (*_PYTHON, "setstate")]
    # Draws of torch are seen by the mode; seeds are not.
    seeded = [sys.modules[name] for name in ("torch", "torch.random") if name in sys.modules]
    places += [(module, name) for module in seeded for name in ("manual_seed", "seed", "set_rng_state")]
    found = {(module, name): getattr(module, name) for module, name in places}
    return {(module, name): (fn, _telling(f"{module.__name__}.{name}", fn)) for (module, name), fn in found.items()}


def _telling(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    def told(*args: Any, **kwargs: Any) -> Any:
        for watch in list(_watches):
            watch.tell(name)
        return fn(*args, **kwargs)

    return told


def _put(*, telling: bool) -> None:
    """Make the functions of the modules those that tell, or the plain ones. In Python, others are made of three: they find these in
    the instance."""
    for (module, name), functions in _functions().items():
        setattr(module, name, functions[telling])
    for name in _PYTHON:
        if telling:
            setattr(_generator, name, _functions()[random, name][1])
        else:
            vars(_generator).pop(name, None)
