"""Arguments that a function or layer does not take, and such as are not given: the message has the call as it is written."""

import inspect
import re
import types

import pytest
from asserting import public, raises_message, randn
from contracts.wrong_arguments import likely

import rfnb as rf
from rfnb import Dim
from rfnb.places.public_doors import _KEEP

batch, feat, out, vocab = Dim(2, name="batch"), Dim(4, name="feat"), Dim(6, name="out"), Dim(5, name="vocab")
time = rf.ragged_dim([3, 2], over=batch, name="time")
x, logits = randn(batch, time, feat), randn(batch, time, vocab)
ids = rf.zeros([batch, time], dtype="int32", sparse_dim=vocab)
lstm, conv = rf.LSTM(feat, out), rf.Conv1d(feat, out, 3, padding="same")
attention = rf.SelfAttention(feat, feat, key_dim_total=feat, value_dim_total=feat, num_heads=2)


class Net(rf.Module):
    def __call__(self, source, *, spatial_dim):
        return source


ERRORS = {
    "dim for axis": (
        lambda: rf.reduce_mean(x, dim=time),
        """
        reduce_mean: there is no argument "dim".
          source  [batch=2, time<=3, feat=4]
          dim     time<=3
          takes   source, axis, [use_mask]    ([...]: has a default)
        What is called "dim" elsewhere is "axis" here:
            rf.reduce_mean(source, axis=time)
        """,
    ),
    "a position for axis": (
        lambda: rf.softmax(x, dim=-1),
        """
        softmax: there is no argument "dim".
          a      [batch=2, time<=3, feat=4]
          dim    -1
          takes  a, axis, [use_mask]    ([...]: has a default)
        What is called "dim" elsewhere is "axis" here, and is a Dim:
            rf.softmax(a, axis=a.dims[-1])
            # a.dims[-1] is feat=4
        """,
    ),
    "keepdim": (
        lambda: rf.reduce_mean(x, axis=time, keepdim=True),
        """
        reduce_mean: there is no argument "keepdim".
          source   [batch=2, time<=3, feat=4]
          axis     time<=3
          keepdim  True
          takes    source, axis, [use_mask]    ([...]: has a default)
        A dim that is reduced is gone: operands are matched by their dims, so none has to stay for that.
            rf.reduce_mean(source, axis=time)
        """,
    ),
    "several words of torch": (
        lambda: rf.gather(x, dim=time, index=0),
        """
        gather: there are no arguments "dim", "index".
          source  [batch=2, time<=3, feat=4]
          dim     time<=3
          index   0
          takes   source, indices, [axis], [clip_to_valid]    ([...]: has a default)
        What is called "dim" elsewhere is "axis" here:
            rf.gather(source, indices=0, axis=time)
        """,
    ),
    "arguments of the loss": (
        lambda: rf.cross_entropy(input=logits, target=ids, axis=vocab),
        """
        cross_entropy: there is no argument "input".
          target  [batch=2, time<=3]
          axis    vocab=5
          input   [batch=2, time<=3, vocab=5]
          takes   estimated, target, axis, estimated_type, [label_smoothing]    ([...]: has a default)
        What is called "input" elsewhere is "estimated" here:
            rf.cross_entropy(estimated=estimated, target=target, axis=vocab, estimated_type=...)
        """,
    ),
    "nothing like it": (
        lambda: rf.one_hot(ids, on_device=True),
        """
        one_hot: there is no argument "on_device".
          source     [batch=2, time<=3]
          on_device  True
          takes      source
        Those that it takes are all there are. Without it:
            rf.one_hot(source)
        """,
    ),
    "no probability": (
        lambda: rf.dropout(x),
        """
        dropout: drop_prob is missing.
          source  [batch=2, time<=3, feat=4]
          takes   source, drop_prob, [axis], [on_forward]    ([...]: has a default)
        What has no default has to be said:
            rf.dropout(source, ...)
        """,
    ),
    "concat as in torch": (
        lambda: rf.concat([x, logits], axis=feat),
        """
        concat: it takes (tensor, dim) pairs.
          source 0  [batch=2, time<=3, feat=4]
          source 1  [batch=2, time<=3, vocab=5]
          axis      feat=4
        Each source has a dim of its own along which it is joined, and the result a new one:
            joined, joined_dim = rf.concat((a, feat), (b, feat))
        """,
    ),
    "concat without dims": (
        lambda: rf.concat(x, (logits, vocab)),
        """
        concat: it takes (tensor, dim) pairs.
          source 0  [batch=2, time<=3, feat=4]
          source 1  ([batch=2, time<=3, vocab=5], vocab=5)
        Each source has a dim of its own along which it is joined, and the result a new one:
            joined, joined_dim = rf.concat((a, dim), (b, dim))
        """,
    ),
    "axis for spatial_dim": (
        lambda: lstm(x, axis=time),
        """
        LSTM: there is no argument "axis".
          source  [batch=2, time<=3, feat=4]
          axis    time<=3
          takes   source, state, spatial_dim
        What is called "axis" elsewhere is "spatial_dim" here:
            state = lstm.default_initial_state(batch_dims=[batch])
            lstm(source, state=state, spatial_dim=time)
        """,
    ),
    "spatial_dim for axis": (
        lambda: attention(x, spatial_dim=time),
        """
        SelfAttention: there is no argument "spatial_dim".
          source       [batch=2, time<=3, feat=4]
          spatial_dim  time<=3
          takes        source, axis
        What is called "spatial_dim" elsewhere is "axis" here:
            self_attention(source, axis=time)
        """,
    ),
    "forgotten in_spatial_dim": (
        lambda: conv(x),
        """
        Conv1d: in_spatial_dim is missing.
          source  [batch=2, time<=3, feat=4]
          takes   source, in_spatial_dim, [out_spatial_dim]    ([...]: has a default)
        What has no default has to be said:
            conv1d(source, in_spatial_dim=...)
            in_spatial_dim=source.dims[0]    # batch=2
            in_spatial_dim=source.dims[1]    # time<=3
        """,
    ),
    "several dims": (
        lambda: rf.Conv2d(feat, out, 3, padding="same")(x, in_spatial_dim=time),
        """
        Conv2d: there is no argument "in_spatial_dim".
          source          [batch=2, time<=3, feat=4]
          in_spatial_dim  time<=3
          takes           source, in_spatial_dims, [out_spatial_dims]    ([...]: has a default)
        What is called "in_spatial_dim" elsewhere is "in_spatial_dims" here:
            conv2d(source, in_spatial_dims=[time])
        """,
    ),
    "by position": (
        lambda: lstm(x, lstm.default_initial_state(batch_dims=[batch]), time),
        """
        LSTM: 3 arguments by position, where it takes 1.
          source      [batch=2, time<=3, feat=4]
          argument 2  LstmState
          argument 3  time<=3
          takes       source, state, spatial_dim
        What is worked on comes by position, all else by keyword:
            lstm(source, state=state, spatial_dim=time)
        """,
    ),
    "a layer of torch": (
        lambda: rf.Linear(in_features=4, out_features=6, bias=False),
        """
        Linear: there are no arguments "in_features", "out_features", "bias".
          in_features   4
          out_features  6
          bias          False
          takes         in_dim, out_dim, [with_bias]    ([...]: has a default)
        What is called "in_features" elsewhere is "in_dim" here, and is a Dim:
            rf.Linear(rf.Dim(4, name="in"), rf.Dim(6, name="out"), with_bias=False)
        """,
    ),
    "of a dict": (
        lambda: rf.build_from_dict({"class": "rf.Linear", "in_dim": feat, "outdim": out}),
        """
        Linear: there is no argument "outdim".
          in_dim  feat=4
          outdim  out=6
          takes   in_dim, out_dim, [with_bias]    ([...]: has a default)
        What is called "outdim" elsewhere is "out_dim" here:
            rf.Linear(feat, out)
        """,
    ),
    "an initial state": (
        lambda: lstm.default_initial_state(batch_dim=batch),
        """
        LSTM.default_initial_state: there is no argument "batch_dim".
          batch_dim  batch=2
          takes      batch_dims
        What is called "batch_dim" elsewhere is "batch_dims" here:
            lstm.default_initial_state(batch_dims=[batch])
        """,
    ),
    "one Dim for several": (
        lambda: lstm.default_initial_state(batch_dims=batch),
        """
        LSTM.default_initial_state: batch_dims is one Dim.
          batch_dims  batch=2
        There may be several, or none; so they are a list:
            lstm.default_initial_state(batch_dims=[batch])
        """,
    ),
    "a module of the user": (
        lambda: Net()(x, axis=time),
        """
        Net: there is no argument "axis".
          source  [batch=2, time<=3, feat=4]
          axis    time<=3
          takes   source, spatial_dim
        What is called "axis" elsewhere is "spatial_dim" here:
            net(source, spatial_dim=time)
        """,
    ),
    "several values": (
        lambda: rf.tanh(lstm(x, state=lstm.default_initial_state(batch_dims=[batch]), spatial_dim=time)),
        """
        tanh: this operand is several values.
          got  tuple: [time<=3, batch=2, out=6], LstmState
        What gives back several values, as a layer with a state or with a new dim does, is taken apart first:
            x, _ = value
        """,
    ),
}


