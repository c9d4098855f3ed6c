"""rf.show of what is of torch: modules as trees with named axes, tensors, packed and nested ones."""

from importlib import import_module

import numpy as np
import pytest
import torch
from torch import nn

import rfnb as rf
from rfnb.viz.dims.table import folded


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(1)


def rows_of(value, **options):
    """(label, axes as name=size, note) of the rows of the view."""
    head = rf.viz.dims(value, **options).spec.head
    named = {
        entry[
            "id"
        ]: f"{entry['name']}{'<=' if entry['lengths'] else '='}{entry['size'] or max(entry['lengths'] or [0])}"
        for entry in head["dims"]
    }
    return [(row["label"], " ".join(named[dim] for dim in row["dims"]), row["note"]) for row in head["rows"]]


def axes(module, **options):
    """The names of the axes of each parameter and buffer, where there are any."""
    return {label: said for label, said, _ in rows_of(module, **options) if said}


# -- Modules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("module", "known"),
    [
        (nn.Linear(3, 5), {"weight": "out=5 in=3", "bias": "out=5"}),
        (nn.Bilinear(2, 3, 5), {"weight": "out=5 in1=2 in2=3", "bias": "out=5"}),
        (nn.Embedding(7, 3), {"weight": "vocab=7 feature=3"}),
        (nn.EmbeddingBag(7, 3), {"weight": "vocab=7 feature=3"}),
        (nn.Conv1d(4, 6, 3), {"weight": "out=6 in=4 width=3", "bias": "out=6"}),
        (nn.Conv2d(4, 6, (3, 5), groups=2), {"weight": "out=6 in/groups=2 height=3 width=5", "bias": "out=6"}),
        (nn.Conv3d(1, 2, 3), {"weight": "out=2 in=1 depth=3 height=3 width=3", "bias": "out=2"}),
        (nn.ConvTranspose1d(4, 6, 3), {"weight": "in=4 out=6 width=3", "bias": "out=6"}),
        (nn.LayerNorm(5), {"weight": "feature=5", "bias": "feature=5"}),
        (nn.LayerNorm((2, 5)), {"weight": "feature0=2 feature1=5", "bias": "feature0=2 feature1=5"}),
        (nn.GroupNorm(2, 4), {"weight": "feature=4", "bias": "feature=4"}),
        (nn.RMSNorm(5), {"weight": "feature=5"}),
        (
            nn.BatchNorm1d(4),
            {"weight": "feature=4", "bias": "feature=4", "running_mean": "feature=4", "running_var": "feature=4"},
        ),
        (nn.PReLU(3), {"weight": "feature=3"}),
        (
            nn.LSTM(3, 4),
            {
                "weight_ih_l0": "4*hidden=16 in=3",
                "weight_hh_l0": "4*hidden=16 hidden=4",
                "bias_ih_l0": "4*hidden=16",
                "bias_hh_l0": "4*hidden=16",
            },
        ),
        (nn.GRUCell(3, 4, bias=False), {"weight_ih": "3*hidden=12 in=3", "weight_hh": "3*hidden=12 hidden=4"}),
        (nn.RNN(3, 4, bias=False), {"weight_ih_l0": "hidden=4 in=3", "weight_hh_l0": "hidden=4 hidden=4"}),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_axes_of_parameters_have_the_names_of_the_type_of_their_module(module, known):
    assert axes(module) == known


def test_recurrent_layers_above_the_first_and_of_both_directions():
    lstm = axes(nn.LSTM(3, 8, num_layers=2, bidirectional=True, proj_size=5, bias=False))
    assert lstm["weight_ih_l0_reverse"] == "4*hidden=32 in=3"
    assert lstm["weight_ih_l1"] == "4*hidden=32 2*proj=10"
    assert lstm["weight_hh_l1"] == "4*hidden=32 proj=5"
    assert lstm["weight_hr_l1_reverse"] == "proj=5 hidden=8"


def test_attention_with_keys_and_values_of_their_own():
    attention = axes(nn.MultiheadAttention(4, 2, kdim=3, vdim=5, add_bias_kv=True))
    assert attention["q_proj_weight"] == "model=4 model=4"
    assert (attention["k_proj_weight"], attention["v_proj_weight"]) == ("model=4 key=3", "model=4 value=5")
    assert attention["bias_k"] == "1=1 1=1 model=4"


class Scaled(nn.Linear):
    """A Linear with one parameter more, of which nobody knows what its axes are."""

    def __init__(self):
        super().__init__(3, 5, bias=False)
        self.scales = nn.Parameter(torch.ones(2, 7))


def test_what_is_not_known_has_numbers():
    assert axes(Scaled()) == {"weight": "out=5 in=3", "scales": "axis0=2 axis1=7"}
    own = nn.Linear(3, 5, bias=False)
    own.weight = nn.Parameter(torch.ones(3, 5, 7))
    assert axes(own) == {"weight": "axis0=3 axis1=5 axis2=7"}


def test_a_model_is_a_tree_with_sizes_and_layers_that_are_alike_fold():
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    model = nn.ModuleDict({"embed": nn.Embedding(11, 8), "encoder": nn.TransformerEncoder(layer, 12)})
    head = rf.viz.dims(model).spec.head
    assert head["title"] == "ModuleDict: 7,288 parameters, 29.2 kB"
    assert sum(parameter.numel() for parameter in model.parameters()) == 7288
    shown = [(row["label"], row["indent"], row["note"]) for row in folded(head) if row["dtype"] is None]
    assert shown[:5] == [
        ("embed", 0, "Embedding, 88 parameters, 352 B"),
        ("encoder", 0, "TransformerEncoder, 7,200 parameters, 28.8 kB"),
        ("layers", 1, "ModuleList, 7,200 parameters, 28.8 kB"),
        ("0 × 12", 2, "TransformerEncoderLayer, 600 parameters, 2.4 kB, 0 to 11 are alike, values are those of 0"),
        ("self_attn", 3, "MultiheadAttention, 288 parameters, 1.15 kB"),
    ]
    assert head["remark"] == (
        "Axes are named by the types of their modules. Dims of the same name and size are drawn as one, but may differ."
    )


def test_values_that_are_no_numbers_are_seen_and_not_folded():
    model = nn.ModuleList([nn.Linear(3, 3) for _ in range(4)])
    with torch.no_grad():
        model[2].weight[1, 1] = torch.nan
    view = rf.viz.dims(model)
    assert [fold["count"] for fold in view.spec.head["folds"]] == [2]
    assert "1 NaN" in view.text()


def test_what_is_shared_is_said_and_counted_once():
    model = nn.Sequential(nn.Embedding(7, 3), nn.Linear(3, 7, bias=False))
    model[1].weight = model[0].weight
    model.append(model[0])
    view = rf.viz.dims(model)
    assert view.spec.head["title"] == "Sequential: 21 parameters, 84 B"
    assert rows_of(model) == [
        ("0", "", "Embedding, 21 parameters, 84 B"),
        ("weight", "vocab=7 feature=3", ""),
        ("1", "", "Linear, 21 parameters, 84 B"),
        ("weight", "out=7 in=3", "the same as 0.weight"),
        ("2", "", "Embedding, the same as 0"),
    ]
    assert [row["bytes"] for row in view.spec.head["rows"]] == [None, 84, None, None, None]


def test_frozen_parameters_and_buffers_are_marked():
    model = nn.BatchNorm1d(2)
    model.weight.requires_grad_(False)
    assert [note for _, _, note in rows_of(model)] == ["frozen", "", "buffer", "buffer", "buffer"]


def test_modules_without_values():
    meta = rows_of(nn.Linear(3, 5, device="meta"))
    assert meta == [
        ("weight", "out=5 in=3", "has no values: it is on the meta device"),
        ("bias", "out=5", "has no values: it is on the meta device"),
    ]
    lazy = nn.Sequential(nn.LazyLinear(5), nn.Linear(5, 2, bias=False))
    assert rf.viz.dims(lazy).spec.head["title"] == "Sequential: 10 parameters, 40 B, 2 without a size yet"
    assert rows_of(lazy)[1] == ("weight", "", "has no size before the first call")


def test_what_is_around_a_module_is_said():
    linear = nn.Linear(3, 5)
    assert rf.viz.dims(torch.compile(linear)).spec.head["title"] == "Linear, compiled: 20 parameters, 80 B"
    assert rf.viz.dims(nn.DataParallel(linear)).spec.head["title"] == "Linear, on several devices: 20 parameters, 80 B"
    assert axes(torch.compile(linear)) == axes(linear)


@pytest.mark.filterwarnings("ignore:`torch.jit", "ignore:.torch.jit")
def test_a_scripted_module_has_the_names_of_what_it_was():
    scripted = torch.jit.script(nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5)))
    assert rf.viz.dims(scripted).spec.head["title"] == "Sequential, scripted: 30 parameters, 120 B"
    assert rows_of(scripted)[:3] == [
        ("0", "", "Linear, 20 parameters, 80 B"),
        ("weight", "out=5 in=3", ""),
        ("bias", "out=5", ""),
    ]


