"""The reference: every public name with its signature and its docstring, grouped by subject as `rfnb/__init__.py` does.

for page in pages():  page.title, page.names, page.text()      # MyST, with directives of Sphinx' Python domain
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# Packages with public names beside those of `rf`: the prefix that a reader writes, and the module to import.
_PACKAGES = {
    "rf.viz": "rfnb.viz",
    "rf.plot": "rfnb.plot",
    "rfnb.models": "rfnb.models",
    "rfnb.teaching": "rfnb.teaching",
}
_HEADING = re.compile(r"^ *# -- (.*?) -*$", re.MULTILINE)
# Special methods, listed only if their docstring is specific to the class.
_SPECIAL = {"__call__", "__getitem__", "__setitem__", "__iter__", "__len__", "__enter__", "__exit__", "__contains__"}


@dataclass(frozen=True)
class Name:
    """A public name: as a reader writes it, its value, and the name under which it is described, if different."""

    path: str
    value: Any
    same_as: str | None = None


@dataclass(frozen=True)
class ReferencePage:
    """A page of the reference: the names of one subject."""

    slug: str
    title: str
    lead: str
    names: tuple[Name, ...]

    def text(self) -> str:
        """The page in MyST: a table of its names, then each name."""
        rows = [
            f"| {{py:obj}}`{name.path}` | {_first(name.value).replace('|', chr(92) + '|')} |" for name in self.names
        ]
        table = "\n".join(["| name | |", "| --- | --- |", *rows])
        return (
            "\n\n".join(filter(None, [f"# {self.title}", self.lead, table, *(entry(name) for name in self.names)]))
            + "\n"
        )


def pages() -> list[ReferencePage]:
    """All pages, in the order of `rfnb/__init__.py`, then the other packages with public names."""
    top = sys.modules["rfnb"]
    found, modules = [], []
    for title, names in subjects((ROOT / "__init__.py").read_text(encoding="utf-8")):
        values = [Name(f"rf.{name}", getattr(top, name)) for name in names]
        modules += [name for name in values if isinstance(name.value, types.ModuleType)]
        rest = tuple(name for name in values if not isinstance(name.value, types.ModuleType))
        if rest:
            found.append(ReferencePage(_slug(title), title, "", rest))
    described = {id(name.value): name.path for page in found for name in page.names}
    packages = {name.path: name.value for name in modules}
    for path, module in _PACKAGES.items():
        if path not in packages and (ROOT / module.split(".")[1]).is_dir():
            packages[path] = import_module(module)
    for path, module in packages.items():
        given = [(name, getattr(module, name)) for name in promised(module)]
        inside = tuple(Name(f"{path}.{name}", value, described.get(id(value))) for name, value in given)
        found.append(ReferencePage(_slug(path), f"`{path}`", markdown(inspect.getdoc(module) or ""), inside))
    return found


def subjects(source: str) -> list[tuple[str, list[str]]]:
    """The headings of `rfnb/__init__.py`, each with the names of `__all__` that are imported below it."""
    heads = [(source[: match.start()].count("\n") + 1, match[1]) for match in _HEADING.finditer(source)]
    tree = ast.parse(source)
    (public,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["__all__"]
    )
    found: dict[str, list[str]] = {title: [] for _, title in heads}
    left = set(public)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            title = next((title for line, title in reversed(heads) if line < node.lineno), None)
            for alias in node.names:
                name = alias.asname or alias.name
                if title is not None and name in left:
                    found[title].append(name)
                    left.remove(name)
    if left:
        found["Further names"] = sorted(left)
    return [(title, names) for title, names in found.items() if names]


def promised(module: types.ModuleType) -> list[str]:
    """The public names of a package: its `__all__`, else names that it imports as themselves (`x as x`) or defines without underscore."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not isinstance(getattr(module, name), types.ModuleType)]
    source = Path(str(module.__file__)).read_text(encoding="utf-8")
    names = []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            names += [alias.asname for alias in node.names if alias.asname == alias.name]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
    given = [name for name in names if name and not name.startswith("_")]
    return [name for name in given if not isinstance(getattr(module, name), types.ModuleType)]


def entry(name: Name) -> str:
    """A name as a directive of Sphinx's Python domain."""
    value = name.value
    if name.same_as is not None:
        kind = "py:class" if inspect.isclass(value) else "py:function" if callable(value) else "py:data"
        said = f"{markdown(first_sentence(inspect.getdoc(value) or ''))}\n\nThe same as {{py:obj}}`{name.same_as}`."
        return _directive(kind, name.path + (signature(value) if callable(value) else ""), said)
    if inspect.isclass(value):
        return _class(name)
    if callable(value):
        return _directive("py:function", name.path + signature(value), markdown(inspect.getdoc(value) or ""))
    text = f"`{value!r}`" if isinstance(value, types.UnionType) else markdown(first_sentence(type(value).__doc__ or ""))
    return _directive("py:data", name.path, text)


