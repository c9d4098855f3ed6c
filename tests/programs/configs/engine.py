"""Runs a configuration of the documented interface, as a person's loop would: training, then a forward pass with its callback.

    python engine.py CONFIG

Prints a line of JSON: losses by epoch, what the callback has, and the same for each sequence alone.
"""

import rfnb.as_returnn  # isort: split

import json
import sys

import numpy as np
import torch
from returnn.config import Config, set_global_config
from returnn.tensor import TensorDict, batch_dim

import rfnb as rf

LENGTHS, LABELS = [14, 9, 12, 6], [4, 1, 3, 2]


def batch_of(data, seqs):
    """The raw arrays of some sequences."""
    rng = np.random.default_rng(1)
    inputs = rng.normal(size=(4, max(LENGTHS), 8)).astype("float32")
    classes = rng.integers(1, 6, (4, max(LABELS))).astype("int32")
    raw = {}
    for name, tensor in data.data.items():
        values, lengths = (classes, LABELS) if tensor.sparse_dim else (inputs, LENGTHS)
        lengths = np.array(lengths, "int32")[seqs]
        raw |= {name: values[seqs, : lengths.max()], f"{name}:size1": lengths}
    return raw


def templates(options):
    data = TensorDict()
    data.update(options, auto_convert=True)
    return data


def forward(config, model, extern_data, seqs):
    """The callback after these sequences."""
    made = config.typed_value("forward_callback")
    callback = made()
    callback.init(model=model)
    with torch.no_grad():
        extern_data.assign_from_raw_tensor_dict_(batch_of(extern_data, seqs))
        rf.init_forward_step_run_ctx(expected_outputs=templates(config.typed_value("model_outputs")))
        run = rf.get_run_ctx()
        config.typed_value("forward_step")(model=model, extern_data=extern_data)
        run.check_outputs_complete()
        for index, seq in enumerate(seqs):
            callback.process_seq(seq_tag=f"seq-{seq}", outputs=run.outputs.sequence(index))
    callback.finish()
    return next(value for name, value in vars(callback).items() if not name.startswith("_"))


def main(path):
    config = Config()
    set_global_config(config)
    config.load_file(path)
    rf.set_random_seed(2)
    extern_data = templates(config.typed_value("extern_data"))
    model = config.typed_value("get_model")(epoch=1, step=0)
    assert batch_dim in extern_data.all_dims()
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[config.typed_value("optimizer")["class"]]
    optimizer = kind(model.parameters(), lr=config.float("learning_rate", 0.0))
    schedule, losses, step = config.typed_value("dynamic_learning_rate"), [], 0
    for epoch in range(1, config.int("num_epochs", 0) + 1):
        for seqs in ([0, 1, 2, 3], [2, 1], [3, 0, 1]):
            extern_data.assign_from_raw_tensor_dict_(batch_of(extern_data, seqs))
            rf.init_train_step_run_ctx(train_flag=True, step=step, epoch=epoch)
            config.typed_value("train_step")(model=model, extern_data=extern_data)
            run = rf.get_run_ctx()
            for group in optimizer.param_groups if schedule else ():
                group["lr"] = schedule(global_train_step=step, epoch=epoch)
            optimizer.zero_grad()
            run.total_loss().raw_tensor.backward()
            optimizer.step()
            step += 1
        losses.append({name: float(loss.get_mean_loss().raw_tensor.detach()) for name, loss in run.losses.items()})
    together = forward(config, model, extern_data, [2, 0, 3, 1])
    alone = {name: value for seq in range(4) for name, value in forward(config, model, extern_data, [seq]).items()}
    print(json.dumps({"losses": losses, "together": together, "alone": alone}))


main(sys.argv[1])
