"""The functions of torch that draw random numbers from a generator, told as they are called by this thread."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from rfnb.backends.torch_modes import OwnMode

_DRAW = re.compile(
    "_?(native_|functional_)?(feature_)?(alpha_)?dropout|rand|normal|bernoulli|multinomial|poisson$|binomial|rrelu|uniform_|random_"
    "|gumbel|exponential_|geometric_|cauchy_|log_normal_|fractional_max_pool"
)
_DROPPED = "dropout_p"  # of attention


class WatchDraws(OwnMode):
    """A mode is that of the thread."""

    def __init__(self, draws: Callable[[str], None]):
        super().__init__()
        self._draws = draws

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tell_draw(self._draws, func, kwargs)
        return func(*args, **kwargs)


def tell_draw(draws: Callable[[str], None], func: Any, kwargs: Any) -> None:
    """Tell if this call is going to draw."""
    name = getattr(func, "__name__", "")
    if (_may_draw(name) and kwargs.get("training", True)) or kwargs.get(_DROPPED):
        draws(f"torch.{name}")


@lru_cache(maxsize=4096)
def _may_draw(name: str) -> bool:
    return _DRAW.match(name) is not None
