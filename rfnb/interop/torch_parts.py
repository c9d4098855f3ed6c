"""One call of a torch.nn.Module around a Module: the values held by torch, the training mode, and hooks of parts.

torch changes modules in ways that a Module does not see: other values for one call (`torch.func.functional_call`),
computed values (`torch.nn.utils.parametrize`, weight norm, pruning), `eval()` and hooks of a part. All of this is
looked up when the module is called, and applied to this call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import torch

from rfnb.core.block import block
from rfnb.core.errors import runtime_error, type_error
from rfnb.core.op import Args, Kwargs
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text
from rfnb.core.tree import leaves, map_nested
from rfnb.nn.module.call_override import Make, through
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.run.run_ctx import get_run_ctx
from rfnb.rec.step_tensor import StepTensor

if TYPE_CHECKING:
    from rfnb.interop.torch_module import RFModuleAsPTModule as Wrapper

# The part whose hooks run, and its computation between them.
_between: ContextVar[tuple[Any, Callable[..., Any]] | None] = ContextVar("rfnb_part_of_torch", default=None)


def call(root: Wrapper, args: Args, kwargs: Kwargs) -> Any:
    """Call the Module of a wrapper; returns the result of `forward`."""
    between = _between.get()
    if between is not None and between[0] is root:
        _between.set(None)
        return between[1](*args, **kwargs)
    wrappers = [module for module in root.modules() if "_rfnb" in vars(module)]
    _check_device(root, args, kwargs, wrappers)
    makers = _makers(root, wrappers)
    with _values(wrappers), _training(root), through(makers) if makers else nullcontext():
        if root._rfnb.arrays is not None:
            return root._rfnb.arrays.call(root.rf_module, args, kwargs)
        _check_hooks(root, args, kwargs)
        result = root.rf_module(*args, **kwargs)
        _check_result(root, result)
        return result


# -- values ------------------------------------------------------------------------------------------------------------
@block
def _values(wrappers: list[Any]) -> Iterator[None]:
    """In a with-block, the parameters have the values that torch currently holds."""
    before: list[tuple[Parameter, Any]] = []
    try:
        for wrapper in wrappers:
            wrapper._rfnb.check(wrapper.rf_module)
            for name, parameter in wrapper._rfnb.linked.items():
                raw = wrapper._parameters.get(name)
                if raw is None:
                    raw = wrapper._buffers.get(name)
                    if raw is None:
                        raw = getattr(wrapper, name)  # computed by a parametrization, or set by a hook
                if raw is not parameter._raw:
                    if raw is None:
                        raise _missing(wrapper, name, parameter)
                    before.append((parameter, parameter._raw))
                    parameter._raw = raw
        yield
    finally:
        for parameter, raw in reversed(before):
            parameter._raw = raw


def _missing(wrapper: Any, name: str, parameter: Parameter) -> RuntimeError:
    kind = type(wrapper.rf_module).__name__
    return runtime_error(
        f"{kind}[rf]: {name} is None.",
        {"parameter": parameter},
        f"{kind} computes with it. Give it values, or make the model without it.",
        f"module.{name} = torch.nn.Parameter(...)",
    )


def _check_device(root: Any, args: Args, kwargs: Kwargs, wrappers: list[Any]) -> None:
    if not any(raw is not None and raw.is_meta for wrapper in wrappers for raw in wrapper._parameters.values()):
        return
    if not any(getattr(_raw(value), "is_meta", False) for _, value in leaves((args, kwargs))):
        raise runtime_error(
            f"{type(root.rf_module).__name__}[rf]: its parameters are on the meta device.",
            {"parameter": next(name for name, raw in root.named_parameters() if raw.is_meta)},
            "They have shapes, and no values to compute with. Give them some:",
            'module.to_empty(device="cpu")\nmodule.load_state_dict(...)',
        )


# -- training or not ---------------------------------------------------------------------------------------------------
def _training(root: Any) -> Any:
    """In a with-block, the training mode is that of `train()` and `eval()`; for modules of `rf_module_to_pt_module`, that
    of the run context.
    """
    if not root._rfnb.says_training:
        return nullcontext()
    ctx = get_run_ctx()
    if ctx.stage == "init":
        return ctx.train_flag_ctx(root.training)
    if ctx.train_flag is not root.training:
        fix = "module.eval()" if root.training else "module.train()"
        step = f"init_{'train' if root.training else 'forward'}_step_run_ctx"
        raise runtime_error(
            f"{type(root.rf_module).__name__}[rf]: training mode is ambiguous.",
            {"module": "train()" if root.training else "eval()", "step": repr(ctx)},
            "The module and the running step are in different modes, but dropout needs one mode. Set both:",
            f"{fix}\nwith rf.{step}():",
        )
    return nullcontext()


# -- parts -------------------------------------------------------------------------------------------------------------
def _has_hooks(module: Any) -> bool:
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _makers(root: Any, wrappers: list[Any]) -> dict[int, Make]:
    """Functions for the calls of parts that have hooks, or that train while the whole does not."""
    makers: dict[int, Make] = {}
    for wrapper in wrappers:
        if wrapper is not root and (_has_hooks(wrapper) or wrapper.training != root.training):
            makers[id(wrapper.rf_module)] = _maker(wrapper, root._rfnb.says_training)
    return makers


def _maker(wrapper: Any, says_training: bool) -> Make:
    def make(itself: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        flag = get_run_ctx().train_flag_ctx(wrapper.training) if says_training else nullcontext()
        with flag:
            return _with_hooks(wrapper, itself, args, kwargs) if _has_hooks(wrapper) else itself(*args, **kwargs)

    return make


def _with_hooks(wrapper: Any, itself: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
    """The call of a part through torch, with raw arrays instead of Tensors, so that its hooks (also backward ones) see torch tensors."""
    if any(isinstance(value, StepTensor) for _, value in leaves((args, kwargs))):
        raise runtime_error(
            f"{type(wrapper.rf_module).__name__}[rf]: a hook in a recorded loop.",
            {"module": wrapper.rf_module.module_path, "hooks": "of torch"},
            "The body of `with loop:` runs once for all steps, so a hook would see the first one only. Let Python run each step:",
            "for _ in loop:",
        )
    result: list[Any] = []

    def between(*raws: Any, **named_raws: Any) -> Any:
        given, named = map_nested(_tensor, (args, kwargs), (raws, named_raws))
        with _values([wrapper]):  # a forward pre-hook may have computed them
            result.append(itself(*given, **named))
        return map_nested(_raw, result[0])

    raws, named_raws = map_nested(_raw, (args, kwargs))
    _between.set((wrapper, between))
    try:
        out = wrapper(*raws, **named_raws)
    finally:
        _between.set(None)
    return map_nested(_tensor, result[0], out)


def _raw(value: Any) -> Any:
    return value.raw_tensor if isinstance(value, Tensor) else value


def _tensor(like: Any, raw: Any) -> Any:
    """The Tensor for a hook's result, with the original dims."""
    if not isinstance(like, Tensor):
        return raw
    if raw is like.raw_tensor:
        return like
    return Tensor(like.name, like.dims, sparse_dim=like.sparse_dim, feature_dim=like.feature_dim, raw_tensor=raw)


