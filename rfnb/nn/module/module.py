"""Module: parameters and `__call__`, with a path in the model.

    class Net(rf.Module):
        def __init__(self):
            self.linear = rf.Linear(in_dim, out_dim)

No registration and no `super().__init__()` are needed: attributes are the children and parameters, in the order in which they are set.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import Any, TypeVar

from rfnb.core.call_errors import failed_inside
from rfnb.core.compat.attribute_hints import put_absent
from rfnb.core.dim import Dim
from rfnb.core.dim_names import MAY_NAME
from rfnb.core.door import called_inside, is_raw
from rfnb.core.errors import DimError, NearNames, not_implemented_error
from rfnb.core.not_specified import is_specified
from rfnb.core.place import DOORS
from rfnb.nn.module.argument_errors import (
    argument_error,
    call_with_dims,
    check_module_dtypes,
    devices_error,
    init_error,
    init_type_error,
    initial_state_error,
)
from rfnb.nn.module.call_override import made_through
from rfnb.nn.module.hooks import RemovableHandle
from rfnb.nn.module.parameter import Parameter
from rfnb.nn.module.unregistered_parts import check_replaced, warn_of_lost_parts
from rfnb.rec.state import State
from rfnb.trace.editing import edited_result, editing
from rfnb.trace.event import named_tensors
from rfnb.trace.probe import _open, listening, probe, trace_context

T = TypeVar("T")


class Module(NearNames):
    """The base of everything with parameters."""

    _rfnb_hooks: dict[int, Any] | None = None
    _rfnb_layout_1: Mapping[str, str] = MappingProxyType({})  # parameter -> its axes in old files, see `checkpoint.py`

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        call = cls.__dict__.get("__call__")
        if call is not None:
            cls.__call__ = _observed(call)  # type: ignore[method-assign]
        init = cls.__dict__.get("__init__")
        if init is not None and cls.__module__.startswith("rfnb."):
            cls.__init__ = _without_marks(_explained(init, init_error))  # type: ignore[method-assign]
        initial_state = cls.__dict__.get("default_initial_state")
        if initial_state is not None:
            cls.default_initial_state = _explained(initial_state, initial_state_error)  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module) and not value._has_parent() and not self._is_inside(value):
            value.__dict__["_rfnb_parent"] = (weakref.ref(self), name)
        elif not name.startswith("_rfnb"):
            value = adopted(value)
        before = self.__dict__.get(name)
        if isinstance(before, Parameter) and not isinstance(value, Parameter):
            check_replaced(self, name, before, value)
        object.__setattr__(self, name, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Module:
        """A copy with its own parameters (same values); dims are shared."""
        import copy

        new = self.__class__.__new__(self.__class__)
        memo[id(self)] = new
        for name, value in vars(self).items():
            if name != "_rfnb_parent":
                setattr(new, name, copy.deepcopy(value, memo))
        return new

    def __copy__(self) -> Module:
        """Another module with the same children and parameters."""
        new = self.__class__.__new__(self.__class__)
        vars(new).update(self._without_parent())
        return new

    def __getstate__(self) -> dict[str, Any]:
        """State for pickle: the attributes, and the children whose path starts here. A part is saved without the model around it."""
        own = [
            name for name, value in vars(self).items() if isinstance(value, Module) and value._is_child_at(self, name)
        ]
        return {"attributes": self._without_parent(), "children": own}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state["attributes"])
        for name in state["children"]:
            vars(vars(self)[name])["_rfnb_parent"] = (weakref.ref(self), name)

    def _without_parent(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_rfnb_parent"}

    def _is_child_at(self, parent: Module, name: str) -> bool:
        return (
            self._has_parent()
            and self.__dict__["_rfnb_parent"][1] == name
            and self.__dict__["_rfnb_parent"][0]() is parent
        )

    def _has_parent(self) -> bool:
        """Whether the module that first held this one still does."""
        if "_rfnb_parent" not in self.__dict__:
            return False
        parent, name = self.__dict__["_rfnb_parent"]
        return parent() is not None and parent().__dict__.get(name) is self

    def _is_inside(self, other: Module) -> bool:
        """Whether this is `other` or inside it; a reference to the outside does not make a path."""
        module: Module | None = self
        while module is not None and module is not other:
            module = module.__dict__["_rfnb_parent"][0]() if "_rfnb_parent" in module.__dict__ else None
        return module is other

    @property
    def module_path(self) -> str:
        """The dotted path from the outermost module that holds this one; "" for the outermost module."""
        parts = []
        module: Module = self
        while module._has_parent():
            parent, name = module.__dict__["_rfnb_parent"]
            parts.append(name)
            module = parent()
        return ".".join(reversed(parts))

    def _path_in_trace(self) -> str:
        return trace_context.module_name(self) or self.module_path or self.get_default_name()

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State | None:
        """The initial states of the direct children by attribute name; None if no child has a state."""
        state = State()
        for name, child in self.named_children():
            sub = child.default_initial_state(batch_dims=batch_dims)
            if sub is not None:
                state[name] = sub
        return state if state else None

    def get_default_name(self) -> str:
        """The class name in snake case."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(self).__name__).lower()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = type(self).__name__
        own = [each for each in vars(type(self)) if not each.startswith("_")]
        raise not_implemented_error(
            f"{name} does not define __call__.",
            {"defines": ", ".join(own) or "nothing"},
            "A call of a module runs its method `__call__`, where a module of torch has `forward`.",
            "__call__ = forward" if hasattr(self, "forward") else "def __call__(self, source): ...",
        )

    def get_deep(self, target: str) -> Any:
        """The attribute at a dotted path.

        Raises:
            AttributeError: Names the missing part and the existing alternatives.
        """
        if not target:
            return self
        value: Any = self
        parts = target.split(".")
        for index, part in enumerate(parts):
            if not hasattr(value, part):
                where = ".".join(parts[:index]) or type(self).__name__
                there = ", ".join(name for name in vars(value) if not name.startswith("_"))
                raise AttributeError(f'get_deep("{target}"): "{where}" has no "{part}".\n  has  {there}')
            value = getattr(value, part)
        return value

    def set_deep(self, target: str, value: Any) -> None:
        """Set the attribute at a dotted path of any depth."""
        prefix, _, name = target.rpartition(".")
        setattr(self.get_deep(prefix), name, value)

    def children(self) -> Iterator[Module]:
        """Direct children."""
        for _, child in self.named_children():
            yield child

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Direct children with their attribute names."""
        for name, value in list(vars(self).items()):  # callers may parametrize while iterating, which adds attributes
            if isinstance(value, Module):
                yield name, value

    def modules(self, *, recurse: bool = True, include_self: bool = True) -> Iterator[Module]:
        """All modules inside, breadth-first, self first."""
        for _, module in self.named_modules(recurse=recurse, include_self=include_self):
            yield module

    def named_modules(
        self, *, recurse: bool = True, include_self: bool = True, memo: set[Module] | None = None, prefix: str = ""
    ) -> Iterator[tuple[str, Module]]:
        """The modules with dotted names; a module reached twice is listed once, under its first name."""
        memo = set() if memo is None else memo
        queue: list[tuple[str, Module]] = [(prefix, self)]
        if self not in memo:
            memo.add(self)
            if include_self:
                yield prefix, self
        while queue:
            path, module = queue.pop(0)
            for name, child in module.named_children():
                full = f"{path}.{name}" if path else name
                if child in memo:
                    continue
                memo.add(child)
                yield full, child
                if recurse:
                    queue.append((full, child))

    def named_parameters(self, *, recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """The parameters by dotted names; a shared one is listed once. Parameters in a plain list or dict are not found,
        and a warning says so. Optimizers of torch take the raw parameters, as from `parameters`.
        """
        if recurse:
            warn_of_lost_parts(self.named_modules(), Module)
        # a list, since callers may parametrize while iterating
        named = [((name, each), each) for name, each in self._named_parameters(recurse=recurse)]
        return _Parameters(named, lambda item, raw: (item[0], raw))

    def _named_parameters(self, *, recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        seen: set[int] = set()
        for path, module in self.named_modules(recurse=recurse) if recurse else [("", self)]:
            for name, value in vars(module).items():
                if isinstance(value, Parameter) and id(value) not in seen:
                    seen.add(id(value))
                    yield (f"{path}.{name}" if path else name), value

    def parameters(self, *, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters. An optimizer of torch (or its `clip_grad_norm_`) receives the raw arrays, without auxiliary
        ones: `torch.optim.AdamW(model.parameters())`. In your own lists write `parameter.raw_tensor`.
        """
        return _Parameters([(each, each) for _, each in self.named_parameters(recurse=recurse)], lambda _, raw: raw)

    @property
    def has_parameters(self) -> bool:
        """Whether this module or a submodule has any parameter."""
        return next(self._named_parameters(), None) is not None

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        """Call fn once on each module inside, children before their parent; returns self."""
        self._apply(fn, set())
        return self

    def _apply(self, fn: Callable[[Module], Any], done: set[Module]) -> None:
        done.add(self)
        for child in self.children():
            if child not in done:
                child._apply(fn, done)
        fn(self)

    def to(self, *, device: str | None = None, dtype: str | None = None) -> None:
        """Move or cast all parameters in place."""
        for parameter in self.parameters():
            parameter.to(device=device, dtype=dtype)

    def register_forward_hook(
        self, hook: Callable[[Module, tuple[Any, ...], dict[str, Any], Any], Any], *, prepend: bool = False
    ) -> RemovableHandle:
        """`hook(module, args, kwargs, result)` after each call of this instance; its return value replaces the result."""
        hooks = self.__dict__.setdefault("_rfnb_hooks", {})
        return RemovableHandle.add(hooks, hook, prepend=prepend)


