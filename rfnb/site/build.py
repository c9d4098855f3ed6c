"""Build the whole site: run the notebooks, make a source tree, and run Sphinx on it."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rfnb.site.lesson_pages import FOLDER, write_pages
from rfnb.site.notebook_runs import SiteError, executed, is_kept
from rfnb.site.source_tree import SiteTree, root

_STATIC = Path(__file__).parent / "static"
NEEDED = ("sphinx", "myst_nb", "furo")


def build(
    folder: str | Path,
    *,
    run: Callable[[Path], bool] | None = None,
    teacher: bool = False,
    live: str = "",
    source: Path | None = None,
    cache: Path | None = None,
    say: Callable[[str], None] = print,
) -> Path:
    """Build the course, the guides and the reference as static pages, with views that work without kernel, network or server.

    Args:
        folder: The output folder. An older site there is replaced; any other folder that is not empty is refused.
        run: The paths of the notebooks to run. Default: all; the others are shown with their stored outputs.
        teacher: Include the pages for teachers, and the answers to all questions.
        live: The address at which a notebook can be run, with `{notebook}` for its path: a link on each page of a notebook.
        source: The root of the repository. Default: that of this package, or the installed course.
        cache: Where runs of notebooks are cached. Default: the cache folder of the user.
        say: Called with one line of progress at a time.

    Returns:
        The first page.

    Raises:
        ModuleNotFoundError: Without Sphinx, MyST-NB and Furo.
        FileExistsError: The folder has files and is not a site.
        NotADirectoryError: The path is a file, or inside one.
        ValueError: `live` without `{notebook}`.
        SiteError: A notebook fails, a link leads nowhere, a formula cannot be shown.
    """
    need("site")
    folder = Path(folder).resolve()
    _check_folder(folder)
    if live and "{notebook}" not in live:
        raise ValueError(
            f"site: the address {live} is the same for all notebooks.\nWrite {{notebook}} where the path of a notebook belongs:\n"
            "    rfnb site --live 'https://HUB/v2/gh/OWNER/REPOSITORY/HEAD?labpath={notebook}'"
        )

    def ran(path: Path) -> Any:
        import nbformat

        if run is not None and not run(path):
            return nbformat.read(path, as_version=4)
        begin, kept = time.monotonic(), is_kept(path, cache=cache)
        if not kept:
            say(f"running {path.name} ...")
        notebook = executed(path, cache=cache)
        if not kept:
            say(f"    {time.monotonic() - begin:.0f} s")
        return notebook

    with tempfile.TemporaryDirectory() as place:
        work = Path(place)
        (work / "tree").mkdir()
        tree = SiteTree(source or root(work / "course"), work / "tree", ran, teacher=teacher, live=live)
        tree.make()
        say("making pages ...")
        warnings = _sphinx(work)
        if warnings:
            raise SiteError("site: pages have faults, and nothing was written.\n" + warnings)
        for notebook in tree.folder.rglob("*.ipynb"):  # without outputs, as students get them
            shutil.copyfile(
                tree.source / notebook.relative_to(tree.folder), work / "html" / notebook.relative_to(tree.folder)
            )
        write_pages(work / "html" / FOLDER)
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(work / "html", folder)
    return folder / "index.html"


def need(what: str) -> None:
    """Raise an error that names the missing packages.

    Raises:
        ModuleNotFoundError: One of the packages is not installed.
    """
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"{what}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed.\n"
            "Pages of the course and the reference are made by Sphinx with MyST-NB and Furo; notebooks and views need none of them.\n"
            "Install them:\n    pip install 'rfnb[site]'"
        )


def _check_folder(folder: Path) -> None:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not there.is_dir():
        raise NotADirectoryError(
            f"site: {there} is a file, and the pages go into a folder.\nTake another folder:\n    rfnb site -o site"
        )
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "searchindex.js").is_file():
        raise FileExistsError(
            f"site: {folder} has files and is no site.\nOnly a site that was built before is replaced.\n"
            f"Take another folder:\n    rfnb site -o {folder / 'site'}"
        )


def _sphinx(work: Path) -> str:
    """Build `work/html` from `work/tree`; returns the warnings of Sphinx."""
    import io

    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    warnings = io.StringIO()
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            srcdir=work / "tree", confdir=None, outdir=work / "html", doctreedir=work / "doctrees", buildername="html",
            confoverrides=_options(), status=None, warning=warnings, freshenv=True,
        )  # fmt: skip
        app.build()
    return re.sub("\x1b\\[[0-9;]*m", "", warnings.getvalue()).replace(f"{work / 'tree'}/", "")


def _options() -> dict[str, Any]:
    from rfnb.site.source_tree import PACKAGE

    version = next(
        line.split('"')[1]
        for line in (PACKAGE / "__init__.py").read_text(encoding="utf-8").splitlines()
        if line.startswith("__version__")
    )
    return {
        "project": "rfnb",
        "version": version,
        "release": version,
        "extensions": ["myst_nb", "rfnb.site.extension"],
        "nb_execution_mode": "off",
        "nb_merge_streams": True,
        "nb_ipywidgets_js": {},  # otherwise require.js and the widget manager are loaded from a network
        "myst_enable_extensions": ["dollarmath", "amsmath", "fieldlist", "html_image"],
        "myst_heading_anchors": 4,
        "myst_update_mathjax": False,
        "html_search_scorer": str(_STATIC / "scorer.js"),
        "html_math_renderer": "mathml",
        "html_theme": "furo",
        "html_title": "rfnb",
        "html_static_path": [str(_STATIC)],
        "html_copy_source": False,
        "html_show_sphinx": False,
        "html_theme_options": {"navigation_with_keys": False},  # the views use the arrow keys
        "python_maximum_signature_line_length": 100,
        "toc_object_entries_show_parents": "hide",
        "pygments_style": "friendly",
        "show_warning_types": True,
    }
