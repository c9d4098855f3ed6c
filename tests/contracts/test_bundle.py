"""The committed front-end bundle is what its sources give."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from waiting import LONG

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bundle():
    spec = importlib.util.spec_from_file_location("bundle", ROOT / "widgets" / "bundle.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def built(tmp_path, bundle):
    """A small tree with sources, outputs and a stamp that fit: (widgets, static)."""
    widgets, static = tmp_path / "widgets", tmp_path / "static"
    (widgets / "src").mkdir(parents=True)
    static.mkdir()
    (widgets / "src" / "index.ts").write_text("export {};\n")
    for name in bundle.REQUIRED:
        (static / name).write_text("built\n")
    bundle.write_stamp(widgets, static)
    return widgets, static


def test_the_committed_bundle_fits_its_sources(bundle):
    assert bundle.problem() is None, "run `make build` (or: python widgets/bundle.py) and commit rfnb/viz/static/"


def test_the_bundle_is_committed(bundle):
    run = subprocess.run(["git", "ls-files", "rfnb/viz/static"], cwd=ROOT, capture_output=True, text=True, check=True)
    tracked = {Path(line).name for line in run.stdout.splitlines()}
    assert tracked >= {*bundle.REQUIRED, bundle.STAMP}


def test_building_again_gives_the_committed_bundle(bundle, tmp_path):
    if shutil.which("npm") is None or not (ROOT / "widgets" / "node_modules").is_dir():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("needs Node.js and `make setup`")
    command = ["node", "build.mjs", "--outdir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT / "widgets", check=True, capture_output=True, timeout=LONG)
    assert bundle.output_hashes(tmp_path) == bundle.output_hashes()


def test_a_bundle_that_fits_has_no_problem(bundle, built):
    assert bundle.problem(*built) is None


def test_a_changed_source_is_seen(bundle, built):
    (built[0] / "src" / "index.ts").write_text("export const x = 1;\n")
    assert bundle.problem(*built) == "The front-end bundle is older than its sources in widgets/."


def test_a_source_more_is_seen(bundle, built):
    (built[0] / "src" / "more.ts").write_text("")
    assert bundle.problem(*built) == "The front-end bundle is older than its sources in widgets/."


def test_line_ends_do_not_matter(bundle, built):
    (built[0] / "src" / "index.ts").write_bytes(b"export {};\r\n")
    assert bundle.problem(*built) is None


def test_an_edited_output_is_seen(bundle, built):
    (built[1] / "rfnb.js").write_text("edited\n")
    assert bundle.problem(*built) == "The front-end bundle was changed after it was built (merge or edit by hand)."


def test_a_missing_output_is_seen(bundle, built):
    (built[1] / "rfnb.css").unlink()
    assert bundle.problem(*built) == "The front-end bundle lacks rfnb.css."


def test_a_missing_stamp_is_seen(bundle, built):
    (built[1] / "bundle.json").unlink()
    assert bundle.problem(*built) == "The front-end bundle has no stamp (bundle.json)."
