"""check_batch finds where padding or neighbours leak, and is silent where results differ by rounding."""

import dataclasses
import types

import pytest
import torch
from interop import batch_families as families
from interop import batch_fifth_set as fifth
from interop import batch_fourth_set as fourth
from interop import batch_third_set as third
from seed import part_of

import rfnb as rf
from rfnb.core.tree import map_nested
from rfnb.interop import check_batch as passes

pytest.importorskip("transformers")
from interop import batch_second_set as second

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
X = torch.randn(3, 7, 6, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def counted(monkeypatch):
    """Of each check of this file: the model runs as often as it says, at most ten times and once for each sequence."""
    runs, called, run = [], passes.called, passes._Check.run

    def checked(self):
        runs.clear()
        check = run(self)
        assert len(runs) == check.passes + check.cached_passes
        assert check.passes <= 10 + self.padded.batch and check.cached_passes <= 5
        return check

    monkeypatch.setattr(passes, "called", lambda *args: runs.append(args) or called(*args))
    monkeypatch.setattr(passes._Check, "run", checked)


def in_dtype(inputs, dtype):
    return map_nested(lambda each: each.to(dtype) if each.is_floating_point() else each, inputs)


@pytest.mark.parametrize("name", families.FAULTS)
def test_a_planted_fault_is_named_at_its_module_with_the_padding_that_it_comes_from(name):
    make, inputs, path, padding = families.FAULTS[name]
    given = inputs()
    check = rf.check_batch(families.made(make), given)
    assert (check.verdict, check.first.path) == ("leak", path)
    if padding is not None:
        source = check.first.source
        assert source.padding == padding
        assert bool(given["mask"][source.batch, source.time]) == (not padding)


@pytest.mark.parametrize("name", part_of(second.FAULTS, 3))
def test_so_is_one_in_models_of_other_styles(name):
    make, inputs, path = second.FAULTS[name]
    check = rf.check_batch(families.made(make), inputs())
    assert (check.verdict, check.first.path) == ("leak", path)
    assert check.first.source.padding


@pytest.mark.parametrize("name", part_of(third.CASES, 3))
def test_the_same_model_leaks_with_a_fault_and_not_without(name):
    model, inputs, path = third.case(name, fault=True)
    check = rf.check_batch(model, inputs)
    assert (check.verdict, check.first.path) == ("leak", path)
    sound, inputs, _ = third.case(name, fault=False)
    assert rf.check_batch(sound, inputs).ok


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", families.SOUND)
def test_a_sound_model_raises_no_alarm(name, dtype):
    make, inputs = families.SOUND[name]
    for seed in part_of(range(3), 3):
        model = families.made(make, seed).to(DTYPES[dtype])
        check = rf.check_batch(model, in_dtype(inputs(seed=seed), DTYPES[dtype]))
        assert check.ok and check.first is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", second.SOUND)
def test_a_sound_model_of_another_style_raises_none(name, dtype):
    make, inputs = second.SOUND[name]
    for seed in part_of(range(3), 3):
        check = rf.check_batch(families.made(make, seed).to(DTYPES[dtype]), in_dtype(inputs(), DTYPES[dtype]))
        assert check.ok and check.first is None


@pytest.mark.parametrize("fault", part_of(fourth.FAULTS, 3))
def test_a_fault_in_a_family_written_from_the_documentation_is_named_at_its_module(fault):
    family, places, how = fourth.FAULTS[fault]
    check = rf.check_batch(*fourth.family(family, fault))
    assert (check.verdict, check.first.path in places) == ("leak", True)
    assert (check.first.source is None) == (how == "cache")
    assert how == "cache" or check.first.source.padding


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("family", "seed"), [*((each, 5) for each in fourth.FAMILIES), ("Tagger", 6), ("Decoder", 6)])
def test_the_same_family_without_a_fault_raises_no_alarm(family, seed, dtype):
    model, inputs = fourth.family(family, seed=seed)
    check = rf.check_batch(model.to(DTYPES[dtype]), in_dtype(inputs, DTYPES[dtype]))
    assert check.ok and check.first is None and check.cached_passes == 4 * (family == "Decoder")


