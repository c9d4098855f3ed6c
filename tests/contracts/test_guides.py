"""The code in the guides runs."""

import re
from pathlib import Path

import pytest

import rfnb as rf

GUIDES = ["training.md"]
DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("guide", GUIDES)
def test_guide_runs_from_top_to_bottom(guide, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": guide}
    for block in re.findall(r"```python\n(.*?)```", (DOCS / guide).read_text(), flags=re.DOTALL):
        exec(compile(block, guide, "exec"), names)
    assert names["logits"].dims == (names["batch"], names["time"], names["vocab"])
    marked = names["run"].outputs["logits"]
    assert tuple(marked.raw_tensor.shape) == (4, 6, 11)
    assert isinstance(marked, rf.Tensor)
