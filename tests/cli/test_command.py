"""The command line: help that teaches, exit statuses, errors as a sentence, and a start that loads nothing it does not need."""

import re
import shlex
import subprocess

import pytest
from cli.command import ROOT, rfnb
from waiting import LONG
from warm import warm

from rfnb.cli.main import COMMANDS, EXAMPLES, parser

NAMES = [command.NAME for command in COMMANDS]
HEAVY = ["torch", "matplotlib", "PIL", "IPython", "jupyterlab", "anywidget", "safetensors"]


def examples(text: str) -> list[str]:
    """The commands in a text of examples, as typed."""
    return [re.split(r"  +|(?: < )", line.strip())[0] for line in text.splitlines() if line.startswith("  rfnb ")]


def test_without_a_word_it_says_how_it_is_used(tmp_path):
    run = rfnb(cwd=tmp_path)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == (
        "usage: rfnb [-h] [--version] [--traceback] COMMAND ...\n"
        "rfnb: error: the following arguments are required: COMMAND\n"
    )


def test_help_lists_every_command(tmp_path):
    run = rfnb("--help", cwd=tmp_path)
    assert run.returncode == 0
    listed = re.findall(r"^    ([\w-]+) ", run.stdout, re.M)
    assert listed == NAMES


def test_the_version_is_that_of_the_package(tmp_path):
    import rfnb as package

    assert rfnb("--version", cwd=tmp_path).stdout == f"rfnb {package.__version__}\n"


def test_a_command_that_there_is_not_is_refused_with_those_that_there_are(tmp_path):
    run = rfnb("pronounce", cwd=tmp_path)
    assert run.returncode == 2
    assert "invalid choice: 'pronounce'" in run.stderr and all(name in run.stderr for name in NAMES)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.NAME)
def test_each_command_teaches_by_examples_that_can_be_typed(command, capsys):
    with pytest.raises(SystemExit) as end:
        parser().parse_args([command.NAME, "--help"])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert command.ABOUT.strip() in printed and "xit status: " in printed
    typed = examples(command.EXAMPLES)
    assert typed and all(line in printed for line in typed)
    for line in typed:
        words = shlex.split(line)[1:]
        options = parser().parse_args(words[: words.index("--")] if "--" in words else words)
        assert options.command == command.NAME


def test_the_examples_of_the_top_can_be_typed():
    typed = examples(EXAMPLES)
    assert {shlex.split(line)[1] for line in typed} >= {"lab", "g2p", "view", "doctor"}
    for line in typed:
        parser().parse_args(shlex.split(line)[1:])


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], ["g2p", "--help"], ["view", "no-such-file.rfnb"], ["lab", "copy", "--copy"]],
    ids=" ".join,
)
def test_it_starts_without_what_it_does_not_need(words, tmp_path):
    script = f"""
import sys
from rfnb.cli.main import main
try:
    main({words!r})
except SystemExit:
    pass
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
"""
    run = subprocess.run([*warm(), "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=LONG)
    loaded = run.stderr.splitlines()[-1]
    assert loaded == ("['safetensors']" if "view" in words else "[]")


def test_an_error_is_a_sentence_and_a_traceback_only_if_it_is_asked_for(tmp_path):
    said = rfnb("view", "nothing.rfnb", cwd=tmp_path)
    assert said.returncode == 1 and said.stdout == ""
    assert said.stderr.startswith("rfnb view: load_trace: no such file.\n") and "Traceback" not in said.stderr
    asked = rfnb("--traceback", "view", "nothing.rfnb", cwd=tmp_path)
    assert asked.returncode == 1 and asked.stderr.startswith("Traceback")


def test_an_error_that_nobody_thought_of_is_called_a_fault(monkeypatch, capsys):
    from rfnb.cli import main, view

    monkeypatch.setattr(view, "run", lambda options: {}["gone"])
    assert main.main(["view", "x.rfnb"]) == 1
    assert capsys.readouterr().err == (
        "rfnb view: KeyError: 'gone'\nThis is a bug in rfnb. `rfnb --traceback ...` shows where.\n"
    )


def test_words_behind_two_dashes_are_for_jupyterlab_only(tmp_path):
    run = rfnb("g2p", "cat", "--", "--beam", cwd=tmp_path)
    assert run.returncode == 2 and run.stderr.endswith(
        "rfnb g2p: error: no arguments are accepted after --, got: --beam\n"
    )


def test_the_script_and_the_module_are_the_same_command():
    import tomllib

    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"rfnb": "rfnb.cli.main:main"}


def test_a_package_that_is_missing_is_named_with_the_command_that_looks_for_all(tmp_path):
    run = rfnb("g2p", "cat", cwd=tmp_path, hidden=("safetensors",))
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr == (
        "rfnb g2p: the package safetensors is not installed.\n"
        "`rfnb doctor` lists what is missing, with the lines to type.\n"
    )
