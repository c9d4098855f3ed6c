"""Named conditions on the steps of a run, for the text of a breakpoint.

    nan() inf() not_finite() a state, or any recorded value: outputs, attention, your own values
    ended()                         a sequence or a hypothesis has ended
    label("AH"), label("AH", rank=0)  a label was chosen, by its text or index: by any hypothesis, or by the best one
    entropy("att") > 2              of a row of attention weights, in nats; any row

Each returns a description of what it found, or "" for nothing; `entropy` returns numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.control.numbers import Numbers, place_words
from rfnb.control.step_events import ANY, ENDED, StepEvent
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.rec.selection import align_host
from rfnb.trace.event import named_tensors
from rfnb.trace.match import is_end_of, path_filter

if TYPE_CHECKING:
    from rfnb.control.position import Position


class ConditionContext(NamedTuple):
    """The information available to a condition.

    Attributes:
        at: The place before the next step.
        made: The events of the previous steps.
    """

    at: Position
    made: Sequence[StepEvent]


class MissingReference(LookupError):
    """Something that a condition refers to does not exist."""


@dataclass(eq=False)
class NamedNumbers:
    """Numbers with their name and origin."""

    numbers: Numbers
    name: str
    where: str


class _Looked(NamedTuple):
    """A value under test.

    Attributes:
        made: The step that computed it; None for a value before the next step.
    """

    value: float | Tensor
    name: str
    made: StepEvent | None


def nan(asked: ConditionContext) -> str:
    """NaN in a state, or in a recorded value."""
    return _nan(asked, _looked_at(asked))


def inf(asked: ConditionContext) -> str:
    """Infinity in these. Minus infinity counts in states only; elsewhere it is the log of a probability of 0."""
    return _inf(asked, _looked_at(asked))


def not_finite(asked: ConditionContext) -> str:
    """NaN or infinity."""
    looked = _looked_at(asked)
    return _nan(asked, looked) or _inf(asked, looked)


def _nan(asked: ConditionContext, looked: Sequence[_Looked]) -> str:
    return _bad(asked, looked, lambda host, _: np.isnan(host), "NaN")


def _inf(asked: ConditionContext, looked: Sequence[_Looked]) -> str:
    return _bad(asked, looked, lambda host, of_state: np.isinf(host) if of_state else host == np.inf, "infinity")


def _looked_at(asked: ConditionContext) -> list[_Looked]:
    """All numbers and tensors to test, except for finite ones on a device, which are tested there all at once."""
    found: list[_Looked] = []
    for made in asked.made:
        if made.kind in ("op", ENDED):  # what ops make in between may be infinite
            continue
        found += [_Looked(value, name, made) for name, value in made.values.items() if isinstance(value, float)]
        found += [_Looked(x, name, made) for name, x in named_tensors(made.values.items()) if _has_numbers(x)]
    at = asked.at
    found += [_Looked(value, name, None) for name, value in at.values.items() if isinstance(value, float)]
    states = [(name, state.tensor) for name, state in at.states.items()]
    found += [_Looked(x, f"state {name}", None) for name, x in states if _has_numbers(x)]
    there = [each.value for each in found if isinstance(each.value, Tensor) and is_there(each.value)]
    if there:
        odd = {id(x) for x, flag in zip(there, any_not_finite(there), strict=True) if flag}
        found = [
            each for each in found if isinstance(each.value, float) or id(each.value) in odd or not is_there(each.value)
        ]
    return found


def _has_numbers(tensor: Tensor) -> bool:
    return tensor.raw_tensor is not None and ("float" in tensor.dtype or "complex" in tensor.dtype)


def _bad(
    asked: ConditionContext, looked: Sequence[_Looked], test: Callable[[np.ndarray, bool], np.ndarray], what: str
) -> str:
    for value, name, made in looked:
        of_state = made is None or made.kind == "states"
        if isinstance(value, Tensor):
            place = _bad_place(value, made, test, of_state)
        else:
            place = "" if bool(test(np.asarray(value), of_state)) else None
        if place is not None:
            where = f" {asked.at.words()}" if made is None else made.where()
            return f"{what} in {name if made is None else f'{made.kind} {name}'}{where}{place}"
    return ""


def _bad_place(
    tensor: Tensor, made: StepEvent | None, test: Callable[[np.ndarray, bool], np.ndarray], of_state: bool
) -> str | None:
    """The first bad entry as text after a comma; None if there is none."""
    found = test(tensor.numpy(), of_state)
    if not found.any():  # mostly
        return None
    numbers = Numbers.of(tensor)
    out = _not_ended(Numbers(found, numbers.dims, numbers.real), made)
    if not out.any():
        return None
    place = out.first()
    return f", {place}" if place else ""


def _not_ended(numbers: Numbers, made: StepEvent | None) -> Numbers:
    """The numbers without those that had ended before."""
    if made is None or made.ended is None or not set(made.ended[1]) <= set(numbers.dims):
        return numbers
    return numbers.without(align_host(*made.ended, numbers.dims))


def ended(asked: ConditionContext, seq: int | None = None) -> str:
    """A sequence or hypothesis has ended, or one of the given sequence."""
    for made in asked.made:
        if made.kind == ENDED and made.ended is not None:
            host, dims = made.ended
        elif made.kind == "beams" and "left" in made.values:
            tensor = made.values["left"]
            host, dims = tensor.numpy(), tensor.dims
        else:
            continue
        for index in np.argwhere(host):
            if seq is None or _seq_of(index, dims) == seq:
                rest = int(host.sum()) - 1
                more = f" and {rest} more" if rest and seq is None else ""
                return f"{place_words(dims, index) or 'the sequence'} ended{more}{made.where()}"
    return ""


def label(asked: ConditionContext, label: str | int, rank: int | None = None, seq: int | None = None) -> str:
    """A label was chosen, by the hypothesis of this rank (0: the best), in this sequence. Ended hypotheses choose none."""
    step: Any = None
    before: np.ndarray | None = None
    for made in asked.made:
        if made.kind != "beams":
            continue
        chosen = _Chosen(made.values, made.ended, before if made.key and made.key == step else None)
        step, before = made.key, chosen.ended_before
        index = chosen.index_of(label)
        for place in np.argwhere((chosen.tokens == index) & chosen.goes_on):
            at, hypothesis = int(place[0]), int(place[1])
            of = int((chosen.scores[at] > chosen.scores[at, hypothesis]).sum())
            if (rank is None or of == rank) and (seq is None or at == seq):
                return f"{chosen.text_of(index)} was chosen{made.where()}, sequence {at}, rank {of}"
    return ""


class _Chosen:
    """The labels of the survivors of one choice, {sequence, hypothesis}.

    Args:
        ended: The hypotheses that ended before the step.
        before: The same for the hypotheses that this choice continues, if it is not the first of its step.
    """

    def __init__(self, values: Mapping[str, Any], ended: Any, before: np.ndarray | None):
        tokens, scores, parents = values["tokens"], values["scores"], values["parents"]
        self._labels, size = tokens.sparse_dim, tokens.dims[-1].extent
        rows = lambda tensor: tensor.numpy().reshape(-1, size)  # noqa: E731
        self.tokens, self.scores = rows(tokens), rows(scores)
        of, batch = parents.sparse_dim, parents.dims[:-1]
        if before is None and ended is not None:
            host, dims = ended
            known = (*batch, of) if of in dims else batch
            if set(dims) <= set(known):
                shape = [dim.extent for dim in known]
                before = np.broadcast_to(align_host(host, dims, known), shape).reshape(len(self.tokens), -1)
        if before is None:
            self.ended_before = np.zeros(self.tokens.shape, bool)
        elif before.shape[1] == 1:
            self.ended_before = np.broadcast_to(before, self.tokens.shape)
        else:
            self.ended_before = np.take_along_axis(before, rows(parents), 1)
        self.goes_on = ~self.ended_before & (self.scores > -np.inf)

    def index_of(self, label: str | int) -> int:
        """The index of a label.

        Raises:
            MissingReference: If there is no such label.
        """
        vocab: Sequence[Any] = getattr(self._labels, "vocab", None) or ()
        if isinstance(label, str):
            found = [index for index, text in enumerate(vocab) if text == label]
            if found:
                return found[0]
            texts = f"{len(vocab)} labels, as {', '.join(map(repr, list(vocab)[:6]))}" if vocab else "none has a text"
            raise MissingReference(f"no label {label!r} here ({texts})")
        if self._labels is not None and not 0 <= label < self._labels.extent:
            raise MissingReference(f"no label {label} here (they are 0 to {self._labels.extent - 1})")
        return int(label)

    def text_of(self, index: int) -> str:
        vocab = getattr(self._labels, "vocab", None)
        return f"label {index}" if not vocab else f'label "{vocab[index]}"'


def entropy(asked: ConditionContext, path: str | None = None) -> tuple[NamedNumbers, ...]:
    """The entropies of rows of attention weights, in nats, without rows of padding and of ended sequences."""
    fits = path_filter(path)
    found = [made for made in asked.made if made.kind == "attention"]
    out = tuple(_entropy_of(made) for made in found if fits(made.path, made.module))
    if found and not out:
        raise MissingReference(
            f'no attention "{path}" here (only at {", ".join(sorted({made.path for made in found}))})'
        )
    return out


def _entropy_of(made: StepEvent) -> NamedNumbers:
    weights, axis = made.values["weights"], made.values["axis"]
    over = [axis] if isinstance(axis, Dim) else list(axis)
    numbers = _not_ended(Numbers.of(weights), made)
    host = numbers.host.astype(np.float64)
    with np.errstate(all="ignore"):
        terms = np.where(host == 0, 0.0, -host * np.log(host))
    each = Numbers(terms, numbers.dims, numbers.real).sum(axis=over)
    return NamedNumbers(each, f"entropy of {made.path}" if made.path else "entropy", made.where().split(' of "')[0])


def _seq_of(index: Any, dims: Sequence[Dim]) -> int:
    """The number of a sequence: its flat index over the dims that are not a beam."""
    batch = [(int(at), dim.extent) for at, dim in zip(index, dims) if dim.kind != "beam"]
    return int(sum(at * math.prod(size for _, size in batch[axis + 1 :]) for axis, (at, _) in enumerate(batch)))


CONDITIONS: dict[str, tuple[Callable[..., str], frozenset[str], tuple[str, ...]]] = {
    "nan": (nan, frozenset(["states", "attention", "outputs", ANY]), ()),
    "inf": (inf, frozenset(["states", "attention", "outputs", ANY]), ()),
    "not_finite": (not_finite, frozenset(["states", "attention", "outputs", ANY]), ()),
    "ended": (ended, frozenset([ENDED, "beams"]), ("seq",)),
    "label": (label, frozenset(["beams"]), ("label", "rank", "seq")),
}
"""name: the function, the kinds of events that it needs, its arguments"""


def value_of(asked: ConditionContext, name: str) -> Any:
    """A state as numbers, or the number given to `rf.gate`, by name; None if there is none.

    Raises:
        MissingKeyError: If the name is the end of several paths.
    """
    given = asked.at.values.get(name)
    if isinstance(given, (int, float)):
        return given
    states = asked.at.states
    return states[name].numbers() if any(is_end_of(name, path) for path in states) else None


def is_there(tensor: Tensor) -> bool:
    """True if reading its values makes the host wait for a device."""
    return tensor.raw_tensor is not None and not tensor.backend.is_on_host_raw(tensor.raw_tensor)


def any_not_finite(tensors: Sequence[Tensor]) -> list[bool]:
    """For each of several device tensors, whether it contains NaN or infinity, padding included."""

    def odd(tensor: Tensor) -> Any:
        unary = tensor.backend.unary_fn
        return unary("logical_not")(unary("is_finite")(tensor.raw_tensor))

    return _answers([(tensor, odd(tensor)) for tensor in tensors])


def any_different(pairs: Sequence[tuple[Tensor, Tensor]]) -> list[bool]:
    """For each pair of device tensors of the same shape, whether any number differs; all NaNs are equal."""

    def other(one: Tensor, other: Tensor) -> Any:
        a, b, combine = one.raw_tensor, other.raw_tensor, one.backend.combine_raw
        is_nan = combine(combine(a, "not_equal", a), "logical_and", combine(b, "not_equal", b))
        return combine(combine(a, "not_equal", b), "logical_and", one.backend.unary_fn("logical_not")(is_nan))

    return _answers([(a, other(a, b)) for a, b in pairs])


def _answers(asked: Sequence[tuple[Tensor, Any]]) -> list[bool]:
    """For each raw array, whether any entry is True; one transfer per device."""
    groups: dict[Any, list[int]] = {}
    for place, (tensor, _) in enumerate(asked):
        groups.setdefault((tensor.backend, tensor.device), []).append(place)
    out = [False] * len(asked)
    for (backend, _), places in groups.items():
        flags = [
            backend.reduce_raw(asked[place][1], "any", tuple(range(len(asked[place][0].dims)))) for place in places
        ]
        host: np.ndarray = backend.raw_to_numpy(backend.stack_raw(flags, 0))
        for place, flag in zip(places, host.tolist(), strict=True):
            out[place] = flag
    return out