def signature(value: Any, *, bound: bool = False) -> str:
    """The parameters and the result of a callable in Python syntax, without parameters that only catch wrong keywords."""
    try:
        given = inspect.signature(value)
    except (TypeError, ValueError):
        return ""  # exceptions, which have no Python signature
    parameters = [p for p in given.parameters.values() if str(p.annotation).rpartition(".")[2] != "Never"]
    if (
        bound
        and parameters
        and parameters[0].kind in (parameters[0].POSITIONAL_ONLY, parameters[0].POSITIONAL_OR_KEYWORD)
    ):
        parameters = parameters[1:]
    result = given.return_annotation
    result = result if result is given.empty else _Words(_annotation(result))
    return str(given.replace(parameters=[_readable(p) for p in parameters], return_annotation=result))


class _Words:
    """A part of a signature with a custom repr."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _annotation(given: Any) -> str:
    """An annotation as in the source, without the names of modules."""
    text = given if isinstance(given, str) else inspect.formatannotation(given)
    return re.sub(r"\b[a-z_]\w*(?:\.[a-z_]\w*)*\.(?=[A-Z])", "", text)


def _readable(parameter: inspect.Parameter) -> inspect.Parameter:
    if parameter.annotation is not parameter.empty:
        parameter = parameter.replace(annotation=_Words(_annotation(parameter.annotation)))
    if parameter.default is parameter.empty:
        return parameter
    text = repr(parameter.default)
    if inspect.isclass(parameter.default) or inspect.isroutine(parameter.default):
        text = parameter.default.__name__
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        text = "..."  # an object whose repr is in angle brackets
    return parameter.replace(default=_Words(text))


def _class(name: Name) -> str:
    cls = name.value
    parts = [markdown(_own_doc(cls))]
    init = cls.__dict__.get("__init__")
    if init is not None and init.__doc__ and inspect.isfunction(init):
        parts.append(markdown(init.__doc__))
    inherited = [base for base in cls.__mro__[1:] if base.__module__.startswith("rfnb.")]
    parts += [_member(f"{name.path}.{member}", value) for member, value in members(cls)]
    public = [base.__name__ for base in inherited if not base.__name__.startswith("_") and len(members(base)) > 0]
    if public:
        parts.insert(1, "Inherits from " + ", ".join(f"`rf.{base}`" for base in public) + ".")
    kind = "py:exception" if issubclass(cls, BaseException) else "py:class"
    return _directive(kind, name.path + re.sub(r" -> None$", "", signature(cls)), "\n\n".join(filter(None, parts)))


def members(cls: type) -> list[tuple[str, Any]]:
    """The public methods and properties, with a docstring, that a class defines itself or in a private base."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        hidden = base is cls or base.__name__.startswith("_") or base.__name__ not in _public_classes()
        if hidden and base.__module__.startswith("rfnb."):
            for name, value in vars(base).items():
                if not name.startswith("_") or name in _SPECIAL:
                    found.setdefault(name, value)
    return [(name, value) for name, value in sorted(found.items()) if _documented(value)]


@cache
def _public_classes() -> frozenset[str]:
    top = sys.modules["rfnb"]
    return frozenset(name for name in top.__all__ if inspect.isclass(getattr(top, name)))


def _documented(value: Any) -> bool:
    value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    return bool(isinstance(value, property) or inspect.isroutine(value)) and bool(inspect.getdoc(value))


def _member(path: str, value: Any) -> str:
    text = markdown(inspect.getdoc(value) or "")
    if isinstance(value, property):
        return _directive("py:property", path, text)
    if isinstance(value, staticmethod):
        return _directive("py:staticmethod", path + signature(value.__func__), text)
    if isinstance(value, classmethod):
        return _directive("py:classmethod", path + signature(value.__func__, bound=True), text)
    return _directive("py:method", path + signature(value, bound=True), text)


def _own_doc(cls: type) -> str:
    return inspect.cleandoc(cls.__doc__ or "")


def _first(value: Any) -> str:
    doc = inspect.getdoc(value) if inspect.isclass(value) or callable(value) else type(value).__doc__
    return markdown(first_sentence(doc or "")) if not isinstance(value, types.UnionType) else "A type, for annotations."


def _directive(kind: str, argument: str, content: str) -> str:
    """A directive whose fence is longer than those in its content."""
    longest = max((len(match[0]) for match in re.finditer(r"^ *`{3,}", content, re.MULTILINE)), default=3)
    fence = "`" * (longest + 1)
    return f"{fence}{{{kind}}} {argument}\n\n{content}\n{fence}"


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def public_names() -> Iterator[str]:
    """Every name that the reference must contain, as a reader writes it."""
    for page in pages():
        yield from (name.path for name in page.names)


