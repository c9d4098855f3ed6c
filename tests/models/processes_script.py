"""The command line of the training with a tiny model and dictionary, for `test_train_processes.py`.

torchrun --nproc-per-node 2 processes_script.py LOG OPTION...     # one line per step and process in LOG.<rank>
"""

import dataclasses
import sys
from pathlib import Path

from models.tiny import TINY, WORDS
from torch import distributed

from rfnb.data import cmudict
from rfnb.models import train_g2p
from rfnb.models.g2p_training import Trainer


def main(log: str, options: list[str]) -> int:
    split = cmudict.Split(train=WORDS, dev=WORDS, test=WORDS, figures={}, differences=())
    train_g2p.load_cmudict = lambda: split
    train_g2p.G2PConfig = lambda dropout=0.25: dataclasses.replace(TINY, dropout=dropout)
    step = Trainer.step

    def noted(self, progress=None):
        report = step(self, progress)
        rank = distributed.get_rank() if distributed.is_initialized() else 0
        with Path(f"{log}.{rank}").open("a") as file:
            norm = sum(p.grad.square().sum().item() for p in self.parameters) ** 0.5  # after clipping
            print(report.step, repr(report.loss), norm, file=file)
        return report

    Trainer.step = noted
    return train_g2p.main(options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
