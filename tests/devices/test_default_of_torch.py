"""A default device of torch, which a user has set: models that are on the CPU are seen there as before."""

import numpy as np
import pytest
import torch
from devices.test_torch_models import assert_same_content
from devices.torch_models import content, made, run
from simulated import NAME
from torch.nn.utils.rnn import pack_padded_sequence

import rfnb as rf


@pytest.fixture
def elsewhere():
    with torch.device(NAME):
        yield


@pytest.mark.parametrize("name", ["packed", "packed with dropout", "TransformerEncoder", "lengths by a mask"])
def test_a_model_of_the_cpu_is_seen_as_it_is(name):
    model, given = made(name, True)
    expected = content(run(model, given, recorded=True)[1])
    with torch.device(NAME):
        actual = content(run(model, given, recorded=True)[1])
    assert_same_content(actual, expected)


def test_sequences_that_are_packed_are_seen_as_they_are(elsewhere):
    lstm = torch.nn.LSTM(5, 4, batch_first=True, device="cpu")
    x = torch.ones(2, 3, 5, device="cpu")
    with rf.record(model=lstm) as trace:
        out, _ = lstm(pack_padded_sequence(x, torch.tensor([3, 2], device="cpu"), batch_first=True))
    states = trace.states[""]["h"]
    assert states.raw_tensor.device.type == "cpu"
    assert torch.equal(states.raw_tensor[1, 1], out.data[3])  # after its last frame


def test_what_is_computed_of_arrays_of_the_host_stays_there(elsewhere):
    logits = np.random.default_rng(1).normal(size=(1, 6, 3)).astype(np.float32)
    (aligned,) = rf.ctc_output(logits, vocab="-ab").align("ab")
    batch, vocab = rf.Dim(1, name="batch"), rf.Dim(3, name="vocab")
    time, labels = (rf.ragged_dim([n], over=batch, name=name) for n, name in ((6, "time"), (2, "labels")))
    loss = rf.ctc_loss(
        logits=rf.convert_to_tensor(logits, dims=[batch, time, vocab], device="cpu"),
        targets=rf.convert_to_tensor([[1, 2]], dims=[batch, labels], sparse_dim=vocab, device="cpu"),
        input_spatial_dim=time,
        targets_spatial_dim=labels,
        blank_index=0,
    )
    assert loss.raw_tensor.device.type == "cpu"
    assert loss.numpy()[0] == pytest.approx(-aligned.log_prob_of_all, abs=1e-5)


def test_a_training_on_the_cpu_is_watched(elsewhere):
    model = torch.nn.Linear(3, 2, device="cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with rf.watch(model, optimizer) as watch:
        for _ in range(2):
            optimizer.zero_grad()
            loss = model(torch.ones(4, 3, device="cpu")).square().sum()
            loss.backward()
            optimizer.step()
            watch.log(loss=loss)
    assert len(watch.training.curves["loss"].values) == 2
