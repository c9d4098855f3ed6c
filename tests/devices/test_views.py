"""Views, figures and texts of what is on a device: those of the CPU, and the device is waited for once for an array, not for a number."""

import numpy as np
import pytest
import torch
from devices.programs import BATCH, PROGRAMS
from simulated import NAME, watched

import rfnb as rf
from rfnb import Dim
from rfnb.viz.spec import to_json

_rng = np.random.default_rng(0)
WEIGHTS = _rng.random((3, 5, 7), np.float32)
STATES, LOGITS = (_rng.normal(size=(3, 5, size)).astype("float32") for size in (6, 9))
IDS = np.arange(15).reshape(3, 5) % 9
SOURCE = rf.ragged_dim([7, 3, 4], over=BATCH, name="source")
TARGET = rf.ragged_dim([5, 2, 4], over=BATCH, name="target")
UNIT, LABELS = Dim(6, name="unit"), Dim(9, name="labels")


def raw(values, device):
    """A tensor of torch, there."""
    return torch.as_tensor(np.asarray(values)).to(device, non_blocking=True)


def numbers(values, device):
    """A list of tensors without axes, as losses of a training are."""
    return [raw(value, device) for value in values]


def tensor(values, dims, device):
    return rf.convert_to_tensor(values, dims=dims, device=device)


def labels(device):
    return rf.convert_to_tensor(IDS, dims=[BATCH, TARGET], sparse_dim=LABELS, device=device)


# name: (the view of arrays of a device, how many waits)
VIEWS = {
    "attention": (lambda d: rf.viz.attention(raw(WEIGHTS[0], d)), 1),
    "attention with lengths and a mask": (
        lambda d: rf.viz.attention(
            raw(WEIGHTS, d), dims="batch target source", source_lengths=raw([7, 3, 4], d), target_lengths=raw([5, 2, 4], d),
            mask=raw(np.tril(np.ones((3, 5, 7), bool)), d),
        ), 4,
    ),
    "attention with tokens": (lambda d: rf.viz.attention(raw(WEIGHTS[:, :, :5], d), dims="b t s", tokens=raw(IDS, d)), 3),
    "attention of layers": (lambda d: rf.viz.attention(tuple(raw(WEIGHTS[:, None], d) for _ in range(4))), 4),
    "attention of rows": (lambda d: rf.viz.attention([raw(row, d) for row in WEIGHTS[0]]), 1),
    "attention of a Tensor": (
        lambda d: rf.viz.attention(tensor(WEIGHTS, [BATCH, TARGET, SOURCE], d), source_dim=SOURCE), 1,
    ),
    "states": (lambda d: rf.viz.states({"h": raw(STATES, d), "c": raw(STATES, d)}), 2),
    "states of Tensors": (lambda d: rf.viz.states({"h": tensor(STATES, [BATCH, TARGET, UNIT], d)}), 1),
    "distribution": (lambda d: rf.viz.distribution(raw(LOGITS, d), raw(IDS, d), estimated_type="logits"), 2),
    "distribution of a Tensor": (
        lambda d: rf.viz.distribution(
            tensor(LOGITS, [BATCH, TARGET, LABELS], d), labels(d), estimated_type="logits", axis=LABELS
        ), 2,
    ),
    "curves": (lambda d: rf.viz.curves({"loss": raw(WEIGHTS[0, 0], d)}), 1),
    "curves of numbers": (lambda d: rf.viz.curves({"loss": numbers(WEIGHTS.ravel(), d)}), 1),
    "curves of pairs": (lambda d: rf.viz.curves({"loss": list(enumerate(numbers(WEIGHTS.ravel(), d)))}), 1),
    "curves of Tensors": (lambda d: rf.viz.curves({"loss": [tensor(value, [], d) for value in WEIGHTS[0, 0]]}), 1),
    "curves of x and y": (lambda d: rf.viz.curves({"loss": (raw(range(7), d), numbers(WEIGHTS[0, 0], d))}), 2),
    "beams": (
        lambda d: rf.viz.beams(
            tokens=raw([[5, 2], [1, 1]], d), parents=raw([[0, 0], [0, 1]], d), scores=raw([[-1.0, -2.0], [-2.0, -3.0]], d)
        ), 3,
    ),
    "dims": (lambda d: rf.viz.dims({"x": tensor(STATES, [BATCH, TARGET, UNIT], d), "y": raw(WEIGHTS, d)}), 2),
    "dims of a module": (lambda d: rf.viz.dims(module(d)), 0),
}  # fmt: skip


def module(device):
    torch.manual_seed(0)
    return torch.nn.Linear(3, 4).to(device, non_blocking=True)


