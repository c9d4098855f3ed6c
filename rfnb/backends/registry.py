"""The computing backend: the one that a raw array belongs to, and for new tensors the selected one.

The selection belongs to the context (`contextvars`), so threads do not affect each other. A backend is loaded when first needed, so that
`import rfnb` does not load torch.
"""

from __future__ import annotations

import importlib
from contextvars import ContextVar
from typing import Any

import numpy as np

from rfnb.backends.protocol import Backend


class _ByType(dict[type, type[Backend]]):
    """The backend of a raw array type, `BY_TYPE[type(raw)]`; a new type gets that of its base class.

    Raises:
        TypeError: If no backend is registered for it.
    """

    def __missing__(self, tensor_type: type) -> type[Backend]:
        for base in tensor_type.__mro__[1:]:
            if base in self:
                self[tensor_type] = self[base]
                return self[base]
        if tensor_type.__module__.partition(".")[0] == "torch" and "torch" not in _loaded:
            _load("torch")
            return self[tensor_type]
        if issubclass(tensor_type, (np.ndarray, np.generic)) and "numpy" not in _loaded:
            _load("numpy")
            return self[tensor_type]
        known = ", ".join(sorted(f"{type_.__module__}.{type_.__name__}" for type_ in self)) or "none"
        raise TypeError(
            f"No backend for raw arrays of type {tensor_type.__module__}.{tensor_type.__name__}.\n  known  {known}\n"
            "A raw array is a torch or NumPy array, or of a registered type. Convert it first:\n"
            "    rf.convert_to_tensor(value, dims=[...])"
        )


BY_TYPE = _ByType()
_selected: ContextVar[type[Backend] | None] = ContextVar("rfnb_backend", default=None)
_chosen = [False]  # whether anybody has selected one: before, nobody asks the context, which torch.compile could not


def register_backend_by_tensor_type(tensor_type: type, backend: type[Backend]) -> None:
    """Register `backend` for raw arrays of `tensor_type` and its subclasses."""
    BY_TYPE[tensor_type] = backend


def get_backend_by_raw_tensor_type(tensor_type: type) -> type[Backend]:
    """The backend of a raw array type.

    Raises:
        TypeError: If no backend is registered for it.
    """
    return BY_TYPE[tensor_type]


def is_raw_tensor_type(tensor_type: type) -> bool:
    """True if raw arrays of this type belong to a loaded backend."""
    return not BY_TYPE.keys().isdisjoint(tensor_type.__mro__)


def get_backend_by_tensor(tensor: Any, *, fallback: Any = None) -> Any:
    """The backend of a Tensor, or `fallback` if it has no raw array."""
    raw = tensor.raw_tensor
    return fallback if raw is None and fallback is not None else BY_TYPE[type(raw)]


def select_backend(name: str) -> None:
    """Choose the backend of new tensors: "torch" (the default), "numpy", or the name of a registered backend.

    Raises:
        ValueError: For another name.
    """
    registered = {backend.name: backend for backend in BY_TYPE.values()}
    if name not in _MODULES and name not in registered:
        known = ", ".join(dict.fromkeys((*_MODULES, *registered)))
        if name in _NOT_OFFERED:
            raise ValueError(
                f'select_backend: "{name}" is documented, but not offered.\n  offered  {known}\n'
                f'{_NOT_OFFERED[name]}\n    rf.select_backend("torch")'
            )
        raise ValueError(
            f'select_backend: unknown backend "{name}".\n  known  {known}\n'
            'rfnb runs on torch, with NumPy as the readable reference.\n    rf.select_backend("torch")'
        )
    _chosen[0] = True
    _selected.set(_load(name) if name in _MODULES else registered[name])


def select_backend_torch() -> None:
    """Make new tensors with torch."""
    select_backend("torch")


def select_backend_numpy() -> None:
    """Make new tensors with NumPy."""
    select_backend("numpy")


def select_backend_tf() -> None:
    """Documented, but not offered: raises the ValueError of `select_backend`."""
    select_backend("tf")


def select_backend_returnn_layers_tf() -> None:
    """Documented, but not offered: raises the ValueError of `select_backend`."""
    select_backend("returnn_layers_tf")


def select_backend_jax() -> None:
    """Documented, but not offered: raises the ValueError of `select_backend`."""
    select_backend("jax")


def get_selected_backend() -> str:
    """The name of the backend of new tensors."""
    return selected().name


def selected() -> type[Backend]:
    """The backend of new tensors."""
    found = _selected.get() if _chosen[0] else None
    return _load("torch") if found is None else found


def is_executing_eagerly() -> bool:
    """True if values are available as soon as an op is called: always."""
    return selected().executing_eagerly()


def is_backend_raw_tensor_dim_tag_independent() -> bool:
    """True if raw arrays are independent of dims, so that one may belong to Tensors with different dims: always."""
    return selected().is_backend_raw_tensor_dim_tag_independent


_MODULES = {"torch": "rfnb.backends.torch_backend", "numpy": "rfnb.backends.numpy_backend"}
_NOT_OFFERED = {
    "tf": "rfnb computes at once and has no graph mode.",
    "returnn_layers_tf": "rfnb computes at once and has no graph mode.",
    "jax": "There is no backend for it yet; docs/backend.md tells what one needs.",
}
_loaded: dict[str, type[Backend]] = {}


def _load(name: str) -> type[Backend]:
    if name not in _loaded:
        _loaded[name] = importlib.import_module(_MODULES[name]).BACKEND
    return _loaded[name]
