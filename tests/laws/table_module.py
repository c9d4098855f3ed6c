"""The entries of the table for parameters, parametrizations, checkpoints, and building from dicts."""

from __future__ import annotations

from typing import Any

from table import case, exempt
from table_layers import of_module
from world import World

import rfnb as rf
from rfnb import Tensor

exempt("a type or an error", "ParamInitType RawTensorTypes ItemKeyType GetModelFunc StepFunc CheckpointError")
exempt("says what there is, computes nothing", "get_raw_tensor_type is_parametrized build_dict")
exempt("sets a mode or a hook, computes nothing", "set_parameter_copy_behavior_ctx setup_post_hook_on_method")
exempt("files and parameters of models, computes nothing", "save_params load_params load_torch_checkpoint set_params")
exempt("compares names and shapes, computes nothing", "check_params_complete")
exempt(
    "random in training, the identity else; the functions that register them are in the table",
    "WeightDropout WeightNoise",
)


@case("Parameter", "assign_key")
def _assign_key(w: World) -> Any:
    single, sliced = w.rng.random() < 0.5, min(2, w.out.extent)
    part = rf.Dim(sliced, name="part")

    def call(start: Tensor, indices: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        raw = rf.copy(rf.stop_gradient(start)).raw_tensor
        parameter = rf.Parameter(start.dims, raw_tensor=raw, trainable=False)
        parameter.assign_key(w.classes, indices, None if single else w.time, rows)
        parameter.assign_key(w.out, slice(0, sliced), part, columns)
        return rf.copy(parameter)

    dims = () if single else (w.batch, w.time)
    rows = (w.out,)  # the same for all, since which of several values for one place stays is not said
    return call, [
        w.floats(w.classes, w.out), w.ints(*dims, sparse_dim=w.classes), w.floats(*rows), w.floats(w.classes, part)
    ]  # fmt: skip


def _of_parametrized(w: World, register: Any) -> Any:
    """A Linear with a parametrized weight, outside of training."""
    make = lambda: register(rf.Linear(w.feat, w.out))  # noqa: E731
    return of_module(w, make, lambda module, x: module(x), [w.floats(w.batch, w.time, w.feat)])


@case("register_parametrization")
def _register_parametrization(w: World) -> Any:
    turned = lambda weight: rf.tanh(weight.copy_transpose([w.out, w.feat]))  # noqa: E731
    return _of_parametrized(w, lambda linear: rf.register_parametrization(linear, "weight", turned))


@case("remove_parametrization")
def _remove_parametrization(w: World) -> Any:
    def register(linear: Any) -> Any:
        return rf.remove_parametrization(rf.register_parametrization(linear, "weight", rf.tanh), "weight")

    return _of_parametrized(w, register)


@case("weight_dropout")
def _weight_dropout(w: World) -> Any:
    return _of_parametrized(w, lambda linear: rf.weight_dropout(linear, "weight", drop_prob=0.5))


@case("weight_noise")
def _weight_noise(w: World) -> Any:
    return _of_parametrized(w, lambda linear: rf.weight_noise(linear, "weight", std=0.5))


@case("build_from_dict")
def _build_from_dict(w: World) -> Any:
    make = lambda: rf.build_from_dict({"class": "rf.Linear"}, w.feat, w.out)  # noqa: E731
    return of_module(w, make, lambda module, x: module(x), [w.floats(w.batch, w.time, w.feat)])
