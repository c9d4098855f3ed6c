"""The usual causes of differences between a port and its original, as testable hypotheses: a change to mine that makes it
correct if that is the cause.

A `Try` has edits of calls, also applied to the corresponding calls in all modules of the class, and replaced values of
parameters and buffers.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F

from rfnb.core.op import Args, Kwargs
from rfnb.interop.code_comparison import ACTIVATION_NAMES, OneSide
from rfnb.interop.tape import Edit, TapeCall, kind_of


class Try(NamedTuple):
    """A change to mine for one pass.

    Attributes:
        cause: A short name, the same for all tries of one cause.
        said: A sentence that describes it.
        calls: The edit of each call, by its key.
        values: Values of parameters and buffers, by name.
        training: None: unchanged; False: `eval()`.
    """

    cause: str
    said: str
    calls: Mapping[Any, Edit] = {}
    values: Mapping[str, torch.Tensor] = {}
    training: bool | None = None


class Parting(NamedTuple):
    """The point where two codes diverge, from which tries are derived: both sides, where each begins to differ, and its path in mine."""

    mine: OneSide
    model: torch.nn.Module
    own: TapeCall
    theirs: OneSide
    other_model: torch.nn.Module
    other: TapeCall | None
    place: str

    @property
    def calls(self) -> list[TapeCall]:
        """All calls of mine."""
        return self.mine.tape.calls

    @property
    def here(self) -> list[TapeCall]:
        """The calls of mine in the module at that point and below."""
        at = self.place or self.own.path
        return [call for call in self.calls if call.path == at or call.path.startswith(f"{at}.") or not at]

    def alike(self, calls: list[TapeCall]) -> list[list[TapeCall]]:
        """The corresponding calls in all modules of the class, then these alone, then those in all turns of their loop."""
        of_class = lambda call: (kind_of(self.model, call.path), *_in_module(call))  # noqa: E731
        kinds = {of_class(call) for call in calls}
        every = [call for call in self.calls if of_class(call) in kinds]
        lines = {_at_line(call) for call in calls}
        turns = [call for call in self.calls if _at_line(call) in lines]
        found = [every, calls] if len(every) > len(calls) else [calls]
        return [*found, turns] if len(turns) > len(calls) and len(turns) != len(every) else found

    def everywhere(self, cause: str, said: str, edit: Edit, *calls: TapeCall) -> Iterator[Try]:
        """Tries with an edit of calls, and of the corresponding ones."""
        return self.together(cause, said, [(call, edit) for call in calls])

    def together(self, cause: str, said: str, edits: list[tuple[TapeCall, Edit]]) -> Iterator[Try]:
        """Tries with an edit for each of several calls, and of the corresponding ones."""
        of_kind = {key(call): edit for call, edit in edits for key in (_in_module, _at_line)}
        for calls in self.alike([call for call, _ in edits]):
            found = {call.key: of_kind.get(_in_module(call), of_kind.get(_at_line(call))) for call in calls}
            yield Try(cause, said, {key: edit for key, edit in found.items() if edit is not None})


def _at_line(call: TapeCall) -> tuple[Any, ...]:
    """The key that a call has in each turn of a loop."""
    return call.path, call.name, call.line


def _in_module(call: TapeCall) -> tuple[str, str, int]:
    """The key of a call that is the same in all layers."""
    return call.path.rpartition(".")[2].strip("0123456789"), call.name, call.nth


def tries(found: Parting) -> Iterator[Try]:
    """All tries, the most informative first."""
    for make in (
        _dropout, _transposed, _norm_epsilon, _norm_offset, _activation, _complement, _scale, _bias, _rotary_base, _grouped_heads,
        _soft_cap, _mask, _gate_order, _rotary_part, _rotary_pairing, _heads_reshaped, _positions,
    ):  # fmt: skip
        yield from make(found)


def _named_so(calls: list[TapeCall], name: str) -> list[TapeCall]:
    """The first of the calls with this name, if any."""
    return [call for call in calls if call.name == name][:1]


def _after(change: Any) -> Edit:
    return lambda func, args, kwargs: change(func(*args, **kwargs))


def _before(change: Any, at: int = 0) -> Edit:
    return lambda func, args, kwargs: func(*args[:at], change(args[at]), *args[at + 1 :], **kwargs)


def _instead(change: Any, at: int = 0) -> Edit:
    """An edit whose result is made of one argument, without the call."""
    return lambda func, args, kwargs: change(args[at])


def _as_it_is(value: Any) -> Any:
    return value


# -- dropout -----------------------------------------------------------------------------------------------------------
def _dropout(found: Parting) -> Iterator[Try]:
    if any(module.training for module in found.model.modules()):
        yield Try("dropout", "dropout is active: mine is in training mode", training=False)
    calls = found.calls
    drops: dict[Any, Edit] = {call.key: _instead(_as_it_is) for call in calls if "dropout" in call.name}
    drops |= {call.key: _undropped for call in calls if call.name == "scaled_dot_product_attention"}
    drops |= {call.key: _expected for call in calls if call.name in ("bernoulli", "bernoulli_")}
    if drops:
        yield Try("dropout", "dropout is active in a call", drops)


def _undropped(func: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
    if len(args) > 4:
        return func(*args[:4], 0.0, *args[5:], **kwargs)
    return func(*args, **{**kwargs, "dropout_p": 0.0})


def _expected(func: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
    """A Bernoulli mask that keeps everything; kept values are divided by the keep probability."""
    made = func(*args, **kwargs)
    share = args[1] if len(args) > 1 else kwargs.get("p", args[0])
    return made.copy_(torch.as_tensor(share, device=made.device))


# -- parameters --------------------------------------------------------------------------------------------------------
def _parameters_here(found: Parting) -> list[tuple[str, torch.Tensor]]:
    names = {id(each): name for name, each in found.model.named_parameters()}
    given = found.mine.weights(found.own)
    near = {id(each) for each in given}
    own = [(names[each], param) for each, param in ((id(p), p) for p in given) if each in names]
    below = [
        (name, each)
        for name, each in found.model.named_parameters()
        if id(each) not in near and found.place and name.startswith(f"{found.place}.")
    ]
    return own + below


def _same_parameters(found: Parting, name: str) -> list[list[str]]:
    """The names of the corresponding parameters in all layers, then this one alone."""
    plain = re.sub(r"\d+", "#", name)
    every = [other for other, _ in found.model.named_parameters() if re.sub(r"\d+", "#", other) == plain]
    return [every, [name]] if len(every) > 1 else [[name]]


def _with_values(
    found: Parting, cause: str, said: str, names: list[str], change: Callable[[torch.Tensor], torch.Tensor]
) -> Iterator[Try]:
    own = dict(found.model.named_parameters())
    groups = [_same_parameters(found, name) for name in names]
    for number in range(max(map(len, groups))):
        chosen = [name for group in groups for name in group[min(number, len(group) - 1)]]
        yield Try(cause, said, values={name: change(own[name].detach()) for name in chosen})


def _transposed(found: Parting) -> Iterator[Try]:
    for name, value in _parameters_here(found):
        if value.ndim == 2 and value.shape[0] == value.shape[1]:
            yield from _with_values(
                found, "transposed weight", f"{name} is transposed", [name], lambda each: each.T.contiguous()
            )


def _norm_offset(found: Parting) -> Iterator[Try]:
    for name, value in _parameters_here(found):
        if value.ndim == 1 and not name.endswith("bias"):
            for offset in (1.0, -1.0):
                said = f"theirs multiplies by {'1 + ' if offset > 0 else ''}the weight{'' if offset > 0 else ', mine by 1 + it'}: {name}"
                yield from _with_values(found, "norm offset", said, [name], partial(operator.add, offset))
                owner, _, local = name.rpartition(".")
                kind = kind_of(found.model, owner)
                every = {
                    each: item.detach() + offset
                    for each, item in found.model.named_parameters()
                    if each.rpartition(".")[2] == local and kind_of(found.model, each.rpartition(".")[0]) == kind
                }
                yield Try("norm offset", said, values=every)
                in_layers = {each: item for each, item in every.items() if re.search(r"\d", each)}
                if re.search(r"\d", name) and len(in_layers) < len(every):
                    yield Try("norm offset", said, values=in_layers)  # the last norm has a different class


def _pieces(found: Parting) -> Iterator[list[TapeCall]]:
    """Calls that split a result into equal parts: those of a module together, which are one per step of a loop, then those
    of other modules of its class, of which theirs may have one result for several; then each of the first three alone.
    """
    here = {kind_of(found.model, call.path) for call in found.here}
    by_path: dict[tuple[str, int], list[TapeCall]] = {}
    for call in found.calls:
        if call.name in ("chunk", "split", "unbind", "tensor_split") and kind_of(found.model, call.path) in here:
            if 1 < len(call.made) < 5 and len({each.shape for each in call.made}) == 1:
                by_path.setdefault((call.path, len(call.made)), []).append(call)
    near = {call.path for call in found.here}
    groups = sorted(by_path.items(), key=lambda each: each[0][0] not in near)
    yield from (calls for _, calls in groups[:4])
    for (path, _), calls in groups[:1]:
        if path in near and len(calls) > 1:
            yield from ([call] for call in calls[:3])


def _factors(found: Parting) -> Iterator[tuple[str, str]]:
    """Pairs of weights whose products are multiplied with each other, such as those of a gate and its value."""
    names = {id(each): name for name, each in found.model.named_parameters() if each.ndim == 2}
    near = {call.key for call in found.here}
    # for the result of a call: the weight of its product, or of the product that it is computed from
    weight_of: dict[int, str | None] = {}
    for call in found.calls:
        own = [names[id(each)] for each in found.mine.weights(call) if id(each) in names]
        before = {weight_of.get(read) for read, _ in call.reads if found.mine.content[read]}
        weight_of[call.index] = own[0] if own else before.pop() if len(before) == 1 else None
        if len(before) == 2 and None not in before and not own and call.name in ("mul", "__mul__") and call.key in near:
            one, other = sorted(filter(None, before))
            yield one, other


def _gates_apart(found: Parting) -> Iterator[Try]:
    own = {name: each.detach() for name, each in found.model.named_parameters()}
    for pair in list(dict.fromkeys(_factors(found)))[:6]:
        if own[pair[0]].shape == own[pair[1]].shape:
            for ones, others in zip(*(_same_parameters(found, name) for name in pair)):
                values = {a: own[b] for a, b in [*zip(ones, others), *zip(others, ones)]}
                yield Try("gate order", f"{pair[0]} and {pair[1]} are swapped in theirs", values=values)


def _gate_order(found: Parting) -> Iterator[Try]:
    yield from _gates_apart(found)
    for calls in _pieces(found):
        call = calls[0]
        for order in list(itertools.permutations(range(len(call.made))))[1:]:
            said = f"the parts of a {call.name} are in the order {list(order)} in theirs"
            edit = _after(lambda made, order=order: type(made)(made[each] for each in order))
            yield from found.everywhere("gate order", said, edit, *calls)
    params = _parameters_here(found)
    for count in (4, 3, 2):
        fit = [
            name for name, value in params if value.shape[0] % count == 0 and value.shape[0] > count and value.ndim < 3
        ]
        recurrent = [name for name in fit if any(each in name for each in ("_ih", "_hh"))]
        owners = dict.fromkeys(name.rpartition(".")[0] for name in fit)
        apart = [[name for name in fit if name.rpartition(".")[0] == owner] for owner in owners]
        groups = [recurrent] if recurrent else apart
        for names in filter(None, groups):
            for order in list(itertools.permutations(range(count)))[1:]:
                change = lambda each, order=order, count=count: torch.cat([each.chunk(count)[at] for at in order])  # noqa: E731
                yield from _with_values(
                    found,
                    "gate order",
                    f"the {count} blocks of {names[0]} are in the order {list(order)} in theirs",
                    names,
                    change,
                )


# -- norms -------------------------------------------------------------------------------------------------------------
_ADDS = ("add", "__add__", "__radd__", "add_")
_NORMS = ("layer_norm", "rms_norm", "group_norm", "batch_norm", "instance_norm")


def _norm_epsilon(found: Parting) -> Iterator[Try]:
    of_theirs = {
        float(value)
        for module in found.other_model.modules()
        for name, value in vars(module).items()
        if "eps" in name and isinstance(value, (int, float))
    }
    sizes = [*sorted(of_theirs), *sorted({1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-12, 0.0} - of_theirs)]
    calls = found.calls
    norms = [call for call in calls if call.name in _NORMS]
    adds = [call for call in calls if call.name in _ADDS and not call.reads[1:] and not call.given]
    roots = [call for call in calls if call.name in ("rsqrt", "sqrt") and call.made[0].shape[-1:] == (1,)]
    here = {call.key for call in found.here}
    for size in sizes:
        said = f"theirs has an epsilon of {size:g} in the norm"
        for group, edit in (
            (norms, _epsilon(size)),
            (adds, _scalar(size)),
            (roots, _before(partial(operator.add, size))),
        ):
            own = [call for call in group if call.key in here]
            for chosen in (group, own, own[:1]):
                if own:
                    yield Try("norm epsilon", said, {call.key: edit for call in chosen})
            if own:
                break


def _epsilon(size: float) -> Edit:
    def edit(func: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        at = next(
            (place for place in reversed(range(len(args))) if isinstance(args[place], float) and args[place] < 0.02),
            None,
        )
        if at is None:
            return func(*args, **{**kwargs, "eps": size})
        return func(*args[:at], size, *args[at + 1 :], **kwargs)

    return edit


def _scalar(size: float) -> Edit:
    def edit(func: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        if any(isinstance(each, float) and each < 0.02 for each in args):
            return func(*(size if isinstance(each, float) else each for each in args), **kwargs)
        return func(*args, **kwargs)

    return edit


# -- elementwise -------------------------------------------------------------------------------------------------------
ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu (tanh)": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "quick gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "elu": F.elu,
    "elu + 1": lambda x: F.elu(x) + 1,
    "leaky relu": F.leaky_relu,
    "mish": F.mish,
    "softplus": F.softplus,
    "squared relu": lambda x: torch.relu(x).square(),
    "hard sigmoid": F.hardsigmoid,
    "none": lambda x: x,
}


def _activation(found: Parting) -> Iterator[Try]:
    operand = found.mine.operand(found.own)
    if operand is None:
        return
    x = found.mine.tape.value(operand)
    if not x.is_floating_point():
        return
    made = {name: fn(x) for name, fn in ACTIVATIONS.items() if name != "none"}
    for call in [found.own, *found.mine.readers(found.own, 8)]:
        for value in call.made:
            used = next(
                (
                    name
                    for name, other in made.items()
                    if other.shape == value.shape and torch.allclose(other, value, 1e-9, 1e-9)
                ),
                call.name if call is found.own and call.name in ACTIVATION_NAMES else None,
            )
            if used is None:
                continue
            for name, fn in ACTIVATIONS.items():
                if name != used:
                    # If it is written out, the operand is not its argument.
                    edit = _instead(fn) if call is found.own else partial(_made_of, fn, x)
                    yield from found.everywhere("activation", f"theirs has {name} where mine has {used}", edit, call)
            return


def _made_of(fn: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, *call: Any) -> torch.Tensor:
    return fn(x)


def _complement(found: Parting) -> Iterator[Try]:
    """1 - x for a gate x, such as what is kept for what is replaced."""
    calls = found.calls
    near = dict.fromkeys([found.own, *found.mine.readers(found.own, 3)])
    for _ in range(2):  # what they read, and what that reads: the gate may have been taken from 1
        near |= dict.fromkeys([calls[read] for call in near for read, _ in call.reads])
    for call in near:
        if call.name in ("sigmoid", "sigmoid_", "hardsigmoid"):
            said = f"theirs has 1 - {call.name} where mine has it"
            yield from found.everywhere("gate complement", said, _after(lambda made: 1 - made), call)


_SCALED = "mul div __mul__ __truediv__ softmax __rmul__ matmul bmm einsum mul_ div_".split()


def _scale(found: Parting) -> Iterator[Try]:
    operand, cause = found.mine.operand(found.own), "scale"
    factors: dict[float, None] = {}
    if operand is not None:
        value, maker = found.mine.tape.value(operand), found.calls[operand[0]]
        cause = "embedding scale" if maker.name == "embedding" else cause
        if found.other is not None:
            _ratio(found.other.made[0], value, factors)
        for factor in factors:
            said = f"theirs multiplies by {_named(factor, found)} behind {maker.name}"
            edit = _after(partial(_times, factor=factor, number=operand[1]))
            yield Try(cause, said, {maker.key: edit})
            yield from found.everywhere(cause, said, edit, maker)
        factors = {}
    if found.other is not None:
        _ratio(found.other.made[0], found.own.made[0], factors)
    if operand is not None and found.own.made[0].is_floating_point():
        _ratio(value, found.own.made[0], factors)
    attention = _named_so(found.here, "scaled_dot_product_attention")
    sizes = {size for call in found.here[:200] for made in call.made for size in made.shape[-2:] if size > 1}
    for size in sizes if not attention and found.own.name in _SCALED else ():
        factors.update({size**0.5: None, size**-0.5: None, float(size): None, 1.0 / size: None})
    for factor in factors:
        if factor != 1.0:
            said = f"theirs is {_named(factor, found)} times as large behind {found.own.name}"
            yield from found.everywhere(cause, said, _after(partial(_times, factor=factor)), found.own)
    for call in attention:
        for size in sorted(sizes):
            for scale in (size**-0.5, 1.0 / size):
                said = f"theirs scales the scores by {scale:.6g}"
                yield from found.everywhere("scale", said, _scaled_by(scale), call)
        yield from found.everywhere("scale", "theirs does not scale the scores", _scaled_by(1.0), call)


def _scaled_by(scale: float) -> Edit:
    return lambda func, args, kwargs: func(*args[:6], **{**kwargs, "scale": scale})


def _times(made: Any, factor: float, number: int | None = None) -> Any:
    """A result times a factor; of several results the one with this number."""
    if isinstance(made, torch.Tensor):
        return made * factor
    if number is None:
        return made
    return type(made)(each * factor if at == number else each for at, each in enumerate(made))


def _ratio(one: torch.Tensor, other: torch.Tensor, into: dict[float, None]) -> None:
    """The constant ratio of two tensors, if it is the same in all cells."""
    if one.numel() != other.numel() or not one.is_floating_point() or not other.is_floating_point():
        return
    a, b = one.reshape(-1), other.reshape(-1)
    if one.shape != other.shape:
        a, b = a.abs().sort().values, b.abs().sort().values
    there = b.abs() > 1e-9
    if bool(there.any()) and torch.isfinite(a[there]).all():
        ratio = a[there] / b[there]
        if float(ratio.std(correction=0)) <= 1e-7 * float(ratio.abs().mean()):
            into[float(ratio.mean())] = None


def _named(factor: float, found: Parting) -> str:
    root = round(factor**2)
    if factor > 1 and abs(factor**2 - root) < 1e-6 and root != round(factor) ** 2:
        return f"sqrt({root})"
    return f"{factor:.6g}"


def _bias(found: Parting) -> Iterator[Try]:
    """Try the biases of theirs: those of the same shape for zero biases of mine, and those that belong to weights that mine has."""
    own_values = [each.detach() for each in found.model.parameters() if each.ndim == 1]
    for name, value in _parameters_here(found):
        for of_theirs, new in found.other_model.named_parameters() if value.ndim == 1 and not bool(value.any()) else ():
            had = any(each.shape == new.shape and torch.equal(each, new) for each in own_values)
            if new.shape == value.shape and bool(new.any()) and not had:
                said = f"{name} is zero, theirs has {of_theirs}"
                yield Try("missing bias", said, values={name: new.detach()})
    yield from _biases_of_theirs(found)


def _biases_of_theirs(found: Parting) -> Iterator[Try]:
    """Try the bias that theirs has with the same weight, by rows if mine joins or splits weights: for products, convolutions, norms."""
    others = {name: each.detach() for name, each in found.other_model.named_parameters()}
    rows: dict[int, list[tuple[torch.Tensor, torch.Tensor]]] = {}
    vectors: list[tuple[torch.Tensor, torch.Tensor]] = []
    for name, other in others.items():
        bias = others.get(name.replace("weight", "bias")) if "weight" in name else None
        if other.ndim == 1 and bias is not None:
            vectors.append((other, bias))
        elif other.ndim > 1 and "weight" in name and len(other) <= 20_000:
            turned = bias is not None and len(other) != other.shape[1]
            for own in (other, other.transpose(0, 1)) if turned else (other,):
                if bias is None or len(bias) == len(own):
                    its_bias = own.new_zeros(len(own)) if bias is None else bias
                    rows.setdefault(own[0].numel(), []).append((own.flatten(1), its_bias))
    edits: dict[Any, Edit] = {}
    first = ""
    weights = {id(each) for each in found.model.parameters()}
    used = 0
    for call in found.calls:
        weight, axis = _weight_of(found, call, weights)
        if weight is None:
            continue
        own_bias = _own_bias(found, call, weight)
        if weight.ndim == 1:
            same = [bias for other, bias in vectors if other.shape == weight.shape and torch.equal(other, weight)]
            if not same:
                continue
            wanted, used = same[min(used, len(same) - 1)], used + 1
        else:
            there = rows.get(weight.shape[1])
            if there is None:
                continue
            all_rows, biases = torch.cat([each for each, _ in there]), torch.cat([each for _, each in there])
            far, at = torch.cdist(weight, all_rows, compute_mode="donot_use_mm_for_euclid_dist").min(1)
            if float(far.max()) > 1e-9 * float(1 + weight.abs().max()):
                continue
            wanted = biases[at]
        missing = wanted - (0 if own_bias is None else own_bias)
        if float(missing.abs().max()) > 1e-9:
            lacks = "has no bias, theirs has one" if own_bias is None else "has another bias than theirs"
            first = first or f"{call.path or 'the model'} {lacks}"
            shaped = missing.reshape(-1, *[1] * (-axis - 1))
            edits[call.key] = _after(partial(operator.add, shaped))
    if edits:
        yield Try("missing bias", first, edits)


def _weight_of(found: Parting, call: TapeCall, weights: set[int]) -> tuple[torch.Tensor | None, int]:
    """The rows of the weight in a call's product, or the vector, and the axis of its result that they form, counted from the end."""
    before = [(found.calls[read], which) for read, which in call.reads]
    parameters = [each for each in call.given if id(each) in weights]
    moved = [other.made[which] for other, which in before if not other.reads and {*map(id, other.given)} & weights]
    spread = len(call.made) == 1 and call.made[0].ndim > 1
    of_product = [each.detach() for each in [*parameters, *moved] if each.ndim > 1]
    if not spread:
        return None, 0
    if call.name.startswith("conv") and of_product:
        weight = of_product[0].transpose(0, 1) if "transpose" in call.name else of_product[0]
        return weight.flatten(1), 1 - call.made[0].ndim
    if (
        call.name in (*_ATTENTION_PRODUCTS, "linear", "addmm")
        and call.name != "einsum"
        and of_product
        and of_product[0].ndim == 2
    ):
        return of_product[0] if call.name == "linear" else of_product[0].T, -1
    if call.name in (*_NORMS, "mul", "__mul__", "__rmul__"):
        axis = -1 if call.name in ("layer_norm", "rms_norm") or call.name not in _NORMS else 1 - call.made[0].ndim
        vectors = [each.detach() for each in parameters if each.ndim == 1 and len(each) == call.made[0].shape[axis]]
        return (vectors[0] if vectors else None), axis
    return None, 0


