"""`rfnb grades`: a table or CSV of what submitted notebooks hold."""

import nbformat
import pytest

from rfnb.cli.main import main
from rfnb.teaching.card import MIME

RECORD = {
    "kind": "check", "lesson": "07_none", "exercise": "add", "title": "", "passed": True, "status": "passed", "message": "",
    "points": 2, "answer": "",
}  # fmt: skip


@pytest.fixture
def ada(tmp_path):
    output = nbformat.v4.new_output("display_data", {MIME: RECORD})
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=[output])])
    nbformat.write(notebook, tmp_path / "ada.ipynb")
    return tmp_path / "ada.ipynb"


def test_a_table_is_printed(ada, capsys):
    assert main(["grades", str(ada)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "student  lesson   points  exercises  predictions",
        "ada      07_none  2/2     ✓add",
    ]


def test_csv_is_printed(ada, capsys):
    assert main(["grades", "--csv", str(ada)]) == 0
    assert capsys.readouterr().out == (
        "student,lesson,kind,exercise,status,points,of,answer,truth,message\nada,07_none,check,add,passed,2,2,,,\n"
    )


def test_a_file_without_a_lesson_is_said_beside_the_others(ada, capsys):
    (ada.parent / "odd.ipynb").write_text("{")
    assert main(["grades", str(ada), str(ada.parent / "odd.ipynb")]) == 1
    printed = capsys.readouterr()
    assert "✓add" in printed.out and "odd.ipynb has no results of a lesson" in printed.err


def test_a_notebook_that_is_not_there_is_said(tmp_path, capsys):
    assert main(["grades", str(tmp_path / "gone.ipynb")]) == 1
    assert capsys.readouterr().err == f"rfnb grades: there is no notebook {tmp_path / 'gone.ipynb'}.\n"


@pytest.mark.parametrize("content", [b"", b"{", b"\x00\xff", b'{"cells": 7}'])
@pytest.mark.parametrize("how", [[], ["--check"]])
def test_a_damaged_notebook_is_said_though_its_name_is_that_of_a_lesson(tmp_path, capsys, content, how):
    path = tmp_path / "ada" / "07_search.ipynb"
    path.parent.mkdir()
    path.write_bytes(content)
    assert main(["grades", *how, str(path)]) == 1
    assert f"{path} has no results of a lesson" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["--seconds", "--memory"])
@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "many"])
def test_a_limit_is_a_number_above_0(ada, capsys, limit, value):
    with pytest.raises(SystemExit):
        main(["grades", "--check", limit, value, str(ada)])
    assert f"{value} is not a number above 0" in capsys.readouterr().err
