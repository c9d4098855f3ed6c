"""A second device for torch on machines without one: "sim", strict and counted.

    from simulated import watched
    with watched() as seen:
        rf.softmax(x, axis=time)
    assert seen.waits == [] and seen.moved == []

Its tensors are of torch's own class, on a device of their own (`x.device.type == "sim"`), with real values: kernels are those of
the CPU, on memory that only this file reaches. As a GPU does, it refuses operands on two devices (a scalar of the host may come
along with elementwise ops). It has what a GPU has and the CPU lacks: a generator of its own; reads of values, which wait for all
that was asked before; copies in either direction, which wait too unless they say `non_blocking`. Each is noted with the line
that asked for it.

torch has devices made in Python as an experiment, and not in its older versions; tests that import this file are skipped there.
Not here: streams, events, captured graphs, pinned memory, fused kernels, numbers that differ from those of the CPU.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from device_events import Event, Seen, place
from torch.utils._pytree import tree_map_only

try:
    from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend
except ImportError:
    pytest.skip(f"torch {torch.__version__} has no devices made in Python", allow_module_level=True)

NAME = "sim"
aten = torch.ops.aten
_META = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta)
_OF_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
# Their results are Python numbers, or their shapes depend on values.
_READS = set(
    "_local_scalar_dense nonzero equal masked_select _unique2 unique_consecutive unique_dim bincount repeat_interleave".split()
)
# Not elementwise, and still content with a scalar of the host.
_TAKE_SCALARS = {
    "index_put_",
    "index_put",
    "_index_put_impl_",
    "fill_",
    "masked_fill",
    "masked_fill_",
    "copy_",
    "where",
}
# In 16 bits under autocast, as on a GPU.
_PRODUCTS = (
    "matmul mm mv bmm addmm addmv addbmm baddbmm linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
    "scaled_dot_product_attention _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell prelu"
)
_COPIES = {"_to_copy", "copy", "copy_", "clone", "_copy_from", "_copy_from_and_resize"}
_memory: dict[int, torch.UntypedStorage] = {}  # where the values of a storage are, by its address
_ends: dict[int, weakref.ref[torch.UntypedStorage]] = {}
_lock = threading.RLock()  # for the state of the generators
_watching: list[Seen] = []


@contextlib.contextmanager
def watched() -> Iterator[Seen]:
    """Collect the events of a block, of all threads."""
    seen = Seen()
    _watching.append(seen)
    try:
        yield seen
    finally:
        _watching[:] = [other for other in _watching if other is not seen]  # two may have the same events


def _note(kind: str, op: str, waits: bool) -> None:
    if not _watching:
        return
    event = Event(kind, op, waits, place())
    for seen in _watching:
        seen.append(event)


def values(x: torch.Tensor) -> torch.Tensor:
    """The values of a tensor of the device as a host tensor on the same memory. No event is recorded."""
    memory = _memory[x.untyped_storage()._cdata]
    raw = torch.empty(0, dtype=x.dtype, device="cpu").set_(memory, x.storage_offset(), x.shape, x.stride())
    raw = raw.conj() if x.is_conj() else raw
    return torch._neg_view(raw) if x.is_neg() else raw


def _of_values(raw: torch.Tensor) -> torch.Tensor:
    """A tensor of the device on this memory, which is its own from now on."""
    out = torch._C._acc.create_empty_tensor(tuple(raw.shape), raw.dtype)
    storage = out.untyped_storage()
    key = storage._cdata

    def end(_: object, pop: Any = _memory.pop, pop_end: Any = _ends.pop) -> None:
        pop(key), pop_end(key)

    _memory[key], _ends[key] = raw.untyped_storage(), weakref.ref(storage, end)
    return out if out.stride() == raw.stride() and not raw.storage_offset() else _view(out, raw)


def _view(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return aten.as_strided.default.redispatch(_META, x, like.shape, like.stride(), like.storage_offset())


def _is_mine(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.device.type == NAME


def _refuse_two_devices(op: Any, name: str, of_host: list[torch.Tensor]) -> None:
    if name == "_pack_padded_sequence":  # lengths are of the host
        return
    if any(x.dim() for x in of_host) or not (torch.Tag.pointwise in op.tags or name in _TAKE_SCALARS):
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and cpu! ({op})"
        )


def _lstm_cell(of_input: Any, of_hidden: Any, cell: Any, bias: Any = None, bias_of_hidden: Any = None) -> Any:
    gates = of_input + of_hidden + (0 if bias is None else bias + bias_of_hidden)
    i, f, g, o = gates.chunk(4, 1)
    gates = torch.cat([i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()], 1)
    i, f, g, o = gates.chunk(4, 1)
    new = f * cell + i * g
    return o * new.tanh(), new, gates


def _lstm_cell_backward(grad: Any, grad_of_new: Any, cell: Any, new: Any, gates: Any, has_bias: bool) -> Any:
    i, f, g, o = gates.chunk(4, 1)
    bent = new.tanh()
    grad = torch.zeros_like(new) if grad is None else grad
    down = grad * o * (1 - bent**2) + (0 if grad_of_new is None else grad_of_new)
    of_gates = torch.cat(
        [down * g * i * (1 - i), down * cell * f * (1 - f), down * i * (1 - g**2), grad * bent * o * (1 - o)], 1
    )
    return of_gates, down * f, of_gates.sum(0) if has_bias else None


def _gru_cell(of_input: Any, of_hidden: Any, hidden: Any, bias: Any = None, bias_of_hidden: Any = None) -> Any:
    of_input = of_input if bias is None else of_input + bias
    of_hidden = of_hidden if bias_of_hidden is None else of_hidden + bias_of_hidden
    (a, b, c), (d, e, last) = of_input.chunk(3, 1), of_hidden.chunk(3, 1)
    r, z = (a + d).sigmoid(), (b + e).sigmoid()
    n = (c + r * last).tanh()
    return n + z * (hidden - n), torch.cat([r, z, n, hidden, last], 1)


def _gru_cell_backward(grad: Any, saved: Any, has_bias: bool) -> Any:
    r, z, n, hidden, last = saved.chunk(5, 1)
    of_n = grad * (1 - z) * (1 - n**2)
    of_z = grad * (hidden - n) * z * (1 - z)
    of_r = of_n * last * r * (1 - r)
    of_input, of_hidden = torch.cat([of_r, of_z, of_n], 1), torch.cat([of_r, of_z, of_n * r], 1)
    biases = (of_input.sum(0), of_hidden.sum(0)) if has_bias else (None, None)
    return of_input, of_hidden, grad * z, *biases


def _conv_backward(grad: Any, x: Any, weight: Any, *args: Any) -> Any:
    return aten.convolution_backward.default(grad, x, weight, [grad.shape[1]], *args)


# What torch asks of other devices than the CPU only.
_INSTEAD: dict[str, Any] = {
    "convolution_overrideable": aten.convolution.default,
    "convolution_backward_overrideable": _conv_backward,
    "_thnn_fused_lstm_cell": _lstm_cell,
    "_thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
    "_thnn_fused_gru_cell": _gru_cell,
    "_thnn_fused_gru_cell_backward": _gru_cell_backward,
}


def _as_tensor(x: Any, schema: Any, raws: dict[int, torch.Tensor]) -> Any:
    """Numbers come as numbers where the op asks for a tensor."""
    if not isinstance(x, (int, float, complex)) or "Tensor" not in str(schema.type):
        return x
    dtypes = [raw.dtype for raw in raws.values()]
    dtype = torch.result_type(torch.empty(0, dtype=dtypes[0], device="cpu"), x) if dtypes else None
    return torch.tensor(x, dtype=dtype, device="cpu")


def _kernel(op: Any, *args: Any, **kwargs: Any) -> Any:
    """Every op of the device that torch does not compose of others."""
    name = op.overloadpacket.__name__
    if name in ("_copy_from", "_copy_from_and_resize"):
        return _copy(name, *args, **kwargs)
    if name == "as_strided_":  # and so `transpose_`, `squeeze_`: another look at the same memory
        args[0].data = aten.as_strided.default.redispatch(_META, *args, **kwargs)
        return args[0]
    if name == "set_":  # only says where its values are
        return op.redispatch(_META, *args, **kwargs)
    mine: dict[int, torch.Tensor] = {}
    raws: dict[int, torch.Tensor] = {}
    of_host: list[torch.Tensor] = []

    def on_host(x: torch.Tensor) -> torch.Tensor:
        if x.device.type != NAME:
            if x.device.type == "cpu":
                of_host.append(x)
            return x
        key = id(x)
        if key not in raws:
            mine[key], raws[key] = x, values(x)
        return raws[key]

    raw_args = _changed(args, on_host)
    raw_kwargs = {key: _changed(x, on_host) for key, x in kwargs.items()}
    if of_host and mine:
        _refuse_two_devices(op, name, of_host)
    by_mask = name in ("index", "_index_put_impl_", "index_put_", "index_put") and any(
        x is not None and x.dtype in (torch.bool, torch.uint8) for x in args[1]
    )
    if name in _READS or by_mask:
        _note("read", name, True)
    raw_args = [_as_tensor(x, schema, raws) for x, schema in zip(raw_args, op._schema.arguments)]
    draws = torch.Tag.nondeterministic_seeded in op.tags
    with _own_generator() if draws else contextlib.nullcontext():
        out = _INSTEAD.get(name, op)(*raw_args, **raw_kwargs)
    same = {id(raw): mine[key] for key, raw in raws.items()}
    sharing = {raw.untyped_storage()._cdata: mine[key] for key, raw in raws.items()}

    def of_device(raw: torch.Tensor) -> torch.Tensor:
        if id(raw) in same:  # in place, or `out=`
            look = raw.shape, raw.stride(), raw.storage_offset()
            assert look == (same[id(raw)].shape, same[id(raw)].stride(), same[id(raw)].storage_offset()), op
            return same[id(raw)]
        base = sharing.get(raw.untyped_storage()._cdata)
        if base is None:
            return _of_values(raw)
        if base.dtype != raw.dtype:
            return op.redispatch(_OF_CPU, *args, **kwargs)
        return _view(base, raw)

    if name == "_pack_padded_sequence":
        return of_device(out[0]), out[1]
    return _changed(out, of_device)


def _changed(x: Any, change: Any) -> Any:
    """Operands or results with other tensors; for operands the device of the host in the place of this one."""
    if isinstance(x, torch.Tensor):
        return change(x)
    if isinstance(x, (list, tuple)):
        return type(x)([_changed(each, change) for each in x])
    return torch.device("cpu") if isinstance(x, torch.device) else x


def _copy(name: str, source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    raws = [values(x) if _is_mine(x) else x for x in (source, target)]
    if not _is_mine(source):
        _note("to device", "copy_", not non_blocking)
    elif not _is_mine(target):
        _note("to host", "copy_", not non_blocking)
    raws[1].copy_(raws[0])
    return target


class _Backend(_DummyBackendModule):
    """The module `torch.sim`."""

    def __init__(self) -> None:
        self.state = torch.Generator().manual_seed(0).get_state()

    def manual_seed_all(self, seed: int) -> None:
        self.state = torch.Generator().manual_seed(seed).get_state()

    def get_rng_state(self, device: Any = NAME) -> torch.Tensor:
        return self.state.clone()

    def set_rng_state(self, state: torch.Tensor, device: Any = NAME) -> None:
        self.state = state.clone()

    def synchronize(self, device: Any = None) -> None:
        _note("read", "synchronize", True)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


BACKEND = _Backend()


@contextlib.contextmanager
def _own_generator() -> Iterator[None]:
    with _lock:
        of_host = torch.get_rng_state()
        torch.set_rng_state(BACKEND.state)
        try:
            yield
        finally:
            BACKEND.state = torch.get_rng_state()
            torch.set_rng_state(of_host)


_HostGenerator = torch.Generator


class _AllGenerators(type(_HostGenerator)):  # type: ignore[misc]
    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, _HostGenerator)


class _Generator(_HostGenerator, metaclass=_AllGenerators):
    """`torch.Generator`, which torch has no way to make for a device made in Python."""

    __module__ = "torch"  # as code sees it that looks where a class is from

    def __new__(cls, device: Any = "cpu") -> Any:
        of_device = torch.device(device).type == NAME
        return super().__new__(cls, "cpu" if of_device else device)


torch.Generator = _Generator  # type: ignore[misc]


def _storage_of(memory: torch.UntypedStorage) -> torch.UntypedStorage:
    return _of_values(torch.empty(0, dtype=torch.uint8, device="cpu").set_(memory)).untyped_storage()


def _of_storage(own: Any) -> None:
    """Let a method of storages, whose memory torch would look for in vain, be another one for those of the device."""
    original = getattr(torch.UntypedStorage, own.__name__)

    @functools.wraps(original)
    def method(self: torch.UntypedStorage) -> Any:
        return own(self) if self.device.type == NAME else original(self)

    setattr(torch.UntypedStorage, own.__name__, method)


@_of_storage
def nbytes(storage: torch.UntypedStorage) -> int:
    return _memory[storage._cdata].nbytes()


@_of_storage
def data_ptr(storage: torch.UntypedStorage) -> int:
    return _memory[storage._cdata].data_ptr()


@_of_storage
def size(storage: torch.UntypedStorage) -> int:
    return _memory[storage._cdata].nbytes()


@_of_storage
def clone(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    return _storage_of(_memory[storage._cdata].clone())


@_of_storage
def cpu(storage: torch.UntypedStorage) -> torch.UntypedStorage:
    _note("to host", "storage.cpu", True)
    return _memory[storage._cdata].clone()


_to = torch.UntypedStorage.to


def _storage_to(self: torch.UntypedStorage, *, device: Any, non_blocking: bool = False) -> Any:
    """A checkpoint is read back to the device that it was written on."""
    if torch.device(device).type != NAME or self.device.type != "cpu":
        return _to(self, device=device, non_blocking=non_blocking)
    _note("to device", "storage.to", not non_blocking)
    return _storage_of(self.clone())


torch.UntypedStorage.to = _storage_to  # type: ignore[method-assign]


_setup_privateuseone_for_python_backend(NAME, backend_module=BACKEND)
_LIBRARY = torch.library.Library("_", "IMPL")
_LIBRARY.fallback(_kernel, "PrivateUse1")
_ATEN = torch.library.Library("aten", "IMPL")

for _sign in ("Conjugate", "Negative"):  # to resolve a sign is to copy, for which torch would resolve it
    _ATEN.impl("_copy_from", torch.library.fallthrough_kernel, _sign)


def _ops_with_a_default() -> Iterator[Any]:
    """Those that torch would compose of others on a device that has no kernel of its own (of some that write to an empty tensor
    and so give it its size, which a device made in Python has no way to do), or refuse."""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    for name in torch._C._dispatch_get_all_op_names():
        packet, _, overload = name.removeprefix("aten::").partition(".")
        if not name.startswith("aten::") or overload.endswith("out") or packet in _COPIES:
            continue
        composed = has(name, "CompositeExplicitAutograd") and "out" in getattr(aten, packet).overloads()
        if composed or has(name, "CompositeExplicitAutogradNonFunctional") or name.endswith("_overrideable"):
            yield getattr(getattr(aten, packet), overload or "default")


for _op in _ops_with_a_default():
    _ATEN.impl(_op, functools.partial(_kernel, _op), "PrivateUse1")


def _product(op: Any, *args: Any, **kwargs: Any) -> Any:
    """A product under autocast, which leaves float64 as it is."""
    dtype = torch.get_autocast_dtype(NAME)

    def cast(x: torch.Tensor) -> torch.Tensor:
        return x.to(dtype) if _is_mine(x) and x.is_floating_point() and x.dtype != torch.float64 else x

    args, kwargs = tree_map_only(torch.Tensor, cast, (args, kwargs))
    with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
        return op(*args, **kwargs)


_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
_LIBRARY.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
for _name in _PRODUCTS.split():
    for _overload in getattr(aten, _name).overloads():
        if not _overload.endswith("out"):
            _op = getattr(getattr(aten, _name), _overload)
            _ATEN.impl(_op, functools.partial(_product, _op), "AutocastPrivateUse1")