def of_kind(name, sound, dtype=torch.float32):
    build, inputs, module = fifth.FAULTS[name]
    torch.manual_seed(1)
    return build(sound).eval().to(dtype), in_dtype(inputs(), dtype), module


@pytest.mark.parametrize("name", part_of(fifth.FAULTS, 3))
def test_a_network_that_pads_in_its_own_way_leaks_with_its_fault_and_not_without(name):
    model, inputs, module = of_kind(name, sound=False)
    check = rf.check_batch(model, inputs)
    assert (check.verdict, check.first.path) == ("leak", module)
    for dtype in (torch.float32, *DTYPES.values()):
        model, inputs, _ = of_kind(name, True, dtype)
        assert rf.check_batch(model, inputs).verdict in ("same", "rounding")


@pytest.mark.parametrize("fault", ["", "one turn behind"])
def test_a_result_is_opened_whatever_holds_its_fields(fault, monkeypatch):
    frozen = dataclasses.make_dataclass("Frozen", ["past_key_values", "logits"], frozen=True, slots=True)
    for kind in (types.SimpleNamespace, frozen):
        monkeypatch.setattr(fourth, "Said", lambda logits, cache, kind=kind: kind(logits=logits, past_key_values=cache))
        check = rf.check_batch(*fourth.family("Decoder", fault))
        assert (check.verdict, check.cached_passes) == (("leak", 5) if fault else ("rounding", 4))


@pytest.mark.parametrize(
    "make", [second.gpt2, second.llama, second._llama_without_mask, lambda: families.Decoder("loss")]
)
def test_a_larger_batch_takes_a_pass_more_for_each_sequence_and_no_other(make):
    more = []
    for size in (2, 5, 8):
        made = families.padded_ids(lengths=[9, *range(3, size + 2)])
        ids, mask = made["ids"] % 11, made["mask"]
        given = {"input_ids": ids, "attention_mask": mask.long(), "labels": ids.masked_fill(~mask, -100)}
        model = families.made(make)
        given = {"ids": ids, "mask": mask, "labels": ids} if isinstance(model, families.Decoder) else given
        more.append(rf.check_batch(model, given).passes - size)
    assert len(set(more)) == 1 and more[0] <= 10


class Causal(torch.nn.Module):
    """Torch's own layers: their fused code gives NaN where a row sees nothing, as the first ones of a text that is padded on the left."""

    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x, padding):
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.layers(x, mask=mask, src_key_padding_mask=padding)


@pytest.mark.parametrize("size", [3, 9])
def test_a_leak_of_fused_code_is_told_as_such_and_not_sought_in_each_sequence(size):
    padding = torch.arange(size + 4) >= torch.arange(4, size + 4)[:, None] + 1
    x = torch.randn(size, size + 4, 16, generator=torch.Generator().manual_seed(0))
    check = rf.check_batch(families.made(Causal), {"x": x, "padding": padding})
    (leak,) = [way.leak for way in check.ways if way.leak is not None]
    assert check.ok and (leak.path, leak.call) == ("", "fused code, which is not run where each call is recorded")
    assert "For information (left)" in repr(check) and check.passes - size == 8


def test_a_pass_that_has_no_room_for_more_padding_counts_and_the_loss_is_checked_without():
    ids, model = second.IDS, families.made(second.gpt2)
    model.transformer.wpe = torch.nn.Embedding(ids.shape[1], 8)
    check = rf.check_batch(model, second.text(labels=ids.masked_fill(ids == 0, -100)))
    assert [way.name for way in check.ways][2] == "padding refilled" and check.ok
    assert "Not tried with more padding: index out of range in self." in check.remarks


