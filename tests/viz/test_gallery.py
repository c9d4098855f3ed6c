"""The gallery: every kind is in it, and it can be written."""

import pytest
from viz.gallery import main, specs

from rfnb.viz.kinds import KINDS


@pytest.fixture(scope="module")
def every():
    return specs()


def test_every_kind_is_in_the_gallery(every):
    assert {spec.kind for spec in every.values()} == set(KINDS)


def test_the_gallery_is_written(every, tmp_path, monkeypatch, capsys):
    few = dict(list(every.items())[:2])
    monkeypatch.setattr("viz.gallery.specs", lambda: few)
    main(tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*.png"))) == 8 and (tmp_path / "out" / "index.html").is_file()
    assert "8 pictures" in capsys.readouterr().out
