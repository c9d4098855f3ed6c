"""The page that runs a model: program, weights and views in one file, without kernel, server or network.

    rf.explore(fn, word="parachute", beam_size=(1, 12)).save("page.html", runs=True)

Views are bound to the program by the events that the model sends: attention and states by path and name, a search by
its loop; outputs by what the function returns (`output_views.py`). The counterpart is `widgets/src/page/`.
"""

from __future__ import annotations

import base64
import inspect
import json
import os
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from rfnb.control.run import Run
from rfnb.control.start import run as started
from rfnb.core.errors import missing_key_error, type_error, value_error
from rfnb.core.foreign_arrays import is_array
from rfnb.core.strict_json import JsonObject
from rfnb.core.tensor import Tensor
from rfnb.core.tree import values_in
from rfnb.ops.gradient import stop_gradient_scope
from rfnb.trace.record import record as recording
from rfnb.trace.trace import Trace
from rfnb.viz import trace_page
from rfnb.viz.control.run_view import in_order
from rfnb.viz.edit_handles import EditHandles
from rfnb.viz.explore.inputs import Input, inputs_of
from rfnb.viz.group.spec import parts_of
from rfnb.viz.group.spec import spec as group_spec
from rfnb.viz.page.output import held
from rfnb.viz.runnable.call_notes import noted
from rfnb.viz.runnable.output_views import outputs_of
from rfnb.viz.runnable.program import PageProgram, units_of
from rfnb.viz.runnable.weights import CodedWeights
from rfnb.viz.save import write_page
from rfnb.viz.spec import Spec, host, pack
from rfnb.viz.view import View
from rfnb.viz.visible_text import line

_FEW = 4  # views and tracks that are named one by one
_LEFT = ("orders", "badges", "looks", "range", "hands", "live")  # fields of a head that hold for one text only
_IN_HTML = str.maketrans("&<>", ",./")  # of the digits of base 85
_PLAIN = (str, int, float, list, tuple)
_OF_ONE = ("notes", "says", "looks", "slots", "sums", "names")


def save_running(
    path: str | os.PathLike[str],
    fn: Callable[..., Any],
    inputs: Mapping[str, Input],
    values: Mapping[str, Any],
    **options: Any,
) -> Path:
    """Write a page for a call whose one text is typed, and whose numbers with a range have a field.

    Args:
        options: See `save_page`.

    Raises:
        TypeError: If there is no text among the inputs, or more than one.
    """
    text = [name for name, each in inputs.items() if each.kind == "text"]
    if len(text) != 1:
        raise type_error(
            "save: a page that runs needs one text.",
            {"inputs": ", ".join(f"{name} ({each.kind})" for name, each in inputs.items()) or "none"},
            "One argument of the function is typed in the page; numbers with a range also get a field, all others are fixed.",
            f'rf.explore(lambda {text[0]}: fn({text[0]}, {text[1]}={values[text[1]]!r}), {text[0]}=...).save("page.html", runs=True)'
            if text
            else 'rf.explore(fn, word="phonetics", beam_size=(1, 12)).save("page.html", runs=True)',
        )
    ranges = {name: each.range for name, each in inputs.items() if each.range is not None}
    numbers = {name: (values[name], limits) for name, limits in ranges.items()}
    fixed = {name: value for name, value in values.items() if name not in numbers and name not in text}
    return save_page(path, fn, (text[0], values[text[0]]), numbers, fixed, **options)


