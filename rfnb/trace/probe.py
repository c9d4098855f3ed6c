"""probe: sends a value to the listeners, with the path and step of the run.

    probe("attention", weights=weights, axis=time)

Without listeners, a probe costs one check of a list. Library code sends; `rfnb/trace/record.py` decides what is kept. Listeners and the
place of the run are context variables: two threads that record at the same time do not mix, and a thread that was started with a copy of
the context (`contextvars.copy_context().run`) is recorded by the same recordings.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from typing import Any, NamedTuple

from rfnb.core.block import Setting, Undone, block
from rfnb.core.errors import type_error
from rfnb.core.intercept import OfThread
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.trace.event_fields import FIELDS, Holds, misfit
from rfnb.trace.named_values import named_values


class Place(NamedTuple):
    """The place in the run.

    Attributes:
        path: Dotted path of the module, then the names of the loops in it.
        step: Step of the innermost loop, from 0; None outside of loops.
        axis: The dim of that loop, if known.
        module: The path without the names of loops.
        steps: Steps of all running loops, outermost first.
        entry: A unique number for each step of each run of a loop; 0 outside of loops.
        key, outer: For leaving: the entered object, and the place around it.
        call: A unique number for each call of an outermost module; 0 outside of modules.
        depth: The number of running module calls; including op calls where these are recorded.
    """

    path: str = ""
    step: int | None = None
    axis: Any = None
    module: str = ""
    steps: tuple[int, ...] = ()
    entry: int = 0
    key: int = 0
    outer: Place | None = None
    call: int = 0
    depth: int = 0


class _InModule:
    """A place inside a module whose path has not been computed yet.

    Attributes:
        in_step: Whether it is in a step of a loop.
    """

    __slots__ = ("_path", "_outer", "_place", "_call", "in_step")

    def __init__(self, path: str | Callable[[], str], outer: Place | _InModule):
        self._path, self._outer = path, outer
        self._place: Place | None = None
        self._call = 0
        self.in_step: bool = (
            outer.in_step if isinstance(outer, _InModule) else outer[1] is not None or outer[2] is not None
        )

    def place(self) -> Place:
        if self._place is None:
            outer, path, depth = self._outer, self._path, 1
            path = path if isinstance(path, str) else path()
            outermost = self
            while isinstance(outer, _InModule):  # their paths are not needed for that
                outermost, outer, depth = outer, outer._outer, depth + 1
            if not outer.call and not outermost._call:
                outermost._call = next(_number)
            call = outer.call or outermost._call
            self._place = Place(
                path,
                outer.step,
                outer.axis,
                path,
                outer.steps,
                outer.entry,
                next(_number),
                outer,
                call,
                outer.depth + depth,
            )
        return self._place


def _here() -> Place:
    """The place of the run in this context."""
    place = _place.get()
    return place.place() if place.__class__ is _InModule else place


Listener = Callable[[str, Place, Mapping[str, Any]], None]
Names = Mapping[int, tuple[Any, str]]  # id of a module: the module (kept alive, so that the id stays its own), its path

_NOWHERE = Place()
_place: ContextVar[Any] = ContextVar("rfnb_place", default=_NOWHERE)
Wants = Callable[[str], bool]
_listeners: ContextVar[tuple[tuple[Listener, Names, Wants | None], ...]] = ContextVar("rfnb_listeners", default=())
_open: dict[int, Any] = {}  # the recordings that are open in any thread: none makes `listening` a single test
_number = itertools.count(1)


def listening(kind: str | None = None) -> bool:
    """True if something in this context records events (of a kind); for callers that would have to prepare values."""
    if not _open:
        return False
    listeners = _listeners.get()
    if kind is None:
        return bool(listeners)
    for _, _, wants in listeners:
        if wants is None or wants(kind):
            return True
    return False


@op
def probe(kind: str, *, dims: Any = None, lengths: Any = None, **values: Any) -> None:
    """Send named values as an event.

    Args:
        kind: "attention", "states", "beams", "module", or your own word.
        values: Tensors and plain data (numbers, text, Dims, NumPy arrays, lists and dicts of these).
        dims: Names for the axes of raw arrays among the values, as for `rf.named`: one string for all, or a dict by value. Equal
            names are one dim; `axis`, `target` and `dim` may be names then. A tuple or dict of arrays sends an event for each, at its
            own path.
        lengths: Lengths of these dims, as for `rf.named`; an array without the dim has none. Without `dims` it is an ordinary value.

    Raises:
        TypeError: While something records: for a raw torch array without names, or a field whose type does not match the kind.
    """
    if _open:
        if dims is not None and _listeners.get():
            for label, named in named_values(kind, values, dims, lengths):
                with trace_context.scope(label) if label else nullcontext():
                    if kind in FIELDS and (wrong := misfit(kind, named)) is not None:
                        raise _misfit(kind, named, *wrong)
                    _offer(kind, named)
            return
        values |= {} if lengths is None else {"lengths": lengths}
        for name, value in values.items():
            if not isinstance(value, (Tensor, str, int, float, list, dict)) and hasattr(value, "detach"):
                raise _raw_value(kind, name, value)
        if kind in FIELDS and (wrong := misfit(kind, values)) is not None:
            raise _misfit(kind, values, *wrong)
        _offer(kind, values)


def _misfit(kind: str, values: Mapping[str, Any], name: str, holds: Holds) -> TypeError:
    return type_error(
        f'probe "{kind}": {name} is not {holds.words}.',
        {name: values[name] if isinstance(values[name], Tensor) else type(values[name]).__name__},
        "What looks at a recording knows fields by their names. Name the axes of an array; other things have a "
        "kind of their own:",
        f'rf.probe("my {kind}", {name}={name}, ...)',
    )


def _raw_value(kind: str, name: str, value: Any) -> TypeError:
    got = f"{type(value).__module__}.{type(value).__name__} {tuple(value.shape)}"
    rule = "What is recorded is found and drawn by its dims, which a raw array does not have. Name them:"
    fix = f'rf.probe("{kind}", {name}=rf.convert_to_tensor({name}, dims=[...]), ...)'
    return type_error(f'probe "{kind}": {name} is not a Tensor.', {name: got}, rule, fix)


offers_here = OfThread(count=0)  # the number of attentions


def _offer(kind: str, values: Mapping[str, Any]) -> None:
    place = _here()
    offers_here.count += kind == "attention"
    for listener, _, _ in _listeners.get():
        listener(kind, place, values)


MakeValues = Callable[[], dict[str, Any]]


class Later(Mapping[str, Any]):
    """The values of an event, computed when they are first read.

    Args:
        make: Called once. Its inputs must not change in the meantime.
        num_bytes: Size of the values in bytes.
        host: Returns some of them as host arrays without computing all, for listeners that need only these in every step.
        look: For a "module" event, a key of the values' templates: calls with the same key share their values.
        kept: For such an event, returns what a trace with values keeps, given its template; of `num_bytes`.
        like: Values with the same dims that exist already.
    """

    __slots__ = ("num_bytes", "host", "look", "kept", "like", "_make", "_values", "__weakref__")

    def __init__(
        self,
        make: MakeValues,
        num_bytes: int = 0,
        host: MakeValues | None = None,
        look: tuple[Any, ...] | None = None,
        kept: Callable[[Any], dict[str, Any]] | None = None,
        like: Mapping[str, Any] | None = None,
    ):
        self.num_bytes, self.host, self.look, self.kept, self.like = num_bytes, host, look, kept, like
        self._make: MakeValues | None = make
        self._values: dict[str, Any] | None = None

    def made(self) -> dict[str, Any]:
        """All values."""
        values, make = self._values, self._make
        if values is None and make is not None:  # two threads may make it twice, to the same end
            values = self._values = make()
            lent = _lent.get()
            if lent is None:
                self._make = self.host = None
            else:
                lent.append(self)
        assert values is not None
        return values

    def give_back(self) -> None:
        """Drop the values; they are computed again when they are next read."""
        if self._make is not None:
            self._values = None

    def keep(self) -> None:
        """Keep the values from now on, and release their inputs."""
        if self._values is not None:
            self._make = self.host = None

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (self.made(),)  # a copy does not make them anew

    def __getitem__(self, name: str) -> Any:
        return self.made()[name]

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name. Errors in computing it are raised, including a KeyError."""
        return self.made().get(name, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self.made())

    def __len__(self) -> int:
        return len(self.made())


