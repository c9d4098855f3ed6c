"""No op waits for a GPU: the host reads no values, with a list of exceptions that cannot do without."""

import pytest
import torch
from host_reads import HostReads
from table import CASES, read_entries
from world import hard_worlds

import rfnb as rf
from rfnb import Dim

read_entries()
_COUNTS = "the size of the result is how many are picked, so that a size has to be known"
_CONDITION = "Python decides by the value of the condition"
# Cases that read, each with the reason.
MAY_READ = {
    "masked_select all dims of the mask": _COUNTS,
    "masked_select of frames": _COUNTS,
    "masked_select_nested": _COUNTS,
    "masked_scatter_nested": _COUNTS,
    "pack_padded": _COUNTS,
    "MaskedComputation": _COUNTS,
    "unmask": "packs by a mask first: " + _COUNTS,
    "QKVSelfAttention some frames of the state": "the lengths of the history are values",
    "slice with a start and an end for each sequence": "start and end give lengths of the result",
    "pad with a number of frames and a value for each sequence": "the numbers are lengths of the result",
    "repeat": "the repeats are lengths of the result",
    "ctc_greedy_decode": "the lengths of the result are computed from values",
    "ctc_durations_from_path": "the lengths of the result are computed from values",
    "ctc_no_label_loop_blank_durations_from_path": "the lengths of the result are computed from values",
    "Parameter assign_key": "writes where a mask is True",
    **dict.fromkeys(
        ["ctc_prefix_beam_search", "transducer_beam_search", "transducer_greedy_decode", "transducer_forced_align"],
        "what goes on depends on values",
    ),
    "beam_search_step": "whether scores are equal, so that the first has to go on, is known from their values",
    "KenLmState": "parts of words are joined to words on the host",
    "cond": _CONDITION,
    "scan until a condition": _CONDITION,
}


def reads_of(call, inputs):
    with HostReads() as reads:
        call(*inputs)
    return reads.found


@pytest.mark.parametrize("name", [name for name in CASES if name not in MAY_READ])
def test_the_host_reads_no_values(name):
    for world in hard_worlds()[2:6]:
        call, inputs = CASES[name](world)
        call(*inputs)  # plans and masks
        assert reads_of(call, inputs) == []


def test_a_transformer_reads_nothing_in_a_training_step():
    batch, vocab, model = Dim(2, name="batch"), Dim(5, name="vocab"), Dim(8, name="model")
    time = rf.ragged_dim([3, 2], over=batch, name="time")
    encoder = rf.TransformerEncoder(vocab, model, num_layers=1, num_heads=2)
    ids = rf.random_uniform([batch, time], dtype="int64", minval=0, maxval=5, sparse_dim=vocab)

    def step():
        with rf.get_run_ctx().train_flag_ctx(True):
            out = encoder(ids, spatial_dim=time)
            loss = rf.reduce_mean(rf.square(out), axis=out.dims)
        loss.raw_tensor.backward()

    step()
    assert reads_of(step, []) == []


@pytest.mark.parametrize(
    ("read", "name"),
    [
        (lambda x: x.raw_tensor.sum().item(), "_local_scalar_dense"),
        (lambda x: bool(x.raw_tensor.any()), "_local_scalar_dense"),
        (lambda x: x.raw_tensor[x.raw_tensor > 0], "index"),
        (lambda x: x.raw_tensor.nonzero(), "nonzero"),
        (lambda x: x.numpy(), "raw_to_numpy"),
    ],
)
def test_a_read_is_seen(read, name):
    assert name in reads_of(read, [rf.ones([Dim(3)])])


def test_lengths_may_be_read():
    batch = Dim(3, name="batch")
    assert reads_of(lambda: rf.ragged_dim([3, 1, 2], over=batch).dyn_size_ext.numpy(), []) == []


@pytest.mark.gpu
@pytest.mark.parametrize("name", [name for name in CASES if name not in MAY_READ])
def test_no_op_waits_for_a_gpu(name):
    with rf.set_default_device_ctx("cuda"):
        call, inputs = CASES[name](hard_worlds()[4])
        inputs = [rf.copy_to_device(x, "cuda") for x in inputs]
        call(*inputs)  # masks and tables go to the device
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            call(*inputs)
        finally:
            torch.cuda.set_sync_debug_mode("default")
