"""Equal answers in other forms pass; others are told what differs, by dim."""

import math
import textwrap

import numpy as np
import pytest
import torch
from asserting import raises_message, randn, tensor

import rfnb as rf
from rfnb import Dim
from rfnb.teaching import call, check_calls, check_gradient, check_padding, check_same, with_padding
from rfnb.teaching.exercises import Unsolved, Wrong

batch, model = Dim(2, name="batch"), Dim(3, name="model")
time = rf.ragged_dim([5, 3], over=batch, name="time")


def wrong_with(text):
    return raises_message(Wrong, textwrap.dedent(text).strip("\n"))


@pytest.fixture
def expected():
    return randn(batch, time, model)


FORMS = {
    "itself": lambda x: x,
    "dims in another order": lambda x: tensor(x.numpy().transpose(2, 0, 1).copy(), model, batch, time),
    "a tensor of torch": lambda x: x.raw_tensor.clone(),
    "a parameter of torch": lambda x: torch.nn.Parameter(x.raw_tensor.clone()),
    "an array": lambda x: x.numpy(),
    "double precision": lambda x: x.numpy().astype(np.float64),
    "nested lists": lambda x: x.numpy().tolist(),
    "another last digit": lambda x: x * (1 + 1e-6),
    "other padding": lambda x: with_padding(x, 7.0),
    "NaN in the padding": lambda x: with_padding(x, math.nan),
}


@pytest.mark.parametrize("form", FORMS)
def test_an_equal_answer_in_another_form_is_right(expected, form):
    check_same(FORMS[form](expected), expected)


PLAIN = [
    (3, 3.0), (np.float32(0.1), 0.1), (torch.tensor(2.0), 2), (tensor(2.0), 2.0), ([1, 2], (1, 2)), (np.array([1, 2]), [1, 2]),
    (torch.tensor([1.0, 2.0]), [1, 2.0]), ({"a": [1.0]}, {"a": (1,)}), ("a", "a"), ({1, 2}, {2, 1}), (True, True),
    (np.bool_(True), True), ([("a", 1.0), ("b", 2)], [("a", 1), ("b", 2.0)]), (float("inf"), math.inf), ([], []), (batch, batch),
]  # fmt: skip


@pytest.mark.parametrize(("got", "expected"), PLAIN)
def test_equal_numbers_texts_and_structures_are_right(got, expected):
    check_same(got, expected)


def test_the_first_cell_that_differs_is_named_by_dims(expected):
    got = expected.numpy().copy()
    got[1, 2, 0] += 1
    got[1, 4] += 1  # past the end of sequence 1
    with wrong_with(
        f"""
        The result differs in 1 of 24 cells; the first:
          at        batch=1, time=2, model=0
          got       {got[1, 2, 0]:.4g}
          expected  {expected.numpy()[1, 2, 0]:.4g}
        """
    ):
        check_same(tensor(got, batch, time, model), expected)


def test_small_numbers_are_compared_with_each_other_and_not_with_one():
    check_same([1e-6, 2e-6], [1e-6, 2.00001e-6])
    with pytest.raises(Wrong, match="differs in 1 of 2 cells"):
        check_same([1e-6, 3e-6], [1e-6, 2e-6])


def test_other_dims_are_named(expected):
    with pytest.raises(Wrong) as caught:
        check_same(rf.reduce_sum(expected, axis=time), expected, what="The mask")
    assert str(caught.value).splitlines() == [
        "The mask has other dims: time is missing:",
        "  got       [batch=2, model=3]",
        "  expected  [batch=2, time<=5, model=3]",
    ]


def test_a_dim_of_the_same_name_is_another_one(expected):
    other = Dim(3, name="model")
    with pytest.raises(Wrong) as caught:
        check_same(tensor(expected.numpy(), batch, time, other), expected)
    assert str(caught.value).startswith("The result has other dims: model is another dim of the same name:")
    assert str(caught.value).endswith(
        "A dim is the same only if it is the same object: use the one that the input has."
    )


def test_axes_of_an_array_in_another_order_are_told(expected):
    with wrong_with(
        """
        The result has its axes in another order:
          got       (5, 2, 3)
          expected  [batch=2, time<=5, model=3]
                    (2, 5, 3)
        An array has no names: its axes come in the order of these dims.
        """
    ):
        check_same(expected.raw_tensor.permute(1, 0, 2), expected)


def test_a_square_array_that_is_turned_is_told():
    with wrong_with(
        """
        The result differs in 2 of 4 cells; the first:
          at        (0, 1)
          got       3
          expected  2
        It is right with its axes in the other order.
        """
    ):
        check_same([[1, 3], [2, 4]], [[1, 2], [3, 4]])


OTHERS = [
    ([1, 2, 3], [1, 2], "The result has another shape:\n  got       (3,)\n  expected  (2,)"),
    ([1.0], 1.0, "The result has another shape:\n  got       shape (1,)\n  expected  one number"),
    (
        [1, 0],
        [True, False],
        "The result has another dtype:\n  got       int64: whole numbers\n  expected  bool: true and false",
    ),
    ("ab", "ba", "The result is different:\n  got       'ab'\n  expected  'ba'"),
    (None, 3, "The result is None.\nA function ends with `return` and its result."),
    ((1.0, "a"), (1.0, "b"), "The result[1] is different:\n  got       'a'\n  expected  'b'"),
    (["a"], ["a", "b"], "The result has another length:\n  got       1 entries: ['a']\n  expected  2 entries"),
    ({"b": "x"}, {"a": "x"}, "The result has other keys:\n  got       ['b']\n  expected  ['a']"),
    ("a", ["a", "b"], "The result is no list:\n  got       str\n  expected  list"),
    (
        math.nan,
        1.0,
        "The result is another number:\n  got       nan\n  expected  1\nThere is NaN in it: 0 divided by 0, or infinity minus infinity.",
    ),
    (1.0, math.nan, "The result is another number:\n  got       1\n  expected  nan"),
    ("seven", 7, "The result is no number:\n  got       'seven'\n  expected  7"),
    (batch, model, "The result is different:\n  got       Dim"),
]


