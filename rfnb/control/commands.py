"""Commands: requests of a page to a run. They return at once; work for the run's thread is answered when it is done.

    obey(run, {"do": "force", "label": "AH"}, answer)      # answer(None) when it is done, answer("a sentence") when it cannot be

A command is a function here, and its parameters are the fields: names, meanings (`Field`) and defaults. A command that concerns the
run's position is a `change`: it gets the `Position`, in the run's thread, and a branch can begin with it (`then`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from inspect import Parameter, signature
from typing import Annotated, Any, NamedTuple

from rfnb.control.branch_tree import runs_of
from rfnb.control.position import Position
from rfnb.control.run import Run
from rfnb.core.tensor import Tensor
from rfnb.core.whole_number import whole

Answer = Callable[[str | None], None]


class Field(NamedTuple):
    """A field of a command.

    Attributes:
        means: Its description.
        fits: Tells whether a value is valid.
        default: The value if it is omitted; `Parameter.empty` if it is required.
    """

    means: str
    fits: Callable[[Any], bool]
    default: Any = Parameter.empty


class CommandResult(NamedTuple):
    """The result of a command: `done` when the run's thread has carried it out, and the `branch` that it made."""

    done: Future[Any] | None = None
    branch: Run | None = None


class _Command(NamedTuple):
    do: Callable[..., CommandResult | None]
    change: Callable[..., None] | None
    fields: Mapping[str, Field]


COMMANDS: dict[str, _Command] = {}


def command(fn: Callable[..., CommandResult | None]) -> Callable[..., CommandResult | None]:
    """A decorator for a command `fn(run, **fields)` that only signals the run's gate or queues work for it."""
    return _add(fn, fn, None)


def change(fn: Callable[..., None]) -> Callable[..., None]:
    """A decorator for a command `fn(at, **fields)` that concerns the run's position and is carried out by the run's thread."""

    def ask(run: Run, **given: Any) -> CommandResult:
        gate = run._gate
        return CommandResult(gate.ask(lambda: fn(_standing(gate.here), **given)))

    return _add(fn, ask, fn)


def _add(fn: Any, do: Callable[..., CommandResult | None], change: Callable[..., None] | None) -> Any:
    _, *rest = signature(fn, eval_str=True).parameters.values()
    fields = {each.name: each.annotation.__metadata__[0]._replace(default=each.default) for each in rest}
    COMMANDS[fn.__name__.rstrip("_")] = _Command(do, change, fields)
    return fn


def _standing(at: Position | None) -> Position:
    assert at is not None  # what is asked of a gate is done by who stands there
    return at


def obey(run: Run, asked: Any, answer: Answer) -> Run | None:
    """Carry out a command of a page, and answer when it is done. Never waits, never raises.

    Args:
        asked: `{"do": name of the command, field: value, ...}`.
        answer: Called once, in any thread: with None, or a sentence on why it was not done.

    Returns:
        The branch that the command made, if any.
    """
    try:
        found, given = _understood(asked)
        done, branch = found.do(run, **given) or CommandResult()
    except Exception as error:
        answer(said(error))
        return None
    if done is None:
        answer(None)
    else:
        done.add_done_callback(lambda done: answer(said(done.exception())))
    return branch


def said(error: BaseException | None) -> str | None:
    """Error text for the page, prefixed with the exception type unless it is one of rfnb's; None if there is no error."""
    if error is None:
        return None
    text = str(error)
    return text if type(error).__module__.startswith("rfnb") or "\n" in text else f"{type(error).__name__}: {text}"


def _understood(asked: Any) -> tuple[_Command, dict[str, Any]]:
    """A command and its fields.

    Raises:
        ValueError: If the command is unknown, or a field is invalid.
    """
    name = asked.get("do") if isinstance(asked, Mapping) else None
    found = COMMANDS.get(name) if isinstance(name, str) else None
    if found is None or name is None:
        raise _Wrong(f"There is no command {name!r}. There are: {', '.join(COMMANDS)}.")
    given = {key: value for key, value in asked.items() if key != "do"}
    fields = {key: field.default for key, field in found.fields.items()} | given
    for key, value in fields.items():
        field = found.fields.get(key)
        if field is None:
            raise _Wrong(f'Command "{name}" has no "{key}". It has: {", ".join(found.fields) or "no fields"}.')
        if value is Parameter.empty:
            raise _Wrong(f'Command "{name}" needs "{key}": {field.means}.')
        if key in given and not field.fits(value) and not (value is None is field.default):
            raise _Wrong(f'Command "{name}": "{key}" is {value!r:.60}. It is {field.means}.')
    return found, fields


