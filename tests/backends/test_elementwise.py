"""The properties in the table of elementwise functions are true, and a row that omits one is refused."""

import numpy as np
import pytest
import torch
from asserting import raises_message

import rfnb as rf
from rfnb.backends import elementwise, numpy_functions, torch_functions
from rfnb.backends.elementwise import BINARY, UNARY, Binary, Unary, functions_of

ODD = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, -1.0, 1e30, -1e30]
SAMPLES = [0.0, 0.25, -0.25, 1.0, -1.0, 3.0, -3.0, 50.0, -50.0]


def gradients(fn, *operands):
    """The derivatives in each operand, times what arrives from padding: 0."""
    leaves = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in operands]
    out = fn(*leaves)
    if not out.requires_grad:
        return []
    out.backward(torch.zeros(()))
    return [leaf.grad.item() for leaf in leaves if leaf.grad is not None]


@pytest.mark.parametrize("name", UNARY)
def test_padding_passes_the_gradient_0_on(name):
    row, fn = UNARY[name], torch_functions.UNARY[name]
    flags = name == "logical_not"
    places = ODD if row.derivative != "operand" else [row.safe] if row.safe is not None else SAMPLES
    for x in () if flags else places:
        assert all(grad == 0 for grad in gradients(fn, x)), (name, x)


@pytest.mark.parametrize("name", BINARY)
def test_padding_passes_the_gradient_0_on_in_both_operands(name):
    row, fn = BINARY[name], torch_functions.BINARY_TENSORS.get(name) or torch_functions.BINARY[name]
    if row.gives == "bool":
        return
    left, right = row.safe if row.safe is not None else (None, None)
    if row.derivative != "operand":
        places = [(x, y) for x in ODD for y in ODD]
    else:
        places = [
            (x, y)
            for x in ([left] if left is not None else SAMPLES)
            for y in ([right] if right is not None else SAMPLES)
        ]
    for x, y in places:
        assert all(grad == 0 for grad in gradients(fn, x, y)), (name, x, y)


@pytest.mark.parametrize("name", [name for name, row in UNARY.items() if row.finite and name != "logical_not"])
def test_finite_operands_give_finite_results(name):
    low, high = UNARY[name].domain
    for x in [*SAMPLES, *np.linspace(low, high, 7)]:
        assert torch.isfinite(torch_functions.UNARY[name](torch.tensor(x, dtype=torch.float64)).double()), (name, x)


@pytest.mark.parametrize(
    "name", [name for name, row in BINARY.items() if row.finite and not name.startswith("logical")]
)
def test_finite_pairs_give_finite_results(name):
    for x in SAMPLES:
        for y in SAMPLES:
            pair = torch.tensor(x, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)
            assert torch.isfinite(torch_functions.BINARY[name](*pair).double()), (name, x, y)


@pytest.mark.parametrize("name", UNARY)
def test_what_is_refused_and_what_is_given_are_those_of_the_row(name):
    row = UNARY[name]
    for kind, dtype in {"b": "bool", "u": "uint8", "i": "int32", "c": "complex64", "f": "float32"}.items():
        x = np.asarray([1, 0 if kind == "b" else 1], dtype)
        if kind in row.refuses:
            with pytest.raises(TypeError):
                numpy_functions.unary_fn(name)(x)
            continue
        out = numpy_functions.unary_fn(name)(x)
        given = {
            "bool": "b",
            "same": kind if name != "abs" or kind != "c" else "f",
            "float": "c" if kind == "c" else "f",
        }[row.gives]
        if not (row.gives == "same" and kind == "b"):
            assert out.dtype.kind == given, (name, dtype, out.dtype)


def test_each_row_is_a_public_op_with_its_words():
    public = {"truediv": "true_divide", "floordiv": "floor_divide"}
    for name, row in (UNARY | BINARY).items():
        op = getattr(rf, public.get(name, name))
        assert name in ("maximum", "minimum") or op.__doc__.startswith(row.doc.removesuffix(".")), name


FACTS = {"name": "softexp", "doc": "...", "gives": "float", "finite": False, "derivative": "operand"}


def test_a_row_without_a_fact_is_refused():
    with pytest.raises(TypeError, match="domain"):
        Unary(**FACTS, safe=1)
    rule = (
        'The row "softexp": `safe` is what padding is set to where finite operands may give an infinite derivative, which is\n'
        'so with finite=False and derivative="operand", and not otherwise.'
    )
    with raises_message(TypeError, rule):
        Unary(**FACTS, safe=None, domain=(0, 1))
    with raises_message(TypeError, rule):
        Binary(**{**FACTS, "finite": True}, safe=(None, 1))


def test_a_row_that_no_library_has_a_function_for_is_refused():
    row = Unary(**FACTS, safe=1, domain=(0, 1))
    with raises_message(TypeError, "numpy has no softexp: say what computes it, in numpy_functions.py."):
        functions_of(np, {"softexp": row}, {})
    assert functions_of(np, {"softexp": row}, {"softexp": abs}) == {"softexp": abs}
    assert elementwise.functions_of(np, {"exp2": row}, {}) == {"exp2": np.exp2}
