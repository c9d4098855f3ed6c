"""Hooks on methods: for one object, in order, and gone when removed."""

import copy

import pytest
from asserting import assert_same, raises_message, randn

import rfnb as rf
from rfnb import Dim

A = Dim(2, name="a")


class Encoder(rf.Module):
    def __init__(self, by=1):
        self.by = by
        self.linear = rf.Linear(A, A)

    def embed(self, x, *, times=1):
        return x * times + self.by

    def __call__(self, x):
        return self.embed(x, times=2)


def test_a_hook_on_a_method_is_for_one_object_and_its_result_is_the_result():
    one, two, x, seen = Encoder(), Encoder(), randn(A), []
    rf.setup_post_hook_on_method(one, "embed", lambda *call: seen.append(call[:3]) or call[3] * 10)
    rf.setup_post_hook_on_method(two, "embed", lambda obj, args, kwargs, result: result * 100)
    assert_same(one(x), (x * 2 + 1) * 10)
    assert_same(two.embed(x), (x + 1) * 100)
    assert_same(Encoder()(x), x * 2 + 1)
    assert seen == [(one, (x,), {"times": 2})]


def test_hooks_run_in_order_and_the_last_one_removed_restores_the_method():
    encoder, order = Encoder(), []
    handles = [
        rf.setup_post_hook_on_method(
            encoder, "embed", lambda o, a, k, result, name=name: order.append(name) or result, prepend=prepend
        )
        for name, prepend in (("first", False), ("second", False), ("zeroth", True))
    ]
    encoder.embed(1)
    assert order == ["zeroth", "first", "second"]
    handles[0].remove()
    handles[0].remove()
    encoder.embed(1)
    assert order[3:] == ["zeroth", "second"] and "embed" in vars(encoder)
    handles[1].remove(), handles[2].remove()
    assert "embed" not in vars(encoder) and encoder.embed(1) == 2


def test_a_function_that_the_object_holds_can_be_hooked_and_comes_back():
    encoder = Encoder()
    encoder.scale = scale = lambda x: x * 3
    handle = rf.setup_post_hook_on_method(encoder, "scale", lambda o, a, k, result: result + 1)
    assert encoder.scale(2) == 7
    handle.remove()
    assert encoder.scale is scale


def test_a_deep_copy_has_the_hook_on_its_own_method():
    encoder = Encoder(by=1)
    rf.setup_post_hook_on_method(encoder, "embed", lambda obj, args, kwargs, result: (obj, result))
    other = copy.deepcopy(encoder)
    other.by = 5
    assert other.embed(0) == (other, 5) and encoder.embed(0) == (encoder, 1)


def test_a_hook_on_call_of_a_module_is_a_forward_hook():
    encoder, x = Encoder(), randn(A)
    handle = rf.setup_post_hook_on_method(encoder, "__call__", lambda o, a, k, result: result * 10)
    assert_same(encoder(x), (x * 2 + 1) * 10)
    handle.remove()
    assert_same(encoder(x), x * 2 + 1)


def test_a_hook_on_another_object_than_a_module():
    class Plain:
        def run(self):
            return 1

    plain = Plain()
    rf.setup_post_hook_on_method(plain, "run", lambda obj, args, kwargs, result: result + 1)
    assert plain.run() == 2 and Plain().run() == 1


def test_a_module_is_hooked_by_itself():
    with raises_message(TypeError, """
        setup_post_hook_on_method: Encoder.linear cannot be hooked.
          it is  the module Linear
        A hook is on a method of an object; Python finds special methods on the class.
            module.linear.register_forward_hook(hook)
        """):  # fmt: skip
        rf.setup_post_hook_on_method(Encoder(), "linear", lambda *call: call[3])


def test_what_is_no_method_of_one_object():
    with raises_message(TypeError, """
        setup_post_hook_on_method: Encoder.by cannot be hooked.
          it is  int
        A hook is on a method of an object; Python finds special methods on the class.
        """):  # fmt: skip
        rf.setup_post_hook_on_method(Encoder(), "by", lambda *call: call[3])
    with pytest.raises(TypeError, match="list.__len__ cannot be hooked"):
        rf.setup_post_hook_on_method(type("list", (list,), {})(), "__len__", lambda *call: call[3])
    with pytest.raises(AttributeError):
        rf.setup_post_hook_on_method(Encoder(), "nothing", lambda *call: call[3])
