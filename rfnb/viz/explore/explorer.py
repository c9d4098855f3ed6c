"""Explorer: runs a function for the current values of its inputs, and shows the results.

When a value changes, a thread runs the function as a recorded run of `control/`. A newer value stops this run at its
next step and replaces it; of many changes only the last counts. One explorer never has two runs at once.
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
    """The last successful run.

    Attributes:
        text: Its result, if it has no view.
        said: A description in one line.
    """

    values: Mapping[str, Any]
    result: Any
    text: str
    said: str


class Explorer(NotPicklable):
    """Input fields, and the results of a function for their values. Made by `rf.explore`.

    Attributes:
        run: The newest run; None before the first one.
    """

    def __init__(self, fn: Callable[..., Any], inputs: Mapping[str, Input], record: Any, view: Mapping[str, Any]):
        self._fn, self._inputs, self._record, self._view = fn, dict(inputs), record, dict(view)
        self.run: Run | None = None
        self._values = {name: each.value for name, each in inputs.items()}
        self._version, self._done = 1, 0  # versions of the values: current, and last run
        self._run_of = 0  # the version of the values in `run`
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
        """The current values of the inputs."""
        with self._changed:
            return dict(self._values)

    def set(self, **values: Any) -> Explorer:
        """Set other values, as if they had been typed; returns at once.

        Raises:
            KeyError: If there is no such input.
            TypeError, ValueError: If an input does not accept its value; nothing is changed then.
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
        """The result for the current values; waits for it.

        Raises:
            RunStopped: If its run was stopped.
            Exception: The error that the function raised.
        """
        self.wait()
        if self._error is not None:
            raise self._error
        assert self._shown is not None
        return self._shown.result

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the current values have been run; False after `timeout` seconds.

        Raises:
            RuntimeError: If its run is paused, since it would wait forever.
        """
        self._work()
        with self._changed:
            over = self._changed.wait_for(lambda: self._done == self._version or self._is_paused(), timeout)
        if over and self._done != self._version:
            raise runtime_error(
                "explore: the run is paused.",
                {"values": values_words(self._values), "run": repr(self.run)},
                "It continues when it is resumed or a value changes.",
                "explorer.run.resume()",
            )
        return over

    def _is_paused(self) -> bool:
        return self.run is not None and self._run_of == self._version and self.run.state == "paused"

    # -- running -----------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Run the function in a thread until nothing is newer."""
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
        except BaseException as error:  # the thread continues with the next values
            self._error = error
        with self._changed:
            if version != self._version:
                return
        try:
            self._update_page(values)
        except Exception as error:
            warn_user(f"rf.explore could not show a result: {type(error).__name__}: {error}")

    def _run(self, version: int, values: Mapping[str, Any]) -> Run | None:
        """The finished run for these values; None if newer values stopped it."""
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
        """Replace the shown result by that of a run."""
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
        """The views of a run: of its result, and of its recording."""
        found: dict[str, Spec] = {}
        spec = result_spec(result)
        if spec is not None:
            found["result"] = spec
        if run.trace is not None and run.trace.events:
            from rfnb.viz import trace_page  # imported with all views that it needs, at first use

            recorded = trace_page.spec(run.trace, **self._view)
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
            old = "" if shown is None else f"The views below still show {values_words(shown.values)}."
            self._page.fail(f"{values_words(values)}:\n{error_words(self._error)}", old)

    def text(self) -> str:
        """The values and the result as text."""
        said, shown = self._said()
        lines = [f"explore: {said}"]
        if shown is not None:
            lines += [shown.text, *(view.text() for view in self._views.values())]
        return "\n".join(filter(None, lines))

    def _said(self) -> tuple[str, _Shown | None]:
        """A description of the current state, and the result below it: that of the current values, or an older one that is
        labelled as such.
        """
        with self._changed:
            values, is_done, error, shown = dict(self._values), self._done == self._version, self._error, self._shown
        lines = [values_words(values)]
        if is_done and error is not None:
            return f"{lines[0]}\n{error_words(error)}", None
        if not is_done:
            lines.append("It has no result yet.")
            lines += [] if shown is None else [f"The views below still show {values_words(shown.values)}."]
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
        """Write the views into an HTML page; with `runs`, the page contains the model: a person types another text, and the views follow.

        Args:
            runs: Whether the page contains the model with all of its weights. One input must be a text; numbers with a
                range have fields; all others are fixed.
            weights: "float32", "float16" or "int8": fewer bits make a smaller but less exact page, which states the difference.
            card: Information about the model shown on request, such as its card and the licence of its weights.

        Raises:
            TypeError, ValueError: If a page cannot run the function; the error names the op and its line.
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
        """Display it: in a notebook as the output of the cell, else the first result as text. Returns itself."""
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
        """The values and the first result, for viewers without a kernel."""
        said, shown = self._said()
        note = "" if self._page is not None else "\nFields and sliders need ipywidgets:  pip install ipywidgets"
        text = f'<pre style="margin:0 0 .5em">{escape(said + note)}\n{escape(shown.text if shown else "")}</pre>'
        return "\n".join([text, *(view._stored() for view in self._views.values())])

    def _ipython_display_(self) -> None:
        display.show_once(self)

    def _display_(self) -> Any:
        # marimo does not accept the fields; there the views follow `set`.
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
    """Make fields and sliders for the arguments of a function: a change reruns it, and the views follow.

    Each run is one of `rf.run`. A newer value stops it at its next step; of many changes the last one counts. The views
    show the recording of the function and its result; a result without a view is shown as text. If a run fails, its
    error is shown, and the views of the last successful run are dimmed. Without a notebook it runs once and prints the
    result.

    Args:
        fn: Called with the values as keyword arguments.
        record: Options of `rf.record`, e.g. `{"model": model}`; the recording is shown. False records nothing.
        view: Options of its view, e.g. `{"kinds": ["attention", "beams"]}`: see `rf.show`.
        **inputs: For each argument a text, a number, True or False, a range `(1, 12)` or `(0.0, 1.0, 0.1)`, a list of choices or a dict of
            them by label, a Dim (an entry of it). Anything else is passed on unchanged.

    Raises:
        TypeError: If fn is not callable, or does not take these inputs.
        ValueError: For an empty range or list.

    Example:
        rf.explore(lambda word, beam_size: pronounce(model, word, beam_size=beam_size), word="phonetics", beam_size=(1, 12))
    """
    if not callable(fn):
        raise type_error(
            "explore: not a function.",
            {"given": type(fn).__name__},
            "explore calls a function with the values of the inputs.",
            'rf.explore(lambda word: pronounce(model, word), word="phonetics")',
        )
    return Explorer(fn, inputs_of(fn, inputs), options_of(record), view or {}).show()
