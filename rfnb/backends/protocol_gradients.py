"""The part of the backend protocol that is about gradients, and about parameters, which change in place.

The defaults are those of a library without gradients.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from rfnb.backends.missing import written_by_backend


class Gradients:
    """The methods of `Backend` for gradients and parameters, and what they need of the basic ones."""

    get_dtype_name_raw: Any
    get_device_raw: Any

    @classmethod
    def detach_raw(cls, raw: Any) -> Any:
        """The same values without gradient."""
        return raw

    @classmethod
    def kept_raw(cls, raw: Any) -> Any:
        """The part of an array that a trace keeps: without gradient, and a copy of what an optimizer may change in place."""
        return cls.detach_raw(raw)

    @classmethod
    def parameter_raw(cls, raw: Any, trainable: bool) -> Any:
        """The array that a Parameter holds, made from an initial one."""
        return raw

    @written_by_backend
    def assign_raw(cls, param: Any, value: Any) -> None:
        """Copy `value` into the array of a parameter, in place, without gradient."""

    @written_by_backend
    def assign_at_raw(cls, param: Any, indices: tuple[Any, ...], value: Any, mask: np.ndarray | None) -> None:
        """param[indices] = value, in place, without gradient; one index per axis, broadcasting against each other and against
        `value`. Where `mask` (of their full shape) is False, nothing is written."""

    @written_by_backend
    def convert_parameter_raw(cls, param: Any, dtype: str | None, device: str | None) -> Any:
        """The array of a parameter in another dtype or on another device; the same object where the library can do that."""

    @written_by_backend
    def set_requires_gradient_raw(cls, raw: Any, flag: bool) -> None:
        """Track gradients of this array from now on, or no longer; in place."""

    @classmethod
    def tracks_gradient_raw(cls, raw: Any) -> bool:
        """Whether backward will ask for a gradient of `raw`."""
        return False

    @classmethod
    def tracks_gradients_raw(cls, a: Any, b: Any) -> bool:
        """`tracks_gradient_raw` of either."""
        return cls.tracks_gradient_raw(a) or cls.tracks_gradient_raw(b)

    @written_by_backend
    def gradient_raw(cls, y: Any, x: Any) -> Any:
        """dy/dx of a scalar y, which can be differentiated again."""

    @classmethod
    def grad_enabled(cls) -> bool:
        """Whether gradients are followed here."""
        return False

    @classmethod
    def graph_place_raw(cls, raw: Any) -> Any | None:
        """The mark of an array in the graph of gradients: hashable, the same for the same array. None: it is not tracked."""
        return None

    @classmethod
    def graph_inputs_raw(cls, place: Any) -> list[Any]:
        """The places that a place was computed from."""
        return []

    @classmethod
    def graph_order_raw(cls, place: Any) -> int:
        """A number that grows with the time at which the place was computed; -1 for a leaf."""
        return -1

    @classmethod
    def scaled_gradient_raw(
        cls, raw: Any, scale: Any, shift: Any | None, axis: int | None, mask: Any | None, absolute: bool
    ) -> Any:
        """`raw`; its gradient is times `scale`, plus `shift` (times the sum over `axis` of the gradient, or of its absolute values).

        `scale` and `shift` are numbers or broadcast. Where `mask` (broadcasting, None: everywhere) is False the gradient is 0.
        """
        return raw

    @classmethod
    def checkpoint_scope(cls) -> Any:
        """A context manager: what is computed inside is not kept for backward but computed again, random numbers too."""
        return contextlib.nullcontext()

    @classmethod
    def watch_draws(cls, draws: Callable[[str], None], *, trace: bool = False) -> Any:
        """A context manager: `draws` is called with the name of a function by which this thread is about to draw random numbers. None
        of them is known where the backend has no functions of its own for that. If `trace`, where that may be, it gives the list of
        `trace_calls` too. Leaving a second time does nothing."""
        return cls.trace_calls() if trace else contextlib.nullcontext()

    @classmethod
    def current_modes(cls) -> Callable[[], None]:
        """A function that makes current again in this thread what is current now: gradients, modes of the library."""
        return lambda: None

    @classmethod
    def settings(cls) -> dict[str, str]:
        """The settings of the library that are the same in all threads and make other numbers, by what they are called."""
        return {}

    @classmethod
    def trace_calls(cls) -> Any | None:
        """A context manager that gives the list of the calls of the library that are made in it (`rfnb/backends/raw_calls.py`), of
        which recorded loops make programs. None: they are not seen, and such loops run op by op. Leaving a second time does nothing."""
        return None

    # For the product of frames in all steps of a loop at once: each function that multiplies matrices with weights -> the places of
    # both and of the bias among its arguments, and the function that puts matrices side by side.
    products_raw: ClassVar[Mapping[Any, tuple[int, int, int]]] = {}
    join_raw: ClassVar[Any] = None

    @classmethod
    def product_ahead_raw(
        cls, fn: Any, parts: Sequence[Any], weight: Any, bias: Any
    ) -> tuple[Sequence[Any], Any, Any] | None:
        """The products of what is known of all steps, for a function of `products_raw`: what each step gives to it in place of the
        bias, the weights for all that is not known, and a matrix without columns for when that is nothing. None: it does not pay, or
        cannot be done.

        Args:
            parts: What is multiplied, from left to right: a list of the matrices of all steps; the matrix of one step, if only its
                shape is known; None for at most one of which nothing is.
        """
        return None

    @classmethod
    def compile_raw(
        cls, fn: Callable[..., Any], how: str, *, changes: bool
    ) -> Callable[..., Callable[..., Any]] | None:
        """A function that takes the first arguments of `fn`, which stay the same in all steps of a loop, and gives one that takes
        the others: it does what `fn` does, which makes calls of the library only, compiled. None: there is no way to.

        Args:
            how: As `rf.compile_loops`.
            changes: Whether `fn` writes into arrays.
        """
        return None

    @classmethod
    def signature_raw(cls, raw: Any) -> Any:
        """A summary of an array, besides its shape, without reading values; with `==`."""
        return cls.get_dtype_name_raw(raw), cls.get_device_raw(raw), cls.tracks_gradient_raw(raw)

    @written_by_backend
    def autocast_raw(cls, dtype: str) -> Any:
        """A context manager: products are computed in `dtype`; softmax, norms, sums and losses give float32."""

    @classmethod
    def full_precision(cls) -> Any:
        """A context manager: products are computed in the dtype of their arrays, also under `autocast_raw`."""
        return contextlib.nullcontext()

    @written_by_backend
    def no_grad(cls) -> Any:
        """A context manager without gradient bookkeeping."""
