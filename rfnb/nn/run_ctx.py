"""The run context: whether this is training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class RunCtx:
    """Stage ("init", "train_step", "forward_step"), train flag, step and epoch of the run."""

    def __init__(self, *, stage: str, train_flag: bool = False, step: int = 0, epoch: int = 1):
        self.stage, self.train_flag, self.step, self.epoch = stage, train_flag, step, epoch

    @contextmanager
    def train_flag_ctx(self, train_flag: bool) -> Iterator[None]:
        """Another train flag for a with-block."""
        before, self.train_flag = self.train_flag, train_flag
        try:
            yield
        finally:
            self.train_flag = before

    def is_train_flag_enabled(self) -> bool:
        return self.train_flag


_current = RunCtx(stage="init")


def init_train_step_run_ctx(*, train_flag: bool = True, step: int = 0, epoch: int = 1) -> RunCtx:
    """From now on: training."""
    return _set(RunCtx(stage="train_step", train_flag=train_flag, step=step, epoch=epoch))


def init_forward_step_run_ctx(*, step: int = 0, epoch: int = 1) -> RunCtx:
    """From now on: inference."""
    return _set(RunCtx(stage="forward_step", step=step, epoch=epoch))


def get_run_ctx() -> RunCtx:
    """The current run context; before any was made, one of stage "init" with train flag False."""
    return _current


def _set(ctx: RunCtx) -> RunCtx:
    global _current
    _current = ctx
    return ctx
