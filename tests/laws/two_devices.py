"""The law of two devices as a function: an operand on another device is an error that names both, and whose last lines mend it. No copy
of what is a user's, no words of torch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from asserting import assert_same
from laws import Case
from simulated import NAME, watched
from table import CASES, read_entries
from world import world

import rfnb as rf
from rfnb import Tensor
from rfnb.core.errors import parts_of
from rfnb.core.tensor_text import dims_text
from rfnb.nn.module.parameter import Parameter

read_entries()
SIM = f"{NAME}:0"
_LENGTHS = "the numbers are lengths of the result, and lengths are on the host"
_READ = "the host reads the mask anyway, wherever it is: it gives the size of the result"
# Cases where an input may be on another device and is copied, each with the reason. Their results are right.
MAY_MOVE = {
    "slice with a start and an end for each sequence": _LENGTHS,
    "pad with a number of frames and a value for each sequence": _LENGTHS,
    "repeat": _LENGTHS,
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


@contextmanager
def assigned() -> Iterator[list]:
    """Parameters are on the device of what is assigned to them, so that the inputs of a case say where all is; a list of these."""
    values, assign = [], Parameter.assign

    def assign_there(parameter, value):
        if not isinstance(value, Tensor):
            return assign(parameter, value)
        values.append(value.raw_tensor)
        raw = parameter._fitting("assign", value, parameter.dims)
        raw = parameter.backend.cast_raw(raw.detach().clone(), parameter.dtype)
        parameter._raw = parameter.backend.parameter_raw(raw, parameter.trainable)

    with patch.object(Parameter, "assign", assign_there):
        yield values


def is_among(x, raws):
    return x.raw_tensor.untyped_storage()._cdata in {raw.untyped_storage()._cdata for raw in raws}


def after(error, inputs, values):
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
            if moved if is_among(x, values) else copied and (copied[3] or copied[1], text) in rows:
                out[place] = rf.copy_to_device(x, target)
    return (out, target) if fix.count(".to(") or any(x is not y for x, y in zip(inputs, out)) else (None, target)


def checked(call, inputs, default, values):
    """The result after all lines of errors were followed (None if they are not about the inputs), and what was copied if there
    was no error; the last error."""
    text = ""
    for _ in range(5):
        values.clear()
        try:
            with rf.set_default_device_ctx(default), watched() as seen:
                return call(*inputs), set() if text else set(seen.moved), text
        except RuntimeError as error:
            text = str(error)
            assert parts_of(error) is not None, text
            assert f" on {SIM}" in text and " on cpu" in text
            mended, default = after(error, inputs, values)
            if mended is None:
                break
            inputs = mended
    return None, set(), text


def check_two_devices(name: str, case: Case, odd: str) -> None:
    """Each input of the case in turn is on the device `odd`, the others on the other one.

    Raises:
        AssertionError: If that gives something else, copies what is a user's, or is no error whose last lines mend it.
    """
    rest = SIM if odd == "cpu" else "cpu"
    with assigned() as values:
        call, inputs = case(world("full"))
        inputs = [rf.copy_to_device(x, rest) for x in inputs]
        if len(inputs) < 2:
            return
        with rf.set_default_device_ctx(rest), watched() as seen:
            expected = call(*inputs)
        own, parameters = set(seen.moved), [place for place, x in enumerate(inputs) if is_among(x, values)]
        left_out = parameters[1:] if odd == SIM else parameters[:-1]  # one of them stands for all
        for place, x in enumerate(inputs):
            if place in left_out:
                continue
            moved_one = [*inputs[:place], rf.copy_to_device(x, odd), *inputs[place + 1 :]]
            result, moved, error = checked(call, moved_one, rest, values)
            if result is None:
                assert name in MADE_INSIDE, error
                continue
            assert_same(result, expected)
            assert moved <= own or not x.dims or name in MAY_MOVE, (place, x, moved - own)
