"""Batched calls: what a function of torch has computed once, computed again for many inputs at once, without the function.

    with BatchedCalls() as calls:                      # notes each call of a function of torch
        out = f(x)
    calls.again(x, [out], many)                  # f of each row of {n, ...}: one call for all, through which gradients flow

What was decided is not decided again: whole numbers, masks, and which are the largest stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map


class BatchedCalls(TorchFunctionMode):
    """A block whose calls of functions of torch are noted.

    Attributes:
        made: The calls: function, arguments, keywords and result.
    """

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[Callable[..., Any], Any, Any, Any]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.note(func, args, kwargs or {}, func(*args, **(kwargs or {})))

    def note(self, func: Callable[..., Any], args: Any, kwargs: Any, out: Any) -> Any:
        """Note a call; gives its result."""
        if any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(out)):
            self.made.append((func, args, kwargs, out))
        return out

    def again(self, given: torch.Tensor, results: Sequence[torch.Tensor], many: torch.Tensor) -> list[torch.Tensor]:
        """The results for each row of `many` in the place of `given`, {n, ...} each.

        Raises:
            RuntimeError, NotImplementedError, TypeError, ValueError: If one of the functions cannot be called for several inputs at once.
        """

        def one(value: torch.Tensor) -> list[torch.Tensor]:
            known = {id(given): value}
            swap = lambda leaf: known.get(id(leaf), leaf)  # noqa: E731
            for func, args, kwargs, out in self.made:
                inputs = tree_leaves((args, kwargs))
                if not any(id(leaf) in known for leaf in inputs if isinstance(leaf, torch.Tensor)):
                    continue
                name = getattr(func, "__name__", "")
                if name.endswith("_") and not name.endswith("__"):  # in place: its result is its argument
                    func = getattr(torch.Tensor, name[:-1])
                call = _OTHERS.get(func, func)
                new = call(*tree_map(swap, args), **tree_map(swap, kwargs))
                if func in _CHOOSES:
                    new = (new[0].gather(_axis(func, args, kwargs), out[1]), out[1])
                for old, leaf in zip(tree_leaves(out), tree_leaves(new)):
                    if isinstance(old, torch.Tensor) and old.is_floating_point():
                        known[id(old)] = leaf
            if not any(id(result) in known for result in results):
                raise ValueError("nothing depends on it")
            return [known[id(result)] if id(result) in known else result + 0 * value.sum() for result in results]

        made: list[torch.Tensor] = torch.func.vmap(one)(many)
        return made


def _axis(func: Any, args: Any, kwargs: Any) -> int:
    place = 2 if func in (torch.topk, torch.Tensor.topk) else 1
    return int(kwargs.get("dim", args[place] if len(args) > place else -1))


def _chosen(source: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, None]:
    """The values that the largest are taken of."""
    return source, None


def _lstm_cell(
    x: torch.Tensor, state: Sequence[torch.Tensor], of_x: Any, of_h: Any, *biases: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """torch.lstm_cell of simple operations: that itself is not computed for several inputs at once."""
    gates = x @ of_x.T + state[0] @ of_h.T
    for bias in biases:
        gates = gates + bias
    i, f, g, o = gates.chunk(4, -1)
    c = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def _lstm(
    x: torch.Tensor, state: Sequence[torch.Tensor], weights: Sequence[torch.Tensor], has_biases: bool, layers: int,
    dropout: float, train: bool, both_ways: bool, batch_first: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """torch.lstm of simple operations, without dropout."""
    size, ways = 4 if has_biases else 2, 2 if both_ways else 1
    if len(weights) != layers * ways * size or (train and dropout):
        raise NotImplementedError("an LSTM with projections or dropout")
    out, last = x.transpose(0, 1) if batch_first else x, list[tuple[torch.Tensor, torch.Tensor]]()
    for layer in range(layers):
        sides = []
        for way in range(ways):
            number = layer * ways + way
            own, h = weights[number * size : (number + 1) * size], (state[0][number], state[1][number])
            steps = list[torch.Tensor]()
            for frame in out.unbind(0)[:: -1 if way else 1]:
                h = _lstm_cell(frame, h, *own)
                steps.append(h[0])
            last.append(h)
            sides.append(torch.stack(steps[:: -1 if way else 1]))
        out = torch.cat(sides, -1)
    hs, cs = (torch.stack(each) for each in zip(*last))
    return out.transpose(0, 1) if batch_first else out, hs, cs


def _attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> torch.Tensor:  # fmt: skip
    """scaled_dot_product_attention of simple operations, without dropout."""
    if dropout_p or enable_gqa:
        raise NotImplementedError("attention with dropout, or heads that share their keys")
    energies = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(energies.shape[-2:], dtype=torch.bool, device=energies.device).tril()
    if attn_mask is not None:
        energies = energies.where(attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else energies + attn_mask
    return energies.softmax(-1) @ value


_CHOOSES = {torch.topk, torch.Tensor.topk, torch.sort, torch.Tensor.sort}
_OTHERS: dict[Any, Callable[..., Any]] = {
    torch.nn.functional.scaled_dot_product_attention: _attention,
    torch.lstm: _lstm,
    torch.lstm_cell: _lstm_cell,
    torch.Tensor.detach: lambda source: source,
    **dict.fromkeys(_CHOOSES, _chosen),
}
