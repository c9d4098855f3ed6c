"""A name of a class is one thing in the whole package, and so is that of a file."""

import ast
from collections import defaultdict
from pathlib import Path

import rfnb

PACKAGE = Path(rfnb.__file__).parent
DOCUMENTED = {"PiecewiseLinear"}  # others have given both their name

# One subject in several rooms: an op and its layer, a command and what it calls, data and the model of them, ours and that of others.
SAME_SUBJECT = {
    "attach", "conv", "course", "ctc", "dates", "g2p", "grades", "linear", "number_words", "processes", "slides",
    "transducer", "view",
}  # fmt: skip
OF_A_FOLDER = {"__init__", "__main__"}


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


def file_names_of_several(files):
    """Names of files that several folders have, with these; the forms of views (`viz/*/text.py`) are those of their kinds."""
    places = defaultdict(list)
    for path in files:
        if path.relative_to(PACKAGE).parts[0] not in ("viz", "plot"):
            places[path.stem].append(path.relative_to(PACKAGE).as_posix())
    return {name: found for name, found in places.items() if len(found) > 1 and name not in OF_A_FOLDER}


def test_a_file_name_is_one_thing():
    found = file_names_of_several(sorted(PACKAGE.rglob("*.py")))
    assert {name: places for name, places in found.items() if name not in SAME_SUBJECT} == {}
    assert SAME_SUBJECT - found.keys() <= {"view"}  # what is one file by now goes from the list


def test_a_file_name_of_two_is_seen():
    assert list(file_names_of_several([PACKAGE / "rec" / "steps.py", PACKAGE / "control" / "steps.py"])) == ["steps"]
