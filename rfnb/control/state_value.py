"""A state at a run's position: read as numbers, changed by names of dims."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rfnb.control.changes import as_given, entries_words, number_words, value_words
from rfnb.control.live_runs import PositionMember
from rfnb.control.named_entries import NamedEntries, by_name, under_names
from rfnb.control.numbers import Numbers, Reductions
from rfnb.core.dim import Dims
from rfnb.core.dim_mask import real_entries
from rfnb.core.errors import dim_error, index_error, shape_error, type_error, value_error
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import shape_of
from rfnb.core.whole_number import whole
from rfnb.ops.defaults import copy_to_device
from rfnb.ops.where import where
from rfnb.search.labels import text_index
from rfnb.trace.host_copies import values_of

Make = Callable[["StateValue"], Tensor]
"""Computes the new tensor of a state from the state in the same run."""

_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028235e38}


class StateValue(PositionMember, Reductions):
    """A state tensor as it is before the step.

        h = run.at.states["h"]
        h.tensor                                              # with its dims
        h.max() > 5                                           # numbers, as breakpoints want them; padding does not count
        h[{"batch": 0, "hidden": slice(3, 5)}] = 0.0          # some entries, by dim or its name
        h[...] = other                                        # all: a number, an array, a Tensor with these dims or fewer;
                                                              # values of another device are copied to that of the state
        h.scale(0.5, {"batch": 1})
        h.add_noise(0.1, seed=3)
        h.paste(of={"batch": 1}, to={"batch": 0})             # from another sequence or hypothesis
        h.paste(run.look(3)["h"])                             # from another step
        run.at.states["label"][{"batch": 0}] = "AH"           # labels by text, where they have a vocabulary

    Args:
        name: The dotted path of the state.
        put: Changes the state in place: called with a function that makes the new tensor, and a description.
    """

    def __init__(self, name: str, tensor: Tensor, put: Callable[[Make, str], None]):
        self.name, self.tensor, self._put = name, tensor, put

    def __repr__(self) -> str:
        return f'<state "{self.name}": {shape_of(self.tensor)} {self.tensor.dtype}>'

    @property
    def dims(self) -> Dims:
        """The dims of the tensor."""
        return self.tensor.dims

    def numpy(self) -> np.ndarray:
        """All entries on the host, axes in the order of `dims`."""
        return self.tensor.numpy()

    def numbers(self) -> Numbers:
        """The entries with their dims, for computation."""
        return Numbers.of(self.tensor)

    @property
    def zero(self) -> float | int | bool:
        """The zero of its dtype."""
        return False if self.tensor.dtype == "bool" else 0 if "int" in self.tensor.dtype else 0.0

    # -- some of its entries -----------------------------------------------------------------------------------------------

    def __getitem__(self, entries: Any) -> np.ndarray:
        return self._chosen(entries).of(self.numpy())

    def __setitem__(self, entries: Any, value: Any) -> None:
        entries, value = by_name(entries, self.dims), as_given(value)
        said = f"the values of state {value.name}" if isinstance(value, StateValue) else value_words(value)
        self._do(entries, f"set to {said}", lambda now: now.changed(entries, value))

    def scale(self, factor: float, entries: Any = ...) -> None:
        """Multiply entries of a float state."""
        if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not math.isfinite(factor):
            raise type_error(
                f'state "{self.name}": invalid factor {factor!r}.',
                {"factor": repr(factor)},
                "A factor is a finite number.",
            )
        entries = by_name(entries, self.dims)
        self._do(entries, f"times {number_words(factor)}", lambda now: now._computed(entries, lambda x: x * factor))

    def add_noise(self, std: float, entries: Any = ..., *, seed: int = 0) -> None:
        """Add normally distributed numbers to entries of a float state; the same for the same seed, independent of other draws."""
        if isinstance(std, bool) or not isinstance(std, (int, float)) or not 0 <= std < math.inf:
            raise value_error(
                f'state "{self.name}": invalid standard deviation {std!r}.',
                {"std": repr(std)},
                "A standard deviation is a number of at least 0.",
            )
        number = whole(seed)
        if number is None or number < 0:
            raise value_error(
                f'state "{self.name}": invalid seed {seed!r}.',
                {"seed": repr(seed)},
                "A seed is an integer of at least 0; equal seeds give equal noise.",
            )
        entries = by_name(entries, self.dims)

        def noisy(x: np.ndarray) -> np.ndarray:
            return x + std * np.random.default_rng(seed).standard_normal(x.shape)

        words = f"with noise of {number_words(std)}, seed {seed}"
        self._do(entries, words, lambda now: now._computed(entries, noisy))

    def paste(self, source: Any = None, *, of: Any = ..., to: Any = ...) -> None:
        """Copy entries from another step, sequence or hypothesis.

        Args:
            source: A StateValue, Tensor or array; by default this state itself, at the time of the change.
            of: The entries to copy; an array is copied whole.
            to: The entries to overwrite; their dims must have the names and sizes of the copied entries.
        """
        if source is not None and not isinstance(source, (StateValue, Tensor)):
            self[to] = source
            return
        tensor = source.tensor if isinstance(source, StateValue) else source
        of, to = by_name(of, self.dims if tensor is None else tensor.dims), by_name(to, self.dims)
        name = source.name if isinstance(source, StateValue) else "a tensor" if source is not None else self.name
        words = f"set to {entries_words(name, of)}" + ("" if source is None else " as it was")
        self._do(to, words, lambda now: now._pasted(now.tensor if tensor is None else tensor, of, to))

    def _do(self, entries: Any, words: str, make: Make) -> None:
        self._put(make, f"{entries_words(self.name, entries)} {words}")

    def changed(self, entries: Any, value: Any) -> Tensor:
        """The tensor with new values in some entries.

        Raises:
            DimError, ShapeError, IndexError, TypeError: If they do not match.
        """
        chosen = self._chosen(entries)
        self._check_some_real(chosen)
        if isinstance(value, StateValue):
            value = value.tensor
        if not isinstance(value, Tensor):
            return self._with(chosen, self._filled(chosen, value))
        # Who changes a state by hand gives values: also those of another run, on another device.
        return self._with(chosen, copy_to_device(under_names(value, self.dims), self.tensor.device))

    def _computed(self, entries: Any, fn: Callable[[np.ndarray], np.ndarray]) -> Tensor:
        """The tensor with some entries replaced by a function of them."""
        if "float" not in self.tensor.dtype:
            raise type_error(
                f'state "{self.name}": its values are not numbers to compute with.',
                {"state": f"{shape_of(self.tensor)} {self.tensor.dtype}"},
                "Labels, flags and counts can be set, but not scaled or perturbed.",
            )
        return self.changed(entries, fn(self[entries].astype(np.float64)))

    def _pasted(self, source: Tensor, of: Any, to: Any) -> Tensor:
        chosen, target = NamedEntries(self._what, of, source.dims, f"{self._code}.paste(of="), self._chosen(to)
        wanted = [dim.name for dim in target.dims]
        names = [dim.name for dim in chosen.dims]
        sizes = dict(zip(names, chosen.shape))
        same = sorted(wanted) == sorted(names) and len(set(names)) == len(names)
        if source.dtype != self.tensor.dtype or not same or [sizes[name] for name in wanted] != list(target.shape):
            raise dim_error(
                f'state "{self.name}": the pasted values do not fit.',
                {
                    "entries": f"{_sized(target)} {self.tensor.dtype}",
                    "pasted": f"{_sized(chosen)} {source.dtype}",
                },
                "Both need dims of the same names and sizes, and the same dtype. Select an entry of a dim that only one of them has.",
            )
        host = chosen.of(source.numpy())
        return self.changed(to, host.transpose([names.index(name) for name in wanted]))

    def _with(self, chosen: NamedEntries, new: Tensor) -> Tensor:
        """The tensor with the values of another one in the selected entries."""
        self._check(new)
        old, mask = self.tensor, chosen.mask()
        if not mask.all() or new.dims != old.dims:
            raw = old.backend.from_numpy(mask, dtype="bool", device=old.device)
            new = where(new_tensor(raw, self.dims), new, old, allow_broadcast_all_sources=True)
            new = new.copy_transpose(old.dims)
        new.sparse_dim = old.sparse_dim
        return new

    @property
    def _what(self) -> str:
        return f'state "{self.name}"'

    @property
    def _code(self) -> str:
        return f'run.at.states["{self.name}"]'

    def _chosen(self, entries: Any) -> NamedEntries:
        return NamedEntries(self._what, entries, self.dims, self._code)

    def _check_some_real(self, chosen: NamedEntries) -> None:
        real = real_entries(self.dims)
        if real is not None and not chosen.of(real).any():
            raise index_error(
                f"{self._what}: these entries are padding.",
                {"state": self.tensor},
                "Padding has no effect: a sequence has as many frames as its length.",
            )

    def _filled(self, chosen: NamedEntries, value: Any) -> Tensor:
        """The value at the selected places, as a Tensor over all dims."""
        old = self.tensor
        value = self._labels(values_of(value))
        self._check_kind(value)
        try:
            value = np.broadcast_to(value, chosen.shape)
        except ValueError:
            raise shape_error(
                f'state "{self.name}": the values do not fit.',
                {"entries": chosen.shape, "values": value.shape},
                "An array has one value per entry, in the order of the state's dims; a number applies to all entries.",
            ) from None
        host = np.zeros([dim.extent for dim in self.dims], value.dtype)
        chosen.put(host, value)
        return new_tensor(old.backend.from_numpy(host, dtype=old.dtype, device=old.device), self.dims)

    def _labels(self, value: np.ndarray) -> np.ndarray:
        """Texts as label indices."""
        labels = self.tensor.sparse_dim
        if value.dtype.kind != "U" or labels is None:
            return value
        return np.array([text_index(str(text), labels, self._what) for text in value.reshape(-1)]).reshape(value.shape)

    def _check_kind(self, value: np.ndarray) -> None:
        whole, dtype = value.dtype.kind in "iub", self.tensor.dtype
        if (
            value.dtype.kind not in "iubf"
            or (not whole and "float" not in dtype)
            or (value.dtype.kind != "b" and dtype == "bool")
        ):
            raise type_error(
                f'state "{self.name}": the values have the wrong dtype.',
                {"state": dtype, "values": value.dtype},
                "A state keeps its dtype.",
            )
        numbers = value[np.isfinite(value)] if value.dtype.kind == "f" else value
        least, most = _range_of(dtype)
        if numbers.size and not least <= numbers.min() <= numbers.max() <= most:
            raise value_error(
                f'state "{self.name}": the values exceed the range of its dtype.',
                {"state": dtype, "values": f"{numbers.min()} to {numbers.max()}"},
                f"A {dtype} is {least} to {most}.",
            )
        if self.tensor.sparse_dim is not None and value.size:
            labels = self.tensor.sparse_dim
            if not 0 <= value.min() <= value.max() < labels.extent:
                raise index_error(
                    f'state "{self.name}": label out of range.',
                    {"values": f"{value.min()} to {value.max()}", "labels": labels},
                    f"Labels are 0 to {labels.extent - 1}.",
                )

    def _check(self, new: Tensor) -> None:
        old = self.tensor
        if set(new.dims) - set(old.dims) or new.dtype != old.dtype:
            raise dim_error(
                f'state "{self.name}": the value has the wrong dims or dtype.',
                {"state": f"{shape_of(old)} {old.dtype}", "given": f"{shape_of(new)} {new.dtype}"},
                "The new Tensor needs the dtype of the state, and the same dims or fewer.",
            )


def _range_of(dtype: str) -> tuple[float, float]:
    if dtype == "bool":
        return 0, 1
    if "int" in dtype:
        return np.iinfo(dtype).min, np.iinfo(dtype).max
    most = _LARGEST.get(dtype, math.inf)
    return -most, most


def _sized(chosen: NamedEntries) -> str:
    """The dims of a selection, with sizes."""
    return f"[{', '.join(f'{dim.name}={size}' for dim, size in zip(chosen.dims, chosen.shape))}]"
