"""The display of a Tensor, a Dim, a Run or a Training as the last line of a notebook cell, and of errors about dims.

`core/` does not know views, so they are bound here. Nothing of Jupyter is imported: a notebook calls `_repr_html_`.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.core.errors import DimError, ShapeError
from rfnb.core.import_hooks import when_loaded
from rfnb.core.tensor import Tensor
from rfnb.viz import display
from rfnb.viz.kinds import html_of, spec_of
from rfnb.viz.visible_text import safe

if TYPE_CHECKING:
    from rfnb.control.run import Run
    from rfnb.trace.training import Training


# Layout only: colours come from the page, light or dark. Cells have escaped text, so the tags are ours.
_STYLES = {
    "<table>": "border-collapse:collapse;margin:0 0 .6em 0",
    **dict.fromkeys(
        ("<th>", "<th scope='row'>"),
        "text-align:left;padding:.15em .8em .15em .2em;font-weight:normal;opacity:.7;border-bottom:1px solid",
    ),
    "<td>": "text-align:left;padding:.15em .8em .15em .2em;white-space:nowrap;font-variant-numeric:tabular-nums",
    "<p>": "margin:.2em 0 .4em 0",
}


def bind() -> None:
    """Give Tensor and Dim their `_repr_html_`, a Run and a Training their view, and errors about dims their picture."""
    setattr(Tensor, "_repr_html_", _safe(_of_tensor))  # noqa: B010 (mypy does not take an assignment)
    setattr(Dim, "_repr_html_", _safe(_of_dim))  # noqa: B010
    when_loaded("rfnb.control.run", lambda module: _displayed(module.Run, _display_run))
    when_loaded("rfnb.trace.training", lambda module: _displayed(module.Training, _display_training))
    for kind in (DimError, ShapeError):
        setattr(kind, "_render_traceback_", _render)  # noqa: B010


def _display_run(run: Run) -> None:
    """Display a run that is the last line of a cell: plain HTML could not control it."""
    from rfnb.viz.control.run_view import display_run

    display_run(run)


def _display_training(training: Training) -> None:
    """Display a training that is the last line of a cell; the view is live."""
    from rfnb.viz.show import show

    show(training)


def _displayed(kind: type, ipython: Callable[[Any], None]) -> None:
    setattr(kind, "_ipython_display_", ipython)  # noqa: B010
    setattr(kind, "_display_", _view)  # noqa: B010


def _view(value: Any) -> Any:
    """The view that marimo displays for a value in the last line of a cell."""
    from rfnb.viz.show import view_of

    return view_of(value)


def _safe(html: Callable[[Any], str]) -> Callable[[Any], str]:
    def repr_html(value: Any) -> str:
        try:
            page = safe(html(value))
            for tag, style in _STYLES.items():
                page = page.replace(tag, f'{tag[:-1]} style="{style}">')
            return page
        except Exception as error:  # a value under debugging may be broken; the page shows the error
            return f"<pre>{escape(f'{type(value).__name__}: {error}')}</pre>"

    return repr_html


def _of_tensor(tensor: Tensor) -> str:
    """A Tensor as an HTML table, without reading its values if they are on a GPU."""
    return html_of(spec_of("dims", tensor, values=tensor.device in (None, "cpu")))


def _of_dim(dim: Dim) -> str:
    """One Dim as an HTML table."""
    return html_of(spec_of("dims", dim))


def _render(error: BaseException, *_: Any) -> list[str]:
    """The lines of the usual traceback; the picture is displayed above them."""
    try:
        _show(error)
    except Exception:
        pass
    shell = display.shell()
    if shell is None:
        import traceback

        return traceback.format_exception(error)
    lines: list[str] = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
    return lines


def _show(error: BaseException) -> None:
    from rfnb.viz.dims.failure import spec_of_error  # imported at the first error
    from rfnb.viz.view import View

    if display.shell() is None:
        return
    spec = spec_of_error(error)
    if spec is not None:
        View(spec).show()
