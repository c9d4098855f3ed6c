"""Feeding of data, runs of steps, and comparisons for whole programs."""

import numpy as np
import torch

import rfnb as rf
from rfnb.tensor import TensorDict

JUNK = 50.0


def feed(extern_data: TensorDict, seqs: dict) -> None:
    """New content: lists of arrays per sequence, padded with junk."""
    extern_data.reset_content()
    raw = {}
    for key, parts in seqs.items():
        template = extern_data[key]
        parts = [torch.as_tensor(np.asarray(part)) for part in parts]
        if parts[0].ndim == 0 or not template.dims[1].is_dynamic():
            raw[key] = torch.stack(parts)
            continue
        lengths = [len(part) for part in parts]
        junk = ((template.sparse_dim.dimension or 1) - 1) if template.sparse_dim else JUNK
        padded = torch.full((len(parts), max(lengths), *parts[0].shape[1:]), junk, dtype=parts[0].dtype)
        for row, part in zip(padded, parts):
            row[: len(part)] = part
        raw[key], raw[f"{key}:size1"] = padded, torch.tensor(lengths, dtype=torch.int32)
    extern_data.assign_from_raw_tensor_dict_(raw)


def randomize(model: rf.Module, *, scale: float = 0.4, seed: int = 3) -> dict[str, torch.Tensor]:
    """All trainable parameters random (biases too); {name: raw parameter}."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        if parameter.auxiliary or not parameter.raw_tensor.dtype.is_floating_point:
            continue
        with torch.no_grad():
            parameter.raw_tensor.copy_(torch.randn(parameter.raw_tensor.shape, generator=generator) * scale)
    return {name: parameter.raw_tensor for name, parameter in model.named_parameters()}


def train(step_func, model, extern_data, seqs, **options):
    feed(extern_data, seqs)
    with rf.init_train_step_run_ctx(**options) as run:
        step_func(model=model, extern_data=extern_data)
    return run


def forward(step, model, extern_data, seqs):
    feed(extern_data, seqs)
    with rf.init_forward_step_run_ctx() as run, torch.no_grad():
        step(model=model, extern_data=extern_data)
    return run


def same_gradients(total, expected, weights: dict, *, atol: float = 2e-5) -> None:
    """Two scalars and their gradients by all trainable weights are the same; none is all zero."""
    torch.testing.assert_close(total, expected, rtol=1e-4, atol=atol)
    names = [name for name, weight in weights.items() if weight.requires_grad]
    ours = torch.autograd.grad(total, [weights[name] for name in names], allow_unused=True, retain_graph=True)
    theirs = torch.autograd.grad(expected, [weights[name] for name in names], allow_unused=True)
    for name, a, b in zip(names, ours, theirs):
        assert (a is None) == (b is None), name
        if a is not None:
            torch.testing.assert_close(a, b, rtol=1e-3, atol=atol, msg=lambda text, name=name: f"{name}: {text}")
    assert any(a is not None and a.abs().max() > 0 for a in ours)


def alone(step, model, extern_data, seqs, *, atol: float = 2e-5):
    """Each sequence alone has the outputs that it has in the batch. Returns the outputs per sequence."""
    run, results = forward(step, model, extern_data, seqs), []
    count = len(next(iter(seqs.values())))
    for index in range(count):
        results.append({name: np.asarray(x.raw_tensor) for name, x in run.outputs.sequence(index).data.items()})
    for index in range(count):
        one = forward(step, model, extern_data, {key: [parts[index]] for key, parts in seqs.items()})
        for name, x in one.outputs.sequence(0).data.items():
            np.testing.assert_allclose(
                np.asarray(x.raw_tensor), results[index][name], rtol=1e-4, atol=atol, err_msg=f"{name} of {index}"
            )
    return results


def ctc_nll(log_probs: torch.Tensor, labels, blank: int) -> torch.Tensor:
    """-log p(labels) by the sum over all paths: {time, class}, one sequence."""
    states = [blank]
    for label in labels:
        states += [int(label), blank]
    ninf = torch.tensor(float("-inf"))
    row = [log_probs[0, s] if i < 2 else ninf for i, s in enumerate(states)]
    for frame in log_probs[1:]:
        new = []
        for i, s in enumerate(states):
            ways = [row[i]] + ([row[i - 1]] if i > 0 else [])
            if i > 1 and s != blank and s != states[i - 2]:
                ways.append(row[i - 2])
            ways = [way for way in ways if way > float("-inf")]
            new.append(torch.logsumexp(torch.stack(ways), 0) + frame[s] if ways else ninf)
        row = new
    ends = [way for way in row[-2:] if way > float("-inf")]
    return -torch.logsumexp(torch.stack(ends), 0)


def layer_norm(x, weights, name, eps=1e-6):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + eps) * weights[f"{name}.scale"] + weights[f"{name}.bias"]


def linear(x, weights, name):
    y = x @ weights[f"{name}.weight"]
    return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y


def lstm(xs, weights, name, state=None):
    """{time, in} -> {time, out}, (h, c); gates i, f, cell, o."""
    wf, wr, b = (weights[f"{name}.{key}"] for key in ("ff_weight", "rec_weight", "bias"))
    h, c = state if state else (torch.zeros(wr.shape[1]), torch.zeros(wr.shape[1]))
    out = []
    for x in xs:
        i, f, g, o = (wf @ x + wr @ h + b).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        out.append(h)
    return torch.stack(out), (h, c)


def rand(seed: int, *shape) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def labels(seed: int, length: int, classes: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, classes, size=length).astype("int32")
