"""Parts that a module would silently lose: in plain lists, parameters that an optimizer refuses, marks for "not given"."""

import textwrap
import warnings

import pytest
import torch
from asserting import raises_message

import rfnb as rf
from rfnb.core.not_specified import NotSpecified, is_specified
from rfnb.interop.torch_module import pt_module_to_rf_module

IN, OUT = rf.Dim(3, name="in"), rf.Dim(5, name="out")


class Net(rf.Module):
    def __init__(self, **parts):
        self.out = rf.Linear(IN, OUT)
        for name, part in parts.items():
            setattr(self, name, part)


def warnings_of(module):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert [name for name, _ in module.named_parameters()][:2] == ["out.weight", "out.bias"]
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize(
    ("part", "what", "inside", "line"),
    [
        ([rf.Linear(IN, OUT), rf.relu], "list", "1 with parameters: Linear", "rf.ModuleList([...])"),
        (
            (rf.Linear(IN, OUT), rf.LayerNorm(OUT)),
            "tuple",
            "2 with parameters: Linear, LayerNorm",
            "rf.ModuleList([...])",
        ),
        ({"a": rf.Linear(IN, OUT)}, "dict", "1 with parameters: Linear", "rf.ModuleList({...})"),
        ([rf.Parameter([IN])], "list", "1 with parameters: Parameter", "rf.ParameterList([...])"),
        ([("a", rf.Linear(IN, OUT))], "list", "1 with parameters: Linear", "rf.ModuleList([...])"),
    ],
)
def test_parts_in_a_plain_container_are_said_to_be_lost(part, what, inside, line):
    (text,) = warnings_of(Net(parts=part))
    assert text == (
        f"Net.parts: the content of this {what} is not found.\n"
        f"  {what}  {inside}\n"
        "Parameters, checkpoints, states and devices are those of attributes that are modules or parameters themselves:\n"
        f"    self.parts = {line}\n"
        "    self.parts = lambda: ...    # if it is not to be part of this module"
    )


def test_a_path_says_where_parts_are_lost():
    inner = Net(parts=[rf.Linear(IN, OUT)])
    (text,) = warnings_of(Net(inner=inner))
    assert text.startswith("inner.parts: the content of this list is not found.")


def test_what_loses_nothing_is_not_warned_of():
    net = Net(functions=[rf.relu, rf.tanh], names=["a", "b"], sizes={"a": 3}, held=rf.ModuleList([rf.Linear(IN, OUT)]))
    net.both = [net.out, net.held[0]]  # found by their own attributes too
    net.held.owners = [net]  # the outside is no part of it
    assert warnings_of(net) == []
    assert len(list(net.held.parameters())) == 2


def test_saving_says_what_is_lost(tmp_path):
    with pytest.warns(UserWarning, match="Net.parts: the content of this list is not found"):
        rf.save_params(Net(parts=[rf.Linear(IN, OUT)]), tmp_path / "net.safetensors")


def test_parametrizing_while_going_through_the_parameters():
    model = rf.Sequential(rf.Linear(IN, OUT), rf.Linear(OUT, IN))
    for module in model.modules():
        for name, _ in module.named_parameters(recurse=False):
            if not name.endswith("bias"):
                rf.weight_noise(module, name, std=0.5)
    assert rf.is_parametrized(model[0], "weight") and rf.is_parametrized(model[1], "weight")
    for name, _ in model.named_parameters():
        module = model.get_deep(name.rpartition(".")[0])
        if name.endswith("bias"):
            rf.weight_dropout(module, "bias", drop_prob=0.5)
    assert rf.is_parametrized(model[1], "bias")


# -- optimizers --------------------------------------------------------------------------------------------------------
def test_an_optimizer_takes_the_parameters_of_a_module():
    net, twin = rf.Linear(IN, OUT), rf.Linear(IN, OUT)
    rf.set_params(twin, {name: parameter.raw_tensor.detach() for name, parameter in net.named_parameters()})
    steps = [
        torch.optim.SGD(net.parameters(), lr=0.5),
        torch.optim.SGD([parameter.raw_tensor for parameter in twin.parameters()], lr=0.5),
    ]
    x = rf.random_normal([rf.Dim(2, name="batch"), IN])
    for module, optimizer in zip((net, twin), steps):
        y = module(x)
        rf.reduce_sum(y * y, axis=y.dims).raw_tensor.backward()
        optimizer.step()
    for (name, one), (_, other) in zip(net.named_parameters(), twin.named_parameters()):
        assert torch.equal(one.raw_tensor, other.raw_tensor), name


