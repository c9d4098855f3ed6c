"""A notebook is cut into slides at headings, pictures and where a screen is full, or by its slideshow metadata."""

from __future__ import annotations

import html
import re
from pathlib import Path

import nbformat
import pytest

from rfnb.site.board import board, picture_of
from rfnb.site.notebook_runs import SiteError, executed
from rfnb.site.slides import cut, slides

MIME = "application/vnd.rfnb.lesson+json"
new = nbformat.v4


def prose(text: str, kind: str = ""):
    return new.new_markdown_cell(text, metadata={"slideshow": {"slide_type": kind}} if kind else {})


def code(text: str, *outputs: dict):
    return new.new_code_cell(text, outputs=[new.new_output("display_data", data=data) for data in outputs])


def outline(*cells) -> list[tuple[str, list[str]]]:
    found = cut(new.new_notebook(cells=list(cells)))
    return [(slide.title, [cell.source.split("\n")[0] for cell, _ in slide.cells]) for slide in found]


PICTURE = {"image/png": "x"}


def test_a_slide_begins_at_each_heading_also_in_the_middle_of_a_cell():
    assert outline(prose("# One\n\nWords\n\n```text\n# no heading\n```\n\n## Two\n\nMore"), code("a = 1")) == [
        ("One", ["# One"]), ("Two", ["## Two", "a = 1"]),
    ]  # fmt: skip


def test_two_pictures_are_two_slides_and_a_word_about_the_first_stays_with_it():
    assert outline(prose("# One"), code("draw(1)", PICTURE), prose("Look."), code("draw(2)", PICTURE)) == [
        ("One", ["# One", "draw(1)", "Look."]), ("One", ["draw(2)"]),
    ]  # fmt: skip


def test_what_does_not_fit_on_a_screen_goes_to_the_next_slide():
    long = "def f():\n" + "    pass\n" * 19
    assert outline(prose("# One\n\nWords"), code(long), code("b = 2")) == [
        ("One", ["# One"]),
        ("One", ["def f():", "b = 2"]),
    ]


def test_a_question_and_its_answer_stay_together_checks_and_solutions_go():
    card = {"text/html": "<p>Which?</p>", "text/plain": "Which?\n  A\n  B"}
    asked = code("lesson.predict()", {**card, MIME: {"kind": "predict"}})
    told = code("p.reveal()", {**card, MIME: {"kind": "reveal"}})
    check = code("f = ...\nlesson.check('f', f)", {**card, MIME: {"kind": "check"}})
    cells = [prose("# One"), asked, told, check, code('lesson.solution("f")'), code('lesson.hint("f")')]
    assert outline(*cells) == [("One", ["# One", "lesson.predict()", "p.reveal()", "f = ..."])]
    (slide,) = cut(new.new_notebook(cells=cells))
    assert [len(cell.get("outputs", [])) for cell, _ in slide.cells] == [0, 1, 1, 0]


def test_metadata_of_slideshows_decides_where_there_is_some():
    cells = [prose("# One", "slide"), prose("on it"), prose("later", "fragment"), prose("gone", "skip"), prose("said", "notes"),
             prose("two", "subslide")]  # fmt: skip
    assert outline(*cells) == [("One", ["# One", "on it", "later"]), ("One", ["two"])]
    first = cut(new.new_notebook(cells=cells))[0]
    assert [waits for _, waits in first.cells] == [False, False, True] and [note.source for note in first.notes] == [
        "said"
    ]


