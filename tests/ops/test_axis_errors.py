"""Every public op refuses a wrong or missing dim, and lists the dims that exist."""

import inspect
import types

import pytest
from asserting import raises_message, randn

import rfnb as rf
from rfnb import Dim, DimError

batch, feat = Dim(2, name="batch"), Dim(4, name="feat")
time = rf.ragged_dim([3, 2], over=batch, name="time")
x = randn(batch, time, feat)
OTHERS = {  # arguments that are no Tensor {batch, time, feat}
    "indices": rf.zeros([batch], dtype="int32"), "out_dims": [feat], "dims": [feat], "k": 1, "mode": "sum", "key_dim": feat,
    "padding": [(0, 1)], "pad_value": 0.0, "target": rf.zeros([batch, time], dtype="int32", sparse_dim=feat), "smoothing": 0.1,
    "beam_size": 1, "window_size": 5, "estimated_type": "logits", "p": 0.5, "labels": rf.zeros([batch, time], dtype="int32"),
}  # fmt: skip
# In a loop, or with a number or a state that says more than an axis would.
ELSEWHERE = {"beam_search", "choice", "dropout", "sparse_to_dense", "unmask"}


def ops():
    for name in dir(rf):
        fn = getattr(rf, name, None)
        if isinstance(fn, types.FunctionType) and "axis" in inspect.signature(fn).parameters and name not in ELSEWHERE:
            yield name


def call(name, **axis):
    fn, args, options = getattr(rf, name), [], dict(axis)
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.name == "axis" or parameter.default is not parameter.empty:
            continue
        value = OTHERS.get(parameter.name, x)
        if parameter.kind is parameter.KEYWORD_ONLY:
            options[parameter.name] = value
        elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            args.append(value)
    return fn(*args, **options)


@pytest.mark.parametrize("axis", [1, -1, -2])
@pytest.mark.parametrize("name", ops())
def test_positions_are_no_axis(name, axis):
    with pytest.raises(DimError) as caught:
        call(name, axis=axis)
    text = str(caught.value)
    assert f"{axis!r} is not a Dim.\n" in text.split(": ", 1)[1]
    assert "[batch=2, time<=3, feat=4]" in text
    assert f".dims[{axis}]    # {'feat=4' if axis == -1 else 'time<=3'}" in text.splitlines()[-1]


def required():
    return [
        name
        for name in ops()
        if inspect.signature(getattr(rf, name)).parameters["axis"].default is inspect.Parameter.empty
    ]


@pytest.mark.parametrize("name", required())
def test_a_forgotten_axis_names_the_dims(name):
    fn = getattr(rf, name)
    if "axis" not in (fn.__kwdefaults__ or {}):
        pytest.skip("Python says that the argument is missing")
    with pytest.raises(DimError) as caught:
        call(name)
    assert "axis is missing." in str(caught.value).splitlines()[0]
    assert str(caught.value).endswith(".dims[2]    # feat=4")


@pytest.mark.parametrize("name", required())
def test_a_forgotten_axis_is_said_again_for_other_dims(name):
    """A cached plan of the first call does not put its dims into the message of a later one."""
    if "axis" not in (getattr(rf, name).__kwdefaults__ or {}):
        pytest.skip("Python says that the argument is missing")
    for _ in range(3):
        rows, frames, parts = rf.Dim(2, name="rows"), rf.Dim(3, name="frames"), rf.Dim(4, name="parts")
        value = rf.zeros([rows, frames, parts], feature_dim=parts)
        operands = [
            OTHERS.get(each.name, value)
            for each in inspect.signature(getattr(rf, name)).parameters.values()
            if each.kind is each.POSITIONAL_OR_KEYWORD and each.default is each.empty and each.name != "axis"
        ]
        keyword = {
            each.name: parts if each.name == "key_dim" else OTHERS.get(each.name, value)
            for each in inspect.signature(getattr(rf, name)).parameters.values()
            if each.kind is each.KEYWORD_ONLY and each.default is each.empty and each.name != "axis"
        }
        with pytest.raises(DimError, match="axis"):
            getattr(rf, name)(*operands, **keyword)


def test_most_ops_say_so():
    said = [name for name in required() if "axis" in (getattr(rf, name).__kwdefaults__ or {})]
    assert len(said) > 25 and {"softmax", "reduce_mean", "slice", "split", "top_k", "sort"} <= set(said)


ERRORS = {
    "forgotten": (
        lambda: rf.reduce_mean(x),
        """
        reduce_mean: axis is missing.
          source  [batch=2, time<=3, feat=4]
        An axis is given by its Dim, or by the name of a dim of the operands:
            axis=source.dims[0]    # batch=2
            axis=source.dims[1]    # time<=3
            axis=source.dims[2]    # feat=4
        """,
    ),
    "forgotten in matmul": (
        lambda: rf.matmul(x, x),
        """
        matmul: reduce is missing.
          a  [batch=2, time<=3, feat=4]
        An axis is given by its Dim, or by the name of a dim of the operands:
            reduce=a.dims[0]    # batch=2
            reduce=a.dims[1]    # time<=3
            reduce=a.dims[2]    # feat=4
        """,
    ),
    "the last one": (
        lambda: rf.log_softmax(x, axis=-1),
        """
        log_softmax: -1 is not a Dim.
          tensor  [batch=2, time<=3, feat=4]
          got     int
        An axis is given by its Dim, or by the name of a dim of the operands:
            x.dims[-1]    # feat=4
        """,
    ),
    "classes that are not there": (
        lambda: rf.label_smoothing(randn(batch), 0.1, axis=feat),
        """
        label_smoothing: no dim feat=4.
          tensor  [batch=2]
          dim     feat=4
        The dim feat=4 is not among the dims of tensor.
            x.dims[0]    # batch=2
        """,
    ),
}


@pytest.mark.parametrize(("call", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, text):
    with raises_message(DimError, text):
        call()
