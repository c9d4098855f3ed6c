"""The body of a `with` block compiled from its source as a function, to find out what the next step would do.

It has the variables of the frame: those that functions of the frame share are shared with them, the others are copies; names of a
module or of a cell of a notebook are the module's own, and are put back by `with variables_kept(...)`.
"""

from __future__ import annotations
import __future__

import ast
import contextlib
import copy
import functools
import inspect
import linecache
import types
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

from rfnb.core.memo import make_room
from rfnb.rec.body_names import names_in

_FUTURES = functools.reduce(
    int.__or__, [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names]
)
_MISSING = object()
_SCOPES = ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef


class BodyFunction:
    """The body of the with-block that a frame is executing.

    Args:
        frame: It is leaving the block.
        begin: The instruction that has entered it.
        entered: What the block is of, as one of several may be.

    Attributes:
        call: Runs the body once; None: there is no source, or the body is one that no function can be (`yield`).
    """

    def __init__(self, frame: FrameType, begin: int, entered: Any):
        self.call: Callable[[], Any] | None = None
        self._globals, self._stored = frame.f_globals, list[str]()
        found = _block(frame, begin, entered)
        if found is None:
            return
        body, code = found, frame.f_code
        own = (
            {*code.co_varnames, *code.co_cellvars, *code.co_freevars} if code.co_flags & inspect.CO_OPTIMIZED else set()
        )
        if not own and frame.f_locals is not frame.f_globals:
            return
        if "__class__" in code.co_freevars and code.co_argcount:
            body = [_WithSuper(code.co_varnames[0]).visit(copy.deepcopy(statement)) for statement in body]
        bound = _bound(body)
        names = sorted(own & {*bound, *_read(body)})
        self._stored = sorted(bound - own)
        compiled = _compiled(body, names, self._stored, code)
        live = names_in(code, begin + 1, frame.f_lasti).read
        if compiled is None or not {name for name in live if name[0] != "@"} <= {*names_in_all(compiled)}:
            return  # the file is another one by now
        values = dict(frame.f_locals) if own else {}
        shared = _shared_cells(values)
        cells = [_cell(values.get(name, _MISSING), shared.get(name, [])) for name in compiled.co_freevars]
        self.call = types.FunctionType(compiled, frame.f_globals, "body", None, tuple(cells))

    @contextlib.contextmanager
    def variables_kept(self) -> Iterator[None]:
        """Restore the module's names at the end of this block."""
        around = self._globals
        before = {name: around.get(name, _MISSING) for name in self._stored}
        try:
            yield
        finally:
            for name, value in before.items():
                if value is _MISSING:
                    around.pop(name, None)
                else:
                    around[name] = value


def names_in_all(code: CodeType) -> tuple[str, ...]:
    """All names that the code reads, nested code included."""
    return names_in(code, 0, len(code.co_code)).read


def _block(frame: FrameType, begin: int, entered: Any) -> list[Any] | None:
    """The statements of the block, or None if they cannot be found."""
    place = _place_of(frame.f_code, begin)
    tree = _tree(frame.f_code.co_filename, frame.f_globals)
    if place is None or tree is None:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            items = [item for item in node.items if _place(item.context_expr) == place]
            if not items and _place(node) == place:  # before Python 3.13 it is that of the statement
                items = node.items if len(node.items) == 1 else [x for x in node.items if _is(x, frame, entered)]
            if len(items) == 1:
                inner = node.items[node.items.index(items[0]) + 1 :]
                body = node.body if not inner else [ast.copy_location(ast.With(inner, node.body), node)]
                return None if any(isinstance(x, (ast.Yield, ast.YieldFrom, ast.Await)) for x in _own(body)) else body
    return None


def _is(item: ast.withitem, frame: FrameType, entered: Any) -> bool:
    """True if this name or attribute evaluates to the object that was entered."""
    names, node = list[str](), item.context_expr
    while isinstance(node, ast.Attribute):
        names, node = [node.attr, *names], node.value
    if not isinstance(node, ast.Name):
        return False
    value = frame.f_locals.get(node.id, frame.f_globals.get(node.id))
    for name in names:
        value = getattr(value, "__dict__", {}).get(name)
    return value is entered