SECTIONS = (
    "Args", "Parameters", "Attributes", "Options", "Returns", "Yields", "Raises", "Warns", "Probes", "Example", "Source",
)  # fmt: skip
_SECTION = re.compile(rf"^({'|'.join(SECTIONS)}):(?: +(.*))?$")
# `name: text`, `*args: text`, `x, y: text`; also `"key": text`, and errors `DimError: text`.
_ITEM = re.compile(r'^([\w*"][\w*"., /]*?)(?:: +(.*)|:)$')
_CODE = re.compile(r"(`+[^`]+`+)")
_SHAPE = re.compile(r"\{[^{}`]*\}")


def first_sentence(doc: str) -> str:
    """The beginning of a docstring: its first paragraph up to the first full stop that ends a sentence."""
    paragraph = " ".join(inspect.cleandoc(doc).split("\n\n")[0].split())
    return re.split(r"(?<=[.:])(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z`])", paragraph)[0]


def markdown(doc: str) -> str:
    """A docstring as MyST: only code in backticks, lists and indented code count as markup."""
    blocks: list[tuple[str | None, list[str]]] = [(None, [])]
    for line in inspect.cleandoc(doc).splitlines():
        head = _SECTION.match(line)
        if head:
            blocks.append((head[1], [head[2]] if head[2] else []))
        elif line and not line.startswith((" ", "-")) and blocks[-1][0] is not None and blocks[-1][1][-1:] == [""]:
            blocks.append((None, [line]))  # an unindented paragraph after a section is prose again
        else:
            blocks[-1][1].append(line)
    return "\n\n".join(text for title, lines in blocks if (text := _block(title, lines)))


def _block(title: str | None, lines: list[str]) -> str:
    if title is None:
        return _prose(lines)
    first, rest = ([lines[0]], lines[1:]) if lines and not lines[0].startswith(" ") and lines[0] else ([], lines)
    body = [*first, *textwrap.dedent("\n".join(rest)).splitlines()]
    items = _items(body) if title not in ("Returns", "Yields", "Source", "Example") else None
    text = "\n".join(_item(name, lines) for name, lines in items) if items else _prose(body)
    return f":{title}:\n{textwrap.indent(text, '    ')}"


def _items(lines: list[str]) -> list[tuple[str, list[str]]] | None:
    """Pairs of a name and the lines about it; None if the section is prose."""
    found: list[tuple[str, list[str]]] = []
    for line in lines:
        head = None if line.startswith(" ") else _ITEM.match(line)
        if head:
            found.append((head[1], [head[2]] if head[2] else []))
        elif not found:
            if line:
                return None
        else:
            found[-1][1].append(line)
    return found


def _item(name: str, lines: list[str]) -> str:
    first, rest = lines[:1], textwrap.dedent("\n".join(lines[1:])).splitlines()
    names = ", ".join(f"`{part.strip()}`" for part in name.split(","))
    text = _prose([*first, *rest])
    return f"- {names}" + (": " + textwrap.indent(text, "  ").lstrip() if text else "")


def _prose(lines: list[str]) -> str:
    """Paragraphs, lists, and code indented by four spaces."""
    found: list[str] = []
    code: list[str] = []

    def end_code() -> None:
        while code and not code[-1]:
            code.pop()
        if code:
            text = textwrap.dedent("\n".join(code))
            found.extend(["", f"```{_language(text)}", *text.splitlines(), "```", ""])
            code.clear()

    before = ""  # code starts after an empty line; otherwise it continues a list
    for line in lines:
        indented = line.startswith("    ")
        if code and (indented or not line):
            code.append(line)
        elif indented and not before:
            code.append(line)
        else:
            end_code()
            found.append(escaped(line))
            before = line
    end_code()
    return re.sub(r"\n{3,}(?=```)", "\n\n", re.sub(r"(?<=```)\n{3,}", "\n\n", "\n".join(found))).strip("\n")


def _language(code: str) -> str:
    """Python, or a table or formula that only looks like code."""
    try:
        ast.parse(code)
    except SyntaxError:
        return "text"
    return "python"


def escaped(line: str) -> str:
    """A line of prose: keeps code in backticks, marks shapes, and escapes anything that Markdown would take for markup."""
    parts = _CODE.split(line)
    for number in range(0, len(parts), 2):
        text, last = "", 0
        for shape in _SHAPE.finditer(parts[number]):
            text += _plain(parts[number][last : shape.start()]) + f"{{shape}}`{shape[0]}`"
            last = shape.end()
        parts[number] = text + _plain(parts[number][last:])
    return "".join(parts)


def _plain(text: str) -> str:
    return re.sub(r"([\\*_<$\[\]#|~^])", r"\\\1", text)
