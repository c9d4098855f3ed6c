"""Recurrences in Python loops: a variable whose value in each turn is computed from its earlier value is a state with steps.

    h = x.new_zeros(len(x), width)
    for t in range(x.shape[1]):
        h = torch.tanh(self.inner(x[:, t]) + self.outer(h))        # "h", a step for each turn

The variables that a loop carries are found in the source, once per function. Their values are read when a new turn
begins, as detected from the torch calls in the loop. A value is a state if it is computed from its earlier value by
more than adding, appending or selecting, and each turn does the same: with the same weights, or with other entries of a
tensor. So these are not states: stacked layers, sums over experts or taps, growing lists, labels.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass
from types import CodeType
from typing import Any, NamedTuple

import torch

from rfnb.interop.seen.axis_flow import PART, AxisNode, bare
from rfnb.interop.seen.axis_reads import carried, say_time
from rfnb.interop.seen.calls import Call
from rfnb.interop.seen.snapshot import copied, version_of
from rfnb.trace.probe import probe, trace_context

THROUGH = "words_of_a_call"
"""The name of our wrappers around user functions, which do not count as a place in user code."""
HAS_STATES = "states of a loop in its code"
"""In `Call.seen`: whether some were offered."""
_ADDING = {
    "add", "sub", "cat", "stack", "maximum", "minimum", "max", "min", "amax", "amin", "where", "setitem", "index_put", "index_copy",
    "to", "float", "contiguous", "clone", "detach", "view", "reshape", "unsqueeze", "squeeze", "logical_or", "logical_and",
}  # fmt: skip
_ENTRIES = {"getitem", "select", "unbind", "split", "chunk", "narrow", "index_select"}
_MOST_NODES, _MOST_TURNS, _UP = 300, 100_000, 3


class CarriedLoop(NamedTuple):
    """A loop in the source of a function.

    Attributes:
        first, last: Its line range.
        target: The loop variable, or "".
        names: The variables, and attributes of variables, that a turn reads before it sets them.
        used: Those that it reads for more than to compute their next value or to append them.
    """

    first: int
    last: int
    target: str
    names: tuple[str, ...]
    used: frozenset[str]


class LoopTurn(NamedTuple):
    """The value of a variable at the end of a turn.

    Attributes:
        number: The index of the turn; -1 before the loop.
        node, raw: The tensor.
        version: Its number of in-place changes by then.
    """

    number: int
    node: AxisNode
    raw: torch.Tensor
    version: int | None


class LoopRun:
    """One run of a loop.

    Attributes:
        call: The call of the module in which it began.
        turns: The values of each variable, by path; variables that are not states are removed.
    """

    def __init__(self, loop: CarriedLoop, frame: Any, call: Call):
        self.loop, self.call, self.frame = loop, call, frame
        self.turns: dict[str, list[LoopTurn]] = {}
        self._begin = self._last = frame.f_lasti
        self._marks: list[Any] = []  # objects that differ in each turn
        self._number = -1
        self._weights: dict[str, list[Any]] = {}
        self._none: set[str] = set()

    def note(self, at: int, node_of: Any) -> None:
        """Handle a torch call at this location of the loop: if a turn begins with it, store the results of the previous turn."""
        begins = at <= (self._last if self.loop.target else self._begin)
        self._last, self._begin = at, min(at, self._begin)
        if begins:
            values = self.frame.f_locals
            names = [self.loop.target] if self.loop.target else self.loop.names
            marks = [_value(values, name) for name in names]
            if len(self._marks) != len(marks) or any([one is not other for one, other in zip(marks, self._marks)]):
                self._marks = marks
                self.keep(values, node_of)

    def keep(self, values: Any, node_of: Any, *, last: bool = False) -> None:
        """Store the values of the variables at the end of a turn; if a loop was left in mid-turn, there are none."""
        before = [turns[-1].node for turns in self.turns.values()]
        changed = []
        for name in self.loop.names:
            for path, raw in _tensors(name, _value(values, name)):
                turns = self.turns.get(path)
                if path in self._none or not (raw.is_floating_point() and raw.ndim and raw.numel() > 1):
                    continue
                if turns is None:
                    turns = self.turns[path] = []
                is_same = bool(turns) and turns[-1].raw is raw
                if not (is_same and last) and len(turns) < _MOST_TURNS:
                    turns.append(LoopTurn(self._number, node_of(raw), raw, version_of(raw)))
                if not is_same and len(turns) > 1:
                    changed.append(path)
        self._number += 1
        for path in changed:
            if not self._goes_on(path, self.turns[path][-2], self.turns[path][-1], before):
                self._none.add(path)  # and release it, since it may be large
                del self.turns[path]

    def _goes_on(self, path: str, old: LoopTurn, new: LoopTurn, before: list[AxisNode]) -> bool:
        weights, entries, more = _turn(new.node, old.node, before)
        if old.raw.shape != new.raw.shape and old.number >= 0:
            return False
        if (
            not (more or any([path == name or path.startswith((f"{name}.", f"{name}_")) for name in self.loop.used]))
            or not (weights or entries)
            or old.version != version_of(old.raw)
        ):
            return False
        known = self._weights.setdefault(path, [])
        known.append(weights)
        return known[0] == weights

    def states(self) -> dict[str, list[LoopTurn]]:
        """The states, by path: the value of each turn."""
        found = {}
        for path, turns in self.turns.items():
            module = turns[-1].node.kwargs.get("module")  # modules of torch report their own states
            if len(self._weights.get(path, ())) > 1 and not isinstance(
                module, (torch.nn.RNNBase, torch.nn.RNNCellBase)
            ):
                own = [each for each in turns if each.number >= 0]
                is_as_it_was = all([version_of(each.raw) == each.version for each in own])
                if len(own) > 1 and is_as_it_was and not self._is_of_cell(own[-1].raw):
                    found[path] = own
        return found

    def _is_of_cell(self, raw: torch.Tensor) -> bool:
        cells = self.call.seen.get("written cells", {}).values()
        return any(cell.names and any(each is raw for each in cell.made) for cell in cells)


class LoopSearch:
    """Searches for recurrences in one outermost call of a model.

    Args:
        node_of: Returns the node of a tensor.
    """

    def __init__(self, node_of: Any):
        self._node_of = node_of
        # By id, with the code object: hashing code reads all of it.
        self._known: dict[int, tuple[CodeType, tuple[CarriedLoop, ...]]] = {}
        self._forward: tuple[Any, CodeType | None] = None, None  # of the last called module
        self._runs: dict[int, list[LoopRun]] = {}  # by the id of a frame, its loops; inner ones last

    def look(self, frame: Any, call: Call | None) -> None:
        """Handle a torch call from a frame; it or a caller may be in a loop."""
        if call is None:
            return
        known, forward = self._forward
        if known is not call.module:
            forward = getattr(type(call.module).forward, "__code__", None)
            self._forward = call.module, forward
        for _ in range(_UP):
            if frame is None:
                return
            if frame.f_code.co_name == THROUGH:
                frame = frame.f_back
            code = frame.f_code
            loops = self._known.get(id(code))
            if loops is None:
                loops = self._known[id(code)] = code, _loops_of(code)
            if loops[1]:
                return self._in(frame, call, loops[1])
            if code is forward:  # its caller is another module
                return
            frame = frame.f_back

    def _in(self, frame: Any, call: Call, loops: tuple[CarriedLoop, ...]) -> None:
        line, runs = frame.f_lineno, self._runs.get(id(frame))
        if runs is None or (runs and runs[0].frame is not frame):
            runs = self._runs[id(frame)] = []
        while runs and not runs[-1].loop.first < line <= runs[-1].loop.last:
            self._end(runs.pop())
        for loop in loops:  # outer ones first
            if loop.first < line <= loop.last and all(each.loop is not loop for each in runs):
                runs.append(LoopRun(loop, frame, call))
        for run in runs:
            run.note(frame.f_lasti, self._node_of)

    def _end(self, run: LoopRun) -> None:
        run.keep(run.frame.f_locals, self._node_of, last=True)
        run.frame = None
        if run.turns:
            run.call.seen.setdefault("loops", []).append(run)

    def end(self, call: Call) -> None:
        """Handle the end of a module's call: send the states of its loops."""
        for key, runs in list(self._runs.items()) if self._runs else ():
            if runs and runs[0].call is call:
                for run in reversed(self._runs.pop(key)):
                    self._end(run)
        if "loops" not in call.seen:
            return
        found = [states for run in call.seen.pop("loops", ()) if (states := run.states())]
        call.seen[HAS_STATES] = bool(found)
        for place, states in enumerate(found):
            with trace_context.scope(f"loop{place}" if len(found) > 1 else ""):
                _offer(call, states)

    def close(self) -> None:
        """Handle the end of the outermost call."""
        self._runs.clear()


