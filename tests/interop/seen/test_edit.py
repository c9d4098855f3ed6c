"""rf.edit: what a model computes is another value in a block; each number is that of hooks by hand."""

from __future__ import annotations

import contextlib

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rfnb as rf
from rfnb.core.errors import DimError, MissingKeyError, ShapeError

transformers = pytest.importorskip("transformers")
from tests.interop.seen.hf_families import inputs, made  # noqa: E402

# By family: an attention, what projects its heads, a layer and where its hidden state is in what the layer returns.
PLACES = {
    "GPT2": ("transformer.h.1.attn", "transformer.h.1.attn.c_proj", "transformer.h.0"),
    "Llama": ("model.layers.1.self_attn", "model.layers.1.self_attn.o_proj", "model.layers.0"),
    "Bert": (
        "bert.encoder.layer.1.attention.self",
        "bert.encoder.layer.1.attention.output.dense",
        "bert.encoder.layer.0",
    ),
    "Bart": (
        "model.decoder.layers.1.encoder_attn",
        "model.decoder.layers.1.encoder_attn.out_proj",
        "model.decoder.layers.0",
    ),
    "T5": ("decoder.block.1.layer.1.EncDecAttention", "decoder.block.1.layer.1.EncDecAttention.o", "decoder.block.0"),
}
EACH = pytest.mark.parametrize("family", PLACES)


def logits(model, batch):
    with torch.no_grad():
        return model(**batch).logits


@contextlib.contextmanager
def by_hand(model, path, change, *, before=False):
    """A hook that changes the first tensor that a module gets or returns."""
    module = model.get_submodule(path)

    def hook(module, args, output):
        return change(output) if isinstance(output, torch.Tensor) else (change(output[0]), *output[1:])

    handle = module.register_forward_pre_hook(lambda _, args: (change(args[0]), *args[1:])) if before else None
    handle = handle or module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def same(a, b):
    torch.testing.assert_close(a, b, atol=2e-4, rtol=2e-4)


def without_head(raw, head, heads):
    out = raw.clone().unflatten(-1, (heads, -1))
    out[..., head, :] = 0
    return out.flatten(-2)


@EACH
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
@pytest.mark.parametrize("part", ["weights", "heads"])
def test_an_ablated_head_gives_nothing_to_its_projection(family, implementation, part):
    if (family, part) == ("T5", "heads"):
        implementation = "sdpa"
    model, batch = made(family, implementation), inputs(family)
    attention, projection, _ = PLACES[family]
    heads = 2 if family == "GPT2" else 4
    with by_hand(model, projection, lambda raw: without_head(raw, 1, heads), before=True):
        wanted = logits(model, batch)
    plain = logits(model, batch)
    with rf.edit(model, {f"{attention}.{part}[head=1]": 0}), rf.record(model=model) as trace:
        got = logits(model, batch)
    same(got, wanted)
    assert (got - plain).abs().max() > 1e-3
    if part == "weights":
        weights = trace.attention[attention].raw_tensor
        assert not weights[:, 1].any() and weights[:, 0].any()


@EACH
def test_a_row_of_weights_is_what_the_softmax_gives(family, monkeypatch):
    model, batch = made(family, "eager"), inputs(family)
    attention = PLACES[family][0]
    row = torch.arange(1.0, 8) / 28
    original, count = F.softmax, []
    path = {"Bart": 5, "T5": 5}.get(family, 1)  # of the softmaxes of all attentions, in the order of the calls

    def softmax(*args, **kwargs):
        out = original(*args, **kwargs)
        count.append(1)
        if len(count) == path + 1:
            out = out.clone()
            out[:, 0, 2] = row
        return out

    with monkeypatch.context() as patched:
        patched.setattr(F, "softmax", softmax)
        wanted = logits(model, batch)
    for implementation in ("eager", "sdpa"):
        other = made(family, implementation)
        with rf.edit(other, {f"{attention}.weights[head=0, target=2]": row}), rf.record(model=other) as trace:
            same(logits(other, batch), wanted)
        same(trace.attention[attention].raw_tensor[:, 0, 2], row.expand(3, -1))


