"""The ops that a page supports, by the names of rfnb's ops; other ops are replaced by the ops inside them. `widgets/src/engine/ops.ts`
implements them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import BoundArguments
from types import NoneType
from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import type_error
from rfnb.core.op import Op
from rfnb.core.strict_json import JsonObject
from rfnb.core.tensor import Tensor
from rfnb.nn.recurrent.lstm import LSTM
from rfnb.ops.math import kind_of
from rfnb.search.options import ChoiceOptions

ONE = """abs ceil cos exp expm1 floor gelu identity log log1p log_sigmoid logical_not neg reciprocal relu relu_square round rsqrt selu
sigmoid silu sin sqrt square tanh""".split()
TWO = """add sub mul truediv floordiv mod pow maximum minimum equal not_equal less less_equal greater greater_equal logical_and logical_or
squared_difference log_add_exp""".split()
OVER = """reduce_sum reduce_mean reduce_max reduce_min reduce_logsumexp reduce_any reduce_all reduce_argmax softmax log_softmax
reverse_sequence""".split()
OTHER = """LSTM attended cast choice concat convert_to_tensor copy_compatible_to_dims copy_transpose ctc_prefix_beam_search cumsum
dot_attention expand_dim full gather get_beam_scores linear matmul merge_dims ones ones_like range_over_dim replace_dim set_sparse_dim slice
split split_dims squeeze stop_gradient top_k where zeros zeros_like""".split()
DECIDES = ["ctc_prefix_beam_search"]  # the number of results depends on the data
OTHERWISE = ["combine", "combine_bc", "compare", "compare_bc", "concat_features"]  # these also stand for other ops
DTYPES = ("float32", "float64", "int32", "int64", "bool")
MAKES_DIM = ("slice", "replace_dim", "merge_dims", "concat", "top_k")  # the dim that they give is told
BY_SIZE = (
    "convert_to_tensor",
    "expand_dim",
    "full",
    "ones",
    "range_over_dim",
    "split",
    "split_dims",
    "top_k",
    "zeros",
)  # these need sizes
POSITIONS = """copy_transpose copy_compatible_to_dims expand_dim zeros ones full range_over_dim convert_to_tensor replace_dim set_sparse_dim
squeeze""".split()  # ops for which lengths do not matter
_ALWAYS = {"scores", "axis", "beam_size", "end_label"}
_CHOICE = _ALWAYS | {
    "prob_scale", "base_beam_score_scale", "length_normalization", "length_normalization_exponent", "banned", "input_type",
    "no_repeat_ngram", "threshold",
}  # fmt: skip
_OF = ("rfnb.ops", "rfnb.core", "rfnb.nn.attention", "rfnb.nn.recurrent.lstm", "rfnb.search")

# Modules that are single ops: their weights and dims, by name.
_MODULES: dict[type, Callable[[Any], Mapping[str, Any]]] = {
    LSTM: lambda own: {"ff_weight": own.ff_weight, "rec_weight": own.rec_weight, "bias": own.bias, "in_dim": own.in_dim}
}


# Of ops with further parameters: those that a page reads, or that change nothing in it.
_READ = {name: "source axis use_mask distributed" for name in OVER if name.startswith("reduce_")} | {
    "reverse_sequence": "tensor axis handle_dynamic_dims",
    "softmax": "a axis use_mask",
    "log_softmax": "a axis use_mask",
    "cast": "tensor dtype",
    "concat": "sources allow_broadcast out_dim handle_dynamic_dims",
    "concat_features": "sources allow_broadcast",
    "dot_attention": "query keys values key_dim axis att_dropout att_dropout_broadcast scale",
    "full": "dims fill_value dtype sparse_dim feature_dim",
    "gather": "source indices axis clip_to_valid",
    "matmul": "a b reduce use_mask",
    "merge_dims": "source dims out_dim",
    "range_over_dim": "dim dtype",
    "slice": "source axis start end step size out_dim",
    "split_dims": "source axis dims",
    "top_k": "source axis k k_dim sorted",
    "where": "cond true_ false_ allow_broadcast_all_sources",
}  # fmt: skip
_NUMBERS = {"top_k": ("k",), "full": ("fill_value",), "slice": ("start", "end", "size", "step")}
_NAMES = {*ONE, *TWO, *OVER, *OTHER, *OTHERWISE}


def known(op: Op) -> str | None:
    """The name of an op in a page, or None."""
    return op.name if op.name in _NAMES and op.fn.__module__.startswith(_OF) else None


def is_read(name: str, bound: BoundArguments) -> bool:
    """True if a page reads all that an op is given; if not, it has the ops inside."""
    usual = bound.signature.parameters
    given = {what: value for what, value in bound.arguments.items() if value is not usual[what].default}
    read = _READ[name].split() if name in _READ else ("a", "b") if name in TWO else given
    plain = all(isinstance(given.get(what, 0), (int, float, NoneType)) for what in _NUMBERS.get(name, ()))
    others = [value for what, value in given.items() if what not in read and what not in _SAME]
    plain = plain and (name != "top_k" or isinstance(given["axis"], Dim))  # over one axis
    return plain and not any(isinstance(value, Tensor) or value for value in others)


_SAME = ("allow_broadcast_all_sources", "dim_order", "device", "name")  # these change no value


def _options(given: Mapping[str, Any]) -> JsonObject:
    """The options of a choice that differ from their defaults.

    Raises:
        TypeError: If a page does not support one of them.
    """
    found = {name: value for name, value in given.items() if value is not None}
    usual = ChoiceOptions._field_defaults
    found = {name: value for name, value in found.items() if name in _ALWAYS or value != usual.get(name, value)}
    for name in found:
        if name not in _CHOICE:
            raise type_error(
                f"A page cannot search with {name}.",
                {"given": f"{name}={found[name]!r}"[:60]},
                f"A page supports these options of a choice: {', '.join(sorted(_CHOICE - _ALWAYS))}.",
            )
    if isinstance(found.get("banned"), Tensor) or isinstance(found.get("no_repeat_ngram"), (list, tuple)):
        raise type_error(
            "A page cannot search with banned labels given by a Tensor, or n-grams given by source.",
            [(name, type(found[name]).__name__) for name in ("banned", "no_repeat_ngram") if name in found],
            "A page supports labels that are banned in every step, and one n-gram length.",
            "rf.choice(scores, banned=[2, 5], no_repeat_ngram=3, ...)",
        )
    if found.get("banned") is not None:
        found["banned"] = [int(label) for label in found["banned"]]
    return found


def _of_alignments(given: Mapping[str, Any]) -> JsonObject:
    """The arguments of a prefix search.

    Raises:
        TypeError: If a page does not support one of its options.
    """
    others = [name for name in ("lm", "label_bonus", "allowed") if given[name]]
    if others:
        raise type_error(
            f"A page cannot search over alignments with {others[0]}.",
            {"given": f"{others[0]}={given[others[0]]!r}"[:60]},
            "A page supports a beam over the logits alone.",
            "rf.ctc_prefix_beam_search(logits, in_spatial_dim=time, blank_index=-1, beam_size=12)",
        )
    names = ("logits", "in_spatial_dim", "blank_index", "beam_size", "logits_normalized")
    return {**{name: given[name] for name in names}, "classes": given["wb_target_dim"] or given["logits"].feature_dim}


def lowered(op: str, given: Mapping[str, Any]) -> tuple[str, JsonObject]:
    """The name of an op in a page and its arguments: redundant ones are dropped, a module is replaced by its weights."""
    if op in ("concat_features", "concat"):
        pairs = [(each, each.feature_dim) if op == "concat_features" else each for each in given["sources"]]
        return "concat", {"sources": pairs}
    if op == "choice":
        return op, _options(given)
    if op == "ctc_prefix_beam_search":
        return op, _of_alignments(given)
    if op in ("combine", "combine_bc", "compare", "compare_bc"):
        return kind_of(given["kind"]), {"a": given["a"], "b": given["b"]}
    found: JsonObject = {}
    if op == "gather" and given["axis"] is None:
        given = {**given, "axis": given["indices"].sparse_dim}
    for name, value in given.items():
        kind = next((kind for kind in _MODULES if isinstance(value, kind)), None)
        if kind is not None:
            found |= {part: each for part, each in _MODULES[kind](value).items() if each is not None}
        elif value is not None and value is not False and name not in ("extra", "unknown", "device", "name"):
            found[name] = value
    return op, found