class _Wrong(ValueError):
    """The error for a command that was not understood."""


def changes_of(asked: Sequence[Any]) -> Callable[[Position], None]:
    """Several commands for a run's position, as one change.

    Raises:
        ValueError: If one is not understood, or does not concern the position.
    """
    made = []
    for one in asked:
        found, given = _understood(one)
        if found.change is None:
            names = [name for name, other in COMMANDS.items() if other.change]
            raise _Wrong(f'A branch cannot begin with "{one["do"]}". Possible commands: {", ".join(names)}.')
        made.append((found.change, given))

    def do(at: Position) -> None:
        for fn, given in made:
            fn(at, **given)

    return do


# -- fields ----------------------------------------------------------------------------------------------------------------


def _is_int(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_place(value: Any) -> bool:
    return isinstance(value, str) or _is_int(value, 0) or (isinstance(value, list) and all(map(_is_place, value)))


def _is_word(value: Any) -> bool:
    return isinstance(value, str) or _is_int(value, 0)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


EVERYWHERE: dict[str, Any] = {}

INDEX = Annotated[Any, Field("a whole number from 0", lambda value: _is_int(value, 0))]
COUNT = Annotated[Any, Field("a whole number from 1", lambda value: _is_int(value, 1))]
TEXT = Annotated[Any, Field("a text", lambda value: isinstance(value, str))]
FLAG = Annotated[Any, Field("true or false", lambda value: isinstance(value, bool))]
LABEL = Annotated[Any, Field("a label: its text or index", _is_word)]
LABELS = Annotated[
    Any, Field("a label, its text or index, or a list of them", lambda value: _is_place(value) and value != [])
]
HYPOTHESIS = Annotated[Any, Field("a place in the beam, or the labels so far", _is_word)]
RATE = Annotated[Any, Field("a number from 0", lambda value: _is_number(value) and 0 <= value < math.inf)]
CONDITION = Annotated[Any, Field("a condition in words, or the number of a step", _is_word)]
ENTRIES = Annotated[
    Any,
    Field(
        "entries by names of dims: an index (-1: the last), several, or a text",
        lambda value: isinstance(value, dict) and all([_is_int(at, -1) or _is_place(at) for at in value.values()]),
    ),
]
VALUE = Annotated[
    Any,
    Field(
        "a number, a text, or a list of them",
        lambda value: isinstance(value, list) and bool(value) or isinstance(value, (bool, int, float, str)),
    ),
]
NUMBER = Annotated[Any, Field("a number", _is_number)]
HOW = Annotated[
    Any, Field('"zero", "scale", "noise" or "paste"', lambda value: value in ("zero", "scale", "noise", "paste"))
]
SOURCE = Annotated[Any, Field("a recorded state", lambda value: isinstance(value, Tensor))]
CHANGES = Annotated[Any, Field("a list of commands", lambda value: isinstance(value, list))]


# -- commands --------------------------------------------------------------------------------------------------------------


@command
def pause(run: Run) -> None:
    """Pause the run before its next step."""
    run._mark(lambda: run._gate.pause("on request"))


@command
def step(run: Run, steps: COUNT = 1) -> None:
    """Run this many steps; requests before the run pauses again add up."""
    run._need_on("step")
    run._gate.go(steps)


@command
def resume(run: Run) -> None:
    """Resume the run."""
    run._need_on("resume")
    run._gate.go()


@command
def stop(run: Run) -> None:
    """Stop the run at its next step."""
    run._mark(run._gate.stop)


@command
def speed(run: Run, value: RATE) -> None:
    """Set the most steps per second."""
    run.speed = value


@command
def break_(run: Run, when: CONDITION) -> None:
    """Set a breakpoint; a string of digits is a step."""
    run.break_when(int(when) if isinstance(when, str) and when.strip().isdecimal() else when)


@command
def unbreak(run: Run, number: COUNT) -> None:
    """Remove the breakpoint with a number."""
    for point in run.breakpoints:
        if point.number == number:
            return point.remove()
    raise _Wrong(f"There is no breakpoint {number}.")


@change
def force(
    at: Position, label: LABELS, then: LABELS = (), hypothesis: HYPOTHESIS = 0, seq: INDEX = 0, only: FLAG = False
) -> None:
    """Force a label, as `run.at.force` does; `then` others in the steps after."""
    at.force(label, *([then] if isinstance(then, (str, int)) else then), hypothesis=hypothesis, seq=seq, only=only)


@change
def ban(at: Position, label: LABELS, hypothesis: HYPOTHESIS = None, seq: INDEX = 0) -> None:
    """Ban a label, as `run.at.ban` does."""
    at.ban(label, hypothesis=hypothesis, seq=seq)


@change
def end(at: Position, seq: INDEX = 0, hypothesis: HYPOTHESIS = None) -> None:
    """End a sequence or hypothesis, as `run.at.end` does."""
    at.end(seq, hypothesis)


@change
def go_on(at: Position, seq: INDEX = 0, hypothesis: HYPOTHESIS = None) -> None:
    """Resume what has ended, as `run.at.go_on` does."""
    at.go_on(seq, hypothesis)


@change
def set_(
    at: Position,
    state: TEXT,
    entries: ENTRIES = EVERYWHERE,
    value: VALUE = None,
    how: HOW = None,
    amount: NUMBER = None,
    seed: INDEX = 0,
    of: ENTRIES = EVERYWHERE,
    source: SOURCE = None,
) -> None:
    """Change entries of a state: to a value, or by `how` with an `amount`, or to other entries (`of`) of it or of a `source`."""
    if (value is None) == (how is None):
        raise _Wrong('Command "set" needs either "value" or "how".')
    if (amount is None) == (how in ("scale", "noise")):
        raise _Wrong('Command "set" takes "amount" only for "scale" and "noise".')
    found = at.states[state]
    if how == "scale":
        found.scale(amount, entries)
    elif how == "noise":
        found.add_noise(amount, entries, seed=seed)
    elif how == "paste":
        found.paste(source, of=of, to=entries)
    else:
        found[entries] = found.zero if how == "zero" else value


@change
def put(
    at: Position,
    place: TEXT,
    value: NUMBER = None,
    entries: ENTRIES = EVERYWHERE,
    scale: NUMBER = None,
    lasting: FLAG = False,
) -> None:
    """Replace or scale a value that the recorded model computes in the next step, or in all (`lasting`), as `run.at.edit` does."""
    if (value is None) == (scale is None):
        raise _Wrong('Command "put" needs one of "value" and "scale".')
    chosen = ", ".join(f"{name}={entry}" for name, entry in entries.items())

    def scaled(there: Any) -> Any:
        return there * scale

    scaled.__name__ = f"× {scale:g}" if scale is not None else ""
    at.edit(
        {f"{place}[{chosen}]" if chosen else place: scaled if value is None else value}, steps=None if lasting else 1
    )


@change
def attention(
    at: Position,
    path: TEXT,
    entries: ENTRIES = EVERYWHERE,
    row: VALUE = None,
    sharpen: NUMBER = None,
    focus: LABEL = None,
    hide: LABEL = None,
    uniform: FLAG = False,
    steps: COUNT = 1,
    lasting: FLAG = False,
) -> None:
    """Change rows of attention weights in the next steps, or in all (`lasting`), as `run.at.attention` does."""
    if sum([row is not None, sharpen is not None, focus is not None, hide is not None, uniform]) != 1:
        raise _Wrong('Command "attention" needs one of "row", "sharpen", "focus", "hide" and "uniform".')
    rows = at.attention[path].during(None if lasting else steps)
    if row is not None:
        rows[entries] = row
    elif sharpen is not None:
        rows.sharpen(sharpen, entries)
    elif focus is not None:
        rows.focus(focus, entries)
    elif hide is not None:
        rows.hide(hide, entries)
    else:
        rows.uniform(entries)


@command
def branch(
    run: Run,
    step: INDEX,
    path: TEXT = None,
    nth: INDEX = None,
    then: CHANGES = (),
    name: TEXT = None,
    paused: FLAG = None,
) -> CommandResult:
    """Branch off, as `run.from_step` does, with the commands of `then` as the change.

    If one of them fails, that is the answer, and the branch pauses there.
    """
    if not then:
        return CommandResult(None, run.from_step(step, path=path, nth=nth, name=name, paused=paused))
    do, done, made = changes_of(then), Future[Any](), Future[Run]()

    def hand(at: Position) -> None:
        if done.done():  # it is repeated in a branch of the branch
            return do(at) if done.exception() is None else None
        try:
            do(at)
        except Exception as error:
            made.result()._gate.pause(str(error))
            done.set_exception(error)
        else:
            done.set_result(None)

    def tell() -> None:
        if new._gate.mode == "over" and not done.done():
            done.set_exception(_Wrong(f"{new.name} has ended before step {step}."))

    new = run.from_step(step, hand, path=path, nth=nth, name=name, paused=paused)
    new.then = tuple(then)
    made.set_result(new)
    new._gate.on_change(tell)
    tell()
    return CommandResult(done, new)


@command
def edit(run: Run, step: INDEX, path: TEXT, nth: INDEX, then: CHANGES, name: TEXT = None) -> CommandResult | None:
    """Carry out the commands of `then` before a step: here if the run is paused before it, else in a branch from there that runs on.

    If one of them fails, none takes effect. A "set" with how "paste" may also have a `from` {path, nth, step}: the entries `of` are then
    those before that step.
    """
    then = [_with_source(run, one) for one in then]
    do, at = changes_of(then), run._gate.at
    if at is None or run._holder.places[at.tick][:3] != (path, nth, step):
        asked = branch(run, step, path, nth, then, name, paused=False)
        assert asked is not None and asked.done is not None and asked.branch is not None
        new = asked.branch
        made, answer = asked.done, Future[Any]()

        def tell() -> None:
            error = made.exception() if made.done() else None
            if error is None and new.drifted:
                why = f"{new.name}: its steps up to step {step} differ from those of {run.name}: {new.drifted}."
                error = _Wrong(f"{why} Nothing was changed. A run that starts again from the beginning can be changed.")
            if answer.done() or not (made.done() or error):
                return
            if error is None:
                answer.set_result(None)
            else:
                answer.set_exception(error)
                _take_back(new)

        new._gate.on_change(tell)
        made.add_done_callback(lambda _: tell())
        tell()
        return CommandResult(answer, new)

    def here() -> None:
        now = _standing(run._gate.here)
        if now.tick != at.tick:
            raise _Wrong("The run has continued in the meantime, and nothing was changed.")
        do(now)

    return CommandResult(run._gate.ask(here))


@command
def move(run: Run, number: COUNT, step: INDEX) -> CommandResult | None:
    """Apply a branch's initial changes at another step of the same loop, in another branch."""
    moved = run_numbered(run, number)
    if moved.parent is None or moved.left is None or not moved.then:
        raise _Wrong(f"{moved.name} has no manual change at its start.")
    path, nth = moved.parent._holder.places[moved.left.tick][:2]
    name = moved.name.removesuffix(f" at {moved.left.step}")
    return edit(moved.parent, step, path, nth, list(moved.then), f"{name} at {step}" if name != moved.name else name)


@command
def let_go(run: Run, number: COUNT) -> None:
    """Remove a branch and its descendants."""
    gone = run_numbered(run, number)
    if gone.parent is None:
        raise _Wrong(f"{gone.name} is the run that all others branch from.")
    for each in runs_of(gone):
        each._gate.stop()
    _take_back(gone)


def run_numbered(run: Run, number: Any) -> Run:
    """The run of the same tree with a number, by which pages refer to it.

    Raises:
        ValueError: If there is no such run.
    """
    for each in runs_of(run.root):
        if each.number == number:
            return each
    raise _Wrong(f"There is no branch {number!r:.20}.")


def _take_back(branch: Run) -> None:
    """Remove a branch as if it had never been made."""
    branch._gate.stop()
    if branch.parent is not None:
        branch.parent.branches.remove(branch)
        branch.root._names.difference_update(each.name for each in runs_of(branch))


def _with_source(run: Run, asked: Any) -> Any:
    """A command whose reference to a recorded state is replaced by that state."""
    if not isinstance(asked, Mapping) or "from" not in asked:
        return asked
    at, state = asked["from"], str(asked.get("state"))
    where = at if isinstance(at, Mapping) else {}
    wanted = where.get("path"), where.get("nth"), (whole(where.get("step")) or 0) - 1
    for event in reversed([] if run.trace is None else run.trace.select(kind="states")):
        place = run.place_of(event.entry)
        if place is not None and place[:3] == wanted and state in event.values:
            return {**{name: value for name, value in asked.items() if name != "from"}, "source": event.values[state]}
    raise _Wrong(f"State {state!r:.60} was not recorded before that step.")
