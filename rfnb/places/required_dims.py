"""A forgotten `axis=` is an error that names the dims to choose from, where Python would only say that an argument is missing."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

from rfnb.core.tensor_text import MissingDim

_NAMES = {"axis", "spatial_dim", "in_spatial_dim", "in_dim", "reduce", "mask_axis", "indices_dim", "key_dim"}


def name_the_dims(names: dict[str, Any]) -> None:
    """For public functions that need a dim by keyword: what is not given is a `MissingDim`, which every op refuses as it refuses
    what is no Dim. The signature stays what it is, and a call costs nothing more."""
    for fn in list(names.values()):
        if isinstance(fn, FunctionType) and fn.__module__.startswith(("rfnb.ops.", "rfnb.nn.", "rfnb.rec.")):
            code = fn.__code__
            keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
            given = fn.__kwdefaults__ or {}
            needed = [name for name in keywords if name in _NAMES and name not in given]
            if needed:
                fn.__signature__ = inspect.signature(fn)  # type: ignore[attr-defined]
                fn.__kwdefaults__ = {**given, **{name: MissingDim(name) for name in needed}}
