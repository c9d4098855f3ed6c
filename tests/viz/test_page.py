"""save_html: one file that works in a browser without network."""

from __future__ import annotations

import re

import numpy as np
import pytest

import rfnb as rf
from rfnb.viz.save import _in_script


def views() -> list:
    weights = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]], np.float32)
    attention = rf.viz.attention(weights, source=["a", "</script>", "c"], target=["x", "y"])
    return [attention, rf.viz.states({"h": np.linspace(-1, 1, 10, dtype=np.float32).reshape(2, 5)}, steps=["x", "y"])]


def test_the_page_refers_to_nothing_outside(tmp_path):
    page = rf.save_html(tmp_path / "page.html", views()).read_text(encoding="utf-8")
    assert not re.search(r"""(src|href)=["'](?!data:)""", page)
    assert "<body>" in page and page.count("<img") == 2
    assert page.count("</script>") == 3, "one per frame and one for the code: no token ends a script"


def test_code_cannot_end_its_script_element():
    assert "</script" not in _in_script('x = "</script>"; y = "<!--"') and "<!--" not in _in_script("<!--")


def test_nothing_to_save_is_refused(tmp_path):
    with pytest.raises(ValueError, match="save_html: nothing to save"):
        rf.save_html(tmp_path / "page.html", [])
