"""What may lie in the repository: no machine's paths, no registry's address, every shipped data file with its licence."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Written in pieces, so that this file does not find itself.
MACHINE_PATH = re.compile(
    r"(?<![\w.$}/-])/(?:"
    + "|".join(
        [
            "work/" + r"\w",
            "home/" + r"\w",
            "Users/" + r"\w",
            "root/" + r"[\w.]",
            "opt/" + r"(?:wheels|pypi)",
            "mnt/" + r"\w",
        ]
    )
    + ")"
)
REGISTRY = re.compile("|".join(re.escape(a + "." + b) for a, b in [
    ("files.pythonhosted", "org"), ("pypi", "org"), ("registry.npmjs", "org"), ("download.pytorch", "org"), ("deb.debian", "org"),
    ("registry.yarnpkg", "com"), ("npmmirror", "com"), ("huggingface", "co/"),
]))  # fmt: skip
DATA_SUFFIXES = {".safetensors", ".npz", ".npy", ".tsv", ".csv", ".dict", ".arpa", ".gz"}


def tracked() -> list[Path]:
    """The files that git tracks."""
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in run.stdout.split("\0") if name and (ROOT / name).is_file()]


def problems(name: str, text: str) -> list[str]:
    """Lines of one file that name a path of one machine, or (outside binder/) the host of a registry."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        patterns = [MACHINE_PATH] if name.startswith("binder/") else [MACHINE_PATH, REGISTRY]
        found += [f"{name}:{number}: {match[0]}" for pattern in patterns if (match := pattern.search(line))]
    return found


def read_text(path: Path) -> str | None:
    """The file's text, or None for a binary file."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return None


def test_no_tracked_file_names_a_machine_or_a_registry():
    files = tracked()
    assert len(files) > 20
    texts = {path.relative_to(ROOT).as_posix(): read_text(path) for path in files}
    assert [line for name, text in texts.items() if text is not None for line in problems(name, text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "open('/" + "work/main/x')",
        "see /" + "home/jo/notes",
        "cd /" + "root/.cache",
        "find-links=/" + "opt/wheels",
        "https://pypi" + ".org/simple",
    ],
)
def test_the_check_sees_a_path_or_a_host(text):
    assert problems("docs/a.md", text) != []


@pytest.mark.parametrize(
    "text", ["PYTHON=/path/to/python3", "#!/usr/bin/env bash", "../shared/work/x", "$HOME/work/x", "at home/work"]
)
def test_the_check_accepts_other_text(text):
    assert problems("docs/a.md", text) == []


def test_the_licence_is_there_in_full():
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text and len(text.splitlines()) >= 200


def test_shipped_data_has_a_licence_or_card_beside_it():
    data = [path for path in tracked() if path.is_relative_to(ROOT / "rfnb") and path.suffix in DATA_SUFFIXES]
    lacking = [
        path.relative_to(ROOT).as_posix()
        for path in data
        if not any(
            re.search(r"licen[cs]e", other.read_text(), re.IGNORECASE)
            for other in path.parent.glob("*")
            if other.suffix in (".md", ".txt", "") and other.is_file()
        )
    ]
    assert lacking == []


def test_what_tests_import_from_each_other_has_names_of_its_own():
    """`tests`, `tests/laws` and `bench` are looked through for a module; of two of one name one is never found, and of a folder that tests
    import from and a module it is the folder."""
    places = [ROOT / "tests", ROOT / "tests/laws", ROOT / "bench"]
    modules = [
        path.stem for place in places for path in place.glob("*.py") if not path.name.startswith(("test_", "conftest"))
    ]
    texts = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    folders = set(re.findall(r"^(?:from|import) (\w+)\.\w", texts, re.MULTILINE)) & {
        x.name for x in (ROOT / "tests").iterdir()
    }
    assert "devices" in folders
    assert sorted({name for name in modules if modules.count(name) > 1 or name in folders}) == []
