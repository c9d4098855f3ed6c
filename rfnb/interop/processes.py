"""The mean over the batches of all processes, for distributed training."""

from __future__ import annotations

from rfnb.core.errors import type_error
from rfnb.core.tensor import Tensor
from rfnb.ops.cast import cast
from rfnb.ops.const import convert_to_tensor
from rfnb.ops.reduce import reduce_sum


def mean_over_processes(loss: Tensor) -> Tensor:
    """Compute a scalar whose mean over all processes is the mean over all real frames of all their batches.

        losses = rf.cross_entropy(...) # {batch, time}, unreduced
        rf.mean_over_processes(losses).raw_tensor.backward()  # the gradient of the joined batch

    DistributedDataParallel averages gradients over processes. With the mean over the frames of each process, this is a
    mean of means: a frame in a short batch counts more than one in a long batch. Here the sum of this process is
    divided by the mean number of frames per process, which is a collective operation, so all processes must call it. In
    one process it is the mean.

    Args:
        loss: {...}, one value per frame or sequence; padding does not count.

    Returns:
        {}: the contribution of this process. A process without frames gets 0.

    Raises:
        TypeError: If it is not a Tensor.
    """
    if not isinstance(loss, Tensor):
        raise type_error(
            "mean_over_processes: this operand is not a Tensor.",
            {"got": f"{type(loss).__module__}.{type(loss).__name__}"},
            "The dims of a loss determine its padding.",
            'rf.mean_over_processes(rf.named(loss, "batch time", lengths=lengths))',
        )
    if loss.dtype not in ("float32", "float64"):
        loss = cast(loss, "float32")  # a sum in half precision stops growing at 2048 or 256
    total = reduce_sum(loss, axis=loss.dims) if loss.dims else loss
    frames = loss.num_elements() if loss.dims else 1
    return total / _per_process(int(frames.numpy() if isinstance(frames, Tensor) else frames), total)


def _per_process(frames: int, like: Tensor) -> Tensor | float:
    """The mean number of frames per process, or 1 if there are none. On the device of `like`, without waiting."""
    if like.backend.name != "torch":
        return max(frames, 1)
    import torch
    from torch import distributed

    if not (distributed.is_available() and distributed.is_initialized()):
        return max(frames, 1)
    raw = like.raw_tensor
    of_all = torch.full((), frames, dtype=torch.int64, device=raw.device)
    distributed.all_reduce(of_all)
    return convert_to_tensor(of_all.clamp(min=1).to(raw.dtype) / distributed.get_world_size(), dims=())


def is_first_process() -> bool:
    """Whether this is the only process of a training, or that of rank 0."""
    from torch import distributed

    return not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() == 0
