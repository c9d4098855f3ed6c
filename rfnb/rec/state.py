"""State: a dict with attribute access, for values that a recurrence carries from step to step."""

from __future__ import annotations

from typing import Any

from rfnb.core.errors import attribute_error, nearest
from rfnb.core.tensor import Tensor
from rfnb.core.tree import values_in


class State(dict):
    """A dict whose items are attributes: `state.h` is `state["h"]`. States nest freely; None is allowed.

    Raises:
        AttributeError: For an unknown name; the message lists the names.
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        meant = nearest(name, self) if self else ""
        raise attribute_error(
            f'State has no "{name}".',
            {"has": ", ".join(map(str, self)) or "nothing"},
            "It has these names:" if meant else "It has what is assigned to it:",
            f"state.{meant}" if meant else f"state.{name} = value",
        )

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __repr__(self) -> str:
        inner = ", ".join(f"{key}={value!r}" for key, value in self.items())
        return f"{type(self).__name__}({inner})"

    def flatten_tensors(self) -> list[Tensor]:
        """All tensors inside, each once."""
        return self.cls_flatten_tensors(self)

    @classmethod
    def cls_flatten_tensors(cls, obj: Any) -> list[Tensor]:
        """All tensors inside any nested structure, each once."""
        found: list[Tensor] = []
        for leaf in values_in(obj):
            if isinstance(leaf, Tensor) and not any(leaf is other for other in found):
                found.append(leaf)
        return found