def _offer(call: Call, states: dict[str, list[LoopTurn]]) -> None:
    instead: dict[Any, Any] = {}
    for turns in states.values():
        instead |= say_time(call, [turns[0].node], [turns[1].node], [turns[0].node])
    names, steps = _short_names(list(states)), dict[int, dict[str, Any]]()
    for path, turns in states.items():
        known = [call.names.of(turn.raw) for turn in turns]
        first = next(filter(None, known), None) or call.names.dims_of(turns[0].raw, call)
        for turn, own in zip(turns, known):  # a state has the same dims in each step
            dims = carried(own or first, instead)
            said = turn.node.words or [None] * len(dims)
            dims = tuple([call.names.worded(dim, word, call) for dim, word in zip(dims, said)])
            value = call.names.seen(copied(turn.raw), dims, names[path])
            steps.setdefault(turn.number, {})[names[path]] = value
    for step, values in sorted(steps.items()):
        with trace_context.loop("", step):
            probe("states", **values)


def _short_names(paths: list[str]) -> dict[str, str]:
    """Names of states; a pair in a tuple is h and c, as for nn.LSTMCell, and named fields keep their names."""
    last = [path.rpartition(".")[2] for path in paths]
    if last == ["0", "1"]:
        return dict(zip(paths, ("h", "c")))
    if len(set(last)) == len(last) and all([each.isidentifier() for each in last]):
        return dict(zip(paths, last))
    return {path: path.replace(".", "_") for path in paths}


