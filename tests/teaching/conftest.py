"""A small course in its own folder, which is the current folder."""

import nbformat
import pytest
from teaching.kernels import kernel_in

import rfnb as rf

CHECKS = """
from rfnb.teaching import check_calls, exercise, wrong

@exercise("The sum of two numbers", hints=["Which sign is it?", "It is +."], points=2)
def add(answer):
    check_calls(answer, lambda a, b: a + b, [(30, 40), (1, 2)])

@exercise("The largest prime below 10")
def prime(answer):
    if answer != 7:
        wrong("There is a larger one." if answer in (2, 3, 5) else "This is no prime below 10.", [("got", answer)])
"""
SOLUTIONS = """
PREDICTIONS = {"winner": "A"}

# One line is enough.
def add(a, b):
    return a + b

prime = 7
"""
CELLS = [
    'import rfnb as rf\n\nlesson = rf.lesson("99_small")',
    'def add(a, b):\n    ...\n\nlesson.check("add", add)',
    'add = lesson.use("add", add)\ntotal = add(2, 3)\nprint(total)',
    'winner = lesson.predict("winner", "Which one wins?", options=["A", "B"])',
    'winner.reveal(lambda: "A", why="It has the better score.")',
    'prime = ...\nlesson.check("prime", prime)',
]


def write_course(folder, further=()):
    """The checks, solutions and notebook of a lesson; the notebook has further cells before its last one."""
    for name, text in (("checks", CHECKS), ("solutions", SOLUTIONS)):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / "99_small.py").write_text(text)
    sources = [*CELLS[:-1], *further, CELLS[-1]]
    cells = [nbformat.v4.new_code_cell(cell, id=f"99-{number}") for number, cell in enumerate(sources)]
    cells.insert(1, nbformat.v4.new_markdown_cell("## Build: a sum\n\nTwo numbers.", id="99-build"))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), folder / "99_small.ipynb")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_course(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RFNB_LESSON", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """A kernel for all tests of a file, in a folder with the course."""
    folder = tmp_path_factory.mktemp("course")
    write_course(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RFNB_LESSON", raising=False)
        with kernel_in(folder) as kernel:
            yield kernel


@pytest.fixture
def lesson(folder):
    return rf.lesson("99_small")
