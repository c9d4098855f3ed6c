"""Which module draws which kind of view.

Each has `spec(...)`, which makes the plain data, and `text(spec)` and `html(spec)`, which draw it; the widget's part is the folder
of the same name in `widgets/src/`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from rfnb.core.errors import message

KINDS = ("attention", "states", "beams", "dims", "curves", "plan", "group")


def module_of(kind: str) -> ModuleType:
    """The module that draws this kind.

    Raises:
        ValueError: If there is no such kind.
    """
    if kind not in KINDS:
        raise ValueError(
            message(
                f'View: there is no kind "{kind}".',
                [("kinds", ", ".join(KINDS))],
                "The kind of a spec says which view draws it.",
                'Spec("attention", head, blocks)',
            )
        )
    # By name: the package's attribute of the same name is the public function.
    return import_module(f"rfnb.viz.{kind}.spec")