@EACH
def test_hidden_states_at_positions_are_set_scaled_and_steered(family):
    model, batch = made(family), inputs(family)
    layer = PLACES[family][2]
    direction = torch.linspace(-1, 1, 16)
    name = "target" if family in ("Bart", "T5") else "time"

    def at(change):
        def changed(raw):
            out = raw.clone()
            out[:, 1:3] = change(out[:, 1:3])
            return out

        return changed

    for value, change in (
        (0.5, lambda raw: torch.full_like(raw, 0.5)),
        (lambda raw: 2 * raw, lambda raw: 2 * raw),
        (lambda raw: raw + 3 * direction, lambda raw: raw + 3 * direction),
        (direction, lambda raw: direction.expand_as(raw)),
    ):
        with by_hand(model, layer, at(change)):
            wanted = logits(model, batch)
        with rf.edit(model, {f"{layer}[{name}=1:3]": value}), rf.record(model=model, values=True) as trace:
            assert torch.equal(logits(model, batch), wanted)
        ((_, kept), *_) = trace.modules[layer][0].values["outputs"]
        assert torch.equal(kept.raw_tensor[:, 1:3], change(kept.raw_tensor[:, 1:3])) or callable(value)


@EACH
def test_a_recorded_state_is_patched_into_another_run(family):
    model, batch = made(family), inputs(family)
    layer = PLACES[family][2]
    name = "target" if family in ("Bart", "T5") else "time"
    ids = "decoder_input_ids" if family in ("Bart", "T5") else "input_ids"
    corrupted = {**batch, ids: batch[ids].roll(1, 0)}
    with rf.record(model=model, values=True) as clean:
        logits(model, batch)
    ((_, kept), *_) = clean.modules[layer][0].values["outputs"]

    def patched(raw):
        out = raw.clone()
        out[:, 2] = kept.raw_tensor[:, 2]
        return out

    with by_hand(model, layer, patched):
        wanted = logits(model, corrupted)
    with rf.edit(model, {f"{layer}[{name}=2]": clean}):
        assert torch.equal(logits(model, corrupted), wanted)

    def from_another(raw):
        out = raw.clone()
        out[:, 0] = kept.raw_tensor[:, 2]
        return out

    with by_hand(model, layer, from_another):
        wanted = logits(model, corrupted)
    with rf.edit(model, {f"{layer}[{name}=0]": (clean, f"{layer}[{name}=2]")}):
        assert torch.equal(logits(model, corrupted), wanted)


def test_attention_is_patched_in_from_a_recording():
    model, batch = made("GPT2", "sdpa"), inputs("GPT2", ragged=False)
    other = {**batch, "input_ids": batch["input_ids"].roll(1, 0)}
    with rf.record(model=model) as clean:
        logits(model, batch)
    with rf.edit(model, {"h.1.attn.weights": clean}), rf.record(model=model) as trace:
        logits(model, other)
    same(trace.attention["h.1.attn"].raw_tensor, clean.attention["h.1.attn"].raw_tensor)


@EACH
def test_logits_are_changed_where_they_are_returned(family):
    model, batch = made(family), inputs(family)
    plain = logits(model, batch)
    with rf.edit(model, {"logits[vocab=[3, 5]]": -torch.inf, "logits[batch=0, vocab=0]": lambda raw: raw + 1}):
        got = logits(model, batch)
    wanted = plain.clone()
    wanted[..., [3, 5]] = -torch.inf
    wanted[0, :, 0] += 1
    assert torch.equal(got, wanted)


def test_an_entry_of_the_cache_is_changed_in_each_step():
    model = made("Llama", "sdpa")
    ids = torch.tensor([[4, 7, 9, 5]])
    edits = {"layers.0.self_attn.values[source=1]": 0, "layers.1.self_attn.keys[source=0, head=1]": 2}
    options = {
        "max_new_tokens": 4,
        "do_sample": False,
        "pad_token_id": 2,
        "return_dict_in_generate": True,
        "output_logits": True,
    }
    with rf.edit(model, edits):
        cached = model.generate(ids, **options)
        plain = model(cached.sequences)
    for step, scores in enumerate(cached.logits):  # without a cache all keys and values are made in one call
        same(scores, plain.logits[:, 3 + step])
    assert not torch.allclose(plain.logits, logits(model, {"input_ids": cached.sequences}), atol=1e-2)


def test_one_step_of_generate_is_edited():
    model, ids = made("GPT2"), torch.tensor([[4, 7, 9, 5]])
    options = {"max_new_tokens": 5, "do_sample": False, "pad_token_id": 2}
    plain = model.generate(ids, **options)
    with rf.edit(model, {"lm_head[vocab=11, step=2]": 1e4}), rf.record(model=model) as trace:
        forced = model.generate(ids, **options)
    assert forced[0, 6] == 11 and torch.equal(forced[0, :6], plain[0, :6])
    assert trace.beams["generate"].best(0).labels[2] == "11"


