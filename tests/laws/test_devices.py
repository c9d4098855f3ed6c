"""The law of devices, for every public op and layer; see `on_device.py`. A list names those that cannot do without a read of values."""

import pytest
import torch
from on_device import check_same_values, second_call
from seed import part_of
from simulated import NAME, watched
from table import CASES, read_entries
from two_devices import MADE_INSIDE, MAY_MOVE, SIM, check_two_devices, checked
from world import world

import rfnb as rf
from rfnb import Dim

read_entries()
_COUNTS = "the size of the result is how many are picked, so that a size has to be known"
_LENGTHS = "these numbers are lengths of the result"
_CONDITION = "Python decides by the value of the condition"
_GOES_ON = "what goes on depends on values"
# Cases for which the host waits, how often it may, and the reason.
MAY_READ = {
    "masked_select all dims of the mask": (1, _COUNTS),
    "masked_select of frames": (1, _COUNTS),
    "masked_select_nested": (1, _COUNTS),
    "masked_scatter_nested": (2, f"both ways get the mask; {_COUNTS}"),
    "pack_padded": (1, _COUNTS),
    "MaskedComputation": (1, _COUNTS),
    "unmask": (1, f"packs by a mask first: {_COUNTS}"),
    "QKVSelfAttention some frames of the state": (1, "the lengths of the history are values"),
    "slice with a start and an end for each sequence": (1, _LENGTHS),
    "pad with a number of frames and a value for each sequence": (1, _LENGTHS),
    "repeat": (1, _LENGTHS),
    "ctc_greedy_decode": (1, _LENGTHS),
    "ctc_durations_from_path": (1, _LENGTHS),
    "ctc_no_label_loop_blank_durations_from_path": (1, _LENGTHS),
    "ctc_prefix_beam_search": (1, "prefixes are made on the host"),
    "transducer_forced_align": (2, "paths are found on the host, from scores of blanks and of labels"),
    "KenLmState": (20, "parts of words are joined to words on the host"),
    "transducer_beam_search": (20, f"in each step {_GOES_ON}"),
    "transducer_greedy_decode": (20, f"in each step {_GOES_ON}"),
    "beam_search_step": (2, "of equal scores the first has to go on, and whether all have ended is asked"),
    "cond": (1, _CONDITION),
    "scan until a condition": (6, _CONDITION),
}
# Results on the host, although there are operands on the device.
ON_HOST = {
    "make_conv_out_spatial_dims": "lengths of dims",
    "make_transposed_conv_out_spatial_dims": "lengths of dims",
    "scan until a condition": "gives the lengths of a dim too",
}


def check_nobody_waits(name):
    for lengths in ("none", "empty beside full"):
        devices, seen = second_call(CASES[name], lambda lengths=lengths: world(lengths))
        assert devices <= ({NAME, "cpu"} if name in ON_HOST else {NAME})
        often, _ = MAY_READ.get(name, (0, ""))
        to_host = [str(event) for event in seen if event.waits or event.kind == "to host"]
        assert len(to_host) <= often, to_host


@pytest.mark.parametrize("name", part_of(CASES, 2))
def test_devices(name, subtests):
    case = CASES[name]
    with subtests.test("values and gradients of the CPU"):
        check_same_values(name, case, world)
    with subtests.test("results are where the operands are, and nobody waits"):
        check_nobody_waits(name)
    for odd in ("cpu", SIM):
        with subtests.test("an input on another device", odd=odd):
            check_two_devices(name, case, odd)


def test_the_exceptions_are_cases():
    assert [name for name in (*MAY_READ, *ON_HOST, *MAY_MOVE, *MADE_INSIDE) if name not in CASES] == []


def test_words_of_torch_are_seen():
    x, y = rf.ones([rf.Dim(3, name="feat")]), rf.copy_to_device(rf.ones([rf.Dim(3, name="feat")]), NAME)
    with pytest.raises(AssertionError, match="Expected all tensors to be on the same device"):
        checked(lambda a, b: a.raw_tensor + b.raw_tensor, [x, y], "cpu", [])


def test_a_copy_without_a_word_is_seen():
    feat = rf.Dim(3, name="feat")
    inputs = [rf.ones([feat]), rf.copy_to_device(rf.ones([feat]), NAME)]
    _, moved, _ = checked(lambda a, b: a + rf.copy_to_device(b, "cpu"), inputs, "cpu", [])
    assert len(moved) == 1


def test_the_host_waits_for_nothing_in_a_training_step():
    batch, vocab, model = Dim(2, name="batch"), Dim(5, name="vocab"), Dim(8, name="model")
    time = rf.ragged_dim([3, 2], over=batch, name="time")
    with rf.set_default_device_ctx(NAME):
        encoder = rf.TransformerEncoder(vocab, model, num_layers=1, num_heads=2)
        ids = rf.random_uniform([batch, time], dtype="int64", minval=0, maxval=5, sparse_dim=vocab)

    def step():
        with rf.get_run_ctx().train_flag_ctx(True):
            out = encoder(ids, spatial_dim=time)
            loss = rf.reduce_mean(rf.square(out), axis=out.dims)
        loss.raw_tensor.backward()

    step()
    with watched() as seen:
        step()
    assert seen.waits == []


def test_lengths_may_be_read():
    batch = Dim(3, name="batch")
    with rf.set_default_device_ctx(NAME), watched() as seen:
        assert rf.ragged_dim([3, 1, 2], over=batch).dyn_size_ext.numpy().tolist() == [3, 1, 2]
    assert seen == []


@pytest.mark.gpu
def test_no_op_waits_for_a_gpu(subtests):
    for name in CASES:
        if name in MAY_READ:
            continue
        with subtests.test(name), rf.set_default_device_ctx("cuda"):
            call, inputs = CASES[name](world())
            inputs = [rf.copy_to_device(x, "cuda") for x in inputs]
            call(*inputs)  # masks and tables go to the device
            torch.cuda.synchronize()
            torch.cuda.set_sync_debug_mode("error")
            try:
                call(*inputs)
            finally:
                torch.cuda.set_sync_debug_mode("default")