def _own_bias(found: Parting, call: TapeCall, weight: torch.Tensor) -> torch.Tensor | None:
    """The bias that a call, or the next one, adds."""
    vectors = [each.detach() for each in call.given if each.ndim == 1 and each.is_floating_point()]
    if weight.ndim == 1:
        vectors = [each for each in vectors if not torch.equal(each, weight)]
    for reader in found.mine.readers(call, 0):
        if reader.name in _ADDS:
            vectors += [each.detach() for each in reader.given if each.ndim == 1]
    return next((each for each in vectors if len(each) == len(weight)), None)


# -- rotary ------------------------------------------------------------------------------------------------------------
def base_of(value: torch.Tensor) -> float | None:
    """The base of rotary frequencies, base ** -(i / n); None for other values."""
    if not 2 <= value.numel() <= 512 or not value.is_floating_point():
        return None
    x = value.detach().double().reshape(-1)
    if abs(float(x[0]) - 1) > 1e-6 or float(x.min()) <= 0 or float(x[1]) >= 1:
        return None
    ratios = x[1:] / x[:-1]
    if float(ratios.std(correction=0)) > 1e-5 * float(ratios.mean()):
        return None
    return float(ratios.mean() ** -len(x))


def table_of(value: torch.Tensor) -> tuple[str, torch.Tensor] | None:
    """The kind of a table of rotary angles by position (cos, sin or complex) and its frequencies; None for other values."""
    x = value.detach().squeeze()
    if x.ndim != 2 or len(x) < 2 or x.shape[1] < 2:
        return None
    if x.is_complex():
        return "complex", x[1].angle().double()
    if not x.is_floating_point():
        return None
    if bool((x[0] == 1).all()) and bool((x[1].abs() <= 1).all()):
        return "cos", x[1].double().acos()
    if bool((x[0] == 0).all()) and bool((x[1].abs() <= 1).all()):
        return "sin", x[1].double().asin()
    return None


