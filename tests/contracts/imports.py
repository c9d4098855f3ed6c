"""Reads which modules a file imports, from its syntax tree: nothing is executed."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Import:
    """One imported module: its dotted name, the line, and whether the import runs only when a function is called."""

    module: str
    line: int
    in_function: bool


def module_name(path: Path, root: Path) -> str:
    """`root/rfnb/core/dim.py` -> `rfnb.core.dim`; a package is named without `__init__`."""
    parts = list(path.relative_to(root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(source: str, module: str, *, is_package: bool = False) -> list[Import]:
    """All imports in `source`: at the top, inside functions, under TYPE_CHECKING, relative, and by `import_module`.

    `from rfnb.ops import math` gives both `rfnb.ops` and `rfnb.ops.math`: the second may be a module or a name in the first.
    In a file that calls `import_module` with a computed name, every string that looks like a module of rfnb counts.
    """
    found: list[Import] = []
    tree = ast.parse(source)
    dynamic = False

    def visit(node: ast.AST, in_function: bool) -> None:
        nonlocal dynamic
        if isinstance(node, ast.Import):
            found.extend(Import(alias.name, node.lineno, in_function) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".") if is_package else module.split(".")[:-1]
                package = package[: len(package) - node.level + 1]
                base = ".".join([*package, base]) if base else ".".join(package)
            found.append(Import(base, node.lineno, in_function))
            found.extend(Import(f"{base}.{alias.name}", node.lineno, in_function) for alias in node.names)
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
            if name in ("import_module", "__import__") and node.args:
                if isinstance(node.args[0], ast.Constant):
                    found.append(Import(str(node.args[0].value), node.lineno, in_function))
                else:
                    dynamic = True
        inside = in_function or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(tree, False)
    if dynamic:
        strings = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
        found.extend(Import(node.value, node.lineno, True) for node in strings if node.value.startswith("rfnb."))
    return found
