"""Messages of the command `rfnb site` when it cannot continue."""

from __future__ import annotations

import subprocess

import pytest
from waiting import LONG
from warm import warm

from rfnb.site import build as module
from rfnb.site.build import build


def test_without_sphinx_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None if name in ("myst_nb", "furo") else object())
    with pytest.raises(ModuleNotFoundError) as error:
        build(tmp_path / "site")
    assert str(error.value) == (
        "site: myst_nb, furo are not installed.\n"
        "Pages of the course and the reference are made by Sphinx with MyST-NB and Furo; notebooks and views need none of them.\n"
        "Install them:\n    pip install 'rfnb[site]'"
    )


def test_a_folder_with_other_files_is_left_as_it_is(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    run = subprocess.run(
        [*warm(), "-m", "rfnb.site", "-o", str(tmp_path)], capture_output=True, text=True, timeout=LONG
    )
    assert run.returncode == 1 and (tmp_path / "thesis.tex").read_text() == "mine"
    assert run.stderr == (
        f"site: {tmp_path} has files and is no site.\nOnly a site that was built before is replaced.\n"
        f"Take another folder:\n    rfnb site -o {tmp_path / 'site'}\n"
    )


def test_the_package_loads_sphinx_only_to_build():
    script = (
        "import rfnb.site, sys; print([m for m in ('sphinx', 'docutils', 'myst_nb', 'nbclient') if m in sys.modules])"
    )
    run = subprocess.run([*warm(), "-c", script], capture_output=True, text=True, timeout=LONG)
    assert run.stdout == "[]\n", run.stderr


@pytest.mark.parametrize("below", ["", "pages"])
def test_a_file_in_the_place_of_the_folder_is_refused_before_a_notebook_is_run(tmp_path, below):
    (tmp_path / "words.txt").write_text("cat")
    with pytest.raises(NotADirectoryError) as error:
        build(tmp_path / "words.txt" / below, run=lambda path: pytest.fail("a notebook is run"))
    assert str(error.value) == (
        f"site: {tmp_path / 'words.txt'} is a file, and the pages go into a folder.\n"
        "Take another folder:\n    rfnb site -o site"
    )


def test_an_address_that_is_the_same_for_all_notebooks_is_refused_before_one_is_run(tmp_path):
    with pytest.raises(ValueError, match=r"is the same for all notebooks.\nWrite \{notebook\} where") as error:
        build(tmp_path / "site", live="https://example.org/course", run=lambda path: pytest.fail("a notebook is run"))
    assert "rfnb site --live" in str(error.value)