def test_the_values_of_a_large_model_are_looked_at_only_on_request(monkeypatch):
    monkeypatch.setattr(import_module("rfnb.viz.dims.torch_modules"), "MOST_CELLS", 10)
    model = nn.Linear(3, 5)
    head = rf.viz.dims(model).spec.head
    assert [row["stats"] for row in head["rows"]] == [None, None]
    assert head["remark"].endswith(
        " The values were not read, since they are many or on a GPU; values=True reads them."
    )
    assert rf.viz.dims(model, values=True).spec.head["rows"][0]["stats"]["cells"] == 15


def test_showing_a_module_leaves_it_as_it_is():
    model = nn.LSTM(3, 4)
    before, state = torch.get_rng_state(), {name: value.clone() for name, value in model.state_dict().items()}
    view = rf.show(model)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert view.text().startswith("LSTM: 144 parameters, 576 B\n") and "4*hidden=16" in view.html()


# -- Tensors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [torch.ones, lambda *shape: nn.Parameter(torch.ones(*shape)), lambda *s: np.ones(s, np.float32)]
)
def test_an_array_without_names_has_numbers_and_says_how_to_name_it(make):
    array = make(2, 3)
    head = rf.viz.dims(array).spec.head
    assert head["remark"] == 'The axes of the arrays have no names: names="batch time feature" gives them some.'
    assert axes(array) == {"array": "axis0=2 axis1=3"} and axes(array, names="batch time") == {
        "array": "batch=2 time=3"
    }
    assert "remark" not in rf.viz.dims(array, names="batch time").spec.head
    assert head["title"] == f"{type(array).__module__.partition('.')[0]} {type(array).__name__}"


