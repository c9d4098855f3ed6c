"""Zoneout: in training a unit keeps its old value now and then."""

from __future__ import annotations

from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.nn.run import run_ctx
from rfnb.ops.random import drop


def zoneout(old: Tensor, new: Tensor, factor: float, *, func: type) -> Tensor:
    """In training of `func`, per entry: old with probability `factor`, else new. Otherwise the mean of both with these weights.

    Source: Krueger et al. 2017, "Zoneout", section 3.2.
    """
    if factor == 0:
        return new
    if factor < 1 and run_ctx.get_run_ctx().is_train_flag_enabled(func=func):
        return old + drop(new - old, factor) * (1 - factor)  # drop scales up by 1 / (1 - factor)
    return old + (new - old) * (1 - factor)


def check_zoneout_factors(what: str, cell: float, output: float) -> None:
    """ValueError if a factor is no probability."""
    for name, factor in (("cell", cell), ("output", output)):
        if not 0 <= factor <= 1:
            rule = "A probability is from 0 to 1."
            fix = f"rf.{what}(..., zoneout_factor_{name}=0.1)"
            raise value_error(
                f"{what}: no probability to keep a value.", [(f"zoneout_factor_{name}", str(factor))], rule, fix
            )
