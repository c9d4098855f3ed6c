"""One of several processes, for `test_ddp.py`: trains models under DistributedDataParallel on its part of a batch.

torchrun --nproc-per-node 2 ddp_script.py FOLDER      # writes gradients.pt
"""

import sys
from pathlib import Path

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

import rfnb as rf
from rfnb import Dim

VOCAB, MODEL = Dim(11, name="vocab"), Dim(8, name="model")
LENGTHS = [7, 2, 5, 3, 1]  # the processes get very different numbers of frames


class LanguageModel(rf.Module):
    """Gives the loss of each frame."""

    def __init__(self):
        self.encoder = rf.TransformerEncoder(VOCAB, MODEL, num_layers=1, num_heads=2, dropout=0.0)
        self.lstm = rf.LSTM(MODEL, MODEL.copy(match_priority=1))
        self.out = rf.Linear(MODEL, VOCAB)
        self.unused = rf.Linear(MODEL, VOCAB)

    def __call__(self, ids: rf.Tensor, *, time: Dim) -> rf.Tensor:
        x = self.encoder(ids, spatial_dim=time)
        y, _ = self.lstm(
            x, state=self.lstm.default_initial_state(batch_dims=x.remaining_dims([time, MODEL])), spatial_dim=time
        )
        y, _ = rf.replace_dim(y, in_dim=self.lstm.out_dim, out_dim=MODEL)
        return rf.cross_entropy(estimated=self.out(x + y), target=ids, axis=VOCAB, estimated_type="logits")


class MeanLoss(rf.Module):
    """The loss that the processes share, as a raw array."""

    def __init__(self, model):
        self.model = model

    def __call__(self, ids: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        batch = Dim(len(lengths), name="batch")
        time = rf.ragged_dim(lengths, over=batch, name="time")
        x = rf.convert_to_tensor(ids[:, : max(lengths)], dims=[batch, time], sparse_dim=VOCAB)
        return rf.mean_over_processes(self.model(x, time=time)).raw_tensor


def data():
    torch.manual_seed(3)
    return torch.randint(0, 11, (5, 7))


def model():
    rf.set_random_seed(4)
    torch.manual_seed(4)
    return LanguageModel()


def gradients(module):
    return {name: None if p.grad is None else p.grad.clone() for name, p in module.named_parameters()}


def main(folder: Path) -> None:
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    rows = [0, 2, 3] if rank == 0 else [1, 4]
    ids, lengths = data()[rows], [LENGTHS[row] for row in rows]
    found = {}

    # The loss as a Tensor inside of the model, with parameters that nothing uses
    loss = DistributedDataParallel(rf.as_torch(MeanLoss(model())), find_unused_parameters=True)
    for _ in range(2):  # a second step: what the first one left behind would be an error here
        loss.zero_grad()
        value = loss(ids, lengths)
        value.backward()
    values = [torch.empty_like(value) for _ in range(2)]
    distributed.all_gather(values, value.detach())
    found["joined"] = gradients(loss.module), torch.stack(values).mean()

    # Raw arrays in and out; all lengths of the other rank are other shapes, and no parameter is unused
    linear = rf.as_torch(model().out, "batch in_dim")
    wrapped = DistributedDataParallel(linear)
    torch.manual_seed(5)
    x = torch.randn(4, 8)
    wrapped(x[2 * rank : 2 * rank + 2]).square().mean().backward()
    found["raw"] = gradients(linear), None

    # Buffers: those of the first process are given to all when a step begins
    norm = rf.as_torch(rf.BatchNorm(MODEL), "batch in_dim")
    wrapped = DistributedDataParallel(norm)
    for _ in range(2):
        wrapped(torch.full((2, 8), float(rank)) + x[:2]).sum().backward()
    wrapped(x)  # begins a third step
    means = [torch.empty(8) for _ in range(2)]
    distributed.all_gather(means, norm.running_mean.detach())
    found["buffers"] = means[0].clone(), means[1].clone(), norm.rf_module.running_mean.numpy().copy()

    # A Tensor as result hides from torch what was used
    tensors = DistributedDataParallel(rf.as_torch(model()), find_unused_parameters=True)
    batch = Dim(len(lengths), name="batch")
    time = rf.ragged_dim(lengths, over=batch, name="time")
    try:
        tensors(rf.convert_to_tensor(ids[:, : max(lengths)], dims=[batch, time], sparse_dim=VOCAB), time=time)
        found["refused"] = "nothing was raised"
    except TypeError as error:
        found["refused"] = str(error)

    if rank == 0:
        torch.save(found, folder / "gradients.pt")
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
