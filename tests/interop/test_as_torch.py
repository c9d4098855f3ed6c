"""`rf.as_torch`: a Module in code that knows torch only. What torch does to a module holds for the Module."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn.utils.prune
from asserting import assert_same, raises_message, randn

import rfnb as rf
from rfnb import Dim

A, B, C = Dim(3, name="a"), Dim(5, name="b"), Dim(4, name="c")
VOCAB = Dim(11, name="vocab")


@pytest.fixture(autouse=True)
def fixed_seeds():
    rf.set_random_seed(1)
    torch.manual_seed(1)


class Net(rf.Module):
    """Two linear layers with dropout between them, and batch norm."""

    def __init__(self):
        self.in_dim = A
        self.first, self.norm, self.last = rf.Linear(A, B), rf.BatchNorm(B), rf.Linear(B, C)

    def __call__(self, x: rf.Tensor) -> rf.Tensor:
        return self.last(rf.dropout(self.norm(rf.tanh(self.first(x))), 0.5))


def net(inputs="batch time in_dim"):
    return rf.as_torch(Net(), inputs=inputs)


def plain_of(pt):
    """The same computation in torch, from the parameters that the torch module has, for eval()."""

    def run(x, p=None):
        p = {**dict(pt.named_parameters()), **dict(pt.named_buffers()), **(p or {})}
        h = torch.tanh(x @ p["first.weight"] + p["first.bias"])
        h = (h - p["norm.running_mean"]) / torch.sqrt(p["norm.running_variance"] + 1e-3)
        return (h * p["norm.gamma"] + p["norm.beta"]) @ p["last.weight"] + p["last.bias"]

    return run


def through_torch(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


def input_of(*shape):
    return torch.randn(*(shape or (2, 7, 3)))


# -- arrays ------------------------------------------------------------------------------------------------------------
def test_an_array_goes_in_and_one_comes_out():
    pt, x = net().eval(), input_of()
    torch.testing.assert_close(pt(x), plain_of(pt)(x))


def test_axes_may_be_dims_names_and_templates():
    x, net_ = input_of(), Net()
    batch, time = Dim(None, name="batch"), Dim(None, name="time")
    wanted = rf.as_torch(net_, "batch time in_dim").eval()(x)
    for inputs in (
        ["batch", "time", A],
        [batch, time, A],
        rf.Tensor("x", [batch, time, A]),
        {"x": "batch time in_dim"},
    ):
        torch.testing.assert_close(rf.as_torch(net_, inputs).eval()(x), wanted)
    assert batch.size is None and not batch.is_dim_known()


def test_without_inputs_it_is_called_with_tensors():
    model, x = Net(), randn(Dim(2, name="batch"), A)
    assert_same(rf.as_torch(model).eval()(x), model(x))


def test_the_order_of_axes_is_that_of_the_input_or_as_it_is_said():
    x, model = input_of(), Net()
    wanted = rf.as_torch(model, "batch time in_dim").eval()(x)
    moved = rf.as_torch(model, "time in_dim batch").eval()(x.permute(1, 2, 0))
    assert moved.shape == (7, 2, 4)
    torch.testing.assert_close(moved.permute(1, 0, 2), wanted)
    said = rf.as_torch(model, "batch time in_dim", outputs="time c batch").eval()(x)
    torch.testing.assert_close(said.permute(2, 0, 1), wanted)


def test_ids_and_lengths_of_a_transformer_leave_padding_out():
    model = rf.TransformerEncoder(VOCAB, Dim(8, name="model"), num_layers=2, num_heads=2)
    batch, time = Dim(None, name="batch"), Dim(None, name="time")
    pt = rf.as_torch(model, rf.Tensor("ids", [batch, time], "int64", sparse_dim=VOCAB)).eval()
    ids = torch.randint(0, 11, (3, 7))
    lengths = torch.tensor([6, 2, 4])
    out = pt(ids, lengths)
    assert out.shape == (3, 7, 8)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(out[row, :length], pt(ids[row : row + 1, :length])[0])
        assert not out[row, length:].any()
    torch.testing.assert_close(pt(ids, lengths=[6, 2, 4]), out)
    torch.testing.assert_close(pt(ids, time_lengths=lengths), out)


def test_an_lstm_gets_its_first_state_and_gives_its_last_one_as_a_dict():
    lstm, plain = rf.LSTM(A, B), torch.nn.LSTM(3, 5, batch_first=True)
    pt = rf.as_torch(lstm, "batch time in_dim")
    x, lengths = input_of(3, 7, 3), torch.tensor([7, 2, 4])
    out, state = pt(x, lengths)
    assert out.shape == (3, 7, 5) and type(state) is dict and state["h"].shape == (3, 5)
    for row, length in enumerate([7, 2, 4]):
        torch.testing.assert_close(state["h"][row], out[row, length - 1])
    assert (
        sum(p.numel() for p in pt.parameters()) == sum(p.numel() for p in plain.parameters()) - 20
    )  # two biases there


def test_a_dim_in_the_result_becomes_lengths():
    conv = rf.Conv1d(A, B, 3, padding="valid", strides=2)
    pt = rf.as_torch(conv, "batch time in_dim")
    out, lengths = pt(input_of(2, 9, 3), torch.tensor([9, 6]))
    assert out.shape == (2, 4, 5) and lengths.tolist() == [4, 2] and lengths.dtype == torch.int64
    assert not out[1, 2:].any()
    assert pt(input_of(2, 9, 3))[1].tolist() == [4, 4]


class Attends(rf.Module):
    def __call__(self, query: rf.Tensor, keys: rf.Tensor, *, axis: Dim) -> rf.Tensor:
        return rf.dot_attention(query, keys, keys, key_dim=A, axis=axis)


def test_several_arrays_share_the_axes_that_have_one_name():
    inputs = {"query": ["batch", "target", A], "keys": ["batch", "source", A]}
    pt = rf.as_torch(Attends(), inputs, dims={"axis": "source"})
    query, keys = input_of(2, 5, 3), input_of(2, 7, 3)
    wanted = torch.nn.functional.scaled_dot_product_attention(query, keys, keys)
    torch.testing.assert_close(pt(query, keys), wanted)
    wanted = torch.nn.functional.scaled_dot_product_attention(query, keys[:, :4], keys[:, :4])
    torch.testing.assert_close(pt(query, keys, source_lengths=[4, 4]), wanted)
    torch.testing.assert_close(pt(keys=keys, query=query, source_lengths=[4, 4]), wanted)


def test_it_is_a_layer_among_layers_of_torch():
    both = torch.nn.Sequential(
        rf.as_torch(rf.Linear(A, B), "batch time in_dim"), torch.nn.ReLU(), torch.nn.Linear(5, 3), net()
    )
    assert both(input_of()).shape == (2, 7, 4)
    both(input_of()).sum().backward()
    assert all(p.grad is not None for p in both.parameters())
    assert "0.weight" in both.state_dict() and "3.norm.running_mean" in both.state_dict()


def test_gradients_of_an_input_are_those_of_torch():
    pt, x = net().eval(), input_of().requires_grad_()
    pt(x).square().sum().backward()
    got, x.grad = x.grad, None
    plain_of(pt)(x).square().sum().backward()
    torch.testing.assert_close(got, x.grad)


# -- training or not ---------------------------------------------------------------------------------------------------
def test_train_and_eval_say_whether_it_trains():
    pt, x = net(), input_of()
    assert pt.training and not pt.rf_module.norm.running_mean.numpy().any()
    assert not torch.equal(pt(x), pt(x))
    moved = pt.rf_module.norm.running_mean.numpy().copy()
    assert moved.any()
    pt.eval()
    torch.testing.assert_close(pt(x), pt(x))
    assert (pt.rf_module.norm.running_mean.numpy() == moved).all()


def test_a_part_may_be_frozen_by_eval():
    pt, x = net(), input_of()
    pt.norm.eval()
    first, second = pt(x), pt(x)
    assert not pt.rf_module.norm.running_mean.numpy().any()
    assert not torch.equal(first, second)  # dropout belongs to the whole, which trains
    assert rf.get_run_ctx().train_flag is False


def test_a_part_may_train_alone():
    pt = net().eval()
    pt.norm.train()
    x = input_of()
    torch.testing.assert_close(pt(x), pt(x))  # without dropout
    assert pt.rf_module.norm.running_mean.numpy().any()


def test_a_step_that_says_the_same_is_fine_and_another_one_is_refused():
    pt, x = net(), input_of()
    with rf.init_train_step_run_ctx():
        pt(x)
    with raises_message(
        RuntimeError,
        """
        Net[rf]: training mode is ambiguous.
          module  train()
          step    RunCtx(stage='forward_step', train_flag=False, step=0, epoch=1)
        The module and the running step are in different modes, but dropout needs one mode. Set both:
            module.eval()
            with rf.init_train_step_run_ctx():
        """,
    ), rf.init_forward_step_run_ctx():  # fmt: skip
        pt(x)
    pt.eval()
    with rf.init_forward_step_run_ctx():
        pt(x)
    with pytest.raises(RuntimeError, match="training mode is ambiguous"), rf.init_train_step_run_ctx():
        pt(x)


# -- one set of parameters ---------------------------------------------------------------------------------------------
def test_optimizers_clipping_and_state_dicts():
    pt, x = net(), input_of()
    optimizer = torch.optim.AdamW(pt.parameters(), lr=0.05)
    before = pt.rf_module.last.weight.numpy().copy()
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = (pt(x) - 1).square().mean()
        loss.backward()
        assert torch.nn.utils.clip_grad_norm_(pt.parameters(), 0.1) > 0
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] and (pt.rf_module.last.weight.numpy() != before).any()
    other = net()
    other.load_state_dict(pt.state_dict())
    torch.testing.assert_close(other.eval()(x), pt.eval()(x))
    third = net()
    third.load_state_dict(copy.deepcopy(pt.state_dict()), assign=True)
    torch.testing.assert_close(third.eval()(x), pt(x))
    assert third.rf_module.last.weight.raw_tensor is third.last.weight


@pytest.mark.parametrize("through", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), through_torch])
def test_copies_share_what_the_original_shares_and_compute_the_same(through):
    pt, x = net(), input_of()
    pt(x)
    pt.norm.eval()
    pt.first.weight.requires_grad_(False)
    other = through(pt)
    assert other is not pt and not other.norm.training and other.training
    for name, parameter in other.named_parameters():
        assert other.rf_module.get_deep(name).raw_tensor is parameter, name
        assert parameter is not dict(pt.named_parameters())[name]
        assert parameter.requires_grad == dict(pt.named_parameters())[name].requires_grad, name
    torch.testing.assert_close(other.eval()(x), pt.eval()(x))
    with torch.no_grad():
        other.last.bias.fill_(7.0)
    assert (other.rf_module.last.bias.numpy() == 7).all() and not (pt.last.bias == 7).any()


def test_dtype_and_parameters_that_are_put_in_place():
    pt, x = net().eval(), input_of()
    pt.double()
    assert pt(x.double()).dtype == torch.float64 and pt.rf_module.last.weight.dtype == "float64"
    pt.float()
    pt.last.weight = torch.nn.Parameter(torch.zeros(5, 4))
    assert pt.rf_module.last.weight.raw_tensor is pt.last.weight
    torch.testing.assert_close(pt(x), pt.last.bias.expand(2, 7, 4))
    pt.norm.running_mean = torch.full((5,), 2.0)
    assert (pt.rf_module.norm.running_mean.numpy() == 2).all()
    pt.norm.train()
    pt(x)
    assert (pt.norm.running_mean < 2).all()


def test_parts_of_torch_can_be_put_in_the_place_of_parts():
    pt, x = net().eval(), input_of()
    other = rf.as_torch(rf.Linear(B, C))
    pt.last = other
    torch.testing.assert_close(pt(x), plain_of(pt)(x))
    assert pt.rf_module.last is other.rf_module and "last.weight" in dict(pt.named_parameters())


def test_a_layer_of_torch_has_the_dims_of_the_part_that_it_is_put_in_the_place_of():
    pt, x = net().eval(), input_of()
    pt.last = torch.nn.Linear(5, 4)
    p = {"last.weight": pt.last.weight.T, "last.bias": pt.last.bias}
    torch.testing.assert_close(pt(x), plain_of(pt)(x, p))
    pt(x).sum().backward()
    assert pt.last.weight.grad is not None
    pt.last = torch.nn.Linear(5, 2)  # a head of another size
    assert pt(x).shape == (2, 7, 2)
    assert copy.deepcopy(pt)(x).shape == (2, 7, 2)


def test_a_parameter_of_another_shape_is_refused():
    pt = net()
    with raises_message(
        rf.ShapeError,
        """
        Linear[rf].weight: a parameter of another shape.
          parameter  [b=5, c=4]
          given      (4, 5)
        The dims of a parameter are those that its module was made with. For other ones make another module.
        """,
    ):
        pt.last.weight = torch.nn.Parameter(torch.zeros(4, 5))
    assert pt.last.weight.shape == (5, 4)


def test_what_the_module_gets_later_is_refused():
    pt = net()
    pt.rf_module.extra = rf.Linear(A, B)
    with raises_message(
        RuntimeError,
        """
        Net[rf]: extra was set after this torch module was made.
          module   Net
          has now  first, norm, last, extra
        An optimizer of torch, or a state_dict, would not have it. Make the torch module when the model is complete:
            module = rf.as_torch(model)
        """,
    ):
        pt(input_of())
    pt = net()
    pt.rf_module.last.bias = rf.Parameter([C])
    with pytest.raises(RuntimeError, match="bias was set after"):
        pt(input_of())


def test_copies_in_threads_are_refused():
    with raises_message(
        TypeError,
        """
        torch.nn.DataParallel: a module of rfnb.
          module  Net[rf]
        It has one set of parameters at a time, and the threads of DataParallel need one each. With a process for each device:
            torch.nn.parallel.DistributedDataParallel(module)
        """,
    ):
        net()._replicate_for_data_parallel()


def test_a_parametrization_of_rfnb_is_followed():
    pt, x = net().eval(), input_of()
    rf.register_parametrization(pt.rf_module.last, "weight", lambda weight: weight * 2.0)
    with pytest.raises(RuntimeError, match="weight_parametrization was set after"):
        pt(x)
    model = Net()
    rf.register_parametrization(model.last, "weight", lambda weight: weight * 2.0)
    pt = rf.as_torch(model, "batch time in_dim").eval()
    torch.testing.assert_close(pt(x), plain_of(pt)(x, {"last.weight": pt.last.weight * 2}))


class Twice(torch.nn.Module):
    def forward(self, weight):
        return 2 * weight


def test_parametrizations_of_torch_hold():
    pt, x = net().eval(), input_of()
    plain = plain_of(pt)
    weight = pt.last.weight.detach().clone()
    torch.nn.utils.parametrize.register_parametrization(pt.last, "weight", Twice())
    p = {name: value.detach() for name, value in pt.state_dict().items()}
    torch.testing.assert_close(pt(x), plain(x, {**p, "last.weight": 2 * weight}))
    pt(x).sum().backward()
    assert pt.last.parametrizations.weight.original.grad.any()
    torch.nn.utils.parametrize.remove_parametrizations(pt.last, "weight")
    torch.testing.assert_close(pt.last.weight.detach(), 2 * weight)
    torch.testing.assert_close(pt(x), plain(x))
    assert pt.rf_module.last.weight.raw_tensor is pt.last.weight


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "put",
    [
        torch.nn.utils.parametrizations.weight_norm,
        torch.nn.utils.weight_norm,
        torch.nn.utils.parametrizations.spectral_norm,
    ],
)
def test_weight_norm_trains_what_it_is_made_of(put):
    pt, x = net().eval(), input_of()
    put(pt.last, "weight")
    before = pt(x)
    weights = [p for n, p in pt.named_parameters() if n.startswith("last.") and "bias" not in n]
    assert weights and all("weight" in n for n, p in pt.named_parameters() if any(p is w for w in weights))
    torch.optim.SGD(pt.parameters(), lr=1.0).zero_grad()
    before.square().sum().backward()
    assert all(w.grad is not None and w.grad.any() for w in weights)
    with torch.no_grad():
        weights[0].mul_(3.0)
    other = copy.deepcopy(pt) if put is not torch.nn.utils.weight_norm else pt
    assert put is torch.nn.utils.parametrizations.spectral_norm or not torch.allclose(pt(x), before)
    torch.testing.assert_close(other(x), pt(x))


def test_pruning_holds():
    pt, x = net().eval(), input_of()
    torch.nn.utils.prune.l1_unstructured(pt.last, "weight", amount=0.5)
    assert (pt.last.weight == 0).sum() == 10
    torch.testing.assert_close(pt(x), plain_of(pt)(x, {"last.weight": pt.last.weight}))


def test_functional_call_uses_the_given_values_and_puts_nothing_in_place():
    pt, x = net().eval(), input_of()
    given = {name: torch.randn_like(p) for name, p in pt.named_parameters()}
    before = {name: p.detach().clone() for name, p in pt.named_parameters()}
    out = torch.func.functional_call(pt, given, (x,))
    torch.testing.assert_close(out, plain_of(pt)(x, given))
    for name, parameter in pt.named_parameters():
        assert torch.equal(parameter, before[name]) and pt.rf_module.get_deep(name).raw_tensor is parameter


def test_gradients_by_torch_func_are_those_of_backward():
    pt, x = net().eval(), input_of()
    parameters = dict(pt.named_parameters())
    loss = lambda p: torch.func.functional_call(pt, p, (x,)).square().sum()  # noqa: E731
    found = torch.func.grad(loss)({name: p.detach() for name, p in parameters.items()})
    pt(x).square().sum().backward()
    for name, parameter in parameters.items():
        torch.testing.assert_close(found[name], parameter.grad)


def test_an_average_of_weights():
    pt, x = net(), input_of()
    average = torch.optim.swa_utils.AveragedModel(pt, use_buffers=True)
    first = {name: p.detach().clone() for name, p in pt.named_parameters()}
    average.update_parameters(pt)
    with torch.no_grad():
        for parameter in pt.parameters():
            parameter.add_(1.0)
    average.update_parameters(pt)
    p = {name: value + 0.5 for name, value in first.items()}
    torch.testing.assert_close(average.eval()(x), plain_of(pt)(x, p))


# -- hooks -------------------------------------------------------------------------------------------------------------
def test_hooks_of_the_whole_see_arrays():
    pt, x, seen = net().eval(), input_of(), []
    pt.register_forward_pre_hook(lambda module, args: seen.append(args[0].shape))
    pt.register_forward_hook(lambda module, args, out: out * 0)
    pt.register_full_backward_hook(lambda module, given, got: seen.append(got[0].shape))
    assert not pt(x.requires_grad_()).any()
    pt(x).sum().backward()
    assert seen == [(2, 7, 3), (2, 7, 3), (2, 7, 4)]


def test_hooks_of_a_part_see_arrays_and_may_replace_them():
    pt, x, seen = net().eval(), input_of(), []
    before = pt(x)
    handle = pt.first.register_forward_hook(lambda module, args, out: seen.append((args[0].shape, out.shape)))
    torch.testing.assert_close(pt(x), before)
    assert seen == [((2, 7, 3), (2, 7, 5))]
    handle.remove()
    pt.first.register_forward_pre_hook(lambda module, args: (args[0] * 0,))
    wanted = plain_of(pt)(x * 0)
    torch.testing.assert_close(pt(x), wanted)
    assert len(seen) == 1


def test_backward_hooks_of_a_part_see_gradients():
    pt, x, seen = net().eval(), input_of(), []
    pt.last.register_full_backward_hook(lambda module, given, got: seen.append((given[0], got[0])))
    pt(x).square().sum().backward()
    ((given, got),) = seen
    out = plain_of(pt)(x)
    torch.testing.assert_close(got, 2 * out.detach())
    torch.testing.assert_close(given, got @ pt.last.weight.detach().T)


def test_a_backward_hook_of_a_module_that_is_called_with_tensors_is_refused():
    pt = rf.as_torch(Net()).eval()
    pt.register_full_backward_hook(lambda module, given, got: None)
    with raises_message(
        TypeError,
        """
        Net[rf]: a backward hook of a module that is called with Tensors.
          hooks  1
        torch calls these hooks for raw arrays among arguments and results only. Name the axes of the arrays:
            rf.as_torch(model, inputs="batch time in_dim")
        """,
    ):
        pt(randn(Dim(2, name="batch"), A))


class Looped(rf.Module):
    def __init__(self, recorded):
        self.in_dim, self.recorded, self.cell = A, recorded, rf.Linear(A, A.copy(match_priority=1))

    def __call__(self, x: rf.Tensor, *, time: Dim) -> rf.Tensor:
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([*x.remaining_dims(time)])
        if self.recorded:
            with loop:
                loop.state.h = self.step(loop.unstack(x), loop.state.h)
                out = loop.stack(loop.state.h)
            return out
        for _ in loop:
            loop.state.h = self.step(loop.unstack(x), loop.state.h)
            out = loop.stack(loop.state.h)
        return out

    def step(self, x, h):
        new, _ = rf.replace_dim(self.cell(x + h), in_dim=self.cell.out_dim, out_dim=A)
        return rf.tanh(new)


def test_a_loop_inside_and_hooks_in_its_steps():
    x = input_of()
    recorded = rf.as_torch(Looped(True), "batch time in_dim")
    stepped = rf.as_torch(Looped(False), "batch time in_dim")
    stepped.load_state_dict(recorded.state_dict())
    torch.testing.assert_close(recorded(x), stepped(x))
    torch.testing.assert_close(recorded(x, [7, 3])[1, :3], stepped(x)[1, :3])
    seen = []
    stepped.cell.register_forward_hook(lambda module, args, out: seen.append(out.shape))
    stepped(x)
    assert seen == [(2, 3)] * 7
    recorded.cell.register_forward_hook(lambda module, args, out: None)
    with raises_message(
        RuntimeError,
        """
        Linear[rf]: a hook in a recorded loop.
          module  cell
          hooks   of torch
        The body of `with loop:` runs once for all steps, so a hook would see the first one only. Let Python run each step:
            for _ in loop:
        """,
    ):
        recorded(x)


# -- bad input ---------------------------------------------------------------------------------------------------------
def test_what_is_no_module_is_refused():
    with raises_message(
        TypeError,
        """
        as_torch: this is not a Module of rfnb.
          got  torch.nn.modules.linear.Linear
        It is already a torch module.
            module(x)
        """,
    ):
        rf.as_torch(torch.nn.Linear(3, 5))


def test_parameters_of_numpy_are_refused():
    rf.select_backend_numpy()
    try:
        linear = rf.Linear(A, B)
    finally:
        rf.select_backend_torch()
    with raises_message(
        TypeError,
        """
        as_torch: a parameter is not a torch parameter.
          weight  [a=3, b=5], backend numpy
        A torch module holds torch parameters. Make the model while torch is the backend:
            rf.select_backend_torch()
        """,
    ):
        rf.as_torch(linear)


def test_an_argument_that_nothing_is_known_of_is_refused():
    with raises_message(
        ValueError,
        """
        as_torch: the role of "keys" of Attends is unknown.
          query  batch target a
        Each argument without a default is an array, or one of the axes. Declare it, or wrap the module in your own Module:
            rf.as_torch(module, inputs={"query": "batch target a", "keys": "..."})
        """,
    ):
        rf.as_torch(Attends(), {"query": ["batch", "target", A]})
    with raises_message(
        ValueError,
        """
        as_torch: the role of "axis" of Attends is unknown.
          query  batch target a
          keys   batch source a
        Each argument without a default is an array, or one of the axes. Declare it, or wrap the module in your own Module:
            rf.as_torch(module, inputs=..., dims={"axis": "target"})
        """,
    ):
        rf.as_torch(Attends(), {"query": ["batch", "target", A], "keys": ["batch", "source", A]})


def test_axes_are_read_as_everywhere_and_each_is_one_dim():
    x = torch.randn(2, 3)
    linear = rf.Linear(A, B)
    assert torch.equal(rf.as_torch(linear, "batch, in_dim")(x), rf.as_torch(linear, "batch in_dim")(x))
    for text, said in (("batch (time in_dim)", "(time in_dim)"), ("... in_dim", "..."), ("batch 1 in_dim", "1")):
        with raises_message(
            ValueError,
            f"""
            as_torch: "{said}" is not one dim.
              axes  {text}
            Each axis of an array is one dim and has a name. Reshape the array before:
                net(x.unflatten(-1, (heads, size)))    # or x.flatten(...), x.squeeze(...)
            """,
        ):
            rf.as_torch(rf.Linear(A, B), text)


def test_an_array_with_other_axes_is_refused():
    pt = net()
    with raises_message(
        rf.ShapeError,
        """
        Net[rf]: x has different axes.
          x     (2, 3)
          axes  batch time a
        An array has the axes that `inputs` names, in this order.
        """,
    ):
        pt(torch.zeros(2, 3))
    with raises_message(
        TypeError,
        """
        Net[rf]: x is not a torch.Tensor.
          x     Tensor [batch=2, a=3]
          axes  batch time a
        The module takes raw arrays. Without `inputs`, it takes Tensors like the Module:
            module(x.raw_tensor)
            rf.as_torch(model)(x)
        """,
    ):
        pt(randn(Dim(2, name="batch"), A))
    with raises_message(
        TypeError,
        """
        Net[rf]: no x.
          got  lengths=list
        Call it with the arrays, then with their lengths, if any:
            module(x, lengths)
        """,
    ):
        pt(lengths=[1, 2])
    with pytest.raises(rf.ShapeError, match="needs  got"):
        pt(torch.zeros(2, 7, 4))


@pytest.mark.parametrize(
    ("lengths", "shape", "longest"), [([1, 2, 3], "(3,)", 3), ([8, 1], "(2,)", 8), ([[1], [2]], "(2, 1)", 0)]
)
def test_lengths_that_do_not_fit_are_refused(lengths, shape, longest):
    with raises_message(
        rf.ShapeError,
        f"""
        as_torch: the lengths of time do not fit.
          lengths  {shape}
          longest  {longest}
          array    batch=2, time=7
        There is one length for each entry of the batch, and none beyond the end of the array.
        """,
    ):
        net()(input_of(), torch.tensor(lengths))


class Outer(rf.Module):
    def __init__(self):
        self.in_dim = A

    def __call__(self, x: rf.Tensor) -> rf.Tensor:
        return rf.expand_dims(x, [B, C])


def test_axes_of_a_result_that_nothing_tells_are_asked_for():
    with raises_message(
        rf.DimError,
        """
        as_torch: the order of the axes of the result is ambiguous.
          result  [batch=2, a=3, b=5, c=4]
          input   [batch=2, a=3]
        The order is only clear for the dims of the input and one new dim. Declare it:
            rf.as_torch(module, inputs=..., outputs="batch a b c")
        """,
    ):
        rf.as_torch(Outer(), "batch in_dim")(torch.zeros(2, 3))
    assert rf.as_torch(Outer(), "batch in_dim", outputs="c batch b a")(torch.zeros(2, 3)).shape == (4, 2, 5, 3)


def test_a_module_on_meta_says_how_it_gets_values():
    pt = net().to("meta")
    with raises_message(
        RuntimeError,
        """
        Net[rf]: its parameters are on the meta device.
          parameter  first.weight
        They have shapes, and no values to compute with. Give them some:
            module.to_empty(device="cpu")
            module.load_state_dict(...)
        """,
    ):
        pt(input_of())
    pt.to_empty(device="cpu")
    other = net().eval()
    pt.load_state_dict(other.state_dict())
    x = input_of()
    torch.testing.assert_close(pt.eval()(x), other(x))


class Composed(rf.Module):
    def __init__(self, *dims):
        self.first, self.second = rf.Linear(dims[0], dims[1]), rf.Linear(dims[1], dims[2])

    def __call__(self, x):
        return self.second(rf.tanh(self.first(x)))


@pytest.mark.parametrize("names", [("in_dim", "middle", "out"), ("feat", "feat2", "in_dim"), ("in_dim", "feat", "in")])
def test_a_name_is_that_of_a_dim_of_the_parts(names):
    dims = [Dim(size, name=name) for size, name in zip((3, 4, 5), names)]
    model = Composed(*dims) if names[0] == "in_dim" else Composed(dims[2], dims[0], dims[1])
    module = rf.as_torch(model, inputs="batch time in_dim")
    size = model.first.in_dim.extent
    raw = torch.randn(2, 7, size)
    want = torch.tanh(raw @ model.first.weight.raw_tensor + model.first.bias.raw_tensor)
    want = want @ model.second.weight.raw_tensor + model.second.bias.raw_tensor
    torch.testing.assert_close(module(raw), want)


def test_a_name_that_is_an_attribute_of_several_parts_is_refused_and_the_line_to_type_helps():
    feat, middle, out = Dim(3, name="feat"), Dim(4, name="middle"), Dim(5, name="out")
    module = Composed(feat, middle, out)
    with pytest.raises(ValueError, match='as_torch: several dims of the parts are called "in_dim".') as caught:
        rf.as_torch(module, inputs="batch time in_dim")
    line = str(caught.value).splitlines()[-1].strip()
    assert line == "rf.as_torch(module, inputs=['batch', 'time', module.first.in_dim])"
    bridged = eval(line, {"rf": rf, "module": module})
    assert bridged(torch.randn(2, 7, 3)).shape == (2, 7, 5)
    assert rf.as_torch(module, inputs="batch time feat")(torch.randn(2, 7, 3)).shape == (2, 7, 5)
