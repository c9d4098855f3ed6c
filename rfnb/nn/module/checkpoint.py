"""Checkpoints: parameters by name in npz files, loaded into a model completely or not at all.

    rf.save_params(model, "model.npz", step=1000)
    rf.set_params(model, rf.load_params("model.npz"))
    rf.set_params(model, rf.load_torch_checkpoint("epoch.040.pt"))       # written by RETURNN with torch

Names are those of `named_parameters`. The reader for torch files is in `interop/`, since it needs torch.

A file names the layout of its arrays with three or more axes. Layout 2 is that of torch and of the documentation.
Layout 1, in files without this entry, stores the filter of a `TransposedConv` as [out, in, *size] (`_rfnb_layout_1` of
a module's class); torch files from elsewhere have no such entry either. If the sizes are distinct, such a filter is
transposed as needed; with in = out it is refused.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Never

import numpy as np

from rfnb.backends import registry
from rfnb.core.errors import ErrorOf
from rfnb.core.formats import PARAMETERS
from rfnb.core.tensor import Tensor
from rfnb.nn.module.module import Module
from rfnb.nn.module.npz import read_npz, write_npz
from rfnb.nn.module.parameter import Parameter

_SHOWN = 50  # problems per message; a model of another kind has thousands
_NUMBERS = "biufc"  # NumPy dtype kinds
_STEP, _EPOCH, _LAYOUT = "/step", "/epoch", "/layout"  # entries of the file; no parameter has such a name
LAYOUT = PARAMETERS.now  # the layout that is written


class CheckpointError(ValueError):
    """Raised for a file that is not a complete checkpoint, or for parameters that do not match the model."""


checkpoint_error = ErrorOf(CheckpointError)


class OpenLayout(np.ndarray):
    """An array of a file without a layout entry: its layout is 1 or 2; `np.asarray` of it assumes 2."""


class Params(dict[str, np.ndarray]):
    """Parameters by name, with the `step` and `epoch` of the training that wrote them, or None."""

    def __init__(self, values: Any = (), *, step: int | None = None, epoch: int | None = None):
        super().__init__(values)
        self.step, self.epoch = step, epoch


def save_params(
    values: Mapping[str, Any] | Module,
    filename: str | os.PathLike[str],
    *extra: Never,
    step: int | None = None,
    epoch: int | None = None,
    **unknown: Never,
) -> None:
    """Write an npz file with one array per parameter name, atomically.

    Args:
        values: Parameters, Tensors, raw arrays or NumPy arrays by name, or a model.
        filename: Used unchanged; no extension is added.

    Raises:
        CheckpointError: A name that is not a string, or a value that is not an array of numbers.
    """
    if isinstance(values, Module):
        values = dict(values.named_parameters())
    arrays = {name: _as_array(value) for name, value in values.items()}
    layout = LAYOUT if any(array.ndim > 2 for array in arrays.values()) else None
    if any(isinstance(value, OpenLayout) for value in values.values()):
        layout = None  # still unknown, as in the source
    about = ((_STEP, step), (_EPOCH, epoch), (_LAYOUT, layout))
    numbers = {name: np.asarray(number) for name, number in about if number is not None}
    try:
        _check_writable(arrays)
        write_npz(filename, arrays | numbers)
    except ValueError as error:
        raise checkpoint_error(
            "save_params: this cannot be written.",
            {"file": filename, "cause": error},
            "A file has arrays of numbers by name. A file that was there before is as it was.",
            "rf.save_params(dict(model.named_parameters()), filename)",
        ) from error


def _check_writable(arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        if array.dtype.kind not in _NUMBERS:
            raise ValueError(f"{name!r}: {array.dtype} is not an array of numbers")
        if name in (_STEP, _EPOCH, _LAYOUT):
            raise ValueError(f"{name!r} is the name of the {name[1:]}")


def load_params(filename: str | os.PathLike[str], *extra: Never, **unknown: Never) -> Params:
    """The arrays of an npz file by name; `step` and `epoch` of `save_params` as attributes.

    Raises:
        FileNotFoundError: If there is no such file.
        CheckpointError: If it is not an npz file, is damaged, or holds Python objects.
    """
    try:
        values = read_npz(filename)
        step, epoch, layout = (_number(values, name) for name in (_STEP, _EPOCH, _LAYOUT))
    except (ValueError, OSError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise CheckpointError(
            f"load_params: {filename} is damaged, or no npz file of arrays.\n  cause  {error}\n"
            "Files of torch are read by another function:\n"
            f'    rf.load_torch_checkpoint("{filename}")'
        ) from error
    problem = None if layout is None else PARAMETERS.problem(layout)
    if problem is not None:
        rows, *rest = problem
        raise checkpoint_error("load_params: another layout.", [("file", filename), *rows], *rest)
    return Params(values if layout == LAYOUT else with_open_layout(values), step=step, epoch=epoch)


def with_open_layout(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays of a file without a layout entry; arrays whose layout is ambiguous are marked."""
    return {name: array.view(OpenLayout) if array.ndim > 2 else array for name, array in values.items()}