# -- models of torch -----------------------------------------------------------------------------------------------------------
class Head(nn.Module):
    """Attention as people write it in a lecture, called attention by its path."""

    def __init__(self):
        super().__init__()
        self.key, self.query, self.value = nn.Linear(8, 4), nn.Linear(8, 4), nn.Linear(8, 4)

    def forward(self, x):
        energy = self.query(x) @ self.key(x).transpose(-2, -1) * 4**-0.5
        return F.softmax(energy, dim=-1) @ self.value(x)


class Lecture(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.attn, self.out = nn.Embedding(9, 8), Head(), nn.Linear(4, 9)

    def forward(self, ids):
        return self.out(self.attn(self.embed(ids)))


class Cells(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.LSTMCell(8, 5), nn.Linear(5, 3)

    def forward(self, x):
        h = c = torch.zeros(x.shape[0], 5)
        outs = []
        for frame in x.unbind(1):
            h, c = self.cell(frame, (h, c))
            outs.append(self.out(h))
        return torch.stack(outs, 1)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(3)


def test_attention_of_a_lecture_is_edited_row_by_row():
    model, ids = Lecture().eval(), torch.tensor([[1, 2, 3, 4, 5], [5, 6, 7, 8, 1]])
    with rf.edit(model, {"attn.weights[target=-1]": [0, 0, 1, 0, 0]}), rf.record(model=model) as trace:
        got = model(ids)
    x = model.embed(ids)
    torch.testing.assert_close(got[:, -1], model.out(model.attn.value(x)[:, 2]))
    assert torch.equal(got[:, :-1], model(ids)[:, :-1])
    assert trace.attention["attn"].raw_tensor[0, -1].tolist() == [0, 0, 1, 0, 0]


def test_a_cell_is_edited_in_one_call_of_a_loop():
    model, x = Cells().eval(), torch.randn(2, 6, 8)
    plain = model(x)
    with rf.edit(model, {"cell.0[step=2]": 0, "cell.1[step=2, feature=3]": 1.5}):
        got = model(x)
    h = c = torch.zeros(2, 5)
    for step, frame in enumerate(x.unbind(1)):
        h, c = model.cell(frame, (h, c))
        if step == 2:
            h, c = torch.zeros_like(h), c.index_fill(1, torch.tensor([3]), 1.5)
        assert torch.equal(got[:, step], model.out(h))
    assert torch.equal(got[:, :2], plain[:, :2]) and not torch.equal(got[:, 3:], plain[:, 3:])


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_the_fast_path_of_a_layer_is_left_for_what_is_edited_in_it(grad, padded):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    model, x = nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 5, 8)
    mask = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]) if padded else None
    with torch.set_grad_enabled(True), by_hand(model, "layers.1.linear1", lambda raw: 0 * raw):
        wanted = model(x, src_key_padding_mask=mask)
    with torch.set_grad_enabled(grad), rf.edit(model, {"layers.1.linear1": 0}):
        got = model(x, src_key_padding_mask=mask)
    real = slice(None) if mask is None else ~mask
    torch.testing.assert_close(got[real], wanted[real], atol=1e-5, rtol=1e-5)
    assert torch.backends.mha.get_fastpath_enabled()


def test_heads_of_multi_head_attention_are_ablated_on_each_path():
    model, x = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(2, 5, 8)
    with by_hand(model, "out_proj", lambda raw: raw):  # it is not called, so its input is made by hand
        query, key, value = F.linear(x, model.in_proj_weight, model.in_proj_bias).chunk(3, -1)
    weights = torch.softmax((query[..., 4:] @ key[..., 4:].transpose(1, 2)) * 0.5, -1) @ value[..., 4:]
    wanted = F.linear(torch.cat([torch.zeros_like(weights), weights], -1), model.out_proj.weight, model.out_proj.bias)
    for need_weights in (False, True):
        for grad in (False, True):
            with torch.set_grad_enabled(grad), rf.edit(model, {"weights[head=0]": 0}):
                got, _ = model(x, x, x, need_weights=need_weights)
            torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)


# -- what an edit leaves as it was ---------------------------------------------------------------------------------------------
@EACH
def test_after_a_block_the_model_is_bit_for_bit_as_before_also_after_an_error(family):
    model, batch = made(family, "sdpa"), inputs(family)
    plain, own = logits(model, batch), {id(each): dict(vars(each)) for each in model.modules()}
    attention, _, layer = PLACES[family]
    for value in (0, lambda raw: 1 / 0):
        with contextlib.suppress(ZeroDivisionError), rf.edit(model, {f"{attention}.weights": value, layer: value}):
            logits(model, batch)
    assert torch.equal(logits(model, batch), plain)
    for each in model.modules():
        assert "forward" not in vars(each) or "forward" in own[id(each)]
        assert not each._forward_hooks and not each._forward_pre_hooks


