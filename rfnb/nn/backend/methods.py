"""Binds the documented methods of Backend that are written once for all backends, and are no backend's own.

`Backend.matmul` is `rf.matmul`: a method in a class costs nothing more than the function. What a backend may replace are the raw
methods that these functions call; see `docs/backend.md`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from rfnb.backends.protocol import Backend
from rfnb.nn.backend import adapters, attention

# The public function of the same name.
SAME = (
    "assert_ get_tensor_dependencies get_tensor_consumers cond while_loop copy_to_device copy cast set_requires_gradient gradient"
    " stop_gradient stop_gradient_scope scaled_gradient scaled_gradient_ext gradient_checkpoint_scope split_dims reshape split"
    " expand_dim squeeze unstack safe_log softmax log_softmax ctc_loss ctc_best_path edit_distance convert_to_tensor compare"
    " combine gather scatter where sort search_sorted is_finite is_infinite is_neg_infinite clip_by_value lerp cumsum matmul"
    " range_over_dim set_sparse_dim reduce top_k random random_choice_with_replacement masked_select masked_scatter conv"
    " transposed_conv pool real_as_complex complex_as_real make_complex cum_concat_step"
).split()
# The same without the new dim, which the documented method does not return.
FIRST = "merge_dims concat pad stack slice replace_dim stft".split()
ADAPTED: dict[str, Any] = {
    **{
        name: made
        for name, made in vars(adapters).items()
        if inspect.isfunction(made) and made.__module__ == adapters.__name__ and not name.startswith("_")
    },
    "scaled_dot_product_attention": attention.scaled_dot_product_attention,
    "rel_pos_self_attention": attention.rel_pos_self_attention,
    "apply_rope": attention.apply_rope,
}


def bind(public: Mapping[str, Any]) -> None:
    """Make the functions methods of Backend.

    Args:
        public: The public names of rfnb.
    """
    functions = {name: public[name] for name in SAME if name in public}
    functions |= {name: _first(public[name]) for name in FIRST if name in public}
    functions |= ADAPTED
    for name, function in functions.items():
        setattr(Backend, name, staticmethod(function))
    Backend._of_tensors = frozenset(functions)


def _first(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)[0]

    return method
