"""Models in several processes under DistributedDataParallel give the gradients of one process with the joined batch."""

import textwrap
from pathlib import Path

import pytest
import torch
from asserting import assert_same, ragged, raises_message, randn
from interop import ddp_script
from processes import run_in_processes

import rfnb as rf
from rfnb import Dim


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """The gradients that two processes have found."""
    folder = tmp_path_factory.mktemp("ddp")
    run_in_processes(2, Path(ddp_script.__file__), folder)
    return torch.load(folder / "gradients.pt", weights_only=False)


def test_the_mean_over_processes_has_the_gradient_of_the_joined_batch(found):
    gradients, value = found["joined"]
    alone = rf.as_torch(ddp_script.MeanLoss(ddp_script.model()))
    loss = alone(ddp_script.data(), ddp_script.LENGTHS)
    loss.backward()
    torch.testing.assert_close(value, loss.detach())
    wanted = ddp_script.gradients(alone)
    assert gradients.keys() == wanted.keys() and len(wanted) > 20
    for name, gradient in wanted.items():
        assert (gradient is None) == (gradients[name] is None) == name.startswith("model.unused"), name
        if gradient is not None:
            torch.testing.assert_close(gradients[name], gradient, msg=lambda text, name=name: f"{name}: {text}")


def test_a_mean_of_means_would_be_another_gradient():
    """The batches of the test above tell the two apart."""
    model = ddp_script.MeanLoss(ddp_script.model())
    ids = ddp_script.data()
    parts = [model(ids[rows], [ddp_script.LENGTHS[row] for row in rows]) for rows in ([0, 2, 3], [1, 4])]
    assert abs(sum(parts) / 2 - model(ids, ddp_script.LENGTHS)).item() > 1e-3


def test_raw_arrays_in_processes(found):
    linear = rf.as_torch(ddp_script.model().out, "batch in_dim")
    torch.manual_seed(5)
    linear(torch.randn(4, 8)).square().mean().backward()
    for name, gradient in ddp_script.gradients(linear).items():
        torch.testing.assert_close(found["raw"][0][name], gradient)


def test_buffers_are_those_of_the_first_process(found):
    first, second, of_rf = found["buffers"]
    alone = rf.as_torch(rf.BatchNorm(ddp_script.MODEL), "batch in_dim")
    torch.manual_seed(5)
    x = torch.randn(4, 8)
    for batch in (x[:2], x[:2], x):
        alone(batch)
    torch.testing.assert_close(first, alone.running_mean.detach())
    assert torch.equal(first, second) and (first.numpy() == of_rf).all()


def test_tensors_as_result_are_refused_where_unused_parameters_are_looked_for(found):
    assert found["refused"] == textwrap.dedent("""\
        LanguageModel[rf]: the result contains Tensors.
          result  Tensor [batch=3, time<=7]
        DistributedDataParallel with find_unused_parameters=True looks for raw arrays in the result, and takes all parameters for
        unused. Let the module return raw arrays, or the loss:
            rf.as_torch(model, inputs="batch time in_dim")""")


def test_the_mean_in_one_process_is_the_mean_over_frames():
    batch = Dim(3, name="batch")
    time = ragged([7, 2, 5], batch)
    x = randn(batch, time)
    assert_same(rf.mean_over_processes(x), rf.reduce_mean(x, axis=[batch, time]))
    assert_same(rf.mean_over_processes(rf.constant(3.0, dims=())), rf.constant(3.0, dims=()))
    with raises_message(
        TypeError,
        """
        mean_over_processes: this operand is not a Tensor.
          got  torch.Tensor
        The dims of a loss determine its padding.
            rf.mean_over_processes(rf.named(loss, "batch time", lengths=lengths))
        """,
    ):
        rf.mean_over_processes(torch.zeros(3))