def test_gradients_and_random_numbers_are_those_of_a_run_without_edits_where_nothing_is_edited():
    model, batch = made("GPT2", "sdpa", attn_pdrop=0.0, resid_pdrop=0.3), inputs("GPT2")
    model.train()

    def gradients(edits):
        model.zero_grad()
        torch.manual_seed(1)
        with rf.edit(model, edits) if edits else contextlib.nullcontext():
            model(**batch).logits.square().mean().backward()
        return torch.rand(3), {name: p.grad.clone() for name, p in model.named_parameters()}

    plain_draws, plain = gradients(None)
    draws, same_grads = gradients({"h.0": lambda raw: raw, "h.1.attn.heads": lambda raw: raw})
    assert torch.equal(draws, plain_draws)
    assert all(torch.equal(plain[name], same_grads[name]) for name in plain)


def test_gradients_go_through_what_is_edited():
    model, batch = made("GPT2", "sdpa"), inputs("GPT2")
    scale = torch.ones((), requires_grad=True, dtype=torch.float64)
    model.double()
    with rf.edit(model, {"h.1.attn.weights[head=1]": lambda raw: scale * raw}):
        loss = model(**batch).logits.square().mean()
    loss.backward()

    def at(value):
        with torch.no_grad(), rf.edit(model, {"h.1.attn.weights[head=1]": lambda raw: value * raw}):
            return model(**batch).logits.square().mean().item()

    assert scale.grad.item() == pytest.approx((at(1 + 1e-5) - at(1 - 1e-5)) / 2e-5, rel=1e-5)


def test_blocks_in_blocks_edit_one_after_the_other():
    model, batch = made("GPT2"), inputs("GPT2")
    with rf.edit(model, {"h.0": 1.0}), rf.edit(model, {"h.0": lambda raw: raw + 1}):
        both = logits(model, batch)
    with rf.edit(model, {"h.0": 2.0}):
        assert torch.equal(logits(model, batch), both)


# -- bad input -----------------------------------------------------------------------------------------------------------------
def parts(error):
    what, operands, rule, _ = error.parts
    return bool(what and operands and rule)


@pytest.mark.parametrize(
    ("edits", "kind", "words"),
    [
        ({"h.7": 0}, MissingKeyError, 'no module "h.7"'),
        ({"attn": 0}, MissingKeyError, 'several modules end in "attn"'),
        ({"h.1[": 0}, ValueError, "says no place"),
        ({"h.1[time 3]": 0}, ValueError, "says no place"),
        ({"h.1[place=3]": 0}, DimError, 'no dim "place"'),
        ({"h.1[time=9]": 0}, IndexError, "index out of range"),
        ({"h.1": torch.zeros(5)}, ShapeError, "does not fit"),
        ({"h.1.attn.weights[head=0]": [1, 2]}, ShapeError, "does not fit"),
        ({"h.1": "much"}, ValueError, "cannot be replaced by this"),
        ({"h.1.thing": 0}, ValueError, "is not a result of this module"),
        ({"h.1.mlp.weights": 0}, ValueError, "no weights were computed"),
        ({}, TypeError, "edit: no places"),
    ],
)
def test_what_cannot_be_edited_is_one_error_with_four_parts(edits, kind, words):
    model, batch = made("GPT2"), inputs("GPT2")
    plain = logits(model, batch)
    with pytest.raises(kind) as error, rf.edit(model, edits):
        logits(model, batch)
    assert words in str(error.value) and parts(error.value)
    assert torch.equal(logits(model, batch), plain)


def test_a_patch_from_a_run_of_another_model_or_size_is_refused():
    model, other = made("GPT2"), made("Llama")
    with rf.record(model=other, values=True) as trace:
        logits(other, inputs("Llama"))
    with pytest.raises(ValueError, match="is not in this recording") as error, rf.edit(model, {"h.1": trace}):
        pass
    assert parts(error.value)
    with rf.record(model=model, values=True) as trace:
        logits(model, inputs("GPT2"))
    with (
        pytest.raises(ShapeError, match="has another shape in that recording") as error,
        rf.edit(model, {"h.1": trace}),
    ):
        logits(model, {"input_ids": torch.tensor([[4, 5]])})
    assert parts(error.value)


def without_python(plain, kind):
    if kind == "compiled":
        return torch.compile(plain, backend="eager")
    if kind == "scripted":
        return torch.jit.script(plain)
    return torch.ao.quantization.quantize_dynamic(plain, {nn.LSTM})


