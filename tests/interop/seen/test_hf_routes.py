"""Attention functions of any name: those that cannot run here, those that were registered, and what they are told."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import torch

import rfnb as rf

transformers = pytest.importorskip("transformers", reason="records its models")

from interop.seen.hf_families import BATCH, CACHE, TIME, inputs, made  # noqa: E402
from interop.seen.test_hf_forward import attentions, compare, recorded  # noqa: E402
from transformers import AttentionInterface  # noqa: E402


def kernel(
    module, query, key, value, attention_mask, scaling=None, dropout=0.0, sliding_window=None, softcap=None, **more
):
    """As the flash kernels are told: a mask of the padding (batch, source) or none, and returns no weights."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = (query @ key.transpose(-1, -2)).float() * (scaling or query.shape[-1] ** -0.5)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    targets, sources = scores.shape[-2:]
    ahead = torch.arange(sources)[None] - torch.arange(targets)[:, None] - (sources - targets)
    if attention_mask is not None and attention_mask.ndim == 4:  # what is ahead is in it
        scores, attention_mask = scores + attention_mask[..., :sources], None
    elif module.is_causal:
        scores = scores.masked_fill(ahead > 0, -math.inf)
    if sliding_window is not None:
        scores = scores.masked_fill(ahead.abs() >= sliding_window, -math.inf)
    if attention_mask is not None:
        assert attention_mask.ndim == 2
        scores = scores.masked_fill(attention_mask[:, None, None] == 0, -math.inf)
    sinks = more.get("s_aux")
    if sinks is not None:
        scores = torch.cat([scores, sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)], -1)
    weights = torch.softmax(scores, -1).nan_to_num(0)[..., :sources]
    return (weights.to(value.dtype) @ value).transpose(1, 2).contiguous(), None


@pytest.fixture
def flash(monkeypatch):
    """The name of a function that is called as flash attention is."""
    from transformers.masking_utils import AttentionMaskInterface, flash_attention_mask

    monkeypatch.setitem(AttentionInterface._global_mapping, "kernel_of_our_own", kernel)
    monkeypatch.setitem(AttentionMaskInterface._global_mapping, "kernel_of_our_own", flash_attention_mask)
    return "kernel_of_our_own"


def without_weights(family, name):
    model = made(family)
    model.set_attn_implementation(name)
    return model


@pytest.mark.parametrize(
    "family", ["GPT2", "Llama", "Mistral", "Bart", "Whisper", "Bert", "Gemma2", "GptOss", "Mixtral"]
)
def test_weights_of_a_function_that_is_told_as_flash_attention_is(family, flash):
    batch = inputs(family)
    trace = recorded(without_weights(family, flash), batch)
    compare(trace, attentions(made(family), batch), rtol=1e-4, atol=1e-5)
    assert not any(
        "may not be the weights" in event.values.get("remark", "") for event in trace.select(kind="attention")
    )


def test_a_function_that_does_something_else_is_found_out(flash, monkeypatch):
    def hotter(module, query, key, value, attention_mask, scaling=None, **more):
        return kernel(module, query, key, value, attention_mask, scaling=1.7, **more)

    monkeypatch.setitem(AttentionInterface._global_mapping, flash, hotter)
    event = recorded(without_weights("Llama", flash), inputs("Llama")).select(kind="attention")[0]
    assert event.values["remark"].startswith(
        "These may not be the weights of the model: applied to its values, they do not reproduce its result (the difference is "
    )


def test_weights_that_a_registered_function_returns_are_the_event(monkeypatch):
    def own(module, query, key, value, attention_mask, **more):
        weights = torch.full((*query.shape[:3], key.shape[2]), 0.25)
        return torch.zeros_like(query).transpose(1, 2).contiguous(), weights

    monkeypatch.setitem(AttentionInterface._global_mapping, "own_function", own)
    event = recorded(without_weights("Llama", "own_function"), inputs("Llama")).select(kind="attention")[0]
    assert torch.equal(event.values["weights"].raw_tensor, torch.full((BATCH, 4, TIME, TIME), 0.25))


