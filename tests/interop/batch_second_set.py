"""A second set of faults, in models of other styles: modules of torch, models of transformers with a part replaced, time in front, lengths
instead of masks, several inputs in a tuple. Written after the first set had passed, to see what is found of what nobody has built for."""

import types

import torch
import torch.nn.functional as F
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.models.llama import modeling_llama

IDS = torch.tensor([[5, 3, 8, 2, 9, 4], [7, 6, 2, 0, 0, 0], [4, 4, 9, 1, 0, 0]])
MASK = (IDS != 0).long()
LENGTHS = torch.tensor([6, 3, 4])


def text(**more):
    return {"input_ids": IDS, "attention_mask": MASK, **more}


def to_the_left():
    return {"input_ids": torch.stack([row.roll(int((row == 0).sum())) for row in IDS]), "attention_mask": MASK.flip(1)}


def gpt2():
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=11, n_positions=32, n_embd=8, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    )


def llama():
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=11,
            hidden_size=8,
            intermediate_size=12,
            num_hidden_layers=3,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=32,
        )
    )


def bert():
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=11,
            hidden_size=8,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=12,
            max_position_embeddings=32,
        )
    )


def t5():
    return T5ForConditionalGeneration(
        T5Config(vocab_size=11, d_model=8, d_kv=4, d_ff=12, num_layers=2, num_heads=2, decoder_start_token_id=0)
    )


def both():
    return text(
        decoder_input_ids=torch.tensor([[0, 5, 2, 7], [0, 3, 3, 0], [0, 8, 0, 0]]),
        decoder_attention_mask=torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]]),
    )


def patched(model, path, forward):
    """The model with another forward in one of its modules."""
    module = model.get_submodule(path) if path else model
    module.forward = types.MethodType(forward, module)
    return model


def without_mask(module_forward):
    def forward(self, hidden_states, *args, **kwargs):
        kwargs["attention_mask"] = None
        return module_forward(self, hidden_states, **kwargs)

    return forward


def layer_means(self, x):
    """A "layer norm" whose statistics are over time, too."""
    return F.layer_norm(x, x.shape[1:], eps=self.eps) * self.weight + self.bias


def first_tokens(self, hidden_states):
    """A pooler that reads the last position instead of the first."""
    return torch.tanh(self.dense(hidden_states[:, -1]))


def shifted(self, hidden_states):
    """An MLP that mixes in the frame behind."""
    after = torch.cat([hidden_states[:, 1:], hidden_states[:, :1]], 1)
    return self.down_proj(self.act_fn(self.gate_proj(hidden_states)) * self.up_proj(after))


class TimeFirst(nn.Module):
    """nn.Transformer with time in front; lengths. Fault: the second layer gets no mask; "mean": over all."""

    def __init__(self, fault=None):
        super().__init__()
        self.inp = nn.Linear(3, 8)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0) for _ in range(2))
        self.fault = fault

    def forward(self, frames, lengths):
        pad = torch.arange(frames.shape[0])[None, :] >= lengths[:, None]
        y = self.inp(frames)
        for number, block in enumerate(self.blocks):
            y = block(y, src_key_padding_mask=None if number and self.fault == "mask" else pad)
        if self.fault == "mean":
            return y.mean(0)
        return (y * ~pad.T[..., None]).sum(0) / lengths[:, None]


class Speech(nn.Module):
    """Convolutions with strides, then a GRU; lengths. Faults: "sub": lengths are rounded up; "norm": features over all frames."""

    def __init__(self, fault=None):
        super().__init__()
        self.conv = nn.Conv1d(3, 6, 2, stride=2)
        self.gru, self.top = nn.GRU(6, 5, batch_first=True), nn.Linear(5, 4)
        self.fault = fault

    def forward(self, wave, lengths):
        if self.fault == "norm":
            wave = (wave - wave.mean((1, 2), keepdim=True)) / wave.std((1, 2), keepdim=True)
        z = self.conv(wave.mT).mT
        short = lengths // 2 + (1 if self.fault == "sub" else 0)
        packed = nn.utils.rnn.pack_padded_sequence(z, short.clamp(max=z.shape[1]), True, False)
        return self.top(self.gru(packed)[1][-1])