put_absent(
    Module,
    "A Module",
    "It is no torch.nn.Module: the run context has the settings of a step, and parameters are named Tensors.",
    {
        "forward": "def __call__(self, source): ...    # and module(source)",
        "train": "with rf.init_train_step_run_ctx(train_flag=True):",
        "eval": "with rf.init_forward_step_run_ctx():    # or none: without a context nothing trains",
        "zero_grad": "optimizer.zero_grad()",
        "state_dict": 'rf.save_params(dict(model.named_parameters()), "model.npz")',
        "load_state_dict": 'rf.set_params(model, rf.load_params("model.npz"))',
        "cuda": 'model.to(device="cuda")',
        "cpu": 'model.to(device="cpu")',
        "half": 'model.to(dtype="float16")',
        "float": 'model.to(dtype="float32")',
        "requires_grad_": "for parameter in model.parameters():\n    parameter.trainable = False",
        "register_parameter": "self.weight = rf.Parameter([in_dim, out_dim])",
        "register_buffer": "self.mean = rf.Parameter([in_dim], auxiliary=True)",
        "register_module": "self.layer = rf.Linear(in_dim, out_dim)",
        "add_module": "self.layer = rf.Linear(in_dim, out_dim)",
        "named_buffers": "[name for name, parameter in model.named_parameters() if parameter.auxiliary]",
        "buffers": "[parameter for parameter in model.parameters() if parameter.auxiliary]",
    },
)


