"""Batched replay: repeat recorded torch computations for many inputs at once, without the original function.

    with BatchedCalls() as calls:                      # records each call of a torch function
        out = f(x)
    again = CallsAgain(calls.made, x, [out])           # the calls between x and out, each once
    again(many)                                        # f for each row of {n, ...}: one differentiable call for all

Discrete values are not recomputed: integers, masks, and the indices of maxima are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

Call = tuple[Callable[..., Any], Any, Any, Any]
_SMALL = 4096  # tensors up to this size are compared by value, to find equal calls


class BatchedCalls(TorchFunctionMode):
    """A block in which calls of torch functions are recorded.

    Attributes:
        made: The calls: function, arguments, keywords and result.
    """

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Call] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.note(func, args, kwargs or {}, func(*args, **(kwargs or {})))

    def note(self, func: Callable[..., Any], args: Any, kwargs: Any, out: Any) -> Any:
        """Record a call; returns its result."""
        if any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(out)):
            self.made.append((func, args, kwargs, out))
        return out


class _CallAgain(NamedTuple):
    """One call to repeat.

    Attributes:
        inputs, names: Arguments followed by keyword values, and the names of the keywords.
        direct, nested: Indices in `inputs` of values to replace, with their numbers; and of lists that contain such values.
        swapped: The numbers of the tensors in these lists, by id.
        outs: The numbers of the tensors in its result; None for constants.
        chosen: The indices of a maximum, and its axis.
    """

    call: Callable[..., Any]
    inputs: list[Any]
    names: tuple[str, ...]
    direct: list[tuple[int, int]]
    nested: list[int]
    swapped: dict[int, int]
    outs: list[int | None]
    chosen: tuple[int, torch.Tensor] | None

    def needs(self) -> set[int]:
        """The numbers of the values that it reads."""
        return {number for _, number in self.direct} | {*self.swapped.values()}

    def __call__(self, values: list[Any]) -> None:
        """Compute it from numbered values."""
        inputs = self.inputs.copy()
        for at, number in self.direct:
            inputs[at] = values[number]
        for at in self.nested:
            inputs[at] = tree_map(
                lambda leaf: values[self.swapped[id(leaf)]] if id(leaf) in self.swapped else leaf, inputs[at]
            )
        count = len(inputs) - len(self.names)
        new = self.call(*inputs[:count], **dict(zip(self.names, inputs[count:])))
        if self.chosen is not None:
            axis, index = self.chosen
            new = new[0].gather(axis, index), index
        for own, leaf in zip(self.outs, [new] if isinstance(new, torch.Tensor) else tree_leaves(new)):
            if own is not None:
                values[own] = leaf


class CallsAgain:
    """Recorded calls between an input and results, with equal calls merged.

    Args:
        calls: The calls of one block, or of several with the same input, in sequence.
        given: The input.
        results: The results to compute.

    Raises:
        ValueError: If no result depends on the input.
    """

    def __init__(self, calls: Sequence[Call], given: torch.Tensor, results: Sequence[torch.Tensor]):
        known, same, steps = {id(given): 0}, dict[Any, list[int | None]](), list[_CallAgain]()

        self._results, self._count = list(results), 1
        for func, args, kwargs, out in calls:
            name = getattr(func, "__name__", "")
            if name.endswith("_") and not name.endswith("__"):  # in-place: its result is its argument
                func = getattr(torch.Tensor, name[:-1])
            inputs = [*args, *kwargs.values()]
            direct = [(at, known[id(leaf)]) for at, leaf in enumerate(inputs) if id(leaf) in known]
            within = {at: tree_leaves(each) for at, each in enumerate(inputs) if isinstance(each, (list, tuple, dict))}
            swapped = {id(leaf): known[id(leaf)] for each in within.values() for leaf in each if id(leaf) in known}
            if not direct and not swapped:
                continue
            nested = [at for at, each in within.items() if any(id(leaf) in known for leaf in each)]
            chosen = (_axis(func, args, kwargs), out[1]) if func in _CHOOSES else None
            key = (
                func, tuple(kwargs), None if chosen is None else _same(chosen[1]),
                *((number,) if number is not None else _same(each)
                  for each in inputs for leaf in [each] for number in [known.get(id(leaf))]),
                *(swapped.get(id(leaf)) or _same(leaf) for each in within.values() for leaf in each),
            )  # fmt: skip
            tensors, outs = [out] if isinstance(out, torch.Tensor) else tree_leaves(out), same.get(key)
            if outs is None:
                outs = same[key] = [self._number() if _moves(leaf) else None for leaf in tensors]
                steps.append(
                    _CallAgain(_OTHERS.get(func, func), inputs, tuple(kwargs), direct, nested, swapped, outs, chosen)
                )
            known.update((id(leaf), number) for leaf, number in zip(tensors, outs) if number is not None)
        self._numbers = [known.get(id(result)) for result in results]
        needed = {number for number in self._numbers if number is not None}
        if not needed:
            raise ValueError("nothing depends on it")
        self._steps = list[_CallAgain]()
        for step in reversed(steps):
            if not needed.isdisjoint(number for number in step.outs if number is not None):
                needed |= step.needs()
                self._steps.insert(0, step)

    def _number(self) -> int:
        self._count += 1
        return self._count - 1

    def __call__(self, many: torch.Tensor) -> list[torch.Tensor]:
        """The results for each row of `many` in place of the original input, {n, ...} each.

        Raises:
            RuntimeError, NotImplementedError, TypeError, ValueError: If one of the functions does not support batching.
        """

        def one(value: torch.Tensor) -> list[torch.Tensor]:
            values: list[Any] = [value, *[None] * (self._count - 1)]
            for step in self._steps:
                step(values)
            own = zip(self._numbers, self._results)
            return [result + 0 * value.sum() if number is None else values[number] for number, result in own]

        made: list[torch.Tensor] = torch.func.vmap(one)(many)
        return made


def _moves(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()


def _same(leaf: Any) -> Any:
    """A key that is equal for equal arguments."""
    if isinstance(leaf, torch.Tensor):
        if leaf.numel() > _SMALL or isinstance(leaf, torch.nn.Parameter):
            return id(leaf)
        return (
            leaf.dtype,
            tuple(leaf.shape),
            leaf.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes(),
        )
    return (len(leaf), type(leaf)) if isinstance(leaf, (list, tuple, dict)) else (type(leaf), repr(leaf))


def _axis(func: Any, args: Any, kwargs: Any) -> int:
    place = 2 if func in (torch.topk, torch.Tensor.topk) else 1
    return int(kwargs.get("dim", args[place] if len(args) > place else -1))


def _chosen(source: torch.Tensor, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, None]:
    """The values from which the maxima are taken."""
    return source, None


def _lstm_cell(
    x: torch.Tensor, state: Sequence[torch.Tensor], of_x: Any, of_h: Any, *biases: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """torch.lstm_cell in terms of simple ops, since vmap does not support it."""
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
    """torch.lstm in terms of simple ops, without dropout."""
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
    """scaled_dot_product_attention in terms of simple ops, without dropout."""
    if dropout_p or enable_gqa:
        raise NotImplementedError("attention with dropout, or heads that share their keys")
    energies = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(energies.shape[-2:], dtype=torch.bool, device=energies.device).tril()
    if attn_mask is not None:
        energies = energies.where(attn_mask, -torch.inf) if attn_mask.dtype == torch.bool else energies + attn_mask
    return energies.softmax(-1) @ value


def _bmm(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch.bmm, written out for a single row or column: its gradients are then outer products, which bmm computes slowly."""
    if a.shape[-2] != 1 and b.shape[-1] != 1:
        return torch.bmm(a, b)
    return (a[..., None] * b[..., None, :, :]).sum(-2)


_CHOOSES = {torch.topk, torch.Tensor.topk, torch.sort, torch.Tensor.sort}
_OTHERS: dict[Any, Callable[..., Any]] = {
    torch.nn.functional.scaled_dot_product_attention: _attention,
    torch.lstm: _lstm,
    torch.lstm_cell: _lstm_cell,
    torch.bmm: _bmm,
    torch.Tensor.detach: lambda source: source,
    **dict.fromkeys(_CHOOSES, _chosen),
}
