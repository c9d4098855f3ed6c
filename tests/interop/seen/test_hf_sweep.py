"""Every model of transformers that can be built small: what is called attention and runs is offered as the model computes it, or named.

Some of the families are tried, others with RFNB_SEED=1 to 39, all with RFNB_ALL=1.
"""

from __future__ import annotations

import warnings
import zlib

import pytest
import torch
from seed import ALL, SEED
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

import rfnb as rf
from rfnb.viz.show import view_of

transformers = pytest.importorskip("transformers", reason="records its models")

from interop.seen.hf_sweep import FAMILIES, CannotBuildError, built, inputs_of  # noqa: E402

# Softmaxes over blocks and windows, maps that are never made, sums without softmax, and such as take what others are offered for.
ALWAYS = ["longt5", "yoso", "rwkv", "funnel", "vitdet", "hiera", "fsmt", "squeezebert", "mgp-str"]
PARTS = 40


def chosen() -> list[str]:
    if ALL:
        return FAMILIES
    return [name for name in FAMILIES if name in ALWAYS or zlib.crc32(name.encode()) % PARTS == SEED % PARTS]


class Softmaxes(TorchDispatchMode):
    """Collects the results of every softmax of a run, from any caller."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if "softmax" in str(function) and isinstance(out, torch.Tensor):
            self.made.append(out.detach().float().clone())
        return out


def is_made(weights, made):
    """Whether weights are the result of a softmax, maybe one with more columns: for a sink, for places of a cache that nothing is in."""
    for each in made:
        own = each[..., : weights.shape[-1]] if each.shape[:-1] == weights.shape[:-1] else each
        if own.numel() == weights.numel() and torch.allclose(own.reshape(-1), weights.reshape(-1), atol=1e-5):
            return True
    return False


@pytest.mark.parametrize("family", chosen())
def test_what_is_called_attention_is_offered_as_it_is_computed_or_named(family):
    try:
        model = built(family)
        batch = inputs_of(model, family)
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), Softmaxes() as softmaxes:
            torch.manual_seed(3)
            model(**batch)
    except CannotBuildError as error:
        pytest.skip(str(error)[:80])
    except Exception as error:  # it needs other inputs than its parameters tell
        pytest.skip(f"{type(error).__name__}: {str(error)[:80]}")
    modules, ran = dict(model.named_modules()), set()
    called = {path: type(each).__name__ for path, each in modules.items() if "attention" in type(each).__name__.lower()}
    handles = [modules[path].register_forward_hook(lambda *_, path=path: ran.add(path)) for path in called]
    with warnings.catch_warnings(record=True) as caught, torch.no_grad(), rf.record(model=model) as trace:
        warnings.simplefilter("always")
        torch.manual_seed(3)
        model(**batch)
    for handle in handles:
        handle.remove()

    offered = set(trace.by_path("attention"))
    said = [str(each.message) for each in caught if "could not be recorded" in str(each.message)]
    told = {path for path in ran if path in offered or any(called[path] in sentence for sentence in said)}
    unseen = [path for path in ran - told if not any(_related(path, other) for other in told | offered)]
    assert not unseen, {called[path] for path in unseen}
    shown = view_of(trace).text() if said else ""
    assert len(trace.select(kind="unseen")) == len(said) == len(set(said)) and shown.count("Not seen") == bool(said)

    # What was changed in place is said, and of what is long there are rows.
    events = [event for event in trace.select(kind="attention") if "weights" in event.values]
    events = [event for event in events if "changed them in place" not in event.values.get("remark", "")]
    # No softmax makes what a recurrence amounts to: test_matrix_states.py compares that with the output of the recurrence.
    events = [event for event in events if not event.path.endswith(".effective")]
    for event in events:
        weights = event.values["weights"]
        assert "weights of the model" not in event.values.get("remark", ""), (event.path, event.values["remark"])
        assert is_made(weights.raw_tensor.float(), softmaxes.made), (event.path, weights)
    _compare(model, batch, events)


def _related(path: str, other: str) -> bool:
    return path.startswith(other + ".") or other.startswith(path + ".")


def _compare(model, batch, events):
    """Axes are in the order in which the model itself returns them, where it returns as many maps."""
    try:
        with torch.no_grad():
            torch.manual_seed(3)
            out = model(**batch, output_attentions=True)
    except Exception:  # it does not know the word
        return
    fields = [value for name, value in out.items() if name.endswith("attentions") and isinstance(value, tuple)]
    own = [each for field in fields for each in field if isinstance(each, torch.Tensor) and each.ndim == 4]
    own = [each for each in own if not torch.equal(each[:, :1].expand_as(each), each)]  # the mean of the heads for each
    for event in events if len(own) == len(events) else []:
        raw = event.values["weights"].raw_tensor.float()
        same = [
            each for each in own if each.shape == raw.shape
        ]  # some cut off a prompt, or add what is before the softmax
        rows = [each for each in same if torch.allclose(each.float().sum(-1), raw.sum(-1), atol=1e-4)]
        assert not rows or any(
            each.shape == raw.shape and torch.allclose(each.float(), raw, atol=1e-5) for each in rows
        ), event.path
