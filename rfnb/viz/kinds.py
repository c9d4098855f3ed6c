"""The modules that draw each kind of view.

Each kind is a folder: `spec.py` makes the plain data, `text.py`, `html.py` and `drawing.py` draw it; the widget's part is the folder of
the same name in `widgets/src/`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rfnb.core.door import called_with
from rfnb.core.errors import value_error
from rfnb.viz.spec import Spec
from rfnb.viz.terminal import fit
from rfnb.viz.visible import safe

if TYPE_CHECKING:
    from rfnb.viz.drawing.shapes import Drawing

KINDS = (
    "attention",
    "states",
    "beams",
    "distribution",
    "dims",
    "curves",
    "plan",
    "flow",
    "diff",
    "branches",
    "question",
    "control",
    "group",
)
WIDE = 860.0  # of a drawing in a notebook: what JupyterLab has at 1280 pixels


def check_kind(kind: str) -> None:
    """ValueError if there is no such kind."""
    if kind not in KINDS:
        raise value_error(
            f'View: there is no kind "{kind}".',
            [("kinds", ", ".join(KINDS))],
            "The kind of a spec says which view draws it.",
            'Spec("attention", head, blocks)',
        )


def load_folders() -> None:
    """Load the folders of all kinds, which are empty packages.

    Python binds a package to its name when it loads it, once. Later that would replace the function of the same name, as
    `rfnb.viz.attention`, by the package.
    """
    for kind in KINDS:
        import_module(f"rfnb.viz.{kind}")


def spec_of(kind: str, *args: Any, **options: Any) -> Spec:
    """The spec of a view of this kind; it is loaded by its first view, not with the package."""
    make = import_module(f"rfnb.viz.{kind}.spec").spec
    spec: Spec = called_with(make, kind, f"rf.viz.{kind}", args, options)
    return spec


def text_of(spec: Any) -> str:
    """The spec drawn for terminals, no line wider than 80 columns."""
    remark = spec.head.get("remark")
    return fit(safe(_drawn(spec, "text") + (f"\n{remark}" if remark else "")))


def html_of(spec: Any) -> str:
    """The spec drawn as HTML without script, style or network."""
    from html import escape

    made, remark = _drawn(spec, "html"), escape(str(spec.head.get("remark") or ""))
    return made if remark in made else f"{made}\n<p>{remark}</p>"  # a picture has it in its notes


def drawing_of(spec: Any, width: float = WIDE) -> Drawing:
    """The spec as a drawing, its description in words with it.

    Args:
        width: In units of which text has 11 in height; some kinds take less or more.
    """
    from rfnb.viz.drawing.sentence import sentence  # fonts and shapes, by the first drawing

    check_kind(spec.kind)
    draw = import_module(f"rfnb.viz.{spec.kind}.drawing").drawing
    try:
        made: Drawing = draw(spec, width)
    except Exception as error:
        made = sentence(_unfit(error), width)
    if spec.head.get("remark"):
        made.notes.append(str(spec.head["remark"]))
    return made


def _drawn(spec: Any, form: str) -> str:
    check_kind(spec.kind)
    draw: Callable[[Any], str] = getattr(import_module(f"rfnb.viz.{spec.kind}.{form}"), form)
    try:
        return draw(spec)
    except Exception as error:
        sentence = _unfit(error)
        if form != "html":
            return sentence
        from html import escape

        return f"<p>{escape(sentence)}</p>"


def _unfit(error: Exception) -> str:
    """A sentence in place of a view: a spec of somebody else may hold anything, and showing it ends nobody's cell."""
    return f"This view cannot be drawn: {type(error).__name__}: {error}"
