"""Eight small families with 17 faults in how they treat padding, written from the documentation of rf.check_batch alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


def real_cells(lengths: torch.Tensor, size: int) -> torch.Tensor:
    return torch.arange(size, device=lengths.device)[None] < lengths[:, None]


class Reversed(nn.Module):
    """A recurrence that runs from the end of each sequence to its beginning."""

    def __init__(self, size: int, fault: str) -> None:
        super().__init__()
        self.cell, self.fault = nn.GRUCell(size, size), fault

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        state, out = torch.zeros_like(x[:, 0]), []
        for step in reversed(range(x.size(1))):
            new = self.cell(x[:, step], state)
            if self.fault != "backward reads padding first":
                new = torch.where((step < lengths)[:, None], new, state)
            state = new
            out.append(state)
        return torch.stack(out[::-1], 1)


class Progress(nn.Module):
    """How far along a token is, as a feature."""

    def __init__(self, size: int, fault: str) -> None:
        super().__init__()
        self.lin, self.fault = nn.Linear(1, size), fault

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        steps = torch.arange(x.size(1), device=x.device).to(x.dtype).expand(x.shape[:2])
        whole = x.size(1) if self.fault == "progress by the batch" else lengths[:, None].to(x.dtype)
        return x + self.lin((steps / whole)[..., None])


class Tagger(nn.Module):
    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.words, self.progress = nn.Embedding(13, 8), Progress(8, fault)
        self.forth, self.back, self.tags = nn.GRU(8, 8, batch_first=True), Reversed(8, fault), nn.Linear(16, 5)

    def forward(self, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x = self.progress(self.words(ids), lengths)
        return self.tags(torch.cat([self.forth(x)[0], self.back(x, lengths)], -1))


class Squeeze(nn.Module):
    def __init__(self, size: int, fault: str) -> None:
        super().__init__()
        self.down, self.up, self.fault = nn.Conv1d(size, 2, 1), nn.Conv1d(2, size, 1), fault

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        count = x.size(2) if self.fault == "squeeze divides by the width" else real.sum(-1, keepdim=True)
        mean = (x * real).sum(-1, keepdim=True) / count
        return x * self.up(self.down(mean).relu()).sigmoid()


class ConvNet(nn.Module):
    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.enter, self.fault = nn.Conv1d(6, 8, 3, padding=1), fault
        self.stride, self.leave = nn.Conv1d(8, 8, 3, stride=2, padding=1), nn.Conv1d(8, 8, 3, padding=1)
        self.squeeze = Squeeze(8, fault)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        real = real_cells(lengths, x.size(1))[:, None].to(x.dtype)
        x = self.enter(x.transpose(1, 2) * real).relu()
        x = self.stride(x if self.fault == "bias lives in padding" else x * real).relu()
        shorter = lengths // 2 + 1 if self.fault == "one frame too many" else (lengths + 1) // 2
        real = real_cells(shorter, x.size(2))[:, None].to(x.dtype)
        x = self.leave(x * real)
        return (self.squeeze(x, real) * real).transpose(1, 2)


class Heads(nn.Module):
    def __init__(self, size: int, fault: str) -> None:
        super().__init__()
        self.make, self.out, self.fault = nn.Linear(size, 3 * size), nn.Linear(size, size), fault

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        batch, time, size = x.shape
        q, k, v = (part.unflatten(-1, (2, -1)).transpose(1, 2).flatten(0, 1) for part in self.make(x).chunk(3, -1))
        scores = torch.bmm(q, k.transpose(1, 2)) * (size // 2) ** -0.5
        if self.fault == "masks of the heads of others":
            seen = real.repeat(2, 1)[:, None]  # heads are beside each other in a sequence, masks are not
        else:
            seen = real.repeat_interleave(2, 0)[:, None]
        if self.fault == "scores times mask":
            scores = scores * seen
        elif self.fault == "a mask of minus ten":
            scores = scores - 10.0 * ~seen
        else:
            scores = scores.masked_fill(~seen, torch.finfo(scores.dtype).min)
        heads = scores.softmax(-1) @ v
        return self.out(heads.unflatten(0, (batch, 2)).transpose(1, 2).flatten(2))


class FromTheEnd(nn.Module):
    """Positions that count from the end of a sequence."""

    def __init__(self, size: int, fault: str) -> None:
        super().__init__()
        self.table, self.fault = nn.Embedding(32, size), fault

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        last = x.size(1) if self.fault == "positions from the end of the batch" else real.sum(-1, keepdim=True)
        left = (last - 1 - torch.arange(x.size(1), device=x.device)).clamp(min=0)
        return x + self.table(left)


class Encoder(nn.Module):
    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.place = FromTheEnd(8, fault)
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(2))
        self.layers = nn.ModuleList(Heads(8, fault if turn == 1 else "") for turn in range(2))

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        x = self.place(x, real)
        for norm, layer in zip(self.norms, self.layers, strict=True):
            x = x + layer(norm(x), real)
        return x


class CtcNet(nn.Module):
    """The loss of each sequence, so that it can be compared; frames are whitened by the statistics of their own sequence."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.whiten, self.net, self.out = Whiten(fault), nn.Linear(6, 8), nn.Linear(8, 5)
        self.fault = fault

    def forward(
        self, x: torch.Tensor, lengths: torch.Tensor, labels: torch.Tensor, label_lengths: torch.Tensor
    ) -> torch.Tensor:
        logits = self.out(self.net(self.whiten(x, lengths)).tanh())
        if self.fault == "loss over all frames":
            lengths = torch.full_like(lengths, x.size(1))
        log_probs = logits.float().log_softmax(-1).transpose(0, 1)
        return F.ctc_loss(log_probs, labels, lengths, label_lengths, reduction="none") / label_lengths


