"""Puts a view into the output of a notebook cell: the only file that imports IPython.

Nothing is imported unless IPython is running, so plain Python scripts stay light.
"""

from __future__ import annotations

import sys
from typing import Any

from rfnb.core.strict_json import JsonObject


def shell() -> Any:
    """The running IPython shell, or None in plain Python."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython

    return get_ipython()


def execution_count() -> int | None:
    """The execution count of the running cell; None outside of IPython."""
    return getattr(shell(), "execution_count", None)


def show_once(value: Any) -> None:
    """Show a value that is the last line of a cell, unless it was shown in that cell: IPython wants to display what `show` returned."""
    if value._shown_in is None or value._shown_in != execution_count():
        value.show()
        value._shown_in = None


def publish(bundle: JsonObject) -> Any:
    """Show a MIME bundle as the output of the cell; returns a handle for `republish`."""
    from IPython.display import display

    return display(bundle, raw=True, display_id=True)


def republish(handle: Any, bundle: JsonObject) -> None:
    """Replace the stored output of an earlier `publish`, in whichever cell it is."""
    handle.update(bundle, raw=True)
