"""Arrays of every library in every view: the same spec as of NumPy's; what is no array of real numbers is a sentence."""

import textwrap

import numpy as np
import pytest
import torch
from asserting import raises_message
from torch import nn

import rfnb as rf
from rfnb.viz.kinds import spec_of
from rfnb.viz.spec import to_json


class JaxLike:
    """An array whose values come by `__array__`."""

    def __init__(self, array):
        self._array, self.shape, self.dtype, self.ndim, self.nbytes = (
            array,
            array.shape,
            array.dtype,
            array.ndim,
            array.nbytes,
        )

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self._array, dtype)


class OnlyDlpack:
    """An array whose values come by `__dlpack__`."""

    def __init__(self, array):
        self._tensor, self.shape, self.dtype, self.nbytes = (
            torch.from_numpy(array),
            array.shape,
            array.dtype,
            array.nbytes,
        )

    def __dlpack__(self, **options):
        return self._tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._tensor.__dlpack_device__()


def turned(array):
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(array, -1, 0))).movedim(0, -1)


def of_inference(array):
    with torch.inference_mode():
        return torch.from_numpy(array).clone()


def read_only(array):
    out = array.copy()
    out.flags.writeable = False
    return out


# Values are eighths, which every float type holds.
ARRAYS = {
    "numpy float64": lambda array: array.astype(np.float64),
    "numpy float16": lambda array: array.astype(np.float16),
    "numpy, the other way round": lambda array: np.asfortranarray(array),
    "numpy, read only": read_only,
    "torch": torch.from_numpy,
    "torch with gradient": lambda array: torch.from_numpy(array).requires_grad_(),
    "torch of a graph": lambda array: torch.from_numpy(array).requires_grad_() * 1,
    "a parameter": lambda array: nn.Parameter(torch.from_numpy(array)),
    "torch bfloat16": lambda array: torch.from_numpy(array).bfloat16(),
    "torch float16": lambda array: torch.from_numpy(array).half(),
    "torch float64 with gradient": lambda array: torch.from_numpy(array).double().requires_grad_(),
    "torch, not contiguous": turned,
    "torch, expanded": lambda array: torch.from_numpy(array)[None].expand(2, *array.shape)[0],
    "torch in inference": of_inference,
    "torch, negative bit": lambda array: torch.from_numpy(array * -1)._neg_view(),
    "by __array__": JaxLike,
    "by __dlpack__": OnlyDlpack,
    "lists": lambda array: array.tolist(),
    "tuples": lambda array: tuple(map(tuple, array.tolist())) if array.ndim == 2 else tuple(array.tolist()),
    "a list of tensors without axes": lambda array: [
        [torch.tensor(each, requires_grad=True) for each in row] if array.ndim == 2 else torch.tensor(row) for row in array.tolist()
    ],
}  # fmt: skip
WEIGHTS = np.random.default_rng(0).integers(0, 8, (5, 7)).astype(np.float32) / 8
LOSSES = np.array([3.5, 2.25, 1.125], np.float32)
VIEWS = {
    "attention": (WEIGHTS, lambda array: spec_of("attention", array)),
    "states": (WEIGHTS, lambda array: spec_of("states", {"h": array, "c": array})),
    "distribution": (WEIGHTS, lambda array: spec_of("distribution", array, estimated_type="logits")),
    "curves": (LOSSES, lambda array: spec_of("curves", {"loss": array})),
    "curves of x and y": (LOSSES, lambda array: spec_of("curves", {"loss": (array, array)})),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("view", VIEWS)
def test_every_array_gives_the_spec_of_numpy(view, kind):
    values, made_of = VIEWS[view]
    assert to_json(made_of(ARRAYS[kind](values.copy()))) == to_json(made_of(values))


@pytest.mark.parametrize("kind", ARRAYS)
def test_every_array_is_one_of_dims_and_of_beams(kind):
    make = ARRAYS[kind]
    row = (
        rf.viz.dims(make(WEIGHTS.copy()), names="target source").spec.head["rows"][0]
        if "list" not in kind and kind != "tuples"
        else None
    )
    if row is not None:
        plain = rf.viz.dims(WEIGHTS, names="target source").spec.head["rows"][0]
        assert row["stats"] == plain["stats"] and row["dims"] == plain["dims"]
    whole = make(np.array([[1, 0], [2, 1]], np.float32))
    of_beams = rf.viz.beams(tokens=[[5, 2], [1, 1]], parents=[[0, 0], [0, 1]], scores=whole).spec
    assert to_json(of_beams) == to_json(
        rf.viz.beams(tokens=[[5, 2], [1, 1]], parents=[[0, 0], [0, 1]], scores=[[1, 0], [2, 1]]).spec
    )


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_whole_numbers_are_values_too(dtype):
    array = (WEIGHTS > 0.5).astype(dtype)
    for view in ("attention", "states"):
        assert to_json(VIEWS[view][1](torch.from_numpy(array))) == to_json(VIEWS[view][1](array.astype(np.float32)))


@pytest.mark.parametrize("kind", ["torch with gradient", "torch bfloat16", "by __array__", "lists"])
def test_figures_take_every_array(kind):
    plt = pytest.importorskip("matplotlib.pyplot")
    make = ARRAYS[kind]
    figure, axes = plt.subplots(1, 3)
    image = rf.plot.attention(make(WEIGHTS.copy()), ax=axes[0])
    assert np.array_equal(np.asarray(image.get_array()), WEIGHTS)
    rf.plot.states(make(WEIGHTS.copy()), ax=axes[1])
    rf.plot.curves({"loss": make(LOSSES.copy())}, ax=axes[2])
    assert np.array_equal(axes[2].get_lines()[0].get_ydata(), LOSSES)
    plt.close(figure)


def test_labels_and_lengths_and_masks_are_arrays_too():
    ids, lengths, mask = torch.tensor([[4, 5, 6], [7, 8, 9]]), torch.tensor([3, 2]), torch.ones(2, 3, 3).tril().bool()
    weights = torch.rand(2, 3, 3)
    options = {"dims": "batch target source", "source_lengths": lengths, "target_lengths": lengths, "mask": mask}
    spec = rf.viz.attention(weights, tokens=ids, **options).spec
    assert [(seq["rows"], seq["col_len"]) for seq in spec.head["seqs"]] == [(["4", "5", "6"], 3), (["7", "8"], 2)]
    plain = {**options, "source_lengths": [3, 2], "target_lengths": [3, 2], "mask": mask.numpy()}
    assert to_json(spec) == to_json(rf.viz.attention(weights.numpy(), tokens=ids.tolist(), **plain).spec)


def test_a_reference_is_any_array():
    logits = torch.randn(2, 4, 5)
    targets = torch.tensor([[0, 1, 2, 3], [4, 3, 2, -100]])
    for given in (targets.numpy(), targets.tolist(), list(targets), JaxLike(targets.numpy())):
        spec = rf.viz.distribution(logits, given, estimated_type="logits").spec
        assert to_json(spec) == to_json(rf.viz.distribution(logits, targets, estimated_type="logits").spec)


# -- Names -------------------------------------------------------------------------------------------------------------


def test_names_are_one_text_or_a_list():
    weights = np.random.default_rng(0).random((3, 1, 2, 5, 7), np.float32)
    spec = rf.viz.attention(weights, dims="batch 1 head target source").spec
    assert to_json(spec) == to_json(rf.viz.attention(weights[:, 0], dims=["batch", "head", "target", "source"]).spec)
    assert to_json(rf.viz.states(weights[:, 0, 0], dims="batch step unit").spec) == to_json(
        rf.viz.states(weights[:, 0, 0]).spec
    )


@pytest.mark.parametrize(
    "make", [lambda x, names: (x, {"dims": names}), lambda x, names: (rf.named(x, names), {})], ids=["plain", "named"]
)
def test_short_names_mean_what_long_ones_do(make):
    weights, states = torch.rand(3, 2, 5, 7), torch.rand(3, 5, 4)
    long, options = make(weights, "batch head target source")
    spec = rf.viz.attention(long, **options).spec
    for names in ("b h t s", "b h q k"):
        short, options = make(weights, names)
        other = rf.viz.attention(short, **options).spec
        assert [(entry["label"], entry["at"]) for entry in other.head["maps"]] == [
            (entry["label"], entry["at"]) for entry in spec.head["maps"]
        ]
        assert all(np.array_equal(block, other.blocks[name], equal_nan=True) for name, block in spec.blocks.items())
    short, options = make(states, "b t d")
    of_states = rf.viz.states({"h": short}, **options).spec
    assert np.array_equal(of_states.blocks["track0"], states.numpy()) and len(of_states.head["seqs"]) == 3
    scores, options = make(states, "b t v")
    output = rf.viz.distribution(scores, axis="v", estimated_type="logits", **options).spec
    assert [seq["len"] for seq in output.head["seqs"]] == [5, 5, 5]


def refused(said):
    kind, _, text = textwrap.dedent(said).strip().partition(": ")
    return raises_message({"TypeError": TypeError, "ValueError": ValueError, "ShapeError": rf.ShapeError}[kind], text)


def test_a_composed_axis_needs_its_sizes():
    with refused("""
        ValueError: attention: (batch head) is an axis of several dims.
          array  (6, 5, 7)
          names  (batch head) target source
        To take it apart, their sizes are needed:
            rf.named(x, "(batch head) target source", dims={"batch": ...})
    """):
        rf.viz.attention(np.ones((6, 5, 7)), dims="(batch head) target source")
    weights = rf.named(np.ones((6, 5, 7), np.float32), "(batch head) target source", dims={"batch": 3})
    spec = rf.viz.attention(weights).spec
    assert spec.blocks[spec.head["maps"][1]["block"]].shape == (3, 5, 7)


# -- What is no array of real numbers ----------------------------------------------------------------------------------
NO_ARRAYS = {
    "complex": (lambda: torch.ones(5, 7, dtype=torch.complex64), """
        TypeError: viz: these numbers are complex.
          given  complex64 (5, 7)
        A view draws real numbers: the magnitude, the phase, or one part.
            abs(x)    # or x.real, x.imag
     """),
    "sparse": (lambda: torch.ones(5, 7).to_sparse(), """
        TypeError: viz: the tensor is sparse (sparse_coo): most of its entries are not there.
          given  torch.Tensor (5, 7) torch.float32
        What is named and drawn are plain arrays of numbers.
            x.to_dense()
     """),
    "sparse rows": (lambda: torch.ones(5, 7).to_sparse_csr(), """
        TypeError: viz: the tensor is sparse (sparse_csr): most of its entries are not there.
          given  torch.Tensor (5, 7) torch.float32
        What is named and drawn are plain arrays of numbers.
            x.to_dense()
     """),
    "quantised": (lambda: torch.quantize_per_tensor(torch.ones(5, 7), 0.1, 0, torch.qint8), """
        TypeError: viz: the tensor is quantised: it holds codes, not numbers.
          given  torch.Tensor (5, 7) torch.qint8
        What is named and drawn are plain arrays of numbers.
            x.dequantize()
     """),
    "meta": (lambda: torch.ones(5, 7, device="meta"), """
        TypeError: viz: the tensor has no values: it is on the meta device.
          given  torch.Tensor (5, 7) torch.float32
        What is named and drawn are plain arrays of numbers.
            x.to_empty(device='cpu')    # or load the values
     """),
    "masked": (lambda: np.ma.masked_less(np.arange(35.0).reshape(5, 7), 3), """
        TypeError: viz: some entries of the array are masked.
          given   numpy.ma.MaskedArray (5, 7) float64
          masked  3
        What is under a mask is no value. Say what is there:
            x.filled(numpy.nan)    # or mask=~numpy.ma.getmaskarray(x) of rf.viz.attention
     """),
    "text": (lambda: np.array([["a", "b"]]), """
        TypeError: viz: this is no array of numbers.
          given  numpy.ndarray (1, 2) <U1
        Arrays are those of torch, NumPy and others (`__array__`, `__dlpack__`), and nested lists of numbers;
        the lists of one level are equally long.
            np.asarray(values, dtype='float32')
     """),
    "lists of different lengths": (lambda: [[1.0, 2.0], [3.0]], """
        TypeError: viz: this is no array of numbers.
          given  list
        Arrays are those of torch, NumPy and others (`__array__`, `__dlpack__`), and nested lists of numbers;
        the lists of one level are equally long.
            np.array([row + [0] * (2 - len(row)) for row in values])    # filled up; lengths=[...] says how long
     """),
    "anything": (lambda: object(), """
        TypeError: viz: this is no array of numbers.
          given  object
        Arrays are those of torch, NumPy and others (`__array__`, `__dlpack__`), and nested lists of numbers;
        the lists of one level are equally long.
            np.asarray(values, dtype='float32')
     """),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor", "ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("kind", NO_ARRAYS)
@pytest.mark.parametrize("view", ["attention", "states", "distribution"])
def test_what_is_no_array_of_numbers(view, kind):
    make, said = NO_ARRAYS[kind]
    with refused(said):
        VIEWS[view][1](make())


# -- Tuples, as models give them ---------------------------------------------------------------------------------------


def attentions(layers=12, batch=3, heads=2, target=5, source=7, seed=0):
    return tuple(
        torch.rand(batch, heads, target, source, generator=torch.Generator().manual_seed(seed + i))
        for i in range(layers)
    )


def test_a_tuple_of_attentions_is_one_of_layers():
    given = attentions()
    spec = rf.viz.attention(given).spec
    assert spec.head["layers"] == [f"layer {index}" for index in range(12)] and spec.head["heads"] == [
        "head 0",
        "head 1",
    ]
    for entry in spec.head["maps"]:
        layer, head = entry["at"]
        assert np.array_equal(spec.blocks[entry["block"]], given[layer][:, head].numpy())
    named = rf.viz.attention(given, dims="batch head target source").spec
    assert (
        to_json(named)
        == to_json(spec)
        == to_json(rf.viz.attention({f"layer {i}": w for i, w in enumerate(given)}).spec)
    )
    stacked = rf.viz.attention(given, dims="layer batch head target source").spec
    assert [entry["at"] for entry in stacked.head["maps"]] == [entry["at"] for entry in spec.head["maps"]]
    of_named = rf.viz.attention(rf.named(given, "batch head target source")).spec
    assert [to_json(each)["blocks"] for each in (of_named, spec)] == [to_json(spec)["blocks"]] * 2


def test_tuples_of_layers_in_a_dict_and_on_a_slider():
    spec = rf.viz.attention({"encoder": attentions(2), "cross": attentions(2, seed=5)}).spec
    assert spec.head["layers"] == ["encoder, layer 0", "encoder, layer 1", "cross, layer 0", "cross, layer 1"]
    slid = rf.viz.attention([attentions(2), attentions(2, seed=5)], slider="epoch").spec
    assert slid.head["slider"] == {"name": "epoch", "labels": ["0", "1"]} and slid.head["layers"] == [
        "layer 0",
        "layer 1",
    ]
    assert len(slid.head["maps"]) == 8


def of_generate(prompt, steps, layers=2, batch=2, heads=2, seed=0):
    """Attentions of a decoder that keeps keys: the prompt in one step, then one position in each."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [(prompt, prompt), *((1, prompt + index) for index in range(1, steps))]
    out = []
    for rows, cols in sizes:
        seen = torch.ones(rows, cols).tril(cols - rows)
        weights = [torch.rand(batch, heads, rows, cols, generator=generator) + 0.1 for _ in range(layers)]
        out.append(tuple(each * seen / (each * seen).sum(-1, keepdim=True) for each in weights))
    return tuple(out)


def test_the_steps_of_generate_are_below_each_other():
    given = of_generate(3, 4)
    spec = rf.viz.attention(given).spec
    assert spec.head["layers"] == ["layer 0", "layer 1"] and spec.head["remark"].startswith(
        "The rows are the steps of generate"
    )
    for entry in spec.head["maps"]:
        layer, head = entry["at"]
        block, hidden = spec.blocks[entry["block"]], spec.blocks[entry["mask"]]
        assert block.shape == (2, 6, 6)
        assert np.array_equal(block[:, :3, :3], given[0][layer][:, head].numpy())
        for step in (1, 2, 3):
            assert np.array_equal(block[:, 2 + step, : 3 + step], given[step][layer][:, head, 0].numpy())
        assert np.array_equal(hidden[0].astype(bool), np.triu(np.ones((6, 6), bool), 1))


def test_hidden_states_are_tracks_and_steps_are_joined():
    layers = tuple(torch.randn(3, 5, 4) for _ in range(2))
    spec = rf.viz.states(layers).spec
    assert [track["label"] for track in spec.head["tracks"]] == ["layer 0", "layer 1"]
    assert np.array_equal(spec.blocks["track1"], layers[1].numpy())
    steps = (layers, tuple(torch.randn(3, 1, 4) for _ in range(2)))
    joined = rf.viz.states(steps).spec
    assert np.array_equal(joined.blocks["track0"], torch.cat([steps[0][0], steps[1][0]], 1).numpy())
    assert joined.head["remark"].startswith("The rows are the steps of generate")


def test_scores_of_generate_are_a_tuple_over_steps_and_a_list_is_one_over_sequences():
    scores = tuple(torch.randn(3, 6) for _ in range(4))
    spec = rf.viz.distribution(scores, estimated_type="logits").spec
    whole = rf.viz.distribution(torch.stack(scores, 1), estimated_type="logits").spec
    assert [seq["len"] for seq in spec.head["seqs"]] == [4, 4, 4]
    assert spec.head.pop("remark").startswith("A tuple has one array {batch, label} for each step")
    assert to_json(spec) == to_json(whole)
    assert [seq["len"] for seq in rf.viz.distribution(list(scores), estimated_type="logits").spec.head["seqs"]] == [
        3,
        3,
        3,
        3,
    ]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: (attentions(2), attentions(2)), """
            ValueError: attention: nested twice, but not the steps of generate.
              outer  2 entries
              inner  2 of (3, 2, 5, 7), in all
            A step has one position, or a different length than the previous one. For values to compare, name what they differ in:
                rf.viz.attention(values, slider="epoch")
         """),
        (lambda: (*of_generate(3, 2), *of_generate(3, 2, batch=4)), """
            ShapeError: attention: the steps differ in more than their length.
              step 0  2 layers of (2, 2, 3, 3)
              step 1  2 layers of (2, 2, 1, 4)
            The steps of one generate have the same layers, sequences and heads.
                rf.viz.attention(values[-1])    # one of them; or {"a": ..., "b": ...}, slider="model"
         """),
    ],
)  # fmt: skip
def test_tuples_that_are_no_steps(make, said):
    with refused(said):
        rf.viz.attention(make())


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_packed_and_nested_tensors_have_lengths_in_views():
    parts = [torch.randn(4, 3), torch.randn(2, 3)]
    padded = nn.utils.rnn.pad_sequence(parts, batch_first=True)
    whole = rf.viz.states({"h": rf.named(padded, "batch time feature", lengths=[4, 2])}).spec
    for given in (
        nn.utils.rnn.pack_sequence(parts),
        torch.nested.nested_tensor(parts),
        torch.nested.nested_tensor(parts, layout=torch.jagged),
    ):
        assert to_json(rf.viz.states({"h": given}).spec) == to_json(whole)


def test_outputs_of_transformers_are_taken_whole():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32, attn_implementation="eager"
    )  # fmt: skip
    ids = torch.randint(0, 30, (3, 7))
    model = transformers.BertForMaskedLM(config).eval()
    output = model(ids, output_attentions=True, output_hidden_states=True)
    assert to_json(rf.viz.attention(output).spec) == to_json(rf.viz.attention(output.attentions).spec)
    assert to_json(rf.viz.states(output).spec) == to_json(rf.viz.states(output.hidden_states).spec)
    assert to_json(rf.viz.distribution(output, estimated_type="logits").spec) == to_json(
        rf.viz.distribution(output.logits, estimated_type="logits").spec
    )
    with refused("""
        ValueError: attention: this output has no attentions.
          given   MaskedLMOutput
          fields  logits
        A model returns them on request:
            output = model(..., output_attentions=True)
    """):
        rf.viz.attention(model(ids))


def test_arrays_of_jax():
    jnp = pytest.importorskip("jax.numpy")
    for dtype in (jnp.float32, jnp.bfloat16):
        given = jnp.asarray(WEIGHTS, dtype)
        for values, made_of in (VIEWS["attention"], VIEWS["states"], VIEWS["distribution"]):
            assert to_json(made_of(given)) == to_json(made_of(values))
        assert np.array_equal(rf.named(given, "target source").numpy(), WEIGHTS)
        assert rf.viz.dims(given, names="target source").spec.head["rows"][0]["stats"]["cells"] == 35


def bart():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.BartConfig(
        vocab_size=30, d_model=16, encoder_layers=2, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=8, decoder_ffn_dim=8, attn_implementation="eager", bos_token_id=0, eos_token_id=2, pad_token_id=1,
        decoder_start_token_id=2,
    )  # fmt: skip
    return transformers.BartForConditionalGeneration(config).eval()


def test_generate_with_an_encoder_has_three_kinds_of_layers():
    model, ids = bart(), torch.randint(3, 30, (2, 7))
    options = {
        "max_new_tokens": 4,
        "return_dict_in_generate": True,
        "output_attentions": True,
        "output_hidden_states": True,
    }
    output = model.generate(ids, num_beams=1, do_sample=False, **options)
    spec = rf.viz.attention(output).spec
    assert {name.partition(",")[0] for name in spec.head["layers"]} == {"encoder", "decoder", "cross"}
    assert spec.head["remark"].startswith("The rows are the steps of generate")
    shapes = {}
    for entry in spec.head["maps"]:
        kind, _, layer = spec.head["layers"][entry["at"][0]].partition(", layer ")
        block, head = spec.blocks[entry["block"]], entry["at"][1]
        shapes[kind] = block.shape[1:]
        if kind == "encoder":
            assert np.array_equal(block, output.encoder_attentions[int(layer)][:, head].numpy())
        for step, of_step in enumerate(output[f"{kind}_attentions"] if kind != "encoder" else ()):
            row = of_step[int(layer)][:, head, 0].numpy()
            assert np.array_equal(block[:, step, : row.shape[1]], row)
    steps = len(output.decoder_attentions)
    assert shapes == {"encoder": (7, 7), "cross": (steps, 7), "decoder": (steps, steps)}
    with refused("""
        ValueError: states: the fields of this output are of different steps.
          encoder_hidden_states  2 sequences
          decoder_hidden_states  2 sequences
        A view needs the same steps and sequences for all fields; a beam search has several per input sequence. Choose one:
            rf.viz.states(output.encoder_hidden_states)
    """):
        rf.viz.states(output)
    assert rf.viz.states(output.decoder_hidden_states).spec.blocks["track0"].shape == (2, steps, 16)


def test_the_slots_of_a_beam_are_not_drawn_as_sequences_of_the_encoder():
    options = {"max_new_tokens": 4, "return_dict_in_generate": True, "output_attentions": True}
    output = bart().generate(torch.randint(3, 30, (2, 7)), num_beams=3, **options)
    with pytest.raises(ValueError, match="the fields of this output are of different sequences"):
        rf.viz.attention(output)
    assert len(rf.viz.attention(output.encoder_attentions).spec.head["seqs"]) == 2
