"""The models of lessons 9, 10, 11 and 14 that run in pages: functions of a text.

    write_backwards("tiger")       # "regit#", label by label

The weights of 9 and 11 are those that the notebooks train; `notebooks/data/make_running.py` writes them.
"""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.tensor import Tensor
from rfnb.models.g2p import BiLSTM
from rfnb.nn.attention.weight_hook import attended
from rfnb.nn.linear import Linear
from rfnb.nn.module.checkpoint import set_params
from rfnb.nn.module.module import Module
from rfnb.nn.transformer.decoder import TransformerDecoder
from rfnb.ops.concat import concat
from rfnb.ops.const import convert_to_tensor, zeros
from rfnb.ops.dims import range_over_dim, replace_dim, set_sparse_dim
from rfnb.ops.expand import expand_dim
from rfnb.ops.gather import gather
from rfnb.ops.math import combine_bc, compare_bc, exp, log
from rfnb.ops.matmul import matmul
from rfnb.ops.merge import merge_dims
from rfnb.ops.reduce import reduce_max, reduce_sum
from rfnb.ops.shift import reverse_sequence, shift_right
from rfnb.ops.softmax import log_softmax, softmax
from rfnb.ops.where import where
from rfnb.rec.loop import Loop
from rfnb.search.choice import choice
from rfnb.trace.probe import probe, trace_context

STORED = Path(__file__).with_name("lessons.safetensors")
KEYS, NOTES, LETTERS, ALPHABET = "1234567890", "CEGB", "#>abcdefghijklmnop", "abcdefghijklmnopqrstuvwxyz"
FRAMES = 13  # of a key: 2 of silence, 9 of its tones, 2 of silence

_key = Dim(len(KEYS), name="key", vocab=list(KEYS))
_label = Dim(1 + len(KEYS), name="label", vocab=["-", *KEYS])
_note = Dim(len(NOTES), name="note", vocab=list(NOTES))
_letter = Dim(len(LETTERS), name="letter", vocab=list(LETTERS))
_written = Dim(5, name="last written", vocab=[*NOTES, "start"])
_of_alphabet = Dim(len(ALPHABET), name="letter", vocab=list(ALPHABET))


def _weights(model: str) -> dict[str, np.ndarray]:
    """The stored weights of a model, "ctc" or "backwards", by parameter."""
    from safetensors.numpy import load_file

    return {
        name[len(model) + 1 :]: each.astype("float32")
        for name, each in load_file(STORED).items()
        if name.startswith(model)
    }


def _ids(text: str, alphabet: str, dim: Dim, name: str) -> tuple[Dim, Tensor]:
    time = Dim(len(text), name=name)
    return time, convert_to_tensor([alphabet.index(letter) for letter in text], dims=[time], sparse_dim=dim)


# -- lesson 9 --------------------------------------------------------------------------------------------------------------


class Listener(Module):
    """The model of lesson 9: frames to a blank and ten keys, by an LSTM from each side."""

    def __init__(self) -> None:
        self.feature = Dim(44, name="feature")
        self.lstm = BiLSTM(self.feature, Dim(48, name="unit"))
        self.output = Linear(self.lstm.out_dim, _label)


@functools.cache
def listener() -> tuple[Listener, Tensor]:
    """The trained model, and the frames of the sounds of keys {key, frame, feature}."""
    model, values = Listener(), _weights("ctc")
    sounds = convert_to_tensor(
        values.pop("sounds"), dims=[_key, Dim(FRAMES, name="of a key"), model.feature], feature_dim=model.feature
    )
    set_params(model, values, source=STORED.name)
    return model, sounds


