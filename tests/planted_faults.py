"""Models with a fault that can be switched on, and a comparison of two runs in plain NumPy that knows nothing of recordings."""

import numpy as np
from asserting import randn, real_frames

import rfnb as rf
from rfnb import Dim, Tensor

IN, HIDDEN, OUT = Dim(3, name="in"), Dim(5, name="hidden"), Dim(7, name="out")


class Mean(rf.Module):
    """Adds the mean over time to each frame. Its fault: padding counts too."""

    def __init__(self):
        self.reads_padding = False

    def __call__(self, x: Tensor, *, axis: Dim) -> Tensor:
        mean = rf.reduce_mean(x, axis=axis, use_mask=not self.reads_padding)
        return x + mean


class Layer(rf.Module):
    """A linear layer and tanh. Its fault: it gives what it computes through another dtype."""

    def __init__(self, in_dim: Dim, out_dim: Dim):
        self.linear = rf.Linear(in_dim, out_dim)
        self.dtype = "float32"

    def __call__(self, x: Tensor) -> Tensor:
        return rf.cast(rf.cast(rf.tanh(self.linear(x)), self.dtype), "float32")


class Dropped(rf.Module):
    """Dropout, also where nothing is trained. What may be another one: the seed."""

    def __init__(self):
        self.seed = None

    def __call__(self, x: Tensor) -> Tensor:
        if self.seed is None:
            return x
        rf.set_random_seed(self.seed)
        return rf.dropout(x, drop_prob=0.5, on_forward=True)


class Decay(rf.Module):
    """h = tanh(h / 2 + x) over time. Its fault: what it gives is the state of the step before."""

    def __init__(self):
        self.is_late = False

    def __call__(self, x: Tensor, *, axis: Dim) -> Tensor:
        loop = rf.Loop(axis=axis, name="decay")
        loop.state.h = rf.zeros([dim for dim in x.dims if dim is not axis])
        for _ in loop:
            before = loop.state.h
            loop.state.h = rf.tanh(0.5 * before + loop.unstack(x))
            given = before if self.is_late else loop.state.h
            rf.probe("given", value=given)
            out = loop.stack(given)
        return out


class Model(rf.Module):
    """All of them, one after the other."""

    def __init__(self, seed: int = 0):
        rf.set_random_seed(seed)
        self.first = Layer(IN, HIDDEN)
        self.mean = Mean()
        self.second = Layer(HIDDEN, HIDDEN)
        self.dropped = Dropped()
        self.decay = Decay()
        self.last = Layer(HIDDEN, OUT)

    def __call__(self, x: Tensor, *, axis: Dim) -> Tensor:
        x = self.mean(self.first(x), axis=axis)
        x = self.dropped(self.second(x))
        return self.last(self.decay(x, axis=axis))


def numpy_steps(model: Model, x: Tensor, axis: Dim) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """The outputs of all modules and steps of the loop, in order: path, array with the batch first, the real cells."""
    found = []

    def note(path):
        def hook(module, args, kwargs, result):
            found.append((path, *_batch_major(result)))
            return result

        return hook

    handles = [module.register_forward_hook(note(path)) for path, module in model.named_modules() if path]
    try:
        model(x, axis=axis)
    finally:
        for handle in handles:
            handle.remove()
    inputs = next((array, real) for path, array, real in found if path == "dropped")
    place = next(index for index, (path, _, _) in enumerate(found) if path == "decay")
    return [*found[:place], *_decay(*inputs, late=model.decay.is_late), *found[place:]]


def first_of(a: list, b: list, seqs: tuple[int, int] | None = None, tolerance: float = 1e-4) -> tuple[str, float]:
    """The first of two such lists that differs in a real cell, and by how much at most."""
    for (path, one, real), (_, other, other_real) in zip(a, b, strict=False):
        if seqs is not None:
            one, real, other, other_real = one[seqs[0]], real[seqs[0]], other[seqs[1]], other_real[seqs[1]]
        assert np.count_nonzero(real) == np.count_nonzero(other_real)
        apart = np.abs(one[real].astype(np.float64) - other[other_real])
        if apart.max() > tolerance * np.sqrt(np.mean(np.square(one[real]))):
            return path, float(apart.max())
    raise AssertionError("no difference")


def _batch_major(x: Tensor) -> tuple[np.ndarray, np.ndarray]:
    batch = next(dim for dim in x.dims if dim.name == "batch")
    time = [dim for dim in x.dims if dim.name == "time"]
    feature = [dim for dim in x.dims if dim is not batch and dim not in time]
    x = x.copy_transpose([batch, *time, *feature])
    return x.numpy(), real_frames(x.dims)


def _decay(x: np.ndarray, real: np.ndarray, *, late: bool) -> list[tuple[str, np.ndarray, np.ndarray]]:
    h, found = np.zeros_like(x[:, 0]), []
    for step in range(x.shape[1]):
        before = h
        going_on = real[:, step]
        h = np.where(going_on, np.tanh(0.5 * h + x[:, step]), h)
        found.append((f"decay.decay {step}", before if late else h, going_on))
    return found


def batch_of(lengths: list[int], seed: int = 1) -> tuple[Tensor, Dim]:
    """Values of some sequences, the longest with the most cells; those of one length and place are the same in each batch."""
    batch = Dim(len(lengths), name="batch")
    time = rf.ragged_dim(lengths, over=batch, name="time")
    return randn(batch, time, IN, seed=seed), time


def alone(x: Tensor, seq: int, length: int) -> tuple[Tensor, Dim]:
    """One sequence of a batch, by itself and without padding."""
    batch, time = Dim(1, name="batch"), Dim(length, name="time", kind="spatial")
    values = x.numpy()[seq : seq + 1, :length]
    return rf.convert_to_tensor(values, dims=[batch, time, IN]), time
