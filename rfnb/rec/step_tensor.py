"""The values in the body of a recorded loop (`with loop:`): tensors of the first step that remember their origin."""

from __future__ import annotations

import sys
from typing import Any

from rfnb.core.dim import Dim, Dims
from rfnb.core.errors import ErrorOf
from rfnb.core.pickling import NotPicklable
from rfnb.core.place import place_of_user, place_text
from rfnb.core.tensor import Tensor, new_tensor
from rfnb.core.tensor_text import shape_of


class RecordingError(RuntimeError):
    """The body of a recorded loop does something that cannot be repeated for the other steps."""


recording_error = ErrorOf(RecordingError)


class Owner:
    """The recording of a loop, as seen by its StepTensors.

    Attributes:
        busy: True while an op or the loop, not the body, reads dims.
    """

    __slots__ = ("busy", "loop_name")

    def __init__(self, loop_name: str):
        self.loop_name, self.busy = loop_name, False


class StepTensor(NotPicklable, Tensor):
    """A value of the first step, with the register that holds its counterpart in each step.

    Its owner identifies the loop; in a nested loop, the value may be a StepTensor of the outer one. Ops see the value (the Recorder
    passes it to them); any other access to the raw array raises an error, since the first step's array would be used for all steps.
    """

    def __init__(self, value: Tensor, register: int, owner: Owner):
        self.name = value.name
        self._dims, self.dims_seen = value.dims, False
        if value.sparse_dim is not None:
            self.sparse_dim = value.sparse_dim
        if value._feature_dim is not None:
            self._feature_dim = value._feature_dim
        self.value, self.register, self.owner = value, register, owner
        self._made_with = value.sparse_dim, value._feature_dim
        self._used_with: tuple[Any, ...] = ()

    @property
    def dims(self) -> Dims:  # type: ignore[override]
        """The dims; the body gets those of the first step. Layers of rfnb name the dims they mean."""
        if not self.owner.busy and not sys._getframe(1).f_globals.get("__name__", "").startswith("rfnb."):
            self.dims_seen = True
        return self._dims

    @property
    def _raw(self) -> Any:
        raise self._refused("reads the values")

    @_raw.setter
    def _raw(self, value: Any) -> None:
        raise self._refused("changes the values")

    def _refused(self, what: str) -> RecordingError:
        return recording_error(
            f'Loop "{self.owner.loop_name}", recorded step: {place_text(place_of_user(1))} {what} of a tensor of the step.',
            {"tensor": f"{shape_of(self)} {self.dtype}"},
            "The body of `with loop:` runs once, so Python would read the value of the first step in all steps.\n"
            "Compute with tensors (rf.where instead of if), or let Python run every step:",
            "for _ in loop:",
        )

    def marked_value(self) -> Tensor:
        """The value with the marks that the body has set since it was created."""
        value, marks = self.value, (self.sparse_dim, self._feature_dim)
        self.mark(value)
        if marks not in self._used_with:
            self._used_with += (marks,)
        return value

    def forget(self, like: dict[Any, Tensor]) -> None:
        """Keep only dims and dtype; `like` holds templates of the dtypes seen."""
        value, key = self.value, None
        if (
            value.__class__ is Tensor and value._raw is not None
        ):  # else an interrupt has come, and this is the second time
            key = value.backend.dtype_key_raw(value._raw)
        if key is None or key not in like:
            like[key] = new_tensor(None, ())
            like[key]._dtype = value.dtype
        self.value = like[key]

    @property
    def was_marked(self) -> bool:
        """True if the body has set marks on it."""
        return self._made_with != (self.sparse_dim, self._feature_dim)

    @property
    def marked_late(self) -> bool:
        """True if an op received it with other marks than its final ones."""
        return any(marks != (self.sparse_dim, self._feature_dim) for marks in self._used_with)

    def mark(self, value: Tensor) -> None:
        """Set the sparse_dim and feature_dim of this on `value`."""
        if value.sparse_dim is not self.sparse_dim:
            value.sparse_dim = self.sparse_dim
        if value._feature_dim is not self._feature_dim:
            value._feature_dim = self._feature_dim

    def __repr__(self) -> str:
        return f"StepTensor{{'{self.name}', {shape_of(self)} {self.dtype} of loop {self.owner.loop_name}}}"

    @property  # type: ignore[misc]
    def dtype(self) -> str:
        return self.value.dtype

    @property
    def device(self) -> str | None:
        return self.value.device

    @property
    def backend(self) -> Any:
        return self.value.backend


class StepDim(Dim):
    """A dim during the recording that each step replaces (a growing history, a dim created by an op of the step): its size differs from
    step to step, so only ops may read it.
    """

    @property
    def size(self) -> int | None:
        self._only_ops()
        return self.__dict__["size"]

    @size.setter
    def size(self, value: int | None) -> None:
        self.__dict__["size"] = value

    @property
    def extent(self) -> int:
        self._only_ops()
        return super().extent

    @property
    def lengths(self) -> Any:
        self._only_ops()
        return super().lengths

    @property
    def dyn_size_ext(self) -> Tensor | None:
        self._only_ops()
        return super().dyn_size_ext

    @dyn_size_ext.setter
    def dyn_size_ext(self, value: Any) -> None:
        raise self._refused("sets the size")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise self._refused("pickles")

    def short_repr(self) -> str:
        """The name alone."""
        return super().short_repr() if self.__dict__["owner"].busy else f"{self.name}=?"

    def __repr__(self) -> str:
        return f"Dim{{{self.short_repr()}}}"

    def _only_ops(self) -> None:
        if not self.__dict__["owner"].busy:
            raise self._refused("reads the size")

    def _refused(self, what: str) -> RecordingError:
        return recording_error(
            f'Loop "{self.__dict__["owner"].loop_name}", recorded step: {place_text(place_of_user(1))} {what} of a dim that'
            " differs from step to step.",
            {"dim": f'"{self.name}"'},
            "The body of `with loop:` runs once, so Python would read the size of the first step in all steps.\n"
            "Let Python run every step:",
            "for _ in loop:",
        )


def begin_growing(dim: Dim, owner: Owner) -> None:
    """Hide the size of `dim` from everything but ops."""
    dim.__dict__["owner"] = owner
    dim.__class__ = StepDim


def end_growing(dim: Dim) -> None:
    """Turn it back into a plain Dim."""
    dim.__class__ = Dim
    dim.__dict__.pop("owner", None)
