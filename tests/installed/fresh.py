"""Environments made anew, and packages built in copies of what git tracks: nothing comes from the checkout by accident."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from waiting import LONG

ROOT = Path(__file__).parents[2]


def clone(folder: Path) -> Path:
    """A copy of the files that git tracks, as they are now."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def build(tree: Path, target: str, out: Path) -> Path:
    """A wheel or an sdist of a tree, made where there is no Node.js and no git."""
    tools = out / "tools"  # the only folder on the path of programs
    tools.mkdir(parents=True)
    env = surroundings(PATH=str(tools))
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=5 * LONG)
    assert done.returncode == 0, done.stdout + done.stderr
    [made] = [path for path in out.iterdir() if path.is_file()]
    return made


def environment(folder: Path, wheel: Path | None = None) -> Path:
    """An environment with the packages of the present one, without its rfnb, and with a wheel of it; gives its folder of programs."""
    venv.EnvBuilder(symlinks=True).create(folder)
    [packages] = (folder / "lib").glob("*/site-packages")
    # A folder that a .pth names is only searched: editable installs in it do not count.
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    if wheel is not None:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            folder / "bin/python",
            "install",
            "-q",
            "--no-deps",
            "--no-index",
            "--no-compile",  # half of the modules are never imported
        ]
        run(*pip, "--ignore-installed", wheel, cwd=folder)
    return folder / "bin"


def surroundings(**more: str) -> dict[str, str]:
    """The environment variables of this process without those that lead Python to the checkout."""
    return {name: value for name, value in {**os.environ, **more}.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def run(*words: object, cwd: Path, **more: str) -> str:
    """The output of a program, which must succeed."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env=surroundings(**more),
        capture_output=True,
        text=True,
        timeout=5 * LONG,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
