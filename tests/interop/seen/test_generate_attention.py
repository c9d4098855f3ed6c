"""Attention in the steps of `generate`, followed along a hypothesis, is that of a forward pass over its labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf

pytest.importorskip("transformers")
from interop.seen.generating import LABELS, generated, make, prompts

PATHS = {  # self-attention of the decoder, cross attention
    "gpt2": ("transformer.h.{}.attn", None),
    "bart": ("model.decoder.layers.{}.self_attn", "model.decoder.layers.{}.encoder_attn"),
    "t5": ("decoder.block.{}.layer.0.SelfAttention", "decoder.block.{}.layer.1.EncDecAttention"),
}
CONFIGS = [
    {"num_beams": 4, "num_return_sequences": 2},
    {},
    {"num_beams": 3, "do_sample": True, "top_k": 9},
    {"do_sample": True, "num_return_sequences": 2},
    {"num_beams": 2, "use_cache": False},
]


def of_labels(model, ids, tokens):
    """Weights of a forward pass over these labels: {self: per layer, cross: per layer}, a row for each label."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        if not model.config.is_encoder_decoder:
            out = model(torch.tensor([[*ids.tolist(), *tokens]]), output_attentions=True)
            both, first = (out.attentions, None), len(ids) - 1
        else:
            decoder = torch.tensor([[0, *tokens]])
            out = model(input_ids=ids[None], decoder_input_ids=decoder, output_attentions=True)
            both, first = (out.decoder_attentions, out.cross_attentions), 0
    return [None if each is None else [layer[0, :, first:-1] for layer in each] for each in both]


@pytest.mark.parametrize("kind", list(PATHS))
@pytest.mark.parametrize("config", CONFIGS, ids=str)
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_rows_along_a_hypothesis_are_those_of_its_labels(kind, config, implementation):
    model = make(kind, 3, end_bias=1.0)
    model.set_attn_implementation(implementation)
    torch.manual_seed(2)
    with rf.record(model=model) as trace:
        generated(model, 3, **config)
    history, ids = trace.beams["generate"], prompts(3)
    for seq in range(3):
        for rank in range(min(2, len(history.nbest(seq)))):
            item = history.nbest(seq)[rank]
            step, slot = item.end
            expected = of_labels(model, ids[seq], item.tokens)
            for path, weights in zip(PATHS[kind], expected):
                for layer in range(2 if path else 0):
                    steps = trace.attention.steps(path.format(layer))
                    along = history.along(steps, seq, slot, step=step)
                    assert len(along) == len(item.tokens)
                    for row, one in enumerate(along):
                        own = weights[layer][:, row, : one.shape[-1]].numpy()
                        np.testing.assert_allclose(one, own, atol=3e-5)
                        assert float(weights[layer][:, row, one.shape[-1] :].abs().sum()) == 0


LAYERS = {"gpt2": "transformer.h.{}", "bart": "model.decoder.layers.{}", "t5": "decoder.block.{}"}


@pytest.mark.parametrize("kind", list(PATHS))
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_states_and_logits_along_a_hypothesis_are_those_of_its_labels(kind, config):
    model, ids = make(kind, 3, end_bias=1.0), prompts(3)
    torch.manual_seed(2)
    with rf.record(model=model) as trace:
        generated(model, 3, **config)
    history = trace.beams["generate"]
    (path,) = [path for path in trace.by_path("outputs") if not path.endswith("prompt")]
    runs = {
        "logits": [event.values["logits"] for event in trace.by_path("outputs")[path]],
        "hidden": [event.values["hidden"] for event in trace.by_path("states")[LAYERS[kind].format(0)]],
    }
    for seq in range(3):
        item = history.nbest(seq)[0]
        step, slot = item.end
        with torch.no_grad():
            if kind == "gpt2":
                out, first = model(torch.tensor([[*ids[seq].tolist(), *item.tokens]]), output_hidden_states=True), 3
                expected = {"logits": out.logits[0, first:-1], "hidden": out.hidden_states[1][0, first:-1]}
            else:
                decoder = torch.tensor([[0, *item.tokens]])
                out = model(input_ids=ids[seq : seq + 1], decoder_input_ids=decoder, output_hidden_states=True)
                expected = {"logits": out.logits[0, :-1], "hidden": out.decoder_hidden_states[1][0, :-1]}
        for name, values in runs.items():
            along = np.array(history.along(values, seq, slot, step=step))
            np.testing.assert_allclose(along, expected[name].numpy(), atol=3e-4, err_msg=name)


