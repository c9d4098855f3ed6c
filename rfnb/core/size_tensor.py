"""The Tensor of a dim's lengths (`dim.dyn_size_ext`): assigning a raw array to it sizes the dim, and the array must not be modified in
place.

time = Dim(Tensor("time", [batch], dtype="int32"))     # a template: the sizes come later
time.dyn_size_ext.raw_tensor = torch.tensor([5, 4, 2], dtype=torch.int32)
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from rfnb.core.errors import type_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of

if TYPE_CHECKING:
    from rfnb.core.dim import Dim


_plain_raw_tensor: Any = Tensor.__dict__["raw_tensor"]


class SizeTensor(Tensor):
    """The lengths of a dim. Copies and results of ops are plain Tensors."""

    @classmethod
    def of(cls, dim: Dim, tensor: Tensor) -> SizeTensor:
        """`tensor` itself as the lengths of `dim`; a template may serve several dims."""
        if not isinstance(tensor, cls):
            tensor = tensor if type(tensor) is Tensor else tensor.copy()
            tensor.__class__ = cls
        assert isinstance(tensor, cls)
        tensor.__dict__.setdefault("_sized", []).append(weakref.ref(dim))
        return tensor

    @property
    def raw_tensor(self) -> Any:
        """The raw array, for reading. Assigning sizes the dim."""
        return None if self._raw is None else self.backend.read_only_raw(self._raw, self._written)

    @raw_tensor.setter
    def raw_tensor(self, raw: Any) -> None:
        dims = [dim for dim in (ref() for ref in self.__dict__.get("_sized", ())) if dim is not None]
        for dim in dims:
            dim.check_assignable("dyn_size_ext.raw_tensor")
        _plain_raw_tensor.__set__(self, raw)
        for dim in dims:
            if raw is None:
                dim.reset_eager()
            else:
                dim.dyn_size_ext = self

    placeholder = raw_tensor

    def _written(self) -> TypeError:
        refs = self.__dict__.get("_sized", ())
        name = next((dim.name for dim in (ref() for ref in refs) if dim is not None), "dim")
        name = name if name.isidentifier() else "dim"
        return type_error(
            f'Dim "{name}": its lengths are written in place.',
            {"lengths": f"{shape_of(self)} {self.dtype}"},
            "Masks and plans are made of lengths once, and would not hear of it. Assign others:",
            f"{name}.dyn_size_ext = rf.minimum({name}.dyn_size_ext, 5)    # any op makes others",
        )

    def __reduce__(self) -> Any:
        """A plain Tensor: in a pickle the dim carries its own lengths."""
        state = {name: value for name, value in self.__dict__.items() if name != "_sized"}
        return _plain, (state,)


def _plain(state: dict[str, Any]) -> Tensor:
    out = Tensor.__new__(Tensor)
    out.__dict__.update(state)
    return out
