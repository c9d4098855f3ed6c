"""A Tensor or a Dim is drawn as the last line of a cell."""

import sys
from types import SimpleNamespace

import numpy as np
from asserting import ragged, randn, tensor

import rfnb as rf
from rfnb import Dim, Tensor

batch, feat = Dim(3, name="batch"), Dim(4, name="feat")
time = ragged([7, 5, 3], batch)


def test_html_of_a_tensor_says_dims_lengths_padding_dtype_and_device():
    x = randn(batch, time, feat)
    x.name = "x"
    html = x._repr_html_()
    for part in ("batch=3", "time&lt;=7", "feat=4", "float32", "cpu", "7, 5, 3", "29 % padding"):
        assert part in html


def test_html_of_indices_says_what_they_index():
    assert "indices into feat=4" in tensor(np.zeros(3, np.int64), batch, sparse_dim=feat)._repr_html_()


def test_html_of_a_dim_shortens_many_lengths():
    html = ragged(list(range(40)), Dim(40, name="batch"))._repr_html_()
    assert "0, 1, 2, 3, 4, 5, 6, 7, ... (40 in all)" in html and "50 % of the cells" in html


def test_html_is_escaped_and_has_no_colours_or_scripts():
    html = tensor(np.zeros(3), Dim(3, name="<script>x</script>"), name="<b>")._repr_html_()
    assert "<script" not in html and "&lt;script&gt;" in html and "<b>&lt;b" not in html.replace("<p", "")
    assert "color" not in html and "background" not in html


def test_html_never_throws():
    broken = Tensor("x", dims=[batch])
    broken._raw = "no array"
    assert broken._repr_html_().startswith("<pre>") or "x" in broken._repr_html_()


def test_a_template_and_a_dim_without_size_have_html():
    assert "template" in Tensor("x", dims=[batch, Dim(None, name="new")])._repr_html_()
    assert "new=?" in Dim(None, name="new")._repr_html_()


def test_marimo_gets_the_views_of_what_acts(monkeypatch):
    """It asks for no `_ipython_display_`, and would show their one line of text."""
    monkeypatch.setitem(sys.modules, "marimo", SimpleNamespace(vstack=list, running_in_notebook=lambda: True))
    run = rf.run(lambda: rf.ones([feat]))
    run.wait()
    explorer = rf.explore(lambda scale: rf.ones([feat]) * scale, scale=2.0)
    shown = [run._display_(), rf.watch(rf.Linear(feat, feat))._display_(), *explorer._display_()]
    assert len(shown) > 2 and all(
        "application/vnd.jupyter.widget-view+json" in each._repr_mimebundle_() for each in shown
    )
