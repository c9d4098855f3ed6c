"""Grapheme to phoneme: an attention encoder-decoder from the letters of a word to its phonemes, written in rfnb.

    model = load_g2p()                       # in g2p_checkpoint.py
    pronounce(model, "phonetics")            # in g2p_search.py

Encoder: letter embeddings, then layers of bidirectional LSTM. Decoder: an LSTM over the phonemes so far; its output
attends to the encoder's states by scaled dot-product attention; output and context together predict the next phoneme.
The context is not fed
back into the LSTM, so in training a whole target sequence is one LSTM call and one attention call, and search calls the
same modules with `spatial_dim=single_step_dim`.

Source: Toshniwal and Livescu 2016, "Jointly Learning to Align and Convert Graphemes to Phonemes with Neural Attention
Models" (global attention); here with dot products, without input feeding, as in Luong et al. 2015 sections 3.1 and 3.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.data import g2p
from rfnb.nn.attention.functions import dot_attention
from rfnb.nn.dropout import dropout
from rfnb.nn.init import Normal
from rfnb.nn.linear import Embedding, Linear
from rfnb.nn.module.container import ModuleList
from rfnb.nn.module.module import Module
from rfnb.nn.recurrent.lstm import LSTM, LstmState
from rfnb.ops.concat import concat_features
from rfnb.ops.const import zeros_like
from rfnb.ops.math import tanh
from rfnb.ops.reduce import reduce_mean
from rfnb.ops.shift import reverse_sequence
from rfnb.ops.softmax import log_softmax
from rfnb.rec.state import State

letter_dim = Dim(len(g2p.LETTERS), name="letter", vocab=list(g2p.LETTERS))
label_dim = Dim(len(g2p.LABELS), name="label", vocab=list(g2p.LABELS))


@dataclass(frozen=True)
class G2PConfig:
    """Sizes of a model. The default has 1,197,800 parameters."""

    embedding: int = 64
    encoder: int = 128  # units per direction
    encoder_layers: int = 2
    decoder: int = 256
    dropout: float = 0.25


SMALL = G2PConfig(encoder=112, encoder_layers=1, decoder=224, dropout=0.1)
"""632 thousand parameters: what a notebook trains in three minutes."""


class Encoded(State):
    """The encoded words, in the form that the decoder takes.

    Items, also as attributes:
        letters_dim: The dim of the letters' positions.
        states: {batch, letters, encoder}: the states of the encoder.
        att_keys: {batch, letters, decoder}: the keys of the attention.
        start: the decoder's initial LstmState.
    """


def _embedding(in_dim: Dim, out_dim: Dim) -> Embedding:
    # Initial values near 1: after 600 steps the loss is 1.24 nats, versus 1.52 with Glorot's small values.
    embedding = Embedding(in_dim, out_dim)
    embedding.weight.initial = Normal(1.0, truncated=False)
    return embedding


class BiLSTM(Module):
    """Two LSTMs, one per direction, with concatenated outputs.

    Args:
        in_dim: Feature dim of the source.
        units_dim: Outputs per direction; `out_dim` of the module is twice that.
    """

    def __init__(self, in_dim: Dim, units_dim: Dim):
        self.forward = LSTM(in_dim, units_dim)
        self.backward = LSTM(in_dim, units_dim)
        self.out_dim = units_dim + units_dim

    def __call__(self, source: Tensor, *, spatial_dim: Dim) -> Tensor:
        """{..., spatial_dim, in_dim} -> {..., spatial_dim, out_dim}."""
        batch_dims = [dim for dim in source.dims if dim is not spatial_dim and dim is not source.feature_dim]
        state = self.forward.default_initial_state(batch_dims=batch_dims)
        ahead, _ = self.forward(source, state=state, spatial_dim=spatial_dim)
        turned = reverse_sequence(source, axis=spatial_dim)
        back, _ = self.backward(turned, state=state, spatial_dim=spatial_dim)
        return concat_features(ahead, reverse_sequence(back, axis=spatial_dim))


class Encoder(Module):
    """From letters to one state per letter, {batch, letters} -> {batch, letters, out_dim}."""

    def __init__(self, config: G2PConfig):
        self.dropout = config.dropout
        self.embedding = _embedding(letter_dim, Dim(config.embedding, name="letter_embedding"))
        self.layers = ModuleList()
        in_dim = self.embedding.out_dim
        for index in range(config.encoder_layers):
            layer = BiLSTM(in_dim, Dim(config.encoder, name=f"encoder_{index}"))
            self.layers.append(layer)
            in_dim = layer.out_dim
        self.out_dim = in_dim

    def __call__(self, letters: Tensor, *, spatial_dim: Dim) -> Tensor:
        x = dropout(self.embedding(letters), self.dropout)
        for layer in self.layers:
            x = dropout(layer(x, spatial_dim=spatial_dim), self.dropout)
        return x


class Attention(Module):
    """Scaled dot-product attention to the encoder's states."""

    def __init__(self, source_dim: Dim, query_dim: Dim):
        self.query_dim = query_dim
        self.keys = Linear(source_dim, query_dim, with_bias=False)

    def __call__(self, query: Tensor, encoded: Encoded) -> Tensor:
        """{..., query_dim} -> {..., source_dim}."""
        return dot_attention(query, encoded.att_keys, encoded.states, key_dim=self.query_dim, axis=encoded.letters_dim)


