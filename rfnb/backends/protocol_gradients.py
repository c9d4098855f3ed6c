"""The part of the backend protocol for gradients, and for parameters, which change in place.

The defaults suit a library without gradients.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from rfnb.backends.missing_methods import written_by_backend


class Gradients:
    """The methods of `Backend` for gradients and parameters, and the basic methods that they need."""

    get_dtype_name_raw: Any
    get_device_raw: Any

    @classmethod
    def detach_raw(cls, raw: Any) -> Any:
        """The same values without gradient."""
        return raw

    @classmethod
    def kept_raw(cls, raw: Any) -> Any:
        """The form in which a trace keeps an array: without gradient, and copied if an optimizer may change it in place."""
        return cls.detach_raw(raw)

    @classmethod
    def parameter_raw(cls, raw: Any, trainable: bool) -> Any:
        """The array of a Parameter, made from an initial one."""
        return raw

    @written_by_backend
    def assign_raw(cls, param: Any, value: Any) -> None:
        """Copy `value` into the array of a parameter, in place, without gradient."""

    @written_by_backend
    def assign_at_raw(cls, param: Any, indices: tuple[Any, ...], value: Any, mask: np.ndarray | None) -> None:
        """param[indices] = value, in place, without gradient; one index per axis, broadcasting against each other and against `value`.
        Nothing is written where `mask` (of their full shape) is False.
        """

    @written_by_backend
    def convert_parameter_raw(cls, param: Any, dtype: str | None, device: str | None) -> Any:
        """The array of a parameter in another dtype or on another device; the same object if the library supports that."""

    @written_by_backend
    def set_requires_gradient_raw(cls, raw: Any, flag: bool) -> None:
        """Start or stop tracking gradients of this array, in place."""

    @classmethod
    def tracks_gradient_raw(cls, raw: Any) -> bool:
        """True if backward will need a gradient of `raw`."""
        return False

    @classmethod
    def tracks_gradients_raw(cls, a: Any, b: Any) -> bool:
        """True if `tracks_gradient_raw` holds for either."""
        return cls.tracks_gradient_raw(a) or cls.tracks_gradient_raw(b)

    @written_by_backend
    def gradient_raw(cls, y: Any, x: Any) -> Any:
        """dy/dx of a scalar y, which can be differentiated again."""

    @classmethod
    def grad_enabled(cls) -> bool:
        """True if gradients are tracked here."""
        return False

    @classmethod
    def graph_place_raw(cls, raw: Any) -> Any | None:
        """The place of an array in the gradient graph: hashable, the same for the same array. None if it is not tracked."""
        return None

    @classmethod
    def graph_inputs_raw(cls, place: Any) -> list[Any]:
        """The places from which a place was computed."""
        return []

    @classmethod
    def graph_order_raw(cls, place: Any) -> int:
        """A number that increases with the time of computation; -1 for a leaf."""
        return -1

    @classmethod
    def scaled_gradient_raw(
        cls, raw: Any, scale: Any, shift: Any | None, axis: int | None, mask: Any | None, absolute: bool
    ) -> Any:
        """`raw`, with its gradient multiplied by `scale`, plus `shift` (times the sum over `axis` of the gradient or its absolute
        values).

        `scale` and `shift` are numbers or broadcast. The gradient is 0 where `mask` (broadcasting; None: True everywhere) is False.
        """
        return raw

    @classmethod
    def checkpoint_scope(cls) -> Any:
        """A context manager: values computed inside are recomputed for backward instead of kept, random numbers included."""
        return contextlib.nullcontext()

    @classmethod
    def watch_draws(cls, draws: Callable[[str], None], *, trace: bool = False) -> Any:
        """A context manager that calls `draws` with the name of a function by which this thread is about to draw random numbers.
        Nothing is reported if the backend has no such functions. With `trace`, where possible, it also yields the list of
        `trace_calls`. Leaving twice has no effect.
        """
        return cls.trace_calls() if trace else contextlib.nullcontext()

    @classmethod
    def current_modes(cls) -> Callable[[], None]:
        """A function that restores in another thread the current settings of this one: gradients, modes of the library."""
        return lambda: None

    @classmethod
    def settings(cls) -> dict[str, str]:
        """The settings of the library that are shared by all threads and affect numbers, by name."""
        return {}

    @classmethod
    def trace_calls(cls) -> Any | None:
        """A context manager that yields the list of library calls made inside (`rfnb/backends/raw_calls.py`), from which recorded loops
        make programs. None if calls cannot be observed; such loops run op by op. Leaving twice has no effect.
        """
        return None

    # For the product of frames in all steps of a loop at once: each function that multiplies matrices with weights -> the places of
    # both and of the bias among its arguments, and the function that puts matrices side by side.
    products_raw: ClassVar[Mapping[Any, tuple[int, int, int]]] = {}
    join_raw: ClassVar[Any] = None

    @classmethod
    def product_ahead_raw(
        cls, fn: Any, parts: Sequence[Any], weight: Any, bias: Any
    ) -> tuple[Sequence[Any], Any, Any] | None:
        """For a function of `products_raw`, the products of factors known for all steps: the array that replaces the bias in each step,
        the weights for the unknown part, and a matrix without columns in case that part is empty. None if it does not pay or is
        impossible.

        Args:
            parts: The factors, from left to right: a list of the matrices of all steps; the matrix of one step, if only its shape is
                known; None for at most one unknown factor.
        """
        return None

    @classmethod
    def compile_raw(
        cls, fn: Callable[..., Any], how: str, *, changes: bool
    ) -> Callable[..., Callable[..., Any]] | None:
        """A function that takes the first arguments of `fn`, which are constant over a loop's steps, and returns a compiled function of
        the others, equivalent to `fn`, which only calls the library. None if that is impossible.

        Args:
            how: As in `rf.compile_loops`.
            changes: Whether `fn` writes into arrays.
        """
        return None

    @classmethod
    def signature_raw(cls, raw: Any) -> Any:
        """A summary of an array other than its shape, without reading values; comparable with `==`."""
        return cls.get_dtype_name_raw(raw), cls.get_device_raw(raw), cls.tracks_gradient_raw(raw)

    @written_by_backend
    def autocast_raw(cls, dtype: str) -> Any:
        """A context manager in which products are computed in `dtype`; softmax, norms, sums and losses return float32."""

    @classmethod
    def full_precision(cls) -> Any:
        """A context manager in which products are computed in the dtype of their arrays, even under `autocast_raw`."""
        return contextlib.nullcontext()

    @written_by_backend
    def no_grad(cls) -> Any:
        """A context manager without gradient bookkeeping."""
