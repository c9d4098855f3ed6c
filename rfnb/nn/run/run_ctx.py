"""The run context: one step of training or inference, and the losses and outputs that the model marks in it.

    with rf.init_train_step_run_ctx(step=step, epoch=epoch) as ctx:
        loss = rf.cross_entropy(estimated=model(x), target=y, axis=classes, estimated_type="logits")
        loss.mark_as_loss("ce", use_normalized_loss=True)
        ctx.total_loss().raw_tensor.backward()

Without `with`, a context stays current until the next one is made. Initially there is a context of stage "init": its
train flag is False, and nothing can be marked in it. The current context and the train flags are `contextvars`: a new
thread starts without a step, unless it is started with a copy of another thread's context.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from numbers import Real
from types import MappingProxyType
from typing import Any, Never, cast

from rfnb.core.block import Exit, Setting, block, block_of
from rfnb.core.dim import Dim
from rfnb.core.errors import message, runtime_error, type_error, value_error
from rfnb.core.op import op
from rfnb.core.place import warn_user
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_dict import TensorDict
from rfnb.nn.run.marked_loss import Loss
from rfnb.nn.run.marked_output import check_lengths, declare_lengths, in_order, like_expected, of_raw
from rfnb.ops.const import convert_to_tensor, full
from rfnb.rec.modes import keep_mode


class RunCtx:
    """One step: its stage, train flag, step and epoch, and the losses and outputs marked in it.

    Args:
        stage: "init", "train_step" or "forward_step".
        train_flag: Whether dropout is active and running statistics are updated.
        step: Counts the steps from 0.
        epoch: Counts the epochs from 1.
        expected_outputs: Templates of the outputs that must be marked. The one dim of a template without size, apart
            from a batch dim, has lengths over the batch dim.

    Attributes:
        losses: name -> Loss, in the order in which they were marked.
        outputs: The marked outputs.
    """

    def __init__(
        self,
        *,
        stage: str,
        train_flag: bool | Tensor = False,
        step: int | Tensor = 0,
        epoch: int | Tensor = 1,
        expected_outputs: TensorDict | None = None,
    ):
        self._stage, self._train_flag = stage, cast(bool, train_flag)
        self._step, self._epoch = cast(int, step), cast(int, epoch)
        self.expected_outputs = expected_outputs
        for template in expected_outputs.data.values() if expected_outputs is not None else ():
            declare_lengths(template)
        self.losses: dict[str, Loss] = {}
        self.outputs = TensorDict()

    @property
    def stage(self) -> str:
        """ "init", "train_step" or "forward_step"."""
        return self._stage

    @property
    def train_flag(self) -> bool:
        """Whether this is training; a function may have its own flag, see `is_train_flag_enabled`."""
        return self._flags()[0]

    @property
    def step(self) -> int:
        """The number of the step, as passed when the context was made."""
        return self._step

    @property
    def epoch(self) -> int:
        """The number of the epoch, as passed when the context was made."""
        return self._epoch

    def get_step_tensor(self) -> Tensor:
        """The step as a scalar int64 Tensor on the default device."""
        return full(dims=(), fill_value=self._step, dtype="int64")

    def get_epoch_tensor(self) -> Tensor:
        """The epoch as a scalar int64 Tensor on the default device."""
        return full(dims=(), fill_value=self._epoch, dtype="int64")

    # -- training or not -----------------------------------------------------------------------------------------------
    @block
    def train_flag_ctx(
        self, train_flag: bool | Tensor, *, func: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None
    ) -> Iterator[None]:
        """Set another train flag for a with-block.

        Args:
            func: Set it only for this function or module class, e.g. `rf.dropout` or `rf.BatchNorm`, or for a sequence of these.
        """
        flag, of_functions = self._flags()
        if func is None:
            flag = train_flag
        else:
            functions = func if isinstance(func, Sequence) else (func,)
            of_functions = {**of_functions, **dict.fromkeys(map(_function, functions), train_flag)}
        with self._flags_ctx((flag, of_functions)):
            yield

    def _flags(self) -> _Flags:
        """The train flag, and the flags of functions, in this context."""
        return _flags.get().get(self) or (self._train_flag, {})

    def _flags_ctx(self, flags: _Flags) -> Setting:
        return Setting(_flags, lambda: _flags.set({**_flags.get(), self: flags}))

    def is_train_flag_enabled(self, *, func: Callable[..., Any] | None = None) -> bool:
        """The train flag for a function or module class: its own, else that of the run."""
        if not _flags.get():  # the usual case, which every dropout checks
            return self._train_flag
        flag, of_functions = self._flags()
        return cast(bool, flag if not of_functions or func is None else of_functions.get(_function(func), flag))

    # -- losses --------------------------------------------------------------------------------------------------------
    @op(changes_state=True)
    def mark_as_loss(
        self,
        loss: Any,
        name: str,
        *,
        dims: Sequence[Dim] | None = None,
        scale: float = 1.0,
        as_error: bool = False,
        use_normalized_loss: bool = False,
        use_flatten_frames: bool = True,
        custom_inv_norm_factor: Tensor | float | None = None,
    ) -> None:
        """Add an unreduced loss to the losses of the step. The options are those of `Loss`.

        Args:
            loss: {...}, or a raw array with the axes `dims`; without `dims` all of its entries count, including padding.

        Raises:
            RuntimeError: If there is no step.
            ValueError: If there is a loss of this name already.
        """
        self._check_step(f'mark_as_loss "{name}"')
        if name in self.losses:
            raise _twice("mark_as_loss", name, self.losses[name].loss, loss)
        if isinstance(loss, Real) and not as_error:
            raise type_error(
                f'mark_as_loss "{name}": the loss is a number.',
                {"loss": repr(loss)},
                "A loss is computed from parameters, and has a gradient; .item() and float() cut it off. A number is only shown:",
                f'rf.get_run_ctx().mark_as_loss({loss!r}, "{name}", as_error=True)',
            )
        if not isinstance(loss, Tensor):
            loss = convert_to_tensor(loss, dims=dims, name=name)
        self.losses[name] = Loss(
            loss,
            name,
            dims=dims,
            scale=scale,
            as_error=as_error,
            use_normalized_loss=use_normalized_loss,
            use_flatten_frames=use_flatten_frames,
            custom_inv_norm_factor=custom_inv_norm_factor,
        )

    def total_loss(self) -> Tensor | float:
        """The value that training minimises: the sum over all losses (not errors) of scale times sum, or scale times mean
        with `use_normalized_loss`. A scalar; the float 0.0, with a warning, if no loss was marked.
        """
        losses = [loss.get_scaled_reduced_loss() for loss in self.losses.values() if not loss.as_error]
        if not losses:
            errors = ", ".join(loss.name for loss in self.losses.values()) or "none"
            warn_user(
                message(
                    "total_loss: no loss was marked, so it is 0.",
                    {"stage": self._stage, "step": self._step, "errors": errors},
                    "A training minimises the sum of the losses of its step; with 0 it learns nothing. The model marks them:",
                    'loss.mark_as_loss("ce")',
                )
            )
            return 0.0
        total = losses[0]
        for loss in losses[1:]:
            total = total + loss
        return total

    # -- outputs -------------------------------------------------------------------------------------------------------
    @op(changes_state=True)
    def mark_as_output(self, tensor: Any, name: str, *, dims: Sequence[Dim] | None = None) -> None:
        """Add an output to the outputs of the step.

        Args:
            tensor: {dims}; or a raw array or number, whose axes are `dims`, else those of the expected output. Missing
                lengths of these dims may be set before or after: `expected_outputs["x"].dims[1].dyn_size_ext.raw_tensor =
                lengths`.
            dims: The order of the dims in the output. Default: that of the expected output; else batch, ragged, feature.

        Raises:
            RuntimeError: If there is no step.
            ValueError: If there is an output of this name already, or it is not expected.
            DimError: If the dims do not fit, or their order is ambiguous.
        """
        self._check_step(f'mark_as_output "{name}"')
        if name in self.outputs:
            raise _twice("mark_as_output", name, self.outputs[name], tensor)
        if not isinstance(tensor, Tensor):
            templates = {} if self.expected_outputs is None else self.expected_outputs.data
            tensor = of_raw(name, tensor, dims, templates.get(name))
        if self.expected_outputs is None:
            tensor = in_order(name, tensor, dims)
        elif name in self.expected_outputs:
            tensor = like_expected(name, tensor, self.expected_outputs[name], dims)
        else:
            raise value_error(
                f'mark_as_output "{name}": not expected.',
                {"expected": ", ".join(self.expected_outputs)},
                "The outputs are those that the context was made with:",
                "rf.init_forward_step_run_ctx(expected_outputs=...)",
            )
        self.outputs.update({name: tensor})

    def mark_as_default_output(self, tensor: Tensor, *, shape: Sequence[Dim] | None = None) -> None:
        """`mark_as_output` with the name "output"."""
        self.mark_as_output(tensor, "output", dims=shape)

    def check_outputs_complete(self) -> None:
        """Check that all expected outputs were marked, and that outputs from raw arrays have the lengths that they need.

        Raises:
            ValueError: If some were not marked.
            DimError, ShapeError: If lengths are missing, or do not fit.
        """
        missing = [name for name in self.expected_outputs or () if name not in self.outputs]
        if missing:
            raise value_error(
                "check_outputs_complete: some expected outputs were not marked.",
                {"missing": ", ".join(missing), "marked": ", ".join(self.outputs) or "none"},
                "The model marks every expected output:",
                f'x.mark_as_output("{missing[0]}", dims=[...])',
            )
        for output in self.outputs.data.values():
            check_lengths(output)

    # -- the current one -----------------------------------------------------------------------------------------------
    def __enter__(self) -> RunCtx:
        block, made = block_of(self), _made.get()
        before = made[1] if made is not None and made[0] is self else _current.get()
        _entered.set((*_entered.get(), (self, before, block)))
        _made.set(None)
        _current.set(self)
        return self

    def _leave(self, *exc_info: object) -> None:
        blocks = _entered.get()
        self._left(next((place for place in range(len(blocks) - 1, -1, -1) if blocks[place][0] is self), None))

    def _over(self, block: Any) -> None:
        blocks = _entered.get()
        self._left(next((place for place in range(len(blocks)) if blocks[place][2] is block), None))

    def _left(self, own: int | None) -> None:
        if own is not None:  # otherwise another thread entered it
            blocks = _entered.get()
            _current.set(blocks[own][1])
            _entered.set(blocks[:own])

    __exit__: Any = Exit(_leave, _over)

    def _check_step(self, what: str) -> None:
        if self._stage == "init":
            raise runtime_error(
                f"{what}: no step is running.",
                {"stage": self._stage},
                "The run context of a step collects the marked values. Begin one before the model runs:",
                "with rf.init_train_step_run_ctx() as ctx:      # or init_forward_step_run_ctx",
            )
        _made.set(None)  # it will not be entered again; the previous step would keep its tensors alive

    def __repr__(self) -> str:
        return f"RunCtx(stage={self._stage!r}, train_flag={self._train_flag}, step={self._step}, epoch={self._epoch})"


_Flags = tuple[Any, dict[Any, Any]]  # of all code, of functions; bools, or Tensors without dims
_INIT = RunCtx(stage="init")
_Blocks = tuple[tuple[RunCtx, RunCtx, Any], ...]
_current: ContextVar[RunCtx] = ContextVar("rfnb_run_ctx", default=_INIT)
# The current context, and the previous one.
_made: ContextVar[tuple[RunCtx, RunCtx] | None] = ContextVar("rfnb_made_run_ctx", default=None)
_entered: ContextVar[_Blocks] = ContextVar("rfnb_entered_run_ctx", default=())
# Flags that differ from that of the RunCtx. The tuple is replaced, never mutated.
_flags: ContextVar[Mapping[RunCtx, _Flags]] = ContextVar("rfnb_train_flags", default=MappingProxyType({}))


def init_train_step_run_ctx(
    *extra: Never, train_flag: bool | Tensor = True, step: int | Tensor = 0, epoch: int | Tensor = 1, **unknown: Never
) -> RunCtx:
    """The context of a training step, from now on or for a with-block; use `train_flag=False` for losses on other data.
    Numbers and flag may be Tensors {}.
    """
    return _make_current(RunCtx(stage="train_step", train_flag=train_flag, step=step, epoch=epoch))


def init_forward_step_run_ctx(
    *extra: Never, expected_outputs: TensorDict | None = None, step: int = 0, epoch: int = 1, **unknown: Never
) -> RunCtx:
    """The context of an inference step, from now on or for a with-block.

    Args:
        expected_outputs: Templates of the outputs that must be marked.
    """
    return _make_current(RunCtx(stage="forward_step", step=step, epoch=epoch, expected_outputs=expected_outputs))


def get_run_ctx(*extra: Never, **unknown: Never) -> RunCtx:
    """The current run context; initially one of stage "init" with train flag False."""
    return _current.get()


def get_run_ctx_step(*extra: Never, **unknown: Never) -> Tensor:
    """The step of the current run context, a scalar int64 Tensor."""
    return _current.get().get_step_tensor()


def _make_current(ctx: RunCtx) -> RunCtx:
    _made.set((ctx, _current.get()))
    _current.set(ctx)
    return ctx


@block
def _step_again(mode: tuple[RunCtx, Mapping[RunCtx, _Flags]]) -> Iterator[None]:
    """Restore a run context and its train flags."""
    with Setting(_current, partial(_current.set, mode[0])), Setting(_flags, partial(_flags.set, mode[1])):
        yield


keep_mode(lambda: (_current.get(), _flags.get()), _step_again)


def _function(func: Any) -> Any:
    """The key of a train flag: a class and its `__call__` share one, and so do a method and its function."""
    func = func.__call__ if isinstance(func, type) else func
    return getattr(func, "__func__", func)


def _twice(what: str, name: str, first: Tensor, second: Any) -> ValueError:
    return value_error(
        f'{what} "{name}": this name is taken.',
        {"first": repr(first), "second": repr(second)},
        "A name stands for one value of a step. For the next step, begin a new context:",
        "rf.init_train_step_run_ctx(step=...)",
    )


def mark_as_loss(self: Tensor, name: str, **options: Any) -> None:
    """Add an unreduced loss to the losses of the step; see `RunCtx.mark_as_loss`."""
    get_run_ctx().mark_as_loss(self, name, **options)


def mark_as_output(
    self: Tensor, name: str, *, shape: Sequence[Dim] | None = None, dims: Sequence[Dim] | None = None
) -> None:
    """Add an output to the outputs of the step; see `RunCtx.mark_as_output`. `shape` is the documented name of `dims`."""
    get_run_ctx().mark_as_output(self, name, dims=shape if dims is None else dims)


def mark_as_default_output(self: Tensor, *, shape: Sequence[Dim] | None = None) -> None:
    """Mark the output named "output"; see `RunCtx.mark_as_output`."""
    get_run_ctx().mark_as_default_output(self, shape=shape)


def bind() -> None:
    """Bind `mark_as_loss` and the other functions here as methods of Tensor."""
    for method in (mark_as_loss, mark_as_output, mark_as_default_output):
        setattr(Tensor, method.__name__, method)


bind()
