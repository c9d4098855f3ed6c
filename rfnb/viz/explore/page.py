"""The page of an explorer: ipywidgets fields and sliders above the views, each updated in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

import ipywidgets

from rfnb.viz.explore.inputs import Input
from rfnb.viz.view import View
from rfnb.viz.widget import view_data

_STYLE = """<style>
.rfnb-explore-old { opacity: .45; filter: grayscale(.7); border-left: 3px dashed currentColor; padding-left: .5em; }
.rfnb-explore pre { margin: 0; font-size: 13px; line-height: 1.4; white-space: pre-wrap; color: inherit; }
</style>"""


class Page:
    """The displayed widgets.

    Args:
        inputs, values: The inputs with a field, and their initial values.
        set_value: Called with name and value when a field changes. Returns at once.
    """

    def __init__(self, inputs: Mapping[str, Input], values: Mapping[str, Any], set_value: Callable[..., Any]):
        self._inputs, self._set_value = inputs, set_value
        self._fields = {name: _field(each, values[name]) for name, each in inputs.items() if each.kind != "fixed"}
        for name, field in self._fields.items():
            field.observe(lambda change, name=name: self._has_changed(name, change["new"]), "value")
        wrap = ipywidgets.Layout(flex_flow="row wrap", grid_gap="4px 16px", align_items="center")
        self._said, self._text, self._failed = ipywidgets.HTML(_STYLE), ipywidgets.HTML(), ipywidgets.HTML()
        self._views = ipywidgets.VBox([])
        self._old = ipywidgets.VBox([self._text, self._views])
        self._box = ipywidgets.VBox(
            [ipywidgets.HBox(list(self._fields.values()), layout=wrap), self._said, self._failed, self._old]
        )
        self._box.add_class("rfnb-explore")
        self.say("")

    def data(self) -> dict[str, Any]:
        """The data that a display message needs to refer to it."""
        return view_data(self._box)

    def set(self, values: Mapping[str, Any]) -> None:
        """Update fields whose values were set elsewhere."""
        for name, value in values.items():
            if name in self._fields:
                shown = _shown(self._inputs[name], value)
                if self._fields[name].value != shown:
                    self._fields[name].value = shown

    def say(self, words: str) -> None:
        """Show a status message below the fields."""
        self._said.value = (
            f'{_STYLE}<div class="rfnb-explore-said" role="status" aria-live="polite">{escape(words) or "&nbsp;"}</div>'
        )

    def show(self, views: Sequence[View], text: str, said: str) -> None:
        """Show the result of a run."""
        widgets = tuple(view.as_widget() for view in views)
        if self._views.children != widgets:
            self._views.children = widgets
        self._text.value = f"<pre>{escape(text)}</pre>" if text else ""
        self._failed.value = ""
        self._old.remove_class("rfnb-explore-old")
        self.say(said)

    def fail(self, error: str, old: str) -> None:
        """Show an error, and dim the previous views."""
        marked = f"<div><em>{escape(old)}</em></div>" if old else ""
        self._failed.value = f'<div class="rfnb-explore-failed" role="alert"><pre>⚠ {escape(error)}</pre></div>{marked}'
        if old:
            self._old.add_class("rfnb-explore-old")
        self.say("This failed:")

    def _has_changed(self, name: str, shown: Any) -> None:
        choices = self._inputs[name].choices
        self._set_value(**{name: shown if choices is None else choices[shown]})


def _shown(given: Input, value: Any) -> Any:
    """The displayed value of a field: for a choice its label."""
    if given.choices is None:
        return value
    return next(label for label, choice in given.choices.items() if choice is value or choice == value)


def _field(given: Input, value: Any) -> Any:
    options: dict[str, Any] = {"description": given.name, "style": {"description_width": "initial"}}
    if given.kind == "text":
        return ipywidgets.Text(value, continuous_update=True, **options)
    if given.kind == "switch":
        return ipywidgets.Checkbox(value, indent=False, layout=ipywidgets.Layout(width="auto"), **options)
    if given.choices is not None:
        return ipywidgets.Dropdown(options=list(given.choices), value=_shown(given, value), **options)
    whole = given.kind == "whole"
    if given.range is None:
        return (ipywidgets.IntText if whole else ipywidgets.FloatText)(value, continuous_update=True, **options)
    low, high, step = given.range
    slider = ipywidgets.IntSlider if whole else ipywidgets.FloatSlider
    more = {} if whole else {"readout_format": ".4g"}
    return slider(value, min=low, max=high, step=step, continuous_update=True, **more, **options)
