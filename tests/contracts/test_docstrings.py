"""Every public name says what it does; those that compute say the shapes, what they raise and where they are from.

Public is what `rfnb` exports, with the public methods of its classes, and every function and class without underscore in the
package.
"""

import ast
import inspect
import re
from pathlib import Path

import pytest

import rfnb as rf

ROOT = Path(__file__).parents[2] / "rfnb"
SHAPE = re.compile(r"\{[^{}]*\}")  # {batch, time}: see CONTRIBUTING.md
HAS_SOURCE = ("attention", "lstm", "norm", "transformer", "conformer", "branchformer", "rotary", "relative", "positional")


def defined(path):
    """(qualified name, node, its class or None) of the public functions, classes and methods in a file."""
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        yield node.name, node, None
        for item in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
                yield f"{node.name}.{item.name}", item, node


def needs_no_docstring(node, owner):
    """Setters and overloads have that of the property or function; an override that of the base class."""
    decorators = {ast.unparse(item) for item in node.decorator_list}
    if any(text.endswith(".setter") or text in ("overload", "typing.overload") for text in decorators):
        return True
    return owner is not None and bool(owner.bases) and not isinstance(node, ast.ClassDef)


def undocumented(path):
    return [
        name for name, node, owner in defined(path) if not ast.get_docstring(node) and not needs_no_docstring(node, owner)
    ]


FILES = sorted(path for path in ROOT.rglob("*.py") if "node_modules" not in path.parts)


def test_everything_public_has_a_docstring():
    lacking = [f"{path.relative_to(ROOT)}: {name}" for path in FILES for name in undocumented(path)]
    assert lacking == []