@pytest.mark.parametrize(("call", "text"), ERRORS.values(), ids=ERRORS)
def test_error(call, text):
    with raises_message(TypeError, text):
        call()


def test_a_type_error_inside_of_a_call_stays_what_it_is():
    class Broken(rf.Module):
        def __call__(self, source):
            return len(3)

    with pytest.raises(TypeError, match="object of type 'int' has no len"):
        Broken()(x)


def refusing():
    """Public functions that take words of other toolkits, to refuse them."""
    return [
        name
        for name, fn in public().items()
        if isinstance(fn, types.FunctionType)
        and fn.__code__.co_flags & inspect.CO_VARKEYWORDS
        and "unknown" in fn.__code__.co_varnames
    ]


# Where the op asks for it in words of its own, or the other values, which are only likely ones, are refused first.
OTHERWISE = {
    "indices_dim": "into which dim?", "in_spatial_dim": "which dim of logits", "in_dim": "the mask is not bool",
    "axis": "the mask is not bool|estimated_type",
}  # fmt: skip


@pytest.mark.parametrize("name", refusing())
def test_whatever_a_function_needs_is_said_to_be_missing(name):
    fn = getattr(rf, name)
    parameters = [each for each in inspect.signature(fn).parameters.values() if each.kind is not each.VAR_POSITIONAL]
    needed = {each.name: likely(each) for each in parameters if each.default is each.empty}
    for missing in needed:
        with pytest.raises((TypeError, ValueError, rf.DimError)) as caught:
            fn(**{other: value for other, value in needed.items() if other != missing})
        first = str(caught.value).splitlines()[0]
        assert missing in first or re.search(OTHERWISE.get(missing, "^$"), first)


@pytest.mark.parametrize("name", refusing())
def test_unknown_keywords_are_refused_and_no_part_of_a_signature(name):
    fn = getattr(rf, name)
    parameters = inspect.signature(fn).parameters.values()
    kept = [
        each for each in parameters if name in _KEEP and each.default is each.empty
    ]  # Python itself wants these first
    needed = {each.name: likely(each) for each in kept if each.kind is not each.VAR_POSITIONAL}
    assert "unknown" not in inspect.signature(fn).parameters
    with pytest.raises(TypeError) as caught:
        fn(**needed, keepdim=True)
    said = str(caught.value).splitlines()[0].split(": ", 1)[1]
    assert said == ("it takes (tensor, dim) pairs." if name == "concat" else 'there is no argument "keepdim".')


def test_what_people_bring_keywords_of_torch_to_refuses_them():
    assert len(refusing()) > 30
    assert {"reduce_mean", "softmax", "gather", "concat", "top_k", "dropout", "cross_entropy"} <= set(refusing())
