"""A small Llama in plain torch, with the names that `transformers` has, written from the paper.

Touvron et al. 2023, section 2.2; the features m and m + half of a head are turned together, as in the published weights.
"""

from types import SimpleNamespace

import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight, self.variance_epsilon = nn.Parameter(torch.ones(size)), eps

    def forward(self, x):
        return x / torch.sqrt(x.square().mean(-1, keepdim=True) + self.variance_epsilon) * self.weight


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.head_dim = config, config.head_dim
        heads, shared, bias = config.num_attention_heads, config.num_key_value_heads, config.attention_bias
        self.q_proj = nn.Linear(config.hidden_size, heads * self.head_dim, bias=bias)
        self.k_proj = nn.Linear(config.hidden_size, shared * self.head_dim, bias=bias)
        self.v_proj = nn.Linear(config.hidden_size, shared * self.head_dim, bias=bias)
        self.o_proj = nn.Linear(heads * self.head_dim, config.hidden_size, bias=bias)

    def turned(self, x):
        """(head, time, size)"""
        half = self.head_dim // 2
        rates = self.config.rope_theta ** (-torch.arange(half) / half)
        angles = torch.arange(x.shape[1])[:, None] * rates
        low, high = x[..., :half], x[..., half:]
        return torch.cat(
            [low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()], dim=-1
        )  # fmt: skip

    def forward(self, x):
        q, k, v = (
            proj(x).reshape(len(x), -1, self.head_dim).transpose(0, 1)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )  # fmt: skip
        k, v = (part.repeat_interleave(len(q) // len(part), dim=0) for part in (k, v))  # heads that share keys
        energy = self.turned(q) @ self.turned(k).transpose(1, 2) / self.head_dim**0.5
        ahead = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        att = torch.softmax(energy.masked_fill(ahead, float("-inf")), dim=-1) @ v
        return self.o_proj(att.transpose(0, 1).flatten(1))


class FeedForward(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn, self.mlp = Attention(config), FeedForward(config)
        self.input_layernorm = Norm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = Norm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class PlainLlama(nn.Module):
    """Of one sequence: ids (time,) -> logits (time, vocab)."""

    def __init__(self, **config):
        super().__init__()
        config = SimpleNamespace(**config)
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.model.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        self.model.norm = Norm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.tie_word_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, ids):
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x)
        return self.lm_head(self.model.norm(x))
