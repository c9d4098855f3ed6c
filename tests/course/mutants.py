"""Wrong answers made by a machine: the source of a right one with one thing changed.

for name, source in mutants_of("def double(x):\\n    return 2 * x\\n"):
    ...         # "2 * x -> x", "2 -> 3", "return 2 * x -> return -(2 * x)", ...

A name says what was changed, and where if the same stands there twice. What is changed: operators, comparisons, numbers, functions
for their siblings, calls left out, arguments and results swapped, conditions, lines, loops that end early or begin late, results
that are scaled, negated, summed or turned.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator

_OTHER_OPERATORS = {
    ast.Add: [ast.Sub],
    ast.Sub: [ast.Add],
    ast.Mult: [ast.Div, ast.Add],
    ast.Div: [ast.Mult],
    ast.FloorDiv: [ast.Mod, ast.Div],
    ast.Mod: [ast.FloorDiv],
    ast.Pow: [ast.Mult],
    ast.MatMult: [],
}
_OTHER_COMPARISONS = {
    ast.Lt: [ast.LtE, ast.Gt, ast.NotEq],
    ast.LtE: [ast.Lt, ast.GtE],
    ast.Gt: [ast.GtE, ast.Lt],
    ast.GtE: [ast.Gt, ast.LtE],
    ast.Eq: [ast.NotEq],
    ast.NotEq: [ast.Eq],
    ast.In: [ast.NotIn],
    ast.NotIn: [ast.In],
}
# As strings, since `rf.compare_bc(a, "<", b)` has them so.
_OTHER_WORDS = {"<": ["<=", ">"], "<=": ["<", ">="], "add": ["sub"], "mul": ["add", "sub"]}
_SIBLINGS = {
    "sigmoid": ["tanh"],
    "tanh": ["sigmoid"],
    "max": ["min", "mean"],
    "min": ["max"],
    "reduce_max": ["reduce_min", "reduce_mean"],
    "reduce_mean": ["reduce_sum"],
    "reduce_sum": ["reduce_mean", "reduce_max"],
    "sum": ["mean", "max"],
    "mean": ["sum"],
    "any": ["all"],
    "all": ["any"],
    "sin": ["cos"],
    "cos": ["sin"],
    "softmax": ["log_softmax"],
    "logaddexp": ["maximum"],
    "argmax": ["argmin"],
    "triu": ["tril"],
    "tril": ["triu"],
    "cumsum": ["cumprod"],
    "zeros": ["ones"],
    "zeros_like": ["ones_like"],
    "ones_like": ["zeros_like"],
    "exp": ["exp2"],
}


def mutants_of(source: str, name: str | None = None) -> Iterator[tuple[str, str]]:
    """Each change, and the source with it.

    Args:
        source: Of a module.
        name: Of what is changed in it; default: everything.
    """
    tree = ast.parse(source)
    seen: dict[str, int] = {}
    texts = {ast.unparse(tree)}
    for path, node in _nodes(tree, name):
        for said, other in _changes(node):
            changed = _replaced(tree, path, other)
            text = ast.unparse(ast.fix_missing_locations(changed))
            if text in texts:
                continue
            texts.add(text)
            seen[said] = seen.get(said, 0) + 1
            yield (said if seen[said] == 1 else f"{said} #{seen[said]}"), text


Path = tuple[tuple[str, int | None], ...]


def _nodes(tree: ast.Module, name: str | None) -> Iterator[tuple[Path, ast.AST]]:
    for at, statement in enumerate(tree.body):
        if name is None or name in _defined(statement):
            yield from _below((("body", at),), statement)


def _defined(statement: ast.stmt) -> list[str]:
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return []


def _below(path: Path, node: ast.AST) -> Iterator[tuple[Path, ast.AST]]:
    yield path, node
    for field, value in ast.iter_fields(node):
        if field in ("args", "ctx", "annotation", "returns") and isinstance(node, ast.FunctionDef):
            continue
        if isinstance(value, ast.AST):
            yield from _below((*path, (field, None)), value)
        elif isinstance(value, list):
            for at, one in enumerate(value):
                if isinstance(one, ast.AST):
                    yield from _below((*path, (field, at)), one)


def _replaced(tree: ast.Module, path: Path, other: ast.AST) -> ast.Module:
    made = copy.deepcopy(tree)
    holder: ast.AST = made
    for field, at in path[:-1]:
        value = getattr(holder, field)
        holder = value if at is None else value[at]
    field, at = path[-1]
    if at is None:
        setattr(holder, field, other)
    else:
        getattr(holder, field)[at] = other
    return made


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    made: list[ast.AST] = []
    if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return
    if isinstance(node, ast.stmt):
        made = list(_of_statement(node))
    elif isinstance(node, ast.expr):
        made = list(_of_expression(node))
    for other in made:
        yield f"{_line(node)} -> {_line(other)}", other


def _line(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 100 else text[:50] + " ... " + text[-45:]


def _of_statement(node: ast.stmt) -> Iterator[ast.AST]:
    if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise, ast.Break, ast.Continue, ast.Assert)):
        yield ast.Pass()
    if isinstance(node, ast.AugAssign):
        yield ast.Assign([node.target], node.value, lineno=1)
    if isinstance(node, ast.If):
        yield _with(node, test=ast.Constant(True))
        yield _with(node, test=ast.Constant(False))
    if isinstance(node, (ast.For, ast.While)):
        yield _with(node, body=[*node.body, ast.Break()])
    if isinstance(node, ast.For):
        yield _with(node, iter=_parsed(f"list({ast.unparse(node.iter)})[1:]"))
        yield _with(node, iter=_parsed(f"list({ast.unparse(node.iter)})[:-1]"))
        yield _with(node, iter=_parsed(f"list({ast.unparse(node.iter)})[::-1]"))
    if isinstance(node, ast.Return) and node.value is not None:
        yield from (ast.Return(one) for one in _of_result(node.value))


def _of_result(value: ast.expr) -> Iterator[ast.expr]:
    if isinstance(value, ast.Tuple):
        for at, one in enumerate(value.elts):
            for other in _of_result(one):
                yield ast.Tuple([*value.elts[:at], other, *value.elts[at + 1 :]], ast.Load())
        return
    text = f"({ast.unparse(value)})"
    if isinstance(value, ast.Constant) or _is_verdict(value):
        yield from (ast.Constant(other) for other in (True, False, None))
        if _is_verdict(value):
            yield _parsed(f"not {text}")
        return
    templates = ("2 * {}", "{} / 2", "-{}", "{} + 1", "{} * 0", "{}.sum()", "{}.flip(0)", "{}[0]", "{}[::-1]", "{}[:-1]", "bool({})",
                 "sorted({})", "True", "False", "None", "0")  # fmt: skip
    for template in templates:
        yield _parsed(template.format(text))


def _of_expression(node: ast.expr) -> Iterator[ast.AST]:
    if isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
        yield from (_with(node, op=other()) for other in _OTHER_OPERATORS.get(type(node.op), []))
        if not isinstance(node.op, (ast.Add, ast.Mult)):
            yield _with(node, left=node.right, right=node.left)
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.BoolOp):
        yield _with(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        for at in range(len(node.values)):
            kept = node.values[:at] + node.values[at + 1 :]
            yield kept[0] if len(kept) == 1 else _with(node, values=kept)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from (_with(node, ops=[other()]) for other in _OTHER_COMPARISONS.get(type(node.ops[0]), []))
    elif isinstance(node, ast.Constant):
        yield from (ast.Constant(other) for other in _other_constants(node.value))
    elif isinstance(node, ast.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, ast.Call):
        yield from _of_call(node)
    elif isinstance(node, ast.Subscript):
        yield node.value
    elif isinstance(node, ast.Tuple) and len(node.elts) > 1:
        for at in range(len(node.elts) - 1):
            first, second = node.elts[at : at + 2]
            yield _with(node, elts=[*node.elts[:at], second, first, *node.elts[at + 2 :]])
    elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield node.value
    elif isinstance(node, (ast.GeneratorExp, ast.ListComp)):
        for at, loop in enumerate(node.generators):
            for part in ("[1:]", "[:-1]", "[:1]"):
                other = _with(loop, iter=_parsed(f"list({ast.unparse(loop.iter)}){part}"))
                yield _with(node, generators=[*node.generators[:at], other, *node.generators[at + 1 :]])


def _of_call(node: ast.Call) -> Iterator[ast.AST]:
    inside = node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None
    if isinstance(node.func, ast.Attribute):
        is_module = isinstance(node.func.value, ast.Name) and node.func.value.id in ("rf", "torch", "np", "math")
        if not is_module and not ast.unparse(node.func).startswith("torch."):
            yield node.func.value  # x.sum(1) -> x
        elif inside is not None:
            yield inside  # torch.exp(x) -> x
        for other in _SIBLINGS.get(node.func.attr, []):
            yield _with(node, func=_with(node.func, attr=other))
    elif isinstance(node.func, ast.Name):
        if inside is not None:
            yield inside
        for other in _SIBLINGS.get(node.func.id, []):
            yield _with(node, func=ast.Name(other, ast.Load()))
    elif inside is not None:
        yield inside  # gate[name](x) -> x
    if isinstance(node.func, ast.Attribute) and node.func.attr == "logaddexp" and len(node.args) == 2:
        library = ast.unparse(node.func.value)
        one, other = map(ast.unparse, node.args)
        yield ast.parse(f"{library}.log({library}.exp({one}) + {library}.exp({other}))", mode="eval").body  # underflows
    if _is_verdict(node):  # both ways round alike, and its tolerances are no part of an answer
        return
    for at in range(len(node.keywords)):
        yield _with(node, keywords=node.keywords[:at] + node.keywords[at + 1 :])
    if len(node.args) >= 2:
        yield _with(node, args=[node.args[1], node.args[0], *node.args[2:]])
        yield _with(node, args=node.args[:-1])


def _other_constants(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1]
    if isinstance(value, float):
        if 1e-3 < abs(value) < 1e6 or value == 0:
            return [value * 1.05 + 0.05, value * 0.9 - 0.05, 0.0]
        return (
            [0.05] if 0 < value <= 1e-3 else []
        )  # a tolerance is another one where it hides a fault; -1e30 is any large number
    return list(_OTHER_WORDS.get(value, [])) if isinstance(value, str) else []


def _is_verdict(node: ast.expr) -> bool:
    """Whether it is true or false."""
    call = node.func if isinstance(node, ast.Call) else None
    name = call.attr if isinstance(call, ast.Attribute) else call.id if isinstance(call, ast.Name) else ""
    return isinstance(node, (ast.Compare, ast.BoolOp)) or name in ("allclose", "any", "all", "bool")


def _with(node: ast.AST, **fields: object) -> ast.AST:
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
