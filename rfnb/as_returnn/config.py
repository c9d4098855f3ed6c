"""`returnn.config`: the settings of a program, by name.

config = get_global_config(auto_create=True)
config.update({"batch_size": 2000, "num_epochs": "10"})
config.typed_value("batch_size"), config.int("num_epochs", 1)       # 2000, 10
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rfnb.core.errors import runtime_error, value_error

_BOOLS = {**dict.fromkeys(("true", "yes", "1", "on"), True), **dict.fromkeys(("false", "no", "0", "off"), False)}


class Config:
    """The settings of a program: values as Python objects (`typed_value`), or converted to text, numbers or bools.

    Args:
        items: name -> value.
    """

    def __init__(self, items: Mapping[str, Any] | None = None):
        self.typed_dict: dict[str, Any] = dict(items or {})

    def load_file(self, f: Any) -> None:
        """Run a Python file, given by path or as an open file: its global names become the settings."""
        if isinstance(f, str):
            with open(f, encoding="utf-8") as opened:
                return self.load_file(opened)
        names: dict[str, Any] = {"config": self, "__file__": str(getattr(f, "name", "config"))}
        exec(compile(f.read(), names["__file__"], "exec"), names)
        self.update({name: value for name, value in names.items() if name != "config" and not name.startswith("__")})

    def update(self, dikt: Mapping[str, Any]) -> None:
        """Set several values."""
        self.typed_dict.update(dikt)

    def set(self, key: str, value: Any) -> None:
        """Set a value."""
        self.typed_dict[key] = value

    def has(self, key: str) -> builtins.bool:
        """Whether there is a value with this name."""
        return key in self.typed_dict

    def __contains__(self, key: str) -> builtins.bool:
        return self.has(key)

    def __getitem__(self, key: str) -> Any:
        return self.typed_dict[key]

    def typed_value(self, key: str, default: Any = None, index: builtins.int | None = None) -> Any:
        """The value as it was set, or its entry `index`; `default` if it is not set."""
        if key not in self.typed_dict:
            return default
        return self.typed_dict[key] if index is None else self.typed_dict[key][index]

    def value(self, key: str, default: Any, index: builtins.int | None = None, list_join_str: str = ",") -> Any:
        """The value as text, with the entries of a list joined; `default` if it is not set."""
        value = self.typed_value(key, default, index)
        if isinstance(value, (list, tuple)):
            return list_join_str.join(map(str, value))
        return value if value is default or value is None else str(value)

    def list(self, key: str, default: Any = None) -> Any:
        """The entries of a list, or of text with commas; a single value becomes a list. Default: None."""
        value = self.typed_dict.get(key, default)
        if value is None:
            return []
        if isinstance(value, str):
            return value.split(",") if value else []
        return [*value] if isinstance(value, (list, tuple)) else [value]

    def int(self, key: str, default: Any, index: builtins.int = 0) -> Any:
        """The value, or entry `index` of a list, as int. Raises ValueError if it is not an int."""
        return self._as(int, key, default, index)

    def float(self, key: str, default: Any, index: builtins.int = 0) -> Any:
        """The value, or entry `index` of a list, as float. Raises ValueError if it is not a float."""
        return self._as(float, key, default, index)

    def bool(self, key: str, default: Any, index: builtins.int = 0) -> Any:
        """The value, or entry `index` of a list, as bool: True, 1, "true", "no", ... Raises ValueError if it is not a bool."""
        return self._as(bool, key, default, index)

    def _as(self, kind: type, key: str, default: Any, index: builtins.int) -> Any:
        if self.typed_dict.get(key) is None:
            return default
        value = self.list(key)[index]
        convert: Callable[[Any], Any] = _bool if kind is bool else kind
        try:
            return convert(value)
        except (TypeError, ValueError):
            raise value_error(
                f'Config: "{key}" is no {kind.__name__}.',
                {"value": repr(value)},
                "Text is read as what it says. As it was set:",
                f'config.typed_value("{key}")',
            ) from None


def _bool(value: Any) -> bool:
    if isinstance(value, str):
        value = _BOOLS.get(value.lower())
    if value not in (True, False):
        raise ValueError
    return bool(value)


_global: dict[str, Config | None] = {"config": None}  # per process, shared by threads


def set_global_config(config: Config | None) -> None:
    """Set the global config; None unsets it."""
    _global["config"] = config


def get_global_config(
    *, raise_exception: bool = True, auto_create: bool = False, return_empty_if_none: bool = False
) -> Config | None:
    """The global config.

    Args:
        raise_exception: If false, return None if there is none.
        auto_create: Create one if there is none.
        return_empty_if_none: Return an empty one if there is none, without making it global.

    Raises:
        RuntimeError: If there is none.
    """
    config = _global["config"]
    if config is None and (auto_create or return_empty_if_none):
        config = Config()
        if auto_create:
            set_global_config(config)
    if config is None and raise_exception:
        raise runtime_error(
            "get_global_config: there is none.",
            [],
            "No engine has read one here. Make it, or have one made:",
            "from returnn.config import Config, set_global_config\nset_global_config(Config({...}))",
        )
    return config


@contextmanager
def global_config_ctx(config: Config) -> Iterator[None]:
    """Set another global config for a with-block."""
    before = _global["config"]
    set_global_config(config)
    try:
        yield
    finally:
        set_global_config(before)
