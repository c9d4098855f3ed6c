"""Whole configurations of the documented interface (`configs/`): trained, run forward and searched, without an edit."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from waiting import LONG
from warm import warm

FOLDER = Path(__file__).with_name("configs")
CONFIGS = {"aed": {"ctc", "ce", "fer"}, "ctc": {"ctc", "wer"}, "lm": {"ce", "ppl"}}


def flat(value):
    return [each for item in value for each in flat(item)] if isinstance(value, list) else [value]


def test_each_configuration_is_run():
    assert {path.stem for path in FOLDER.glob("*.config")} == set(CONFIGS)


@pytest.mark.parametrize("name", CONFIGS)
def test_a_configuration_trains_and_what_its_callback_gets_of_a_batch_is_as_of_each_sequence_alone(name):
    command = [*warm(), str(FOLDER / "engine.py"), str(FOLDER / f"{name}.config")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONG)
    assert done.returncode == 0, done.stderr[-3000:]
    made = json.loads(done.stdout.splitlines()[-1])
    losses = [list(epoch.values())[0] for epoch in made["losses"]]
    assert {*made["losses"][0]} == CONFIGS[name] and losses[-1] < losses[0]
    together, alone = made["together"], made["alone"]
    assert sorted(together) == sorted(alone) == [f"seq-{index}" for index in range(4)]
    for tag, values in together.items():
        np.testing.assert_allclose(flat(values), flat(alone[tag]), atol=2e-4)
    assert len({json.dumps(values) for values in together.values()}) > 1
