"""Read-only torch tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_IN_PLACE = {f"__i{op}__" for op in "add sub mul truediv floordiv mod pow and or xor lshift rshift matmul".split()}
_WRITES = {"__setitem__", "__set__", *_IN_PLACE}  # `__set__`: `x.data = ...`
_HARMLESS = {"requires_grad_", "share_memory_"}


class ReadOnly(torch.Tensor):
    """Shares memory with a tensor; writing raises an error. Views of it are read-only too, other results plain."""

    refused: Callable[[], Exception]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        written = _written(func, args, kwargs)
        if written is not None:
            raise written.refused()
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
        own = next((arg for arg in args if isinstance(arg, ReadOnly)), None)
        return result if own is None else _views_of(own, result)

    def __deepcopy__(self, memo: Any) -> torch.Tensor:
        return self.clone()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.clone().__reduce_ex__(protocol)


def read_only(raw: torch.Tensor, refused: Callable[[], Exception]) -> ReadOnly:
    """`raw` for reading; writing raises `refused()`."""
    out = raw.as_subclass(ReadOnly)
    out.refused = refused
    return out


def _written(func: Any, args: Any, kwargs: dict[str, Any]) -> ReadOnly | None:
    name = getattr(func, "__name__", "")
    in_place = name in _WRITES or (name.endswith("_") and not name.endswith("__") and name not in _HARMLESS)
    targets = [*args[:1]] if in_place else []
    out = kwargs.get("out")
    targets += out if isinstance(out, (tuple, list)) else [out]
    return next((target for target in targets if isinstance(target, ReadOnly)), None)


def _views_of(own: ReadOnly, result: Any) -> Any:
    """Make every result that shares memory with `own` read-only."""
    if isinstance(result, torch.Tensor):
        if result.untyped_storage().data_ptr() != own.as_subclass(torch.Tensor).untyped_storage().data_ptr():
            return result.as_subclass(torch.Tensor) if isinstance(result, ReadOnly) else result
        return read_only(result, own.refused)
    if isinstance(result, (tuple, list)) and any(isinstance(each, torch.Tensor) for each in result):
        parts = [_views_of(own, each) for each in result]
        return type(result)(parts) if type(result) in (tuple, list) else type(result)(*parts)
    if hasattr(result, "flags") and hasattr(result.flags, "writeable") and result.base is not None:
        result.flags.writeable = False  # an array of NumPy that shares memory
    return result