@pytest.mark.parametrize("kind", ["compiled", "scripted"])
def test_what_runs_no_python_of_its_own_is_refused(kind):
    model = without_python(nn.Sequential(nn.Linear(4, 3), nn.Tanh()), kind)
    with pytest.raises(ValueError, match=f"edit: this module is {kind}") as error, rf.edit(model, {"0": 0}):
        pass
    assert parts(error.value)


@pytest.mark.parametrize("kind", ["compiled", "scripted", "quantised"])
@pytest.mark.filterwarnings("ignore")  # a recording says of such parts that it does not see into them
def test_what_is_around_and_beside_a_part_without_python_can_be_edited(kind):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.layers, self.part = nn.Linear(4, 4), nn.ModuleList([Scaled()]), nn.LSTM(4, 4)

        def forward(self, x):
            h = self.part(self.layers[0](self.embed(x)))
            return h[0] if isinstance(h, tuple) else h

    model = Model().eval()
    if kind != "quantised":
        model.part = Scaled()
    part = without_python(nn.ModuleDict({"own": model.part}) if kind == "quantised" else model.part, kind)
    model.part = part["own"] if kind == "quantised" else part
    x = torch.randn(3, 2, 4)
    wanted = model.part(model.layers[0](2 * model.embed(x)))
    with rf.edit(model, {"embed": lambda h: 2 * h}):
        assert torch.equal(model(x), wanted[0] if kind == "quantised" else wanted)
    number = {"quantised": 1e-4}.get(kind, 1e-6)
    sweep = rf.patch_sweep(model, x, x + 1, lambda h: h.sum(), over="layer", layers=["layers.0"])
    assert sweep.values[0, 0] == pytest.approx(sweep.beside["clean"], rel=number)
    if kind == "quantised":  # what it gets and gives are tensors of the model
        with rf.edit(model, {"part.input": 0}):
            assert torch.equal(model(x), model.part(torch.zeros_like(x))[0])
    place = {"compiled": "part", "scripted": "part.up", "quantised": "part.forget_gate"}[kind]
    with pytest.raises(ValueError, match=f"edit: this module is {kind}") as error, rf.edit(model, {place: 0}):
        pass
    assert parts(error.value)
    with pytest.raises(ValueError, match=f"attribute: this module is {kind}") as error:
        rf.attribute(model, x, lambda h: h.sum())
    assert parts(error.value)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 4)

    def forward(self, x):
        return 2 * self.up(x)


def test_a_transform_of_functions_is_refused_and_a_checkpoint_too():
    model = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
    with pytest.raises(RuntimeError, match="runs under torch.func"), rf.edit(model, {"0": 0}):
        torch.func.vmap(model)(torch.randn(2, 4))
    gpt = made("GPT2").train()
    gpt.gradient_checkpointing_enable()
    with pytest.raises(RuntimeError, match="computed again in the backward pass"), rf.edit(gpt, {"h.1": 0}):
        gpt(**inputs("GPT2"), use_cache=False)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_of_torch_is_refused_too(reentrant):
    model, x = nn.Sequential(nn.Linear(4, 3), nn.Tanh()), torch.randn(2, 4, requires_grad=True)
    with (
        pytest.raises(RuntimeError, match="computed again in the backward pass") as error,
        rf.edit(model, {"0": 0}),
    ):
        torch.utils.checkpoint.checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    assert parts(error.value)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_is_refused_before_its_gradients_could_be_those_without_the_edit(reentrant):
    """The backward pass would come after the block, and compute the module once more as it is."""
    model, x = nn.Sequential(nn.Linear(4, 3), nn.Tanh()), torch.randn(2, 4, requires_grad=True)
    with pytest.raises(RuntimeError, match="computed again in the backward pass"), rf.edit(model, {"0": 0}):
        torch.utils.checkpoint.checkpoint(model, x, use_reentrant=reentrant)
    with torch.no_grad(), rf.edit(model, {"0": 0}):
        assert not torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).any()


def test_a_function_of_attention_without_weights_is_refused():
    model = made("GPT2")
    from transformers import AttentionInterface

    def linear(module, query, key, value, mask, **options):
        return (query @ (key.transpose(2, 3) @ value)).transpose(1, 2), None

    AttentionInterface.register("linear", linear)
    model.set_attn_implementation("linear")
    with pytest.raises(ValueError, match="no weights were computed") as error, rf.edit(model, {"h.1.attn.weights": 0}):
        logits(model, inputs("GPT2"))
    assert "set_attn_implementation" in str(error.value) and "linear" in str(error.value)


def test_a_place_that_nothing_came_to_is_a_warning():
    model = made("GPT2")
    with pytest.warns(UserWarning, match="nothing was edited at some of the places"), rf.edit(model, {"h.1": 0}):
        pass
