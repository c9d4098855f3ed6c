"""The notebooks of the course run where rfnb is installed without its extras."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = ROOT / "notebooks"
# What comes with a package of another name.
SHIPPED_BY = {"IPython": "ipykernel", "PIL": "pillow"}
COURSE = sorted(NOTEBOOKS.glob("[01]*.ipynb")) + sorted(NOTEBOOKS.glob("*/[01]*.py"))


def imported(path: Path) -> set[str]:
    """The packages that a notebook or a file imports."""
    sources = [path.read_text("utf-8")]
    if path.suffix == ".ipynb":
        cells = nbformat.read(path, as_version=4).cells
        sources = [cell.source for cell in cells if cell.cell_type == "code" and not cell.source.startswith("%")]
    found = set()
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("path", COURSE, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_everything_that_it_imports_is_a_dependency(path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    dependencies = {re.match(r"[\w-]+", line)[0].lower() for line in project["dependencies"]}
    needed = {SHIPPED_BY.get(name, name) for name in imported(path) - set(sys.stdlib_module_names) - {"rfnb"}}
    assert needed <= dependencies
