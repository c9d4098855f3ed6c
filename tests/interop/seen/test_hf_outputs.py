"""Hidden states and logits of models of transformers, against what they return."""

from __future__ import annotations

from unittest.mock import patch

import pytest
import torch

import rfnb as rf
from rfnb.interop.seen.linear_recurrences import CONVOLUTIONS, KERNELS
from rfnb.viz.trace_page import spec

transformers = pytest.importorskip("transformers", reason="records its models")

from interop.seen.hf_families import CACHE, FAMILIES, WORDS, inputs, made  # noqa: E402
from interop.seen.test_hf_dims import base  # noqa: E402
from interop.seen.test_hf_forward import real_rows, recorded  # noqa: E402

LAYERS = [family for family in FAMILIES if family not in ("Wav2Vec2",)]


@pytest.mark.parametrize("family", LAYERS)
def test_hidden_states_are_those_that_the_model_returns(family):
    model, batch = made(family), inputs(family)
    trace = recorded(model, batch)
    with torch.no_grad():
        out = model(**batch, output_hidden_states=True)
    own = [out[name] for name in ("encoder_hidden_states", "decoder_hidden_states", "hidden_states") if out.get(name)]
    expected = [each for stack in own for each in stack[1:-1]]  # the last one of a stack is normed
    events = trace.select(kind="states")
    assert len(events) == 2 * len(own)
    by_stack = [events[0], events[2]] if len(own) == 2 else [events[0]]
    for event, states in zip(by_stack, expected):
        hidden = event.values["hidden"]
        torch.testing.assert_close(
            real_rows(hidden.raw_tensor, hidden.dims), real_rows(states, hidden.dims), rtol=0, atol=0
        )
        assert event.values["axis"] in event.values["hidden"].dims
        first = next(each for each in trace.select(kind="attention") if each.path.startswith(event.path))
        assert base(first.values["target"]) is event.values["axis"]


@pytest.mark.parametrize(
    "family", [name for name, (_, _, model, _) in FAMILIES.items() if not model.endswith("Model")] + ["Marian"]
)
def test_logits_are_those_that_the_model_returns_once(family):
    model, batch = made(family), inputs(family)
    trace = recorded(
        model, batch, labels=[f"w{index}" for index in range(WORDS)] if FAMILIES[family][3] != "wave" else None
    )
    with torch.no_grad():
        logits = model(**batch).logits
    (event,) = trace.select(kind="outputs")
    assert torch.equal(event.values["logits"].raw_tensor, logits)
    batch_dim, time, vocab = event.values["logits"].dims
    assert event.values["axis"] is vocab and (batch_dim.kind, vocab.name) == ("batch", "vocab")
    if FAMILIES[family][3] != "wave":
        assert list(vocab.vocab[:2]) == ["w0", "w1"]
    if FAMILIES[family][3] in ("pair", "mel"):
        assert time.name == "target"


def test_states_of_convolutions_have_the_time_behind_the_channels():
    model, batch = made("Wav2Vec2"), inputs("Wav2Vec2")
    with rf.record(model=model, values=True) as trace:
        model(**batch)
    expected = batch["input_values"][:, None]
    for number, layer in enumerate(model.wav2vec2.feature_extractor.conv_layers):
        expected = layer(expected).detach()
        path = f"wav2vec2.feature_extractor.conv_layers.{number}"
        hidden = trace.states[path]["hidden"]
        assert [dim.name for dim in hidden.dims] == ["batch", "feature", "time"]
        assert torch.equal(hidden.raw_tensor, expected)
    assert rf.show(trace).text()


def test_classes_have_the_names_of_the_config():
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24,
        id2label={0: "bad", 1: "good"}, label2id={"bad": 0, "good": 1},
    )  # fmt: skip
    trace = recorded(transformers.BertForSequenceClassification(config).eval(), inputs("Bert"))
    (event,) = trace.select(kind="outputs")
    assert event.values["axis"].vocab == ["bad", "good"] and len(event.values["logits"].dims) == 2


def test_labels_of_a_tokenizer_are_along_all_attentions():
    words = [f"w{index}" for index in range(WORDS)]
    trace = recorded(made("Bart"), inputs("Bart"), labels=words)
    read = {event.values["axis"].name for event in trace.select(kind="attention")}
    assert read == {"time", "target"}
    text = rf.show(trace).text()
    assert "after the end" not in text  # where a model goes on computing, which means nothing
    first = inputs("Bart")["input_ids"][0].tolist()
    assert all(f"w{index}" in text for index in first)


def shown(family):
    parts = spec(recorded(made(family), inputs(family))).head["parts"]
    return [(part["head"]["title"], part["head"].get("remark", "")) for part in parts if part["kind"] == "attention"]


def test_a_page_has_one_part_for_all_layers_of_each_kind_of_attention():
    assert [title for title, _ in shown("Bert")] == ["Attention: bert.encoder.layer.*.attention.self"]
    assert [title for title, _ in shown("Bart")] == [
        "Attention: model.encoder.layers.*.self_attn",
        "Attention: model.decoder.layers.*.self_attn",
        "Attention: model.decoder.layers.*.encoder_attn, cross-attention",
    ]


def test_a_page_says_which_heads_share_keys_and_that_rows_are_no_sums():
    remarks = [remark for _, remark in shown("GptOss")]
    assert remarks
    for remark in remarks:
        assert "2 query heads share one key head: heads 0 to 1, and so on." in remark
        assert "Rows sum to less than 1: the rest goes to a learned sink, which is not a position." in remark


def test_labels_of_a_cache_are_those_of_all_positions_so_far():
    words = [f"w{index}" for index in range(WORDS)]
    ids = inputs("Llama", ragged=False)["input_ids"]
    model = made("Llama", "sdpa")
    with rf.record(model=model, labels=words) as trace, torch.no_grad():
        out = model(ids[:, :4])
        out[CACHE].reorder_cache(torch.tensor([2, 0, 1]))
        model(ids[[2, 0, 1], 4:], **{CACHE: out[CACHE]})
    source = trace.select(kind="attention")[-1].values["axis"]
    (read,) = [event.values["ids"] for event in trace.select(kind="tokens") if source in event.values["ids"].dims]
    assert torch.equal(read.raw_tensor, ids[[2, 0, 1]])
    assert list(read.sparse_dim.vocab) == words


def test_a_model_without_attention_says_so_where_its_kernels_are_not_known():
    config = transformers.MambaConfig(vocab_size=WORDS, hidden_size=8, num_hidden_layers=2, state_size=3)
    model, ids = transformers.MambaForCausalLM(config).eval(), inputs("Llama")["input_ids"]
    with patch.dict(KERNELS, clear=True), patch.dict(CONVOLUTIONS, clear=True):
        with pytest.warns(UserWarning) as said, rf.record(model=model) as trace, torch.no_grad():
            model(ids)
            model(ids)
    own = [str(each.message) for each in said if "attention" in str(each.message)]
    assert own == [
        "record: this model has no attention.\n"
        "  model                     MambaForCausalLM\n"
        "  modules called attention  none\n"
        "Hidden states, tokens and logits are recorded. The code of the model can send other values:\n"
        '    rf.probe("states", h=rf.convert_to_tensor(h, dims=[batch, time, state]), axis=time)'
    ]
    counts = trace.counts()
    assert (counts["states"], counts["outputs"], counts.get("attention")) == (4, 2, None)
