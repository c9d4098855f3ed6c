"""Twelve small networks of kinds that pad in their own ways, each sound and with one fault; written from the documentation alone.

`FAULTS[name]` is (build, inputs, module): `build(sound)` makes the network, `inputs()` a padded batch, and a fault begins in `module`.
In the first run all 12 were found there, and none of the 36 sound runs gave an alarm.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

SIZES = (9, 6, 4)
D = 16


def frames():
    generator = torch.Generator().manual_seed(5)
    lengths = torch.tensor(SIZES)
    x = torch.randn(len(SIZES), max(SIZES), D, generator=generator)
    mask = torch.arange(max(SIZES)) < lengths[:, None]
    return {"x": x * mask[..., None], "mask": mask}


def frames_and_lengths():
    batch = frames()
    return {"x": batch["x"], "lengths": torch.tensor(SIZES)}


def words():
    generator = torch.Generator().manual_seed(6)
    mask = torch.arange(max(SIZES)) < torch.tensor(SIZES)[:, None]
    ids = torch.randint(1, 20, mask.shape, generator=generator) * mask
    return {"input_ids": ids, "attention_mask": mask.long()}


# points: a set network with a maximum over its points


class Farthest(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.sound = sound

    def forward(self, h, mask):
        if self.sound:
            h = h.masked_fill(~mask[..., None], float("-inf"))
        return h.amax(dim=1)


class PointSet(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.lift = nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, 32))
        self.farthest = Farthest(sound)
        self.classes = nn.Linear(32, 5)

    def forward(self, x, mask):
        return self.classes(self.farthest(self.lift(x), mask))


# speech: convolutions with squeeze and excitation


class Squeeze(nn.Module):
    def __init__(self, channels, sound):
        super().__init__()
        self.sound = sound
        self.down, self.up = nn.Linear(channels, 4), nn.Linear(4, channels)

    def forward(self, h, keep):
        if self.sound:
            context = (h * keep).sum(-1) / keep.sum(-1)
        else:
            context = h.mean(-1)
        return h * torch.sigmoid(self.up(F.silu(self.down(context)))).unsqueeze(-1)


class ConvBlock(nn.Module):
    def __init__(self, channels, sound):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 3, padding=1, groups=channels)
        self.point = nn.Conv1d(channels, channels, 1)
        self.squeeze = Squeeze(channels, sound)

    def forward(self, h, keep):
        return h + self.squeeze(F.silu(self.point(self.conv(h * keep))), keep)


class Context(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.blocks = nn.ModuleList([ConvBlock(D, True), ConvBlock(D, sound)])
        self.labels = nn.Linear(D, 7)

    def forward(self, x, lengths):
        h = x.transpose(1, 2)
        keep = (torch.arange(x.shape[1], device=x.device) < lengths[:, None]).unsqueeze(1).to(x.dtype)
        for block in self.blocks:
            h = block(h, keep)
        return self.labels(h.transpose(1, 2)).log_softmax(-1)


# a tagger with two directions, the second one over reversed time


class Reversed(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.sound = sound

    def forward(self, x, lengths):
        if not self.sound:
            return x.flip(1)
        time = torch.arange(x.shape[1], device=x.device).expand(x.shape[0], -1)
        order = torch.where(time < lengths[:, None], lengths[:, None] - 1 - time, time)
        return x.gather(1, order.unsqueeze(-1).expand_as(x))


class Tagger(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.forwards, self.backwards = nn.GRU(D, 12, batch_first=True), nn.GRU(D, 12, batch_first=True)
        self.reverse = Reversed(sound)
        self.tags = nn.Linear(24, 6)

    def forward(self, x, lengths):
        there, _ = self.forwards(x)
        back, _ = self.backwards(self.reverse(x, lengths))
        return self.tags(torch.cat([there, self.reverse(back, lengths)], dim=-1))


# latents that read a sequence


class Read(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.sound = sound
        self.q, self.kv = nn.Linear(D, D), nn.Linear(D, 2 * D)

    def forward(self, latents, x, mask):
        k, v = self.kv(x).chunk(2, dim=-1)
        scores = torch.einsum("bld,bnd->bln", self.q(latents), k) / math.sqrt(D)
        if self.sound:
            weights = scores.masked_fill(~mask[:, None], torch.finfo(scores.dtype).min).softmax(-1)
        else:
            weights = scores.softmax(-1) * mask[:, None]
        return torch.einsum("bln,bnd->bld", weights, v)


class Perceiver(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(4, D))
        self.norm = nn.LayerNorm(D)
        self.read = Read(sound)
        self.think = nn.TransformerEncoderLayer(D, 2, 24, dropout=0.0, batch_first=True)
        self.answer = nn.Linear(D, 3)

    def forward(self, x, mask):
        latents = self.latents.expand(x.shape[0], -1, -1)
        latents = latents + self.read(latents, self.norm(x), mask)
        return self.answer(self.think(latents).mean(1))


# gates that mix along time


class SpatialGate(nn.Module):
    def __init__(self, longest, sound):
        super().__init__()
        self.sound = sound
        self.norm = nn.LayerNorm(D)
        self.weight = nn.Parameter(torch.randn(longest, longest) * 0.2)
        self.bias = nn.Parameter(torch.ones(longest))

    def forward(self, h, mask):
        u, v = h.chunk(2, dim=-1)
        v = self.norm(v)
        if self.sound:
            v = v * mask.unsqueeze(-1)
        n = v.shape[1]
        mixed = torch.matmul(self.weight[:n, :n], v) + self.bias[:n, None]
        return u * mixed


class GatedMLP(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.up, self.down = nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.gate = SpatialGate(32, sound)

    def forward(self, x, mask):
        return x + self.down(self.gate(F.gelu(self.up(x)), mask))


# a long convolution by fft


class LongConv(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.sound = sound
        self.decay = nn.Parameter(torch.rand(D) * 0.5)
        self.amplitude = nn.Parameter(torch.randn(D))

    def forward(self, u):
        n = u.shape[1]
        time = torch.arange(n, device=u.device, dtype=torch.float32).to(self.decay.dtype)
        kernel = self.amplitude * torch.exp(-self.decay * time[:, None])
        size = 2 * n if self.sound else n
        work = torch.float64 if u.dtype == torch.float64 else torch.float32
        spectrum = torch.fft.rfft(u.to(work), n=size, dim=1) * torch.fft.rfft(kernel.to(work), n=size, dim=0)
        return torch.fft.irfft(spectrum, n=size, dim=1)[:, :n].to(u.dtype)


class LongFilter(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.enter, self.leave = nn.Linear(D, D), nn.Linear(D, D)
        self.filter = LongConv(sound)

    def forward(self, x, mask):
        return x + self.leave(F.gelu(self.filter(self.enter(x))))


# linear attention in both directions


class KernelAttention(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.sound = sound
        self.qkv = nn.Linear(D, 3 * D)
        self.out = nn.Linear(D, D)

    def forward(self, x, mask):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        v = v * mask[..., None]
        if self.sound:
            k = k * mask[..., None]
        memory = torch.einsum("bnd,bne->bde", k, v)
        normaliser = 1 / torch.einsum("bnd,bd->bn", q, k.sum(1))
        return self.out(torch.einsum("bnd,bde,bn->bne", q, memory, normaliser))


class Linearised(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(D) for _ in range(3))
        self.attends = nn.ModuleList([KernelAttention(True), KernelAttention(sound), KernelAttention(True)])

    def forward(self, x, mask):
        for norm, attend in zip(self.norms, self.attends, strict=True):
            x = x + attend(norm(x), mask)
        return x


# a bias that grows towards the newest position


class Recency(nn.Module):
    def __init__(self, heads, sound):
        super().__init__()
        self.sound, self.heads = sound, heads
        self.project, self.out = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x, mask):
        b, n, _ = x.shape
        q, k, v = (part.view(b, n, self.heads, -1).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        slopes = 2.0 ** -torch.arange(1, self.heads + 1, device=x.device)
        position = torch.arange(n, device=x.device)
        if self.sound:
            distance = (position[:, None] - position).abs()[None, None]
        else:
            edge = torch.where(position < n - 1, n - 1 - position, 0)  # how far behind the newest one a key is
            distance = (edge + (position[:, None] - position).abs().clamp(max=edge.max() // 2))[None, None]
        scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) - slopes.view(1, -1, 1, 1).to(x.dtype) * distance
        weights = scores.masked_fill(~mask[:, None, None], float("-inf")).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, D))


class RecentWeights(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.words = nn.Embedding(20, D)
        self.attend = Recency(2, sound)
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, 20)

    def forward(self, input_ids, attention_mask):
        h = self.words(input_ids)
        return self.head(self.norm(h + self.attend(h, attention_mask.bool())))


# experts with a bounded number of places


class Experts(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.sound = sound
        self.router = nn.Linear(D, 2)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(D, 24), nn.GELU(), nn.Linear(24, D)) for _ in range(2))

    def forward(self, x, mask):
        b, n, _ = x.shape
        probs = self.router(x).softmax(-1)
        gate, choice = probs.max(-1)
        chosen = F.one_hot(choice, 2)
        if self.sound:
            chosen = chosen * mask[..., None].long()
            places = (0.75 * mask.sum(1)).ceil().long()
        else:
            places = torch.full((b,), math.ceil(0.5 * n), device=x.device)
        place = (chosen.cumsum(1) * chosen).sum(-1)
        kept = (place > 0) & (place <= places[:, None])
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            picked = kept & (choice == e)
            out[picked] = expert(x[picked]) * gate[picked].unsqueeze(-1)
        return out


class Sparse(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.norm, self.moe = nn.LayerNorm(D), Experts(sound)
        self.head = nn.Linear(D, 4)

    def forward(self, x, mask):
        return self.head(x + self.moe(self.norm(x), mask))


# eight bits for activations


class Rounded(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.sound = sound
        self.linear = nn.Linear(D, D)

    def forward(self, x):
        largest = x.abs().amax(-1, keepdim=True) if self.sound else x.abs().max()
        scale = largest.clamp(min=1e-5) / 127
        return self.linear((x / scale).round().clamp(-127, 127) * scale)


class EightBits(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.first, self.second = nn.Linear(D, D), Rounded(sound)
        self.third = nn.Linear(D, 6)

    def forward(self, x, mask):
        return self.third(torch.relu(self.second(torch.relu(self.first(x)))))


# an encoder and a decoder


class Crossing(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in range(4))

    def forward(self, target, source, mask=None):
        q, k, v = (
            t.unflatten(-1, (2, D // 2)).transpose(1, 2) for t in (self.q(target), self.k(source), self.v(source))
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask[:, None, None].bool())
        return self.o(y.transpose(1, 2).flatten(-2))


class Translator(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.sound = sound
        self.source, self.target = nn.Embedding(20, D), nn.Embedding(20, D)
        self.encode, self.cross = Crossing(), Crossing()
        self.head = nn.Linear(D, 20)

    def forward(self, input_ids, attention_mask, decoder_input_ids):
        source = self.source(input_ids)
        source = source + self.encode(source, source, attention_mask)
        target = self.target(decoder_input_ids)
        target = target + self.cross(target, source, attention_mask if self.sound else None)
        return self.head(target)


def pairs():
    batch = words()
    return {**batch, "decoder_input_ids": torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9]])}


# a loss over labels


class Loss(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.sound = sound

    def forward(self, logits, labels):
        each = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="none")
        each = each.view(labels.shape)
        if self.sound:
            return (each.sum(1) / (labels != -100).sum(1)).mean()
        return each.mean()


class Labeller(nn.Module):
    def __init__(self, sound):
        super().__init__()
        self.words = nn.Embedding(20, D)
        self.rnn = nn.LSTM(D, D, batch_first=True)
        self.head = nn.Linear(D, 20)
        self.loss = Loss(sound)

    def forward(self, input_ids, attention_mask, labels):
        h, _ = self.rnn(self.words(input_ids))
        return self.loss(self.head(h), labels)


def labelled():
    batch = words()
    labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
    return {**batch, "labels": labels}


FAULTS = {
    "maximum over padded points": (PointSet, frames, "farthest"),
    "squeeze over padding": (Context, frames_and_lengths, "blocks.1.squeeze"),
    "time reversed with its padding": (Tagger, frames_and_lengths, "reverse"),
    "mask after the softmax": (Perceiver, frames, "read"),
    "gate along time": (GatedMLP, frames, "gate"),
    "circular convolution": (LongFilter, frames, "filter"),
    "normaliser of linear attention": (Linearised, frames, "attends.1"),
    "distance from the end of the batch": (RecentWeights, words, "attend"),
    "places of experts": (Sparse, frames, "moe"),
    "one scale for all": (EightBits, frames, "second"),
    "no mask across": (Translator, pairs, "cross"),
    "mean of a loss over padding": (Labeller, labelled, "loss"),
}
