"""A loop's plan for display: which op runs before, inside and after the loop, as text and as a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rfnb.core.place import place_text
from rfnb.core.tensor_text import dims_text
from rfnb.core.tree import leaves
from rfnb.rec.recorder import Node

if TYPE_CHECKING:
    from rfnb.rec.loop_plan import LoopPlan

MEANING = {"before": "once, on all frames", "inside": "in every step", "after": "once, on all steps"}


def text(plan: LoopPlan) -> str:
    """One line per op: its number, name, dims, operands, and source line."""
    names = value_names(plan)
    rows = {where: [_row(plan, node, names) for node in nodes] for where, nodes in plan.places()}
    widths = [max((len(row[column]) for part in rows.values() for row in part), default=0) for column in range(4)]
    lines = [f'Loop "{plan.name}" over {plan.axis.short_repr()}']
    for where, part in rows.items():
        lines.append(f"{where}: {MEANING[where]}" + ("" if part else "  (nothing)"))
        lines += [
            "  " + "  ".join([*(cell.ljust(width) for cell, width in zip(row[:4], widths)), row[4]]).rstrip()
            for row in part
        ]
    return "\n".join(lines)


def graph(plan: LoopPlan) -> str:
    """The Graphviz source: an op is a node, a value an edge; the ops of a place form a cluster."""
    names = value_names(plan)
    lines = ["digraph loop {", "  rankdir=LR;", '  node [shape=box, fontname="sans-serif"];']
    made = {register: f"op{index}" for index, node in _numbered(plan) for register in node.writes}
    numbers = {id(node): index for index, node in _numbered(plan)}
    for where, nodes in plan.places():
        lines += [f"  subgraph cluster_{where} {{", f'    label="{where}: {MEANING[where]}";']
        lines += [
            f'    op{numbers[id(node)]} [label="{_quoted(node.name)}\\n{_quoted(dims_of(plan, node))}"];'
            for node in nodes
        ]
        lines.append("  }")
    sources = dict.fromkeys(register for _, node in _numbered(plan) for register in node.reads if register not in made)
    lines += [f'  value{register} [label="{_quoted(names[register])}", shape=ellipse];' for register in sources]
    for index, node in _numbered(plan):
        lines += [f"  {made.get(register, f'value{register}')} -> op{index};" for register in dict.fromkeys(node.reads)]
    for name, registers in plan.results().items():
        result = f'"{_quoted(name)}"'
        lines.append(f"  {result} [shape=ellipse];")
        lines += [f"  {made.get(register, f'value{register}')} -> {result};" for register in registers]
    for value, result in recurrence(plan):
        if value in sources:
            back = 'style=dashed, constraint=false, label="state of the step before"'
            lines.append(f'  "{_quoted(result)}" -> value{value} [{back}];')
    return "\n".join([*lines, "}"])


def recurrence(plan: LoopPlan) -> list[tuple[int, str]]:
    """Pairs of a state register that the body reads and the result that becomes it in the next step."""
    results = plan.results()
    found = []
    for register, name in plan.inputs().items():
        state = f"next {name.removeprefix('state.').partition('.')[0]}"
        if name.startswith("state.") and state in results:
            found.append((register, state))
    return found


def value_names(plan: LoopPlan) -> dict[int, str]:
    """register -> "state.h", "frame of x", "iter_idx" or the number of the op that computes it."""
    names = dict(plan.inputs())
    for index, node in _numbered(plan):
        several = len(node.writes) > 1
        for part, register in enumerate(node.writes):
            names[register] = f"#{index}.{part}" if several else f"#{index}"
    return names


def _numbered(plan: LoopPlan) -> list[tuple[int, Node]]:
    return list(enumerate((node for _, nodes in plan.places() for node in nodes), 1))


def _row(plan: LoopPlan, node: Node, names: dict[int, str]) -> list[str]:
    own = names[node.writes[0]].partition(".")[0] if node.writes else ""
    reads = ", ".join(dict.fromkeys(names.get(register, "?") for register in node.reads))
    return [own, node.name, dims_of(plan, node), f"from {reads}" if reads else "", place_text(node.place)]


def dims_of(plan: LoopPlan, node: Node) -> str:
    """The dims of an op's result where it runs; outside of the steps they include the loop dim."""
    return ", ".join(dims_text(plan.whole_dims.get(tensor.register, tensor.dims)) for tensor in node.step_tensors)


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def state_names(states: dict[str, Any]) -> dict[int, str]:
    """register -> "state.h", for state values that the body reads."""
    found = {}
    for name, value in states.items():
        for path, leaf in leaves(value, f"state.{name}"):
            register = getattr(leaf, "register", None)
            if register is not None:
                found[register] = path
    return found