def _number(values: dict[str, np.ndarray], name: str) -> int | None:
    number = values.pop(name, None)
    if number is not None and (number.ndim or number.dtype.kind not in "iu"):
        raise ValueError(f"{name!r} is not an integer, but {number.dtype} {number.shape}")
    return None if number is None else int(number)


def check_params_complete(
    model: Module,
    params: Mapping[str, Any],
    *extra: Never,
    allow_missing: bool = False,
    source: str = "params",
    **unknown: Never,
) -> Sequence[str]:
    """Compare the names and shapes of parameters with those of a model.

    A parameter that the model holds in several places may be stored under any of its names, or under several with the same values.

    Args:
        params: Arrays by name.
        allow_missing: Missing parameters are not an error. Those marked `non_critical_for_restore` may always be missing.
        source: The name of `params` in messages, e.g. the file.

    Returns:
        The names of the parameters that are missing, where this is allowed.

    Raises:
        CheckpointError: Lists all parameters that are missing, unknown, of another shape, or floats for integers.
    """
    return _complete(model, params, allow_missing, source)[0]


def set_params(
    model: Module,
    params: Mapping[str, Any],
    *extra: Never,
    allow_missing: bool = False,
    source: str = "params",
    **unknown: Never,
) -> Sequence[str]:
    """Set the parameters of a model: all of them or, after an error, none. Arguments, result and errors are those of
    `check_params_complete`.

    The values are copied and cast to the dtype of each parameter; the Parameter objects stay the same.
    """
    missing, found = _complete(model, params, allow_missing, source)
    for parameter in model.parameters():
        if id(parameter) in found:
            array = _as_array(params[found[id(parameter)]])
            same = array.shape == tuple(dim.extent for dim in parameter.dims)
            parameter.assign(array if same else array.swapaxes(0, 1))  # transpose from layout 1
    return missing


def _complete(
    model: Module, params: Mapping[str, Any], allow_missing: bool, source: str
) -> tuple[list[str], dict[int, str]]:
    """The names that are missing, and a map from the id of each parameter found to its name in `params`."""
    found, problems = find_problems(model, params)
    missing = [(name, parameter) for name, parameter in model.named_parameters() if id(parameter) not in found]
    critical = [] if allow_missing else [name for name, parameter in missing if not parameter.non_critical_for_restore]
    problems = [f"missing    {name}" for name in critical] + problems
    raise_problems(source, problems, layout_hint(problems) or _hint(model, params, problems))
    return [name for name, _ in missing], found


def find_problems(model: Module, params: Mapping[str, Any]) -> tuple[dict[int, str], list[str]]:
    """(id of each parameter found -> its name in `params`, the problems with the other entries)."""
    found: dict[int, str] = {}
    problems = []
    turned = turned_in_layout_1(model)
    for name, value in params.items():
        parameter = _parameter_at(model, name)
        if parameter is None:
            problems.append(f"not known  {name}")
            continue
        array, shape = _as_array(value), tuple(dim.extent for dim in parameter.dims)
        open_layout = isinstance(value, OpenLayout) and id(parameter) in turned
        if open_layout and array.shape == shape and shape[0] == shape[1]:
            problems.append(f"layout     {name}: {shape}, {turned[id(parameter)]} or documented")
        elif array.shape != shape and not (open_layout and array.swapaxes(0, 1).shape == shape):
            problems.append(f"shape      {name}: {array.shape}, needed {shape}")
        elif not _can_hold(parameter.dtype, array.dtype.kind):
            problems.append(f"dtype      {name}: {array.dtype}, needed {parameter.dtype}")
        elif id(parameter) in found and not np.array_equal(array, _as_array(params[found[id(parameter)]])):
            problems.append(f"differs    {name}: the same parameter as {found[id(parameter)]}")
        found.setdefault(id(parameter), name)
    return found, problems


def turned_in_layout_1(model: Module) -> dict[int, str]:
    """id of each parameter whose first two axes are swapped in layout 1 -> its axes there."""
    held = ((vars(part).get(name), axes) for part in model.modules() for name, axes in part._rfnb_layout_1.items())
    return {id(parameter): axes for parameter, axes in held if isinstance(parameter, Parameter)}


