"""torch code that uses `model.parameters()` of a Module has its usual effect, or raises an error."""

import pytest
import torch
from asserting import raises_message, randn

import rfnb as rf
from rfnb import Dim

BATCH, A, B = Dim(2, name="batch"), Dim(3, name="a"), Dim(5, name="b")


class Net(rf.Module):
    def __init__(self):
        self.linear, self.norm = rf.Linear(A, B), rf.BatchNorm(B)

    def __call__(self, x):
        return self.norm(self.linear(x))


def backward(model):
    with rf.init_train_step_run_ctx():
        rf.reduce_sum(rf.square(model(randn(BATCH, A) * 3.0 + 1.0) - 1.0), axis=[BATCH, B]).raw_tensor.backward()


@pytest.mark.parametrize("given", ["parameters", "named_parameters", "groups"])
@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad])
def test_optimizers_get_the_weights_and_not_the_running_statistics(kind, given):
    model = Net()
    parameters = {
        "parameters": model.parameters,
        "named_parameters": model.named_parameters,
        "groups": lambda: [{"params": model.parameters(), "lr": 0.5}],
    }[given]
    optimizer = kind(parameters(), lr=0.1)
    held = [id(raw) for group in optimizer.param_groups for raw in group["params"]]
    assert held == [id(p.raw_tensor) for p in model.parameters() if not p.auxiliary] and len(held) == 4


@pytest.mark.parametrize("freeze", ["assigned", "called"])
def test_a_frozen_parameter_gets_no_gradient(freeze):
    model = Net()
    for parameter in model.linear.parameters():
        if freeze == "assigned":
            parameter.requires_grad = False
        else:
            assert parameter.requires_grad_(False) is parameter
    backward(model)
    assert model.linear.weight.grad is None and not model.linear.weight.trainable
    assert model.norm.gamma.grad.shape == (5,) and model.norm.gamma.requires_grad
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    backward(model)
    assert model.linear.weight.grad.any()
    assert not model.norm.running_mean.requires_grad


def test_gradients_are_cleared_and_clipped():
    model = Net()
    backward(model)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    assert norm > 1e-3
    total = sum(p.grad.square().sum() for p in model.parameters() if p.grad is not None) ** 0.5
    assert total.item() == pytest.approx(1e-3, rel=1e-3)
    torch.nn.utils.clip_grad_value_(model.parameters(), 1e-5)
    assert max(p.grad.abs().max() for p in model.parameters() if p.grad is not None) <= 1e-5
    for parameter in model.parameters():
        parameter.grad = None
    assert all(parameter.raw_tensor.grad is None for parameter in model.parameters())


def test_vectors_of_parameters():
    model = Net()
    vector = torch.nn.utils.parameters_to_vector(model.parameters())
    assert vector.shape == (3 * 5 + 5 + 5 + 5,)
    torch.nn.utils.vector_to_parameters(torch.arange(30.0), model.parameters())
    assert model.linear.weight.numpy().ravel().tolist() == list(range(15))


@pytest.mark.parametrize("name", ["data", "grad", "requires_grad"])
def test_what_a_tensor_does_not_have_cannot_be_set_either(name):
    x = randn(BATCH, A)
    with pytest.raises(AttributeError, match=f"A Tensor has no attribute '{name}'"):
        setattr(x, name, None)
    assert name not in vars(x)


def test_the_data_of_a_parameter_is_assigned():
    model = Net()
    with raises_message(
        AttributeError,
        """
        A Tensor has no attribute 'data'.
          tensor  [a=3, b=5]
        A Tensor has no positions and no methods of arrays; its ops are functions that name dims:
            x.raw_tensor.detach()       # new values of a parameter: p.assign(value)
        """,
    ):
        model.linear.weight.data = torch.zeros(3, 5)
