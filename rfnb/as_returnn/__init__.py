"""`import rfnb.as_returnn`: run code written for `returnn.frontend` on rfnb without changes, where RETURNN is not installed.

    import rfnb.as_returnn
    import returnn.frontend as rf
    from returnn.tensor import Tensor, Dim, batch_dim
    from returnn.frontend.decoder.transformer import TransformerDecoder

These modules then are those of rfnb: `returnn.frontend is rfnb`. The small parts that configurations also import are
here too (`PARTS`): `returnn.config`, vocabularies, and some functions. Nothing else of RETURNN is available, and
importing it raises an error that says so. `docs/coming-from-returnn.md` lists the differences.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from rfnb.as_returnn import config, small_parts
from rfnb.core import vocabulary
from rfnb.core.errors import message
from rfnb.core.not_specified import NotSpecified
from rfnb.interop import numpy_to_torch
from rfnb.places.paths import all_paths, new_module

BRIDGE = "returnn.torch.frontend.bridge"
_GUIDE = "docs/coming-from-returnn.md tells what differs."
# Module -> the location and names of its parts.
PARTS: dict[str, tuple[ModuleType, str]] = {
    "config": (config, "Config get_global_config set_global_config global_config_ctx"),
    "datasets.util.vocabulary": (vocabulary, "Vocabulary"),
    "forward_iface": (small_parts, "ForwardCallbackIface"),
    "torch.data.tensor_utils": (numpy_to_torch, "tensor_dict_numpy_to_torch_ tensor_numpy_to_torch_"),
    "util.basic": (small_parts, "BehaviorVersion get_login_username"),
    "util.better_exchook": (small_parts, "install better_exchook"),
    "util.math": (small_parts, "ceil_div next_power_of_two PiecewiseLinear"),
}
# Other modules that programs import, by prefix: what to do instead.
_INSTEAD = {
    "returnn.datasets": "Data sets are not here: put arrays into a TensorDict, by assign_from_raw_tensor_dict_.",
    "returnn.torch": "The training engine is not here: a loop over steps is, with rf.init_train_step_run_ctx().",
    "returnn.tf": "Graphs of TensorFlow are not here; networks in dict notation are, by rf.net_from_dict.",
}


class _NotHere:
    """A module finder whose error for missing parts says what is available."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """None for modules outside of RETURNN. Raises for everything else, even if Python would find a file of rfnb."""
        if name.partition(".")[0] != "returnn":
            return None
        raise ModuleNotFoundError(
            message(
                f"{name} is not here.",
                {
                    "here": f"returnn.frontend, returnn.tensor, {BRIDGE}, "
                    + ", ".join(f"returnn.{part}" for part in PARTS)
                },
                f"{_instead(name)}\n{_GUIDE}",
            ),
            name=name,
        )


def _instead(name: str) -> str:
    found = [line for begin, line in _INSTEAD.items() if f"{name}.".startswith(f"{begin}.")]
    return found[0] if found else "rfnb stands in for the frontend of RETURNN, not for its engine or data pipelines."


def _refuse_if_installed() -> None:
    module = sys.modules.get("returnn")
    where = getattr(module, "__file__", None) if module is not None else None
    if module is None:
        spec = importlib.util.find_spec("returnn")
        if spec is None:
            return
        where = spec.origin
    raise ImportError(
        message(
            "rfnb.as_returnn: RETURNN is installed.",
            {"returnn": where or "a module that is imported already"},
            "One name cannot mean both, and which one code gets would depend on what is imported first. Say rfnb where you mean it:",
            "import rfnb as rf\nfrom rfnb.tensor import Tensor, Dim",
        )
    )


def _put_in_place() -> None:
    rfnb: Any = sys.modules["rfnb"]
    modules: dict[str, ModuleType] = {"returnn.frontend": rfnb, "returnn.tensor": rfnb.tensor}
    modules["returnn.tensor.utils"] = rfnb.tensor.utils
    for path in all_paths():
        above = "returnn" if path.split(".")[0] == "tensor" else "returnn.frontend"
        modules[f"{above}.{path}"] = sys.modules[f"rfnb.{path}"]
    for path in ("torch.frontend.bridge", *PARTS):
        parts = path.split(".")
        for count in range(len(parts) + 1):
            name = ".".join(("returnn", *parts[:count]))
            modules.setdefault(name, new_module(name))
    for path, (file, names) in PARTS.items():
        vars(modules[f"returnn.{path}"]).update({name: getattr(file, name) for name in names.split()})
    vars(modules["returnn.util.basic"])["NotSpecified"] = NotSpecified
    vars(modules[BRIDGE])["__getattr__"] = lambda name: getattr(import_module("rfnb.interop.torch_module"), name)
    for name, module in modules.items():
        above, _, child = name.rpartition(".")
        if above in modules and modules[above] is not rfnb:
            vars(modules[above]).setdefault(child, module)
    sys.modules.update(modules)
    sys.meta_path.insert(0, _NotHere)


def _is_in_place() -> bool:
    """Whether it was done already: a notebook may reload this module."""
    module = sys.modules.get("returnn")
    return module is not None and vars(module).get("frontend") is sys.modules["rfnb"]


if not _is_in_place():
    _refuse_if_installed()
    _put_in_place()
