"""Products of frames that a program makes for all steps at once, before the first."""

import re

import pytest
import torch
from asserting import assert_same, ragged, randn
from loop_faces import gradients, run_face, run_steps

import rfnb as rf
from rfnb import Dim
from rfnb.backends import torch_frame_products
from rfnb.backends.torch_backend import TorchBackend as TORCH
from rfnb.rec import shared_code
from rfnb.rec.lowering import LoweredCall
from rfnb.rec.program import ahead

BATCH, UNITS, OUT = Dim(2, name="batch"), Dim(4, name="units"), Dim(5, name="out")
TIME, RAGGED = Dim(11, name="time"), ragged([11, 4], BATCH, "time")


@pytest.fixture(autouse=True)
def nothing_shared():
    shared_code._shared.clear()


def joined(*parts):
    """Parts side by side, and their dim."""
    return rf.concat(*[(part, part.feature_dim) for part in parts])


class Cell(rf.Module):
    """A cell over a few parts; `order` names them: "x" and "y" are frames, "h" and "g" states, "n" is made in the step."""

    def __init__(self, kind, order, widths=None):
        rf.set_random_seed(1)
        self.kind, self.order = kind, order
        widths = {"x": 3, "y": 7, "h": UNITS, "g": UNITS, "n": 6} | (widths or {})
        self.dims = {each: dim if isinstance(dim, Dim) else Dim(dim, name=each) for each, dim in widths.items()}
        total = sum(self.dims[each].size for each in order)
        self.in_dim = Dim(total, name="all")
        self.layer = rf.LSTM(self.in_dim, UNITS) if kind == "lstm" else rf.Linear(self.in_dim, UNITS)
        self.new = rf.Linear(UNITS, self.dims["n"])

    def source(self, axis, name, seed):
        out = randn(axis, BATCH, self.dims[name], seed=seed)
        out.feature_dim = self.dims[name]
        return out

    def body(self, x, y):
        def step(loop):
            state = loop.state
            values = {"x": loop.unstack(x), "y": loop.unstack(y), "h": state.h, "g": state.g, "n": self.new(state.h)}
            parts = [values[each] for each in self.order]
            source, dim = joined(*parts) if len(parts) > 1 else (parts[0], self.dims[self.order])
            source, _ = rf.replace_dim(source, in_dim=dim, out_dim=self.in_dim)
            if self.kind == "lstm":
                h, new = self.layer(source, state=rf.LstmState(h=state.h, c=state.g), spatial_dim=rf.single_step_dim)
                state.h, state.g = h, new.c
            else:
                state.h, state.g = rf.tanh(self.layer(source)), state.g * 0.5 + state.h
            return loop.stack(state.h + state.g)

        return step


def start(dtype="float32"):
    return {name: rf.zeros([BATCH, UNITS], feature_dim=UNITS, dtype=dtype) for name in "hg"}


def both(cell, axis=TIME, modes=torch.no_grad, dtype="float32"):
    """Compare `with` to `for`; the program."""
    x, y = cell.source(axis, "x", 1), cell.source(axis, "y", 2)
    with modes():
        expected, _ = run_face("for", cell.body(x, y), axis=axis, **start(dtype))
        loop = rf.Loop(axis=axis)
        loop.state = start(dtype)
        assert_same(run_steps(loop, "with", lambda: cell.body(x, y)(loop)), expected)
    return loop.plan.program


ORDERS = ["xh", "hx", "xyh", "xhy", "hxg", "xhg", "nx", "xnh", "hnyx"]


@pytest.mark.parametrize("axis", [TIME, RAGGED], ids=["all", "ragged"])
@pytest.mark.parametrize("order", [*ORDERS, "x", "xy"])
def test_a_cell_gets_what_is_known_of_all_steps(order, axis):
    program = both(Cell("lstm", order), axis)
    assert "ahead0" in program.partition("(keep")[2].partition("keep0(")[0]
    assert "lstm_cell(" in program and not re.search(r"cat\(\[[^]]*\b[xy]\b", program)


@pytest.mark.parametrize("order", ORDERS)
def test_a_layer_gets_what_is_known_of_all_steps(order):
    assert re.search(r"addmm\(ahead0, \w+, rest0\)", both(Cell("linear", order)))


@pytest.mark.parametrize("kind, order", [("lstm", "xh"), ("lstm", "x"), ("lstm", "hnyx"), ("linear", "hxg")])
@pytest.mark.parametrize("axis", [TIME, RAGGED], ids=["all", "ragged"])
def test_gradients(kind, order, axis):
    cell = Cell(kind, order)
    x, y = cell.source(axis, "x", 1), cell.source(axis, "y", 2)
    inputs = [value for value, name in ((x, "x"), (y, "y")) if name in order]
    if "n" not in order:
        del cell.new
        cell.new = lambda h: h

    def of(face):
        return gradients(cell, *inputs, of=lambda: run_face(face, cell.body(x, y), axis=axis, **start())[0])

    expected, found = of("for"), of("with")
    for name, gradient in expected.items():
        torch.testing.assert_close(
            found[name], gradient, rtol=1e-4, atol=1e-5, msg=lambda text, of=name: f"{of}: {text}"
        )


def test_the_next_run_has_parts_of_other_widths():
    """Its steps have the same code, which says no sizes."""
    for widths in ({"x": 3, "y": 7}, {"x": 7, "y": 3}, {"x": 1, "y": 9}, {"x": 4, "y": 4}):
        assert "ahead0" in both(Cell("lstm", "xhy", widths)) and "ahead0" in both(Cell("linear", "hynx", widths))
    assert len(shared_code._shared) == 2


