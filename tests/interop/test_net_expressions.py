"""Expressions in strings are refused quickly, with little memory and one kind of error, whatever they are."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from dict_nets import built, loop_of, run

import rfnb as rf
from rfnb.interop.net.named_functions import activation
from rfnb.interop.net.safe_eval import evaluate

LARGE = [
    "9 ** 9 ** 9 ** 9", "(9 ** 9) ** 9 ** 9", "2 ** 64 ** 2", "10 ** 400 * 1.0", "2.0 ** 5000", "1e308 * 10", "1e400", "0x" + "f" * 15_000,
    "9 * " * 500 + "9", "-" + "9" * 4000, "max(2 ** 40, 2) * 2 ** 40",
]  # fmt: skip
REPEATED = [
    "'a' * 10 ** 10",
    "('a' * 10 ** 9) * 10",
    "[0] * 10 ** 9",
    "(1, 2) * 10 ** 9",
    "'%1000000000d' % 1",
    "'a' + 'b'",
    "b'a' * 10",
]
NESTED = [
    "(" * 10_000 + "1" + ")" * 10_000, "-" * 19_000 + "1", "not " * 4000 + "1", "~" * 100 + "1", "[" * 10_000, "a." * 5000 + "b",
    "max(" * 70 + "1" + ")" * 70, "1" + " + 1" * 100_000, "a" * 30_000,
]  # fmt: skip
MEANINGLESS = ["1 / 0", "1 // 0", "1 % 0", "0 ** -1", "(-1) ** 0.5", "None + 1", "-'a'", "~1.5", "max + 1", "max()", "max(1, 'a')",
               "'a' < 'b'", "1 << 100", "1 if 1 else 2", "1 < 2 < 3", "x := 1", "1j", "...", "{1: 2}", "", "\n", "\x00", "\ud800",
               "[x for x in [1]]", "(lambda: 1)()", "f'{1:1000000000}'", "'{:>999999999}'.format(1)", "max.__class__",
               "__import__('os')", "open('x')", "max(*[1])", "max(**{'a': 1})", "[1][0]", "1; 2"]  # fmt: skip


def _value(text):
    return evaluate(text, names={"max": lambda *values: max(values)}, what="Layer", compare=lambda a, kind, b: a < b)


@pytest.mark.parametrize("text", [*LARGE, *REPEATED, *NESTED, *MEANINGLESS], ids=lambda text: repr(text[:24]))
def test_what_has_no_value_is_one_kind_of_error_and_takes_little_memory(text):
    tracemalloc.start()
    with pytest.raises(ValueError, match=r"(?s)^Layer: .*\n  text"):
        _value(text)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # the parser takes this much for the longest text it gets


@pytest.mark.parametrize(
    ("text", "value"),
    [("2 ** 10", 1024), ("-3 + 4 * 2", 5), ("7 // 2 + 7 % 4", 6), ("2 ** -1", 0.5), ("max(1, 2 ** 62)", 2**62), ("1" + " + 1" * 500, 501),
     ("(" * 50 + "3" + ")" * 50, 3), (" 1 < 2", True), ("not 0", True), ("6 & 3 | 8", 10)],
)  # fmt: skip
def test_what_has_a_value_gives_it(text, value):
    assert _value(text) == value


def test_an_expression_without_value_shows_the_text_and_the_cause():
    net = rf.net_from_dict(
        {"output": {"class": "eval", "from": "data", "eval": "tf.exp(source(0) / 2)"}}, {"data": {"dim": 3}}
    )
    net.layers["output"].opts["eval"] = "source(0) + 1 / 0"
    with pytest.raises(ValueError) as caught:
        net({"data": (np.ones((1, 2, 3), "float32"), [2])})
    assert str(caught.value) == (
        'Layer "output" of class "eval": the expression has no value.\n'
        "  text   'source(0) + 1 / 0'\n"
        "  cause  division by zero\n"
        "Numbers and sources are combined by operators and known functions."
    )


def test_an_expression_that_gives_a_text_is_refused():
    with pytest.raises(ValueError) as caught:
        rf.net_from_dict({"output": {"class": "eval", "from": "data", "eval": "'abc'"}}, {"data": {"dim": 3}})
    assert str(caught.value) == (
        'Layer "output" of class "eval": the result of the expression is neither a number nor a tensor.\n'
        "  text   \"'abc'\"\n"
        "  value  of type str\n"
        "eval is an expression of the sources.\n"
        '    "eval": "2 * source(0)"'
    )


@pytest.mark.parametrize(
    "text",
    ["round(5, -10 ** 9)", "int('9' * 4000)", "int('99')", "max()", "max(1, 'a')", "1 < 2", "9 ** 9 ** 9", "1 / 0"],
)
def test_the_limit_of_a_loop_is_refused_in_the_same_way(text):
    unit = {
        "output": {"class": "linear", "n_out": 2, "from": "prev:output"},
        "end": {"class": "compare", "from": ":i", "value": 2},
    }
    net = built({"output": {"class": "rec", "from": [], "unit": unit, "max_seq_len": text}})
    with pytest.raises(
        ValueError, match=r'(?s)^Layer "output" of class "rec", max_seq_len: the expression has no value.\n  text '
    ):
        run(net)


@pytest.mark.parametrize(
    "text", ["9 ** 9 ** 9 * relu", "1e999 * relu", "2.0", "(" * 300 + "relu" + ")" * 300, "-" * 5000 + "relu",
             "relu(" * 70 + "relu" + ")" * 70, "'a' * 10 ** 10", "tf.nn.nn.relu", "os.relu", "1 / 0 * relu", "a" * 30_000],
)  # fmt: skip
def test_an_activation_in_a_text_is_refused_in_the_same_way(text):
    with pytest.raises(ValueError, match=r"^Layer: "):
        activation(text, "Layer")


def test_numbers_of_an_activation_are_computed_once_as_written():
    net = built(
        loop_of({"output": {"class": "activation", "activation": "(3 - 1) ** 2 * relu", "from": "data:source"}})
    )
    plain = built(loop_of({"output": {"class": "eval", "eval": "4 * tf.nn.relu(source(0))", "from": "data:source"}}))
    np.testing.assert_allclose(run(net)["output"].numpy(), run(plain)["output"].numpy())
