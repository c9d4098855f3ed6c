"""save_html: one file that works in a browser without network."""

from __future__ import annotations

import base64
import hashlib
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
    assert page.count("</script>") == 1, "that of the code: no token ends a script"


def policy(page: str) -> dict[str, str]:
    """The rules of the page's Content-Security-Policy."""
    [rules] = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', page)
    assert page.index("Content-Security-Policy") < page.index("<title>"), "before all that it is to rule"
    return {name: value for name, _, value in (rule.strip().partition(" ") for rule in rules.split(";"))}


def test_the_page_may_run_its_own_script_and_nothing_else(tmp_path):
    page = rf.save_html(tmp_path / "page.html", views()).read_text(encoding="utf-8")
    rules = policy(page)
    [code] = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    assert rules == {
        "default-src": "'none'", "img-src": "data:", "style-src": "'unsafe-inline'", "script-src": f"'sha256-{digest}'",
        "base-uri": "'none'", "form-action": "'none'",
    }  # fmt: skip


def test_a_page_has_a_heading_a_main_part_and_sections_of_different_names(tmp_path):
    page = rf.save_html(tmp_path / "page.html", [views()[1], views()[1]], title="All & more").read_text(
        encoding="utf-8"
    )
    assert page.count("<h1>All &amp; more</h1>") == page.count("<main ") == 1
    labels = re.findall(r'<section aria-label="([^"]+)"', page)
    assert len(set(labels)) == len(labels) == 2


def no_picture(view):
    raise RuntimeError("no picture")


def test_the_old_page_stays_if_the_new_one_fails(tmp_path, monkeypatch):
    path = rf.save_html(tmp_path / "page.html", views())
    path.chmod(0o640)
    before = path.read_bytes()
    disk_full = OSError(28, "No space left on device")

    def fail(*_):
        raise disk_full

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", fail)
        with pytest.raises(OSError, match="No space left"):
            rf.save_html(path, views()[1])
    view = views()[1]
    with monkeypatch.context() as patch, pytest.raises(RuntimeError):
        patch.setattr(type(view), "html", no_picture)
        rf.save_html(path, view)
    assert path.read_bytes() == before and [each.name for each in tmp_path.iterdir()] == ["page.html"]
    link = tmp_path / "link.html"
    link.symlink_to(path)
    rf.save_html(link, view)
    assert link.is_symlink() and path.read_bytes() != before and path.stat().st_mode & 0o777 == 0o640


def test_code_cannot_end_its_script_element():
    assert "</script" not in _in_script('x = "</script>"; y = "<!--"') and "<!--" not in _in_script("<!--")


def test_nothing_to_save_is_refused(tmp_path):
    with pytest.raises(ValueError, match="save_html: nothing to save"):
        rf.save_html(tmp_path / "page.html", [])
