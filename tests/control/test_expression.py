"""Conditions as text: what is understood, and that nothing else is ever made of it."""

import numpy as np
import pytest
from control.held_models import sums
from control.stops import steps_with
from hypothesis import given, settings
from hypothesis import strategies as st

import rfnb as rf
from rfnb.control.conditions import ConditionContext
from rfnb.control.expression import Expression
from rfnb.control.position import Position

BATCH, FEAT = rf.Dim(2, name="batch"), rf.Dim(3, name="feat")
H = np.array([[1.0, -2.0, 3.0], [4.0, 5.0, -6.5]], np.float32)


class Values:
    """A place with these states."""

    def __init__(self, **states):
        self._states = states

    def states_now(self):
        return self._states


def asked():
    held = Values(h=rf.convert_to_tensor(H, dims=[BATCH, FEAT]), decoder={"s": rf.convert_to_tensor(7.0)})
    return ConditionContext(Position("net", "outer.net", 4, 9, held, {"loss": 0.25}), [])


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("h.max() == 5", True),
        ("h.min() == -6.5 and h.abs_max() == 6.5", True),
        ("h.sum() == 4.5", True),
        ("h.mean() > 0.74 and h.mean() < 0.76", True),
        ("abs(h).max() > 6 and h.abs().max() > 6", True),
        ("h.norm() ** 2 > 97.2 and h.norm() ** 2 < 97.3", True),
        ("h ** 2 > 42", True),
        ("h > 4.5", True),
        ("h > 5", False),
        ("(h > -7).all()", True),
        ("(h > 0).all()", False),
        ("(h > 4.5).any()", True),
        ("h.is_finite()", True),
        ("not h.is_finite()", False),
        ("h.max(axis='feat') == 3", True),
        ("h.max(axis=('feat', 'batch')) == 5", True),
        ("h[{'batch': 1, 'feat': 2}] == -6.5", True),
        ("h[{'batch': 0}].max() == 3", True),
        ("1 < h.max() <= 5 < step + 2", True),
        ("1 < h < 2", False),
        ("0.5 < h < 2", True),
        ("h + loss > 5", True),
        ("2 * h - 1 == 9", True),
        ("-h.min() / 2 == 3.25", True),
        ("max(h.max(), 10) == 10 and min(h.max(), 10) == 5", True),
        ("decoder.s.max() == 7", True),
        ("s.max() == 7", True),
        ("state('decoder.s').max() == 7", True),
        ("loss < 0.5", True),
        ("step == 4 and tick == 9 and loop == 'net' and path == 'outer.net'", True),
        ("loop != 'net' or step > 3", True),
        ("nan() or inf() or ended() or label('a')", False),
        ("not nan", True),
        ("entropy() > 0", False),
    ],
)
def test_a_text_means_what_python_would(text, holds):
    expression = Expression(text)
    assert bool(expression(asked())) is holds


@pytest.mark.parametrize(
    "text", ["h.sum() == 120000", "h + h == 240", "1000 * h == 120000", "h.sum(axis='feat') > 1e5"]
)
@pytest.mark.parametrize("dtype", ["float16", "int8", "uint8", "float32"])
def test_sums_of_small_numbers_do_not_overflow(text, dtype):
    feat = rf.Dim(1000, name="feat")
    held = Values(h=rf.convert_to_tensor(np.full(1000, 120, dtype), dims=[feat]))
    assert Expression(text)(ConditionContext(Position("net", "net", 0, 0, held, {}), []))


