"""Starts a script in several processes that train together, on the CPU, with a free port."""

import os
import socket
import subprocess
import tempfile
from pathlib import Path

from waiting import LONG
from warm import warm


def run_in_processes(count: int, *arguments: object, torchrun: bool = False) -> str:
    """What the processes print; `arguments` are a script with its own arguments. All are forks that have loaded torch: with torchrun it
    starts them, and is one itself; otherwise they get the variables that torchrun would set, which takes half of the time."""
    own = [str(Path(__file__).parent), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(own), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    words = [str(word) for word in arguments]
    if torchrun:
        launch = [*warm("torch._dynamo"), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
        commands = [([*launch, "--no-python", *warm("torch._dynamo"), *words], {})]
    else:
        commands = [([*warm("torch._dynamo"), *words], variables) for variables in _of_each(count)]
    with tempfile.TemporaryFile("w+") as printed:
        started = [
            subprocess.Popen(command, env=environment | variables, stdout=printed, stderr=subprocess.STDOUT)
            for command, variables in commands
        ]
        try:
            codes = [process.wait(timeout=LONG) for process in started]
        finally:
            for process in started:
                process.kill()
        printed.seek(0)
        text = printed.read()
    assert not any(codes), text[-6000:]
    return text


def _of_each(count: int) -> list[dict[str, str]]:
    """The environment that torchrun gives to each process; empty for a single one."""
    if count == 1:
        return [{}]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
    shared |= {"LOCAL_WORLD_SIZE": str(count), "TORCHELASTIC_RUN_ID": "none"}
    return [shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
