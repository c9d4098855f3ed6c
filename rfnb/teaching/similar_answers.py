"""Find similar answers of students: the same code up to names, comments and whitespace. They are reported, and not judged.

Short answers are often alike by chance, so only answers above a minimal length are compared, and all answers of a notebook together.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

_LEAST = 40  # AST nodes; two people hardly write an answer of this length alike
_ALL = "all answers"  # includes the short ones


@dataclass(frozen=True)
class Alike:
    """Students whose answers to one exercise, or to all exercises, are alike."""

    exercise: str
    students: list[str]

    def __str__(self) -> str:
        return f"{self.exercise}: {', '.join(self.students)}"


def alike(answers: Sequence[tuple[str, dict[str, str]]]) -> list[Alike]:
    """The answers of at least two students that are alike, by exercise.

    Args:
        answers: For each student, the source of each exercise.
    """
    students: dict[tuple[str, str], list[str]] = {}
    for student, given in answers:
        written = [source for source in given.values() if source and "..." not in source]
        whole = {_ALL: "\n".join(written)} if len(written) > 1 else {}
        for name, source in {**given, **whole}.items():
            shape = shape_of(source)
            if shape:
                students.setdefault((name, shape), []).append(student)
    return [Alike(name, some) for (name, _), some in students.items() if len(some) > 1]


def shape_of(source: str) -> str:
    """A fingerprint of code that ignores names, comments and whitespace; "" for short code or text that is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ""
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    order: dict[str, str] = {}
    count = 0
    for node in ast.walk(tree):
        count += 1
        if isinstance(node, ast.Name) and node.id in own:
            node.id = order.setdefault(node.id, f"name{len(order)}")
        elif isinstance(node, ast.arg):
            node.arg = order.setdefault(node.arg, f"name{len(order)}")
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.name = ""
            if node.body and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
                node.body = node.body[1:] or [ast.Pass()]
    return ast.dump(tree) if count >= _LEAST else ""
