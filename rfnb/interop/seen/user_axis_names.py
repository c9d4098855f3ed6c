"""UserAxisNames: the axis names that the user gave for a recording, `rf.record(model=model, dims={"encoder": "batch time feature"})`.

    {"encoder": ["batch", "time", "feature"]}       # its first input, and its result if that has as many axes
    {"encoder.src": [...], "encoder.output": [...]}     # one input; its result
    {"encoder": {"src": [...], "output": [...]}}        # the same

A path is one of `named_modules()`, a suffix of one, or a pattern. Names are as in `rf.named`, and may be Dims.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping
from typing import Any

import torch

from rfnb.core.axis_names import Entry, fitted, parse
from rfnb.core.dim import Dim
from rfnb.core.errors import shape_error, value_error
from rfnb.trace.match import path_filter

FIRST, OUTPUT = "", "output"


class UserAxisNames:
    """The names that the user gave to axes, by module and input.

    Raises:
        TypeError, ValueError: If names cannot be parsed, or a path or an input does not exist.
    """

    def __init__(self, given: Mapping[str, Any], paths: Mapping[str, torch.nn.Module]):
        self._by_module: dict[int, dict[str, tuple[str, Any]]] = {}
        for path, names in given.items():
            for module, part in _places(path, paths):
                for name, each in names.items() if isinstance(names, Mapping) else [(part, names)]:
                    _check_input(path, module, str(name))
                    parsed = path, parse(each, f'record: dims of "{path}"')
                    self._by_module.setdefault(id(module), {})[str(name)] = parsed

    def __bool__(self) -> bool:
        return bool(self._by_module)

    def of(self, module: torch.nn.Module) -> dict[str, tuple[str, Any]] | None:
        """The names by input: the path that the user wrote, and the names; FIRST is the first input and the result."""
        return self._by_module.get(id(module))


def fits(entries: Any, ndim: int) -> bool:
    """Whether there is a name for each axis."""
    return len(entries) == ndim or (... in entries and len(entries) - 1 <= ndim)


def names_for(path: str, entries: Any, raw: torch.Tensor, what: str) -> list[str | Dim]:
    """A name or Dim for each axis of a tensor.

    Raises:
        ShapeError: If they do not fit.
        ValueError: For an axis that merges several dims.
    """
    where = f'record: dims of "{path}"'
    fix = 'rf.record(model=model, dims={{"' + path.replace("{", "{{").replace("}", "}}") + '": {}}})'
    own: list[Entry] = fitted(entries, tuple(raw.shape), where, fix)
    out: list[str | Dim] = []
    for axis, entry in enumerate(own):
        if len(entry) > 1:
            raise value_error(
                f"{where}: one axis cannot have several dims.",
                [(what, tuple(raw.shape)), (f"axis {axis}", "(" + " ".join(map(str, entry)) + ")")],
                "Recorded axes are not split. Give this one a single name:",
                f'"{"_".join(map(str, entry))}"',
            )
        item = entry[0] if entry else "1"
        if isinstance(item, Dim) and item.is_dim_known() and item.extent != raw.shape[axis]:
            raise shape_error(
                f"{where}: the size of a Dim differs from that of its axis.",
                [(what, tuple(raw.shape)), (f"axis {axis}", item)],
                "Pass a Dim only where it is the same in every call. Otherwise pass its name:",
                f'"{item.name}"',
            )
        out.append(item)
    return out


def _places(path: str, paths: Mapping[str, torch.nn.Module]) -> list[tuple[torch.nn.Module, str]]:
    """The modules that a path matches, with the name of the input if the path ends with one."""
    found = [(module, FIRST) for each, module in paths.items() if path_filter(path)(each, each)]
    head, _, last = path.rpartition(".")
    if not found:
        found = [
            (module, last)
            for each, module in paths.items()
            if path_filter(head)(each, each) and (last == OUTPUT or last in _parameters(module))
        ]
    if not found:
        near = difflib.get_close_matches(path, [each for each in paths if each], n=1, cutoff=0) or [""]
        raise value_error(
            f'record: dims are given for "{path}", but no module has this path.',
            {"modules": ", ".join([each for each in paths if each][:8]) or "the model itself, whose path is empty"},
            'A path is one of `model.named_modules()`, the end of one, or a pattern; the name of an input may follow ("encoder.src").',
            f'rf.record(model=model, dims={{"{near[0]}": ["batch", "time", "feature"]}})',
        )
    return found


def _check_input(path: str, module: torch.nn.Module, name: str) -> None:
    inputs = _parameters(module)
    if name in (FIRST, OUTPUT) or name.partition(".")[0] in inputs or None in inputs:
        return
    raise value_error(
        f'record: dims are given for "{name}" of "{path}", which has no such input.',
        {"module": type(module).__name__, "inputs": ", ".join(str(each) for each in inputs)},
        'An input has the name of the parameter of `forward`; the result is "output".',
        f'rf.record(model=model, dims={{"{path}": {{"{next(iter(inputs), OUTPUT)}": [...]}}}})',
    )


def _parameters(module: torch.nn.Module) -> list[str | None]:
    """The names of the inputs; includes None if it accepts any."""
    try:
        parameters = list(inspect.signature(type(module).forward).parameters.values())[1:]
    except (TypeError, ValueError):
        return [None]
    kinds = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD
    return [None if parameter.kind in kinds else parameter.name for parameter in parameters]
