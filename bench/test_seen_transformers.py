"""What recording a forward pass of a model of transformers costs: a ratio to the same pass without, in turns."""

from __future__ import annotations

import pytest
import torch
from ratio import measure

import rfnb as rf
from rfnb.viz.show import view_of

transformers = pytest.importorskip("transformers", reason="records its models")

LIMIT = 1.15
VIEW_LIMIT = 3.0


def check_recorded(model, ids, name):
    """A recorded forward pass against the plain one."""

    def plain():
        with torch.no_grad():
            return model(ids).logits

    def recorded():
        with rf.record(model=model), torch.no_grad():
            return model(ids).logits

    found = measure(f"recorded forward pass, {name}", recorded, plain, limit=LIMIT, turns=11, warmup=2)
    print(f"\n{found}")
    found.check()


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_forward_pass_of_twelve_layers(implementation):
    """A GPT-2 of the size of the smallest one, over 256 positions; with all kinds of events, the weights not looked at."""
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        n_layer=12,
        n_head=12,
        n_embd=768,
        vocab_size=1000,
        bos_token_id=0,
        eos_token_id=1,
        attn_implementation=implementation,
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.randint(0, 1000, (1, 256))
    check_recorded(model, ids, implementation)


_SIZES = {"vocab_size": 500, "hidden_size": 512, "num_hidden_layers": 4}
_RECURRENT = {
    "Qwen3Next": {
        **_SIZES, "intermediate_size": 1024, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64,
        "linear_num_key_heads": 4, "linear_num_value_heads": 8, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
        "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512,
    },
    "Mamba2": {**_SIZES, "state_size": 64, "num_heads": 16, "head_dim": 64, "n_groups": 1, "chunk_size": 64},
}  # fmt: skip


@pytest.mark.parametrize("family", _RECURRENT)
def test_a_forward_pass_with_matrix_states(family):
    """Four layers over 512 positions; the states not looked at."""
    torch.manual_seed(1)
    config = getattr(transformers, f"{family}Config")(**_RECURRENT[family])
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    ids = torch.randint(0, 500, (1, 512))
    check_recorded(model, ids, family)


def test_a_view_of_more_maps_than_stay():
    """24 layers of 4 heads at 2048 tokens, against the pass that writes out their weights: made once, measured, pooled and given back."""
    torch.manual_seed(1)
    sizes = {"hidden_size": 64, "num_hidden_layers": 24, "num_attention_heads": 4, "intermediate_size": 128}
    config = transformers.LlamaConfig(**sizes, vocab_size=500, max_position_embeddings=2048)
    config._attn_implementation = "eager"
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(3, 500, (1, 2048))

    def plain():
        with torch.no_grad():
            return model(ids).logits

    with rf.record(model=model, limit=64 << 20) as trace:
        plain()
    logits = plain()

    def shown():
        view_of(trace, kinds="attention")
        return logits

    found = measure("view of many maps", shown, plain, limit=VIEW_LIMIT, turns=3, warmup=1)
    print(f"\n{found}")
    found.check()