def test_a_notebook_that_is_not_there_or_fails_is_named(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        slides(tmp_path / "none.ipynb", tmp_path / "out.html")
    assert str(missing.value) == (
        f"slides: there is no notebook {tmp_path / 'none.ipynb'}.\n"
        "Say where it is:\n    rfnb slides notebooks/07_search.ipynb -o slides.html"
    )
    nbformat.write(new.new_notebook(cells=[new.new_code_cell("1 / 0")]), tmp_path / "bad.ipynb")
    with pytest.raises(SiteError, match=r"^bad.ipynb does not run through\."):
        slides(tmp_path / "bad.ipynb", tmp_path / "out.html", cache=tmp_path / "cache")
    assert not (tmp_path / "out.html").exists()


def test_a_page_that_cannot_be_written_is_refused_before_the_notebook_is_run(tmp_path):
    path = tmp_path / "own.ipynb"
    nbformat.write(new.new_notebook(cells=[new.new_code_cell("1 / 0")]), path)
    before = path.read_bytes()
    said = {
        path: f"slides: the slides would replace the notebook {path}.\nTake another name:",
        tmp_path: f"slides: {tmp_path} is a folder.\nSlides are one file:",
        tmp_path
        / "no/page.html": f"slides: {tmp_path / 'no/page.html'} cannot be written: its folder is not there.\nSlides are one file:",
    }
    for output, words in said.items():
        with pytest.raises(OSError) as error:
            slides(path, output, cache=tmp_path / "cache")
        assert str(error.value) == f"{words}\n    rfnb slides {path} -o slides.html"
    assert path.read_bytes() == before


THEORY = sorted((Path(__file__).parents[2] / "docs/theory").glob("[0-9]*.md"))


def board_of(text: str) -> list[tuple[str, str]]:
    """The visible content and the notes, slide by slide."""
    return [
        (
            "\n\n".join(
                cell.source if cell.cell_type == "markdown" else cell.outputs[0].data["text/html"]
                for cell, _ in slide.cells
            ),
            "\n\n".join(cell.source for cell in slide.notes),
        )
        for slide in cut(board(text, lambda lesson, cell: f"{lesson} {cell}"))
    ]


def test_a_page_of_theory_has_one_formula_on_a_slide_and_its_prose_in_the_notes():
    text = "# T\n\nIntro.\n\n## A\n\nFirst.\n\n$$\nx\n$$\n\nThen.\n\n$$\ny\n$$\n\nLast."
    text += '\n\n[Sum < 1](../l.ipynb "01-cell"): said of it.'
    text += "\n\n## B\n\n- **One.** Why.\n- **Two.** Why, too.\n\n## Sources\n\n- S."
    assert board_of(text) == [
        ("# T", "Intro."),
        ("## A\n\n$$\nx\n$$", "First."),
        ("## A\n\n$$\ny\n$$", "Then."),
        (
            "## A\n\n<figure>../l.ipynb 01-cell<figcaption>Sum &lt; 1</figcaption></figure>",
            'Last.\n\n[Sum < 1](../l.ipynb "01-cell"): said of it.',
        ),
        ("## B\n\n- **One.**\n- **Two.**", "- **One.** Why.\n- **Two.** Why, too.\n\n**Sources**\n\n- S."),
    ]


@pytest.mark.parametrize("path", THEORY, ids=lambda path: path.stem)
def test_nothing_of_a_page_of_theory_is_lost_and_no_slide_is_full(path):
    text = path.read_text("utf-8")
    found = board_of(text)
    assert len(found) >= 8
    everything = "\n\n".join("\n\n".join(slide) for slide in found)
    found = [(shown.partition("<figure>")[0], notes) for shown, notes in found]
    blocks = [block.removeprefix("## ") for block in re.split(r"\n{2,}", text.strip())]
    assert [block for block in blocks if block not in everything] == []
    of_words = [
        re.sub(r"^\|.*$", "", re.sub(r"\$\$.+?\$\$", "", shown, flags=re.DOTALL), flags=re.MULTILINE)
        for shown, _ in found
    ]
    words = [shown.split() for shown in of_words]
    assert max(map(len, words)) < 110
    assert all(shown.count("$$") <= 2 for shown, _ in found)


PICTURED = re.compile(r'^\[([^\]]+)\]\(\.\./\.\./notebooks/(\S+)\.ipynb "([\w-]+)"\): \w', re.MULTILINE)


@pytest.mark.parametrize("path", THEORY, ids=lambda path: path.stem)
def test_every_page_of_theory_has_a_picture_that_a_cell_of_its_lesson_makes(path):
    found = PICTURED.findall(path.read_text("utf-8"))
    assert found and {lesson for _, lesson, _ in found} == {path.stem}
    stored = nbformat.read(path.parents[2] / f"notebooks/{path.stem}.ipynb", as_version=4)
    cells = {cell.id: cell for cell in stored.cells}
    for _, _, cell in found:
        assert cells[cell].cell_type == "code" and not cells[cell].metadata.get("jupyter", {}).get("source_hidden")


@pytest.mark.notebook
@pytest.mark.parametrize("path", THEORY, ids=lambda path: path.stem)
def test_the_slides_of_a_page_of_theory_have_its_formulas_and_its_picture(path, tmp_path):
    ran = []

    def run(lesson, **options):
        ran.append(lesson.resolve())
        return executed(lesson, **options)

    page = slides(path, tmp_path / "board.html", run=run).read_text("utf-8")
    text = path.read_text("utf-8")
    assert page.count('<math display="block"') == text.count("$$") // 2 > 0
    assert 'class="slide spoken"' in page and "$$" not in page
    figures = re.findall(
        r"<figure><img [^>]*src=\"data:image/png;base64,[^>]{2000,}><figcaption>(.+?)</figcaption>", page
    )
    assert [html.unescape(one) for one in figures] == [caption for caption, _, _ in PICTURED.findall(text)]
    assert set(ran) == {path.parents[2] / f"notebooks/{path.stem}.ipynb"}


def test_a_picture_is_the_first_image_of_a_cell_whether_of_a_view_or_of_matplotlib():
    view = {"text/html": '<p>x</p><img alt="A" src="data:image/png;base64,A"><img alt="B">'}
    cells = [code("a", {"text/plain": "1"}), code("b", view, PICTURE), code("c", {**PICTURE, "text/plain": "<Figure>"})]
    for cell, name in zip(cells, "abc"):
        cell["id"] = f"01-{name}"
    notebook = new.new_notebook(cells=cells)
    assert [picture_of(notebook, f"01-{name}") for name in "abcd"] == [
        "",
        '<img alt="A" src="data:image/png;base64,A">',
        '<img alt="&lt;Figure&gt;" src="data:image/png;base64,x">',
        "",
    ]


def test_a_page_whose_picture_is_not_there_is_refused_with_the_cell(tmp_path):
    page, lesson = tmp_path / "page.md", tmp_path / "own.ipynb"
    page.write_text('# T\n\n[A](own.ipynb "01-a"): b.')
    with pytest.raises(FileNotFoundError) as missing:
        slides(page, tmp_path / "out.html")
    assert str(missing.value).startswith("slides: page.md has a picture of own.ipynb, which is not there.\nKeep ")
    nbformat.write(new.new_notebook(cells=[new.new_code_cell("1", id="01-a")]), lesson)
    with pytest.raises(SiteError, match=r"^page.md: the cell 01-a of own.ipynb makes no picture\.$"):
        slides(page, tmp_path / "out.html", run=lambda path, **_: nbformat.read(path, as_version=4))
    assert not (tmp_path / "out.html").exists()
