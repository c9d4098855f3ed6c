"""Models of transformers that are recorded on a device: all is as on the CPU, and one mask is waited for."""

import copy
from collections import Counter

import pytest
import torch
from devices.torch_models import content, raws_of
from simulated import BACKEND, NAME, values, watched

import rfnb as rf

pytest.importorskip("transformers", reason="records models of an installed transformers")
from interop.seen.generating import make, prompts
from interop.seen.hf_families import inputs, made

FAMILIES = [
    ("GPT2", "eager"),
    ("Llama", "sdpa"),
    ("T5", "eager"),
    ("Bart", "sdpa"),
    ("Whisper", "eager"),
    ("Bert", "sdpa"),
]


def run(model, given, recorded):
    """Its first output, the recording, the events of the device."""
    torch.manual_seed(3)
    with watched() as seen, torch.no_grad():
        if not recorded:
            return model(**given)[0], None, seen
        with rf.record(model=model) as trace:
            return model(**given)[0], trace, seen


@pytest.mark.parametrize(("family", "implementation"), FAMILIES)
def test_a_model_is_seen_as_on_the_cpu_and_computes_as_if_nobody_looked(family, implementation):
    model, given = made(family, implementation), inputs(family)
    expected = content(run(model, given, True)[1])
    there, given = copy.deepcopy(model).to(NAME), {name: value.to(NAME) for name, value in given.items()}
    plain, _, alone = run(there, given, False)
    state = BACKEND.get_rng_state()
    recorded, trace, seen = run(there, given, True)
    assert torch.equal(values(plain), values(recorded)) and torch.equal(BACKEND.get_rng_state(), state)
    more = Counter(each.op for each in seen if each.waits) - Counter(each.op for each in alone if each.waits)
    assert more.total() == ("attention_mask" in given)
    raws = [raw for event in trace.events for value in event.values.values() for raw in raws_of(value)]
    assert {raw.device.type for raw in raws} == {torch.device(NAME).type}
    actual = content(trace)
    assert [place for place, _ in actual] == [place for place, _ in expected]
    for (place, one), (_, other) in zip(actual, expected):
        assert [(name, dims) for name, (dims, _) in one.items()] == [(name, dims) for name, (dims, _) in other.items()]
        for name in one:
            for raw, like in zip(one[name][1], other[name][1], strict=True):
                torch.testing.assert_close(raw, like, rtol=1e-3, atol=1e-4, equal_nan=True, msg=str((place, name)))


@pytest.mark.parametrize("options", [{"num_beams": 3}, {}, {"num_beams": 2, "num_return_sequences": 2}])
@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_generate_is_followed_as_on_the_cpu(kind, options):
    model, ids = make(kind), prompts()
    model.get_output_embeddings()._forward_hooks.clear()  # of the CPU
    options = {**options, "max_new_tokens": 4, "attention_mask": torch.ones_like(ids)}
    with rf.record(model=model) as trace:
        out = model.generate(ids, **options)
    expected = content(trace)
    there = model.to(NAME)
    options["attention_mask"] = options["attention_mask"].to(NAME)
    with rf.record(model=there) as trace:
        actual_out = there.generate(ids.to(NAME), **options)
    assert torch.equal(values(actual_out), out)
    actual = content(trace)
    assert [place for place, _ in actual] == [place for place, _ in expected]
    assert sum(kind == "beams" for (kind, _, _), _ in actual) == 4
    for (place, one), (_, other) in zip(actual, expected):
        for name in one:
            for raw, like in zip(one[name][1], other[name][1], strict=True):
                torch.testing.assert_close(raw, like, rtol=1e-3, atol=1e-4, equal_nan=True, msg=str((place, name)))
    assert rf.show(trace).text()