@pytest.mark.parametrize(
    ("array", "note", "has_stats"),
    [
        (torch.ones(2, requires_grad=True), "requires gradient", True),
        (torch.ones(2, dtype=torch.bfloat16), "", True),
        (torch.ones(2, dtype=torch.float16), "", True),
        (torch.ones(2).to(torch.float8_e4m3fn), "", True),
        (torch.ones(2, dtype=torch.bool), "", True),
        (torch.tensor(3), "", True),
        (torch.ones(4, 3).t()[::2], "", True),
        (torch.ones(2, dtype=torch.complex64), "", False),
        (torch.ones(2, device="meta"), "has no values: it is on the meta device", False),
        (torch.eye(2).to_sparse(), "is sparse (sparse_coo): most of its entries are not there", False),
        (torch.zeros(0, 3), "", True),
    ],
)
def test_every_array_is_shown_or_says_why_not(array, note, has_stats):
    view = rf.viz.dims(array)
    (row,) = view.spec.head["rows"]
    assert (row["note"], row["stats"] is not None) == (note, has_stats)
    assert row["dtype"] == str(array.dtype).removeprefix("torch.") and view.text() and view.html()


class DTensor(torch.Tensor):
    """Named as the tensors of torch that lie in several processes."""


def test_arrays_that_hold_something_else_have_no_numbers_and_are_shown():
    assert rows_of(np.array(["a", "b"])) == [("array", "axis0=2", "")]
    assert rows_of({"labels": np.array(["a", "b"], object), "x": np.ones(2)})[0] == ("labels", "axis0=2", "")
    masked = rf.viz.dims(np.ma.masked_less(np.arange(4.0), 2)).spec.head["rows"][0]
    assert masked["stats"] is None
    note = "is spread over processes, and only a part of its values is here"
    assert rows_of(torch.ones(2).as_subclass(DTensor)) == [("array", "axis0=2", note)]


