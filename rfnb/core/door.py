"""Public functions as doors: a raw failure behind one, caused by an argument of the call, becomes an error that names the argument.

    open_door(rf.show)       # in place: the function stays the same object, with other code
    watch_body(rf.softmax) # the same without an extra call: only for failures inside, not for unknown arguments

An error counts as raw if no `raise` of this package made it. It is left alone if user code (a callback, a Module) is on its stack, if
the arguments have the documented types, or if another function of this package made the call. It remains as the `__cause__`.
"""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

from rfnb.core.argument_types import alternatives, fits, hints_of, is_array, is_taken, named_types, quick_types
from rfnb.core.call_errors import (
    FUNCTIONS,
    MissingArgument,
    MissingError,
    arguments_of,
    explain_call,
    explain_frame,
    failed_inside,
)
from rfnb.core.dim_names import Arguments, again, with_dims
from rfnb.core.door_code import NO_DEFAULT, can_watch, code_through, with_checks, with_handler
from rfnb.core.errors import DimError, NoPlanError, parts_of
from rfnb.core.intercept import _answer
from rfnb.core.kept_signature import keep_signature
from rfnb.core.op import Args, Kwargs
from rfnb.core.place import _PACKAGE, DOORS, in_package
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import MissingDim
from rfnb.core.type_errors import explain_types, not_a_tensor

_LAZY = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_LIBRARIES = {"rfnb", "torch", "numpy", *sys.stdlib_module_names} - {"__main__"}


# These methods keep what they get, or look only whether it is there, and would do so with what stands for a missing argument.
_KEEP = {"has_axis", "check_assignable", "depends_on", "call_on_commit", "cls_flatten_tensors"}


@dataclass(frozen=True)
class Door:
    """A public function: its name in messages, and the `code` of a call."""

    what: str
    code: str
    fn: FunctionType
    bound: bool  # to `self` or a class
    looks_first: (
        bool  # before the function is called, which would look late (a generator) or has `*args` (a with-block)
    )

    @cached_property
    def names(self) -> list[str]:
        """The positional parameters."""
        each = inspect.signature(self.fn).parameters.values()
        return [one.name for one in each if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]

    @property
    def signature(self) -> inspect.Signature:
        """The signature without `self`."""
        signature = inspect.signature(self.fn)
        return signature.replace(parameters=list(signature.parameters.values())[self.bound :])

    def with_dims(self, code: CodeType, args: Args, kwargs: Kwargs) -> Arguments | None:
        """The arguments with names replaced by Dims, if there are any: see `core/dim_names.py`."""
        return with_dims(self.what, self.code, self.fn, code, args, kwargs)

    def error(
        self,
        args: Args,
        kwargs: Kwargs,
        failed: Exception | None = None,
        takes: Callable[[Any, Any], bool] = fits,
    ) -> TypeError | DimError | None:
        """The error for too few, too many, unknown or mistyped arguments; None if they are not to blame."""
        args = args[self.bound :]
        misfit = explain_call(self.what, self.code, self.signature, args, kwargs)
        return misfit or explain_types(
            self.what, self.code, self.signature, hints_of(self.fn), args, kwargs, error=failed, takes=takes
        )

    def misfit(self, frame: FrameType, args: Args, kwargs: Kwargs) -> Exception | None:
        """The error for an argument that would be stored or ignored although its parameter does not accept its type; None if there is
        none.

        Args:
            frame: Frame of the called function.
        """
        if called_inside(frame, self.fn) or self._takes(args, kwargs):
            return None
        named = self.with_dims(frame.f_code, args, kwargs)
        if named is not None and self._takes(*named):
            return NoPlanError()  # caught by who calls it again, with the Dims
        array = self._array(args, kwargs)
        if array is not None:
            return not_a_tensor(self.what, array) if self.keeps_operands else None
        return self.error(args, kwargs, takes=is_taken)

    def _takes(self, args: Args, kwargs: Kwargs) -> bool:
        hints = hints_of(self.fn)
        for name, value in (*zip(self.names, args), *kwargs.items()):
            if (
                not self.has_own_words(name)
                and not is_taken(value, hints.get(name, Any))
                and not self._is_default(name, value)
            ):
                return False
        return True

    def _array(self, args: Args, kwargs: Kwargs) -> Any:
        """A raw array given for a Tensor; None if there is none. Functions report this themselves, except those that store it."""
        hints = hints_of(self.fn)
        for name, value in (*zip(self.names, args), *kwargs.items()):
            hint = hints.get(name, Any)
            wanted = Tensor in alternatives(hint) if self.keeps_operands else next(alternatives(hint)) is Tensor
            if wanted and is_array(value) and not is_taken(value, hint):
                return value
        return None

    @property
    def keeps_operands(self) -> bool:
        """True if the function stores its arguments or passes them on, so that nothing checks them before use."""
        return not _KEEP_OPERANDS.isdisjoint((self.fn.__name__, self.what))

    def has_own_words(self, name: str) -> bool:
        """True if the function refuses a wrong argument itself."""
        if name == "device" and self.what.startswith(
            ("Dim.", "masked_fraction_of_shape", "num_elements_of_shape")
        ):  # nothing is made there
            return False
        return f"{self.what}.{name}" in _OWN_WORDS or (name in _OWN_WORDS and not self.keeps_operands)

    def _is_default(self, name: str, value: Any) -> bool:
        parameter = self.signature.parameters.get(name)
        return isinstance(value, (MissingArgument, MissingDim)) or parameter is None or value is parameter.default


