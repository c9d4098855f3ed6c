"""The repository contains no machine's paths and no registry's address, and a licence for every shipped data file."""

import ast
import json
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


def test_all_that_is_shipped_under_another_licence_is_told_with_its_text():
    told = (ROOT / "LICENSES.md").read_text()
    table, _, texts = told.partition("\n## ")
    data = [path for path in tracked() if path.is_relative_to(ROOT / "rfnb") and path.suffix in DATA_SUFFIXES]
    data += [path for path in (ROOT / "notebooks/data").iterdir() if path.suffix in (".txt", ".tsv", ".json")]
    assert len(data) >= 4
    assert [path.name for path in data if f"`{path.relative_to(ROOT).as_posix()}`" not in table] == []
    bundled = json.loads((ROOT / "widgets/package.json").read_text())["dependencies"]
    assert [name for name in bundled if f"| {name}" not in table or f"## {name}\n" not in texts] == []
    for card in (ROOT / "notebooks/data").glob("*.md"):
        copyright_line = re.search(r"Copyright \(C\).*", card.read_text())
        assert copyright_line is None or copyright_line[0] in texts


# What Windows has not. What is looked up by `hasattr` or in a `try` is known to be missing somewhere.
UNIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
UNIX_NAMES = re.compile(
    r"os\.(fork|forkpty|geteuid|getuid|getpgid|killpg|mkfifo|sched_getaffinity|setsid|uname|wait\w*)|signal\.SIG(ALRM|KILL|HUP|USR\d)"
)


def of_unix(source: str) -> list[str]:
    """Lines that need Unix or depend on a machine's encoding, as "line: text"."""
    tree = ast.parse(source)
    guarded = {
        id(inner) for node in ast.walk(tree)
        if isinstance(node, ast.Try) or (isinstance(node, ast.If | ast.IfExp) and "hasattr(" in ast.unparse(node.test))
        for inner in ast.walk(node)
    }  # fmt: skip
    found = []
    for node in ast.walk(tree):
        if id(node) not in guarded:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            found += [f"{node.lineno}: import {name}" for name in names if name in UNIX_MODULES]
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name = f"{node.value.id}.{node.attr}"
                found += [f"{node.lineno}: {name}"] if UNIX_NAMES.fullmatch(name) else []
        if isinstance(node, ast.Call) and _is_text(node) and not any(each.arg == "encoding" for each in node.keywords):
            found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def _is_text(call: ast.Call) -> bool:
    """Whether a call opens text, or is one of a program that prints text."""
    called = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    options = {each.arg: each.value for each in call.keywords}
    if called in ("read_text", "write_text"):
        return len(call.args) <= (called == "write_text")  # its encoding may be the argument behind
    if called in ("run", "Popen", "check_output"):
        return bool(options.keys() & {"text", "universal_newlines"})
    if called != "open" or isinstance(call.func, ast.Attribute):  # of os, of a zip file, of an object of ours
        return False
    mode = options.get("mode", call.args[1] if len(call.args) > 1 else None)
    return not (isinstance(mode, ast.Constant) and "b" in str(mode.value))


def test_nothing_is_left_to_unix_or_to_the_encoding_of_a_machine():
    opens = r"(?<![.\w])open\(|_text\(|text=|universal_newlines"
    looked_at = re.compile("|".join([opens, *(rf"import {name}\b" for name in UNIX_MODULES), UNIX_NAMES.pattern]))
    files = [
        path for path in tracked() if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in ("rfnb", "widgets")
    ]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}
    assert [f"{name}:{line}" for name, text in texts.items() if looked_at.search(text) for line in of_unix(text)] == []


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("import fcntl", 1), ("from resource import getrusage", 1), ("try: import fcntl\nexcept ImportError: pass", 0), ("os.fork()", 1),
        ("x = os.geteuid() if hasattr(os, 'geteuid') else 0", 0), ("open(path)", 1), ("open(path, 'rb')", 0), ("path.read_text()", 1),
        ("path.write_text(text, encoding='utf-8')", 0), ("subprocess.run(words, text=True)", 1), ("subprocess.run(words)", 0),
    ],
)  # fmt: skip
def test_the_check_sees_what_windows_has_not(source, seen):
    assert len(of_unix(source)) == seen


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
