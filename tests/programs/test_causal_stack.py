"""A stack of causal convolutions that is built from dicts and keeps its last frames as a state of its own: at once, step by step, in both
faces of a Loop and in plain torch; with hooks, collected outputs and functions as modules."""

import numpy as np
import pytest
import torch
from loop_faces import run_steps
from rfnb.hooks import setup_post_hook_on_method

import rfnb as rf
from rfnb.tensor import Dim, Tensor, batch_dim, single_step_dim


class PastState(rf.State):
    def __init__(self, *args, past: Tensor | None = None):
        super().__init__(*args)
        if not args:
            self.past = past


class CausalConv(rf.Module):
    def __init__(self, in_dim: Dim, out_dim: Dim, *, width: int, activation=rf.relu):
        super().__init__()
        self.in_dim, self.out_dim = in_dim, out_dim
        self.past_dim, self.width_dim = Dim(width - 1, name="past"), Dim(width, name="width")
        rows = rf.dim_match_priority_when_needed(in_dim, out_dim)
        self.weight = rf.Parameter([self.width_dim, rows, out_dim])
        self.weight.initial = rf.init.Glorot()
        is_dict = isinstance(activation, dict)
        self.activation = rf.build_from_dict(activation) if is_dict else rf.Functional(activation)

    def default_initial_state(self, *, batch_dims: list[Dim]) -> PastState:
        return PastState(past=rf.zeros([*batch_dims, self.past_dim, self.in_dim], feature_dim=self.in_dim))

    def __call__(self, source: Tensor, *, spatial_dim: Dim, state: PastState) -> tuple[Tensor, PastState]:
        if spatial_dim is single_step_dim:
            frame_dim = Dim(1, name="frame")
            x, x_dim = rf.concat((state.past, self.past_dim), (rf.expand_dim(source, frame_dim), frame_dim))
            windows, _ = rf.replace_dim(x, in_dim=x_dim, out_dim=self.width_dim)
            past, _ = rf.slice(x, axis=x_dim, start=1, size=self.past_dim)
        else:
            x, x_dim = rf.concat((state.past, self.past_dim), (source, spatial_dim))
            windows, out_dim = rf.window(x, spatial_dim=x_dim, window_dim=self.width_dim, padding="valid")
            windows, _ = rf.replace_dim(windows, in_dim=out_dim, out_dim=spatial_dim)
            last = rf.combine_bc(rf.range_over_dim(self.past_dim), "+", spatial_dim.get_size_tensor())
            past = rf.gather(x, indices=rf.set_sparse_dim(last, x_dim), axis=x_dim)
        out = rf.matmul(windows, self.weight, reduce=[self.width_dim, self.in_dim])
        return self.activation(out), PastState(past=past)


class Stack(rf.Module):
    def __init__(self, in_dim: Dim, dim: Dim, *, layer: dict, num_layers: int):
        super().__init__()
        dims = [in_dim] + [dim] * num_layers
        self.layers = rf.ModuleList([rf.build_from_dict(layer, a, b) for a, b in zip(dims, dims[1:])])
        self.out = rf.Sequential({"norm": rf.LayerNorm(dim), "half": lambda x: x * 0.5, "linear": rf.Linear(dim, dim)})

    def __call__(self, x: Tensor, *, spatial_dim: Dim, state: rf.State, collected_outputs: dict | None = None):
        new = rf.State(layers=rf.State())
        for name, layer in self.layers.items():
            x, new.layers[name] = layer(x, spatial_dim=spatial_dim, state=state.layers[name])
        return self.out(x, collected_outputs=collected_outputs), new


@pytest.fixture(params=[([5, 3, 1, 4], 5, 6), ([1], 5, 6), ([4, 4, 4, 4], 4, 4), ([2, 7], 6, 6)], ids=str)
def setup(request):
    lengths, in_size, size = request.param
    batch_dim.reset_eager()
    rf.set_random_seed(2)
    in_dim = Dim(in_size, name="in")
    dim = in_dim if in_size == size else Dim(size, name="model")
    activation = rf.build_dict(rf.PiecewiseLinear, points={-1.0: -0.5, 0.0: 0.0, 1.0: 1.0})
    layer = rf.build_dict(CausalConv, width=4, activation=activation)
    net = Stack(in_dim, dim, layer=layer, num_layers=2)
    raw = np.random.default_rng(0).normal(size=(len(lengths), max(lengths), in_size)).astype("float32")
    time = Dim(rf.convert_to_tensor(np.array(lengths, "int32"), dims=[batch_dim]), name="time")
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, in_dim], feature_dim=in_dim)
    return net, x, time, dim, lengths


