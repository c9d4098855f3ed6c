"""record: listen to the probes of a run, and keep what they offer.

    with rf.record() as trace:
        model(x)
    trace.attention["decoder.att"]        # a Tensor with named dims

Recording changes neither numbers nor gradients. It never waits for a GPU, but once for each mask of padding of a torch model there.
What is kept stays there, without copy, until the trace is gone; a view copies what it draws. `trace.save` writes a file that
`rf.load_trace` reads into memory of the host.

With `ops=True` there are also the calls of ops: which tensors each has read and made, by number (`trace.select(kind="op")`). A number
is that of a tensor while it lives: what a module returns has the number that the op in it has given. So one knows what goes where,
although a trace keeps of these tensors their dims only. Ops that an op calls are its own affair.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import Any

from rfnb.core.block import block
from rfnb.core.errors import type_error, value_error
from rfnb.core.intercept import Intercepted, outside
from rfnb.core.op import Op
from rfnb.core.tensor import Tensor
from rfnb.trace.attach import AttachOptions, attached, attacher_of
from rfnb.trace.event import Templates, bytes_of, keep, named_tensors
from rfnb.trace.match import Steps, is_inside, kind_filter, path_filter, step_filter, warn_of_kinds, warn_of_paths
from rfnb.trace.probe import Listener, Place, listen, probe, trace_context
from rfnb.trace.trace import Trace


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
    """Keep the events of a with-block in a Trace.

    Recordings may be nested; each hears everything inside of it. A recording hears the thread it was opened in, and
    threads that were started with a copy of its context.

    Args:
        kinds: Only these kinds, e.g. {"attention", "beams"}.
        path: Only these places: a pattern ("encoder.*"), or the end of a path ("att"); one or several.
        steps: Only these steps: int, range, slice, collection, or function of the step. Events outside of loops have no
            step and are kept.
        limit: bytes, of all devices together. What would exceed it and all that follows is not kept; `trace.truncated` then tells
            where, and a warning what to do. The run goes on. The default is 256 MiB: some thousand steps of a small model.
        model: A Module whose `named_modules()` gives the paths, or a dict of Modules by the name that their paths begin with. Default: the
            outermost module of each module. A torch.nn.Module is seen into while the block runs: what its modules compute is
            offered as if they were written in rfnb (docs/contracts/seen.md).
        ops: Also the calls of ops, as events of the kind "op" without values, and of all calls which tensors they read and made, by
            number: what `rf.viz.flow` draws. That takes some microseconds for each op. Who names the kind "op" gets them too.
        values: Also the values that modules (and with `ops` the ops) return, without copy: what `rf.diff` of two recordings needs to say in
            which module they differ first. They stay in memory as long as the trace, and count for the limit.
        dims: Of a model of torch, names for the axes of what modules get and return, by path: {"encoder": ["batch", "time", "feature"]}.
            Default: guessed by the kinds of modules and by what is the same tensor or has the same size.
        labels: Of a model of torch, the texts of tokens, by which views label what was read and written: a list, a dict {text: index}, a
            tokenizer, or a dict of these by the paths of embeddings (and of what else is over a vocabulary).
        why: Print, when the block ends, the rule by which each axis of a model of torch got its name, and which names were guessed.
        attention: Of a model of torch, the paths of modules whose softmaxes are attention, though they are used in another way: a
            pattern, or the end of a path; one or several. What was left out is told by `trace.left_out`.
        graph: What is recorded stays in the graph of autograd, until the trace is gone: `torch.autograd.grad(logit,
            trace.attention[path].raw_tensor)`. It is the tensor that the model goes on with, so heads that are modules of their own stay
            apart, and steps are in the events (`trace.attention.steps(path)`). Results are the same to the last bit; a kernel of
            attention without dropout gets its gradient by the weights, which it does not make itself.

    Yields:
        The Trace, which fills while the block runs.

    Raises:
        TypeError: A model that is no Module and no dict of Modules, or a filter that cannot be understood.
        ValueError: The same of a filter, or a negative limit.
    """
    if not isinstance(limit, int) or limit < 0:
        raise value_error(
            "record: the limit is not a number of bytes.",
            [("limit", repr(limit))],
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
    options = AttachOptions(wants_kind, dims or {}, labels, values, ops, why, lambda path: taken(path, path), graph)

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
            if values:
                outputs = keep(offered["outputs"], attached=graph)
                kept, size = {**kept, "outputs": outputs}, size + bytes_of(outputs)
            trace._add(kind, place, kept, size)
        else:
            kept = keep(offered, attached=graph)
            trace._add(kind, place, kept, bytes_of(kept))

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
    """The path of each module, by its id; and those models that offer nothing by themselves."""
    given = model if isinstance(model, Mapping) else {"": model} if model is not None else {}
    names: dict[int, tuple[Any, str]] = {}
    others: dict[str, Any] = {}
    for prefix, each in given.items():
        if not isinstance(prefix, str) or not callable(getattr(each, "named_modules", None)):
            raise type_error(
                f"{what}: the model is no Module, and no dict of Modules.",
                [("model", _described(model))],
                "Paths are those of a Module's `named_modules()`; of several models each has a name of its own in front.",
                'rf.record(model={"encoder": encoder, "decoder": decoder})',
            )
        modules = list(each.named_modules())
        if not any([hasattr(module, "module_path") for _, module in modules]):  # of a layer above this one
            if attacher_of(each) is None:
                raise type_error(
                    f"{what}: this model offers no events.",
                    [("model", f"{type(each).__module__}.{type(each).__name__}")],
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
    """The class of a model; of several the classes."""
    models = model.values() if isinstance(model, Mapping) else [] if model is None else [model]
    return ", ".join(dict.fromkeys(type(each).__name__ for each in models))


def _described(model: Any) -> str:
    if not isinstance(model, Mapping):
        return type(model).__name__
    return "{" + ", ".join(f"{name!r}: {type(each).__name__}" for name, each in model.items()) + "}"


class OpNumbers:
    """Numbers of tensors. None is kept alive by it. Tensors that stand for one array of another library (`_stands_for`) are one."""

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
        """The numbers of what an event has read and made."""
        return {"reads": self.of(values["inputs"]), "writes": self.of(values["outputs"])}


class CallsOfOps:
    """A with-block in which calls of ops are told to a listener as events of the kind "op".

    The values of an event are `op` (its name), `inputs` and `outputs` as those of a "module" event, the numbers `reads` and `writes`, and
    `raised`, the name of the error, of a call that ended so.
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
