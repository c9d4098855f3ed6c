"""RunView: the view of a held run. It follows one run of a tree of branches, and takes commands from the pages that show it.

The picture is updated like all live views (`viz/pump.py`). The state of the run is also sent to the pages as a message,
as soon as it changes and at most ten times a second: a large picture must not delay the buttons. Commands of a page are
queued (`control/commands.py`), so a message handler never waits.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from rfnb.control.branch_tree import runs_of
from rfnb.control.commands import obey, run_numbered, said
from rfnb.control.ghosts import Ghost
from rfnb.control.run import Run
from rfnb.viz import display, trace_page
from rfnb.viz.branches.sides import KINDS
from rfnb.viz.branches.spec import beside_each_other
from rfnb.viz.control.content import text
from rfnb.viz.control.ghost_rows import rows_of
from rfnb.viz.control.spec import OVER, spec
from rfnb.viz.control.why_question import WhyQuestion
from rfnb.viz.edit_handles import EditHandles
from rfnb.viz.group.spec import join, parts_of
from rfnb.viz.pump import Pump, pump
from rfnb.viz.spec import Spec
from rfnb.viz.view import Send, View

controls = Pump()
_shown: weakref.WeakSet[RunView] = weakref.WeakSet()
_LONGEST = 2000  # characters of an expected output
_MOVING = ("running", "pausing", "stopping")


class RunView:
    """Shows a run, and lets pages control it.

    Args:
        run: Any run of its tree of branches.
        budget: See `View`.
        alone: Whether to hide its recordings.
        **options: Options of the view of its trace.

    Attributes:
        run: The run that is shown now.
        view: The displayed view.
    """

    def __init__(self, run: Run, *, budget: int | None = None, alone: bool = False, **options: Any):
        self.run, self._options, self._alone = run, options, alone
        self._beside: Run | None = None  # another run of the tree to compare with
        self._ghosts = Ghosts(lambda message: self.view.say(message))
        self._heard_of: weakref.WeakSet[Run] = weakref.WeakSet()
        self._drawn: tuple[Any, Spec] | None = None  # the last spec of the trace, and its key
        self._said: dict[str, Any] | None = None
        self._ended: Run | None = None  # the run whose end the stored output shows
        self._asked: WhyQuestion | None = None
        self._pages = set[str]()
        self.view = View(self._spec(), budget=budget, hear=self._hear)
        self._watch(run)  # which draws it, so the view must exist
        pump.put(self.view, self._draw)  # changes in the meantime
        self._hear_of_all()
        controls.put(self, self._say)  # progress, also for a page that is not connected
        _shown.add(self)
        _settle_after_cells()

    def follow(self, run: Run) -> None:
        """Show another run of the tree."""
        if self.run.trace is not None:
            self.run.trace.unsubscribe(self._note)
        self.run, self._beside = run, None
        self._ask(None)
        self._watch(run)
        self._changed()

    def settle(self) -> None:
        """Store the end of a finished run in the notebook."""
        if self.run.state in OVER and self._ended is not self.run:
            pump.finish(self.view, self._draw)

    def _watch(self, run: Run) -> None:
        if run.trace is not None and not run.trace.closed:
            run.trace.subscribe(self._note)

    def _note(self, event: Any) -> None:
        pump.put(self.view, self._draw, self._holds_up_nothing)

    def _holds_up_nothing(self) -> bool:
        """Whether drawing delays no step: the run is paused, or slow."""
        return self.run.state not in _MOVING or 0 < self.run.speed <= 20

    def _hear_of_all(self) -> None:
        """Subscribe to changes of each run in the tree; the parent reports new runs."""
        for run in runs_of(self.run.root):
            if run not in self._heard_of:
                self._heard_of.add(run)
                run._gate.on_change(self._changed)

    def _changed(self) -> None:
        """Handle a change; called in any thread, including that of the run, and while the view is being made."""
        if "view" not in self.__dict__:
            return  # it is drawn at the end
        controls.put(self, self._say)
        pump.put(self.view, self._draw, self._holds_up_nothing)

    def _leave_what_is_gone(self) -> None:
        """Return to the parent of a branch that was taken back because its change could not be made."""
        there = set(runs_of(self.run.root))
        if self._beside not in there:
            self._beside = None
        gone = self.run
        while gone.parent is not None and gone not in gone.parent.branches:
            gone = gone.parent
        if gone is not self.run:
            self.follow(gone)

    # -- messages to pages -----------------------------------------------------------------------------------------------------

    def _state(self) -> Spec:
        made = spec(self.run, beside=self._beside, note=_note(), changed=self._changed)
        made.head["why"] = None if self._asked is None else self._asked.told()
        return made

    def _say(self) -> None:
        """Send the state to the pages; of the branches, which may be many, only those that changed since the last message."""
        self._hear_of_all()
        head, known = self._state().head, self._said or {}
        if {**head, "serial": 0} != known:
            same = known.get("runs") == head["runs"]
            self.view.say(
                {"rfnb": "run", "head": {name: value for name, value in head.items() if not (same and name == "runs")}}
            )
            self._said = {**head, "serial": 0}
        if head["state"] in _MOVING:
            controls.put(self, self._say)

    def _draw(self) -> None:
        made = self._spec()
        if made.live or self._ended is self.run:
            self.view.draw(made)
        else:
            self._ended = self.run
            self.view.update(made)

    def _spec(self) -> Spec:
        state, trace = self._state(), self.run.trace
        if trace is None or self._alone:
            return state
        other = self._beside
        both = (self.run,) if other is None else (self.run, other)
        why = None if self._asked is None else self._asked.why
        key = why, *((each, each.trace and len(each.trace.events), each.state, len(each.changes)) for each in both)
        if self._drawn is None or self._drawn[0] != key:
            if other is None:
                expected = {} if why is None or self._asked is None else {self._asked.seq: why.expected}
                made = trace_page.spec(trace, handles=edit_handles_of(self.run), expected=expected, **self._options)
            else:
                made = beside_each_other(self.run, other)
            self._drawn = key, made
        shown = self._drawn[1]
        vocab = next((part["head"]["vocab"] for part in shown.head["parts"] if "vocab" in part["head"]), None)
        if vocab is not None:
            state.head["vocab"] = vocab
        link = f"run {self.run.root.number}"
        if other is not None:
            link += " beside another"  # it has its own hypotheses
        head = {**shown.head, "title": "", "live": state.live or self._more(), "link": link, "ordered": True}
        return join(head, [state, *self._parts(parts_of(shown), beside=other is not None)])

    def _more(self) -> bool:
        """Whether updates are pending that do not come from the run."""
        return False

    def _parts(self, parts: Sequence[Spec], *, beside: bool) -> list[Spec]:
        """The views below the state: all that a run has, or two runs side by side."""
        return list(parts) if beside else in_order(parts)

    def _looked(self, page: str, there: bool) -> None:
        """A page that shows the view was opened or closed: without a page, no question is answered."""
        (self._pages.add if there else self._pages.discard)(page)
        asked = self._asked
        if asked is not None and not self._pages and asked.going:
            asked.stop()
        elif asked is not None and self._pages and asked.stopped:
            self._ask(asked.expected, asked.seq)

    def _ask(self, expected: str | None, seq: int = 0) -> None:
        """Ask why this was not produced; earlier questions are dropped."""
        if self._asked is not None:
            self._asked.stop()
        self._asked = WhyQuestion(self.run, expected, seq, self._changed) if expected else None

    # -- commands of pages -----------------------------------------------------------------------------------------------------

    def _hear(self, content: dict[str, Any], send: Send) -> None:
        if content.get("rfnb") != "do":
            return
        asked = {name: value for name, value in content.items() if name not in ("rfnb", "id", "run")}

        def answer(said: str | None) -> None:
            self._leave_what_is_gone()  # before the page gets its answer
            send({"rfnb": "did", "id": content.get("id"), "said": said})

        if asked.get("do") in ("look", "unlook"):
            self._looked(str(content.get("id")).split()[0], asked["do"] == "look")
            self._said = None
            answer(None)
        elif asked.get("do") in ("follow", "compare"):
            answer(self._show(asked.get("number"), beside=asked["do"] == "compare"))
        elif asked.get("do") in ("ghost", "unghost"):
            self._ghosts.hear(self.run, content.get("id"), asked, answer)
            return
        elif asked.get("do") in ("why", "repair") and content.get("run") in (None, self.run.number):
            answer(self._why(asked))
        elif content.get("run") not in (None, self.run.number):
            answer(f"This request was for another branch; {self.run.name} is shown now.")
        else:
            branch = obey(self.run, asked, answer)
            if branch is not None and not branch.then:  # a manual change runs next to the shown run
                self.follow(branch)
            self._leave_what_is_gone()  # it may have been taken back already
        self._changed()

    def _why(self, asked: Mapping[str, Any]) -> str | None:
        """Ask about an expected output, or make a branch of one of the found repairs."""
        expected, seq, number = asked.get("expected"), asked.get("seq", 0), asked.get("number")
        if asked["do"] == "why":
            if not isinstance(expected, str) or not isinstance(seq, int) or len(expected) > _LONGEST:
                return f"The expected output is a text of at most {_LONGEST:,} letters."
            self._ask(expected.strip(), seq)
            return None
        if self._asked is None or self._asked.why is None:
            return "There is no answer yet."
        try:
            self._asked.why.branch(number if isinstance(number, int) else -1)
        except Exception as error:
            return said(error)
        return None

    def _show(self, number: Any, *, beside: bool) -> str | None:
        """Show a run of the tree, or compare it with the shown one."""
        try:
            run = run_numbered(self.run, number)
        except ValueError as error:
            return said(error)
        if beside:
            self._beside = None if run in (self.run, self._beside) else run
        else:
            self.follow(run)
        return None


def edit_handles_of(run: Run) -> EditHandles:
    """The links from rows in views of a run to its steps."""
    return EditHandles(run.place_of, run.changes, edits=run._holder.model_edits.has_model)


def in_order(parts: Sequence[Spec]) -> list[Spec]:
    """The views of a run in a fixed order: views with editable values by kind; then the rest, folded."""
    rank = lambda part: KINDS.index(part.kind) if part.kind in KINDS and _has_hands(part) else len(KINDS)  # noqa: E731
    if all(rank(part) == len(KINDS) for part in parts):
        return list(parts)
    return [
        part if rank(part) < len(KINDS) or part.head.get("fault") else replace(part, head={**part.head, "folded": True})
        for part in sorted(parts, key=rank)
    ]


def _has_hands(part: Spec) -> bool:
    entries = (part.head, *part.head.get("maps", ()), *part.head.get("tracks", ()))
    return any("held" in entry for entry in entries)


class Ghosts:
    """The ghosts that pages request: started and stopped on request, with progress messages.

    Args:
        say: Sends a message to all pages.
    """

    def __init__(self, say: Callable[[dict[str, Any]], None]):
        self._say = say
        self._there: dict[Any, Ghost] = {}
        self._in_turn: dict[Any, Callable[[], None]] = {}  # queued ghosts -> the function that starts each
        self._turn: Any = None  # the key of the running one
        self._lock = threading.Lock()  # guards these two, since a ghost ends in its own thread

    def hear(self, run: Run, number: Any, asked: Mapping[str, Any], answer: Callable[[str | None], None]) -> None:
        """Start or stop a ghost at a page's request; those requested `in_turn` run one after another, and only their ends are reported."""
        fields = {name: value for name, value in asked.items() if name not in ("do", "in_turn")}
        if asked["do"] == "unghost":
            self._end(fields.get("of"))
            return answer(None)
        if not asked.get("in_turn"):
            try:
                self._begin(run, number, fields)
            except Exception as error:
                return answer(said(error))
        else:
            with self._lock:
                self._in_turn[number] = lambda: self._begin(run, number, fields)
            self._next()
        answer(None)

    def _begin(self, run: Run, number: Any, fields: Mapping[str, Any]) -> None:
        ghost = self._there[number] = Ghost(run, **fields)
        ghost.on_change(lambda: self._tell(number, ghost))
        if ghost.is_over:  # it ended already
            self._tell(number, ghost)

    def _next(self) -> None:
        """Start the ghost that has waited longest, unless another one is running."""
        with self._lock:
            if self._turn is not None or not self._in_turn:
                return
            number = self._turn = next(iter(self._in_turn))
            begin = self._in_turn.pop(number)
        try:
            begin()
        except Exception as error:
            self._refuse(number, error)
            self._end(number)

    def _refuse(self, number: Any, error: Exception) -> None:
        """Report why a ghost cannot run."""
        self._say({"rfnb": "ghost", "of": number, "name": "", "over": True, "refused": said(error), "lane": None})

    def _end(self, number: Any) -> None:
        """Forget a ghost that ended or is no longer shown."""
        ghost = self._there.pop(number, None)
        if ghost is not None:
            ghost.stop()
        with self._lock:
            self._in_turn.pop(number, None)
            if self._turn == number:
                self._turn = None
        self._next()

    def _tell(self, number: Any, ghost: Ghost) -> None:
        key = self, number
        if not ghost.is_over:
            return None if number == self._turn else controls.put(key, lambda: self._tell_now(number, ghost))
        if self._there.pop(number, None) is not None:
            controls.drop(key)
            try:
                self._tell_now(number, ghost)
            except Exception as error:  # the page waits for an answer, and the next ghost for its turn
                self._refuse(number, error)
            self._end(number)

    def _tell_now(self, number: Any, ghost: Ghost) -> None:
        told = ghost.told()
        rows = rows_of(ghost) if told["over"] else []
        self._say({"rfnb": "ghost", "of": number, **told, **({"attention": rows} if rows else {})})


