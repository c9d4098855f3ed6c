"""attach: lets a recording see into a model of another library, whose modules send no events.

    attach_by("torch.nn.modules.module.Module", "rfnb.interop.seen.attach:attach", "package.file:compare")     # by `rfnb/__init__.py`
    with attached(models, options):
        ...                                                         # what its modules compute is offered by probes

The code for a library lies above this layer, and is imported when the first such model is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from typing import Any, NamedTuple

from rfnb.core.block import all_of, block


class AttachOptions(NamedTuple):
    """The options of a recording that concern models of other libraries.

    Attributes:
        wants: Tells for a kind of event whether it is recorded.
        dims: Names of axes by the path of a module, or by the path and the name of an input.
        labels: Labels of tokens: a list, a tokenizer, or a dict of these by path; None if unknown.
        values: Whether the values that modules return are kept.
        ops: Whether to record the tensors that calls read and create.
        why: Whether the rule that named each axis is printed.
        attention: Paths of modules whose softmaxes are attention, however they are used.
        graph: Whether recorded values stay in the autograd graph.
        guesses: Receives the dims of the data with guessed names; some may be named later (`dim.guessed`).
        inside: Whether the modules inside of the models are seen too.
    """

    wants: Callable[[str], bool]
    dims: Mapping[str, Any]
    labels: Any = None
    values: bool = False
    ops: bool = False
    why: bool = False
    attention: Callable[[str], bool] = lambda path: False
    graph: bool = False
    guesses: list[Any] | None = None
    inside: bool = True


Attach = Callable[[Mapping[str, Any], AttachOptions], AbstractContextManager[Any]]
"""Of models by the name that their paths begin with; offers by probes while the block runs, and leaves the models as they were."""

_places: dict[str, str] = {}  # base class of models, with its module: where the function is that attaches to them
_comparing: dict[str, str] = {}  # by that: the function that compares two of these models


def attach_by(base: str, place: str, comparing: str) -> None:
    """Register how to see into models that inherit from a class.

    Args:
        base: The class, as module and name with dots.
        place: "module:function" of an `Attach`.
        comparing: The same for a function that compares two such models.
    """
    _places[base], _comparing[place] = place, comparing


def attacher_of(model: Any) -> str | None:
    """The attaching function for a model, as "module:function"; None if there is none."""
    bases = (f"{base.__module__}.{base.__qualname__}" for base in type(model).__mro__)
    return next((_places[base] for base in bases if base in _places), None)


@block
def attached(models: Mapping[str, Any], options: AttachOptions) -> Iterator[None]:
    """See into models during a with-block."""
    by_place: dict[str, dict[str, Any]] = {}
    for prefix, model in models.items():
        place = attacher_of(model)
        assert place is not None
        by_place.setdefault(place, {})[prefix] = model
    managers = []
    for place, those in by_place.items():
        module, _, function = place.partition(":")
        attach: Attach = getattr(import_module(module), function)
        managers.append(attach(those, options))
    with all_of(managers):
        yield


def compared(model: Any, other: Any, **options: Any) -> Any:
    """The differences between two models of another library."""
    place = attacher_of(model) or attacher_of(other)
    assert place is not None
    module, _, function = _comparing[place].partition(":")
    return getattr(import_module(module), function)(model, other, **options)