def save_run(path: str | os.PathLike[str], run: Run, fields: Mapping[str, Any], **options: Any) -> Path:
    """Write a page for the call of `rf.run`, with its arguments; the page can change the text and the arguments in `fields`.

    Raises:
        TypeError: If its function has no argument that is a text, or a list with one text.
    """
    given = _given_to(run)
    alone = [name for name, value in given.items() if isinstance(value, list) and list(map(type, value)) == [str]]
    given |= {name: given[name][0] for name in alone}
    fn = lambda **more: run._fn(**{name: [value] if name in alone else value for name, value in more.items()})  # noqa: E731
    unknown = fields.keys() - given.keys()
    if unknown:
        raise missing_key_error(
            f"save: the run was given no {min(unknown)}.",
            {"fields": ", ".join(fields), "given": ", ".join(given) or "nothing"},
            "A field of a page is an argument of the function that was run.",
            'rf.save_html("page.html", rf.run(fn, word="phonetics", beam_size=5), runs=True, fields={"beam_size": (1, 12)})',
        )
    open_to = {name: value for name, value in given.items() if isinstance(value, str)} | dict(fields)
    inputs = {name: each for name, each in inputs_of(fn, {**given, **open_to}).items() if name in open_to}
    for name in fields:
        inputs[name].checked(given[name])
    inputs |= {name: Input(name, "fixed", value) for name, value in given.items() if name not in open_to}
    return save_running(path, fn, inputs, given, record=run._record, **options)


def _given_to(run: Run) -> dict[str, Any]:
    """The arguments of the call, by name."""
    bound = inspect.signature(run._fn).bind(*run._args, **run._kwargs)
    bound.apply_defaults()
    given: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        if kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL) and value != ():
            raise type_error(
                f"save: the function of {run.name} takes {name} by position only.",
                {"function": f"{getattr(run._fn, '__name__', type(run._fn).__name__)}{bound.signature}"},
                "A page passes other values by name.",
                'rf.run(lambda word: fn(word), word="phonetics")',
            )
        if kind is not inspect.Parameter.VAR_POSITIONAL:
            given |= value if kind is inspect.Parameter.VAR_KEYWORD else {name: value}
    return given


def save_page(
    path: str | os.PathLike[str],
    fn: Callable[..., Any],
    text: tuple[str, str],
    numbers: Mapping[str, tuple[float, tuple[float, float, float]]],
    fixed: Mapping[str, Any],
    *,
    record: Any = True,
    view: Mapping[str, Any] | None = None,
    weights: str = "float16",
    title: str = "",
    card: str = "",
) -> Path:
    """Write a page in which a function runs.

    Args:
        text: Name and initial value of the argument that is typed.
        numbers: Further arguments with a slider, with their (minimum, maximum, step).
        fixed: All other arguments.
        weights: "float32", "float16" or "int8".
        card: Information about the model, shown on request.

    Raises:
        TypeError, ValueError: If a page cannot run it, see `PageProgram.of`, or cannot show anything of it.
    """
    made, about, picture = page_of(fn, text, numbers, fixed, record=record, view=view, weights=weights, title=title)
    program, total = in_text(made)
    body = body_of(picture, held("program", program), {**about, "sum": total}, card)
    return write_page(path, title or "rfnb", body, script="rfnb-page.js", runs=True)


def in_text(made: Spec) -> tuple[str, int]:
    """A program as the page reads it, and the sum by which it notices a damaged one."""
    frame = pack(made)
    return base64.b85encode(frame).decode().translate(_IN_HTML), zlib.adler32(frame)


def body_of(picture: View, program: str, about: Mapping[str, Any], card: str) -> str:
    """The body of a page in which a model runs.

    Args:
        picture: What is there until the script runs.
        program: The invisible element that holds the program, or the name of one that pages share.
        about: See `page_of`; with the sum of the program.
        card: Information about the model, shown on request.
    """
    program = program.replace(" hidden", f' data-about="{escape(json.dumps(about), quote=True)}" hidden', 1)
    body = f'<div class="rfnb-picture">{picture.html()}</div>\n{program}'
    if card:
        card = "\n".join(map(line, card.splitlines()))
        body += f"<details><summary>What is in this page</summary><pre>{escape(card)}</pre></details>\n"
    return body


