"""The algebra of dims: non-commutative, and an expression is one dim for ever."""

import gc
import weakref

import numpy as np
import pytest
from asserting import ragged, raises_message
from hypothesis import given, settings
from hypothesis import strategies as st

import rfnb as rf
from rfnb import Dim, DimError

a, b, c = Dim(2, name="a"), Dim(3, name="b"), Dim(5, name="c")
batch = Dim(3, name="batch")
t = ragged([7, 5, 3], batch, "t")

SAME = {
    "sum of itself": (2 * a, a + a),
    "a number cancels": (a + 2 - 2, a),
    "a number added again": (c - 5 + 5, c),
    "nothing added": (0 + a + 0, a),
    "nothing multiplied": (1 * a * 1, a),
    "nothing times a dim": ((t - t) * b, 0 * t),
    "a dim times nothing": (b * (t - t), a - a),
    "nothing in parts": ((t - t) // b, 0 * t),
    "a product cancels": (a + 2 * b - b + (-b), a),
    "the left factor distributes": (a * b + b, (a + 1) * b),
    "a sum times a number": ((a + b) * 2, a * 2 + b * 2),
    "a number times a sum": (2 * (a + b), a + b + a + b),
    "numbers on both sides": ((2 * a) * 3, 2 * (a * 3)),
    "division from the right": ((a * b) // b, a),
    "division from the left": ((b * a).div_left(b), a),
    "division of a sum": ((a * b + c * b) // b, a + c),
    "division by one": (a // 1, a),
    "frames around a ragged dim": ((-2) + (2 + t + 2) + (-2), t),
    "ceildiv twice": (t.ceildiv_right(2).ceildiv_right(3), t.ceildiv_right(6)),
    "ceildiv from the left twice": (t.ceildiv_left(2).ceildiv_left(3), t.ceildiv_left(6)),
    "floordiv twice": (t // 2 // 3, t // 6),
    "sub_left undoes a sum": ((b + a).sub_left(b), a),
    "sub_right undoes a sum": ((a + b).sub_right(b), a),
    "other names of division": (a.div_right(b), a // b),
    "true division is whole": (a / b, a // b),
    "difference of equals": (a - a, t - t),
    "a sum as right factor": (a * (b + c) + (b + c), (a + 1) * (b + c)),
    "division by a sum": ((a * (b + c)) // (b + c), a),
    "division from the left by a sum": (((b + c) * a).div_left(b + c), a),
    "brackets in a product": ((a * (b + c)) * t, a * ((b + c) * t)),
}
DIFFERENT = {
    "a number added again where there was less": (a - 5 + 5, a),
    "sum": (a + b, b + a),
    "product": (a * b, b * a),
    "a frame before or after": (1 + a, a + 1),
    "two copies, or pairs": (2 * a, a * 2),
    "numbers on one side": ((2 * a) * 3, a * 6),
    "minus before or after": (1 + a - 1, a),
    "division from the other side": ((b * a) // b, a),
    "division from the left of the other": ((a * b).div_left(b), a),
    "floor and ceil": (t // 2, t.ceildiv_right(2)),
    "equal names": (Dim(2, name="a") + 1, a + 1),
    "an independent copy": (a.copy(same_as_self=False) * 2, a * 2),
    "a static dim and its number": (a + b, a + 3),
}


@pytest.mark.parametrize("pair", SAME.values(), ids=SAME)
def test_same_expression_is_the_same_dim(pair):
    assert pair[0] is pair[1]


@pytest.mark.parametrize("pair", DIFFERENT.values(), ids=DIFFERENT)
def test_other_expression_is_another_dim(pair):
    assert pair[0] is not pair[1] and pair[0] != pair[1]


_leaf = st.sampled_from([a, b, c])
_expressions = st.recursive(
    _leaf | st.integers(1, 2),
    lambda inner: st.builds(lambda plus, x, y: x + y if plus else x * y, st.booleans(), inner, inner),
    max_leaves=4,
)
_dims = _expressions.filter(lambda value: isinstance(value, Dim))
_check = settings(max_examples=150, deadline=None, derandomize=True, database=None)


@_check
@given(_expressions, _dims, _expressions)
def test_brackets_in_a_sum_do_not_matter(x, y, z):
    assert (x + y) + z is x + (y + z)


@_check
@given(_leaf | st.integers(1, 2), _dims, _leaf | st.integers(1, 2))
def test_brackets_in_a_product_do_not_matter(x, y, z):
    assert (x * y) * z is x * (y * z)


@_check
@given(_dims, _dims, _dims)
def test_only_the_left_factor_distributes(x, y, z):
    assert (x + y) * z is x * z + y * z


@_check
@given(_dims, _expressions)
def test_what_is_added_can_be_taken_away(x, y):
    assert x + y - y is x
    assert (y + x).sub_left(y) is x


@_check
@given(_dims, _leaf)
def test_what_is_multiplied_can_be_divided(x, y):
    assert (x * y) // y is x
    assert (y * x).div_left(y) is x


def test_an_expression_is_the_same_dim_after_many_others():
    first = t + 1
    others = [t + number for number in range(2, 200)]
    del others
    gc.collect()
    assert t + 1 is first


def test_an_expression_nobody_holds_is_forgotten():
    gone = weakref.ref(a * 12345 + 1)
    for number in range(500):  # the last ones are kept for the ops that make them again in each call
        a + 20000 + number
    gc.collect()
    assert gone() is None


def test_a_derived_dim_keeps_its_parts():
    part = ragged([2, 1, 3], batch, "part")
    derived = 2 * part + 1
    del part
    gc.collect()
    assert derived.lengths.tolist() == [5, 3, 7]


@pytest.mark.parametrize(
    ("dim", "size"),
    [
        (a + b, 5),
        (2 * a, 4),
        (a * b, 6),
        (a - b, 0),
        (b - a, 1),
        (c // a, 2),
        (c.ceildiv_right(2), 3),
        (a - a, 0),
        (7 - a, 5),
        (7 // a, 3),
    ],
    ids=str,
)
def test_size_of_static_expressions(dim, size):
    assert (dim.size, dim.extent, dim.is_static()) == (size, size, True)


@pytest.mark.parametrize(
    ("dim", "lengths"),
    [
        (t + 2, [9, 7, 5]),
        (2 * t, [14, 10, 6]),
        (t - 4, [3, 1, 0]),
        (t // 2, [3, 2, 1]),
        (t.ceildiv_right(2), [4, 3, 2]),
        (t * a + t, [21, 15, 9]),
    ],
    ids=str,
)
def test_lengths_of_ragged_expressions(dim, lengths):
    assert dim.lengths.tolist() == lengths
    assert dim.length_dims == (batch,)
    assert dim.extent == max(lengths)
    assert dim.is_dynamic() and dim.need_masking()


def test_lengths_over_different_dims_unite():
    heads = Dim(2, name="heads")
    other = ragged([1, 2], heads, "other")
    both = t + other
    assert both.length_dims == (batch, heads)
    assert both.lengths.tolist() == [[8, 9], [6, 7], [4, 5]]


def test_a_size_that_is_not_known_yet_comes_later():
    new = Dim(None, name="new")
    derived, twin = 2 * new + 1, new.copy(match_priority=1)
    assert not derived.is_dim_known() and not twin.is_dim_known()
    new.dyn_size_ext = np.int32(4)
    assert (derived.extent, twin.extent) == (9, 4)


def test_derived_lengths_follow_a_new_size():
    new = Dim(None, name="new")
    new.dyn_size_ext = np.int32(4)
    derived, twin = (2 * new + 1) // 3, new.copy(match_priority=1)
    assert (derived.extent, twin.extent) == (3, 4)
    new.dyn_size_ext = np.int32(7)
    assert (derived.extent, twin.extent) == (5, 7)
    new.reset_eager()
    assert not derived.is_dim_known() and not twin.is_dim_known()


def test_names_show_the_expression():
    assert [f"Dim{{{dim.short_repr()}}}" for dim in (t + 2, 2 * t, a - b, a * (b + c), 1 + a * b)] == [
        "Dim{t+2<=9}",
        "Dim{2*t<=14}",
        "Dim{a-b=0}",
        "Dim{a*(b+c)=16}",
        "Dim{1+a*b=7}",
    ]


def test_division_by_zero():
    with raises_message(
        DimError,
        """
        Division of a dim by 0.
          dim  a=2
        The divisor is 1 or more.
        """,
    ):
        a // 0


def test_arithmetic_with_a_float():
    with raises_message(
        DimError,
        """
        Arithmetic of dims takes dims and ints.
          got  float
        Sizes are whole numbers.
        """,
    ):
        a + 1.5


def test_a_length_below_zero_is_0_and_no_sum_any_more():
    cut = t - 4
    assert cut.lengths.tolist() == [3, 1, 0]
    for dim, lengths in {
        cut + 4: [7, 5, 4], 4 + cut: [7, 5, 4], cut + t: [10, 6, 3], t + cut: [10, 6, 3], 2 * cut: [6, 2, 0], cut * 2: [6, 2, 0],
        2 * cut + 3: [9, 5, 3], cut.ceildiv_right(2) + 1: [3, 2, 1], (cut // 2) + 1: [2, 1, 1], t.sub_left(4) + 4: [7, 5, 4],
        b - t: [0, 0, 0], (b - t) + t: [7, 5, 3], t - (b - t): [7, 5, 3], cut.sub_left(b): [0, 0, 0],
    }.items():  # fmt: skip
        assert dim.lengths.tolist() == lengths, dim


def test_a_clipped_sum_is_one_dim_as_any_other():
    assert (t - 4) + 4 is (t - 4) + 4 is not t
    assert (t - 4) + 4 - 4 is t - 4
    assert ((t - 4) * 2) // 2 is t - 4 and (2 * (t - 4)).div_left(2) is t - 4
    assert t - 4 - 2 is t - 6 and t.sub_left(4).sub_left(1) is t.sub_left(5)
    assert (t - 4).ceildiv_right(2).ceildiv_right(3) is (t - 4).ceildiv_right(6)


def test_a_sum_is_not_clipped_as_long_as_there_are_no_lengths():
    time = Dim(None, name="time")
    early = time - 3 + 3
    assert early is time
    time.dyn_size_ext = ragged([5, 4, 3], batch).dyn_size_ext
    assert time - 3 + 3 is time
    time.dyn_size_ext = ragged([5, 1, 3], batch).dyn_size_ext
    late = time - 3 + 3
    assert late is not time and late.lengths.tolist() == [5, 3, 3]
    time.dyn_size_ext = ragged([5, 6, 7], batch).dyn_size_ext
    assert time - 3 + 3 is time and late.lengths.tolist() == [5, 6, 7]


def test_lengths_in_the_padding_of_others_are_not_clipped():
    words = ragged([2, 1], Dim(2, name="pair"), "words")
    chars = ragged([[5, 4], [3, 0]], [words.length_dims[0], words], "chars")
    assert chars - 3 + 3 is chars
    assert chars - 4 + 4 is not chars


def test_without_sequences_a_sum_is_that_of_the_longest():
    nobody = ragged([], Dim(0, name="nobody"))
    assert ((nobody + 4) - 3).extent == 1
    assert ((nobody - 3) + 4).extent == 4


@pytest.mark.parametrize("same_dim", [False, True])
def test_a_plan_of_one_batch_is_none_for_one_in_which_a_sequence_is_too_short(same_dim):
    pair = Dim(2, name="pair")
    time = Dim(None, name="time")
    for lengths in ([5, 4], [5, 1], [6, 3], [1, 1], [0, 2], [7, 7]):
        if same_dim:
            time.dyn_size_ext = ragged(lengths, pair).dyn_size_ext
        else:
            time = ragged(lengths, pair)
        x = rf.expand_dim(rf.cast(rf.range_over_dim(time), "int32"), pair)
        cut, dim = rf.slice(x, axis=time, end=-3)
        out, (dim,) = rf.pad(cut, axes=[dim], padding=[(2, 1)], value=-1)
        out, dim = rf.concat((out, dim), (x, time))
        assert (dim is 2 + time - 2 + time) == (min(lengths) >= 3)
        expected = [[-1, -1, *range(n)][: max(n - 1, 2)] + [-1, *range(n)] for n in lengths]
        assert [row[:n].tolist() for row, n in zip(out.copy_transpose([pair, dim]).numpy(), dim.lengths)] == expected


def test_error_where_a_clipped_sum_meets_what_it_would_be():
    x = rf.zeros([batch, t])
    cut, dim = rf.slice(x, axis=t, end=-4)
    padded, _ = rf.pad(cut, axes=[dim], padding=[(0, 4)])
    with raises_message(
        DimError,
        """
        add: the dims of the operands do not match.
          a  [batch=3, (t-4)+4<=7]
          b  [batch=3, t<=7]
        (t-4)+4<=7 is not t<=7: t-4 is below 0 for some sequence, which has 0 frames of it.
        So its lengths are no sum any more. Cut it, or pad it, to the frames of the other:
            a = rf.replace_dim_v2(a, in_dim=a.dims[1], out_dim=t)
        """,
    ):
        padded + x
    assert (rf.replace_dim_v2(padded, in_dim=padded.dims[1], out_dim=t) + x).dims == (batch, t)
