"""Explorer: runs a function for the newest values of its inputs, and shows what it comes to.

A change of a value is noted, and a thread runs the function for it: a run of `control/` that is recorded. While it runs, a newer value
stops it at its next step and takes its place; of many changes only the last counts. One explorer never has two runs at once.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from rfnb.control.arguments import options_of
from rfnb.control.run import Run
from rfnb.control.start import modes_here
from rfnb.control.start import run as started
from rfnb.core.errors import runtime_error, type_error
from rfnb.core.pickling import NotPicklable
from rfnb.core.place import warn_user
from rfnb.viz import display
from rfnb.viz.explore.inputs import Input, inputs_of, need_input
from rfnb.viz.explore.words import error_words, result_spec, result_words, values_words
from rfnb.viz.spec import Spec
from rfnb.viz.terminal import say
from rfnb.viz.view import View

_WAIT = 5.0
"""seconds: how long a cell waits for the first result, which is what a saved notebook shows"""


class _Shown(NamedTuple):
    """The last good run.

    Attributes:
        text: Its result, if that has no view.
        said: What it was, in a line.
    """

    values: Mapping[str, Any]
    result: Any
    text: str
    said: str


class Explorer(NotPicklable):
    """Fields of values, and what a function makes of them. Made by `rf.explore`.

    Attributes:
        run: The newest run; None before the first one.
    """

    def __init__(self, fn: Callable[..., Any], inputs: Mapping[str, Input], record: Any, view: Mapping[str, Any]):
        self._fn, self._inputs, self._record, self._view = fn, dict(inputs), record, dict(view)
        self.run: Run | None = None
        self._values = {name: each.value for name, each in inputs.items()}
        self._version, self._done = 1, 0  # of the values, and of those that have been run
        self._run_of = 0  # the version that `run` is of
        self._changed = threading.Condition()
        self._worker: threading.Thread | None = None
        self._context, self._modes = contextvars.copy_context(), modes_here()
        self._shown: _Shown | None = None
        self._error: BaseException | None = None
        self._views: dict[str, View] = {}
        self._page: Any = None
        self._shown_in: int | None = None

    # -- values ------------------------------------------------------------------------------------------------------------

    @property
    def values(self) -> dict[str, Any]:
        """The values of the inputs now."""
        with self._changed:
            return dict(self._values)

    def set(self, **values: Any) -> Explorer:
        """Other values, as if they had been typed; returns at once.

        Raises:
            KeyError: If there is no such input.
            TypeError, ValueError: If an input does not take its value; then nothing is changed.
        """
        checked = {name: need_input(self._inputs, name).checked(value) for name, value in values.items()}
        with self._changed:
            if all(self._values[name] is value or self._values[name] == value for name, value in checked.items()):
                return self
            self._values.update(checked)
            self._version += 1
        if self._page is not None:
            self._page.set(checked)
        self._work()
        return self

    @property
    def result(self) -> Any:
        """The result for the values now; waits for it.

        Raises:
            RunStopped: If its run was stopped.
            Exception: What the function has raised.
        """
        self.wait()
        if self._error is not None:
            raise self._error
        assert self._shown is not None
        return self._shown.result

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the values now have been run; False: `timeout` seconds were not enough.

        Raises:
            RuntimeError: If its run is paused, for then nothing would come of waiting.
        """
        self._work()
        with self._changed:
            over = self._changed.wait_for(lambda: self._done == self._version or self._is_paused(), timeout)
        if over and self._done != self._version:
            raise runtime_error(
                "explore: the run is paused.",
                [("values", values_words(self._values)), ("run", repr(self.run))],
                "It goes on when it is told to, or when a value is changed.",
                "explorer.run.resume()",
            )
        return over

    def _is_paused(self) -> bool:
        return self.run is not None and self._run_of == self._version and self.run.state == "paused"

    # -- running -----------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Let a thread run the function until nothing is newer."""
        with self._changed:
            if self._worker is None and self._done != self._version:
                self._worker = threading.Thread(target=self._main, name="rfnb explore", daemon=True)
                self._worker.start()

    def _main(self) -> None:
        self._modes()
        while True:
            with self._changed:
                if self._done == self._version:
                    self._worker = None
                    return
                version, values = self._version, dict(self._values)
            self._run_and_tell(version, values)
            with self._changed:
                if version == self._version:
                    self._done = version
                self._changed.notify_all()

    def _run_and_tell(self, version: int, values: Mapping[str, Any]) -> None:
        try:
            finished = self._run(version, values)
            if finished is not None:
                self._take(values, finished)
        except BaseException as error:  # the thread goes on for the next values
            self._error = error
        with self._changed:
            if version != self._version:
                return
        try:
            self._update_page(values)
        except Exception as error:
            warn_user(f"rf.explore could not show a result: {type(error).__name__}: {error}")

    def _run(self, version: int, values: Mapping[str, Any]) -> Run | None:
        """The run for these values when it is over; None: newer ones have stopped it."""
        run = self._context.copy().run(lambda: started(self._fn, name="explore", record=self._record, **values))
        with self._changed:
            self.run, self._run_of = run, version
            self._changed.notify_all()
        forget = run._gate.on_change(self._notify)
        try:
            begun = time.monotonic()
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._version != version or run._gate.mode == "over", 0.3)
                    newer, over = self._version != version, run._gate.mode == "over"
                if over:
                    return None if newer else run
                if newer:
                    run._gate.stop()
                    self._say_running(run, values, "stopping, as there are newer values")
                    run._gate.until_over(0.3)
                elif time.monotonic() - begun > 0.25:
                    self._say_running(run, values, run.state)
        finally:
            forget()

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # -- showing -----------------------------------------------------------------------------------------------------------

    def _take(self, values: Mapping[str, Any], run: Run) -> None:
        """Take what a run has come to, in place of what was there."""
        self._error = None
        result = run.result
        specs = self._specs(result, run)
        said = f"{values_words(values)} · {len(run.steps)} steps"
        self._shown = _Shown(values, result, "" if "result" in specs else result_words(result), said)
        for name in [name for name in self._views if name not in specs]:
            del self._views[name]
        for name, spec in specs.items():
            if name in self._views:
                self._views[name].update(spec)
            else:
                self._views[name] = View(spec)

    def _specs(self, result: Any, run: Run) -> dict[str, Spec]:
        """The pictures of a run: of its result, and of what it has recorded."""
        found: dict[str, Spec] = {}
        spec = result_spec(result)
        if spec is not None:
            found["result"] = spec
        if run.trace is not None and run.trace.events:
            from rfnb.viz import of_trace  # with all that it shows, by the first that is shown

            recorded = of_trace.spec(run.trace, **self._view)
            is_empty = recorded.kind == "group" and not recorded.head["parts"]
            if not (is_empty or isinstance(result, View) or result is run.trace):
                found["trace"] = recorded
        return found

    def _say_running(self, run: Run, values: Mapping[str, Any], state: str) -> None:
        if self._page is not None:
            self._page.say(f"{state}: {values_words(values)}, {len(run.steps)} steps so far")

    def _update_page(self, values: Mapping[str, Any]) -> None:
        if self._page is None:
            return
        shown = self._shown
        if self._error is None and shown is not None:
            self._page.show(list(self._views.values()), shown.text, shown.said)
        elif self._error is not None:
            old = "" if shown is None else f"What is below is still of {values_words(shown.values)}."
            self._page.fail(f"{values_words(values)}:\n{error_words(self._error)}", old)

    def text(self) -> str:
        """The values and what they come to, as text."""
        said, shown = self._said()
        lines = [f"explore: {said}"]
        if shown is not None:
            lines += [shown.text, *(view.text() for view in self._views.values())]
        return "\n".join(filter(None, lines))

    def _said(self) -> tuple[str, _Shown | None]:
        """The values now and what is to be said of them, and what stands below: their result, or an older one that is said to be that."""
        with self._changed:
            values, is_done, error, shown = dict(self._values), self._done == self._version, self._error, self._shown
        lines = [values_words(values)]
        if is_done and error is not None:
            return f"{lines[0]}\n{error_words(error)}", None
        if not is_done:
            lines.append("It has not come to a result yet.")
            lines += [] if shown is None else [f"What is below is still of {values_words(shown.values)}."]
        return "\n".join(lines), shown

    def save(
        self,
        path: str | os.PathLike[str],
        *,
        runs: bool = False,
        weights: str = "float16",
        title: str = "",
        card: str = "",
    ) -> Path:
        """Write its views into a page of HTML; with `runs`, one in which the model runs: a person types another text, and the views follow.

        Args:
            runs: Whether the page has the model in it, with all of its weights. One input is a text; numbers of a range have fields; all
                others stay as they are.
            weights: "float32", "float16" or "int8": fewer bits make a smaller page, whose numbers differ more. The page says by how
                much.
            card: Information about the model shown on request, such as its card and the licence of its weights.

        Raises:
            TypeError, ValueError: If a page cannot run what the function computes: it says which op, and where.
        """
        if not runs:
            from rfnb.viz.save import save_html

            self.wait()
            return save_html(path, list(self._views.values()), title=title or "rfnb")
        from rfnb.viz.runnable.page import save_running

        return save_running(
            path, self._fn, self._inputs, self.values,
            record=self._record, view=self._view, weights=weights, title=title, card=card,
        )  # fmt: skip

    def show(self) -> Explorer:
        """Display it: in a notebook as output of the cell, else as text of its first values. Returns itself."""
        if display.shell() is None:
            self.wait()
            say(self.text())
            return self
        self._work()
        with self._changed:
            self._changed.wait_for(lambda: self._done == self._version, _WAIT)
        if self._page is None:
            self._page = self._new_page()
            self._update_page(self.values)
        stored = {"text/plain": self.text(), "text/html": self._html()}
        display.publish(stored | (self._page.data() if self._page is not None else {}))
        self._shown_in = display.execution_count()
        return self

    def _new_page(self) -> Any:
        """The fields; None without ipywidgets."""
        try:
            from rfnb.viz.explore.page import Page
        except ImportError:
            return None
        return Page(self._inputs, self.values, self.set)

    def _html(self) -> str:
        """The values and what they came to first, for where there is no kernel."""
        said, shown = self._said()
        note = "" if self._page is not None else "\nFields and sliders need ipywidgets:  pip install ipywidgets"
        text = f'<pre style="margin:0 0 .5em">{escape(said + note)}\n{escape(shown.text if shown else "")}</pre>'
        return "\n".join([text, *(view._stored() for view in self._views.values())])

    def _ipython_display_(self) -> None:
        # As the last line of a cell `rf.explore(...)` has displayed it already.
        if self._shown_in is None or self._shown_in != display.execution_count():
            self.show()
            self._shown_in = None

    def _display_(self) -> Any:
        # Of marimo, which refuses the fields: the views follow `set` there.
        return sys.modules["marimo"].vstack(list(self._views.values()))

    def __repr__(self) -> str:
        state = "no run yet" if self.run is None else self.run.state
        return f"<Explorer {values_words(self.values)}: {state}>"