def test_a_table_of_pandas_is_an_array():
    pandas = pytest.importorskip("pandas")
    (row,) = rf.show(pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})).spec.head["rows"]
    assert (row["dtype"], row["stats"]["mean"]) == ("float64", 2.5)
    assert rf.viz.dims(pandas.DataFrame({"a": ["x"], "b": [3.0]})).spec.head["rows"][0]["stats"] is None
    assert rows_of(pandas.Series([1, 2, 3])) == [("array", "axis0=3", "")]


def test_containers_of_arrays_are_trees():
    assert rows_of({"a": torch.ones(2, 3), "b": [np.ones(2), (torch.ones(2, 3),), None, "text", object()], "c": ()}) == [
        ("a", "axis0=2 axis1=3", ""),
        ("b", "", ""),
        ("[0]", "axis0=2", ""),
        ("[1]", "", ""),
        ("[0]", "axis0=2 axis1=3", ""),
        ("[2]", "", "None"),
        ("[3]", "", "text"),
        ("[4]", "", "object, which has no dims"),
        ("c", "", "none"),
    ]  # fmt: skip
    assert rows_of((torch.ones(2, 2, 5, 7),) * 2, names="batch head target source") == [
        ("[0]", "batch=2 head=2 target=5 source=7", ""),
        ("[1]", "batch=2 head=2 target=5 source=7", ""),
    ]


def test_a_small_array_shows_its_values():
    view = rf.show(torch.tensor([[1.0, 2.5], [3.0, 4.0]]), names="time feature")
    assert view.text().splitlines()[-3:] == ["feature →  0    1", "time 0     1  2.5", "time 1     3    4"]
    packed = nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])])
    assert rf.viz.dims(packed).text().splitlines()[-2:] == ["batch 0  1  2  3", "batch 1  4"]
    assert "table" not in rf.viz.dims(torch.zeros(100, 100)).spec.head


def test_a_state_dict_is_a_tree():
    model = nn.ModuleDict(
        {"layers": nn.ModuleList([nn.Linear(2, 2) for _ in range(4)]), "out": nn.Linear(2, 3, bias=False)}
    )
    rows = rows_of(model.state_dict())
    assert rows[:4] == [("layers", "", ""), ("0", "", ""), ("weight", "axis0=2 axis1=2", ""), ("bias", "axis0=2", "")]
    assert rows[-2:] == [("out", "", ""), ("weight", "axis0=3 axis1=2", "")]
    assert rf.viz.dims(model.state_dict()).spec.head["folds"] == [{"first": 1, "rows": 3, "count": 4}]
    assert rows_of({"model": model.state_dict()})[:2] == [("model", "", ""), ("layers", "", "")]


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated", "ignore:torch.quantize_per")
def test_a_quantised_module_says_that_its_weights_are_packed():
    module = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(3, 4)))
    assert rows_of(module)[0] == ("0", "", "Linear, quantised, its weights are packed")


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_packed_and_nested_tensors_are_ragged():
    parts = [torch.ones(4, 3), torch.ones(2, 3)]
    packed = torch.nn.utils.rnn.pack_sequence(parts)
    assert rows_of(packed) == [("PackedSequence", "batch=2 time<=4 feature=3", "")]
    assert rf.viz.dims(packed).spec.head["title"] == "torch PackedSequence"
    for layout in (torch.strided, torch.jagged):
        nested = torch.nested.nested_tensor(parts, layout=layout)
        ((_, said, note),) = rows_of(nested)
        assert (said, note) == ("batch=2 time<=4 feature=3", "")
    assert rows_of({"states": packed}) == [("states", "batch=2 time<=4 feature=3", "")]
    for value in (packed, *(torch.nested.nested_tensor(parts, layout=each) for each in (torch.strided, torch.jagged))):
        assert rows_of(value, names="batch frame unit")[0][1] == "batch=2 frame<=4 unit=3"


class Made:
    """Something of another library."""


class MadeLater(Made):
    pass


def spec_of_made(value, *, title="made"):
    return rf.viz.curves({"loss": [3, 2, 1]}, title=title).spec


def test_what_knows_another_library_can_make_views_of_its_values(monkeypatch):
    views = import_module("rfnb.viz.kinds")
    monkeypatch.setattr(views, "_places", dict(views._places))
    with pytest.raises(TypeError, match="show: there is no view of Made"):
        rf.show(Made())
    views.show_by(f"{__name__}.Made", f"{__name__}:spec_of_made")
    assert rf.show(MadeLater(), title="loss").spec.head["title"] == "loss"