def page_of(
    fn: Callable[..., Any],
    text: tuple[str, str],
    numbers: Mapping[str, tuple[float, tuple[float, float, float]]],
    fixed: Mapping[str, Any],
    *,
    record: Any = True,
    view: Mapping[str, Any] | None = None,
    weights: str = "float16",
    title: str = "",
) -> tuple[Spec, JsonObject, View]:
    """The program of a page with its weights and the heads of its views, the surrounding text, and its picture."""
    name, first = text
    others = {each: (value, *({low, high} - {value})) for each, (value, (low, high, _)) in numbers.items()}
    given = {**fixed, name: first, **{each: value for each, (value, *_) in others.items()}}
    model = record.get("model") if isinstance(record, Mapping) else None
    program = PageProgram.of(lambda one, **more: fn(**{**given, name: one, **more}), first, others, model)
    coded = CodedWeights.of(program.weights, weights)
    run = started(fn, record=record, **given)
    run.wait()
    if run.error is not None:
        raise run.error
    assert run.trace is not None
    recorded = trace_page.spec(
        run.trace, handles=EditHandles(run.place_of), **(view or {})
    )  # a page does not edit a model
    there = in_order(parts_of(recorded) if recorded.kind == "group" else [recorded])
    all_parts = [(part, _bound(part, program, first)) for part in there]
    left_out = [label for each in all_parts for label in _left_out(*each)]
    parts = [bound for _, bound in all_parts if bound is not None]
    leaves: Sequence[Tensor] = program.results
    if len(units_of(first, program.spec["unit"])) < 3:  # which is longer there
        with stop_gradient_scope():
            leaves = [
                each for each in values_in(noted(lambda: fn(**given), model=model)[1]) if isinstance(each, Tensor)
            ]
    outputs = (
        outputs_of(program, leaves, first, _vocabularies(record, run.trace)) if _shows_outputs(record, view) else []
    )
    parts = [bound for _, bound in outputs] + parts
    if not parts:
        raise value_error(
            "save: a page that runs would show nothing.",
            {"recorded": ", ".join(part.kind for part in there) or "nothing"},
            "It shows searches of rf.choice, attention and states of its run, and scores of classes (or probabilities) that the function\n"
            "returns. A CTC prefix search has no tree there: return the scores that it reads as well.",
            "return rf.ctc_prefix_beam_search(log_probs, in_spatial_dim=time, blank_index=0, beam_size=4), log_probs"
            if "ctc_prefix_beam_search" in str(program.spec)
            else "return model(ids).log_softmax(-1)",
        )
    said = [coded.words] * bool(coded.values)
    if said and weights != "float32":
        said.append(_lost(program, coded, lambda: fn(**given)))
    if left_out:
        more = f", and {len(left_out) - _FEW} more" * (len(left_out) > _FEW)
        said.append(f"recorded, but not in this page: {', '.join(left_out[:_FEW])}{more}")
    fields: list[JsonObject] = [{"name": name, "value": first}]
    fields += [{"name": each, "value": value, "range": list(limits)} for each, (value, limits) in numbers.items()]
    about = {
        "fields": fields,
        "fixed": ", ".join(f"{each} = {value!r:.40}" for each, value in fixed.items() if isinstance(value, _PLAIN)),
        "said": "; ".join(said),
    }
    head = {"title": title, "live": False, "text": first, "program": program.spec, "parts": parts}
    shown = group_spec([*(spec for spec, _ in outputs), *there]) if outputs else recorded
    return Spec("program", {**head, "weights": coded.specs}, coded.blocks), about, View(shown)


def _shows_outputs(*options: Any) -> bool:
    """Whether options of a recording and of its view select the outputs, or everything."""
    given = [each for each in options if isinstance(each, Mapping)]
    kinds = [each["kinds"] for each in given if each.get("kinds") is not None]
    return all("outputs" in each for each in kinds) and all(each.get("path") is None for each in given)


