"""The training of a G2P model: batches, loss, schedule, and a resumable state.

    trainer = Trainer(G2P(), examples_of(split.train, max_letters=20), Recipe(epochs=30))
    while not trainer.finished:
        report = trainer.step()
    trainer.save("state.pt")

The same (model seed, recipe, examples, number of threads) give the same weights bit for bit, also if the training was
saved and resumed; on a GPU as far as its kernels reduce in a fixed order. Under `torchrun` each process
trains on its part of every batch, and the gradient is that of the whole batch.

It trains on the device of the parameters. No step waits for that device: batches are copied from pinned memory, and the
losses stay on the device until `losses_of` fetches those of many steps at once.
"""

from __future__ import annotations

import functools
import hashlib
import io
import math
import os
import reprlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_map_only

from rfnb.backends.torch_file import load_plain
from rfnb.backends.torch_random import device_state, set_device_state
from rfnb.core.atomic_file import write_whole
from rfnb.core.dim import Dim
from rfnb.core.formats import G2P_TRAINING, numbered
from rfnb.core.tensor import Tensor
from rfnb.data.batching import Batch, Example, epoch_batches, make_batch
from rfnb.models.g2p import G2P, label_dim, letter_dim
from rfnb.models.processes import current
from rfnb.nn.module.checkpoint import CheckpointError, checkpoint_error
from rfnb.nn.run.run_ctx import init_forward_step_run_ctx, init_train_step_run_ctx
from rfnb.ops.const import convert_to_tensor
from rfnb.ops.loss import cross_entropy
from rfnb.ops.reduce import reduce_sum

_NAME = "rfnb.state."  # followed by the version and a newline, the SHA-256 of the rest, and a torch.save file
_GENERATOR_OF = "generator of "  # prefix of entries for generators of devices other than the CPU


@dataclass(frozen=True)
class Recipe:
    """The settings of a training; the default is that of the shipped model.

    Attributes:
        learning_rate: The peak, reached after the fraction `warm_up` of all steps; it then decays linearly to 0.
        clip: Maximal global norm of the gradient.
        max_letters: Longer words are excluded from training.
    """

    epochs: int = 20
    batch_size: int = 64
    learning_rate: float = 3e-3
    warm_up: float = 0.03
    weight_decay: float = 1e-4
    label_smoothing: float = 0.1
    clip: float = 2.0
    max_letters: int = 20
    seed: int = 1


@dataclass(frozen=True)
class StepReport:
    """The report of one step.

    Attributes:
        step: Its number, from 1.
        raw_loss: The loss on its device, a scalar: nats per label, with smoothing.
        learning_rate: The learning rate of this step.
    """

    step: int
    raw_loss: torch.Tensor
    learning_rate: float

    @functools.cached_property
    def loss(self) -> float:
        """The loss as a float. Waits for the device: to fetch those of many steps at once, use `losses_of`."""
        return losses_of([self])[0]


def losses_of(reports: Sequence[StepReport]) -> list[float]:
    """The losses of several steps, fetched from the device in one transfer."""
    losses: list[float] = torch.stack([report.raw_loss for report in reports]).tolist() if reports else []
    return losses


def learning_rate(recipe: Recipe, progress: float) -> float:
    """The learning rate at `progress` (0 to 1) through the training."""
    return (
        recipe.learning_rate * min(1.0, progress / recipe.warm_up if recipe.warm_up else 1.0) * max(0.0, 1 - progress)
    )


