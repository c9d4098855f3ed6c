"""The results that submitted notebooks hold."""

import csv
import io
import json

import nbformat
import pytest
from notebooks.runner import execute

from rfnb.teaching.card import MIME
from rfnb.teaching.grades import read_grades

CHECK = {
    "kind": "check", "lesson": "99_small", "exercise": "add", "title": "The sum", "passed": False, "status": "wrong",
    "message": "The result is\nanother number.", "points": 2, "answer": "def add(a, b): ...",
}  # fmt: skip
PASSED = CHECK | {"passed": True, "status": "passed"}
PREDICT = {
    "kind": "predict", "lesson": "99_small", "exercise": "winner", "question": "?", "answer": "B", "committed": True,
    "revealed": True, "passed": False, "truth": "A",
}  # fmt: skip


def submit(path, *records):
    outputs = [nbformat.v4.new_output("display_data", {MIME: each}) for each in records]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(
        nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=[one]) for one in outputs]), path
    )
    return path


def test_a_table_has_one_line_for_each_notebook(folder):
    ada = submit(folder / "submitted/ada/99_small/99_small.ipynb", PASSED, PREDICT | {"answer": "A", "passed": True})
    bob = submit(
        folder / "submitted/bob/99_small.ipynb", PASSED, CHECK, PREDICT, PREDICT | {"exercise": "x", "committed": False}
    )
    eve = submit(folder / "eve.ipynb", CHECK | {"exercise": "prime", "status": "unsolved", "points": 1})
    assert str(read_grades([ada, bob, eve])).splitlines() == [
        "student  lesson    points  exercises    predictions",
        "ada      99_small  2/3     ✓add –prime  1 right, 1 of 1 answered",
        "bob      99_small  0/3     ✗add –prime  0 right, 1 of 2 answered",
        "eve      99_small  0/3     ○prime –add",
    ]


def test_csv_has_one_line_for_each_answer(folder):
    why = PREDICT | {"kind": "explain", "exercise": "why", "answer": '=1+1, "so"', "passed": None, "truth": None}
    ada = submit(folder / "ada.ipynb", CHECK, PREDICT, why, CHECK | {"kind": "hint"})
    rows = list(csv.DictReader(io.StringIO(read_grades([ada]).csv())))
    assert [
        (row["student"], row["kind"], row["exercise"], row["status"], row["points"], row["of"]) for row in rows
    ] == [
        ("ada", "check", "add", "wrong", "0", "2"),
        ("ada", "predict", "winner", "not right", "0", "0"),
        ("ada", "explain", "why", "answered", "0", "0"),
        ("ada", "check", "prime", "not run", "0", "1"),
    ]
    assert rows[0]["message"] == "The result is\nanother number." and rows[1]["truth"] == "A"
    assert rows[2]["answer"] == '\'=1+1, "so"'  # no formula


def test_a_notebook_that_nobody_ran_has_no_points_of_all(folder):
    (grade,) = read_grades([folder / "99_small.ipynb"]).grades
    assert (grade.points, grade.of, [entry.status for entry in grade.entries]) == (0, 3, ["not run", "not run"])


@pytest.mark.parametrize(
    "text", ["", "{", '{"cells": []}', '{"cells": [{"cell_type": "code", "source": "", "outputs": [3]}]}']
)
def test_a_file_without_a_lesson_is_said(folder, text):
    (folder / "odd.ipynb").write_text(text)
    assert str(read_grades([folder / "odd.ipynb"])).splitlines()[1].split() == ["odd", "no", "lesson", "in", "it"]


def test_what_was_edited_by_hand_does_not_stop_the_reading(folder):
    odd = [
        {"kind": "check", "lesson": "99_small", "exercise": "add", "points": "many", "status": ["passed"]},
        {"kind": "check"}, "text", PREDICT | {"passed": "yes", "answer": {"a": [1]}},
    ]  # fmt: skip
    (grade,) = read_grades([submit(folder / "mallory.ipynb", *odd)]).grades
    assert [(entry.exercise, entry.status, entry.points) for entry in grade.entries] == [
        ("add", "wrong", 0), ("winner", "answered", 0), ("prime", "not run", 0),
    ]  # fmt: skip


def test_without_notebooks_that_is_said():
    assert str(read_grades([])) == "No notebooks."


@pytest.mark.notebook
def test_what_a_run_leaves_is_what_is_read(folder):
    notebook = nbformat.read(folder / "99_small.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = cell.source.replace("    ...", "    return a + b").replace(
            "winner.reveal", 'winner.answer = "A"\nwinner.reveal'
        )
    nbformat.write(notebook, folder / "ada.ipynb")
    nbformat.write(execute(folder / "ada.ipynb"), folder / "ada.ipynb")
    (grade,) = read_grades([folder / "ada.ipynb"]).grades
    assert [(entry.exercise, entry.status) for entry in grade.entries] == [
        ("add", "passed"), ("winner", "right"), ("prime", "unsolved"),
    ]  # fmt: skip
    json.dumps([vars(entry) for entry in grade.entries])