def hear(number: str) -> tuple[Tensor, Tensor]:
    """Hear a number by the model of lesson 9: the labels in each frame, and the trellis of the forward algorithm.

    The sound is made of that of its keys, each with the same noise every time. In each frame the trellis has the share of the
    paths so far that are in each row: blank, first key, blank, second key, ...; the probabilities of labels are beside it as a state, so
    that both are drawn over the same frames.

    Args:
        number: Keys, "1234567890".

    Returns:
        Log probabilities {frame, label}, and the trellis {frame, row}.
    """
    model, sounds = listener()
    key, ids = _ids(number, KEYS, _key, "key")
    heard = gather(sounds, indices=ids, axis=_key)
    frames, frame = merge_dims(heard, dims=[key, sounds.dims[1]], out_dim=Dim(None, name="frame"))
    logits = model.output(model.lstm(frames, spatial_dim=frame))
    chances = softmax(logits, axis=_label)
    two, last = Dim(2, name="blank, key"), Dim(1, name="last")
    both = where(range_over_dim(two) == 0, 0, set_sparse_dim(ids, None) + 1, allow_broadcast_all_sources=True)
    pairs, _ = merge_dims(both, dims=[key, two])
    rows, row = concat((pairs, pairs.dims[0]), (zeros([last], dtype=ids.dtype), last), out_dim=Dim(None, name="row"))
    labels = set_sparse_dim(rows, _label)
    probe("tokens", ids=labels)  # the names of rows
    of_row = gather(chances, indices=labels, axis=_label)
    skips = (rows != 0) & (rows != shift_right(rows, axis=row, amount=2, pad_value=0))
    loop = Loop(axis=frame, name="trellis")
    loop.state.paths = where(range_over_dim(row) == 0, 1.0, 0.0)
    loop.state.labels = zeros([_label])
    for _ in loop:
        paths, loop.state.labels = loop.state.paths, loop.unstack(chances)
        above = shift_right(paths, axis=row, pad_value=0.0)
        by_skip = where(skips, shift_right(above, axis=row, pad_value=0.0), 0.0)
        paths = loop.unstack(of_row) * (paths + above + by_skip)
        loop.state.paths = paths / reduce_sum(paths, axis=row)
        trellis = loop.stack(loop.state.paths)
    return log_softmax(logits, axis=_label), trellis


# -- lesson 10 -------------------------------------------------------------------------------------------------------------


def align_tune(tune: str, blank: float = 1.5) -> Tensor:
    """Align a tune by the transducer of lesson 10, whose scores are set by hand: all walks that write it.

    There is a silent frame, then two frames for each note, and a silent frame. At each place the blank has the logit `blank`, the next
    note 3 if it sounds and 0 otherwise, each other note 0. A frame is one step of a loop, since the walk through its labels is a sum
    over where it begins: each way from u to v labels in frame t is the product of the probabilities of the labels between them.

    Args:
        tune: Notes, "CEGB".
        blank: A larger one lets walks wait longer.

    Returns:
        The probability that a note is written in a frame, given that the tune is written: {place in the tune, frame}.
    """
    note, ids = _ids(tune, NOTES, _note, "label")
    silence, two = Dim(1, name="silence"), Dim(2, name="of a note")
    none, notes = zeros([silence], dtype=ids.dtype) + len(NOTES), set_sparse_dim(ids, None)
    twice, sounding = merge_dims(expand_dim(notes, two), dims=[note, two])
    heard, frame = concat((none, silence), (twice, sounding), (none, silence), out_dim=Dim(None, name="frame"))
    following = where(compare_bc(heard, "==", notes), 3.0, 0.0)  # of the next note
    total = log(exp(following) + exp(following * 0.0 + blank) + (len(NOTES) - 1))
    of_label = following - total  # log probabilities
    at_end = exp(blank - log(exp(zeros([silence]) + blank) + len(NOTES)))
    of_blank, written = concat(
        (exp(blank - total), note), (expand_dim(at_end, frame), silence), out_dim=Dim(None, name="written")
    )
    place, index = range_over_dim(note), range_over_dim(written)
    until = reduce_sum(where(compare_bc(place, "<", index), of_label, 0.0), axis=note)  # of all labels before a place
    begun, before = replace_dim(until, in_dim=written)
    begin, _ = replace_dim(index, in_dim=written, out_dim=before)
    last, _ = concat((none, silence), (notes, note), out_dim=written)
    for names in (last, replace_dim(last, in_dim=written, out_dim=before)[0]):  # of the rows of both states
        probe("tokens", ids=set_sparse_dim(names, _written))
    ways = where(compare_bc(begin, "<=", index), exp(combine_bc(until, "-", begun)), 0.0)  # {frame, before, written}
    loop = Loop(axis=frame, name="walks")
    loop.state.paths = where(begin == 0, 1.0, 0.0)
    for _ in loop:
        reached = matmul(loop.state.paths, loop.unstack(ways), reduce=before)
        forward = loop.stack(reached)
        paths, _ = replace_dim(reached * loop.unstack(of_blank), in_dim=written, out_dim=before)
        loop.state.paths = paths / reduce_sum(paths, axis=before)
    back = Loop(axis=frame, name="back from the end")
    back.state.paths = where(index == reduce_max(index, axis=written), 1.0, 0.0)
    ways_back, blank_back = (reverse_sequence(each, axis=frame) for each in (ways, of_blank))
    for _ in back:
        after = back.state.paths * back.unstack(blank_back)
        ending = back.stack(after)
        left = matmul(back.unstack(ways_back), after, reduce=written)
        backward = back.stack(left)
        paths, _ = replace_dim(left, in_dim=before, out_dim=written)
        back.state.paths = paths / reduce_sum(paths, axis=written)
    ending, backward = (reverse_sequence(each, axis=frame) for each in (ending, backward))
    of_frame = reduce_sum(forward * ending, axis=written)  # each frame ends with one blank
    here, rest = gather(forward, indices=place, axis=written), gather(backward, indices=place + 1, axis=before)
    probe("tokens", ids=ids)
    with trace_context.scope("alignment"):
        return attended(here * exp(of_label) * rest / of_frame, axis=frame, target=note)


