"""A transducer in plain torch: a small conformer-like encoder, an LSTM that reads labels, a joiner; also with torchaudio's methods."""

from __future__ import annotations

import torch
from torch import nn

LABELS = ["-", "|", "A", "B"]


class Encoder(nn.Module):
    """Halves the time, then attends within chunks and convolves: (batch, time, 5) -> (batch, time // 2, 6), lengths // 2."""

    def __init__(self) -> None:
        super().__init__()
        self.inp, self.norm = nn.Linear(10, 6), nn.LayerNorm(6)
        self.attend = nn.MultiheadAttention(6, 2, batch_first=True)
        self.convolve = nn.Conv1d(6, 6, 3, padding=1, groups=6)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Encode."""
        lengths = lengths // 2
        x = self.inp(x[:, : 2 * (x.shape[1] // 2)].reshape(x.shape[0], -1, 10))
        padding = torch.arange(x.shape[1])[None] >= lengths[:, None]
        chunk = torch.arange(x.shape[1]) // 2
        x = x + self.attend(x, x, x, attn_mask=chunk[:, None] < chunk[None], key_padding_mask=padding)[0]
        x = x + self.convolve(self.norm(x).masked_fill(padding[..., None], 0).transpose(1, 2)).transpose(1, 2)
        return x, lengths


class Transducer(nn.Module):
    """The parts as functions of n hypotheses."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.encoder = Encoder()
        self.embedding, self.lstm = nn.Embedding(len(LABELS), 3), nn.LSTM(3, 7, num_layers=2)
        self.left, self.right, self.out = nn.Linear(6, 5), nn.Linear(7, 5), nn.Linear(5, len(LABELS))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.8)
        self.eval()

    def predict(self, labels: torch.Tensor, state):
        """Read a label each."""
        out, state = self.lstm(self.embedding(labels)[None], state)
        return out[0], state

    def join(self, frames: torch.Tensor, outs: torch.Tensor) -> torch.Tensor:
        """Logits of pairs."""
        return self.out(torch.tanh(self.left(frames) + self.right(outs)))

    def logits(self, frames: torch.Tensor, labels: list[int]) -> torch.Tensor:
        """(time, labels + 1, classes) of one sequence, all at once."""
        read = torch.tensor([0, *labels])
        outs = self.lstm(self.embedding(read)[:, None])[0][:, 0]
        return self.out(torch.tanh(self.left(frames)[:, None] + self.right(outs)[None]))


class Rnnt(nn.Module):
    """The methods that torchaudio documents for its RNNT, around a Transducer."""

    def __init__(self, transducer: Transducer) -> None:
        super().__init__()
        self.own = transducer

    def transcribe(self, sources, source_lengths):
        """(batch, time, 5) to frames and lengths."""
        return self.own.encoder(sources, source_lengths)

    def predict(self, targets, target_lengths, state):
        """(batch, labels) to (batch, labels, 7), lengths, a list of lists of tensors with the batch first."""
        packed = None if state is None else tuple(part.transpose(0, 1).contiguous() for part in state[0])
        out, state = self.own.lstm(self.own.embedding(targets).transpose(0, 1), packed)
        return out.transpose(0, 1), target_lengths, [[part.transpose(0, 1) for part in state]]

    def join(self, source_encodings, source_lengths, target_encodings, target_lengths):
        """(batch, time, 6) and (batch, labels, 7) to (batch, time, labels, classes), lengths, lengths."""
        out = self.own.join(source_encodings[:, :, None], target_encodings[:, None])
        return out, source_lengths, target_lengths