def refused(text):
    with pytest.raises(ValueError) as error:
        Expression(text)
    lines = str(error.value).splitlines()
    assert lines[0] == "break_when: this text is not a condition." and lines[-1].startswith("    run.break_when(")
    assert len(str(error.value)) < 1200
    return lines[2].removeprefix("  but   ")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "invalid syntax"),
        ("h.max() >", "invalid syntax"),
        ("h.max() > 5; import os", "invalid syntax"),
        ("h.max()", "neither true nor false: h.max()"),
        ("h", "neither true nor false: h"),
        ("5 > 3", "neither true nor false: 5 > 3"),
        ("True", "neither true nor false: True"),
        ("h.max > 5", "h.max is a method: write h.max()"),
        ("h.numpy() > 5", "no such function: h.numpy()"),
        ("h.__class__ == 1", "names must not begin with an underscore: h.__class__"),
        ("h._raw.max() > 1", "names must not begin with an underscore: h._raw"),
        ("__import__('os').system('x') == 0", "no such function: __import__('os').system('x')"),
        ("open('/etc/passwd') == 1", "no such function: open('/etc/passwd')"),
        ("().__class__ == 1", "unsupported expression: ()"),
        ("[x for x in h] == 1", "unsupported expression: [x for x in h]"),
        ("(lambda: 1)() == 1", "no such function: (lambda: 1)()"),
        ("(h := 5) > 3", "unsupported expression: (h := 5)"),
        ("f'{h}' == 'a'", "unsupported expression: f'{h}'"),
        ("h.max() in [1]", "unsupported comparison; the operators are < <= > >= == !="),
        ("h % 2 == 0", "unsupported expression: h % 2"),
        ("h[0] > 1", 'entries are selected by dim and index, as in h[{"batch": 0}]: h[0]'),
        ("h[{'batch': step}] > 1", "not a plain value: {'batch': step}"),
        ("h.max(axis=0) > 1", "invalid axis 0: h.max(axis=0)"),
        ("h.max(keepdims=True) > 1", "no such argument: h.max(keepdims=True); it has axis"),
        ("h.abs(1).max() > 1", "too many arguments: h.abs(1)"),
        ("label()", "label is missing: label()"),
        ("label('a', place=1)", "no such argument: label('a', place=1); it has label, rank, seq"),
        ("label(1.5)", "invalid label 1.5: label(1.5)"),
        ("nan(h)", "too many arguments: nan(h)"),
        ("h.max() > 5 if step else nan()", "neither true nor false: h.max() > 5 if step else nan()"),
        ("h.max() > 1" + "1" * 400, "411 characters; at most 300 are allowed"),
        (" or ".join(["h<1"] * 40), "more than 100 parts"),
        ("(" * 149 + "h" + ")" * 149, None),
    ],
)
def test_what_is_no_condition_is_refused(text, why):
    found = refused(text)
    assert why is None or found.startswith(why)


def test_the_whole_message():
    with pytest.raises(ValueError) as error:
        rf.run(sums(), paused=True).break_when("h.maxx() > 5")
    assert str(error.value) == (
        "break_when: this text is not a condition.\n"
        "  text  h.maxx() > 5\n"
        "  but   no such function: h.maxx()\n"
        'A condition uses states (h.max(), min, mean, sum, norm, abs_max, of some entries h[{"batch": 0}]), step, tick, loop, path,'
        " comparisons, + - * / **, and, or, not, and\n"
        'nan(), inf(), not_finite(), ended(), label("AH", rank=0), entropy("att").\n'
        '    run.break_when("h.abs_max() > 5 and step > 3")'
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("9.0 ** 9 ** 9 ** step > 1", "OverflowError: "),
        ("(0 - 8.0) ** 0.5 > step", "ValueError: break_when: the result is not a real number."),
        ("step / 0 > 1", "ZeroDivisionError: division by zero"),
        ("loop > 3", "TypeError: '>' not supported"),
        ("loop + path == 'x'", "TypeError: break_when: not a number."),
        ("loop * 999999999 == 'x'", "TypeError: break_when: not a number."),
        ("h.max(axis='nothing') > 1", "DimError: numbers: no dim nothing."),
        ("h[{'feat': 9}] > 1", "IndexError: numbers: index out of range."),
        ("step.max() > 1", "TypeError: break_when: max is only for states."),
        ("min(h, 1) > 1", "TypeError: break_when: min and max take single numbers."),
        ("(h > 1).any(axis='feat')", "TypeError: break_when: several values have no truth value."),
    ],
)
def test_what_cannot_be_computed_pauses_and_says_so(text, said):
    found = steps_with(sums(), f"{text} and step == 3", once=True)
    assert len(found) == 1
    assert found[0][1].startswith(f"{text} and step == 3 failed: {said}")


_names = st.sampled_from(
    ["h", "step", "loop", "nan", "state", "entropy", "label", "__class__", "_raw", "os", "decoder.s"]
)
_atoms = st.one_of(
    _names, st.integers(-9, 9).map(str), st.floats(-5, 5).map(str), st.sampled_from(["'a'", "()", "[]", "{}", "None"])
)
_JOINTS = [" + ", " ** ", " > ", " == ", " and ", " or ", ".", " if h else ", ", ", " * "]
_TAILS = ["()", ".max()", ".any()", "[0]", "[{'batch': 0}]", ".__class__", ".mro()"]
_texts = st.recursive(
    _atoms,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(_JOINTS), inner).map("".join),
        st.tuples(inner, st.sampled_from(_TAILS)).map("".join),
        *(inner.map(form.format) for form in ("({})", "not {}", "abs({})", "label({})")),
    ),
    max_leaves=8,
)


@given(st.one_of(_texts, st.text(max_size=40)))
@settings(max_examples=400, deadline=None)
def test_any_text_is_a_condition_or_refused_and_asking_it_gives_words_or_an_error(text):
    try:
        expression = Expression(text)
    except ValueError as error:
        assert str(error).startswith("break_when: this text is not a condition.\n")
        return
    try:
        assert isinstance(expression(asked()), str)
    except Exception as error:
        assert isinstance(error, (TypeError, ValueError, ArithmeticError, LookupError)), error