def test_parameter_groups_take_them_too_and_leave_out_statistics():
    norm, net = rf.BatchNorm(OUT), rf.Linear(IN, OUT)
    optimizer = torch.optim.AdamW([{"params": net.parameters(), "weight_decay": 0.5}, {"params": norm.parameters()}])
    assert optimizer.param_groups[0]["params"] == [net.weight.raw_tensor, net.bias.raw_tensor]
    trainable = [parameter.raw_tensor for parameter in norm.parameters() if not parameter.auxiliary]
    assert [id(raw) for raw in optimizer.param_groups[1]["params"]] == [id(raw) for raw in trainable]
    assert len(trainable) < len(list(norm.parameters()))


def test_who_else_goes_through_them_gets_parameters():
    parameters = rf.Linear(IN, OUT).parameters()
    assert isinstance(next(parameters), rf.Parameter)
    assert [type(parameter) for parameter in parameters] == [rf.Parameter] and list(parameters) == []


# -- marks for what is not given ---------------------------------------------------------------------------------------
class _NotGiven:
    pass


UNSET = type("_Unset", (), {})()


@pytest.mark.parametrize("mark", [NotSpecified, NotSpecified(), _NotGiven, _NotGiven(), UNSET, ...])
def test_a_mark_for_not_given_is_not_given(mark):
    assert not is_specified(mark)
    model = rf.Dim(8, name="model")
    given = {"num_layers": 1, "num_heads": 2, "input_layer": None}
    marked = rf.ConformerEncoder(
        IN, model, **given, ff_activation=mark, conv_norm=mark, ff_dim=mark, encoder_layer=mark
    )
    plain = rf.ConformerEncoder(IN, model, **given)
    assert [(n, p.batch_shape) for n, p in marked.named_parameters()] == [
        (n, p.batch_shape) for n, p in plain.named_parameters()
    ]
    assert marked.layers[0].ffn1.activation is plain.layers[0].ffn1.activation
    assert rf.EBranchformerLayer(model, num_heads=2, ff=mark, cgmlp=mark, cgmlp_ff_dim=mark).cgmlp.ff_dim.extent == 48
    assert rf.Linear(IN, OUT, with_bias=mark).bias is not None


def test_a_mark_in_the_place_of_what_is_needed_is_missing():
    with pytest.raises(TypeError, match="Linear: out_dim is missing."):
        rf.Linear(IN, NotSpecified)


@pytest.mark.parametrize("value", [None, False, 0, "", IN, rf.relu, rf.Linear, object()])
def test_values_are_given(value):
    assert is_specified(value)


# -- lists -------------------------------------------------------------------------------------------------------------
def test_slices_of_a_module_list_are_assigned_as_those_of_a_list():
    layers = rf.ModuleList([rf.Linear(IN, IN) for _ in range(5)])
    original, expected = list(layers), list(layers)
    for index, new in (
        (slice(2, None), []),
        (slice(None), original),
        (slice(1, 3), original[:1]),
        (slice(None, None, 2), original[:2]),
    ):
        layers[index] = new
        expected[index] = new
        assert [a is b for a, b in zip(layers, expected, strict=True)] == [True] * len(expected)
        assert [name for name, _ in layers.items()] == [str(i) for i in range(len(expected))]
    with pytest.raises(ValueError, match="attempt to assign sequence of size 1 to extended slice of size 2"):
        layers[::2] = original[:1]


def test_a_slice_of_a_list_with_names_keeps_them():
    layers = rf.ModuleList({"first": rf.Linear(IN, IN), "second": rf.Linear(IN, OUT)})
    new = rf.Linear(IN, IN)
    layers[:1] = [new]
    assert [name for name, _ in layers.items()] == ["first", "second"] and layers["first"] is new and new in layers
    layers["second"] = rf.relu
    assert layers["second"].func is rf.relu
    with pytest.raises(KeyError, match="third"):
        layers["third"]


