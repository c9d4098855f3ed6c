"""The source tree has all pages in their groups, and all that they lead to; nothing is listed by hand."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from rfnb.site import source_tree as module
from rfnb.site.source_tree import SiteTree, without_kernel

ROOT = Path(__file__).parents[2]
WIDGET = "application/vnd.jupyter.widget-view+json"


def read(path: Path):
    return nbformat.read(path, as_version=4)


@pytest.fixture
def source(tmp_path):
    files = {
        "README.md": "# Top\n\nTo [a guide](docs/guide.md), [all](docs/contracts), [notebooks](notebooks), [me](README.md).",
        "docs/guide.md": "# Guide\n\n[code](../lib/code.py), [word](../lib/README.md#part), [none](gone.md), `[x](y.md)`\n\n"
        "```text\n[x](y.md)\n```\n\n[top](../README.md) ![p](images/p.png) [out](https://example.org/a)",
        "docs/images/p.png": "png",
        "docs/contracts/one.md": "# Contract one",
        "docs/teaching/README.md": "# Teachers",
        "docs/teaching/01_dims.md": "# Dims, for teachers\n\n[it](../../notebooks/01_dims.ipynb)",
        "lib/code.py": "x = 1",
        "lib/README.md": "# Library",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "notebooks").mkdir()
    for name in ("your_model", "01_dims", "00_tour"):
        cells = [
            nbformat.v4.new_markdown_cell(f"# The {name}\n\nText."),
            nbformat.v4.new_markdown_cell("[g](../docs/guide.md)"),
        ]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / f"notebooks/{name}.ipynb")
    return tmp_path


@pytest.fixture
def made(source, tmp_path_factory):
    tree = SiteTree(source, tmp_path_factory.mktemp("tree"), read)
    tree.make()
    return tree


def test_pages_are_in_their_groups_the_front_door_first(made):
    names = {caption: [file.name for file in files] for caption, files in made.groups.items()}
    assert names == {
        "The course": ["00_tour.ipynb", "01_dims.ipynb", "your_model.ipynb"],
        "Guides": ["guide.md"],
        "For teachers": ["README.md", "01_dims.md"],
        "How it is built": ["one.md"],
    }


def test_links_lead_on_and_what_they_lead_to_comes_with_them(made):
    index = (made.folder / "index.md").read_text()
    assert "[all](docs/contracts/index.md), [notebooks](notebooks/index.md), [me](index.md)." in index
    guide = (made.folder / "docs/guide.md").read_text()
    assert guide.startswith(
        "# Guide\n\n[code](../lib/code.py), [word](../lib/README.md#part), none, `[x](y.md)`\n\n```text\n[x](y.md)\n```\n\n"
        "[top](../index.md) ![p](images/p.png) [out](https://example.org/a)"
    )
    assert (made.folder / "lib/code.py").is_file() and (made.folder / "docs/images/p.png").is_file()
    assert (made.folder / "lib/README.md").read_text() == "---\norphan: true\n---\n\n# Library"


@pytest.fixture
def with_course(source, tmp_path_factory):
    """The tree of a source whose course has a page of contents; lessons can be run elsewhere."""
    (source / "notebooks/README.md").write_text(
        "# The course\n\n[One](01_dims.ipynb), [guide](../docs/guide.md), [top](../README.md)"
    )
    (source / "docs/guide.md").write_text(
        "# Guide\n\n[course](../notebooks/README.md), [course](../notebooks), [top](../README.md)"
    )
    tree = SiteTree(
        source, tmp_path_factory.mktemp("tree"), read, live="https://example.org/HEAD?labpath={notebook}&x=1"
    )
    tree.make()
    return tree


def test_the_site_opens_on_the_course_and_the_toolkit_has_a_page_of_its_own(with_course):
    index = (with_course.folder / "index.md").read_text()
    assert index.startswith("# The course\n\n[One](notebooks/01_dims.ipynb), [guide](docs/guide.md), [top](toolkit.md)")
    toolkit = (with_course.folder / "toolkit.md").read_text()
    assert toolkit.startswith(
        "# Top\n\nTo [a guide](docs/guide.md), [all](docs/contracts/index.md), [notebooks](index.md), [me](toolkit.md)."
    )
    guide = (with_course.folder / "docs/guide.md").read_text()
    assert guide.endswith("[course](../index.md), [course](../index.md), [top](../toolkit.md)")
    assert not (with_course.folder / "notebooks/README.md").exists() and "\ntoolkit.md\n" in index


def test_a_lesson_leads_to_where_it_runs_if_that_is_known(with_course, made):
    about = read(with_course.folder / "notebooks/01_dims.ipynb").cells[0].source
    assert 'href="https://example.org/HEAD?labpath=notebooks%2F01_dims.ipynb&amp;x=1">open it live</a>' in about
    assert "live</a>" not in read(made.folder / "notebooks/01_dims.ipynb").cells[0].source


def test_a_page_for_teachers_is_told_from_its_lesson_by_its_title(made):
    assert (made.folder / "docs/teaching/01_dims.md").read_text().startswith("# For teachers: Dims, for teachers")
    assert (made.folder / "docs/teaching/README.md").read_text().startswith("# Teachers")


def test_a_folder_without_readme_gets_a_page_that_lists_it(made):
    assert (
        (made.folder / "notebooks/index.md")
        .read_text()
        .endswith(
            "# Notebooks\n\n- [The 00_tour](00_tour.ipynb)\n- [The 01_dims](01_dims.ipynb)\n- [The your_model](your_model.ipynb)"
        )
    )
    assert not (made.folder / "docs/teaching/index.md").exists()


def test_a_notebook_says_under_its_title_what_the_page_is(made):
    first = read(made.folder / "notebooks/01_dims.ipynb").cells[0].source
    assert first.startswith(
        '# The 01_dims\n\n<p class="rfnb-about">This page is a notebook as it ran: '
        '<a href="01_dims.ipynb" download>download this lesson</a>.'
    )
    assert first.endswith("</p>\n\nText.")


def test_every_notebook_guide_and_page_for_teachers_of_the_repository_is_in_the_site(tmp_path):
    tree = SiteTree(ROOT, tmp_path, read)
    tree.make()
    lacking = [
        file.relative_to(ROOT).as_posix()
        for pattern in ("notebooks/*.ipynb", "docs/**/*.md")
        for file in ROOT.glob(pattern)
        if not (tmp_path / file.relative_to(ROOT)).is_file()
    ]
    assert lacking == []
    listed = (tmp_path / "index.md").read_text()
    assert [file.name for file in ROOT.glob("notebooks/*.ipynb") if f"\nnotebooks/{file.name}\n" not in listed] == []
    assert "\nreference/index.md\n" in listed


def test_no_output_asks_for_a_kernel():
    data = {WIDGET: {"model_id": "1"}, "text/html": "<p>a form</p>", "text/plain": "a form"}
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("x", outputs=[nbformat.v4.new_output("display_data", data=data)])],
        metadata={"widgets": {"state": {}}},
    )
    shown = without_kernel(notebook)
    assert shown.cells[0].outputs[0].data == {"text/html": "<p>a form</p>", "text/plain": "a form"}
    assert "widgets" not in shown.metadata and WIDGET in notebook.cells[0].outputs[0].data


def test_the_course_of_a_wheel_is_laid_out_as_a_checkout(source, tmp_path_factory, monkeypatch):
    package = tmp_path_factory.mktemp("installed") / "rfnb"
    (source / "README.md").unlink()
    (source / "notebooks").rename(source / "course")
    source.rename(package)
    monkeypatch.setattr(module, "PACKAGE", package)
    place = package.parent / "copy"
    assert module.root(place) == place
    tree = SiteTree(place, tmp_path_factory.mktemp("tree"), read)
    tree.make()
    assert (tree.folder / "notebooks/01_dims.ipynb").is_file() and (tree.folder / "docs/guide.md").is_file()
    assert (tree.folder / "index.md").read_text().startswith("# rfnb\n\n"), "a wheel has no README beside the course"


def test_without_a_course_it_says_where_it_looked(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PACKAGE", tmp_path / "rfnb")
    with pytest.raises(FileNotFoundError) as error:
        module.root(tmp_path / "copy")
    assert str(error.value) == (
        "site: the course was not found.\n"
        f"  in a checkout  {tmp_path / 'notebooks'}\n"
        f"  installed      {tmp_path / 'rfnb/course'}\n"
        "The site is made of the notebooks and guides, which a checkout has, and a wheel that ships the course.\n"
        "Run it in a checkout:\n    make site"
    )


def test_students_get_no_answer_and_no_page_for_teachers(tmp_path):
    hidden = {"jupyter": {"source_hidden": True}}
    out = [nbformat.v4.new_output("stream", name="stdout", text="It is: SH")]
    cells = [
        nbformat.v4.new_code_cell('p = lesson.predict("p", "Which?", options=["SH", "CH"])'),
        nbformat.v4.new_code_cell('p.reveal("SH", why="so")', metadata=hidden, outputs=out),
        nbformat.v4.new_code_cell('lesson.after("p", view)', outputs=out),
        nbformat.v4.new_code_cell("print(3)", outputs=[nbformat.v4.new_output("stream", name="stdout", text="3")]),
    ]

    def ran(path):
        return nbformat.v4.new_notebook(cells=[cell.copy() for cell in cells])

    for teacher in (False, True):
        folder = tmp_path / str(teacher)
        folder.mkdir()
        SiteTree(ROOT, folder, ran, teacher=teacher).make()
        assert (folder / "docs/teaching/07_search.md").is_file() is teacher
        assert (folder / "docs/teaching.md").is_file() is teacher
        text = (folder / "notebooks/07_search.ipynb").read_text()
        assert ("It is: SH" in text) is teacher and ("why=" in text) is teacher and '"3"' in text
        assert ("For teachers" in (folder / "index.md").read_text()) is teacher