def _can_hold(dtype: str, kind: str) -> bool:
    """Whether values of a NumPy kind can be cast to the dtype of a parameter without losing their meaning."""
    if kind == "c":
        return dtype.startswith("complex")
    if kind == "f":
        return dtype.startswith(("float", "bfloat", "complex"))
    return kind in _NUMBERS


def raise_problems(source: str, problems: Sequence[str], hint: tuple[str, str] | None = None) -> None:
    """Raise a CheckpointError that lists the problems, if there are any, with a rule and the lines to type."""
    if not problems:
        return
    more = [f"... and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
    what, shown = f"The parameters in {source} are not those of the model:", [*problems[:_SHOWN], *more]
    rule, fix = hint or (None, None)
    error = CheckpointError("\n  ".join([what, *shown]) + (f"\n{rule}" if rule else "") + indented(fix))
    error.__dict__["parts"] = (
        what,
        [(each.partition("  ")[0], each.partition("  ")[2].strip()) for each in shown],
        rule or "",
        fix,
    )
    raise error


def indented(fix: str | None) -> str:
    """The lines to type, indented as at the end of a message."""
    return "".join(f"\n    {line}" for line in (fix or "").splitlines())


def _parameter_at(model: Module, name: str) -> Parameter | None:
    """The parameter with any of its dotted names; for a parametrized one the underlying parameter, not the computed value."""
    value: Any = model
    for part in name.split("."):
        value = vars(value).get(part) if isinstance(value, Module) else None
    return value if isinstance(value, Parameter) else None


def _hint(model: Module, params: Mapping[str, Any], problems: Sequence[str]) -> tuple[str, str]:
    """The rule and the line to type: for an extra prefix, for similar names, and for missing or extra names."""
    names = [name for name, _ in model.named_parameters()]
    for prefix in sorted({name[: -len(names[0])] for name in params if names and name.endswith(f".{names[0]}")}):
        if all(f"{prefix}{name}" in params for name in names):
            line = f'params = {{name.removeprefix("{prefix}"): value for name, value in params.items()}}'
            return f'All its names have the prefix "{prefix}". Take it off:', line
    missing = [each.split()[1] for each in problems if each.startswith("missing ")]
    unknown = [each.split()[-1] for each in problems if each.startswith("not known ")]
    near = [(name, *difflib.get_close_matches(name, missing, n=1, cutoff=0.7)) for name in unknown]
    renamed = [f'params["{pair[1]}"] = params.pop("{pair[0]}")' for pair in near if len(pair) == 2]
    if renamed:
        return "Parameters come under the names that the model has for them:", "\n".join(renamed)
    if missing and len(missing) == len(problems):
        return "Each parameter has a value. To leave the missing ones unchanged:", (
            "rf.set_params(model, params, allow_missing=True)"
        )
    if unknown and len(unknown) == len(problems):
        return "There is nothing but parameters of the model. Without the rest:", (
            "params = {name: params[name] for name, _ in model.named_parameters()}"
        )
    twice = [each.split()[1].rstrip(":") for each in problems if each.startswith("differs ")]
    if twice:
        return "A parameter that is in several places has one value. Leave all but one of its names out:", (
            f'del params["{twice[0]}"]'
        )
    return "A parameter has the shape and the kind of numbers that its model was built with. Those of the model:", (
        "{name: (parameter.dims, parameter.dtype) for name, parameter in model.named_parameters()}"
    )


def layout_hint(problems: Sequence[str], *, torch: bool = False) -> tuple[str, str] | None:
    """The rule and the lines to type for the first parameter whose layout is ambiguous; `torch` is set for entries of a state_dict."""
    name = next((problem.split()[1].rstrip(":") for problem in problems if problem.startswith("layout ")), None)
    if name is None:
        return None
    entry = f'state["{name}"]' if torch else f'params["{name}"]'
    own = entry if torch else f"np.asarray({entry})"
    lines = [f"{entry} = {own}.swapaxes(0, 1)    # only if an earlier version of rfnb has written it"]
    lines += ["module.load_state_dict(dict(state))"] if torch else [f"{entry} = {own}    # if somebody else has"]
    rule = "Earlier versions of rfnb wrote it with its first two axes swapped, and the file does not say whether it is theirs. Say it:"
    return rule, "\n".join(lines)


def _as_array(value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        return value.numpy()
    if isinstance(value, (np.ndarray, np.generic, int, float, list, tuple)):
        return np.asarray(value)
    return registry.get_backend_by_raw_tensor_type(type(value)).raw_to_numpy(value)