def _vocabularies(record: Any, trace: Trace) -> list[Any]:
    """Lists of labels that are known: of recorded outputs, and those that were given."""
    found = [getattr(event.values.get("axis"), "vocab", None) for event in trace.events if event.kind == "outputs"]
    given = record.get("labels") if isinstance(record, Mapping) else None
    several = (
        given.values()
        if isinstance(given, Mapping) and not all(type(each) is int for each in given.values())
        else [given]
    )
    lists = [sorted(each, key=each.__getitem__) if isinstance(each, Mapping) else each for each in several]
    return [each for each in (*found, *lists) if not isinstance(each, str) and hasattr(each, "__len__")]


def _lost(program: PageProgram, coded: CodedWeights, call: Callable[[], Any]) -> str:
    """A description of the effect of the weight coding on the results for the first text; both are computed here."""

    def results() -> list[np.ndarray]:
        with stop_gradient_scope(), recording(kinds="beams") as trace:
            found = values_in(call())
        told = [event.values[name] for event in trace.events for name in ("tokens", "scores")]  # if it returns text
        return [host(leaf) for leaf in (*found, *told) if isinstance(leaf, Tensor) or is_array(leaf)]

    exact = results()
    with coded.in_place_of(program.tensors, program.shared):
        about = results()
    if not exact:
        return "the effect of rounding is unknown: the function returns no Tensor"
    alike = [(one, two) for one, two in zip(exact, about, strict=True) if one.shape == two.shape]
    if len(alike) < len(exact) or any(one.dtype.kind != "f" and not np.array_equal(one, two) for one, two in alike):
        return "rounding changes labels of the first text"
    most = max([float(np.abs(one - two).max(initial=0)) for one, two in alike if one.dtype.kind == "f"], default=0.0)
    return (
        f"rounding keeps the labels of the first text and changes numbers by at most {most:.1g}"
        if most
        else "rounding changes nothing for the first text"
    )


# -- the bindings of the views ---------------------------------------------------------------------------------------------


def _bound(part: Spec, program: PageProgram, text: str) -> JsonObject | None:
    """The part with references to its values in the program; None if they are unknown."""
    if part.head.get("fault") or not part.head.get("seqs") or len(part.head["seqs"]) != 1:
        return None
    path, number = str(part.head["key"]).split(" ", 1)[1].rsplit(" ", 1)
    head = {name: value for name, value in part.head.items() if name not in _LEFT}
    loops = [block for block in program.spec["blocks"] if "loop" in block]
    label = part.head["seqs"][0]["label"]
    label = label if text in label else f"1: {text}"  # the page puts another text in its place
    if part.kind == "beams":
        found = [at for at, loop in enumerate(loops) if path in (loop["path"], loop["loop"]) and _chooses(loop)]
        head["seqs"] = [{"label": label}]
        return {"kind": part.kind, "head": head, "loop": found[0], "along": {}} if len(found) == 1 else None
    if part.kind not in ("attention", "states"):
        return None
    entries = head["maps"] if part.kind == "attention" else head["tracks"]
    paths = head.get("paths") or [path]
    looks = [_look(part, entry, paths, int(number), program) for entry in entries]
    there = [(entry, look) for entry, look in zip(entries, looks, strict=True) if look is not None]
    if not there:
        return None
    head["maps" if part.kind == "attention" else "tracks"] = [
        {name: value for name, value in entry.items() if name not in _OF_ONE or name == "slots"} for entry, _ in there
    ]
    (seq,) = part.head["seqs"]
    head["seqs"] = [{"label": label}]
    first = there[0][1]
    searched = first["loop"] is not None and _chooses(loops[first["loop"]])
    along: JsonObject = {}
    for dim, names in (
        [(there[0][0]["row_dim"], seq["rows"]), (there[0][0]["col_dim"], seq["cols"])]
        if part.kind == "attention"
        else [(head["step_dim"], seq["steps"])]
    ):
        vocab = next((each["vocab"] for each in program.spec["dims"] if each["vocab"] == [*names]), "numbers")
        along[dim["name"]] = "text" if list(names) == units_of(text, program.spec["unit"]) else vocab
    if searched:
        along[there[0][0]["row_dim"]["name"] if part.kind == "attention" else head["step_dim"]["name"]] = "search"
    return {"kind": part.kind, "head": head, "looks": [look for _, look in there], "along": along}


