"""An attention model that converts a date in words to ISO 8601, small enough to watch its training.

    model = DateModel(start="zeros")
    for loss in train(model, steps=300):
        ...
    write(model, ["3 march not 5 may 2021"])        # ["2021-03-03"]

Encoder: word embeddings, one bidirectional LSTM. Decoder: an LSTM over the characters so far, whose output attends to
the encoder's states by scaled dot-product attention; both together predict the next character.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

import numpy as np

from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.data.dates import CHARACTERS, SOURCE_WORDS, Date, encode_date_words, encode_iso, random_dates
from rfnb.models.g2p import BiLSTM
from rfnb.models.number_words import EncodedNumbers, NumberAttention, adam_steps, device_of, padded_rows
from rfnb.nn.linear import Embedding, Linear
from rfnb.nn.module.module import Module
from rfnb.nn.recurrent.lstm import LSTM, LstmState
from rfnb.ops.concat import concat_features
from rfnb.ops.const import convert_to_tensor, zeros, zeros_like
from rfnb.ops.gradient import stop_gradient_scope
from rfnb.ops.loss import cross_entropy
from rfnb.ops.math import tanh
from rfnb.ops.random_state import get_random_state, put_back, set_random_seed
from rfnb.ops.reduce import reduce_mean
from rfnb.ops.shift import shift_right
from rfnb.ops.softmax import log_softmax
from rfnb.rec.loop import Loop
from rfnb.search.choice import choice
from rfnb.search.decide import decide

word_dim = Dim(len(SOURCE_WORDS), name="word", vocab=list(SOURCE_WORDS))
character_dim = Dim(len(CHARACTERS), name="character", vocab=list(CHARACTERS))
iso_dim = Dim(10, name="iso")
"""The characters of a date: always ten."""


class DateModel(Module):
    """The model.

    Args:
        start: The state of the decoder before the first character: "zeros", so that it sees the words only through
            attention, or "encoder", computed from the mean of the encoder's states.
        units: Size of the decoder's LSTM; the encoder has half as many units per direction.

    Raises:
        ValueError: For another start.
    """

    def __init__(self, start: str = "zeros", *, units: int = 64):
        if start not in ("zeros", "encoder"):
            raise value_error(
                f'DateModel: start="{start}".',
                {"start": start},
                'The decoder starts from "zeros", or from the "encoder".',
                'DateModel(start="zeros")',
            )
        self.start = start
        units_dim = Dim(units, name="units")
        self.embedding = Embedding(word_dim, Dim(units // 2, name="word_embedding"))
        self.encoder = BiLSTM(self.embedding.out_dim, Dim(units // 2, name="encoder"))
        self.first = Linear(self.encoder.out_dim, units_dim)
        self.characters = Embedding(character_dim, Dim(units // 2, name="character_embedding"))
        self.lstm = LSTM(self.characters.out_dim, units_dim)
        self.att = NumberAttention(self.encoder.out_dim, units_dim)
        self.readout = Linear(units_dim + self.encoder.out_dim, Dim(units, name="readout"))
        self.output = Linear(self.readout.out_dim, character_dim)

    def encode(self, words: Tensor, *, spatial_dim: Dim) -> EncodedNumbers:
        """Encode words {batch, spatial_dim}, sparse over word_dim."""
        states = self.encoder(self.embedding(words), spatial_dim=spatial_dim)
        h = tanh(self.first(reduce_mean(states, axis=spatial_dim)))
        h = zeros_like(h) if self.start == "zeros" else h
        return EncodedNumbers(
            source_dim=spatial_dim, states=states, att_keys=self.att.keys(states), start=LstmState(h=h, c=zeros_like(h))
        )

    def __call__(
        self, characters: Tensor, encoded: EncodedNumbers, *, state: LstmState, spatial_dim: Dim
    ) -> tuple[Tensor, LstmState]:
        """Logits {..., character_dim} of the characters after `characters` {..., spatial_dim}, and the state after them."""
        query, state = self.lstm(self.characters(characters), state=state, spatial_dim=spatial_dim)
        context = self.att(query, encoded)
        return self.output(tanh(self.readout(concat_features(query, context)))), state


def batch_of(dates: Sequence[Sequence[str]], *, device: str | None = None) -> tuple[Dim, Dim, Tensor]:
    """The batch dim, the dim of the words, and the words {batch, words} of dates in words; `device`: default the default device."""
    batch = Dim(len(dates), name="batch", kind="batch")
    words_dim, words = padded_rows([encode_date_words(words) for words in dates], batch, "words", word_dim, device)
    return batch, words_dim, words


def train(
    model: DateModel, *, steps: int = 300, batch_size: int = 64, learning_rate: float = 6e-3, seed: int = 1
) -> Iterator[float]:
    """Train on random dates, with Adam and a learning rate that decays to 0; yields the loss of each step, in nats per character.

    Args:
        seed: Seed of the dates. The dates of `random_dates(..., seed=0)` are held out for tests.
    """
    dates = random_dates(steps * batch_size, seed=seed)
    parts = [dates[start : start + batch_size] for start in range(0, len(dates), batch_size)]
    return adam_steps(model, lambda step: loss(model, parts[step]), steps, learning_rate)


@functools.cache
def trained(start: str = "zeros") -> DateModel:
    """The model after 300 steps from seed 1: trained once per process, in a few seconds, then cached.

    The state of the random generators is restored.
    """
    before = get_random_state()
    try:
        set_random_seed(1)
        model = DateModel(start)
        for _ in train(model):
            pass
    finally:
        put_back(before)
    return model


def loss(model: DateModel, dates: Sequence[Date]) -> Tensor:
    """The cross-entropy of the characters under teacher forcing: a scalar, nats per character."""
    batch, words_dim, words = batch_of([date.words for date in dates], device=device_of(model))
    rows = np.stack([encode_iso(date.iso) for date in dates])
    target = convert_to_tensor(rows, dims=[batch, iso_dim], sparse_dim=character_dim, device=words.device)
    encoded = model.encode(words, spatial_dim=words_dim)
    before = shift_right(target, axis=iso_dim, pad_value=0)
    logits, _ = model(before, encoded, state=encoded.start, spatial_dim=iso_dim)
    losses = cross_entropy(estimated=logits, target=target, axis=character_dim, estimated_type="logits")
    return reduce_mean(losses, axis=[batch, iso_dim])


def write(model: DateModel, dates: Sequence[str], *, beam_size: int = 1) -> list[str]:
    """The model's best hypothesis for each date: ISO 8601 if it is right.

    Args:
        dates: Words separated by spaces, see `rfnb.data.dates`.
    """
    with stop_gradient_scope():
        batch, words_dim, words = batch_of([date.split() for date in dates], device=device_of(model))
        encoded = model.encode(words, spatial_dim=words_dim)
        loop = Loop(axis=iso_dim, name="search")
        loop.state.label = zeros([batch], dtype="int64", device=words.device, sparse_dim=character_dim)
        loop.state.decoder = encoded.start
        for _ in loop:
            state = loop.state.decoder
            logits, loop.state.decoder = model(loop.state.label, encoded, state=state, spatial_dim=single_step_dim)
            label = choice(log_softmax(logits, axis=character_dim), axis=character_dim, beam_size=beam_size)
            loop.state.label = label
            labels = loop.stack(label)
        rows = decide(labels).copy_transpose([batch, iso_dim]).numpy()
    return ["".join(CHARACTERS[index] for index in row) for row in rows]
