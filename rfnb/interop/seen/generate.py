"""generate: the steps of `model.generate(...)` of transformers, while a recording is open.

    with rf.record(model=model) as trace:
        model.generate(ids, num_beams=4)
    trace.beams["generate"]                     # every step of the search, for any search method

`generate` of the instance is wrapped, with the same arguments. In each step it calls the model to prepare its inputs, a
LogitsProcessorList to change the scores, and a StoppingCriteriaList to find complete hypotheses: there the
`generate_session.py` of the call observes the search. Nothing is passed to `generate`, and its results are not changed.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any

from rfnb.core.block import Undone
from rfnb.core.errors import message
from rfnb.core.place import warn_user
from rfnb.interop.seen.generate_config import GenerateConfig
from rfnb.interop.seen.generate_session import Session
from rfnb.interop.seen.names import Names
from rfnb.interop.seen.replacements import Place, Replaced
from rfnb.trace.probe import listening, trace_context

_session: ContextVar[Session | None] = ContextVar("rfnb_generate", default=None)
_replaced = Replaced()


def generating() -> Session | None:
    """The running and observed call of `generate` in this context."""
    return _session.get()


def generate_seen(modules: Iterable[Any], names: Callable[[], Names]) -> Undone:
    """Observe the steps of `generate` of these modules in a with-block.

    Args:
        names: Returns the Names of the innermost recording.
    """
    able = [module for module in modules if _generates(module)]
    return _replaced.during(lambda: [*_functions(), *_methods(able, names)] if able else [])


def _generates(module: Any) -> bool:
    has = hasattr(type(module), "generate") or "generate" in vars(
        module
    )  # where it has none, torch makes an error of it
    return has and callable(module.generate) and getattr(module, "generation_config", None) is not None


def _functions() -> Iterator[Place]:
    lists = sys.modules.get("transformers.generation")
    for name, tell in (("LogitsProcessorList", Session.processed), ("StoppingCriteriaList", Session.stopped)):
        owner = getattr(lists, name, None)
        if owner is not None:
            yield owner, "__call__", functools.partial(_told, tell=tell)


def _methods(modules: Iterable[Any], names: Callable[[], Names]) -> Iterator[Place]:
    for module in modules:
        yield module, "generate", functools.partial(_generate, module, names=names)
        if callable(getattr(module, "prepare_inputs_for_generation", None)):
            yield module, "prepare_inputs_for_generation", functools.partial(_prepare, module)


def _told(original: Any, tell: Callable[..., None]) -> Any:
    """A method that reports its arguments and result to the session."""

    @functools.wraps(original)
    def seen(self: Any, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        session = _session.get()
        if session is None or session.is_aside or session.fault:
            return original(self, input_ids, scores, **kwargs)
        if tell is Session.stopped:
            with session.aside():
                result = original(self, input_ids, scores, **kwargs)
        else:
            before = scores.clone() if len(self) else scores  # some processors change scores in place
            with session.aside():
                result = original(session.watched(self), input_ids, scores, **kwargs)
            scores, result = before, session.changed(before, result)
        session.safely(tell, self, input_ids, scores, result)
        return result

    return seen


def _prepare(module: Any, original: Any) -> Any:
    @functools.wraps(original)
    def seen(input_ids: Any, *args: Any, **kwargs: Any) -> Any:
        session = _session.get()
        if session is None or session.is_aside or session.model is not module or session.fault:
            return original(input_ids, *args, **kwargs)
        session.safely(Session.begin, input_ids)
        session.wait()
        made = original(input_ids, *args, **kwargs)
        session.safely(Session.prepared, made)
        return made

    return seen


def _generate(module: Any, original: Any, names: Callable[[], Names]) -> Any:
    @functools.wraps(original)
    def seen(*args: Any, **kwargs: Any) -> Any:
        path = trace_context.module_name(module) if listening() else None
        around = _session.get()
        if path is None or around is not None and (around.step is not None or around.is_aside):
            return original(*args, **kwargs)
        if around is not None:  # it calls the `generate` of one of its own modules
            around.is_outer = True
        config = GenerateConfig(module, args, kwargs)
        if config.cannot:
            _warn(path, config.cannot)
            return original(*args, **kwargs)
        session = Session(module, path, config, names())
        token = _session.set(session)
        try:
            with session.heard():
                return original(*args, **kwargs)
        finally:
            _session.reset(token)
            if session.fault or session.step is None and not session.is_outer:
                _warn(path, session.fault or f"{type(module).__name__}.generate implements its own search")

    return seen


def _warn(path: str, reason: str) -> None:
    warn_user(
        message(
            "record: the steps of this call of generate could not be recorded; the call continues unchanged.",
            {"model": path or "the model", "reason": reason},
            "Greedy search, sampling and beam search can be recorded, and so can every search of rfnb:",
            "rf.beam_search(**rf.hf_search_options(model, tokenizer=tokenizer, **inputs), beam_size=4, max_seq_len=50)",
        )
    )
