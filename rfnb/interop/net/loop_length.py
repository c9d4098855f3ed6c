"""The length of a loop: the first documented rule that applies."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.errors import value_error
from rfnb.core.tensor import Tensor
from rfnb.interop.net.call_dims import axis_of, time_dim
from rfnb.interop.net.safe_eval import evaluate
from rfnb.interop.net.scope import Scope


def loop_axis(layer: Any, source: Tensor | None, env: Scope, has_end: bool) -> Dim | None:
    """The dim of a loop; None if an `end` in its body determines its length.

    In order: the explicit axis, if its lengths are known; the time of the input, if there is no `end`; the lengths of
    size_target; those of target, unless choices search; `end`; the axis of an unstack in the body that declares it.

    Raises:
        ValueError: If no rule applies, or an `end` has no max_seq_len.
    """
    opts, declared = layer.opts, layer.opts.get("axis")
    if isinstance(declared, Dim) and env.dims.is_known(declared):
        return env.dims(declared)
    if declared is not None and not isinstance(declared, Dim) and source is not None:
        return axis_of(source, declared, env.dims, layer.what)
    if source is not None and not has_end:
        time = time_dim(source, env.dims)
        if time is not None:
            return time
    keys = [opts.get("size_target"), None if env.call.search else opts.get("target")]
    for key in keys:
        key = key[0] if isinstance(key, (list, tuple)) else key
        if key:
            time = time_dim(env.get(key) if ":" in key else env.whole_data(key), env.dims)
            if time is not None and time is not env.axis_of_loop():
                return time
    if has_end:
        if opts.get("max_seq_len") is None and opts.get("max_seq_len_via") is None:
            raise value_error(
                f'{layer.what}: "end" requires max_seq_len.',
                {"end": "checked in each step", "max_seq_len": None},
                'max_seq_len limits a loop whose "end" never becomes true.',
                f'"{layer.name}": {{"class": "rec", "max_seq_len": 50, ...}}',
            )
        return None
    unstacked = _unstacked_axis(layer, env)
    if unstacked is not None:
        return unstacked
    raise value_error(
        f"{layer.what}: the number of steps is unknown.",
        {
            "axis": "not known" if declared is not None else "none",
            "input with time": "none",
            "target": opts.get("target"),
            "end in the body": "none",
        },
        "The axis, the input, the target, or an end in the body determines the length of a loop.",
        f'"{layer.name}": {{"class": "rec", "from": "data", ...}}',
    )


def _unstacked_axis(layer: Any, env: Scope) -> Dim | None:
    for inner in layer.body.by_name.values():
        if inner.kind == "rec_unstack" and inner.opts.get("declare_rec_time"):
            ref = inner.sources[0]
            whole = env.get(ref.removeprefix("base:")) if ref.startswith("base:") else env.data(ref.partition(":")[2])
            given = inner.opts.get("axis")
            return time_dim(whole, env.dims) if given is None else axis_of(whole, given, env.dims, inner.what)
    return None


def step_limit(layer: Any, env: Scope) -> int | Tensor:
    """`max_seq_len` in this call: a number, a scalar tensor, an expression with max_len_from(layer), or from max_seq_len_via.

    Raises:
        ValueError: If both options are given, or the expression is invalid.
    """
    given, via = layer.opts.get("max_seq_len"), layer.opts.get("max_seq_len_via")
    if given is not None and via is not None:
        raise value_error(
            f"{layer.what}: two limits are given.",
            {"max_seq_len": repr(given), "max_seq_len_via": repr(via)},
            "Give only one of them.",
        )
    if via is not None:
        return _number(layer, env.get(via.removeprefix("base:") if isinstance(via, str) else via))
    if not isinstance(given, str):
        return _number(layer, given)
    if given in env.layers or given.startswith(("base:", "layer:")):
        return _number(layer, env.get(given.removeprefix("base:")))

    def max_len_from(ref: str) -> int:
        time = time_dim(env.get(ref.removeprefix("base:")), env.dims)
        if time is None:
            raise value_error(
                f"{layer.what}: max_len_from needs a layer with a time dim.",
                {"max_seq_len": given},
                "max_len_from returns the length of the longest sequence.",
            )
        return time.extent

    plain = {"max": max, "min": min, "int": int, "abs": abs, "round": round}
    names = {"max_len_from": max_len_from, **{name: _of_numbers(fn, name) for name, fn in plain.items()}}
    value = evaluate(given, names=names, what=f"{layer.what}, max_seq_len", compare=_no_comparison)
    return _number(layer, value)


def _no_comparison(a: Any, kind: str, b: Any) -> Any:
    raise TypeError("a comparison is not a number")


def _of_numbers(fn: Any, name: str) -> Any:
    """A Python function for expressions: on numbers, without options."""

    def of_numbers(*values: Any) -> Any:
        for value in values:
            if not isinstance(value, (int, float)):
                raise TypeError(f"{name}() takes numbers, not {type(value).__name__}")
        if name in ("int", "abs", "round") and len(values) != 1:
            raise TypeError(f"{name}() takes one number")
        return fn(*values) if name not in ("max", "min") else fn(values)

    return of_numbers


def _number(layer: Any, value: Any) -> int | Tensor:
    if isinstance(value, Tensor) and not value.dims:
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return int(value)
    raise value_error(
        f"{layer.what}: max_seq_len is not a number.",
        {"max_seq_len": repr(value)},
        "max_seq_len is a number, a scalar tensor, or an expression of max_len_from(layer).",
        '"max_seq_len": "2 * max_len_from(\'base:encoder\')"',
    )
