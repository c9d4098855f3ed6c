"""Sweeps, lenses and attributions of models of torch: each number is one that is computed by hand."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from torch import nn

import rfnb as rf
from rfnb.core.errors import ShapeError

transformers = pytest.importorskip("transformers")
from interop.seen.hf_families import inputs, made  # noqa: E402
from interop.seen.test_edit import PLACES, by_hand, without_head  # noqa: E402

LAYERS = {
    "GPT2": "transformer.h", "Llama": "model.layers", "Bert": "bert.encoder.layer", "Bart": "model.decoder.layers", "T5": "decoder.block"
}  # fmt: skip
EACH = pytest.mark.parametrize("family", LAYERS)


def pair(family):
    batch = {name: raw[:1] for name, raw in inputs(family, ragged=False).items()}
    ids = "decoder_input_ids" if "decoder_input_ids" in batch else "input_ids"
    return batch, {**batch, ids: batch[ids].roll(1, 1)}


def margin(model, batch, a=3, b=7):
    with torch.no_grad():
        last = model(**batch).logits[0, -1]
    return float(last[a] - last[b])


def first(output):
    return output if isinstance(output, torch.Tensor) else output[0]


@EACH
def test_a_sweep_over_positions_is_a_patch_by_hand_for_each(family):
    model, (clean, corrupted) = made(family, "sdpa"), pair(family)
    sweep = rf.patch_sweep(model, clean, corrupted, (3, 7))
    assert sweep.beside == {"clean": margin(model, clean), "corrupted": margin(model, corrupted)}
    wanted = np.zeros(sweep.shape)
    for row in range(2):
        path, kept = f"{LAYERS[family]}.{row}", []
        with by_hand(model, path, lambda raw, kept=kept: kept.append(raw) or raw):
            margin(model, clean)
        for column in range(sweep.shape[1]):

            def patched(raw, kept=kept, column=column):
                out = raw.clone()
                out[:, column] = kept[0][:, column]
                return out

            with by_hand(model, path, patched):
                wanted[row, column] = margin(model, corrupted)
    assert (np.asarray(sweep) == wanted).all()
    assert sweep.recovered[-1, -1] == pytest.approx(
        1
    )  # at the last position of the last layer is all that the margin is of
    assert sweep.argmax() == wanted.argmax() and len(sweep) == 2


@EACH
def test_a_sweep_over_heads_is_a_patch_of_what_the_projection_gets(family):
    model, (clean, corrupted) = made(family, "sdpa"), pair(family)
    attention, projection, _ = PLACES[family]
    sweep = rf.patch_sweep(model, clean, corrupted, (3, 7), over="head", layers=[attention])
    heads, kept = sweep.shape[1], []
    with by_hand(model, projection, lambda raw: kept.append(raw) or raw, before=True):
        margin(model, clean)
    for head in range(heads):

        def patched(raw, head=head):
            own = raw - (raw - without_head(raw, head, heads))
            return own + (kept[0] - without_head(kept[0], head, heads))

        with by_hand(model, projection, patched, before=True):
            assert sweep[0, head] == pytest.approx(margin(model, corrupted), abs=1e-4)


def test_a_sweep_over_layers_takes_a_metric_and_layers_by_name():
    model, x, other = (
        nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).eval(),
        torch.randn(2, 4),
        torch.randn(2, 4),
    )
    sweep = rf.patch_sweep(model, x, other, lambda out: out[:, 0], over="layer", layers=["0", "1", "2"])
    np.testing.assert_allclose(np.asarray(sweep), float(model(x)[:, 0].mean().detach()), atol=1e-6)
    np.testing.assert_allclose(sweep.recovered, 1, atol=1e-5)


@pytest.mark.parametrize(("over", "passes"), [("position", 2 + 2 * 7), ("layer", 2 + 2), ("head", 3 + 2 * 2)])
def test_a_sweep_makes_the_passes_that_it_needs_and_leaves_the_model_as_it_was(over, passes):
    model, (clean, corrupted) = made("GPT2", "sdpa"), pair("GPT2")
    calls, before = [], [dict(vars(module)) for module in model.modules()]
    handle = model.register_forward_hook(lambda *_: calls.append(1))
    torch.manual_seed(4)
    rf.patch_sweep(model, clean, corrupted, (3, 7), over=over)
    assert len(calls) == passes
    handle.remove()
    draws = torch.rand(2)
    torch.manual_seed(4)
    assert torch.equal(torch.rand(2), draws)
    assert [{k: v for k, v in vars(module).items() if k != "_forward_hooks"} for module in model.modules()] == [
        {k: v for k, v in each.items() if k != "_forward_hooks"} for each in before
    ]


# -- lenses --------------------------------------------------------------------------------------------------------------------
def head_of(family, model):
    if family == "GPT2":
        return lambda h: model.lm_head(model.transformer.ln_f(h))
    if family == "Llama":
        return lambda h: model.lm_head(model.model.norm(h))
    if family == "Bert":
        return lambda h: model.cls(h)
    if family == "Bart":
        return lambda h: model.lm_head(h) + model.final_logits_bias
    scale = model.model_dim**-0.5 if model.config.tie_word_embeddings else 1
    return lambda h: model.lm_head(model.decoder.final_layer_norm(h) * scale)


@EACH
def test_a_lens_is_the_own_head_of_the_model_on_each_state(family):
    model, (batch, _) = made(family, "sdpa"), pair(family)
    lens = rf.logit_lens(model, batch)
    states, head = [], head_of(family, model)
    for row in range(2):
        with by_hand(model, f"{LAYERS[family]}.{row}", lambda raw: states.append(raw) or raw), torch.no_grad():
            logits = model(**batch).logits
    said = logits.argmax(-1)
    for row, state in enumerate(states, 1):
        with torch.no_grad():
            probs = head(state).softmax(-1)
        np.testing.assert_allclose(lens[row], probs.gather(-1, said[..., None])[0, :, 0], atol=1e-5)
        assert (lens.top[0, row, :, 0] == probs.argmax(-1)[0].numpy()).all()
        np.testing.assert_allclose(lens.log_probs[0, row, :, 0], probs.max(-1).values[0].log(), atol=1e-4)
    assert not lens.remark


def test_a_lens_says_tokens_by_their_texts():
    model, (batch, _) = made("GPT2"), pair("GPT2")
    words = [f"w{number}" for number in range(23)]
    lens = rf.logit_lens(model, batch, labels=words, token=4)
    assert lens.columns[1] == [words[index] for index in batch["input_ids"][0]]
    assert lens.name == "probability of w4" and str(lens).splitlines()[1].split()[0] == "layer"
    assert {word for row in lens.cells for word in row} <= set(words)
    view = rf.show(lens)
    assert "transformer.h.1" in view.text() and "Predictions at the last position" in view.text()


# -- attributions --------------------------------------------------------------------------------------------------------------
@EACH
def test_integrated_gradients_and_the_baseline_sum_to_the_margin(family):
    model, (batch, _) = made(family, "sdpa"), pair(family)
    # Where a norm divides by the size of a state, zeros are no place to come from.
    baseline = model.get_input_embeddings().weight[2].detach() if family == "T5" else 0.0
    parts = rf.attribute(model, batch, (3, 7), baseline=baseline, tolerance=0.01)
    assert parts.beside["input"] == pytest.approx(margin(model, batch), abs=1e-4)
    off = abs(parts.beside["sum"] - parts.beside["input"])
    assert not parts.remark and off <= 0.01 * abs(parts.beside["input"] - parts.beside["baseline"])
    assert parts[0, -1] == pytest.approx(parts.beside["baseline"])
    assert np.asarray(parts).sum() == pytest.approx(parts.beside["sum"])


def test_gradient_times_input_is_that_of_finite_differences():
    model, (batch, _) = made("GPT2", "sdpa").double(), pair("GPT2")
    parts = rf.attribute(model, batch, (3, 7), method="gradient")
    kept = model.transformer.wte(batch["input_ids"]).detach()

    def at(position, size):
        def moved(raw):
            out = raw.clone()
            out[:, position] *= 1 + size
            return out

        with by_hand(model, "transformer.wte", moved):
            return margin(model, batch)

    assert kept.shape[1] + 1 == parts.shape[1]
    for position in range(7):
        wanted = (at(position, 1e-5) - at(position, -1e-5)) / 2e-5
        assert parts[0, position] == pytest.approx(wanted, rel=1e-4, abs=1e-8)


def test_integrated_gradients_are_the_mean_of_gradients_on_the_way():
    model, (batch, _) = made("GPT2", "sdpa").double(), pair("GPT2")
    parts = rf.attribute(model, batch, (3, 7), tolerance=1e-4)
    kept, total, count = model.transformer.wte(batch["input_ids"]).detach(), 0, 400
    for step in range(count):
        leaf = (kept * (step + 0.5) / count).requires_grad_()
        with by_hand(model, "transformer.wte", lambda raw, leaf=leaf: leaf):
            last = model(**batch).logits[0, -1]
        (grad,) = torch.autograd.grad(last[3] - last[7], leaf)
        total = total + (grad * kept).sum(-1) / count
    np.testing.assert_allclose(parts[0, :-1], total[0], rtol=5e-3, atol=2e-4)


def test_of_a_linear_model_both_ways_give_the_same_and_of_several_sequences_each_its_own():
    torch.manual_seed(0)

    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.out = nn.Embedding(9, 6), nn.Linear(6, 4)

        def forward(self, ids):
            return self.out(self.embed(ids).sum(1))

    model, ids = Bag(), torch.tensor([[1, 2, 3], [4, 4, 5]])
    both = [rf.attribute(model, ids, (0, 2), method=method) for method in ("integrated", "gradient")]
    weight = (model.out.weight[0] - model.out.weight[2]).detach()
    wanted = (model.embed(ids) @ weight).detach()
    for parts in both:
        assert parts.shape == (2, 1, 4)
        np.testing.assert_allclose(parts[:, 0, :3], wanted, atol=1e-6)
        np.testing.assert_allclose(parts[:, 0, 3], float(model.out.bias[0] - model.out.bias[2]), atol=1e-6)
    assert rf.attribute(model, ids, 1, embedding="embed", tokens=[list("abc"), list("dde")]).columns[1][1] == [
        "d",
        "d",
        "e",
        "baseline",
    ]


@pytest.mark.parametrize(
    "measure", [lambda *inputs: rf.patch_sweep(*inputs, (3, 7)), lambda model, clean, _: rf.logit_lens(model, clean)]
)
def test_what_runs_the_model_in_another_thread_meanwhile_gets_what_it_gives_by_itself(measure):
    model, (clean, corrupted) = made("GPT2", "sdpa"), pair("GPT2")
    alone, here, heard = margin(model, corrupted), threading.get_ident(), []

    def hook(*_):
        if threading.get_ident() == here:
            thread = threading.Thread(target=lambda: heard.append(margin(model, corrupted)))
            thread.start()
            thread.join()

    model.lm_head.register_forward_hook(hook)
    wanted = measure(model, clean, corrupted)
    assert len(heard) > 3 and set(heard) == {alone}
    model.lm_head._forward_hooks.clear()
    assert (np.asarray(measure(model, clean, corrupted)) == np.asarray(wanted)).all()


# -- views and bad input -------------------------------------------------------------------------------------------------------
def test_maps_are_views_with_their_labels():
    model, (clean, corrupted) = made("GPT2", "sdpa"), pair("GPT2")
    sweep = rf.patch_sweep(model, clean, corrupted, (3, 7), labels=list("abcdefg"), live=True)
    view = rf.show(sweep)
    seq = view.spec.head["seqs"][0]
    assert (seq["rows"], seq["cols"]) == (["transformer.h.0", "transformer.h.1"], list("abcdefg"))
    (block,) = (block for block in view.spec.blocks.values() if block.shape[-2:] == sweep.shape)
    np.testing.assert_allclose(block.reshape(sweep.shape), sweep.recovered, rtol=1e-5)
    assert "clean" in view.text() and "corrupted" in view.text() and "sum to 1" not in view.text()
    assert repr(sweep).splitlines()[1].split() == ["layer", "\\", "position", *"abcdefg"]


def four_parts(error):
    what, operands, rule, _ = error.value.parts
    return bool(what and operands and rule)


@pytest.mark.parametrize(
    "call",
    [
        lambda model, a, b: rf.patch_sweep(model, a, b, (3, 7), over="neuron"),
        lambda model, a, b: rf.patch_sweep(model, a, b, (3, 7), layers=["h.9"]),
        lambda model, a, b: rf.patch_sweep(model, a, b, (3, 7), over="head", layers=["transformer.h.0.mlp"]),
        lambda model, a, b: rf.patch_sweep(model, a, {"input_ids": torch.tensor([[4, 5]])}, (3, 7)),
        lambda model, a, b: rf.patch_sweep(model, a, b, lambda out: out.logits),
        lambda model, a, b: rf.patch_sweep(torch.jit.script(nn.Linear(3, 3)), a, b, 1),
        lambda model, a, b: rf.patch_sweep(rf.Linear(rf.Dim(3, name="a"), rf.Dim(3, name="b")), a, b, 1),
        lambda model, a, b: rf.patch_sweep(nn.Linear(3, 3), torch.randn(1, 3), torch.randn(1, 3), 1),
        lambda model, a, b: rf.logit_lens(model.transformer, a),
        lambda model, a, b: rf.logit_lens(model, a, layers=["transformer.h.0", "transformer.h.1.attn.c_attn"]),
        lambda model, a, b: rf.attribute(model, a, 3, method="guess"),
        lambda model, a, b: rf.attribute(model, a, 3, baseline=torch.zeros(3)),
        lambda model, a, b: rf.attribute(model, a, 3, embedding="transformer.thing"),
        lambda model, a, b: rf.attribute(nn.Linear(3, 3), torch.randn(1, 3), 1),
    ],
)
def test_what_cannot_be_measured_is_one_error_with_four_parts(call):
    model, (clean, corrupted) = made("GPT2", "sdpa"), pair("GPT2")
    plain = margin(model, clean)
    with pytest.raises((ValueError, TypeError, ShapeError)) as error:
        call(model, clean, corrupted)
    assert four_parts(error)
    assert margin(model, clean) == plain