def batch_loss(model: G2P, batch: Batch, label_smoothing: float, labels: int | None = None) -> Tensor:
    """The mean loss over the real labels of a batch: a scalar, nats per label.

    Args:
        labels: The denominator if this is a part of a batch: the number of labels in the whole batch.

    Every axis here is a static dim, cached for the next batch of the same size, so that ops reuse their plans; the
    padding of the labels is masked explicitly in the one place where it matters, the sum.
    """
    count, positions = batch.targets.shape
    batch_dim, letters_dim = _dim("batch", count), _dim("letters", batch.letters.shape[1])
    labels_dim = _dim("labels", positions)
    device = model.device
    letters = _time_major(batch.letters, letters_dim, batch_dim, letter_dim, device=device)
    inputs = _time_major(batch.inputs, labels_dim, batch_dim, label_dim, device=device)
    targets = _time_major(batch.targets, labels_dim, batch_dim, label_dim, device=device)
    real = (np.arange(positions) < batch.lengths[:, None]).astype(np.float32)
    real /= float(batch.lengths.sum() if labels is None else labels)
    encoded = model.encode(letters, spatial_dim=letters_dim)
    logits, _ = model.decoder(inputs, encoded, state=encoded.start, spatial_dim=labels_dim)
    losses = cross_entropy(
        estimated=logits, target=targets, axis=label_dim, estimated_type="logits", label_smoothing=label_smoothing
    )
    return reduce_sum(losses * _time_major(real, labels_dim, batch_dim, device=device), axis=[labels_dim, batch_dim])