def test_the_prompt_is_apart():
    model, ids = make("gpt2", 1), prompts(1)
    with rf.record(model=model) as trace:
        generated(model, 1, num_beams=4)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(ids, output_attentions=True).attentions
    for layer in range(2):
        weights = trace.attention[f"transformer.h.{layer}.attn.prompt"]
        assert [dim.extent for dim in weights.dims] == [3, 2, 4, 4]
        np.testing.assert_allclose(weights.numpy(), expected[layer].numpy(), atol=3e-5)
        states = trace.states[f"transformer.h.{layer}.prompt"]["hidden"]
        assert [dim.extent for dim in states.dims] == [3, 4, 16]


def test_padded_prompts_have_no_weight_on_padding():
    model, ids = make("gpt2", 1), prompts(1)
    mask = torch.ones_like(ids)
    mask[0, :2] = 0
    with rf.record(model=model) as trace:
        out = model.generate(ids, attention_mask=mask, num_beams=2, max_new_tokens=4)
    history = trace.beams["generate"]
    assert history.best(0).tokens == tuple(out[0, 4:].tolist())[: len(history.best(0).tokens)]
    item = history.nbest(0)[0]
    along = history.along(trace.attention.steps("transformer.h.1.attn"), 0, item.end[1], step=item.end[0])
    assert all(np.abs(row[:, :2]).max() == 0 and row[:, 2:].sum() > 1 for row in along)


@pytest.mark.parametrize("kind", ["bart", "t5"])
def test_padding_of_the_source_is_no_column(kind):
    model, ids = make(kind, 1), prompts(1)
    mask = torch.ones_like(ids)
    mask[1, 2:] = 0
    with rf.record(model=model) as trace:
        model.generate(ids, attention_mask=mask, num_beams=2, max_new_tokens=4)
    for steps in (trace.attention.steps(PATHS[kind][1].format(1)),):
        history = trace.beams["generate"]
        along = history.along(steps, 1, history.nbest(1)[0].end[1], step=history.nbest(1)[0].end[0])
        assert all(row[:, 2:].sum() == 0 for row in along)


@pytest.mark.parametrize("kind", list(PATHS))
def test_a_view_follows_the_best_hypothesis(kind):
    model = make(kind, 3, end_bias=1.0)
    with rf.record(model=model, labels=LABELS) as trace:
        generated(model, 3, num_beams=4, num_return_sequences=2)
    spec = rf.show(trace).spec
    assert (
        spec.head["title"]
        == f"{type(model).__name__}: beam search of “{''.join(_texts(prompts(3)[0]))}” and 2 more, 4 beams, 6 steps"
    )
    beams = spec.head["parts"][0]["head"]
    others = [part["head"] for part in spec.head["parts"] if part["kind"] == "attention"]
    assert beams["title"] == (
        "Beam search: generate, num_beams=4, length_penalty=1.0, num_return_sequences=2, max_new_tokens=6"
    )
    best = trace.beams["generate"].best(0)
    followed = [head for head in others if head.get("best")]
    assert [len(head["maps"]) for head in followed] == {"gpt2": [4], "bart": [8, 8], "t5": [4, 4]}[kind]
    start = _texts(prompts(3)[0]) if kind == "gpt2" else ["<s>"]
    columns = [[*start, *best.labels][: len(start) + len(best.labels) - 1], _texts(prompts(3)[0])]
    for head, expected in zip(followed, columns):
        assert head["maps"][0]["row_dim"]["name"] == "step"
        assert head["seqs"][0]["rows"] == list(best.labels)
        assert head["seqs"][0]["cols"][: len(expected)] == expected
    assert not any("slots of the beam" in str(part["head"].get("remark")) for part in spec.head["parts"])


def _texts(ids):
    return [LABELS[index] for index in ids.tolist()]
