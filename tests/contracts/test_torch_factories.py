"""Every new tensor of torch says where it is: `torch.set_default_device` of a user moves nothing of rfnb's own."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
FACTORIES = set(
    "arange as_tensor empty empty_strided eye full hann_window hamming_window linspace logspace normal ones rand randint "
    "randn randperm scalar_tensor tensor tril_indices triu_indices zeros".split()
)


def without_device(code: str) -> list[int]:
    """The lines of calls that leave the device to a default."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        of_torch = isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
        if (
            of_torch
            and node.func.attr in FACTORIES
            and not {each.arg for each in node.keywords} & {"device", "out", None}
        ):
            found.append(node.lineno)
    return found


def test_every_factory_of_torch_is_told_a_device():
    found = {str(path.relative_to(ROOT)): without_device(path.read_text()) for path in (ROOT / "rfnb").rglob("*.py")}
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_a_factory_without_a_device_is_found():
    code = "torch.zeros(3)\ntorch.zeros(3, device=x.device)\ntorch.arange(2, dtype=d)\ntorch.rand(2, **like)\ntorch.zeros_like(x)"
    assert without_device(code) == [1, 3]
