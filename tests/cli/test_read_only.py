"""A lesson works on a copy where rfnb is installed read-only, as on a hub: nothing is ever opened for writing beside it."""

from __future__ import annotations

import os
import subprocess
import sys

from cli.command import ROOT
from waiting import LONG

SCRIPT = """
import os, sys
from pathlib import Path

INSTALLED = tuple(str(Path(folder).resolve()) + os.sep for folder in sys.argv[2:])


def look(event, arguments):
    if event == "open" and isinstance(arguments[0], (str, bytes)):
        path, mode, flags = arguments
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) if mode is None else set(mode) & set("wax+")
        if writes and os.path.abspath(os.fsdecode(path)).startswith(INSTALLED):
            raise PermissionError(f"{path} is opened for writing")
    if event in ("os.mkdir", "os.rename", "os.remove") and os.path.abspath(os.fsdecode(arguments[0])).startswith(INSTALLED):
        raise PermissionError(f"{event} of {arguments[0]}")


sys.addaudithook(look)
try:
    open(INSTALLED[0] + "planted.txt", "w")
except PermissionError:
    print("guarded")
from rfnb.cli import course
home = Path(sys.argv[1])
print(len(course.copy(home / "course").new) > 80, course.copy(home / "course").new)
os.chdir(home / "course/notebooks")
import rfnb as rf
from rfnb.models import load_g2p, pronounce
lesson = rf.lesson("07_search")
lesson.check("top_k", lesson.use("top_k", ...))
with rf.record() as trace:
    pronounce(load_g2p(), "cat")
rf.show(trace, kinds="beams").text()
print(lesson.file("data/cmudict_test_words.tsv").is_relative_to(home))
"""


def test_nothing_is_written_where_rfnb_is_installed(tmp_path):
    env = {**os.environ, "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-c",
        SCRIPT,
        str(tmp_path),
        str(ROOT / "rfnb"),
        str(ROOT / "notebooks"),
        str(ROOT / "docs"),
    ]
    run = subprocess.run(command, capture_output=True, text=True, timeout=LONG, env=env)
    assert run.returncode == 0, run.stderr[-3000:]
    lines = run.stdout.splitlines()
    assert lines[0] == "guarded" and lines[1] == "True []" and lines[-1] == "True"