def _bases(side: OneSide, model: torch.nn.Module) -> dict[float, None]:
    found: dict[float, None] = {}
    values = [made for call in side.tape.calls for made in call.made] + list(model.buffers())
    for value in values:
        base = base_of(value)
        if base is None and (table := table_of(value)) is not None:
            base = base_of(table[1].unique().flip(0))
        if base is not None:
            found[float(f"{base:.5g}")] = None
    return found


def _rotary_base(found: Parting) -> Iterator[Try]:
    own, others = _bases(found.mine, found.model), _bases(found.theirs, found.other_model)
    for base, other in itertools.product(own, others):
        if base == other:
            continue
        said = f"theirs has a rotary base of {other:g}, mine {base:g}"
        calls = {
            call.key: _after(partial(_frequencies, base=other))
            for call in found.calls
            if len(call.made) == 1 and (there := base_of(call.made[0])) is not None and abs(there / base - 1) < 1e-3
        }
        values: dict[str, torch.Tensor] = {}
        for name, value in found.model.named_buffers():
            there = base_of(value)
            if there is not None and abs(there / base - 1) < 1e-3:
                values[name] = _frequencies(value, other)
            elif (table := table_of(value)) is not None:
                values[name] = _table(value, table, other)
        near = {call.key for call in found.here}
        if values or calls:
            yield Try("rotary base", said, {} if values else dict(list(calls.items())[:1]), values)
            yield Try("rotary base", said, {key: edit for key, edit in calls.items() if key in near})
            yield Try("rotary base", said, calls, values)


