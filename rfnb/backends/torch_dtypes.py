"""The dtypes of torch and their names."""

from __future__ import annotations

import difflib

import torch


class _ByName(dict[str, torch.dtype]):
    """dtypes of torch by name."""

    def __missing__(self, name: str) -> torch.dtype:
        known = "bool int8 int16 int32 int64 uint8 float16 bfloat16 float32 float64 complex64 complex128"
        text = str(getattr(name, "__name__", name)).removeprefix("torch.")
        near = {"int": "int64", "half": "float16", "double": "float64", "long": "int64"}.get(text)
        meant = near or (difflib.get_close_matches(text, known.split(), n=1, cutoff=0.4) or ["float32"])[0]
        rule = "A dtype is the name that NumPy and torch have for it:"
        raise TypeError(f'No dtype {name!r}.\n  known  {known}\n{rule}\n    dtype="{meant}"')


DTYPES = _ByName(
    {str(value).removeprefix("torch."): value for value in vars(torch).values() if isinstance(value, torch.dtype)}
)
NAMES = {dtype: str(dtype).removeprefix("torch.") for dtype in DTYPES.values()}
HALF = (torch.float16, torch.bfloat16)
