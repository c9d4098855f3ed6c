"""The source of solutions: of one name, alone or with everything from its file that it needs."""

from __future__ import annotations

import ast


def source_in(text: str, name: str) -> str:
    """The source of the definition of a name in a file, with the comments directly above it; "" if there is none."""
    for node in ast.parse(text).body:
        if name in _defines(node):
            return _lines(text, node)
    return ""


def source_with_needs(text: str, name: str) -> str:
    """The source of a definition with the imports and definitions that it uses, in the order of the file; "" if the name is not defined."""
    body = ast.parse(text).body
    makers = {each: node for node in body for each in _defines(node)}
    if name not in makers:
        return ""
    needed, left = set[ast.stmt](), [makers[name]]
    while left:
        node = left.pop()
        if node not in needed:
            needed.add(node)
            used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            left += [makers[one] for one in used if one in makers]
    imports = [node for node in body if isinstance(node, (ast.Import, ast.ImportFrom)) and not _is_future(node)]
    used = {one.id for node in needed for one in ast.walk(node) if isinstance(one, ast.Name)}
    kept = [node for node in imports if used & {(a.asname or a.name).split(".")[0] for a in node.names}]
    blocks = [_lines(text, node) for node in body if node in kept or node in needed]
    return "\n".join(blocks)


def _is_future(node: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _defines(node: ast.stmt) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [one.id for each in targets for one in ast.walk(each) if isinstance(one, ast.Name)]
    return []


def _lines(text: str, node: ast.stmt) -> str:
    lines = text.splitlines()
    begin = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    while begin > 1 and lines[begin - 2].startswith("#"):
        begin -= 1
    return "\n".join(lines[begin - 1 : node.end_lineno])
