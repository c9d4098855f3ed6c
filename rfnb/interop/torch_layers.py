"""Torch modules that are called with Tensors: the axes follow from the type of the module, or from the user.

linear = rf.from_torch(torch.nn.Linear(3, 5), in_dim=feat)
linear(x)                                  # {batch, time, feat} -> {batch, time, linear.out_dim}
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import nn

from rfnb.backends.torch_devices import on_device
from rfnb.core.block import block
from rfnb.core.dim import Dim, single_step_dim
from rfnb.core.errors import dim_error, type_error
from rfnb.core.op import Args, Kwargs
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import dims_text, shape_of
from rfnb.core.tree import values_in
from rfnb.interop.torch_module import PTModuleAsRFModule, as_rf
from rfnb.nn.module.module import Module
from rfnb.nn.run.run_ctx import get_run_ctx
from rfnb.rec.state import State

Axes = Sequence[Any]  # Dims, names and `...`


class TorchModule(PTModuleAsRFModule):
    """A module made by `rf.from_torch`; `pt_module` is the original. Other attributes are those of the original."""

    def __init__(self, pt_module: nn.Module):
        super().__init__(pt_module)
        sizes = _sizes(pt_module)
        self.in_dim: Dim | None = None
        self.out_dim: Dim | None = None
        if sizes is not None and sizes[0] != sizes[1]:
            self.out_dim = Dim(sizes[1], name="out")
        if isinstance(pt_module, nn.RNNBase):
            self.state_dim = Dim(pt_module.proj_size or pt_module.hidden_size, name="state")
            layers = pt_module.num_layers * (2 if pt_module.bidirectional else 1)
            self.layers_dim = Dim(layers, name="layers") if layers > 1 else None
        self._rfnb_axes: tuple[Axes | None, Axes | None] = None, None

    def say(self, in_dim: Dim | None, out_dim: Dim | None, inputs: Axes | None, outputs: Axes | None) -> None:
        """Set the axes. See `rf.from_torch`.

        Raises:
            DimError: If the sizes do not match the module.
        """
        sizes = _sizes(self.pt_module)
        for name, dim, size in zip(("in_dim", "out_dim"), (in_dim, out_dim), sizes or (None, None)):
            if dim is not None and (size is None or dim.size != size):
                raise dim_error(
                    f"from_torch: {name} does not fit {_kind(self.pt_module)}.",
                    [(name, dim), ("needs", "no such dim" if size is None else size)],
                    "The features have the size that the module was made with. Name the other axes in their order:",
                    "rf.from_torch(module, inputs=[..., in_dim], outputs=[..., out_dim])",
                )
        self.in_dim, self.out_dim = in_dim or self.in_dim, out_dim or self.out_dim
        self._rfnb_axes = inputs, outputs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_rfnb"):
            raise AttributeError(name)
        return getattr(self._rfnb_pt_module, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> TorchModule:
        new = super().__deepcopy__(memo)
        assert isinstance(new, TorchModule)
        for name in ("in_dim", "out_dim", "state_dim", "layers_dim", "_rfnb_axes"):
            if name in vars(self):
                vars(new)[name] = vars(self)[name]
        return new

    def default_initial_state(self, *, batch_dims: Sequence[Dim]) -> State | None:
        """Zeros {batch_dims, state_dim} for a recurrent module, with layers_dim if there are several layers or directions."""
        module = self.pt_module
        if not isinstance(module, nn.RNNBase):
            return super().default_initial_state(batch_dims=batch_dims)
        dims = {"h": self.state_dim}
        if isinstance(module, nn.LSTM):
            dims["c"] = self._cell_dim()
        like = next(module.parameters())
        layers = () if self.layers_dim is None else (self.layers_dim,)
        state = State()
        for name, dim in dims.items():
            shape = [d.extent for d in (*layers, *batch_dims, dim)]
            state[name] = Tensor(name, [*layers, *batch_dims, dim], raw_tensor=like.new_zeros(shape))
        return state

    def _cell_dim(self) -> Dim:
        """The dim of c, to which a projection is not applied."""
        module: Any = self.pt_module
        if not module.proj_size:
            return self.state_dim
        if "cell_dim" not in vars(self):
            self.cell_dim = Dim(module.hidden_size, name="cell")
        return self.cell_dim

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with _rests(self.pt_module):
            if not any(isinstance(value, Tensor) for value in values_in([args, kwargs])):
                return self.pt_module(*args, **kwargs)
            return self._of_tensors(args, kwargs)

    def _of_tensors(self, args: Args, kwargs: Kwargs) -> Any:
        inputs, outputs = self._rfnb_axes
        if inputs is not None:
            return _as_said(self, args, kwargs, inputs, outputs)
        rule = next((rule for kinds, rule in RULES if type(self.pt_module) in kinds), None)
        if rule is None or len(args) != 1 or not isinstance(args[0], Tensor):
            raise type_error(
                f"from_torch: which axis is which in {_kind(self.pt_module)}?",
                [(f"argument {place}", _text(value)) for place, value in enumerate(args)]
                + [(name, _text(value)) for name, value in kwargs.items()],
                "torch knows axes by their order, and a Tensor has none. It is clear for layers of frames (Linear, LayerNorm, ReLU, ...),\n"
                "Embedding, LSTM, GRU, RNN, TransformerEncoder and Sequential of these. Otherwise name the axes, or give raw arrays:",
                'rf.from_torch(module, inputs=["batch", "time", feat], outputs=["batch", "time", out])',
            )
        return rule(self, args[0], **kwargs)

    def feature_of(self, x: Tensor) -> Dim:
        """The feature dim of x.

        Raises:
            DimError: If the feature dim was not given, or x does not have it.
        """
        size = (_sizes(self.pt_module) or (0, 0))[0]
        dim = self.in_dim or x.feature_dim
        if dim is None or dim not in x.dims or dim.size != size:
            kind = _kind(self.pt_module)
            known = [("in_dim", dim)] if dim is not None else []
            raise dim_error(
                f"from_torch: several dims could have the {size} features of {kind}.",
                [("source", x), *known],
                "It is in_dim, or else the dim that the Tensor has marked as feature_dim. Other axes have this size by chance.",
                f"rf.from_torch({kind}(...), in_dim=...)",
            )
        return dim

    def out_of(self, feature: Dim) -> Dim:
        """The feature dim of the result."""
        return feature if self.out_dim is None else self.out_dim


def in_the_place_of(part: Module, module: nn.Module) -> Module:
    """The Module for a torch module that replaces a part, with the dims of that part if the sizes agree."""
    out = as_rf(module, TorchModule)
    if isinstance(out, TorchModule):
        sizes = _sizes(module) or (None, None)
        dims = [getattr(part, name, None) for name in ("in_dim", "out_dim")]
        first, last = (dim if isinstance(dim, Dim) and dim.size == size else None for dim, size in zip(dims, sizes))
        out.say(first, last, None, None)
    return out


# -- rules -------------------------------------------------------------------------------------------------------------
def _elementwise(self: TorchModule, x: Tensor) -> Tensor:
    return Tensor(x.name, x.dims, feature_dim=x.feature_dim, raw_tensor=self.pt_module(x.raw_tensor))


def _framewise(self: TorchModule, x: Tensor) -> Tensor:
    feature = self.feature_of(x)
    others = x.remaining_dims(feature)
    out = self.out_of(feature)
    raw = self.pt_module(x.copy_transpose([*others, feature]).raw_tensor)
    return Tensor("out", [*others, out], feature_dim=out, raw_tensor=raw)


def _embedding(self: TorchModule, x: Tensor) -> Tensor:
    module: Any = self.pt_module
    if x.sparse_dim is None or x.sparse_dim.size != module.num_embeddings:
        raise dim_error(
            f"from_torch: {_kind(module)} of other labels.",
            {
                "source": f"{shape_of(x)}, sparse_dim {'none' if x.sparse_dim is None else x.sparse_dim.short_repr()}",
                "needs": f"a sparse_dim of size {module.num_embeddings}",
            },
            "The integers are indices into a dim of the size that the module was made with.",
            "rf.set_sparse_dim(source, vocab)",
        )  # fmt: skip
    out = self.out_dim
    assert out is not None
    return Tensor("out", [*x.dims, out], feature_dim=out, raw_tensor=module(x.raw_tensor))


def _sequential(self: TorchModule, x: Tensor) -> Tensor:
    feature = self.in_dim
    for name in self.pt_module._modules:
        child = vars(self)[name]
        if isinstance(child, TorchModule):
            before, child.in_dim = child.in_dim, child.in_dim or feature
            try:
                x = child(x)
            finally:
                child.in_dim = before
        else:
            x = child(x)
        feature = x.feature_dim or feature
    return x


def _encoder(self: TorchModule, x: Tensor, *, spatial_dim: Dim) -> Tensor:
    """TransformerEncoder and its layer: padding is masked."""
    module: Any = self.pt_module
    feature = self.feature_of(x)
    batch = x.remaining_dims([spatial_dim, feature])
    raw, mask = _batched(x, batch, spatial_dim, feature), None
    if spatial_dim.need_masking():
        mask = on_device(_lengths(spatial_dim, batch), raw.device)
        mask = torch.arange(raw.shape[1], device=raw.device) >= mask[:, None]
    layer = module if isinstance(module, nn.TransformerEncoderLayer) else module.layers[0]
    if not layer.self_attn.batch_first:
        raw = raw.transpose(0, 1)
    out = module(raw, src_key_padding_mask=mask)
    if not layer.self_attn.batch_first:
        out = out.transpose(0, 1)
    if out.shape[1] < spatial_dim.extent:  # a fast path of torch truncates to the longest sequence
        out = nn.functional.pad(out, (0, 0, 0, spatial_dim.extent - out.shape[1]))
    return _apart(out, batch, [spatial_dim, feature])


def _recurrent(self: TorchModule, x: Tensor, *, spatial_dim: Dim, state: State | None = None) -> tuple[Tensor, State]:
    """LSTM, GRU and RNN, with lengths."""
    module: Any = self.pt_module
    feature = self.feature_of(x)
    step = spatial_dim is single_step_dim
    batch = x.remaining_dims([feature] if step else [spatial_dim, feature])
    layers = () if self.layers_dim is None else (self.layers_dim,)
    given = self.default_initial_state(batch_dims=batch) if state is None else state
    assert given is not None
    dims = {name: [*layers, *batch, self.state_dim if name == "h" else self._cell_dim()] for name in given}
    raws = []
    for name, value in given.items():
        raw = value.copy_transpose(dims[name]).raw_tensor
        raws.append(raw.reshape(len(raw) if layers else 1, math.prod(d.extent for d in batch), raw.shape[-1]))
    source = _batched(x, batch, None if step else spatial_dim, feature)
    if not step and spatial_dim.need_masking():
        out, lasts = _packed(module, source, raws, _lengths(spatial_dim, batch))
    else:
        first = tuple(raws) if len(raws) > 1 else raws[0]
        out, last = module(source if module.batch_first else source.transpose(0, 1), first)
        out = out if module.batch_first else out.transpose(0, 1)
        lasts = list(last) if isinstance(last, tuple) else [last]
    after = State()
    for name, raw in zip(given, lasts):
        after[name] = Tensor(name, dims[name], raw_tensor=raw.reshape([d.extent for d in dims[name]]))
    result = _apart(out[:, 0] if step else out, batch, [*([] if step else [spatial_dim]), self.out_of(feature)])
    return result, after


def _packed(module: Any, source: Any, first: list[Any], lengths: np.ndarray) -> tuple[Any, list[Any]]:
    """The output (batch, time, feature) and the last states for sequences with these lengths."""
    # Sorted here: torch would wait for the device to restore the order of the batch.
    longest_first = np.argsort(-lengths, kind="stable")
    order, back = (on_device(index, source.device) for index in (longest_first, np.argsort(longest_first)))
    sizes = torch.from_numpy(np.maximum(lengths[longest_first], 1))
    packed = nn.utils.rnn.pack_padded_sequence(source.index_select(0, order), sizes, batch_first=True)
    packed = nn.utils.rnn.PackedSequence(packed.data, packed.batch_sizes, order, back)
    out, last = module(packed, tuple(first) if len(first) > 1 else first[0])
    out = nn.utils.rnn.PackedSequence(out.data, out.batch_sizes)
    out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True, total_length=source.shape[1])
    lasts = last if isinstance(last, tuple) else (last,)
    empty = on_device(lengths == 0, source.device)[None, :, None]  # torch does not support empty sequences
    return out.index_select(0, back), [torch.where(empty, before, after) for before, after in zip(first, lasts)]


def _batched(x: Tensor, batch: list[Dim], spatial_dim: Dim | None, feature: Dim) -> Any:
    """The raw array (batch, time, feature)."""
    order = [*batch, *([] if spatial_dim is None else [spatial_dim]), feature]
    raw = x.copy_transpose(order).raw_tensor
    count = math.prod(dim.extent for dim in batch)
    return raw.reshape(count, 1 if spatial_dim is None else spatial_dim.extent, feature.extent)


def _apart(raw: Any, batch: list[Dim], rest: list[Dim]) -> Tensor:
    """The Tensor for a raw array in which all batch dims are one axis."""
    dims = [*batch, *rest]
    return Tensor("out", dims, feature_dim=rest[-1], raw_tensor=raw.reshape([dim.extent for dim in dims]))


def _lengths(dim: Dim, batch: list[Dim]) -> np.ndarray:
    """The lengths of a ragged dim, one for each entry over all batch dims."""
    over = dim.dyn_size_ext
    assert over is not None
    raw = over.numpy()
    order = [d for d in batch if d in over.dims]
    raw = raw.transpose([over.dims.index(d) for d in order])
    shape = [d.extent if d in order else 1 for d in batch]
    return np.broadcast_to(raw.reshape(shape), [d.extent for d in batch]).reshape(-1).astype(np.int64)


_ELEMENTWISE = frozenset(
    {nn.ReLU, nn.ReLU6, nn.GELU, nn.Tanh, nn.Sigmoid, nn.SiLU, nn.Mish, nn.ELU, nn.CELU, nn.SELU, nn.LeakyReLU, nn.Softplus}
    | {nn.Softsign, nn.Hardtanh, nn.Hardswish, nn.Hardsigmoid, nn.LogSigmoid, nn.Tanhshrink, nn.Identity, nn.Dropout, nn.AlphaDropout}
)  # fmt: skip
Rule = Callable[..., Any]
RULES: list[tuple[frozenset[type], Rule]] = [
    (_ELEMENTWISE, _elementwise),
    (frozenset({nn.Linear, nn.LayerNorm, nn.RMSNorm}), _framewise),
    (frozenset({nn.Embedding}), _embedding),
    (frozenset({nn.Sequential}), _sequential),
    (frozenset({nn.TransformerEncoder, nn.TransformerEncoderLayer}), _encoder),
    (frozenset({nn.LSTM, nn.GRU, nn.RNN}), _recurrent),
]


def _sizes(module: Any) -> tuple[int, int] | None:
    """The numbers of input and output features; None if unknown."""
    if isinstance(module, nn.Linear):
        return module.in_features, module.out_features
    if isinstance(module, (nn.LayerNorm, nn.RMSNorm)) and len(module.normalized_shape) == 1:
        return module.normalized_shape[0], module.normalized_shape[0]
    if isinstance(module, nn.Embedding):
        return module.num_embeddings, module.embedding_dim
    if isinstance(module, nn.TransformerEncoder):
        return _sizes(module.layers[0])
    if isinstance(module, nn.TransformerEncoderLayer):
        return module.self_attn.embed_dim, module.self_attn.embed_dim
    if isinstance(module, nn.RNNBase):
        out = module.proj_size or module.hidden_size
        return module.input_size, out * (2 if module.bidirectional else 1)
    if isinstance(module, nn.Sequential):
        known = [sizes for child in module if (sizes := _sizes(child)) is not None]
        return (known[0][0], known[-1][1]) if known else None
    return None


# -- axes given by the user --------------------------------------------------------------------------------------------
def _as_said(self: TorchModule, args: Args, kwargs: Kwargs, inputs: Axes, outputs: Axes | None) -> Any:
    """The call with the axes of the first Tensor in the order given by the user."""
    x = args[0] if args else None
    if not isinstance(x, Tensor) or any(isinstance(value, Tensor) for value in [*args[1:], *kwargs.values()]):
        raise type_error(
            f"from_torch: {_kind(self.pt_module)} with several Tensors.",
            [(f"argument {place}", _text(value)) for place, value in enumerate(args)],
            "`inputs` names the axes of one array. For more, give raw arrays, and name the axes of the result:",
            'rf.named(module(a.raw_tensor, b.raw_tensor), "batch time feature", dims=a.dims)',
        )
    named = [None if item is ... else _find(self, x, item, inputs) for item in inputs]
    rest = [dim for dim in x.dims if dim not in named]
    order = [dim for entry in named for dim in (rest if entry is None else [entry])]
    said = [dim for dim in named if dim is not None]
    ragged = next((dim for dim in said if dim.need_masking()), None)
    if len(order) != len(x.dims) or len(set(order)) != len(order):
        raise dim_error(
            f"from_torch: inputs are not the axes of the argument of {_kind(self.pt_module)}.",
            {"source": x, "inputs": _axes_text(inputs)},
            'Each dim is named once; "..." stands for all others.',
            "rf.from_torch(module, inputs=[..., in_dim], outputs=[..., out_dim])",
        )
    if ragged is not None:
        raise dim_error(
            f"from_torch: {_kind(self.pt_module)} would see the padding of {ragged.short_repr()}.",
            {"source": x, "inputs": _axes_text(inputs)},
            "A module of torch does not know where sequences end, and `...` is for dims that it goes through entry by entry. Call it with\n"
            "raw arrays, and with the mask that it wants:",
            "module(x.raw_tensor, mask=rf.sequence_mask([batch, time]).raw_tensor)",
        )
    raw = self.pt_module(x.copy_transpose(order).raw_tensor, *args[1:], **kwargs)
    wanted = inputs if outputs is None else outputs
    dims = [dim for item in wanted for dim in (rest if item is ... else [_find(self, x, item, wanted, new=True)])]
    return Tensor("out", dims, raw_tensor=raw)


def _find(self: TorchModule, x: Tensor, item: Any, axes: Axes, new: bool = False) -> Dim:
    """The dim for an item: a Dim itself, or the only dim of x with this name."""
    if isinstance(item, Dim) and (new or item in x.dims):
        return item
    found = [dim for dim in x.dims if dim.name == item]
    if len(found) != 1:
        raise dim_error(
            f"from_torch: no dim {item.short_repr() if isinstance(item, Dim) else repr(item)} for {_kind(self.pt_module)}.",
            {"source": x, "axes": _axes_text(axes)},
            "A name stands for the one dim of the source that has it; a new dim of the result is a Dim.",
            'rf.from_torch(module, inputs=[..., in_dim], outputs=[..., rf.Dim(5, name="out")])',
        )
    return found[0]


def _axes_text(axes: Axes) -> str:
    return " ".join("..." if item is ... else item.name if isinstance(item, Dim) else str(item) for item in axes)


def _text(value: Any) -> str:
    return f"Tensor {dims_text(value.dims)}" if isinstance(value, Tensor) else type(value).__name__


def _kind(module: Any) -> str:
    return type(module).__name__


# -- training or not ---------------------------------------------------------------------------------------------------
_lock = threading.Lock()
_resting: WeakKeyDictionary[nn.Module, tuple[int, list[nn.Module]]] = WeakKeyDictionary()


@block
def _rests(module: nn.Module) -> Iterator[None]:
    """Switch the module to eval mode if the run context does not train; parts in `eval()` stay in it in any case."""
    if get_run_ctx().train_flag:
        yield
        return
    with _lock:  # two threads may use it at the same time
        count, training = _resting.get(module) or (0, [part for part in module.modules() if part.training])
        _resting[module] = count + 1, training
        for part in training if not count else ():
            part.training = False
    try:
        yield
    finally:
        with _lock:
            count, training = _resting[module]
            if count > 1:
                _resting[module] = count - 1, training
            else:
                del _resting[module]
                for part in training:
                    part.training = True