class Trainer:
    """The training loop, one step at a time.

    Args:
        model: Trained in place, on the device of its parameters.
        examples: The examples of one epoch.
        recipe: See `Recipe`. Seeds the data order and torch's generators, of all devices (dropout).
    """

    def __init__(self, model: G2P, examples: Sequence[Example], recipe: Recipe):
        self.model, self.examples, self.recipe = model, examples, recipe
        self.parameters = [parameter.raw_tensor for parameter in model.parameters()]
        self.optimizer = torch.optim.AdamW(
            self.parameters, lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=recipe.weight_decay
        )
        self.steps_done = 0
        self.steps_per_epoch = len(self._order(0))
        self.total_steps = self.steps_per_epoch * recipe.epochs
        self.processes = current()
        torch.manual_seed(recipe.seed + self.processes.rank)  # each process draws its own dropout masks

    @property
    def finished(self) -> bool:
        """Whether all steps are done."""
        return self.steps_done >= self.total_steps

    @property
    def epoch(self) -> int:
        """The number of completed epochs."""
        return self.steps_done // self.steps_per_epoch

    def step(self, progress: float | None = None) -> StepReport:
        """Train on the next batch.

        Args:
            progress: 0 to 1, for the learning rate; default is this step's share of all steps.
        """
        epoch, position = divmod(self.steps_done, self.steps_per_epoch)
        whole = self._order(epoch)[position]
        part = self.processes.own(whole)
        batch = make_batch([self.examples[index] for index in part or whole[:1]])
        labels = sum(len(self.examples[index].labels) + 1 for index in whole)
        if progress is None:
            progress = (self.steps_done + 1) / (self.total_steps + 1)
        rate = learning_rate(self.recipe, progress)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        init_train_step_run_ctx(train_flag=True, step=self.steps_done, epoch=epoch + 1)
        try:
            loss = batch_loss(self.model, batch, self.recipe.label_smoothing, labels).raw_tensor
        finally:
            init_forward_step_run_ctx()
        if not part:
            loss = loss * 0  # fewer examples than processes: this one takes part with weight 0
        self.optimizer.zero_grad()
        loss.backward()
        loss = self.processes.sum_up(self.parameters, loss.detach())
        torch.nn.utils.clip_grad_norm_(self.parameters, self.recipe.clip)
        self.optimizer.step()
        self.steps_done += 1
        return StepReport(self.steps_done, loss, rate)

    def save(self, path: str | os.PathLike[str], **notes: Any) -> None:
        """Write everything that the next step depends on, atomically; `notes` are plain values. All processes call it, and
        the first one writes.
        """
        device = torch.device(self.model.device)
        generators = {"generator": self.processes.gathered(torch.get_rng_state())}
        if device.type != "cpu":
            generators[_GENERATOR_OF + device.type] = self.processes.gathered(device_state(device))
        if self.processes.rank:
            return
        state = {
            "recipe": asdict(self.recipe),
            "config": asdict(self.model.config),
            "examples": len(self.examples),
            "steps_done": self.steps_done,
            "model": {name: parameter.raw_tensor.detach() for name, parameter in self.model.named_parameters()},
            "optimizer": self.optimizer.state_dict(),
            **{name: torch.cat(states) for name, states in generators.items()},
            "notes": notes,
        }
        buffer = io.BytesIO()
        # On the host, so that a machine without the device can read it.
        torch.save(tree_map_only(torch.Tensor, torch.Tensor.cpu, state), buffer)
        data = buffer.getvalue()
        write_whole(path, f"{_NAME}{G2P_TRAINING.now}\n".encode() + hashlib.sha256(data).digest() + data)

    def load(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """Resume from a file of `save`; returns its notes.

        A training that was saved on another kind of device continues with the same weights, steps and batches. Dropout
        then uses the generator of this device, with different numbers; `torch.manual_seed` reseeds it for this step.

        Raises:
            CheckpointError: If the file is damaged, or belongs to another recipe, model size, number of examples or of processes.
        """
        state = _read(Path(path))
        size = len(torch.get_rng_state())
        found = {name: _plain(state.get(name)) for name in ("recipe", "config", "examples")}
        generator = state.get("generator")
        found["processes"] = generator.numel() // size if isinstance(generator, torch.Tensor) else None
        own = {"recipe": asdict(self.recipe), "config": asdict(self.model.config), "examples": len(self.examples)}
        own["processes"] = self.processes.count
        if found != own:
            rows = [
                f"  {name}\n    file  {found[name]!s:.1000}\n    now   {own[name]}"
                for name in own
                if found[name] != own[name]
            ]
            text = "\n".join([f"{path} belongs to another training:", *rows])
            raise CheckpointError(f"{text}\nUse the same options, or another --out folder.")
        try:
            self._check(state, size)
        except Exception as error:  # it may contain anything
            raise _no_state(Path(path), f"{type(error).__name__}: {error}"[:200]) from error
        # The options are those of the recipe; other releases of torch have different ones.
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state["optimizer"]["state"]})
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.raw_tensor.copy_(state["model"][name])
        self.steps_done = state["steps_done"]
        self._take_up_generators(state)
        return state["notes"]

    def _check(self, state: dict[str, Any], size: int) -> None:
        """Check the whole state before restoring any of it.

        Raises:
            TypeError, KeyError, ValueError, RuntimeError: The state was not written by `save`.
        """
        _same_kind(
            state["model"], {name: each.raw_tensor.cpu() for name, each in self.model.named_parameters()}, "model"
        )
        own = self.optimizer.state_dict()
        moments = {
            number: {"step": torch.zeros((), device="cpu"), "exp_avg": each.cpu(), "exp_avg_sq": each.cpu()}
            for number, each in enumerate(self.parameters)
        }
        given = state["optimizer"]
        begun = bool(given["state"])  # before its first step an optimizer has no moments
        _same_kind(given["state"], moments if begun else {}, "optimizer.state")
        numbers = [group["params"] for group in own["param_groups"]]
        if [group["params"] for group in given["param_groups"]] != numbers:
            raise ValueError("optimizer.param_groups are of other parameters")
        if (
            type(state["steps_done"]) is not int
            or not 0 <= state["steps_done"] <= self.total_steps
            or not isinstance(state["notes"], dict)
        ):
            raise TypeError("steps_done is no number of steps of this training, or notes are no dict")
        for name, each in state.items():
            if name.startswith("generator"):
                whole = isinstance(each, torch.Tensor) and each.dtype is torch.uint8 and each.dim() == 1
                if not whole or not each.numel() or each.numel() % self.processes.count:
                    raise TypeError(f"{name} is no state of a generator")
        for part in state["generator"].view(self.processes.count, size):
            torch.Generator().set_state(part.clone())

    def _take_up_generators(self, state: dict[str, Any]) -> None:
        rank, device = self.processes.rank, torch.device(self.model.device)
        torch.manual_seed(
            self.recipe.seed + rank + self.steps_done
        )  # for a device that the file has no generator state of
        for place, name in (("cpu", "generator"), (device, _GENERATOR_OF + device.type)):
            if name in state:
                # A clone: torch crashes on a view that does not start at its storage's offset.
                set_device_state(place, state[name].view(self.processes.count, -1)[rank].clone())

    def _order(self, epoch: int) -> list[list[int]]:
        if getattr(self, "_order_of", None) != epoch:
            self._order_of = epoch
            self._batches = epoch_batches(
                self.examples, batch_size=self.recipe.batch_size, seed=self.recipe.seed, epoch=epoch
            )
        return self._batches


