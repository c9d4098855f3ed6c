"""Which Tensors were computed from which, as far as autograd and Python know."""

import pytest
from asserting import randn, using_backend

import rfnb as rf
from rfnb import Dim

batch, feat = Dim(2, name="batch"), Dim(3, name="feat")


def tracked(*dims):
    x = randn(*dims)
    rf.set_requires_gradient(x)
    return x


def same(found, expected):
    assert len(found) == len(expected) and all(one is other for one, other in zip(found, expected))


def test_dependencies_are_what_it_was_computed_from():
    a, b = tracked(batch), tracked(batch)
    c = a * b
    d = c + a
    same(rf.get_tensor_dependencies(d), [c, a])
    same(rf.get_tensor_dependencies(c), [a, b])
    same(rf.get_tensor_dependencies(a), [])


def test_a_tensor_that_is_gone_is_passed_over():
    a = tracked(batch)
    b = rf.exp(rf.sin(a))
    same(rf.get_tensor_dependencies(b), [a])
    same(rf.get_tensor_consumers(a), [b])


def test_a_parameter_is_found_itself():
    linear = rf.Linear(feat, batch)
    y = linear(tracked(feat))
    found = rf.get_tensor_dependencies(y)
    assert any(tensor is linear.weight for tensor in found) and any(tensor is linear.bias for tensor in found)


def test_consumers_in_the_order_in_which_they_were_computed():
    a = tracked(batch)
    b, c = rf.exp(a), rf.sin(a)
    d = b + c
    same(rf.get_tensor_consumers(a), [b, c])
    same(rf.get_tensor_consumers(c), [d])
    same(rf.get_tensor_consumers(d), [])


def test_the_parts_of_a_split_are_told_apart():
    a = tracked(batch, feat)
    first, second = rf.split(a, axis=feat, out_dims=[Dim(1, name="first"), Dim(2, name="second")])
    b = rf.exp(second)
    same(rf.get_tensor_consumers(second), [b])
    same(rf.get_tensor_consumers(first), [])


def test_a_walk_over_all_consumers():
    a, other = tracked(batch), tracked(batch)
    b = rf.exp(a)
    c = rf.sin(b)
    d = b * c + other
    same(rf.walk_tensor_consumers(a), [b, c, d])
    same(rf.walk_tensor_consumers([c, other]), [d])
    same(rf.walk_tensor_consumers(a, filter_outputs=lambda x: x is not b), [c, d])
    same(rf.walk_tensor_consumers(a, ending_condition=lambda x: x is c), [b, c])
    same(rf.walk_tensor_consumers([]), [])


@pytest.mark.parametrize("backend", ["torch", "numpy"])
def test_what_is_not_tracked_has_neither(backend):
    with using_backend(backend):
        a = randn(batch)
        b = rf.exp(a)
        for tensor in (a, b):
            same(rf.get_tensor_dependencies(tensor), [])
            same(rf.get_tensor_consumers(tensor), [])
            same(rf.walk_tensor_consumers(tensor), [])