_adopters: list[str] = []


def adopt_by(place: str) -> None:
    """Register a "module:function" that converts a module of another library into a Module when it is set as an attribute,
    or returns None for unknown ones.

    It is imported at the first such module.
    """
    _adopters.append(place)


def adopted(value: Any) -> Any:
    """The Module for a module of another library; any other value unchanged."""
    # Of its class: instances of ours, asked for what they do not have, would look for what is meant.
    if not isinstance(value, (Module, type)) and hasattr(type(value), "named_buffers"):
        for module, _, function in (place.partition(":") for place in _adopters):
            found = getattr(import_module(module), function)(value)
            if found is not None:
                return found
    return value


class _Parameters(Iterator[T]):
    """A one-time iterator over parameters, or over pairs of a name and one. Optimizers of torch and its `clip_grad_norm_` receive the raw
    ones.

    Args:
        items: With the parameter of each.
        with_raw: An item with its raw parameter.
    """

    def __init__(self, items: list[tuple[T, Parameter]], with_raw: Callable[[T, Any], Any]):
        self._items, self._with_raw = iter(items), with_raw

    def __iter__(self) -> Iterator[Any]:
        if _for_torch():
            return (self._with_raw(item, of.raw_tensor) for item, of in self._items if not of.auxiliary)
        return self

    def __next__(self) -> T:
        return next(self._items)[0]


def _for_torch() -> bool:
    """Whether an optimizer or helper of torch is iterating."""
    name = sys._getframe(2).f_globals.get("__name__", "")
    return name.startswith(("torch.optim.", "torch.nn.utils."))


