"""Parameters of torch.nn modules in rfnb modules: the outputs are the same."""

import pytest
import torch
from asserting import raises_message, randn

import rfnb as rf
from rfnb import Dim
from rfnb.interop.torch_nn import (
    import_params_torch_conv1d_to_rf,
    import_params_torch_layer_norm_to_rf,
    import_params_torch_linear_to_rf,
)

BATCH, TIME, A, B = (Dim(size, name=name) for size, name in ((2, "batch"), (7, "time"), (3, "a"), (5, "b")))


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(1)


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("out_dim", [A, B])
def test_linear(out_dim, with_bias):
    raw, linear, x = (
        torch.nn.Linear(3, out_dim.size, bias=with_bias),
        rf.Linear(A, out_dim, with_bias=with_bias),
        randn(BATCH, A),
    )
    import_params_torch_linear_to_rf(raw, linear)
    torch.testing.assert_close(linear(x).raw_tensor, raw(x.raw_tensor))
    assert linear.weight.raw_tensor.requires_grad and linear.weight.raw_tensor.data_ptr() != raw.weight.data_ptr()


@pytest.mark.parametrize("groups", [1, 2])
def test_conv1d(groups):
    in_dim, out_dim = Dim(4, name="in"), Dim(6, name="out")
    raw = torch.nn.Conv1d(4, 6, 3, groups=groups)
    conv = rf.Conv1d(in_dim, out_dim, 3, padding="valid", groups=groups)
    import_params_torch_conv1d_to_rf(raw, conv)
    x = randn(BATCH, in_dim, TIME)
    out, time = conv(x, in_spatial_dim=TIME)
    torch.testing.assert_close(out.copy_transpose([BATCH, out_dim, time]).raw_tensor, raw(x.raw_tensor))


def test_layer_norm():
    raw, norm, x = torch.nn.LayerNorm(3, eps=1e-6), rf.LayerNorm(A), randn(BATCH, A)
    with torch.no_grad():
        raw.weight.normal_(), raw.bias.normal_()
    import_params_torch_layer_norm_to_rf(raw, norm)
    torch.testing.assert_close(norm(x).raw_tensor, raw(x.raw_tensor))


def test_another_size_copies_nothing():
    linear = rf.Linear(A, B)
    before = linear.weight.numpy().copy()
    with raises_message(ValueError, """
        import_params_torch: the sizes of Linear differ.
          torch  (4, 3)
          rfnb   [a=3, b=5]
        Both layers need parameters of the same sizes.
        """):  # fmt: skip
        import_params_torch_linear_to_rf(torch.nn.Linear(3, 4), linear)
    assert (linear.weight.numpy() == before).all()


def test_a_norm_without_parameters():
    with raises_message(ValueError, """
        import_params_torch: the sizes of LayerNorm differ.
          torch  no weight
          rfnb   [a=3]
        Both layers need parameters of the same sizes.
        """):  # fmt: skip
        import_params_torch_layer_norm_to_rf(torch.nn.LayerNorm(3, elementwise_affine=False), rf.LayerNorm(A))


def test_a_bias_on_one_side_only():
    linear = rf.Linear(A, B, with_bias=False)
    before = linear.weight.numpy().copy()
    with raises_message(ValueError, """
        import_params_torch: only one Linear has a bias.
          torch  bias
          rfnb   no bias
        Both need the same parameters.
            rf.Linear(..., with_bias=True)
        """):  # fmt: skip
        import_params_torch_linear_to_rf(torch.nn.Linear(3, 5), linear)
    assert (linear.weight.numpy() == before).all()
