"""Ports of models of transformers and of torch.nn, written again by hand; also with mistakes that no cause was built for.

Written after the first set had passed. None as cause: it is none of the usual ones, and nothing may be said to be sure.
"""

import torch
import torch.nn.functional as F
from interop.batch_families import made
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

IDS = torch.tensor([[5, 3, 8, 2, 9, 4], [7, 6, 2, 1, 10, 3]])
X = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(2))


def gpt2():
    sizes = {"vocab_size": 11, "n_positions": 32, "n_embd": 8, "n_layer": 2, "n_head": 2}
    return made(lambda: GPT2LMHeadModel(GPT2Config(**sizes, bos_token_id=0, eos_token_id=0)))


def llama():
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 12,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    return made(lambda: LlamaForCausalLM(LlamaConfig(vocab_size=11, **sizes, max_position_embeddings=32)))


class MyGPT(nn.Module):
    """Reads the state_dict of GPT-2 where it computes: no modules of its own but one for each block."""

    def __init__(self, theirs, fault):
        super().__init__()
        self.weights = nn.ParameterDict(
            {k.replace(".", "_"): nn.Parameter(v.clone()) for k, v in theirs.state_dict().items()}
        )
        self.fault = fault
        self.steps = nn.ModuleList(Step(self, n) for n in range(2))

    def w(self, name):
        return self.weights[name.replace(".", "_")]

    def forward(self, ids):
        x = self.w("transformer.wte.weight")[ids] + self.w("transformer.wpe.weight")[: ids.shape[1]]
        for step in self.steps:
            x = step(x)
        x = F.layer_norm(x, (8,), self.w("transformer.ln_f.weight"), self.w("transformer.ln_f.bias"))
        return x @ self.w("lm_head.weight").T


class Step(nn.Module):
    def __init__(self, owner, number):
        super().__init__()
        self.owner, self.number = [owner], number

    def forward(self, x):
        owner, fault = self.owner[0], self.owner[0].fault
        w = lambda name: owner.w(f"transformer.h.{self.number}.{name}")  # noqa: E731
        y = F.layer_norm(x, (8,), w("ln_1.weight"), w("ln_1.bias"))
        q, k, v = (
            torch.addmm(w("attn.c_attn.bias"), y.reshape(-1, 8), w("attn.c_attn.weight"))
            .reshape(*x.shape[:2], 3, 2, 4)
            .permute(2, 0, 3, 1, 4)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=fault != "mask")
        y = y.transpose(1, 2).reshape(x.shape)
        weight = w("attn.c_proj.weight")
        y = y @ (weight.T if fault == "transposed weight" else weight) + w("attn.c_proj.bias")
        x = y if fault == "residual" else x + y
        y = F.layer_norm(x, (8,), w("ln_2.weight"), w("ln_2.bias"))
        y = y @ w("mlp.c_fc.weight") + w("mlp.c_fc.bias")
        y = F.gelu(y) if fault == "activation" else F.gelu(y, approximate="tanh")
        return x + y @ w("mlp.c_proj.weight") + w("mlp.c_proj.bias")


class MyLlama(nn.Module):
    """Complex rotary embeddings of interleaved weights, as the first Llama had them."""

    def __init__(self, theirs, fault):
        super().__init__()
        self.theirs_weights = nn.ParameterDict(
            {k.replace(".", "_"): nn.Parameter(v.clone()) for k, v in theirs.state_dict().items()}
        )
        self.fault = fault
        self.block = nn.ModuleList(Block(self, n) for n in range(2))

    def get(self, name):
        return self.theirs_weights[name.replace(".", "_") + "_weight"]

    def forward(self, ids):
        h = F.embedding(ids, self.get("model.embed_tokens"))
        for block in self.block:
            h = block(h)
        return F.linear(self.rms(h, "model.norm"), self.get("lm_head"))

    def rms(self, h, name):
        eps = 1e-4 if self.fault == "norm epsilon" else 1e-6
        return h / (h.square().mean(-1, keepdim=True) + eps).sqrt() * self.get(name)


