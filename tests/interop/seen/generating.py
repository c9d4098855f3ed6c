"""Tiny models of transformers with random weights whose hypotheses end at different steps, and their inputs."""

from __future__ import annotations

import torch
import transformers
from transformers import BartConfig, GPT2Config, T5Config

VOCAB, END, PAD = 23, 1, 2
LABELS = ["<s>", "</s>", "<pad>", *"abcdefghijklmnopqrst"]


def make(kind, seed=0, *, end_bias=0.0):
    """A model: "gpt2", "bart" or "t5".

    Args:
        end_bias: What is added to the logit of the end.
    """
    torch.manual_seed(seed)
    ids = {"vocab_size": VOCAB, "bos_token_id": 0, "eos_token_id": END, "pad_token_id": PAD}
    if kind == "gpt2":
        model = transformers.GPT2LMHeadModel(GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=64, **ids))
    elif kind == "bart":
        config = BartConfig(
            d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=4,
            encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=64, decoder_start_token_id=0,
            forced_eos_token_id=None, **ids,
        )  # fmt: skip
        model = transformers.BartForConditionalGeneration(config)
    else:
        config = T5Config(d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2, decoder_start_token_id=0, **ids)
        model = transformers.T5ForConditionalGeneration(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.6)
    head = model.get_output_embeddings()
    head.register_forward_hook(lambda module, args, out: out + end_bias * (torch.arange(VOCAB) == END))
    return model.eval()


def prompts(seed=0, batch=3, length=4):
    """Tokens without special ones."""
    return torch.randint(3, VOCAB, (batch, length), generator=torch.Generator().manual_seed(100 + seed))


def generated(model, seed=0, **options):
    """The output of generate with all of its fields."""
    options = {"max_new_tokens": 6, "return_dict_in_generate": True, "output_scores": True, **options}
    return model.generate(prompts(seed), attention_mask=torch.ones(3, 4, dtype=torch.int64), **options)
