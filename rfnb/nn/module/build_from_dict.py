"""Build objects from plain dicts, as in configuration files: {"class": "rf.Linear", ...}."""

from __future__ import annotations

import difflib
import functools
import re
import sys
from types import ModuleType
from typing import Any

from rfnb.core.errors import MissingKeyError, type_error, value_error
from rfnb.nn.module.module import Module


def build_from_dict(d: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    """The object that `d` describes: call its "class" with `args`, its other items and `kwargs`.

        rf.build_from_dict({"class": "rf.Linear", "with_bias": False}, in_dim, out_dim)
        rf.build_from_dict({"class": "rf.gelu", "approximate": False})       # a function: a partial of it

    Nothing is imported or evaluated: a string can only name a public object of rfnb, `rf.<public name>`, or an attribute of one.

    Args:
        d: "class" is such a string (also with its documentation page, "rf.encoder.conformer.ConformerEncoder"), or a
            class or function itself. In the other items, a nested dict that names a Module is passed on unchanged, since
            the layer that receives it adds its dims and builds it; other dicts with "class" are built.
        args: Positional arguments, before all options.
        kwargs: Override the items of `d`.

    Returns:
        An instance; for a function, a `functools.partial` with the options, or the function itself if there are none.

    Raises:
        MissingKeyError: Without "class"; a KeyError.
        TypeError: If "class" is not a name, class or function.
        ValueError: If there is no such public name; the message lists similar names.
    """
    if "class" not in d:
        raise MissingKeyError(
            f'build_from_dict: no "class" in the dict.\n  has  {", ".join(map(str, d)) or "nothing"}\n'
            'It says what to build.\n    {"class": "rf.Linear", ...}'
        )
    what = named_object(d["class"])
    options = {key: _built(value) for key, value in d.items() if key != "class"}
    options.update(kwargs)
    if isinstance(what, type):
        return what(*args, **options)
    return functools.partial(what, *args, **options) if args or options else what


def build_dict(cls: Any, **kwargs: Any) -> dict[str, Any]:
    """The dict for `build_from_dict`: {"class": "rf.<name>", **kwargs}.

    A class or function that is not public in rfnb is stored itself under "class", since it cannot be found by name.
    """
    if isinstance(cls, str):
        named_object(cls)
        return {"class": cls, **kwargs}
    _check("build_dict", cls)
    for name, value in _public().items():
        if value is cls:
            return {"class": f"rf.{name}", **kwargs}
    return {"class": cls, **kwargs}


# The documentation has some names in submodules, and existing configurations use those; here all names are in one module.
_PAGE = re.compile(
    r"^(rf|returnn\.frontend)\.((init|audio|encoder\.(base|transformer|conformer|conformer_v2|e_branchformer)|decoder\.transformer)\.)?"
    r"(?=\w+$)"
)


def named_object(name: Any) -> Any:
    """The class or function with this public name ("rf.Linear"); a class or function itself passes through.

    Raises:
        TypeError, ValueError: See `build_from_dict`.
    """
    if not isinstance(name, str):
        return _check("build_from_dict", name)
    top, *parts = _PAGE.sub("rf.", name).split(".")
    value: Any = None
    for depth, part in enumerate(parts if top in ("rf", "rfnb") else ()):
        there = (
            _public()
            if depth == 0
            else {key: getattr(value, key, None) for key in dir(value) if not key.startswith("_")}
        )
        value = there.get(part)
        if value is None or isinstance(value, ModuleType):
            break
    else:
        if value is not None:
            return _check("build_from_dict", value)
    raise value_error(
        f'build_from_dict: no public name "{name}".',
        {"near": ", ".join(_near(name)) or "none"},
        'A name is "rf." and a public name of rfnb. For a class of your own, give the class itself:',
        '{"class": MyModule, ...}',
    )


def _built(value: Any) -> Any:
    if isinstance(value, dict):
        if "class" not in value:
            return {key: _built(item) for key, item in value.items()}
        what = named_object(value["class"])
        is_module = isinstance(what, type) and issubclass(what, Module)
        return value if is_module else build_from_dict(value)
    if isinstance(value, list):
        return [_built(item) for item in value]
    return value


def _public() -> dict[str, Any]:
    """The names listed in rfnb/__init__.py. They are looked up in the loaded module, since importing the package from a
    lower layer is not allowed.
    """
    package = sys.modules["rfnb"]
    names = {name: getattr(package, name) for name in package.__all__}
    return {name: value for name, value in names.items() if not isinstance(value, ModuleType)}


def _check(what: str, value: Any) -> Any:
    if not callable(value):
        raise type_error(
            f"{what}: not a class or function.",
            {"got": type(value).__name__},
            "It is a public name, or a class or function itself.",
            '{"class": "rf.Linear", ...}',
        )
    return value


def _near(name: str) -> list[str]:
    """Public names similar to the last part of `name`, ignoring case."""
    names = {public.lower(): public for public in _public()}
    last = name.split(".")[-1].lower()
    return [f"rf.{names[found]}" for found in difflib.get_close_matches(last, names, n=4)]