_told: weakref.WeakKeyDictionary[Run, int] = weakref.WeakKeyDictionary()  # displayed in earlier cells


def display_run(run: Run) -> None:
    """Display a run that is the last expression of a cell.

    `run.step()` returns the run: if it is already displayed, one line of text is enough.
    """
    if run in _told and _told[run] != run.told:
        print(text(spec(run)).splitlines()[0])
    else:
        RunView(run).view.show()
    _told[run] = run.told


def _settle_after_cells() -> None:
    """Update the stored outputs of views when a cell ends."""
    shell = display.shell()
    if shell is not None and not getattr(shell, "_rfnb_settles", False):
        shell._rfnb_settles = True
        shell.events.register("post_run_cell", _settle)


def _settle(*_: Any) -> None:
    for view in list(_shown):
        view.settle()
    for run in list(_told):
        _told[run] = run.told


@cache
def _note() -> str:
    """A note for the toolbar about limitations of the host; "" if there are none."""
    if "google.colab" in sys.modules:
        return "Colab receives clicks and updates views only while no other cell runs, or in a cell with run.wait(poll=True)."
    version = _ipykernel()
    if version is None or version >= (7, 1):
        return ""
    if version >= (7, 0):
        return "ipykernel 7.0 ends a thread that displays output. Install 7.1 or newer, and restart the kernel."
    return (
        "This ipykernel receives clicks only while no cell runs: end the cell with `run`, or wait with run.wait(poll=True). "
        "From ipykernel 7.1 on, it always receives them."
    )


def _ipykernel() -> tuple[int, int] | None:
    """The version of the running ipykernel, or None."""
    if "ipykernel.kernelapp" not in sys.modules:
        return None
    major, minor = sys.modules["ipykernel"].__version__.split(".")[:2]
    return int(major), int(minor)
