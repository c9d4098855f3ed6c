"""The public names are a list that changes only on purpose.

After adding a name to rfnb/__init__.py:  python tests/contracts/test_public_names.py  writes the list anew.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
LISTED = Path(__file__).with_name("public_names.txt")


def names_in(source: str) -> list[str]:
    """The public names that this `__init__.py` imports or defines, sorted; a star import is an error."""
    names: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert all(alias.name != "*" for alias in node.names), f"line {node.lineno}: list the names one by one"
            names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return sorted(name for name in names if not name.startswith("_") and name != "annotations")


def test_public_names_are_the_listed_ones():
    assert names_in((ROOT / "rfnb" / "__init__.py").read_text()) == LISTED.read_text().split()


def test_every_public_name_is_there():
    import rfnb

    assert [name for name in LISTED.read_text().split() if not hasattr(rfnb, name)] == []


def test_nothing_else_is_in_the_package():
    import types

    import rfnb

    public = {name: value for name, value in vars(rfnb).items() if not name.startswith("_")}
    names = {name for name, value in public.items() if not isinstance(value, types.ModuleType)}
    listed = {name for name in LISTED.read_text().split() if not isinstance(public[name], types.ModuleType)}
    assert names == listed


def test_a_name_more_or_less_is_seen():
    source = "from rfnb.core.dim import Dim, ragged_dim as ragged\nimport rfnb.viz\n_private = 1\nx: int = 2\ndef show(): ..."
    assert names_in(source) == ["Dim", "ragged", "rfnb", "show", "x"]


if __name__ == "__main__":
    LISTED.write_text("\n".join(names_in((ROOT / "rfnb" / "__init__.py").read_text())) + "\n")
