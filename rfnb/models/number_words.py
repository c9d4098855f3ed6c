"""An encoder-decoder that spells out a number: "4217" -> four thousand two hundred seventeen.

model = NumberModel()                               # the decoder sees only the encoder's last state
model = NumberModel(attention=True, start="zeros")  # it sees the source only through attention
for loss in train(model, train_numbers):
    ...
say(model, [4217])                                  # ["four thousand two hundred seventeen"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from rfnb.core.dim import Dim, ragged_dim, single_step_dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.data.number_words import DIGITS, END_LABEL, WORDS, encode_number, encode_words
from rfnb.models.g2p import BiLSTM
from rfnb.nn.attention.functions import dot_attention
from rfnb.nn.linear import Embedding, Linear
from rfnb.nn.module.module import Module
from rfnb.nn.recurrent.lstm import LSTM, LstmState
from rfnb.nn.transformer.decoder import TransformerDecoder
from rfnb.nn.transformer.encoder import TransformerEncoder
from rfnb.ops.cast import cast
from rfnb.ops.concat import concat_features
from rfnb.ops.const import convert_to_tensor, zeros, zeros_like
from rfnb.ops.dims import range_over_dim
from rfnb.ops.gradient import stop_gradient_scope
from rfnb.ops.loss import cross_entropy
from rfnb.ops.math import tanh
from rfnb.ops.reduce import reduce_argmax, reduce_mean
from rfnb.ops.shift import shift_right
from rfnb.ops.where import where
from rfnb.rec.loop import Loop
from rfnb.rec.state import State
from rfnb.search.choice import choice
from rfnb.search.decide import decide

digit_dim = Dim(len(DIGITS), name="digit", vocab=list(DIGITS))
word_dim = Dim(len(WORDS), name="word", vocab=list(WORDS))
MOST_WORDS = 12


class EncodedNumbers(State):
    """The encoded source, in the form that the decoder takes.

    Items, also as attributes:
        start: the decoder's initial LstmState.
        source_dim, states, att_keys: Attended over, {batch, source, ...}; only for a model with attention.
        source: For a Transformer instead: keys and values of each layer.
    """


class NumberAttention(Module):
    """Scaled dot-product attention to the encoder's states."""

    def __init__(self, states_dim: Dim, query_dim: Dim):
        self.query_dim = query_dim
        self.keys = Linear(states_dim, query_dim, with_bias=False)

    def __call__(self, query: Tensor, encoded: EncodedNumbers) -> Tensor:
        """{..., query_dim} -> {..., states_dim}."""
        return dot_attention(query, encoded.att_keys, encoded.states, key_dim=self.query_dim, axis=encoded.source_dim)


@dataclass(frozen=True)
class NumberBatch:
    """Numbers with their words, as Tensors.

    Attributes:
        digits: {batch, digits_dim} sparse over digit_dim.
        words: {batch, words_dim} sparse over word_dim, the end label last.
    """

    batch: Dim
    digits_dim: Dim
    words_dim: Dim
    digits: Tensor
    words: Tensor


def batch_of(numbers: Sequence[int] | np.ndarray, *, device: str | None = None) -> NumberBatch:
    """Digits and words of numbers; both dims are ragged.

    Args:
        device: Default: the default device.
    """
    batch = Dim(len(numbers), name="batch", kind="batch")
    of_digits, of_words = ([encode(int(number)) for number in numbers] for encode in (encode_number, encode_words))
    digits_dim, digits = padded_rows(of_digits, batch, "digits", digit_dim, device)
    words_dim, words = padded_rows(of_words, batch, "words", word_dim, device)
    return NumberBatch(batch, digits_dim, words_dim, digits, words)