def _check_hooks(root: Any, args: Args, kwargs: Kwargs) -> None:
    """Refuse backward hooks, which search for torch tensors among arguments and results, and find none in Tensors."""
    if (root._backward_hooks or root._backward_pre_hooks) and any(
        isinstance(value, Tensor) for _, value in leaves((args, kwargs))
    ):
        raise type_error(
            f"{type(root.rf_module).__name__}[rf]: a backward hook of a module that is called with Tensors.",
            {"hooks": len(root._backward_hooks) + len(root._backward_pre_hooks)},
            "torch calls these hooks for raw arrays among arguments and results only. Name the axes of the arrays:",
            'rf.as_torch(model, inputs="batch time in_dim")',
        )


def _check_result(root: Any, result: Any) -> None:
    """Refuse a result without torch tensors, which DistributedDataParallel searches for to find unused parameters."""
    around = getattr(torch.nn.parallel.DistributedDataParallel, "_active_ddp_module", None)
    if around is None or not around.find_unused_parameters:
        return
    tensor = next((value for _, value in leaves(result) if isinstance(value, Tensor)), None)
    if tensor is not None:
        raise type_error(
            f"{type(root.rf_module).__name__}[rf]: the result contains Tensors.",
            {"result": f"Tensor {dims_text(tensor.dims)}"},
            "DistributedDataParallel with find_unused_parameters=True looks for raw arrays in the result, and takes all parameters for\n"
            "unused. Let the module return raw arrays, or the loss:",
            'rf.as_torch(model, inputs="batch time in_dim")',
        )
