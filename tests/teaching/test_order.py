"""Cells that are run out of order explain themselves; everything else is as it was."""

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from teaching.conftest import write_course
from teaching.kernels import kernel_in
from waiting import LONG

import rfnb.cli

pytestmark = pytest.mark.notebook

BEGIN = 'import rfnb as rf\n\nlesson = rf.lesson("99_small")'
USE = 'add = lesson.use("add", add)\ntotal = add(2, 3)\nprint(total)'


def expected(text):
    return textwrap.dedent(text).strip("\n")


def test_the_traceback_and_what_the_debugger_gets_are_as_without_it(kernel):
    def run():
        output = kernel.run("total = add(2, 3)")[0]
        last = kernel.said("import sys; type(sys.last_value).__name__, sys.last_traceback.tb_next.tb_lineno")
        return [re.sub(r"In\s?\[\d+\]", "", line) for line in output["traceback"]], last

    before = run()
    kernel.run(BEGIN)
    assert run() == before
    assert kernel.said("get_ipython().custom_exceptions") == ["()"]


def test_the_cell_that_makes_a_name_is_named_once(kernel):
    for _ in range(3):
        kernel.run(BEGIN)
    error, said = kernel.said(USE)
    assert error == "NameError: name 'add' is not defined"
    assert said == expected(
        """
        "add" is made by a cell that was not run yet.
          cell    number 2 of the cells of code, under "Build: a sum"
          begins  def add(a, b):
        Run it, or all above this one: Run > Run All Above Selected Cell.
        """
    )


def test_a_cell_that_ended_with_an_error_is_named_as_such(kernel):
    kernel.run(BEGIN)
    write_course(kernel.folder, ["ready = 1 / 0", "ready + 1"])
    kernel.run("ready = 1 / 0")
    assert kernel.said("ready + 1")[1] == expected(
        """
        "ready" is made by a cell that ended with an error.
          cell    number 6 of the cells of code, under "Build: a sum"
          begins  ready = 1 / 0
        Fix and run it. Then all above this one: Run > Run All Above Selected Cell.
        """
    )


def test_a_name_that_was_deleted_and_one_from_further_down(kernel):
    kernel.run(BEGIN)
    write_course(kernel.folder, ["early", "early = 1"])
    assert kernel.said("early")[1] == expected(
        """
        "early" is made by a cell further down.
          cell    number 7 of the cells of code, under "Build: a sum"
          begins  early = 1
        Cells are run from top to bottom. If this one was moved, move it back. To start again: Kernel > Restart Kernel.
        """
    )
    kernel.run("early = 1")
    kernel.run("del early")
    assert kernel.said("early + 1")[1].startswith('"early" is made by a cell that was run, but the name is gone.')


def test_without_the_file_a_general_sentence_is_said(kernel):
    kernel.run(BEGIN)
    for change in (Path.unlink, lambda path: path.write_text("{")):
        change(kernel.folder / "99_small.ipynb")
        assert kernel.said(USE)[1] == (
            '"add" is not there: perhaps the cell that makes it was not run.\n'
            "Cells are run from top to bottom. All above this one: Run > Run All Above Selected Cell."
        )
    write_course(kernel.folder)


OTHERS = {
    "a typing error": "addd",
    "another exception": "1 / 0",
    "an exception like it": "def f():\n    if False:\n        x = 1\n    return x\nf()",
    "one that was raised by hand": 'raise NameError("add")',
    "one of a library": "import types\nlibrary = types.FunctionType(compile('add', 'library', 'eval'), {})\nlibrary()",
    "no exception": "3",
    "a syntax error": "1 +",
}


def test_other_errors_have_nothing_added(kernel):
    write_course(kernel.folder)
    for name, source in OTHERS.items():
        assert len(kernel.run(source)) == 1, name


STARTUP = Path(rfnb.cli.__file__).parent / "jupyter/startup.py"


def test_in_a_kernel_of_rfnb_lab_a_cell_before_the_first_one_says_what_to_run(tmp_path, monkeypatch):
    write_course(tmp_path)
    monkeypatch.setenv("PYTHONSTARTUP", str(STARTUP))
    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "99_small.ipynb"))
    with kernel_in(tmp_path) as kernel:
        assert kernel.run("_explain")[0]["ename"] == "NameError"  # nothing of it is in the notebook
        assert kernel.said("'rfnb.teaching.lesson' in __import__('sys').modules") == ["False"]
        error, said = kernel.said(USE)
        assert error == "NameError: name 'lesson' is not defined"
        assert said == expected(
            """
            "lesson" is made by a cell that was not run yet.
              cell    number 1 of the cells of code
              begins  import rfnb as rf
            Run it, or all above this one: Run > Run All Above Selected Cell.
            """
        )
        assert kernel.said("addd") == ["NameError: name 'addd' is not defined"]
        kernel.run(BEGIN)
        assert len(kernel.said(USE)) == 2 and '"add" is made by a cell that was not run yet.' in kernel.said(USE)[1]
    script = [sys.executable, "-c", f"exec(open({str(STARTUP)!r}).read()); print('_explain' in globals())"]
    assert subprocess.run(script, capture_output=True, text=True, timeout=LONG).stdout == "False\n"