class Whiten(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        real = real_cells(lengths, x.size(1))[..., None]
        count = lengths[:, None, None]
        mean = (x * real).sum(1, keepdim=True) / count
        apart = x - mean
        if self.fault != "variance of what is not there":
            apart = apart * real
        return apart / (apart.square().sum(1, keepdim=True) / count + 1e-3).sqrt()


class Pool(nn.Module):
    def __init__(self, size: int, fault: str) -> None:
        super().__init__()
        self.vote, self.fault = nn.Linear(size, 1), fault

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        real = real[..., None]
        votes = self.vote(x)
        if self.fault == "votes masked when they are counted":
            weights = votes.softmax(1) * real
        else:
            weights = votes.masked_fill(~real, -torch.inf).softmax(1)
        below = 0.0 if self.fault == "largest of zero and all" else -torch.inf
        best = x.masked_fill(~real, below).amax(1)
        return torch.cat([(weights * x).sum(1), best], -1)


class Pooling(nn.Module):
    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.net, self.pool, self.classes = nn.Linear(6, 8), Pool(8, fault), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        return self.classes(self.pool(-self.net(x).exp(), real))


class Chunks(nn.Module):
    """Attention within chunks of four frames, and a summary of each chunk for all."""

    def __init__(self, size: int, fault: str) -> None:
        super().__init__()
        self.heads, self.say, self.fault = Heads(size, ""), nn.Linear(size, size), fault

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        batch, time, _ = x.shape
        more = -time % 4
        x, real = F.pad(x, (0, 0, 0, more)), F.pad(real, (0, more))
        pieces, parts = x.unflatten(1, (-1, 4)), real.unflatten(1, (-1, 4))
        seen = self.heads(pieces.flatten(0, 1), parts.flatten(0, 1)).view_as(pieces)
        count = parts.sum(-1, keepdim=True).clamp(min=1)
        mean = (pieces * parts[..., None]).sum(2) / count
        there = parts.any(-1)[..., None] if self.fault != "empty chunks vote" else torch.ones_like(count)
        whole = (self.say(mean) * there).sum(1, keepdim=True) / there.sum(1, keepdim=True)
        return seen.flatten(1, 2)[:, :time] + whole


class Hybrid(nn.Module):
    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.conv, self.chunks, self.out = nn.Conv1d(8, 8, 3), Chunks(8, fault), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        x = self.conv(F.pad(x.transpose(1, 2), (2, 0))).transpose(1, 2)  # looks back only
        return self.out(self.chunks(x, real))


class LongConv(nn.Module):
    """A diagonal state space as a long convolution, by the Fourier transform."""

    def __init__(self, size: int, fault: str) -> None:
        super().__init__()
        self.decay, self.fault = nn.Parameter(torch.linspace(-0.1, -0.7, size)), fault

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time = x.size(1)
        long = time if self.fault == "wraps around" else 2 * time
        kernel = (self.decay * torch.arange(time, device=x.device)[:, None]).exp().float()
        product = torch.fft.rfft(x.float(), n=long, dim=1) * torch.fft.rfft(kernel, n=long, dim=0)
        return torch.fft.irfft(product, n=long, dim=1)[:, :time].to(x.dtype)


class StateSpace(nn.Module):
    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.enter, self.mix, self.out, self.fault = nn.Linear(6, 8), LongConv(8, fault), nn.Linear(8, 3), fault

    def forward(self, x: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        mixed = self.mix(self.enter(x))
        return self.out(mixed * torch.sigmoid(mixed))


class ShortConv(nn.Module):
    """Each token with the two before it, those of the cache too."""

    def __init__(self, size: int, fault: str) -> None:
        super().__init__()
        self.weight, self.fault = nn.Parameter(torch.randn(3, size)), fault

    def forward(self, x: torch.Tensor, before: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        if before is None or self.fault == "forgets what was before":
            before = torch.zeros_like(x[:, :1]).expand(-1, 2, -1)
        x = torch.cat([before, x], 1)
        return sum(x[:, i : x.size(1) - 2 + i] * self.weight[i] for i in range(3)), x[:, -2:]


class Spin(nn.Module):
    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def forward(self, x: torch.Tensor, positions: torch.Tensor, past: int) -> torch.Tensor:
        if self.fault == "one turn behind" and past:
            positions = positions - 1
        half = x.size(-1) // 2
        angle = positions[..., None].to(x.dtype) * 0.3 ** torch.arange(half, device=x.device).to(x.dtype)
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], -1)


@dataclass
class Said:
    logits: torch.Tensor
    past_key_values: Any = None


class Decoder(nn.Module):
    """A decoder that is padded on the left, with a cache of keys, values and of what its convolution looks back to."""

    def __init__(self, fault: str = "") -> None:
        super().__init__()
        self.words, self.short, self.spin = nn.Embedding(13, 8), ShortConv(8, fault), Spin(fault)
        self.make, self.out = nn.Linear(8, 24), nn.Linear(8, 13)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        past_key_values: Any = None,
        use_cache: bool = False,
    ) -> Said:
        past = 0 if past_key_values is None else past_key_values[0].size(1)
        time = input_ids.size(1)
        if attention_mask is None:
            attention_mask = torch.ones(len(input_ids), past + time, dtype=torch.long, device=input_ids.device)
        positions = (attention_mask.cumsum(-1) - 1).clamp(min=0)[:, -time:]
        x = self.words(input_ids) * attention_mask[:, -time:, None]
        x, tail = self.short(x, None if past_key_values is None else past_key_values[2])
        q, k, v = self.make(x).chunk(3, -1)
        q, k = self.spin(q, positions, past), self.spin(k, positions, past)
        if past_key_values is not None:
            k, v = torch.cat([past_key_values[0], k], 1), torch.cat([past_key_values[1], v], 1)
        seen = torch.ones(time, past + time, device=x.device, dtype=torch.bool).tril(past)
        seen = seen & attention_mask[:, None].bool()
        scores = (q @ k.mT * 8**-0.5).masked_fill(~seen, torch.finfo(q.dtype).min)
        logits = self.out(x + scores.softmax(-1) @ v)
        return Said(logits, (k, v, tail) if use_cache else None)