def _frequencies(value: torch.Tensor, base: float) -> torch.Tensor:
    count = value.numel()
    made = base ** -(torch.arange(count, dtype=torch.float64, device=value.device) / count)
    return made.reshape(value.shape).to(value.dtype)


def _table(value: torch.Tensor, table: tuple[str, torch.Tensor], base: float) -> torch.Tensor:
    kind, angles = table
    distinct = angles.unique().flip(0)
    new = _frequencies(distinct, base)[torch.stack([(distinct - each).abs().argmin() for each in angles])]
    at = torch.arange(value.squeeze().shape[0], dtype=torch.float64, device=value.device)[:, None] * new
    made = torch.polar(torch.ones_like(at), at) if kind == "complex" else at.cos() if kind == "cos" else at.sin()
    return made.reshape(value.shape).to(value.dtype)


def _linears(found: Parting) -> list[TapeCall]:
    at = found.place
    for _ in range(3):
        names = ("linear", "addmm", "conv1d", "matmul", "__matmul__", "einsum")
        calls = [
            call
            for call in found.calls
            if call.name in names and found.mine.weights(call) and (not at or f"{call.path}.".startswith(f"{at}."))
        ]
        if len(calls) > 1 or not at:
            return calls[:6]
        at = at.rpartition(".")[0]
    return calls[:6]


