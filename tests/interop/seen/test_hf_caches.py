"""Attention over the keys of caches, at absolute positions: each kind of cache against one eager pass over all tokens."""

from __future__ import annotations

import warnings

import pytest
import torch

import rfnb as rf

transformers = pytest.importorskip("transformers", reason="records its models")

from interop.seen.hf_families import BATCH, CACHE, TIME, WORDS, inputs, made  # noqa: E402

NEW = 6  # tokens that are written: past windows of 3
LABELS = [f"w{index}" for index in range(WORDS)]
WRITTEN = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "pad_token_id": 2}
DECODERS = [
    "GPT2", "Llama", "Mistral", "Qwen2", "Gemma2", "Gemma3", "Gemma3n", "GptOss", "Cohere2", "Llama4", "Falcon", "Bloom",
    "RecurrentGemma",
]  # fmt: skip
PAIRS = ["T5", "Bart"]


def model_of(family, eager=False):
    """With sdpa where a family has it and computes the same with it."""
    if not eager and family != "Gemma2":  # sdpa leaves its cap out
        try:
            return made(family, "sdpa")
        except ValueError:
            pass
    return made(family)


def generated(family, cache, **options):
    """The recording, and all tokens that were read and written with their mask."""
    model, batch = model_of(family), inputs(family, left=True, ragged=family != "RecurrentGemma")
    batch.pop("decoder_input_ids", None)
    more = {} if cache == "dynamic" else {"cache_implementation": cache}
    with torch.no_grad():
        plain = model.generate(**batch, **WRITTEN, **more, **options)
        with rf.record(model=model, labels=LABELS) as trace, warnings.catch_warnings():
            warnings.filterwarnings("error", "record:")
            ids = model.generate(**batch, **WRITTEN, **more, **options)
    assert torch.equal(plain, ids)
    return trace, batch, ids[:, :-1]


def by_layer(trace):
    """The paths of self-attention in steps."""
    others = ("rompt", ".effective")
    kept = [path for path in trace.attention if not any(word in path for word in others)]
    return [path for path in kept if "encoder" not in path.replace("decoder", "")]


