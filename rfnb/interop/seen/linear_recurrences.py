"""Recurrences in torch models with a matrix state that each step decays and writes to, reconstructed from the arguments of their kernels.

    S_t = exp(log_decay_t) S_{t-1} + strength_t key_t value_t;    read_t = query_t . S_t

If the result is divided by a normaliser, this is an additional column of the state, to which each step writes a one;
and states are divided by exp(scale_t), as in the papers, so that no exponential overflows. The state of a convolution
is the inputs that its filter covers.

A kernel returns the results and the last state. Its arguments determine all states, which are computed on demand, a
block of steps at a time. Each family is a function in `KERNELS` that maps the named arguments of a kernel to the values
above.

Sources: Yang et al. 2024, "Gated Delta Networks"; Gu and Dao 2023, "Mamba"; Dao and Gu 2024, "Transformers are SSMs"; De et al. 2024,
"Griffin"; Peng et al. 2023, "RWKV", section 3.1.2; Beck et al. 2024, "xLSTM", section 2.3 and appendix A.2.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
import torch.nn.functional as F

_BLOCK = 64  # steps whose states are in memory at once
_MARKS = 64  # states of a run that are cached for random access


@dataclass
class Recurrence:
    """The recurrence that a kernel computes, with axes [batch, time, head, ...].

    Attributes:
        log_decay: [batch, time, head], or with a further axis of keys.
        strength: [batch, time, head].
        key, query: [batch, time, head or 1, key].
        value: [batch, time, head, value].
        first: The state before the first step, [batch, head, key, value]; None: zeros.
        delta: Whether the old value at the key is erased to the same degree.
        bonus: [batch, time, head]; a step reads the state before it, plus its own write with this strength. None: it
            reads the state after it.
        scale: [batch, time, head], the log of the divisor of the states; None without a normaliser.
        least: [batch, time, head], a lower bound of the normaliser.
        changes: The edits of the states after steps.
        marks: Cached states by step, from which others are computed.
    """

    log_decay: torch.Tensor
    strength: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    query: torch.Tensor
    first: torch.Tensor | None = None
    delta: bool = False
    bonus: torch.Tensor | None = None
    scale: torch.Tensor | None = None
    least: torch.Tensor | None = None
    changes: Callable[[torch.Tensor, int], torch.Tensor] | None = None
    marks: dict[int, torch.Tensor] = field(default_factory=dict, init=False, repr=False)

    def step(self, state: torch.Tensor, index: int) -> torch.Tensor:
        """The state after a step."""
        state = self._stepped(state, index)
        return state if self.changes is None else self.changes(state, index)

    def _stepped(self, state: torch.Tensor, index: int) -> torch.Tensor:
        key, value = self.key[:, index, ..., None], self.value[:, index, :, None]
        state = state * self._decay(index)
        if self.delta:
            value = value - (key * state).sum(-2, keepdim=True)
        return state + self.strength[:, index, :, None, None] * key * value

    def read(self, before: torch.Tensor, after: torch.Tensor, index: int) -> torch.Tensor:
        """[batch, head, value], the values that a step reads from the states before and after it."""
        seen = self._seen(before, after, index)
        return seen if self.least is None else seen[..., :-1] / self._normaliser(seen[..., -1:], index)

    def _seen(self, before: torch.Tensor, after: torch.Tensor, index: int) -> torch.Tensor:
        seen = (self.query[:, index, ..., None] * (after if self.bonus is None else before)).sum(-2)
        return seen if self.bonus is None else seen + self.bonus[:, index, :, None] * self.value[:, index]

    def _normaliser(self, seen: torch.Tensor, index: int) -> torch.Tensor:
        assert self.least is not None
        return torch.maximum(seen.abs(), self.least[:, index, :, None])

    def gates(self) -> dict[str, torch.Tensor]:
        """The kept fraction of the state and the write strength by name, [batch, time, head] (or with a further axis of keys)."""
        return {"forget_gate": self.log_decay.exp(), "write_gate": self.strength}

    def content(self, state: torch.Tensor) -> torch.Tensor:
        """One or several states without the normaliser."""
        return state if self.scale is None else state[..., :-1]

    def _decay(self, index: int) -> torch.Tensor:
        decay = self.log_decay[:, index].exp()
        return decay[..., None, None] if decay.ndim == 2 else decay[..., None]

    @property
    def steps(self) -> int:
        """The number of steps."""
        return int(self.value.shape[1])

    def zeros(self) -> torch.Tensor:
        """A state of zeros."""
        batch, _, heads, size = self.value.shape
        return self.value.new_zeros(batch, heads, self.key.shape[-1], size)

    def at(self, index: int) -> torch.Tensor:
        """The state [batch, head, key, value] after one step, computed from the nearest cached one."""
        apart = -(-self.steps // _MARKS)
        before = max((mark for mark in self.marks if mark <= index), default=-1)
        state = self.marks[before] if before >= 0 else self.zeros() if self.first is None else self.first
        for step in range(before + 1, index + 1):
            state = self.step(state, step)
            if step % apart == apart - 1:
                self.marks[step] = state
        return state

    def blocks(self, size: int = _BLOCK) -> Iterator[torch.Tensor]:
        """The states [batch, steps of a block, head, key, value], block by block."""
        state = self.zeros() if self.first is None else self.first
        for start in range(0, self.steps, size):
            made = []
            for index in range(start, min(start + size, self.steps)):
                state = self.step(state, index)
                made.append(state)
            yield torch.stack(made, 1)

    def sizes(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Norm and effective rank of each state, [batch, time, head].

        The rank is (sum of s^2)^2 / sum of s^4 over the singular values s: 1 if all mass is in one direction, the
        number of directions if they are equally strong.
        """
        norms, ranks = [], []
        for states in map(self.content, self.blocks()):
            wide = states.shape[-1] > states.shape[-2]
            square = states @ states.mT if wide else states.mT @ states
            total = square.diagonal(dim1=-2, dim2=-1).sum(-1)
            norms.append(total.sqrt())
            ranks.append(total.square() / square.square().sum((-2, -1)).clamp_min(torch.finfo(total.dtype).tiny))
        return torch.cat(norms, 1), torch.cat(ranks, 1)

    def weights(self) -> torch.Tensor:
        """The weight of each source's value in each target's result, [batch, head, target, source]; without the
        contribution of the initial state.
        """
        key, query = (part.transpose(1, 2) for part in (self.key, self.query))
        decay = self.log_decay.transpose(1, 2).cumsum(2)
        times = torch.arange(self.steps, device=decay.device)
        strength = self.strength.transpose(1, 2)
        if self.bonus is not None:  # a step reads the previous state
            seen = _faded(query[:, :, 1:], key[:, :, :-1], decay[:, :, :-1], times[1:, None] >= times[1:])
            seen = F.pad(seen, (0, 1, 1, 0)) * strength[:, :, None] + self.bonus.transpose(1, 2).diag_embed()
            return self._divided(seen)
        seen = _faded(query, key, decay, times[:, None] >= times)
        if self.delta:  # a write is the value minus the old value at the key
            had = _faded(key, key, decay, times[:, None] > times) * strength[..., None]
            seen = seen @ _inverse(had)
        return self._divided(seen * strength[:, :, None])

    def _divided(self, weights: torch.Tensor) -> torch.Tensor:
        """Weights divided by the normaliser of each target."""
        if self.least is None:
            return weights
        before, sums = self.zeros() if self.first is None else self.first, []
        for index in range(self.steps):
            after = self.step(before, index)
            sums.append(self._normaliser(self._seen(before, after, index)[..., -1:], index))
            before = after
        return weights / torch.stack(sums, 2)

    def of_rows(self, rows: torch.Tensor) -> Recurrence:
        """The same with other rows of the batch; what all rows share stays as it is."""
        made = copy.copy(self)
        for name, value in self._tensors().items():
            if value.shape[0] == self.value.shape[0]:
                setattr(made, name, value.index_select(0, rows.to(value.device)))
        made.marks = {}
        return made

    def _tensors(self) -> dict[str, torch.Tensor]:
        return {
            each.name: value for each in fields(self) if isinstance(value := getattr(self, each.name), torch.Tensor)
        }


