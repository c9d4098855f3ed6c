"""Build parts of a layer from a class, a dict with options, or a module to copy."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any, Never

from rfnb.core.dim import Dim
from rfnb.core.errors import type_error
from rfnb.core.not_specified import is_specified
from rfnb.nn.linear import Embedding
from rfnb.nn.module.build_from_dict import build_from_dict, named_object
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import set_parameter_copy_behavior_ctx


def make_part(part: Any, default: type[Module], what: str, **options: Any) -> Any:
    """A module from `part`.

    Args:
        part: None for the default class; a class or its public name ("rf.FeedForward"); {"class": ..., options} (see
            `build_from_dict`; without "class" the default class); a partial of a class, or another function that makes a
            module; a module (see `fresh_copy`).
        options: Passed to the class. Options of a dict or partial take precedence.

    Raises:
        TypeError: If it is something else.
    """
    if part is None or not is_specified(part):
        part = default
    part = _named(part)
    if isinstance(part, Module):
        return fresh_copy(part)
    if isinstance(part, functools.partial):
        return part.func(*part.args, **{**options, **part.keywords})
    if isinstance(part, dict):
        return build_from_dict({"class": default, **options, **part})
    if not callable(part):
        raise _not_a_part(what, part)
    return part(**options)


def given(**options: Any) -> dict[str, Any]:
    """The options that are not None; omitted ones keep the defaults of the class."""
    return {name: value for name, value in options.items() if value is not None and is_specified(value)}


def as_dim(size: Dim | int, name: str) -> Dim:
    """The Dim of a layer; an int makes a new one of this size."""
    return size if isinstance(size, Dim) else Dim(size, name=name, kind="feature")


def fresh_copy(module: Module) -> Module:
    """A copy with its own parameters, newly drawn by the same scheme; dims are shared."""
    with set_parameter_copy_behavior_ctx("fresh"):
        return copy.deepcopy(module)


def make_layers(sequential: Any, pattern: Module, num_layers: int) -> Any:
    """Copies of a layer, each with its own parameters, in `sequential`: a container class, a function, or {"class": ..., options}."""
    layers, sequential = [fresh_copy(pattern) for _ in range(num_layers)], _named(sequential)
    return build_from_dict(sequential, layers) if isinstance(sequential, dict) else sequential(layers)


def make_norm(norm: Any, out_dim: Dim, *extra: Never, **unknown: Never) -> Callable[..., Any]:
    """A normalisation over `out_dim`: from a class or its public name, {"class": ..., options} (see `build_from_dict`), a
    partial of a class, or a finished one (a module or function).

    Raises:
        TypeError: If it is something else.
    """
    norm = _named(norm)
    if isinstance(norm, dict) and "class" in norm:
        is_class = isinstance(named_object(norm["class"]), type)
        return build_from_dict(norm, out_dim) if is_class else build_from_dict(norm)
    if isinstance(norm, type) or (isinstance(norm, functools.partial) and isinstance(norm.func, type)):
        return norm(out_dim)
    if isinstance(norm, Module):
        return fresh_copy(norm)
    if not callable(norm):
        raise _not_a_part("norm", norm)
    return norm


def make_function(function: Any) -> Any:
    """The function that {"class": ..., options} describes (see `build_from_dict`); any other value, including None, unchanged."""
    return build_from_dict(function) if isinstance(function, dict) else function


def make_embedding(embedding: Any, in_dim: Dim, out_dim: Dim) -> Any:
    """Build an embedding from True (`Embedding`), a class or function of two dims, {"class": ..., options}, or a module,
    which is used itself. None or False: None.
    """
    if embedding is None or embedding is False:
        return None
    if isinstance(embedding, Module):
        return embedding
    if isinstance(embedding, dict):
        return build_from_dict({"class": Embedding, **embedding}, in_dim, out_dim)
    return (Embedding if embedding is True else embedding)(in_dim, out_dim)


def _named(part: Any) -> Any:
    """A public name, "rf.LayerNorm", as the equivalent dict."""
    return {"class": part} if isinstance(part, str) and part.startswith("rf.") else part


def _not_a_part(what: str, part: Any) -> TypeError:
    return type_error(
        f"{what}: not something to build a part of a layer from.",
        {"got": type(part).__name__},
        'A class, a dict with "class" and its options, or a module.',
        f'{what}={{"class": rf.LayerNorm, "eps": 1e-5}}' if what == "norm" else f"{what}=rf.FeedForward",
    )