def _place_of(code: CodeType, offset: int) -> tuple[Any, ...] | None:
    line, end_line, column, end_column = list(code.co_positions())[offset // 2]
    return None if column is None else (line, end_line, column, end_column)


def _place(node: Any) -> tuple[Any, ...]:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset


_trees: dict[str, tuple[str, ast.Module]] = {}


def _tree(file: str, around: dict[str, Any]) -> ast.Module | None:
    source = "".join(linecache.getlines(file, around))
    if not source:
        return None
    found = _trees.get(file)
    if found is None or found[0] != source:
        try:
            tree = ast.parse(source)
        except SyntaxError:  # a cell with magic commands
            return None
        make_room(_trees, 16)
        found = _trees[file] = source, tree
    return found[1]


def _own(body: list[Any]) -> Iterator[ast.AST]:
    """All nodes of a body except those inside nested functions and classes."""
    todo = list(body)
    while todo:
        node = todo.pop()
        yield node
        todo += [] if isinstance(node, _SCOPES) else ast.iter_child_nodes(node)


def _bound(body: list[Any]) -> set[str]:
    """The names that a body binds."""
    found: set[str] = set()
    for node in _own(body):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).partition(".")[0])
        else:  # except ... as name, case name, case [*name], case {**name}
            found |= {name for field in ("name", "rest") if isinstance(name := getattr(node, field, None), str)}
    return found


def _read(body: list[ast.stmt]) -> set[str]:
    return {node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)}


class _OfBody(ast.NodeTransformer):
    """Transformer that leaves nested functions and classes unchanged."""

    def visit_FunctionDef(self, node: Any) -> ast.AST:
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef


class _WithoutScopes(_OfBody):
    """Removes `global` and `nonlocal` statements, which are declared at the top instead."""

    def visit_Global(self, node: ast.Global) -> ast.AST:
        return ast.copy_location(ast.Pass(), node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.AST:
        return ast.copy_location(ast.Pass(), node)


class _WithSuper(_OfBody):
    """Gives `super()` its arguments explicitly: the class and the first argument of the enclosing method."""

    def __init__(self, first: str):
        self._first = first

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            names = [ast.Name(name, ast.Load()) for name in ("__class__", self._first)]
            node.args = [ast.copy_location(name, node) for name in names]
        return node


def _compiled(body: list[ast.stmt], names: list[str], stored: list[str], code: CodeType) -> CodeType | None:
    """Compile the body as a function with the free variables `names`. The function is nested in a class whose name mangles private
    names as in the original.
    """
    scopes = [each for each in code.co_qualname.split(".")[:-1] if each != "<locals>"]
    # The `for` is there for a `break` or `continue` of a loop around the block.
    source = "class scope:\n def around():\n  {}\n  def body():\n   {}\n   for _rfnb_once in (0,): pass\n"
    bind = "; ".join(f"{name} = 0" for name in names) or "pass"
    say = "; ".join(f"{word} {', '.join(these)}" for word, these in (("nonlocal", names), ("global", stored)) if these)
    tree = ast.parse(source.format(bind, say or "pass"))
    scope: Any = tree.body[0]
    scope.name = scopes[-1] if scopes and scopes[-1].isidentifier() else "scope"
    function = scope.body[0].body[-1]
    function.body[-1].body = [_WithoutScopes().visit(copy.deepcopy(statement)) for statement in body]
    ast.fix_missing_locations(tree)
    try:
        made = compile(tree, code.co_filename, "exec", code.co_flags & _FUTURES, dont_inherit=True)
    except SyntaxError:
        return None
    for name in (scope.name, "around", "body"):
        made = next(each for each in made.co_consts if isinstance(each, CodeType) and each.co_name == name)
    return made


def _shared_cells(values: dict[str, Any]) -> dict[str, list[Any]]:
    """For each name, the closure cells of that name in functions among the values."""
    found: dict[str, list[Any]] = {}
    for value in values.values():
        fn = getattr(value, "__func__", value) if type(value) is types.MethodType else value
        if type(fn) is types.FunctionType:
            for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
                found.setdefault(name, []).append(cell)
    return found


def _cell(value: Any, shared: list[Any]) -> Any:
    """The closure cell of a variable."""
    for cell in shared:
        try:
            if cell.cell_contents is value:
                return cell
        except ValueError:  # it is empty
            if value is _MISSING:
                return cell
    return types.CellType() if value is _MISSING else types.CellType(value)