# -- raw arrays where a Tensor is needed -------------------------------------------------------------------------------
TIME = rf.Dim(4, name="time")
ATTENTION = {"key_dim_total": IN, "value_dim_total": IN, "num_heads": 1}


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("Linear: source", lambda x: rf.Linear(IN, OUT)(x)),
        ("Linear: source", lambda x: rf.Linear(IN, OUT)(source=x)),
        ("LayerNorm: x", lambda x: rf.LayerNorm(IN)(x)),
        ("BatchNorm: source", lambda x: rf.BatchNorm(IN)(x)),
        ("LSTM: source", lambda x: rf.LSTM(IN, OUT)(x, state=None, spatial_dim=TIME)),
        ("Conv1d: source", lambda x: rf.Conv1d(IN, OUT, 3, padding="same")(x, in_spatial_dim=TIME)),
        ("SelfAttention: source", lambda x: rf.SelfAttention(IN, IN, **ATTENTION)(x, axis=TIME)),
        ("FeedForward: inp", lambda x: rf.FeedForward(IN)(x)),
        (
            "TransformerEncoder: source",
            lambda x: rf.TransformerEncoder(IN, 8, num_layers=1, num_heads=2)(x, spatial_dim=TIME),
        ),
    ],
)
@pytest.mark.parametrize("record", [False, True])
def test_a_raw_array_given_to_a_layer_is_named(name, call, record):
    layer, argument = name.split(": ")
    with raises_message(
        TypeError,
        f"""
        {layer}: {argument} is not a Tensor.
          {argument}  torch.Tensor (2, 4, 3)
        A Tensor has a Dim for each axis, in the order of the array. Say which:
            {argument} = rf.convert_to_tensor({argument}, dims=[...])
        """,
    ):
        if record:
            with rf.record():
                call(torch.zeros(2, 4, 3))
        else:
            call(torch.zeros(2, 4, 3))


def test_other_errors_in_layers_stay():
    class Mine(rf.Module):
        def __call__(self, x):
            return x.no_such_attribute

    with pytest.raises(AttributeError, match="no_such_attribute"):
        Mine()(torch.zeros(2))
    with pytest.raises(AttributeError, match="no_such_attribute"):
        rf.Sequential(Mine())(rf.zeros([IN]))


def test_a_raw_array_given_to_a_probe_is_refused_while_somebody_records():
    rf.probe("attention", weights=torch.zeros(2, 3), axis=1)  # nobody listens
    with (
        raises_message(
            TypeError,
            """
        probe "attention": weights is not a Tensor.
          weights  torch.Tensor (2, 3)
        What is recorded is found and drawn by its dims, which a raw array does not have. Name them:
            rf.probe("attention", weights=rf.convert_to_tensor(weights, dims=[...]), ...)
        """,
        ),
        rf.record(),
    ):
        rf.probe("attention", weights=torch.zeros(2, 3), axis=1)


# -- modules of another kind -------------------------------------------------------------------------------------------
class OfOthers:
    """A model of a library that nobody knows."""

    def named_modules(self):
        return [("", self)]


def test_recording_a_model_without_events_is_refused():
    with (
        raises_message(
            TypeError,
            f"""
        record: this model offers no events.
          model  {__name__}.OfOthers
        Only modules of rfnb and of torch do. What another model computes is recorded where its own code offers it:
            rf.probe("attention", weights=weights, dims="batch target source", axis="source")
        """,
        ),
        rf.record(model=OfOthers()),
    ):
        pass


# -- of torch, and in the place of a parameter -------------------------------------------------------------------------
def test_a_module_of_torch_in_a_list_is_not_found():
    for parts in ([torch.nn.Linear(3, 5)], {"a": torch.nn.Linear(3, 5)}):
        (text,) = warnings_of(Net(parts=parts))
        assert text == textwrap.dedent("""\
            Net.parts: rfnb does not find this part of torch.
              module  torch.nn.modules.linear.Linear, 2 parameters
            Parameters are found in modules of rfnb, so no optimizer, checkpoint or device reaches these:
                self.parts = rf.ModuleList([rf.from_torch(module) for module in modules])""")


def test_a_module_of_torch_is_found():
    net = Net(part=torch.nn.Linear(3, 5))
    assert warnings_of(net) == []
    assert {"part.weight", "part.bias"} < set(dict(net.named_parameters()))