def open_door(fn: FunctionType, what: str, code: str, bound: bool = False) -> None:
    """Make a rarely called function explain what is wrong with its arguments."""
    plain = FunctionType(fn.__code__, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    plain.__kwdefaults__, plain.__qualname__, plain.__module__ = fn.__kwdefaults__, fn.__qualname__, fn.__module__
    keep_signature(fn)
    door = Door(what, code, fn, bound, hasattr(fn, "__wrapped__") or bool(fn.__code__.co_flags & _LAZY))
    for name in _refused(door):  # by Python itself
        plain.__code__ = plain.__code__.replace(co_flags=plain.__code__.co_flags & ~_REFUSED[name])
    if can_watch() and not door.looks_first:
        plain.__code__ = _checked(fn, door, all_of_it=True)
    fn.__code__ = code_through(fn.__code__, plain, _through, door)
    DOORS.add(fn.__code__)


def watch_body(fn: FunctionType, what: str, code: str, bound: bool = False) -> None:
    """The same for a frequently called function, where an extra call counts: its code gets a handler for failures inside.

    On a Python with other bytecode, functions stay as they are, except that they refuse others' keywords.
    """
    door = Door(what, code, fn, bound, False)
    if not can_watch():
        if _refused(door):
            open_door(fn, what, code, bound)
        return
    if bound and fn.__name__ not in _KEEP:
        _let_be_missing(fn)
    fn.__code__ = with_handler(_checked(fn, door), _Failed(door))
    if not bound:
        FUNCTIONS[fn.__code__] = fn, what, code


# These keep their operands, or give them to others.
_KEEP_OPERANDS = set(
    "CausalSelfAttentionState Loss LstmState RunCtx.mark_as_loss"
    " assert_ copy_from dim_match_priority_when_needed draw dropout gather_nested init_train_step_run_ctx is_parametrized"
    " mask_nested opt_logical_and opt_logical_or random_mask scaled_gradient_ext set_sparse_dim".split()
)
# Refused by the functions, in words of their own.
_OWN_WORDS = set(
    "axis beam_size budget device hypotheses poll references steps timeout choice.prefix record.limit run.fn Loss.loss Parameter.initial"
    " Trace.select.step View.budget beam_search.fusion compile_loops.how concat.unknown explore.fn mean_over_processes.loss".split()
)
_OPEN = "Any", "object"
_OPERANDS = "Tensor", "Dim", "Sequence[Dim]", "Sequence[Tensor]"  # an annotation of one begins so


_REFUSED = {"extra": inspect.CO_VARARGS, "unknown": inspect.CO_VARKEYWORDS}  # of the type Never


def _refused(door: Door) -> list[str]:
    """The names of `*extra` and `**unknown`, as far as a function has them and leaves it to its door to check that they are empty. A
    wrapper has the annotations of the wrapped function, and not its arguments.
    """
    if hasattr(door.fn, "__wrapped__"):
        return []
    return [each for each in _REFUSED if door.fn.__annotations__.get(each) == "Never" and not door.has_own_words(each)]


def _checked(fn: FunctionType, door: Door, all_of_it: bool = False) -> CodeType:
    """The code of a function that first checks its options, and the flags, numbers and strings that it requires: a value of another
    type would be stored, or count as true. A wrong Tensor or Dim fails soon enough, and is checked only with `all_of_it`.
    """
    code, keeps = fn.__code__, door.keeps_operands
    tests: list[tuple[str, Any, str]] = [(name, NO_DEFAULT, "") for name in ([] if all_of_it else _refused(door))]
    names = code.co_varnames[door.bound : code.co_argcount + code.co_kwonlyargcount]
    by_position = fn.__defaults__ or ()
    last = code.co_varnames[code.co_argcount - len(by_position) : code.co_argcount]
    defaults = {**dict(zip(last, by_position)), **(fn.__kwdefaults__ or {})}
    for name in names:
        text, default = fn.__annotations__.get(name, "Any"), defaults.get(name, NO_DEFAULT)
        if isinstance(default, (MissingArgument, MissingDim)):
            default = NO_DEFAULT
        if fn.__name__ == "probe":  # one look where nobody listens
            break
        if text in _OPEN or not isinstance(text, str) or door.has_own_words(name):
            continue
        found, is_all = quick_types(text)
        if not is_all:
            found = tuple(dict.fromkeys((*found, *named_types(text, fn.__globals__))))
        if default is NO_DEFAULT and not keeps and not (is_all and (all_of_it or not text.startswith(_OPERANDS))):
            continue
        whole = not (all_of_it or keeps)  # else of lists what is in them
        types = [each for each in found if whole or each not in (list, tuple)]
        known = "_types_" + "_".join(each.__name__ for each in types)
        fn.__globals__[known] = tuple(types)
        is_constant = default is None or isinstance(default, (bool, int, float, str))
        tests.append((name, default if is_constant else NO_DEFAULT, known))
    fn.__globals__["_check_of_door"] = _check_given
    return with_checks(code, tests, "_check_of_door", door) if tests else code


def _check_given() -> None:
    """Refuse arguments of the current call that would be stored or ignored, or are unknown."""
    frame = sys._getframe(1)
    door = next(each for each in reversed(frame.f_code.co_consts) if isinstance(each, Door))
    if any(frame.f_locals[name] for name in _refused(door)):
        raise explain_frame(frame)
    error = door.misfit(frame, *arguments_of(frame))
    if error is not None:
        raise error


def _let_be_missing(fn: FunctionType) -> None:
    """Give required parameters a default that raises on any use: a call without the argument then enters the method, where the handler
    sees it. A good call costs the same.
    """
    keep_signature(fn)
    code = fn.__code__
    before = fn.__defaults__ or ()
    positional = code.co_varnames[1 : code.co_argcount]  # without `self`
    fn.__defaults__ = (*map(MissingArgument, positional[: len(positional) - len(before)]), *before) or None
    given = fn.__kwdefaults__ or {}
    needed = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    fn.__kwdefaults__ = {**{name: MissingArgument(name) for name in needed if name not in given}, **given} or None


def _through(plain: FunctionType, door: Door, args: Args, kwargs: Kwargs) -> Any:
    frame = sys._getframe(1)
    try:
        if door.looks_first and not (frame.f_back and frame.f_back.f_code.co_filename.startswith(_PACKAGE)):
            misfit = door.misfit(frame, args, kwargs)
            if misfit is not None:
                raise misfit
        return plain(*args, **kwargs)
    except Exception as error:
        if called_inside(sys._getframe(1)):
            raise
        named = door.with_dims(plain.__code__, args, kwargs)
        if named is not None:
            return again(plain, plain.__code__, named, error, functools.partial(_explain, door))
        _explain(door, args, kwargs, error)
        raise


def called_with(fn: FunctionType, what: str, code: str, args: Args, kwargs: Kwargs) -> Any:
    """The result of a function that receives a user's arguments through `*args` and `**kwargs`, with errors as behind a door."""
    try:
        return fn(*args, **kwargs)
    except Exception as error:
        _explain(Door(what, code, fn, False, False), args, kwargs, error)
        raise


def _explain(door: Door, args: Args, kwargs: Kwargs, error: Exception) -> None:
    """Raise the error about the arguments, if they caused the caught one."""
    inside = failed_inside(error)
    explained = None if inside and not is_raw(error, inside) else door.error(args, kwargs, error)
    if explained is not None:
        raise explained from (error if inside else None)


DOORS.add(_through.__code__)


class _Failed:
    """Called by a function's handler while its error is handled. If it returns true, a second call returns the result of the function."""

    def __init__(self, door: Door):
        self.door = door

    def __call__(self) -> Any:
        error = sys.exc_info()[1]
        traceback = None if error is None else error.__traceback__
        if traceback is None or not isinstance(error, Exception):
            return False
        code, named = traceback.tb_frame.f_code, error.__dict__.pop("named", None)
        if named is not None:
            return again(self.door.fn, code, named, error, functools.partial(_explain, self.door))
        args, kwargs = arguments_of(traceback.tb_frame)
        if called_inside(traceback.tb_frame, self.door.fn):
            return False
        named = self.door.with_dims(code, args, kwargs)
        if named is not None:
            error.__dict__["named"] = named
            return True
        raw, lacks = (
            is_raw(error, traceback),
            any(type(value) is MissingArgument for value in (*args, *kwargs.values())),
        )
        explained = self.door.error(args, kwargs, error) if raw or lacks else None
        if explained is not None:
            raise explained from (error if raw else None)
        return False


def called_inside(frame: FrameType, fn: FunctionType | None = None) -> bool:
    """True if this package made the call of a frame; then its own function is responsible. A call of the op `fn` may have come through
    an interceptor.
    """
    caller = frame.f_back
    while caller is not None and caller.f_code in DOORS:
        caller = caller.f_back
    if caller is None or not in_package(caller.f_code):
        return False
    while fn is not None and caller is not None and in_package(caller.f_code):
        if caller.f_code is _answer.__code__ and caller.f_locals["op"].fn is fn and caller.f_back is not None:
            return called_inside(caller.f_back, fn)
        caller = caller.f_back
    return True


def is_raw(error: Exception, traceback: TracebackType | None) -> bool:
    """True if neither a `raise` of this package nor user code on the way made the error."""
    if isinstance(error, MissingError):
        return True
    if parts_of(error) is not None or isinstance(error, (NoPlanError, Warning, StopIteration)):
        return False
    last = None
    while traceback is not None:
        frame, last = traceback.tb_frame, traceback
        if not in_package(frame.f_code) and not _is_library(frame):
            return False
        traceback = traceback.tb_next
    if last is None or not in_package(last.tb_frame.f_code):
        return True
    code = last.tb_frame.f_code.co_code
    return dis.opname[code[last.tb_lasti]] != "RAISE_VARARGS"


def _is_library(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__") or ""
    return name.partition(".")[0] in _LIBRARIES and name != "__main__"