def joined(runs: Sequence[Recurrence]) -> Recurrence:
    """One recurrence of several that continue each other, without edits of their states."""
    if len(runs) == 1:
        return runs[0]
    made = copy.copy(runs[-1])
    for name in made._tensors().keys() - {"first"}:
        setattr(made, name, torch.cat([getattr(each, name) for each in runs], 1))
    made.first, made.marks, made.changes = runs[0].first, {}, None
    return made


def _faded(query: torch.Tensor, key: torch.Tensor, decay: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """query_t . exp(decay_t - decay_j) key_j for j visible from t, [batch, head, target, source]."""
    if decay.ndim == 3:
        return query @ key.mT * (decay[..., None] - decay[:, :, None]).masked_fill(~seen, -math.inf).exp()
    rows = []
    for index in range(decay.shape[2]):
        fading = (decay[:, :, index, None] - decay).masked_fill(~seen[index, :, None], -math.inf).exp()
        rows.append((query[:, :, index, None] * key * fading).sum(-1))
    return torch.stack(rows, 2)


def _inverse(lower: torch.Tensor) -> torch.Tensor:
    """(1 + lower)^-1 of a strictly lower triangular matrix."""
    one = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device).expand_as(lower)
    return torch.linalg.solve_triangular(lower, one, upper=False, unitriangular=True)


