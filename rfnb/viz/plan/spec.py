"""The plan view: which ops of a recorded loop run before, inside and after it, and their inputs.

    with loop: ...
    rf.show(loop)                 # or rf.show(loop.plan), rf.viz.plan(loop)

The spec: `head = {title, live, axis, places: [{name, meaning, ops: [...]}], values: {id: label}, results: [{label, reads}], back}`; an op
is `{id, name, dims, reads: [id of an op or value], code}`, `back` the recurrence: `[{result, value}]`, the state that a
step reads, and the result of the previous step that it is. `graph` is the layout of the picture (`viz/parts/graph.py`).
There are no blocks.
"""

from __future__ import annotations

from typing import Any

from rfnb.core.errors import type_error, value_error
from rfnb.core.place import place_text
from rfnb.core.strict_json import JsonObject
from rfnb.rec.loop import Loop
from rfnb.rec.loop_plan import LoopPlan
from rfnb.rec.loop_plan_text import MEANING, dims_of, recurrence
from rfnb.viz.plan.layout import MOST_OPS, layout
from rfnb.viz.spec import Spec


def spec(loop: Loop | LoopPlan, *, title: str | None = None) -> Spec:
    """The spec of the plan of a recorded loop.

    Raises:
        TypeError: If it is not a loop.
        ValueError: If the loop was not recorded.
    """
    if not isinstance(loop, (Loop, LoopPlan)):
        raise type_error(
            "plan: this is not a loop.",
            {"given": type(loop).__name__},
            "Only recorded loops have a plan.",
            "rf.viz.plan(loop)",
        )
    plan = loop.plan if isinstance(loop, Loop) else loop
    if plan is None:
        raise value_error(
            f'plan: loop "{loop.name}" has none.',
            {"loop": "not recorded"},
            "A loop has a plan after its body was recorded and the loop ended:",
            "with loop:\n    ...",
        )
    nodes = [(place, node) for place, part in plan.places() for node in part]
    made = {register: f"op{index}" for index, (_, node) in enumerate(nodes, 1) for register in node.writes}
    inputs = plan.inputs()

    def read(registers: Any) -> list[str]:
        return list(dict.fromkeys(made.get(register, f"value{register}") for register in registers))

    places: dict[str, list[JsonObject]] = {place: [] for place, _ in plan.places()}
    for index, (place, node) in enumerate(nodes, 1):
        places[place].append(
            {
                "id": f"op{index}",
                "name": node.name,
                "dims": dims_of(plan, node),
                "reads": read(node.reads),
                "code": place_text(node.place),
            }
        )
    results = [{"label": label, "reads": read(registers)} for label, registers in plan.results().items()]
    used = {id_ for ops in places.values() for op in ops for id_ in op["reads"]} | {
        id_ for result in results for id_ in result["reads"]
    }
    head: JsonObject = {
        "title": title or f'Loop "{plan.name}"',
        "live": False,
        "axis": plan.axis.short_repr(),
        "places": [{"name": name, "meaning": MEANING[name], "ops": ops} for name, ops in places.items()],
        "values": {f"value{register}": label for register, label in inputs.items() if f"value{register}" in used},
        "results": results,
    }
    back = [{"result": result, "value": f"value{register}"} for register, result in recurrence(plan)]
    head["back"] = [edge for edge in back if edge["value"] in head["values"]]
    head["graph"] = layout(head) if 0 < len(nodes) <= MOST_OPS else None
    return Spec("plan", head)
