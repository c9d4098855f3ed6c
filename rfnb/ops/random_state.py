"""The sources of random numbers: the generator of the backend, and seeds that are the same in every step.

The generator of the backend and the seed are shared by all threads; the number of step seeds drawn belongs to the context, so that a
step in one thread does not take seeds from a step in another.
"""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Any, Never

import numpy as np

from rfnb.backends import registry
from rfnb.core.errors import type_error, value_error
from rfnb.core.op import op
from rfnb.core.tensor import Tensor
from rfnb.core.tensor_text import shape_of

_DEFAULT_SEED = 42
_STATIC = "static"  # key of the seeds in the random state; the others are devices


class _StepSeeds:
    """A sequence of seeds, repeated after `restart`."""

    def __init__(self, seed: int):
        self.seed = seed
        self.restart()

    def restart(self) -> None:
        self.generator = np.random.default_rng(self.seed)

    def state(self) -> bytes:
        return json.dumps({"seed": self.seed, "generator": self.generator.bit_generator.state}).encode()

    def set_state(self, state: bytes) -> None:
        values = json.loads(state)
        generator = np.random.default_rng(self.seed)
        generator.bit_generator.state = values["generator"]
        if type(values["seed"]) is not int or values["seed"] < 0:
            raise ValueError("the seed is no number from 0 on")
        self.seed, self.generator = values["seed"], generator


_seed = [_DEFAULT_SEED]
_of_context: ContextVar[_StepSeeds | None] = ContextVar("rfnb_step_seeds", default=None)


def _step_seeds() -> _StepSeeds:
    found = _of_context.get()
    if found is None:
        found = _StepSeeds(_seed[0])
        _of_context.set(found)
    return found


@op(changes_state=True)
def set_random_seed(seed: int, *extra: Never, **unknown: Never) -> None:
    """Seed the generator of the selected backend, and the seeds of `get_static_step_based_seed`."""
    registry.selected().set_random_seed(seed)
    _seed[0] = abs(int(seed))
    _of_context.set(_StepSeeds(_seed[0]))


def get_random_state(*extra: Never, **unknown: Never) -> dict[str, bytes]:
    """The state of the generators, by device, and of the step-based seeds ("static").

    For an accelerator not yet in use, the entry "cuda" (or its kind) is empty, so that it is not initialised.
    """
    return {**registry.selected().get_random_state(), _STATIC: _step_seeds().state()}


@op(changes_state=True)
def set_random_state(state: dict[str, bytes], *extra: Never, **unknown: Never) -> None:
    """Restore a state of `get_random_state`, as far as this machine has the devices.

    Raises:
        ValueError: If it is invalid; then nothing is set.
    """
    put_back(state)


def put_back(state: dict[str, bytes]) -> None:
    """The same, outside of a computation: no recorded loop repeats it."""
    backend, before = registry.selected(), get_random_state()
    try:
        state = dict(state)
        static = state.pop(_STATIC, None)
        backend.set_random_state(state)
        if static is not None:
            _step_seeds().set_state(static)
    except Exception as error:  # each generator has errors of its own for a state that is none
        backend.set_random_state({name: each for name, each in before.items() if name != _STATIC})
        raise value_error(
            "set_random_state: this is no state of the generators.",
            {"fails": f"{type(error).__name__}: {error}".splitlines()[0][:200], "backend": backend.name},
            "A state is a result of get_random_state for the same backend: bytes by the name of a device. Nothing was set.",
            "state = rf.get_random_state()",
        ) from error


def own_step_seeds() -> None:
    """Make the step seeds private to this context if it is a copy of another one; the same seeds follow."""
    own = _StepSeeds(_seed[0])
    own.set_state(_step_seeds().state())
    _of_context.set(own)


@op(changes_state=True)
def reset_step_random_state(*extra: Never, **unknown: Never) -> None:
    """Restart the seeds of `get_static_step_based_seed`: called in each step, it makes them the same in each step."""
    _step_seeds().restart()


@op(draws=True)
def get_static_step_based_seed(
    *extra: Never, size: int | tuple[int, ...] | None = None, **unknown: Never
) -> int | np.ndarray:
    """The next seed since `reset_step_random_state`, at least 0 and below 2³¹; with `size` an int64 array of seeds."""
    drawn = _step_seeds().generator.integers(0, 2**31, size=size)
    return int(drawn) if size is None else drawn


def generator_for(
    what: str, backend: Any, device: str | None, *, seed: Any, static: bool | None, explicit_state: Tensor | None,
    auto_update_state: bool | None, algorithm: str | None,
) -> Any | None:  # fmt: skip
    """The separate generator of one call, or None for that of the backend. Options as in `random`."""
    if algorithm is not None:
        raise value_error(
            f'{what}: algorithm "{algorithm}".',
            {"backend": backend.name, "algorithm": algorithm},
            "The algorithm is that of the backend's generator and cannot be chosen. Leave it out.",
        )
    if explicit_state is None:
        if auto_update_state:
            raise value_error(
                f"{what}: auto_update_state without a state.",
                {"explicit_state": None},
                "Only a given state can be updated.",
                f"rf.{what}(..., explicit_state=state, auto_update_state=True)",
            )
        if seed is None and not static:
            return None
        return backend.generator_raw(device, seed=_as_number(get_static_step_based_seed() if seed is None else seed))
    if seed is not None or static:
        raise value_error(
            f"{what}: a state and a seed.",
            {"explicit_state": explicit_state, "seed": seed, "static": static},
            "A state determines all following numbers. Leave out the seed (and static).",
        )
    if explicit_state.dtype != "uint8" or len(explicit_state.dims) != 1:
        raise type_error(
            f"{what}: explicit_state is no state of a generator.",
            {"explicit_state": f"{shape_of(explicit_state)} {explicit_state.dtype}"},
            "It is uint8 over one dim: bytes of `get_random_state`.",
            'state = np.frombuffer(bytearray(rf.get_random_state()["cpu"]), np.uint8)\n'
            "state = rf.convert_to_tensor(state, dims=[Dim(len(state))])",
        )
    return backend.generator_raw(device, state=explicit_state.numpy().tobytes())


def update_state(backend: Any, explicit_state: Tensor, generator: Any) -> None:
    """Write the current state of the generator into `explicit_state`, in place."""
    state = np.frombuffer(backend.generator_state_raw(generator), np.uint8)
    own = explicit_state.backend
    own.assign_raw(explicit_state._raw, own.from_numpy(state, dtype="uint8", device=explicit_state.device))


def _as_number(seed: Any) -> int:
    """Combine several seeds into one."""
    numbers = [int(number) % 2**63 for number in np.ravel(seed)]
    return (
        numbers[0] if len(numbers) == 1 else int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0]) >> 1
    )