def _value(values: Any, name: str) -> Any:
    """The value of a variable, or of an attribute of one, without running its code."""
    first, _, attribute = name.partition(".")
    value = values.get(first)
    if not attribute:
        return value
    own = getattr(value, "__dict__", {})
    return own.get(attribute, own.get("_buffers", {}).get(attribute))


def _tensors(path: str, value: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
        return
    mark, parts = ".", dict[Any, Any]()
    if isinstance(value, dict):
        parts = value
    elif isinstance(value, tuple):
        parts = dict(zip(getattr(value, "_fields", range(len(value))), value))
    elif isinstance(value, list):
        mark, parts = "_", dict(enumerate(value))
    elif is_dataclass(value):
        parts = vars(value)
    if len(parts) < 65:
        for place, each in list(parts.items()):
            if isinstance(each, torch.Tensor):
                yield f"{path}{mark}{place}", each


# -- what counts as a state ---------------------------------------------------------------------------------------------------------
def _turn(new: AxisNode, old: AxisNode, before: list[AxisNode]) -> tuple[frozenset[Any], bool, bool]:
    """The weights used in a turn; whether it read entries; whether it did more than add to the earlier value."""
    weights, entries, more, stops = set[Any](), False, False, {id(each) for each in before}
    # With each node: whether something other than adding happened on the way to it.
    todo, seen = [(new, False)], {(id(new), False)}
    while todo and len(seen) < _MOST_NODES:
        node, changed = todo.pop(0)
        if node is old:
            more = more or changed
            continue
        if id(node) in stops and node is not new:
            continue
        if node.op == "param":
            weights.add(id(node))
        elif node.op == "module":
            module = node.kwargs["module"]
            if next(module.parameters(), None) is not None:
                weights.add(id(module))
        elif node.op in _ENTRIES and node.inputs:
            if bare(node.inputs[0]).op in ("param", "buffer"):
                which = [each for each in node.args[1:] if not isinstance(each, AxisNode)], node.kwargs.get(PART)
                weights.add((id(bare(node.inputs[0])), repr(which)))
                continue
            entries = True
        changed = changed or node.op not in _ADDING
        for each in node.inputs:
            if (id(each), changed) not in seen:
                seen.add((id(each), changed))
                todo.append((each, changed))
    return frozenset(weights), entries, more


# -- the source ---------------------------------------------------------------------------------------------------------------------
@functools.lru_cache(maxsize=4096)
def _loops_of(code: CodeType) -> tuple[CarriedLoop, ...]:
    """The loops of a function that carry a value from turn to turn, outer ones first."""
    module = sys.modules.get("torch")
    if module is None or code.co_filename.startswith(module.__path__[0]) or code.co_name == "<module>":
        return ()
    try:
        tree = ast.parse(textwrap.dedent("".join(inspect.getsourcelines(code)[0])))
    except (OSError, TypeError, SyntaxError, ValueError):
        return ()
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.While)):
            reads, sets = _order([node.test] if isinstance(node, ast.While) else [], set())
            more, own = _order(node.body, set(sets))
            names = tuple(sorted((reads | more) & own))
            target = node.target if isinstance(node, ast.For) else None
            while isinstance(target, (ast.Tuple, ast.List)) and target.elts:
                target = target.elts[0]
            if names:
                shift = code.co_firstlineno - 1
                last = node.body[-1].end_lineno or node.lineno
                header = node.iter.end_lineno if isinstance(node, ast.For) else node.test.end_lineno
                line = (header or node.lineno) + shift - (node.body[0].lineno == (header or node.lineno))
                found.append(
                    CarriedLoop(
                        line, last + shift, target.id if isinstance(target, ast.Name) else "", names, _used(node)
                    )
                )
    return tuple(sorted(found, key=lambda loop: (loop.first, -loop.last)))


