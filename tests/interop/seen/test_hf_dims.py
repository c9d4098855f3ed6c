"""The dims of what models of transformers attend over: streams of equal size, lengths, padding on the left, caches, windows."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

transformers = pytest.importorskip("transformers", reason="records its models")

from interop.seen.hf_families import CACHE, TIME, inputs, made  # noqa: E402
from interop.seen.test_hf_forward import attentions, recorded  # noqa: E402


def base(dim):
    return dim.twin_of or dim


def sides(trace, path):
    event = trace.by_path("attention")[path][-1]
    return event.values["target"], event.values["axis"]


@pytest.mark.parametrize("targets", [5, TIME])
@pytest.mark.parametrize("family", ["Bart", "T5", "Marian"])
def test_encoder_decoder_and_cross_attention_are_over_the_dims_of_their_tokens(family, targets):
    trace = recorded(made(family), inputs(family, targets=targets))
    found = {path: sides(trace, path) for path in trace.by_path("attention")}
    encoder = [pair for path, pair in found.items() if "encoder." in path]
    cross = [pair for path, pair in found.items() if path.endswith(("encoder_attn", "EncDecAttention"))]
    own = [pair for path, pair in found.items() if "decoder." in path and pair not in cross]
    assert (len(encoder), len(cross), len(own)) == (2, 2, 2)
    time, target = base(encoder[0][0]), base(own[0][0])
    assert (time.name, target.name) == ("time", "target") and time is not target
    assert all(base(dim) is time for pair in encoder for dim in pair)
    assert all(base(dim) is target for pair in own for dim in pair)
    assert all((base(one), base(other)) == (target, time) for one, other in cross)
    assert list(time.lengths) == [7, 5, 3] and target.lengths is None


def test_labels_that_the_model_shifts_itself_begin_a_stream_of_their_own():
    batch = inputs("Bart", targets=TIME)
    batch["labels"] = batch.pop("decoder_input_ids")
    trace = recorded(made("Bart"), batch)
    target, source = sides(trace, "model.decoder.layers.0.encoder_attn")
    assert base(target) is base(sides(trace, "model.decoder.layers.0.self_attn")[1])
    assert base(source) is base(sides(trace, "model.encoder.layers.0.self_attn")[0]) is not base(target)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("family", ["Llama", "GPT2", "Bloom", "GPTNeo"])
def test_padding_on_the_left_is_masked_and_no_length(family, implementation):
    try:
        model, batch = made(family, implementation), inputs(family, left=True)
    except ValueError as error:
        pytest.skip(str(error))
    trace = recorded(model, batch)
    values = trace.select(kind="attention")[0].values
    assert values["axis"].lengths is None and values["causal"] is False
    mask = values["mask"].copy_compatible_to_dims_raw([*values["mask"].dims])
    real = batch["attention_mask"].bool()
    expected = torch.ones(TIME, TIME).tril().bool() & real[:, None, :] & real[:, :, None]
    assert torch.equal(mask, expected)
    own = attentions(made(family), batch)[0]
    torch.testing.assert_close(
        values["weights"].raw_tensor * expected[:, None], own * expected[:, None], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_causal_is_said_where_only_what_is_ahead_is_hidden(implementation):
    values = recorded(made("Llama", implementation), inputs("Llama")).select(kind="attention")[0].values
    assert values["causal"] is True and "mask" not in values
    values = recorded(made("Bert", implementation), inputs("Bert")).select(kind="attention")[0].values
    assert values["causal"] is False and "mask" not in values


def test_windows_are_masks():
    trace = recorded(made("Mistral", "sdpa"), inputs("Mistral", ragged=False))
    mask = trace.select(kind="attention")[0].values["mask"].raw_tensor.reshape(-1, TIME, TIME)
    ahead = torch.arange(TIME)[None] - torch.arange(TIME)[:, None]
    assert torch.equal(mask.all(0), mask.any(0)) and torch.equal(mask[0], (ahead <= 0) & (ahead > -3))


def test_heads_that_share_keys_and_sinks_are_said():
    remark = recorded(made("Llama", "sdpa"), inputs("Llama")).select(kind="attention")[0].values["remark"]
    assert remark == "2 query heads share one key head: heads 0 to 1, and so on."
    values = recorded(made("GptOss"), inputs("GptOss")).select(kind="attention")[0].values
    assert "Rows sum to less than 1: the rest goes to a learned sink, which is not a position." in values["remark"]
    assert float(values["weights"].raw_tensor.sum(-1).max()) < 1


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("family", ["GPT2", "Llama", "Mistral"])
def test_keys_of_a_cache_are_over_all_positions_so_far(family, implementation):
    model, plain = made(family, implementation), made(family)
    ids = inputs(family, ragged=False)["input_ids"]
    with torch.no_grad():
        whole = plain(ids, output_attentions=True).attentions
        with rf.record(model=model) as trace:
            out = model(ids[:, :4])
            model(ids[:, 4:], **{CACHE: out[CACHE]})
    first, second = list(trace.by_path("attention").values())[0]
    target, source = second.values["target"], second.values["axis"]
    assert (target.extent, source.extent, source.name) == (
        3,
        7,
        "source",
    )  # also of a cache of a window, which has but 5
    torch.testing.assert_close(second.values["weights"].raw_tensor, whole[0][:, :, 4:], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(first.values["weights"].raw_tensor, whole[0][:, :, :4, :4], rtol=1e-4, atol=1e-5)
    if family != "Mistral":
        assert second.values["causal"] is True


def test_a_cache_of_cross_attention_stays_over_the_encoder():
    model, batch = made("Bart", "sdpa"), inputs("Bart", targets=TIME)
    ids = batch.pop("decoder_input_ids")
    with torch.no_grad():
        whole = made("Bart")(**batch, decoder_input_ids=ids, output_attentions=True)
        with rf.record(model=model) as trace:
            first = model(**batch, decoder_input_ids=ids[:, :4])
            states = transformers.modeling_outputs.BaseModelOutput(first.encoder_last_hidden_state)
            model(
                attention_mask=batch["attention_mask"], encoder_outputs=states, decoder_input_ids=ids[:, 4:],
                **{CACHE: first[CACHE]},
            )  # fmt: skip
    own = trace.by_path("attention")["model.decoder.layers.1.self_attn"][1].values
    cross = trace.by_path("attention")["model.decoder.layers.1.encoder_attn"][1].values
    assert base(cross["axis"]) is base(sides(trace, "model.encoder.layers.0.self_attn")[0])
    assert cross["target"] is own["target"] and own["axis"].extent == TIME and cross["axis"].extent == TIME
    torch.testing.assert_close(own["weights"].raw_tensor, whole.decoder_attentions[1][:, :, 4:], rtol=1e-4, atol=1e-5)
    real = batch["attention_mask"][:, None, None]
    torch.testing.assert_close(
        cross["weights"].raw_tensor * real, whole.cross_attentions[1][:, :, 4:] * real, rtol=1e-4, atol=1e-5
    )