FAMILIES: dict[str, Callable[[str], nn.Module]] = {
    one.__name__: one for one in (Tagger, ConvNet, Encoder, CtcNet, Pooling, Hybrid, StateSpace, Decoder)
}
# Fault: family, modules that are right, and whether values of padding, its size, masks of others or a cache do it.
FAULTS = {
    "backward reads padding first": ("Tagger", ("back", "back.cell"), "value"),
    "progress by the batch": ("Tagger", ("progress",), "size"),
    "squeeze divides by the width": ("ConvNet", ("squeeze",), "size"),
    "bias lives in padding": ("ConvNet", ("stride",), "value"),
    "one frame too many": ("ConvNet", ("leave",), "value"),
    "masks of the heads of others": ("Encoder", ("layers.1",), "other"),
    "scores times mask": ("Encoder", ("layers.1",), "value"),
    "a mask of minus ten": ("Encoder", ("layers.1",), "value"),
    "positions from the end of the batch": ("Encoder", ("place",), "size"),
    "loss over all frames": ("CtcNet", ("",), "value"),
    "variance of what is not there": ("CtcNet", ("whiten",), "value"),
    "votes masked when they are counted": ("Pooling", ("pool",), "value"),
    "largest of zero and all": ("Pooling", ("pool",), "size"),
    "empty chunks vote": ("Hybrid", ("chunks",), "size"),
    "wraps around": ("StateSpace", ("mix",), "value"),
    "forgets what was before": ("Decoder", ("short",), "cache"),
    "one turn behind": ("Decoder", ("spin",), "cache"),
}


def family(name: str, fault: str = "", seed: int = 5) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """The model in eval() and a batch for it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = FAMILIES[name](fault).eval()
    lengths = torch.tensor([9, 6, 3] if seed % 2 else [8, 5, 4])
    time = int(lengths[0])
    real = real_cells(lengths, time)
    x = torch.randn(3, time, 8 if name in ("Encoder", "Hybrid") else 6, generator=generator)
    ids = torch.randint(1, 13, (3, time), generator=generator)
    match name:
        case "Tagger":
            return model, {"ids": ids * real, "lengths": lengths}
        case "ConvNet":
            return model, {"x": x, "lengths": lengths}
        case "CtcNet":
            labels = torch.randint(1, 5, (3, 2), generator=generator)
            return model, {"x": x, "lengths": lengths, "labels": labels, "label_lengths": torch.tensor([2, 2, 1])}
        case "Decoder":
            mask = real.flip(1).long()
            return model, {"input_ids": ids * mask, "attention_mask": mask}
    return model, {"x": x, "real": real}