# -- families ----------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Kernel:
    """The interpretation of a kernel's arguments and results.

    Attributes:
        read: Returns the recurrence for its named arguments.
        state: The arguments with the previous state, which is overwritten there or in a cache.
        outward: Converts the last state [batch, head, key, value] to the form that the kernel returns.
        in_place: Whether it writes the new state in place.
        head: The name of its heads.
        time: The axis of the steps in its arguments; None: it makes one step, and returns only the result.
        has_strength: Whether it receives the write strength as an argument; otherwise the strength is part of the values.
        cached: The entry of the module's cache with the last state, if the kernel does not return it.
    """

    read: Callable[[Mapping[str, Any]], Recurrence]
    state: Sequence[str] = ()
    outward: Callable[[torch.Tensor, Recurrence], Any] = lambda state, made: state
    in_place: bool = False
    head: str = "head"
    time: int | None = 1
    has_strength: bool = True
    cached: str | None = None


def _delta_rule(given: Mapping[str, Any]) -> Recurrence:
    query, key, value, log_decay, beta = (_wide(given[name]) for name in ("query", "key", "value", "g", "beta"))
    if given.get("use_qk_l2norm_in_kernel"):
        query, key = (part * (part.square().sum(-1, keepdim=True) + 1e-6).rsqrt() for part in (query, key))
    groups = value.shape[2] // key.shape[2]
    query, key = (part.repeat_interleave(groups, 2) for part in (query, key))
    return Recurrence(log_decay, beta, key, value, query * key.shape[-1] ** -0.5, _given(given, "initial_state"), True)


def _selective_scan(given: Mapping[str, Any]) -> Recurrence:
    """Each channel is a head with a state of one column; A is [channel, state]."""
    value, step, key, query = (_wide(given[name]).mT for name in ("hidden_states", "dt", "B", "C"))
    step = _step_size(step, given.get("delta_bias"), given.get("delta_softplus"))
    return Recurrence(step[..., None] * _wide(given["A"]), step, key[:, :, None], value[..., None], query[:, :, None])


def _selective_step(given: Mapping[str, Any]) -> Recurrence:
    value, step, key, query = (_wide(given[name])[:, None] for name in ("hidden_states", "dt", "B", "C"))
    step, rate = _step_size(step, given.get("dt_bias"), given.get("dt_softplus")), _wide(given["A"])
    first = _given(given, "state")
    assert first is not None
    return Recurrence(
        step[..., None] * rate, step, key[:, :, None], value[..., None], query[:, :, None], first[..., None]
    )


def _chunk_scan(given: Mapping[str, Any]) -> Recurrence:
    """A is [head]; B and C are shared by the heads of a group."""
    value, step, key, query = (_wide(given[name]) for name in ("hidden_states", "dt", "B", "C"))
    step = _step_size(step, given.get("dt_bias"), given.get("dt_softplus"))
    step = step.clamp(*given.get("dt_limit", (0.0, math.inf)))
    groups = value.shape[2] // key.shape[2]
    key, query = (part.repeat_interleave(groups, 2) for part in (key, query))
    first = _given(given, "initial_states")
    return Recurrence(step * _wide(given["A"]), step, key, value, query, None if first is None else first.mT)


