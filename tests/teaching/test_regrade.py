"""Checks that are run anew on what was handed in: each answer by itself, with limits, and apart from who grades."""

from __future__ import annotations

import csv
import io
import os

import nbformat
import pytest

from rfnb.cli.main import main
from rfnb.teaching.card import MIME
from rfnb.teaching.regrade import Limits, checked, notebooks_in
from rfnb.teaching.similar_answers import alike, shape_of

BEGIN = 'import math\nimport rfnb as rf\nlesson = rf.lesson("99_small")'
PRIME = 'prime = 7\nlesson.check("prime", prime)'
FORGED = {"kind": "check", "lesson": "99_small", "exercise": "add", "passed": True, "status": "passed", "points": 2}
ADD = 'lesson.check("add", add)'


def submit(folder, student, *cells, outputs=()):
    made = [nbformat.v4.new_code_cell(cell) for cell in (BEGIN, *cells)]
    made[-1].outputs = [nbformat.v4.new_output("display_data", {MIME: each}) for each in outputs]
    path = folder / "submitted" / student / "99_small.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)
    return path


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory):
    """Grades by student, of one run."""
    from teaching.conftest import write_course

    folder = tmp_path_factory.mktemp("grading")
    write_course(folder)
    long = (
        "def add({0}, {1}):\n    total = 0\n    for each in ({0}, {1}):\n        total = total + each\n"
        "    if total != total:\n        return [total, total][0]\n    return total\n" + ADD
    )
    submit(folder, "ada", "def add(a, b):\n    return a + b\n" + ADD, PRIME)
    submit(
        folder,
        "bob",
        "def add(a, b):\n    return a * b\n" + ADD,
        'prime = 5\nlesson.check("prime", prime)',
        outputs=[FORGED],
    )
    submit(folder, "eve", "def add(a, b):\n    while True:\n        pass\n" + ADD, PRIME)
    submit(folder, "max", "def add(a, b):\n    return len(bytearray(10**11))\n" + ADD, PRIME)
    submit(folder, "out", "import os\ndef add(a, b):\n    os._exit(0)\n" + ADD, "raise SystemExit", PRIME)
    submit(folder, "use", "def add(a, b):\n    return a + b\n", 'add = lesson.use("add", ...)\n' + ADD, PRIME)
    submit(
        folder,
        "own",
        "SIGN = 1",
        "def plus(a, b):\n    return a + SIGN * math.fsum([b])",
        "add = plus\n" + ADD,
        "1 / 0",
        PRIME,
    )
    submit(folder, "one", long.format("a", "b"), PRIME)
    submit(folder, "two", "# mine\n" + long.format("first", "second"), PRIME)
    submit(folder, "bad", "def add(a, b:", PRIME)
    goes_on = 'add = lesson.use("add", add)'
    submit(folder, "on", "def add(a, b):\n    return a - b\n" + ADD, goes_on, "prime = add(3, 4)\n" + PRIME[10:])
    takes = 'whole = rf.lesson("99_small")\ndef add(a, b):\n    return lesson.use("a" + "dd", None)(a, b)\n' + ADD
    asks = "def given():\n    return rf.lesson('99_small').use('prime', None)"
    submit(folder, "takes", takes, asks, "prime = given()\n" + PRIME[10:])
    for name, content in {"cut": b'{"cells": [', "odd": b"\x00\xff", "none": b""}.items():
        submit(folder, name, PRIME).write_bytes(content)
    submit(
        folder,
        "fed",
        "signs = {}\nfor name in ('a', 'b'):\n    signs[name] = 1\nodd = []\nodd.append(3)",
        "with open('never.txt') as file:\n    one = file.read()",
        "def add(a, b):\n    return signs['a'] * a + signs['b'] * b\n" + ADD,
        "one = 4\nprime = one + odd[0]\nlesson.check('prime', prime)",
    )
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield checked(notebooks_in([folder / "submitted"]), limits=Limits(seconds=4, memory=1 << 30))
    finally:
        os.chdir(before)


def entry(grades, student, exercise="add"):
    (grade,) = [each for each in grades.grades if each.student == student]
    (found,) = [each for each in grade.entries if each.exercise == exercise]
    return found


