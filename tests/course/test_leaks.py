"""Nothing that students get has an answer before it is given: the copy of the course, the notebooks, what is shown below a question."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from course.harness import NOTEBOOKS, Course, Executed
from seed import part_of
from waiting import SLOWNESS

from rfnb.cli import course as course_files
from rfnb.site.notebook_runs import executed
from rfnb.teaching.assignment import assignment
from rfnb.teaching.course import SEALED, source_of

LESSONS = sorted(path.stem for path in (NOTEBOOKS / "solutions").glob("[0-9]*.py"))
GIVEN = {"01-planted", "02-trap-model"}  # code with a mistake, which is to be found; its other lines are right
# The lesson whose cells are all run without an answer: one that takes seconds, another one with RFNB_SEED=1 to 14. RFNB_ALL=1 runs
# all lessons, which takes as long as all notebooks.
RUN = part_of(LESSONS, len(LESSONS), LESSONS.index("13_measures"))
LEAST = 32  # letters of a line that is nobody's by chance


@cache
def answers(lesson: str) -> set[str]:
    """Lines of the solutions of exercises that nobody writes by chance, without spaces."""
    text = (NOTEBOOKS / "solutions" / f"{lesson}.py").read_text("utf-8")
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    lines = [line for node in functions for statement in node.body for line in ast.unparse(statement).splitlines()]
    given = [cell.source for cell in Course(lesson).stored.cells if "lesson.check(" in cell.source]
    asked = {plain(line) for text in given for line in text.splitlines()}
    return {plain(line) for line in lines if len(plain(line)) >= LEAST} - asked


def plain(line: str) -> str:
    """A line as the same line written by somebody else."""
    return re.sub(r"\s|^return|[\"']", "", line.strip())


def found_in(text: str, lesson: str) -> list[str]:
    """The lines of solutions that a text has."""
    return sorted({plain(line) for line in text.splitlines()} & answers(lesson))


def truths(lesson: str) -> dict[str, str]:
    """The answers of questions that are words."""
    return {name: answer for name, answer in Course(lesson).solutions.PREDICTIONS.items() if isinstance(answer, str)}


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """The copy that `rfnb lab` gives to a student."""
    folder = tmp_path_factory.mktemp("student")
    course_files.copy(folder)
    return folder


def test_the_copy_of_a_student_has_no_solution_to_read(copied):
    files = [path for path in copied.rglob("*") if path.is_file() and path.suffix not in (".gif", ".png")]
    assert len(files) > 50
    assert not (copied / "docs/teaching").exists() and not (copied / "docs/teaching.md").exists()
    for path in files:
        text = path.read_text("utf-8")
        for lesson in LESSONS:
            if path.suffix != ".ipynb" and "docs" not in path.relative_to(copied).parts:
                assert not found_in(text, lesson), path
            assert "PREDICTIONS" not in text and "DIAGNOSES = " not in text and "FAULTS = " not in text, path


@pytest.mark.parametrize("lesson", LESSONS)
def test_a_lesson_of_a_student_checks_and_goes_on_with_what_is_sealed(copied, lesson):
    sealed = Course(lesson, copied / "notebooks")
    assert list(sealed.exercises) == list(Course(lesson).exercises)
    assert source_of(copied / "notebooks/solutions" / f"{lesson}.py") == source_of(
        NOTEBOOKS / "solutions" / f"{lesson}.py"
    )
    name = sealed.exercises[0]
    assert sealed.judged(name, sealed.lesson.use(name, ...)).passed
    assert "sealed" in sealed.lesson.solution(name).body


def test_a_teacher_gets_everything_by_a_switch(tmp_path):
    course_files.copy(tmp_path, teacher=True)
    assert (tmp_path / "docs/teaching/07_search.md").is_file()
    assert (tmp_path / "notebooks/solutions/07_search.py").is_file() and not list(tmp_path.rglob(f"*{SEALED}"))


@pytest.mark.parametrize("lesson", LESSONS)
def test_open_code_of_a_notebook_has_no_line_of_a_solution(lesson):
    for cell in Course(lesson).stored.cells:
        if not cell.metadata.get("jupyter", {}).get("source_hidden") and cell.id not in GIVEN:
            assert not found_in(cell.source, lesson), cell.id


SHORT = 10  # letters from which on a line, or a value, is an answer where somebody is told it


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_hint_has_a_line_of_the_solution_or_the_value_that_is_asked_for(lesson):
    """`lesson.solution` is sealed in what students get; a hint that is the solution would open it."""
    exercises = Course(lesson).lesson.exercises
    for node in ast.parse((NOTEBOOKS / "solutions" / f"{lesson}.py").read_text("utf-8")).body:
        name = node.targets[0].id if isinstance(node, ast.Assign) else getattr(node, "name", "")
        if name not in exercises:
            continue
        parts = [node.value] if isinstance(node, ast.Assign) else node.body
        told = {plain(line) for part in parts for line in ast.unparse(part).splitlines()}
        told = {line for line in told if len(line) >= SHORT + 10 * (not isinstance(node, ast.Assign))}
        told |= {plain(ast.unparse(each)) for each in ast.walk(node) if isinstance(each, ast.Return) and each.value}
        for hint in exercises[name].hints:
            assert not [line for line in told if len(line) >= SHORT and line in plain(hint)], (name, hint)


@pytest.mark.parametrize("lesson", LESSONS)
def test_the_line_that_a_folded_cell_shows_has_no_answer(lesson):
    for cell in Course(lesson).stored.cells:
        if cell.metadata.get("jupyter", {}).get("source_hidden"):
            first = cell.source.splitlines()[0]
            assert not found_in(first, lesson), cell.id
            told = [truth for truth in truths(lesson).values() if re.search(rf"[\"']{re.escape(truth)}[\"']", first)]
            assert len(set(told)) != 1, cell.id  # several: the code that decides between them
            if re.search(r"lesson\.(draw_mask|place_alignment)\(", cell.source):
                assert first.startswith("#"), cell.id


@pytest.mark.parametrize("lesson", LESSONS)
def test_no_title_file_name_or_stored_output_has_an_answer(lesson):
    stored = Course(lesson).stored
    assert not [cell.id for cell in stored.cells if cell.get("outputs")]
    for cell in stored.cells:
        for name in truths(lesson):
            assert f"{name}_is_" not in cell.id
        if cell.cell_type == "code" and ".predict(" not in cell.source:
            for title in re.findall(r"title=f?\"([^\"]*)\"", cell.source):
                assert title not in truths(lesson).values(), cell.id


def test_options_of_questions_that_are_asked_again_stand_in_another_order_than_their_answers():
    """The clinic asks the same of each patient: the k-th option is not that of patient k."""
    clinic = Course("12_clinic")
    names = dict(clinic.lesson.module("data/clinic.py").DIAGNOSES)
    (cell,) = [cell for cell in clinic.stored.cells if "DISEASES = " in cell.source]
    line = next(line for line in cell.source.splitlines() if line.startswith("DISEASES = "))
    options = eval(line.removeprefix("DISEASES = "), {"clinic": clinic.lesson.module("data/clinic.py")})
    assert set(names.values()) < set(options)
    assert [options[number - 1] for number in names] != list(names.values())
    assert sum(options[number - 1] == name for number, name in names.items()) <= 1


@pytest.mark.parametrize("lesson", LESSONS)
def test_an_assignment_has_its_own_data_alone_and_no_check_to_read(lesson, tmp_path, monkeypatch):
    monkeypatch.chdir(NOTEBOOKS)
    target = assignment(lesson, tmp_path)
    assert [path.name for path in (target / "checks").iterdir()] == [f"{lesson}{SEALED}"]
    read = (NOTEBOOKS / f"{lesson}.ipynb").read_text("utf-8") + (NOTEBOOKS / "checks" / f"{lesson}.py").read_text(
        "utf-8"
    )
    data = sorted(path.name for path in target.glob("data/*"))
    assert all(Path(name).stem in read for name in data), data
    assert ("clinic" + SEALED in data) == (lesson == "12_clinic")
    assert ("three_searches" + SEALED in data) == (lesson == "08_errors")
    assert list(Course(lesson, target).exercises) == list(Course(lesson).exercises)


SHOWS = re.compile(r"\.show\(|\bshow\(|\bprint\(|\bpicture\(|^figure$", re.MULTILINE)
ASKS = re.compile(r"^(\w+) = lesson\.predict\(", re.MULTILINE)
# Of a training that a question is about, its loss; and how many letters are right before a head is taken away.
TELLS_NOTHING = {"05-align-train", "05-zeros-train", "09-learn-train", "11-prune"}


# Further on in the section of a question, of something else.
OF_SOMETHING_ELSE = {
    "01-break-dims",
    "02-real",
    "02-trap-mended",
    "03-lost",
    "03-final-view",
    "07-lie-example",
    "07-tool",
    "11-attention-use",
    "13-lengths",
}


@pytest.mark.parametrize("lesson", LESSONS)
def test_nothing_is_shown_of_what_was_asked_between_a_question_and_the_end_of_its_section(lesson):
    """It would be there after Run All, before anybody has answered: `reveal(why=view)` and `lesson.after(question, view)` wait."""
    open_, told = set(), False
    for cell in Course(lesson).stored.cells:
        if cell.cell_type == "markdown":
            told = told and re.search(r"^##+ ", cell.source, re.MULTILINE) is None
            continue
        waits = re.search(r"lesson\.(?:after|check)\(", cell.source) or ".reveal(" in cell.source
        shows = SHOWS.search(cell.source) and not waits and cell.id not in TELLS_NOTHING
        assert not (shows and open_) or "lesson." in cell.source, cell.id
        assert not (shows and told) or cell.id in OF_SOMETHING_ELSE, cell.id
        told = told or ".reveal(" in cell.source
        open_ -= {name for name in open_ if f"{name}.reveal(" in cell.source}
        open_ |= set(ASKS.findall(cell.source))


@pytest.mark.parametrize("lesson", LESSONS)
def test_what_is_made_of_a_value_that_is_asked_for_waits_until_it_is_found(lesson):
    """`lesson.use` continues with the value of the solution, which a view or a printed line would tell."""
    course = Course(lesson)
    values = {name for name in course.exercises if not callable(getattr(course.solutions, name))}
    told = {value: set[str]() for value in values}  # by value the names that are made of it
    for cell in course.stored.cells:
        if cell.cell_type != "code" or cell.source.startswith("%") or "lesson.check(" in cell.source:
            continue
        waits = {
            word
            for names in re.findall(r"lesson\.after\(([\s(]*(?:\"\w+\",\s*)+)", cell.source)
            for word in re.findall(r"\w+", names)
        }
        body = ast.parse(cell.source).body
        for value, made in told.items():
            reads = {value, *made}
            for node in body:
                bound = {ast.unparse(each.target) for each in ast.walk(node) if isinstance(each, ast.comprehension)}
                read = {
                    each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
                } - bound
                if isinstance(node, (ast.Assign, ast.FunctionDef, ast.With, ast.For)) and read & reads:
                    stored = {
                        each.id
                        for each in ast.walk(node)
                        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
                    }
                    made |= stored | ({node.name} if isinstance(node, ast.FunctionDef) else set())
                    reads = {value, *made}
                elif isinstance(node, ast.Expr) and read & reads and ".reveal(" not in ast.unparse(node):
                    assert value in waits, f"{cell.id} shows what is made of {value}: {ast.unparse(node)}"


@pytest.mark.notebook
@pytest.mark.parametrize("lesson", RUN)
def test_a_run_of_all_cells_of_a_student_reveals_nothing(copied, lesson, tmp_path):
    """In the sealed copy, nothing solved and nothing answered."""
    path = copied / "notebooks" / f"{lesson}.ipynb"
    ran = Executed(executed(path, env={}, seconds=300 * SLOWNESS, cache=tmp_path))
    told = ran.records("reveal")
    assert told and not [data["exercise"] for data in told if data["truth"] is not None or data["revealed"]]
    assert not [data["exercise"] for data in ran.records("check") if data["passed"]]
    for cell in ran.notebook.cells:
        waits = re.search(r"lesson\.after\(", cell.source) is not None
        shown = [output for output in cell.get("outputs", []) if "text/html" in output.get("data", {})]
        assert not waits or all("above; then run this cell again" in output.data["text/plain"] for output in shown), (
            cell.id
        )
