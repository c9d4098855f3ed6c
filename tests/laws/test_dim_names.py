"""The law of names: a call that is given the name of a dim of its operands gives what it gives for the Dim; see `core/dim_names.py`."""

from __future__ import annotations

import contextlib
import functools
import inspect
from types import FunctionType

import numpy as np
import pytest
from asserting import raises_message
from laws import parts_in
from second_batch import LENGTHS
from table import CASES, read_entries
from world import World

import rfnb as rf
from rfnb import Dim, DimError, Tensor
from rfnb.core.argument_types import fits, hints_of
from rfnb.core.dim_names import takes_dims

read_entries()
batch, time, feat = Dim(2, name="batch"), Dim(3, name="time"), Dim(5, name="feat")
x = rf.random_normal([batch, time, feat])


def _called_with_dims():
    """name -> (function, the types of those parameters that take dims which are there): of public functions, and calls of modules."""
    found = {}
    for name in rf.__all__:
        value = getattr(rf, name)
        is_module = isinstance(value, type) and issubclass(value, rf.Module)
        fn = inspect.unwrap(value.__call__) if is_module and "__call__" in vars(value) else value
        if isinstance(fn, FunctionType) and fn.__module__.startswith("rfnb."):
            hints = {key: hint for key, hint in hints_of(fn).items() if takes_dims(hint) and not key.startswith("out_")}
            if hints and any(Tensor in _kinds(hint) for hint in hints_of(fn).values()):
                found[name] = fn, hints
    return found


def _kinds(hint):
    text = str(hint)
    return {Tensor} if "Tensor" in text else set()


FUNCTIONS = _called_with_dims()


def _named(value, dims, put):
    if isinstance(value, Dim) and value in dims and sum(dim.name == value.name for dim in dims) == 1:
        put.append(value)
        return value.name
    return type(value)(_named(each, dims, put) for each in value) if type(value) in (list, tuple) else value


def _with_names(name, called, tried, errors):
    """The call as it is, after one with names in place of Dims, which has to give the same."""
    fn, hints = FUNCTIONS[name]
    names = list(inspect.signature(fn).parameters)
    names = [each for each in names if each != "self"]
    several = next(
        (key for key, each in inspect.signature(fn).parameters.items() if each.kind is each.VAR_POSITIONAL), ""
    )

    @functools.wraps(called)
    def wrapper(*args, **kwargs):
        bound = args[1:] if args and isinstance(args[0], rf.Module) else args
        labels = [*names[: len(bound)], *[several] * (len(bound) - len(names))]
        labels = [several if several and at >= names.index(several) else each for at, each in enumerate(labels)]
        dims = {dim for each in parts_in((bound, list(kwargs.values())), Tensor) for dim in each.dims}
        put = {}

        def instead(label, value):
            made = []
            new = _named(value, dims, made) if label in hints else value
            if made and not fits(new, hints[label]):
                put[label] = made
                return new
            return value

        new_args = [instead(label, value) for label, value in zip(labels, bound)]
        new_kwargs = {key: instead(key, value) for key, value in kwargs.items()}
        if not put:
            return called(*args, **kwargs)
        tried.update((name, label) for label in put)
        state = rf.get_random_state()
        got = called(*args[: len(args) - len(bound)], *new_args, **new_kwargs)
        rf.set_random_state(state)
        expected = called(*args, **kwargs)
        try:
            for one, other in zip(parts_in(got, Tensor), parts_in(expected, Tensor), strict=True):
                assert [dim.name for dim in one.dims] == [dim.name for dim in other.dims]
                np.testing.assert_array_equal(one.numpy(), other.numpy())
        except AssertionError as error:
            errors.append(f"{name} {put}: {error}")
        return expected

    return wrapper


def _tried(case, monkeypatch, seed):
    tried, errors = set(), []
    with monkeypatch.context() as patch:
        for name in FUNCTIONS:
            value = getattr(rf, name)
            if isinstance(value, type):
                patch.setattr(value, "__call__", _with_names(name, value.__call__, tried, errors))
            else:
                patch.setattr(rf, name, _with_names(name, value, tried, errors))
        call, inputs = case(World(*LENGTHS[0], [2, 3, 4, 5], seed))
        call(*inputs)
    return tried, errors


