"""Recurrences of models of torch whose state is a matrix that each step shrinks and writes to, and what a kernel for them is given.

    S_t = exp(log_decay_t) S_{t-1} + strength_t key_t value_t;    read_t = query_t . S_t

A kernel gives what is read and the last state. What it was given says all states, so these are made when somebody looks, a block of steps
at a time. Each family is a function of `KERNELS`, by the name of the kernel and of its arguments, that gives the values above.

Sources: Yang et al. 2024, "Gated Delta Networks"; Gu and Dao 2023, "Mamba"; Dao and Gu 2024, "Transformers are SSMs"; De et al. 2024,
"Griffin".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F

_BLOCK = 64  # steps whose states are there at once
_MARKS = 64  # states of a run that stay where single ones are looked at


@dataclass
class Recurrence:
    """The recurrence that a kernel computes, with axes [batch, time, head, ...].

    Attributes:
        log_decay: [batch, time, head], or with an axis of keys behind.
        strength: [batch, time, head].
        key, query: [batch, time, head or 1, key].
        value: [batch, time, head, value].
        first: The state before the first step, [batch, head, key, value]; None: zeros.
        delta: Whether what the key had is erased to the same degree.
        marks: States by their steps, from which others are made.
    """

    log_decay: torch.Tensor
    strength: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    query: torch.Tensor
    first: torch.Tensor | None = None
    delta: bool = False
    marks: dict[int, torch.Tensor] = field(default_factory=dict, init=False, repr=False)

    def step(self, state: torch.Tensor, index: int) -> torch.Tensor:
        """The state behind a step."""
        key, value = self.key[:, index, ..., None], self.value[:, index, :, None]
        state = state * self._decay(index)
        if self.delta:
            value = value - (key * state).sum(-2, keepdim=True)
        return state + self.strength[:, index, :, None, None] * key * value

    def read(self, state: torch.Tensor, index: int) -> torch.Tensor:
        """[batch, head, value] of a state."""
        return (self.query[:, index, ..., None] * state).sum(-2)

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
        """The state [batch, head, key, value] behind one step, from the last of some that are kept."""
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

        The rank is (sum of s^2)^2 / sum of s^4 over the singular values s: 1 where one direction has all, the number of directions where
        they are equally strong.
        """
        norms, ranks = [], []
        for states in self.blocks():
            wide = states.shape[-1] > states.shape[-2]
            square = states @ states.mT if wide else states.mT @ states
            total = square.diagonal(dim1=-2, dim2=-1).sum(-1)
            norms.append(total.sqrt())
            ranks.append(total.square() / square.square().sum((-2, -1)).clamp_min(torch.finfo(total.dtype).tiny))
        return torch.cat(norms, 1), torch.cat(ranks, 1)

    def weights(self) -> torch.Tensor:
        """The part of each source's value that is read at each target, [batch, head, target, source]; without the first state's."""
        key, query = (part.transpose(1, 2) for part in (self.key, self.query))
        decay = self.log_decay.transpose(1, 2).cumsum(2)
        times = torch.arange(self.steps, device=decay.device)
        strength = self.strength.transpose(1, 2)
        seen = _faded(query, key, decay, times[:, None] >= times)
        if self.delta:  # what is written is the value, without what was there for the key
            had = _faded(key, key, decay, times[:, None] > times) * strength[..., None]
            seen = seen @ _inverse(had)
        return seen * strength[:, :, None]


def _faded(query: torch.Tensor, key: torch.Tensor, decay: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
    """query_t . exp(decay_t - decay_j) key_j where j is seen from t, [batch, head, target, source]."""
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
    """The way to read a kernel.

    Attributes:
        read: Gives the recurrence of its arguments, by their names.
        state: The argument that has the state before; None: it has none.
        inward, outward: The state of the kernel as [batch, head, key, value], and back.
        in_place: Whether it writes the new state where the old one was.
        head: What its heads are called.
        time: Which axis of its first argument has the steps; None: it makes one step, and gives what is read alone.
        has_strength: Whether it is told how much is written; else that is in the values.
    """

    read: Callable[[Mapping[str, Any]], Recurrence]
    state: str | None = None
    inward: Callable[[torch.Tensor], torch.Tensor] = lambda state: state
    outward: Callable[[torch.Tensor], torch.Tensor] = lambda state: state
    in_place: bool = False
    head: str = "head"
    time: int | None = 1
    has_strength: bool = True


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
    """The same for one step, with all repeated over features."""
    made = {name: given[name][:, None] for name in ("hidden_states", "B", "C")}
    bias, rate, state = given.get("dt_bias"), given["A"], given["state"]
    bias = None if bias is None else bias[:, 0]
    step = {"dt": given["dt"][:, None, :, 0], "dt_bias": bias, "dt_softplus": given.get("dt_softplus")}
    return _chunk_scan({**made, **step, "A": rate[:, 0, 0], "initial_states": state})


def _rg_lru(given: Mapping[str, Any]) -> Recurrence:
    """Each channel is a head with one number as its state, which begins anew where a text does."""
    value, decay = (_wide(given[name])[..., None] for name in ("hidden_states", "recurrent_gate"))
    decay = decay * ~given["reset"].bool()[..., None]
    one = torch.ones_like(value[:, :, :1])
    first = _given(given, "recurrent_states")
    first = None if first is None else first[..., None, None]
    return Recurrence(decay.clamp_min(1e-30).log(), torch.ones_like(value[..., 0]), one, value, one, first)


def _step_size(step: torch.Tensor, bias: torch.Tensor | None, softplus: Any) -> torch.Tensor:
    step = step if bias is None else step + _wide(bias)
    return F.softplus(step) if softplus else step


def _given(given: Mapping[str, Any], name: str) -> torch.Tensor | None:
    value = given.get(name)
    return None if value is None else _wide(value)


def _wide(raw: torch.Tensor) -> torch.Tensor:
    return raw if raw.dtype == torch.float64 else raw.float()


_DELTA = Kernel(_delta_rule, "initial_state")
KERNELS = {
    **dict.fromkeys(("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule"), _DELTA),
    **dict.fromkeys(("chunk_kimi_delta_attention", "recurrent_kimi_delta_attention"), _DELTA),
    "mamba_selective_scan": Kernel(_selective_scan, None, lambda s: s[..., None], lambda s: s[..., 0], head="channel", time=2),
    "mamba_selective_state_update": Kernel(
        _selective_step, "state", lambda s: s[..., None], lambda s: s[..., 0], in_place=True, head="channel", time=None
    ),
    "mamba2_chunk_scan": Kernel(_chunk_scan, "initial_states", lambda s: s.mT, lambda s: s.mT),
    "mamba2_selective_state_update": Kernel(
        _chunk_step, "state", lambda s: s.mT, lambda s: s.mT, in_place=True, time=None
    ),
    "_rnn_scan": Kernel(
        _rg_lru, "recurrent_states", lambda s: s[..., None, None], lambda s: s[..., 0, 0], head="channel", has_strength=False
    ),
}  # fmt: skip
"""By the name of the function in the file of the model, or of the method of the module."""
