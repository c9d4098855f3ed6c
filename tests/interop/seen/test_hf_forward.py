"""The attention of a forward pass of transformers, for each family and implementation, against `output_attentions` of the model itself."""

from __future__ import annotations

import warnings

import pytest
import torch

import rfnb as rf

transformers = pytest.importorskip("transformers", reason="records its models")

from interop.seen.hf_families import FAMILIES, inputs, made  # noqa: E402


def attentions(model, batch):
    """The model's own attention weights with "eager", of all layers in the order in which they run."""
    with torch.no_grad():
        out = model(**batch, output_attentions=True)
    own = lambda name: list(getattr(out, name, None) or ())  # noqa: E731
    decoder = [each for pair in zip(own("decoder_attentions"), own("cross_attentions")) for each in pair]
    return [*own("encoder_attentions"), *decoder, *own("attentions")]


def recorded(model, batch, **options):
    with rf.record(model=model, **options) as trace, torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("error", "record:")
        model(**batch)
    return trace


def real_rows(weights, dims):
    """The rows and columns that are no padding."""
    for dim in dims:
        if dim.lengths is not None:
            axis = dims.index(dim)
            shape = [1] * weights.ndim
            shape[axis] = -1
            ends = torch.as_tensor(dim.lengths).reshape([-1] + [1] * (weights.ndim - 1))
            weights = weights.masked_fill(torch.arange(weights.shape[axis]).reshape(shape) >= ends, 0)
    return weights


def compare(trace, expected, **tolerances):
    events = trace.select(kind="attention")
    assert len(events) == len(expected)
    for event, own in zip(events, expected):
        weights = event.values["weights"]
        assert [dim.name for dim in weights.dims][:2] == ["batch", "head"] and weights.dims[3] is event.values["axis"]
        assert weights.dims[2] is event.values["target"]
        raw = real_rows(weights.raw_tensor, weights.dims)
        own = real_rows(own, weights.dims)
        if "mask" in event.values:
            mask = event.values["mask"].copy_compatible_to_dims_raw(weights.dims)
            raw, own = raw * mask, own * mask
        torch.testing.assert_close(raw, own.float(), **tolerances)
        assert "weights of the model" not in event.values.get("remark", "")


@pytest.mark.parametrize("family", FAMILIES)
def test_eager_weights_are_those_that_the_model_returns(family):
    model, batch = made(family), inputs(family)
    compare(recorded(model, batch), attentions(model, batch), rtol=1e-5, atol=1e-6)


# A cap and sinks: not with sdpa. That of Falcon leaves its positions out (5.23), so it is not what "eager" computes.
SDPA = [family for family in FAMILIES if family not in ("Gemma2", "GptOss", "FalconAlibi")]


@pytest.mark.parametrize("family", SDPA)
def test_sdpa_weights_are_those_of_eager(family):
    try:
        model = made(family, "sdpa")
    except ValueError as error:
        pytest.skip(str(error))
    batch = inputs(family)
    compare(recorded(model, batch), attentions(made(family), batch), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("Longformer", {"attention_window": 4}),
        ("BigBird", {"block_size": 2, "num_random_blocks": 1, "attention_type": "block_sparse"}),
    ],
)
def test_attention_in_blocks_is_one_sentence_and_no_weights(family, options):
    torch.manual_seed(3)
    config = getattr(transformers, f"{family}Config")(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, vocab_size=50,
        max_position_embeddings=128, pad_token_id=0, bos_token_id=1, eos_token_id=2, sep_token_id=3, **options,
    )  # fmt: skip
    model = getattr(transformers, f"{family}Model")(config).eval()
    with pytest.warns(UserWarning, match=r"its softmax is over \[2, .*attention in blocks or windows") as said:
        with rf.record(model=model) as trace, torch.no_grad():
            model(torch.randint(4, 50, (2, 64)))
    assert len([one for one in said if "could not be recorded" in str(one.message)]) == 1
    assert not trace.by_path("attention") and len(trace.states) > 0