def _without_marks(init: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps an `__init__`: omits options whose value is the mark for "not given"."""

    @functools.wraps(init)
    def wrapper(self: Module, *args: Any, **kwargs: Any) -> None:
        if not all(map(is_specified, (*args, *kwargs.values()))):
            bound = inspect.signature(init).bind(self, *args, **kwargs)
            given = {name: value for name, value in bound.arguments.items() if is_specified(value)}
            bound.arguments.clear()
            bound.arguments.update(given)
            args, kwargs = bound.args[1:], bound.kwargs
        init(self, *args, **kwargs)

    DOORS.add(wrapper.__code__)  # type: ignore[attr-defined]
    return wrapper


def _explained(method: Callable[..., Any], error_of: Callable[..., TypeError | DimError | None]) -> Callable[..., Any]:
    """Wraps a method: arguments that do not match raise an error that names them. Arguments of an `__init__` called by a
    user are checked first, since a layer would store them and fail only when called.
    """
    before = error_of is init_error

    @functools.wraps(method)
    def wrapper(self: Module, *args: Any, **kwargs: Any) -> Any:
        if before and not called_inside(sys._getframe()):
            wrong = init_type_error(self, method, args, kwargs)
            if wrong is not None:
                raise wrong
        try:
            return method(self, *args, **kwargs)
        except Exception as error:
            inside = failed_inside(error)
            if inside and not is_raw(error, inside):
                raise
            explained = error_of(self, method, args, kwargs)
            if explained is None:
                raise
            raise explained from (error if inside else None)

    DOORS.add(wrapper.__code__)  # type: ignore[attr-defined]
    return wrapper


def _observed(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a `__call__`: runs the forward hooks of the instance, emits the `module` event, and explains an argument that
    does not match, is not a Tensor, or is on another device.
    """

    @functools.wraps(call)
    def wrapper(self: Module, first: Any = _nothing, /, *more: Any, **kwargs: Any) -> Any:
        hooks = self._rfnb_hooks
        try:
            # Before anything is computed or any random number drawn.
            if (kwargs and not MAY_NAME.isdisjoint(map(type, kwargs.values()))) or (
                more and not MAY_NAME.isdisjoint(map(type, more))
            ):
                more, kwargs = call_with_dims(self, call, first, more, kwargs)
            if not hooks and not _open:
                if first is _nothing:
                    return call(self, **kwargs)
                # Most calls; packing and unpacking arguments would be a third of the cost here.
                return call(self, first, *more, **kwargs) if more or kwargs else call(self, first)
            args = _given(first, more)
            if getattr(type(self).__call__, "__wrapped__", None) is not call:  # a subclass called super().__call__
                return call(self, *args, **kwargs)
            before = trace_context.enter_module(self._path_in_trace)
            try:
                result = made_through(self, call, args, kwargs)
                for hook in list(hooks.values()) if hooks else ():
                    result = hook(self, args, kwargs, result)
                if editing.get():
                    result = edited_result(self, result)
                if listening("module"):
                    _tell_call(self, args, kwargs, named_tensors([("", result)]))
            except Exception as error:
                if listening("module"):
                    _tell_call(self, args, kwargs, [], raised=type(error).__name__)
                raise
            finally:
                trace_context.leave_module(before)
            return result
        except Exception as error:
            given = _given(first, more)
            refused = (
                devices_error(self, call, given, kwargs, error, sys._getframe(1))
                if isinstance(error, RuntimeError)
                else None
            )
            if refused is not None:
                raise refused from None
            wrong = argument_error(self, call, given, kwargs, error)
            if wrong is None:
                if isinstance(error, (AttributeError, TypeError, RuntimeError)):
                    check_module_dtypes(self, given, kwargs)
                raise
            raise wrong from (error if failed_inside(error) else None)

    return wrapper


def _tell_call(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: Any, **more: str) -> None:
    inputs = named_tensors([*((str(i), arg) for i, arg in enumerate(args)), *kwargs.items()])
    probe("module", inputs=inputs, outputs=outputs, module=type(module).__name__, **more)


_nothing: Any = object()


def _given(first: Any, more: tuple[Any, ...]) -> tuple[Any, ...]:
    return () if first is _nothing else (first, *more)


class Functional(Module):
    """A callable as a module, with optional attributes."""

    def __init__(self, func: Callable[..., Any], *, attribs: dict[str, Any] | None = None):
        self.func = func
        for name, value in (attribs or {}).items():
            setattr(self, name, value)

    def get_default_name(self) -> str:
        """The name of the callable; for a partial that of its function."""
        func = self.func.func if isinstance(self.func, functools.partial) else self.func
        return getattr(func, "__name__", "functional")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.func(*args, **kwargs)