def explore(
    fn: Callable[..., Any],
    /,
    *,
    record: bool | Mapping[str, Any] = True,
    view: Mapping[str, Any] | None = None,
    **inputs: Any,
) -> Explorer:
    """Fields and sliders for the arguments of a function: a change runs it anew, and the views follow.

    Each run is one of `rf.run`. A newer value stops it at its next step; of many changes the last one counts. The views are those of what
    the function has recorded, and of what it gives, if that has one; else it is shown as text. Where a run fails, what it says is shown,
    and the views of the last good one stay, dimmed. Without a notebook it runs once, and prints that.

    Args:
        fn: Called with the values, by name.
        record: Options of `rf.record`, as `{"model": model}`; what is recorded is shown. False: nothing.
        view: Options of the view of that, as `{"kinds": ["attention", "beams"]}`: see `rf.show`.
        **inputs: For each argument a text, a number, True or False, a range `(1, 12)` or `(0.0, 1.0, 0.1)`, a list of choices or a dict of
            them by label, a Dim (an entry of it). Anything else is passed on as it is.

    Raises:
        TypeError: If fn is no function, or does not take these inputs.
        ValueError: For an empty range or list.

    Example:
        rf.explore(lambda word, beam_size: pronounce(model, word, beam_size=beam_size), word="phonetics", beam_size=(1, 12))
    """
    if not callable(fn):
        raise type_error(
            "explore: no function.",
            [("given", type(fn).__name__)],
            "It is called for the values of the inputs.",
            'rf.explore(lambda word: pronounce(model, word), word="phonetics")',
        )
    return Explorer(fn, inputs_of(fn, inputs), options_of(record), view or {}).show()
