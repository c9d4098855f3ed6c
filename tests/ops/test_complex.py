"""Complex numbers from real ones and back."""

import numpy as np
import pytest
import torch
from asserting import raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim, DimError

batch, feat, pair = Dim(3, name="batch"), Dim(5, name="feat"), Dim(2, name="pair")
real, imag = randn(batch, feat), randn(feat, seed=1)


def test_parts_broadcast_and_come_back():
    number = rf.make_complex(real, imag)
    assert number.dtype == "complex64" and number.dims == (batch, feat)
    np.testing.assert_array_equal(number.numpy(), real.numpy() + 1j * imag.numpy())
    parts, out_dim = rf.complex_as_real(number)
    assert parts.dims == (batch, feat, out_dim) and out_dim.size == 2
    np.testing.assert_array_equal(parts.numpy()[..., 0], real.numpy())
    assert rf.complex_as_real(number)[1] is out_dim


def test_a_part_may_be_a_number():
    assert rf.make_complex(1.0, tensor([2.0], Dim(1, name="one"))).numpy().tolist() == [1 + 2j]
    assert rf.make_complex(tensor([2.0], Dim(1, name="one")), 0).numpy().tolist() == [2 + 0j]


@pytest.mark.parametrize("dims", [(batch, feat, pair), (pair, batch, feat), (batch, pair, feat)])
def test_pairs_wherever_the_pair_is(dims):
    x = randn(batch, feat, pair)
    number = rf.real_as_complex(x.copy_transpose(dims), pair_dim=pair)
    assert number.dims == (batch, feat)
    np.testing.assert_array_equal(number.numpy(), x.numpy()[..., 0] + 1j * x.numpy()[..., 1])


def test_it_is_a_view_and_has_gradients():
    x = randn(batch, pair)
    number = rf.real_as_complex(x, pair_dim=pair)
    assert number.raw_tensor.data_ptr() == x.raw_tensor.data_ptr()
    raw = x.raw_tensor.clone().requires_grad_()
    squared = rf.real_as_complex(rf.convert_to_tensor(raw, dims=[batch, pair]), pair_dim=pair)
    rf.reduce_sum(rf.square(rf.abs(squared)), axis=batch).raw_tensor.backward()
    torch.testing.assert_close(raw.grad, 2 * raw.detach())


ERRORS = {
    "a pair of three": (
        lambda: rf.real_as_complex(real, pair_dim=batch),
        DimError,
        """
        real_as_complex: a pair has two entries.
          x         [batch=3, feat=5]
          pair_dim  batch=3
        The entries are the real and the imaginary part.
        """,
    ),
    "real already": (
        lambda: rf.complex_as_real(real),
        TypeError,
        """
        complex_as_real: x is not complex.
          x  [batch=3, feat=5] float32
        Only complex numbers have two parts.
            rf.make_complex(x, 0.0)
        """,
    ),
    "another size": (
        lambda: rf.complex_as_real(rf.make_complex(real, 1.0), out_dim=Dim(3, name="three")),
        DimError,
        """
        complex_as_real: out_dim has another size.
          out_dim  three=3
          needed   2
        An out_dim fits, or has no size yet and takes it over.
            Dim(None, name="three")
        """,
    ),
    "two numbers": (
        lambda: rf.make_complex(1.0, 2.0),
        TypeError,
        """
        make_complex: no Tensor.
          got  float, float
        One of the parts is a Tensor, which has the dims.
            rf.convert_to_tensor(1j)
        """,
    ),
}


@pytest.mark.parametrize(("call", "error", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, error, text):
    with raises_message(error, text):
        call()
