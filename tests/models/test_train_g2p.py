"""The command line: from the dictionary to checkpoint and card, also with a kill in between."""

import contextlib
import dataclasses
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from models.tiny import TINY, WORDS
from safetensors.numpy import load_file
from seed import part_of
from warm import warm

from rfnb.data import cmudict
from rfnb.models import train_g2p
from rfnb.models.g2p_checkpoint import CheckpointError, load_g2p
from rfnb.models.g2p_training import Trainer

# One thread: the default of two wait for each other on tiny arrays, which takes five times as long.
OPTIONS = "--epochs 4 --batch-size 2 --save-every 3 --sample-every 5 --bar-every 60 --threads 1".split()


@pytest.fixture(autouse=True)
def small_world(monkeypatch):
    split = cmudict.Split(train=WORDS, dev=WORDS, test=WORDS, figures={}, differences=())
    monkeypatch.setattr(train_g2p, "load_cmudict", lambda: split)
    monkeypatch.setattr(train_g2p, "G2PConfig", lambda dropout=0.25: dataclasses.replace(TINY, dropout=dropout))


def run(out, *options):
    return train_g2p.main(["--out", str(out), *OPTIONS, *options])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a training that nothing has cut off."""
    with pytest.MonkeyPatch.context() as patch:
        small_world.__wrapped__(patch)
        folder = tmp_path_factory.mktemp("finished")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            assert run(folder) == 0
    (folder.parent / f"{folder.name}.txt").write_text(printed.getvalue())
    return folder


@pytest.fixture
def straight(finished, tmp_path):
    """A copy of it."""
    return shutil.copytree(finished, tmp_path / "straight")


def killed_at(step, monkeypatch, error=KeyboardInterrupt):
    original = Trainer.step

    def step_or_die(self, progress=None):
        if self.steps_done == step:
            raise error
        return original(self, progress)

    monkeypatch.setattr(Trainer, "step", step_or_die)
    return lambda: monkeypatch.setattr(Trainer, "step", original)


def test_run_writes_checkpoint_card_and_log(finished):
    assert load_g2p(finished / "g2p.safetensors").config.decoder == TINY.decoder
    lines = [json.loads(line) for line in (finished / "log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2, 3, 4]
    assert {"per", "wer", "loss", "seconds", "step"} <= lines[-1].keys()
    text = (finished.parent / f"{finished.name}.txt").read_text()
    assert "step 5: thoughtfully " in text
    assert "test, beam 5: " in text
    card = (finished / "g2p.md").read_text()
    assert "| test, beam 5 | " in card
    assert "python -m rfnb.models.train_g2p --epochs 4 --batch-size 2 " in card
    assert "CMUdict" in card and "Apache-2.0" in card


@pytest.mark.parametrize(
    ("word", "is_inflected"), [("cats", True), ("cat's", True), ("cat", False), ("cas", False), ("seas", False)]
)
def test_inflected_words_are_a_training_word_and_s(word, is_inflected):
    assert train_g2p.inflected(word, WORDS) is is_inflected


@pytest.mark.parametrize("step", part_of([13, 2, 7, 16], 4))
def test_kill_and_second_start_give_the_same_checkpoint_and_log(straight, tmp_path, monkeypatch, capsys, step):
    revive = killed_at(step, monkeypatch)
    assert run(tmp_path / "killed") == 130
    assert "The same command resumes from the last state" in capsys.readouterr().out
    log = tmp_path / "killed/log.jsonl"
    if log.is_file():  # the kill has cut it off in the middle of a line
        log.write_text(log.read_text()[:30])
    revive()
    assert run(tmp_path / "killed") == 0
    a, b = load_file(straight / "g2p.safetensors"), load_file(tmp_path / "killed/g2p.safetensors")
    assert a.keys() == b.keys()
    assert all((a[name] == b[name]).all() for name in a)
    assert log_of(tmp_path / "killed") == log_of(straight)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks of itself")
def test_a_kill_at_any_moment_loses_no_epoch_and_changes_no_result(tmp_path):
    """At every 11th thing that is done with a file; the log and its loss go on as if nothing had happened."""
    script = Path(__file__).with_name("killed_runs.py")
    options = ["--epochs", "2", "--batch-size", "3", "--save-every", "2", "--sample-every", "100", "--threads", "1"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [*warm("torch._dynamo"), str(script), str(tmp_path), "11", *options]
    killed = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert int(killed.stdout) > 40
    folders = sorted(tmp_path.glob("killed-*"))
    assert len(folders) == (int(killed.stdout) - 1) // 11
    for folder in folders:
        assert log_of(folder) == log_of(tmp_path / "straight")
        name = "g2p.safetensors"
        assert (folder / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()
        assert sorted(os.listdir(folder)) == ["g2p.md", "g2p.safetensors", "log.jsonl", "state.pt"]
    assert [line["epoch"] for line in log_of(tmp_path / "straight")] == [1, 2]


def log_of(folder):
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def test_the_line_of_the_last_epoch_is_not_lost_either(straight):
    whole = (straight / "log.jsonl").read_text()
    (straight / "log.jsonl").write_text("".join(whole.splitlines(keepends=True)[:-1]))
    run(straight)
    assert (straight / "log.jsonl").read_text() == whole


def test_finished_training_is_only_tested_again(straight, monkeypatch, capsys):
    monkeypatch.setattr(Trainer, "step", lambda self: pytest.fail("trained again"))
    assert run(straight) == 0
    assert "going on at step" in capsys.readouterr().out


def test_other_options_in_the_same_folder_are_refused(straight):
    with pytest.raises(CheckpointError, match="Use the same options, or another --out folder"):
        run(straight, "--learning-rate", "0.5")


def test_a_result_without_its_card_is_not_installed_but_finished_first(straight, tmp_path, monkeypatch):
    (straight / "g2p.md").unlink()
    (tmp_path / "package").mkdir()
    monkeypatch.setattr(train_g2p, "SHIPPED", tmp_path / "package/g2p.safetensors")
    assert run(straight, "--install") == 0
    assert sorted(os.listdir(tmp_path / "package")) == ["g2p.md", "g2p.safetensors"]


def test_install_copies_what_is_finished(straight, tmp_path, monkeypatch):
    (tmp_path / "package").mkdir()
    monkeypatch.setattr(train_g2p, "SHIPPED", tmp_path / "package/g2p.safetensors")
    assert run(straight, "--install") == 0
    for name in ("g2p.safetensors", "g2p.md"):
        assert (tmp_path / "package" / name).read_bytes() == (straight / name).read_bytes()