def _head_sizes(found: Parting) -> list[int]:
    return sorted(
        {
            made.shape[-1]
            for call in found.here
            for made in call.made
            if made.ndim == 4 and made.shape[-1] > 2 and made.shape[-1] % 2 == 0
        }
    )


def _rotary_pairing(found: Parting) -> Iterator[Try]:
    linears = _linears(found)
    for size in _head_sizes(found):
        half = (
            torch.arange(size, device="cpu").reshape(2, -1).T.reshape(-1)
        )  # position 2 i has i, 2 i + 1 has i + size / 2
        for order, said in (
            (half.argsort(), "pairs neighbours, mine both halves"),
            (half, "pairs both halves, mine neighbours"),
        ):
            edit = _after(partial(_within, order=order, size=size))
            for pair in itertools.combinations(linears, 2):
                yield from found.everywhere("rotary pairing", f"theirs {said}", edit, *pair)
            for call in linears:
                for share in ((0, 2, 3), (0, 1, 1)):
                    part = partial(_of_part, order=order, size=size, share=share)
                    yield from found.everywhere("rotary pairing", f"theirs {said}", _after(part), call)


def _within(made: torch.Tensor, order: torch.Tensor, size: int) -> torch.Tensor:
    if made.shape[-1] % size:
        return made
    return made.unflatten(-1, (-1, size))[..., order].flatten(-2)