def test_at_once_as_in_torch(setup):
    net, x, time, dim, lengths = setup
    collected = {}
    out, _ = net(
        x, spatial_dim=time, state=net.default_initial_state(batch_dims=[batch_dim]), collected_outputs=collected
    )
    assert list(collected) == ["norm", "half", "linear"] and collected["linear"] is out
    out = out.copy_transpose([batch_dim, time, dim]).raw_tensor
    params = {name: param.raw_tensor for name, param in net.named_parameters()}
    assert params.keys() == {
        "layers.0.weight", "layers.1.weight", "out.norm.scale", "out.norm.bias", "out.linear.weight", "out.linear.bias",
    }  # fmt: skip
    for seq, length in enumerate(lengths):
        y = x.raw_tensor[seq, :length]
        for name in ("layers.0.weight", "layers.1.weight"):
            padded = torch.nn.functional.pad(y, (0, 0, 3, 0))
            y = sum(padded[shift : shift + length] @ params[name][shift] for shift in range(4))
            y = torch.where(y < 0, 0.5 * y.clamp(min=-1), y.clamp(max=1))
        y = (
            torch.nn.functional.layer_norm(y, y.shape[1:], params["out.norm.scale"], params["out.norm.bias"], 1e-6)
            * 0.5
        )
        y = y @ params["out.linear.weight"] + params["out.linear.bias"]
        torch.testing.assert_close(out[seq, :length], y, atol=1e-5, rtol=1e-4)


def test_step_by_step_as_at_once(setup):
    net, x, time, dim, lengths = setup
    initial = net.default_initial_state(batch_dims=[batch_dim])
    out, last = net(x, spatial_dim=time, state=initial)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]

    def check(steps: torch.Tensor, state: rf.State) -> None:
        expected = out.copy_transpose([batch_dim, time, dim]).raw_tensor
        torch.testing.assert_close(steps[mask], expected[mask], atol=1e-5, rtol=1e-4)
        for name, layer in last.layers.items():
            assert type(state.layers[name]) is PastState
            past = state.layers[name].past.copy_transpose(layer.past.dims).raw_tensor
            torch.testing.assert_close(past, layer.past.raw_tensor, atol=1e-5, rtol=1e-4)

    state, steps = initial, []
    for pos in range(max(lengths)):
        frame = rf.gather(x, indices=pos, axis=time)
        y, new = net(frame, spatial_dim=single_step_dim, state=state)
        state = rf.nested.where_nested(new, state, condition=pos < time.get_size_tensor())
        steps.append(y.copy_transpose([batch_dim, dim]).raw_tensor)
    check(torch.stack(steps, 1), state)

    for face in ("for", "with"):
        loop = rf.Loop(axis=time)
        loop.state.net = initial

        def step(loop=loop):
            y, loop.state.net = net(loop.unstack(x), spatial_dim=single_step_dim, state=loop.state.net)
            return loop.stack(y)

        stacked = run_steps(loop, face, step)
        check(stacked.copy_transpose([batch_dim, time, dim]).raw_tensor, loop.state.net)


def test_hooks_see_each_module_until_they_are_removed(setup):
    net, x, time, _, _ = setup
    seen = []

    def hook(module, args, kwargs, result):
        seen.append(type(module).__name__)
        return result

    modules = [module for module in net.modules() if not isinstance(module, (Stack, rf.ModuleList))]
    handles = [module.register_forward_hook(hook) for module in [*modules, net.out]]
    start = setup_post_hook_on_method(
        net.layers[0], "default_initial_state", lambda self, args, kwargs, state: PastState(past=state.past + 1.0)
    )
    state = net.default_initial_state(batch_dims=[batch_dim])
    assert [float(rf.reduce_max(s.past, axis=s.past.dims)) for s in state.layers.values()] == [1.0, 0.0]
    net(x, spatial_dim=time, state=state)
    each = ["PiecewiseLinear", "CausalConv"]
    assert seen == [*each, *each, "LayerNorm", "Functional", "Linear", "Sequential"]
    for handle in (*handles, start):
        handle.remove()
    net(x, spatial_dim=time, state=net.default_initial_state(batch_dims=[batch_dim]))
    assert len(seen) == 8
