"""The arguments of functions: a forgotten `axis=` is an error that names the dims to choose from, and unknown keywords
are no part of a signature."""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any

from rfnb.core.call_errors import MissingArgument
from rfnb.core.kept_signature import keep_signature
from rfnb.core.tensor_text import MissingDim

_NAMES = {"axis", "spatial_dim", "in_spatial_dim", "in_dim", "reduce", "mask_axis", "indices_dim", "key_dim", "over"}
# These keep what they get, or give it to others, and would do so with what stands for a missing argument: Python refuses such a call.
_KEEP = set(
    "dim_match_priority_when_needed identity is_parametrized mask_nested random_mask scaled_gradient_ext sequential set_sparse_dim"
    " where_nested while_loop".split()
)
_WITH_DIMS = "rfnb.core.", "rfnb.ops.", "rfnb.nn.", "rfnb.rec.", "rfnb.lm.", "rfnb.search."


def name_the_dims(names: dict[str, Any]) -> None:
    """For public functions that need a dim by keyword: what is not given is a `MissingDim`, which every op refuses as it refuses
    what is no Dim. Of those with `**unknown`, which is there to be refused (`core/call_errors.py`), the signature is without it, and
    all that is not given is said to be missing. A call costs nothing more."""
    done: set[FunctionType] = set()
    for fn in list(names.values()):
        if isinstance(fn, FunctionType) and fn.__module__.startswith(_WITH_DIMS):
            if fn in done:  # it has two names
                continue
            done.add(fn)
            code = fn.__code__
            keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
            given = fn.__kwdefaults__ or {}
            needed = [name for name in keywords if name in _NAMES and name not in given]
            refuses = code.co_flags & inspect.CO_VARKEYWORDS and "unknown" in code.co_varnames
            if needed or refuses:
                keep_signature(fn, without=("extra", "unknown") if refuses else ())
            if refuses and fn.__name__ not in _KEEP:
                others = [name for name in keywords if name not in given and name not in needed]
                given = {**given, **{name: MissingArgument(name) for name in others}}
                positional = code.co_varnames[: code.co_argcount]
                missing = positional[: len(positional) - len(fn.__defaults__ or ())]
                fn.__defaults__ = (*map(MissingArgument, missing), *(fn.__defaults__ or ()))
            if needed or refuses:
                fn.__kwdefaults__ = {**given, **{name: MissingDim(name) for name in needed}}