class Block(nn.Module):
    def __init__(self, owner, number):
        super().__init__()
        self.owner, self.at = [owner], f"model.layers.{number}."

    def forward(self, h):
        owner, fault = self.owner[0], self.owner[0].fault
        y = owner.rms(h, self.at + "input_layernorm")
        q, k, v = (F.linear(y, owner.get(f"{self.at}self_attn.{n}_proj")).unflatten(-1, (-1, 4)) for n in "qkv")
        angles = torch.outer(
            torch.arange(6.0), (500.0 if fault == "rotary base" else 10000.0) ** (-torch.arange(0, 4, 2) / 4)
        )
        turns = torch.polar(torch.ones_like(angles), angles)[:, None]
        if fault != "rotary pairing":
            q, k = (each.unflatten(-1, (2, 2)).mT.flatten(-2) for each in (q, k))
        q, k = (
            torch.view_as_real(torch.view_as_complex(each.unflatten(-1, (2, 2)).contiguous()) * turns).flatten(-2)
            for each in (q, k)
        )
        k, v = (each.tile(1, 1, 2, 1) if fault == "grouped heads" else each.repeat_interleave(2, 2) for each in (k, v))
        y = F.scaled_dot_product_attention(*(each.transpose(1, 2) for each in (q, k, v)), is_causal=True)
        h = h + F.linear(y.transpose(1, 2).flatten(2), owner.get(self.at + "self_attn.o_proj"))
        y = owner.rms(h, self.at + "post_attention_layernorm")
        gate, up = (F.linear(y, owner.get(f"{self.at}mlp.{n}_proj")) for n in ("gate", "up"))
        gate, up = (up, gate) if fault == "swapped" else (gate, up)
        return h + F.linear(F.silu(gate) * up, owner.get(self.at + "mlp.down_proj"))


class MyGRU(nn.Module):
    """Fault "reset": the reset gate is applied before the product, as in the first paper. "update": 1 - z the other way round."""

    def __init__(self, theirs, fault):
        super().__init__()
        self.xs, self.hs = nn.Linear(8, 15), nn.Linear(5, 15)
        self.fault = fault
        self.load_state_dict(
            {
                f"{n}s.{k}": getattr(theirs, f"{k}_{n2}h_l0")
                for n, n2 in (("x", "i"), ("h", "h"))
                for k in ("weight", "bias")
            }
        )

    def forward(self, x):
        h, out = x.new_zeros(len(x), 5), []
        for frame in x.unbind(1):
            r, z, n = self.xs(frame).chunk(3, -1)
            a, b, c = self.hs(h).chunk(3, -1)
            r, z = (r + a).sigmoid(), (z + b).sigmoid()
            if self.fault == "reset":
                c = F.linear(r * h, self.hs.weight[10:], self.hs.bias[10:])
                n = (n + c).tanh()
            else:
                n = (n + r * c).tanh()
            h = z * n + (1 - z) * h if self.fault == "update" else (1 - z) * n + z * h
            out.append(h)
        return torch.stack(out, 1)


class MyLayer(nn.Module):
    """nn.TransformerEncoderLayer by hand. Fault "norm first"; "missing bias"."""

    def __init__(self, theirs, fault):
        super().__init__()
        self.inside = nn.Linear(8, 24, bias=fault != "missing bias")
        self.inside.weight.data.copy_(theirs.self_attn.in_proj_weight)
        if fault != "missing bias":
            self.inside.bias.data.copy_(theirs.self_attn.in_proj_bias)
        self.outside, self.up, self.down, self.na, self.nb = (
            theirs.self_attn.out_proj,
            theirs.linear1,
            theirs.linear2,
            theirs.norm1,
            theirs.norm2,
        )
        self.fault = fault

    def attend(self, x):
        q, k, v = (each.unflatten(-1, (2, 4)).transpose(1, 2) for each in self.inside(x).chunk(3, -1))
        return self.outside(((q @ k.mT / 2).softmax(-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        if self.fault == "norm first":
            x = x + self.attend(self.na(x))
            return x + self.down(torch.relu(self.up(self.nb(x))))
        x = self.na(x + self.attend(x))
        return self.nb(x + self.down(torch.relu(self.up(x))))


def layer():
    return made(lambda: nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True))


PORTS = {
    "gpt2 mask": (gpt2, MyGPT, "mask", IDS, "mask", "steps.0"),
    "gpt2 transposed": (gpt2, MyGPT, "transposed weight", IDS, "transposed weight", "steps.0"),
    "gpt2 activation": (gpt2, MyGPT, "activation", IDS, "activation", "steps.0"),
    "gpt2 residual": (gpt2, MyGPT, "residual", IDS, None, "steps.0"),
    "llama base": (llama, MyLlama, "rotary base", IDS, "rotary base", "block.0"),
    "llama pairing": (llama, MyLlama, "rotary pairing", IDS, "rotary pairing", "block.0"),
    "llama grouped": (llama, MyLlama, "grouped heads", IDS, "grouped heads", "block.0"),
    "llama epsilon": (llama, MyLlama, "norm epsilon", IDS, "norm epsilon", "block.0"),
    "llama swapped": (llama, MyLlama, "swapped", IDS, "gate order", "block.0"),
    "gru reset": (lambda: made(lambda: nn.GRU(8, 5, batch_first=True)), MyGRU, "reset", X, None, ""),
    "gru update": (lambda: made(lambda: nn.GRU(8, 5, batch_first=True)), MyGRU, "update", X, None, ""),
    "layer norm first": (layer, MyLayer, "norm first", X, None, "na"),
    "layer bias": (layer, MyLayer, "missing bias", X, "missing bias", "inside"),
}  # fmt: skip
