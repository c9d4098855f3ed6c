"""Parametrization: reading a parameter of one module returns a value computed from it.

    rf.register_parametrization(linear, "weight", lambda weight: weight * mask)
    linear(x)                                 # uses weight * mask
    dict(linear.named_parameters())           # still has "weight", the parameter itself

The instance gets its own class, in which the attribute is a property; the parameter stays in the dict of the instance.
Two parametrizations for training are included: dropout and noise on weights.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Callable
from typing import Any, Never

from rfnb.core.dim import Dims
from rfnb.core.errors import attribute_error, dim_error, value_error
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text
from rfnb.nn.dropout import dropout
from rfnb.nn.module.container import ModuleList
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.run import run_ctx
from rfnb.ops.random import random_normal


def register_parametrization(
    module: Module,
    param_name: str,
    parametrization: Callable[..., Tensor],
    *extra: Never,
    keep_existing_param: bool = True,
    **unknown: Never,
) -> Module:
    """Make `module.<param_name>` return `parametrization(parameter)`, computed at every access.

    Only this instance changes. The parameter keeps its name in `named_parameters`, so checkpoints fit as before, and assigning to the
    attribute replaces it. A second parametrization takes the result of the first. The parameters of a Module as
    parametrization are under `<param_name>_parametrization.0`.

    Args:
        parametrization: parameter -> Tensor of the same dims.
        keep_existing_param: False removes the parameter; parametrization() computes the value from its own parameters.

    Returns:
        The module.

    Raises:
        AttributeError: If the module has no such parameter.
        ValueError: For an auxiliary parameter, e.g. running statistics.
        DimError: At access, if the value has other dims than the parameter.
        ValueError: If there is a parametrization already and this one does not take the parameter.
    """
    present = vars(module).get(param_name)
    if not isinstance(present, Parameter) and not is_parametrized(module, param_name):
        raise _no_parameter(module, param_name)
    if isinstance(present, Parameter) and present.auxiliary:
        raise value_error(
            f'register_parametrization: "{param_name}" of {type(module).__name__} is auxiliary.',
            [(param_name, dims_text(present.dims)), ("trained", ", ".join(_trained(module)) or "none")],
            "The module changes it in place, which is impossible for a value computed from it. Leave it out:",
            "for name, parameter in module.named_parameters(recurse=False):\n    if not parameter.auxiliary: ...",
        )
    if not is_parametrized(module, param_name):
        chain = _Chain(present.dims)  # type: ignore[union-attr]
        _set_parametrized(module, (*_parametrized(module), param_name))
        setattr(module, _chain_name(param_name), chain)
    elif not keep_existing_param:
        raise ValueError(
            f'register_parametrization: "{param_name}" is parametrized already.\n'
            "A parametrization that ignores the parameter can only be the first one.\n"
            f'    rf.remove_parametrization(module, "{param_name}")'
        )
    vars(module)[_chain_name(param_name)].append(parametrization)
    if not keep_existing_param:
        del vars(module)[param_name]
    return module


def _trained(module: Module) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, Parameter) and not value.auxiliary]


def _no_parameter(module: Module, name: str) -> AttributeError:
    """The error for a parameter that does not exist, or that belongs to a submodule."""
    kind, there = type(module).__name__, _trained(module)
    inside = [path for path, _ in module.named_parameters() if "." in path and path.startswith(name.split(".")[0])]
    near = difflib.get_close_matches(name, there, n=1)
    if inside and not near:
        path = name if name in inside else inside[0]
        holder, _, own = path.rpartition(".")
        fix = f'rf.register_parametrization(module.{holder}, "{own}", ...)'
    else:
        fix = f'rf.register_parametrization(module, "{(near or there or ["..."])[0]}", ...)'
    return attribute_error(
        f'register_parametrization: {kind} has no parameter "{name}".',
        [("has", ", ".join(there) or "none of its own"), *([("inside", ", ".join(inside))] if inside else [])],
        "A parametrization is for a parameter that the module itself holds:",
        fix,
    )


def remove_parametrization(module: Module, param_name: str, *extra: Never, **unknown: Never) -> Module:
    """Make `module.<param_name>` the parameter itself again; without one, a new parameter with the last computed value.

    Raises:
        AttributeError: If the attribute is not parametrized.
    """
    if not is_parametrized(module, param_name):
        raise attribute_error(
            f'remove_parametrization: "{param_name}" is not parametrized.',
            {"parametrized": ", ".join(_parametrized(module)) or "none"},
            "It has to be registered first.",
        )
    left = None if param_name in vars(module) else Parameter(getattr(module, param_name))
    delattr(module, _chain_name(param_name))
    _set_parametrized(module, tuple(name for name in _parametrized(module) if name != param_name))
    if left is not None:
        setattr(module, param_name, left)
    return module


def is_parametrized(module: Module, param_name: str | None = None, *extra: Never, **unknown: Never) -> bool:
    """Whether this parameter of the module is parametrized; without a name, whether any is."""
    names = _parametrized(module)
    return bool(names) if param_name is None else param_name in names


class _Chain(ModuleList):
    """The parametrizations of one attribute, in order."""

    _is_item = False

    def __init__(self, dims: Dims):
        super().__init__()
        self.dims = dims

    def __call__(self, *value: Tensor) -> Tensor:
        for step in self:
            value = (step(*value),)
        (out,) = value
        if set(out.dims) != set(self.dims):
            raise dim_error(
                f"{self.module_path}: other dims than those of the parameter.",
                {"parameter": dims_text(self.dims), "computed": dims_text(out.dims)},
                "A parametrization keeps the dims; their order does not matter.",
            )
        return out.copy_transpose(self.dims)  # kernels read the raw array of a weight in this order


class _Computed:
    """Descriptor of a parametrized parameter; the parameter itself stays in the dict of the instance."""

    def __init__(self, name: str):
        self.name = name

    def __get__(self, module: Module | None, owner: type) -> Any:
        if module is None:
            return self
        chain = vars(module)[_chain_name(self.name)]
        return chain(vars(module)[self.name]) if self.name in vars(module) else chain()

    def __set__(self, module: Module, value: Any) -> None:
        vars(module)[self.name] = value

    def __delete__(self, module: Module) -> None:
        del vars(module)[self.name]


def _chain_name(param_name: str) -> str:
    return f"{param_name}_parametrization"


def _parametrized(module: Module) -> tuple[str, ...]:
    return getattr(type(module), "_rfnb_parametrized", ())


def _set_parametrized(module: Module, names: tuple[str, ...]) -> None:
    """Give the instance the class in which these attributes are computed."""
    base: Any = type(module)
    while "_rfnb_parametrized" in vars(base):
        base = base.__base__
    module.__class__ = _class_with(base, names) if names else base


@functools.lru_cache(maxsize=256)
def _class_with(base: type, names: tuple[str, ...]) -> type:
    attributes: dict[str, Any] = {name: _Computed(name) for name in names}
    about = {"__module__": base.__module__, "__qualname__": base.__qualname__, "__doc__": base.__doc__}
    for_pickle = {"__reduce_ex__": lambda module, protocol: (_new_with, (base, names), module.__getstate__())}
    return type(base.__name__, (base,), {**attributes, **about, **for_pickle, "_rfnb_parametrized": names})


def _new_with(base: type, names: tuple[str, ...]) -> Module:
    """An empty module of such a class, which pickle fills in. The class itself cannot be found by name."""
    cls: Any = _class_with(base, names)
    new: Module = cls.__new__(cls)
    return new


def weight_dropout(module: Module, param_name: str, *extra: Never, drop_prob: float, **unknown: Never) -> Module:
    """In training, zero entries of this parameter with probability `drop_prob`, drawn at every access. Returns the module.

    Raises:
        AttributeError: If the module has no such parameter.
        ValueError: If drop_prob is not in [0, 1).

    Source: Wan et al. 2013, "Regularization of Neural Networks using DropConnect".
    """
    return register_parametrization(module, param_name, WeightDropout(drop_prob))


class WeightDropout:
    """Dropout on a parameter; see `weight_dropout`.

    Raises:
        ValueError: If drop_prob is not a probability below 1.
    """

    def __init__(self, drop_prob: float):
        if not 0 <= drop_prob < 1:
            raise ValueError(f"WeightDropout: drop_prob {drop_prob}.\nA probability from 0 up to, not including, 1.")
        self.drop_prob = drop_prob

    def __call__(self, param: Tensor) -> Tensor:
        """The same dims; the entries kept are scaled by 1 / (1 - drop_prob)."""
        if not run_ctx.get_run_ctx().is_train_flag_enabled(func=WeightDropout):
            return param
        return dropout(param, self.drop_prob)


def weight_noise(module: Module, param_name: str, *extra: Never, std: float, **unknown: Never) -> Module:
    """In training, add Gaussian noise to this parameter, drawn at every access. Returns the module.

    Args:
        std: Standard deviation of the noise, in units of the parameter.

    Raises:
        AttributeError: If the module has no such parameter.

    Source: Graves 2011, "Practical Variational Inference for Neural Networks" (with a fixed standard deviation).
    """
    return register_parametrization(module, param_name, WeightNoise(std))


class WeightNoise:
    """Gaussian noise on a parameter; see `weight_noise`."""

    def __init__(self, std: float):
        self.std = std

    def __call__(self, param: Tensor) -> Tensor:
        """The same dims."""
        if self.std == 0 or not run_ctx.get_run_ctx().is_train_flag_enabled(func=WeightNoise):
            return param
        return param + random_normal(param.dims, dtype=param.dtype, device=param.device, stddev=self.std)
