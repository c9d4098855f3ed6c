"""ValueSnapshot: a value that an event needs later, with a check that it is unchanged."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import torch

from rfnb.core.errors import message, runtime_error
from rfnb.core.place import warn_user

attached: ContextVar[bool] = ContextVar("rfnb_seen_attached", default=False)
"""Whether recorded tensors stay in the autograd graph: an event then has the model's own tensor instead of a detached one."""


def refuse_without_graph() -> None:
    """Raise an error if autograd does not build a graph that could keep values."""
    if not torch.is_grad_enabled():
        where = "torch.inference_mode()" if torch.is_inference_mode_enabled() else "torch.no_grad()"
        raise runtime_error(
            "record: graph=True, but autograd keeps no graph here.",
            {"inside of": where},
            "Recorded values stay in the graph of the call, which needs gradients:",
            f"with rf.record(model=model, graph=True) as trace: model(x)    # without {where}",
        )


def held(raw: torch.Tensor) -> torch.Tensor:
    """A tensor as stored by a recording, without a copy."""
    return raw if attached.get() else raw.detach()


def copied(raw: torch.Tensor) -> torch.Tensor:
    """A copy of a tensor that may be changed in place."""
    return raw if attached.get() else raw.detach().clone()


class ValueSnapshot:
    """A raw tensor of a call, to be read later in its state at that time; copied only if changes could not be detected.

    Args:
        raw: Stored as in `held`.
        what: Its name in the sentence of `read`.
        copy: Whether it will be changed in place. Default: if it is from inference mode, where torch does not count changes.
    """

    __slots__ = ("raw", "_what", "_version")

    def __init__(self, raw: torch.Tensor, what: str = "values", *, copy: bool | None = None):
        raw = held(raw)
        self.raw = raw.clone() if copy or (copy is None and raw.is_inference()) else raw
        self._what, self._version = what, version_of(self.raw)

    @property
    def is_same(self) -> bool:
        """Whether it has not been changed in place."""
        return version_of(self.raw) == self._version

    @property
    def num_bytes(self) -> int:
        """The bytes of the tensor."""
        return self.raw.nbytes

    def read(self) -> torch.Tensor:
        """The tensor.

        Raises:
            RuntimeError: If it was changed in place.
        """
        if not self.is_same:
            raise runtime_error(
                f"attention: the {self._what} of this call have changed.",
                {self._what: f"{tuple(self.raw.shape)}, changed in place after the call"},
                "Weights are computed from queries and keys on first access. Access them before the model changes them:",
                "trace.attention[path]    # inside of `with rf.record(...)`, after the call",
            )
        return self.raw


def version_of(raw: torch.Tensor) -> int:
    """The number of in-place changes of a tensor; 0 in inference mode, where they are not counted."""
    return 0 if raw.is_inference() else raw._version


def say_changed(what: str, path: str, gone: str, kept: Any) -> None:
    """Warn that values cannot be computed any more."""
    warn_user(
        message(
            f"record: {what} were changed in place before they were read for the {gone}.",
            {"module": path or "the model", "there is": kept},
            "They are computed from the inputs of the module on first access. Access them before, or leave the inputs unchanged:",
            "trace.states[path]    # before optimizer.step()",
        )
    )
