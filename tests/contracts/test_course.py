"""Each notebook is run by a test of its own; each of the course has checks, solutions, a page for teachers, and a test."""

import ast
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
COURSE = [path for path in NOTEBOOKS if re.match(r"(?!00)\d\d_", path.name)]
OTHERS = {
    "00_tour": "tests/notebooks/test_tour_notebook.py",
    "your_model": "tests/notebooks/test_your_model_notebook.py",
}
# A table of contents without code to run.
WITHOUT_CODE = {"index"}


def files_of(name: str) -> list[str]:
    """The files that belong to a notebook of the course."""
    return [
        f"notebooks/checks/{name}.py", f"notebooks/solutions/{name}.py", f"docs/teaching/{name}.md", f"tests/course/test_{name}.py",
    ]  # fmt: skip


def wrong_with(notebook: nbformat.NotebookNode, name: str) -> list[str]:
    """The violations of the rules in a stored notebook of the course, one line each."""
    found = []
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if any(cell.outputs or cell.execution_count for cell in code):
        found.append("it is stored with outputs")
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        found.append("its kernel is not python3")
    ids = [cell.get("id", "") for cell in notebook.cells]
    if len(set(ids)) < len(ids) or not all(re.fullmatch(rf"{name[:2]}-[\w-]+", one) for one in ids):
        found.append(f"cells need an id of their own, {name[:2]}-slug")
    if not code or f'lesson = rf.lesson("{name}")' not in code[0].source:
        found.append(f'its first cell of code has no lesson = rf.lesson("{name}")')
    return found


def functions_of(text: str, name: str = "") -> list[ast.FunctionDef]:
    """The functions at the top of a module, those called `name` where one is given."""
    return [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and name in ("", node.name)]


def looks_for_problems(text: str) -> bool:
    """Whether one of a module's tests takes the executed notebook (`ran`) and looks for problems in it, itself or by `assert_truths`."""
    return any(
        "mark.notebook" in "".join(map(ast.unparse, test.decorator_list))
        and "ran" in [argument.arg for argument in test.args.args]
        and re.search(r"problems\(|ran\.assert_truths\(", ast.unparse(test))
        for test in functions_of(text)
    )


def exercises_of(path: Path) -> list[str]:
    """The exercises that a file of checks defines, read and not run."""
    functions = functions_of(path.read_text())
    return [node.name for node in functions if any("exercise(" in ast.unparse(one) for one in node.decorator_list)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_a_test_that_runs_it_and_looks_for_problems(path):
    if path.stem in WITHOUT_CODE:
        assert all(cell.cell_type == "markdown" for cell in nbformat.read(path, as_version=4).cells)
        return
    text = (ROOT / OTHERS.get(path.stem, f"tests/course/test_{path.stem}.py")).read_text()
    assert path.stem in text and "mark.notebook" in text
    assert looks_for_problems(text) if path in COURSE else "problems(" in text and re.search(r"\bexecuted?\(", text)


def test_what_every_test_of_a_lesson_has_runs_the_notebook():
    (ran,) = functions_of((ROOT / "tests/course/conftest.py").read_text(), "ran")
    assert "pytest.fixture" in ast.unparse(ran.decorator_list[0]) and "course.executed()" in ast.unparse(ran)


def test_who_compares_what_a_notebook_reveals_looks_for_problems():
    (compares,) = (
        node
        for node in ast.walk(ast.parse((ROOT / "tests/course/harness.py").read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == "assert_truths"
    )
    assert "assert self.problems() == []" in ast.unparse(compares)


def test_a_test_that_does_not_ask_for_the_run_does_not_look_for_problems():
    text = "@pytest.mark.notebook\ndef test_it({}):\n    assert problems({}) == []\n"
    assert looks_for_problems(text.format("ran", "ran"))
    assert not looks_for_problems(text.format("", "stored"))
    assert not looks_for_problems(text.format("ran", "ran").replace("notebook", "slow"))


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_a_notebook_of_the_course_is_complete(path):
    assert [name for name in files_of(path.stem) if not (ROOT / name).is_file()] == []
    assert wrong_with(nbformat.read(path, as_version=4), path.stem) == []


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_every_exercise_is_asked_solved_and_tested(path):
    checks, solutions, _, test = (ROOT / name for name in files_of(path.stem))
    exercises = exercises_of(checks)
    code = "\n".join(cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code")
    solved = {
        name.id if isinstance(name, ast.Name) else name
        for node in ast.parse(solutions.read_text()).body
        for name in (node.targets if isinstance(node, ast.Assign) else [getattr(node, "name", "")])
        if isinstance(name, (ast.Name, str))
    }
    assert exercises, "no exercises"
    assert [name for name in exercises if f'lesson.check("{name}"' not in code] == []
    assert [name for name in exercises if name not in solved] == []
    assert "PREDICTIONS" in solved
    assert "assert_judges(" in test.read_text()


@pytest.mark.parametrize("path", COURSE, ids=lambda path: path.stem)
def test_checks_do_not_need_the_solutions(path):
    """A teacher may hand the course out without them."""
    assert "solutions" not in (ROOT / files_of(path.stem)[0]).read_text()


def test_every_file_beside_the_notebooks_belongs_to_one():
    names = {path.stem for path in NOTEBOOKS}
    folders = [ROOT / "notebooks/checks", ROOT / "notebooks/solutions", ROOT / "docs/teaching"]
    found = [path for folder in folders for path in folder.glob("[0-9][0-9]_*.*")]
    assert [path for path in found if path.stem not in names] == []


def test_what_is_against_the_rules_is_found():
    cell = nbformat.v4.new_code_cell("import rfnb as rf", id="1", execution_count=3)
    notebook = nbformat.v4.new_notebook(cells=[cell])
    assert wrong_with(notebook, "07_search") == [
        "it is stored with outputs",
        "its kernel is not python3",
        "cells need an id of their own, 07-slug",
        'its first cell of code has no lesson = rf.lesson("07_search")',
    ]