@pytest.mark.parametrize("kind", ["plain", "lstm"])
@pytest.mark.parametrize("change", ["weight", "bias", "frames", "dtype"])
def test_what_is_made_ahead_is_that_of_the_run(kind, change):
    """In steps that share their code, nothing of the run before is left."""
    cell = Cell("lstm" if kind == "lstm" else "linear", "xh")
    before = both(cell)
    with torch.no_grad():
        if change == "weight":
            (cell.layer.ff_weight if kind == "lstm" else cell.layer.weight).raw_tensor.mul_(-2)
        elif change == "bias":
            cell.layer.bias.raw_tensor = torch.ones_like(cell.layer.bias.raw_tensor)
        elif change == "frames":
            cell.source = lambda axis, name, seed, of=cell.source: of(axis, name, seed + 5)
    if change == "dtype":
        with rf.set_default_float_dtype_ctx("float64"):
            cell = Cell(cell.kind, "xh")
            cell.source = lambda axis, name, seed, of=cell.source: rf.cast(of(axis, name, seed), "float64")
            assert "ahead0" in both(cell, dtype="float64")
    else:
        assert both(cell) == before


def small(kind="lstm", order="xh"):
    """Cells of a small dtype, whose sums would be rounded once more."""
    with rf.set_default_float_dtype_ctx("bfloat16"):
        cell = Cell(kind, order)
    cell.source = lambda axis, name, seed, of=cell.source: rf.cast(of(axis, name, seed), "bfloat16")
    return cell


NOT = {
    "few steps": lambda patch: both(Cell("lstm", "xh"), Dim(8, name="time")),
    "nothing is known": lambda patch: both(Cell("linear", "hg")),
    "small dtype": lambda patch: both(small(), dtype="bfloat16"),
    "mixed precision": lambda patch: both(
        Cell("lstm", "xh"), modes=lambda: torch.autocast("cpu", dtype=torch.bfloat16)
    ),
    "large": lambda patch: patch.setattr(torch_frame_products, "_LARGEST", 319) or both(Cell("lstm", "xh")),
    "cell": lambda patch: (
        patch.setattr(torch_frame_products, "_cell_takes_rows", lambda: False) or both(Cell("lstm", "xh"))
    ),
}


@pytest.mark.parametrize("why", NOT)
def test_steps_make_their_products_themselves(why, monkeypatch):
    assert "ahead0" not in NOT[why](monkeypatch)


def test_as_many_elements_as_may_be(monkeypatch):
    monkeypatch.setattr(torch_frame_products, "_LARGEST", 320)  # 10 steps, 2 sequences, 4 gates of 4 units
    assert "ahead0" in both(Cell("lstm", "xh"))


LINES = {
    "as it should be": ("x, h", {}, True),
    "it writes into arrays": ("x, h", {"effect": True}, False),
    "weights of the step": ("x, h", {"args": ("c0", "r1", "h")}, False),
    "bias of the step": ("x, h", {"args": ("h", "r1", "c1")}, False),
    "a factor": ("x, h", {"args": ()}, False),
    "another function": ("x, h", {"fn": torch.bmm}, False),
    "one is made in the step": ("x, r0, h", {}, True),
    "two are made in the step": ("x, r0, r9", {}, False),
    "only states": ("h, r0", {}, False),
    "the same frame twice": ("x, h, x", {}, True),
    "it is no name": ("x, h, c1[0]", {}, False),
}


@pytest.mark.parametrize("name", LINES)
def test_lines(name):
    parts, other, expected = LINES[name]
    given = {"fn": torch.addmm, "args": ("c0", "r1", "c1"), "effect": False} | other
    join = LoweredCall(
        ("r1",), f"cat([{parts}], 1)", frozenset(parts.split(", ")), True, False, 0, torch.cat, (f"[{parts}]", "1")
    )
    product = LoweredCall(("r2",), f"addmm({', '.join(given['args'])})", frozenset({"r1"}), True, given["effect"], 1, given["fn"],
                   given["args"])  # fmt: skip
    bound = {"addmm": torch.addmm, "cat": torch.cat, "c0": torch.ones(5), "c1": torch.ones(9, 5), "ahead0": None}
    lines, products = ahead([join, product], bound, ["h"], ["x"], TORCH)
    assert bool(products) == expected
    if expected:
        assert products[0].name == "ahead1" and products[0].parts == tuple(parts.split(", "))
        rest = [each for each in parts.split(", ") if each != "x"]
        assert lines[-1].text == f"addmm(ahead1, {'joined0' if len(rest) > 1 else rest[0]}, rest0)"
        assert lines[-1].uses == {"ahead1", "joined0" if len(rest) > 1 else rest[0]}


def test_side_by_side_is_along_the_last_axis():
    join = LoweredCall(("r1",), "cat([x, h], 0)", frozenset("xh"), True, False, 0, torch.cat, ("[x, h]", "0"))
    product = LoweredCall(
        ("r2",), "addmm(c0, r1, c1)", frozenset({"r1"}), True, False, 1, torch.addmm, ("c0", "r1", "c1")
    )
    assert ahead([join, product], {"c0": None, "c1": None}, ["h"], ["x"], TORCH)[1] == []


@pytest.mark.parametrize("width, fits", [(3, True), (2, False), (4, False)])
def test_widths_that_do_not_fit(width, fits):
    frames, h = [torch.ones(2, width)] * 9, torch.ones(2, 4)
    made = torch_frame_products.product_ahead(torch.addmm, [frames, h], torch.ones(7, 5), torch.ones(5))
    assert (made is not None) == fits


def test_a_cell_of_torch_takes_rows_as_bias():
    assert torch_frame_products._cell_takes_rows()
