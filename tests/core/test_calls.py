"""An op, a step and a recording make few calls of Python functions, cold and warm."""

import json
import subprocess
from pathlib import Path

from waiting import LONG
from warm import warm

MOST = {
    "cold reduce_mean, static": 105,
    "cold matmul, static": 120,
    "cold reduce_mean, ragged": 300,
    "reduce_mean, new batch": 60,
    "warm reduce_mean, ragged": 8,
    "warm matmul, static": 4,
    "step of for, LSTM": 60,
    "warm net of two layers": 160,
    "attention": 55,
    "recorded attention": 250,
}


def test_calls_are_few():
    script = Path(__file__).with_name("calls.py")
    run = subprocess.run([*warm(), str(script)], capture_output=True, text=True, timeout=LONG)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found.keys() == MOST.keys()
    assert {name: count for name, count in found.items() if count > MOST[name]} == {}
