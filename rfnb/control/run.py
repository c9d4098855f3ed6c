"""Run: a function in its own thread whose loops can be held, step by step.

run = rf.run(search, word, paused=True)
run.step(3)                                     # three steps of its loops, then it waits
run.at.states["h"][{"batch": 0}] = 0.0          # changed by the run itself, before its next step
run.at.force("AH")                              # this label survives, whatever its rank
run.resume()
run.result                                      # waits for it; an error is raised as if the cell had raised it
other = run.from_step(3)                        # a rerun up to this step, to continue differently
"""

from __future__ import annotations

import contextvars
import inspect
import itertools
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from numbers import Real
from os import PathLike
from types import TracebackType
from typing import Any

from rfnb.control.arguments import limit_of, no_call, nothing_held
from rfnb.control.attention_edits import seen_paths
from rfnb.control.branch_tree import free_name, runs_of, tree_of
from rfnb.control.breakpoints import Breakpoint, Breakpoints
from rfnb.control.gate import Gate, Stopped
from rfnb.control.holder import Holder, Trunk
from rfnb.control.live_runs import RunMember, note_begun
from rfnb.control.poll import until_over
from rfnb.control.position import Change, Position, PositionStates
from rfnb.control.rerun import looked_at, once_more, states_at
from rfnb.control.run_steps import LoopCounter, StepPlace
from rfnb.control.state_history import KeptSpan, StateHistory
from rfnb.control.surroundings import SurroundingChange, Surroundings, surroundings_of
from rfnb.control.turns import Generators, Turn, Turns
from rfnb.core.errors import NearNames, message, missing_key_error, nearest, runtime_error, type_error, value_error
from rfnb.core.place import warn_user
from rfnb.core.whole_number import whole
from rfnb.ops.random_state import own_step_seeds
from rfnb.rec.hold import held_by
from rfnb.trace.record import record as recorded
from rfnb.trace.run_tree import AppliedChange, BranchPoint, Tree
from rfnb.trace.trace import Trace

_numbers = itertools.count(1)
_naming = threading.Lock()


class RunStopped(RuntimeError):
    """A run was stopped before it had a result."""


