"""Error messages for unknown or missing arguments: they list the valid ones and a correct call.

A layer checks this after its call has failed, which costs a good call nothing. A function has `**unknown: Never` where people use
keywords of torch (`dim=`, `keepdim=`), since Python rejects an unknown keyword before any code of ours runs. This costs a call about 20
ns, and is hidden from its signature (`places/public_doors.py`).
"""

from __future__ import annotations

import difflib
import inspect
import keyword
from collections.abc import Collection, Mapping, Sequence
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import type_error
from rfnb.core.place import user_frame
from rfnb.core.tensor_text import MissingDim, dims_text, labels_of

# Words of torch, of other toolkits and of the documentation for the same thing. Which one an op or layer takes is looked up.
_SAME = [
    group.split()
    for group in (
        "axis dim dims axes spatial_dim in_spatial_dim in_spatial_dims seq_dim time_dim reduce spatial_dims",
        "axis dim kv_axis spatial_dim encoder_spatial_dim",
        "dims size shape sizes",
        "out_dims split_size_or_sections split_size sections chunks sizes dims",
        "drop_prob p prob rate dropout att_dropout",
        "source input x inputs tensor self src",
        "target targets label labels y",
        "estimated input logits log_probs predictions pred",
        "logits log_probs log_prob input",
        "targets target labels",
        "labels tokens names",
        "input_spatial_dim input_lengths spatial_dim axis",
        "targets_spatial_dim target_lengths target_spatial_dim",
        "blank_index blank",
        "with_bias bias use_bias",
        "in_dim in_features in_channels input_size num_embeddings normalized_shape num_features d_model embed_dim vocab_size",
        "out_dim out_features out_channels hidden_size embedding_dim units hidden_dim",
        "encoder_dim kdim memory_dim",
        "model_dim d_model hidden_size embed_dim",
        "vocab_dim vocab vocab_size num_classes",
        "filter_size kernel_size",
        "strides stride",
        "dilation_rate dilation",
        "num_heads nhead n_heads n_head heads",
        "num_layers n_layers layers n_layer",
        "ff_dim dim_feedforward",
        "batch_dims batch_dim batch batch_size dims",
        "clip_value_min min minval low lower",
        "clip_value_max max maxval high upper",
        "minval low min",
        "maxval high max",
        "stddev std scale",
        "mean loc mu",
        "indices index ids idx",
        "start begin",
        "end stop",
        "amount shift shifts",
        "pad_value value fill_value",
        "beam_size num_beams beam beam_width k",
        "max_seq_len max_length max_len max_new_tokens max_steps",
        "end_label eos eos_token_id eos_id",
        "length_exponent length_penalty alpha",
        "state hx hidden initial_state",
    )
]
_ONE_DIM = set(_SAME[0]) | set(_SAME[1])
_GONE = {"keepdim", "keepdims", "keep_dims"}


# Public functions that are called often, by their code: the function, what messages call it, how a call is written.
FUNCTIONS: dict[CodeType, tuple[FunctionType, str, str]] = {}


class MissingError(TypeError):
    """The error for a missing argument, in a call that a function's door explains (`core/door.py`)."""


def failed_inside(error: Exception) -> TracebackType | None:
    """The place inside the called function where it failed; None if it was not entered, since the arguments did not match."""
    return error.__traceback__ and error.__traceback__.tb_next


class MissingArgument:
    """Stands for a required argument that was not given: any use of it raises an error that says so."""

    def __init__(self, name: str):
        self.name = name

    def error(self) -> TypeError:
        """The error for the function that user code called."""
        _, called = user_frame(1)
        if called is None or (called.f_code not in FUNCTIONS and called.f_code.co_name not in called.f_globals):
            return MissingError(f"{self.name} is missing.")
        return explain_frame(called)

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__"):
            raise AttributeError(attribute)
        raise self.error()

    def _touched(self, *args: Any) -> Any:
        raise self.error()

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __iter__ = __bool__ = __float__ = __index__ = _touched
    __hash__ = object.__hash__


def explain_frame(frame: FrameType) -> TypeError:
    """The error for a call of a public function, from its frame."""
    code = frame.f_code
    name = code.co_name
    fn, what, written = FUNCTIONS[code] if code in FUNCTIONS else (frame.f_globals[name], name, f"rf.{name}")
    signature = inspect.signature(fn)
    args, kwargs = arguments_of(frame)
    return explain_call(what, written, signature, args, kwargs) or TypeError(f"{what}: wrong arguments.")


