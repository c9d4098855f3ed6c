"""Functions of arrays as CUDA graphs: the kernels of a call are recorded once, and a GPU starts them all by one call of the host.

A graph reads and writes fixed memory. So what a call is given is copied into arrays of the graph, and what it gives is copied out of
them; constants (weights) are read where they are as long as they are there, and copied too once they have been elsewhere.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from rfnb.backends.torch_autocast import InFloat32
from rfnb.backends.torch_modes import modes

Capture = Callable[[Callable[[], Any]], tuple[Callable[[], None], Any]]
_capturing = threading.Lock()
_MOST = 8  # graphs of a function: each keeps the memory of all that it computes


def capture_on_gpu(fn: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """The function that repeats the kernels of `fn`, and the arrays where their results are then."""
    side, current = torch.cuda.Stream(), torch.cuda.current_stream()
    side.wait_stream(current)
    with torch.cuda.stream(side):  # libraries ask for their memory in a first call, which cannot be captured
        for _ in range(2):
            fn()
    current.wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with _capturing, torch.cuda.graph(graph, stream=side, capture_error_mode="thread_local"):
        out = fn()
    return graph.replay, out


def may_be_captured(arrays: Sequence[Any]) -> bool:
    """Whether a call with these arrays is one that a graph may repeat."""
    if not arrays or arrays[0].device.type != "cuda" or torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        return False
    if arrays[0].device.index != torch.cuda.current_device() or torch.cuda.is_current_stream_capturing():
        return False
    if any(type(mode) is not InFloat32 for mode in modes()) or torch._C._len_torch_dispatch_stack() > 0:
        return False  # somebody wants to see each call
    if torch.is_autocast_enabled("cuda") and torch.is_autocast_cache_enabled():
        return False  # the graph would go on reading what the cache has let go
    # A number on the host would be a constant.
    return all(map(_is_plain, arrays)) and len({x.device for x in arrays}) == 1


class Captured:
    """A function and its graphs: one for each kind of arguments.

    Args:
        fn: Calls the library only, and changes no array.
        capture: As `capture_on_gpu`.
        may: As `may_be_captured`.
    """

    def __init__(self, fn: Callable[..., Any], *, capture: Capture = capture_on_gpu, may: Any = may_be_captured):
        self._fn, self._capture, self._may = fn, capture, may
        self._graphs: dict[Any, _Graph] = {}
        self._failed = False

    def __call__(self, *constants: Any) -> Callable[..., Any]:
        """The function with these first arguments, which stay the same in all its calls."""
        run = object()
        kinds = tuple(map(_kind, constants))

        def call(*inputs: Any) -> Any:
            arrays = [x for x in (*constants, *inputs) if isinstance(x, torch.Tensor)]
            if self._failed or not self._may(arrays):
                return self._fn(*constants, *inputs)
            key = kinds, tuple(map(_kind, inputs)), _circumstances(arrays[0])
            graph = self._graphs.get(key)
            if graph is None or graph.moved(constants):
                graph = self._new(key, graph, constants, inputs)
            return self._fn(*constants, *inputs) if graph is None else graph(run, constants, inputs)

        return call

    def _new(self, key: Any, old: _Graph | None, constants: Any, inputs: Any) -> _Graph | None:
        copied = set() if old is None else old.copied | old.moved(constants)
        self._graphs.pop(key, None)
        for oldest in list(self._graphs)[: max(0, len(self._graphs) - _MOST + 1)]:
            self._graphs.pop(oldest, None)
        try:
            graph = self._graphs[key] = _Graph(self._fn, constants, inputs, copied, self._capture)
        except RuntimeError as error:
            self._failed = True
            warnings.warn(
                'compile_loops("cuda_graph"): a step cannot be captured; the loop runs without.\n'
                f"  because  {str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__}\n"
                "The results are the same. torch.compile needs no capture:\n"
                '    with rf.compile_loops("inductor"):',
                stacklevel=3,
            )
            return None
        return graph


class _Graph:
    """The kernels of a call.

    Args:
        copied: Numbers of the constants that are copied.
    """

    def __init__(self, fn: Any, constants: Sequence[Any], inputs: Sequence[Any], copied: set[int], capture: Capture):
        self.copied = copied
        # Arrays of their own for what is held: `weight.data = ...` gives the weight other memory, and would free this.
        self._constants = [
            _buffer(x) if number in copied else x.detach() if isinstance(x, torch.Tensor) else x
            for number, x in enumerate(constants)
        ]
        self._inputs = [_buffer(x) for x in inputs]
        self._in_place = [
            (number, x.data_ptr())
            for number, x in enumerate(constants)
            if isinstance(x, torch.Tensor) and number not in copied
        ]
        self._run: Any = None
        self._load(constants, inputs, copy_constants=True)
        self._replay, self._out = capture(lambda: fn(*self._constants, *self._inputs))

    def moved(self, constants: Sequence[Any]) -> set[int]:
        """The constants that are no longer where this reads them."""
        return {number for number, address in self._in_place if constants[number].data_ptr() != address}

    def __call__(self, run: object, constants: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Repeat it; `run` is the same object as long as the constants are the same."""
        self._load(constants, inputs, copy_constants=self._run is not run)
        self._run = run
        self._replay()
        own: dict[int, Any] = {}
        return tuple([own[id(x)] if id(x) in own else own.setdefault(id(x), x.clone()) for x in self._out])

    def _load(self, constants: Sequence[Any], inputs: Sequence[Any], *, copy_constants: bool) -> None:
        pairs = list(zip(self._inputs, inputs, strict=True))
        if copy_constants:
            pairs += [(self._constants[number], constants[number]) for number in self.copied]
        pairs = [(to, x) for to, x in pairs if isinstance(x, torch.Tensor)]
        if pairs:
            torch._foreach_copy_([to for to, _ in pairs], [x.detach() for _, x in pairs])


def _buffer(x: Any) -> Any:
    return torch.empty_like(x, requires_grad=False) if isinstance(x, torch.Tensor) else x


def _is_plain(x: Any) -> bool:
    return (
        type(x) in (torch.Tensor, torch.nn.Parameter)
        and x.layout is torch.strided
        and not x.is_conj()
        and not x.is_neg()
    )


def _kind(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.shape, x.stride(), x.dtype, x.device
    return type(x), repr(x)


def _circumstances(array: Any) -> Any:
    """A key for what chooses kernels besides the arguments, and for who else could write into the memory of the graph meanwhile."""
    stream = torch.cuda.current_stream(array.device).cuda_stream if array.is_cuda else None
    return (
        threading.get_ident(), stream, torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda"), len(modes()),
        torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled(),
    )  # fmt: skip
