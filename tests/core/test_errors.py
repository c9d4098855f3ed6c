"""Errors as a user sees them in a traceback."""

import ast
import traceback
from pathlib import Path

import pytest
from asserting import randn

import rfnb as rf
from rfnb import Dim, DimError
from rfnb.core.errors import MissingKeyError

batch, feat = Dim(2, name="batch"), Dim(3, name="feat")
x, y = randn(batch), randn(feat)

PLANNING = {
    "elementwise": lambda: x + y,
    "where": lambda: rf.where(x > 0, x, y),
    "matmul": lambda: rf.matmul(x, y, reduce=feat),
    "reduce": lambda: rf.reduce_sum(x, axis=feat),
    "softmax": lambda: rf.softmax(x, axis=feat),
    "gather": lambda: rf.gather(x, indices=rf.zeros([batch], dtype="int32"), axis=feat),
}


@pytest.mark.parametrize("call", PLANNING.values(), ids=PLANNING)
def test_no_message_stands_under_the_key_of_a_plan(call):
    for _ in range(2):
        with pytest.raises(DimError) as caught:
            call()
        assert "KeyError" not in "".join(traceback.format_exception(caught.value))


def test_what_a_user_was_handling_is_still_shown():
    with pytest.raises(DimError) as caught:
        try:
            raise OSError("mine")
        except OSError:
            rf.reduce_sum(x, axis=feat)
    assert "OSError: mine" in "".join(traceback.format_exception(caught.value))


def test_a_key_that_is_not_there_prints_its_lines():
    with pytest.raises(KeyError) as caught:
        rf.build_from_dict({"in_dim": 3})
    assert str(caught.value) == (
        'build_from_dict: no "class" in the dict.\n  has  in_dim\nIt says what to build.\n    {"class": "rf.Linear", ...}'
    )


def test_no_key_error_with_a_message_prints_it_as_a_quoted_string():
    found = []
    for path in Path(rf.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            call = node.exc if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) else None
            if (
                call is not None
                and getattr(call.func, "id", None) == "KeyError"
                and not isinstance(call.args[0], ast.Name)
            ):
                found.append(f"{path.name}:{node.lineno}")
    assert not found and issubclass(MissingKeyError, KeyError)