def _is_left_out(value: Any, parameter: inspect.Parameter | None) -> bool:
    """True if an argument was omitted, or has its default."""
    return isinstance(value, (MissingDim, MissingArgument)) or (parameter is not None and value is parameter.default)


def arguments_of(frame: FrameType) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call in progress, as they currently are in its frame."""
    code, values = frame.f_code, frame.f_locals
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    given = {name: values[name] for name in names if name in values}
    positional = [given.pop(name) for name in code.co_varnames[: code.co_argcount] if name in given]
    at = code.co_argcount + code.co_kwonlyargcount
    if code.co_flags & inspect.CO_VARARGS:
        positional += values.get(code.co_varnames[at], ())
        at += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        given.update(values.get(code.co_varnames[at], {}))
    return tuple(positional), given


def explain_call(
    what: str,
    code: str,
    signature: inspect.Signature,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    first_state: str | None = None,
    but: Collection[Dim] = (),
) -> TypeError | None:
    """The error for arguments that do not match a signature (without `self`); None if they match.

    Args:
        what: Name of the called function in the message.
        code: The call as code.
        first_state: Code that makes the initial state, for a missing `state`.
        but: Dims that are no candidates, e.g. features.
    """
    call = WrongCall(signature, args, kwargs, but)
    if not (call.unknown or call.extra or call.missing):
        return None
    if call.unknown:
        listed = ", ".join(f'"{name}"' for name in call.unknown)
        first = f"{what}: there {'is no argument' if len(call.unknown) == 1 else 'are no arguments'} {listed}."
    elif call.extra:
        first = f"{what}: {len(args)} arguments by position, where it takes {len(call.by_position) or 'none'}."
    else:
        *before, last = call.missing
        first = f"{what}: {', '.join(before)}{' and ' if before else ''}{last} {'are' if before else 'is'} missing."
    takes = [name if call.has_default(name) is False else f"[{name}]" for name in call.names]
    rows = [(name, shown(value)) for name, value in call.given()]
    rows.append(
        ("takes", ", ".join(takes) + ("    ([...]: has a default)" if any("[" in each for each in takes) else ""))
    )
    lines = [f"{code}({', '.join(call.corrected())})"]
    if first_state is not None and "state" in call.missing and "state" not in call.placed:
        lines.insert(0, f"state = {first_state}")
    lines += call.comments
    return type_error(first, rows, call.rule(), "\n".join(lines))


class WrongCall:
    """The arguments of a wrong call, the problem, and the probable intention."""

    def __init__(
        self, signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any], but: Collection[Dim]
    ):
        self.but = but
        kinds, self.comments = inspect.Parameter, []  # type: tuple[Any, list[str]]
        self.parameters = {
            name: each
            for name, each in signature.parameters.items()
            if each.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
        }
        every = [each.kind for each in signature.parameters.values()]
        self.names = list(self.parameters)
        self.by_position = [name for name, each in self.parameters.items() if each.kind is not kinds.KEYWORD_ONLY]
        self.bound = dict(zip(self.by_position, args))
        self.extra = [] if kinds.VAR_POSITIONAL in every else list(args[len(self.by_position) :])
        self.unknown = (
            {} if kinds.VAR_KEYWORD in every else {n: v for n, v in kwargs.items() if n not in self.parameters}
        )
        self.bound.update((name, value) for name, value in kwargs.items() if name in self.parameters)
        self.bound = {
            name: value for name, value in self.bound.items() if not _is_left_out(value, self.parameters[name])
        }
        self.missing = [name for name in self.names if name not in self.bound and not self.has_default(name)]
        self.meant = {name: self._meant(name) for name in self.unknown}
        self.placed = self._placed()

    def has_default(self, name: str) -> bool:
        """True if a parameter may be omitted."""
        return self.parameters[name].default is not inspect.Parameter.empty

    def given(self) -> list[tuple[str, Any]]:
        """The arguments by their names in messages."""
        return [*self.bound.items(), *((f"argument {len(self.by_position) + i + 1}", v) for i, v in enumerate(self.extra)),
                *self.unknown.items()]  # fmt: skip

    def _free(self) -> list[str]:
        """Parameters without an argument, required ones first."""
        free = [name for name in self.names if name not in self.bound]
        return sorted(free, key=self.has_default)

    def _meant(self, word: str) -> str | None:
        """The parameter that an unknown keyword probably means."""
        free = self._free()
        for name in free:
            if any(word in group and name in group for group in _SAME):
                return name
        near = difflib.get_close_matches(word, free, n=1, cutoff=0.7)
        return near[0] if near else None

    def _placed(self) -> dict[str, Any]:
        """Surplus positional arguments, by the keywords they probably mean."""
        placed: dict[str, Any] = {}
        for value in self.extra:
            free = [name for name in self._free() if name not in placed]
            dims = [name for name in free if name in _ONE_DIM or name.endswith("_dim")]
            if isinstance(value, Dim):
                free = dims
            elif isinstance(value, dict):
                free = [name for name in free if name == "state"]
            elif isinstance(value, int) and dims and not self.has_default(dims[0]):
                free = dims
            if free:
                placed[free[0]] = value
        return placed

    def corrected(self, instead: Mapping[str, str] | None = None) -> list[str]:
        """The arguments as code; those in `instead` replace the given ones."""
        texts = instead or {}
        values = {
            **self.bound,
            **{meant: self.unknown[name] for name, meant in self.meant.items() if meant},
            **self.placed,
        }
        written: list[str] = []
        skipped = False  # what comes behind it is named
        for name in self.names:
            if name in texts:
                text = texts[name]
            elif name in values:
                text = self.code_of(name, values[name])
            elif not self.has_default(name):
                text = name if name == "state" else "..."
                self._name_candidates(name)
            else:
                skipped = True
                continue
            written.append(text if name in self.by_position and not skipped else f"{name}={text}")
        return written

    def operand(self) -> tuple[str, Any] | None:
        """The first Tensor argument, with its name."""
        return next(((name, value) for name, value in self.bound.items() if _is_tensor(value)), None)

    def code_of(self, name: str, value: Any, alone: bool = False) -> str:
        """A value as code; `alone`: without the brackets of a list."""
        operand = self.operand()
        if isinstance(value, Dim):
            text = value.name if value.name.isidentifier() and not keyword.iskeyword(value.name) else name
            return f"[{text}]" if name.endswith(("dims", "axes")) and not alone else text
        if isinstance(value, int) and not isinstance(value, bool) and operand is None and name.endswith("_dim"):
            return f'rf.Dim({value}, name="{name.removesuffix("_dim")}")'
        if (
            isinstance(value, int)
            and not isinstance(value, bool)
            and operand
            and (name in _ONE_DIM or name.endswith("_dim"))
        ):
            label, tensor = operand
            if -len(tensor.dims) <= value < len(tensor.dims):
                self.comments.append(f"# {label}.dims[{value}] is {labels_of(tensor.dims)[tensor.dims[value]]}")
                return f"{label}.dims[{value}]"
        if value is None or isinstance(value, (bool, int, float, str)):
            return repr(value)
        return name

    def _name_candidates(self, name: str) -> None:
        operand = self.operand()
        if operand is not None and name in _ONE_DIM:
            label, tensor = operand
            labels = labels_of(tensor.dims)
            self.comments += [
                f"{name}={label}.dims[{i}]    # {labels[dim]}"
                for i, dim in enumerate(tensor.dims)
                if dim not in self.but
            ]

    def rule(self) -> str:
        """The rule behind the suggested call."""
        if _GONE & set(self.unknown):
            return "A dim that is reduced is gone: operands are matched by their dims, so none has to stay for that."
        pairs = [(word, name) for word, name in self.meant.items() if name]
        if pairs:
            word, name = pairs[0]
            if (name in _ONE_DIM or name.endswith("_dim")) and not isinstance(self.unknown[word], Dim):
                return f'What is called "{word}" elsewhere is "{name}" here, and is a Dim:'
            return f'What is called "{word}" elsewhere is "{name}" here:'
        if self.unknown:
            return "Those that it takes are all there are. Without it:"
        if self.extra:
            return "What is worked on comes by position, all else by keyword:"
        return "What has no default has to be said:"


def _is_tensor(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "dims") and hasattr(value, "sparse_dim")


def shown(value: Any) -> str:
    """A value for a message: dims, a short text or its type, never the values of an array."""
    if _is_tensor(value):
        return dims_text(value.dims)
    if isinstance(value, Dim):
        return value.short_repr()
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(each, Dim) for each in value):
        return dims_text(value)
    shape = getattr(value, "shape", None)
    return type(value).__name__ + (f" {tuple(shape)}" if isinstance(shape, tuple) else "")