class Decoder(Module):
    """From the phonemes so far to the logits of the next one."""

    def __init__(self, config: G2PConfig, source_dim: Dim):
        self.dropout = config.dropout
        units_dim = Dim(config.decoder, name="decoder")
        self.start = Linear(source_dim, units_dim)
        self.embedding = _embedding(label_dim, Dim(config.embedding, name="label_embedding"))
        self.lstm = LSTM(self.embedding.out_dim, units_dim)
        self.att = Attention(source_dim, units_dim)
        self.readout = Linear(units_dim + source_dim, Dim(config.decoder, name="readout"))
        self.output = Linear(self.readout.out_dim, label_dim)

    def prepare(self, states: Tensor, *, spatial_dim: Dim) -> Encoded:
        """The part that all steps share: the keys, and the initial state from the mean of the encoder's states."""
        h = tanh(self.start(reduce_mean(states, axis=spatial_dim)))
        start = LstmState(h=h, c=zeros_like(h))
        return Encoded(letters_dim=spatial_dim, states=states, att_keys=self.att.keys(states), start=start)

    def __call__(
        self, labels: Tensor, encoded: Encoded, *, state: LstmState, spatial_dim: Dim
    ) -> tuple[Tensor, LstmState]:
        """Logits of the labels that follow `labels`.

        Args:
            labels: {batch, spatial_dim} sparse over label_dim, the begin label 0 first; one step: {batch}.
            state: The state before them; `encoded.start` at the beginning.
            spatial_dim: The dim of the labels' positions, or `single_step_dim`.

        Returns:
            {batch, spatial_dim, label_dim} or {batch, label_dim}, and the state after them.
        """
        x = dropout(self.embedding(labels), self.dropout)
        query, state = self.lstm(x, state=state, spatial_dim=spatial_dim)
        context = self.att(query, encoded)
        both = dropout(concat_features(query, context), self.dropout)
        return self.output(dropout(tanh(self.readout(both)), self.dropout)), state


class G2P(Module):
    """The whole model.

    Args:
        config: Sizes; the default is that of the shipped model.
    """

    def __init__(self, config: G2PConfig | None = None):
        self.config = config or G2PConfig()
        self.encoder = Encoder(self.config)
        self.decoder = Decoder(self.config, self.encoder.out_dim)

    @property
    def device(self) -> str:
        """The device of the parameters, where batches are made."""
        return str(self.decoder.output.weight.device)

    def encode(self, letters: Tensor, *, spatial_dim: Dim) -> Encoded:
        """Encode words: letters {batch, spatial_dim}, sparse over letter_dim."""
        return self.decoder.prepare(self.encoder(letters, spatial_dim=spatial_dim), spatial_dim=spatial_dim)

    def log_probs(self, inputs: Tensor, encoded: Encoded, *, spatial_dim: Dim) -> Tensor:
        """Natural-log probabilities of each next label given the previous ones (teacher forcing).

        Args:
            inputs: {batch, spatial_dim} sparse over label_dim: the begin label 0, then the pronunciation.

        Returns:
            {batch, spatial_dim, label_dim}.
        """
        logits, _ = self.decoder(inputs, encoded, state=encoded.start, spatial_dim=spatial_dim)
        return log_softmax(logits, axis=label_dim)

    def num_parameters(self) -> int:
        return sum(parameter.num_elements() for parameter in self.parameters())