def test_a_parameter_of_torch_is_not_found():
    (text,) = warnings_of(Net(scale=torch.nn.Parameter(torch.ones(3))))
    assert text == textwrap.dedent("""\
        Net.scale: rfnb does not find this part of torch.
          array  torch.nn.parameter.Parameter (3,)
        Parameters are found in modules of rfnb, so no optimizer, checkpoint or device reaches these:
            self.scale = rf.Parameter([...], raw_tensor=array)    # the Dim of each axis""")


def test_what_torch_and_rfnb_both_hold_is_found():
    part = torch.nn.Linear(3, 5)
    net = Net(
        part=pt_module_to_rf_module(part),
        same=part,
        raw=part.weight,
        relu=torch.nn.ReLU(),
        mean=torch.ones(3),
        kind=torch.nn.Linear,
    )
    assert warnings_of(net) == []
    assert "part.weight" in dict(net.named_parameters())


def test_a_tensor_in_the_place_of_a_parameter_is_said():
    net = Net()
    with pytest.warns(UserWarning) as caught:
        net.out.weight += 1.0
    assert str(caught[0].message) == textwrap.dedent("""\
        Linear.weight: the parameter is replaced by a Tensor.
          parameter  [in=3, out=5]
          value      [in=3, out=5]
        A Tensor is no parameter: no optimizer, checkpoint or device reaches it any more. For new values, or values computed
        from the parameter:
            linear.weight.assign(value)    # or assign_add
            rf.register_parametrization(linear, 'weight', ...)""")
    assert caught[0].filename == __file__


def test_a_raw_array_in_the_place_of_a_parameter_is_refused():
    net = Net()
    before = net.out.weight
    with raises_message(TypeError, """
        Linear.weight: a raw array is no parameter.
          parameter  [in=3, out=5]
          value      torch.Tensor (3, 5)
        The parameter stays the same object, so that an optimizer keeps working; it gets new values:
            linear.weight.assign(value)
        """):  # fmt: skip
        net.out.weight = torch.zeros(3, 5)
    assert net.out.weight is before


def test_another_parameter_or_none_takes_the_place_without_a_word(recwarn):
    net, other = Net(), rf.Linear(IN, OUT)
    net.out.weight, net.out.bias = other.weight, None
    assert net.out.weight is other.weight and not recwarn.list


def parameters_of(net):
    return [net.out.weight.raw_tensor, net.out.bias.raw_tensor]


def test_what_torch_takes_of_parameters():
    net = Net()
    for given in (net.parameters(), [{"params": net.parameters(), "lr": 0.1}]):
        held = [raw for group in torch.optim.SGD(given, lr=1.0).param_groups for raw in group["params"]]
        assert all(a is b for a, b in zip(held, parameters_of(net), strict=True))
    for raw in parameters_of(net):
        raw.grad = torch.full_like(raw, 3.0)
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    assert sum((raw.grad**2).sum() for raw in parameters_of(net)).item() == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize(
    "given",
    [
        lambda net: list(net.parameters()),
        lambda net: (each for each in net.parameters()),
        lambda net: [{"params": [net.out.weight]}],
    ],
)
def test_a_parameter_in_a_list_says_what_torch_takes(given):
    with raises_message(TypeError, """
        torch: a Parameter of rfnb is not a torch.Tensor.
          parameter  [in=3, out=5]
        torch works on raw arrays. Pass the parameters of a module, or a list of raw arrays:
            torch.optim.AdamW(model.parameters())
            torch.optim.AdamW([parameter.raw_tensor for parameter in parameters if parameter.trainable])
        """):  # fmt: skip
        torch.optim.SGD(given(Net()), lr=1.0)
    assert not hasattr(Net().out.weight, "__name__")


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("train", "with rf.init_train_step_run_ctx(train_flag=True):"),
        ("state_dict", 'rf.save_params(dict(model.named_parameters()), "model.npz")'),
        ("register_buffer", "self.mean = rf.Parameter([in_dim], auxiliary=True)"),
    ],
)
def test_a_method_of_torch_modules(name, line):
    with raises_message(AttributeError, f"""
        A Module has no attribute {name!r}.
          module  Net
        It is no torch.nn.Module: the run context has the settings of a step, and parameters are named Tensors.
            {line}
        """):  # fmt: skip
        getattr(Net(), name)