def _left_out(part: Spec, bound: JsonObject | None) -> list[str]:
    """Titles and labels of recorded searches, attention and states that are not in the page."""
    if bound is None:
        return [part.head["title"]] if part.kind in ("beams", "attention", "states") else []
    kept = [track["label"] for track in bound["head"].get("tracks", ())]
    return [track["label"] for track in part.head.get("tracks", ()) if track["label"] not in kept]


def _chooses(loop: Mapping[str, Any]) -> bool:
    return any(op["op"] == "choice" for op in loop["ops"])


def _look(
    part: Spec, entry: Mapping[str, Any], paths: list[str], number: int, program: PageProgram
) -> JsonObject | None:
    """The reference to the values of a map or a track; None unless exactly one value matches."""
    kind = part.kind
    if kind == "attention":
        of_layer = paths[entry["at"][0]] if len(paths) > 1 else paths[0]
        wanted = {(entry.get("held", {}).get("attention", of_layer), "weights")}
    else:
        label = str(entry["label"])
        wanted = {
            (path, label[at:]) for path in paths for at in _starts(label) if f"{path}.{label[at:]}".endswith(label)
        }
    found: list[JsonObject] = []
    loops = 0
    for at, block in enumerate(program.spec["blocks"]):
        if "loop" not in block:
            found += _offered(block, at, None, kind, wanted)
            continue
        for op_at, op in enumerate(block["ops"]):
            found += _offered(op, op_at, loops, kind, wanted)
        if kind == "states":
            found += [{"loop": loops, "state": name} for name in block["initial"] if (block["path"], name) in wanted]
        loops += 1
    if kind == "states" and not found:  # of a loop of Python
        (shown, *_) = part.blocks[entry["block"]]
        found = [
            {"loop": at, "state": name, "first": first}
            for (at, name), turns in program.turns.items() for first in (False, True)  # the first turn may be before the loop
            if turns[not first :].shape == shown.shape and np.allclose(turns[not first :], shown, atol=1e-4)
        ]  # fmt: skip
        return found[0] if found else None
    own = found[number] if number < len(found) else None
    # Only maps outside of loops are told apart by their values.
    if kind == "attention" and (own is None or own["loop"] is None):
        seen, block = program.weights_seen, part.blocks[entry["block"]]
        if any(look["op"] in seen for look in found if look["loop"] is None):
            same = [look for look in found if _has_map(seen.get(look["op"]), block)]
            return own if own in same else next(iter(same), None)
    of = [block["path"] for block in program.spec["blocks"] if "loop" in block]
    names = {(of[look["loop"]], look["state"]) if "state" in look else look["op"] for look in found}
    known = kind == "attention" or number or len(names) == 1  # of a state the name may be that of another one
    return own if known else None


def _has_map(weights: np.ndarray | None, shown: np.ndarray) -> bool:
    """Whether some of the weights are those of a map: a module has several softmaxes, not all of which are attention."""
    if weights is None or weights.size % shown.size:
        return False
    return any(np.allclose(each, shown[0], atol=1e-4) for each in weights.reshape(-1, *shown.shape[1:]))


def _starts(label: str) -> Iterator[int]:
    """The indices at which the name may begin in a label that may have a path prefix."""
    yield 0
    yield from (at + 1 for at, letter in enumerate(label) if letter == ".")


def _offered(
    op: Mapping[str, Any], at: int, loop: int | None, kind: str, wanted: set[tuple[str, str]]
) -> Iterator[JsonObject]:
    for offered, path, name in op["offers"]:
        if offered == kind and (path, name) in wanted:
            yield {"loop": loop, "op": at, "name": name}
