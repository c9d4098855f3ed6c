"""Starts a script in several processes of torchrun, on the CPU, with a free port."""

import os
import subprocess
import sys
from pathlib import Path

from waiting import LONG


def run_in_processes(count: int, *arguments: object) -> str:
    """What the processes print; `arguments` are a script with its own arguments. One process goes without torchrun."""
    own = [str(Path(__file__).parent), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(own), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable]
    if count > 1:
        command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    run = subprocess.run(
        [*command, *map(str, arguments)], env=environment, capture_output=True, text=True, timeout=LONG
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    return run.stdout