class LaterStates(Later):
    """States of very many steps, each computed by itself.

    Args:
        make: As for `Later`: the values common to all steps.
        at: Returns the state after a step, by index.
        steps: The number of steps.
        num_bytes: Size of the values in bytes.
    """

    __slots__ = ("at", "steps")

    def __init__(self, make: MakeValues, at: Callable[[int], Any], steps: int, num_bytes: int = 0):
        super().__init__(make, num_bytes)
        self.at, self.steps = at, steps


_lent: ContextVar[list[Later] | None] = ContextVar("rfnb_lent", default=None)


@block
def lent() -> Iterator[list[Later]]:
    """Collect the values computed in a with-block, so that they can be given back."""
    made: list[Later] = []
    with Setting(_lent, lambda: _lent.set(made)):
        yield made


def is_lent() -> bool:
    """True if values computed here may be given back."""
    return _lent.get() is not None


def probe_later(kind: str, values: Later) -> None:
    """Like `probe`, with values that are computed on demand."""
    if _open:
        _offer(kind, values)


def probe_call(
    look: tuple[Any, ...], make: Any, num_bytes: int = 0, kept: Any = None, args: Sequence[Any] = ()
) -> bool:
    """Let a recording note a call of a module; its event is made when the trace is first read.

    Args:
        look, num_bytes: As in `Later`; what is a tuple in `look` are dims.
        make: `make(look)` gives the template of its values.
        kept, args: `kept(*args, template)` gives what a trace with values keeps; None without values.

    Returns:
        Whether it was noted; otherwise, for example if there are other listeners, `probe_later` must send the event.
    """
    listeners = _listeners.get()
    note = getattr(listeners[0][0], "note_call", None) if len(listeners) == 1 else None
    place = _place.get()
    return (
        note is not None
        and place.__class__ is _InModule
        and not place.in_step
        and note(place, look, make, num_bytes, kept, args)
    )


