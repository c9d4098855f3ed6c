"""Docstrings of rfnb as MyST Markdown: prose, shapes, and the sections Args, Returns, Raises, Probes, Source, ...

markdown("The mean over `axis`.\\n\\nArgs:\\n    x: {batch, time}")  ->
    The mean over `axis`.

    :Args:
        - `x`: {shape}`{batch, time}`
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

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
    """A docstring as MyST: nothing in it is taken for markup but code in backticks, lists and indented code."""
    blocks: list[tuple[str | None, list[str]]] = [(None, [])]
    for line in inspect.cleandoc(doc).splitlines():
        head = _SECTION.match(line)
        if head:
            blocks.append((head[1], [head[2]] if head[2] else []))
        elif line and not line.startswith((" ", "-")) and blocks[-1][0] is not None and blocks[-1][1][-1:] == [""]:
            blocks.append((None, [line]))  # a paragraph at the margin after a section belongs to the prose again
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
    """Pairs of a name and the lines about it; None where the section is prose."""
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
    """Paragraphs, lists and code that is indented by four."""
    found: list[str] = []
    code: list[str] = []

    def end_code() -> None:
        while code and not code[-1]:
            code.pop()
        if code:
            text = textwrap.dedent("\n".join(code))
            found.extend(["", f"```{_language(text)}", *text.splitlines(), "```", ""])
            code.clear()

    before = ""  # the last line of prose: code stands after an empty line, else it goes on with a list
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
    """A line of prose: code in backticks stays, shapes are marked, and what Markdown would take for markup is not."""
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
