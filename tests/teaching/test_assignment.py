"""Assignments for nbgrader: made of a lesson; with nbgrader itself handed out, handed in, and graded."""

import json
import os
import shutil
import subprocess

import nbformat
import pytest
from waiting import LONG

from rfnb.teaching.assignment import assignment, main
from rfnb.teaching.sources import source_in, source_with_needs

NBGRADER = os.environ.get("RFNB_NBGRADER") or shutil.which("nbgrader")


def sources(path):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]


def test_each_exercise_gets_its_solution_and_a_locked_cell(folder):
    target = assignment("99_small", folder / "course")
    notebook = nbformat.read(target / "99_small.ipynb", as_version=4)
    nbformat.validate(notebook)
    solution, test = (
        cell for cell in notebook.cells if cell.metadata.get("nbgrader", {}).get("grade_id", "").startswith("add")
    )
    assert solution.source == (
        "def add(a, b):\n    ...\n\n### BEGIN SOLUTION\n# One line is enough.\ndef add(a, b):\n    return a + b\n### END SOLUTION\n"
        'lesson.check("add", add)'
    )
    assert test.source == 'result = lesson.check("add", add)\nassert result.passed, result.message'
    assert (test.metadata.nbgrader.points, test.metadata.nbgrader.locked, test.metadata.nbgrader.grade) == (
        2,
        True,
        True,
    )
    assert (target / "checks/99_small.sealed").is_file() and not (target / "solutions").exists()
    assert not (target / "checks/99_small.py").exists()
    assert "ClearSolutions.code_stub" in (folder / "course/nbgrader_config.py").read_text()


def test_the_configuration_of_a_course_is_kept(folder):
    (folder / "course").mkdir()
    (folder / "course/nbgrader_config.py").write_text("# mine")
    assignment("99_small", folder / "course")
    assert (folder / "course/nbgrader_config.py").read_text() == "# mine"


def test_an_exercise_without_solution_or_cell_is_refused(folder):
    (folder / "solutions/99_small.py").write_text("def add(a, b): return a + b")
    with pytest.raises(ValueError, match='the exercise "prime" has no solution'):
        assignment("99_small", folder / "course")
    notebook = nbformat.read(folder / "99_small.ipynb", as_version=4)
    del notebook.cells[-1]
    nbformat.write(notebook, folder / "99_small.ipynb")
    with pytest.raises(ValueError, match='the exercise "prime" has no cell with its check'):
        assignment("99_small", folder / "course")


SOLUTIONS = """\"\"\"Solutions.\"\"\"
from __future__ import annotations

import math
import numpy as np

SCALE = 2.0


# Twice.
def double(x):
    return SCALE * x


@cached
def answer(x):
    return math.sqrt(double(x))


other = [np.ones(3)]
"""


def test_a_solution_comes_with_what_it_needs():
    assert source_in(SOLUTIONS, "answer") == "@cached\ndef answer(x):\n    return math.sqrt(double(x))"
    assert source_with_needs(SOLUTIONS, "answer") == (
        "import math\nSCALE = 2.0\n# Twice.\ndef double(x):\n    return SCALE * x\n"
        "@cached\ndef answer(x):\n    return math.sqrt(double(x))"
    )
    assert source_with_needs(SOLUTIONS, "other") == "import numpy as np\nother = [np.ones(3)]"
    assert source_in(SOLUTIONS, "third") == source_with_needs(SOLUTIONS, "third") == ""


@pytest.mark.notebook
@pytest.mark.skipif(NBGRADER is None, reason="nbgrader is not installed (pip install nbgrader, or set RFNB_NBGRADER)")
def test_nbgrader_hands_out_and_grades(folder, capsys):
    main(["99_small", str(folder / "course")])
    assert "nbgrader generate_assignment 99_small" in capsys.readouterr().out

    def nbgrader(*arguments):
        path = {"PATH": os.path.dirname(NBGRADER) + os.pathsep + os.environ["PATH"]}  # it calls alembic
        home = {name: str(folder / "home") for name in ("HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR")}
        run = subprocess.run(
            [NBGRADER, *arguments],
            cwd=folder / "course",
            env={**os.environ, **path, **home},
            capture_output=True,
            text=True,
            timeout=3 * LONG,
        )
        assert run.returncode == 0, run.stderr

    nbgrader("generate_assignment", "99_small", "--create")
    released = folder / "course/release/99_small"
    code = sources(released / "99_small.ipynb")
    assert 'def add(a, b):\n    ...\n\n# Write your answer in place of the dots.\nlesson.check("add", add)' in code
    assert "return a + b" not in "\n".join(code)

    for student, answer in (("ada", "return a + b"), ("bob", "return a - b"), ("eve", "...")):
        shutil.copytree(released, folder / f"course/submitted/{student}/99_small")
        path = folder / f"course/submitted/{student}/99_small/99_small.ipynb"
        notebook = json.loads(path.read_text())
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"]).replace("def add(a, b):\n    ...", f"def add(a, b):\n    {answer}")
            if student == "ada":
                cell["source"] = cell["source"].replace("prime = ...", "prime = 7")
            elif student == "bob":  # a locked cell is as it was handed out
                cell["source"] = cell["source"].replace("assert result.passed", "assert True")
        path.write_text(json.dumps(notebook))
    nbgrader("autograde", "99_small", "--create")
    nbgrader("export", "--to", "grades.csv")
    lines = (folder / "course/grades.csv").read_text().splitlines()
    names = lines[0].split(",")
    scores = {
        row["student_id"]: float(row["raw_score"]) for row in (dict(zip(names, each.split(","))) for each in lines[1:])
    }
    assert scores == {"ada": 3.0, "bob": 0.0, "eve": 0.0}
