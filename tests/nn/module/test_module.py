"""Module: what is in it, in which order, under which name."""

import copy
from functools import partial

import pytest
import torch
from asserting import assert_same, raises_message, randn

import rfnb as rf
from rfnb import Dim
from rfnb.core import errors
from rfnb.core.compat import attribute_hints
from rfnb.trace.probe import listen

A, B = Dim(2, name="a"), Dim(3, name="b")


class Leaf(rf.Module):
    def __init__(self):
        self.weight = rf.Parameter([A, B])
        self.bias = rf.Parameter([B])

    def __call__(self, x):
        return x + 1


class Pair(rf.Module):
    def __init__(self):
        self.first, self.second = Leaf(), Leaf()

    def __call__(self, x):
        return self.second(self.first(x))


class Tree(rf.Module):
    """left and right are pairs, shared is the first leaf of left, scale a parameter of its own."""

    def __init__(self):
        self.left, self.right = Pair(), Pair()
        self.shared = self.left.first
        self.scale = rf.Parameter([B])
        self.name = "not a module"

    def __call__(self, x):
        return self.right(self.left(x))


def test_modules_come_breadth_first_and_shared_ones_once_under_their_first_name():
    tree = Tree()
    assert [name for name, _ in tree.named_modules()] == [
        "",
        "left",
        "right",
        "shared",
        "left.second",
        "right.first",
        "right.second",
    ]
    assert [name for name, _ in tree.named_modules(include_self=False, recurse=False)] == ["left", "right", "shared"]
    assert [name for name, _ in tree.named_modules(prefix="model", recurse=False)] == [
        "model",
        "model.left",
        "model.right",
        "model.shared",
    ]
    assert list(tree.modules()) == [module for _, module in tree.named_modules()]
    assert [name for name, _ in tree.named_children()] == ["left", "right", "shared"]
    assert list(tree.children()) == [tree.left, tree.right, tree.shared]


def test_parameters_have_the_names_of_their_modules_and_come_once():
    tree = Tree()
    tree.right.second.bias = tree.left.second.bias
    names = [name for name, _ in tree.named_parameters()]
    assert names == [
        "scale", "shared.weight", "shared.bias", "left.second.weight", "left.second.bias",
        "right.first.weight", "right.first.bias", "right.second.weight",
    ]  # fmt: skip
    assert list(tree.parameters()) == [tree.get_deep(name) for name in names]
    assert [name for name, _ in tree.named_parameters(recurse=False)] == ["scale"]
    assert tree.has_parameters and not rf.Functional(abs).has_parameters


def test_get_deep_and_set_deep_reach_any_depth():
    tree = Tree()
    assert tree.get_deep("") is tree
    assert tree.get_deep("left.second.bias") is tree.left.second.bias
    new = rf.Parameter([B])
    tree.set_deep("left.second.bias", new)
    tree.set_deep("name", "other")
    assert tree.left.second.bias is new and tree.name == "other"
    with raises_message(
        AttributeError,
        """
        get_deep("left.third.bias"): "left" has no "third".
          has  first, second
        """,
    ):
        tree.get_deep("left.third.bias")


def test_the_path_of_a_module_is_its_first_name_from_the_outermost_one():
    tree = Tree()
    assert tree.module_path == ""
    assert tree.right.second.module_path == "right.second"
    assert tree.shared.module_path == "left.first"


def test_the_path_follows_when_a_module_moves():
    items = rf.ModuleList(Leaf(), Leaf(), Leaf())
    last = items[2]
    del items[0]
    assert last.module_path == "1" and items[1] is last
    pair = Pair()
    moved = pair.first
    pair.first = Leaf()
    assert moved.module_path == ""
    tree = Tree()
    tree.left = Pair()
    tree.extra = moved
    assert moved.module_path == "extra"


def test_a_reference_to_the_outer_module_makes_no_path():
    pair = Pair()
    pair.first.owner = pair
    pair.me = pair
    assert pair.module_path == "" and pair.first.module_path == "first"
    assert [name for name, _ in pair.named_modules()] == ["", "first", "second"]
    assert pair.apply(lambda module: None) is pair


def test_apply_goes_to_children_first_and_to_each_module_once():
    tree, seen = Tree(), []
    assert tree.apply(seen.append) is tree
    assert seen == [tree.left.first, tree.left.second, tree.left, tree.right.first, tree.right.second, tree.right, tree]


def test_a_hook_is_for_one_instance_and_its_result_is_the_result():
    one, two, other = Leaf(), Leaf(), Leaf()
    seen = []

    def hook(module, args, kwargs, result):
        seen.append((module, args, kwargs))
        return result * 10

    x = randn(A)
    handle = one.register_forward_hook(hook)
    two.register_forward_hook(lambda module, args, kwargs, result: result * 100)
    assert_same(one(x), (x + 1) * 10)
    assert_same(two(x=x), (x + 1) * 100)
    assert_same(other(x), x + 1)
    assert seen == [(one, (x,), {})]
    handle.remove()
    assert_same(one(x), x + 1)