def _chunk_step(given: Mapping[str, Any]) -> Recurrence:
    """The same for one step, with all values repeated over features."""
    made = {name: given[name][:, None] for name in ("hidden_states", "B", "C")}
    bias, rate, state = given.get("dt_bias"), given["A"], given["state"]
    bias = None if bias is None else bias[:, 0]
    step = {"dt": given["dt"][:, None, :, 0], "dt_bias": bias, "dt_softplus": given.get("dt_softplus")}
    return _chunk_scan({**made, **step, "A": rate[:, 0, 0], "initial_states": state})


def _rg_lru(given: Mapping[str, Any]) -> Recurrence:
    """Each channel is a head with a scalar state, which is reset at the start of a text."""
    value, decay = (_wide(given[name])[..., None] for name in ("hidden_states", "recurrent_gate"))
    decay = decay * ~given["reset"].bool()[..., None]
    one = torch.ones_like(value[:, :, :1])
    first = _given(given, "recurrent_states")
    first = None if first is None else first[..., None, None]
    return Recurrence(decay.clamp_min(1e-30).log(), torch.ones_like(value[..., 0]), one, value, one, first)


def _rwkv(given: Mapping[str, Any]) -> Recurrence:
    """Each channel is a head whose state is a weighted sum of values and the sum of their weights. A step reads before it writes."""
    decay, bonus, key, value = (_wide(given[name]) for name in ("time_decay", "time_first", "key", "value"))
    decay, own = -decay.exp(), key + bonus
    first, begins = None, torch.minimum(key, own)[:, 0]
    if given.get("state") is not None:
        *sums, before = map(_wide, given["state"])
        first = torch.stack(sums, -1)[:, :, None]
        begins = torch.where(first.any(-1)[..., 0], before, begins)
    scale, faded, written = _scaled(decay.expand_as(key), key, begins)
    before = torch.cat([begins[:, None], scale[:, :-1]], 1)
    most = torch.maximum(before, own)
    query, one = (before - most).exp()[..., None], torch.ones_like(value[:, :, :1, None])
    return Recurrence(
        faded, written, one, _with_ones(value[..., None]), query, first,
        bonus=(own - most).exp(), scale=scale, least=torch.zeros_like(scale),
    )  # fmt: skip


def _mlstm(given: Mapping[str, Any]) -> Recurrence:
    """Gates are [batch, head, time]; the forget gate is a sigmoid, the write gate an exponential."""
    query, key, value = (_wide(given[name]).transpose(1, 2) for name in ("query", "key", "value"))
    write, forget = _wide(given["igate"]).mT, F.logsigmoid(_wide(given["fgate"])).mT
    state, begins, first = given.get("c_initial"), write[:, 0], None
    if state is not None:
        begins = _wide(given["m_initial"]).reshape(begins.shape)
        first = torch.cat([_wide(state), _wide(given["n_initial"])[..., None]], -1)
    scale, faded, written = _scaled(forget, write, begins)
    return Recurrence(
        faded,
        written,
        key,
        _with_ones(value),
        query * query.shape[-1] ** -0.5,
        first,
        scale=scale,
        least=(-scale).exp(),
    )


