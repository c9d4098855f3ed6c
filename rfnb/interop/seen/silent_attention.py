"""Silent attentions: report modules called attention that ran without sending an event.

Events of a module are counted, whether they come from an observed function or from `rf.probe` in its own code. A module
is not silent if an event was sent in it, in the modules that it calls, or by the attention that called it.

This file also reports modules that cannot be observed (scripted, compiled, quantised, new ones), with a sentence for each.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from rfnb.core.errors import message
from rfnb.core.place import warn_user
from rfnb.interop.seen.calls import Call, around
from rfnb.interop.seen.edit_checks import form_of
from rfnb.interop.seen.found_attention import are_scores, nodes_of
from rfnb.interop.seen.hf_softmax import ODD
from rfnb.interop.seen.readers import say_unseen
from rfnb.interop.seen.replacements import not_compiled
from rfnb.interop.seen.sides import says_attention
from rfnb.interop.seen.written_loops import HAS_STATES
from rfnb.trace.probe import listening, offers_here

_RUN, _SILENT = "attention that runs", "silent attentions"
_REASON = (
    "it calls no softmax, no F.scaled_dot_product_attention and no other known attention function: it may have no weights, "
    "or compute them in another way"
)


class _Run:
    """A running attention.

    Attributes:
        begun: Number of events sent before it.
        inside: Number of events sent by attentions inside it.
        silent: The inner attentions without events: the call, its class, and the classes of enclosing attentions that did nothing else.
    """

    __slots__ = ("begun", "inside", "silent")

    def __init__(self) -> None:
        self.begun, self.inside = offers_here.count, 0
        self.silent: list[tuple[Call, tuple[str, ...]]] = []


def begin(call: Call) -> None:
    """Handle the start of a call of a module called attention."""
    if listening("attention"):
        call.seen[_RUN] = _Run()


def end(call: Call, result: Any) -> None:
    """Handle the end of a call. At the end of an outermost one, report attentions without events, unless they scored for another."""
    run: _Run | None = call.seen.get(_RUN)
    if run is not None:
        _end(call, run, result)
    if call.outer is None:
        for each, kinds, made in call.seen.pop(_SILENT, ()):
            if not are_scores(call, made):
                say_unseen(each, kinds, each.seen.get(ODD, _REASON))


def _end(call: Call, run: _Run, result: Any) -> None:
    offered = offers_here.count - run.begun
    silent, kind = run.silent, type(call.module).__name__
    if offered > run.inside:  # by itself: inner calls are part of it
        silent = []
    elif not offered and not call.seen.get(HAS_STATES):  # a linear attention that runs step by step has these
        silent = [(each, (*kinds, kind)) for each, kinds in silent] or [(call, (kind,))]
    outer = next((each.seen[_RUN] for each in around(call.outer) if _RUN in each.seen), None)
    if outer is not None:
        outer.inside += offered
        outer.silent += silent
        return
    if silent:
        made = nodes_of(call, result)
        call.root.seen.setdefault(_SILENT, []).extend([(each, kinds, made) for each, kinds in silent])


is_called_attention = functools.cache(says_attention)


def open_modules(models: Mapping[str, torch.nn.Module]) -> Iterator[torch.nn.Module]:
    """The modules of models that run their own Python code; with a warning for the others."""
    told: set[str] = set()
    for prefix, model in models.items():
        yield from _open_in(prefix, model, set(), told)


_SHUT = {
    "scripted": (
        "Scripted code does not run in Python. Record the original module:",
        "rf.record(model=module)    # before torch.jit.script(module)",
    ),
    "wrapped": (
        "torch.compile runs compiled code in its place. Record and call the module itself, which has the same weights:",
        "with rf.record(model=model._orig_mod) as trace: model._orig_mod(x)",
    ),
    "compiled": (
        "module.compile() runs compiled code in its place. Record a copy that is not compiled:",
        "with rf.record(model=module) as trace: module.forward(x)    # before module.compile()",
    ),
}
"""By the form of a module: why it cannot be recorded, and what to type."""


def _open_in(path: str, module: torch.nn.Module, done: set[int], told: set[str]) -> Iterator[torch.nn.Module]:
    if id(module) in done:
        return
    done.add(id(module))
    form = form_of(module)
    if form == "wrapped":
        not_compiled()
    if form in _SHUT:
        _say(path, module, *_SHUT[form])
        return
    if form == "quantised" and form not in told:
        told.add(form)
        rule = "Their weights are integer codes: the trace has dims of inputs and outputs, but no states or gates. Record the original:"
        _say(path, module, rule, "rf.record(model=model)", "record: only the calls of quantised modules are recorded.")
    if not hasattr(type(module), "bridged"):  # a module of rfnb sends its own events
        yield module
    for name, child in module._modules.items() if module._modules else ():
        if child is None:
            continue
        yield from _open_in(f"{path}.{name}" if path else name, child, done, told)


def say_new(models: Mapping[str, torch.nn.Module], paths: Mapping[str, torch.nn.Module]) -> None:
    """Warn about modules that were added to the models during the recording: their calls were not recorded."""
    known = {id(module) for module in paths.values()}
    new = [
        ".".join(filter(None, [prefix, name]))
        for prefix, model in models.items()
        for name, module in model.named_modules()
        if id(module) not in known
    ]
    if new:
        warn_user(
            message(
                "record: modules were added to the model during the recording; their calls are not in the trace.",
                {"modules": ", ".join(new[:6]) + (", ..." if len(new) > 6 else "")},
                "The modules of a model are collected when the recording begins. Add them before:",
                "with rf.record(model=model) as trace: model(x)",
            )
        )


def say_transformed(path: str, names: Any) -> None:
    """Warn once that calls under a torch.func transform are not recorded."""
    if "torch.func" not in names.said:
        names.said.add("torch.func")
        warn_user(
            message(
                "record: a call under torch.func (vmap, grad, jacrev, ...) is not recorded; it runs as usual.",
                {"module": path or "the model"},
                "Its tensors exist only inside the transform. Without it the same call is recorded:",
                "with rf.record(model=model) as trace: model(x)",
            )
        )


def _say(path: str, module: Any, rule: str, fix: str, what: str = "") -> None:
    what = what or "record: this module cannot be recorded; the run continues, and the rest is recorded."
    rows = [("module", f"{path or 'the model'}, a {type(module).__name__}")]
    warn_user(message(what, rows, rule, fix))
