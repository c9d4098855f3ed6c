"""A raw array where a Tensor is needed: every public function says so, and none takes it for something else."""

import inspect
import types

import pytest
from asserting import public, randn

import rfnb as rf
from rfnb import Dim

batch, feat = Dim(3, name="batch"), Dim(5, name="feat")
x = randn(batch, feat)
raw = x.raw_tensor
BY_TYPE = [
    ("Tensor", x),
    ("Sequence[Dim]", [feat]),
    ("Dim", feat),
    ("bool", True),
    ("int", 1),
    ("float", 0.1),
    ("str", "sum"),
]
ids = rf.zeros([batch], dtype="int32", sparse_dim=feat)
OTHERS = {
    "indices_dim": batch,
    "indices": ids,
    "target": ids,
    "estimated_type": "logits",
    "axes": [feat],
    "names": [batch, feat],
}
# Take anything, or functions; or need more than their types say.
OTHER_CHECKS = set(
    """amp_cast_compute amp_cast_float32 assert_ cond identity init_forward_step_run_ctx make_complex walk_tensor_consumers
    while_loop""".split()
)


def takes_a_tensor():
    for name, fn in public().items():
        if isinstance(fn, types.FunctionType) and not name.startswith("_") and name not in OTHER_CHECKS:
            first = next(iter(inspect.signature(fn).parameters.values()), None)
            if first is not None and "Tensor" in str(first.annotation) and "Any" not in str(first.annotation):
                yield name


@pytest.mark.parametrize("name", list(takes_a_tensor()))
def test_a_raw_array_is_no_operand(name):
    fn, args, options = getattr(rf, name), [], {}
    for place, parameter in enumerate(inspect.signature(fn).parameters.values()):
        if place and parameter.default is not parameter.empty:
            continue
        kind = next((value for text, value in BY_TYPE if text in str(parameter.annotation)), x)
        value = raw if place == 0 else OTHERS.get(parameter.name, kind)
        if parameter.kind is parameter.KEYWORD_ONLY:
            options[parameter.name] = value
        elif parameter.kind is not parameter.VAR_KEYWORD:
            args.append((value, feat) if name == "concat" else value)
    with pytest.raises((TypeError, ValueError)) as caught:
        fn(*args, **options)
    first, *rest = str(caught.value).splitlines()
    assert (
        first.endswith(("this operand is not a Tensor.", "pairs.", "no Tensor.")) or "does not fit its dims" in first
    ), first
    assert any("torch.Tensor" in line or "got" in line or "(3, 5)" in line for line in rest)


def test_most_functions_are_asked():
    assert len(list(takes_a_tensor())) > 130
