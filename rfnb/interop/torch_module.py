"""The bridge between rf.Module and torch.nn.Module, both ways: the same parameters under the same names.

    pt = rf_module_to_pt_module(model)
    optimizer = torch.optim.AdamW(pt.parameters())
    torch.save({"model": pt.state_dict()}, "model.pt")

This file imports torch when it is imported, so `import rfnb` leaves it alone.
"""

from __future__ import annotations

import copy
from typing import Any

import torch

from rfnb.core.dim import Dim
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter


def rf_module_to_pt_module(rf_module: Module, *, aux_params_as_buffers: bool = True) -> torch.nn.Module:
    """A torch.nn.Module that has the very parameters of `rf_module`, under the same names, and calls it.

    A module that occurs several times becomes one module too. What is set, added or parametrized in `rf_module` later is not
    followed; new values, `to` and `load_state_dict` on either side are seen by the other. The run context says whether this is
    training, not `train()` and `eval()`.

    Args:
        aux_params_as_buffers: Auxiliary parameters (running statistics) are buffers, so no optimizer gets them.
    """
    return _to_torch(rf_module, aux_params_as_buffers, {})


def pt_module_to_rf_module(pt_module: torch.nn.Module) -> Module:
    """An rf.Module that has the very parameters of `pt_module`, under the same names, and calls it (with raw arrays).

    Buffers are auxiliary parameters; move them with `to` of the result, since torch replaces buffers where it moves them. The
    dims of a parameter are new ones, named "weight:0", "weight:1", ...
    """
    return _to_rf(pt_module, {}, {})


class RFModuleAsPTModule(torch.nn.Module):
    """A module made by `rf_module_to_pt_module`; `rf_module` is the original."""

    rf_module: Module

    def __init__(self, rf_module: Module):
        super().__init__()
        self.__dict__["rf_module"] = rf_module  # past torch's registration, and past that of Module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.rf_module(*args, **kwargs)

    def _get_name(self) -> str:
        return f"{type(self.rf_module).__name__}[rf]"

    def _apply(self, fn: Any, recurse: bool = True) -> RFModuleAsPTModule:
        """`to`, `half`, `cuda`, ...: torch replaces buffers, and parameters in some cases."""
        super()._apply(fn, recurse)
        for name, raw in self._buffers.items():
            if raw is not None:
                self._buffers[name] = torch.nn.Parameter(raw, requires_grad=False)  # as `Parameter.to` wants it
        for name, raw in (*self._parameters.items(), *self._buffers.items()):
            parameter = vars(self.rf_module)[name]
            parameter._raw = raw
            parameter._dtype = parameter.dtype
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.nn.Module:
        """A bridge of a copy of the rf.Module, so that the two share parameters as these do."""
        return rf_module_to_pt_module(copy.deepcopy(self.rf_module, memo))


class PTModuleAsRFModule(Module):
    """A module made by `pt_module_to_rf_module`; `pt_module` is the original."""

    def __init__(self, pt_module: torch.nn.Module):
        self._rfnb_pt_module = pt_module

    @property
    def pt_module(self) -> torch.nn.Module:
        return self._rfnb_pt_module

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        new = memo[id(self)] = pt_module_to_rf_module(copy.deepcopy(self.pt_module, memo))
        return new

    def get_default_name(self) -> str:
        return type(self.pt_module).__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.pt_module(*args, **kwargs)


def _to_torch(rf_module: Module, aux_params_as_buffers: bool, done: dict[Module, torch.nn.Module]) -> torch.nn.Module:
    if isinstance(rf_module, PTModuleAsRFModule):
        return rf_module.pt_module
    if rf_module in done:
        return done[rf_module]
    done[rf_module] = out = RFModuleAsPTModule(rf_module)
    for name, value in vars(rf_module).items():
        # Into torch's own dicts, since register_module refuses names like "type" or "forward", which are fine here.
        if isinstance(value, Module):
            out._modules[name] = _to_torch(value, aux_params_as_buffers, done)
        elif isinstance(value, Parameter):
            as_buffer = value.auxiliary and aux_params_as_buffers
            (out._buffers if as_buffer else out._parameters)[name] = value.raw_tensor
    return out


def _to_rf(pt_module: torch.nn.Module, done: dict[torch.nn.Module, Module], shared: dict[int, Parameter]) -> Module:
    if isinstance(pt_module, RFModuleAsPTModule):
        return pt_module.rf_module
    if pt_module in done:
        return done[pt_module]
    done[pt_module] = out = PTModuleAsRFModule(pt_module)
    for raws, auxiliary in ((pt_module._parameters, False), (pt_module._buffers, True)):
        for name, raw in raws.items():
            if raw is None:
                continue
            if id(raw) not in shared:
                dims = [Dim(size, name=f"{name}:{axis}") for axis, size in enumerate(raw.shape)]
                new = Parameter(dims, raw_tensor=raw, trainable=raw.requires_grad, auxiliary=auxiliary)
                raws[name] = new.raw_tensor  # a buffer is another object now, of the same storage
                shared[id(new.raw_tensor)] = shared[id(raw)] = new
            vars(out)[name] = shared[id(raw)]
    for name, child in pt_module._modules.items():
        if child is not None:
            setattr(out, name, _to_rf(child, done, shared))
    return out