def whole_pass(family, batch, ids):
    """The weights of all layers in a pass over all tokens."""
    model = model_of(family, eager=True)
    mask = torch.cat([batch["attention_mask"], torch.ones(BATCH, NEW - 1, dtype=torch.int64)], 1)
    more = {} if family in ("Falcon", "Bloom") else {"position_ids": (mask.cumsum(1) - 1).clamp(min=0)}
    with rf.record(model=model) as trace, torch.no_grad():
        # Layers of Gemma3n that share keys do so in a cache.
        out = model(ids, attention_mask=mask, output_attentions=True, use_cache=family == "Gemma3n", **more)
    own = [each for each in getattr(out, "attentions", None) or () if each is not None]
    return own or [trace.attention[path].raw_tensor for path in by_layer(trace)]  # RecurrentGemma returns none


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("family", DECODERS)
def test_rows_of_steps_and_prompts_are_those_of_one_pass(family, cache):
    if family == "RecurrentGemma" and transformers.__version__ < "5":
        pytest.skip("its pass over all tokens has no window there, and it has no static cache")
    trace, batch, ids = generated(family, cache)
    whole, paths, real = whole_pass(family, batch, ids), by_layer(trace), batch["attention_mask"][:, None, :, None]
    assert len(paths) == len(whole) > 0
    for path, own in zip(paths, whole):
        steps = trace.attention.steps(path)
        assert len(steps) == NEW
        for step, weights in enumerate(steps):
            row = weights.raw_tensor.reshape(BATCH, -1, TIME + step)
            torch.testing.assert_close(row, own[:, :, TIME + step - 1, : TIME + step].float(), rtol=1e-4, atol=1e-5)
        prompt = trace.attention[f"{path}.prompt"].raw_tensor
        torch.testing.assert_close(prompt * real, own[:, :, :TIME, :TIME].float() * real, rtol=1e-4, atol=1e-5)
    assert not any(
        word in str(event.values.get("remark"))
        for event in trace.select("attention")
        for word in ("may be", "places")
        if ".effective" not in event.path
    )


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("family", PAIRS)
def test_rows_of_a_decoder_with_an_encoder_are_those_of_one_pass(family, cache):
    trace, batch, ids = generated(family, cache)
    with torch.no_grad():
        out = made(family)(**batch, decoder_input_ids=ids, output_attentions=True)
    crossed = [
        path
        for path in trace.attention
        if any(word in path for word in ("encoder_attn", "EncDec")) and "prompt" not in path
    ]
    self_paths = [path for path in by_layer(trace) if path not in crossed and "EncDec" not in path] or [
        path for path in trace.attention if "decoder" in path and "self_attn" in path and "prompt" not in path
    ]
    assert len(crossed) == len(self_paths) == 2
    for layer in range(2):
        for step, weights in enumerate(trace.attention.steps(self_paths[layer])):
            row = weights.raw_tensor.reshape(BATCH, -1, step + 1)
            torch.testing.assert_close(row, out.decoder_attentions[layer][:, :, step, : step + 1], rtol=1e-4, atol=1e-5)
        for step, weights in enumerate(trace.attention.steps(crossed[layer])):
            row = weights.raw_tensor.reshape(BATCH, -1, TIME)
            torch.testing.assert_close(row, out.cross_attentions[layer][:, :, step], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("family", ["Mistral", "Gemma3", "Llama4"])
def test_columns_of_a_view_have_the_tokens_of_their_positions(family):
    trace, _, ids = generated(family, "dynamic")
    shown = [part["head"] for part in rf.show(trace).spec.head["parts"] if part["kind"] == "attention"]
    steps = [head for head in shown if "prompt" not in head["title"]]
    assert steps
    for head in steps:
        assert [seq["cols"] for seq in head["seqs"]] == [[f"w{index}" for index in row] for row in ids.tolist()]


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_a_window_follows_a_hypothesis_through_the_slots_of_a_beam(cache):
    trace, batch, _ = generated("Mistral", cache, num_beams=3)
    history = trace.beams["generate"]
    for seq in range(BATCH):
        item = history.nbest(seq)[0]
        ids = torch.cat([batch["input_ids"][seq], torch.tensor(item.tokens)])[None, :-1]
        mask = (torch.arange(ids.shape[1]) >= (batch["attention_mask"][seq] == 0).sum())[None].long()
        with torch.no_grad():
            out = made("Mistral")(
                ids, attention_mask=mask, position_ids=(mask.cumsum(1) - 1).clamp(min=0), output_attentions=True
            )
        for path, own in zip(by_layer(trace), out.attentions):
            for step, row in enumerate(history.along(trace.attention.steps(path), seq, item.end[1], step=item.end[0])):
                torch.testing.assert_close(
                    torch.as_tensor(row), own[0, :, TIME + step - 1, : TIME + step], rtol=1e-4, atol=1e-5
                )


@pytest.mark.parametrize("family", ["Mistral", "GptOss", "Llama"])
@pytest.mark.parametrize("static", [False, True])
def test_calls_of_several_tokens_go_on_from_a_cache(family, static):
    model, ids = made(family), torch.randint(3, WORDS, (BATCH, 12), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        whole = model(ids, output_attentions=True).attentions
    cache = (
        transformers.StaticCache(config=model.config, max_cache_len=16)
        if static
        else transformers.DynamicCache(config=model.config)
    )
    cuts = [0, 5, 6, 9, 12]
    with rf.record(model=model, labels=LABELS) as trace, torch.no_grad():
        for first, end in zip(cuts, cuts[1:]):
            at = {"cache_position": torch.arange(first, end)} if transformers.__version__ < "5" else {}
            model(input_ids=ids[:, first:end], **{CACHE: cache}, **at)
    for path, own in zip(trace.attention, whole):
        for run, (first, end) in zip(trace.attention.runs(path), zip(cuts, cuts[1:])):
            torch.testing.assert_close(run.raw_tensor, own[:, :, first:end, :end], rtol=1e-4, atol=1e-5)


def test_generate_goes_on_from_a_cache_that_has_the_first_tokens():
    model, plain = made("Mistral"), made("Mistral")
    ids, cache = torch.randint(3, WORDS, (1, 9)), transformers.DynamicCache(config=model.config)
    with rf.record(model=model, labels=LABELS) as trace, torch.no_grad():
        model(input_ids=ids[:, :6], **{CACHE: cache})
        out = model.generate(ids, **{CACHE: cache}, **WRITTEN)[:, :-1]
        whole = plain(out, output_attentions=True).attentions
    for path, own in zip(by_layer(trace), whole):
        for step, weights in enumerate(trace.attention.steps(path, 1)):
            torch.testing.assert_close(weights.raw_tensor[0, 0], own[0, :, 8 + step, : 9 + step], rtol=1e-4, atol=1e-5)
    titles = {
        part["head"]["title"]: part["head"] for part in rf.show(trace).spec.head["parts"] if part["kind"] == "attention"
    }
    (steps,) = [head for title, head in titles.items() if "best hypothesis" in title]
    assert steps["seqs"][0]["cols"] == [f"w{index}" for index in out[0].tolist()]


def test_weights_on_places_of_a_cache_that_nothing_is_in_are_said():
    """GPT-Neo hides what is ahead by the size of its cache, so in a static one it attends to places that are empty."""
    model, batch = made("GPTNeo"), inputs("GPTNeo", ragged=False)
    with rf.record(model=model) as trace, torch.no_grad():
        model.generate(**batch, **WRITTEN, cache_implementation="static")
    remarks = {event.values.get("remark") for event in trace.select("attention")}
    assert "Rows sum to less than 1: the rest goes to empty cache slots." in remarks


class Scattered(transformers.DynamicCache):
    """A cache in an order of its own: the last key is the first."""

    def update(self, key, value, layer, *args, **kwargs):
        key, value = super().update(key, value, layer, *args, **kwargs)
        return tuple(each.roll(1, 2) for each in (key, value))


def test_keys_in_an_order_that_is_not_known_are_said():
    model, ids = made("Llama"), torch.randint(3, WORDS, (1, 7))
    cache = Scattered(config=model.config)
    with rf.record(model=model) as trace, torch.no_grad():
        model(input_ids=ids[:, :5], **{CACHE: cache})
        model(input_ids=ids[:, 5:6], **{CACHE: cache})
    event = trace.by_path("attention")["model.layers.0.self_attn"][-1]
    assert event.values["axis"].name == "place" and "Columns are cache slots, not positions" in event.values["remark"]


def test_a_quantized_cache():
    if not hasattr(transformers.cache_utils, "Fp8QuantizedLayer"):
        pytest.skip("it has none that needs no other package")
    model, ids = made("Llama"), inputs("Llama", ragged=False)["input_ids"]
    with rf.record(model=model) as trace, torch.no_grad():
        out = model.generate(ids, **WRITTEN, cache_implementation="quantized", cache_config={"backend": "fp8"})
        whole = made("Llama")(out[:, :-1], output_attentions=True).attentions
    for path, own in zip(by_layer(trace), whole):
        for step, weights in enumerate(trace.attention.steps(path)):
            row = weights.raw_tensor.reshape(BATCH, -1, TIME + step)
            torch.testing.assert_close(row, own[:, :, TIME + step - 1, : TIME + step], rtol=0, atol=0.1)
