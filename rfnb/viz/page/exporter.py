"""Export notebooks as HTML pages whose views are interactive without network: `jupyter nbconvert --to rfnb-html notebook.ipynb`.

Plain `--to html` gives the same, unless the notebook has saved widget state: nbconvert then prefers the widgets, which
load their code from three servers. This exporter omits them if an output has its own script.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from nbconvert.exporters.html import HTMLExporter

from rfnb.viz.page.output import MARK

_WIDGET = "application/vnd.jupyter.widget-view+json"


class PageExporter(HTMLExporter):
    """The HTML exporter of nbconvert for notebooks with views."""

    export_from_notebook = "HTML with views, no network"

    def from_notebook_node(self, nb: Any, resources: Any = None, **options: Any) -> Any:
        """The page of a notebook, and its resources."""
        return super().from_notebook_node(without_widgets(nb), resources, **options)


def without_widgets(nb: Any) -> Any:
    """A copy of a notebook without widgets in outputs that have their own script; without widget state if no widget is left."""
    nb = deepcopy(nb)
    left = False
    for cell in nb.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if MARK in "".join(data.get("text/html", "")):
                data.pop(_WIDGET, None)
            left |= _WIDGET in data
    if not left:
        nb.metadata.pop("widgets", None)
    return nb
