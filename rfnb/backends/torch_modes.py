"""The modes of torch: the current settings of a thread, and mixed precision: products in a 16-bit dtype, long sums in float32.

torch's own autocast handles products. Ops that it leaves in 16 bits on a CPU (softmax, norms, sums) also run in float32, so that a
program has the same dtypes on every device.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch._C import _len_torch_function_stack
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torch.utils._python_dispatch import _push_mode as _push_dispatch_mode

from rfnb.backends.torch_devices import accelerator, is_in_use


class OwnMode(TorchFunctionMode):
    """A mode that can be left at any position of the stack, and only once: an interrupt may strike before another one is left."""

    def __init__(self) -> None:
        super().__init__()
        self._above: list[Any] = []

    def __exit__(self, *error: Any) -> None:
        stack = _get_current_function_mode_stack()
        if stack and stack[-1] is self and not self._above:  # the usual case
            _pop_mode()
            return
        while any(mode is self for mode in _get_current_function_mode_stack()):
            self._above.append(_pop_mode())
        while self._above:
            mode = self._above[-1]
            if mode is not self:
                _push_mode(mode)
            self._above.pop()


def modes() -> list[Any]:
    """The modes of this thread, outermost first."""
    return _get_current_function_mode_stack() if _len_torch_function_stack() else []


def autocast_kinds() -> tuple[str, ...]:
    """The kinds of devices whose autocast may be on: the CPU, and the accelerator that this torch was built for, available or not."""
    beside = accelerator()
    return ("cpu",) if beside is None else ("cpu", beside)


_kept = threading.local()  # `inference`: the mode lasts as long as this is there: until the thread ends


def current_modes() -> Callable[[], None]:
    """See `Backend.current_modes`."""
    gradients, stack = torch.is_grad_enabled(), modes()
    inference, below = torch.is_inference_mode_enabled(), _get_current_dispatch_mode_stack()
    autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in autocast_kinds()]

    kind = accelerator()
    # The device that "cuda" means, and what it does one after the other, are those of a thread.
    stream = torch.accelerator.current_stream() if kind is not None and is_in_use(kind) else None

    def again() -> None:
        if stream is not None and torch.accelerator.current_stream() != stream:
            torch.accelerator.set_stream(stream)
        if inference and not torch.is_inference_mode_enabled():  # another thread
            _kept.inference = torch._C._InferenceMode(True)
        if below and not _get_current_dispatch_mode_stack():
            for mode in below:
                _push_dispatch_mode(mode)
        torch._C._set_grad_enabled(gradients)
        for kind, enabled, dtype in autocast:
            torch.set_autocast_enabled(kind, enabled)
            torch.set_autocast_dtype(kind, dtype)
        if list(map(id, modes())) != list(map(id, stack)):
            while modes():
                _pop_mode()
            for mode in stack:
                _push_mode(mode)

    return again


def settings() -> dict[str, str]:
    """See `Backend.settings`."""
    return {
        "default dtype of torch": str(torch.get_default_dtype()).removeprefix("torch."),
        "number of threads of torch": str(torch.get_num_threads()),
        "deterministic algorithms of torch": str(torch.are_deterministic_algorithms_enabled()),
        "float32 precision of torch": float32_precision(),
    }


def float32_precision() -> str:
    """The precision of float32 products; by library if set that way (`fp32_precision`), for which torch has no single word."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        parts = torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.mkldnn.matmul  # type: ignore[attr-defined]
        return " ".join(part.fp32_precision for part in parts)


_HALF = (torch.bfloat16, torch.float16)
_NAMES = "softmax log_softmax logsumexp logaddexp sum mean cumsum rsqrt exp log layer_norm rms_norm ctc_loss"
_IN_FLOAT32 = {*(getattr(torch, name) for name in _NAMES.split()), F.layer_norm, F.cross_entropy, F.ctc_loss}
_OF_STATES = (torch.lstm, torch.lstm_cell)


@contextlib.contextmanager
def autocast(dtype: Any) -> Iterator[None]:
    """See `Backend.autocast_raw`."""
    with contextlib.ExitStack() as scopes:
        for device in _devices():
            # Without a cache of cast weights: it would go on holding old ones while an optimizer changes them.
            scopes.enter_context(torch.autocast(device, dtype, cache_enabled=False))
        scopes.enter_context(InFloat32())
        yield


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """See `Backend.full_precision`."""
    with contextlib.ExitStack() as scopes:
        for device in _devices():
            if torch.is_autocast_enabled(device):
                scopes.enter_context(torch.autocast(device, enabled=False))
        yield


def _devices() -> tuple[str, ...]:
    """The available kinds of devices whose autocast may be on."""
    return autocast_kinds() if torch.accelerator.is_available() else ("cpu",)


class InFloat32(TorchFunctionMode):
    """Passes arrays to the functions of `_IN_FLOAT32` in float32."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if func in _IN_FLOAT32:
            args = [_float32(x) for x in args]
            kwargs = {key: _float32(x) for key, x in kwargs.items()}
        out = func(*args, **kwargs)
        # A kernel for a whole sequence gives 16 bits, and so does one for a step on a GPU; a state keeps its dtype.
        return tuple(map(_float32, out)) if func in _OF_STATES else out


def _float32(x: Any) -> Any:
    return x.float() if isinstance(x, torch.Tensor) and x.dtype in _HALF else x
