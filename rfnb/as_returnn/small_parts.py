"""The small parts of RETURNN that models and their configurations import in addition to its frontend."""

from __future__ import annotations

import getpass
import traceback
from collections.abc import Mapping
from typing import Any

import numpy as np

from rfnb.core.errors import message as text_of
from rfnb.core.errors import value_error
from rfnb.core.place import warn_user
from rfnb.core.tensor_dict import TensorDict


# -- util.basic --------------------------------------------------------------------------------------------------------
class BehaviorVersion:
    """The version of documented behaviour; here always the newest, so older ones are reported as unavailable.

    A minimum that a program requires is always met.
    """

    _latest = 30

    @classmethod
    def get(cls) -> int:
        """The newest version."""
        return cls._latest

    @classmethod
    def set(cls, version: int | None) -> None:
        """Check that this version exists; for older ones a warning says that they behave like the newest.

        Raises:
            ValueError: If it is newer than the newest documented one.
        """
        cls.require(version is None or version <= cls._latest, f"no version {version}", cls._latest)
        if version is not None and version < cls._latest:
            rows = [("asked for", version), ("here", cls._latest)]
            warn_user(text_of("BehaviorVersion: the newest one is used.", rows, "There is no switch to older ones."))

    @classmethod
    def require(cls, condition: bool, message: str, version: int) -> None:
        """Check a condition that must hold from a version on.

        Raises:
            ValueError: If it does not hold.
        """
        if not condition and version <= cls._latest:
            rows = [("here", cls._latest), ("since", version)]
            raise value_error(f"BehaviorVersion: {message}.", rows, "The behaviour here is that of the newest version.")


def get_login_username() -> str:
    """The login name of the user."""
    return getpass.getuser()


# -- util.math ---------------------------------------------------------------------------------------------------------
def ceil_div(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def next_power_of_two(n: int) -> int:
    """The smallest power of two that is at least n, and at least 1."""
    return 1 << max(n - 1, 0).bit_length()


class PiecewiseLinear:
    """A piecewise linear function of one number, constant before the first point and after the last.

    Args:
        values: x -> y.
        kw_name: A keyword under which x may be passed, too.
        ignore_other_kwargs: Whether other keywords are accepted and ignored.
    """

    def __init__(self, values: Mapping[float, float], *, kw_name: str | None = None, ignore_other_kwargs: bool = False):
        self._xs, self._ys = zip(*sorted(values.items()))
        self._kw_name, self._ignore_other_kwargs = kw_name, ignore_other_kwargs

    def __call__(self, *args: float, **kwargs: Any) -> float:
        if self._kw_name in kwargs:
            args = (*args, kwargs.pop(self._kw_name))
        if len(args) != 1 or (kwargs and not self._ignore_other_kwargs):
            raise TypeError(f"PiecewiseLinear: one number, {self._kw_name or 'by position'}; got {args} {kwargs}")
        return float(np.interp(args[0], self._xs, self._ys))


# -- forward_iface -----------------------------------------------------------------------------------------------------
class ForwardCallbackIface:
    """The receiver of the outputs of a forward pass, sequence by sequence; called by the program that runs a model."""

    def init(self, *, model: Any) -> None:
        """Called before the first sequence."""

    def process_seq(self, *, seq_tag: str, outputs: TensorDict) -> None:
        """Called with the outputs of one sequence, without batch dim, as NumPy arrays."""

    def finish(self) -> None:
        """Called after the last sequence."""


# -- util.better_exchook -----------------------------------------------------------------------------------------------
def install(*args: Any, **kwargs: Any) -> None:
    """Does nothing: Python and notebooks show their own tracebacks, and messages here already describe the operands."""


def better_exchook(etype: Any, value: Any, tb: Any, **kwargs: Any) -> None:
    """Print a traceback, like Python."""
    traceback.print_exception(etype, value, tb, file=kwargs.get("file"))
