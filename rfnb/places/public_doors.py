"""Wrap public functions and classes so that a raw failure becomes an error that names the argument (`core/door.py`).

A missing `axis=` is an error that lists the dims to choose from, and catch-all keywords are not part of the signature.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any

from rfnb.core.argument_types import know_names
from rfnb.core.call_errors import MissingArgument
from rfnb.core.door import open_door, watch_body
from rfnb.core.intercept import with_plain_code
from rfnb.core.kept_signature import keep_signature
from rfnb.core.op import op_of
from rfnb.core.tensor_text import MissingDim

# Ops call these in every step, or torch compiles them: they get no extra call, and no code that torch cannot trace.
_OFTEN = "rfnb.core.", "rfnb.ops.", "rfnb.nn.", "rfnb.rec.", "rfnb.backends."
_SELDOM = {  # exceptions, which are called rarely
    "rfnb.core.compat.old_tensor_names", "rfnb.core.compat.old_dim_names",
    "rfnb.nn.module.module", "rfnb.nn.module.container", "rfnb.nn.module.hooks",
    "rfnb.nn.init", "rfnb.nn.run.marked_loss",
}  # fmt: skip
_OFTEN_MADE = {"Tensor", "Dim", "TensorDict", "State", "LstmState", "CausalSelfAttentionState", "Parameter"}
_done: set[Any] = set()  # functions, and (class, whether a module) with wrapped methods
_PLACES = {"": "rf", "tensor": "rf.tensor", "viz": "rf.viz", "plot": "rf.plot", "audio": "rf.audio", "init": "rf.init"}


def make_doors(package: Mapping[str, Any], names: Mapping[str, Any], given: Iterable[type] = ()) -> None:
    """Wrap public functions, the methods of public classes, and those of classes whose objects users are `given`. Modules
    have their own wrapper (`nn/module/module.py`).

    Args:
        names: The public names, each of which is wrapped once.
    """
    know_names({name: value for name, value in names.items() if isinstance(value, type)})
    for place, code in _PLACES.items():
        if place and place not in names:
            continue
        inside = vars(names[place]) if place else names
        # Functions first: some are also methods of a class.
        for name, value in sorted(inside.items(), key=lambda item: isinstance(item[1], type)):
            if name.startswith("_") or not str(getattr(value, "__module__", "")).startswith("rfnb."):
                continue
            if isinstance(value, FunctionType) and value not in _done:
                _done.add(value)
                often = value.__module__.startswith(_OFTEN[:-1]) or op_of(value) is not None
                own = str(value.__qualname__)
                called = own if inside.get(own) is value else name
                _make(value, called, f"{code}.{called}", often)
            elif isinstance(value, type) and not issubclass(value, BaseException):
                _make_methods(value, f"{code}.{name}", package["Module"])
    for cls in given:
        _make_methods(cls, cls.__name__, package["Module"])


def _make_methods(cls: type, code: str, module: type) -> None:
    for owner in cls.__mro__:
        if owner is not cls and (owner, issubclass(cls, module)) in _done:
            continue
        _done.add((owner, issubclass(cls, module)))
        often = owner.__module__.startswith(_OFTEN) and owner.__module__ not in _SELDOM
        for what, called, method, bound in _methods(cls, owner, code, module):
            if method not in _done:
                _done.add(method)
                _make(
                    method,
                    what,
                    called,
                    often and (method.__name__ != "__init__" or cls.__name__ in _OFTEN_MADE),
                    bound,
                )


def _make(fn: FunctionType, what: str, code: str, often: bool, bound: bool = False) -> None:
    lazy = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    if often and fn.__code__.co_flags & lazy:
        return
    often = often and not hasattr(fn, "__wrapped__")  # a with-block is not part of a step
    (watch_body if often else open_door)(with_plain_code(fn), what, code, bound)


def _methods(cls: type, owner: type, code: str, module: type) -> Iterator[tuple[str, str, FunctionType, bool]]:
    """Yields the name in messages of each method of `cls` written in `owner`, the code of a call, the method, and whether it is bound."""
    instance = cls.__name__[0].lower() + cls.__name__[1:]
    for name, value in vars(owner).items():
        bound = not isinstance(value, staticmethod)
        method = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if not isinstance(method, FunctionType) or not method.__module__.startswith("rfnb."):
            continue
        if issubclass(cls, module) and name in ("__init__", "default_initial_state"):
            continue
        if name == "__init__" and owner is cls:
            yield cls.__name__, code, method, True
        elif name == "__call__" and not issubclass(cls, module):
            yield cls.__name__, instance, method, True
        elif not name.startswith("_"):
            yield f"{cls.__name__}.{name}", f"{instance if method is value else code}.{name}", method, bound


_NAMES = {"axis", "spatial_dim", "in_spatial_dim", "in_dim", "reduce", "mask_axis", "indices_dim", "key_dim", "over"}
# These store their argument, or pass it on, and would do so with the placeholder for a missing argument; Python refuses such a call.
_KEEP = set(
    "dim_match_priority_when_needed identity is_parametrized mask_nested random_mask scaled_gradient_ext sequential set_sparse_dim"
    " where_nested while_loop".split()
)
_WITH_DIMS = "rfnb.core.", "rfnb.ops.", "rfnb.nn.", "rfnb.rec.", "rfnb.lm.", "rfnb.search."


def name_the_dims(names: dict[str, Any]) -> None:
    """For public functions with a required dim keyword: an omitted one becomes a `MissingDim`, which every op refuses like
    any other non-Dim. The signature omits `**unknown`, which exists only to be refused (`core/call_errors.py`); an
    error then lists all missing arguments. A call costs nothing more.
    """
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
