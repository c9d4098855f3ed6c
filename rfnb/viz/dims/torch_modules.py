"""The parameters of a torch module as rows of a `dims` spec: the tree of its modules, with parameters and sizes.

torch is not imported: a module provides all of this itself. Whether two axes with the same name and size are the same
dim is unknown; they are drawn as if they were, and the view says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from rfnb.viz.dims.table import bytes_text

REMARK = (
    "Axes are named by the types of their modules. Dims of the same name and size are drawn as one, but may differ."
)
NOT_LOOKED_AT = "The values were not read, since they are many or on a GPU; values=True reads them."
MOST_CELLS = 1 << 25  # parameters; beyond, values are read only on request
_WRAPPERS = {"OptimizedModule": ("_orig_mod", "compiled"), "DistributedDataParallel": ("module", "distributed")}
_WRAPPERS |= {"DataParallel": ("module", "on several devices"), "FullyShardedDataParallel": ("module", "sharded")}


def is_torch_module(value: Any) -> bool:
    """Whether it is a torch.nn.Module."""
    return any(base.__module__ == "torch.nn.modules.module" for base in type(value).__mro__)


def unwrapped(module: Any) -> tuple[Any, list[str]]:
    """The module inside a compiling or distributing wrapper, and a description of the wrapper."""
    around = []
    while (known := _WRAPPERS.get(type(module).__name__)) is not None and hasattr(module, known[0]):
        around.append(known[1])
        module = getattr(module, known[0])
    return module, around


def title_of(module: Any) -> str:
    """The class of a module, and its size."""
    module, around = unwrapped(module)
    kind = ", ".join([kinds_of(module)[0], *around, *(["scripted"] if hasattr(module, "original_name") else [])])
    return f"{kind}: {_size_text(list(module.parameters()))}"


def values_looked_at(module: Any) -> bool:
    """Whether values are read by default: for a large model this takes seconds, and on a GPU it waits."""
    parameters = [tensor for tensor in module.parameters() if not _lazy(tensor)]
    here = all(tensor.device.type in ("cpu", "meta") for tensor in parameters)
    return here and sum(tensor.numel() for tensor in parameters) <= MOST_CELLS


def add_module(rows: Any, module: Any) -> None:
    """Add rows for the tree of a module.

    Args:
        rows: The collector, with `row`, `heading`, `named_axis`, `array_row`.
    """
    _ModuleRows(rows).add(unwrapped(module)[0], "", 0)


class _ModuleRows:
    """The rows so far, to detect sharing. Objects are kept alive, since ids are only unique among living objects."""

    def __init__(self, rows: Any):
        self.rows = rows
        self.modules: dict[int, tuple[str, Any]] = {}
        self.tensors: dict[int, tuple[str, Any]] = {}

    def add(self, module: Any, path: str, indent: int) -> None:
        self.modules[id(module)] = path, module
        for word, named in (("", module.named_parameters), ("buffer", module.named_buffers)):
            for name, tensor in named(recurse=False, remove_duplicate=False):
                self.tensor(module, name, tensor, word, _join(path, name), indent)
        for name, child in module._modules.items():
            if child is None:
                continue
            first = self.modules.get(id(child))
            said = _note(child) if first is None else f"{kinds_of(child)[0]}, the same as {first[0]}"
            self.rows.heading(name, indent, note=said)
            if first is None:
                self.add(child, _join(path, name), indent + 1)

    def tensor(self, module: Any, name: str, tensor: Any, word: str, path: str, indent: int) -> None:
        frozen = not word and not tensor.requires_grad and tensor.dtype.is_floating_point
        notes = [*filter(None, [word]), *(["frozen"] if frozen else [])]
        if _lazy(tensor):
            dtype, device = str(tensor.dtype).removeprefix("torch."), str(tensor.device)
            note = ", ".join([*notes, "has no size before the first call"])
            self.rows.row(name, indent, [], dtype=dtype, device=device, note=note)
            return
        names = parameter_axes(module, name, tensor.shape, path) or [f"axis{axis}" for axis in range(tensor.dim())]
        dims = self.rows.named_axes(names, tensor.shape)
        first = self.tensors.setdefault(id(tensor), (path, tensor))[0]
        note = ", ".join([*notes, *([f"the same as {first}"] if first != path else [])])
        self.rows.array_row(name, tensor, indent, dims, note=note, again=first != path)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _note(module: Any) -> str:
    size = _size_text(list(module.parameters()))
    packed = "quantised, its weights are packed" if ".quantized" in type(module).__module__ else ""
    return ", ".join(filter(None, [kinds_of(module)[0], size if size != "no parameters" else packed]))


def _size_text(parameters: list[Any]) -> str:
    known = [tensor for tensor in parameters if not _lazy(tensor)]
    count, size = sum(tensor.numel() for tensor in known), sum(tensor.nbytes for tensor in known)
    if not parameters:
        return "no parameters"
    words = [f"{count:,} parameter{'s' * (count != 1)}", bytes_text(size)] if known else []
    words += [f"{len(parameters) - len(known)} without a size yet"] if len(known) < len(parameters) else []
    return ", ".join(words)


def _lazy(tensor: Any) -> bool:
    return type(tensor).__name__ in ("UninitializedParameter", "UninitializedBuffer")


_SPACE = {1: ["width"], 2: ["height", "width"], 3: ["depth", "height", "width"]}
_POSITIONS = re.compile(r"(?:(position|\bwpe\b|pos_emb)|token_type)[^.]*\.weight$")
_NORMS = re.compile(r"(Layer|RMS|Group|Batch|Instance)Norm(\d?d)?$")


def parameter_axes(module: Any, name: str, shape: Sequence[int], path: str = "") -> list[str] | None:
    """A name for each axis of a parameter or buffer, or None.

    Args:
        module: The owner.
        name: Its attribute name.
        path: Its path in the model, by which a table of positions is recognised.
    """
    for kind in kinds_of(module):
        find = _BY_TYPE.get(kind)
        if find is None and _NORMS.search(kind):
            find = _norm
        if find is not None:
            names = find(module, name)
            if names == _embedding(module, "weight") and (said := _POSITIONS.search(path)):
                names = ["position" if said[1] else "type", "feature"]
            return names if names is not None and len(names) == len(shape) else None
    return None


def kinds_of(module: Any) -> list[str]:
    """The names of the classes of a module, most derived first; a scripted module knows its original class."""
    original = getattr(module, "original_name", None)
    if isinstance(original, str):
        return [original]
    return [
        f"transformers.{kind.__name__}" if kind.__module__.startswith("transformers.pytorch_utils") else kind.__name__
        for kind in type(module).__mro__
    ]


def _linear(module: Any, name: str) -> list[str] | None:
    return {"weight": ["out", "in"], "bias": ["out"]}.get(name)


def _linear_transposed(module: Any, name: str) -> list[str] | None:
    return {"weight": ["in", "out"], "bias": ["out"]}.get(name)


def _bilinear(module: Any, name: str) -> list[str] | None:
    return {"weight": ["out", "in1", "in2"], "bias": ["out"]}.get(name)


def _embedding(module: Any, name: str) -> list[str] | None:
    return {"weight": ["vocab", "feature"]}.get(name)


def _conv(space: int, *, transposed: bool = False) -> Callable[[Any, str], list[str] | None]:
    def find(module: Any, name: str) -> list[str] | None:
        inner = "/groups" if getattr(module, "groups", 1) != 1 else ""
        sides = ["in", f"out{inner}"] if transposed else ["out", f"in{inner}"]
        return {"weight": [*sides, *_SPACE[space]], "bias": ["out"]}.get(name)

    return find


def _norm(module: Any, name: str) -> list[str] | None:
    shape = getattr(module, "normalized_shape", None)
    many = isinstance(shape, tuple) and len(shape) > 1
    feature = [f"feature{axis}" for axis in range(len(shape))] if many and shape is not None else ["feature"]
    if name in ("weight", "bias", "running_mean", "running_var"):
        return feature
    return [] if name == "num_batches_tracked" else None


def _recurrent(gates: int) -> Callable[[Any, str], list[str] | None]:
    rows = "hidden" if gates == 1 else f"{gates}*hidden"

    def find(module: Any, name: str) -> list[str] | None:
        projected = bool(getattr(module, "proj_size", 0))
        state = "proj" if projected else "hidden"
        layer = re.search(r"_l(\d+)(_reverse)?$", name)
        first = layer is None or layer[1] == "0"
        below = "in" if first else f"2*{state}" if getattr(module, "bidirectional", False) else state
        kind = name if layer is None else name[: layer.start()]
        return {
            "weight_ih": [rows, below],
            "weight_hh": [rows, state],
            "bias_ih": [rows],
            "bias_hh": [rows],
            "weight_hr": ["proj", "hidden"],
        }.get(kind)

    return find


def _attention(module: Any, name: str) -> list[str] | None:
    return {
        "in_proj_weight": ["3*model", "model"],
        "in_proj_bias": ["3*model"],
        "q_proj_weight": ["model", "model"],
        "k_proj_weight": ["model", "key"],
        "v_proj_weight": ["model", "value"],
        "bias_k": ["1", "1", "model"],
        "bias_v": ["1", "1", "model"],
    }.get(name)


def _prelu(module: Any, name: str) -> list[str] | None:
    return {"weight": ["feature"]}.get(name)


_BY_TYPE: dict[str, Callable[[Any, str], list[str] | None]] = {
    "Linear": _linear,
    "transformers.Conv1D": _linear_transposed,  # in GPT-2: a Linear with a transposed weight
    "Bilinear": _bilinear,
    "Embedding": _embedding,
    "EmbeddingBag": _embedding,
    "Conv1d": _conv(1),
    "Conv2d": _conv(2),
    "Conv3d": _conv(3),
    "ConvTranspose1d": _conv(1, transposed=True),
    "ConvTranspose2d": _conv(2, transposed=True),
    "ConvTranspose3d": _conv(3, transposed=True),
    "LSTM": _recurrent(4),
    "LSTMCell": _recurrent(4),
    "GRU": _recurrent(3),
    "GRUCell": _recurrent(3),
    "RNN": _recurrent(1),
    "RNNCell": _recurrent(1),
    "MultiheadAttention": _attention,
    "PReLU": _prelu,
}