def listen(listener: Listener, names: Names | None = None, wants: Wants | None = None) -> Undone:
    """Let `listener(kind, place, values)` receive the probes of this context during a with-block.

    Args:
        listener: Called in the thread of the model.
        names: Paths of modules for `trace_context.module_name`.
        wants: Tells whether the listener uses a kind; values of others may then not be prepared. Default: all.
    """
    return _Listening((listener, names or {}, wants))


def _hear(item: Any) -> None:
    _open[id(item)] = item
    if item not in _listeners.get():
        _listeners.set((*_listeners.get(), item))


def _hear_no_more(item: Any) -> None:
    _open.pop(id(item), None)
    _listeners.set(tuple(other for other in _listeners.get() if other is not item))


class _Listening(Undone):
    """A block of `listen`."""

    def __init__(self, item: tuple[Listener, Names, Wants | None]):
        self._item, self._place = item, _NOWHERE

    def begin(self) -> None:
        self._place = _here()
        _hear(self._item)

    def undo(self) -> None:
        # Not reset(token): a notebook may leave the block in another context than it entered it.
        _hear_no_more(self._item)
        # After an error the traceback keeps `for _ in loop` alive, and with it the place that it has entered.
        _place.set(self._place)


class Ear:
    """A listener that may start in one step and stop in another. Unlike `listen` it leaves the place unchanged.

    Args:
        listener, wants: As in `listen`.
    """

    def __init__(self, listener: Listener, wants: Wants):
        self._item: tuple[Listener, Names, Wants | None] = (listener, {}, wants)

    def open(self) -> None:
        """Start receiving the probes of this context; no effect if already started."""
        _hear(self._item)  # also where it does: a block that holds events back may have been left

    def close(self) -> None:
        """Stop receiving."""
        _hear_no_more(self._item)


Offer = tuple[str, Place, Mapping[str, Any]]


@block
def held_back() -> Iterator[list[Offer]]:
    """Hold back the probes of this context during a with-block; the list collects them for `offer_again`."""
    offers: list[Offer] = []
    before = _listeners.get()
    hold = lambda *offer: offers.append(offer)  # noqa: E731
    instead: Any = ((hold, {}, lambda kind: any(w is None or w(kind) for _, _, w in before)),) if before else ()
    with Setting(_listeners, lambda: _listeners.set(instead)):
        yield offers


@block
def heard_as(translate: Callable[[str, Place, Mapping[str, Any]], Iterable[Offer]]) -> Iterator[None]:
    """Replace, during a with-block, each probe by the result of a function for all listeners."""
    before = _listeners.get()

    def of(listener: Listener) -> Listener:
        def heard(kind: str, place: Place, values: Mapping[str, Any]) -> None:
            for offer in translate(kind, place, values):
                listener(*offer)

        return heard

    instead = tuple((of(listener), names, wants) for listener, names, wants in before)
    with Setting(_listeners, lambda: _listeners.set(instead)):
        yield


