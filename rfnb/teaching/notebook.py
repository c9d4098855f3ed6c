"""The file of the notebook that is running, as far as it can be found: its cells, and what was answered in it before."""

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
    """The file of the running notebook: as the server or the editor says, else the lesson's one in the kernel's folder."""
    shell = display.shell()
    said = [os.environ.get("JPY_SESSION_NAME", "")]
    said.append(getattr(shell, "user_ns", {}).get("__vsc_ipynb_file__", ""))
    here = [Path(each) for each in said if isinstance(each, str) and each.endswith(".ipynb")]
    for path in [*here, Path.cwd() / f"{name}.ipynb"]:
        # A server says the path from its own folder on, which may be above the kernel's.
        for candidate in (path, Path.cwd() / path.name):
            if candidate.is_file():
                return candidate
    return None


@dataclass(frozen=True)
class Cell:
    """A cell of code.

    Attributes:
        number: From 1, of the cells of code.
        id: In the file.
        source: As written.
        heading: Of the section that it is in; "" if there is none.
        outputs: As stored.
    """

    number: int
    id: str
    source: str
    heading: str
    outputs: list[dict[str, Any]]

    @property
    def first_line(self) -> str:
        """The first line that is neither empty nor a comment."""
        lines = [line for line in self.source.splitlines() if line.strip()]
        return next((line for line in lines if not line.lstrip().startswith("#")), lines[0] if lines else "")

    def assigns(self, name: str, as_python: Callable[[str], str]) -> bool:
        """Whether it makes a name by itself, not out of an older value of it.

        Args:
            as_python: Makes Python of what only IPython knows, as `%time`.
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
    """The cells of code of a notebook's file; [] if it cannot be read."""
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
    """The committed answers that a notebook's file has of a lesson, by question."""
    found = records_in(path)
    return {
        each["exercise"]: each
        for each in found
        if each["lesson"] == lesson and each.get("committed") and each["kind"] != "reveal"
    }


def records_in(path: Path) -> list[dict[str, Any]]:
    """The data that lessons have left in the outputs of a notebook's file, in its order; whatever else is there is passed over."""
    outputs = [output for cell in cells_of(path) for output in cell.outputs if isinstance(output, dict)]
    data = [output["data"] for output in outputs if isinstance(output.get("data"), dict)]
    found = [each.get(MIME) for each in data]
    names = ("kind", "lesson", "exercise")
    return [each for each in found if isinstance(each, dict) and all(isinstance(each.get(name), str) for name in names)]


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement at the top of a cell makes."""
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
    """The names that a statement needs while it runs; what is in functions is needed later."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        decorators = [node for each in statement.decorator_list for node in ast.walk(each)]
        return {node.id for node in decorators if isinstance(node, ast.Name)}
    changed = [statement.target] if isinstance(statement, ast.AugAssign) else []
    names = [node for node in [*_own(statement), *changed] if isinstance(node, ast.Name)]
    return {node.id for node in names if isinstance(node.ctx, ast.Load) or node in changed}


def _own(statement: ast.stmt) -> list[ast.AST]:
    """The nodes of a statement without the bodies of functions, classes and comprehensions, whose names are their own."""
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
