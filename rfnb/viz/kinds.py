"""The modules that draw each kind of view.

Each kind is a folder: `spec.py` makes the plain data; `content.py` validates it (`problem`), describes an empty view
(`missing`), renders its `text`, `drawing` and `page` (without one: the drawing, with its `warnings` and `remarks`), and reduces it for a
page (`thin`). A long text or drawing has its own file. The widget is in the folder of the same name in `widgets/src/`.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.core.door import called_with
from rfnb.core.errors import value_error
from rfnb.viz.terminal import fit
from rfnb.viz.visible_text import safe

if TYPE_CHECKING:
    from rfnb.viz.drawing.shapes import Drawing
    from rfnb.viz.spec import Spec


class Kind(NamedTuple):
    """A kind of view.

    Attributes:
        title: The default title.
        shows: Full names of the types that `rf.show` draws as this kind; names, so that no type is imported.
        double: Whether its arrays may be float64: steps beyond 2**24, bytes, seconds since 1970.
    """

    title: str
    shows: str = ""
    double: bool = False


KINDS = {
    "attention": Kind("Attention"),
    "states": Kind("States"),
    "beams": Kind("Beam search", "rfnb.trace.beams.BeamHistory rfnb.search.beam_search.SearchResult"),
    "distribution": Kind("Output"),
    "dims": Kind("Dims", "rfnb.core.tensor.Tensor rfnb.core.dim.Dim"),
    "curves": Kind("Curves", double=True),
    "plan": Kind("Plan", "rfnb.rec.loop.Loop rfnb.rec.loop_plan.LoopPlan"),
    "flow": Kind("Flow"),
    "diff": Kind("Diff", "rfnb.trace.diff.Diff"),
    "branches": Kind("Branches", "rfnb.trace.run_tree.Tree rfnb.trace.compare_runs.Comparison", double=True),
    "question": Kind("Question"),
    "control": Kind("Run"),
    "group": Kind("Views", double=True),
}
_places: dict[str, str] = {}  # class, with its module -> "module:function" that makes a spec
WIDE = 860.0  # width of a drawing in a notebook: that of JupyterLab at 1280 pixels


def check_kind(kind: str) -> None:
    """Raise a ValueError for an unknown kind."""
    if kind not in KINDS:
        raise value_error(
            f'View: unknown kind "{kind}".',
            {"kinds": ", ".join(KINDS)},
            "The kind of a spec determines the view that draws it.",
            'Spec("attention", head, blocks)',
        )


def kind_showing(value: Any) -> str | None:
    """The kind of view for a value, by its type; None if the type alone does not determine it."""
    names = {*_names_of(value)}
    return next((name for name, kind in KINDS.items() if names & {*kind.shows.split()}), None)


def _names_of(value: Any) -> list[str]:
    """The full names of its class and base classes."""
    return [f"{each.__module__}.{each.__qualname__}" for each in type(value).__mro__]


def show_by(kind: str, place: str) -> None:
    """Register a function that makes views for a class of another library, by name, without importing it; subclasses are included.

    show_by("some.module.Output", "rfnb.interop.some_output:spec")     # by the layer above that knows the library

    Args:
        kind: The module and the name of the class, with dots.
        place: "module:function": of the value and the options of the view to its Spec.
    """
    _places[kind] = place


def maker_of(value: Any) -> Callable[..., Spec] | None:
    """The function that makes the spec of a value; None if there is none for its class."""
    place = next((_places[kind] for kind in _names_of(value) if kind in _places), None)
    if place is None:
        return None
    module, _, function = place.partition(":")
    made: Callable[..., Spec] = getattr(import_module(module), function)
    return made


def load_folders() -> None:
    """Import the folders of all kinds, which are empty packages.

    Python binds a package to its name once, at import. A later import would replace the function of the same name, e.g.
    `rfnb.viz.attention`, by the package.
    """
    for kind in KINDS:
        import_module(f"rfnb.viz.{kind}")


def spec_of(kind: str, /, *args: Any, **options: Any) -> Spec:
    """The function that makes the spec of this kind; its module is imported at first use."""
    make = import_module(f"rfnb.viz.{kind}.spec").spec
    spec: Spec = called_with(make, kind, f"rf.viz.{kind}", args, options)
    return spec


def title_of(spec: Any) -> str:
    """The title of a view."""
    return str(spec.head.get("title") or KINDS[spec.kind].title)


def none_yet(spec: Any, what: str) -> str:
    """The text for an empty view that may still receive data."""
    return f"no {what}{' yet' if spec.head.get('live') else ''}"


def problem_of(spec: Any) -> str | None:
    """The problem with a spec, as a sentence; None if it can be drawn."""
    fault: str | None = asked(spec, "problem")
    return fault


def text_of(spec: Any) -> str:
    """The spec as text for terminals, at most 80 columns wide."""
    remark = spec.head.get("remark")
    made = _drawn(spec, lambda: asked(spec, "text"), str)
    return fit(safe(made + (f"\n{remark}" if remark else "")))


def html_of(spec: Any) -> str:
    """The spec as HTML without script, style or network."""
    remark = escape(str(spec.head.get("remark") or ""))
    made: str = _drawn(
        spec, lambda: "\n".join(asked(spec, "page") or _page(spec)), lambda said: f"<p>{escape(said)}</p>"
    )
    return made if remark in made else f"{made}\n<p>{remark}</p>"  # a picture has it in its notes


def _page(spec: Any) -> list[str]:
    """The page of a kind that has none of its own: its drawing, and what is to be said of it."""
    from rfnb.viz import markup  # fonts, by the first page

    said = (asked(spec, what) or () for what in ("warnings", "remarks"))
    return [markup.title(title_of(spec)), *markup.picture(drawing_of(spec)), *markup.findings(*said)]


def drawing_of(spec: Any, width: float = WIDE, *more: Any) -> Drawing:
    """The spec as a drawing with its description.

    Args:
        width: Width in units (text is 11 units high); some kinds need less or more.
        more: Further options of the kind's drawing.
    """
    from rfnb.viz.drawing.labels import sentence  # imports fonts and shapes, at the first drawing

    made: Drawing = _drawn(spec, lambda: asked(spec, "drawing", width, *more), lambda said: sentence(said, width))
    if spec.head.get("remark"):
        made.notes.append(str(spec.head["remark"]))
    return made


def _drawn(spec: Any, draw: Callable[[], Any], sentence: Callable[[str], Any]) -> Any:
    """The view; or a sentence if its spec is invalid or empty.

    A foreign spec may contain anything; showing it never breaks a cell.
    """
    check_kind(spec.kind)
    try:
        said = problem_of(spec)
        if not said and (missing := asked(spec, "missing")):
            said = f"{title_of(spec)}: {missing}"
        return sentence(said) if said else draw()
    except Exception as error:
        return sentence(f"This view cannot be drawn: {type(error).__name__}: {error}")


def asked(spec: Any, what: str, *more: Any) -> Any:
    """Call a function of a kind's content module, or of its own file; None if the kind does not have it."""
    folder = f"rfnb.viz.{spec.kind}"
    made = getattr(import_module(f"{folder}.content"), what, None)
    if made is None and what in ("text", "drawing"):
        made = getattr(import_module(f"{folder}.{what}"), what)
    return made and made(spec, *more)
