"""The training script under torchrun: two processes have the losses, gradients and weights of one."""

import json
from pathlib import Path

import pytest
import torch
from models import processes_script
from models.tiny import RECIPE, make_model
from processes import run_in_processes
from safetensors.numpy import load_file

from rfnb.models.g2p_checkpoint import CheckpointError
from rfnb.models.g2p_training import Trainer

OPTIONS = ["--epochs", "2", "--batch-size", "3", "--save-every", "4", "--threads", "1", "--bar-every", "600"]
SCRIPT = Path(processes_script.__file__)
STATE = "state.pt"


def train(folder, count, *options, script=SCRIPT, torchrun=False):
    """The output of a training in so many processes."""
    folder.mkdir(exist_ok=True)
    words = [script, folder / "steps", "--out", folder / "out", *OPTIONS, *options]
    return run_in_processes(count, *words, torchrun=torchrun)


def steps(folder, rank=0):
    return [[float(word) for word in line.split()] for line in (folder / f"steps.{rank}").read_text().splitlines()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folders of a training without dropout in one process, and in two; what the two print."""
    folder = tmp_path_factory.mktemp("processes")
    train(folder / "one", 1, "--dropout", "0")
    printed = train(folder / "two", 2, "--dropout", "0", torchrun=True)
    return folder / "one", folder / "two", printed


def test_losses_and_gradients_are_those_of_one_process(runs):
    one, two, _ = runs
    wanted = torch.tensor(steps(one), dtype=torch.float64)
    assert len(wanted) >= 8
    for rank in (0, 1):
        torch.testing.assert_close(torch.tensor(steps(two, rank), dtype=torch.float64), wanted, rtol=2e-5, atol=1e-6)


def test_the_weights_are_those_of_one_process(runs):
    one, two, _ = runs
    wanted, found = (load_file(folder / "out/g2p.safetensors") for folder in (one, two))
    assert wanted.keys() == found.keys()
    for name, value in wanted.items():
        assert abs(value.astype("float32") - found[name].astype("float32")).max() < 5e-3, name


def test_the_first_process_reports_and_writes_once(runs):
    one, two, printed = runs
    assert sorted(path.name for path in (two / "out").iterdir()) == sorted(
        path.name for path in (one / "out").iterdir()
    )
    lines = [json.loads(line) for line in (two / "out/log.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [1, 2]
    assert printed.count("test, beam 5: ") == 1 and printed.count("epoch 2: dev PER") == 1
    assert "torchrun --nproc-per-node 2 -m rfnb.models.train_g2p --epochs 2" in (two / "out/g2p.md").read_text()


STOPPED = """
import sys
from models import processes_script
from rfnb.models.g2p_training import Trainer

step = Trainer.step

def stopping(self, progress=None):
    if self.steps_done == 4:
        raise KeyboardInterrupt
    return step(self, progress)

Trainer.step = stopping
assert processes_script.main(sys.argv[1], sys.argv[2:]) == 130
"""


@pytest.mark.slow
def test_a_training_with_dropout_goes_on_in_as_many_processes_bit_by_bit(tmp_path):
    """Each process continues with its own random numbers."""
    straight, stopped, script = tmp_path / "straight", tmp_path / "stopped", tmp_path / "script.py"
    train(straight, 2)
    script.write_text(STOPPED)
    assert "Stopped. The same command resumes" in train(stopped, 2, script=script)
    assert "going on at step 4" in train(stopped, 2)
    assert all(steps(stopped, rank) == steps(straight, rank) for rank in (0, 1))
    a, b = (load_file(folder / "out/g2p.safetensors") for folder in (straight, stopped))
    assert all((a[name] == b[name]).all() for name in a)


def test_a_state_of_two_processes_is_refused_by_one(tmp_path, examples):
    trainer = Trainer(make_model(), examples, RECIPE)
    trainer.save(tmp_path / STATE)
    data = torch.get_rng_state()
    other = Trainer(make_model(), examples, RECIPE)
    other.processes = type(other.processes)(rank=0, count=2)
    with pytest.raises(CheckpointError, match="processes\n    file  1\n    now   2"):
        other.load(tmp_path / STATE)
    assert torch.equal(torch.get_rng_state(), data)
