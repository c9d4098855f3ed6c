"""The file of the running notebook, if it can be found: its cells, and the answers stored in it."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rfnb.teaching.card import MIME
from rfnb.viz import display


def notebook_file(name: str) -> Path | None:
    """The file of the running notebook, from the server or the editor, else the file of the lesson in the kernel's folder."""
    shell = display.shell()
    said = [os.environ.get("JPY_SESSION_NAME", "")]
    said.append(getattr(shell, "user_ns", {}).get("__vsc_ipynb_file__", ""))
    here = [Path(each) for each in said if isinstance(each, str) and each.endswith(".ipynb")]
    for path in [*here, Path.cwd() / f"{name}.ipynb"]:
        # A server gives the path relative to its own folder, which may be above the kernel's.
        for candidate in (path, Path.cwd() / path.name):
            if candidate.is_file():
                return candidate
    return None


@dataclass(frozen=True)
class Cell:
    """A code cell.

    Attributes:
        number: The index among code cells, from 1.
        id: The id in the file.
        source: As written.
        heading: The heading of its section, or "".
        outputs: As stored.
    """

    number: int
    id: str
    source: str
    heading: str
    outputs: list[dict[str, Any]]

    @property
    def first_line(self) -> str:
        """The first line that is not empty and not a comment."""
        lines = [line for line in self.source.splitlines() if line.strip()]
        return next((line for line in lines if not line.lstrip().startswith("#")), lines[0] if lines else "")

    def assigns(self, name: str, as_python: Callable[[str], str]) -> bool:
        """Whether the cell defines a name from scratch, not from an older value of it.

        Args:
            as_python: Translates IPython syntax such as `%time` to Python.
        """
        try:
            tree = ast.parse(as_python(self.source))
        except (SyntaxError, ValueError):
            return False
        for statement in tree.body:
            if name in _loaded(statement):
                return False  # it needs the name itself
            if name in _bound(statement):
                return True
        return False


def cells_of(path: Path) -> list[Cell]:
    """The code cells of a notebook file; [] if it cannot be read."""
    try:
        stored = json.loads(path.read_text("utf-8"))
        found, heading = list[Cell](), ""
        for cell in stored["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "markdown":
                titles = [line.lstrip("# ").strip() for line in source.splitlines() if line.startswith("#")]
                heading = titles[-1] if titles else heading
            elif cell["cell_type"] == "code":
                outputs = list(cell.get("outputs", []))
                found.append(Cell(len(found) + 1, str(cell.get("id", "")), source, heading, outputs))
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return found


def answers_in(path: Path, lesson: str) -> dict[str, dict[str, Any]]:
    """The committed answers to the questions of a lesson in a notebook file."""
    found = records_in(path)
    return {
        each["exercise"]: each
        for each in found
        if each["lesson"] == lesson and each.get("committed") and each["kind"] != "reveal"
    }


def records_in(path: Path) -> list[dict[str, Any]]:
    """The data of lessons in the outputs of a notebook file, in order."""
    outputs = [output for cell in cells_of(path) for output in cell.outputs if isinstance(output, dict)]
    data = [output["data"] for output in outputs if isinstance(output.get("data"), dict)]
    found = [each.get(MIME) for each in data]
    names = ("kind", "lesson", "exercise")
    return [each for each in found if isinstance(each, dict) and all(isinstance(each.get(name), str) for name in names)]


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a top-level statement of a cell defines."""
    found: set[str] = set()
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    for node in _own(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            found.add(node.name)
    return found


def _loaded(statement: ast.stmt) -> set[str]:
    """The names that a statement reads when it runs; function bodies read theirs later."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        decorators = [node for each in statement.decorator_list for node in ast.walk(each)]
        return {node.id for node in decorators if isinstance(node, ast.Name)}
    changed = [statement.target] if isinstance(statement, ast.AugAssign) else []
    names = [node for node in [*_own(statement), *changed] if isinstance(node, ast.Name)]
    return {node.id for node in names if isinstance(node.ctx, ast.Load) or node in changed}


def _own(statement: ast.stmt) -> list[ast.AST]:
    """The nodes of a statement without the bodies of functions, classes and comprehensions, which have their own scopes."""
    found, left = list[ast.AST](), list[ast.AST]([statement])
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
    inner = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    while left:
        node = left.pop()
        found.append(node)
        if isinstance(node, inner):
            left.append(node.generators[0].iter)
        elif not isinstance(node, scopes):
            left += ast.iter_child_nodes(node)
    return found
