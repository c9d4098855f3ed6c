"""Advice for unknown names: `rf.reduce_men`, `rf.Dropout`, `rf.cat`.

A name that a later release removes works until then, and warns once with what to type instead. docs/contracts/files.md has the policy.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import Any, NamedTuple

from rfnb.core.errors import message
from rfnb.core.place import warn_user
from rfnb.places.lazy_names import LATER_NAMES, load

# Documented names that do not exist here, by reason.
ABSENT = {
    "Sequences are stored with padding, which ops leave out; there is no packed storage. Use the padded tensor as it is.": (
        "is_packed pack pack_import packed_flat_content packed_regap unpack"
    ),
    "Values are computed at once; there is no graph that is traced once for all sizes. Leave the call out.": (
        "is_static_traceable set_static_traceable set_static_traceable_ctx static_traceable_generation"
    ),
    "A loop is an iterator, not a module: `for _ in loop:` or `with loop:`, see rf.Loop.": "LoopModule",
    "Parameters of ESPnet are not imported yet. Assign them by name: parameter.assign(array).": (
        "import_params_espnet_convolutional_gating_mlp_to_rf import_params_espnet_e_branchformer_layer_to_rf"
        " import_params_espnet_multi_headed_attention_to_rf import_params_espnet_positionwise_feed_forward_to_rf"
    ),
}
# Names of torch and NumPy -> the equivalent here. Names that differ only in case are found without this.
INSTEAD = {
    "arange": "rf.range_over_dim(dim)",
    "argmax": "rf.reduce_argmax(x, axis=dim)",
    "as_tensor": "rf.convert_to_tensor(array, dims=[...])",
    "bmm": "rf.matmul(a, b, reduce=dim)",
    "cat": "rf.concat((a, a_dim), (b, b_dim))",
    "chunk": "rf.split(x, axis=dim, out_dims=[...])",
    "clamp": "rf.clip_by_value(x, low, high)",
    "clip": "rf.clip_by_value(x, low, high)",
    "CrossEntropyLoss": 'rf.cross_entropy(estimated=logits, estimated_type="logits", target=labels, axis=vocab)',
    "CTCLoss": "rf.ctc_loss(logits=..., targets=..., ...)",
    "einsum": "rf.matmul(a, b, reduce=dim)",
    "enable_grad": "rf.set_requires_gradient(x)",
    "expand": "rf.expand_dim(x, dim=dim)",
    "flatten": "rf.merge_dims(x, dims=[...])",
    "from_numpy": "rf.convert_to_tensor(array, dims=[...])",
    "index_select": "rf.gather(x, indices=..., axis=dim)",
    "masked_fill": "rf.where(mask, value, x)",
    "max": "rf.reduce_max(x, axis=dim)    # of two tensors: rf.maximum(a, b)",
    "mean": "rf.reduce_mean(x, axis=dim)",
    "min": "rf.reduce_min(x, axis=dim)    # of two tensors: rf.minimum(a, b)",
    "mm": "rf.matmul(a, b, reduce=dim)",
    "ModuleDict": 'rf.ModuleList({"name": module})',
    "MultiheadAttention": "rf.SelfAttention(...), rf.CrossAttention(...)",
    "no_grad": "rf.stop_gradient_scope()",
    "numel": "x.num_elements()",
    "permute": "x.copy_transpose([...])",
    "randint": 'rf.random_uniform([...], dtype="int32", maxval=n)',
    "randn": "rf.random_normal([...])",
    "sum": "rf.reduce_sum(x, axis=dim)",
    "topk": "rf.top_k(x, axis=dim, k=n)",
    "transpose": "x.copy_transpose([...])",
    "unsqueeze": "rf.expand_dim(x, dim=dim)",
    "view": "rf.merge_dims(x, dims=[...]), rf.split_dims(x, axis=dim, dims=[...])",
}


def of_rfnb(name: str) -> Any:
    """`__getattr__` of the package: import a public name, or return the replacement of a deprecated one; else raise an
    AttributeError with advice.
    """
    if name in LATER_NAMES:
        return load(name)
    if f"rfnb.{name}" in DEPRECATED:
        return deprecated("rfnb", name)
    raise no_name("rfnb", name, [other for other in names_of_rfnb() if not other.startswith("_")])


def names_of_rfnb() -> list[str]:
    """`__dir__` of the package: the public names, including those not yet imported, without the modules that Python and
    `places/paths.py` bind to it. Completion offers this list.
    """
    module = vars(sys.modules["rfnb"])
    return sorted({*module["__all__"], *(name for name in module if name.startswith("__"))})


def no_name(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """The error for an unknown name of a module: the reason, or the most similar names."""
    what = f"{module} has no {name!r}."
    if name.startswith("_"):  # requested by Python and tools on every module
        return AttributeError(what, name=name)
    for reason, absent in ABSENT.items():
        if name in absent.split():
            text = message(what, [], f"It is documented, but not offered. {reason}")
            return AttributeError(text, name=name)
    if name in INSTEAD:
        return AttributeError(
            message(what, [], "Functions here name the dims that they work on:", INSTEAD[name]), name=name
        )
    plain = {_plain(other): other for other in names}
    near = [_plain(name)] if _plain(name) in plain else difflib.get_close_matches(_plain(name), plain, n=3, cutoff=0.7)
    short = "rf" if module == "rfnb" else module
    if not near:
        return AttributeError(message(what, [], "What there is:", f"dir({short})"), name=name)
    lines = "\n".join(f"{short}.{plain[other]}" for other in near)
    return AttributeError(message(what, [], "Did you mean", lines), name=name)


def _plain(name: str) -> str:
    """The name without case and underscores: `LogSoftmax` in torch is `log_softmax` here."""
    return name.lower().replace("_", "")


class Deprecated(NamedTuple):
    """A deprecated name.

    Attributes:
        now: Its replacement: "module:name".
        line: The code to type instead.
        since, gone: The first release that warns, and the first without it.
    """

    now: str
    line: str
    since: str
    gone: str


DEPRECATED: dict[str, Deprecated] = {}  # by name with its module, e.g. "rfnb.reduce_something"
_said: set[str] = set()


def deprecated(module: str, name: str) -> Any:
    """The replacement of a deprecated name of a module, with a warning the first time.

    Raises:
        KeyError: If the name is not deprecated.
    """
    full = f"{module}.{name}"
    entry = DEPRECATED[full]
    if full not in _said:
        _said.add(full)
        rows = [("since", f"rfnb {entry.since}"), ("gone in", f"rfnb {entry.gone}")]
        warn_user(
            message(f"{full} is deprecated.", rows, "It works until then. Type instead:", entry.line), FutureWarning
        )
    place, _, attribute = entry.now.partition(":")
    return getattr(import_module(place), attribute)