# What no operand has: a dim that is made or added there, and lengths by frames.
MADE = {
    "as_torch": "inputs outputs", "ctc_greedy_decode": "target_dim", "ctc_prefix_beam_search": "target_dim", "expand_dim": "dim",
    "expand_dims": "dims", "gauss_window_attention": "inner_size", "linspace_over_dim": "dim", "max_pool": "pool_size",
    "max_pool1d": "pool_size", "optimal_completion_edit_distance_per_successor": "successors_dim", "pad": "padding", "pad_packed": "dims",
    "pool": "pool_size", "pool1d": "pool_size", "pool2d": "pool_size", "pool3d": "pool_size", "random": "dims sparse_dim feature_dim",
    "random_choice_with_replacement": "dims", "random_choice_without_replacement": "num_samples_dim",
    "random_normal": "dims sparse_dim feature_dim", "random_truncated_normal": "dims sparse_dim feature_dim",
    "random_uniform": "dims sparse_dim feature_dim", "range_over_dim_strided": "dim", "relative_positional_encoding": "feat_dim",
    "set_sparse_dim": "sparse_dim", "sinusoidal_encoding": "feat_dim", "sinusoidal_positional_encoding": "feat_dim spatial_dim",
    "slice": "start end size", "split_batch_beam": "beam_dim", "split_dims": "dims", "top_k": "k_dim",
    "transducer_beam_search": "target_dim", "transducer_greedy_decode": "target_dim", "window": "window_dim window_right window_left",
    "ISeqDownsamplingEncoder": "in_spatial_dim", "ISeqFramewiseEncoder": "spatial_dim",
    "LearnedRelativePositionalEncoding": "query_spatial_dim key_value_spatial_dim",
    "RelativePositionalEncoding": "query_spatial_dim key_value_spatial_dim",
}  # fmt: skip
# Cases of these draw, and compare laws of their numbers; or their dims are in what is not a Tensor.
ELSEWHERE = {
    "relative_positional_encoding": "query_spatial_dim key_value_spatial_dim", "RnnCell": "axis",
    "ctc_durations_from_path": "targets_spatial_dim", "ctc_no_label_loop_blank_durations_from_path": "targets_spatial_dim",
    "dropout": "axis", "random_choice_with_replacement": "axis", "random_choice_without_replacement": "axis",
    "random_mask": "mask_axis broadcast_axis", "sparse_to_dense": "axis", "specaugment": "spatial_dim feature_dim",
}  # fmt: skip


def test_names_give_what_dims_give(monkeypatch):
    """Of all public functions and modules, in each parameter that takes dims."""
    tried, errors = set(), []
    for name, case in CASES.items():
        for seed in range(8 if name.startswith("reduce_") else 1):  # half of those call rf.reduce
            found, wrong = _tried(case, monkeypatch, seed)
            tried |= found
            errors += wrong
    assert errors == []
    left = {(name, label) for name, (_, hints) in FUNCTIONS.items() for label in hints} - tried
    known = {(name, label) for table in (MADE, ELSEWHERE) for name, labels in table.items() for label in labels.split()}
    assert left - known == set()
    assert len(tried) > 140


def test_a_name_is_read_by_functions_that_draw():
    for call in (
        lambda axis: rf.dropout(x, 0.5, axis=axis, on_forward=True),
        lambda axis: rf.random_choice_with_replacement([batch, feat], probs=rf.exp(x), axis=axis),
        lambda axis: rf.random_mask(x, mask_axis=axis, broadcast_axis=[], min_num=1, max_num=2, max_dims=1),
        lambda axis: rf.specaugment(x, spatial_dim=axis, feature_dim=feat),
        lambda axis: rf.random_choice_without_replacement(log_probs=x, axis=axis, num_samples_dim=Dim(2, name="two")),
    ):
        state = rf.get_random_state()
        by_name = call("time")
        rf.set_random_state(state)
        for one, other in zip(parts_in(by_name, Tensor), parts_in(call(time), Tensor), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("face", ["for", "with"])
def test_names_in_steps_of_loops(face):
    def last(axis):
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([batch, feat])
        for _ in loop if face == "for" else range(1):
            with loop if face == "with" else contextlib.nullcontext():
                h = rf.softmax(loop.unstack(x) + loop.state.h, axis=axis)
                loop.state.h = h - rf.reduce_mean(h, axis=[axis])
        return loop.state.h.numpy()

    np.testing.assert_array_equal(last("feat"), last(feat))


def test_the_error_of_a_call_with_a_name_stands_alone():
    with pytest.raises(DimError) as caught:
        rf.reduce_mean(x, axis=["time", time])
    assert str(caught.value).startswith("reduce_mean: the same dim twice.")
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_two_dims_of_one_name_are_refused():
    other = Dim(5, name="feat")
    with raises_message(
        DimError,
        f"""
        matmul: reduce "feat" is the name of 2 dims.
          a       [batch=2, time=3, feat({feat.created})=5]
          b       [feat({other.created})=5]
          reduce  "feat"
          dims    [feat({feat.created})=5, feat({other.created})=5]
        A name means one dim. Of several of that name, give the Dim:
            rf.matmul(..., reduce=a.dims[2])
        """,
    ):
        rf.matmul(x, rf.zeros([other]), reduce="feat")


def test_a_dim_that_is_made_has_no_name_before():
    with raises_message(
        DimError,
        """
        replace_dim: out_dim "frames" is a dim that is made here.
          source   [batch=2, time=3, feat=5]
          out_dim  "frames"
        A name is that of a dim which is there already. A new one is made by
            rf.replace_dim(..., out_dim=rf.Dim(3, name="frames"))
        """,
    ):
        rf.replace_dim(x, in_dim="time", out_dim="frames")