class Run(RunMember, NearNames):
    """A function that runs in its own thread and pauses between the steps of its loops on request. Made by `rf.run`.

    Attributes:
        name: Unique in its tree of branches.
        number: Number among all runs, from 1.
        parent, left: The parent run of a branch, and the step where the branch leaves it.
        branches: The branches of this run.
        then: For a branch made by hand in a view, its initial commands.
        counted: The progress of its loops.
        told: How many times code told it to pause, step, resume or stop.
        trace: The recording of its events; None if it records nothing.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        name: str | None = None,
        trunk: Trunk | None = None,
        record: bool | Mapping[str, Any] = True,
        kept: StateHistory | None = None,
        turns: Turns | None = None,
        modules: frozenset[str] = frozenset(),
    ):
        self.number = next(_numbers)
        self.name = name or f"run {self.number}"
        self.parent: Run | None = None
        self.left: BranchPoint | None = None
        self.branches: list[Run] = []
        self._names = {self.name}  # of the first run, those of all in its tree: each new one looks there
        self.then: tuple[Any, ...] = ()
        self.trace: Trace | None = None
        self._record, self._modules = record, modules
        self._fn, self._args, self._kwargs = fn, args, dict(kwargs)
        self._turns = turns or Turns()
        self._turn = Turn(self._turns, lambda: self._gate.mode == "stopping")
        self._gate: Gate[Position] = Gate(self._turn.leave, self._turns)
        self._breakpoints = Breakpoints(self._gate.tell)
        self._changes: dict[int, list[Change]] = {}
        seen = lambda: seen_paths(record, self.trace)  # noqa: E731
        model = record.get("model") if isinstance(record, Mapping) else None
        self._holder = Holder(
            self._gate, self._breakpoints, self._changes, trunk, kept, seen, model, lambda: self.trace, modules
        )
        self.told = 0
        self.counted = LoopCounter(self._holder.steps)
        self._before: tuple[AppliedChange, ...] = ()
        self._surroundings: Surroundings | None = None
        self._changed_by_itself: dict[str, SurroundingChange] = {}
        self._numbers: Generators | None = None  # that it begins with
        self._error: BaseException | None = None
        self._traceback: TracebackType | None = None
        self._result: Any = None
        self._is_to_hold = False  # whether somebody has asked for a step to be held

    def _start(self, context: contextvars.Context, modes: Callable[[], None]) -> Run:
        """Start in a copy of this context, under these modes."""
        self._begins = context, modes
        if not isinstance(self._holder.kept, KeptSpan):  # of which nobody makes branches
            self._surroundings = surroundings_of(self._fn, self._args, self._kwargs)
        gate, begun = self._gate, threading.Event()
        work = lambda: self._work(modes, begun)  # noqa: E731
        gate.worker = threading.Thread(target=context.copy().run, args=(work,), name=f"rfnb {self.name}", daemon=True)
        note_begun(self)
        gate.worker.start()
        begun.wait()
        if self._record is not False and self.trace is None:  # it did not begin: what to record was not understood
            gate.until_over()
            self._outcome()
        return self

    def _work(self, modes: Callable[[], None], begun: threading.Event) -> None:
        try:
            modes()
            own_step_seeds()
            with self._recording() as self.trace:
                self._result = self._with_its_numbers(begun)
        except BaseException as error:
            self._error, self._traceback = error, error.__traceback__
        finally:
            if self._surroundings is not None:
                self._changed_by_itself = self._surroundings.differences()
            begun.set()
            self._gate.end()

    def _recording(self) -> AbstractContextManager[Trace | None]:
        given = self._record
        return nullcontext() if given is False else recorded(**(given if isinstance(given, Mapping) else {}))

    def _with_its_numbers(self, begun: threading.Event) -> Any:
        """The result of the function, with the initial random numbers of its parent if it is a branch."""
        if self._numbers is not None:
            begun.set()  # it may have to wait for its turn
        numbers = self._turn.begin(self._numbers)
        if numbers is None:
            raise Stopped
        self._numbers = numbers
        begun.set()
        try:
            with held_by(self._holder):
                self._holder.before_all()
                result = self._fn(*self._args, **self._kwargs)
                if inspect.iscoroutine(result):
                    result.close()
                    raise no_call("coroutine", self._fn)
                self._holder.after_all()
                self._holder.ended()
            return result
        finally:
            self._holder.close()
            self._turn.end()

    # -- what it does ------------------------------------------------------------------------------------------------------

    def pause(self, timeout: float | None = None) -> Run:
        """Pause before the next step; return once it is paused or over. A condition that is still being evaluated after some seconds is
        interrupted, and the run pauses there.

        Raises:
            TimeoutError: If it cannot be interrupted. The run pauses once it ends.
        """
        limit = limit_of("pause", timeout)
        self._is_to_hold = True
        self.told += 1
        self._gate.pause("on request")
        self._end_condition("pause", limit, self._gate.until_standing)
        return self._arrived(limit)

    def step(self, steps: int = 1, timeout: float | None = None) -> Run:
        """Run this many steps; return once the run is paused again or over.

        Raises:
            ValueError: For less than 1.
            RuntimeError: If the run is over.
        """
        limit = limit_of("step", timeout)
        if (whole(steps) or 0) < 1:
            raise value_error(
                f"step: invalid number of steps {steps!r}.",
                {"steps": repr(steps)},
                "A run advances by one step or more.",
                "run.step()",
            )
        self._need_on("step")
        self._is_to_hold = True
        self.told += 1
        self._gate.go(steps)
        return self._arrived(limit)

    def resume(self) -> Run:
        """Resume, until a breakpoint or the end."""
        self._need_on("resume")
        self.told += 1
        self._gate.go()
        return self

    def stop(self, timeout: float | None = None) -> Run:
        """End the run at its next step, without a result; return once it has ended. A condition that is still being evaluated after
        some seconds is interrupted.

        Raises:
            TimeoutError: If it cannot be interrupted. The run ends once it does.
        """
        limit = limit_of("stop", timeout)
        self.told += 1
        self._gate.stop()
        self._end_condition("stop", limit, self._gate.until_over)
        if not self._gate.is_worker:
            self._gate.until_over(limit)
        return self

    def wait(self, timeout: float | None = None, *, poll: bool = False) -> bool:
        """Wait until the run is over or paused; False on timeout. Ctrl+C pauses it at its next step.

        Args:
            timeout: Seconds. Default: no limit.
            poll: Wait until it is over and handle the buttons of pages meanwhile, even in kernels that handle nothing while a cell
                runs (ipykernel 6, Colab).

        Raises:
            RuntimeError: If called within the run.
            ValueError: If the timeout is not a number of seconds.
            TypeError: If poll is not a bool.
        """
        if not isinstance(poll, bool):
            raise type_error(
                "wait: poll is not a bool.",
                {"poll": repr(poll)},
                "poll determines whether buttons of pages work while waiting; the timeout is in seconds:",
                f"run.wait({poll!r}, poll=True)" if isinstance(poll, (int, float)) else "run.wait(poll=True)",
            )
        limit = limit_of("wait", timeout)
        self._need_outside("wait")
        return until_over(self._gate, limit) if poll else self._until_standing(limit)

    def _until_standing(self, limit: float | None = None) -> bool:
        try:
            stands = self._gate.until_standing(limit)
        except KeyboardInterrupt:
            self._gate.pause("Ctrl+C")
            raise
        self._say_unheld()
        return stands

    def _say_unheld(self) -> None:
        """Warn, once, about a run that was to be held but had no step."""
        if self._is_to_hold and self.state == "done" and not self.steps:
            self._is_to_hold = False
            loops = tuple(self._holder.passed.values())
            warn_user(nothing_held(self.name, self._fn, self._result, loops, self._holder.model_edits.has_model))

    @property
    def speed(self) -> float:
        """The maximum number of steps per second; 0: unlimited."""
        seconds = self._gate.seconds
        return 1 / seconds if seconds else 0.0

    @speed.setter
    def speed(self, steps_per_second: float) -> None:
        if isinstance(steps_per_second, bool) or not (isinstance(steps_per_second, Real) and steps_per_second >= 0):
            raise value_error(
                "speed: not a number of steps per second.",
                {"speed": repr(steps_per_second)},
                "0 is as fast as possible.",
            )
        self._gate.seconds = 1 / steps_per_second if steps_per_second else 0.0
        self._gate.tell()

    def break_when(
        self, condition: Any, text: str | None = None, *, path: str | None = None, once: bool = False
    ) -> Breakpoint:
        """Pause before a step when a condition holds. The run's thread evaluates it.

        Args:
            condition: A string, such as "h.abs_max() > 5 and step > 3", `label("AH")`, `ended()`, `not_finite()`, `entropy("att") >
                2`: docs/control.md lists them all. An int: that step. A function of the `Position` that returns True, or the reason as
                text. An error in it pauses the run too, and is shown.
            text: Shown with the reason.
            path: The loop whose step is meant, or the end of its path. Default: any.
            once: Remove the breakpoint once it has held.

        Raises:
            TypeError, ValueError: If the condition is invalid; the message shows the part of a string that is not understood.
            RuntimeError: If the run is over.
        """
        self._need_on("break_when")
        point = self._breakpoints.add(condition, text, path=path, once=once)
        if self._gate.at is not None:
            self._warn_of_unknown(point, self._gate.at, str(condition))
        self._is_to_hold |= not point.kinds  # what it hears may be made in no step
        return point

    def _warn_of_unknown(self, point: Breakpoint, at: Position, condition: str) -> None:
        for name in point.unknown_at(at):
            there = [*at.values, *at.states]
            near = nearest(name, there)
            what = f'break_when: no state "{name}" in "{at.path}".'
            rows = [("condition", condition), ("states", ", ".join(there) or "none")]
            rule = "The condition is evaluated where the state exists. If you mean one of these:"
            warn_user(message(what, rows, rule, f"run.break_when({condition.replace(name, near)!r})" if near else None))

    @property
    def breakpoints(self) -> Sequence[Breakpoint]:
        """All breakpoints, in order."""
        return tuple(self._breakpoints)

    def force(self, label: Any, *then: Any, **where: Any) -> None:
        """Force a label for a hypothesis in the next step: `run.at.force`."""
        self.at.force(label, *then, **where)

    def ban(self, label: Any, **where: Any) -> None:
        """Forbid a label in the next step, for all hypotheses or one: `run.at.ban`."""
        self.at.ban(label, **where)

    def end(self, seq: int = 0, hypothesis: Any = None) -> None:
        """End a sequence or hypothesis before the next step: `run.at.end`."""
        self.at.end(seq, hypothesis)

    # -- what is known of it -----------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """ "running", "paused", "done", "failed" or "stopped"."""
        gate = self._gate
        if gate.mode == "over":
            return "done" if self._error is None else "stopped" if isinstance(self._error, Stopped) else "failed"
        return "paused" if gate.at is not None else "running"

    @property
    def error(self) -> BaseException | None:
        """The error raised by the function, or None; being stopped is not an error."""
        return None if isinstance(self._error, Stopped) else self._error

    @property
    def reason(self) -> str:
        """The reason why it is paused, as text."""
        return self._gate.reason if self.state == "paused" else ""

    @property
    def steps(self) -> Sequence[tuple[str, int]]:
        """(path of the loop, step) of all steps begun so far, in order; grows while the run continues."""
        return self._holder.steps

    @property
    def changes(self) -> Sequence[AppliedChange]:
        """All changes, as text; for a branch including those before it left its parent."""
        return (*self._before, *self._holder.changed)

    def place_of(self, entry: int) -> StepPlace | None:
        """The step in which an event of `trace` was recorded, given its `entry`; None if it belongs to no held step."""
        return self._holder.places.of_entry(entry)

    @property
    def drifted(self) -> str | None:
        """The first difference that a branch found from its parent run before any change, as text; None if there is none."""
        return self._holder.drifted

    @property
    def at(self) -> Position:
        """The place where the run stands. If it was told to pause, this waits for it.

        Raises:
            RuntimeError: If the run is not paused.
        """
        if self._gate.mode == "paused" and not self._gate.is_worker:
            self._until_standing()
        at = self._gate.at
        if at is None:
            raise runtime_error(
                f"{self.name}: it is not paused at a step.",
                {"state": self.state},
                "The values of a run can be read and changed only while it is paused.",
                "run.pause()" if self.state == "running" else self._further()[1],
            )
        return at

    @property
    def result(self) -> Any:
        """The result of the function, once it is over.

        Raises:
            RunStopped: If it was stopped.
            RuntimeError: If it is paused, since waiting would never end.
            Exception: The error raised by the function.
        """
        self._need_outside("result")
        while self._gate.mode != "over":
            self._until_standing()
            at, reason = self._gate.at, self._gate.reason
            if at is not None:
                raise runtime_error(
                    f"{self.name}: it is paused, and has no result yet.",
                    {"before": repr(at), "because": reason},
                    "It continues when it is resumed.",
                    "run.resume()\nrun.result",
                )
        return self._outcome()

    def _outcome(self) -> Any:
        error = self._error
        if isinstance(error, Stopped):
            raise RunStopped(
                f"{self.name}: it was stopped after {len(self.steps)} steps, and has no result.\n"
                + "\n    ".join(self._further())
            )
        if error is not None:
            raise error.with_traceback(self._traceback)  # not that of the last time it was asked for
        self._say_unheld()
        unsaid = self._holder.take_refused()
        if unsaid is not None:  # of its last step, after which it has not paused
            warn_user(f"{self.name}: some requests were not carried out.\n{unsaid}")
        return self._result

    def __await__(self) -> Generator[Any, None, Any]:
        """Await the result; the cell waits without blocking the kernel. Cancelling the wait (an interrupt, `asyncio.wait_for`) leaves
        the run going.
        """
        return self._awaited().__await__()

    async def _awaited(self) -> Any:
        import asyncio  # takes 30 ms, which few need

        self._need_outside("await")
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            if self._gate.mode == "over":
                loop.call_soon_threadsafe(over.set)

        forget = self._gate.on_change(tell)
        try:
            if self._gate.mode != "over":
                await over.wait()
        finally:
            forget()
        return self._outcome()

    def __repr__(self) -> str:
        at = self._gate.at
        unheld = self.state == "done" and not self.steps
        where = ", no step was held" if unheld else f" after {len(self.steps)} steps"
        where = f" {at!r}, {self.reason}" if at is not None else where
        return f"<Run {self.name}: {self.state}{where}>"

    # -- other ways --------------------------------------------------------------------------------------------------------

    def look(self, step: int, *, path: str | None = None, nth: int | None = None) -> PositionStates:
        """The states before a past step, by name, before any change; read only.

        Most are kept. Others are recomputed: the function runs again up to that step, as for a branch, without listeners. A run in
        progress takes turns with it.

        Args:
            step, path, nth: As in `from_step`.

        Raises:
            IndexError: If the run has not reached it, or there are several such steps.
            RuntimeError: If they were not kept, and the function does not repeat its computation.
        """
        tick = self._holder.tick_of("look", step, path, nth)
        return looked_at(*self._holder.steps[tick], tick, states_at(self, tick))

    def from_step(
        self,
        step: int,
        change: Change | None = None,
        *,
        path: str | None = None,
        nth: int | None = None,
        name: str | None = None,
        paused: bool | None = None,
    ) -> Run:
        """Make a branch: repeat the run up to a step of a loop, with all changes before it, and continue differently from there.

        The function runs again from its beginning, with the same arguments and random numbers.

        Args:
            step: Step of the loop, from 0.
            change: Called with the `Position` before that step; default: the branch is paused there.
            path: Path of the loop, or the end of it, if there are several.
            nth: If the loop has run several times: 0 for its first run.
            paused: Whether it pauses there. Default: True if there is no change.

        Raises:
            IndexError: If this run has not reached it, or there are several such steps.
            TypeError: If the change is not a function.
        """
        if change is not None and not callable(change):
            raise type_error(
                "from_step: the change is not a function.",
                {"given": type(change).__name__},
                "The function takes the position before the step.",
                f'run.from_step({step}, lambda at: at.force("AH"))',
            )
        tick = self._holder.tick_of("from_step", step, path, nth)
        branch = once_more(self, name, tick, self._record)
        branch.parent, branch.left = self, BranchPoint(tick, *self._holder.steps[tick])
        branch._before = tuple(change for change in self.changes if change.tick < tick)
        if change is not None:
            branch._changes[tick] = [change]
        if paused or (paused is None and change is None):
            branch._holder.halt = tick, f"here it branches from {self.name}"
        with _naming:
            taken = self.root._names
            branch.name = free_name(branch.name, taken)
            taken.add(branch.name)
            self.branches.append(branch)
        branch._start(*self._begins)
        self._gate.tell()
        return branch

    @property
    def parent_step(self) -> tuple[str, int] | None:
        """(path, step) at which a branch leaves its parent."""
        return None if self.left is None else self.left[1:]

    @property
    def root(self) -> Run:
        """The run that this one, and all related branches, descend from."""
        run = self
        while run.parent is not None:
            run = run.parent
        return run

    def tree(self) -> Tree:
        """A snapshot of all branches in this run's tree: it can be printed, shown, searched by name, compared, saved."""
        return tree_of(self.root)

    def find(self, name: str) -> Run:
        """The run of this name in the same tree.

        Raises:
            KeyError: If there is none.
        """
        found = {run.name: run for run in runs_of(self.root)}
        if name not in found:
            raise missing_key_error(
                f'run: no branch "{name}".',
                {"branches": ", ".join(found)},
                "Branches keep the name they were created with; later ones with an equal name get a number.",
                f'run.find("{self.root.name}")',
            )
        return found[name]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the tree of branches with all its traces to a file; `rf.load_trace` returns the trace of this run, with its `tree`.

        Raises:
            TypeError: For a recorded value that is not a Tensor, Dim, NumPy array or plain data.
            OSError: If it cannot be written.
        """
        self.tree().save(path, self.name)

    def _mark(self, mark: Callable[[], None]) -> None:
        """Signal the gate and return at once; a condition that keeps running is interrupted after a while."""
        mark()
        self._breakpoints.asking.end_late()

    def _end_condition(self, what: str, limit: float | None, arrived: Callable[[float], bool]) -> None:
        """Interrupt a condition that is still being evaluated while this thread waits for the run to arrive."""
        if limit is None and not self._gate.is_worker:
            self._breakpoints.asking.end_while(what, self.name, arrived)

    def _further(self) -> tuple[str, str]:
        """The rule and the line to type, for a request to a run that is over."""
        if self.steps:
            again = f"branch = run.from_step({self.steps[-1][1]})"
            return "Another run can continue from one of its steps:", again
        return "It had no step that can be held, so run it again:", "run = rf.run(fn, paused=True)"

    def _arrived(self, limit: float | None) -> Run:
        if not self._gate.is_worker:
            self._until_standing(limit)
        return self

    def _need_outside(self, what: str) -> None:
        if self._gate.is_worker and self._gate.mode != "over":
            raise runtime_error(
                f"{what}: called inside {self.name}.",
                {"thread": threading.current_thread().name},
                "The run would wait for itself forever. Call it in another cell or thread.",
            )

    def _need_on(self, what: str) -> None:
        if self._gate.mode == "over":
            raise runtime_error(
                f"{what}: {self.name} has ended.",
                {"state": self.state},
                *self._further(),
            )