def test_hooks_run_in_order_and_prepended_ones_first():
    leaf, order = Leaf(), []
    for name, prepend in (("first", False), ("second", False), ("zeroth", True)):

        def hook(module, args, kwargs, result, name=name):
            order.append(name)
            return result

        leaf.register_forward_hook(hook, prepend=prepend)
    leaf(randn(A))
    assert order == ["zeroth", "first", "second"]


def test_a_hook_on_a_subclass_runs_once_though_it_calls_super():
    class Sub(Leaf):
        def __call__(self, x):
            return super().__call__(x) * 2

    sub, calls = Sub(), []
    sub.register_forward_hook(lambda module, args, kwargs, result: calls.append(1) or result)
    x = randn(A)
    assert_same(sub(x), (x + 1) * 2)
    assert calls == [1]


def test_a_call_is_offered_with_path_inputs_and_outputs():
    tree, events = Tree(), []
    x = randn(A)
    with listen(lambda kind, place, values: events.append((kind, place.path, values))):
        out = tree.right(x)
    assert [(kind, path) for kind, path, _ in events] == [
        ("module", "right.first"),
        ("module", "right.second"),
        ("module", "right"),
    ]
    values = events[-1][2]
    assert values["inputs"] == [("0", x)] and values["outputs"][0][1] is out


def test_to_casts_every_parameter_once():
    tree = Tree()
    tree.to(dtype="float64")
    assert {parameter.dtype for parameter in tree.parameters()} == {"float64"}
    assert tree.shared.weight is tree.left.first.weight
    assert all(isinstance(p.raw_tensor, torch.nn.Parameter) and p.raw_tensor.requires_grad for p in tree.parameters())


def test_a_deep_copy_has_parameters_of_its_own_over_the_same_dims():
    tree = Tree()
    tree.left.first.weight.initial = rf.Glorot()
    other = copy.deepcopy(tree)
    assert [name for name, _ in other.named_parameters()] == [name for name, _ in tree.named_parameters()]
    assert other.shared is other.left.first and other.shared is not tree.shared
    assert_same(other.shared.weight, tree.shared.weight)
    assert other.shared.weight.dims == (A, B)
    other.shared.weight.assign(7)
    assert tree.shared.weight.numpy().max() < 7
    assert other.right.first.module_path == "right.first"


def test_the_initial_state_is_that_of_the_direct_children():
    class Net(rf.Module):
        def __init__(self):
            self.encoder, self.plain, self.stack = rf.LSTM(A, B), Leaf(), rf.Sequential(rf.LSTM(A, A), Leaf())

    batch = Dim(5, name="batch")
    state = Net().default_initial_state(batch_dims=[batch])
    assert list(state) == ["encoder", "stack"] and list(state.stack) == ["0"]
    assert_same(state.encoder.h, rf.zeros([batch, B]))
    assert_same(state.stack["0"].c, rf.zeros([batch, A]))
    assert Leaf().default_initial_state(batch_dims=[batch]) is None


def test_default_names_are_snake_case():
    class BiLSTMEncoder2(rf.Module):
        pass

    assert BiLSTMEncoder2().get_default_name() == "bi_lstm_encoder2"
    assert rf.LSTM(A, B).get_default_name() == "lstm"

    def twice(x):
        return x * 2

    assert rf.Functional(twice).get_default_name() == rf.Functional(partial(twice)).get_default_name() == "twice"


def test_a_module_without_call_says_so():
    class Net(rf.Module):
        def encode(self, x): ...

    with raises_message(NotImplementedError, """
        Net does not define __call__.
          defines  encode
        A call of a module runs its method `__call__`, where a module of torch has `forward`.
            def __call__(self, source): ...
        """):  # fmt: skip
        Net()(1)


def test_containers_number_their_items():
    leaves = [Leaf() for _ in range(3)]
    for items in (rf.ModuleList(*leaves), rf.ModuleList(leaves), rf.ModuleList(leaf for leaf in leaves)):
        assert len(items) == 3 and list(items) == leaves and items[-1] is leaves[2]
        assert [name for name, _ in items.items()] == ["0", "1", "2"]
        assert [name for name, _ in items.named_children()] == ["0", "1", "2"]
        assert list(items[1:]) == leaves[1:] and type(items[1:]) is rf.ModuleList
    items = rf.ModuleList(leaves[:1])
    assert items.append(leaves[1]) is items and items.extend([leaves[2]]) is items
    items[0] = new = Leaf()
    del items[1]
    assert list(items) == [new, leaves[2]] and [name for name, _ in items.items()] == ["0", "1"]


