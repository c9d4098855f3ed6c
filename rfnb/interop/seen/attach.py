"""attach: make torch modules send events for their results while a recording is open.

The `forward` of each module instance is wrapped. Hooks would be simpler, but a hook on a layer of nn.TransformerEncoder
disables the fast path, which changes the last bits of the result. The wrappers are removed when the last recording of
the model is closed.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

import torch
from torch.compiler import is_compiling

from rfnb.core.block import Among, Setting, all_of, block
from rfnb.core.errors import ShapeError
from rfnb.interop.seen import (  # noqa: F401  # the readers and handlers
    attention,
    called_axis_names,
    distributions,
    fast_paths,
    hf_attention,
    hf_cache,
    hf_inputs,
    hf_outputs,
    hf_softmax,
    matrix_states,
    recurrent,
    tokens,
    written_attention,
)
from rfnb.interop.seen import found_attention as found
from rfnb.interop.seen.annotations import is_annotated
from rfnb.interop.seen.calls import Call, Facts, _current, parameters_of
from rfnb.interop.seen.distributions import output_modules
from rfnb.interop.seen.function_calls import _in_model, as_before, functions_seen, others_seen, pause, resume
from rfnb.interop.seen.generate import generate_seen
from rfnb.interop.seen.modules import enter, leave, say_inputs, tell_call
from rfnb.interop.seen.names import Names
from rfnb.interop.seen.naming_rules import Why
from rfnb.interop.seen.readers import readers_of, tell, unseen
from rfnb.interop.seen.replacements import InPlace, Place, Replaced, backward_task
from rfnb.interop.seen.silent_attention import begin, end, is_called_attention, open_modules, say_new, say_transformed
from rfnb.interop.seen.snapshot import attached, refuse_without_graph
from rfnb.interop.seen.token_labels import Labels, own_tokenizer
from rfnb.interop.seen.user_axis_names import UserAxisNames
from rfnb.interop.seen.value_edits import edited_call, held_call, refuse_checkpoint, refuse_transformed
from rfnb.interop.unregistered_modules import warn_of_lost_modules
from rfnb.rec.hold import holding
from rfnb.trace.attach import AttachOptions
from rfnb.trace.editing import editing, edits_of
from rfnb.trace.probe import listeners, trace_context

_forwards = Replaced()
_names: ContextVar[tuple[Names, ...]] = ContextVar("rfnb_seen_names", default=())  # of each open recording


@block
def attach(models: Mapping[str, torch.nn.Module], options: AttachOptions) -> Iterator[None]:
    """Make torch modules send events while a block runs."""
    around = _names.get()[-1] if _names.get() else None
    paths = {
        ".".join(filter(None, [prefix, name])): module
        for prefix, model in models.items()
        for name, module in model.named_modules(remove_duplicate=False)
    }
    if options.graph:
        refuse_without_graph()
    labels, said = (
        Labels(own_tokenizer(models, paths) if options.labels is None else options.labels, paths),
        UserAxisNames(options.dims, paths),
    )
    names = Names(said, around, labels, paths, values=options.values, ops=options.ops, guesses=options.guesses)
    names.outputs = output_modules(paths, names) | (around.outputs if around is not None else set())
    modules = list({id(module): module for module in open_modules(models)}.values())
    if not options.inside and not any(
        map(found.is_looked_into, modules)
    ):  # what these make is followed through all that they call
        modules = [module for module in modules if any(module is model for model in models.values())]
    found.prepare(names, modules)
    if not names.searched:  # models of transformers have their own naming rules
        names.guesses = []
    names.taken = options.attention
    for model in models.values():
        warn_of_lost_modules(model)
    names.why = Why() if options.why else around.why if around is not None else None
    try:
        with Among(_names, names), Setting(attached, lambda: attached.set(options.graph or attached.get())):
            with all_of(as_before()), _forwards.during(lambda: map(_place, modules)):
                with functions_seen(modules), others_seen(modules), generate_seen(modules, lambda: _names.get()[-1]):
                    yield
                say_new(models, paths)
    finally:
        if options.why and names.why is not None:
            print(names.why.text())


def _place(module: torch.nn.Module) -> Place:
    return module, "forward", lambda forward: _Seeing(module, "forward", vars(module).get("forward"), forward)


class _Seeing(InPlace):
    """The `forward` of a recorded module."""

    def __init__(self, *args: Any):
        super().__init__(*args)
        self._see = _Seeing._look if "torch._dynamo" not in sys.modules else _look_uncompiled()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if is_compiling() or _compiling() is not None:
            return self._see(self, args, kwargs)
        return self._told(args, kwargs, False) if _current.get() is not None else self._look(args, kwargs)

    def _look(self, args: Any, kwargs: dict[str, Any]) -> Any:
        compiling = is_compiling()
        if _current.get() is not None:
            return self._told(args, kwargs, compiling)
        names = _names.get()
        if attached.get() and names:
            refuse_without_graph()
        if names and names[-1].searched:
            with found.Looking():
                return _in_one_chunk(self._told, args, kwargs, compiling)
        return _in_one_chunk(self._told, args, kwargs, compiling)

    def _told(self, args: Any, kwargs: dict[str, Any], compiling: bool) -> Any:
        forward, around, owner = self._function, _names.get(), self._owner
        if not around or not (heard := listeners()):
            return forward(*args, **kwargs)
        edits = editing.get()
        if backward_task() != -1:  # a checkpointed call is repeated there
            if edits and (own := edits_of(owner)):
                refuse_checkpoint(own[0], "a call in the backward pass")
            return forward(*args, **kwargs)
        named = heard[-1][1].get(id(owner))
        path, names = trace_context.module_name(owner) if named is None else named[1], around[-1]
        if path is None or compiling or _is_tracing() or (_transforms() is not None and _say_hidden(path, names)):
            if edits and (own := edits_of(owner)):
                refuse_transformed(path or "", own)
            return forward(*args, **kwargs)
        mode, outer = pause(), _current.get()
        facts: Facts = names.facts.get(id(owner)) or _learn(owner, names)
        call = Call(owner, path, outer, names, facts, args, kwargs)
        before = trace_context.enter_module(path)
        try:
            _current.set(call)
            try:
                if facts.told or facts.is_annotated:
                    say_inputs(call)
                if facts.entering:
                    tell(call, facts.entering)
                enter(call)
                if facts.is_attention:
                    begin(call)
                if outer is None:
                    found.begin(call)
            except Exception as error:
                _unless_misfit(call, error)
            if (hold := holding()) is not None:
                args, kwargs = held_call(hold, call, args, kwargs)
                edits = editing.get()
            try:
                if not edits:
                    result = (
                        found.forward_of(call, forward, args, kwargs) if names.searched else forward(*args, **kwargs)
                    )
                else:
                    ran = lambda *args, **kwargs: found.forward_of(call, forward, args, kwargs)  # noqa: E731
                    if any([edit.part == "weights" for edit in edits_of(call.module)]):
                        found.learn(call, ran, args, kwargs)
                    result = edited_call(call, ran, args, kwargs)
            except Exception as error:
                try:
                    tell_call(call, [], type(error).__name__)
                except Exception as other:
                    _unless_misfit(call, other)
                raise
            if facts.readers:
                hears = _in_model.get()
                try:
                    _in_model.set(False)
                    tell(call, facts.readers, result)
                finally:
                    _in_model.set(hears)
            try:
                tell_call(call, leave(call, result))
                if facts.is_own:
                    recurrent.written_cell(call, result)
                if names.searched:
                    found.end(call, result)
                if call.seen or outer is None:
                    end(call, result)
            except Exception as error:
                _unless_misfit(call, error)
            return result
        finally:
            if outer is None:
                found.close(call)
            trace_context.leave_module(before)
            _current.set(outer)
            if mode is not None:
                resume(mode)


def _in_one_chunk(function: Callable[..., Any], *args: Any) -> Any:
    return function(*args)


# Python allocates frames in chunks of 16 KiB. A call at the end of a chunk maps memory for the next one and unmaps it
# on return, each time: if calls of modules happen to lie there, depending on the depth of the user's code, a pass of
# many small calls costs up to a tenth more. A frame that declares that it needs much memory makes one chunk for all of
# them, which takes memory only as far as it is used.
if sys.implementation.name == "cpython":
    _in_one_chunk.__code__ = _in_one_chunk.__code__.replace(co_stacksize=1 << 16)


def _learn(module: torch.nn.Module, names: Names) -> Facts:
    kind: Any = type(module)
    names.facts[id(module)] = facts = Facts(
        names.told_of(module),
        is_annotated(kind),
        parameters_of(kind.forward),
        kind.__name__,
        readers_of(kind),
        readers_of(kind, True),
        found.is_looked_into(module),
        is_called_attention(kind.__name__),
    )
    return facts


# What dynamo is asked to do with each frame of Python that begins; None where nothing is compiled.
_compiling: Callable[[], Any] = getattr(torch._C._dynamo.eval_frame, "get_eval_frame_callback", lambda: False)


@functools.cache
def _look_uncompiled() -> Any:
    """The function that inspects a call, excluded from compilation: dynamo would otherwise run compiled parts of it, whose
    effects would be missing here. Creating it costs more than a call, so it is cached.
    """
    return sys.modules["torch._dynamo"].disable(_Seeing._look)


_transforms: Callable[[], Any] = getattr(torch._C._functorch, "maybe_current_level", lambda: None)


_is_tracing: Callable[[], bool] = torch._C._is_tracing


def _say_hidden(path: str, names: Names) -> bool:
    """Say that a call is part of a function transform."""
    say_transformed(path, names)
    return True


def _unless_misfit(call: Call, error: Exception) -> None:
    """Turn an error in inspecting a call into a warning; but if names given by the user do not fit, the run ends with that error."""
    if isinstance(error, ShapeError):
        raise error
    unseen(call, error)
