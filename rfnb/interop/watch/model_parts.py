"""The parts of a watched model: its parameters by module, its modules, and problems with it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from rfnb.core.errors import type_error, value_error
from rfnb.interop.torch_module import PTModuleAsRFModule, RFModuleAsPTModule
from rfnb.interop.unregistered_modules import warn_of_lost_modules
from rfnb.nn.module.module import Module


class OwnedParameter(NamedTuple):
    """A parameter: its name, itself, and the path of the module that owns it (for a shared one the first)."""

    name: str
    tensor: torch.Tensor
    path: str


def inner(model: Any) -> Any:
    """The model inside wrappers of data parallelism and torch.compile, and the Module inside its torch bridge."""
    while True:
        if isinstance(model, (torch.nn.parallel.DistributedDataParallel, torch.nn.DataParallel)):
            model = model.module
        elif is_compiled(model):
            model = model._orig_mod
        elif isinstance(model, RFModuleAsPTModule):
            model = model.rf_module
        elif isinstance(model, PTModuleAsRFModule):
            model = model.pt_module
        else:
            return model


def is_compiled(module: Any) -> bool:
    """Whether it is the result of `torch.compile(module)`."""
    return isinstance(module, torch.nn.Module) and "_orig_mod" in module._modules


def check(model: Any) -> None:
    """Refuse a model that cannot be watched, and warn about Modules in it that torch does not find, and so does not train.

    Raises:
        TypeError: No module, or a scripted one.
        ValueError: No parameters.
    """
    what = f"{type(model).__module__}.{type(model).__name__}"
    if isinstance(model, torch.jit.ScriptModule):
        raise type_error(
            "watch: a scripted model cannot be observed.",
            {"model": what},
            "Its modules are not called by Python. Watch the original model:",
            "rf.watch(model, optimizer)    # and torch.jit.script(model) after the training",
        )
    if not isinstance(model, (torch.nn.Module, Module)):
        raise type_error(
            "watch: the model is not a module.",
            {"model": what},
            "rf.watch accepts modules of torch and of rfnb.",
            "rf.watch(model, optimizer)",
        )
    if isinstance(model, torch.nn.Module):
        warn_of_lost_modules(model)
    owned = parameters_of(model)
    if not owned:
        raise value_error(
            "watch: the model has no parameters.",
            {"model": what},
            "A watch observes how parameters are trained. To observe a model without any, record it:",
            "with rf.record(model=model) as trace: model(x)",
        )
    lazy = [each.name for each in owned if isinstance(each.tensor, torch.nn.parameter.UninitializedParameter)]
    if lazy:
        raise value_error(
            "watch: the model has parameters without a shape.",
            {"model": what, "parameters": ", ".join(lazy[:5])},
            "Parameters of a lazy module get their shapes in the first call.",
            "model(batch)\nrf.watch(model, optimizer)",
        )
    shards = [each.name for each in owned if hasattr(each.tensor, "full_tensor")]
    if shards:
        raise type_error(
            "watch: the parameters of this model are shards.",
            {"model": what, "parameters": ", ".join(shards[:5])},
            "The norm of a shard is not that of the parameter. Only models that are whole in each process can be watched.",
            "rf.watch(torch.nn.parallel.DistributedDataParallel(model), optimizer)",
        )


def parameters_of(model: Any) -> list[OwnedParameter]:
    """The parameters, each once: a shared one belongs to the first module that has it."""
    model = inner(model)
    if isinstance(model, Module):
        named = [(name, each.raw_tensor) for name, each in model.named_parameters() if not each.auxiliary]
    else:
        named = list(model.named_parameters())
    found: dict[int, OwnedParameter] = {}
    for name, tensor in named:
        if isinstance(tensor, torch.Tensor):
            found.setdefault(id(tensor), OwnedParameter(name, tensor, name.rpartition(".")[0]))
    return list(found.values())


def shared_of(model: Any) -> list[str]:
    """The shared parameters as text: "decoder.weight is embedding.weight"."""
    model = inner(model)
    if isinstance(model, Module):
        return []
    first = {id(tensor): name for name, tensor in model.named_parameters()}
    every = model.named_parameters(remove_duplicate=False)
    return [f"{name} is {first[id(tensor)]}" for name, tensor in every if first[id(tensor)] != name]


_NOTHING_OF_ITS_OWN = (torch.nn.Identity, torch.nn.Dropout, torch.nn.modules.dropout._DropoutNd, torch.nn.Flatten)


def seen_modules(model: Any) -> list[tuple[str, torch.nn.Module]]:
    """The torch modules whose outputs are observed: those that compute something themselves.

    A compiled or scripted part counts as one module.
    """
    while isinstance(model, torch.nn.parallel.DistributedDataParallel):
        model = model.module
    model = model if is_compiled(model) else inner(model)
    if not isinstance(model, torch.nn.Module):
        return []
    found: list[tuple[str, torch.nn.Module]] = []
    done: set[int] = set()

    def walk(path: str, module: torch.nn.Module) -> None:
        if id(module) in done or isinstance(module, (_NOTHING_OF_ITS_OWN, torch.jit.ScriptModule)):
            return
        done.add(id(module))
        children = [(name, child) for name, child in module._modules.items() if child is not None]
        whole = isinstance(module, torch.nn.MultiheadAttention) or is_whole(module)
        if not children or whole:
            found.append((path, module))
        if not whole:
            for name, child in children:
                walk(f"{path}.{name}" if path else name, child)

    walk("", model)
    return found


def is_whole(module: torch.nn.Module) -> bool:
    """Whether a module is compiled, so that its parts must not be touched."""
    return is_compiled(module) or getattr(module, "_compiled_call_impl", None) is not None


def optimizers_of(given: Any) -> dict[str, torch.optim.Optimizer]:
    """The optimizers by name; "" is the name of the only one.

    Raises:
        TypeError: Something else.
        ValueError: None at all.
    """
    if isinstance(given, dict):
        named = {str(name): each for name, each in given.items()}
    elif isinstance(given, (list, tuple)):
        named = {"" if len(given) == 1 else f"optimizer {index}": each for index, each in enumerate(given)}
    else:
        named = {"": given}
    if not named:
        raise value_error(
            "watch: there is no optimizer.",
            {"optimizers": "none"},
            "A watch needs at least one optimizer.",
            "rf.watch(model, optimizer)",
        )
    for name, each in named.items():
        while not hasattr(each, "register_step_pre_hook") or type(each).__name__ == "AcceleratedOptimizer":
            within = getattr(each, "optimizer", None)
            if within is None:
                raise type_error(
                    "watch: the optimizer is not a torch optimizer.",
                    {"optimizer": f"{type(each).__module__}.{type(each).__name__}"},
                    "Its steps are observed by the hooks of torch optimizers.",
                    "rf.watch(model, torch.optim.AdamW(model.parameters()))",
                )
            each = within
        named[name] = each
    return named


def check_optimizers(named: dict[str, torch.optim.Optimizer], owned: list[OwnedParameter]) -> None:
    """Raise a ValueError if an optimizer has no parameter of the model."""
    own = {id(each.tensor) for each in owned}
    for name, optimizer in named.items():
        others = [tensor for group in optimizer.param_groups for tensor in group["params"]]
        if not any(id(tensor) in own for tensor in others):
            raise value_error(
                "watch: the optimizer has no parameter of the model.",
                {
                    "optimizer": " ".join(filter(None, [name, type(optimizer).__name__])),
                    "its parameters": len(others),
                    "the model's": len(own),
                },
                "It was made for another model, or before the parameters of this one were replaced.",
                "optimizer = torch.optim.AdamW(model.parameters())\nrf.watch(model, optimizer)",
            )