def _read(path: Path) -> dict[str, Any]:
    """The state in a file, unpickled only if its checksum matches."""
    data = path.read_bytes()
    top = data[:32].partition(b"\n")[0]
    version, begin = numbered(top.decode("latin-1"), _NAME), len(top) + 1 + hashlib.sha256().digest_size
    problem = version and G2P_TRAINING.problem(version)
    if problem:
        rows, rule, fix = problem
        raise checkpoint_error(
            "Trainer.load: a version of the format that this rfnb does not read.", [("path", path), *rows], rule, fix
        )
    if not version or hashlib.sha256(data[begin:]).digest() != data[len(top) + 1 : begin]:
        found = "cut off or changed: its checksum differs" if version else "another kind of file"
        raise checkpoint_error(
            "Trainer.load: this is not a whole training state.",
            {"path": path, "found": found if data else "an empty file", "bytes": f"{len(data):,}"},
            "A state is read as it was written or not at all. Delete it to start again:",
            f'Path("{path}").unlink()',
        )
    try:  # it may be stored on a device that does not exist here
        state = load_plain(io.BytesIO(data[begin:]))
    except Exception as error:  # a checksum does not identify the author
        raise _no_state(path, f"{type(error).__name__}: {error}"[:200]) from error
    if not isinstance(state, dict):
        raise _no_state(path, f"a {type(state).__name__}")
    return state


def _plain(value: Any) -> Any:
    """A number, or a dict of numbers by name; for anything else, which may not be comparable, the name of its type."""
    if isinstance(value, dict):
        return {name: each if isinstance(each, int | float) else type(each).__name__ for name, each in value.items()}
    return value if isinstance(value, int | float) else type(value).__name__


def _no_state(path: Path, found: str) -> CheckpointError:
    return checkpoint_error(
        "Trainer.load: this is no training state.",
        {"path": path, "found": found},
        "A state is what Trainer.save writes. Delete it to start again:",
        f'Path("{path}").unlink()',
    )


def _same_kind(found: Any, own: Any, where: str) -> None:
    """Compare names, types and shapes with those of this training.

    Raises:
        TypeError: If they differ.
    """
    if isinstance(own, torch.Tensor):
        same = isinstance(found, torch.Tensor) and found.layout is torch.strided and not found.is_quantized
        same = same and (found.shape, found.dtype) == (own.shape, own.dtype)
    elif isinstance(own, dict):
        same = isinstance(found, dict) and found.keys() == own.keys()
    elif isinstance(own, list | tuple):
        same = type(found) is type(own) and len(found) == len(own)
    else:
        number = isinstance(own, float) and type(found) is int
        same = number or type(found) is type(own) and (not isinstance(own, float) or math.isfinite(found))
    if not same:
        raise TypeError(
            f"{where} is {reprlib.repr(found) if not isinstance(found, torch.Tensor) else 'another tensor'}"
        )
    for name in own if isinstance(own, dict) else range(len(own)) if isinstance(own, list | tuple) else ():
        _same_kind(found[name], own[name], f"{where}.{name}")


@functools.cache
def _dim(name: str, size: int) -> Dim:
    return Dim(size, name=name)


def _time_major(
    array: np.ndarray, spatial_dim: Dim, batch_dim: Dim, sparse_dim: Dim | None = None, *, device: str
) -> Tensor:
    # The LSTM kernels work on (time, batch, feature); in this layout no transposed copy is needed.
    array = np.ascontiguousarray(array.T)
    return convert_to_tensor(array, dims=[spatial_dim, batch_dim], sparse_dim=sparse_dim, device=device)
