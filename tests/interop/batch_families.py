"""Ten tiny families of sequence models, sound or with a fault that lets padding or neighbours through, and where each begins."""

import math

import torch
import torch.nn.functional as F
from torch import nn

SIZE, VOCAB = 8, 13


def padded_ids(lengths=(7, 5, 4), seed=0, side="right"):
    """Labels, 0 in the padding, and their mask."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, VOCAB, (len(lengths), max(lengths)), generator=generator)
    mask = torch.arange(max(lengths))[None] < torch.tensor(lengths)[:, None]
    mask = mask if side == "right" else mask.flip(1)
    return {"ids": torch.where(mask, ids, 0), "mask": mask}


def padded_frames(lengths=(7, 5, 4), seed=0):
    """Frames, with noise in the padding, and their mask."""
    made = padded_ids(lengths, seed)
    x = torch.randn(*made["ids"].shape, SIZE, generator=torch.Generator().manual_seed(seed + 1))
    return {"x": x, "mask": made["mask"]}


class Attention(nn.Module):
    """Self-attention or, with `memory`, cross-attention; fault "mask": padding is seen; "nan": a row that sees nothing gives NaN."""

    def __init__(self, fault=None, causal=False):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(SIZE, SIZE) for _ in range(4))
        self.fault, self.causal = fault, causal

    def forward(self, x, mask, memory=None):
        memory = x if memory is None else memory
        q, k, v = (
            each(y).unflatten(-1, (2, -1)).transpose(1, 2)
            for each, y in ((self.q, x), (self.k, memory), (self.v, memory))
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        seen = mask[:, None, None, :].expand_as(scores)
        if self.causal:
            seen = seen & torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        if self.fault == "nan":
            seen = seen & mask[:, None, :, None]
            scores = scores.masked_fill(~seen, -math.inf)
        elif self.fault == "mask":
            scores = (
                scores
                if not self.causal
                else scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -1e30)
            )
        elif self.fault == "soft":
            scores = scores - 4.0 * (~seen).to(scores.dtype)
        else:
            scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, fault=None, causal=False):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE)
        self.attn = Attention(fault, causal)
        self.mlp = nn.Sequential(nn.Linear(SIZE, 16), nn.GELU(), nn.Linear(16, SIZE))

    def forward(self, x, mask):
        x = x + self.attn(self.norm1(x), mask)
        return x + self.mlp(self.norm2(x))


class Pool(nn.Module):
    def __init__(self, fault=None):
        super().__init__()
        self.fault = fault

    def forward(self, x, mask):
        kept = x * mask[..., None].to(x.dtype)
        if self.fault == "mean":
            return x.mean(1)
        if self.fault == "count":
            return kept.sum(1) / x.shape[1]
        if self.fault == "max":
            return kept.max(1).values
        if self.fault == "last":
            return x[:, -1]
        if self.fault == "sound max":
            return x.masked_fill(~mask[..., None], torch.finfo(x.dtype).min).max(1).values
        if self.fault == "sound last":
            return x[torch.arange(len(x)), mask.sum(1) - 1]
        return kept.sum(1) / mask.sum(1, keepdim=True).to(x.dtype)


class Encoder(nn.Module):
    """A Transformer encoder with a mean of its frames. Faults at: attention of the second layer, pool, positions."""

    def __init__(self, attention=None, pool=None, positions=None):
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCAB, SIZE), nn.Embedding(32, SIZE)
        self.layers = nn.ModuleList([Layer(), Layer(attention), Layer()])
        self.pool, self.out = Pool(pool), nn.Linear(SIZE, 3)
        self.positions = positions

    def forward(self, ids, mask):
        at = torch.arange(ids.shape[1])
        at = at.flip(0) if self.positions == "end" else at
        x = self.embed(ids) + self.place(at)
        for layer in self.layers:
            x = layer(x, mask)
        return self.out(self.pool(x, mask))


class Decoder(nn.Module):
    """A causal language model with a cache. Faults: "positions" count padding (on the left), "cache" counts from 0, "loss" on padding."""

    def __init__(self, fault=None, attention=None):
        super().__init__()
        self.embed, self.place = nn.Embedding(VOCAB, SIZE), nn.Embedding(32, SIZE)
        self.q, self.k, self.v, self.head = (nn.Linear(SIZE, each) for each in (SIZE, SIZE, SIZE, VOCAB))
        self.norm, self.fault = nn.LayerNorm(SIZE), fault

    def forward(self, ids, mask, labels=None, past=None):
        at = (mask.long().cumsum(1) - 1).clamp_min(0)[:, -ids.shape[1] :]
        if self.fault == "positions":
            at = torch.arange(mask.shape[1] - ids.shape[1], mask.shape[1])[None]
        if self.fault == "cache" and past is not None:
            at = at - at.min()
        x = self.embed(ids) + self.place(at)
        k, v = self.k(x), self.v(x)
        if past is not None:
            k, v = torch.cat([past[0], k], 1), torch.cat([past[1], v], 1)
        q = self.q(x)
        causal = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(k.shape[1] - q.shape[1])
        seen = causal & mask[:, None, :]
        scores = (q @ k.transpose(1, 2) / math.sqrt(SIZE)).masked_fill(
            ~seen, -1e9 if q.dtype != torch.float16 else -6e4
        )
        x = self.norm(x + scores.softmax(-1) @ v)
        logits = self.head(x)
        made = {"logits": logits, "past": (k, v)}
        if labels is not None:
            before = F.pad(mask[:, :-1], (1, 0), value=True)  # what padding predicts is none, either
            labels = labels if self.fault == "loss" else labels.masked_fill(~mask | ~before, -100)
            made["loss"] = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return made


class Recurrent(nn.Module):
    """A BLSTM of packed frames. Faults: "unpacked"; those of the pool."""

    def __init__(self, fault=None, pool="sound last"):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(VOCAB, SIZE), nn.LSTM(SIZE, 4, batch_first=True, bidirectional=True)
        self.pool, self.out, self.fault = Pool(pool), nn.Linear(SIZE, 3), fault

    def forward(self, ids, mask):
        x = self.embed(ids)
        if self.fault == "unpacked":
            x, _ = self.lstm(x)
        else:
            packed = nn.utils.rnn.pack_padded_sequence(x, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False)
            x, _ = nn.utils.rnn.pad_packed_sequence(self.lstm(packed)[0], batch_first=True, total_length=ids.shape[1])
        return self.out(self.pool(x, mask))


class Convolution(nn.Module):
    """Two convolutions over time. Faults: "padding" is read by the second one; "norm" is over time; "batch": over the batch."""

    def __init__(self, fault=None):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv1d(SIZE, SIZE, 3, padding=1), nn.Conv1d(SIZE, SIZE, 3, padding=1)
        self.norm = {"norm": nn.GroupNorm(1, SIZE), "batch": nn.BatchNorm1d(SIZE, track_running_stats=False)}.get(
            fault, nn.Identity()
        )
        self.out, self.fault = nn.Linear(SIZE, 3), fault

    def forward(self, x, mask):
        real = mask[:, None].to(x.dtype)
        x = torch.relu(self.conv1(x.transpose(1, 2) * real))
        x = self.norm(x if self.fault == "padding" else x * real)
        return self.out(self.conv2(x if self.fault == "padding" else x * real).transpose(1, 2))


class Cell(nn.Module):
    """A custom recurrence. Fault: "ended": its state changes over padding; "reverse": it begins in the padding."""

    def __init__(self, fault=None):
        super().__init__()
        self.step, self.out, self.fault = nn.GRUCell(SIZE, SIZE), nn.Linear(SIZE, 3), fault

    def forward(self, x, mask):
        h = x.new_zeros(len(x), SIZE)
        times = range(x.shape[1])
        for t in reversed(times) if self.fault == "reverse" else times:
            new = self.step(x[:, t], h)
            h = new if self.fault else torch.where(mask[:, t, None], new, h)
        return self.out(h)


class Crossed(nn.Module):
    """An encoder, and a decoder that attends to it. Fault "cross": also to its padding."""

    def __init__(self, fault=None):
        super().__init__()
        self.embed, self.write = nn.Embedding(VOCAB, SIZE), nn.Embedding(VOCAB, SIZE)
        self.encoder, self.own = Layer(), Layer(causal=True)
        self.cross, self.head = Attention("mask" if fault == "cross" else None), nn.Linear(SIZE, VOCAB)

    def forward(self, ids, mask, decoder_ids, decoder_mask):
        memory = self.encoder(self.embed(ids), mask)
        y = self.own(self.write(decoder_ids), decoder_mask)
        return self.head(y + self.cross(y, mask, memory))


class Linear(nn.Module):
    """Attention by sums over time. Fault "sums": padding is summed, too."""

    def __init__(self, fault=None):
        super().__init__()
        self.q, self.k, self.v, self.out, self.fault = (
            *(nn.Linear(SIZE, SIZE) for _ in range(3)),
            nn.Linear(SIZE, 3),
            fault,
        )

    def forward(self, x, mask):
        k = F.elu(self.k(x)) + 1
        if self.fault != "sums":
            k = k * mask[..., None].to(k.dtype)
        q, memory = F.elu(self.q(x)) + 1, k.transpose(1, 2) @ self.v(x)
        return self.out(q @ memory / (q * k.sum(1, keepdim=True)).sum(-1, keepdim=True))


class Experts(nn.Module):
    """Frames go to one of two experts. Fault "capacity": each takes so many of the whole batch."""

    def __init__(self, fault=None):
        super().__init__()
        self.router, self.experts, self.fault = (
            nn.Linear(SIZE, 2),
            nn.ModuleList(nn.Linear(SIZE, SIZE) for _ in range(2)),
            fault,
        )
        self.out = nn.Linear(SIZE, 3)

    def forward(self, x, mask):
        gate = self.router(x).softmax(-1)
        if self.fault == "capacity":
            flat = gate[..., 0].flatten()
            gate = torch.stack([(flat >= flat.median()).to(x.dtype).view_as(gate[..., 0]), gate[..., 1]], -1)
        return self.out(sum(gate[..., i, None] * expert(x) for i, expert in enumerate(self.experts)))


class Mixer(nn.Module):
    """Weights over time by position, then a pool. Fault "mix": padding is mixed in; "softmax": over the batch."""

    def __init__(self, fault=None):
        super().__init__()
        self.mix, self.out, self.fault = nn.Linear(16, 16), nn.Linear(SIZE, 3), fault
        self.score = nn.Linear(SIZE, 1)

    def forward(self, x, mask):
        kept = x if self.fault == "mix" else x * mask[..., None].to(x.dtype)
        wide = F.pad(kept, (0, 0, 0, 16 - x.shape[1]))
        x = x + self.mix(wide.transpose(1, 2)).transpose(1, 2)[:, : x.shape[1]]
        scores = self.score(x).squeeze(-1).masked_fill(~mask, torch.finfo(x.dtype).min)
        weights = scores.softmax(0 if self.fault == "softmax" else 1)
        return self.out((weights[..., None] * x).sum(1))


def crossed_inputs(lengths=(7, 5, 4), seed=0):
    other = padded_ids((3, 5, 6), seed + 5)
    return {**padded_ids(lengths, seed), "decoder_ids": other["ids"], "decoder_mask": other["mask"]}


def with_labels(**options):
    made = padded_ids(**options)
    return {**made, "labels": made["ids"]}


# name: model, inputs, the module where it begins, whether padding (True) or another sequence (False) is where it comes from; None: no cell
FAULTS = {
    "fully masked row": (lambda: Encoder("nan"), padded_ids, "layers.1.attn", True),
    "padding attended": (lambda: Encoder("mask"), padded_ids, "layers.1.attn", True),
    "soft mask": (lambda: Encoder("soft"), padded_ids, "layers.1.attn", True),
    "padding in a mean": (lambda: Encoder(pool="mean"), padded_ids, "pool", True),
    "count of a mean": (lambda: Encoder(pool="count"), padded_ids, "pool", True),
    "positions from the end": (lambda: Encoder(positions="end"), padded_ids, "", True),
    "padding in a maximum": (lambda: Encoder(pool="max"), padded_ids, "pool", True),
    "positions count padding": (lambda: Decoder("positions"), lambda: padded_ids(side="left"), "", True),
    "cache offset": (lambda: Decoder("cache"), padded_ids, "", None),
    "loss on padding": (lambda: Decoder("loss"), with_labels, "", True),
    "last state": (lambda: Recurrent(pool="last"), padded_ids, "pool", True),
    "reverse over padding": (lambda: Recurrent("unpacked"), padded_ids, "lstm", True),
    "convolution over padding": (lambda: Convolution("padding"), padded_frames, "conv2", True),
    "norm over time": (lambda: Convolution("norm"), padded_frames, "norm", True),
    "norm over the batch": (lambda: Convolution("batch"), padded_frames, "norm", None),
    "state after the end": (lambda: Cell("ended"), padded_frames, "", True),
    "state from the padding": (lambda: Cell("reverse"), padded_frames, "", True),
    "cross attention": (lambda: Crossed("cross"), crossed_inputs, "cross", True),
    "sums over padding": (lambda: Linear("sums"), padded_frames, "", True),
    "capacity of the batch": (lambda: Experts("capacity"), padded_frames, "", None),
    "time mixed": (lambda: Mixer("mix"), padded_frames, "", True),
    "softmax over the batch": (lambda: Mixer("softmax"), padded_frames, "", False),
}  # fmt: skip

SOUND = {
    "encoder": (Encoder, padded_ids),
    "maximum": (lambda: Encoder(pool="sound max"), padded_ids),
    "decoder": (Decoder, with_labels),
    "decoder on the left": (Decoder, lambda **options: with_labels(side="left", **options)),
    "recurrent": (Recurrent, padded_ids),
    "convolution": (Convolution, padded_frames),
    "cell": (Cell, padded_frames),
    "crossed": (Crossed, crossed_inputs),
    "linear": (Linear, padded_frames),
    "experts": (Experts, padded_frames),
    "mixer": (Mixer, padded_frames),
}


def made(make, seed=0):
    """A model with weights of a seed, that does not train."""
    torch.manual_seed(seed)
    model = make()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.eval()
