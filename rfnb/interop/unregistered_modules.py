"""Warn about modules and parameters of rfnb that torch does not register: plain attributes of torch modules. The warning
has the line to type.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import filterfalse
from typing import Any

import torch

from rfnb.core.errors import message
from rfnb.core.place import warn_user
from rfnb.core.tensor_text import shape_of
from rfnb.nn.module.module import Module
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.module.unregistered_parts import parts_in

_OF_TORCH = frozenset(vars(torch.nn.Module()))  # parameters, buffers and modules are tensors and modules of torch
_PLAIN, _HOLDERS = (bool, int, float, str, type(None)), (dict, OrderedDict, list, tuple, set)


def warn_of_lost_modules(model: torch.nn.Module) -> None:
    """Warn about attributes of torch modules, also in lists and dicts, with parameters that torch does not have."""
    found: set[int] | None = None
    for path, module in model.named_modules():
        own = vars(module)
        for name in filterfalse(_OF_TORCH.__contains__, () if hasattr(type(module), "bridged") else own):
            value = own[name]
            if type(value) in _PLAIN or (type(value) in _HOLDERS and not value):  # nearly all of them
                continue
            inside = isinstance(value, (list, tuple, dict)) and value
            if not inside and not isinstance(value, (Module, Parameter)):
                continue
            for part in parts_in(value, Module, depth=2):
                if found is None:
                    found = {id(raw) for raw in (*model.parameters(), *model.buffers())}
                held = [part] if isinstance(part, Parameter) else [each for _, each in part._named_parameters()]
                lost = [each for each in held if not each.auxiliary and id(each.raw_tensor) not in found]
                if lost:
                    _warn(f"{path or type(module).__name__}.{name}", name, value, part, len(lost))
                    break


def _warn(path: str, name: str, value: Any, part: Module | Parameter, number: int) -> None:
    if isinstance(part, Parameter):
        row = ("parameter", shape_of(part))
        fix = f"self.{name} = parameter.raw_tensor    # a torch.nn.Parameter"
    else:
        row = ("module", f"{type(part).__name__}, {number} parameter{'' if number == 1 else 's'}")
        fix = f"self.{name} = rf.as_torch(module)"
    if value is not part:
        kind = "ParameterList" if isinstance(part, Parameter) else "ModuleList"
        fix = f"self.{name} = torch.nn.{kind}([{fix.partition(' = ')[2].partition('    ')[0]} for ...])"
    rule = "Parameters are found in modules of torch, so no optimizer, state_dict or device reaches these:"
    warn_user(message(f"{path}: torch does not find this part of rfnb.", [row], rule, fix))
