"""watch: see a training from inside.

    with rf.watch(model, optimizer) as watch:
        for batch in batches:
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            watch.log(loss=loss)
    print(watch.summary())

This file does not import torch, so that `import rfnb` does not.
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
    """Watch a training: its curves, the gradients, updates and activations of each module, and one example again and again.

    Nothing of the training changes: not its numbers, nor its random generators. `watch.log(loss=loss)` adds numbers, `watch.epoch()` says
    that an epoch is over, `rf.show(watch)` draws what there is and follows. After `watch.close()`, or the end of a with-block, nothing is
    hooked any more.

    Args:
        model: A torch.nn.Module, also in DistributedDataParallel, or a Module.
        optimizer: A torch optimizer, or several in a list, or by name in a dict. None: a callback brings it,
            `rf.watch(model).as_trainer_callback()`.
        example: What the model does with it is recorded before the training, and after each epoch or so: the arguments of the model (a
            dict by name, a tuple, or one), or a function without arguments that calls the model. It is run in eval mode.
        every: "epoch" (when `watch.epoch()` or a callback says so), or the number of updates between two recordings of the example.
        on_nan: Where a gradient, the loss or a parameter is NaN or infinite: "stop" raises with the module that made it, before the
            optimizer uses it (on a GPU one step later), "warn" warns once, "ignore" does nothing.
        activations: Updates between two looks at the results of modules; False: no looks. Default: chosen so that it costs about 0.4
            %, at most 100.
        updates: Likewise between two measurements of how far the parameters move.
        scaler: The GradScaler of the training: then steps that it skips are counted.
        title: Of the views. Default: the class of the model.
        save: A file that grows with the training, and stays if its process is killed: `rf.load_trace(path).training` reads it, also from
            another process meanwhile. A file that is there is replaced. Of a distributed training the first process writes it.
        tensorboard: A folder for event files of TensorBoard, with all curves and the numbers of all modules; needs the package tensorboard.

    Raises:
        ImportError: `tensorboard`, without its package.
        OSError: `save`, where no file can be written.
        TypeError: A model or an optimizer of another kind; a scripted model.
        ValueError: A model without parameters, an optimizer of another model, a model that is watched already, or an option that is none.
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