def _scaled(decay: torch.Tensor, write: torch.Tensor, before: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The log of the divisor of states, which keeps them bounded, and the log decay and strength for the scaled states."""
    scales = [before]
    for index in range(decay.shape[1]):
        scales.append(torch.maximum(scales[-1] + decay[:, index], write[:, index]))
    all_scales = torch.stack(scales, 1)
    scale = all_scales[:, 1:]
    return scale, decay + all_scales[:, :-1] - scale, (write - scale).exp()


def _last_scale(made: Recurrence) -> torch.Tensor:
    assert made.scale is not None
    return made.scale[:, -1]


def _with_ones(value: torch.Tensor) -> torch.Tensor:
    return torch.cat([value, torch.ones_like(value[..., :1])], -1)


class LastInputs(Recurrence):
    """The last inputs of each channel, as many as the causal convolution's filter has taps: a step shifts them by one, and reads them."""

    bias: torch.Tensor | None = None
    activation: str | None = None

    def _stepped(self, state: torch.Tensor, index: int) -> torch.Tensor:
        return torch.cat([state[:, :, 1:], self.value[:, index, :, None]], 2)

    def read(self, before: torch.Tensor, after: torch.Tensor, index: int) -> torch.Tensor:
        """The result of the convolution, after its activation."""
        seen = super().read(before, after, index)
        seen = seen if self.bias is None else seen + self.bias[:, None]
        return F.silu(seen) if self.activation in ("silu", "swish") else seen

    def gates(self) -> dict[str, torch.Tensor]:
        """Empty: there are no gates."""
        return {}

    def weights(self) -> torch.Tensor:
        """The filter, along the diagonals."""
        taps, times = self.query[0, 0], torch.arange(self.steps, device=self.query.device)
        place = taps.shape[-1] - 1 - (times[:, None] - times)
        seen = taps[:, place.clamp(0, taps.shape[-1] - 1)] * ((place >= 0) & (times[:, None] >= times))
        return seen.expand(len(self.value), *seen.shape)


def _convolution(given: Mapping[str, Any]) -> Recurrence:
    """Each channel is a head; the filter is [channel, tap]."""
    value, taps = _wide(given["hidden_states"]).mT[..., None], _wide(given["weight"])
    none, first = torch.zeros_like(value[..., 0]), _given(given, "conv_state")
    made = LastInputs(
        none, none, torch.zeros_like(taps[:1]).expand(*value.shape[:2], 1, -1), value, taps.expand(1, value.shape[1], *taps.shape),
        None if first is None else first[..., None],
    )  # fmt: skip
    made.bias, made.activation = _given(given, "bias"), given.get("activation")
    return made


def _step_size(step: torch.Tensor, bias: torch.Tensor | None, softplus: Any) -> torch.Tensor:
    step = step if bias is None else step + _wide(bias)
    return F.softplus(step) if softplus else step


def _given(given: Mapping[str, Any], name: str) -> torch.Tensor | None:
    value = given.get(name)
    return None if value is None else _wide(value)


def _wide(raw: torch.Tensor) -> torch.Tensor:
    return raw if raw.dtype == torch.float64 else raw.float()


_DELTA = Kernel(_delta_rule, ("initial_state",))
CONVOLUTIONS = {
    "causal_conv1d_fn": Kernel(_convolution, (), lambda s, _: s[..., 0], head="channel", time=2, cached="conv_states"),
    "causal_conv1d_update": Kernel(
        _convolution, ("conv_state",), lambda s, _: s[..., 0], in_place=True, head="channel", time=2
    ),
}
"""Further `KERNELS`, only for models without any of those: otherwise they are part of a layer with a matrix state."""
KERNELS = {
    **dict.fromkeys(("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"), _DELTA),
    **dict.fromkeys(("chunk_kimi_delta_attention", "recurrent_kimi_delta_attention"), _DELTA),
    "mamba_selective_scan": Kernel(_selective_scan, (), lambda s, _: s[..., 0], head="channel", time=2),
    "mamba_selective_state_update": Kernel(
        _selective_step, ("state",), lambda s, _: s[..., 0], in_place=True, head="channel", time=None
    ),
    "mamba2_chunk_scan": Kernel(_chunk_scan, ("initial_states",), lambda s, _: s.mT),
    "mamba2_selective_state_update": Kernel(_chunk_step, ("state",), lambda s, _: s.mT, in_place=True, time=None),
    "_rnn_scan": Kernel(
        _rg_lru, ("recurrent_states",), lambda s, _: s[..., 0, 0], head="channel", has_strength=False
    ),
    "rwkv_linear_attention": Kernel(_rwkv, ("state",), lambda s, made: [*s[:, :, 0].unbind(-1), _last_scale(made)], head="channel"),
    "xLSTMBackend.forward": Kernel(
        _mlstm, ("c_initial", "n_initial", "m_initial"), lambda s, made: (s[..., :-1], s[..., -1], _last_scale(made)[..., None]), time=2
    ),
}  # fmt: skip
"""By the name of a function in the file of the model, or of a method of the module, or by class and method of an inner module."""
