"""rfnb is installed with its types: a user's script is checked by mypy in strict mode."""

import importlib.util
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from waiting import LONG

ROOT = Path(__file__).parents[2]
RIGHT = """
from typing import assert_type

import rfnb as rf
from rfnb.viz import View


class Encoder(rf.Module):
    def __init__(self, in_dim: rf.Dim, out_dim: rf.Dim) -> None:
        super().__init__()
        self.layer = rf.Linear(in_dim, out_dim)

    def __call__(self, source: rf.Tensor, *, axis: rf.Dim) -> rf.Tensor:
        return rf.reduce_mean(rf.relu(self.layer(source)), axis=axis)


batch, feature, model = rf.Dim(2, name="batch"), rf.Dim(3, name="feature"), rf.Dim(5, name="model")
time = rf.ragged_dim([7, 4], over=batch, name="time")
x = rf.random_normal([batch, time, feature])
assert_type(x, rf.Tensor)
assert_type(x * 2 + x, rf.Tensor)
assert_type(time + 1, rf.Dim)
assert_type(Encoder(feature, model)(x, axis=time), rf.Tensor)
loop = rf.Loop(axis=time)
loop.state.h = rf.zeros([batch])
for _ in loop:
    loop.state.h = loop.state.h + rf.reduce_sum(loop.unstack(x), axis=feature)
    out = loop.stack(loop.state.h)
with rf.record() as trace:
    assert_type(rf.show(trace), View)
assert_type(trace, rf.Trace)
"""
# The code of the error that each line is.
WRONG = {
    'rf.Dim(2, nam="batch")': "call-arg",
    'rf.reduce_sum(x, axis="time")': "arg-type",
    "rf.no_such_op(x)": "attr-defined",
    "number: int = rf.matmul(x, x, reduce=feature)": "assignment",
}


@pytest.fixture
def python(tmp_path):
    """The interpreter of an environment that has rfnb, and nothing else."""
    venv.EnvBuilder(symlinks=True).create(tmp_path / "env")
    [packages] = (tmp_path / "env").rglob("site-packages")
    (packages / "rfnb.pth").write_text(f"{ROOT}\n")
    return tmp_path / "env" / "bin" / "python"


def errors(source: str, python: Path) -> list[tuple[str, str]]:
    """The lines of a script that mypy refuses, with the codes of its errors."""
    if importlib.util.find_spec("mypy") is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("needs mypy")
    folder = python.parent
    (folder / "user.py").write_text(source)
    # What is on one of these paths counts as sources, not as installed.
    env = {name: value for name, value in os.environ.items() if name not in ("MYPYPATH", "PYTHONPATH")}
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir=cache", f"--python-executable={python}", "user.py"],
        cwd=folder, env=env, capture_output=True, text=True, timeout=LONG,
    )  # fmt: skip
    assert run.stderr == ""
    found = [
        re.fullmatch(r"user\.py:(\d+): error: .*\[([\w-]+)\]", line)
        for line in run.stdout.splitlines()
        if ": error: " in line
    ]
    assert all(found), run.stdout
    return [(source.splitlines()[int(match[1]) - 1], match[2]) for match in found]


@pytest.mark.slow
def test_the_types_of_an_installed_package_are_seen(python):
    assert errors("\n".join([RIGHT, *WRONG]), python) == list(WRONG.items())
