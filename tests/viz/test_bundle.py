"""The committed bundle is small, and asks nothing of a network."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rfnb.viz.kinds import KINDS

ROOT = Path(__file__).parents[2]
WIDGETS, STATIC = ROOT / "widgets", ROOT / "rfnb" / "viz" / "static"


# The real size and 1 %: a new feature says here what it costs. The last ones, about 13 kB: ghosts with their lanes, the rail of branches,
# weights that are dragged, checks of each part of a view. 4 kB: names and circles in wide beams, the contents of a recording, the head that
# says most. 12 kB: the stage, effects in maps, a field for what was expected. 4 kB: a head scaled by hand, gates as their line,
# what differs most first. 1.5 kB: the keys of pictures and the titles of parts for a finger. 1 kB: a matrix state by its
# heads and norms. What only a kernel can answer is not in the static one.
@pytest.mark.parametrize(("name", "most"), [("rfnb.js", 304_000), ("rfnb-static.js", 285_000)])
def test_the_bundle_stays_small(name, most):
    assert (STATIC / name).stat().st_size <= most


@pytest.mark.parametrize("name", sorted(path.name for path in STATIC.glob("rfnb-static*.js")))
def test_what_needs_a_kernel_is_not_where_there_is_none(name):
    words = {"pruned at ${": "lanes", 'drag"': "weights that are dragged"}
    text = (STATIC / name).read_text(encoding="utf-8")
    assert {what for word, what in words.items() if word in text} == set()
    assert all(word in (STATIC / "rfnb.js").read_text(encoding="utf-8") for word in words)


def test_names_that_are_private_to_their_classes_are_short():
    source = (WIDGETS / "src" / "pane_view.ts").read_text(encoding="utf-8")
    code = (STATIC / "rfnb.js").read_text(encoding="utf-8")
    assert "drawLegend" in source and "drawLegend" not in code


def test_each_kind_but_those_that_have_others_has_a_script_of_its_own_for_stored_outputs():
    alone = {kind for kind in KINDS if (STATIC / f"rfnb-static-{kind}.js").is_file()}
    assert alone == set(KINDS) - {"group", "branches"}
    assert all((STATIC / f"rfnb-static-{kind}.js").stat().st_size < 100_000 for kind in alone)


@pytest.mark.parametrize("name", sorted(path.name for path in STATIC.glob("rfnb*")))
def test_the_bundle_names_no_address(name):
    text = (STATIC / name).read_text(encoding="utf-8")
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert not re.search(r"\bfetch\(|XMLHttpRequest|import\(", text)


def test_the_lock_file_names_no_registry():
    assert '"resolved"' not in (WIDGETS / "package-lock.json").read_text()