def stop_hearing() -> None:
    """Remove all listeners from this context."""
    _listeners.set(())


def offer_again(offers: list[Offer]) -> None:
    """Send probes that were held back, at their original places."""
    for offer in offers:
        for listener, _, _ in _listeners.get():
            listener(*offer)


def offer_here(offer: Offer, values: Mapping[str, Any]) -> None:
    """Send values in this step, at the path of an earlier probe."""
    kind, place, _ = offer
    with trace_context.again(place):
        _offer(kind, values)


def listeners() -> tuple[Any, ...]:
    """The listeners in this context."""
    return _listeners.get() if _open else ()


class TraceContext:
    """Tracks the place in the run; used by Module and Loop, and only while something listens."""

    @block
    def module(self, path: str) -> Iterator[None]:
        """Enter the module at `path`, counted from the outermost module, for a with-block."""
        before = self.enter_module(lambda: path)
        try:
            yield
        finally:
            self.leave_module(before)

    def enter_module(self, path: str | Callable[[], str]) -> Place | _InModule:
        """Enter a module; return the argument for `leave_module`. A path that is a function is called only if an event is sent there."""
        before = _place.get()
        _place.set(_InModule(path, before))
        return before

    def leave_module(self, before: Place | _InModule) -> None:
        """Return to the previous place."""
        _place.set(before)

    def loop(self, name: str, step: int, axis: Any = None) -> _Within:
        """A context manager for one step of a loop; its path is the surrounding path plus the loop's name."""
        before = _here()
        path, steps, number = _join(before.path, name), (*before.steps, step), next(_number)
        inside = before.call, before.depth
        return _Within(Place(path, step, axis, before.module, steps, number, number, before, *inside))

    def scope(self, name: str) -> _Within:
        """A context manager that adds one part to the path, for code that is not a Module."""
        before = _here()
        path, module = _join(before.path, name), _join(before.module, name)
        return _Within(before._replace(path=path, module=module, key=next(_number), outer=before))

    def op(self) -> _Again:
        """A context manager for an op call, which counts like a module call for `depth`."""
        before = _here()
        return _Again(before._replace(depth=before.depth + 1))

    def at_step(self, step: int | None) -> None:
        """Set the step of the innermost scope, for a loop in plain Python; None: in no step."""
        now = _here()
        around = now.outer.steps if now.outer is not None else ()
        steps = around if step is None else (*around, step)
        _place.set(now._replace(step=step, steps=steps, entry=0 if step is None else next(_number)))

    def module_name(self, module: Any) -> str | None:
        """The dotted path of a module in the recorded `model`; None if no recording has a model that contains it."""
        if _open:
            for _, names, _ in reversed(_listeners.get()):
                found = names.get(id(module))
                if found is not None:
                    return found[1]
        return None

    def again(self, place: Place, *, whole: bool = False) -> _Again:
        """A context manager that returns to an earlier place in this step; with `whole`, to the place for all steps of its loop."""
        before = _here()
        if whole:
            around = place.steps[:-1]
            return _Again(place._replace(step=None, axis=None, steps=around, entry=0))
        return _Again(before._replace(path=place.path, module=place.module, depth=place.depth))

    @property
    def place(self) -> Place:
        """The place of the run in this context."""
        return _here()


trace_context = TraceContext()


class _Again:
    """Enters a place and restores the previous one."""

    __slots__ = ("_before", "_inside")

    def __init__(self, inside: Place):
        self._inside = inside

    def __enter__(self) -> None:
        self._before = _here()
        _place.set(self._inside)

    def __exit__(self, *exc: object) -> None:
        _place.set(self._before)


class _Within:
    """Enters a place and restores the surrounding one, even if something inside was not left properly.

    A generator (`for _ in loop`) may be closed by the garbage collector in another thread: there nothing is restored.
    """

    __slots__ = ("_inside",)

    def __init__(self, inside: Place):
        self._inside = inside

    def __enter__(self) -> None:
        _place.set(self._inside)

    def __exit__(self, *exc: object) -> None:
        place: Place | None = _here()
        while place is not None and place.key != self._inside.key:
            place = place.outer
        if place is not None:
            _place.set(self._inside.outer or _NOWHERE)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path and name else path or name
