"""Reads documented signatures, and says in what ours differ: names, order, defaults, what can be set.

differences("rf.gather(source: Tensor, *, axis: Optional[Dim] = None)")  ->  ["gather: no parameter axis", ...]
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rfnb as rf
from rfnb.core.compat.attribute_hints import AbsentAttribute

DOCUMENTED = Path(__file__).with_name("documented_signatures.txt")


@dataclass(frozen=True)
class Row:
    """One documented name: `owner` and `name` say where, `parameters` is None for a property."""

    path: str
    parameters: inspect.Signature | None
    settable: bool = False
    types: dict[str, str] = field(default_factory=dict, hash=False)


def rows() -> list[Row]:
    """All documented signatures and properties."""
    return [parse(line) for line in DOCUMENTED.read_text().splitlines() if line and not line.startswith("#")]


def parse(line: str) -> Row:
    """One line: `path(parameters)`, `path property` or `path property (settable)`."""
    path, bracket, rest = line.partition("(")
    if path.endswith((" property", " property ")):
        return Row(path.split(" ")[0], None, settable=rest == "settable)")
    node = ast.parse(f"def f({rest}: ...").body[0]
    assert isinstance(node, ast.FunctionDef)
    arguments, kinds = node.args, inspect.Parameter
    found, types = [], {}

    def add(argument: ast.arg, kind: Any, default: ast.expr | None = None) -> None:
        value = inspect.Parameter.empty if default is None else ast.literal_eval(default)
        found.append(inspect.Parameter(argument.arg, kind, default=value))
        if argument.annotation is not None:
            types[argument.arg] = ast.unparse(argument.annotation)

    defaults = [None] * (len(arguments.args) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in zip(arguments.args, defaults):
        add(argument, kinds.POSITIONAL_OR_KEYWORD, default)
    if arguments.vararg:
        add(arguments.vararg, kinds.VAR_POSITIONAL)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        add(argument, kinds.KEYWORD_ONLY, default)
    if arguments.kwarg:
        add(arguments.kwarg, kinds.VAR_KEYWORD)
    return Row(path, inspect.Signature(found, __validate_parameters__=False), types=types)


_ROOTS = {"rf": rf, "Tensor": rf.Tensor, "Dim": rf.Dim, "TensorDict": rf.TensorDict}


def lookup(path: str) -> Any:
    """What is at a documented path; a property, or what stands for an absent attribute, is given as such. AttributeError if there
    is nothing."""
    first, *parts = path.split(".")
    if first == "torch":  # the bridge
        return getattr(importlib.import_module("rfnb.interop.torch_module"), parts[-1])
    value: Any = _ROOTS[first]
    module = "rfnb"
    for index, part in enumerate(parts):
        module = f"{module}.{part}"
        if first == "rf" and module in sys.modules and index + 1 < len(parts) and not part[0].isupper():
            value = sys.modules[module]  # a function may have the name too: rf.audio.specaugment
        elif inspect.isclass(value):
            sample = _SAMPLES[value]() if value in _SAMPLES else value
            value = inspect.getattr_static(sample, part)
        else:
            value = getattr(value, part)
        if isinstance(value, (staticmethod, classmethod)):
            value = value.__func__
    return value


# Made to look at what an instance has.
_SAMPLES: dict[Any, Any] = {
    rf.Dim: lambda: rf.Dim(2, name="dim"),
    rf.Parameter: lambda: rf.Parameter([]),
}


def differences(row: Row) -> list[str]:
    """In what ours is not the documented one, one line each; nothing if every documented call works."""
    try:
        ours = lookup(row.path)
    except AttributeError:
        return [f"{row.path}: not there"]
    if isinstance(ours, AbsentAttribute):
        return [f"{row.path}: absent"]
    if row.parameters is None:
        if row.settable and isinstance(ours, property) and ours.fset is None:
            return [f"{row.path}: cannot be set"]
        return []
    if isinstance(ours, property):
        return [f"{row.path}: is a property"]
    if not callable(ours):  # the name of a type
        return []
    return [f"{row.path}: {text}" for text in _compare(row.parameters, _signature(ours))]


def _signature(ours: Any) -> inspect.Signature:
    signature = inspect.signature(ours)
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    return signature.replace(parameters=parameters)


def _compare(documented: inspect.Signature, ours: inspect.Signature) -> list[str]:
    kinds, found = inspect.Parameter, []
    there = ours.parameters
    takes_any = any(p.kind is kinds.VAR_KEYWORD for p in there.values())
    takes_more = any(p.kind is kinds.VAR_POSITIONAL for p in there.values())
    positional = [p.name for p in there.values() if p.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.POSITIONAL_ONLY)]
    wanted = [
        p.name for p in documented.parameters.values() if p.kind is kinds.POSITIONAL_OR_KEYWORD and p.name[0] != "_"
    ]
    if positional[: len(wanted)] != wanted and not (takes_more and not positional):
        found.append(f"positional parameters {', '.join(positional)}, documented {', '.join(wanted)}")
    for name, parameter in documented.parameters.items():
        if parameter.kind is kinds.VAR_POSITIONAL:
            if not takes_more:
                found.append(f"takes no further positional arguments (*{name})")
        elif parameter.kind is kinds.VAR_KEYWORD:
            if not takes_any:
                found.append(f"takes no further keywords (**{name})")
        elif name.startswith("_"):  # not for users
            continue
        elif name not in there or there[name].kind is kinds.POSITIONAL_ONLY:
            if not takes_any:
                found.append(f"no parameter {name}")
        else:
            found += _compare_default(parameter, there[name])
    for name, parameter in there.items():
        required = parameter.default is kinds.empty and parameter.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
        if name not in documented.parameters and required:
            found.append(f"undocumented parameter {name} is required")
    return found


def _compare_default(documented: inspect.Parameter, ours: inspect.Parameter) -> list[str]:
    empty = inspect.Parameter.empty
    if documented.default is empty or documented.default is ...:  # what is required may have a default here
        return [f"{ours.name} is required"] if documented.default is ... and ours.default is empty else []
    if ours.default is empty:
        return [f"{ours.name} is required, documented default {documented.default!r}"]
    same = ours.default == documented.default and type(ours.default) in (type(documented.default), int, float)
    return [] if same else [f"{ours.name} has default {ours.default!r}, documented {documented.default!r}"]
