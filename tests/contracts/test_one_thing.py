"""A name of a class is one thing in the whole package."""

import ast
from collections import defaultdict
from pathlib import Path

import rfnb

PACKAGE = Path(rfnb.__file__).parent
DOCUMENTED = {"PiecewiseLinear", "Types", "WatchCallback"}  # others have given both their name


def homonyms(files):
    """Names of classes that several places define, with these."""
    places = defaultdict(list)
    for path in files:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.parent.name}/{path.name}:{node.lineno}")
    return {name: found for name, found in places.items() if len(found) > 1}


def test_a_class_name_is_one_thing():
    found = homonyms(sorted(PACKAGE.rglob("*.py")))
    assert {name: places for name, places in found.items() if name not in DOCUMENTED} == {}


def test_homonyms_are_seen(tmp_path):
    for name in ("one", "other"):
        (tmp_path / f"{name}.py").write_text("class Step:\n    pass\n")
    assert list(homonyms(tmp_path.glob("*.py"))) == ["Step"]