@pytest.mark.parametrize(("got", "expected", "said"), OTHERS, ids=range(len(OTHERS)))
def test_what_differs_is_said(got, expected, said):
    with pytest.raises(Wrong) as caught:
        check_same(got, expected)
    assert str(caught.value) == said or (said.endswith("Dim") and str(caught.value).startswith(said))


def test_no_tensor_where_one_is_expected(expected):
    with pytest.raises(Wrong, match="The result is no Tensor:"):
        check_same("text", expected)


def test_labels_are_whole_numbers_of_the_right_dim():
    words, letters = Dim(9, name="words"), Dim(9, name="letters")
    best = tensor([1, 2], batch, sparse_dim=words)
    check_same(tensor([1, 2], batch), best)
    check_same(np.array([1, 2]), best)
    with pytest.raises(Wrong, match="labels of another dim"):
        check_same(tensor([1, 2], batch, sparse_dim=letters), best)
    with pytest.raises(Wrong, match="another dtype:\n  got       float32: numbers with a fraction"):
        check_same(tensor([1.0, 2.0], batch), best)


def test_dots_anywhere_are_unsolved(expected):
    for got, wanted in ((..., expected), ((1, ...), (1, 2.0, "a")[:2]), ({"a": ...}, {"a": "x"})):
        with pytest.raises(Unsolved):
            check_same(got, wanted)
    with pytest.raises(Unsolved):
        call(lambda: ...)


def test_of_several_inputs_the_smallest_that_fails_is_said():
    def longest_first(words):
        return sorted(words, key=len)

    inputs = [(["aa", "b", "cccc", "dd"],), (["a"],), (["a", "bb"],)]
    with wrong_with(
        """
        The order[0] is different:
          words     ['a', 'bb']
          got       'a'
          expected  'bb'
        """
    ):
        check_calls(longest_first, lambda words: sorted(words, key=len, reverse=True), inputs, what="The order")


def test_an_answer_that_changes_its_input_does_not_change_what_is_expected():
    def empties(words):
        words.clear()
        return words

    with pytest.raises(Wrong, match=r"\['a', 'b'\]"):
        check_calls(empties, lambda words: list(words), [(["a", "b"],)])


def masked_mean(x, time):
    return rf.reduce_mean(x, axis=time)


def product_with_mask(x, time):
    mask = rf.cast(time.get_mask(), "float32")
    raw = (x.raw_tensor * mask.raw_tensor[:, :, None]).sum(1)
    return raw / torch.tensor([[5.0], [3.0]])


def looks_at_padding(x, time):
    return x.raw_tensor.mean(1)


def test_who_looks_at_padding_is_told(expected):
    check_padding(masked_mean, expected, time, nan=True)
    check_padding(product_with_mask, expected, time)  # a multiplication by 0 is enough, unless NaN is there
    with pytest.raises(Wrong) as caught:
        check_padding(looks_at_padding, expected, time)
    said = str(caught.value).splitlines()
    assert said[0] == "You looked at padding: the result changes with what lies past the end of a sequence."
    assert said[1].split() == ["x", "[batch=2,", "time<=5,", "model=3]", "float32"]
    assert said[2].split() == ["at", "(1,", "0)"]
    assert said[-1] == "Only the first frames of a sequence are real, as many as its length says."
    with pytest.raises(Wrong, match="You looked at padding"):
        check_padding(product_with_mask, expected, time, nan=True)


def test_a_padding_check_without_padding_is_a_fault_of_its_author():
    with pytest.raises(ValueError, match="check_padding: no argument has padding."):
        check_padding(lambda x: x, randn(batch, model))


def test_other_padding_is_of_the_same_kind_of_values():
    words = Dim(3, name="words")
    labels = tensor([[0, 1, 2, 0, 1], [2, 2, 1, 0, 2]], batch, time, sparse_dim=words)
    assert with_padding(labels).numpy().tolist() == [[0, 1, 2, 0, 1], [2, 2, 1, 1, 0]]
    counts = tensor([[0, 1, 2, 0, 1], [2, 2, 1, 0, 2]], batch, time)
    assert with_padding(counts).numpy().tolist() == [[0, 1, 2, 0, 1], [2, 2, 1, 3, 3]]
    real = counts > 1
    assert with_padding(real).numpy()[1].tolist() == [True, True, False, True, False]
    assert with_padding("text") == "text"


def test_a_value_without_gradient_is_named():
    weight, bias = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))
    check_gradient((weight * bias).sum(), {"weight": weight, "bias": bias})
    assert weight.grad is None  # left as it was
    with pytest.raises(Wrong, match="No gradient reaches bias."):
        check_gradient((weight * bias.detach()).sum(), {"weight": weight, "bias": bias})
    with pytest.raises(Wrong, match="No gradient comes back from the result."):
        check_gradient((weight * bias).sum().detach(), {"weight": weight})
    written = weight.exp()
    loss = written.sum()
    written += 1.0
    with pytest.raises(Wrong, match="a tensor that is still needed for it was written into afterwards"):
        check_gradient(loss, {"weight": weight})
    parameter = rf.Parameter([model])
    parameter.initial = 1.0
    check_gradient(rf.reduce_sum(parameter * 2.0, axis=model), {"parameter": parameter})
