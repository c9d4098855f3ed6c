"""The entries of the table for self-attention that knows positions."""

from __future__ import annotations

from typing import Any

from table import case
from table_layers import of_module
from world import World

import rfnb as rf
from rfnb import Tensor

_SHAW = {"with_linear_pos": False, "with_pos_bias": False, "learnable_pos_emb": True, "learnable_pos_emb_clipping": 1}
_KINDS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "RotaryPos": [("", {})],
    "RelPos": [("", {}), ("learned", _SHAW), ("shared by the heads", {"separate_pos_emb_per_head": False})],
}


def _options(w: World) -> dict[str, Any]:
    return {"key_dim_total": 4 * w.feat, "value_dim_total": 2 * w.out, "num_heads": 2}


for _kind, _variants in _KINDS.items():
    for _label, _extra in _variants:

        @case(f"{_kind}SelfAttention", _label)
        def _full(w: World, kind: str = _kind, extra: dict[str, Any] = _extra) -> Any:
            make = lambda: getattr(rf, f"{kind}SelfAttention")(w.feat, w.classes, **_options(w), **extra)  # noqa: E731
            return of_module(w, make, lambda module, x: module(x, axis=w.time), [w.floats(w.batch, w.time, w.feat)])

        @case(f"{_kind}CausalSelfAttention", "a sequence, another one, a step", _label)
        def _parts(w: World, kind: str = _kind, extra: dict[str, Any] = _extra) -> Any:
            def call(module: Any, a: Tensor, b: Tensor, c: Tensor) -> Any:
                out_a, state = module(a, w.time, state=module.default_initial_state(batch_dims=[w.batch]))
                out_b, state = module(b, w.source, state=state)
                return out_a, out_b, module(c, rf.single_step_dim, state=state)[0]

            make = lambda: getattr(rf, f"{kind}CausalSelfAttention")(w.feat, w.classes, **_options(w), **extra)  # noqa: E731
            inputs = [w.floats(w.batch, w.time, w.feat), w.floats(w.batch, w.source, w.feat), w.floats(w.batch, w.feat)]
            return of_module(w, make, call, inputs)


@case("LearnedRelativePositionalEncoding")
def _learned(w: World) -> Any:
    causal = bool(w.rng.integers(2))

    def call(module: Any, offset: Tensor) -> Any:
        dims = {"query_spatial_dim": w.time, "key_value_spatial_dim": w.source}
        some = [module.full_matrix(**dims, query_offset=o) for o in (None, 2, offset)]
        return [*some, *(module(**dims, query_offset=o)[0] for o in (None, 2, offset))]

    make = lambda: rf.LearnedRelativePositionalEncoding(w.out, clipping=2, causal=causal)  # noqa: E731
    return of_module(w, make, call, [w.ints(w.batch, low=0, high=4)])


@case("relative_positional_encoding", "with an offset per sequence")
def _relative(w: World) -> Any:
    dims = {"query_spatial_dim": w.time, "key_value_spatial_dim": w.source, "feat_dim": w.out}
    return lambda offset: rf.relative_positional_encoding(**dims, query_offset=offset)[0], [w.ints(w.batch)]
