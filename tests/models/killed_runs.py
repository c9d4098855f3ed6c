"""Runs the command line of the training and kills it (SIGKILL: nothing is cleaned up) at the n-th thing it does with a file.

    python killed_runs.py FOLDER EVERY OPTION...

In FOLDER: `straight` is a run that is not killed. Each of `killed-5`, `killed-10`, ... (for EVERY = 5) is killed at that opening,
renaming, changing or removing of a file, started again, killed at the same number, and started again until it ends. Prints how many
things there are to kill at.
"""

import dataclasses
import os
import signal
import sys
from pathlib import Path

import torch
from models.tiny import TINY, WORDS

from rfnb.data import cmudict
from rfnb.models import train_g2p

TOUCHES = {"open", "os.rename", "os.chmod", "os.remove"}


def run(out: Path, options: list[str], kill_at: int | None) -> int:
    """Runs in a process of its own; returns how it ended, as `os.waitpid`, or if it is not to be killed what it did with files."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        count = [0]

        def touched(event: str, arguments: tuple) -> None:
            if event in TOUCHES and str(out) in str(arguments[0]):
                count[0] += 1
                if count[0] == kill_at:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(touched)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = train_g2p.main(["--out", str(out), *options])
        os.write(writer, str(count[0]).encode())
        os._exit(status)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    said = os.read(reader, 100)
    os.close(reader)
    if kill_at is None:
        assert status == 0, status
        return int(said)
    return status


def main(folder: Path, every: int, options: list[str]) -> None:
    torch.set_num_threads(1)
    split = cmudict.Split(train=WORDS, dev=WORDS, test=WORDS, figures={}, differences=())
    train_g2p.load_cmudict = lambda: split
    train_g2p.G2PConfig = lambda dropout=0.25: dataclasses.replace(TINY, dropout=dropout)
    things = run(folder / "straight", options, None)
    for number in range(every, things, every):
        out = folder / f"killed-{number}"
        assert run(out, options, number) == signal.SIGKILL
        assert run(out, options, number) in (signal.SIGKILL, 0)
        run(out, options, None)
    print(things)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
