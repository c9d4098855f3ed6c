"""The gallery: every kind is in it, and it can be written."""

from viz.gallery import main, specs

from rfnb.viz.kinds import KINDS


def test_every_kind_is_in_the_gallery():
    assert {spec.kind for spec in specs().values()} == set(KINDS)


def test_the_gallery_is_written(tmp_path, monkeypatch, capsys):
    few = dict(list(specs().items())[:2])
    monkeypatch.setattr("viz.gallery.specs", lambda: few)
    main(tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*.png"))) == 8 and (tmp_path / "out" / "index.html").is_file()
    assert "8 pictures" in capsys.readouterr().out