class Scaled(torch.nn.Module):
    """Multiplies and divides by the size of the axis: nothing but another rounding for each size."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(6, dtype=torch.bfloat16))

    def forward(self, x):
        return x * self.weight * x.shape[1] / x.shape[1]


def test_rounding_is_told_from_a_leak_by_what_is_left_in_float64():
    check = rf.check_batch(Scaled(), X.bfloat16(), lengths=[7, 5, 4])
    assert check.verdict == "rounding" and 1e-4 < check.rounded < 1e-2
    assert max(check.ways[0].apart) < 1e-12
    assert "It shrinks with the dtype." in repr(check)


def test_the_step_is_the_call_of_the_cell_and_the_cell_has_the_names_of_its_axes():
    make, inputs, _, _ = families.FAULTS["state after the end"]
    first = rf.check_batch(families.made(make), inputs()).first
    assert first.step == 5 and first.cell == {"batch": 1, "feature": first.cell["feature"]}
    assert (first.source.batch, first.source.time) == (1, 5)


def test_the_cell_is_that_of_both_runs():
    make, inputs, _, _ = families.FAULTS["padding in a mean"]
    model, given = families.made(make).double(), inputs()
    first = rf.check_batch(model, given).first
    kept = []
    model.pool.register_forward_hook(lambda module, args, output: kept.append(output))
    with torch.no_grad():
        model(**given)
        model(given["ids"][1:2, :5], given["mask"][1:2, :5])
    batch, feature = first.cell["batch"], first.cell["feature"]
    assert batch == 1
    assert first.batched == pytest.approx(float(kept[0][batch, feature]), abs=1e-12)
    assert first.alone == pytest.approx(float(kept[1][0, feature]), abs=1e-12)


def test_padding_on_the_side_that_was_not_given_is_told_and_no_alarm():
    check = rf.check_batch(families.made(second.gpt2), second.text())
    assert check.ok and check.first is None
    assert [way.leak.path for way in check.ways if way.leak is not None] == ["transformer"]
    assert "For information (left)" in repr(check)


def test_the_model_is_as_it_was():
    model = families.made(families.Encoder)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    rf.check_batch(model, families.padded_ids())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any("forward" in vars(module) or module.training for module in model.modules())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in model.parameters())


class Ragged(rf.Module):
    def __init__(self, in_dim, out_dim, *, use_mask):
        self.linear, self.lstm, self.use_mask = rf.Linear(in_dim, out_dim), rf.LSTM(out_dim, out_dim), use_mask

    def __call__(self, x):
        time = next(dim for dim in x.dims if dim.is_dynamic())
        state = self.lstm.default_initial_state(batch_dims=[x.dims[0]])
        y, _ = self.lstm(self.linear(x), state=state, spatial_dim=time)
        return rf.reduce_mean(y, axis=time, use_mask=self.use_mask)


@pytest.mark.parametrize("use_mask", [True, False])
def test_a_module_of_rfnb_is_seen_into(use_mask):
    feat, out = rf.Dim(6, name="feat"), rf.Dim(4, name="out")
    torch.manual_seed(0)
    model = rf.as_torch(Ragged(feat, out, use_mask=use_mask), inputs="batch time feat")
    check = rf.check_batch(model.eval(), (X, torch.tensor([7, 5, 4])))
    assert check.ok == use_mask
    if not use_mask:
        assert (check.first.path, check.first.kind, check.first.call) == ("", "Ragged", "mean")


def test_it_is_shown_as_text_page_and_numbers():
    make, inputs, _, _ = families.FAULTS["padding attended"]
    check = rf.check_batch(families.made(make), inputs())
    assert repr(check).startswith('A leak: in float64 it stays. It begins in "layers.1.attn" (Attention), in softmax')
    assert "It comes from padding [batch=1, time=6] (what it holds)." in repr(check)
    page = check._repr_html_()
    assert "<th scope='row'>batch</th>" in page and "layers.1.attn" in page
    assert check.measured.shape == (2, 3) and check.measured[0, 0] < 1e-9 < check.measured[0, 1]
    text = rf.show(check).text()
    assert "layers.1.attn" in " ".join(text.split())


class Drawing(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5)


class Fused(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(6))

    def forward(self, x):
        if self.weight.dtype == torch.float64:
            raise NotImplementedError("\"fused_scan\" not implemented for 'Double'")
        return x * self.weight


def test_a_model_that_draws_is_refused():
    with pytest.raises(RuntimeError) as error:
        rf.check_batch(Drawing(), X, lengths=[7, 5, 4])
    lines = str(error.value).splitlines()
    assert lines[0] == "check_batch: the model is not deterministic."
    assert lines[1].startswith("  apart     ") and lines[2] == "  training  the model"
    assert lines[3:] == ["A difference between two equal runs cannot be distinguished from a leak.", "    model.eval()"]


def test_a_kernel_without_float64_is_told_and_float32_works():
    with pytest.raises(RuntimeError) as error:
        rf.check_batch(Fused(), X, lengths=[7, 5, 4])
    assert str(error.value) == (
        "check_batch: the model cannot run in float64.\n"
        "  error  \"fused_scan\" not implemented for 'Double'\n"
        "A finer dtype distinguishes rounding from a leak; a fused kernel may lack it. Use the plain code "
        'of the model (attn_implementation="eager"), or float32:\n'
        "    rf.check_batch(model, inputs, dtype=torch.float32)"
    )
    assert rf.check_batch(Fused(), X, lengths=[7, 5, 4], dtype=torch.float32).ok


@pytest.mark.parametrize(
    "lengths, said", [(None, "the padding is unknown."), ([7, 7, 7], "the inputs have no padding.")]
)
def test_inputs_without_padding_are_refused(lengths, said):
    with pytest.raises(ValueError) as error:
        rf.check_batch(Fused(), X, lengths=lengths)
    rule = "The check compares sequences with and without padding: it needs sequences of different lengths, with lengths or a mask."
    none = "" if lengths else "The inputs contain neither a mask nor lengths. "
    assert str(error.value) == (
        f"check_batch: {said}\n  input  (3, 7, 6) float32\n{none}{rule}\n"
        "    rf.check_batch(model, x, lengths=[7, 5, 4])    # or inputs with an attention_mask"
    )


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(rf.ShapeError) as error:
        rf.check_batch(Fused(), X, lengths=[7, 9])
    assert str(error.value) == (
        "check_batch: these lengths do not fit the inputs.\n  lengths  [7, 9]\n  input    (3, 7, 6)\n"
        "Each sequence of the batch needs one length, at least 1 and at most the size of the time axis.\n"
        "    rf.check_batch(model, x, lengths=[7, 5, 4])"
    )


def test_packed_sequences_dtypes_and_other_models_are_refused():
    packed = torch.nn.utils.rnn.pack_padded_sequence(X, [7, 5, 4], batch_first=True)
    for call, said in (
        (lambda: rf.check_batch(Fused(), packed), "check_batch: a packed sequence has no padding."),
        (
            lambda: rf.check_batch(Fused(), X, lengths=[7, 5, 4], dtype=torch.bfloat16),
            "this dtype does not distinguish rounding",
        ),
        (lambda: rf.check_batch(len, X), "check_batch: the model is not a torch.nn.Module."),
    ):
        with pytest.raises((ValueError, TypeError)) as error:
            call()
        assert said in str(error.value)


def test_a_function_is_taken_and_a_leak_that_no_call_began_has_its_cell():
    def shifted(x, lengths):
        out = torch.tanh(x)
        return torch.from_numpy(out.numpy() + [[[0.0]], [[0.0]], [[1.0]]]) if len(x) > 1 else out

    assert rf.check_batch(lambda x, lengths: torch.tanh(x), (X, torch.tensor([7, 5, 4]))).verdict == "same"
    check = rf.check_batch(shifted, (X, torch.tensor([7, 5, 4])))
    assert (check.verdict, check.first.kind, check.first.call, check.first.source) == (
        "leak",
        "shifted",
        "its result",
        None,
    )
    assert (check.first.cell["batch"], check.first.cell["time"]) == (2, 0)
    assert check.first.batched == pytest.approx(check.first.alone + 1)
