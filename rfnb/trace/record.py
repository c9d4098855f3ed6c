"""record: listens to the probes of a run and keeps their events.

    with rf.record() as trace:
        model(x)
    trace.attention["decoder.att"]        # a Tensor with named dims

Recording changes neither numbers nor gradients. It never waits for a GPU, except once for each padding mask of a torch model there.
Values stay on their device, without a copy, until the trace is released; a view copies what it draws. `trace.save` writes a file that
`rf.load_trace` reads into host memory.

`ops=True` also records op calls with the numbers of the tensors that each reads and creates (`trace.select(kind="op")`). A tensor keeps
its number while it lives: the result of a module has the number assigned by the op that made it. So the flow of data is known, although
a trace keeps only the dims of these tensors. Ops called by an op are not recorded.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from rfnb.core.block import block
from rfnb.core.errors import type_error, value_error
from rfnb.core.intercept import Intercepted, outside
from rfnb.core.op import Op
from rfnb.core.tensor import Tensor
from rfnb.trace.attach import AttachOptions, attached, attacher_of
from rfnb.trace.event import Templates, bytes_of, keep, named_tensors
from rfnb.trace.match import Steps, is_inside, kind_filter, path_filter, step_filter, warn_of_kinds, warn_of_paths
from rfnb.trace.probe import Later, Listener, Place, listen, probe, trace_context
from rfnb.trace.trace import CallNotes, Trace


@block
def record(
    kinds: str | Iterable[str] | None = None,
    path: str | Iterable[str] | None = None,
    steps: Steps | None = None,
    limit: int = 256 << 20,
    model: Any = None,
    *,
    ops: bool = False,
    values: bool = False,
    dims: Mapping[str, Any] | None = None,
    labels: Any = None,
    why: bool = False,
    attention: str | Iterable[str] | None = None,
    graph: bool = False,
) -> Iterator[Trace]:
    """Record the events of a with-block in a Trace.

    Recordings may be nested; each receives everything inside it. A recording covers the thread in which it was opened, and threads that
    were started with a copy of its context.

    Args:
        kinds: Only these kinds, e.g. {"attention", "beams"}.
        path: Only these places: a pattern ("encoder.*"), or the end of a path ("att"); one or several.
        steps: Only these steps: int, range, slice, collection, or function of the step. Events outside of loops have no
            step and are kept.
        limit: Limit in bytes, for all devices together. The first event that would exceed it and all later ones are dropped;
            `trace.truncated` tells where, and a warning what to do. The run continues. The default is 256 MiB: some thousand steps of a
            small model.
        model: A Module whose `named_modules()` gives the paths, or a dict of Modules by the name that their paths begin with.
            Default: the outermost module of each module. A torch.nn.Module is observed while the block runs: its modules send events as
            if they were written in rfnb (docs/contracts/seen.md).
        ops: Also record op calls, as events of kind "op" without values, and for all calls the numbers of the tensors they read and
            create: the data of `rf.viz.flow`. This costs a few microseconds per op. Naming the kind "op" has the same effect.
        values: Also keep the values that modules (and with `ops` the ops) return, without a copy: `rf.diff` needs them to name the
            first module that differs. They stay in memory as long as the trace, and count towards the limit.
        dims: For a torch model, names for the axes of module inputs and outputs, by path: {"encoder": ["batch", "time", "feature"]}.
            Default: guessed from the kinds of modules, shared tensors, and equal sizes.
        labels: For a torch model, the texts of tokens, with which views label inputs and outputs: a list, a dict {text: index}, a
            tokenizer, or a dict of these by the paths of embeddings (and other modules over a vocabulary).
        why: For a torch model, print at the end of the block the rule that named each axis, and which names were guessed.
        attention: For a torch model, the paths of modules whose softmaxes are to be taken as attention despite an unusual use: a
            pattern, or the end of a path; one or several. `trace.left_out` lists the softmaxes that were not taken.
        graph: Keep recorded values in the autograd graph until the trace is released: `torch.autograd.grad(logit,
            trace.attention[path].raw_tensor)`. They are the tensors that the model continues with, so heads that are separate modules
            stay separate, and steps are in the events (`trace.attention.steps(path)`). Results are bit-identical; for a fused attention
            kernel without dropout, gradients flow through weights that the kernel does not compute itself.

    Yields:
        The Trace, which grows while the block runs.

    Raises:
        TypeError: If the model is not a Module or a dict of Modules, or a filter is of an unknown form.
        ValueError: For an invalid filter, or a negative limit.
    """
    if not isinstance(limit, int) or limit < 0:
        raise value_error(
            "record: the limit is not a number of bytes.",
            {"limit": repr(limit)},
            "The limit is an int, 0 or more.",
            "rf.record(limit=512 << 20)    # 512 MiB",
        )
    wants_kind, wants_path, wants_step = kind_filter(kinds), path_filter(path), step_filter(steps)
    names, others = models_of(model)
    heard: set[tuple[str, str]] = set()
    trace, templates = Trace(limit=limit, model=_class_of(model)), Templates()
    ops = ops or (kinds is not None and wants_kind("op"))
    numbers = OpNumbers() if ops else None
    taken = path_filter(() if attention is None else attention)
    wanted = lambda path: taken(path, path)  # noqa: E731
    options = AttachOptions(wants_kind, dims or {}, labels, values, ops, why, wanted, graph, trace.guesses)

    def listener(kind: str, place: Place, offered: Mapping[str, Any]) -> None:
        if trace.closed or not (kinds is None or wants_kind(kind) or kind in ("op", "unseen")):
            return
        if path is not None:
            heard.add((place.path, place.module))
            if not wants_path(place.path, place.module):
                return
        if place.step is not None and not wants_step(place.step):
            return
        if trace.truncated is not None:
            trace.count_dropped()
            return
        if kind in ("module", "op"):
            kept, size = templates.keep(offered)
            if numbers is not None:
                kept = {**kept, **numbers.added(offered)}
            if values and offered.__class__ is Later and offered.kept is not None and numbers is None:
                size += offered.num_bytes
                kept = Later(partial(offered.kept, kept), size, like=kept)
            elif values:
                outputs = keep(offered["outputs"], attached=graph)
                kept, size = {**kept, "outputs": outputs}, size + bytes_of(outputs)
            trace._add(kind, place, kept, size)
        else:
            kept = keep(offered, attached=graph)
            trace._add(kind, place, kept, bytes_of(kept))

    if path is None and numbers is None and (kinds is None or wants_kind("module")):
        listener.note_call = CallNotes(trace, templates, values)  # type: ignore[attr-defined]
    try:
        with (
            listen(listener, names, None if kinds is None else wants_kind),
            CallsOfOps(listener) if ops else nullcontext(),
        ):
            with attached(others, options) if others else nullcontext():
                yield trace
    finally:
        trace.close()
        if kinds is not None:
            warn_of_kinds("record", [kinds] if isinstance(kinds, str) else kinds, trace.events)
        if path is not None:
            warn_of_paths("record", [path] if isinstance(path, str) else path, heard)


def models_of(model: Any, what: str = "record") -> tuple[dict[int, tuple[Any, str]], dict[str, Any]]:
    """The path of each module by its id, and the models that send no events themselves."""
    given = model if isinstance(model, Mapping) else {"": model} if model is not None else {}
    names: dict[int, tuple[Any, str]] = {}
    others: dict[str, Any] = {}
    for prefix, each in given.items():
        if not isinstance(prefix, str) or not callable(getattr(each, "named_modules", None)):
            raise type_error(
                f"{what}: the model is no Module, and no dict of Modules.",
                {"model": _described(model)},
                "Paths are those of a Module's `named_modules()`; of several models each has a name of its own in front.",
                'rf.record(model={"encoder": encoder, "decoder": decoder})',
            )
        modules = list(each.named_modules())
        if not any([hasattr(type(module), "module_path") for _, module in modules]):  # of a layer above this one
            if attacher_of(each) is None:
                raise type_error(
                    f"{what}: this model offers no events.",
                    {"model": f"{type(each).__module__}.{type(each).__name__}"},
                    "Only modules of rfnb and of torch do. What another model computes is recorded where its own code offers it:",
                    'rf.probe("attention", weights=weights, dims="batch target source", axis="source")',
                )
            others[prefix] = each
        for name, module in modules:
            path = ".".join(filter(None, [prefix, name]))
            names.setdefault(id(module), (module, path))
            # The module of the other kind that this one calls. Its class is asked: a module of rfnb answers with a message for people.
            other = module.bridged if hasattr(type(module), "bridged") else None
            for inner, part in other.named_modules() if other is not None else ():
                names.setdefault(id(part), (part, ".".join(filter(None, [path, inner]))))
            if other is not None and attacher_of(other) and not any(is_inside(path, above) for above in others):
                others[path] = other
    return names, others


def _class_of(model: Any) -> str:
    """The class of a model, or the classes of several."""
    models = model.values() if isinstance(model, Mapping) else [] if model is None else [model]
    return ", ".join(dict.fromkeys(type(each).__name__ for each in models))


def _described(model: Any) -> str:
    if not isinstance(model, Mapping):
        return type(model).__name__
    return "{" + ", ".join(f"{name!r}: {type(each).__name__}" for name, each in model.items()) + "}"


class OpNumbers:
    """Numbers tensors without keeping them alive. Tensors that represent the same array of another library (`_stands_for`) share a
    number.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._next = itertools.count(1)

    def of(self, named: list[tuple[str, Tensor]]) -> list[int]:
        """The number of each tensor."""
        return [self._of(tensor) for _, tensor in named]

    def _of(self, tensor: Any) -> int:
        tensor = tensor.__dict__.get("_stands_for", tensor)
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor:  # the id of one that is gone is given again
            known = self._known[id(tensor)] = weakref.ref(tensor), next(self._next)
        return known[1]

    def added(self, values: Mapping[str, Any]) -> dict[str, list[int]]:
        """The numbers of the tensors that an event has read and created."""
        return {"reads": self.of(values["inputs"]), "writes": self.of(values["outputs"])}


class CallsOfOps:
    """A with-block in which op calls are sent to a listener as events of kind "op".

    The values of an event are `op` (its name), `inputs` and `outputs` as in a "module" event, the numbers `reads` and `writes`, and
    `raised`, the name of the error if the call failed.
    """

    def __init__(self, tell: Listener):
        self._tell = tell
        self._intercepted = Intercepted(self._call)

    def __enter__(self) -> CallsOfOps:
        self._intercepted.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._intercepted.__exit__(*error)

    def _call(self, op: Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if op.fn is probe:
            return outside(op)(*args, **kwargs)
        before = named_tensors([*((str(i), arg) for i, arg in enumerate(args)), *kwargs.items()])
        try:
            with trace_context.op():
                result = outside(op)(*args, **kwargs)
        except Exception as error:
            self._note(op, before, [], raised=type(error).__name__)
            raise
        self._note(op, before, named_tensors([("", result)]))
        return result

    def _note(self, op: Op, inputs: list[Any], outputs: list[Any], **more: str) -> None:
        if inputs or outputs:
            self._tell("op", trace_context.place, {"op": op.name, "inputs": inputs, "outputs": outputs, **more})
