"""Runs the program of a function in Node, as a page does."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from rfnb.viz.page.output import STATIC
from rfnb.viz.runnable.program import PageProgram
from rfnb.viz.spec import Spec, pack

NODE = shutil.which("node")
KINDS = {"f": "float", "i": "int", "b": "int"}


def run_in_node(
    programs: dict[str, PageProgram], texts, folder: Path, *, plain=False, turns=1, inputs=None
) -> dict[str, dict]:
    """By name what the engine of a page says of each text."""
    if NODE is None:
        pytest.skip("needs Node")
    given = {
        name: {"spec": each.spec, "sizes": [[KINDS[value.dtype.kind], int(value.size)] for value in each.weights]}
        for name, each in programs.items()
    }
    (folder / "programs.json").write_text(
        json.dumps({"programs": given, "texts": list(texts), "plain": plain, "turns": turns, "inputs": inputs or {}}),
        encoding="utf-8",
    )
    with (folder / "weights.bin").open("wb") as file:
        for each in programs.values():
            for value in each.weights:
                file.write(np.ascontiguousarray(value, np.float32 if value.dtype.kind == "f" else np.int32).tobytes())
    script = Path(__file__).with_name("runnable.mjs")
    done = subprocess.run(
        [NODE, str(script), str(STATIC / "rfnb-engine.js"), str(folder)], capture_output=True, text=True, check=False
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)


def views_in_node(page: Spec | bytes, asked, folder: Path) -> list[Spec]:
    """The views of a page for what is typed: (text, numbers)."""
    return [
        Spec("group", {"parts": each["parts"]}, {
            name: np.array([float(value.replace("Infinity", "inf")) for value in block["data"]]).reshape(block["shape"])
            for name, block in each["blocks"].items()
        })
        for each in _in_node("views", page, asked, folder)
    ]  # fmt: skip


def told_in_node(page: Spec, messages, folder: Path, *, frames=False) -> list[list[dict]]:
    """The replies of a page's host to each of these messages; with `frames` also its drawings."""
    return _in_node("drawn" if frames else "told", page, messages, folder)


def program_in(html: str) -> bytes:
    """The program that a page has."""
    digits = re.search('class="rfnb-program"[^>]* data-bytes="([^"]+)"', html)[1]
    return base64.b85decode(digits.translate(str.maketrans(",./", "&<>")))


def _in_node(function: str, page: Spec | bytes, asked, folder: Path):
    if NODE is None:
        pytest.skip("needs Node")
    (folder / "page.bin").write_bytes(page if isinstance(page, bytes) else pack(page))
    (folder / "asked.json").write_text(json.dumps(list(asked)), encoding="utf-8")
    code = (
        f"import {{ readFileSync }} from 'node:fs'; import {{ {function} }} from {json.dumps((STATIC / 'rfnb-engine.js').as_uri())};"
        "const asked = JSON.parse(readFileSync('asked.json', 'utf8'));"
        f"console.log(JSON.stringify(await {function}(readFileSync('page.bin'), asked)));"
    )
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", code], capture_output=True, text=True, check=False, cwd=folder
    )
    assert not done.returncode, done.stderr
    return json.loads(done.stdout)