def _used(loop: ast.For | ast.While) -> frozenset[str]:
    """The variables that the body of a loop reads, except to compute their next value or to append them."""
    found = set[str]()
    for node in ast.walk(loop):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.Expr, ast.Return)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", ast.Tuple([]))]
            own = {name for target in targets for each in ast.walk(target) if (name := _name(each))}
            value = node.value
            if isinstance(node, ast.Expr) and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
                own |= {name for each in [value.func.value, *value.args] if (name := _name(each))}
            found |= {name for each in ast.walk(value) if (name := _name(each))} - own
    return frozenset(found)


def _name(node: ast.AST) -> str:
    """The name of a variable, or of an attribute of one; else ""."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _order(nodes: Iterable[ast.AST], known: set[str]) -> tuple[set[str], set[str]]:
    """The names that some code reads before it sets them, and those that it sets, in addition to the known ones."""
    reads, sets = set[str](), set(known)

    def visit(node: Any) -> None:
        if name := _name(node):
            if isinstance(getattr(node, "ctx", None), ast.Load):
                reads.update({name, name.partition(".")[0]} - sets)
            else:
                sets.add(name)
        elif isinstance(node, ast.AugAssign):
            reads.update({name for each in ast.walk(node.target) if (name := _name(each))} - sets)
            visit(node.value)
            sets.update(name for each in ast.walk(node.target) if (name := _name(each)))
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            if node.value is not None:
                visit(node.value)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                visit(target)
                if isinstance(target, ast.Subscript) and (name := _name(target.value)):  # hs[layer] = ...
                    sets.add(name)
        elif isinstance(node, ast.If):
            visit(node.test)
            before, after = set(sets), set[str]()
            for branch in (node.body, node.orelse):
                own, made = _order(branch, before)
                reads.update(own)
                after |= made
            sets.update(after)
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            visit(node.iter)
            visit(node.target)
            for statement in [*node.body, *node.orelse]:
                visit(statement)
        elif not isinstance(
            node, (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.DictComp, ast.SetComp)
        ):
            for each in ast.iter_child_nodes(node):
                visit(each)
        else:
            reads.update(
                {
                    name
                    for each in ast.walk(node)
                    if (name := _name(each)) and isinstance(getattr(each, "ctx", None), ast.Load)
                }
                - sets
            )

    for inner in nodes:
        visit(inner)
    return reads, sets - known
