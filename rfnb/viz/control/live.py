"""RunView: the view of a run that is held. It follows one run of a tree of branches, and obeys the pages that show it.

The picture goes the way of all live views (`viz/pump.py`). The state of the run goes to the pages besides, as a message, as soon as it
changes and at most ten times a second: a large picture must not hold up the buttons. What a page asks is queued (`control/commands.py`),
so a handler of messages waits for nothing.
"""

from __future__ import annotations

import weakref
from typing import Any

from rfnb.control.branch_tree import runs_of
from rfnb.control.commands import obey
from rfnb.control.run import Run
from rfnb.viz import display, of_trace
from rfnb.viz.control.content import text
from rfnb.viz.control.host import note
from rfnb.viz.control.spec import OVER, spec
from rfnb.viz.group.spec import join, parts_of
from rfnb.viz.hands import Hands
from rfnb.viz.pump import Pump, pump
from rfnb.viz.spec import Spec
from rfnb.viz.view import Send, View

controls = Pump()
_shown: weakref.WeakSet[RunView] = weakref.WeakSet()
_MOVING = ("running", "pausing", "stopping")


class RunView:
    """Shows a run, and lets pages hold it.

    Args:
        run: Any run of its tree of branches.
        budget: As of `View`.
        alone: Whether what it records is not shown.
        **options: Of the view of its trace.

    Attributes:
        run: The run that is followed now.
        view: What is displayed.
    """

    def __init__(self, run: Run, *, budget: int | None = None, alone: bool = False, **options: Any):
        self.run, self._options, self._alone = run, options, alone
        self._heard_of: weakref.WeakSet[Run] = weakref.WeakSet()
        self._drawn: tuple[Any, Spec] | None = None  # the last spec of the trace, and of what
        self._said: dict[str, Any] | None = None
        self._ended: Run | None = None  # whose end the stored output has
        self.view = View(self._spec(), budget=budget, hear=self._hear)
        self._watch(run)  # which draws it, so there has to be a view
        pump.put(self.view, self._draw)  # what has come in between
        self._hear_of_all()
        controls.put(self, self._say)  # how far it is, also to a page that is not heard
        _shown.add(self)
        _settle_after_cells()

    def follow(self, run: Run) -> None:
        """Show another run of the tree."""
        if self.run.trace is not None:
            self.run.trace.unsubscribe(self._note)
        self.run = run
        self._watch(run)
        self._changed()

    def settle(self) -> None:
        """Let what the notebook stores be the end of a run that is over."""
        if self.run.state in OVER and self._ended is not self.run:
            pump.finish(self.view, self._draw)

    def _watch(self, run: Run) -> None:
        if run.trace is not None and not run.trace.closed:
            run.trace.subscribe(self._note)

    def _note(self, event: Any) -> None:
        pump.put(self.view, self._draw, self._holds_up_nothing)

    def _holds_up_nothing(self) -> bool:
        """Whether no step is waiting for what is drawn: the run stands, or takes its time."""
        return self.run.state not in _MOVING or 0 < self.run.speed <= 20

    def _hear_of_all(self) -> None:
        """Hear of each run of the tree when it changes; of one that is new the run that it branches from tells."""
        for run in runs_of(self.run.root):
            if run not in self._heard_of:
                self._heard_of.add(run)
                run._gate.on_change(self._changed)

    def _changed(self) -> None:
        """Something has changed; called in any thread, also that of the run."""
        controls.put(self, self._say)
        pump.put(self.view, self._draw, self._holds_up_nothing)

    def _leave_what_is_gone(self) -> None:
        """Go back to the run that a branch was made of, if it was taken back because its change could not be made."""
        parent = self.run.parent
        if parent is not None and self.run not in parent.branches:
            self.follow(parent)

    # -- what pages get ----------------------------------------------------------------------------------------------------

    def _state(self) -> Spec:
        return spec(self.run, note=note())

    def _say(self) -> None:
        self._hear_of_all()
        head = self._state().head
        if {**head, "serial": 0} != self._said:
            self.view.say({"rfnb": "run", "head": head})
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
        changes = self.run.changes
        key = trace, len(trace.events), trace.closed, len(changes)
        if self._drawn is None or self._drawn[0] != key:
            hands = Hands(self.run.place_of, changes)
            self._drawn = key, of_trace.spec(trace, hands=hands, **self._options)
        shown = self._drawn[1]
        head = {**shown.head, "title": "", "live": state.live, "link": f"run {self.run.root.number}"}
        return join(head, [state, *parts_of(shown)])

    # -- what pages ask ----------------------------------------------------------------------------------------------------

    def _hear(self, content: dict[str, Any], send: Send) -> None:
        if content.get("rfnb") != "do":
            return
        asked = {name: value for name, value in content.items() if name not in ("rfnb", "id", "run")}

        def answer(said: str | None) -> None:
            self._leave_what_is_gone()  # before the page hears of it
            send({"rfnb": "did", "id": content.get("id"), "said": said})

        if asked.get("do") == "look":
            self._said = None
            answer(None)
        elif asked.get("do") == "follow":
            answer(self._follow_number(asked.get("number")))
        elif content.get("run") not in (None, self.run.number):
            answer(f"This was asked of another branch. {self.run.name} is shown now.")
        else:
            branch = obey(self.run, asked, answer)
            if branch is not None:
                self.follow(branch)
                self._leave_what_is_gone()  # it may have been taken back already
        self._changed()

    def _follow_number(self, number: Any) -> str | None:
        for run in runs_of(self.run.root):
            if run.number == number:
                self.follow(run)
                return None
        return f"There is no branch {number!r:.20}."


_told: weakref.WeakKeyDictionary[Run, int] = weakref.WeakKeyDictionary()  # of runs that are displayed, before this cell


def display_run(run: Run) -> None:
    """Display a run that is the last line of a cell.

    `run.step()` gives the run: where that is displayed already, a line is enough, and one view of it.
    """
    if run in _told and _told[run] != run.told:
        print(text(spec(run)).splitlines()[0])
    else:
        RunView(run).view.show()
    _told[run] = run.told


def _settle_after_cells() -> None:
    """Let what a cell leaves in the notebook, when it is done, be no older than that."""
    shell = display.shell()
    if shell is not None and not getattr(shell, "_rfnb_settles", False):
        shell._rfnb_settles = True
        shell.events.register("post_run_cell", _settle)


def _settle(*_: Any) -> None:
    for view in list(_shown):
        view.settle()
    for run in list(_told):
        _told[run] = run.told