@pytest.mark.slow
def test_flex_attention_tells_by_a_function_what_may_be_seen():
    model = made("Llama")
    try:
        model.set_attn_implementation("flex_attention")
        with torch.no_grad():
            model(**inputs("Llama"))
    except Exception as error:  # it compiles, which not all machines can
        pytest.skip(f"{type(error).__name__}: {error}".splitlines()[0])
    batch = inputs("Llama")
    compare(recorded(model, batch), attentions(made("Llama"), batch), rtol=1e-4, atol=1e-5)


def test_the_functions_are_what_they_were_afterwards():
    model = made("Llama", "sdpa")
    file = __import__("sys").modules[type(model).__module__]
    before = (
        dict(vars(AttentionInterface)),
        dict(vars(file)),
        transformers.cache_utils.Cache.__dict__.get("reorder_cache"),
    )
    with rf.record(model=model), pytest.raises(ZeroDivisionError):
        model(**inputs("Llama"))
        raise ZeroDivisionError
    assert dict(vars(AttentionInterface)) == before[0] and dict(vars(file)) == before[1]
    assert transformers.cache_utils.Cache.__dict__.get("reorder_cache") is before[2]


@pytest.mark.parametrize("family", ["GPT2", "Llama", "Bart", "T5", "Bert", "Bloom", "Wav2Vec2"])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_recording_changes_no_bit_no_gradient_and_no_random_number(family, implementation):
    try:
        model = made(family, implementation).train()
    except ValueError as error:
        pytest.skip(str(error))
    batch = inputs(family)

    def run():
        torch.manual_seed(3)
        np.random.seed(3)  # masks of Wav2Vec2
        model.zero_grad()
        out = model(**batch)
        logits = out.logits
        logits.square().mean().backward()
        return [logits.detach(), torch.rand(1), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

    plain = run()
    with rf.record(model=model) as trace:
        seen = run()
    assert len(plain) == len(seen) and all(torch.equal(one, other) for one, other in zip(plain, seen))
    assert trace.counts()["attention"] >= 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_half_precision(dtype, implementation):
    model, plain, batch = made("Llama", implementation).to(dtype), made("Llama").to(dtype), inputs("Llama")
    compare(recorded(model, batch), attentions(plain, batch), rtol=0.05, atol=0.02)


def test_inference_mode():
    model, batch = made("Llama", "sdpa"), inputs("Llama")
    with rf.record(model=model) as trace, torch.inference_mode():
        model(**batch)
    compare(trace, attentions(made("Llama"), batch), rtol=1e-4, atol=1e-5)


def test_gradient_checkpointing_in_training():
    model, batch = made("Llama", "sdpa").train(), inputs("Llama")
    model.gradient_checkpointing_enable()
    with rf.record(model=model) as trace, warnings.catch_warnings():
        warnings.filterwarnings("error", "record:")
        model(**batch).logits.mean().backward()
    expected = attentions(made("Llama"), batch)
    first = trace.by_path("attention")["model.layers.0.self_attn"][0].values
    torch.testing.assert_close(first["weights"].raw_tensor, expected[0], rtol=1e-4, atol=1e-5)


def test_a_forward_that_somebody_has_replaced():
    """As accelerate does for models on several devices."""
    model, batch = made("Llama", "sdpa"), inputs("Llama")
    layer, calls = model.model.layers[1].self_attn, []
    forward = layer.forward

    def moved(*args, **kwargs):
        calls.append(1)
        return forward(*args, **kwargs)

    layer.forward = moved
    compare(recorded(model, batch), attentions(made("Llama"), batch), rtol=1e-4, atol=1e-5)
    assert layer.forward is moved and calls == [1]


class Adapted(torch.nn.Module):
    """A linear layer with a low-rank one beside it."""

    def __init__(self, base):
        super().__init__()
        self.base_layer = base
        self.lora_A, self.lora_B = torch.nn.Linear(base.in_features, 2), torch.nn.Linear(2, base.out_features)

    def forward(self, x):
        return self.base_layer(x) + self.lora_B(self.lora_A(x))


class Wrapper(torch.nn.Module):
    """A model around a model, as adapters make it."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *args, **kwargs):
        return self.model(*args, **kwargs)


def test_a_model_in_a_wrapper_with_adapted_layers():
    def adapted(implementation):
        model = made("Llama", implementation)
        torch.manual_seed(9)
        for layer in model.model.layers:
            layer.self_attn.q_proj = Adapted(layer.self_attn.q_proj)
        return model

    batch = inputs("Llama")
    trace = recorded(Wrapper(adapted("sdpa")), batch)
    assert list(trace.attention) == ["model.model.layers.0.self_attn", "model.model.layers.1.self_attn"]
    compare(trace, attentions(adapted("eager"), batch), rtol=1e-4, atol=1e-5)
    assert list(trace.select(kind="attention")[0].values["axis"].lengths) == [7, 5, 3]


def test_a_part_of_a_model():
    model, batch = made("Bart", "sdpa"), inputs("Bart")
    with rf.record(model=model.model.encoder) as trace, torch.no_grad():
        model(**batch)
    assert list(trace.attention) == ["layers.0.self_attn", "layers.1.self_attn"]
    compare(trace, attentions(made("Bart"), batch)[:2], rtol=1e-4, atol=1e-5)
    assert list(trace.select(kind="attention")[0].values["axis"].lengths) == [7, 5, 3]


def test_keys_in_a_cache_that_is_written_in_place_are_those_of_the_call():
    model, ids = made("Llama", "sdpa"), inputs("Llama", ragged=False)["input_ids"]
    whole = attentions(made("Llama"), {"input_ids": ids})
    cache = transformers.StaticCache(config=model.config, max_cache_len=12)
    with rf.record(model=model) as trace, torch.no_grad():
        model(ids[:, :4], **{CACHE: cache})
        model(ids[:, 4:], **{CACHE: cache}, cache_position=torch.arange(4, TIME))
    for events, own in zip(trace.by_path("attention").values(), whole):
        first, second = (event.values["weights"].raw_tensor for event in events)
        torch.testing.assert_close(first[..., :4], own[:, :, :4, :4], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(second[..., :TIME], own[:, :, 4:], rtol=1e-4, atol=1e-5)
        assert events[1].values["axis"].extent == TIME


def test_queries_and_keys_are_what_is_kept_of_long_sequences_and_what_does_not_fit_is_said():
    model = made("Llama", "sdpa", max_position_embeddings=128)
    ids = torch.randint(3, 23, (1, 100))
    trace = recorded(model, {"input_ids": ids})
    heads, keys, features = 4, 2, 4
    assert [event.num_bytes for event in trace.select(kind="attention")] == [4 * 100 * (heads + keys) * features] * 2
    with pytest.warns(UserWarning, match="limit"), rf.record(model=model, limit=20_000) as trace, torch.no_grad():
        model(ids)
    assert trace.truncated is not None and trace.counts()["attention"] == 1


def test_a_pipeline_inside_of_the_block():
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: index for index, word in enumerate("[UNK] [EOS] [PAD] the cat dog sat ran on a mat".split())}
    own = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    own.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=own, unk_token="[UNK]", eos_token="[EOS]", pad_token="[PAD]"
    )
    model = made("GPT2", "sdpa")
    generate = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer, device="cpu")
    options = {"max_new_tokens": 3, "min_new_tokens": 3, "do_sample": False}
    plain = generate("the cat sat", **options)
    with rf.record(model=model, labels=tokenizer) as trace:
        assert generate("the cat sat", **options) == plain
    assert {event.step for event in trace.select(kind="attention")} >= {0, 1, 2}
    assert "cat" in rf.show(trace).text()


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("family", ["Llama", "Mistral"])
def test_rows_of_long_sequences_are_made_when_they_are_asked_for(monkeypatch, family, ragged):
    from rfnb.trace import long_attention

    monkeypatch.setattr(long_attention, "LARGE", 6 * TIME)
    model, batch = made(family, "sdpa"), inputs(family, ragged=ragged)
    trace = recorded(model, batch)
    for event, own in zip(trace.select(kind="attention"), attentions(made(family), batch)):
        long = long_attention.long_of(event.values)
        assert "weights" not in event.values and long is not None
        for seq, head in ((0, 0), (1, 3)):
            length = int(batch["attention_mask"][seq].sum())
            rows = torch.as_tensor(long.rows(2, length, head=head, seq=seq))
            torch.testing.assert_close(rows, own[seq, head, 2:length], rtol=1e-4, atol=1e-5)
    assert rf.show(trace).text()
