"""The bridge between rf.Module and torch.nn.Module, in both directions: shared parameters with the same names.

    pt = rf_module_to_pt_module(model)         # or rf.as_torch, which also accepts raw arrays
    optimizer = torch.optim.AdamW(pt.parameters())
    torch.save({"model": pt.state_dict()}, "model.pt")

This file imports torch, so `import rfnb` does not import it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import torch

from rfnb.core.dim import Dim
from rfnb.core.errors import runtime_error, shape_error, type_error
from rfnb.core.tensor_text import dims_text
from rfnb.interop import torch_parts
from rfnb.interop.unregistered_modules import warn_of_lost_modules
from rfnb.nn.module.checkpoint import LAYOUT, indented, layout_hint
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter

if TYPE_CHECKING:
    from rfnb.interop.torch_arrays import Arrays


def rf_module_to_pt_module(rf_module: Module, *, aux_params_as_buffers: bool = True) -> torch.nn.Module:
    """A torch.nn.Module that shares the parameters of `rf_module`, with the same names, and calls it.

    A module that occurs several times becomes one module too. Unlike in `rf.as_torch(rf_module)`, the run context
    determines whether it trains, not `train()` and `eval()`.

    Args:
        aux_params_as_buffers: Make auxiliary parameters (running statistics) buffers, so that no optimizer gets them.
    """
    return _to_torch(rf_module, aux_params_as_buffers, False, {})


def pt_module_to_rf_module(pt_module: torch.nn.Module) -> Module:
    """An rf.Module that shares the parameters of `pt_module`, with the same names, and calls it (with raw arrays;
    `rf.from_torch` sets their axes).

    Buffers become auxiliary parameters; move them with `to` of the result, since torch replaces buffers when it moves
    them. Parameters have new dims, named "weight:0", "weight:1", ...

    Raises:
        TypeError: If its parameters cannot be shared: a scripted, compiled, quantised or uninitialised module.
    """
    return as_rf(pt_module, PTModuleAsRFModule)


def as_rf(pt_module: torch.nn.Module, kind: type[PTModuleAsRFModule]) -> Module:
    """A Module of this kind around a torch module, and around its parts.

    Raises:
        TypeError: If its parameters cannot be shared.
    """
    check_open(pt_module)
    warn_of_lost_modules(pt_module)
    return _to_rf(pt_module, {}, {}, kind)


def to_torch(module: Module) -> torch.nn.Module:
    """A torch.nn.Module whose `train()` and `eval()` determine whether it trains.

    Raises:
        TypeError: If it is not a Module, or has parameters that are not torch parameters.
    """
    if not isinstance(module, Module):
        foreign = isinstance(module, torch.nn.Module)
        raise type_error(
            "as_torch: this is not a Module of rfnb.",
            {"got": f"{type(module).__module__}.{type(module).__name__}"},
            "It is already a torch module." if foreign else "A Module has parameters and a __call__.",
            "module(x)" if foreign else "rf.as_torch(rf.Functional(fn))",
        )
    for name, parameter in module.named_parameters():
        if not isinstance(parameter.raw_tensor, torch.Tensor):
            raise type_error(
                "as_torch: a parameter is not a torch parameter.",
                {name: f"{dims_text(parameter.dims)}, backend {parameter.backend.name}"},
                "A torch module holds torch parameters. Make the model while torch is the backend:",
                "rf.select_backend_torch()",
            )
    return _to_torch(module, True, True, {})


class RFModuleAsPTModule(torch.nn.Module):
    """A module made by `rf.as_torch` or `rf_module_to_pt_module`; `rf_module` is the original."""

    rf_module: Module
    _rfnb: Bridge
    _version = LAYOUT  # stored in a state_dict for each module

    def __init__(self, rf_module: Module, says_training: bool = False):
        super().__init__()
        # Bypasses the registration of torch and of Module
        vars(self).update(rf_module=rf_module, _rfnb=Bridge(says_training))

    @property
    def bridged(self) -> Module:
        """The wrapped Module, for recordings."""
        return self.rf_module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return torch_parts.call(self, args, kwargs)

    def _get_name(self) -> str:
        return f"{type(self.rf_module).__name__}[rf]"

    def __prepare_scriptable__(self) -> None:
        """Raises, when `torch.jit.script` asks for a module to compile."""
        raise type_error(
            "torch.jit.script: a module of rfnb.",
            {"module": self._get_name()},
            "It compiles the source of a module, which has to be a subset of Python. Programs are made by watching a call:",
            "torch.export.export(module, (x,), strict=False)",
        )

    def _replicate_for_data_parallel(self) -> Any:
        """Raises: DataParallel runs copies with other parameters in threads, which would all set those of one Module."""
        raise type_error(
            "torch.nn.DataParallel: a module of rfnb.",
            {"module": self._get_name()},
            "It has one set of parameters at a time, and the threads of DataParallel need one each. With a process for each device:",
            "torch.nn.parallel.DistributedDataParallel(module)",
        )

    # -- parameters and modules replaced by torch ----------------------------------------------------------------------
    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, torch.nn.Module) and "_rfnb" in vars(self) and name in self._rfnb.parts:
            from rfnb.interop.torch_layers import in_the_place_of  # it imports this file

            part = self._rfnb.parts[name] = in_the_place_of(self._rfnb.parts[name], value)
            setattr(self.rf_module, name, part)
        super().__setattr__(name, value)
        self._follow(name)

    def register_parameter(self, name: str, param: torch.nn.Parameter | None) -> None:
        super().register_parameter(name, param)
        self._follow(name)

    def register_buffer(self, name: str, tensor: torch.Tensor | None, persistent: bool = True) -> None:
        super().register_buffer(name, tensor, persistent)
        self._follow(name)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing: Any,
        unexpected: Any,
        errors: Any,
    ) -> None:
        """Load arrays by name, in layout 2 unless torch says that they were written by a module that may have had another layout."""
        if local_metadata.get("version", LAYOUT) < LAYOUT:
            for name in self.rf_module._rfnb_layout_1:
                parameter, raw = self._rfnb.linked.get(name), state_dict.get(prefix + name)
                if parameter is None or raw is None:
                    continue
                shape = tuple(dim.extent for dim in parameter.dims)
                if raw.shape == shape and shape[0] == shape[1]:
                    rule, fix = layout_hint([f"layout {prefix}{name}"], torch=True) or ("", "")
                    errors.append(f"{prefix}{name} {shape}.\n{rule}{indented(fix)}")
                elif raw.shape != shape and raw.swapaxes(0, 1).shape == shape:
                    state_dict[prefix + name] = raw.swapaxes(0, 1)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing, unexpected, errors)

    def _follow(self, name: str) -> None:
        """Update the Module after one of its parameters was replaced."""
        parameter = self._rfnb.linked.get(name) if "_rfnb" in vars(self) else None
        raw = None if parameter is None else self._parameters.get(name, self._buffers.get(name))
        if parameter is None or raw is None or raw is parameter._raw:
            return
        if tuple(raw.shape) != tuple(dim.extent for dim in parameter.dims):
            (self._parameters if name in self._parameters else self._buffers)[name] = parameter._raw
            raise shape_error(
                f"{self._get_name()}.{name}: a parameter of another shape.",
                {"parameter": parameter, "given": tuple(raw.shape)},
                "The dims of a parameter are those that its module was made with. For other ones make another module.",
            )
        if name in self._buffers and not isinstance(raw, torch.nn.Parameter):
            raw = self._buffers[name] = torch.nn.Parameter(
                raw, requires_grad=False
            )  # in the form that `Parameter.to` requires
        parameter._raw = raw
        parameter._dtype = parameter.dtype

    def _apply(self, fn: Any, recurse: bool = True) -> RFModuleAsPTModule:
        """`to`, `half`, `cuda`, ...: torch replaces buffers, and in some cases parameters."""
        super()._apply(fn, recurse)
        for name in self._rfnb.linked:
            self._follow(name)
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.nn.Module:
        """A bridge of a copy of the rf.Module, which shares the copied parameters."""
        new = self.__class__.__new__(self.__class__)
        memo[id(self)] = new
        vars(new)["rf_module"] = copy.deepcopy(self.rf_module, memo)
        for name, value in vars(self).items():
            if name != "rf_module":
                vars(new)[name] = copy.deepcopy(value, memo)
        for name, raw in self._parameters.items():
            if raw is not None:  # a Parameter knows whether it is trainable, but not that torch froze it
                vars(new)["_parameters"][name].requires_grad_(raw.requires_grad)
        return new


class Bridge:
    """The link from a torch module to its Module.

    Attributes:
        arrays: Converts raw arrays to the arguments of the Module; None: arguments are passed unchanged.
        says_training: Whether `train()` and `eval()` determine whether it trains.
        linked: The parameters of the Module itself by name; torch holds their raw arrays.
        parts: The children of the Module by name.
    """

    def __init__(self, says_training: bool):
        self.says_training = says_training
        self.arrays: Arrays | None = None
        self.linked: dict[str, Parameter] = {}
        self.parts: dict[str, Module] = {}
        self._noted = 0

    def link(self, module: Module) -> None:
        """Record the parts of the Module, which torch holds too."""
        for name, value in vars(module).items():
            if isinstance(value, Parameter):
                self.linked[name] = value
            elif isinstance(value, Module):
                self.parts[name] = value
        self._noted = len(vars(module))

    def check(self, module: Module) -> None:
        """Compare the parts of the Module with the recorded ones.

        Raises:
            RuntimeError: Names a parameter or part that was replaced.
        """
        held = vars(module)
        changed = [name for known in (self.linked, self.parts) for name in known if held.get(name) is not known[name]]
        if len(held) != self._noted:
            changed += [name for name in _held(module) if name not in self.linked and name not in self.parts]
            self._noted = len(held) if not changed else self._noted
        if changed:
            raise runtime_error(
                f"{type(module).__name__}[rf]: {changed[0]} was set after this torch module was made.",
                {"module": type(module).__name__, "has now": ", ".join(_held(module)) or "nothing"},
                "An optimizer of torch, or a state_dict, would not have it. Make the torch module when the model is complete:",
                "module = rf.as_torch(model)",
            )


def check_open(module: torch.nn.Module) -> None:
    """Refuse a module whose parameters cannot be shared.

    Raises:
        TypeError: With an alternative.
    """
    what = rule = fix = None
    name = f"{type(module).__module__}.{type(module).__name__}"
    for path, part in module.named_modules():
        kind = type(part).__module__
        row = (f"part {path}" if path else "module", f"{kind}.{type(part).__name__}")
        if isinstance(part, torch.jit.ScriptModule):
            what, rule = (
                "scripted",
                "The parameters of a scripted module are inside of its program. Take the module it was made from:",
            )
            fix = "rf.from_torch(module)    # before torch.jit.script"
        elif type(part).__name__ == "OptimizedModule" and hasattr(part, "_orig_mod"):
            what, rule = (
                "compiled",
                "A compiled module is a call of another one, which has the parameters. Take that one:",
            )
            fix = "rf.from_torch(module._orig_mod)"
        elif ".quantized" in kind:
            what, rule = "quantised", "Its weights are packed, and no parameters. Take the module it was made from:"
            fix = "rf.from_torch(module)    # before it is quantised"
        elif any(torch.nn.parameter.is_lazy(raw) for raw in part.parameters(recurse=False)):
            what, rule = (
                "not initialised",
                "The parameters of a lazy module get their shapes in its first call. Call it once before:",
            )
            fix = "module(torch.zeros(...))"
        if what is not None and rule is not None:
            rows = [("module", name), *([row] if path else [])]
            raise type_error(f"from_torch: this module is {what}.", rows, rule, fix)


def _held(module: Module) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, (Parameter, Module))]


class PTModuleAsRFModule(Module):
    """A module made by `pt_module_to_rf_module`; `pt_module` is the original."""

    _rfnb_pt_module: torch.nn.Module

    def __init__(self, pt_module: torch.nn.Module):
        vars(self)["_rfnb_pt_module"] = pt_module

    @property
    def pt_module(self) -> torch.nn.Module:
        return self._rfnb_pt_module

    @property
    def bridged(self) -> torch.nn.Module:
        """The wrapped module, for recordings."""
        return self._rfnb_pt_module

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        new = memo[id(self)] = as_rf(copy.deepcopy(self.pt_module, memo), type(self))
        return new

    def get_default_name(self) -> str:
        return type(self.pt_module).__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.pt_module(*args, **kwargs)


def _to_torch(
    rf_module: Module, aux_params_as_buffers: bool, says_training: bool, done: dict[Module, torch.nn.Module]
) -> torch.nn.Module:
    if isinstance(rf_module, PTModuleAsRFModule):
        return rf_module.pt_module
    if rf_module in done:
        return done[rf_module]
    done[rf_module] = out = RFModuleAsPTModule(rf_module, says_training)
    for name, value in vars(rf_module).items():
        # Into torch's own dicts, since register_module refuses names like "type" or "forward", which are valid here.
        if isinstance(value, Module):
            out._modules[name] = _to_torch(value, aux_params_as_buffers, says_training, done)
        elif isinstance(value, Parameter):
            as_buffer = value.auxiliary and aux_params_as_buffers
            (out._buffers if as_buffer else out._parameters)[name] = value.raw_tensor
    out._rfnb.link(rf_module)
    return out


def _parameter(name: str, raw: torch.Tensor, auxiliary: bool) -> Parameter:
    dims = [Dim(size, name=f"{name}:{axis}") for axis, size in enumerate(raw.shape)]
    return Parameter(dims, raw_tensor=raw, trainable=raw.requires_grad, auxiliary=auxiliary)


# By the id of the raw one, which the Parameter keeps alive: two Modules around one torch module share Parameters.
_PARAMETERS: WeakValueDictionary[int, Parameter] = WeakValueDictionary()


def _to_rf(
    pt_module: torch.nn.Module,
    done: dict[torch.nn.Module, Module],
    shared: dict[int, Parameter],
    kind: type[PTModuleAsRFModule],
) -> Module:
    if isinstance(pt_module, RFModuleAsPTModule):
        return pt_module.rf_module
    if pt_module in done:
        return done[pt_module]
    done[pt_module] = out = kind(pt_module)
    for raws, auxiliary in ((pt_module._parameters, False), (pt_module._buffers, True)):
        for name, raw in raws.items():
            if raw is None:
                continue
            known = _PARAMETERS.get(id(raw))
            if known is None or known._raw is not raw:
                known = shared.get(id(raw)) or _parameter(name, raw, auxiliary)
                raws[name] = known.raw_tensor  # the buffer is now another object with the same storage
                _PARAMETERS[id(known.raw_tensor)] = shared[id(raw)] = known
            vars(out)[name] = known
    for name, child in pt_module._modules.items():
        if child is not None:
            setattr(out, name, _to_rf(child, done, shared, kind))
    return out
