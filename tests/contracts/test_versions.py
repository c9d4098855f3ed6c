"""`make versions` takes each Python that it finds, and names those that it does not."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def versions(tmp_path, monkeypatch):
    """The command as a module, with nothing on PATH and no Python of pyenv or uv."""
    loader = importlib.machinery.SourceFileLoader("versions_command", str(ROOT / ".ci/versions"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader.exec_module(module)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", str(tmp_path / "uv"))
    monkeypatch.setattr(module, "FOLDER", tmp_path / "environments")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    return module


def interpreter(path: Path, says: str, status: int = 0) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {says}\nexit {status}\n")
    path.chmod(0o755)
    return str(path)


def test_pythons_are_found_on_the_path_and_of_pyenv_and_uv(versions, tmp_path):
    shim = interpreter(tmp_path / "bin/python3.12", "3.12", status=127)  # as of pyenv, where the version is not chosen
    found = {
        "3.11": interpreter(tmp_path / "bin/python3.11", "3.11"),
        "3.12": interpreter(tmp_path / "pyenv/versions/3.12.1/bin/python3.12", "3.12"),
        "3.13": interpreter(tmp_path / "uv/cpython-3.13.0-linux/bin/python3.13", "3.13"),
    }
    assert versions.interpreters() == found and shim not in found.values()
    assert versions.rows_of(found) == ["oldest@3.11", "newest@3.11", "newest@3.12", "newest@3.13"]


def test_a_python_that_says_another_version_is_none(versions, tmp_path):
    interpreter(tmp_path / "bin/python3.13", "3.14")
    assert set(versions.interpreters().values()) == {None}


def test_every_python_that_is_missing_is_named(versions, tmp_path, monkeypatch, capsys):
    interpreter(tmp_path / "bin/python3.12", "3.12")
    monkeypatch.setattr(versions, "made", lambda folder, words, python: "")
    monkeypatch.setattr(versions, "tested", lambda folder, tests: "7 passed")
    monkeypatch.setattr(versions, "versions", lambda folder: {"python": "3.12.1"})
    monkeypatch.setattr(sys, "argv", ["versions"])
    assert versions.main() == 0
    said = capsys.readouterr().out
    assert "| | oldest@3.12 | newest@3.12 |" in said
    assert "Python 3.11 was not found, so it was not tried" in said and "Python 3.13 was not found" in said


def test_a_python_that_is_asked_for_and_missing_is_a_failure(versions, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["versions", "newest@3.13"])
    assert versions.main() == 1
    assert "no Python 3.13 here" in capsys.readouterr().out
