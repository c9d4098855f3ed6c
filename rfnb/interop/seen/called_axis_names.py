"""Axis names in functions that a model calls: jaxtyping annotations, and einops patterns.

    def weights(q: Float[Tensor, "batch head query dim"], k: Float[Tensor, "batch head key dim"]): ...
    scores = einsum(q, k, "batch head query dim, batch head key dim -> batch head query key")

These words apply to single tensors: maps and states computed from them get the names (`word_of`), and nothing else is
renamed. The search covers functions in the files of the model's classes, those that they import by name and what these
call, and methods. A single letter of einops distinguishes axes but is not a name.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from types import FunctionType
from typing import Any

import torch

from rfnb.interop.seen.annotations import annotations_of, is_of_library, words_for
from rfnb.interop.seen.calls import SEARCH, current, tensors_of
from rfnb.interop.seen.function_calls import apart, is_unheard, replaces
from rfnb.interop.seen.replacements import Place
from rfnb.interop.seen.softmaxes import SoftmaxSearch
from rfnb.interop.seen.user_axis_names import OUTPUT, fits

_EINOPS = ("rearrange", "reduce", "repeat", "einsum")


@replaces
def words_heard(modules: list[torch.nn.Module]) -> Iterator[Place]:
    """The functions with axis names that the code of these modules calls."""
    if not {"jaxtyping", "einops"} & sys.modules.keys():
        return
    einops = sys.modules.get("einops")
    patterns = {id(inspect.unwrap(getattr(einops, name))) for name in _EINOPS} if einops is not None else set[int]()
    kinds = {kind for module in modules for kind in type(module).__mro__ if _is_own(kind.__module__)}
    files, done = [kind.__module__ for kind in kinds], set[str]()
    owners: list[Any] = [*kinds]
    while files:
        file = files.pop()
        if file in done or file not in sys.modules:
            continue
        done.add(file)
        owners.append(sys.modules[file])
        found = [each for each in vars(sys.modules[file]).values() if isinstance(each, FunctionType)]
        files += [each.__module__ for each in found if _is_own(each.__module__) and annotations_of(each)]
    for owner in owners:
        for name, value in list(vars(owner).items()):
            if not isinstance(value, FunctionType) or (isinstance(owner, type) and name == "forward"):
                continue
            if {id(value), id(getattr(value, "__wrapped__", None))} & patterns:
                yield owner, name, functools.partial(_hearing, _of_pattern)
            elif _is_own(value.__module__) and annotations_of(value):
                yield owner, name, functools.partial(_hearing, _of_annotations)
    for name in _EINOPS if patterns else ():
        yield einops, name, functools.partial(_hearing, _of_pattern)


def _is_own(file: str | None) -> bool:
    # Functions made at run time may have no file.
    return file is not None and not is_of_library(file) and not file.startswith(("rfnb.", "einops", "builtins"))


def _hearing(words: Any, function: Any) -> Any:
    @functools.wraps(function)
    def words_of_a_call(*args: Any, **kwargs: Any) -> Any:
        call = current()
        search: SoftmaxSearch | None = None if call is None or is_unheard() else call.root.seen.get(SEARCH)
        if call is None or search is None:
            return function(*args, **kwargs)
        apart(call, _say, search, words, function, (args, kwargs), None)
        result = function(*args, **kwargs)
        apart(call, _say, search, words, function, (args, kwargs), result)
        return result

    return words_of_a_call


def _say(search: SoftmaxSearch, words: Any, function: Any, given: Any, result: Any) -> None:
    for raw, entries in words(function, *given, result):
        if fits(entries, raw.ndim):
            said = words_for(entries, raw.ndim)
            node = search.node(raw)
            node.words = said
            for word, lanes in zip(said, node.weights.lanes) if node.weights is not None else ():
                if word is not None and len(lanes) == 1:
                    node.weights.candidate.words[next(iter(lanes))] = word


_Said = Iterator[tuple[torch.Tensor, Sequence[Any]]]


def _of_annotations(function: Any, args: Any, kwargs: Any, result: Any) -> _Said:
    known = annotations_of(function)
    values = {OUTPUT: result} if result is not None else dict(zip(_positional(function), args)) | kwargs
    for name, value in values.items():
        for path, raw in tensors_of(value, name):
            entries = next((each for each in known.get(path, ()) if fits(each, raw.ndim)), None)
            if entries is not None:
                yield raw, entries


@functools.cache
def _positional(function: Any) -> list[str]:
    """The positional parameters of a function."""
    every = inspect.signature(function).parameters.values()
    return [each.name for each in every if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]


def _of_pattern(function: Any, args: Any, kwargs: Any, result: Any) -> _Said:
    texts = [each for each in (*args, *kwargs.values()) if isinstance(each, str) and " " in each]
    if not texts:
        return
    before, arrow, after = texts[0].partition("->")
    if result is not None:
        if arrow and isinstance(result, torch.Tensor):
            yield result, _entries(after)
        return
    raws = [each for each in args if isinstance(each, torch.Tensor)]
    for raw, side in zip(raws, before.split(",")):
        yield raw, _entries(side)


def _entries(text: str) -> list[Any]:
    """The entries of one side of a pattern; entries with several axes or a single letter have no name."""
    found: list[Any] = []
    for word in re.findall(r"\([^)]*\)|\S+", text):
        is_name = word.isidentifier() and len(word) > 1 and not word.startswith("_")
        found.append(... if word in ("...", "…") else (word if is_name else None,))
    return found