class Tagger(nn.Module):
    """einsum attention; a tuple of inputs. Faults: "open": no mask; "rolled", "centred": over time."""

    def __init__(self, fault=None):
        super().__init__()
        self.emb, self.w, self.tag = (
            nn.Embedding(11, 6, padding_idx=0),
            nn.Parameter(torch.zeros(6, 6)),
            nn.Linear(6, 3),
        )
        self.fault = fault

    def forward(self, tokens, keep):
        e = self.emb(tokens)
        energy = torch.einsum("bif,fg,bjg->bij", e, self.w, e).exp()
        if self.fault != "open":
            energy = energy * keep[:, None]
        ctx = torch.einsum("bij,bjf->bif", energy / energy.sum(-1, keepdim=True), e)
        if self.fault == "rolled":
            ctx = ctx + ctx.roll(1, 1)
        if self.fault == "centred":
            ctx = ctx - ctx.mean((0, 1))
        return self.tag(ctx)


class Scan(nn.Module):
    """h = a h + x by a cumulative sum, from the left; padding on the left. Fault: the padding's inputs are summed, too."""

    def __init__(self, fault=None):
        super().__init__()
        self.embed, self.read, self.fault = nn.Embedding(11, 6), nn.Linear(6, 11), fault

    def forward(self, input_ids, attention_mask):
        u = self.embed(input_ids)
        if self.fault is None:
            u = u * attention_mask[..., None]
        return self.read(torch.tanh(u.cumsum(1)))


FRAMES = torch.randn(6, 3, 3, generator=torch.Generator().manual_seed(3))
WAVES = torch.randn(3, 12, 3, generator=torch.Generator().manual_seed(4))


def _llama_without_mask():
    model = llama()
    return patched(model, "model.layers.1.self_attn", without_mask(modeling_llama.LlamaAttention.forward))


def sees_all(self, hidden_states, **more):
    """A part of a decoder without the mask that it is given."""
    return type(self).forward(self, hidden_states, **{**more, "attention_mask": None})


LAST_NORM = "bert.encoder.layer.1.output.LayerNorm"
FAULTS = {
    "bert norm over time": (lambda: patched(bert(), LAST_NORM, layer_means), text, LAST_NORM),
    "bert reads the last": (lambda: patched(bert(), "bert.pooler", first_tokens), text, "bert.pooler"),
    "llama frame behind": (lambda: patched(llama(), "model.layers.1.mlp", shifted), text, "model.layers.1.mlp"),
    "llama no mask, left": (_llama_without_mask, to_the_left, "model.layers.1.self_attn"),
    "gpt2 positions, left": (gpt2, to_the_left, "transformer"),
    "gpt2 loss": (gpt2, lambda: text(labels=IDS), ""),
    "t5 cross": (lambda: patched(t5(), "decoder.block.1.layer.1", sees_all), both, "decoder.block.1.layer.1.EncDecAttention"),
    "time first, no mask": (lambda: TimeFirst("mask"), lambda: (FRAMES, LENGTHS), "blocks.1.self_attn"),
    "time first, mean": (lambda: TimeFirst("mean"), lambda: (FRAMES, LENGTHS), ""),
    "lengths rounded up": (lambda: Speech("sub"), lambda: {"wave": WAVES, "lengths": LENGTHS * 2}, ""),
    "features over padding": (lambda: Speech("norm"), lambda: {"wave": WAVES, "lengths": LENGTHS * 2}, ""),
    "einsum open": (lambda: Tagger("open"), lambda: (IDS, MASK.bool()), ""),
    "einsum rolled": (lambda: Tagger("rolled"), lambda: (IDS, MASK.bool()), ""),
    "einsum centred": (lambda: Tagger("centred"), lambda: (IDS, MASK.bool()), ""),
    "scan, left": (lambda: Scan("sum"), to_the_left, ""),
}  # fmt: skip

SOUND = {
    "bert": (bert, text), "llama": (llama, text), "llama left": (llama, to_the_left), "gpt2": (gpt2, text),
    "gpt2 loss": (gpt2, lambda: text(labels=IDS.masked_fill(IDS == 0, -100))), "t5": (t5, both),
    "time first": (TimeFirst, lambda: (FRAMES, LENGTHS)), "speech": (Speech, lambda: {"wave": WAVES, "lengths": LENGTHS * 2}),
    "einsum": (Tagger, lambda: (IDS, MASK.bool())), "scan": (Scan, to_the_left),
}  # fmt: skip
