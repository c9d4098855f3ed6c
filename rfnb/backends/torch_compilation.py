"""Functions of arrays compiled by torch, or captured as CUDA graphs: the programs of recorded loops.

A graph contains the kernels of a call, recorded once; the host launches them all with a single call. It reads and writes fixed memory.
So arguments are copied into arrays of the graph, and results are copied out; constants (weights) are read in place as long as they stay
there, and are copied too once they have moved.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from rfnb.backends.torch_modes import InFloat32, float32_precision, modes


def compile_function(fn: Callable[..., Any], how: str, *, changes: bool) -> Callable[..., Callable[..., Any]] | None:
    """See `Backend.compile_raw`."""
    if how == "cuda_graph":
        return None if changes or not torch.cuda.is_available() else CapturedFunction(fn)
    return _Compiled(fn, how)


_RULE = {
    "inductor": "The results are the same. Without a compiler for C++ (g++, clang++) there is no inductor:\n"
    '    with rf.compile_loops("aot_eager"):',
    "": "The results are the same. To run it so without this warning:\n    with rf.compile_loops(None):",
}

# Older versions of torch (2.6, 2.7) do not tell whether somebody wants what is kept for gradients; without gradients nothing is kept.
_TOP_HOOKS = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)


class _Compiled:
    """A function compiled at its first call, for these dtypes and shapes, and again when others are needed."""

    def __init__(self, fn: Callable[..., Any], how: str):
        self._fn, self._how, self._failed = fn, how, False
        # As a whole: a part could have changed arrays before the next one fails.
        self._compiled = torch.compile(fn, backend=how, fullgraph=True)

    def __call__(self, *constants: Any) -> Callable[..., Any]:
        if self._failed or _somebody_watches():
            return partial(self._fn, *constants)
        return partial(self._run, *constants)

    def _run(self, *args: Any) -> Any:
        if self._failed:
            return self._fn(*args)
        try:
            return self._compiled(*args)
        except Exception as error:
            if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
                raise  # the step itself
            self._failed = True
            warnings.warn(
                f'compile_loops("{self._how}"): torch cannot compile a step; the loop runs without.\n'
                f"  because  {_first_line(error)}\n" + _RULE.get(self._how, _RULE[""]),
                stacklevel=2,
            )
            return self._fn(*args)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _somebody_watches() -> bool:
    """True if something observes each call, or each array saved for gradients, which differ in a compiled function."""
    return (
        bool(modes())
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.peek_interpreter_stack() is not None
        or (torch.is_grad_enabled() if _TOP_HOOKS is None else _TOP_HOOKS(True) is not None)
    )


Capture = Callable[[Callable[[], Any]], tuple[Callable[[], None], Any]]
_capturing = threading.Lock()
_MOST = 8  # graphs of a function: each keeps the memory of all that it computes
_PATIENCE, _WORTH = 32, 4  # captures of a function before it has to be seen that each is repeated so often


_kept = threading.local()  # `sides`: a stream to capture on, for each that is current


def capture_on_gpu(fn: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
    """A function that replays the kernels of `fn`, and the arrays that hold their results."""
    current = torch.cuda.current_stream()
    # The same one again: cuBLAS keeps a workspace (32 MB on Hopper) for each stream of a thread that it was ever called on.
    which = current.device, current.cuda_stream
    sides = vars(_kept).setdefault("sides", {})
    side = sides[which] if which in sides else sides.setdefault(which, torch.cuda.Stream())
    side.wait_stream(current)
    try:
        with torch.cuda.stream(side):  # libraries ask for their memory in a first call, which cannot be captured
            for _ in range(2):
                fn()
    finally:  # also where it fails: the memory of its arguments goes back to who asks on the current stream
        current.wait_stream(side)
    graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
    try:
        with _capturing, torch.cuda.graph(graph, pool=pool, stream=side, capture_error_mode="thread_local"):
            out = fn()
    except BaseException:
        _abandon(current, pool)
        raise
    return graph.replay, out


def _abandon(current: Any, pool: Any) -> None:
    """Clean up after a capture that was broken by its content and could not be ended.

    torch keeps the stream in the captured state (2.13); up to 2.11 freed memory stays with the pool, and the generator waits for the end
    of the capture, so that no random number can be drawn.
    """
    torch.cuda.set_stream(current)
    with contextlib.suppress(RuntimeError):  # "not currently recording": it was ended
        torch._C._cuda_endAllocateToPool(current.device_index, pool)
    generator = torch.cuda.default_generators[current.device_index]
    state = generator.get_state()
    try:
        torch.empty(1, device=current.device).uniform_(generator=generator)
    except RuntimeError:
        generator.graphsafe_set_state(generator.clone_state())
    generator.set_state(state)


def may_be_captured(arrays: Sequence[Any]) -> bool:
    """True if a graph may replay a call with these arrays."""
    if not arrays or arrays[0].device.type != "cuda" or torch.is_grad_enabled() or torch.is_inference_mode_enabled():
        return False
    if arrays[0].device.index != torch.cuda.current_device() or torch.cuda.is_current_stream_capturing():
        return False
    if any(type(mode) is not InFloat32 for mode in modes()) or torch._C._len_torch_dispatch_stack() > 0:
        return False  # somebody wants to see each call
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return False  # arrays of vmap and the like have no memory of their own
    if torch.is_autocast_enabled("cuda") and torch.is_autocast_cache_enabled():
        return False  # the graph would go on reading what the cache has let go
    # A number on the host would be a constant.
    return all(map(_is_plain, arrays)) and len({x.device for x in arrays}) == 1


class CapturedFunction:
    """A function and its graphs, one for each kind of arguments.

    Args:
        fn: A function that only calls the library, and changes no array.
        capture: Like `capture_on_gpu`.
        may: Like `may_be_captured`.
    """

    def __init__(self, fn: Callable[..., Any], *, capture: Capture = capture_on_gpu, may: Any = may_be_captured):
        self._fn, self._capture, self._may = fn, capture, may
        self._graphs: dict[Any, _CapturedKernels] = {}
        self._failed = False
        self._captured = self._repeated = 0

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
            if graph is None:
                return self._fn(*constants, *inputs)
            self._repeated += 1
            return graph(run, constants, inputs)

        return call

    def _new(self, key: Any, old: _CapturedKernels | None, constants: Any, inputs: Any) -> _CapturedKernels | None:
        if self._captured >= _PATIENCE and self._repeated < _WORTH * self._captured:
            self._give_up(
                f"{self._captured} sizes were captured, and each was repeated {self._repeated / self._captured:.1f} times"
            )
            return None
        self._captured += 1
        copied = set() if old is None else old.copied | old.moved(constants)
        self._graphs.pop(key, None)
        for oldest in list(self._graphs)[: max(0, len(self._graphs) - _MOST + 1)]:
            self._graphs.pop(oldest, None)
        try:
            graph = self._graphs[key] = _CapturedKernels(self._fn, constants, inputs, copied, self._capture)
        except RuntimeError as error:
            self._give_up(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
            return None
        return graph

    def _give_up(self, reason: str) -> None:
        self._failed = True
        self._graphs.clear()
        warnings.warn(
            'compile_loops("cuda_graph"): a step cannot be captured; the loop runs without.\n'
            f"  because  {reason}\n"
            "The results are the same. torch.compile needs no capture:\n"
            '    with rf.compile_loops("inductor"):',
            stacklevel=4,
        )


class _CapturedKernels:
    """The kernels of a call.

    Args:
        copied: Indices of the constants that are copied.
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
        """The constants that are no longer where the graph reads them."""
        return {number for number, address in self._in_place if constants[number].data_ptr() != address}

    def __call__(self, run: object, constants: Sequence[Any], inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Replay the kernels; `run` is the same object as long as the constants are unchanged."""
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
    """A key for everything besides the arguments that affects the choice of kernels, or could write into the graph's memory."""
    stream = torch.cuda.current_stream(array.device).cuda_stream if array.is_cuda else None
    return (
        threading.get_ident(), stream, torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda"), len(modes()),
        float32_precision(), torch.are_deterministic_algorithms_enabled(), torch._C._get_cudnn_enabled(),
        torch._C._get_cudnn_deterministic(), torch._C._get_cudnn_benchmark(),
    )  # fmt: skip