class NumberModel(Module):
    """The model.

    Args:
        attention: Whether the decoder attends to the states of all digits by scaled dot-product attention.
        start: The decoder begins with the "encoder"'s last state, or, with attention, from "zeros".

    Raises:
        ValueError: For another start, or zeros without attention, since no information would reach the decoder.
    """

    def __init__(self, *, attention: bool = False, start: str = "encoder", units: int = 96):
        if start not in ("encoder", "zeros") or (start == "zeros" and not attention):
            raise value_error(
                f'NumberModel: start="{start}".',
                {"start": start, "attention": attention},
                'The decoder starts from the "encoder", or from "zeros" if it has attention.',
                'NumberModel(attention=True, start="zeros")',
            )
        self.attention, self.start = attention, start
        units_dim, embedding = Dim(units, name="units"), units // 3
        self.digits = Embedding(digit_dim, Dim(embedding, name="digit_embedding"))
        self.words = Embedding(word_dim, Dim(embedding, name="word_embedding"))
        self.encoder = LSTM(self.digits.out_dim, units_dim)
        self.decoder = LSTM(self.words.out_dim, units_dim)
        if attention:
            self.both_ways = BiLSTM(self.digits.out_dim, Dim(units // 2, name="encoder"))
            self.att = NumberAttention(self.both_ways.out_dim, units_dim)
            self.readout = Linear(units_dim + self.both_ways.out_dim, Dim(units, name="readout"))
        self.output = Linear(self.readout.out_dim if attention else units_dim, word_dim)

    def encode(self, digits: Tensor, *, spatial_dim: Dim) -> EncodedNumbers:
        """Encode digits {batch, spatial_dim}."""
        x = self.digits(digits)
        start = self.encoder.default_initial_state(batch_dims=digits.remaining_dims([spatial_dim]))
        _, last = self.encoder(x, state=start, spatial_dim=spatial_dim)
        if not self.attention:
            return EncodedNumbers(start=last)
        states = self.both_ways(x, spatial_dim=spatial_dim)
        if self.start == "zeros":
            last = LstmState(h=zeros_like(last.h), c=zeros_like(last.c))
        return EncodedNumbers(start=last, source_dim=spatial_dim, states=states, att_keys=self.att.keys(states))

    def __call__(
        self, words: Tensor, encoded: EncodedNumbers, *, state: LstmState, spatial_dim: Dim
    ) -> tuple[Tensor, LstmState]:
        """Logits {..., word_dim} of the words after `words` {..., spatial_dim}, and the state after them."""
        h, state = self.decoder(self.words(words), state=state, spatial_dim=spatial_dim)
        if self.attention:
            h = tanh(self.readout(concat_features(h, self.att(h, encoded))))
        return self.output(h), state


class NumberTransformer(Module):
    """A Transformer for the same task: by default, encoder and decoder have two layers with four heads each."""

    def __init__(self, *, units: int = 64, layers: int = 2, heads: int = 4):
        model_dim = Dim(units, name="model")
        self.encoder = TransformerEncoder(
            digit_dim, model_dim, num_layers=layers, num_heads=heads, dropout=0.0, att_dropout=0.0
        )
        self.decoder = TransformerDecoder(
            model_dim, word_dim, model_dim, num_layers=layers, num_heads=heads, dropout=0.0, att_dropout=0.0
        )

    def encode(self, digits: Tensor, *, spatial_dim: Dim) -> EncodedNumbers:
        """Encode digits {batch, spatial_dim}."""
        states = self.encoder(digits, spatial_dim=spatial_dim)
        start = self.decoder.default_initial_state(batch_dims=digits.remaining_dims([spatial_dim]))
        return EncodedNumbers(start=start, source=self.decoder.transform_encoder(states, axis=spatial_dim))

    def __call__(
        self, words: Tensor, encoded: EncodedNumbers, *, state: State, spatial_dim: Dim
    ) -> tuple[Tensor, State]:
        """Logits {..., word_dim} of the words after `words` {..., spatial_dim}, and the state after them."""
        return self.decoder(words, spatial_dim=spatial_dim, encoder=encoded.source, state=state)


def train(
    model: NumberModel | NumberTransformer,
    numbers: np.ndarray,
    *,
    steps: int = 300,
    ratio: float = 1.0,
    batch_size: int = 64,
    learning_rate: float = 4e-3,
    seed: int = 1,
) -> Iterator[float]:
    """Train with Adam and a learning rate that decays to 0; yields the loss of each step, in nats per word.

    Args:
        numbers: The training numbers, sampled by `seed`.
        ratio: The teacher-forcing ratio: with this probability the decoder gets the reference word, else a word sampled
            from its own distribution, without gradient.

    Source: scheduled sampling, Bengio et al. 2015, with a constant ratio.
    """
    rng = np.random.default_rng(seed)

    def of_step(step: int) -> Tensor:
        return loss(model, batch_of(rng.choice(numbers, batch_size), device=device_of(model)), ratio=ratio)

    return adam_steps(model, of_step, steps, learning_rate)


def adam_steps(model: Module, loss: Callable[[int], Tensor], steps: int, learning_rate: float) -> Iterator[float]:
    """Make steps of Adam whose learning rate falls to 0; after each step its loss.

    Args:
        loss: The loss of a step, a scalar.
    """
    optimizer = torch.optim.Adam([parameter.raw_tensor for parameter in model.parameters()], lr=learning_rate)
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * min(1.0, (step + 1) / 20) * (1 - step / steps)
        optimizer.zero_grad()
        mean = loss(step)
        mean.raw_tensor.backward()
        optimizer.step()
        yield mean.raw_tensor.item()


def loss(model: NumberModel | NumberTransformer, part: NumberBatch, *, ratio: float = 1.0) -> Tensor:
    """The cross-entropy of the words, a scalar: nats per word. With a ratio of 1 this is teacher forcing."""
    encoded = model.encode(part.digits, spatial_dim=part.digits_dim)
    if ratio == 1.0:
        before = shift_right(part.words, axis=part.words_dim, pad_value=END_LABEL)
        logits, _ = model(before, encoded, state=encoded.start, spatial_dim=part.words_dim)
        losses = cross_entropy(estimated=logits, target=part.words, axis=word_dim, estimated_type="logits")
        return reduce_mean(losses, axis=[part.batch, part.words_dim])
    loop = Loop(axis=part.words_dim, name="train")
    loop.state.label = _begin(part)
    loop.state.decoder = encoded.start
    with loop:
        before = loop.state.decoder
        logits, loop.state.decoder = model(loop.state.label, encoded, state=before, spatial_dim=single_step_dim)
        target = loop.unstack(part.words)
        sampling = {"gold_mixin_prob": ratio}
        loop.state.label = choice(
            logits, axis=word_dim, input_type="logits", target=target, scheduled_sampling=sampling
        )
        losses = loop.stack(cross_entropy(estimated=logits, target=target, axis=word_dim, estimated_type="logits"))
    return reduce_mean(losses, axis=[part.batch, part.words_dim])


def say(model: NumberModel, numbers: Sequence[int] | np.ndarray, *, beam_size: int = 1, begin: str = "") -> list[str]:
    """The numbers in words: for each the best hypothesis of the model, which continues its own words.

    Args:
        begin: Words that the output must begin with, right or wrong.

    Raises:
        ValueError: If one is not in `WORDS`, or there are too many.
    """
    part = batch_of(numbers, device=device_of(model))
    prefix = _prefix(begin.split(), part)
    with stop_gradient_scope():
        encoded = model.encode(part.digits, spatial_dim=part.digits_dim)
        loop = Loop(max_seq_len=MOST_WORDS, name="search")
        loop.state.label = _begin(part)
        loop.state.decoder = encoded.start
        for _ in loop:
            before = loop.state.decoder
            logits, loop.state.decoder = model(loop.state.label, encoded, state=before, spatial_dim=single_step_dim)
            label = choice(logits, axis=word_dim, input_type="logits", beam_size=beam_size, prefix=prefix)
            loop.state.label = label
            loop.end(label == END_LABEL, include_eos=True)
            labels = loop.stack(label)
        best = decide(labels)
    (time,) = best.remaining_dims([part.batch])
    rows = best.copy_transpose([part.batch, time]).numpy()
    return [" ".join(_until_end(row)) for row in rows]


def right_words(
    model: NumberModel | NumberTransformer,
    numbers: Sequence[int] | np.ndarray,
    *,
    teacher: bool = False,
    wrong_at: int | None = None,
) -> float:
    """The fraction of correct words, 0 to 1.

    Args:
        teacher: Predict each word from the reference words before it, instead of the model's own.
        wrong_at: The model gets the reference before this step, at this step the best wrong word, and then its own
            words, of which the fraction is taken. This measures how it recovers from a mistake.
    """
    part = batch_of(numbers, device=device_of(model))
    with stop_gradient_scope():
        encoded = model.encode(part.digits, spatial_dim=part.digits_dim)
        loop = Loop(axis=part.words_dim, name="count")
        loop.state.label = _begin(part)
        loop.state.decoder = encoded.start
        for step, _ in enumerate(loop):
            before = loop.state.decoder
            logits, loop.state.decoder = model(loop.state.label, encoded, state=before, spatial_dim=single_step_dim)
            own, reference = reduce_argmax(logits, axis=word_dim), loop.unstack(part.words)
            right = loop.stack(own == reference)
            if step == wrong_at:
                others = where(range_over_dim(word_dim, device=logits.device) == reference, -float("inf"), logits)
                loop.state.label = cast(reduce_argmax(others, axis=word_dim), "int64")
            else:
                given = teacher or (wrong_at is not None and step < wrong_at)
                loop.state.label = reference if given else cast(own, "int64")
        cells = right.copy_transpose([part.batch, part.words_dim]).numpy()
    counted = part.words_dim.host_mask([part.batch, part.words_dim])
    if wrong_at is not None:
        counted = counted & (np.arange(cells.shape[1]) > wrong_at)
    return float(cells[counted].mean())


def device_of(model: Module) -> str | None:
    """The device of the parameters, where numbers and words are encoded."""
    return next(iter(model.parameters())).device


def _begin(part: NumberBatch) -> Tensor:
    return zeros([part.batch], dtype="int64", device=part.digits.device, sparse_dim=word_dim)


def padded_rows(
    rows: Sequence[np.ndarray], batch: Dim, name: str, sparse_dim: Dim, device: str | None = None
) -> tuple[Dim, Tensor]:
    """The dim of the positions of rows of labels, ragged over the batch, and the labels {batch, positions}."""
    time = ragged_dim([len(row) for row in rows], over=batch, name=name)
    array = np.zeros((len(rows), max(map(len, rows))), "int64")
    for index, row in enumerate(rows):
        array[index, : len(row)] = row
    return time, convert_to_tensor(array, dims=[batch, time], sparse_dim=sparse_dim, device=device)


def _prefix(begin: Sequence[str], part: NumberBatch) -> Tensor | None:
    unknown = [word for word in begin if word not in WORDS]
    if unknown or len(begin) >= MOST_WORDS:
        raise value_error(
            f'say: begin="{" ".join(begin)}".',
            {"unknown": ", ".join(unknown) or "none", "words": f"{len(begin)}, at most {MOST_WORDS - 1}"},
            "It begins with words of numbers, with blanks between them.",
            'say(model, [4217], begin="four thousand nine")',
        )
    if not begin:
        return None
    rows = np.tile([WORDS.index(word) for word in begin], (part.batch.extent, 1))
    begin_dim = Dim(len(begin), name="begin")
    return convert_to_tensor(rows, dims=[part.batch, begin_dim], sparse_dim=word_dim, device=part.digits.device)


def _until_end(labels: np.ndarray) -> list[str]:
    ends = np.flatnonzero(labels == END_LABEL)
    return [WORDS[index] for index in (labels[: ends[0]] if len(ends) else labels)]
