"""A network imported from torch.nn and trained beside it: optimizer groups by weight_decay, a checkpointed step, averaged parameters,
the bridge, low-rank adapters as parametrizations that are merged at the end, and mixed precision."""

import numpy as np
import pytest
import torch
from rfnb.conversions.torch_nn import (
    import_params_torch_conv1d_to_rf,
    import_params_torch_layer_norm_to_rf,
    import_params_torch_linear_to_rf,
)
from rfnb.parametrize import is_parametrized, register_parametrization, remove_parametrization

import rfnb as rf
from rfnb.interop.torch_module import pt_module_to_rf_module, rf_module_to_pt_module
from rfnb.tensor import Dim, Tensor, batch_dim


class Lora(rf.Module):
    """weight + a b, from b = 0 on (Hu et al. 2021)"""

    def __init__(self, weight: rf.Parameter, rank: int):
        super().__init__()
        in_dim, out_dim = weight.dims
        self.rank_dim = Dim(rank, name="rank")
        self.a, self.b = rf.Parameter([in_dim, self.rank_dim]), rf.Parameter([self.rank_dim, out_dim])
        self.a.initial, self.b.initial = rf.init.Glorot(), 0.0

    def __call__(self, weight: Tensor) -> Tensor:
        return weight + rf.matmul(self.a, self.b, reduce=self.rank_dim)


class Block(rf.Module):
    def __init__(self, dim: Dim):
        super().__init__()
        ff_dim = Dim(11, name="ff")
        self.norm, self.conv = rf.LayerNorm(dim, eps=1e-5), rf.Conv1d(dim, dim, 3, padding="same")
        self.up, self.down = rf.Linear(dim, ff_dim), rf.Linear(ff_dim, dim)

    def __call__(self, x: Tensor, *, spatial_dim: Dim) -> Tensor:
        y, _ = self.conv(self.norm(x), in_spatial_dim=spatial_dim)
        return x + self.down(rf.gelu(self.up(y)))


class Net(rf.Module):
    def __init__(self, in_dim: Dim, dim: Dim, out_dim: Dim):
        super().__init__()
        self.inp, self.out = rf.Linear(in_dim, dim), rf.Linear(dim, out_dim)
        self.layers = rf.Sequential(Block(dim) for _ in range(2))

    def __call__(self, x: Tensor, *, spatial_dim: Dim) -> Tensor:
        return self.out(self.layers(self.inp(x), spatial_dim=spatial_dim))