def _of_part(made: torch.Tensor, order: torch.Tensor, size: int, share: tuple[int, int, int]) -> torch.Tensor:
    end = made.shape[-1] * share[1] // share[2]
    return made if end % size else torch.cat([_within(made[..., :end], order, size), made[..., end:]], -1)


class _Turn(NamedTuple):
    """A rotation of the first features of heads by position: how many features, the base, halves or neighbouring pairs, the axis."""

    features: int
    base: float
    halves: bool
    axis: int

    def of(self, x: torch.Tensor, sign: int = 1) -> torch.Tensor:
        """The rotated features; with sign -1, rotated back."""
        count = self.features // 2
        at = torch.arange(x.shape[self.axis], dtype=torch.float64, device=x.device)
        angles = at[:, None] * self.base ** -(torch.arange(count, device=x.device) / count) * sign
        shaped = angles.reshape(-1, *[1] * (-self.axis - 2), count)
        turned = x[..., : self.features].unflatten(-1, (2, count) if self.halves else (count, 2))
        one, other = turned.unbind(-2 if self.halves else -1)
        cos, sin = shaped.cos(), shaped.sin()
        made = torch.stack([one * cos - other * sin, other * cos + one * sin], -2 if self.halves else -1)
        return torch.cat([made.flatten(-2), x[..., self.features :]], -1)


