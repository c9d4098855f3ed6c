"""Every documented method of Backend is there; those of Tensors are rfnb's functions, and raw ones a backend's own."""

from pathlib import Path

import pytest
from asserting import raises_message

import rfnb as rf

DOCUMENTED = Path(__file__).with_name("backend_methods.txt").read_text().split()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_documented_method_is_there(name):
    assert callable(getattr(rf.Backend, name))


def test_documented_attributes_are_there():
    backend = rf.get_backend_by_raw_tensor_type(type(rf.zeros([]).raw_tensor))
    assert (backend.name, backend.is_tensorflow, backend.TensorArrayType) == ("torch", False, list)
    assert isinstance(rf.zeros([]).raw_tensor, backend.RawTensorType)
    assert backend.is_backend_raw_tensor_dim_tag_independent is rf.is_backend_raw_tensor_dim_tag_independent() is True


def test_a_method_of_tensors_is_the_function_itself():
    assert rf.Backend.matmul is rf.matmul and rf.Backend.reduce is rf.reduce and rf.Backend.top_k is rf.top_k


def test_a_backend_cannot_override_a_method_of_tensors():
    with raises_message(
        TypeError,
        """
        Backend Fast: matmul takes Tensors, and is the same function for every backend.
          overridden  matmul, softmax
        The functions of rfnb call raw methods, and only those are a backend's own. Override what computes it:
            help(rf.Backend)      # the methods named ..._raw and ..._fn
        """,
    ):

        class Fast(rf.Backend):
            @classmethod
            def softmax(cls, x, *, axis):
                return x

            @classmethod
            def matmul(cls, a, b, *, reduce):
                return a


@pytest.mark.parametrize("name", ["tf", "returnn_layers_tf", "jax"])
def test_what_is_documented_but_not_offered_says_so(name):
    rule = {"jax": "There is no backend for it yet; docs/backend.md tells what one needs."}
    for select in (lambda: rf.select_backend(name), getattr(rf, f"select_backend_{name}")):
        with raises_message(
            ValueError,
            f"""
            select_backend: "{name}" is documented, but not offered.
              offered  torch, numpy
            {rule.get(name, "rfnb computes at once and has no graph mode.")}
                rf.select_backend("torch")
            """,
        ):
            select()
