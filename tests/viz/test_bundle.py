"""The committed bundle is small, and asks nothing of a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIDGETS, STATIC = ROOT / "widgets", ROOT / "rfnb" / "viz" / "static"


@pytest.mark.parametrize("name", ["rfnb.js", "rfnb-static.js"])
def test_the_bundle_stays_small(name):
    assert (STATIC / name).stat().st_size <= 190_000


@pytest.mark.parametrize("name", sorted(path.name for path in STATIC.glob("rfnb*")))
def test_the_bundle_names_no_address(name):
    text = (STATIC / name).read_text(encoding="utf-8")
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|import\(", text)


def test_the_lock_file_names_no_registry():
    assert '"resolved"' not in (WIDGETS / "package-lock.json").read_text()