def _parts_of(size: int) -> list[int]:
    return [each for each in (size, size * 3 // 4, size // 2, size // 4) if each % 2 == 0 and each > 0]


def _turn_of(before: list[torch.Tensor], made: torch.Tensor, bases: list[float]) -> _Turn | None:
    """The rotation that maps one of these values to a result, or None."""
    size = made.norm(dim=-1)
    for x in before:
        if x.shape != made.shape or torch.equal(x, made) or not torch.allclose(x.norm(dim=-1), size, 1e-7):
            continue
        for base, halves, axis in itertools.product(bases, (True, False), (-2, -3)):
            for features in _parts_of(made.shape[-1]):
                turn = _Turn(features, base, halves, axis)
                if torch.allclose(turn.of(x), made, 1e-6, 1e-6):
                    return turn
    return None


def _rotary_part(found: Parting) -> Iterator[Try]:
    """Rotate as many features of each head as theirs could; the rotation of mine is undone first."""
    bases = list(_bases(found.mine, found.model))
    before: list[torch.Tensor] = []
    turns: list[tuple[TapeCall, _Turn]] = []
    near = {call.index for call in _attention_calls(found)[:200]} if bases else set()
    for call in found.calls[: max(near, default=-1) + 1]:
        values = [each for each in call.made if each.ndim == 4 and each.is_floating_point()]
        if call.index in near and len(call.made) == len(values) == 1:
            turn = _turn_of(before[-16:], values[0], bases)
            turns += [] if turn is None else [(call, turn)]
        before += values
    if turns:
        own = turns[0][1]
        size = turns[0][0].made[0].shape[-1]
        for features in _parts_of(size):
            if features != own.features:
                said = f"theirs turns {features} of the {size} features of a head, mine {own.features}"
                edits = [(call, _after(_turning(turn, turn._replace(features=features)))) for call, turn in turns]
                yield from found.together("rotary part", said, edits)


def _turning(own: _Turn, other: _Turn) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda made: other.of(own.of(made, -1))


# -- attention ---------------------------------------------------------------------------------------------------------
_ATTENTION_PRODUCTS = ("matmul", "__matmul__", "bmm", "einsum", "scaled_dot_product_attention")


def _attention_calls(found: Parting) -> list[TapeCall]:
    at = found.own.path
    calls = [call for call in found.calls if call.path == at or call.path.startswith(f"{at}.")]
    return calls if any(call.name in _ATTENTION_PRODUCTS for call in calls) else found.here


def _grouped_heads(found: Parting) -> Iterator[Try]:
    """Permute the heads of the queries, and undo it before the output projection; independent of how key/value heads are shared."""
    for size in _head_sizes(found):
        for into, out in itertools.combinations(_linears(found), 2):
            operand = found.mine.operand(out)
            width = 0 if operand is None else found.mine.tape.value(operand).shape[-1]
            count = width // size
            if width % size or math.prod(into.made[0].shape[2:]) < width:
                continue
            for group in [each for each in range(2, count) if count % each == 0]:
                order = torch.arange(count, device="cpu").reshape(group, -1).T.reshape(-1)
                said = f"theirs shares keys and values among {count} heads in another order: neighbours have the same, or they take turns"
                ordered = partial(_of_heads, order=order, size=size)
                back = partial(_reordered, order=order.argsort(), size=size)
                yield from found.together("grouped heads", said, [(into, _after(ordered)), (out, back)])


def _of_heads(made: torch.Tensor, order: torch.Tensor, size: int) -> torch.Tensor:
    """The features of the first heads, in one axis or in several, with the heads permuted."""
    features, width = made.flatten(2), len(order) * size
    heads = features[..., :width].unflatten(-1, (-1, size))[:, :, order.to(made.device)]
    return torch.cat([heads.flatten(2), features[..., width:]], -1).reshape(made.shape)


def _reordered(func: Callable[..., Any], args: Args, kwargs: Kwargs, order: torch.Tensor, size: int) -> Any:
    at = next((at for at, each in enumerate(args) if isinstance(each, torch.Tensor)), 0)
    return _before(partial(_of_heads, order=order, size=size), at)(func, args, kwargs)


def _heads_reshaped(found: Parting) -> Iterator[Try]:
    yield from _fused_order(found)
    shapes = [call for call in found.here if call.name in ("view", "reshape", "unflatten", "flatten") and call.reads]
    apart = [call for call in shapes if call.made[0].ndim == 4]
    joined = [call for call in shapes if call.made[0].ndim == 3]
    said = "features of the heads lie side by side in theirs"
    for group in filter(None, [apart, *[[call] for call in apart if len(apart) > 1]]):
        yield from found.everywhere("heads reshaped", said, _after(_side_by_side), *group)
    for call in joined:
        for axes in ((1, 2), (2, 3)):
            said = "heads are reordered before they are merged in theirs"
            yield from found.everywhere("heads reshaped", said, partial(_joined, axes=axes), call)


def _fused_order(found: Parting) -> Iterator[Try]:
    """Split the features of a joint product for queries, keys and values in other orders: by kind, by head, by feature."""
    for call in _linears(found)[:3]:
        width = call.made[0].shape[-1]
        for size, kinds in itertools.product(_head_sizes(found), (3, 2)):
            heads = width // (kinds * size)
            if heads < 2 or width != kinds * size * heads:
                continue
            sizes = {"kind": kinds, "head": heads, "feature": size}
            orders = (("kind", "head", "feature"), ("head", "kind", "feature"), ("head", "feature", "kind"))
            for theirs, mine in itertools.permutations(orders, 2):
                said = (
                    f"theirs cuts the {width} features of {call.name} by {', '.join(theirs)}, mine by {', '.join(mine)}"
                )
                edit = _after(partial(_reread, theirs=theirs, mine=mine, sizes=sizes))
                yield from found.everywhere("heads reshaped", said, edit, call)


def _reread(made: torch.Tensor, theirs: tuple[str, ...], mine: tuple[str, ...], sizes: dict[str, int]) -> torch.Tensor:
    """The features reordered so that code that splits them in the order of mine gets the parts of theirs."""
    apart, front = made.unflatten(-1, [sizes[each] for each in theirs]), made.ndim - 1
    return apart.permute(*range(front), *(front + theirs.index(each) for each in mine)).flatten(-3)


def _side_by_side(made: torch.Tensor) -> torch.Tensor:
    """The features read as [feature, head] instead of [head, feature]."""
    return made.flatten(-2).unflatten(-1, (made.shape[-1], made.shape[-2])).mT


def _joined(func: Callable[..., Any], args: Args, kwargs: Kwargs, axes: tuple[int, int]) -> Any:
    plain = func(*args, **kwargs)
    x = args[0]
    return x.transpose(*axes).reshape(plain.shape) if x.ndim == 4 else plain


def _mask(found: Parting) -> Iterator[Try]:
    calls = _attention_calls(found)
    patterns = _patterns(found)
    for call in _named_so(calls, "scaled_dot_product_attention"):
        for said, mask in patterns:
            yield from found.everywhere("mask", said, _sdpa_with(mask), call)
    for call in _named_so(calls, "softmax"):
        for said, mask in patterns:
            if mask is not None:
                yield from found.everywhere("mask", said, _before(partial(_masked, mask=mask)), call)
        hides = [
            each
            for each in calls
            if each.name in ("masked_fill", "masked_fill_", "where", "add", "__add__")
            and each.made[0].shape == call.made[0].shape
            and each.index < call.index
        ]
        for hide in hides[-2:]:
            position = 1 if hide.name == "where" else 0
            yield from found.everywhere("mask", "theirs hides nothing here", _instead(_as_it_is, position), hide)
            if hide.name.startswith("masked_fill"):
                yield from found.everywhere("mask", "the mask is inverted in theirs", _before(operator.invert, 1), hide)
            for said, mask in patterns:
                if mask is not None:
                    yield from found.everywhere("mask", said, _instead(partial(_masked, mask=mask), position), hide)
    for call in _named_so(calls, "multi_head_attention_forward"):
        for said, mask in patterns:
            if mask is None or mask.ndim == 2:
                yield from found.everywhere("mask", said, _mha_with(mask), call)


def _patterns(found: Parting) -> list[tuple[str, torch.Tensor | None]]:
    """The masks to try: those of theirs, inferred from its softmax results, and the usual ones."""
    made: list[tuple[str, torch.Tensor | None]] = [("theirs hides nothing", None)]
    sizes: set[Any] = {
        call.made[0].shape[-2:] for call in found.calls if call.name == "softmax" and call.made[0].ndim > 2
    }
    sizes |= {(int(call.made[0].shape[-2]),) * 2 for call in found.calls if call.name == "scaled_dot_product_attention"}
    sizes |= {(int(call.made[0].shape[0]),) * 2 for call in found.calls if call.name == "multi_head_attention_forward"}
    for rows, cols in list(sizes)[:2]:
        ones = torch.ones(rows, cols, dtype=torch.bool, device=found.own.made[0].device)
        made += [
            ("theirs hides later positions", ones.tril()),
            ("theirs hides a position itself, too", ones.tril(-1)),
            ("theirs shows one position ahead", ones.tril(1)),
        ]
        made += [
            (f"theirs shows a window of {width}", ones.tril() & ones.triu(1 - width))
            for width in range(1, min(cols, 9))
        ]
        made += [
            (f"theirs shows a window of {width} to both sides", ones.tril(width) & ones.triu(-width))
            for width in range(1, min(cols, 5))
        ]
    for call in found.theirs.tape.calls:
        if call.name == "softmax" and call.made[0].ndim > 2 and bool((call.made[0] == 0).any()):
            made.insert(1, ("theirs hides other positions", call.made[0] != 0))
            break
    for call in found.theirs.tape.calls:
        if call.name == "scaled_dot_product_attention":
            masks = [found.theirs.tape.value(read) for read in call.reads] + call.given
            made[1:1] = [
                ("theirs hides other positions", each) for each in masks if each.dtype == torch.bool and each.ndim > 1
            ][:1]
            break
    return made


def _masked(scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    try:
        return scores.masked_fill(~mask, -math.inf)
    except RuntimeError:
        return scores


def _mha_with(mask: torch.Tensor | None) -> Edit:
    hidden = None if mask is None else ~mask
    return lambda func, args, kwargs: func(*args, **{**kwargs, "attn_mask": hidden, "is_causal": False})


def _sdpa_with(mask: torch.Tensor | None) -> Edit:
    def edit(func: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        more = {key: value for key, value in kwargs.items() if key not in ("attn_mask", "is_causal")}
        return func(*args[:3], **more, attn_mask=mask)

    return edit


def _soft_cap(found: Parting) -> Iterator[Try]:
    for call in [each for each in found.here if each.name == "tanh"][:2]:
        yield from found.everywhere("soft cap", "theirs has no soft cap here", _instead(_as_it_is), call)
    caps: dict[float, None] = {}
    for call in found.theirs.tape.calls:
        if call.name == "tanh":
            inner = found.theirs.tape.calls[call.reads[0][0]]
            x = found.theirs.tape.value(call.reads[0])
            for read in inner.reads:
                _ratio(found.theirs.tape.value(read), x, caps)
    operand = found.mine.operand(found.own)
    for cap in list(caps)[:4]:
        said = f"theirs has a soft cap of {cap:g}"
        capped = lambda made, cap=cap: cap * torch.tanh(made / cap)  # noqa: E731
        places = [found.own] if operand is None else [found.calls[operand[0]], found.own]
        for call in places:
            if len(call.made) == 1:
                yield from found.everywhere("soft cap", said, _after(capped), call)
        for call in _named_so(_attention_calls(found), "scaled_dot_product_attention"):
            yield from found.everywhere("soft cap", said, _sdpa_capped(cap), call)


def _sdpa_capped(cap: float) -> Edit:
    def edit(func: Callable[..., Any], args: Args, kwargs: Kwargs) -> Any:
        query, key, value = args[:3]
        mask = kwargs.get("attn_mask", args[3] if len(args) > 3 else None)
        scores = query @ key.transpose(-1, -2) * (kwargs.get("scale") or query.shape[-1] ** -0.5)
        scores = cap * torch.tanh(scores / cap)
        if kwargs.get("is_causal"):
            mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if mask is not None:
            scores = _masked(scores, mask) if mask.dtype == torch.bool else scores + mask
        return scores.softmax(-1) @ value

    return edit


def _positions(found: Parting) -> Iterator[Try]:
    if found.own.name == "embedding":
        for offset in (1, 2, -1):
            edit = partial(_looked_up, offset=offset)
            yield Try("positions", f"positions begin at {offset:+d} in theirs", {found.own.key: edit})


def _looked_up(func: Callable[..., Any], args: Args, kwargs: Kwargs, offset: int) -> Any:
    at = 0 if not args[0].is_floating_point() else 1
    return _before(lambda ids: (ids + offset).clamp(0, args[1 - at].shape[0] - 1), at)(func, args, kwargs)