# -- lesson 11 -------------------------------------------------------------------------------------------------------------


@functools.cache
def writer() -> TransformerDecoder:
    """The trained model of lesson 11."""
    net = TransformerDecoder(
        None, _letter, Dim(32, name="model"), num_layers=2, num_heads=2, ff_dim=Dim(64, name="ff"), dropout=0.0, att_dropout=0.0
    )  # fmt: skip
    set_params(net, _weights("backwards"), source=STORED.name)
    return net


def write_backwards(word: str, beam_size: int = 1) -> Tensor:
    """Write a word backwards by the model of lesson 11: labels {step, batch, beam}.

    Args:
        word: Letters of "abcdefghijklmnop"; it was trained with 3 to 8.
        beam_size: Of the search.
    """
    net = writer()
    time, ids = _ids(word, LETTERS, _letter, "time")
    batch = Dim(1, name="batch", kind="batch")
    ids = expand_dim(ids, batch)
    _, state = net(ids, spatial_dim=time, state=net.default_initial_state(batch_dims=[batch]))
    loop = Loop(max_seq_len=len(word) + 1, name="search")
    loop.state.label = set_sparse_dim(zeros([batch], dtype="int64") + LETTERS.index(">"), _letter)
    loop.state.net = state
    for _ in loop:
        logits, loop.state.net = net(loop.state.label, spatial_dim=single_step_dim, state=loop.state.net)
        loop.state.label = choice(log_softmax(logits, axis=_letter), axis=_letter, beam_size=beam_size)
        loop.end(loop.state.label == 0, include_eos=True)
        labels = loop.stack(loop.state.label)
    return labels


# -- lesson 14 -------------------------------------------------------------------------------------------------------------


@functools.cache
def _pairs() -> tuple[Tensor, Tensor]:
    """The key of each letter, {letter, key} of length 1, and its value {letter, value}: random, the same every time."""
    rng = np.random.default_rng(1)
    keys, values = rng.normal(size=(26, 4)), rng.normal(size=(26, 3))
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    made = ((keys, Dim(4, name="key")), (values, Dim(3, name="value")))
    of_key, of_value = (convert_to_tensor(each.astype("float32"), dims=[_of_alphabet, dim]) for each, dim in made)
    return of_key, of_value


def remember(text: str, keep: float = 1.0, write: float = 1.0) -> tuple[Tensor, Tensor]:
    """Write a text into the two memories of lesson 14, linear attention and the gated delta rule.

    Each letter writes its value under its key, and then reads with its key.

    Args:
        text: Letters of the alphabet.
        keep: What the delta rule keeps of its state in each step, 0 to 1.
        write: Which part of the correction it writes.

    Returns:
        What is read {time, value} from each.
    """
    time, ids = _ids(text, ALPHABET, _of_alphabet, "time")
    probe("tokens", ids=ids)  # the names of steps
    keys, values = (gather(each, indices=ids, axis=_of_alphabet) for each in _pairs())
    key, value = keys.dims[-1], values.dims[-1]
    sums = Loop(axis=time, name="linear attention")
    sums.state.S = zeros([key, value])
    for _ in sums:
        now = sums.unstack(keys)
        sums.state.S = sums.state.S + combine_bc(now, "*", sums.unstack(values))
        added = sums.stack(matmul(sums.state.S, now, reduce=key))
    rule = Loop(axis=time, name="delta rule")
    rule.state.S = zeros([key, value])
    for _ in rule:
        now, kept = rule.unstack(keys), rule.state.S * keep
        missing = rule.unstack(values) - matmul(kept, now, reduce=key)
        rule.state.S = kept + combine_bc(now, "*", missing * write)
        corrected = rule.stack(matmul(rule.state.S, now, reduce=key))
    return added, corrected
