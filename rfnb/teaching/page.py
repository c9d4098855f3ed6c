"""The form of a question in a page: a field of ipywidgets and a button. Loaded when a question is displayed in a notebook."""

from __future__ import annotations

from html import escape
from typing import Any

import ipywidgets

from rfnb.viz.visible import safe
from rfnb.viz.widget import view_data

_WIDE = {"description_width": "0"}


class Form:
    """The fields of a question.

    Args:
        asked: The question: `commit` is called with what the field holds.
    """

    def __init__(self, asked: Any):
        self._asked = asked
        self._field = _field(asked)
        self._button = ipywidgets.Button(description="Commit", button_style="primary", tooltip="Commit this answer")
        self._said = ipywidgets.HTML()
        self._button.on_click(lambda button: self._commit())
        self._field.on_msg(lambda field, content, buffers: self._hear(content))
        self._box = ipywidgets.VBox([self._field, ipywidgets.HBox([self._button, self._said])])
        self._box.add_class("rfnb-predict")

    def data(self) -> dict[str, Any]:
        """The data that a display message needs to refer to it."""
        return view_data(self._box)

    def _hear(self, content: dict[str, Any]) -> None:
        if content.get("event") == "submit":  # Enter in a line of text
            self._commit()

    def _commit(self) -> None:
        try:
            if self._field.value is None:
                raise ValueError("Choose one first.")
            self._asked.commit(self._field.value)
            self.say("Committed.", "status")
        except (ValueError, RuntimeError) as error:
            self.say(str(error).splitlines()[0])

    def say(self, words: str, role: str = "alert") -> None:
        """Say something beside the button."""
        self._said.value = f'<div role="{role}">{escape(safe(words))}</div>'


def _field(asked: Any) -> Any:
    layout = ipywidgets.Layout(width="auto")
    answer = asked.answer
    if hasattr(asked, "options"):
        return ipywidgets.RadioButtons(options=asked.options, value=answer, layout=layout, style=_WIDE)
    text = "" if answer is None else asked.words(answer)
    if asked.kind == "explain":
        return ipywidgets.Textarea(text, rows=3, placeholder=asked.asked(), layout=ipywidgets.Layout(width="90%"))
    return ipywidgets.Text(text, placeholder=asked.asked())
