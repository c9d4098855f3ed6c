"""watch: observe a training.

    with rf.watch(model, optimizer) as watch:
        for batch in batches:
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            watch.log(loss=loss)
    print(watch.summary())

This file does not import torch, so that `import rfnb` does not either.
"""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rfnb.interop.watch.watch import Watch


def watch(
    model: Any,
    optimizer: Any = None,
    *,
    example: Any = None,
    every: str | int = "epoch",
    on_nan: str = "stop",
    activations: int | bool | None = None,
    updates: int | bool | None = None,
    scaler: Any = None,
    title: str | None = None,
    save: str | PathLike[str] | None = None,
    tensorboard: str | PathLike[str] | None = None,
) -> Watch:
    """Watch a training: its curves, the gradients, updates and activations of each module, and one example over time.

    The training is not affected, neither its numbers nor its random generators. `watch.log(loss=loss)` adds numbers,
    `watch.epoch()` marks the end of an epoch, and `rf.show(watch)` draws the training live. `watch.close()`, or the end
    of a with-block, removes all hooks.

    Args:
        model: A torch.nn.Module, also in DistributedDataParallel, or a Module.
        optimizer: A torch optimizer, or several in a list, or by name in a dict. None: a callback provides it,
            `rf.watch(model).as_trainer_callback()`.
        example: An input on which the model is recorded before the training, and usually after each epoch: the
            arguments of the model (a dict by name, a tuple, or one), or a function without arguments that calls the model.
            It is run in eval mode.
        every: "epoch" (as marked by `watch.epoch()` or a callback), or the number of updates between two recordings of the example.
        on_nan: If a gradient, the loss or a parameter is NaN or infinite: "stop" raises an error that names the module
            that made it, before the optimizer uses it (on a GPU one step later), "warn" warns once, "ignore" does nothing.
        activations: Number of updates between two measurements of module outputs; False to disable. Default: chosen such
            that it costs about 0.4 %, at most 100.
        updates: Number of updates between two measurements of parameter changes, likewise.
        scaler: The GradScaler of the training, to count the steps that it skips.
        title: The title of the views. Default: the class of the model.
        save: A file that grows with the training, and survives if its process is killed: `rf.load_trace(path).training`
            reads it, also from another process during the training. An existing file is replaced. In a distributed training
            the first process writes it.
        tensorboard: A folder for event files of TensorBoard, with all curves and the numbers of all modules; needs the package tensorboard.

    Raises:
        ImportError: If `tensorboard` is given and its package is missing.
        OSError: If the file for `save` cannot be written.
        TypeError: For a model or an optimizer of another kind, or a scripted model.
        ValueError: For a model without parameters, an optimizer of another model, a model that is already watched, or an invalid option.
    """
    from rfnb.interop.watch.watch import Watch  # imports torch

    return Watch(
        model,
        optimizer,
        example=example,
        every=every,
        on_nan=on_nan,
        activations=activations,
        updates=updates,
        scaler=scaler,
        title=title,
        save=save,
        tensorboard=tensorboard,
    )