class PlainBlock(torch.nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm, self.conv = torch.nn.LayerNorm(dim), torch.nn.Conv1d(dim, dim, 3, padding=1)
        self.up, self.down = torch.nn.Linear(dim, 11), torch.nn.Linear(11, dim)
        torch.nn.init.normal_(self.norm.weight)
        torch.nn.init.normal_(self.norm.bias)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        y = self.conv((self.norm(x) * mask).transpose(1, 2)).transpose(1, 2)
        return x + self.down(torch.nn.functional.gelu(self.up(y)))


class PlainNet(torch.nn.Module):
    def __init__(self, in_dim: int, dim: int, out_dim: int):
        super().__init__()
        self.inp, self.out = torch.nn.Linear(in_dim, dim), torch.nn.Linear(dim, out_dim)
        self.layers = torch.nn.ModuleList(PlainBlock(dim) for _ in range(2))

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.inp(x)
        for layer in self.layers:
            x = layer(x, mask)
        return self.out(x)


def import_params(plain: PlainNet, net: Net) -> None:
    for a, b in ((plain.inp, net.inp), (plain.out, net.out)):
        import_params_torch_linear_to_rf(a, b)
    for a, b in zip(plain.layers, net.layers):
        import_params_torch_layer_norm_to_rf(a.norm, b.norm)
        import_params_torch_conv1d_to_rf(a.conv, b.conv)
        import_params_torch_linear_to_rf(a.up, b.up)
        import_params_torch_linear_to_rf(a.down, b.down)


def average(a: dict[str, Tensor], named: dict[str, rf.Parameter]) -> dict[str, Tensor]:
    return {name: rf.stop_gradient(rf.lerp(a[name], param, 0.3)) for name, param in named.items()}


@pytest.mark.parametrize(("lengths", "sizes"), [([5, 3, 1, 4], (5, 8, 3)), ([1], (5, 8, 3)), ([4, 4, 4, 4], (4, 4, 4))])
def test_training_beside_torch_and_adapters(lengths, sizes):
    batch_dim.reset_eager()
    torch.manual_seed(0)
    rf.set_random_seed(1)
    in_dim, dim, out_dim = (Dim(size, name=name) for size, name in zip(sizes, ("in", "model", "out")))
    plain, net = PlainNet(*sizes), Net(in_dim, dim, out_dim)
    import_params(plain, net)
    time = Dim(rf.convert_to_tensor(np.array(lengths, "int32"), dims=[batch_dim]), name="time")
    raw, wanted = (torch.randn(len(lengths), max(lengths), size) for size in (sizes[0], sizes[2]))
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, in_dim])
    targets = rf.convert_to_tensor(wanted, dims=[batch_dim, time, out_dim])
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]

    def out() -> torch.Tensor:
        return net(x, spatial_dim=time).copy_transpose([batch_dim, time, out_dim]).raw_tensor[mask]

    def plain_out() -> torch.Tensor:
        return plain(raw, mask[..., None].float())[mask]

    torch.testing.assert_close(out(), plain_out(), atol=1e-5, rtol=1e-3)
    groups: dict[float, list[torch.Tensor]] = {}
    for module in net.modules():
        for name, param in module.named_parameters(recurse=False):
            param.weight_decay = 0.1 if name in ("weight", "filter") else 0.0
            groups.setdefault(param.weight_decay, []).append(param.raw_tensor)
    optimizer = torch.optim.AdamW(
        [{"params": group, "weight_decay": decay} for decay, group in groups.items()], lr=0.01
    )
    decays: dict[bool, list[torch.Tensor]] = {True: [], False: []}
    for name, param in plain.named_parameters():
        decays["norm" not in name and not name.endswith("bias")].append(param)
    plain_groups = [{"params": decays[decay], "weight_decay": 0.1 * decay} for decay in (True, False)]
    plain_optimizer = torch.optim.AdamW(plain_groups, lr=0.01)

    named, plain_named = dict(net.named_parameters()), dict(plain.named_parameters())
    averaged = {name: rf.copy(param) for name, param in named.items()}
    plain_averaged = {name: param.detach().clone() for name, param in plain_named.items()}
    for step in range(4):
        with rf.init_train_step_run_ctx(train_flag=True, step=step) as run:
            if step == 2:
                with rf.gradient_checkpoint_scope():
                    y = net(x, spatial_dim=time)
            else:
                y = net(x, spatial_dim=time)
            loss = rf.reduce_sum(rf.squared_difference(y, targets), axis=out_dim)
            loss.mark_as_loss("mse", use_normalized_loss=True)
        plain_loss = (plain_out() - wanted[mask]).square().sum(-1).mean()
        for each, total, params in (
            (optimizer, run.total_loss().raw_tensor, [param.raw_tensor for param in net.parameters()]),
            (plain_optimizer, plain_loss, list(plain.parameters())),
        ):
            each.zero_grad()
            total.backward()
            torch.nn.utils.clip_grad_norm_(params, 1.0)
            each.step()
        averaged = average(averaged, named)
        for name, param in plain_named.items():
            plain_averaged[name].lerp_(param.detach(), 0.3)
    torch.testing.assert_close(out(), plain_out(), atol=1e-4, rtol=1e-3)

    for name, param in named.items():
        param.assign(averaged[name])
    plain.load_state_dict(plain_averaged)
    torch.testing.assert_close(out(), plain_out(), atol=1e-4, rtol=1e-3)

    module = rf_module_to_pt_module(net)
    assert pt_module_to_rf_module(module) is net
    saved = {name: value.clone() for name, value in module.state_dict().items()}
    assert saved.keys() == named.keys()
    for param in net.parameters():
        param.assign_add(1.0)
    module.load_state_dict(saved)
    before = out()
    torch.testing.assert_close(before, plain_out(), atol=1e-4, rtol=1e-3)

    linears = [module for module in net.modules() if isinstance(module, rf.Linear)]
    for param in net.parameters():
        param.trainable = False
    for linear in linears:
        register_parametrization(linear, "weight", Lora(linear.weight, 2))
        assert is_parametrized(linear, "weight")
    torch.testing.assert_close(out(), before)
    added = {name: param for name, param in net.named_parameters() if name not in named}
    assert len(added) == 2 * len(linears) == 12
    for param in added.values():
        param.assign(rf.random_normal(param.dims, stddev=0.3))
    out().square().mean().backward()
    assert all(param.raw_tensor.grad.abs().sum() > 0 for param in added.values())
    assert not any(param.raw_tensor.requires_grad for param in named.values())

    adapted = out()
    for linear in linears:
        weight = rf.copy(linear.weight)
        remove_parametrization(linear, "weight")
        linear.weight.assign(weight)
    assert dict(net.named_parameters()).keys() == named.keys()
    torch.testing.assert_close(out(), adapted, atol=1e-5, rtol=1e-4)

    for scope in (rf.set_amp_policy_ctx("bfloat16"), torch.autocast("cpu", dtype=torch.bfloat16)):
        with scope:
            half = out()
        assert half.dtype == torch.bfloat16
        torch.testing.assert_close(half.float(), adapted, atol=0.3, rtol=0.1)
