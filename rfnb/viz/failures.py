"""Errors that draw themselves: in a notebook a DimError or ShapeError shows its operands beside its traceback.

`core/` does not know of views, so they are bound here. IPython asks an error for `_render_traceback_`; plain Python never does. The
traceback stays what it is, also where there is nothing to draw.
"""

from __future__ import annotations

from typing import Any

from rfnb.core.errors import DimError, ShapeError
from rfnb.viz import display


def bind() -> None:
    """Give the errors about dims their picture."""
    for kind in (DimError, ShapeError):
        setattr(kind, "_render_traceback_", _render)  # noqa: B010 (mypy does not take an assignment)


def _render(error: BaseException, *_: Any) -> list[str]:
    """The lines of the usual traceback; the picture is displayed before them."""
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
    from rfnb.viz.dims.failure import spec_of_error  # by the first error
    from rfnb.viz.view import View

    if display.shell() is None:
        return
    spec = spec_of_error(error)
    if spec is not None:
        View(spec).show()
