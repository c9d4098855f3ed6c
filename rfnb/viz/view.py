"""View: one spec with three renderings: text, static HTML, widget.

view = View(spec)
view                        # as the last line of a cell: the widget, with HTML and text as fallbacks
view.update(other_spec)     # updates in the cell that displays it
view.follow(trace, make)    # live: draws make() after each event, at most 10 times a second
view.freeze()               # the stored output needs no kernel, even without saved widget state
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rfnb.core.errors import NearNames
from rfnb.core.strict_json import JsonObject
from rfnb.viz import display
from rfnb.viz.exact_values import Source
from rfnb.viz.kinds import check_kind, html_of, text_of
from rfnb.viz.page.budget import Room, checked, live_room, room_of
from rfnb.viz.page.output import alive, room_beside
from rfnb.viz.pump import pump
from rfnb.viz.spec import Spec
from rfnb.viz.terminal import brief, say
from rfnb.viz.visible_text import safe

Send = Callable[[JsonObject], None]


class View(NearNames):
    """A view of a value.

    Args:
        spec: The exact content.
        budget: Maximal size in a saved notebook, in bytes, up to 2 MB; a larger view is thinned in the page, with a
            note. Default: `rf.viz.options.budget`, else 250 kB, 500 kB for several views in one.

        hear: Called with each message of a page other than requests for values, and a function that answers; must not block.

    Raises:
        ValueError: If the kind of the spec is unknown, or the budget is invalid.
    """

    def __init__(
        self, spec: Spec, *, budget: int | None = None, hear: Callable[[JsonObject, Send], None] | None = None
    ):
        check_kind(spec.kind)
        self._spec = spec
        self._budget = checked(budget)
        self._source, self._given_hear = Source(), hear
        self._widget: Any = None
        self._handle: Any = None  # of the stored output
        self._frozen = False
        self._made: tuple[Any, tuple[str, bytes]] | None = None  # the last page, and its key
        self._shown_in: int | None = None
        self._kept: list[View] | None = None  # set by the recording that it follows, to itself, once it is displayed

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _again, (self._spec, self._budget)  # displays exist only in this process

    @property
    def spec(self) -> Spec:
        """The spec that is drawn."""
        return self._spec

    @property
    def budget(self) -> int | None:
        """The maximal size in a saved notebook, in bytes; None: `rf.viz.options.budget`, else 250 kB."""
        return self._budget

    @budget.setter
    def budget(self, budget: int | None) -> None:
        self._budget = checked(budget)

    @property
    def kind(self) -> str:
        """The kind of the spec: "attention", "beams", ..."""
        return self._spec.kind

    def text(self, *, short: bool = False) -> str:
        """The view as text for terminals.

        Args:
            short: At most 1,500 tokens of a language model: the beginning, the end, and as much of each section as fits.
        """
        text = safe(text_of(self._spec))
        return brief(text) if short else text

    def html(self) -> str:
        """The view without script, style or network, as shown by a saved notebook where no script runs."""
        return safe(html_of(self._spec))

    def save(
        self, path: str | os.PathLike[str], *, width: float = 6.75, theme: str = "light", dpi: float = 300
    ) -> Path:
        """Write the view to a file: .html, .svg, .png or .pdf.

        Args:
            path: The path of the file; its suffix selects the format. An existing file is replaced atomically, and
                unchanged after an error.
            width: Width of the picture in inches: 3.3 for one column of a paper, 6.75 for two. Text has 7 points, less
                if the picture is scaled down.
            theme: "light" or "dark" background. A page (.html) uses that of its reader.
            dpi: Dots per inch of a .png; the other formats are vector, except for the cells of heat maps.

        Returns:
            The path.

        Raises:
            ValueError: If the suffix or the theme is unknown, or the size is invalid.
            OSError: If the file cannot be written.
        """
        from rfnb.viz.paper import save  # a page imports more than a view

        return save(self, path, width=width, theme=theme, dpi=dpi)

    def update(self, spec: Spec) -> None:
        """Draw another spec in the same place.

        While `spec.live`, this happens at most 10 times a second (the newest wins), in a separate thread; the last
        spec, which is not live, is drawn at once and also replaces the stored output of the notebook.
        """
        check_kind(spec.kind)
        self._spec = spec
        if spec.live:
            pump.put(self, self._send)
            return
        if self._widget is None:
            pump.drop(self)
            self._spec = spec  # a running job has its own spec
        else:
            pump.finish(self, lambda: self.draw(spec))
        if self._handle is not None:
            display.republish(self._handle, self._repr_mimebundle_())

    def draw(self, spec: Spec) -> None:
        """Draw another spec in the same place, in this thread; the stored output of the notebook does not change."""
        self._spec = spec
        self._send()

    def say(self, message: dict[str, Any]) -> None:
        """Send a message to the pages that show it."""
        if self._widget is not None:
            self._widget.send(message)

    def _hear(self, content: JsonObject, send: Callable[..., None]) -> None:
        """Handle a message of a page, in the receiving thread."""
        answer = {"exact": self._source.answer, "whole": self._source.whole}.get(str(content.get("rfnb")))
        if answer is not None:
            message, parts = answer(content)
            send(message, buffers=parts)
        elif self._given_hear is not None:
            self._given_hear(content, send)

    def follow(self, trace: Any, make: Callable[[bool], Spec]) -> View:
        """Draw a running recording until it ends.

        Args:
            trace: An object with `subscribe(fn)`, and `on_close(fn)` for the end.
            make: Returns the spec; its argument is whether more data may arrive. Runs in the pump's thread, never in the model's loop.

        The recording keeps a displayed view alive until it ends, and no other one.
        """
        kept = self._kept = []
        maker = [make]  # it may hold much data, so it is released with the view
        own = weakref.ref(self, lambda _: maker.clear())
        if self._handle is not None or self._widget is not None:
            self._stay()

        def changed(_: Any) -> None:
            view = own()
            if view is not None:
                pump.put(view, lambda: view.draw(maker[0](True)))

        def closed(*_: Any) -> None:
            view = own()
            kept.clear()
            if view is not None:
                view._close(maker[0](False))

        trace.subscribe(changed)
        trace.on_close(closed)
        return self

    def _close(self, spec: Spec) -> None:
        """Draw the last spec of a recording. The thread of the run does not wait until it is sent."""
        if threading.current_thread() is threading.main_thread():
            self.update(spec)
        else:
            pump.finish(self, lambda: self.update(spec), wait=False)

    def show(self) -> View:
        """Display it now: in a notebook as the output of the cell, else as text. Returns itself."""
        if display.shell() is None:
            say(self.text())
            return self
        self._handle = display.publish(self._repr_mimebundle_())
        self._stay()
        self._shown_in = display.execution_count()
        return self

    def _stay(self) -> None:
        """Stay alive while only a page refers to it."""
        if self._kept == []:
            self._kept.append(self)

    def freeze(self) -> View:
        """Store only HTML in the notebook: picture, data and script. Returns itself.

        JupyterLab prefers a widget to the HTML beside it, and shows an error in its place when the notebook is
        reopened, unless widget state is saved with notebooks (a setting that is off by default).
        """
        self._frozen = True
        if self._widget is not None:
            self._widget.end()
            self._widget = None
        if self._handle is not None:
            display.republish(self._handle, self._repr_mimebundle_())
        return self

    def _send(self) -> None:
        if self._widget is not None:
            self._widget.frame = self._page()[1]

    def _room(self) -> Room:
        return room_of(self._budget, len(self._spec.head.get("parts") or ()))

    def _page(self) -> tuple[str, bytes]:
        """The picture and the frame of a page, thinned if it is large. Requests of the page are answered from the exact spec."""
        from rfnb.viz.page.page_spec import frame_of  # imported at the first displayed view

        spec, number = self._spec, self._source.publish(self._spec)
        if spec.live:
            return "", frame_of(spec, live_room(), version=number)
        room = self._room()
        if self._made is None or self._made[0] != (number, room):
            picture = self.html()
            self._made = (
                (number, room),
                (picture, frame_of(spec, room_beside(self.kind, picture, room), version=number)),
            )
        return self._made[1]

    def _stored(self) -> str:
        """The HTML that the notebook stores, with a script that makes it interactive if there is room."""
        if self._spec.live:
            return self.html()
        picture, frame = self._page()
        made = alive(self.kind, picture, frame)
        return made if len(made) <= self._room().most else picture

    def _repr_mimebundle_(
        self, include: Iterable[str] | None = None, exclude: Iterable[str] | None = None
    ) -> JsonObject:
        bundle: JsonObject = {"text/plain": self.text(), "text/html": self._stored()}
        bundle.update(self._widget_data())
        keep = set(include) if include is not None else set(bundle)
        return {mime: data for mime, data in bundle.items() if mime in keep - set(exclude or ())}

    def _widget_data(self) -> JsonObject:
        if self._frozen:
            return {}
        try:
            from rfnb.viz.widget import view_data

            return view_data(self.as_widget())
        except ImportError:  # without anywidget the HTML is shown
            return {}

    def as_widget(self) -> Any:
        """The widget that shows it, to combine with other ipywidgets; it follows `update`.

        Raises:
            ImportError: Without anywidget.
        """
        from rfnb.viz.widget import make_widget

        if self._widget is None or self._widget.is_closed:
            self._widget = make_widget(self._page()[1], self._hear)
            self._stay()
        return self._widget

    def _ipython_display_(self) -> None:
        display.show_once(self)

    def __repr__(self) -> str:
        return f'<View {self.kind} "{self._spec.head.get("title", "")}">'


def _again(spec: Spec, budget: int | None) -> View:
    return View(spec, budget=budget)