def spec_of(view):
    """The spec as data, without the device that a table of dims has, and what of a device is not read for it."""
    data = to_json(view.spec)
    if data["kind"] == "dims":
        data["head"].pop("remark", None)
    for row in data["head"].get("rows", []):
        row.pop("device", None)
        row.pop("stats", None)
    return data


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_is_that_of_the_cpu(name):
    made_of, waits = VIEWS[name]
    with watched() as seen:
        view = made_of(NAME)
        page, text = view._repr_html_() if hasattr(view, "_repr_html_") else "", str(view)
    assert len(seen.waits) == waits, seen.waits
    there = made_of("cpu")
    assert spec_of(view) == spec_of(there)
    if "dims" not in name:
        assert text == str(there) and page == (there._repr_html_() if hasattr(there, "_repr_html_") else "")


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_view_of_a_recording_is_that_of_the_cpu(name, capsys):
    specs = []
    for device in (NAME, "cpu"):
        with rf.set_default_device_ctx(device):
            call = PROGRAMS[name]()
            with rf.record() as trace:
                call()
        with watched() as seen:
            view = rf.show(trace)
        assert len(seen.waits) <= 4, seen.waits  # for all parts, however many steps and states
        specs.append(to_json(view.spec))
        specs[-1]["head"].pop("link", None)  # of this recording
    assert_close(*specs)


def assert_close(one, other, at=""):
    """Assert the same data; numbers and texts with numbers up to rounding."""
    if isinstance(one, dict):
        assert list(one) == list(other), at
        for key in one:
            assert_close(one[key], other[key], f"{at}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), at
        for index, (here, there) in enumerate(zip(one, other, strict=True)):
            assert_close(here, there, f"{at}[{index}]")
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-4), at
    else:
        assert one == other, at


def test_hypotheses_are_followed_through_values_of_the_device_by_one_wait():
    with rf.set_default_device_ctx(NAME):
        call = PROGRAMS["attending search"]()
        with rf.record() as trace:
            call()
    history = trace.beams["search"]
    best = history.best(0)
    weights = trace.attention.steps("search")
    with watched() as seen:
        along = history.along(weights, 0, 0)
    assert len(seen.waits) == 1 and len(along) == len(best.tokens)
    with watched() as seen:
        history.in_slots(weights)
    assert len(seen.waits) == 1
    of_torch = [
        each.copy_transpose([BATCH, *[d for d in each.dims if d is not BATCH]]).raw_tensor for each in weights[1:]
    ]
    for row, expected in zip(history.along([weights[0], *of_torch], 0, 0), along, strict=True):
        np.testing.assert_array_equal(row, expected)


def test_attention_that_was_copied_from_the_device_knows_which_dim_attends():
    with rf.set_default_device_ctx(NAME):
        call = PROGRAMS["for"]()
        with rf.record() as trace:
            call()
    weights = trace.attention["decoder"]
    assert len([dim for dim in weights.dims if dim.name == "time"]) == 2  # who attends, and what is attended over
    copied = rf.viz.attention(rf.copy_to_device(weights, "cpu")).spec
    assert to_json(copied) == to_json(rf.viz.attention(weights).spec)
    np.testing.assert_allclose(copied.blocks["map0"].sum(-1), 1, rtol=1e-6)


def test_the_texts_of_tensors_and_dims_read_nothing():
    x = tensor(STATES, [BATCH, TARGET, UNIT], NAME)
    with watched() as seen:
        texts = [repr(x), x._repr_html_(), repr(TARGET), TARGET._repr_html_()]
    assert seen == [] and texts[0] == "Tensor{'', [batch=3, target<=5, unit=6] on sim:0}" and "sim:0" in texts[1]


@pytest.mark.parametrize(
    "of", [raw, lambda values, device: tensor(values, [Dim(5, name="t"), Dim(7, name="s")], device)]
)
def test_figures_are_those_of_the_cpu(of):
    plt = pytest.importorskip("matplotlib.pyplot")
    found = []
    for device in (NAME, "cpu"):
        figure, axes = plt.subplots(1, 3)
        weights, losses = of(WEIGHTS[0], device), numbers(WEIGHTS[0, 0], device)
        options = {"source_dim": weights.dims[1]} if isinstance(weights, rf.Tensor) else {}
        steps = {"step_dim": weights.dims[0]} if isinstance(weights, rf.Tensor) else {}
        with watched() as seen:
            image = rf.plot.attention(weights, ax=axes[0], **options)
            states = rf.plot.states(weights, ax=axes[1], **steps)
            rf.plot.curves({"loss": losses}, ax=axes[2])
        found.append(
            [np.asarray(image.get_array()), np.asarray(states.get_array()), axes[2].get_lines()[0].get_ydata()]
        )
        assert len(seen.waits) == (3 if device == NAME else 0), seen.waits
        plt.close(figure)
    for here, there in zip(*found, strict=True):
        np.testing.assert_array_equal(here, there)
