"""The committed bundle is what the sources give, small, and asks nothing of a network."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIDGETS, STATIC = ROOT / "widgets", ROOT / "rfnb" / "viz" / "static"


def bundle_module():
    spec = importlib.util.spec_from_file_location("rfnb_bundle", WIDGETS / "bundle.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_stamp_says_that_the_bundle_is_of_these_sources():
    assert bundle_module().problem() is None, "run: python widgets/bundle.py"


@pytest.mark.skipif(
    not (WIDGETS / "node_modules" / "esbuild").is_dir() or shutil.which("node") is None,
    reason="needs Node.js and npm ci in widgets/",
)
def test_building_again_gives_the_committed_bundle(tmp_path):
    subprocess.run(["node", "build.mjs", "--outdir", str(tmp_path)], cwd=WIDGETS, check=True)
    built = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert sorted(built) == ["rfnb-static.js", "rfnb.css", "rfnb.js"]
    assert all((STATIC / name).read_bytes() == content for name, content in built.items())


@pytest.mark.parametrize("name", ["rfnb.js", "rfnb-static.js"])
def test_the_bundle_stays_small(name):
    assert (STATIC / name).stat().st_size <= 100_000


@pytest.mark.parametrize("name", ["rfnb.js", "rfnb-static.js", "rfnb.css"])
def test_the_bundle_names_no_address(name):
    text = (STATIC / name).read_text(encoding="utf-8")
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|import\(", text)


def test_the_lock_file_names_no_registry():
    assert '"resolved"' not in (WIDGETS / "package-lock.json").read_text()