def test_answers_are_judged_by_what_they_do(handed_in):
    assert (entry(handed_in, "ada").status, entry(handed_in, "ada").points) == ("passed", 2)
    assert entry(handed_in, "bob").status == "wrong" and "another number" in entry(handed_in, "bob").message
    assert entry(handed_in, "bob", "prime").status == "wrong"


def test_what_outputs_say_of_checks_does_not_count(handed_in):
    (bob,) = [each for each in handed_in.grades if each.student == "bob"]
    assert bob.points == 0 and bob.of == 3


def test_a_loop_without_end_too_much_memory_and_an_exit_stop_nobody_else(handed_in):
    assert "more than 4 seconds" in entry(handed_in, "eve").message
    assert entry(handed_in, "max").message == "It needs more than 1 GiB of memory."
    assert "Its process ended" in entry(handed_in, "out").message and "it uses os" in entry(handed_in, "out").message
    for student in ("eve", "max", "out"):
        assert entry(handed_in, student, "prime").status == "passed"


def test_cells_that_are_no_answers_do_not_run_and_what_answers_need_of_them_does(handed_in):
    assert entry(handed_in, "own").status == "passed"
    assert entry(handed_in, "use").status == "passed"  # their own, above; the solution of the lesson is none of theirs


def test_what_loops_and_calls_above_fill_is_there_and_what_the_answer_makes_itself_is_not_sought(handed_in):
    assert entry(handed_in, "fed").status == "passed"
    assert entry(handed_in, "fed", "prime").status == "passed"


def test_an_answer_goes_on_with_the_solution_of_another_exercise_as_in_the_notebook_and_never_with_its_own(handed_in):
    assert (entry(handed_in, "on").status, entry(handed_in, "on", "prime").status) == ("wrong", "passed")
    assert entry(handed_in, "takes").status == "error"
    assert "Look at it: it uses rf.lesson." in entry(handed_in, "takes", "prime").message


def test_a_file_that_is_no_notebook_is_told(handed_in):
    for student in ("cut", "odd", "none"):
        assert entry(handed_in, student).message == "The file is no notebook that can be read."


def test_a_cell_that_is_no_python_is_told(handed_in):
    assert entry(handed_in, "bad").status == "not run"
    assert entry(handed_in, "bad").message == "There is no cell of Python that makes and checks it."


def test_copies_are_shown_in_text_and_csv(handed_in):
    assert "add: one, two" in str(handed_in) and "all answers: one, two" in str(handed_in)
    rows = list(csv.DictReader(io.StringIO(handed_in.csv())))
    assert [row["message"] for row in rows if row["student"] == "two" and row["exercise"] == "add"] == ["Alike: one"]
    assert "bob: add wrong: The result is another number" in str(handed_in)


def test_short_answers_and_other_answers_are_not_alike():
    assert shape_of("def f(x):\n    return x + 1") == ""
    long = "def f(x, y):\n    if x > y:\n        return [x + 1, y * 2, x ** 3, y - 4]\n    return [each * 5 for each in (x, y) if each > 2]"
    assert shape_of(long) == shape_of(long.replace("x", "z").replace("return [z", "return [z  ").replace("f(", "g("))
    assert shape_of(long) != shape_of(long.replace("+ 1", "+ 2"))
    assert alike([("a", {"f": long}), ("b", {"f": long.replace("4", "5")})]) == []
    short = [f"def f{number}(x):\n    return x + {number}" for number in range(9)]
    gap = [one.replace("return", "... or") for one in short]
    given = [("a", short), ("b", short), ("c", [*short[:8], "def f(x):\n    return 9"]), ("d", gap), ("e", gap)]
    (found,) = alike([(student, dict(zip("ABCDEFGHI", some))) for student, some in given])
    assert str(found) == "all answers: a, b"


def test_the_command_checks_a_folder(folder, capsys):
    submit(folder, "ada", "def add(a, b):\n    return a - b\n" + ADD, PRIME)
    assert main(["grades", "--check", str(folder / "submitted")]) == 0
    said = capsys.readouterr().out
    assert "ada      99_small  1/3     ✗add ✓prime" in said
    assert "ada: add wrong: The result is another number" in said
