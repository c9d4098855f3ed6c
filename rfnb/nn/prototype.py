"""Building parts of a layer from what a user gives: a class, a dict with options, or a module that serves as pattern."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import message
from rfnb.nn.module import Module
from rfnb.nn.parameter import set_parameter_copy_behavior_ctx


def make_part(part: Any, default: type[Module], what: str, **options: Any) -> Any:
    """A module from `part`: None for the default class, a class, {"class": ..., options}, or a module (see `fresh_copy`).

    Raises:
        TypeError: If it is something else.
    """
    if part is None:
        part = default
    if isinstance(part, Module):
        return fresh_copy(part)
    if isinstance(part, dict):
        own = dict(part)
        part = own.pop("class", default)
        options.update(own)
    if not isinstance(part, type):
        raise _not_a_part(what, part)
    return part(**options)


def fresh_copy(module: Module) -> Module:
    """A copy with parameters of its own, of new random values by the same scheme; dims are shared."""
    with set_parameter_copy_behavior_ctx("fresh"):
        return copy.deepcopy(module)


def make_norm(norm: Any, out_dim: Dim) -> Callable[..., Any]:
    """A normalisation over `out_dim`: from a class, {"class": ..., options}, or what is one already (a module, a function).

    Raises:
        TypeError: If it is something else.
    """
    if isinstance(norm, dict) and isinstance(norm.get("class"), type):
        options = dict(norm)
        return options.pop("class")(out_dim, **options)
    if isinstance(norm, type):
        return norm(out_dim)
    if isinstance(norm, Module):
        return fresh_copy(norm)
    if not callable(norm):
        raise _not_a_part("norm", norm)
    return norm


def _not_a_part(what: str, part: Any) -> TypeError:
    return TypeError(
        message(
            f"{what}: not something to build a part of a layer from.",
            [("got", type(part).__name__)],
            'A class, a dict with "class" and its options, or a module.',
            f'{what}={{"class": rf.LayerNorm, "eps": 1e-5}}' if what == "norm" else f"{what}=rf.FeedForward",
        )
    )
