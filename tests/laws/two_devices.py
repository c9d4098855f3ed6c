"""Operands on two devices: an error that names both, and whose last lines mend it. No copy of what is a user's, no words of torch."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from asserting import assert_same
from simulated import NAME, watched

import rfnb as rf
from rfnb import Tensor
from rfnb.core.errors import parts_of
from rfnb.core.tensor_text import dims_text
from rfnb.nn.module.parameter import Parameter

sys.path.append(str(Path(__file__).parents[1] / "laws"))
from table import CASES, read_entries
from world import hard_worlds

read_entries()
SIM = f"{NAME}:0"
_LENGTHS = "the numbers are lengths of the result, and lengths are on the host"
_READ = "the host reads the mask anyway, wherever it is: it gives the size of the result"
# Cases where an input may be on another device and is copied, each with the reason. Their results are right.
MAY_MOVE = {
    "slice with a start and an end for each sequence": _LENGTHS,
    "pad with a number of frames and a value for each sequence": _LENGTHS,
    "masked_select all dims of the mask": _READ,
    "masked_select of frames": _READ,
    "masked_select_nested": _READ,
    "MaskedComputation": _READ,
    "QKVSelfAttention some frames of the state": "the numbers are lengths of the history, and lengths are on the host",
    "Parameter assign_key": "assigning copies values into the parameter, wherever they are",
    "transducer_forced_align": "the best path is looked for on the host",
}
# Cases whose error names what they have made of their inputs inside: a state, or what the body of a loop computes.
MADE_INSIDE = set(
    "CrossAttention TransformerDecoder TransformerDecoderLayer masked_scatter_nested Loop TensorArray cum_concat unmask "
    "EditDistanceTable optimal_completions next_edit_distance_row next_edit_distance_reduce generic_attention".split()
) | {
    "ConcatAttention",
    "LearnedRelativePositionalEncoding",
    "Parameter assign_key",
    "scan over a ragged dim",
    "RunningMean",
    "scan until a condition",
    "QKVSelfAttention with shifted keys",
    "QKVSelfAttention some frames of the state",
    *(name for name in CASES if "a sequence, another one, a step" in name),
}


@pytest.fixture
def assigned(monkeypatch):
    """Parameters are on the device of what is assigned to them, so that the inputs of a case say where all is; a list of these."""
    values, assign = [], Parameter.assign

    def assign_there(parameter, value):
        if not isinstance(value, Tensor):
            return assign(parameter, value)
        values.append(value.raw_tensor)
        raw = parameter._fitting("assign", value, parameter.dims)
        raw = parameter.backend.cast_raw(raw.detach().clone(), parameter.dtype)
        parameter._raw = parameter.backend.parameter_raw(raw, parameter.trainable)

    monkeypatch.setattr(Parameter, "assign", assign_there)
    return values


def is_among(x, raws):
    return x.raw_tensor.untyped_storage()._cdata in {raw.untyped_storage()._cdata for raw in raws}


def after(error, inputs, assigned):
    """The inputs after the last lines of the error, and the device where all is then; None if they name none of these."""
    _, rows, _, fix = parts_of(error)
    out, target = list(inputs), None
    for line in fix.splitlines():
        copied = re.fullmatch(r'(\S+) = rf.copy_to_device\(\1, "(\S+)"\)(?:    # (.*))?', line)
        moved = re.fullmatch(r'\S+\.to\(device="(\S+)"\)', line)
        assert copied or moved, line
        target = copied[2] if copied else moved[1]
        for place, x in enumerate(inputs):
            text = f"{dims_text(x.dims)} {x.dtype} on {x.device}"
            if moved if is_among(x, assigned) else copied and (copied[3] or copied[1], text) in rows:
                out[place] = rf.copy_to_device(x, target)
    return (out, target) if fix.count(".to(") or any(x is not y for x, y in zip(inputs, out)) else (None, target)


def checked(call, inputs, default, assigned):
    """The result after all lines of errors were followed (None if they are not about the inputs), and what was copied if there
    was no error; the last error."""
    text = ""
    for _ in range(5):
        assigned.clear()
        try:
            with rf.set_default_device_ctx(default), watched() as seen:
                return call(*inputs), set() if text else set(seen.moved), text
        except RuntimeError as error:
            text = str(error)
            assert parts_of(error) is not None, text
            assert f" on {SIM}" in text and " on cpu" in text
            mended, default = after(error, inputs, assigned)
            if mended is None:
                break
            inputs = mended
    return None, set(), text


@pytest.mark.parametrize("odd", ["cpu", SIM])
@pytest.mark.parametrize("name", CASES)
def test_an_input_on_another_device_is_an_error_whose_last_lines_mend_it(name, odd, assigned):
    rest = SIM if odd == "cpu" else "cpu"
    call, inputs = CASES[name](hard_worlds()[3])
    inputs = [rf.copy_to_device(x, rest) for x in inputs]
    if len(inputs) < 2:
        return
    with rf.set_default_device_ctx(rest), watched() as seen:
        expected = call(*inputs)
    own, parameters = set(seen.moved), [place for place, x in enumerate(inputs) if is_among(x, assigned)]
    left_out = parameters[1:] if odd == SIM else parameters[:-1]  # one of them stands for all
    for place, x in enumerate(inputs):
        if place in left_out:
            continue
        result, moved, error = checked(
            call, [*inputs[:place], rf.copy_to_device(x, odd), *inputs[place + 1 :]], rest, assigned
        )
        if result is None:
            assert name in MADE_INSIDE, error
            continue
        assert_same(result, expected)
        assert moved <= own or not x.dims or name in MAY_MOVE, (place, x, moved - own)


def test_the_exceptions_are_cases():
    assert {*MAY_MOVE, *MADE_INSIDE} <= set(CASES)


def test_words_of_torch_are_seen(assigned):
    x, y = rf.ones([rf.Dim(3, name="feat")]), rf.copy_to_device(rf.ones([rf.Dim(3, name="feat")]), NAME)
    with pytest.raises(AssertionError, match="Expected all tensors to be on the same device"):
        checked(lambda a, b: a.raw_tensor + b.raw_tensor, [x, y], "cpu", assigned)


def test_a_copy_without_a_word_is_seen(assigned):
    feat = rf.Dim(3, name="feat")
    inputs = [rf.ones([feat]), rf.copy_to_device(rf.ones([feat]), NAME)]
    _, moved, _ = checked(lambda a, b: a + rf.copy_to_device(b, "cpu"), inputs, "cpu", assigned)
    assert len(moved) == 1
