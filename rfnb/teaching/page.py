"""The form of a question in a page: an ipywidgets field and a button. Imported when a question is first displayed in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import ipywidgets

from rfnb.viz.visible_text import safe
from rfnb.viz.widget import view_data


class Form:
    """The fields of a question.

    Args:
        asked: The question; its `commit` gets the value of the field.
    """

    def __init__(self, asked: Any):
        self._asked, self._said = asked, ipywidgets.HTML()
        options = getattr(asked, "options", None)
        self._field: Any = Line(asked, self._commit) if options is None else Radios(options, asked.answer)
        self._button = ipywidgets.Button(description="Commit", button_style="primary", tooltip="Commit this answer")
        self._button.on_click(lambda button: self._commit())
        self._box = ipywidgets.VBox([self._field.box, ipywidgets.HBox([self._button, self._said])])
        self._box.add_class("rfnb-predict")

    def data(self) -> dict[str, Any]:
        """The data that a display message needs to refer to it."""
        return view_data(self._box)

    def _commit(self) -> None:
        try:
            if self._field.value is None:
                raise ValueError("Choose one first.")
            self._asked.commit(self._field.value)
            self.say("Committed.", "status")
        except (ValueError, RuntimeError) as error:
            self.say(str(error).splitlines()[0])

    def say(self, words: str, role: str = "alert") -> None:
        """Show a message beside the button."""
        self._said.value = f'<div role="{role}">{escape(safe(words))}</div>'


class Radios:
    """Options to choose one of. Each is its own field: JupyterLab intercepts the arrow keys, so Tab and Space are used."""

    def __init__(self, options: Sequence[str], chosen: str | None):
        style = {"description_width": "0"}
        layout = ipywidgets.Layout(width="auto", height="auto", margin="0")
        self._each = [
            ipywidgets.RadioButtons(
                options=[option], value=option if option == chosen else None, layout=layout, style=style
            )
            for option in options
        ]
        for one in self._each:
            one.observe(self._choose, "value")
        self.box = ipywidgets.VBox(self._each)

    @property
    def value(self) -> str | None:
        """The chosen option."""
        return next((one.value for one in self._each if one.value is not None), None)

    def _choose(self, change: Any) -> None:
        if change["new"] is not None:
            for other in self._each:
                if other is not change["owner"]:
                    other.value = None


class Line:
    """A line of text, committed by Enter; several lines for an explanation."""

    def __init__(self, asked: Any, commit: Callable[[], None]):
        text = "" if asked.answer is None else asked.words(asked.answer)
        if asked.kind == "explain":
            layout = ipywidgets.Layout(width="90%")
            self.box = ipywidgets.Textarea(text, rows=3, placeholder=asked.asked(), layout=layout)
        else:
            self.box = ipywidgets.Text(text, placeholder=asked.asked())
            self.box.on_msg(lambda box, content, buffers: commit() if content.get("event") == "submit" else None)

    @property
    def value(self) -> str:
        """The text in the field."""
        return str(self.box.value)