def test_a_module_list_of_a_dict_keeps_its_names():
    leaf = Leaf()
    assert rf.ModuleList({"enc": leaf, "dec": abs}).items()[0] == ("enc", leaf)


def test_other_attributes_of_a_container_are_no_items():
    class Encoder(rf.Sequential):
        def __init__(self):
            super().__init__(Leaf(), Leaf())
            self.out_dim = B
            self.scale = rf.Parameter([B])

    encoder, x = Encoder(), randn(A)
    assert len(encoder) == 2
    assert_same(encoder(x), x + 2)


def test_sequential_passes_the_result_on_and_the_options_to_each():
    def shift(x, *, by):
        return x + by

    def scale(x, *, by):
        return x * by

    x, collected = randn(A), {}
    assert_same(rf.Sequential(shift, scale)(x, by=3, collected_outputs=collected), (x + 3) * 3)
    assert_same(collected, {"0": x + 3, "1": (x + 3) * 3})
    assert_same(rf.sequential(x, rf.tanh, rf.exp), rf.exp(rf.tanh(x)))


def test_a_module_list_is_not_called():
    with raises_message(TypeError, """
        A ModuleList is not called.
          holds  Leaf
        It does not say how its modules go together. Iterate over it; to call one after the other:
            rf.Sequential(modules)
        """):  # fmt: skip
        rf.ModuleList(Leaf())(1)


def test_a_container_refuses_what_is_no_module():
    with raises_message(TypeError, """
        Sequential: not a module.
          got     int
          behind  Leaf
        It holds modules and other callables, given one by one, as an iterable or as a dict of names.
            rf.Sequential(rf.Linear(in_dim, out_dim), rf.relu)
        """):  # fmt: skip
        rf.Sequential([Leaf(), 5])


def test_a_parameter_list_holds_parameters():
    one, two = rf.Parameter([A]), rf.Parameter([B])
    items = rf.ParameterList(one, two)
    assert list(items) == [one, two] and [name for name, _ in items.named_parameters()] == ["0", "1"]
    assert list(rf.ParameterList([one, two])) == [one, two]
    with raises_message(TypeError, """
        ParameterList: not a Parameter.
          got  int
        It holds Parameters; modules are held by a ModuleList.
            rf.ParameterList([rf.Parameter(dims)])
        """):  # fmt: skip
        items.append(3)


def test_functional_takes_attributes():
    leaf = Leaf()
    module = rf.Functional(lambda x: leaf(x), attribs={"leaf": leaf, "size": 4})
    assert module.size == 4 and list(module.children()) == [leaf]
    x = randn(A)
    assert_same(module(x), x + 1)


@pytest.fixture(autouse=True)
def seeded():
    rf.set_random_seed(1)


def test_a_slice_of_a_container_keeps_names_and_kind():
    class Encoder(rf.Sequential):
        def __init__(self):
            super().__init__(Leaf(), Leaf(), Leaf())

    encoder, x = Encoder(), randn(A)
    part = encoder[1:]
    assert type(part) is rf.Sequential and list(part) == list(encoder)[1:]
    assert_same(part(x), x + 2)
    named = rf.ModuleList({"enc": Leaf(), "mid": Leaf(), "dec": Leaf()})
    assert [name for name, _ in named[::2].items()] == ["enc", "dec"]
    named.append(Leaf())
    del named[0]
    assert [name for name, _ in named.items()] == ["mid", "dec", "2"]
    parameters = rf.ParameterList(rf.Parameter([A]), rf.Parameter([B]))
    assert list(parameters[1:]) == [parameters[1]]


def test_a_container_names_its_items_in_annotations():
    assert rf.ModuleList[Leaf].__args__ == (Leaf,)


def test_no_error_is_made_to_build_a_model(monkeypatch):
    """What is set is asked whether it is a module of torch; a module, an initialiser or a state of ours would answer with an error
    that lists what it has, which took half of the time."""
    monkeypatch.setattr(errors, "no_attribute", lambda value, name: pytest.fail(f"{type(value).__name__}.{name}"))
    monkeypatch.setattr(attribute_hints, "attribute_error", lambda *what: pytest.fail(str(what)))
    rf.TransformerEncoder(A, Dim(4, name="model"), num_layers=2, num_heads=2)
    rf.ConformerEncoder(A, Dim(4, name="model"), num_layers=2, num_heads=2, input_layer=None)
    leaf = Leaf()
    leaf.scheme, leaf.state, leaf.other = rf.init.Glorot(), rf.State(h=randn(A)), Leaf()
