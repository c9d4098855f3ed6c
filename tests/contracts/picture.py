"""The dependency picture of docs/architecture.md as rules, and a checker for one file.

violations(source, "rfnb/nn/linear.py")  ->  ["rfnb/nn/linear.py:3: nn/ may not import rfnb.viz.show"]
"""

from __future__ import annotations

import fnmatch
from pathlib import Path

from contracts.imports import imports_of, module_name

# Folder: folders of rfnb/ that it may import, besides itself.
_BELOW_REC = {"backends", "core", "ops", "trace"}
_BELOW_LM = _BELOW_REC | {"rec"}
_BELOW_NN = _BELOW_LM | {"lm"}
_BELOW_CONTROL = _BELOW_NN | {"search"}
_BELOW_VIZ = _BELOW_CONTROL | {"nn", "control"}
_BELOW_DATA = _BELOW_VIZ | {"viz"}
MAY_IMPORT: dict[str, set[str]] = {
    "backends": set(),
    "core": {"backends"},
    "ops": {"backends", "core"},
    "trace": {"backends", "core"},
    "debugging": {"backends", "core", "ops"},  # what it watches knows nothing of it
    "rec": _BELOW_REC,
    "lm": _BELOW_LM,
    "nn": _BELOW_NN,
    "search": _BELOW_NN,
    "control": _BELOW_CONTROL,
    "viz": _BELOW_VIZ,
    "plot": _BELOW_DATA,
    "teaching": _BELOW_DATA | {"data", "models", "interop", "plot", "debugging"},
    "data": _BELOW_DATA,
    "models": _BELOW_DATA | {"data"},  # a model's training reads its data; data/ knows no model
    "interop": _BELOW_DATA,
    "site": _BELOW_DATA | {"plot", "models", "tensor", "teaching"},  # its reference looks at all that is public
    "cli": _BELOW_DATA | {"data", "models", "teaching", "site"},  # the command; only `rfnb/__main__.py` imports it
    "tensor": {"core"},  # documented places of names; nothing imports it
    "as_returnn": {"core", "interop", "places"},  # puts rfnb in the place of RETURNN; only users import it
    # The other documented places, made from a table, and the table of what is loaded later; only the package itself imports it.
    "places": _BELOW_DATA | {"data", "debugging", "interop", "teaching"},
}

# Package: (files that may import it, whether it has to be inside a function there).
ONLY_IN: dict[str, tuple[tuple[str, ...], bool]] = {
    "torch": (("rfnb/backends/torch*.py", "rfnb/models/*.py", "rfnb/interop/*.py", "rfnb/cli/doctor.py"), False),
    "anywidget": (("rfnb/viz/widget.py",), False),
    "ipywidgets": (("rfnb/viz/widget.py", "rfnb/viz/explore/page.py", "rfnb/teaching/page.py"), False),
    "IPython": (("rfnb/viz/display.py",), False),
    "matplotlib": (("rfnb/viz/*.py", "rfnb/plot/*.py"), True),
    "sphinx": (("rfnb/site/extension.py", "rfnb/site/build.py"), False),
    "docutils": (("rfnb/site/extension.py", "rfnb/site/formula.py"), False),
    "nbconvert": (("rfnb/site/*.py", "rfnb/viz/page/exporter.py"), False),
    "graphviz": (("rfnb/viz/*.py",), True),
    "PIL": (("rfnb/viz/drawing/*.py",), True),
}


def violations(source: str, path: str) -> list[str]:
    """The violations of the picture in this file, one line each.

    Args:
        source: The file's text.
        path: Where it lies, from the root of the repository, with forward slashes.
    """
    file = Path(path)
    module = module_name(file, Path())
    is_top = file.parts in (("rfnb", "__init__.py"), ("rfnb", "__main__.py"))
    folder = file.parts[1]
    if not is_top and folder not in MAY_IMPORT:
        return [
            f"{path}: is in no layer; add its folder to docs/architecture.md, docs/contracts/layers.md and tests/contracts/picture.py"
        ]
    found = []
    for item in imports_of(source, module, is_package=file.name == "__init__.py"):
        package, *rest = item.module.split(".")
        if package == "rfnb" and not is_top:
            if not rest:
                # `from rfnb import x` also gives rfnb.x, which is judged by itself.
                found.append(f"{path}:{item.line}: imports from rfnb itself, not from the defining file")
            elif rest[0] in MAY_IMPORT and rest[0] != folder and rest[0] not in MAY_IMPORT[folder]:
                found.append(f"{path}:{item.line}: {folder}/ may not import {item.module}")
        elif package in ONLY_IN:
            files, only_in_function = ONLY_IN[package]
            if not any(fnmatch.fnmatch(path, pattern) for pattern in files):
                found.append(f"{path}:{item.line}: {package} may be imported only in {', '.join(files)}")
            elif only_in_function and not item.in_function:
                found.append(f"{path}:{item.line}: {package} may be imported only inside a function")
    return list(dict.fromkeys(found))
