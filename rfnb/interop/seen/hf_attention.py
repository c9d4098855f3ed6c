"""Attention in transformers: a model selects its attention function by name, and calls it with queries and keys.

    attention_interface(module, query, key, value, attention_mask, scaling=..., **more) -> output, weights or None

The requested implementation is observed, whatever its name ("eager", "sdpa", "flash_attention_2", a registered one), so
models need no specific code here. If the function returns weights, these are sent; otherwise they are computed from
queries and keys on demand, and a few rows are checked against the function's result. Models with their own attention
code are observed at their softmax (`hf_softmax.py`).
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch

from rfnb.core.block import Setting
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.interop.seen.attention import by_rows, weights_over
from rfnb.interop.seen.calls import Call, current
from rfnb.interop.seen.function_calls import _unheard, apart, files_of, replaces
from rfnb.interop.seen.hf_cache import KeyPositions, cached_dims, every, is_told, places_of
from rfnb.interop.seen.hf_scores import Scored, scale_of
from rfnb.interop.seen.names import Names
from rfnb.interop.seen.replacements import Place
from rfnb.interop.seen.snapshot import held, version_of
from rfnb.interop.seen.streams import is_cross
from rfnb.interop.seen.value_edits import EDITED, with_function
from rfnb.trace.editing import editing
from rfnb.trace.long_attention import is_large
from rfnb.trace.probe import Later, listening, probe_later
from rfnb.viz.dims.transformers_rows import CACHE_NAMES

_EAGER = re.compile(r"(^|_)eager_attention_forward$")
_MOST_CELLS = 1 << 22
_checked: weakref.WeakKeyDictionary[Names, set[Any]] = weakref.WeakKeyDictionary()


@replaces
def functions_by_name(modules: list[torch.nn.Module]) -> Iterator[Place]:
    """The functions that transformers models select by name, and those in their files for "eager"."""
    kind = getattr(sys.modules.get("transformers.modeling_utils"), "AttentionInterface", None)
    if kind is None:
        return
    for name in ("__getitem__", "get_interface"):
        if hasattr(kind, name):
            yield kind, name, _asking
    for file in files_of(modules):
        if "eager_attention_forward" in " ".join(vars(file)):  # in few of them
            for name, value in list(vars(file).items()):
                if _EAGER.search(name) and callable(value):
                    yield file, name, _seeing


def _asking(original: Any) -> Any:
    @functools.wraps(original)
    def asked(*args: Any, **kwargs: Any) -> Any:
        function = original(*args, **kwargs)
        return function if current() is None else _seeing(function)

    return asked


def _seeing(function: Any) -> Any:
    if getattr(function, "_rfnb_seen", False) or not callable(function):
        return function
    return _seen_as(function) if isinstance(function, FunctionType) else _seen_as.__wrapped__(function)


@functools.lru_cache(maxsize=64)  # a model asks for its function in each call
def _seen_as(function: Any) -> Any:
    @functools.wraps(function)
    def seen(
        module: Any, query: Any, key: Any, value: Any, attention_mask: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        call = current()
        if call is None or not (listening("attention") or editing.get()):
            return function(module, query, key, value, attention_mask, *args, **kwargs)

        def run(query: Any, key: Any, value: Any) -> Any:
            with Setting(_unheard, lambda: _unheard.set(True)):
                return function(module, query, key, value, attention_mask, *args, **kwargs)

        query, key, value, result = with_function(call, function, query, key, value, run)
        if listening("attention"):
            apart(call, _tell, call, function, module, query, key, value, attention_mask, kwargs, result)
        return result

    seen._rfnb_seen = True  # type: ignore[attr-defined]
    return seen


def _tell(
    call: Call,
    function: Any,
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    mask: Any,
    given: dict[str, Any],
    result: Any,
) -> None:
    output, weights = result if isinstance(result, tuple) else (result, None)
    edited = call.seen.pop(EDITED, None)
    weights = weights if edited is None else edited
    if query.ndim != 4 or key.ndim != 4 or key.shape[0] != query.shape[0] or query.shape[1] % key.shape[1]:
        raise ValueError(
            f"queries {tuple(query.shape)} and keys {tuple(key.shape)} are not (batch, head, positions, feature)"
        )
    if any(given.get(name) is not None for name in ("cu_seq_lens_q", "cu_seq_lens_k")) and weights is None:
        raise ValueError("sequences are concatenated, and only the attention function knows where each ends")
    if is_told(call, query, key, mask):
        return
    eager = bool(_EAGER.search(getattr(function, "__name__", "")))
    places = places_of(call, key, key.shape[2], query.shape[2])
    if places is not None:
        key, value = _of_cache(key, places), places.filled(value, 2)
        bias = {name: places.filled(given[name]) for name in ("position_bias",) if name in given}
        mask, weights, given = places.filled(mask), places.filled(weights), {**given, **bias}
    scored = _scored(function, module, query, key, mask, given)
    dropout = float(given.get("dropout") or 0.0)
    own = held(weights) if isinstance(weights, torch.Tensor) and tuple(weights.shape) == scored.shape else None
    # Queries and keys may have lower precision, and no dropout applies; results of other functions are not converted.
    if (
        own is not None
        and edited is None
        and not own.requires_grad
        and eager
        and not _odd(given)
        and (dropout or own.nbytes > scored.num_bytes)
    ):
        own = None
    error = None if own is not None or dropout else _error_of(call, scored, value, output)
    offer(call, scored, places or every(key.shape[2]), own, error)


def offer(
    call: Call,
    scored: Scored,
    places: KeyPositions,
    own: torch.Tensor | None,
    error: Callable[[], torch.Tensor] | None = None,
) -> None:
    """Send weights over keys at these positions as an event.

    Args:
        own: The weights computed by the model; otherwise they are computed from queries and keys.
        error: Returns the difference between the recomputed output and that of the model, relative to the size of the values.
    """
    dims = cached_dims(call, scored.shape, places)
    versions = [(raw, version_of(raw)) for raw in (scored.query, scored.key)]
    shared, cross = scored.query.shape[1] // scored.key.shape[1], is_cross(call)

    def make() -> dict[str, Any]:
        over, remarks = scored.placed(places), list[str]()
        if own is None and any(version_of(each) != version for each, version in versions):
            remarks.append("These are not the weights of the model: it has changed its queries or keys in place since.")
        elif error is not None and not (differs := float(error())) < _tolerance(scored.query.dtype):
            remarks.append(
                "These may not be the weights of the model: applied to its values, they do not reproduce its result "
                f"(the difference is {differs:.1g} of their size). Its attention function does more than rfnb knows."
            )
        if shared > 1:
            remarks.append(f"{shared} query heads share one key head: heads 0 to {shared - 1}, and so on.")
        if scored.sinks is not None:
            remarks.append("Rows sum to less than 1: the rest goes to a learned sink, which is not a position.")
        if own is None and is_large(over.shape) and over.is_plain:
            given: dict[str, Any] = {"causal": over.causal, "scale": over.scale, "window": over.window}
            values = by_rows(over.query, over.key, dims, mask=over.added(), **given)
        else:
            raw = over.weights() if own is None else places.placed(own.float())
            values = weights_over(raw, dims) | _masks(over, dims)
        return places.remarked(values | ({"cross": True} if cross else {}), remarks)

    count = own.nbytes if own is not None else scored.num_bytes
    probe_later("attention", Later(make, count))


def _masks(scored: Scored, dims: tuple[Dim, Dim, Dim, Dim]) -> dict[str, Any]:
    """Set what is masked beyond the padding in the dims; "causal" if it is exactly the causal mask."""
    batch, _, target, source = dims
    sizes = scored.shape
    is_plain = scored.mask is None and scored.window is None and sizes[2] == sizes[3]
    if is_plain and target.size is not None and source.size is not None:  # neither has lengths
        return {"causal": scored.causal and sizes[2] > 1}
    with torch.no_grad():
        seen = scored.seen(0, sizes[2])
        masked = scored.masked()
        if masked is None and seen is None:
            return {"causal": False}
        allowed = torch.ones((1, 1, *sizes[2:]), dtype=torch.bool, device=scored.query.device)
        for part in (masked, seen):
            allowed = allowed if part is None else allowed & part
        real = torch.ones((1, 1, *sizes[2:]), dtype=torch.bool, device=allowed.device)
        for dim, axis in ((target, 2), (source, 3)):
            if dim.lengths is not None and tuple(dim.length_dims) == (batch,):
                ends = torch.as_tensor(dim.lengths, device=allowed.device).reshape(-1, 1, 1, 1)
                at = torch.arange(sizes[axis], device=allowed.device)
                real = real & (at.reshape((1, 1, -1, 1) if axis == 2 else (1, 1, 1, -1)) < ends)
        ahead = torch.ones(sizes[2:], dtype=torch.bool, device=allowed.device).tril(sizes[3] - sizes[2])
        if bool((allowed | ~real).all()):
            return {"causal": False}
        if bool(((allowed == ahead) | ~real).all()):
            return {"causal": True}
        # A padding position sees nothing relevant; nor does a position that nothing may see.
        column = allowed.any(2, keepdim=True)
        if sizes[2] == sizes[3] and not is_twinless(target, source):
            allowed = allowed & column.transpose(2, 3)
        kept = [index for index in range(4) if allowed.shape[index] > 1 or index > 1]
        raw = allowed.reshape([allowed.shape[index] for index in kept])
        return {"mask": Tensor("mask", [dims[index] for index in kept], raw_tensor=raw), "causal": False}


def is_twinless(target: Dim, source: Dim) -> bool:
    """Whether the two are over different positions."""
    return (source.twin_of or source) is not (target.twin_of or target)


def _scored(function: Any, module: Any, query: Any, key: Any, mask: Any, given: dict[str, Any]) -> Scored:
    name = getattr(function, "__name__", "")
    wide = mask is not None and (not isinstance(mask, torch.Tensor) or mask.ndim == 4)  # it includes everything
    eager, sdpa = bool(_EAGER.search(name)), name == "sdpa_attention_forward"  # the masks of these include everything
    # The kernels of flash attention read it from the module only; others have a parameter for it.
    told = given.get("is_causal") if _has_causal(function) else None
    causal = bool(getattr(module, "is_causal", True) if told is None else told)
    sinks = next((given[each] for each in ("s_aux", "sinks") if given.get(each) is not None), None)
    if sdpa:  # it supports neither
        sinks = None
    if sinks is None and eager:
        sinks = getattr(module, "sinks", None)
    window = given.get("sliding_window")
    return Scored(
        query.detach(), key.detach(), scale_of(query, given.get("scaling", getattr(module, "scaling", None))),
        mask=mask.detach() if isinstance(mask, torch.Tensor) else mask,
        bias=given["position_bias"].detach() if given.get("position_bias") is not None else None,
        causal=causal and not wide and not eager and not (sdpa and mask is not None),
        window=int(window) if window is not None and not wide and not eager and not sdpa else None,
        softcap=None if sdpa else given.get("softcap"), sinks=sinks.detach() if isinstance(sinks, torch.Tensor) else None,
    )  # fmt: skip


def _of_cache(key: torch.Tensor, places: KeyPositions) -> torch.Tensor:
    """The keys without empty cache slots. Keys of a cache that is written in place are copied."""
    filled = places.filled(key, 2)
    return filled.clone() if filled is not key or key.is_inference() or key._version else key


def _has_causal(function: Any) -> bool:
    """Whether a function has a parameter for causality."""
    try:
        known = _causal.get(function)
        if known is None:
            known = _causal[function] = "is_causal" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return known


_causal: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


_KNOWN = {
    "dropout", "scaling", "is_causal", "sliding_window", "softcap", "s_aux", "sinks", "position_bias", "output_attentions",
    "output_hidden_states", "position_ids", "use_cache", "cache_position", "position_embeddings", "return_dict", "deterministic",
    "num_items_in_batch", "output_router_logits", *CACHE_NAMES, "head_mask", "layer_head_mask",
}  # fmt: skip


def _odd(given: dict[str, Any]) -> bool:
    """Whether an attention function receives an option that may change its weights in an unknown way."""
    return any(value is not None and name not in _KNOWN for name, value in given.items())


def _error_of(call: Call, scored: Scored, value: Any, output: Any) -> Callable[[], torch.Tensor] | None:
    """A function that computes, when the weights are read, the difference of the output recomputed from a few rows,
    relative to the size of the values; once per kind of call of a module.
    """
    done = _checked.setdefault(call.names, set())
    targets, sources = scored.shape[2:]
    case = (id(call.module), targets == 1, targets == sources)
    if case in done or not isinstance(output, torch.Tensor) or not isinstance(value, torch.Tensor):
        return None
    done.add(case)
    batch, heads = scored.shape[:2]
    if tuple(output.shape[:3]) != (batch, targets, heads) or output.shape[-1] != value.shape[-1]:
        return None
    if hasattr(scored.mask, "mask_mod") and targets * sources > _MOST_CELLS:  # it would be materialised for that
        return None
    rows = sorted({targets // 2, targets - 1})
    with torch.no_grad():  # the model may change these
        values, wanted = value[:1].clone(), [output[:1, row].clone() for row in rows]
    if is_large(scored.shape):
        found = _error(scored, values, rows, wanted)
        return lambda: found
    return lambda: _error(scored, values, rows, wanted)


def _error(scored: Scored, values: torch.Tensor, rows: list[int], wanted: list[torch.Tensor]) -> torch.Tensor:
    few = scored.first_entry()
    with torch.no_grad():
        groups = scored.shape[1] // values.shape[1]
        values = values.float()
        values = values.repeat_interleave(groups, 1) if groups > 1 else values
        seen, worst = few.masked(), torch.zeros((), device=values.device)
        for row, output in zip(rows, wanted):
            own = (few.weights(row, row + 1) @ values)[:, :, 0]
            difference = (own - output.float()).abs()
            if seen is not None:  # a row without visible positions is arbitrary
                difference = difference * seen[:, :, row if seen.shape[2] > 1 else 0].any(-1)[..., None]
            worst = torch.maximum(worst, torch.nan_to_num(difference, nan=0.0 if seen is not None else math.inf).amax())
        return worst / (values.abs().amax() + 1e-30)


def _tolerance(dtype: torch.dtype) -> float:
    return 0.05 if dtype in (torch.bfloat16, torch.float16) else 1e-3
